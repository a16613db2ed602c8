"""Where a run is wrong: groups of items that differ in accuracy or calibration.

`group_search` finds and tests them. Accuracies and confidences are those of all items of a group,
so that they are the same on every surface. They include the half that the search chose the group
by, which makes a group look somewhat further off than it is; `tested` is its mean in the half of
the test.

Groups that differ: searched in half of the families, tested on the other half.

The half of the search takes, one after the other, the group that differs most from the items that
are left. Each is tested once on the families that the search has not seen, without the items of the
groups before it: of ten domains, two that are wrong do not make the other eight look good. Holm's
adjustment is over these tests, so what is shown is not the best of many.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

import numpy as np
import polars as pl

from pact_eval._choices import ClusterUnit
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.errors import counted
from pact_eval.evaluation.conclusions.conclusion import Conclusion, Question, Sentence, Tone
from pact_eval.evaluation.item_columns import group_labels, item_columns
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import Labels, ordered_groups
from pact_eval.numbers import p_value_text, value_text
from pact_eval.plain_text import short_names, upper_first
from pact_eval.runs.predictions import FIRST_REPEAT
from pact_eval.stats.clusters import intraclass_correlation
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_eval.stats.group_permutation import GroupTest, group_permutation_test
from pact_eval.stats.linearised import mean_inference
from pact_eval.stats.multiplicity import holm
from pact_eval.stats.proportions import few_clusters, rate_estimate, without_interval

Measure = Literal["accuracy", "confidence gap"]
"""What differs: the share of right answers, or confidence minus that share."""

FEWEST_IN_HALF: Final = 5
"""Families that a group, and the items outside, need in each half."""

MOST_TESTS: Final = 5
"""So many groups are tested at most."""

MOST_DETECTABLE: Final = 0.25
"""If only groups that are further off would usually be found, nothing can be told of them.

