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
from typing import Final, cast

from pact_eval._files import read_json, write_atomically
from pact_eval._json import Json, describe, dumps, sha256_of_json
from pact_eval.calibration.temperatures import (
    KINDS,
    MODES,
    NEUTRAL_BIAS,
    SHIPPED,
    TEMPERATURE_FLOOR,
    Calibrator,
    Weights,
    inverse_softplus,
)
from pact_eval.errors import InputError, TamperedError
from pact_eval.runs.provenance import Provenance
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

_WEIGHTS: Final = ("bias", "log_choices", "log_tokens")
_ADVICE: Final = "restore it from a copy, or fit it again with `pact-eval calibrate`"
_MEMBERS: Final = ("format", "mode", "weights", "fit", "sha256")


def calibrator_to_json(calibrator: Calibrator) -> dict[str, Json]:
    """Return the JSON object of the released format.

    Examples:
        >>> from pact_eval.calibration.files import calibrator_to_json
        >>> from pact_eval.calibration.temperatures import neutral_calibrator
        >>> calibrator_to_json(neutral_calibrator())["weights"]["log_tokens"]
        0.0
    """
    content = _content(calibrator)
    return content | {"sha256": sha256_of_json(content)}


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
    if not isinstance(value, dict):
        raise InputError(f"{source}: expected a JSON object, got {describe(value)}")
    missing = [name for name in ("mode", "weights") if name not in value]
    if missing:
        raise InputError(
            f'{source}: expected a calibrator with "mode" and "weights", lacks {_quoted(missing)}'
        )
    if "format" in value:
        _check_released(value, source)
    elif "sha256" in value or "fit" in value:
        raise TamperedError(
            f'{source}: changed since it was written ("fit" or "sha256", no "format"); {_ADVICE}'
        )
    mode = value["mode"]
    if mode not in MODES:
        raise InputError(f"{source}: mode: expected one of {_quoted(MODES)}, got {_shown(mode)}")
    fit = value.get("fit") if "format" in value else None
    try:
        return Calibrator(
            mode,
            _weights(value["weights"], source),
            fit if isinstance(fit, dict) and fit else None,
        )
    except InputError as error:
        raise _at(source, error) from None


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


def _check_released(value: dict[str, Json], source: str) -> None:
    if value["format"] != FORMAT:
        raise InputError(
            f'{source}: format: expected "{FORMAT}", got {_shown(value["format"])}; '
            f"a newer pact-eval may read it"
        )
    unknown = [name for name in value if name not in _MEMBERS]
    if unknown:
        raise InputError(f"{source}: expected only {_quoted(_MEMBERS)}, got {_quoted(unknown)}")
    if not isinstance(value.get("fit", {}), dict):
        raise InputError(f"{source}: fit: expected an object, got {describe(value['fit'])}")
    if "sha256" not in value:
        raise InputError(f'{source}: expected "sha256" in a calibrator with a format')
    if value["sha256"] != sha256_of_json({key: value[key] for key in value if key != "sha256"}):
        raise TamperedError(
            f"{source}: changed since it was written (its SHA-256 is another one); {_ADVICE}"
        )


def _weights(value: Json, source: str) -> Weights:
    if not isinstance(value, dict) or set(value) != set(_WEIGHTS):
        actual = _quoted(sorted(value)) if isinstance(value, dict) else describe(value)
        raise InputError(f"{source}: weights: expected {_quoted(_WEIGHTS)}, got {actual}")
    bias = value["bias"]
    if not isinstance(bias, list) or len(bias) != 3:
        actual = f"{len(bias)} values" if isinstance(bias, list) else describe(bias)
        raise InputError(
            f"{source}: weights.bias: expected 3 numbers (choice, boolean, score), got {actual}"
        )
    numbers = [_number(entry, f"{source}: weights.bias[{k}]") for k, entry in enumerate(bias)]
    log_choices, log_tokens = (
        _number(value[name], f"{source}: weights.{name}") for name in _WEIGHTS[1:]
    )
    return Weights((numbers[0], numbers[1], numbers[2]), log_choices, log_tokens)


def _number(value: Json, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where}: expected a number, got {describe(value)}")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"{where}: expected a finite number, got one too large") from None


def _at(source: str, error: InputError) -> InputError:
    text = str(error)
    return error if text.startswith(source) else InputError(f"{source}: {text}")


def _quoted(names: object) -> str:
    return ", ".join(f'"{name}"' for name in cast("tuple[str, ...]", names))


def _shown(value: Json) -> str:
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
