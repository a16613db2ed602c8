"""The thresholds of a run: a gate for all items or for every group of them, and its effect.

With several gates, `confidence` holds for each of them alone, and all G of them keep their targets
together with a confidence of at least 1 - G (1 - confidence). `together=True` tests each at
(1 - confidence) / G instead (Bonferroni), so that `confidence` holds for all of them together.

The group of an item is what is known without its right answer: its kind, domain or question, or the
answer that the model gives. A gate of an answer therefore limits the share of wrong ones among the
accepted items with this answer, which is 1 minus the precision of the answer there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from pact_eval._choices import CONFIDENCE, ClusterUnit, Counting, Decoding, GateGroups, Signal
from pact_eval._typing import BoolArray, TextArray
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
from pact_eval.stats.rates import critical_count, p_value_below, rate_estimate, trials_needed
from pact_eval.thresholds.gates import (
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

MOST_FOLDS: Final = 10
"""Folds of the cross-validation; more source families than these share folds."""

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
    level, accepted, chance = 1 - confidence, items.accepted(-np.inf), items.draw.chance
    if not target.limits_error:  # the loosest gate is tested first
        rate = float((chance[~accepted].sum() + _ADDED) / (chance.sum() + 2 * _ADDED))
        trials = trials_needed(rate, target.rate, level) if rate < target.rate else None
        per_family = chance.sum() / len(items.units)
        return None if trials is None else int(np.ceil(trials / per_family))
    wrong, n = int((accepted & items.wrong).sum()), int(accepted.sum())
    keeps_without_gate = (wrong + _ADDED) / (n + 2 * _ADDED) < target.rate
    if not (keeps_without_gate or surer_is_better(items)):
        return None
    chance_of_gate = _planned(items, target.rate, level)
    steps = int(np.log(MOST_FAMILIES) / np.log(_STEP))
    sizes = np.unique(np.ceil(_STEP ** np.arange(steps + 1)).astype(np.int64))
    low, high = -1, len(sizes) - 1
    if chance_of_gate(int(sizes[high])) < CHANCE:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = chance_of_gate(int(sizes[middle])) >= CHANCE
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


def _planned(items: GateItems, rate: float, level: float) -> Callable[[int], float]:
    """Return the chance that the first test of a sequence passes, by number of families.

    The error of the gate at each share of the drawn items is that of these items and one more, half
    of it wrong.
    """
    rows = np.flatnonzero(items.sureness > -np.inf)
    rows = rows[np.argsort(-items.sureness[rows])]
    sure, chance, wrong = items.sureness[rows], items.draw.chance[rows], items.wrong[rows]
    last = np.searchsorted(-sure, -sure, side="right") - 1  # items as sure as it included
    drawn, n = np.cumsum(chance)[last], last + 1
    error = (n * (np.cumsum(chance * wrong)[last] / drawn) + _ADDED) / (n + 2 * _ADDED)
    share, per_family = drawn / drawn[-1], float(drawn[-1]) / len(items.units)

    def chance_of_gate(families: int) -> float:
        from scipy import stats

        drawn_items = int(families * per_family)
        starts = starts_of_tests(drawn_items, rate, level)
        if not starts:
            return 0.0
        places = [int(np.searchsorted(share, start / drawn_items)) for start, _ in starts]
        errors = [
            start * float(error[min(place, len(error) - 1)])
            for place, (start, _) in zip(places, starts, strict=True)
        ]
        most = [int(critical_count(start, rate, own)) for start, own in starts]
        first = starts[0][0]
        passes = float(p_value_below(most[0], first, errors[0] / first))
        for (start, _), more, later in zip(starts[1:], most[1:], errors[1:], strict=True):
            # too many wrong for the first test, not for the second
            counts = np.arange(most[0] + 1, more + 1)
            between = min(max((later - errors[0]) / (start - first), 0.0), 1.0)
            tails = p_value_below(more - counts, start - first, between)
            passes += float(stats.binom.pmf(counts, first, errors[0] / first) @ tails)
        return passes

    return chance_of_gate


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

    @classmethod
    def of(
        cls,
        run: ExperimentRun,
        settings: Settings,
        *,
        signal: Signal = "top",
        by: GateGroups = "all",
        counting: Counting = "families",
    ) -> Rule:
        """Return what gates of a run look at, with the views that they need."""
        views = settings.decoding == "ensemble" or signal == "disagreement"
        return cls(
            signal=signal,
            decoding=settings.decoding,
            calibration=settings.calibration_name,
            k=run.predictions.k if views else 1,
            by=by,
            unit=settings.unit,
            counting=counting,
        )

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


class Choice(Writable):
    """Gates or answer sets of a run, with what their file says of their origin.

    Attributes:
        run: the run, with its provenance.
        rule: what they look at.
        families: names of the families that they were chosen on.
        source_families: names of their source families.
    """

    run: ExperimentRun
    rule: Rule
    families: tuple[str, ...]
    source_families: tuple[str, ...]

    @property
    def warnings(self) -> tuple[CalibrationWarning | TrainedOnRun, ...]:
        """Items of the training, and what to know of the calibrator that was applied."""
        trained = trained_on_runs([self.run.run])
        if self.rule.calibration == "raw":
            return trained
        return (*trained, *self.run.calibrator_warnings(self.rule.decoding))


@dataclass(frozen=True, repr=False)
class Thresholds(Framed, Choice):
    """The gates of a run.

    Attributes:
        run: the run, with its provenance.
        rule: what the gates look at.
        target: what they keep.
        confidence: that was asked for.
        together: whether it holds for all gates together, or for each alone.
        gates: one for every group.
        share: share of all items that the gates accept.
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
    families: tuple[str, ...]
    source_families: tuple[str, ...]

    @property
    def confidence_of_each(self) -> float:
        """Confidence of each gate alone."""
        return _confidence_of_each(self.confidence, len(self.gates), together=self.together)

    @property
    def confidence_of_all(self) -> float:
        """Confidence that all gates keep their targets; at least this, and 0 if it says nothing."""
        return max(0.0, 1 - len(self.gates) * (1 - self.confidence_of_each))


