"""Worries about one run: its answers, its probabilities, its pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.evaluation import CONFIDENT, Evaluation, Unit
from pact_eval.stats import Estimate
from pact_reports.numbers import has_width, interval_text, value_text
from pact_reports.page.diagnostics.model import (
    CONFIDENT_WRONG,
    FEW_FAMILIES,
    FLIPS,
    LOW_CODE_MASS,
    SAME_ANSWER,
    VERY_LOW_CODE_MASS,
    Worry,
)
from pact_reports.tables.report import letter_verdict
from pact_reports.tables.run_reports import EceChange

__all__ = [
    "answer_mass_worries",
    "calibration_worries",
    "chance_worries",
    "confident_error_worries",
    "few_families_worries",
    "flip_worries",
    "letter_worries",
    "same_answer_worries",
]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

# Differences below this are rounding.
_ROUNDING: Final = 1e-9
_LEVEL: Final = 0.05


def answer_mass_worries(run: str, answer_mass: FloatArray) -> tuple[Worry, ...]:
    """Worry where little of the next-token distribution falls on the codes.

    Args:
        run: label of the run.
        answer_mass: of items and views; NaN where unknown.

    Example:
        >>> answer_mass_worries("pact", np.array([0.2, 0.4]))[0].gravity
        'grave'
    """
    known = answer_mass[~np.isnan(answer_mass)]
    # Runs keep it in single precision, in which 0.9 is a little less.
    if not known.size or known.mean() >= LOW_CODE_MASS - 1e-6:
        return ()
    mean = float(known.mean())
    says = (
        f"{_percent(mean)} of the next-token probability falls on the answer codes; "
        f"{_percent(LOW_CODE_MASS, 0)} or more is expected, below "
        f"{_percent(VERY_LOW_CODE_MASS, 0)} is grave"
    )
    return (Worry("answer-mass", "grave" if mean < VERY_LOW_CODE_MASS else "serious", says, run),)


def flip_worries(run: str, flipped: FloatArray, rate: Estimate) -> tuple[Worry, ...]:
    """Worry where answers change with the letters, or where one view cannot tell.

    Args:
        run: label of the run.
        flipped: (n,) 1 where the views of an item disagree; NaN for one view.
        rate: share of them, with its interval over families.
    """
    known = flipped[~np.isnan(flipped)]
    if not known.size:
        says = "every item was shown under one order of the letters: flips and TV are unknown"
        return (Worry("one-view", "minor", says, run),)
    if float(known.mean()) < FLIPS:
        return ()
    says = (
        f"the answer changes between views on {int(known.sum()):,} of {known.size:,} items of "
        f"{rate.clusters:,} families: {_drawn(rate, 'percent', ' %')}; "
        f"{_percent(FLIPS, 0)} or more is serious"
    )
    return (Worry("flips", "serious", says, run),)


def confident_error_worries(
    run: str, confidence: FloatArray, correct: BoolArray
) -> tuple[Worry, ...]:
    """Worry about wrong answers that were given with confidence 0.9 or more.

    Args:
        run: label of the run.
        confidence: (n,) highest probability.
        correct: (n,) whether the reference is predicted.
    """
    sure = metrics.is_confident(confidence, CONFIDENT)
    wrong = int((sure & ~correct).sum())
    if not wrong:
        return ()
    share = wrong / int(sure.sum())
    says = (
        f"{wrong:,} of the {int(sure.sum()):,} answers given with {_percent(CONFIDENT, 0)} or more "
        f"are wrong ({_percent(share)}; {len(correct):,} answers in all); more than "
        f"{_percent(CONFIDENT_WRONG, 0)} is grave"
    )
    return (Worry("confident-errors", "grave" if share > CONFIDENT_WRONG else "minor", says, run),)


def chance_worries(
    run: str, accuracy: dict[str, Estimate], chance: dict[str, float]
) -> tuple[Worry, ...]:
    """Worry about kinds whose interval of accuracy reaches down to a guess.

    Args:
        run: label of the run.
        accuracy: by kind, with its interval over families.
        chance: by kind, the accuracy of a guess among the answers: the mean of 1 / C.
    """
    found = []
    for kind, estimate in accuracy.items():
        if np.isnan(estimate.low) or estimate.low > chance[kind]:
            continue
        says = (
            f"accuracy on {kind} ({estimate.n:,} items, {estimate.clusters:,} families) is "
            f"{_drawn(estimate, 'percent', ' %')}; a guess among the answers has "
            f"{_percent(chance[kind])}"
        )
        if estimate.high < chance[kind]:
            says += (
                ", which lies wholly above that: worse than guessing, as where answers or "
                "references are turned around"
            )
        else:
            says += ", which the interval must lie above"
        found.append(Worry("chance", "serious", says, run))
    return tuple(found)


def same_answer_worries(run: str, same: int, pairs: int) -> tuple[Worry, ...]:
    """Worry where both members of a pair get the same answer.

    Args:
        run: label of the run.
        same: pairs whose references differ and whose members get one answer.
        pairs: pairs whose references differ.
    """
    if not pairs or same / pairs < SAME_ANSWER:
        return ()
    says = (
        f"both members get the same answer in {same:,} of {pairs:,} pairs "
        f"({_percent(same / pairs)}) whose references differ; {_percent(SAME_ANSWER, 0)} or more "
        "is serious"
    )
    return (Worry("same-answer", "serious", says, run),)


def calibration_worries(run: str, changes: Mapping[str, EceChange]) -> tuple[Worry, ...]:
    """Worry where ECE after T(x) is not below ECE before it, on all items or on a kind.

    Args:
        run: label of the run.
        changes: of ECE, for "all" and by kind; empty without a calibrator.
    """
    # One kind alone is all items.
    groups = list(changes)[:1] if len(changes) == 2 else list(changes)
    return tuple(
        found for name in groups for found in _calibration(run, name, changes[name]) if found
    )


def _calibration(run: str, name: str, change: EceChange) -> Iterator[Worry]:
    difference = change.difference
    # Equal is worth a word for all items only: a kind may have nothing to mend.
    if difference.value < (0 if name == "all" else _ROUNDING):
        return
    where = "all items" if name == "all" else f"{name} items"
    number = (
        f"ECE of {where} ({difference.n:,} items, {difference.clusters:,} families) is "
        f"{_percent(change.before)} before T(x) and {_percent(change.after.value)} after: "
        f"{_drawn(difference, 'points', ' points')}"
    )
    if has_width(difference) and difference.low > 0:
        yield Worry("calibration", "serious", f"{number}, all of it above 0: T(x) raises ECE", run)
    elif has_width(difference):
        says = f"{number}, which covers 0: neither a rise nor a fall is shown"
        yield Worry("calibration", "minor", says, run)
    else:
        yield Worry("calibration", "minor", f"{number}; lower is expected", run)


def letter_worries(run: str, evaluation: Evaluation) -> tuple[Worry, ...]:
    """Worry about letters that are picked more often than the right answer stands behind them.

    Args:
        run: label of the run.
        evaluation: of the run, with the test over all items and views.
    """
    p_value = evaluation.letters.p_value
    if np.isnan(p_value) or p_value >= _LEVEL:
        return ()
    return (Worry("letters", "minor", letter_verdict(evaluation).rstrip("."), run),)


def few_families_worries(run: str, accuracy: Estimate) -> tuple[Worry, ...]:
    """Worry where intervals rest on few families.

    Args:
        run: label of a run; runs on the same items share it.
        accuracy: over all items, with its interval over families.
    """
    if accuracy.clusters >= FEW_FAMILIES:
        return ()
    width = (
        ""
        if not has_width(accuracy)
        else f", so that accuracy is known to {value_text(accuracy.low, 'percent')} to "
        f"{value_text(accuracy.high, 'percent')} %"
    )
    says = (
        f"{accuracy.n:,} items of {accuracy.clusters:,} "
        f"{'family' if accuracy.clusters == 1 else 'families'}{width}; fewer than "
        f"{FEW_FAMILIES:,} families leave wide intervals"
    )
    return (Worry("few-families", "minor", says, run),)


def _drawn(estimate: Estimate, unit: Unit, word: str) -> str:
    """Write an estimate with its interval, and say what that is."""
    text = interval_text(estimate, unit, word)
    return f"{text} (95% interval over families)" if has_width(estimate) else text


def _percent(fraction: float, decimals: int = 1) -> str:
    return f"{100 * fraction:.{decimals}f}%"
