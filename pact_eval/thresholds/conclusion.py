"""Conclusion on acting alone: the share of the decisions that needs no review."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

from pact_eval._choices import CONFIDENCE, ClusterUnit
from pact_eval.errors import NO_PROBABILITIES
from pact_eval.evaluation.conclusions.conclusion import (
    Conclusion,
    Question,
    Sentence,
    Unchecked,
)
from pact_eval.evaluation.experiment import Experiment, RunReport
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.numbers import plain_units, rate_text, sample_text
from pact_eval.plain_text import first_of
from pact_eval.runs.folder import RunSource, open_run
from pact_eval.runs.provenance import UNSURE
from pact_eval.stats.estimate import Estimate
from pact_eval.thresholds.choice import (
    GroupGate,
    Rule,
    Thresholds,
    gate_items,
    rate_over_units,
    rule_of,
)
from pact_eval.thresholds.gates import Target, choose_gate, sure_answers

ActingStatus: TypeAlias = Literal["share guaranteed", "none shown", "cannot tell"]
"""share guaranteed: a gate keeps the target; none shown: no gate is shown to keep it; cannot tell:
the families are too few for any gate, or the run has no probabilities."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Acting(Conclusion):
    """Share of the decisions that the model may take alone.

    Attributes:
        status: share guaranteed, none shown or cannot tell.
        target: what the gates keep.
        confidence: of the guarantee of each gate.
        together: whether the confidence that was asked for holds for all gates together.
        share: share of all items that the gates accept; None unless it is guaranteed.
        rule: what the gates look at; None if no gate can be tested.
        gates: one per group, with the test that it rests on.
        run: label of the run; "" for one that was asked alone.
        planned: whether the families that would do were looked for.
    """

    question: ClassVar[Question] = "acting"

    status: ActingStatus
    target: Target
    confidence: float
    together: bool = False
    share: Estimate | None = None
    rule: Rule | None = None
    gates: tuple[GroupGate, ...] = ()
    run: str = ""
    planned: bool = True

    @property
    def words(self) -> Sentence:
        """Which answers need no review, or the reason for none.

        Example:
            "Yes: answers with a probability of at least 0.93 (41.0% [36.2, 46.0] of the items) ..."
        """
        if self.rule is None:
            reasons = "; ".join(part.reason for part in self.unchecked)
            return Sentence("Cannot tell", f"{reasons}.")
        match self.status:
            case "share guaranteed":
                return _say_guaranteed(self, self.rule)
            case "cannot tell":
                return Sentence("Cannot tell", _say_too_few(self))
            case "none shown":
                return Sentence("No", _say_none(self, self.rule))

    @property
    def needed(self) -> str:
        """How many items would do if no share is guaranteed; "" if that was not looked for."""
        if self.rule is None or self.status == "share guaranteed" or not self.planned:
            return ""
        gates, unit = self.gates, self.rule.unit
        least = min(gates, key=lambda gate: math.inf if gate.needed is None else gate.needed)
        of_group = "" if len(gates) == 1 or least.needed is None else f"{least.group} first: "
        return f"{of_group}{_say_needed(least, unit)}"


def acting(thresholds: Thresholds) -> Acting:
    """Conclude from chosen gates whether the model may act alone.

    Args:
        thresholds: the gates of a run.

    Returns:
        As `acting_of_gates`.
    """
    rule, target, sure = thresholds.rule, thresholds.target, thresholds.confidence_of_each
    conclusion = acting_of_gates(thresholds.gates, rule, target, sure)
    share = thresholds.share if conclusion.status == "share guaranteed" else None
    return replace(conclusion, together=thresholds.together, share=share)