That is every fourth answer of a group: 80% right elsewhere and 55% in it, which with two answers is
little more than chance. Nobody would call a run with such a group sound.
"""

_STANDS_OUT: Final = 2.0
_HALF: Final = 0.5
_ROUNDING: Final = 1e-9
# A group that is so much less right is tested for that, though its confidence adds to the distance.
_NEARLY: Final = 0.7
# Standard errors of a half at which a group stands out in one and is shown in the other in 75 to
# 95% of simulated runs, and what each group adds that is tested with it.
_POWER, _PER_TEST = 3.4, 0.1


@dataclass(frozen=True)
class Candidate:
    """A group that stands out in the half of the search.

    Attributes:
        column: the column.
        value: the value that its items have.
        measure: in what it stands out.
        distance: of its mean from that of the items left, in standard errors.
    """

    column: str
    value: str
    measure: Measure
    distance: float


@dataclass(frozen=True)
class CheckedGroup:
    """A candidate with its test on the other half.

    Attributes:
        candidate: the group.
        test: of its measure.
        items: items of the group in that half, without those of the groups before it.
        adjusted: one-sided p-value, adjusted by Holm for all tests of the search.
    """

    candidate: Candidate
    test: GroupTest
    items: int
    adjusted: float

    @property
    def shown(self) -> bool:
        """Whether the group differs at the 5% level."""
        return self.adjusted <= LEVEL


@dataclass(frozen=True)
class DetectableGroup:
    """A group that would usually be found: in 75 to 95% of simulated runs.

    Attributes:
        items: of the group: the median of those that were searched, or a large one.
        points: how far its accuracy is from that of the other items, a fraction.
        large: whether the median group would have to be too far off, and this one need not.
    """

    items: int
    points: float
    large: bool = False


@dataclass(frozen=True, eq=False)
class GroupSearch:
    """A search for groups of items that differ from the others.

    Attributes:
        searched: number of groups that were searched.
        tests: the groups that were tested, in the order of the search.
        detectable: what it finds; None if no group has enough families.
        most_families: families of the group that has most, or of the items outside if they have
            fewer; 0 without groups.
        in_test: (n,) whether an item is in the half of the tests.
    """

    searched: int
    tests: tuple[CheckedGroup, ...]
    detectable: DetectableGroup | None
    most_families: int
    in_test: BoolArray

    @property
    def shown(self) -> tuple[CheckedGroup, ...]:
        """The groups that differ."""
        return tuple(test for test in self.tests if test.shown)


def search_groups(items: ScoredItems, columns: Mapping[str, Labels], *, seed: int) -> GroupSearch:
    """Search half of the families for groups that differ, and test them on the other half.

    Args:
        items: one or more items of a run with references.
        columns: by name, the values of every item; each column has two values or more.
        seed: of the halves and the permutations.
    """
    halves, permutations = np.random.default_rng(seed).spawn(2)
    sample = _Sample.of(items, halves)
    cells = {name: _Cells.of(labels, sample) for name, labels in columns.items()}
    left = _Left.of(sample, np.ones(len(items), dtype=np.bool_))
    standings = {name: _Standing.of(column, left) for name, column in cells.items()}
    searched = {
        name: cells[name] for name, standing in standings.items() if standing.eligible.any()
    }
    tests = _test_candidates(sample, searched, permutations)
    return GroupSearch(
        searched=sum(int(standing.eligible.sum()) for standing in standings.values()),
        tests=tests,
        detectable=_detectable(sample, searched, standings, len(tests) + 1),
        most_families=max((column.most_families for column in cells.values()), default=0),
        in_test=~sample.searched[sample.cluster],
    )


@dataclass(frozen=True, eq=False)
class _Sample:
    """What the search needs of the items.

    Attributes:
        cluster: (n,) rank of the name of the family of each item: no order of rows matters.
        families: number of families, F.
        asked: rows of each item: its repeats.
        searched: (F,) whether a family is in the half of the search.
        measures: by name, (n,) values.
    """

    cluster: IntArray
    families: int
    asked: int
    searched: BoolArray
    measures: Mapping[Measure, FloatArray]

    @classmethod
    def of(cls, items: ScoredItems, rng: np.random.Generator) -> _Sample:
        """Draw the half of the families that is searched; without confidences, accuracy alone is.

        Args:
            items: n rows of a run with references.
            rng: source of the halves.
        """
        families = items.n_clusters
        searched = np.zeros(families, dtype=np.bool_)
        searched[rng.permutation(families)[: families // 2]] = True
        right = items.correct.astype(np.float64)
        measures: dict[Measure, FloatArray] = {"accuracy": right}
        if np.isfinite(items.confidence).all():
            measures["confidence gap"] = items.confidence - right
        cluster = items.clusters.sorted().codes.astype(np.int64)
        return cls(cluster, families, items.asked, searched, measures)


@dataclass(frozen=True, eq=False)
class _Cells:
    """A column by cells: the items of one family with one value.

    Attributes:
        labels: the values of all items; V different ones.
        order: (n,) rows of the items, by cell.
        starts: (cells,) first of each cell in that order.
        value: (cells,) code of the value.
        cluster: (cells,) code of the family.
        sizes: (V,) number of items with each value.
        most_families: of the value that has most, or outside if these are fewer.
    """

    labels: Labels
    order: IntArray
    starts: IntArray
    value: IntArray
    cluster: IntArray
    sizes: IntArray
    most_families: int

    @classmethod
    def of(cls, labels: Labels, sample: _Sample) -> _Cells:
        """Sort the items of a column into cells.

        Args:
            labels: (n,) the value of every item.
            sample: the items.
        """
        cell = labels.codes.astype(np.int64) * sample.families + sample.cluster
        order = np.argsort(cell, kind="stable")
        starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
        value, cluster = np.divmod(cell[order[starts]], sample.families)
        inside = np.bincount(value, minlength=len(labels))
        whole = np.bincount(cluster, minlength=sample.families)[cluster] == 1
        outside = sample.families - np.bincount(value[whole], minlength=len(labels))
        sizes = np.bincount(labels.codes, minlength=len(labels))
        most = int(np.minimum(inside, outside).max())
        return cls(labels, order, starts, value, cluster, sizes, most)

    def count(self, kept: BoolArray) -> FloatArray:
        """Return how many of the items that are kept each cell has, (cells,)."""
        return np.add.reduceat(kept[self.order].astype(np.float64), self.starts)

    def by_value(self, cells: FloatArray | BoolArray) -> FloatArray:
        """Return the sums of (cells,) numbers by value, (V,)."""
        return np.bincount(self.value, cells, len(self.labels)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class _Left:
    """The items that are left by the groups that were taken.

    Attributes:
        sample: all items.
        kept: (n,) whether an item is left.
        n: (F,) how many items each family has left.
        rows: those in the half of the search.
        correlation: by measure, of two items of a family.
    """

    sample: _Sample
    kept: BoolArray
    n: FloatArray
    rows: IntArray
    correlation: Mapping[Measure, float]

    @classmethod
    def of(cls, sample: _Sample, kept: BoolArray) -> _Left:
        """Measure the dependence within families of the items that are left and searched.

        A negative correlation counts as 0: it would make groups look further off than they are.

        Args:
            sample: all items.
            kept: (n,) whether an item is left.
        """
        n = np.bincount(sample.cluster, kept, sample.families).astype(np.float64)
        rows = np.flatnonzero(kept & sample.searched[sample.cluster])
        present = (n > 0) & sample.searched
        correlation: dict[Measure, float] = {}
        for name, values in sample.measures.items():
            sums, squares = (
                np.bincount(sample.cluster[rows], added, sample.families).astype(np.float64)
                for added in (values[rows], values[rows] ** 2)
            )
            pooled = intraclass_correlation(sums[present], squares[present], n[present])
            correlation[name] = max(0.0, pooled)
        return cls(sample, kept, n, rows, correlation)


@dataclass(frozen=True, eq=False)
class _Standing:
    """How far the groups of a column are from the other items, in the half of the search.

    Attributes:
        eligible: (V,) whether a group, and the items outside, have enough families in both halves.
        inside: (V,) variance of the mean of a group, if that of an item is 1; for accuracy.
        outside: (V,) the same of the items outside.
        distance: by measure, (V,) how many standard errors the means are apart; 0 for groups that
            are not eligible.
    """

    eligible: BoolArray
    inside: FloatArray
    outside: FloatArray
    distance: Mapping[Measure, FloatArray]

    @classmethod
    def of(cls, cells: _Cells, left: _Left) -> _Standing:
        """Compare the mean of each group with that of the other items that are left.

        With n items of variance 1 in families of n_f, of which two correlate by rho, the mean has
        the variance (1 + (sum n_f^2 / n - 1) rho) / n. Families on both sides correlate the means.

        Args:
            cells: of the column.
            left: the items that are left, and those of the half of the search.
        """
        counts, searched = cells.count(left.kept), left.sample.searched
        eligible = np.logical_and(
            *(_enough_families(cells, counts, left.n, half) for half in (searched, ~searched))
        )
        counts = np.where(searched[cells.cluster], counts, 0.0)
        others = left.n[cells.cluster] - counts
        n, square = cells.by_value(counts), cells.by_value(counts**2)
        cross = cells.by_value(counts * others)
        rest = left.rows.size - n
        rest_square = float((left.n[searched] ** 2).sum()) - square - 2 * cross
        codes = cells.labels.codes[left.rows]
        variances, distance = {}, {}
        with np.errstate(divide="ignore", invalid="ignore"):
            for name, rho in left.correlation.items():
                inside = _mean_variance(n, square, rho)
                outside = _mean_variance(rest, rest_square, rho)
                values = left.sample.measures[name][left.rows]
                sums = np.bincount(codes, values, len(cells.labels))
                apart = sums / n - (values.sum() - sums) / rest
                shared = 2 * rho * cross / (n * rest)
                standing = apart / (_spread(values) * np.sqrt(inside + outside - shared))
                distance[name] = np.where(eligible & np.isfinite(standing), standing, 0.0)
                variances[name] = inside, outside
        return cls(eligible, *variances["accuracy"], distance)


def _spread(values: FloatArray) -> float:
    """Return the standard deviation; 0 of values that differ by rounding alone, and of none."""
    spread = float(values.std()) if values.size else 0.0
    return spread if spread > _ROUNDING else 0.0


def _mean_variance(n: FloatArray, square: FloatArray, rho: float) -> FloatArray:
    """Return the variance of a mean of n items of variance 1, in families with a correlation."""
    return np.asarray((1 + (square / n - 1) * rho) / n)


def _enough_families(
    cells: _Cells, counts: FloatArray, n: FloatArray, half: BoolArray
) -> BoolArray:
    """Return (V,) whether a group, and the items outside, have enough families in a half."""
    present = (counts > 0) & half[cells.cluster]
    inside = cells.by_value(present)
    whole = cells.by_value(present & (counts == n[cells.cluster]))
    outside = np.count_nonzero((n > 0) & half) - whole
    return np.asarray(np.minimum(inside, outside) >= FEWEST_IN_HALF)


def _test_candidates(
    sample: _Sample, columns: Mapping[str, _Cells], rng: np.random.Generator
) -> tuple[CheckedGroup, ...]:
    """Take the groups that stand out, and test each without the items of those before it."""
    kept = np.ones(sample.cluster.size, dtype=np.bool_)
    tests: list[CheckedGroup] = []
    while len(tests) < MOST_TESTS:
        candidate = _farthest(columns, _Left.of(sample, kept))
        if candidate is None:
            break
        inside = columns[candidate.column].labels.has(candidate.value)
        rows = np.flatnonzero(kept & ~sample.searched[sample.cluster])
        test = group_permutation_test(
            sample.measures[candidate.measure][rows],
            sample.cluster[rows],
            inside[rows],
            higher=candidate.distance > 0,
            rng=rng.spawn(1)[0],
        )
        tested_items = int(np.count_nonzero(inside[rows])) // sample.asked
        tests.append(CheckedGroup(candidate, test, tested_items, math.nan))
        kept &= ~inside
    adjusted = holm([test.test.p_value for test in tests]).tolist() if tests else []
    return tuple(replace(test, adjusted=p) for test, p in zip(tests, adjusted, strict=True))


def _farthest(columns: Mapping[str, _Cells], left: _Left) -> Candidate | None:
    """Return the group that stands out most among the items that are left; None if none does."""
    farthest: Candidate | None = None
    most = _STANDS_OUT
    for name, cells in columns.items():
        distances = _Standing.of(cells, left).distance
        either = np.max([np.abs(of_measure) for of_measure in distances.values()], axis=0)
        code = int(either.argmax())
        if either[code] > most:
            most = float(either[code])
            in_accuracy = abs(distances["accuracy"][code]) >= max(_STANDS_OUT, _NEARLY * most)
            measure: Measure = "accuracy" if in_accuracy else "confidence gap"
            distance = float(distances[measure][code])
            code, distance = _worse(cells, left, measure, code, distance)
            farthest = Candidate(name, str(cells.labels.names[code]), measure, distance)
    return farthest


def _worse(
    cells: _Cells, left: _Left, measure: Measure, code: int, distance: float
) -> tuple[int, float]:
    """Return the worse group if two are all that is left of a column: each is all but the other."""
    codes = cells.labels.codes[left.kept]
    present = np.flatnonzero(np.bincount(codes, minlength=len(cells.labels)))
    if present.size != 2:
        return code, distance
    other = int(present.sum()) - code
    values, searched = left.sample.measures[measure][left.rows], cells.labels.codes[left.rows]
    own, others = (float(values[searched == side].mean()) for side in (code, other))
    turned = own > others if measure == "accuracy" else abs(own) < abs(others)
    return (other, -distance) if turned else (code, distance)


def _detectable(
    sample: _Sample, columns: Mapping[str, _Cells], standings: Mapping[str, _Standing], tests: int
) -> DetectableGroup | None:
    """Return how far from the others the median group would be found; None without a group.

    If that is too far for the median group to say anything, return the group that need not be as
    far off as any other: mostly the largest.

    Args:
        sample: all items.
        columns: those with groups that are searched.
        standings: of the groups of each column.
        tests: number of groups that are tested together with such a group.
    """
    groups = [
        (int(cells.sizes[code]), float(standing.inside[code]), float(standing.outside[code]))
        for cells, standing in ((cells, standings[name]) for name, cells in columns.items())
        for code in np.flatnonzero(standing.eligible)
    ]
    if not groups:
        return None
    errors = _POWER + _PER_TEST * min(tests, MOST_TESTS)

    def detectable(group: tuple[int, float, float]) -> DetectableGroup:
        items, inside, outside = group
        points = _detectable_points(sample, errors, inside, outside)
        return DetectableGroup(items // sample.asked, points)

    median = detectable(sorted(groups)[len(groups) // 2])
    if median.points <= MOST_DETECTABLE:
        return median
    easiest = min(map(detectable, groups), key=lambda group: group.points)
    return replace(easiest, large=True) if easiest.points <= MOST_DETECTABLE else median


def _detectable_points(sample: _Sample, errors: float, inside: float, outside: float) -> float:
    """Return how far off the accuracy of a group is that is so many standard errors from others.

    The spread is that of both rates. One right and one wrong item are added: that all of a few
    are right does not mean that there is no spread.

    Args:
        sample: all items.
        errors: number of standard errors.
        inside: variance of the mean of the group, if that of an item is 1.
        outside: the same of the other items.
    """
    right = sample.measures["accuracy"]
    rate, points = (float(right.sum()) + 1) / (right.size + 2), 0.0
    spread = rate * (1 - rate)
    for _ in range(4):
        own = max(0.0, rate - points) if rate > _HALF else min(1.0, rate + points)
        points = errors * math.sqrt(inside * max(own * (1 - own), spread) + outside * spread)
    return points


WhereStatus = Literal["found", "nothing found", "too few to tell", "no groups"]
"""found: a group is shown to differ. nothing found: none of those that were searched is. too few to
tell: no group has enough families, or of none a difference that matters would usually be found. no
groups: no column divides the items."""

NEEDED_FAMILIES: Final = 4 * FEWEST_IN_HALF
"""So many families of a group nearly always leave five in each half."""

MOST_BARS: Final = 20
"""So many groups of a column are drawn at most, those with the most items."""

_MOST_NAMED: Final = 2
_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True)
class WhereGroup:
    """A group of items: all with one value of a column.

    Attributes:
        column: the column; "" for the items outside all groups that differ.
        value: the value that its items have.
        items: number of items, however often each was asked.
        families: units of intervals that they form.
        accuracy: share of right answers, with its interval; of all items of the group.
        confidence: mean confidence, a fraction; NaN if it is not known.
        gap: confidence minus accuracy, with its interval.
        p: one-sided p-value of the test, after adjustment; NaN without a test.
        tested_items: items of the group in the half of the test; 0 without a test.
        differs: what was tested; None without a test.
        tested: mean of that in the group, in the half of the test.
        tested_others: of the items outside the group there, and outside the groups before it.
        direction: over-confident or under-confident if the interval of the gap in the half of the
            test excludes 0; else "".
        better: whether it is shown to be more often right, or less far off, than the others, and
            not to be more over-confident than they are.
        also: names of groups of other columns that are the same items.
    """

    column: str
    value: str
    items: int
    families: int
    accuracy: Estimate
    confidence: float
    gap: Estimate
    p: float = math.nan
    tested_items: int = 0
    differs: Measure | None = None
    tested: float = math.nan
    tested_others: float = math.nan
    direction: str = ""
    better: bool = False
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Column and value, and the other names of the same items.

        Example:
            "kind boolean (= number of answers 2)"
        """
        name = _name(self.column, self.value)
        return f"{name} (= {', '.join(self.also)})" if self.also else name

    @property
    def differs_in_confidence(self) -> bool:
        """Whether it is shown that its confidence is further off than that of the others."""
        return self.differs == "confidence gap" and bool(self.direction) and not self.better

    @property
    def rates(self) -> str:
        """How many of its answers are right, and how sure they are.

        Example:
            "57.0% right, 90.1% sure"
        """
        right = f"{value_text(self.accuracy.value, 'percent')}% right"
        if math.isnan(self.confidence):
            return right
        return f"{right}, {value_text(self.confidence, 'percent')}% sure"


