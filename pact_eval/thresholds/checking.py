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

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from pact_eval._choices import ClusterUnit
from pact_eval._typing import BoolArray, TextArray
from pact_eval.calibration.temperatures import calibrator_sha256
from pact_eval.errors import InputError
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
from pact_eval.stats.proportions import p_value_above, rate_limit, trials_needed
from pact_eval.thresholds.answer_sets import (
    FLOOR_CONFIDENCE,
    GroupSets,
    described,
    described_groups,
    made_sets,
    set_items,
)
from pact_eval.thresholds.choice import gate_items, group_rows, rate_over_units, run_with_answers
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


@dataclass(frozen=True)
class Promise:
    """One checked promise: a gate, or the sets of a kind.

    Attributes:
        name: group or kind.
        gate: the test.
        seen: what it counted.
    """

    name: str
    gate: CheckedGate
    seen: str

    @property
    def made(self) -> bool:
        """Whether something was promised."""
        return self.gate.threshold is not None

    def words(self, unit: ClusterUnit, *, alone: bool) -> str:
        """Write what was counted, and how many items would do; with the name, if not alone."""
        needed = ""
        if self.gate.needed is not None:
            units = plain_units(self.gate.coverage.n, self.gate.units, unit)
            run_size = f", the run has {self.gate.units:,}" if alone else ""
            needed = f"; about {self.gate.needed:,} {units} are needed{run_size}"
        elif alone and self.gate.verdict == "cannot tell":
            needed = "; the rate is too close to the target, or too few items are accepted here"
        return f"{self.seen}{needed}" if alone else f"{self.name} ({self.seen}{needed})"


