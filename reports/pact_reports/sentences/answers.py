"""Answers of commands, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pact_reports.numbers import interval_text
from pact_reports.plain_text import one_line

if TYPE_CHECKING:  # a report does not wait for what fits calibrators, sweeps and judges
    from pact_eval.calibration.effect import CalibrationEffect
    from pact_eval.evaluation.sweep import SweepPoint
    from pact_eval.preregistration.run_scorecard import JudgedHypotheses


def sweep_answer(points: Sequence[SweepPoint]) -> str | None:
    """Write the gain of K views over view 0; None if the points do not show it."""
    last = points[-1]
    gain = last.group.estimates["ensemble_gain"]
    if last.k < 2 or math.isnan(gain.value):
        return None
    shown = "No change of accuracy shown"
    if gain.excludes_zero:
        shown = f"Views {'help' if gain.value > 0 else 'hurt'} accuracy"
    flips = interval_text(last.group.estimates["flip_rate"], "percent", "%")
    return (
        f"{shown}: {last.k} views - view 0 {interval_text(gain, 'points', ' points')}; the answer "
        f"to {flips} of the items changes with the order."
    )


def calibration_answer(name: str, effect: CalibrationEffect) -> str:
    """Write the effect of the temperatures on a run, by the paired interval of NLL.

    Args:
        name: what the run is called.
        effect: scores before and after.
    """
    change = effect.groups[0].changes["nll_nats"]
    if not math.isnan(change.low):
        ends = f" [{change.low:+.3f}, {change.high:+.3f}] nats"
    else:
        ends = " nats" if change.reason is None else f" nats ({change.reason})"
    if not change.excludes_zero:
        effect_text = "No effect on the probabilities shown"
    else:
        better = "better" if change.value < 0 else "worse"
        effect_text = f"The probabilities get {better}"
    return f"{one_line(name)}: {effect_text}: NLL {change.value:+.3f}{ends}."


def scorecard_answer(judged: JudgedHypotheses) -> str:
    """Count the hypotheses that are supported and contradicted, by value and as shown.

    Example:
        "2 of 5 hypotheses are supported (H1, H3), 1 of them shown (H1); ..."
    """
    results = judged.scorecard.results
    untested = [result.hypothesis.id for result in results if result.verdict == "UNTESTED"]
    supported = [result.hypothesis.id for result in results if result.verdict == "SUPPORTED"]
    against = [result.hypothesis.id for result in results if result.verdict == "CONTRADICTED"]
    proven = [result.hypothesis.id for result in results if result.shown == "supported"]
    refuted = [result.hypothesis.id for result in results if result.shown == "refuted"]
    counts = (
        f"Of {len(results)} hypotheses, by value {_listed(supported, 'supported')} and "
        f"{_listed(against, 'contradicted')}, {_listed(untested, 'untested')}; "
        f"{_listed(proven, 'shown to hold')}, {_listed(refuted, 'shown to fail')}"
    )
    return f"{counts}. {judged.registration.status.capitalize()}."


def _listed(ids: Sequence[str], what: str) -> str:
    named = f" ({one_line(', '.join(ids))})" if ids else ""
    return f"{len(ids)} {what}{named}"
