"""Fitting a remedy on one run, and checking that it may be applied to another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from pact_eval._choices import Allowance
from pact_eval._files import read_json, write_atomically
from pact_eval._json import Json, describe, dumps_indented
from pact_eval._toml import did_you_mean
from pact_eval._typing import FloatArray
from pact_eval.calibration.runs import Members, check_disjoint, check_owner, identity_json
from pact_eval.calibration.temperatures import CalibrationNote, Calibrator
from pact_eval.data.records import Record
from pact_eval.errors import GateError, InputError, counted
from pact_eval.remedies.decodings import (
    CrossFitted,
    Remedy,
    calibrator_of,
    fit_temperature,
    remedied,
    remedies_for,
    remedy_of_name,
    temperature_of,
    untouched,
)
from pact_eval.remedies.priors import ContentFree, LetterPrior, fit_letter_prior
from pact_eval.results import Result
from pact_eval.runs.custody import TrainedOnRun, refuse_trained_on, trained_on_json
from pact_eval.runs.folder import Run, RunSource, read_run
from pact_eval.runs.identity import RunIdentity
from pact_eval.runs.places import refuse_remote
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Provenance
from pact_eval.schema import Section, convert_hashed, with_sha256

FORMAT: Final = "pact-remedy-1"
"""What the format calls itself."""

_ADVICE: Final = "restore it from a copy, or fit it again with `pact-eval sweep RUN --fit NAME`"

REMEDY_NAME = "remedy.json"
"""Name of a fitted remedy in the folder of the run that it was fitted on. Not sealed."""


@dataclass(frozen=True, repr=False)
class FittedRemedy(Result):
    """A remedy with what was fitted for it.

    Attributes:
        remedy: the decoding.
        prior: the letter prior that it removes; None if it removes none.
        calibrator: its scalar temperature; None if none can be fitted.
        fit: where it was fitted: run, data, families, source families, items.
        folder: the run of the fit; None if the remedy was read from a file.
        warnings: what was accepted of the run of the fit.
    """

    remedy: Remedy
    prior: LetterPrior | None
    calibrator: Calibrator | None
    fit: Mapping[str, Json]
    folder: Path | None = None
    warnings: tuple[TrainedOnRun, ...] = ()

    @property
    def identity(self) -> RunIdentity:
        """Model and prompts of the run of the fit."""
        return RunIdentity.of_json(self.fit.get("run"))

    @property
    def members(self) -> Members:
        """Families and source families of the fit."""
        return Members.of_fit_json(self.fit)

    def applied_to(
        self, predictions: Predictions, content_free: FloatArray | None = None
    ) -> CrossFitted:
        """Decode a run of other families.

        Args:
            predictions: its views; at least as many per item as the remedy takes.
            content_free: (n, V, C) its content-free probabilities, for contextual remedies.

        Raises:
            InputError: see `remedied`.
        """
        decoded = remedied(predictions, self.remedy, self.prior, content_free)
        prior, calibrator = self.prior, self.calibrator
        fitted = None if calibrator is None else calibrator.apply(decoded.logits, decoded)
        return CrossFitted(
            predictions=decoded,
            tempered=None if fitted is None else replace(decoded, logits=fitted),
            without_prior=untouched(predictions, self.remedy, prior, content_free),
            fitted_on=0 if prior is None else sum(prior.items.values()),
        )

    def write(self, out: Path | None = None, *, overwrite: bool = False) -> Path:
        """Write the file of the remedy, atomically.

        Args:
            out: the file; None takes `remedy.json` in the folder of the run of the fit.
            overwrite: replace a file that does not hold the same remedy of the same run.

        Returns:
            The file.

        Raises:
            InputError: the file holds something else, is in an object store, or cannot be written.
        """
        path = out or (self.folder or Path()) / REMEDY_NAME
        refuse_remote(path)
        if path.is_file() and not overwrite and not _is_same_fit(path, self):
            raise InputError(
                f"{path}: holds another file or fit; nothing was written. Move it to another place"
            )
        write_atomically(path, dumps_indented(remedy_json(self)) + "\n")
        return path


class WrittenRemedy(Section, frozen=True, omit_defaults=False, forbid_unknown_fields=True):
    """The file of a fitted remedy.

    Attributes:
        format: `FORMAT`.
        decoding: name of the remedy.
        letter_prior: None if it removes none.
        temperature: above 0; None if none can be fitted.
        fit: where it was fitted.
        sha256: SHA-256 of the other members.

    Raises:
        ValueError: the remedy has no such name or another letter prior, or a value is not possible.
    """

    format: str
    decoding: str = msgspec.field(name="remedy")
    letter_prior: LetterPrior | None
    temperature: float | None
    fit: dict[str, Any]
    sha256: str

    def __post_init__(self) -> None:
        try:
            remedy = remedy_of_name(self.decoding)
        except InputError as error:
            raise ValueError(f"remedy: {error}") from None
        if (self.letter_prior and self.letter_prior.method) != remedy.prior:
            raise ValueError(f"letter_prior: expected that of {remedy.name}")
        if self.letter_prior is not None and not self.letter_prior.log_prior:
            raise ValueError("letter_prior: expected log_prior of one number of answers or more")
        if self.temperature is not None and self.temperature <= 0:
            raise ValueError("temperature: expected a number above 0, or null")


def remedy_json(fitted: FittedRemedy) -> dict[str, Json]:
    """Return the content of the file of a fitted remedy."""
    prior, calibrator = fitted.prior, fitted.calibrator
    content: dict[str, Json] = {
        "format": FORMAT,
        "remedy": fitted.remedy.name,
        "letter_prior": None if prior is None else prior.to_json(),
        "temperature": None if calibrator is None else temperature_of(calibrator),
        "fit": dict(fitted.fit),
    }
    return with_sha256(content)


def read_remedy(path: Path) -> FittedRemedy:
    """Read the file of a fitted remedy, strictly.

    Raises:
        InputError: it cannot be read, or is not such a file.
        TamperedError: it has changed since it was written.
    """
    value = read_json(path)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        what = describe(value) if not isinstance(value, dict) else "another format"
        raise InputError(f'{path}: expected a remedy of format "{FORMAT}", got {what}')
    written = convert_hashed(value, WrittenRemedy, where=str(path), advice=_ADVICE)
    temperature = written.temperature
    return FittedRemedy(
        remedy_of_name(written.decoding),
        written.letter_prior,
        None if temperature is None else calibrator_of(temperature),
        written.fit,
    )


def _is_same_fit(path: Path, fitted: FittedRemedy) -> bool:
    try:
        existing = read_remedy(path)
    except InputError:
        return False
    return (existing.remedy, dict(existing.fit)) == (fitted.remedy, dict(fitted.fit))


def fit_remedy(source: RunSource, name: str, *, allow: Collection[Allowance] = ()) -> FittedRemedy:
    """Fit a remedy of order effects on a run, as `pact-eval sweep --fit` does.

    Args:
        source: the run to fit on.
        name: name of the remedy, such as "k1_additive"; an error lists those that the run can fit.
        allow: "trained-on" accepts a run on items that the adapter was trained on.

    Returns:
        Its letter prior and temperature. `write()` stores them, by default as `remedy.json` in the
        run folder; `compare_remedies(other, fitted=[file])` applies them to other families.

    Raises:
        InputError: the run cannot fit this remedy.
        GateError: the adapter was trained or selected on items of the run.

    Examples:
        >>> import pact_eval
        >>> fitted = pact_eval.fit_remedy("runs/method", "k1_additive")
        >>> sorted(fitted.prior.log_prior)  # numbers of answers
        [2, 3, 4, 5]
    """
    run = read_run(source)
    trained = refuse_trained_on([run], allow)
    own = ContentFree.of_run(run, run.predictions)
    content_free = None if own is None else own.probabilities
    remedy = _remedy_named(name, run.predictions, content_free)
    prior = None if remedy.prior is None else fit_letter_prior(run.predictions, remedy.prior)
    if prior is not None and not prior.log_prior:
        raise InputError(
            f"{name}: the views of {run.place} identify no letter prior: more orders per item are "
            "needed; score the run with a larger --k"
        )
    decoded = remedied(run.predictions, remedy, prior, content_free)
    calibrator = fit_temperature(decoded)
    return FittedRemedy(remedy, prior, calibrator, _provenance(run), run.folder, trained)


def check_fitted(
    fitted: FittedRemedy,
    applied: Provenance,
    predictions: Predictions,
    *,
    allow: Collection[Allowance] = (),
    where: str,
) -> tuple[CalibrationNote, ...]:
    """Check that a fitted remedy may be applied to a run.

    Args:
        fitted: the remedy.
        applied: provenance of the run.
        predictions: views of the run.
        allow: differences from the run of the fit that are accepted.
        where: the file of the remedy, for messages.

    Returns:
        Notes: source families that meet, families or models that are not known.

    Raises:
        GateError: it was fitted on families of this run.
        InputError: it belongs to another adapter, base or contract.
    """
    members = Members.of_run(predictions)
    why = (
        ": its scores there would flatter it; fit it on separate families, as `pact-audit split` "
        "makes them"
    )
    _refuse_families(where, fitted, members.families, "this run", why)
    owner = check_owner(fitted.identity, applied, allow=allow, where=where, what="remedy")
    return (*owner, *check_disjoint(fitted.members, members))


def _remedy_named(name: str, predictions: Predictions, content_free: FloatArray | None) -> Remedy:
    fittable = remedies_for(
        predictions.k, same_orders=predictions.repeats, content_free=content_free is not None
    )
    for remedy in fittable:
        if remedy.name == name:
            return remedy
    hint = did_you_mean(name, [remedy.name for remedy in fittable])
    raise InputError(f"--fit: a run with K = {predictions.k} cannot fit {name!r}{hint}")


def _provenance(run: Run) -> dict[str, Json]:
    predictions, members = run.predictions, Members.of_run(run.predictions)
    return {
        "run": identity_json(run),
        "k": predictions.k,
        "items": len(predictions),
        "families": [*sorted(members.families)],
        "source_families": [*sorted(members.source_families)],
        **trained_on_json(run),
    }


PRIOR_FORMAT: Final = "pact-letter-prior-1"
"""What the format calls itself."""


def exported_prior(path: Path, adapter_sha256: str, records: Sequence[Record]) -> dict[str, Json]:
    """Return the content of `letter_prior.json`.

    Args:
        path: the file of a fitted remedy, from `pact-eval sweep RUN --fit NAME`.
        adapter_sha256: SHA-256 of the weights of the adapter that is exported.
        records: those on which the export is going to be used, as far as they are known.

    Raises:
        GateError: the prior was fitted on families of these records.
        InputError: the file cannot be read, removes no letter prior, or belongs to another adapter.
        TamperedError: it has changed since it was written.
    """
    fitted = read_remedy(path)
    if fitted.prior is None:
        raise InputError(
            f"{path}: {fitted.remedy.name} removes no letter prior; fit one with `pact-eval "
            "sweep RUN --fit k1_additive`"
        )
    owner = fitted.identity.adapter_sha256
    if owner is not None and owner != adapter_sha256:
        message = f"{path}: fitted on another adapter ({owner[:12]}), not {adapter_sha256[:12]}"
        raise InputError(message)
    why = "; a letter prior is applied to other families: fit it on a run of the calibration split"
    families = frozenset(record.family for record in records)
    _refuse_families(str(path), fitted, families, "--data", why)
    return {"format": PRIOR_FORMAT, **fitted.prior.to_json(), "fit": dict(fitted.fit)}


def _refuse_families(
    where: str, fitted: FittedRemedy, families: frozenset[str], whose: str, why: str
) -> None:
    """Refuse a remedy that was fitted on some of these families."""
    shared = fitted.members.families & families
    if shared:
        on = f"{counted(len(shared), 'family')} of {whose} (such as {min(shared)})"
        raise GateError(f"{where}: fitted on {on}{why}")