def acting_of_gates(
    gates: Sequence[GroupGate], rule: Rule, target: Target, confidence: float
) -> Acting:
    """Conclude from the gates of one run or more groups whether the model may act alone.

    Args:
        gates: one per group.
        rule: what they look at.
        target: what they keep.
        confidence: of each gate.

    Returns:
        "share guaranteed" if at least one group has a gate; "cannot tell" if no group has enough
        tested families for any gate; otherwise "none shown". Groups with too few tested families
        are listed as unchecked. The share is that of the only gate.
    """
    least = least_tested(target, confidence)
    unchecked = tuple(
        Unchecked(
            gate.group,
            f"{gate.chosen.tested_units:,} of {gate.units:,} families gave a tested item, "
            f"{least:,} without an error are the least that show the target",
        )
        for gate in gates
        if gate.chosen.tested_units < least
    )
    status: ActingStatus = "none shown"
    if any(gate.guaranteed for gate in gates):
        status = "share guaranteed"
    elif len(unchecked) == len(gates):
        status = "cannot tell"
    return Acting(
        status=status,
        target=target,
        confidence=confidence,
        share=gates[0].coverage if status == "share guaranteed" and len(gates) == 1 else None,
        rule=rule,
        gates=tuple(gates),
        unchecked=unchecked,
    )


def acting_without_probabilities(
    source: RunSource, target: Target, confidence: float
) -> Acting | None:
    """Conclude from a run of answers alone; None if a run has confidences.

    Args:
        source: a run, or its folder.
        target: what the gates were to keep.
        confidence: of the guarantee.

    Raises:
        RunError: the folder is not a complete run.
    """
    known = open_run(source).provenance.known
    if known not in UNSURE:
        return None
    return _cannot_tell(NO_PROBABILITIES[known], target, confidence)


def _cannot_tell(reason: str, target: Target, confidence: float, run: str = "") -> Acting:
    """Return the conclusion on gates that cannot be tested."""
    return Acting(
        status="cannot tell",
        run=run,
        target=target,
        confidence=confidence,
        unchecked=(Unchecked("gates", reason),),
    )


def least_tested(target: Target, confidence: float) -> int:
    """Return the number of tested items, none of them wrong, that shows a target.

    Examples:
        >>> from pact_eval.thresholds.gates import Target
        >>> from pact_eval.thresholds.conclusion import least_tested
        >>> least_tested(Target.of_error(0.05), 0.95)
        59
    """
    return math.ceil(math.log1p(-confidence) / math.log1p(-target.rate) - 1e-9)


def _say_guaranteed(conclusion: Acting, rule: Rule) -> Sentence:
    gates = conclusion.gates
    units = plain_units(*max(_sizes(gates)), rule.unit)
    same = rule.counting == "items" or all(gate.equal for gate in gates)
    once = "" if same else f", each {units.removesuffix('s')} counting once"
    limit, sure = conclusion.target.limit, conclusion.confidence
    if len(gates) == 1:
        (gate,) = gates
        verb = "have" if conclusion.target.limits_error else "can be accepted, with"
        return Sentence(
            "Yes",
            f"{sure_answers(gate.chosen.threshold, rule.signal)} ({rate_text(gate.coverage)} of "
            f"the items) {verb} {limit} in new {units} like these{once}, "
            f"with {100 * sure:.4g}% confidence.",
        )
    kept = [gate.group for gate in gates if gate.guaranteed]
    left = [gate.group for gate in gates if not gate.guaranteed]
    rest = f"; no share is shown for {first_of(left)}" if left else ""
    sure = 1 - (1 - sure) * len(gates) if conclusion.together else sure
    scope = "all together" if conclusion.together else "each"
    return Sentence(
        f"Yes, {'for' if rule.by == 'answer' else 'in'} {first_of(kept)}",
        f"{limit} in new {units} like these{once}, with {100 * sure:.4g}% confidence, "
        f"{scope}{rest}.",
    )


def _say_none(conclusion: Acting, rule: Rule) -> str:
    gates, target = conclusion.gates, conclusion.target
    share, what = ("share", "wrong") if target.limits_error else ("threshold", "left")
    if len(gates) > 1:
        kinds = f"any of {len(gates):,} {rule.by}s"
        return f"no {share} of {kinds} can be shown to have {target.limit}."
    (gate,), (size,) = gates, _sizes(gates)
    test, closest = gate.chosen.test, ""
    if test is not None:
        closest = f"; closest: {test.wrong:,} {what} of {test.accepted:,} tested"
    sample = sample_text(*size, rule.unit)
    return f"with {sample}, no {share} can be shown to have {target.limit}{closest}."


