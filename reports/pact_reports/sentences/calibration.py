"""Notes on calibrators as sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pact_eval.calibration.notes import (
    CalibrationNote,
    DifferentDecoding,
    FittedOnTraining,
    NeutralTemperatures,
    OtherRun,
    OutsideFit,
    RoundedItems,
    ScoreName,
    SharedSourceFamilies,
    UnknownFamilies,
    UnknownRun,
    UnseenKind,
    UseNote,
    WorseScore,
)

if TYPE_CHECKING:  # most sentences are not of a fit
    from pact_eval.calibration.portable import PortableCalibration

CALIBRATION_ERROR: Final = (
    "For ECE, brackets hold the true calibration error. The ECE of a sample is biased upwards and "
    "can lie above them: a calibrated model also shows its noise floor."
)
"""Shown wherever ECE has an interval."""

NOISE: Final = (
    "ECE, noise: the mean ECE of a calibrated model with these confidences; p: of calibration. Of "
    "an arm, the mean over its runs, and the lowest to the highest p."
)
"""Shown wherever ECE has its noise floor next to it."""

_SHOWN: Final = 3
_TITLES: Final[dict[ScoreName, str]] = {
    "nll_nats": "NLL",
    "brier": "Brier",
}


def portable_sentences(portable: PortableCalibration, *, served: bool) -> Iterator[str]:
    """Yield the exported temperatures, their loss, and the temperatures that they come on top of.

    Args:
        portable: the temperatures by type of question.
        served: whether they were fitted on probabilities that a server sent.
    """
    named = ", ".join(f"{name} {number:.4g}" for name, number in portable.temperatures.items())
    yield f"decision.json: T = {named}."
    if portable.lost:
        change, before, after = portable.nll_change, portable.fitted, portable.portable
        ends = "" if math.isnan(change.low) else f" [{change.low:+.4f}, {change.high:+.4f}]"
        yield (
            f"Not portable: T depends on {' and '.join(portable.lost)}, and decision.json has one "
            f"number per type. Against the fitted T, on the fit split: NLL {change.value:+.4f}"
            f"{ends} nats, ECE {100 * before.ece:.1f}% -> {100 * after.ece:.1f}%."
        )
    else:
        yield "Nothing is lost: the fitted calibrator has one temperature per type."
    if served:
        yield (
            "These probabilities came from a server: if it divides by a temperature already, "
            "multiply the two. `pact-eval report RUN --local-run LOCAL` says whether it does."
        )


def calibration_sentence(note: CalibrationNote) -> str:
    """Explain a note on a calibrator.

    Example:
        >>> calibration_sentence(DifferentDecoding("single", "ensemble"))
        'fitted on the single decoding, applied to the ensemble one'
        >>> calibration_sentence(WorseScore("all", "nll_nats", 0.52, 0.55, 0.01, 0.05))
        'NLL of all items got worse: 0.5200 to 0.5500 nats; change [0.0100, 0.0500]'
    """
    match note:
        case UnknownFamilies():
            return (
                "not all families are known, so it is unknown whether the fit used some of these "
                "items"
            )
        case SharedSourceFamilies():
            return (
                f"source families both in the fit and in this run: {len(note.names):,} "
                f"({_some(note.names)}); how the fit does on new sources is not shown"
            )
        case UnknownRun():
            return (
                "the fit or the run does not record its model, so it is unknown whether "
                "they belong together"
            )
        case OtherRun():
            return f"fitted on a run of another {' and another '.join(note.facts)}, as allowed"
        case FittedOnTraining():
            return (
                f"fitted on {note.families:,} families that the model may have learnt, as allowed: "
                "its temperatures may be too low"
            )
        case WorseScore():
            return _worse(note)
        case _:
            return _use_sentence(note)


def _use_sentence(note: UseNote) -> str:
    match note:
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
        case RoundedItems():
            return _rounded(note)


def _rounded(note: RoundedItems) -> str:
    if note.decimals is None:
        return (
            f"the log lists only the most probable tokens; {note.censored:,} of {note.items:,} "
            "correct answers are not among them: they count as the least probable listed token, "
            "and NLL and T depend on that"
        )
    rounding = f"probabilities are rounded to {note.decimals} decimals"
    if not note.censored:
        return f"{rounding}; no correct answer was rounded to 0"
    return (
        f"{rounding}; {note.censored:,} of {note.items:,} correct answers were rounded to 0: they "
        f"count as {0.5 * 10**-note.decimals:g} or less, and NLL and T depend on that"
    )


def _worse(note: WorseScore) -> str:
    where = "all items" if note.group == "all" else f"{note.group} items"
    unit = " nats" if note.score == "nll_nats" else ""
    return (
        f"{_TITLES[note.score]} of {where} got worse: {note.before:.4f} to {note.after:.4f}{unit}; "
        f"change [{note.low:.4f}, {note.high:.4f}]"
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