@dataclass(frozen=True, kw_only=True, repr=False)
class WhereConclusion(Conclusion):
    """Conclusion on the groups of items in which a run is wrong, or wrongly sure.

    Attributes:
        status: see `WhereStatus`.
        run: label of the run.
        groups: the groups that differ, in the order in which the search found them.
        elsewhere: the items outside all of them; None if there are none.
        column_bars: the groups of one column: of the first group that differs, or else of the
            column that the user named, or kind.
        columns: columns that were searched.
        left_out: columns that have no groups, such as ids.
        searched: number of groups that were searched.
        tested: number of groups that were tested.
        others: number of other values of the column, if all groups that differ are of one; else 0.
        detectable: what would have been found; None if no group was searched.
        most_families: families of the group that has most, beside others; 0 without groups.
        unit: units of the intervals.
        items: ids of the items of the groups that differ and are not better; if all of these groups
            are better, of the other items. Empty if nothing is found, or for a run in a file.
    """

    question: ClassVar[Question] = "where"
    tones: ClassVar[Mapping[str, Tone]] = {
        "found": "bad",
        "nothing found": "good",
        "too few to tell": "open",
        "no groups": "open",
    }

    status: WhereStatus
    run: str
    groups: tuple[WhereGroup, ...] = ()
    elsewhere: WhereGroup | None = None
    column_bars: tuple[WhereGroup, ...] = ()
    columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    searched: int = 0
    tested: int = 0
    others: int = 0
    detectable: DetectableGroup | None = None
    most_families: int = 0
    unit: ClusterUnit = "family"

    @property
    def only_better(self) -> bool:
        """Whether all groups that differ are better than the others."""
        return bool(self.groups) and all(group.better for group in self.groups)

    @property
    def tone(self) -> Tone:
        """Tone of the status; that some groups are better than the others is not bad news."""
        return "open" if self.only_better else super().tone

    @property
    def words(self) -> Sentence:
        """The finding with its numbers.

        Example:
            "1 group differs: group books: 57.0% right, 90.1% sure; the other two: 82.0% right, ..."
        """
        if self.status != "found":
            return Sentence(upper_first(self._finding), f"{self._explanation}.")
        one = len(self.groups) == 1
        verb = ("is" if one else "are") if self.only_better else "differs" if one else "differ"
        return Sentence(
            f"{counted(len(self.groups), 'group')} {verb}{' better' if self.only_better else ''}",
            f"{self._found(self.groups)}.",
        )

    @property
    def line(self) -> str:
        """The same on a line, with the first two groups.

        Example:
            "group books: 57.0% right, 90.1% sure; the other two: 82.0% right (tested, p = 0.003)"
        """
        if self.status != "found":
            return f"{self._finding}: {self._explanation}"
        return self._found(self.groups[:_MOST_NAMED])

    @property
    def only_there(self) -> str:
        """Direction in which all groups are off, if no gap is shown elsewhere; else ""."""
        if self.elsewhere is None or not self.elsewhere.gap.low <= 0 <= self.elsewhere.gap.high:
            return ""
        directions = {group.direction for group in self.groups}
        return directions.pop() if len(directions) == 1 else ""

    def _found(self, groups: Sequence[WhereGroup]) -> str:
        parts = []
        for group in groups:
            sure = f"{group.direction.upper()}, " if group.differs_in_confidence else ""
            parts.append(f"{group.name}: {sure}{group.rates}")
        left = len(self.groups) - len(groups)
        parts += [f"{counted(left, 'more group')}"] if left else []
        if self.elsewhere is not None:
            parts.append(f"{self._place_elsewhere}: {self.elsewhere.rates}")
        tests = " and ".join(dict.fromkeys(p_value_text(group.p) for group in groups))
        only = ""
        if self.only_there:
            said = all(group.differs_in_confidence for group in groups)
            only = f"; {'' if said else f'{self.only_there} '}only there, as far as it is shown"
        return f"{'; '.join(parts)} (tested, {tests}){only}"

    @property
    def _place_elsewhere(self) -> str:
        """Name the items outside the groups that differ: "the other two", or "elsewhere"."""
        if not self.others:
            return "elsewhere"
        if self.others == 1:
            return "the other"
        number = _NUMBERS[self.others] if self.others < len(_NUMBERS) else f"{self.others:,}"
        return f"the other {number}"

    @property
    def _finding(self) -> str:
        """What was found, if no group is named."""
        if self.status != "nothing found":
            return self.status
        return f"nothing found in {counted(self.searched, 'group')}"

    @property
    def _explanation(self) -> str:
        """Why no group is named."""
        if self.status == "no groups":
            return "no column divides the items; one such as topic in the file would"
        power = self.detectable
        if power is None:
            units = "independent items" if self.unit == "family" else "sources"
            most = f"the largest has {self.most_families:,}"
            return f"a group needs about {NEEDED_FAMILIES} {units}, {most}"
        points, size = value_text(power.points, "percent"), counted(power.items, "item")
        if self.status == "too few to tell":
            return f"a group of {size} would have to differ by {points} points of accuracy"
        smaller = ", a smaller one only if it is further off" if power.large else ""
        found = f"one of {size} whose accuracy is {points} points off would usually be found"
        return f"{found}{smaller}"


