"""Checks of gates and of answer sets on another run: one exact test per gate and direction.

One item of each family is drawn (`gates.py`), so that n accepted items are independent.
A gate *holds* if the drawn items show an error below the target: P(Bin(n, target) <= wrong) is at
most the level. It is *broken* if they show one above it: P(Bin(n, target) >= wrong) is at most the
level. Otherwise these data *cannot tell*. The level is 1 - confidence of the gate: a gate that
keeps its target is called broken in at most that share of checks, and one that misses it is said to
hold in at most that share. The p-values of gates that are checked together are adjusted together
(Holm), in each direction, so both shares are those of checks with any such gate.

Of answer sets, the coverage that was asked for is tested. One item of each new family is drawn, so
the missed ones are binomial. The sets of a kind hold if the drawn items show at least this
coverage, and are broken if they show less. Sets that keep it on average over choices are as small
as that allows, so their coverage is close to it: a check often cannot tell. It then says what
coverage the drawn items do show.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from pact_eval._typing import BoolArray
from pact_eval.calibration.temperatures import calibrator_sha256
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.settings import Settings
from pact_eval.numbers import plain_units
from pact_eval.plain_text import first_of, upper_first
from pact_eval.results import Result
from pact_eval.runs.custody import trained_on_runs
from pact_eval.runs.folder import RunSource
from pact_eval.runs.identity import Difference, RunIdentity
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.multiplicity import holm
from pact_eval.stats.rates import p_value_above, rate_limit, trials_needed
from pact_eval.thresholds.answer_sets import (
    FLOOR_CONFIDENCE,
    GroupSets,
    described,
    described_groups,
    set_items,
)
from pact_eval.thresholds.choice import (
    Columns,
    gate_items,
    group_rows,
    rate_over_units,
    run_with_answers,
)
from pact_eval.thresholds.files import (
    AnswerSetsFile,
    PromiseFile,
    ThresholdsFile,
    read_answer_sets,
    read_thresholds,
)
from pact_eval.thresholds.gates import GateItems, Target, gate_test

GateVerdict: TypeAlias = Literal["holds", "cannot tell", "broken"]
"""What a check says of a gate."""

_NAMES_SHOWN = 3


@dataclass(frozen=True)
class CheckedGate:
    """A gate on another run.

    Attributes:
        group: all, or the name of the kind, domain, question or answer.
        threshold: the gate; None accepts nothing.
        verdict: holds, cannot tell or broken. A gate that accepts nothing holds: it guarantees
            nothing.
        drawn: independent items that count: accepted ones, or all of them for an escalation target.
        wrong: those of them that are wrong, or escalated.
        p_holds: p-value of "the target is exceeded"; a small one shows that the gate holds. Both
            are adjusted for the gates that are checked together.
        p_broken: p-value of "the target is kept"; a small one shows that the gate is broken.
        coverage: share of the items that are accepted.
        error: error among all accepted items of the run.
        needed: families with which a verdict is likely, if the rate is as here; None if there is a
            verdict, or if a million drawn items would not do.
        units: families of the group.
        tested: families that gave a tested item.
    """

    group: str
    threshold: float | None
    verdict: GateVerdict
    drawn: int
    wrong: int
    p_holds: float
    p_broken: float
    coverage: Estimate
    error: Estimate
    needed: int | None
    units: int
    tested: int

    def seen(self, target: Target) -> str:
        """Count the tested items that are wrong, or left to a person: "4 wrong of 92 tested"."""
        what = "wrong" if target.limits_error else "left"
        return f"{self.wrong:,} {what} of {self.drawn:,} tested"


@dataclass(frozen=True, repr=False)
class PromiseCheck(Result):
    """A check of a file on a run.

    Attributes:
        run: the run.
        file: the gates or the answer sets.
        promises: what was checked: the test of a gate or of the sets of a kind, and what it
            counted.
        left_out: items that no promise is about.
    """

    run: ExperimentRun
    file: PromiseFile
    promises: tuple[tuple[CheckedGate, str], ...]
    left_out: tuple[str, ...]

    @property
    def what(self) -> str:
        """What the file promises, in the plural."""
        return "thresholds" if isinstance(self.file, ThresholdsFile) else "sets"

    @property
    def verdict(self) -> GateVerdict:
        """Broken if a promise is; otherwise cannot tell if one cannot; otherwise holds.

        Without a promise there is nothing to hold: cannot tell.
        """
        verdicts = {gate.verdict for gate, _ in self.promises if gate.threshold is not None}
        if "broken" in verdicts:
            return "broken"
        return "holds" if verdicts == {"holds"} else "cannot tell"

    @property
    def answer(self) -> str:
        """The result of the check, the worst verdict first."""
        parts, alone = [], len(self.promises) == 1
        for verdict in ("broken", "cannot tell", "holds"):
            named = []
            for gate, seen in self.promises:
                if gate.threshold is None or gate.verdict != verdict:
                    continue
                text = seen
                if gate.needed is not None:
                    units = plain_units(gate.coverage.n, gate.units, self.file.rule.unit)
                    run_size = f", the run has {gate.units:,}" if alone else ""
                    text += f"; about {gate.needed:,} {units} are needed{run_size}"
                elif alone and verdict == "cannot tell":
                    why = "the rate is too close to the target, or too few items are accepted here"
                    text += f"; {why}"
                named.append(text if alone else f"{gate.group} ({text})")
            parts += [f"{verdict}: {first_of(named)}"] if named else []
        if not parts:
            return "Cannot tell: the file guarantees nothing, so there is nothing to check."
        return upper_first(f"{'; '.join(parts)}.")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Items of the training, another model than that of the choice, items left out."""
        place, what = self.run.place, self.what
        trained = [
            f"{known.run}: {known.trained_on}, as allowed"
            for known in trained_on_runs([self.run.run])
        ]
        other = [
            f"{place}: another {difference.words} ({difference.after}) than that of the {what} "
            f"({difference.before}): they say nothing of it, and this check alone does"
            for difference in self.differences
        ]
        unknown = f"{place}: the model of the {what} or of the run is not recorded"
        left_out = [f"{place}: {text}" for text in self.left_out]
        return (*trained, *other, *([] if self.model_known else [unknown]), *left_out)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """How the model and the prompts differ from those of the choice."""
        return self.file.model.differences(RunIdentity.of(self.run.provenance))

    @property
    def model_known(self) -> bool:
        """Whether both models are known."""
        return self.file.model.names_model and RunIdentity.of(self.run.provenance).names_model


