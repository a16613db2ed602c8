"""A fitted remedy and its file `remedy.json`: a letter prior and a temperature of one run.

    {"format": "pact-remedy-1",
     "remedy": name, such as "k1_additive",
     "letter_prior": see `prior_json.py`, or null,
     "temperature": T or null,
     "fit": {"run": identity of model and prompts, "k", "items", "families", "source_families"},
     "sha256": SHA-256 of the other members}

The hash shows changes; it is no signature.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pact_eval._files import read_json, write_atomically
from pact_eval._json import Json, describe, dumps_indented, finite_number, sha256_of_json
from pact_eval._typing import FloatArray
from pact_eval.calibration.runs import Members
from pact_eval.calibration.temperatures import Calibrator
from pact_eval.errors import InputError, TamperedError
from pact_eval.remedies.cross_fitting import CrossFitted, untouched
from pact_eval.remedies.decodings import Remedy, remedied, remedy_of_name
from pact_eval.remedies.letter_priors import LetterPrior
from pact_eval.remedies.prior_json import prior_from_json, prior_to_json
from pact_eval.remedies.temperatures import calibrator_of, temperature_of, tempered
from pact_eval.results import Result
from pact_eval.runs.custody import TrainedOnRun
from pact_eval.runs.identity import RunIdentity
from pact_eval.runs.places import refuse_remote
from pact_eval.runs.predictions import Predictions

FORMAT: Final = "pact-remedy-1"
"""What the format calls itself."""

_MEMBERS: Final = ("format", "remedy", "letter_prior", "temperature", "fit", "sha256")
_ADVICE: Final = "restore it from a copy, or fit it again with `pact-eval calibrate --remedy`"

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
        fitted = None if calibrator is None else tempered(decoded, calibrator)
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
            message = (
                f"{path}: holds another file or fit; nothing was written. Use --overwrite to "
                "replace it, or give another --out"
            )
            raise InputError(message)
        write_atomically(path, dumps_indented(remedy_json(self)) + "\n")
        return path


def remedy_json(fitted: FittedRemedy) -> dict[str, Json]:
    """Return the content of the file of a fitted remedy."""
    prior, calibrator = fitted.prior, fitted.calibrator
    content: dict[str, Json] = {
        "format": FORMAT,
        "remedy": fitted.remedy.name,
        "letter_prior": None if prior is None else prior_to_json(prior),
        "temperature": None if calibrator is None else temperature_of(calibrator),
        "fit": dict(fitted.fit),
    }
    return content | {"sha256": sha256_of_json(content)}


def read_remedy(path: Path) -> FittedRemedy:
    """Read the file of a fitted remedy, strictly.

    Raises:
        InputError: it cannot be read, or is not such a file.
        TamperedError: it has changed since it was written.
    """
    value = read_json(path)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        what = describe(value) if not isinstance(value, dict) else "another format"
        message = f'{path}: expected a remedy of format "{FORMAT}", got {what}'
        raise InputError(message)
    if set(value) != set(_MEMBERS):
        message = f"{path}: expected the members {', '.join(_MEMBERS)}, got {', '.join(value)}"
        raise InputError(message)
    if value["sha256"] != sha256_of_json({key: value[key] for key in value if key != "sha256"}):
        message = f"{path}: changed since it was written (its SHA-256 is another one); {_ADVICE}"
        raise TamperedError(message)
    remedy = _remedy(value["remedy"], f"{path}: remedy")
    prior = None
    if value["letter_prior"] is not None:
        prior = prior_from_json(value["letter_prior"], f"{path}: letter_prior")
    if (prior and prior.method) != remedy.prior:
        raise InputError(f"{path}: letter_prior: expected that of {remedy.name}")
    temperature = finite_number(value["temperature"])
    if value["temperature"] is not None and (temperature is None or temperature <= 0):
        raise InputError(f"{path}: temperature: expected a number above 0, or null")
    fit = value["fit"]
    if not isinstance(fit, dict):
        raise InputError(f"{path}: fit: expected an object, got {describe(fit)}")
    return FittedRemedy(
        remedy, prior, None if temperature is None else calibrator_of(temperature), fit
    )


def _remedy(name: Json, where: str) -> Remedy:
    if isinstance(name, str):
        with suppress(InputError):
            return remedy_of_name(name)
    raise InputError(f"{where}: expected the name of a remedy, got {describe(name)} {name!r}")


def _is_same_fit(path: Path, fitted: FittedRemedy) -> bool:
    try:
        existing = read_remedy(path)
    except InputError:
        return False
    return (existing.remedy, dict(existing.fit)) == (fitted.remedy, dict(fitted.fit))