def _name(column: str, value: str) -> str:
    (short_column,), (short_value,) = short_names([column]), short_names([value])
    return f"{short_column} {short_value}"


def where_conclusion(
    run: str,
    items: ScoredItems,
    columns: Iterable[tuple[str, pl.Series]],
    *,
    seed: int,
    by: str = "kind",
) -> WhereConclusion:
    """Conclude in which groups a run differs from its other items.

    Args:
        run: label of the run.
        items: its items under a decoding, with references.
        columns: by name, a value of every item; see `item_columns`.
        seed: of the halves and the permutations.
        by: column whose groups are drawn if none differs.

    Examples:
        >>> import polars as pl
        >>> from pact_eval.runs.predictions import Predictions
        >>> hard = [at % 2 == 0 for at in range(80)]
        >>> right = [at % 20 < 2 if hard[at] else at % 20 < 18 for at in range(80)]
        >>> frame = pl.DataFrame({
        ...     "id": [f"i{at:02}" for at in range(80)], "source_family": "s", "domain": "d",
        ...     "kind": "boolean", "variant": "base", "reference": [int(flag) for flag in right],
        ...     "n_choices": 2, "view": 0, "code_order": [[0, 1]] * 80, "logits": [[0.0, 2.0]] * 80,
        ...     "prompt_tokens": 9, "answer_mass": 1.0}).with_columns(family="id")
        >>> items = ScoredItems.of(Predictions.from_frame(frame), "single")
        >>> topic = pl.Series(["hard" if flag else "easy" for flag in hard])
        >>> conclusion = where_conclusion("run", items, [("topic", topic)], seed=0)
        >>> conclusion.words.finding, [(group.name, group.rates) for group in conclusion.groups]
        ('1 group differs', [('topic hard', '10.0% right, 88.1% sure')])
    """
    labels = {name: _labels(items, name, values, by) for name, values in columns}
    named = {name: groups for name, groups in labels.items() if groups is not None}
    search = search_groups(items, named, seed=seed)
    groups = _Groups(items, named, search.in_test)
    found = tuple(groups.tested(test) for test in search.shown)
    outside = ~groups.any_of(found)
    worse = [group for group in found if not group.better]
    behind = groups.any_of(worse) if worse else outside
    return WhereConclusion(
        status=_status(search, bool(named)),
        run=run,
        groups=found,
        elsewhere=groups.of("", "", outside) if found and outside.any() else None,
        column_bars=groups.bars(by, found),
        columns=tuple(named),
        left_out=tuple(name for name, groups in labels.items() if groups is None),
        searched=search.searched,
        tested=len(search.tests),
        others=groups.others(found),
        detectable=search.detectable,
        most_families=search.most_families,
        unit=items.unit,
        items=groups.ids(behind) if found else (),
    )