@dataclass(frozen=True, repr=False)
class ThresholdsCheck(PromiseCheck):
    """A check of thresholds on a run.

    Attributes:
        gates: one result per gate.
        without_gate: items of groups that have no gate; they are escalated.
    """

    file: ThresholdsFile
    gates: tuple[CheckedGate, ...]
    without_gate: int


def check_thresholds(
    path: Path | str, source: RunSource, settings: Settings | None = None
) -> ThresholdsCheck:
    """Check on other families whether thresholds keep their target.

    Args:
        path: file of thresholds.
        source: a run, or its folder.
        settings: the calibrator, if it is not in the run folder; None takes the defaults.

    Returns:
        One result per gate: holds, cannot tell or broken.

    Raises:
        RunError: the folder is not a complete run with references.
        InputError: the run lacks the decoding of the gates, or they were chosen on its families.
        TamperedError: the file has changed since it was written.

    Examples:
        >>> import pact_eval
        >>> file = pact_eval.choose_thresholds("runs/january", 0.3).write("thresholds.json")
        >>> pact_eval.check_thresholds(file, "runs/march").verdict
        'holds'
    """
    file = read_thresholds(Path(path))
    run = run_to_check(file, source, settings or Settings())
    items, columns = gate_items(run, file.rule)
    rows, without = _rows_to_check(file, run, columns, file.gates)
    gates = checked_gates(
        {name: items.taken(at) for name, at in rows.items()},
        file.gates,
        target=file.target,
        level=1 - file.confidence.each,
    )
    what = f"items are of another {file.rule.by} than the thresholds; they are left to a person"
    return ThresholdsCheck(
        run=run,
        file=file,
        promises=tuple((gate, gate.seen(file.target)) for gate in gates),
        left_out=(f"{without:,} {what}",) if without else (),
        gates=gates,
        without_gate=without,
    )


