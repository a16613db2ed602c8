"""Thresholds and answer sets in words: conclusions on acting alone, and results of checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pact_eval._choices import ClusterUnit
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.numbers import CLUSTERS
from pact_eval.plain_text import first_of, upper_first
from pact_eval.runs.custody import trained_on_runs
from pact_eval.runs.identity import Difference
from pact_eval.thresholds.answer_sets import AnswerSets, KindSets
from pact_eval.thresholds.checking import CheckedGate, ThresholdsCheck
from pact_eval.thresholds.decision_curves import GateMarks
from pact_eval.thresholds.files import ThresholdsFile
from pact_eval.thresholds.set_checking import AnswerSetsCheck, CheckedSets
from pact_eval.thresholds.targets import Target
from pact_reports.tables.answer_sets import promise_text


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
        parts += [f"{verdict}: {first_of(groups)}"] if groups else []
    text = "; ".join(parts)
    return upper_first(f"{text}.")


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
        yield f"{trained.run}: {trained.trained_on}, as allowed"
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
        parts += [f"{verdict}: {first_of(kinds)}"] if kinds else []
    text = "; ".join(parts)
    return upper_first(f"{text}.")


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
