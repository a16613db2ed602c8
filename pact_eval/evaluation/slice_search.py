"""Slices that differ in accuracy: searched in half of the families, tested on the other half.

Every value of every column is a slice: kind, domain, source family and the further columns of the
records; numbers with many values are divided into four. The half of the search ranks them by how
far their accuracy is from that of the other items. The few that stand out are tested once, on the
families that the search has not seen, and Holm's adjustment is over these tests. So what is shown
is not the best of many: on data without slices, one is shown in at most 5% of searches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval._choices import OWN_GROUPS
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.errors import InputError
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import column_labels
from pact_eval.results import Result
from pact_eval.stats.estimate import LEVEL
from pact_eval.stats.multiplicity import holm
from pact_eval.stats.slice_permutation import slice_permutation_test

__all__ = ["FEWEST_FAMILIES", "MOST_TESTS", "CheckedSlice", "SliceSearch", "search_slices"]

FEWEST_FAMILIES: Final = 10
"""Families that a slice, and the items outside, need in each half."""

MOST_TESTS: Final = 5
"""So many slices are tested at most."""

_STANDS_OUT: Final = 2.0
_BINS: Final = 4
_FAMILIES_NEEDED: Final = 4 * FEWEST_FAMILIES


@dataclass(frozen=True)
class CheckedSlice:
    """A slice that stood out in the search, and its test on the other half.

    Attributes:
        column: the column.
        name: the value that its items have.
        items: items of the slice in the half of the test.
        families: their families.
        inside: their accuracy, as a fraction.
        outside: accuracy of the other items of this half.
        p_value: of the permutation test.
        adjusted: the same, adjusted by Holm for all tests.
    """

    column: str
    name: str
    items: int
    families: int
    inside: float
    outside: float
    p_value: float
    adjusted: float

    @property
    def difference(self) -> float:
        """Accuracy inside minus outside, as a fraction."""
        return self.inside - self.outside

    @property
    def shown(self) -> bool:
        """Whether the slice differs at the 5% level, after adjustment."""
        return self.adjusted < LEVEL


@dataclass(frozen=True, repr=False)
class SliceSearch(Result):
    """A search for slices that differ in accuracy.

    Attributes:
        place: the run.
        decoding: single or ensemble.
        columns: columns that were searched.
        left_out: columns that have too many values, or too few families in every value.
        slices: number of slices that were searched.
        searched: families of the half of the search.
        tested: families of the half of the tests.
        seed: seed of the halves and the permutations.
        tests: the slices that were tested, smallest p-value first.
    """

    place: str
    decoding: str
    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    slices: int
    searched: int
    tested: int
    seed: int
    tests: tuple[CheckedSlice, ...]

    @property
    def shown(self) -> tuple[CheckedSlice, ...]:
        """The slices that differ."""
        return tuple(test for test in self.tests if test.shown)


@dataclass(frozen=True)
class _Slice:
    """One value of one column, with the items that have it and its distance in the search."""

    column: str
    name: str
    inside: BoolArray
    distance: float


def search_slices(
    items: ScoredItems, *, seed: int, place: str = "", metric: str = "accuracy"
) -> SliceSearch:
    """Search for slices whose accuracy differs from that of the other items.

    Args:
        items: the items of a run with references, in memory.
        seed: of the halves and the permutations.
        place: the run, as outputs call it.
        metric: a rate per item.

    Raises:
        InputError: the items have no references, or fewer than 40 families.
    """
    if items.reference is None:
        message = f"{place}: ablated contexts have no references, so no slice can be right or wrong"
        raise InputError(message)
    if items.n_clusters < _FAMILIES_NEEDED:
        message = (
            f"{place}: expected {_FAMILIES_NEEDED} families or more, half for the search and half "
            f"for the tests, got {items.n_clusters}"
        )
        raise InputError(message)
    rng = np.random.default_rng(seed)
    values = np.asarray(items.values[metric], dtype=np.float64)
    in_search = _half(items, rng)[items.cluster]
    columns, left_out = _columns(items)
    slices = _different(
        [
            candidate
            for name, groups in columns.items()
            for candidate in _slices(items, name, groups, values, in_search)
        ]
    )
    standing_out = sorted(
        (candidate for candidate in slices if candidate.distance >= _STANDS_OUT),
        key=lambda candidate: (-candidate.distance, candidate.column, candidate.name),
    )[:MOST_TESTS]
    tests = _test_slices(standing_out, values, items.cluster, ~in_search, rng)
    return SliceSearch(
        place=place,
        decoding=items.decoding,
        columns=tuple(columns),
        left_out=left_out,
        slices=len(slices),
        searched=items.count_clusters(in_search),
        tested=items.count_clusters(~in_search),
        seed=seed,
        tests=tests,
    )


def _half(items: ScoredItems, rng: np.random.Generator) -> BoolArray:
    """Return which families are searched, (families,): a half that no order of rows changes."""
    order = np.argsort(items.clusters.names.astype(str), kind="stable")
    chosen = rng.permutation(items.n_clusters)[: items.n_clusters // 2]
    searched = np.zeros(items.n_clusters, dtype=np.bool_)
    searched[order[chosen]] = True
    return searched


def _columns(items: ScoredItems) -> tuple[dict[str, dict[str, IntArray]], tuple[str, ...]]:
    """Return the rows of every value of every column, and the columns with too many values."""
    columns: dict[str, dict[str, IntArray]] = {}
    left_out = []
    for name in OWN_GROUPS:
        columns[name] = items.labels[name].rows_by_name()
    metadata = items.predictions.metadata
    for name in () if metadata is None else metadata.columns:
        column = metadata[name]  # type: ignore[index]
        if name in columns:
            continue
        try:
            many = column.dtype.is_numeric() and column.n_unique() > 20
            columns[name] = column_labels(column, name, _BINS if many else None).rows_by_name()
        except InputError:
            left_out.append(name)
    return columns, tuple(left_out)


def _slices(
    items: ScoredItems,
    column: str,
    groups: dict[str, IntArray],
    values: FloatArray,
    in_search: BoolArray,
) -> Iterator[_Slice]:
    """Yield the values of a column that have enough families on both sides, in both halves."""
    for name, rows in groups.items():
        inside = np.zeros(len(items), dtype=np.bool_)
        inside[rows] = True
        sides = [half & side for half in (in_search, ~in_search) for side in (inside, ~inside)]
        if min(items.count_clusters(side) for side in sides) < FEWEST_FAMILIES:
            continue
        distance = _distance(values[in_search], items.cluster[in_search], inside[in_search])
        yield _Slice(column, name, inside, distance)


def _different(slices: list[_Slice]) -> list[_Slice]:
    """Leave out slices with the items of an earlier one, or with all others: one test is enough."""
    kept: dict[bytes, _Slice] = {}
    for candidate in slices:
        if not {candidate.inside.tobytes(), (~candidate.inside).tobytes()} & kept.keys():
            kept[candidate.inside.tobytes()] = candidate
    return [*kept.values()]


def _distance(values: FloatArray, cluster: IntArray, inside: BoolArray) -> float:
    """Return how many standard errors, over families, the means of the two sides are apart."""
    means = values[inside].mean(), values[~inside].mean()
    deviations = np.where(
        inside,
        (values - means[0]) / np.count_nonzero(inside),
        (means[1] - values) / np.count_nonzero(~inside),
    )
    by_family = np.bincount(cluster, weights=deviations)
    error = math.sqrt(float(np.sum(by_family**2)))
    difference = abs(float(means[0] - means[1]))
    return difference / error if error > 0 else (math.inf if difference > 0 else 0.0)


def _test_slices(
    slices: list[_Slice],
    values: FloatArray,
    cluster: IntArray,
    in_test: BoolArray,
    rng: np.random.Generator,
) -> tuple[CheckedSlice, ...]:
    """Test slices on the other half, and adjust their p-values together."""
    results = [
        slice_permutation_test(
            values[in_test], cluster[in_test], candidate.inside[in_test], rng=rng.spawn(1)[0]
        )
        for candidate in slices
    ]
    adjusted = holm([result.p_value for result in results]).adjusted if results else np.empty(0)
    tests = [
        CheckedSlice(
            column=candidate.column,
            name=candidate.name,
            items=int(np.count_nonzero(candidate.inside & in_test)),
            families=int(np.unique(cluster[candidate.inside & in_test]).size),
            inside=result.inside,
            outside=result.outside,
            p_value=result.p_value,
            adjusted=float(p_value),
        )
        for candidate, result, p_value in zip(slices, results, adjusted, strict=True)
    ]
    return tuple(sorted(tests, key=lambda test: test.p_value))