def run_to_check(file: PromiseFile, source: RunSource, settings: Settings) -> ExperimentRun:
    """Return a run with the views and the calibrator that a file demands.

    Raises:
        RunError: the folder is not a complete run with references.
        InputError: it cannot be decoded as the file demands.
    """
    rule = file.rule
    if rule.calibration == "as shipped":
        settings = replace(settings, calibrated=True, shipped=True)
    elif rule.calibration == "raw" and settings.calibrated:
        raise InputError(f"{file.path}: made for raw probabilities; leave out --calibration")
    run = run_with_answers(source, replace(settings, decoding=rule.decoding))
    k = run.predictions.k
    if k < rule.k:
        raise InputError(f"{file.path}: made for {rule.k} views per item, {run.place} has {k}")
    if rule.calibration != "raw":
        calibrator = run.applied(rule.decoding, calibrated=True)
        if calibrator is not None and calibrator_sha256(calibrator) != file.calibrator_sha256:
            raise InputError(
                f"{file.path}: made for probabilities of another calibrator than that of "
                f"{run.place}; give theirs with --calibration, or choose again for this one"
            )
    return run.with_views(rule.k) if rule.k > 1 else run


def _rows_to_check(
    file: PromiseFile, run: ExperimentRun, columns: Columns, names: Collection[str]
) -> tuple[dict[str, BoolArray], int]:
    """Return the items of each group that a file names, and how many belong to no such group.

    Raises:
        InputError: some families of the run are those of the choice.
    """
    shared = sorted(file.families & set(columns["family"].tolist()) - {""})
    if shared:
        named = ", ".join(shared[:_NAMES_SHOWN])
        raise InputError(
            f"{file.path}: chosen on {len(shared):,} of the families of {run.place} "
            f"({named}{', ...' if len(shared) > _NAMES_SHOWN else ''}), so a check there would "
            "flatter the choice; check it on a run of other families"
        )
    groups = group_rows(columns, file.rule.by)
    nothing = np.zeros(len(columns["family"]), dtype=np.bool_)
    without = sum(int(rows.sum()) for name, rows in groups.items() if name not in names)
    return {name: groups.get(name, nothing) for name in names}, without


def checked_gates(
    items: Mapping[str, GateItems],
    thresholds: Mapping[str, float | None],
    *,
    target: Target,
    level: float,
) -> tuple[CheckedGate, ...]:
    """Check gates together.

    Args:
        items: those of each group.
        thresholds: the gate of each group; None accepts nothing.
        target: what each gate must keep.
        level: of the exact tests, 1 - confidence, for all gates together.
    """
    alone = [
        _test_gate(group, items[group], least, target, level) for group, least in thresholds.items()
    ]
    guarantees = [gate.threshold is not None for gate in alone]
    holds, broken = (
        holm(np.where(guarantees, p_values, np.nan)).tolist()
        for p_values in ([gate.p_holds for gate in alone], [gate.p_broken for gate in alone])
    )
    checked = []
    for gate, p_holds, p_broken in zip(alone, holds, broken, strict=True):
        if gate.threshold is None:
            checked.append(gate)
            continue
        verdict: GateVerdict = "holds" if p_holds <= level else "cannot tell"
        if verdict == "cannot tell" and p_broken <= level:
            verdict = "broken"
        needed = gate.needed if verdict == "cannot tell" else None
        checked.append(
            replace(gate, verdict=verdict, p_holds=p_holds, p_broken=p_broken, needed=needed)
        )
    return tuple(checked)