def _status(search: GroupSearch, has_columns: bool) -> WhereStatus:
    """Return what a search shows of columns, if there are any."""
    if any(test.shown for test in search.tests):
        return "found"
    if not has_columns:
        return "no groups"
    if search.detectable is None or search.detectable.points > MOST_DETECTABLE:
        return "too few to tell"
    return "nothing found"


def _labels(items: ScoredItems, name: str, values: pl.Series, by: str) -> Labels | None:
    """Return the groups of a column: those of its table, if the user named it and its bins."""
    if name == by and values.dtype.is_numeric() and len(items.labels[by]) > 1:
        return items.labels[by]
    asked = items.asked
    labels = group_labels(values.gather_every(asked), name, items.families.codes[::asked])
    return None if labels is None else replace(labels, codes=np.repeat(labels.codes, asked))


@dataclass(frozen=True, eq=False)
class _Groups:
    """The groups of items, with their numbers.

    Attributes:
        items: all items.
        columns: the value of each, by the name of the column.
        in_test: (n,) whether an item is in the half of the tests.
    """

    items: ScoredItems
    columns: Mapping[str, Labels]
    in_test: BoolArray

    def any_of(self, groups: Sequence[WhereGroup]) -> BoolArray:
        """Return (n,) whether an item is in one of some groups."""
        inside = np.zeros(len(self.items), dtype=np.bool_)
        for group in groups:
            inside |= self.columns[group.column].has(group.value)
        return inside

    def of(self, column: str, value: str, inside: BoolArray) -> WhereGroup:
        """Return the numbers of a group of some items.

        Args:
            column: its column.
            value: the value that the items have in it.
            inside: (n,) whether an item is one of them; one or more are.
        """
        rows = np.flatnonzero(inside)
        families, cluster = np.unique(self.items.cluster[rows], return_inverse=True)
        right, confidence = self.items.correct[rows], self.items.confidence[rows]
        rate = rate_estimate(np.bincount(cluster, right), np.bincount(cluster))
        gap, few = _gap(confidence - right, cluster, families.size), few_clusters(families.size)
        return WhereGroup(
            column=column,
            value=value,
            items=rows.size // self.items.asked,
            families=families.size,
            accuracy=without_interval(rate, few),
            confidence=float(confidence.mean()),
            gap=without_interval(gap, few),
        )

    def tested(self, tested: CheckedGroup) -> WhereGroup:
        """Return a group that was tested, with the other names of its items."""
        candidate, test = tested.candidate, tested.test
        inside = self.columns[candidate.column].has(candidate.value)
        own, others = (self.of("", "", side & self.in_test).gap for side in (inside, ~inside))
        direction = _direction(own)
        better = test.inside > test.outside
        if candidate.measure == "confidence gap":
            better = abs(test.inside) < abs(test.outside)
        return replace(
            self.of(candidate.column, candidate.value, inside),
            p=tested.adjusted,
            tested_items=tested.items,
            differs=candidate.measure,
            tested=test.inside,
            tested_others=test.outside,
            direction=direction,
            better=better and not (direction == "over-confident" and own.value > others.value),
            also=tuple(self._same(candidate.column, inside)),
        )

    def _same(self, column: str, inside: BoolArray) -> Iterator[str]:
        """Yield the names of the groups of other columns that are the same items."""
        size = np.count_nonzero(inside)
        for name, labels in self.columns.items():
            sizes = np.bincount(labels.codes, minlength=len(labels))
            for code in np.flatnonzero(sizes == size) if name != column else ():
                if np.array_equal(labels.codes == code, inside):
                    yield _name(name, str(labels.names[code]))

    def bars(self, by: str, found: Sequence[WhereGroup]) -> tuple[WhereGroup, ...]:
        """Return the groups of the column that is drawn, in the order of the report."""
        column = found[0].column if found else by
        if column not in self.columns:
            column = next(iter(self.columns), "")
        if not column:
            return ()
        labels, tested = (
            self.columns[column],
            {group.value: group for group in found if group.column == column},
        )
        sizes = np.bincount(labels.codes, minlength=len(labels))
        largest = np.argsort(-sizes, kind="stable")[:MOST_BARS]
        names = ordered_groups([str(labels.names[code]) for code in np.sort(largest)])
        return tuple(tested.get(name) or self.of(column, name, labels.has(name)) for name in names)

    def others(self, found: Sequence[WhereGroup]) -> int:
        """Return how many other values the one column of all groups has; 0 if they are of two."""
        columns = {group.column for group in found}
        if len(columns) != 1:
            return 0
        return len(self.columns[columns.pop()]) - len(found)

    def ids(self, inside: BoolArray) -> tuple[str, ...]:
        """Return the ids of some items; none of items that were read from a file."""
        if self.items.views is None:
            return ()
        asked = self.items.asked
        names = map(str, self.items.predictions.ids[::asked][inside[::asked]])
        return tuple(name.removesuffix(FIRST_REPEAT) if asked > 1 else name for name in names)


