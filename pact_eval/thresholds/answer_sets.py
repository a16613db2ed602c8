"""The answer sets of a run: a level for every kind or question, and the size and error of the sets.

Each has its own level, so the promise holds for each alone (Mondrian conformal prediction, Vovk et
al. 2005, chapter 4). Coverage is shown out of
sample: each source family is left out once, and covered by the level of the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._choices import COVERAGE, Counting, GateGroups, SetGroups
from pact_eval._typing import BoolArray, FloatArray, IntArray, TextArray
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment_run import ExperimentRun, questions_of
from pact_eval.evaluation.labels import ordered_groups
from pact_eval.evaluation.resampled_groups import default_resamples
from pact_eval.evaluation.settings import Settings
from pact_eval.numbers import plain_units
from pact_eval.plain_text import upper_first
from pact_eval.runs.folder import RunSource, unanswered_items
from pact_eval.stats.bootstrap import mean_statistic, resample
from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.rates import critical_count, rate_limit
from pact_eval.thresholds.choice import (
    Choice,
    Columns,
    Rule,
    folds,
    group_rows,
    rate_over_units,
    run_with_answers,
)
from pact_eval.thresholds.gates import ROUNDING, GateItems

FLOOR_CONFIDENCE: Final = 0.95
"""Confidence of the floor, unless another one was asked for."""

TIE_WIDTH: Final = 1e-6
"""Probabilities that differ by less count as tied, if ties are broken."""

UNUSED: Final = -1.0
"""Sureness of slots without an answer."""


@dataclass(frozen=True, slots=True)
class SetLevel:
    """Level that an answer must reach to be in a set.

    Attributes:
        threshold: least probability of an answer in the set; None takes every answer.
        drawn: independent items that it rests on: one of each family.
        missed: those of them whose right answer may be left out.
        floor: coverage that this choice keeps with `confidence`.
        confidence: of the floor.
    """

    threshold: float | None
    drawn: int
    missed: int
    floor: float
    confidence: float


def answer_sureness(p: FloatArray, n_choices: npt.ArrayLike, levels: npt.ArrayLike) -> FloatArray:
    """Return how sure a run is of each answer: the answers of a set have at least a threshold.

    Args:
        p: (n, C) probabilities, 0 in unused slots.
        n_choices: (n,) number of answers.
        levels: (n,) whether the answers are ordered levels, whose sets are intervals.

    Returns:
        (n, C) the probabilities, those of levels raised to that of levels further out; 1 for the
        most probable answer; `UNUSED` for slots without an answer.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.thresholds.answer_sets import answer_sureness
        >>> p = np.array([[0.3, 0.1, 0.6], [0.3, 0.1, 0.6]])
        >>> answer_sureness(p, [3, 3], [False, True])
        array([[0.3, 0.1, 1. ],
               [0.3, 0.3, 1. ]])
    """
    from_left = np.maximum.accumulate(p, axis=1)
    from_right = np.maximum.accumulate(p[:, ::-1], axis=1)[:, ::-1]
    ordered = np.asarray(levels, dtype=np.bool_)[:, None]
    sure = np.where(ordered, np.minimum(from_left, from_right), p)
    sure = np.where(sure >= p.max(axis=1, keepdims=True), 1.0, sure)
    used = np.arange(p.shape[1]) < np.asarray(n_choices)[:, None]
    return np.asarray(np.where(used, sure, UNUSED), dtype=np.float64)


def tie_breakers(ids: TextArray, seed: int | None) -> FloatArray:
    """Return what is added to the probabilities of every item to break ties.

    Args:
        ids: (n,) ids of the items.
        seed: of the ties; None breaks none.

    Returns:
        (n,) numbers in [0, TIE_WIDTH).
    """
    if seed is None:
        return np.zeros(len(ids))
    names = (f"{seed}\0{name}".encode("utf-8", errors="surrogatepass") for name in ids.tolist())
    words = [int.from_bytes(blake2b(name, digest_size=4).digest(), "big") for name in names]
    return np.asarray(words, dtype=np.float64) / 2**32 * TIE_WIDTH


def choose_level(items: GateItems, coverage: float, confidence: float | None = None) -> SetLevel:
    """Choose how sure an answer must be; see the module for what is promised.

    Args:
        items: items whose `sureness` is that of the right answer, so that a set with a threshold
            covers what a gate at this threshold accepts.
        coverage: share of new items whose set contains the right answer, in (0, 1).
        confidence: with which this choice keeps the coverage; None keeps it on average.

    Returns:
        The threshold; None if the families are too few for sets with less than every answer.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.thresholds.gates import GateItems
        >>> from pact_eval.thresholds.answer_sets import choose_level
        >>> names = np.array([f"family {i}" for i in range(99)], dtype=object)
        >>> items = GateItems(names, names, names, np.arange(99) / 99, np.zeros(99, dtype=bool))
        >>> level = choose_level(items, 0.9)
        >>> level.missed, round(99 * level.threshold), round(level.floor, 3)
        (9, 9, 0.847)
        >>> choose_level(items, 0.9, 0.95).missed
        4
    """
    drawn = np.sort(items.sureness[items.draw.one])
    n, at = drawn.size, confidence or FLOOR_CONFIDENCE
    missed = math.floor((n + 1) * (1 - coverage) + ROUNDING) - 1
    if confidence is not None:
        missed = int(critical_count(n, 1 - coverage, 1 - confidence))
    if missed < 0:
        return SetLevel(None, n, 0, 1.0, at)
    floor = coverage if confidence is not None else 1 - rate_limit(missed, n, at)
    # A little lower: an answer as sure as another must be in a set with it, whatever rounds it.
    return SetLevel(float(drawn[missed]) - ROUNDING, n, missed, floor, at)


def families_for_sets(items: GateItems, coverage: float, confidence: float | None) -> int | None:
    """Return the families with which sets can have less than every answer; None without items."""
    if not len(items):
        return None
    least = math.ceil(coverage / (1 - coverage) - ROUNDING)
    if confidence is not None:
        least = math.ceil(math.log(1 - confidence) / math.log(coverage) - ROUNDING)
    return math.ceil(least * len(items.units) / float(items.draw.chance.sum()) - ROUNDING)


@dataclass(frozen=True, eq=False)
class SetItems:
    """The answered items of a run, as answer sets see them.

    Attributes:
        covering: the items with the sureness of their right answers: a gate at the level of the
            sets accepts the items whose sets contain the right answer.
        sureness: (n, C) sureness of every answer.
        columns: family, source_family, kind and domain, and question if it is asked for, (n,) each.
        unanswered: items without an answer, which have no set.
        by: the column of the groups that have a level each.
    """

    covering: GateItems
    sureness: FloatArray
    columns: Columns
    unanswered: int
    by: GateGroups = "kind"

    def levels(
        self, coverage: float, confidence: float | None, kept: BoolArray | None = None
    ) -> dict[str, SetLevel]:
        """Choose the level of every group, from the items that are kept; None keeps all of them."""
        return {
            name: choose_level(
                self.covering.taken(rows if kept is None else rows & kept), coverage, confidence
            )
            for name, rows in group_rows(self.columns, self.by).items()
        }

    def sets(self, levels: Mapping[str, float | None]) -> tuple[IntArray, BoolArray]:
        """Return (n,) number of answers in each set, and (n,) whether the right one is among them.

        Args:
            levels: by group, the least sureness of an answer in a set; None, and groups without
                one, take every answer.
        """
        groups = self.columns[self.by]
        least = np.array([levels.get(group) or 0.0 for group in groups], dtype=np.float64)
        sizes = np.asarray((self.sureness >= least[:, None]).sum(axis=1), dtype=np.int64)
        return sizes, np.asarray(self.covering.sureness >= least)


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
    """The sets of a kind, or of a question.

    Attributes:
        kind: choice, boolean or score; or the question.
        level: how sure an answer must be.
        sets: what the sets are like; their coverage is that of source families that were left out.
        needed: families with which sets can have less than every answer, if these are too few.
        kind_of_field: choice, boolean or score.
    """

    kind: str
    level: SetLevel
    sets: GroupSets
    needed: int | None
    kind_of_field: str = field(repr=False)


@dataclass(frozen=True, repr=False)
class AnswerSets(Choice):
    """The answer sets of a run.

    Attributes:
        run: the run, with its provenance.
        rule: decoding, calibration and unit.
        coverage: share of new items whose set is to contain the right answer.
        confidence: with which the choice keeps it; None keeps it on average over choices.
        kinds: the sets of every kind.
        groups: all items, and every domain if there are several; coverage as for the kinds.
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
    families: tuple[str, ...]
    source_families: tuple[str, ...]
    unanswered: int
    ties_seed: int | None = None

    @property
    def answer(self) -> str:
        """What is guaranteed, the sizes of the sets, and the kinds without smaller sets."""
        kept, needs = [], []
        for kind in self.kinds:
            sets, what = kind.sets, "levels" if kind.kind_of_field == "score" else "answers"
            if kind.level.threshold is not None:
                sizes = f"{sets.size.value:.2f} of {sets.answers:.2f}"
                kept.append(f"{sizes} {what} for {kind.kind}")
                continue
            units = plain_units(sets.items, sets.units, self.rule.unit)
            enough = "" if kind.needed is None else f"about {kind.needed:,} {units} would do, "
            needs.append(f"{kind.kind} ({enough}the run has {sets.units:,})")
        rest = f"no set smaller than all answers can be guaranteed for {'; '.join(needs)}"
        if not kept:
            return f"No: {rest}."
        promise = upper_first(coverage_text(self.coverage, self.confidence))
        return f"{promise}: {', '.join(kept)}{f'; {rest}' if needs else ''}."


