"""Conclusion on acting alone: the share of the decisions that needs no review."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

from pact_eval._choices import CONFIDENCE
from pact_eval.errors import NO_PROBABILITIES
from pact_eval.evaluation.conclusions.conclusion import Conclusion, Question, Sentence, Unchecked
from pact_eval.evaluation.experiment import Experiment, RunReport
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.numbers import plain_units, rate_text, sample_text
from pact_eval.plain_text import first_of
from pact_eval.runs.folder import RunSource, open_run
from pact_eval.runs.provenance import UNSURE
from pact_eval.stats.estimate import Estimate
from pact_eval.thresholds.choice import GroupGate, Rule, Thresholds, gate_items, rate_over_units
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
        gates, target, limit = self.gates, self.target, self.target.limit
        if self.status == "share guaranteed":
            return _say_guaranteed(self, self.rule)
        if self.status == "cannot tell":
            tested = max(gate.chosen.tested_units for gate in gates)
            counted = "1 tested item is" if tested == 1 else f"{tested:,} tested items are"
            bad = "an error" if target.limits_error else "one left"
            enough = f"{least_tested(target, self.confidence):,} without {bad} would do"
            return Sentence("Cannot tell", f"{counted} too few to show {limit}; {enough}.")
        share, what = ("share", "wrong") if target.limits_error else ("threshold", "left")
        if len(gates) > 1:
            of_any = f"no {share} of any of {len(gates):,} {self.rule.by}s"
            return Sentence("No", f"{of_any} can be shown to have {limit}.")
        test, closest = gates[0].chosen.test, ""
        if test is not None:
            closest = f"; closest: {test.wrong:,} {what} of {test.accepted:,} tested"
        sample = sample_text(gates[0].coverage.n, gates[0].units, self.rule.unit)
        return Sentence("No", f"with {sample}, no {share} can be shown to have {limit}{closest}.")

    @property
    def needed(self) -> str:
        """How many items would do if no share is guaranteed; "" if that was not looked for."""
        if self.rule is None or self.status == "share guaranteed" or not self.planned:
            return ""
        gate = min(self.gates, key=lambda gate: math.inf if gate.needed is None else gate.needed)
        units = plain_units(gate.coverage.n, gate.units, self.rule.unit)
        run_size = f"the run has {gate.units:,}"
        if gate.needed is None:
            return f"nothing shows that more {units} like these would do; {run_size}"
        of_group = "" if len(self.gates) == 1 else f"{gate.group} first: "
        if gate.needed > gate.units:
            enough = f"about {gate.needed:,} {units} like these would do in 4 of 5 cases"
            return f"{of_group}{enough}; {run_size}"
        return (
            f"{of_group}its {gate.units:,} {units} would often do, but the tested items of these "
            "do not show it: score more"
        )


def _say_guaranteed(conclusion: Acting, rule: Rule) -> Sentence:
    """Say which answers need no review, of the only gate, or of the groups that have one."""
    gates, target = conclusion.gates, conclusion.target
    units = plain_units(*max((gate.coverage.n, gate.units) for gate in gates), rule.unit)
    same = rule.counting == "items" or all(gate.equal for gate in gates)
    once = "" if same else f", each {units.removesuffix('s')} counting once"
    promise = f"{target.limit} in new {units} like these{once}, with"
    if len(gates) == 1:
        verb = "have" if target.limits_error else "can be accepted, with"
        answers = sure_answers(gates[0].chosen.threshold, rule.signal)
        share = f"{rate_text(gates[0].coverage)} of the items"
        with_sure = f"{promise} {100 * conclusion.confidence:.4g}% confidence"
        return Sentence("Yes", f"{answers} ({share}) {verb} {with_sure}.")
    kept = [gate.group for gate in gates if gate.guaranteed]
    left = [gate.group for gate in gates if not gate.guaranteed]
    rest = f"; no share is shown for {first_of(left)}" if left else ""
    sure, scope = conclusion.confidence, "each"
    if conclusion.together:
        sure, scope = 1 - (1 - sure) * len(gates), "all together"
    return Sentence(
        f"Yes, {'for' if rule.by == 'answer' else 'in'} {first_of(kept)}",
        f"{promise} {100 * sure:.4g}% confidence, {scope}{rest}.",
    )


def acting(thresholds: Thresholds) -> Acting:
    """Conclude from chosen gates whether the model may act alone.

    Args:
        thresholds: the gates of a run.

    Returns:
        "share guaranteed" if at least one group has a gate; "cannot tell" if no group has enough
        tested families for any gate; otherwise "none shown". Groups with too few tested families
        are listed as unchecked.
    """
    sure = thresholds.confidence_of_each
    conclusion = _concluded(thresholds.gates, thresholds.rule, thresholds.target, sure)
    share = thresholds.share if conclusion.status == "share guaranteed" else None
    return replace(conclusion, together=thresholds.together, share=share)


def _concluded(
    gates: tuple[GroupGate, ...], rule: Rule, target: Target, confidence: float
) -> Acting:
    """Conclude as `acting`; the share is that of the only gate."""
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
    status: ActingStatus = "cannot tell" if len(unchecked) == len(gates) else "none shown"
    if any(gate.guaranteed for gate in gates):
        status = "share guaranteed"
    return Acting(
        status=status,
        target=target,
        confidence=confidence,
        share=gates[0].coverage if status == "share guaranteed" and len(gates) == 1 else None,
        rule=rule,
        gates=gates,
        unchecked=unchecked,
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
    unchecked = (Unchecked("gates", NO_PROBABILITIES[known]),)
    return Acting(status="cannot tell", target=target, confidence=confidence, unchecked=unchecked)


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
    settings, leak = experiment.settings, experiment.data.leak
    if settings.target_error is None or run.ablated:
        return None
    target, reason = Target.of_error(settings.target_error), None
    if run.provenance.known in UNSURE:
        reason = NO_PROBABILITIES[run.provenance.known]
    elif leak is not None and not leak.left_out:
        reason = f"{len(leak.items):,} items leak; --without-leaks leaves their families out"
    if reason is not None:
        unchecked = (Unchecked("gates", reason),)
        return Acting(
            status="cannot tell",
            target=target,
            confidence=CONFIDENCE,
            run=run.label,
            unchecked=unchecked,
        )

    def concluded() -> Acting:
        rule = Rule.of(run, settings)
        items, _ = gate_items(run, rule)
        chosen = choose_gate(items, target, CONFIDENCE)
        share = rate_over_units(items, items.accepted(chosen.threshold))
        gate = GroupGate("all", chosen, len(items.units), items.equal_units, share)
        conclusion = _concluded((gate,), rule, target, CONFIDENCE)
        return replace(conclusion, run=run.label, planned=False)

    return run.once(("acting", settings), concluded)