def _test_gate(
    group: str, items: GateItems, threshold: float | None, target: Target, level: float
) -> CheckedGate:
    """Return a gate with its p-values alone; a gate that accepts nothing holds.

    The families that it needs are those with which the test is likely to give a verdict at the rate
    seen here.
    """
    accepted, chance = items.accepted(threshold), items.draw.chance
    drawn = items.taken(items.draw.one)
    test = gate_test(drawn, np.inf if threshold is None else threshold, target)
    seen, wrong = chance.sum(), chance[~accepted].sum()
    if target.limits_error:
        seen, wrong = chance[accepted].sum(), chance[accepted & items.wrong].sum()
    trials = None
    if threshold is not None and seen:
        trials = trials_needed(float((wrong + 0.5) / (seen + 1)), target.rate, level)
    return CheckedGate(
        group=group,
        threshold=threshold,
        verdict="holds",
        drawn=test.accepted,
        wrong=test.wrong,
        p_holds=test.p_value,
        p_broken=float(p_value_above(test.wrong, test.accepted, target.rate)),
        coverage=rate_over_units(items, accepted),
        error=rate_over_units(items, items.wrong, accepted),
        needed=None if trials is None else int(np.ceil(trials * len(items.units) / seen)),
        units=len(items.units),
        tested=len(drawn),
    )


@dataclass(frozen=True)
class CheckedSets:
    """The sets of a kind on another run.

    Attributes:
        kind: choice, boolean or score.
        threshold: least probability of an answer in a set; None takes every answer.
        test: the exact tests: `wrong` of `drawn` items are missed, `coverage` is that of all items,
            and `verdict` holds, cannot tell or broken.
        shown: coverage that the drawn items show, with the confidence of the check for all kinds
            together.
        sets: what the sets are like here.
    """

    kind: str
    threshold: float | None
    test: CheckedGate
    shown: float
    sets: GroupSets


@dataclass(frozen=True, repr=False)
class AnswerSetsCheck(PromiseCheck):
    """A check of answer sets on a run.

    Attributes:
        kinds: one result per kind of the file.
        groups: all items, and every domain if there are several.
        without_sets: items of kinds that the file does not have; they take every answer.
        unanswered: items without an answer, which have no set.
    """

    file: AnswerSetsFile
    kinds: tuple[CheckedSets, ...]
    groups: tuple[GroupSets, ...]
    without_sets: int
    unanswered: int


def check_answer_sets(
    path: Path | str, source: RunSource, settings: Settings | None = None
) -> AnswerSetsCheck:
    """Check on other families whether answer sets keep their coverage.

    Args:
        path: file of answer sets.
        source: a run, or its folder.
        settings: the calibrator, if it is not in the run folder; None takes the defaults.

    Returns:
        One result per kind: holds, cannot tell or broken.

    Raises:
        RunError: the folder is not a complete run with references.
        InputError: the run lacks the decoding of the sets, or they were chosen on its families.
        TamperedError: the file has changed since it was written.

    Examples:
        >>> import pact_eval
        >>> file = pact_eval.choose_answer_sets("runs/january", 0.9).write("sets.json")
        >>> pact_eval.check_answer_sets(file, "runs/march").verdict
        'cannot tell'
    """
    file, settings = read_answer_sets(Path(path)), settings or Settings()
    run = run_to_check(file, source, settings)
    items = set_items(run, file.rule, file.ties_seed)
    sets = items.sets(file.kinds)
    rows, without = _rows_to_check(file, run, items.columns, file.kinds)
    level = 1 - (file.confidence or FLOOR_CONFIDENCE)
    tests = checked_gates(
        {kind: items.covering.taken(at) for kind, at in rows.items()},
        file.kinds,
        target=Target.of_escalation(round(1 - file.coverage, 12)),
        level=level,
    )
    kinds, promises = [], []
    for test in tests:
        shown = _coverage_shown(test, tests, file.coverage, level)
        of_kind = described(items, test.group, rows[test.group], sets, settings)
        kinds.append(CheckedSets(test.group, test.threshold, test, shown, of_kind))
        seen = f"{test.wrong:,} of {test.drawn:,} missed, {100 * shown:.1f}% coverage is shown"
        promises.append((test, seen))
    left_out = {
        f"items are of {file.rule.by}s without sets; they take every answer": without,
        "items have no answer, and no set": items.unanswered,
    }
    return AnswerSetsCheck(
        run=run,
        file=file,
        promises=tuple(promises),
        left_out=tuple(f"{number:,} {text}" for text, number in left_out.items() if number),
        kinds=tuple(kinds),
        groups=described_groups(items, sets, settings),
        without_sets=without,
        unanswered=items.unanswered,
    )


