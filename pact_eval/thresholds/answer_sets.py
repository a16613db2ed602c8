"""The answer sets of a run: a level for every kind, and the size and error of the sets.

Each kind has its own level, so the promise holds for each kind alone. Coverage is shown out of
sample: each source family is left out once, and covered by the level of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace as changed

from pact_eval._choices import COVERAGE, Counting
from pact_eval._typing import BoolArray, IntArray, TextArray
from pact_eval.calibration.notes import CalibrationWarning
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.labels import ordered_groups
from pact_eval.evaluation.report import default_resamples
from pact_eval.evaluation.settings import Settings
from pact_eval.results import Result
from pact_eval.runs.custody import TrainedOnRun
from pact_eval.runs.folder import RunSource, unanswered_items
from pact_eval.stats.bootstrap import bootstrap_intervals, mean_statistic
from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.thresholds.choice import (
    Rule,
    choice_warnings,
    decodings_of,
    folds,
    group_rows,
    rate_over_units,
    rule_of,
    run_with_answers,
)
from pact_eval.thresholds.gate_items import GateItems
from pact_eval.thresholds.set_levels import (
    SetLevel,
    answer_sureness,
    choose_level,
    families_for_sets,
    tie_breakers,
)


@dataclass(frozen=True, eq=False)
class SetItems:
    """The answered items of a run, as answer sets see them.

    Attributes:
        covering: the items with the sureness of their right answers: a gate at the level of the
            sets accepts the items whose sets contain the right answer.
        sureness: (n, C) sureness of every answer.
        columns: family, source_family, kind and domain, (n,) each.
        unanswered: items without an answer, which have no set.
    """

    covering: GateItems
    sureness: npt.NDArray[np.float64]
    columns: Mapping[str, TextArray]
    unanswered: int

    def sizes(self, rows: BoolArray, threshold: float | None) -> IntArray:
        """Return the sizes of the sets of some items; None takes every answer."""
        least = 0.0 if threshold is None else threshold
        return np.asarray((self.sureness[rows] >= least).sum(axis=1), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class MadeSets:
    """The sets of all items.

    Attributes:
        sizes: (n,) number of answers.
        covered: (n,) whether the right answer is in the set.
    """

    sizes: IntArray
    covered: BoolArray


@dataclass(frozen=True)
class GroupSets:
    """Summary of the sets of some items.

    Attributes:
        group: all, or a kind or domain.
        items: number of items.
        units: number of families.
        answers: mean number of answers that the items have.
        size: mean size of the sets, over families.
        single: share of sets with one answer.
        coverage: share of items whose set contains the right answer.
    """

    group: str
    items: int
    units: int
    answers: float
    size: Estimate
    single: Estimate
    coverage: Estimate


@dataclass(frozen=True)
class KindSets:
    """The sets of a kind.

    Attributes:
        kind: choice, boolean or score.
        level: how sure an answer must be.
        sets: what the sets are like; their coverage is that of source families that were left out.
        needed: families with which sets can have less than every answer, if these are too few.
    """

    kind: str
    level: SetLevel
    sets: GroupSets
    needed: int | None


@dataclass(frozen=True, slots=True)
class OtherSets:
    """The sets under another decoding.

    Attributes:
        rule: the decoding.
        size: mean size of the sets of all items.
        single: share of sets with one answer.
    """

    rule: Rule
    size: float
    single: float


@dataclass(frozen=True, repr=False)
class AnswerSets(Result):
    """The answer sets of a run.

    Attributes:
        run: the run, with its provenance.
        rule: decoding, calibration and unit.
        coverage: share of new items whose set is to contain the right answer.
        confidence: with which the choice keeps it; None keeps it on average over choices.
        kinds: the sets of every kind.
        groups: all items, and every domain if there are several; coverage as for the kinds.
        alternatives: mean sizes under other decodings.
        families: names of the families that the sets were chosen on.
        source_families: names of their source families.
        unanswered: items without an answer, which have no set.
        ties_seed: with which ties between probabilities are broken; None breaks none.
    """

    run: ExperimentRun
    rule: Rule
    coverage: float
    confidence: float | None
    kinds: tuple[KindSets, ...]
    groups: tuple[GroupSets, ...]
    alternatives: tuple[OtherSets, ...]
    families: tuple[str, ...]
    source_families: tuple[str, ...]
    unanswered: int
    ties_seed: int | None = None

    @property
    def warnings(self) -> tuple[CalibrationWarning | TrainedOnRun, ...]:
        """Items of the training, and what to know of the calibrator that was applied."""
        return choice_warnings(self.run, self.rule)


def choose_answer_sets(
    source: RunSource,
    coverage: float = COVERAGE,
    *,
    confidence: float | None = None,
    counting: Counting = "families",
    ties_seed: int | None = None,
    settings: Settings | None = None,
) -> AnswerSets:
    """Choose answer sets on a run, as `pact-eval thresholds --sets` does.

    Args:
        source: a complete run with references, of families that nothing was fitted on.
        coverage: share of new items whose set contains the right answer, in (0, 1).
        confidence: with which this choice keeps the coverage; None keeps it on average.
        counting: whether every family counts the same in the guarantee, or every item.
        ties_seed: breaks ties between probabilities at random; None breaks none.
        settings: decoding, calibrator, unit and bootstrap.

    Raises:
        RunError: the folder is not a complete run with references.
        InputError: a share is not in (0, 1), or the run lacks the decoding, the calibrator, or
            probabilities.
    """
    for name, share in (("coverage", coverage), ("confidence", confidence)):
        if share is not None and not 0 < share < 1:
            message = f"{name}: expected a share above 0 and below 1, got {share:g}"
            raise InputError(message)
    settings = settings or Settings()
    run = run_with_answers(source, settings)
    rule = changed(rule_of(run, "top", "kind", settings), counting=counting)
    items = set_items(run, rule, ties_seed)
    levels = kind_levels(items, coverage, confidence)
    thresholds = {kind: level.threshold for kind, level in levels.items()}
    made = MadeSets(set_sizes(items, thresholds), _left_out(items, coverage, confidence))
    return AnswerSets(
        run=run,
        rule=rule,
        coverage=coverage,
        confidence=confidence,
        kinds=tuple(
            KindSets(
                kind=kind,
                level=levels[kind],
                sets=described(items, kind, rows, made, settings),
                needed=None
                if levels[kind].threshold is not None
                else families_for_sets(items.covering.taken(rows), coverage, confidence),
            )
            for kind, rows in group_rows(items.columns, "kind").items()
        ),
        groups=described_groups(items, made, settings),
        alternatives=tuple(
            _other_sets(rule, set_items(run, rule, ties_seed), coverage, confidence)
            for rule in decodings_of(run, rule)
        ),
        families=tuple(sorted(set(items.columns["family"].tolist()))),
        source_families=tuple(sorted(set(items.columns["source_family"].tolist()))),
        unanswered=items.unanswered,
        ties_seed=ties_seed,
    )


def set_items(run: ExperimentRun, rule: Rule, ties_seed: int | None = None) -> SetItems:
    """Return the answered items of a run as answer sets see them.

    Args:
        run: a run with references and probabilities.
        rule: decoding, calibration and unit.
        ties_seed: breaks ties between probabilities; None breaks none.

    Raises:
        InputError: the run lacks the decoding or the calibrator.
    """
    run.require_probabilities()
    scored = run.scored(rule.decoding, calibrated=rule.calibration != "raw")
    views = scored.predictions
    columns: dict[str, TextArray] = {
        name: np.asarray(getattr(views, name), dtype=np.object_)
        for name in ("family", "source_family", "kind", "domain")
    }
    levels = np.asarray(columns["kind"] == "score", dtype=np.bool_)
    ids = np.asarray(views.ids, dtype=np.object_)
    p = np.exp(scored.log_probs) + tie_breakers(ids, ties_seed)[:, None]
    sureness = answer_sureness(p, views.n_choices, levels)
    rows = np.arange(len(sureness))
    covering = GateItems(
        ids=ids,
        unit=columns[rule.unit],
        fold=columns["source_family"],
        sureness=sureness[rows, np.asarray(views.reference)],
        wrong=np.zeros(len(sureness), dtype=np.bool_),
        counting=rule.counting,
    )
    return SetItems(covering, sureness, columns, len(unanswered_items(run.run)))


def kind_levels(
    items: SetItems, coverage: float, confidence: float | None, kept: BoolArray | None = None
) -> dict[str, SetLevel]:
    """Choose the level of every kind, from the items that are kept; None keeps all of them."""
    levels = {}
    for kind, rows in group_rows(items.columns, "kind").items():
        here = rows if kept is None else rows & kept
        levels[kind] = choose_level(items.covering.taken(here), coverage, confidence)
    return levels


def set_sizes(items: SetItems, thresholds: Mapping[str, float | None]) -> IntArray:
    """Return (n,) sizes of the sets; kinds without a threshold take every answer."""
    sizes = np.zeros(len(items.covering), dtype=np.int64)
    for kind, rows in group_rows(items.columns, "kind").items():
        sizes[rows] = items.sizes(rows, thresholds.get(kind))
    return sizes


def described_groups(items: SetItems, made: MadeSets, settings: Settings) -> tuple[GroupSets, ...]:
    """Describe the sets of all items, and of every domain if there are several."""
    every = np.ones(len(made.sizes), dtype=np.bool_)
    names = ordered_groups(sorted(set(items.columns["domain"].tolist())))
    domains = {name: np.asarray(items.columns["domain"] == name) for name in names}
    groups = {"all": every} | (domains if len(domains) > 1 else {})
    return tuple(described(items, name, rows, made, settings) for name, rows in groups.items())


def described(
    items: SetItems, group: str, rows: BoolArray, made: MadeSets, settings: Settings
) -> GroupSets:
    """Describe the sets of some items, with intervals over families.

    Args:
        items: all items.
        group: name of those that are described.
        rows: (n,) which they are.
        made: the sets of all items.
        settings: of the bootstrap.
    """
    here = items.covering.taken(rows)
    code, n = here.units.codes, len(here.units)
    every = np.ones(len(here), dtype=np.bool_)
    answers = (items.sureness[rows] >= 0).sum(axis=1)
    size = Estimate(float("nan"), float("nan"), float("nan"), 0, 0, None, ClusterText("no items"))
    if len(here):
        size = bootstrap_intervals(
            {"size": mean_statistic(made.sizes[rows], code, n)},
            n_clusters=n,
            n=len(here),
            rng=settings.rng(),
            resamples=settings.resamples or default_resamples(len(here)),
        )["size"]
    return GroupSets(
        group=group,
        items=len(here),
        units=n,
        answers=float(answers.mean()) if len(here) else float("nan"),
        size=size,
        single=rate_over_units(here, made.sizes[rows] == 1, every),
        coverage=rate_over_units(here, made.covered[rows], every),
    )


def _left_out(items: SetItems, coverage: float, confidence: float | None) -> BoolArray:
    """Return (n,) whether an item is covered by the levels of the other source families."""
    covered = np.ones(len(items.covering), dtype=np.bool_)
    for here in folds(items.covering):
        levels = kind_levels(items, coverage, confidence, ~here)
        for kind, rows in group_rows(items.columns, "kind").items():
            threshold = levels[kind].threshold
            both = rows & here
            if threshold is not None:
                covered[both] = items.covering.sureness[both] >= threshold
    return covered


def _other_sets(
    rule: Rule, items: SetItems, coverage: float, confidence: float | None
) -> OtherSets:
    levels = kind_levels(items, coverage, confidence)
    sizes = set_sizes(items, {kind: level.threshold for kind, level in levels.items()})
    return OtherSets(rule, float(sizes.mean()), float((sizes == 1).mean()))


def covered_by(items: SetItems, thresholds: Mapping[str, float | None]) -> BoolArray:
    """Return (n,) whether the sets of some thresholds contain the right answer."""
    least = [thresholds.get(kind) or 0.0 for kind in items.columns["kind"]]
    return np.asarray(items.covering.sureness >= np.asarray(least))
