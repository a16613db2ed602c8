"""Temperatures that transformers can apply: one for each type of question, in `decision.json`.

`pipeline("decision")` divides the scores of a question by the temperature of its type. Contextual
and per-question calibrators have temperatures that such a file cannot hold. Temperatures by kind
are then fitted on the same items; a fit with `--mode per-kind` shows what these do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval._files import read_json, write_atomically
from pact_eval._json import Json, describe, dumps_indented
from pact_eval.calibration.fitting import fit_calibrator
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.temperatures import Calibrator
from pact_eval.errors import InputError
from pact_eval.templates.files import DECISION_CONFIG, read_decision_files

# Keys of decision files alone: a run.json has an "adapter" too.
_OWN: Final = ("labels", "temperature", "chat_template", "noul_options", "sanitize_control_tokens")


@dataclass(frozen=True)
class PortableCalibration:
    """One temperature for each type of question.

    Attributes:
        temperatures: by type as transformers names them: choice, noul, score.
        lost: what the fitted temperature depends on and these cannot; empty if nothing is lost.
    """

    temperatures: Mapping[str, float]
    lost: tuple[str, ...]

    def sentences(self, *, served: bool) -> Iterator[str]:
        """Yield the temperatures, what they lose, and those that they come on top of.

        Args:
            served: whether they were fitted on probabilities that a server sent.
        """
        named = ", ".join(f"{name} {number:.4g}" for name, number in self.temperatures.items())
        yield f"decision.json: T = {named}."
        if self.lost:
            yield (
                f"Not portable: T depends on {' and '.join(self.lost)}, and decision.json has one "
                "number per type. These are fitted on the same items; --mode per-kind shows what "
                "they do."
            )
        else:
            yield "Nothing is lost: the fitted calibrator has one temperature per type."
        if served:
            yield (
                "These probabilities came from a server: if it divides by a temperature already, "
                "multiply the two. `pact-eval compare LOCAL RUN` says whether it does."
            )


def portable_calibration(items: CalibrationItems, calibrator: Calibrator) -> PortableCalibration:
    """Return the temperatures by kind that stand for a calibrator.

    Args:
        items: what the calibrator was fitted on.
        calibrator: scalar and per-kind ones have such temperatures; for others, they are fitted on
            the items.

    Raises:
        InputError: the calibrator was fitted on an ensemble of views, which is not one question.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.calibration.temperatures import Weights
        >>> names = np.array(["f1", "f2"])
        >>> items = CalibrationItems(
        ...     np.log([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0]), np.array(["boolean"] * 2),
        ...     np.array([2, 2]), np.array([300.0, 400.0]), names, names)
        >>> hot = Calibrator("scalar", Weights(bias=(1.8545865, 0.0, 0.0)))
        >>> portable = portable_calibration(items, hot)
        >>> {name: round(number, 3) for name, number in portable.temperatures.items()}
        {'choice': 2.0, 'noul': 2.0, 'score': 2.0}
    """
    if items.decoding == "ensemble":
        raise InputError(
            "decision.json holds temperatures of one view, and this calibrator was fitted on an "
            "ensemble of views: fit one with --decoding single"
        )
    lost = calibrator.depends_on
    by_kind = fit_calibrator(items, mode="per-kind").calibrator if lost else calibrator
    return PortableCalibration(by_kind.by_type(), lost)


def check_decision_file(path: Path, *, overwrite: bool) -> Path:
    """Return the `decision.json` to write, before anything is written.

    Args:
        path: the file, or the folder of a decision model.
        overwrite: replace temperatures that the file has.

    Raises:
        InputError: its folder does not exist, or the file is something else or has temperatures.
        AdapterError: it is a decision model that cannot be read.
    """
    path = path / DECISION_CONFIG if path.is_dir() else path
    if not path.exists():
        if not path.parent.is_dir():
            raise InputError(f"{path}: no such folder: {path.parent}")
        return path
    config = _config(path)
    read_decision_files(path)  # raises
    if config and not any(key in config for key in _OWN):
        raise InputError(f"{path}: expected a {DECISION_CONFIG} of transformers, got other keys")
    if config.get("temperature") and not overwrite:
        message = f"{path}: has temperatures already; --overwrite replaces them, and nothing else"
        raise InputError(message)
    return path


def write_decision_file(path: Path, portable: PortableCalibration) -> None:
    """Write the temperatures into a `decision.json`; other keys of the file stay.

    Args:
        path: from `check_decision_file`.
        portable: the temperatures.

    Raises:
        InputError: the file cannot be written.
    """
    config = _config(path) if path.exists() else {}
    write_atomically(path, dumps_indented(config | {"temperature": {**portable.temperatures}}))


def _config(path: Path) -> dict[str, Json]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object, got {describe(value)}")
    return value
