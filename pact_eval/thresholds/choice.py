"""The thresholds of a run: a gate for all items or for every group of them, and its effect.

With several gates, `confidence` holds for each of them alone, and all G of them keep their targets
together with a confidence of at least 1 - G (1 - confidence). `together=True` tests each at
(1 - confidence) / G instead (Bonferroni), so that `confidence` holds for all of them together.

The group of an item is what is known without its right answer: its kind, domain or question, or the
answer that the model gives. A gate of an answer therefore limits the share of wrong ones among the
accepted items with this answer, which is 1 minus the precision of the answer there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
from msgspec.structs import replace as changed

from pact_eval._choices import CONFIDENCE, ClusterUnit, Counting, Decoding, GateGroups, Signal
from pact_eval._typing import BoolArray, FloatArray, TextArray
from pact_eval.calibration.temperatures import CalibrationWarning
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun, questions_of
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import MOST_TEXTS, ordered_groups
from pact_eval.evaluation.registry import MEAN_CONFIDENCE
from pact_eval.evaluation.report import Calibration
from pact_eval.evaluation.run_records import item_texts
from pact_eval.evaluation.settings import Settings
from pact_eval.numbers import CLUSTER
from pact_eval.results import Framed, Writable
from pact_eval.runs.custody import TrainedOnRun, refuse_trained_on, trained_on_runs
from pact_eval.runs.folder import RunSource, open_run, unanswered_items
from pact_eval.runs.identity import QUESTION, several_questions
from pact_eval.runs.provenance import UNNAMED
from pact_eval.runs.rows import metadata_of_rows
from pact_eval.schema import Section
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.proportions import critical_count, p_value_below, rate_estimate, trials_needed
from pact_eval.thresholds.gates import (
    SIGNALS,
    ChosenGate,
    GateItems,
    Target,
    choose_gate,
    expected_cost,
    starts_of_tests,
    sureness,
)

CHANCE: Final = 0.8
"""Chance of a gate with the number of families of a plan."""

MOST_FAMILIES: Final = 1_000_000
"""Plans with more families are not made."""

_STEP: Final = 1.03
_ADDED: Final = 0.5
_SIGNIFICANT: Final = 1.645


def families_needed(items: GateItems, target: Target, confidence: float) -> int | None:
    """Return the number of families with which a gate is likely to be guaranteed.

    Args:
        items: the items of some families; more families are assumed to be like these.
        target: what the gate must keep.
        confidence: of the guarantee.

    Returns:
        Families with which the chance is 80%. None if the first gates that are tested seem to miss
        the target, if nothing shows that a gate has a lower error than all items, or if a million
        families would not do.
    """
    if len(items.units) < 2:
        return None
    level = 1 - confidence
    if not target.limits_error:
        return _for_escalation(items, target, level)
    if not (_keeps_without_gate(items, target) or surer_is_better(items)):
        return None
    plan = _Plan.of(items, target.rate, level)
    steps = int(np.log(MOST_FAMILIES) / np.log(_STEP))
    sizes = np.unique(np.ceil(_STEP ** np.arange(steps + 1)).astype(np.int64))
    low, high = -1, len(sizes) - 1
    if plan.chance(int(sizes[high])) < CHANCE:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = plan.chance(int(sizes[middle])) >= CHANCE
        low, high = (low, middle) if enough else (middle, high)
    return int(sizes[high])


def surer_is_better(items: GateItems) -> bool:
    """Return whether a run shows, at 5%, that surer answers are right more often.

    Tests the covariance of the rank of the sureness and of being right, with families as units.

    Args:
        items: items of two families or more.
    """
    answered = items.taken(items.sureness > -np.inf)
    if len(answered) < 2:
        return False
    _, code, counts = np.unique(answered.sureness, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[code]
    right = ~answered.wrong - (~answered.wrong).mean()
    of_family = np.bincount(answered.units.codes, weights=(rank - rank.mean()) * right)
    spread = np.sqrt((of_family**2).sum())
    return bool(of_family.sum() > _SIGNIFICANT * spread) and bool(spread > 0)


def _keeps_without_gate(items: GateItems, target: Target) -> bool:
    accepted = items.accepted(-np.inf)
    wrong, n = int((accepted & items.wrong).sum()), int(accepted.sum())
    return (wrong + _ADDED) / (n + 2 * _ADDED) < target.rate


def _for_escalation(items: GateItems, target: Target, level: float) -> int | None:
    """Return the families for the loosest gate, which is tested first."""
    chance = items.draw.chance
    escalated = float(chance[~items.accepted(-np.inf)].sum())
    rate = (escalated + 0.5) / (chance.sum() + 1)
    trials = trials_needed(float(rate), target.rate, level) if rate < target.rate else None
    if trials is None:
        return None
    per_family = chance.sum() / len(items.units)
    return int(np.ceil(trials / per_family))


@dataclass(frozen=True, eq=False)
class _Plan:
    """What gates at every share of the items would have as errors.

    Attributes:
        share: (n,) share of the drawn items that the gate at each item accepts, ascending.
        error: (n,) error among them, with added items.
        drawn: drawn items with an answer per family.
        rate: the target.
        level: of the tests together.
    """

    share: FloatArray
    error: FloatArray
    drawn: float
    rate: float
    level: float

    @classmethod
    def of(cls, items: GateItems, rate: float, level: float) -> _Plan:
        """Count what the gate at each item accepts, items as sure as it included."""
        rows = np.flatnonzero(items.sureness > -np.inf)
        rows = rows[np.argsort(-items.sureness[rows])]
        sure, chance, wrong = items.sureness[rows], items.draw.chance[rows], items.wrong[rows]
        last = np.searchsorted(-sure, -sure, side="right") - 1
        drawn, n = np.cumsum(chance)[last], last + 1
        error = np.cumsum(chance * wrong)[last] / drawn
        error = (n * error + _ADDED) / (n + 2 * _ADDED)
        return cls(drawn / drawn[-1], error, float(drawn[-1]) / len(items.units), rate, level)

    def chance(self, families: int) -> float:
        """Return the chance that the first test of a sequence passes, with so many families."""
        from scipy import stats

        n = int(families * self.drawn)
        tests = [
            (start, int(critical_count(start, self.rate, level)), self._errors(start, n))
            for start, level in starts_of_tests(n, self.rate, self.level)
        ]
        if not tests:
            return 0.0
        first, most, errors = tests[0]
        chance = float(p_value_below(most, first, errors / first))
        for start, more, later in tests[1:]:
            wrong = np.arange(most + 1, more + 1)  # too many for the first, not for the second
            rate = min(max((later - errors) / (start - first), 0.0), 1.0)
            passes = p_value_below(more - wrong, start - first, rate)
            chance += float(stats.binom.pmf(wrong, first, errors / first) @ passes)
        return chance

    def _errors(self, accepted: int, drawn: int) -> float:
        """Return the errors to expect among so many accepted of the drawn items."""
        at = np.searchsorted(self.share, accepted / drawn)
        return accepted * float(self.error[min(int(at), len(self.error) - 1)])


MOST_FOLDS: Final = 10
"""Folds of the cross-validation; more source families than these share folds."""


class Rule(Section, frozen=True, omit_defaults=False, forbid_unknown_fields=True):
    """Signal, decoding, groups and units of a gate.

    Attributes:
        signal: top, margin, entropy or disagreement.
        decoding: single or ensemble.
        calibration: raw or calibrated.
        k: views per item that decoding and signal need; 1 for view 0 alone.
        by: which items share a gate.
        unit: families, or source families, as units of the tests.
        counting: whether every unit counts the same in the guarantee, or every item.
    """

    signal: Signal = "top"
    decoding: Decoding = "single"
    calibration: Calibration = "raw"
    k: int = 1
    by: GateGroups = "all"
    unit: ClusterUnit = "family"
    counting: Counting = "families"

    @property
    def counting_text(self) -> str:
        """What counts the same, to end a sentence on families; nothing if items do."""
        return "" if self.counting == "items" else f", each {CLUSTER[self.unit]} counting once"


@dataclass(frozen=True)
class GroupGate:
    """A gate of a group of items.

    Attributes:
        group: all, or the name of the kind, domain, question or answer.
        chosen: the gate and its tests.
        units: families.
        equal: whether they have the same size, so that it does not matter what counts the same.
        coverage: share of the items that are accepted.
        needed: families with which a gate is likely to be guaranteed, if none is; None if unknown.
    """

    group: str
    chosen: ChosenGate
    units: int
    equal: bool
    coverage: Estimate
    needed: int | None = None

    @property
    def guaranteed(self) -> bool:
        """Whether a gate was found."""
        return self.chosen.threshold is not None


@dataclass(frozen=True, kw_only=True)
class Gate(GroupGate):
    """A gate and what it does on the run.

    Attributes:
        items: items of the group, unanswered ones included.
        unanswered: items without an answer, which are always escalated.
        same_items_error: error among the accepted items of this run, on which the gate was chosen.
        realised_error: error among accepted items of source families that were left out when their
            gate was chosen (cross-validated).
        realised_coverage: share of items that those gates accept.
        cost: expected cost per item of the gate, and of reviewing everything; None without costs.
    """

    items: int
    unanswered: int
    same_items_error: Estimate
    realised_error: Estimate
    realised_coverage: Estimate
    cost: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Alternative:
    """The coverage that another rule would guarantee for all items, alone.

    Attributes:
        rule: what it looks at.
        threshold: its gate; None if none is guaranteed.
        coverage: share of the items that it accepts; 0 without a gate.
    """

    rule: Rule
    threshold: float | None
    coverage: float


@dataclass(frozen=True, repr=False)
class Thresholds(Framed, Writable):
    """The gates of a run.

    Attributes:
        run: the run, with its provenance.
        rule: what the gates look at.
        target: what they keep.
        confidence: that was asked for.
        together: whether it holds for all gates together, or for each alone.
        gates: one for every group.
        share: share of all items that the gates accept.
        alternatives: what other signals, decodings and calibrations would guarantee.
        families: names of the families that the gates were chosen on.
        source_families: names of their source families.
    """

    run: ExperimentRun
    rule: Rule
    target: Target
    confidence: float
    together: bool
    gates: tuple[Gate, ...]
    share: Estimate
    alternatives: tuple[Alternative, ...]
    families: tuple[str, ...]
    source_families: tuple[str, ...]

    @property
    def warnings(self) -> tuple[CalibrationWarning | TrainedOnRun, ...]:
        """Items of the training, and what to know of the calibrator that was applied."""
        return choice_warnings(self.run, self.rule)

    @property
    def confidence_of_each(self) -> float:
        """Confidence of each gate alone."""
        return _confidence_of_each(self.confidence, len(self.gates), together=self.together)

    @property
    def confidence_of_all(self) -> float:
        """Confidence that all gates keep their targets; at least this, and 0 if it says nothing."""
        return max(0.0, 1 - len(self.gates) * (1 - self.confidence_of_each))


def choose_thresholds(
    source: RunSource,
    target: Target | float,
    *,
    signal: Signal = "top",
    by: GateGroups = "all",
    confidence: float = CONFIDENCE,
    together: bool = False,
    counting: Counting = "families",
    settings: Settings | None = None,
) -> Thresholds:
    """Choose which decisions need no review, as `pact-eval thresholds` does.

    Args:
        source: a run of families on which nothing was fitted.
        target: the largest error among accepted items, or a `pact_eval.thresholds.Target`.
        signal: what the gates are on: top, margin, entropy or disagreement.
        by: which items share a gate: all, those of a kind, domain or question, or those to which
            the model gives the same answer.
        confidence: of the guarantee, in (0, 1).
        together: whether it holds for all gates together, or for each alone.
        counting: whether every family counts the same in the guarantee, or every item.
        settings: decoding, calibrator and unit; None takes the defaults.

    Returns:
        The gates, with their tests, coverage and errors. `write(path)` stores them.

    Raises:
        RunError: the folder is not a complete run with references.
        InputError: the run lacks the decoding, the calibrator or the views.

    Examples:
        >>> import pact_eval
        >>> thresholds = pact_eval.choose_thresholds("runs/january", 0.3)
        >>> [(gate.group, gate.guaranteed) for gate in thresholds.gates]
        [('all', True)]
    """
    settings = settings or Settings()
    run = run_with_answers(source, settings)
    target = target if isinstance(target, Target) else Target.of_error(target)
    rule = changed(rule_of(run, signal, by, settings), counting=counting)
    items, groups = gate_items(run, rule)
    rows = group_rows(groups, by)
    confidence_of_gate = _confidence_of_each(confidence, len(rows), together=together)
    gates = tuple(
        _gate(name, items.taken(at), target, confidence_of_gate) for name, at in rows.items()
    )
    accepted = np.zeros(len(items), dtype=np.bool_)
    for gate, at in zip(gates, rows.values(), strict=True):
        accepted |= at & items.accepted(gate.chosen.threshold)
    return Thresholds(
        run=run,
        rule=rule,
        target=target,
        confidence=confidence,
        together=together,
        gates=gates,
        share=rate_over_units(items, accepted),
        alternatives=tuple(_alternatives(run, rule, target, confidence)),
        families=tuple(sorted(set(groups["family"].tolist()))),
        source_families=tuple(sorted(set(groups["source_family"].tolist()))),
    )


def gate_items(run: ExperimentRun, rule: Rule) -> tuple[GateItems, Mapping[str, TextArray]]:
    """Return the items of a run as a gate sees them, those without an answer included.

    Args:
        run: a run with references.
        rule: what the gate looks at.

    Returns:
        The items, and the columns family, source_family, kind and domain of each, and that of the
        groups. The answer of an item without one is "".

    Raises:
        InputError: the run lacks the decoding, the calibrator or the views of the signal; or its
            items are to be grouped by questions, or by answers, and have no such names.
    """
    run.require(MEAN_CONFIDENCE if rule.signal == "top" else "nll_nats")
    scored = run.scored(rule.decoding, calibrated=rule.calibration != "raw")
    sure = sureness(scored, rule.signal)
    if sure is None:
        message = f"{run.place}: a gate on disagreement needs two or more views, the run has one"
        raise InputError(message)
    views, without = scored.predictions, unanswered_items(run.run)
    columns: dict[str, TextArray] = {
        name: np.r_[
            np.asarray(getattr(views, name), dtype=np.object_),
            without[name].cast(str).fill_null("").to_numpy().astype(np.object_),
        ]
        for name in ("family", "source_family", "kind", "domain")
    }
    if rule.by in ("question", "answer"):
        columns[rule.by] = named_groups(run, scored, without, rule.by)
    missing = len(without)
    items = GateItems(
        ids=np.r_[views.ids, without["id"].to_numpy().astype(np.object_)],
        unit=columns[rule.unit],
        fold=columns["source_family"],
        sureness=np.r_[sure, np.full(missing, -np.inf)],
        wrong=np.r_[~scored.correct, np.zeros(missing, dtype=np.bool_)],
        counting=rule.counting,
    )
    return items, columns


def named_groups(
    run: ExperimentRun,
    scored: ScoredItems,
    without: pl.DataFrame,
    by: Literal["question", "answer"],
) -> TextArray:
    """Return the group of each item of a run, those without an answer last.

    Args:
        run: the run.
        scored: its items with an answer.
        without: its items without one; they are of no answer, "".
        by: the name of the question, or of the given answer, after the question if that is named.

    Raises:
        InputError: questions or answers have no names.
    """
    further, n = scored.predictions.metadata, len(scored.predictions)
    if by == "answer":
        return np.array([*_answers(run, scored), *[""] * len(without)], dtype=np.object_)
    answered = questions_of(further, n, run.place)
    others = questions_of(metadata_of_rows(without), len(without), run.place)
    return np.asarray(np.concatenate([answered, others]), dtype=np.object_)


def _answers(run: ExperimentRun, scored: ScoredItems) -> list[str]:
    """Return the answer that the model gives to each item, after the question if it is named."""
    views, texts = scored.predictions, item_texts(run)
    facts = zip(views.ids.tolist(), views.kind.tolist(), views.n_choices.tolist(), strict=True)
    names: list[str] = []
    for (item, kind, n), given in zip(facts, scored.predicted.tolist(), strict=True):
        if views.known in UNNAMED or not texts.knows(item, kind):
            raise InputError(
                f"{run.place}: the answers of {item} have no names, so they cannot be told apart; "
                "score it with its data file in place, or import it with --options"
            )
        names.append(texts.answers(item, kind, n)[given])
    further, log = views.metadata, run.provenance.recorded.get("log")
    if further is not None and QUESTION in further.columns:
        asked = questions_of(further, len(names), run.place)
        named = isinstance(log, dict) and "questions" in log
        if not (named or several_questions(asked, views.family)):
            return names
        names = [f"{question}/{name}" for question, name in zip(asked.tolist(), names, strict=True)]
    return names


def group_rows(columns: Mapping[str, TextArray], by: GateGroups) -> dict[str, BoolArray]:
    """Return which items belong to each group, kinds in their own order.

    Items without an answer belong to no group of an answer.

    Raises:
        InputError: there are more than `MOST_TEXTS` groups.
    """
    if by == "all":
        return {"all": np.ones(len(columns["family"]), dtype=np.bool_)}
    names = ordered_groups(sorted(set(columns[by].tolist()) - ({""} if by == "answer" else set())))
    if len(names) > MOST_TEXTS and by in ("question", "answer"):
        message = f"expected at most {MOST_TEXTS} {by}s with a gate each, got {len(names):,}"
        raise InputError(message)
    return {name: np.asarray(columns[by] == name, dtype=np.bool_) for name in names}


def rate_over_units(
    items: GateItems, positive: BoolArray, counted: BoolArray | None = None
) -> Estimate:
    """Return the share of positive items among those that count, with its interval over units.

    Args:
        items: n items.
        positive: (n,) which are.
        counted: (n,) which count; None for all of them.
    """
    code, n = items.units.codes, len(items.units)
    counted = np.ones(len(items), dtype=np.bool_) if counted is None else counted
    both = np.bincount(code, weights=positive & counted, minlength=n)
    return rate_estimate(both, np.bincount(code, weights=counted, minlength=n))


def run_with_answers(source: RunSource, settings: Settings) -> ExperimentRun:
    """Return a run on full contexts with confidences, and with the calibrator of the settings.

    Raises:
        RunError: the folder is not a complete run with references.
        InputError: contexts are ablated, only the answers are known, or the calibrator is missing.
        GateError: the adapter was trained or selected on items of the run.
    """
    experiment = Experiment.read([open_run(source)], settings)
    if experiment.ablated:
        place = experiment.ablated[0].place
        message = f"{place}: ablated contexts have no references, so there are no errors to count"
        raise InputError(message)
    (run,) = experiment.runs
    refuse_trained_on([run.run], settings.allow)
    run.require(MEAN_CONFIDENCE)
    run.applied(settings.decoding, calibrated=settings.calibrated)
    return run


def choice_warnings(
    run: ExperimentRun, rule: Rule
) -> tuple[CalibrationWarning | TrainedOnRun, ...]:
    """Return what to know of the run of a choice that was allowed or calibrated."""
    trained = trained_on_runs([run.run])
    if rule.calibration == "raw":
        return trained
    return (*trained, *run.calibrator_warnings(rule.decoding))


def rule_of(run: ExperimentRun, signal: Signal, by: GateGroups, settings: Settings) -> Rule:
    """Return what gates of a run look at, with the views that they need."""
    views = settings.decoding == "ensemble" or signal == "disagreement"
    return Rule(
        signal=signal,
        decoding=settings.decoding,
        calibration=settings.calibration_name,
        k=run.predictions.k if views else 1,
        by=by,
        unit=settings.unit,
    )


def _confidence_of_each(confidence: float, gates: int, *, together: bool) -> float:
    return 1 - (1 - confidence) / max(gates, 1) if together else confidence


def _gate(name: str, items: GateItems, target: Target, confidence: float) -> Gate:
    chosen = choose_gate(items, target, confidence)
    accepted = items.accepted(chosen.threshold)
    realised = _cross_validated(items, target, confidence)
    costs = None
    if target.kind == "cost":
        at_gate = expected_cost(items, chosen.threshold, target)
        costs = (at_gate, expected_cost(items, None, target))
    return Gate(
        group=name,
        chosen=chosen,
        items=len(items),
        unanswered=int((items.sureness == -np.inf).sum()),
        units=len(items.units),
        equal=items.equal_units,
        coverage=rate_over_units(items, accepted),
        same_items_error=rate_over_units(items, items.wrong, accepted),
        realised_error=rate_over_units(items, items.wrong, realised),
        realised_coverage=rate_over_units(items, realised),
        needed=None if chosen.threshold is not None else families_needed(items, target, confidence),
        cost=costs,
    )


def _cross_validated(items: GateItems, target: Target, confidence: float) -> BoolArray:
    """Return (n,) which items are accepted by the gate of the other source families."""
    accepted = np.zeros(len(items), dtype=np.bool_)
    for here in folds(items):
        gate = choose_gate(items.taken(~here), target, confidence)
        accepted[here] = items.taken(here).accepted(gate.threshold)
    return accepted


def folds(items: GateItems) -> Iterator[BoolArray]:
    """Yield which items each fold leaves out: whole source families, or families if there is one.

    Nothing is yielded for a single family.
    """
    names, of_item = sorted(set(items.fold.tolist())), items.fold
    if len(names) < 2:
        names, of_item = sorted(set(items.unit.tolist())), items.unit
    fold_of = {name: at % MOST_FOLDS for at, name in enumerate(names)}
    fold = np.array([fold_of[name] for name in of_item.tolist()])
    for number in sorted(set(fold_of.values())) if len(names) > 1 else ():
        yield fold == number


def _alternatives(
    run: ExperimentRun, chosen: Rule, target: Target, confidence: float
) -> Iterator[Alternative]:
    """Yield what every signal would guarantee under every decoding that the run has."""
    k = run.predictions.k
    signals = SIGNALS if k > 1 and not run.predictions.repeats else SIGNALS[:3]
    for signal in signals if run.provenance.known == "probabilities" else SIGNALS[:1]:
        for rule in decodings_of(run, chosen):
            if signal == "disagreement":
                if rule.calibration == "calibrated":
                    continue  # neither the signal nor the answers change
                rule = changed(rule, k=k)
            rule = changed(rule, signal=signal, by="all")
            items, _ = gate_items(run, rule)
            gate = choose_gate(items, target, confidence).threshold
            yield Alternative(rule, gate, float(items.accepted(gate).mean()))


def decodings_of(run: ExperimentRun, chosen: Rule) -> Iterator[Rule]:
    """Yield a rule under every decoding that the run has: single and ensemble, raw and calibrated.

    Args:
        run: a run with probabilities.
        chosen: the other members of the rules.
    """
    k = run.predictions.k
    decodings: tuple[Decoding, ...] = ("single", "ensemble") if k > 1 else ("single",)
    calibrations: tuple[Calibration, ...] = ("raw", "calibrated") if _calibrates(run) else ("raw",)
    for decoding in decodings:
        for calibration in calibrations:
            views = k if decoding == "ensemble" else 1
            yield changed(chosen, decoding=decoding, calibration=calibration, k=views)


def _calibrates(run: ExperimentRun) -> bool:
    """Return whether the run has a calibrator that was fitted on other families."""
    try:
        return run.calibrator is not None
    except InputError:
        return False
