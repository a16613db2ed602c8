"""Hypotheses and their verdicts, and answers of gates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pact_eval._choices import Demand
from pact_eval._json import Json
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.numbers import interval_text
from pact_eval.plain_text import one_line
from pact_eval.preregistration.criteria import describe_check
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_eval.preregistration.scorecard import JudgedCheck
from pact_reports.tables.scorecard import scorecard_parts
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import to_json, warnings_json

if TYPE_CHECKING:
    from pact_eval.calibration.effect import CalibrationEffect
    from pact_eval.calibration.selection import LeftOutNll
    from pact_eval.evaluation.report import SweepPoint
    from pact_eval.preregistration.run_scorecard import JudgedHypotheses
    from pact_reports.ci.gates import CiReport


def present_judged_hypotheses(
    judged: JudgedHypotheses,
    names: ArmNames = KEYS,
    criteria: Path | None = None,
    demand: Demand | None = None,
) -> Presenter:
    """Present a scorecard: verdicts, evidence, registration.

    Args:
        judged: the hypotheses.
        names: display names of arms.
        criteria: the file of the hypotheses.
        demand: what a verdict must be clear by, if that is demanded in CI.
    """
    return Presenter(
        tables=partial(scorecard_parts, judged, names),
        to_json=partial(_json, judged),
        answers=lambda: [scorecard_answer(judged)],
        warnings=[*map(str, judged.warnings)],
        ci=None if criteria is None or demand is None else partial(_ci, judged, criteria, demand),
    )


def _ci(judged: JudgedHypotheses, criteria: Path, demand: Demand) -> CiReport:
    from pact_reports.ci.gates import scorecard_report

    return scorecard_report(judged, criteria, demand)


def _json(judged: JudgedHypotheses) -> dict[str, Json]:
    registration = judged.registration
    registered_at = registration.registered_at
    return {
        "hypotheses": [
            {
                "id": result.hypothesis.id,
                "title": result.hypothesis.title,
                "claim": result.hypothesis.claim,
                "verdict": result.verdict,
                "shown": result.shown,
                "conclusion": result.conclusion,
                "refuted_by": [*map(str, result.refuted_by)],
                "because": result.because,
                "checks": [*map(_check, result.checks)],
                "beside": [*map(_check, result.beside)],
            }
            for result in judged.scorecard.results
        ],
        "registration": {
            "status": registration.status,
            "reasons": list(registration.reasons),
            "registered_at": None if registered_at is None else registered_at.isoformat(),
        },
        "warnings": warnings_json(judged.warnings),
    }


def _check(result: JudgedCheck) -> Json:
    return {
        "says": result.check.says,
        "decides": describe_check(result.check),
        "summary": result.summary,
        "shown": result.shown,
        "needs": result.check.needs,
        "comparisons": [*map(to_json, result.comparisons)],
    }


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


def left_out_answer(nll: LeftOutNll | None, *, written: bool) -> str:
    """Say whether temperatures lower the NLL of families that were left out of their fit.

    Args:
        nll: on these families; None if there is one family.
        written: whether the calibrator was written.

    Examples:
        >>> from pact_eval.calibration.selection import LeftOutNll
        >>> left_out_answer(LeftOutNll(0.992, 1.01, "families"), written=True)
        'Calibrating does not help: NLL 0.992 to 1.010 on left-out families. Written by --force.'
        >>> left_out_answer(LeftOutNll(0.992, 0.97, "families"), written=True)
        'Calibrating lowers NLL: 0.992 to 0.970 on left-out families.'
    """
    if nll is None:
        return "Not known whether calibrating helps: there is one family, and none to leave out."
    before, after = (f"{number:.3f}" for number in (nll.raw, nll.fitted))
    if before == after:
        before, after = (f"{number:.6f}" for number in (nll.raw, nll.fitted))
    numbers = f"{before} to {after} on left-out {nll.unit}."
    if nll.falls:
        return f"Calibrating lowers NLL: {numbers}"
    why = "Written by --force." if written else "Nothing is written; --force writes."
    return f"Calibrating does not help: NLL {numbers} {why}"


def calibration_answer(name: str, effect: CalibrationEffect) -> str:
    """Write the effect of the temperatures on a run: what gets better, and what worse.

    The word is that of the paired interval of NLL, and holds for "the probabilities" only if the
    Brier score and the ECE do not go the other way.

    Args:
        name: what the run is called.
        effect: scores before and after.
    """
    group = effect.groups[0]
    before, after, change = group.before, group.after, group.changes["nll_nats"]
    if not math.isnan(change.low):
        ends = f" [{change.low:+.3f}, {change.high:+.3f}] nats"
    else:
        ends = " nats" if change.reason is None else f" nats ({change.reason})"
    nll = f"{change.value:+.3f}{ends}"
    moves = {  # as printed
        f"Brier {before.brier:.3f} to {after.brier:.3f}": round(after.brier, 3)
        - round(before.brier, 3),
        f"ECE {100 * before.ece:.1f} to {100 * after.ece:.1f}%": round(after.ece, 3)
        - round(before.ece, 3),
    }
    word, other = ("better", "worse") if change.value < 0 else ("worse", "better")
    against = [text for text, move in moves.items() if move * change.value < 0]
    along = [text for text in moves if text not in against]
    if not change.excludes_zero:
        text = f"No effect on the probabilities shown: NLL {nll}; {', '.join(moves)}"
    elif not against:
        text = f"The probabilities get {word}: NLL {nll}; {', '.join(along)}"
    else:
        text = f"NLL gets {word}, {nll}, but {' and '.join(against)} {other}"
        text += "".join(f"; {too}" for too in along)
    return f"{one_line(name)}: {text}."


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