def _coverage_shown(
    test: CheckedGate, tests: Sequence[CheckedGate], coverage: float, level: float
) -> float:
    """Return the lower limit of a coverage that agrees with the adjusted tests.

    Kinds whose sets do not hold share the level. Those that hold show the coverage, and more only
    if all kinds hold (Strassburger and Bretz 2008, for Holm's procedure).
    """
    open_tests = [other for other in tests if other.verdict != "holds"]
    if test.threshold is None:
        return 1.0
    if test.verdict == "holds" and open_tests:
        return coverage
    sharing = len(open_tests or [other for other in tests if other.threshold is not None])
    limit = 1 - rate_limit(test.wrong, test.drawn, 1 - level / sharing) if test.drawn else 0.0
    return max(limit, coverage) if test.verdict == "holds" else limit


@dataclass(frozen=True)
class GateMark:
    """The chosen gates of a file on a run of their model: what all of them together do.

    Attributes:
        run: label of the run.
        arm: its arm.
        seed: its seed.
        file: the thresholds.
        accepted: share of the items that are accepted.
        error: error among accepted items.
        own_families: families of the run that the gates were chosen on; their error is optimistic.
    """

    run: str
    arm: str
    seed: int | None
    file: ThresholdsFile
    accepted: Estimate
    error: Estimate
    own_families: int


GateNote: TypeAlias = tuple[str | None, str]
"""Why a file marks nothing, or what to know of its marks; first the label of its run, if of one."""


def gate_marks(
    experiment: Experiment, files: Sequence[ThresholdsFile]
) -> tuple[tuple[GateMark, ...], tuple[GateNote, ...]]:
    """Return what chosen gates do on the runs of their model, and notes."""
    marks: list[GateMark] = []
    notes: list[GateNote] = []
    for file in files:
        runs = [
            run
            for run in experiment.runs
            if not file.model.differences(RunIdentity.of(run.provenance))
        ]
        if not runs:
            notes.append((None, f"{file.path}: no run of its model"))
        for run in runs:
            try:
                read = run_to_check(file, run.folder, Settings())
                items, columns = gate_items(read, file.rule)
            except InputError as error:
                notes.append((run.label, str(error)))
                continue
            accepted = np.zeros(len(items), dtype=np.bool_)
            for name, rows in group_rows(columns, file.rule.by).items():
                accepted[rows] = items.taken(rows).accepted(file.gates.get(name))
            wrong = rate_over_units(items, items.wrong, accepted)
            own = len(file.families & set(columns["family"].tolist()) - {""})
            share = rate_over_units(items, accepted)
            marks.append(GateMark(run.label, run.arm, run.seed, file, share, wrong, own))
            if own:
                text = f"the gates of {file.path} were chosen on {own:,} of its families"
                notes.append((run.label, f"{text}, so their error is optimistic"))
    return tuple(marks), tuple(notes)
