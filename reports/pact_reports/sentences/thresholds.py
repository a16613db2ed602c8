"""Thresholds and answer sets in words: conclusions on acting alone, and results of checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pact_eval._choices import ClusterUnit
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.runs.custody import trained_on_runs
from pact_eval.runs.identity import Difference
from pact_eval.thresholds.answer_sets import AnswerSets, KindSets
from pact_eval.thresholds.checking import CheckedGate, ThresholdsCheck
from pact_eval.thresholds.choice import Rule, Thresholds
from pact_eval.thresholds.conclusion import Acting, ActingGate, acting
from pact_eval.thresholds.decision_curves import GateMarks
from pact_eval.thresholds.files import ThresholdsFile
from pact_eval.thresholds.set_checking import AnswerSetsCheck, CheckedSets
from pact_eval.thresholds.targets import Target
from pact_reports.arm_names import ArmNames
from pact_reports.numbers import CLUSTER, CLUSTERS, interval_text, p_value_text
from pact_reports.sentences.conclusions import Said
from pact_reports.sentences.custody import trained_on_text
from pact_reports.tables.answer_sets import promise_text
from pact_reports.tables.thresholds import SIGNAL_NAMES, gate_text, named, target_text


def thresholds_answer(thresholds: Thresholds) -> str:
    """Write the share of the decisions that a run may take, or the reason for no guarantee."""
    return acting_answer(acting(thresholds))


def acting_answer(conclusion: Acting) -> str:
    """Write the conclusion to "May it act alone?" in a sentence or two."""
    return str(acting_words(conclusion))


def acting_words(conclusion: Acting) -> Said:
    """Write the share of its decisions that a model may take alone, or the reason for none.

    Example:
        "May decide 41.0 [36.2, 46.0]% of the items, those with top probability 0.93 or more: ..."
    """
    if conclusion.rule is None:
        reasons = "; ".join(part.reason for part in conclusion.unchecked)
        return Said("Cannot tell", f"{reasons}.")
    unit = conclusion.rule.unit
    target = target_text(conclusion.target)
    sure = f"with {100 * conclusion.confidence:.4g}% confidence"
    match conclusion.status:
        case "share guaranteed":
            return _guaranteed(conclusion, conclusion.rule)
        case "cannot tell":
            return Said(
                "Cannot tell",
                f"too few families to show {target} {sure}; {_most_needed(conclusion, unit)}.",
            )
        case "none shown":
            groups = f" for any of {len(conclusion.gates):,} groups"
            return Said(
                f"No share can be guaranteed{groups if len(conclusion.gates) > 1 else ''}",
                f"{target} is not shown {sure}{_seen(conclusion)}; "
                f"{_most_needed(conclusion, unit)}.",
            )


def acting_text(conclusion: Acting) -> str:
    """Write the same on a line: without the gate that came closest, and the families needed.

    Nor with the confidence, which is 95% in every report.
    """
    words = acting_words(conclusion)
    if conclusion.rule is None or conclusion.status == "share guaranteed":
        return str(words).removesuffix(".")
    return f"{words.finding}: {target_text(conclusion.target)} is not shown"


def check_answer(check: ThresholdsCheck) -> str:
    """Write the result of a check, gate by gate if there are few."""
    if all(gate.threshold is None for gate in check.gates):
        return "Cannot tell: the file guarantees nothing, so there is no gate to check."
    promised = [gate for gate in check.gates if gate.threshold is not None]
    if len(check.gates) == 1:
        return _checked(promised[0], check.file)
    unit = check.file.rule.unit
    parts = []
    for verdict in ("broken", "cannot tell", "holds"):
        groups = [_with_needed(gate, unit) for gate in promised if gate.verdict == verdict]
        parts += [f"{verdict}: {named(groups)}"] if groups else []
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def tested_text(gate: CheckedGate, target: Target) -> str:
    """Count the tested items of a gate that are wrong, or escalated."""
    what = "wrong" if target.limits_error else "escalated"
    return f"{gate.wrong:,} {what} of {gate.drawn:,} tested"


def check_warnings(check: ThresholdsCheck) -> Iterator[str]:
    """Yield the caveats of a check: other models and prompts, items without a gate."""
    yield from model_warnings(check.run, check.differences, check.model_known, "thresholds")
    if check.without_gate:
        yield (
            f"{check.run.place}: {check.without_gate:,} items belong to groups without a gate; "
            "they are escalated"
        )


def model_warnings(
    run: ExperimentRun, differences: Iterable[Difference], recorded: bool, what: str
) -> Iterator[str]:
    """Yield the differences of the model of a run from that of a choice.

    Args:
        run: the run.
        differences: between both models.
        recorded: whether both are recorded.
        what: what was chosen, in the plural.
    """
    for trained in trained_on_runs([run.run]):
        yield f"{trained.run}: {trained_on_text(trained.trained_on)}, as allowed"
    for difference in differences:
        yield (
            f"{run.place}: another {difference.words} ({difference.after}) than that of the "
            f"{what} ({difference.before}): their guarantee does not cover it, and only this check "
            "speaks for it"
        )
    if not recorded:
        yield f"{run.place}: the model of the {what} or of the run is not recorded"


def gate_notes(marks: GateMarks, names: ArmNames) -> tuple[str, ...]:
    """Write the notes on chosen gates, with the display names of runs."""
    return tuple(
        note.text if note.run is None else f"{names.run(note.run)}: {note.text}"
        for note in marks.notes
    )


def _guaranteed(conclusion: Acting, rule: Rule) -> Said:
    target, once = target_text(conclusion.target), counting_once(conclusion.gates, rule)
    if len(conclusion.gates) == 1:
        (gate,) = conclusion.gates
        return Said(
            f"May decide {interval_text(gate.share, 'percent', '%')} of the items, those with "
            f"{_condition(gate, rule)}",
            f"{target} in new {CLUSTERS[rule.unit]}{once}, with "
            f"{100 * conclusion.confidence:.4g}% confidence.",
        )
    kept = [gate.group for gate in conclusion.gates if gate.threshold is not None]
    left = [gate.group for gate in conclusion.gates if gate.threshold is None]
    rest = f" Nothing can be guaranteed for {named(left)}." if left else ""
    level = 1 - conclusion.confidence
    sure = 1 - level * len(conclusion.gates) if conclusion.together else conclusion.confidence
    scope = "all together" if conclusion.together else "each"
    return Said(
        f"May decide in {named(kept)}",
        f"{target} in new {CLUSTERS[rule.unit]}{once}, with "
        f"{100 * sure:.4g}% confidence, {scope}.{rest}",
    )


def counting_once(gates: Sequence[ActingGate], rule: Rule) -> str:
    """Explain that every family counts once, if family sizes differ."""
    if rule.counting == "items" or all(gate.equal for gate in gates):
        return ""
    return f", each {CLUSTER[rule.unit]} counting once"


def _seen(conclusion: Acting) -> str:
    """Return the failed test of the only gate in brackets; nothing for several gates."""
    gate = conclusion.gates[0]
    if len(conclusion.gates) > 1 or gate.p_value is None:
        return ""
    what = "wrong" if conclusion.target.limits_error else "escalated"
    return (
        f" ({gate.wrong:,} of {gate.accepted:,} tested items are {what} at the most promising "
        f"gate, {p_value_text(gate.p_value)})"
    )


def _needed(gate: ActingGate, unit: ClusterUnit) -> str:
    units = CLUSTERS[unit]
    run_size = f"the run has {gate.families:,}"
    if gate.needed is None:
        return f"nothing shows that more {units} like these would do, {run_size}"
    if gate.needed <= gate.families:
        return (
            f"its {gate.families:,} {units} would often do, but the drawn items of these do not "
            "show it: score more"
        )
    return f"about {gate.needed:,} {units} like these would do in 4 of 5 cases, {run_size}"


def _most_needed(conclusion: Acting, unit: ClusterUnit) -> str:
    gates = conclusion.gates
    if not conclusion.planned:
        return f"`pact-eval thresholds` says whether more {CLUSTERS[unit]} would do"
    planned = [gate for gate in gates if gate.needed is not None]
    if len(gates) == 1:
        return _needed(gates[0], unit)
    if not planned:
        return f"nothing shows that more {CLUSTERS[unit]} like these would do"
    least = min(planned, key=lambda gate: gate.needed or 0)
    return f"{least.group} comes first: {_needed(least, unit)}"


def _condition(gate: ActingGate, rule: Rule) -> str:
    text = gate_text(gate.threshold, rule.signal)
    return "an answer" if text == "every answer" else f"{SIGNAL_NAMES[rule.signal]} {text}"


def _with_needed(gate: CheckedGate, unit: ClusterUnit) -> str:
    if gate.needed is None:
        return gate.group
    return f"{gate.group} (about {gate.needed:,} {CLUSTERS[unit]} are needed)"


def _checked(gate: CheckedGate, file: ThresholdsFile) -> str:
    shown = tested_text(gate, file.target)
    if gate.verdict == "cannot tell":
        units = CLUSTERS[file.rule.unit]
        enough = (
            f"about {gate.needed:,} {units} are needed, the run has {gate.units:,}"
            if gate.needed is not None
            else "the rate is too close to the target, or too few items are accepted here"
        )
        return f"Cannot tell: {shown}; {enough}."
    return f"{gate.verdict.capitalize()}: {shown}."


def sets_answer(sets: AnswerSets) -> str:
    """Write the sizes of the sets, and the kinds without sets smaller than all answers."""
    kept = [_size(kind) for kind in sets.kinds if kind.level.threshold is not None]
    left = [_needs(kind, sets.rule.unit) for kind in sets.kinds if kind.level.threshold is None]
    rest = (
        f"no set smaller than all answers can be guaranteed for {'; '.join(left)}" if left else ""
    )
    if not kept:
        return f"{rest[:1].upper()}{rest[1:]}."
    guarantee = f"{promise_text(sets)}: {', '.join(kept)}"
    return f"{guarantee[:1].upper()}{guarantee[1:]}{f'; {rest}' if rest else ''}."


def sets_check_answer(check: AnswerSetsCheck) -> str:
    """Write the result of a check, kind by kind."""
    promised = [kind for kind in check.kinds if kind.threshold is not None]
    if not promised:
        return "Cannot tell: the file guarantees nothing, so there are no sets to check."
    parts = []
    for verdict in ("broken", "cannot tell", "holds"):
        kinds = [
            _checked_sets(kind, check.file.rule.unit)
            for kind in promised
            if kind.test.verdict == verdict
        ]
        parts += [f"{verdict}: {named(kinds)}"] if kinds else []
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def sets_check_warnings(check: AnswerSetsCheck) -> Iterator[str]:
    """Yield the caveats of a check: other models, items without a set."""
    yield from model_warnings(check.run, check.differences, check.model_known, "sets")
    if check.without_sets:
        yield (
            f"{check.run.place}: {check.without_sets:,} items are of kinds without sets; they "
            "take every answer"
        )
    if check.unanswered:
        yield f"{check.run.place}: {check.unanswered:,} items have no answer, and no set"


def _size(kind_sets: KindSets) -> str:
    kind, sets = kind_sets.kind, kind_sets.sets
    what = "levels" if kind == "score" else "answers"
    return f"{sets.size.value:.2f} of {sets.answers:.2f} {what} for {kind}"


def _needs(kind_sets: KindSets, unit: ClusterUnit) -> str:
    enough = (
        ""
        if kind_sets.needed is None
        else f"about {kind_sets.needed:,} {CLUSTERS[unit]} would do, "
    )
    return f"{kind_sets.kind} ({enough}the run has {kind_sets.sets.units:,})"


def missed_text(test: CheckedGate) -> str:
    """Count the tested items whose set lacks the right answer."""
    return f"{test.wrong:,} of {test.drawn:,} missed"


def _checked_sets(checked: CheckedSets, unit: ClusterUnit) -> str:
    test = checked.test
    seen = f"{missed_text(test)}, {100 * checked.shown:.1f}% coverage is shown"
    if test.needed is None:
        return f"{checked.kind} ({seen})"
    return f"{checked.kind} ({seen}; about {test.needed:,} {CLUSTERS[unit]} are needed)"