def coverage_text(coverage: float, confidence: float | None) -> str:
    """Write what sets guarantee.

    Examples:
        >>> coverage_text(0.9, None)
        '90% of new items like these have the right answer in their set'
    """
    least = "" if confidence is None else "at least "
    sure = "" if confidence is None else f", with {100 * confidence:g}% confidence"
    return (
        f"{least}{100 * coverage:g}% of new items like these have the right answer in their "
        f"set{sure}"
    )


def choose_answer_sets(
    source: RunSource,
    coverage: float = COVERAGE,
    *,
    by: SetGroups = "kind",
    confidence: float | None = None,
    counting: Counting = "families",
    ties_seed: int | None = None,
    settings: Settings | None = None,
) -> AnswerSets:
    """Choose answer sets that contain the right answer, as `pact-eval thresholds --sets` does.

    Args:
        source: a run of families on which nothing was fitted.
        coverage: share of new items whose set contains the right answer, in (0, 1).
        by: which items share a level: those of a kind, or of a question.
        confidence: with which this choice keeps the coverage; None keeps it on average over
            choices.
        counting: whether every family counts the same in the guarantee, or every item.
        ties_seed: breaks ties between probabilities at random; None keeps all tied answers.
        settings: decoding, calibrator, unit and bootstrap; None takes the defaults.

    Returns:
        The sets of every kind, with their sizes and coverage. `write(path)` stores them.

    Raises:
        RunError: the folder is not a complete run with references.
        InputError: the run lacks the decoding, the calibrator or probabilities.

    Examples:
        >>> import pact_eval
        >>> sets = pact_eval.choose_answer_sets("runs/january", 0.9)
        >>> [kind.kind for kind in sets.kinds]
        ['choice', 'score']
    """
    for name, share in (("coverage", coverage), ("confidence", confidence)):
        if share is not None and not 0 < share < 1:
            raise InputError(f"{name}: expected a share above 0 and below 1, got {share:g}")
    settings = settings or Settings()
    run = run_with_answers(source, settings)
    rule = Rule.of(run, settings, by=by, counting=counting)
    items = set_items(run, rule, ties_seed)
    levels = items.levels(coverage, confidence)
    sizes, _ = items.sets({kind: level.threshold for kind, level in levels.items()})
    covered = np.ones(len(items.covering), dtype=np.bool_)
    for here in folds(items.covering):
        others = items.levels(coverage, confidence, ~here)
        _, covers = items.sets({kind: level.threshold for kind, level in others.items()})
        covered[here] = covers[here]
    kinds = []
    for kind, rows in group_rows(items.columns, by).items():
        needed = None
        if levels[kind].threshold is None:
            needed = families_for_sets(items.covering.taken(rows), coverage, confidence)
        sets = described(items, kind, rows, (sizes, covered), settings)
        field_kind = str(items.columns["kind"][rows][0])
        kinds.append(KindSets(kind, levels[kind], sets, needed, field_kind))
    return AnswerSets(
        run=run,
        rule=rule,
        coverage=coverage,
        confidence=confidence,
        kinds=tuple(kinds),
        groups=described_groups(items, (sizes, covered), settings),
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
    run.require("nll_nats")
    scored = run.scored(rule.decoding, calibrated=rule.calibration != "raw")
    views = scored.predictions
    columns: dict[str, TextArray] = {
        name: np.asarray(getattr(views, name), dtype=np.object_)
        for name in ("family", "source_family", "kind", "domain")
    }
    if rule.by == "question":
        names = questions_of(views.metadata, len(views), run.place)
        pairs = sorted(set(zip(names.tolist(), columns["kind"].tolist(), strict=True)))
        for (name, kind), (other, another) in itertools.pairwise(pairs):
            if name == other:
                kinds = f"question {name} has items of {kind} and {another}"
                raise InputError(f"{run.place}: {kinds}; choose by kind")
        columns["question"] = names
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
    return SetItems(covering, sureness, columns, len(unanswered_items(run.run)), rule.by)


def described_groups(
    items: SetItems, sets: tuple[IntArray, BoolArray], settings: Settings
) -> tuple[GroupSets, ...]:
    """Describe the sets of all items, and of every domain if there are several."""
    every = np.ones(len(items.covering), dtype=np.bool_)
    names = ordered_groups(sorted(set(items.columns["domain"].tolist())))
    domains = {name: np.asarray(items.columns["domain"] == name) for name in names}
    groups = {"all": every} | (domains if len(domains) > 1 else {})
    return tuple(described(items, name, rows, sets, settings) for name, rows in groups.items())


def described(
    items: SetItems,
    group: str,
    rows: BoolArray,
    sets: tuple[IntArray, BoolArray],
    settings: Settings,
) -> GroupSets:
    """Describe the sets of some items, with intervals over families.

    Args:
        items: all items.
        group: name of those that are described.
        rows: (n,) which they are.
        sets: (n,) the sizes of the sets of all items, and whether they have the right answer.
        settings: of the bootstrap.
    """
    here = items.covering.taken(rows)
    sizes, covered = sets[0][rows], sets[1][rows]
    answers, n = (items.sureness[rows] >= 0).sum(axis=1), len(here.units)
    size = Estimate(math.nan, math.nan, math.nan, 0, 0, None, ClusterText("no items"))
    if len(here):
        size = resample(
            {"size": mean_statistic(sizes, here.units.codes, n)},
            n_clusters=n,
            n=len(here),
            rng=settings.rng(),
            resamples=settings.resamples or default_resamples(len(here)),
        )["size"].estimate()
    return GroupSets(
        group=group,
        items=len(here),
        units=n,
        answers=float(answers.mean()) if len(here) else math.nan,
        size=size,
        single=rate_over_units(here, sizes == 1),
        coverage=rate_over_units(here, covered),
    )