def _gap(gaps: FloatArray, cluster: IntArray, families: int) -> Estimate:
    """Return the mean of confidence minus accuracy, with its interval over families."""
    if not np.isfinite(gaps).all():
        return Estimate(math.nan, math.nan, math.nan, gaps.size, families)
    return mean_inference(gaps, cluster, families).estimate()


def _direction(gap: Estimate) -> str:
    """Return the direction of a gap that is shown; else ""."""
    if not gap.excludes_zero:
        return ""
    return "over-confident" if gap.value > 0 else "under-confident"


def items_of_groups(
    items: ScoredItems, groups: Sequence[WhereGroup]
) -> Mapping[str, frozenset[str]]:
    """Return the ids of the items of groups of one column.

    Args:
        items: all items that were searched.
        groups: groups of one column.

    Returns:
        The ids by the value of each group; none of items that were read from a file.
    """
    if not groups or items.views is None:
        return {}
    name = groups[0].column
    values = next(values for column, values in item_columns(items) if column == name)
    labels = group_labels(values, name, items.families.codes)
    if labels is None or groups[0].value not in labels.names:
        labels = items.labels[name]  # bins that the user named
    ids = items.predictions.ids
    codes = {value: code for code, value in enumerate(labels.names.tolist())}
    return {
        group.value: frozenset(map(str, ids[labels.codes == codes[group.value]].tolist()))
        for group in groups
    }
