"""Calibrators as JSON: the released format, and the published form that came before it.

    {"format": "pact-calibrator-2",
     "mode": "scalar" | "per-kind" | "contextual",
     "weights": {"bias": [choice, boolean, score], "log_choices": b, "log_tokens": c},
     "fit": {how it was fitted: items, families, temperatures, standard errors, notes, ...},
     "sha256": SHA-256 of the other members}

The hash shows weights that were changed by accident or by hand; it is no signature. The published
format has no "format", "fit" or "sha256", and may have keys besides "mode" and "weights".
Scalar and contextual calibrators read bias[0] for all kinds; we write it three times.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pact_eval._choices import Mode
from pact_eval._files import read_json, write_atomically
from pact_eval._json import Json, describe, dumps, sha256_of_json
from pact_eval.calibration.temperatures import (
    KINDS,
    NEUTRAL_BIAS,
    SHIPPED,
    TEMPERATURE_FLOOR,
    Calibrator,
    Weights,
    inverse_softplus,
)
from pact_eval.errors import InputError, TamperedError
from pact_eval.runs.provenance import Provenance
from pact_eval.schema import Section, convert, sha256_fits, with_sha256
from pact_eval.templates.files import TEMPLATE_CONTRACT

__all__ = [
    "FORMAT",
    "calibrator_as_shipped",
    "calibrator_from_json",
    "calibrator_sha256",
    "calibrator_to_json",
    "read_calibrator",
    "write_calibrator",
]

FORMAT: Final = "pact-calibrator-2"
"""What the released format calls itself."""

_ADVICE: Final = "restore it from a copy, or fit it again with `pact-eval calibrate`"


class _Weights(Section, frozen=True, forbid_unknown_fields=True):
    """The numbers of a file: see `Weights`."""

    bias: tuple[float, float, float]
    log_choices: float
    log_tokens: float


class _Published(Section, frozen=True):
    """The published form."""

    mode: Mode
    weights: _Weights


class _Released(_Published, frozen=True, forbid_unknown_fields=True):
    """The released format."""

    format: str
    sha256: str
    fit: Mapping[str, Any] = {}


def calibrator_to_json(calibrator: Calibrator) -> dict[str, Json]:
    """Return the JSON object of the released format.

    Examples:
        >>> from pact_eval.calibration.files import calibrator_to_json
        >>> from pact_eval.calibration.temperatures import neutral_calibrator
        >>> calibrator_to_json(neutral_calibrator())["weights"]["log_tokens"]
        0.0
    """
    return with_sha256(_content(calibrator))


def calibrator_sha256(calibrator: Calibrator) -> str:
    """Return the SHA-256 that a calibrator's file holds: 64 hex digits."""
    return sha256_of_json(_content(calibrator))


def _content(calibrator: Calibrator) -> dict[str, Json]:
    weights = calibrator.weights
    return {
        "format": FORMAT,
        "mode": calibrator.mode,
        "weights": {
            "bias": list(weights.bias),
            "log_choices": weights.log_choices,
            "log_tokens": weights.log_tokens,
        },
        "fit": dict(calibrator.fit or {}),
    }


def calibrator_from_json(value: Json, source: str = "calibrator") -> Calibrator:
    """Read the released format, or the published form, which has no "format".

    Args:
        value: The parsed JSON.
        source: The file's name for messages.

    Returns:
        The calibrator.

    Raises:
        InputError: Something is missing, unknown or of the wrong type; the message says what was
            expected and what was found.
        TamperedError: The content is not that of its "sha256", or its "format" was removed.

    Examples:
        >>> from pact_eval.calibration.files import calibrator_from_json
        >>> weights = {"bias": [0.0, 0.0, 0.0], "log_choices": 0.5, "log_tokens": -0.5}
        >>> calibrator_from_json({"mode": "contextual", "weights": weights}).weights.log_choices
        0.5
    """
    released = isinstance(value, dict) and "format" in value
    if isinstance(value, dict) and not released and {"sha256", "fit"} & set(value):
        raise TamperedError(
            f'{source}: changed since it was written ("fit" or "sha256", no "format"); {_ADVICE}'
        )
    if isinstance(value, dict) and value.get("format", FORMAT) != FORMAT:
        raise InputError(
            f'{source}: format: expected "{FORMAT}", got {_describe_value(value["format"])}; '
            f"a newer pact-eval may read it"
        )
    try:
        content = convert(value, _Released if released else _Published)
    except ValueError as error:
        raise InputError(f"{source}: {error}; {_ADVICE}") from None
    if isinstance(content, _Released) and not sha256_fits(value):
        raise TamperedError(
            f"{source}: changed since it was written (its SHA-256 is another one); {_ADVICE}"
        )
    weights = content.weights
    try:
        return Calibrator(
            content.mode,
            Weights(weights.bias, weights.log_choices, weights.log_tokens),
            content.fit or None if isinstance(content, _Released) else None,
        )
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def read_calibrator(path: Path) -> Calibrator:
    """Read a calibrator file, strictly.

    Raises:
        InputError: the file cannot be read, is not JSON, or is not a calibrator.
        TamperedError: the file has changed since it was written.
    """
    return calibrator_from_json(read_json(path), str(path))


def write_calibrator(path: Path, calibrator: Calibrator) -> None:
    """Write a calibrator file in the released format, atomically.

    Raises:
        InputError: the file cannot be written.
    """
    write_atomically(path, dumps(calibrator_to_json(calibrator)) + "\n")


def _describe_value(value: Json) -> str:
    return dumps(value) if isinstance(value, str) else describe(value)


def calibrator_as_shipped(run: Provenance, where: str) -> Calibrator:
    """Return the temperatures that the decision template of a run ships.

    Args:
        run: provenance of the run.
        where: name of the run in messages.

    Raises:
        InputError: the run was not scored on a decision template, or a temperature is below the
            least that a calibrator has.

    Examples:
        >>> run = Provenance.of({"settings": {"contract": {"name": "decision-template",
        ...                                                "temperatures": {"boolean": 2.0}}}})
        >>> calibrator_as_shipped(run, "run").temperatures(["boolean", "score"], [2, 3])
        array([2., 1.])
    """
    if run.contract.name != TEMPLATE_CONTRACT:
        message = (
            f"{where}: scored on the contract {run.contract.name or 'of an import'}; only decision "
            "templates ship temperatures"
        )
        raise InputError(message)
    weights = Weights(_biases(run.contract.temperatures, where))
    return Calibrator("per-kind", weights, {SHIPPED: True})


def _biases(temperatures: Mapping[str, float], where: str) -> tuple[float, float, float]:
    low = {kind: value for kind, value in temperatures.items() if value < TEMPERATURE_FLOOR}
    if low:
        message = f"{where}: expected temperatures of {TEMPERATURE_FLOOR} or more, got {low}"
        raise InputError(message)
    choice, boolean, score = (
        inverse_softplus(temperatures[kind]) if kind in temperatures else NEUTRAL_BIAS
        for kind in KINDS
    )
    return choice, boolean, score