def _say_too_few(conclusion: Acting) -> str:
    tested = max(gate.chosen.tested_units for gate in conclusion.gates)
    least = least_tested(conclusion.target, conclusion.confidence)
    counted = "1 tested item is" if tested == 1 else f"{tested:,} tested items are"
    bad = "an error" if conclusion.target.limits_error else "one left"
    return f"{counted} too few to show {conclusion.target.limit}; {least:,} without {bad} would do."


def _sizes(gates: Sequence[GroupGate]) -> list[tuple[int, int]]:
    """Return the items and families of each gate."""
    return [(gate.coverage.n, gate.units) for gate in gates]


def _say_needed(gate: GroupGate, unit: ClusterUnit) -> str:
    units = plain_units(gate.coverage.n, gate.units, unit)
    run_size = f"the run has {gate.units:,}"
    if gate.needed is None:
        return f"nothing shows that more {units} like these would do; {run_size}"
    if gate.needed <= gate.units:
        return (
            f"its {gate.units:,} {units} would often do, but the tested items of these do not "
            "show it: score more"
        )
    return f"about {gate.needed:,} {units} like these would do in 4 of 5 cases; {run_size}"


def with_acting(report: RunReport) -> RunReport:
    """Return a report that also concludes whether its run may act alone.

    Args:
        report: of a run; its settings name the target error. Without one, or for ablated contexts,
            nothing is concluded.
    """
    return replace(report, acting=acting_of_run(report.experiment, report.run))


def acting_of_arm(experiment: Experiment) -> Acting | None:
    """Conclude whether the main arm may act alone: its run with the worst status.

    Args:
        experiment: runs on full contexts.

    Returns:
        Of equal statuses, that with the smallest share; None if the settings name no target error.
    """
    runs = experiment.arms[experiment.main_arm]
    conclusions = [acting_of_run(experiment, run) for run in runs]
    return worst_acting([conclusion for conclusion in conclusions if conclusion is not None])


def worst_acting(conclusions: Sequence[Acting]) -> Acting | None:
    """Return the worst of several conclusions; None without any."""

    def badness(conclusion: Acting) -> tuple[bool, float]:
        share = 0.0 if conclusion.share is None else conclusion.share.value
        return conclusion.tone == "good", share

    return min(conclusions, key=badness, default=None)


def acting_of_run(experiment: Experiment, run: ExperimentRun) -> Acting | None:
    """Conclude whether a run may act alone under the decoding of the settings; computed once.

    Args:
        experiment: the runs, with the settings.
        run: one of them.

    Returns:
        "cannot tell" if only answers are known, or if items of the run leak: the model has seen
        them, so they say nothing of new families. None if the settings name no target error, and
        for ablated contexts, which have no right answers.

    Raises:
        InputError: the target is not in (0, 1), or the run lacks the decoding or its calibrator.
    """
    settings = experiment.settings
    if settings.target_error is None or run.ablated:
        return None
    target = Target.of_error(settings.target_error)
    reason = _unknown(experiment, run)
    if reason is not None:
        return _cannot_tell(reason, target, CONFIDENCE, run.label)
    return run.once(("acting", settings), lambda: _acting(experiment, run, target))


def _unknown(experiment: Experiment, run: ExperimentRun) -> str | None:
    """Return why nothing can be told of a run; None if something can."""
    if run.provenance.known in UNSURE:
        return NO_PROBABILITIES[run.provenance.known]
    leak = experiment.data.leak
    if leak is None or leak.left_out:
        return None
    return f"{len(leak.items):,} items leak; --without-leaks leaves their families out"


def _acting(experiment: Experiment, run: ExperimentRun, target: Target) -> Acting:
    rule = rule_of(run, "top", "all", experiment.settings)
    items, _ = gate_items(run, rule)
    chosen = choose_gate(items, target, CONFIDENCE)
    share = rate_over_units(items, items.accepted(chosen.threshold))
    gate = GroupGate("all", chosen, len(items.units), items.equal_units, share)
    conclusion = acting_of_gates([gate], rule, target, CONFIDENCE)
    return replace(conclusion, run=run.label, planned=False)