def _confidence_of_each(confidence: float, gates: int, *, together: bool) -> float:
    return 1 - (1 - confidence) / max(gates, 1) if together else confidence


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
    rule = Rule.of(run, settings, signal=signal, by=by, counting=counting)
    items, columns = gate_items(run, rule)
    rows = group_rows(columns, by)
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
        families=tuple(sorted(set(columns["family"].tolist()))),
        source_families=tuple(sorted(set(columns["source_family"].tolist()))),
    )


def _gate(name: str, items: GateItems, target: Target, confidence: float) -> Gate:
    """Choose the gate of some items, and try the gates of other source families on each of them."""
    chosen = choose_gate(items, target, confidence)
    accepted, realised = items.accepted(chosen.threshold), np.zeros(len(items), dtype=np.bool_)
    for here in folds(items):
        gate = choose_gate(items.taken(~here), target, confidence)
        realised[here] = items.taken(here).accepted(gate.threshold)
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


Columns: TypeAlias = Mapping[str, TextArray]
"""family, source_family, kind and domain of each item, and the column of the groups."""


def gate_items(run: ExperimentRun, rule: Rule) -> tuple[GateItems, Columns]:
    """Return the items of a run as a gate sees them, those without an answer included.

    Args:
        run: a run with references.
        rule: what the gate looks at.

    Returns:
        The items, and their columns. The answer of an item without one is "".

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
    missing = len(without)
    if rule.by == "answer":
        names = [*_answers(run, scored), *[""] * missing]
        columns["answer"] = np.array(names, dtype=np.object_)
    elif rule.by == "question":
        answered = questions_of(views.metadata, len(views), run.place)
        others = questions_of(metadata_of_rows(without), missing, run.place)
        columns["question"] = np.concatenate([answered, others]).astype(np.object_)
    items = GateItems(
        ids=np.r_[views.ids, without["id"].to_numpy().astype(np.object_)],
        unit=columns[rule.unit],
        fold=columns["source_family"],
        sureness=np.r_[sure, np.full(missing, -np.inf)],
        wrong=np.r_[~scored.correct, np.zeros(missing, dtype=np.bool_)],
        counting=rule.counting,
    )
    return items, columns


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


def group_rows(columns: Columns, by: GateGroups) -> dict[str, BoolArray]:
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
