"""Groups that differ: searched in half of the families, tested on the other half.

The half of the search takes, one after the other, the group that differs most from the items that
are left. Each is tested once on the families that the search has not seen, without the items of the
groups before it: of ten domains, two that are wrong do not make the other eight look good. Holm's
adjustment is over these tests, so what is shown is not the best of many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

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
class CheckedGroup:
    """A group that stands out in the half of the search, with its test on the other half.

    Attributes:
        column: the column.
        value: the value that its items have.
        measure: in what it stands out.
        distance: of its mean from that of the items left, in standard errors.
        test: of its measure.
        items: items of the group in that half, without those of the groups before it.
        adjusted: one-sided p-value, adjusted by Holm for all tests of the search.
    """

    column: str
    value: str
    measure: Measure
    distance: float
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


def search_groups(items: ScoredItems, columns: Mapping[str, Labels], *, seed: int) -> GroupSearch:
    """Search half of the families for groups that differ, and test them on the other half.

    Without confidences, groups are searched in accuracy alone.

    Args:
        items: one or more items of a run with references.
        columns: by name, the values of every item; each column has two values or more.
        seed: of the halves and the permutations.
    """
    halves, permutations = np.random.default_rng(seed).spawn(2)
    families, right = items.n_clusters, items.correct.astype(np.float64)
    searched = np.zeros(families, dtype=np.bool_)
    searched[halves.permutation(families)[: families // 2]] = True
    measures: dict[Measure, FloatArray] = {"accuracy": right}
    if np.isfinite(items.confidence).all():
        measures["confidence gap"] = items.confidence - right
    # Families by the rank of their names: no order of rows matters.
    cluster = items.clusters.sorted().codes.astype(np.int64)
    sample = _Sample(cluster, searched, measures)
    cells = {name: _Cells.of(labels, sample) for name, labels in columns.items()}
    left = _Left.of(sample, np.ones(len(items), dtype=np.bool_))
    groups: list[tuple[int, float, float]] = []
    with_groups: dict[str, _Cells] = {}
    for name, column in cells.items():
        standing = _stand(column, left)
        sizes = np.bincount(column.labels.codes, minlength=len(column.labels)) // items.asked
        for code in np.flatnonzero(standing.eligible).tolist():
            inside, outside = float(standing.inside[code]), float(standing.outside[code])
            groups.append((int(sizes[code]), inside, outside))
            with_groups[name] = column
    tests = _test_candidates(sample, with_groups, permutations, items.asked)
    return GroupSearch(
        searched=len(groups),
        tests=tests,
        detectable=_detectable(right, groups, len(tests) + 1) if groups else None,
        most_families=max((column.most_families for column in cells.values()), default=0),
        in_test=~searched[cluster],
    )


class _Sample(NamedTuple):
    """What the search needs of n items of F families.

    Attributes:
        cluster: (n,) code of the family of each item.
        searched: (F,) whether a family is in the half of the search.
        measures: by name, (n,) values.
    """

    cluster: IntArray
    searched: BoolArray
    measures: Mapping[Measure, FloatArray]


class _Cells(NamedTuple):
    """A column by cells: the items of one family with one value.

    Attributes:
        labels: the values of all items; V different ones.
        order: (n,) rows of the items, by cell.
        starts: (cells,) first of each cell in that order.
        value: (cells,) code of the value.
        cluster: (cells,) code of the family.
        most_families: of the value that has most, or outside if these are fewer.
    """

    labels: Labels
    order: IntArray
    starts: IntArray
    value: IntArray
    cluster: IntArray
    most_families: int

    @classmethod
    def of(cls, labels: Labels, sample: _Sample) -> _Cells:
        """Sort the items of a column into cells."""
        families = sample.searched.size
        cell = labels.codes.astype(np.int64) * families + sample.cluster
        order = np.argsort(cell, kind="stable")
        starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
        value, cluster = np.divmod(cell[order[starts]], families)
        whole = np.bincount(cluster, minlength=families)[cluster] == 1
        inside, alone = (np.bincount(of, minlength=len(labels)) for of in (value, value[whole]))
        most = int(np.minimum(inside, families - alone).max())
        return cls(labels, order, starts, value, cluster, most)

    def by_value(self, cells: FloatArray | BoolArray) -> FloatArray:
        """Return the sums of (cells,) numbers by value, (V,)."""
        return np.bincount(self.value, cells, len(self.labels)).astype(np.float64)


class _Left(NamedTuple):
    """The items that are left by the groups that were taken.

    Attributes:
        sample: all items.
        kept: (n,) whether an item is left.
        n: (F,) how many items each family has left.
        rows: those in the half of the search.
        correlation: by measure, of two items of a family in that half.
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
        """
        cluster, searched, measures = sample
        families = searched.size
        n = np.bincount(cluster, kept, families).astype(np.float64)
        rows = np.flatnonzero(kept & searched[cluster])
        present = (n > 0) & searched
        correlation: dict[Measure, float] = {}
        for name, values in measures.items():
            sums, squares = (
                np.bincount(cluster[rows], added, families).astype(np.float64)[present]
                for added in (values[rows], values[rows] ** 2)
            )
            correlation[name] = max(0.0, intraclass_correlation(sums, squares, n[present]))
        return cls(sample, kept, n, rows, correlation)


class _Standing(NamedTuple):
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


def _stand(cells: _Cells, left: _Left) -> _Standing:
    """Compare the mean of each group with that of the other items that are left.

    With n items of variance 1 in families of n_f, of which two correlate by rho, the mean has the
    variance (1 + (sum n_f^2 / n - 1) rho) / n. Families on both sides correlate the means.

    Args:
        cells: of the column.
        left: the items that are left, and those of the half of the search.
    """
    _, searched, measures = left.sample
    kept = left.kept[cells.order].astype(np.float64)
    counts, of_family = np.add.reduceat(kept, cells.starts), left.n[cells.cluster]
    eligible = np.ones(len(cells.labels), dtype=np.bool_)
    for half in (searched, ~searched):
        present = (counts > 0) & half[cells.cluster]
        whole = cells.by_value(present & (counts == of_family))
        families = np.count_nonzero((left.n > 0) & half)
        eligible &= np.minimum(cells.by_value(present), families - whole) >= FEWEST_IN_HALF
    counts = np.where(searched[cells.cluster], counts, 0.0)
    n, square = cells.by_value(counts), cells.by_value(counts**2)
    cross = cells.by_value(counts * (of_family - counts))
    rest = left.rows.size - n
    rest_square = float((left.n[searched] ** 2).sum()) - square - 2 * cross
    codes, variances, distance = cells.labels.codes[left.rows], [], {}
    with np.errstate(divide="ignore", invalid="ignore"):
        for name, rho in left.correlation.items():
            inside = (1 + (square / n - 1) * rho) / n
            outside = (1 + (rest_square / rest - 1) * rho) / rest
            values = measures[name][left.rows]
            sums = np.bincount(codes, values, len(cells.labels))
            apart = sums / n - (values.sum() - sums) / rest
            spread = float(values.std()) if values.size else 0.0
            spread = spread if spread > _ROUNDING else 0.0
            shared = 2 * rho * cross / (n * rest)
            standing = apart / (spread * np.sqrt(inside + outside - shared))
            distance[name] = np.where(eligible & np.isfinite(standing), standing, 0.0)
            variances.append((inside, outside))
    return _Standing(eligible, *variances[0], distance)


def _test_candidates(
    sample: _Sample, columns: Mapping[str, _Cells], rng: np.random.Generator, asked: int
) -> tuple[CheckedGroup, ...]:
    """Take the groups that stand out, and test each without the items of those before it.

    Args:
        sample: all items.
        columns: those with groups that are searched.
        rng: source of the permutations.
        asked: rows of each item: its repeats.
    """
    cluster, searched, measures = sample
    kept = np.ones(cluster.size, dtype=np.bool_)
    tests: list[CheckedGroup] = []
    while len(tests) < MOST_TESTS:
        candidate = _farthest(columns, _Left.of(sample, kept))
        if candidate is None:
            break
        name, value, measure, distance = candidate
        inside = columns[name].labels.has(value)
        rows = np.flatnonzero(kept & ~searched[cluster])
        test = group_permutation_test(
            measures[measure][rows],
            cluster[rows],
            inside[rows],
            higher=distance > 0,
            rng=rng.spawn(1)[0],
        )
        tested = int(np.count_nonzero(inside[rows])) // asked
        tests.append(CheckedGroup(*candidate, test, tested, math.nan))
        kept &= ~inside
    adjusted = holm([test.test.p_value for test in tests]).tolist() if tests else []
    return tuple(replace(test, adjusted=p) for test, p in zip(tests, adjusted, strict=True))


def _farthest(columns: Mapping[str, _Cells], left: _Left) -> tuple[str, str, Measure, float] | None:
    """Return the group that stands out most among the items that are left; None if none does.

    If two groups are all that is left of a column, each is all but the other: it is the worse one.

    Returns:
        Column, value, in what it stands out, and by how many standard errors.
    """
    farthest: tuple[str, str, Measure, float] | None = None
    most = _STANDS_OUT
    for name, cells in columns.items():
        distances, labels = _stand(cells, left).distance, cells.labels
        either = np.max(np.abs([*distances.values()]), axis=0)
        code = int(either.argmax())
        if either[code] <= most:
            continue
        most = float(either[code])
        in_accuracy = abs(distances["accuracy"][code]) >= max(_STANDS_OUT, _NEARLY * most)
        measure: Measure = "accuracy" if in_accuracy else "confidence gap"
        distance = float(distances[measure][code])
        present = np.flatnonzero(np.bincount(labels.codes[left.kept], minlength=len(labels)))
        if present.size == 2:
            other = int(present.sum()) - code
            values, codes = left.sample.measures[measure][left.rows], labels.codes[left.rows]
            own, others = (float(values[codes == side].mean()) for side in (code, other))
            if own > others if in_accuracy else abs(own) < abs(others):
                code, distance = other, -distance
        farthest = name, str(labels.names[code]), measure, distance
    return farthest


def _detectable(
    right: FloatArray, groups: Sequence[tuple[int, float, float]], tests: int
) -> DetectableGroup:
    """Return how far from the others the median group would be found.

    If that is too far for the median group to say anything, return the group that need not be as
    far off as any other: mostly the largest. The spread is that of both rates. One right and one
    wrong item are added: that all of a few are right does not mean that there is no spread.

    Args:
        right: (n,) whether an item is right.
        groups: items of each, and the variances of its mean and of that of the other items, if that
            of an item is 1.
        tests: number of groups that are tested together with such a group.
    """
    errors = _POWER + _PER_TEST * min(tests, MOST_TESTS)
    rate = (float(right.sum()) + 1) / (right.size + 2)
    spread = rate * (1 - rate)

    def detectable(group: tuple[int, float, float]) -> DetectableGroup:
        (items, inside, outside), points = group, 0.0
        for _ in range(4):
            own = max(0.0, rate - points) if rate > _HALF else min(1.0, rate + points)
            points = errors * math.sqrt(inside * max(own * (1 - own), spread) + outside * spread)
        return DetectableGroup(items, points)

    median = detectable(sorted(groups)[len(groups) // 2])
    if median.points <= MOST_DETECTABLE:
        return median
    easiest = min(map(detectable, groups), key=lambda group: group.points)
    return replace(easiest, large=True) if easiest.points <= MOST_DETECTABLE else median
