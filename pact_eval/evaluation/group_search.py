"""Groups that differ: searched in half of the families, tested on the other half.

The half of the search takes, one after the other, the group that differs most from the items that
are left. Each is tested once on the families that the search has not seen, without the items of the
groups before it: of ten domains, two that are wrong do not make the other eight look good. Holm's
adjustment is over these tests, so what is shown is not the best of many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import Labels
from pact_eval.stats.clusters import intraclass_correlation
from pact_eval.stats.estimate import LEVEL
from pact_eval.stats.group_permutation import GroupTest, group_permutation_test
from pact_eval.stats.multiplicity import holm

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
