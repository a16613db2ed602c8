"""Worries about one run: its answers, its probabilities, its pairs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.evaluation import CONFIDENT
from pact_eval.stats import Estimate
from pact_reports.numbers import estimate_text, value_text
from pact_reports.page.worries.model import (
    CONFIDENT_WRONG,
    FEW_FAMILIES,
    FLIPS,
    LOW_CODE_MASS,
    SAME_ANSWER,
    VERY_LOW_CODE_MASS,
    Worry,
)

__all__ = [
    "calibration_worries",
    "chance_worries",
    "code_mass_worries",
    "confident_error_worries",
    "few_families_worries",
    "flip_worries",
    "same_answer_worries",
]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def code_mass_worries(run: str, code_mass: FloatArray) -> tuple[Worry, ...]:
    """Worry where little of the next-token distribution falls on the codes.

    Args:
        run: label of the run.
        code_mass: of items and views; NaN where unknown.

    Example:
        >>> code_mass_worries("pact", np.array([0.2, 0.4]))[0].gravity
        'grave'
    """
    known = code_mass[~np.isnan(code_mass)]
    # Runs keep it in single precision, in which 0.9 is a little less.
    if not known.size or known.mean() >= LOW_CODE_MASS - 1e-6:
        return ()
    mean = float(known.mean())
    says = (
        f"{_percent(mean)} of the next-token probability falls on the answer codes; "
        f"{_percent(LOW_CODE_MASS, 0)} or more is expected, below "
        f"{_percent(VERY_LOW_CODE_MASS, 0)} is grave"
    )
    return (Worry("code-mass", "grave" if mean < VERY_LOW_CODE_MASS else "serious", says, run),)


def flip_worries(run: str, flipped: FloatArray) -> tuple[Worry, ...]:
    """Worry where answers change with the letters, or where one view cannot tell.

    Args:
        run: label of the run.
        flipped: (n,) 1 where the views of an item disagree; NaN for one view.
    """
    known = flipped[~np.isnan(flipped)]
    if not known.size:
        says = "every item was shown under one order of the letters: flips and TV are unknown"
        return (Worry("one-view", "minor", says, run),)
    rate = float(known.mean())
    if rate < FLIPS:
        return ()
    says = (
        f"the answer changes between views on {int(known.sum()):,} of {known.size:,} items "
        f"({_percent(rate)}); {_percent(FLIPS, 0)} or more is serious"
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
        f"are wrong ({_percent(share)}); more than {_percent(CONFIDENT_WRONG, 0)} is grave"
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
            f"accuracy on {kind} is {estimate_text(estimate, 'percent')} % (95% interval over "
            f"families); a guess among the answers has {_percent(chance[kind])}, which the "
            "interval must lie above"
        )
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


def calibration_worries(run: str, before: float, after: float) -> tuple[Worry, ...]:
    """Worry where ECE after T(x) is not below ECE before it.

    Args:
        run: label of the run.
        before: ECE, raw.
        after: ECE after T(x).
    """
    if after < before:
        return ()
    says = f"ECE is {_percent(before)} before T(x) and {_percent(after)} after; lower is expected"
    return (Worry("calibration", "serious", says, run),)


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
        if np.isnan(accuracy.low)
        else f", so that accuracy is known to {value_text(accuracy.low, 'percent')} to "
        f"{value_text(accuracy.high, 'percent')} %"
    )
    says = (
        f"{accuracy.n:,} items of {accuracy.clusters:,} "
        f"{'family' if accuracy.clusters == 1 else 'families'}{width}; fewer than "
        f"{FEW_FAMILIES:,} families leave wide intervals"
    )
    return (Worry("few-families", "minor", says, run),)


def _percent(fraction: float, decimals: int = 1) -> str:
    return f"{100 * fraction:.{decimals}f}%"