@dataclass(frozen=True, repr=False)
class PromiseCheck(Result, ABC):
    """A check of a file on a run.

    Attributes:
        run: the run.
        file: the gates or the answer sets.
    """

    what: ClassVar[str]
    """What the file promises, in the plural."""

    run: ExperimentRun
    file: PromiseFile

    @property
    @abstractmethod
    def promises(self) -> tuple[Promise, ...]:
        """What was checked."""

    @property
    @abstractmethod
    def left_out(self) -> tuple[str, ...]:
        """Items that no promise is about."""

    @property
    def verdict(self) -> GateVerdict:
        """Broken if a promise is; otherwise cannot tell if one cannot; otherwise holds.

        Without a promise there is nothing to hold: cannot tell.
        """
        verdicts = {promise.gate.verdict for promise in self.promises if promise.made}
        if "broken" in verdicts:
            return "broken"
        return "holds" if verdicts == {"holds"} else "cannot tell"

    @property
    def answer(self) -> str:
        """The result of the check, the worst verdict first."""
        if not any(promise.made for promise in self.promises):
            return "Cannot tell: the file guarantees nothing, so there is nothing to check."
        parts = []
        for verdict in ("broken", "cannot tell", "holds"):
            named = [
                promise.words(self.file.rule.unit, alone=len(self.promises) == 1)
                for promise in self.promises
                if promise.made and promise.gate.verdict == verdict
            ]
            parts += [f"{verdict}: {first_of(named)}"] if named else []
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

    what: ClassVar[str] = "thresholds"

    file: ThresholdsFile
    gates: tuple[CheckedGate, ...]
    without_gate: int

    @property
    def promises(self) -> tuple[Promise, ...]:
        """The gates."""
        target = self.file.target
        return tuple(Promise(gate.group, gate, gate.seen(target)) for gate in self.gates)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Items of groups that have no gate."""
        if not self.without_gate:
            return ()
        by = self.file.rule.by
        what = f"items are of another {by} than the thresholds; they are left to a person"
        return (f"{self.without_gate:,} {what}",)


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
    return ThresholdsCheck(run, file, gates, without_gate=without)


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
    file: PromiseFile, run: ExperimentRun, columns: Mapping[str, TextArray], names: Collection[str]
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
    return tuple(
        _judge(gate, level, p_holds, p_broken) if gate.threshold is not None else gate
        for gate, p_holds, p_broken in zip(alone, holds, broken, strict=True)
    )


def _judge(gate: CheckedGate, level: float, p_holds: float, p_broken: float) -> CheckedGate:
    """Return a gate with its verdict, from p-values that are adjusted for all gates."""
    verdict: GateVerdict = "cannot tell"
    if p_holds <= level:
        verdict = "holds"
    elif p_broken <= level:
        verdict = "broken"
    needed = gate.needed if verdict == "cannot tell" else None
    return replace(gate, verdict=verdict, p_holds=p_holds, p_broken=p_broken, needed=needed)


def _test_gate(
    group: str, items: GateItems, threshold: float | None, target: Target, level: float
) -> CheckedGate:
    """Return a gate with its p-values alone; a gate that accepts nothing holds."""
    accepted = items.accepted(threshold)
    drawn = items.taken(items.draw.one)
    test = gate_test(drawn, np.inf if threshold is None else threshold, target)
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
        needed=None if threshold is None else _families_needed(items, threshold, target, level),
        units=len(items.units),
        tested=len(drawn),
    )


def _families_needed(
    items: GateItems, threshold: float, target: Target, level: float
) -> int | None:
    """Return the families with which the test is likely to give a verdict at the rate seen here."""
    accepted, chance = items.accepted(threshold), items.draw.chance
    if target.limits_error:
        seen, wrong = chance[accepted].sum(), chance[accepted & items.wrong].sum()
    else:
        seen, wrong = chance.sum(), chance[~accepted].sum()
    trials = trials_needed(float((wrong + 0.5) / (seen + 1)), target.rate, level) if seen else None
    return None if trials is None else int(np.ceil(trials * len(items.units) / seen))


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

    @property
    def seen(self) -> str:
        """The tested items whose set lacks the right answer, and the coverage that they show."""
        shown = f"{100 * self.shown:.1f}% coverage is shown"
        return f"{self.test.wrong:,} of {self.test.drawn:,} missed, {shown}"


@dataclass(frozen=True, repr=False)
class AnswerSetsCheck(PromiseCheck):
    """A check of answer sets on a run.

    Attributes:
        kinds: one result per kind of the file.
        groups: all items, and every domain if there are several.
        without_sets: items of kinds that the file does not have; they take every answer.
        unanswered: items without an answer, which have no set.
    """

    what: ClassVar[str] = "sets"

    file: AnswerSetsFile
    kinds: tuple[CheckedSets, ...]
    groups: tuple[GroupSets, ...]
    without_sets: int
    unanswered: int

    @property
    def promises(self) -> tuple[Promise, ...]:
        """The sets of the kinds."""
        return tuple(Promise(kind.kind, kind.test, kind.seen) for kind in self.kinds)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Items of kinds that have no sets, and items without an answer."""
        counted = {
            f"items are of {self.file.rule.by}s without sets; they take every answer": (
                self.without_sets
            ),
            "items have no answer, and no set": self.unanswered,
        }
        return tuple(f"{items:,} {text}" for text, items in counted.items() if items)


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
    made = made_sets(items, file.kinds)
    rows, without = _rows_to_check(file, run, items.columns, file.kinds)
    confidence = file.confidence or FLOOR_CONFIDENCE
    tests = checked_gates(
        {kind: items.covering.taken(at) for kind, at in rows.items()},
        file.kinds,
        target=Target.of_escalation(round(1 - file.coverage, 12)),
        level=1 - confidence,
    )
    kinds = tuple(
        CheckedSets(
            kind=test.group,
            threshold=test.threshold,
            test=test,
            shown=_coverage_shown(test, tests, file.coverage, 1 - confidence),
            sets=described(items, test.group, rows[test.group], made, settings),
        )
        for test in tests
    )
    return AnswerSetsCheck(
        run=run,
        file=file,
        kinds=kinds,
        groups=described_groups(items, made, settings),
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
