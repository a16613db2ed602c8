"""The notes on calibrators as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pact_eval.calibration import (
    CalibrationNote,
    DifferentDecoding,
    NeutralTemperatures,
    OutsideFit,
    ScoreName,
    SharedSourceFamilies,
    UnknownFamilies,
    UnseenKind,
    WorseScore,
)

_SHOWN: Final = 3
_TITLES: Final[dict[ScoreName, str]] = {
    "nll_nats": "NLL",
    "brier": "Brier",
    "ece": "ECE",
    "aurc": "AURC",
}


def calibration_sentence(note: CalibrationNote) -> str:
    """Say what a note on a calibrator means.

    Example:
        >>> calibration_sentence(DifferentDecoding("single", "ensemble"))
        'fitted on the single decoding, applied to the ensemble one'
        >>> calibration_sentence(WorseScore("all", "ece", 0.031, 0.042))
        'ECE of all items got worse: 3.10% to 4.20%'
    """
    match note:
        case UnknownFamilies():
            return (
                "not all families are known, so it is unknown whether the calibrator was fitted on "
                "some of these items"
            )
        case SharedSourceFamilies():
            return (
                f"source families both in the fit and in this run: {len(note.names):,} "
                f"({_some(note.names)}); how the calibrator does on new sources is not shown"
            )
        case NeutralTemperatures():
            return "every temperature is 1: this calibrator changes nothing"
        case DifferentDecoding():
            return f"fitted on the {note.fitted} decoding, applied to the {note.applied} one"
        case UnseenKind():
            return f"fitted without items of kind {note.field_kind}: T = 1 there"
        case OutsideFit():
            return (
                f"{note.outside:,} of {note.items:,} items have {note.quantity} outside the "
                f"{note.low:,} to {note.high:,} of the fit: their temperatures are extrapolated"
            )
        case WorseScore():
            return _worse(note)


def _worse(note: WorseScore) -> str:
    where = "all items" if note.group == "all" else f"{note.group} items"
    if note.score in ("ece", "aurc"):
        change = f"{note.before:.2%} to {note.after:.2%}"
    else:
        unit = " nats" if note.score == "nll_nats" else ""
        change = f"{note.before:.4f} to {note.after:.4f}{unit}"
    return f"{_TITLES[note.score]} of {where} got worse: {change}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
