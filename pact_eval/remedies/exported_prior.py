"""The letter prior of a fitted remedy as the file that an exported model is shipped with.

    {"format": "pact-letter-prior-1", "method", "log_prior", "items", "views",
     "fit": where it was fitted: identity of the run, families, source families, items}

transformers drops keys of `decision.json` that it does not know, so the prior is a file of its own.
A server does not read it: who gets the probabilities removes it (`docs/templates.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pact_eval._json import Json
from pact_eval.data.records import Record
from pact_eval.errors import GateError, InputError, counted
from pact_eval.remedies.fitted import FittedRemedy, read_remedy
from pact_eval.remedies.prior_json import prior_to_json

FORMAT: Final = "pact-letter-prior-1"
"""What the format calls itself."""


def exported_prior(path: Path, adapter_sha256: str, records: Sequence[Record]) -> dict[str, Json]:
    """Return the content of `letter_prior.json`.

    Args:
        path: the file of a fitted remedy, from `pact-eval calibrate --remedy`.
        adapter_sha256: SHA-256 of the weights of the adapter that is exported.
        records: those on which the export is going to be used, as far as they are known.

    Raises:
        GateError: the prior was fitted on families of these records.
        InputError: the file cannot be read, removes no letter prior, or belongs to another adapter.
        TamperedError: it has changed since it was written.
    """
    fitted = read_remedy(path)
    if fitted.prior is None:
        message = (
            f"{path}: {fitted.remedy.name} removes no letter prior; fit one with `pact-eval "
            "calibrate RUN --remedy k1_additive`"
        )
        raise InputError(message)
    owner = fitted.identity.adapter_sha256
    if owner is not None and owner != adapter_sha256:
        message = f"{path}: fitted on another adapter ({owner[:12]}), not {adapter_sha256[:12]}"
        raise InputError(message)
    _refuse_own_families(path, fitted, records)
    return {"format": FORMAT, **prior_to_json(fitted.prior), "fit": dict(fitted.fit)}


def _refuse_own_families(path: Path, fitted: FittedRemedy, records: Sequence[Record]) -> None:
    shared = fitted.members.families & {record.family for record in records}
    if shared:
        message = (
            f"{path}: fitted on {counted(len(shared), 'family')} of --data (such as "
            f"{min(shared)}); a letter prior is applied to other families: fit it on a run of the "
            "calibration split"
        )
        raise GateError(message)
