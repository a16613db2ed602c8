"""The search for groups, against loops over groups, covariance matrices and the roots of scipy."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from conclusions.grouped_runs import frame_of_groups, texts
from scipy import optimize

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.evaluation.group_search import GroupSearch, search_groups
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import Labels
from pact_eval.runs.predictions import Predictions

FEWEST = 5
STANDS_OUT = 2.0
Groups = dict[str, IntArray]


def within(values: FloatArray, family: IntArray) -> float:
    """Return the correlation of two items of a family by analysis of variance, at least 0."""
    names, n = np.unique(family, return_counts=True)
    if names.size < 2 or values.size <= names.size:
        return 0.0
    means = np.array([values[family == name].mean() for name in names])
    between = (n * (means - values.mean()) ** 2).sum() / (names.size - 1)
    inside = sum(
        ((values[family == name] - mean) ** 2).sum()
        for name, mean in zip(names, means, strict=True)
    )
    inside /= values.size - names.size
    typical = (values.size - (n**2).sum() / values.size) / (names.size - 1)
    total = between + (typical - 1) * inside
    return float(np.clip((between - inside) / total, 0, 1)) if total > 0 else 0.0


class Oracle:
    """The rules of the search, with one loop per rule."""

    def __init__(self, right: BoolArray, sure: FloatArray, family: IntArray, tested: BoolArray):
        self.measures = {"accuracy": right.astype(float), "confidence gap": sure - right}
        self.family, self.tested = family, tested
        self.kept = np.ones(family.size, dtype=bool)

    def eligible(self, inside: BoolArray) -> bool:
        """Have a group, and the items outside, five families in each half?"""
        sides = (
            [half & self.kept & inside for half in (self.tested, ~self.tested)],
            [half & self.kept for half in (self.tested, ~self.tested)],
        )
        of_group = [set(self.family[rows]) for rows in sides[0]]
        # A family counts for the others if one of its items is outside.
        outside = [set(self.family[rows & ~inside]) for rows in sides[1]]
        return min(map(len, [*of_group, *outside])) >= FEWEST

    def variances(self, inside: BoolArray, measure: str) -> tuple[float, float, float]:
        """Return the variances of both means and of their difference, of items of variance 1."""
        rows = self.kept & ~self.tested
        family, group = self.family[rows], inside[rows]
        rho = within(self.measures[measure][rows], family)
        covariance = np.where(family[:, None] == family[None], rho, 0.0)
        np.fill_diagonal(covariance, 1.0)
        own, other = group / group.sum(), ~group / (~group).sum()
        apart = own - other
        return own @ covariance @ own, other @ covariance @ other, apart @ covariance @ apart

    def distance(self, inside: BoolArray, measure: str) -> float:
        """Return how many standard errors a group is from the others."""
        rows = self.kept & ~self.tested
        values, group = self.measures[measure][rows], inside[rows]
        if values.std() < 1e-9:
            return 0.0
        apart = values[group].mean() - values[~group].mean()
        return float(apart / (values.std() * math.sqrt(self.variances(inside, measure)[2])))

    def farthest(self, columns: Groups) -> tuple[str, int, str, float] | None:
        """Return the group that stands out most, and in what."""
        best: tuple[float, str, int, str, float] | None = None
        for name, codes in columns.items():
            for value in np.unique(codes):
                inside = codes == value
                if not self.eligible(inside):
                    continue
                by = {measure: self.distance(inside, measure) for measure in self.measures}
                most = max(map(abs, by.values()))
                if most > (best[0] + 1e-9 if best else STANDS_OUT):
                    in_accuracy = abs(by["accuracy"]) >= max(STANDS_OUT, 0.7 * most)
                    measure = "accuracy" if in_accuracy else "confidence gap"
                    best = most, name, int(value), measure, by[measure]
        return None if best is None else self.worse(columns, *best[1:])

    def worse(
        self, columns: Groups, name: str, value: int, measure: str, distance: float
    ) -> tuple[str, int, str, float]:
        """Return the worse one if two groups are left of a column."""
        codes = columns[name]
        left = np.unique(codes[self.kept])
        if left.size != 2:
            return name, value, measure, distance
        other = int(left.sum()) - value
        searched = self.kept & ~self.tested
        of = [self.measures[measure][searched & (codes == code)].mean() for code in (value, other)]
        if measure == "confidence gap":
            of = [-abs(mean) for mean in of]
        return (
            (name, other, measure, -distance) if of[0] > of[1] else (name, value, measure, distance)
        )

    def candidates(self, columns: Groups) -> Iterator[tuple[str, int, str, float]]:
        """Yield the groups in the order of the search: at most five."""
        for _ in range(5):
            found = self.farthest(columns)
            if found is None:
                return
            yield found
            self.kept &= columns[found[0]] != found[1]


def search(
    right: BoolArray, sure: FloatArray, family: IntArray, columns: Groups, seed: int = 0
) -> GroupSearch:
    items = ScoredItems.of(
        Predictions.from_frame(frame_of_groups(right, sure, {}, family)), "single"
    )
    labels = {name: Labels.of(np.array(texts("", codes))) for name, codes in columns.items()}
    return search_groups(items, labels, seed=seed)


def random_items(seed: int) -> tuple[BoolArray, FloatArray, IntArray, Groups]:
    """Items of families of one to four, with columns within and across families."""
    rng = np.random.default_rng(seed)
    family = np.repeat(np.arange(70), rng.integers(1, 5, 70))
    n = family.size
    columns = {
        "across": rng.integers(0, 3, n),
        "within": family % 5,
        "two": rng.integers(0, 2, 70)[family],
        "rare": (rng.random(n) < 0.08).astype(int),
    }
    hard = rng.normal(0, 0.2, 70)[family] - 0.35 * (columns["within"] == 1)
    right = rng.random(n) < 0.75 + hard + 0.2 * (columns["across"] == 2)
    sure = np.clip(0.75 + 0.23 * (columns["two"] == 1) + rng.normal(0, 0.02, n), 0.51, 0.99)
    return right, sure, family, columns


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_the_search_against_covariance_matrices(seed: int) -> None:
    right, sure, family, columns = random_items(seed)
    found = search(right, sure, family, columns, seed)
    oracle = Oracle(right, sure, family, found.in_test)
    expected: list[object] = [
        (name, str(value), measure, pytest.approx(distance))
        for name, value, measure, distance in oracle.candidates(columns)
    ]
    assert expected
    assert [
        (test.column, test.value, test.measure, test.distance) for test in found.tests
    ] == expected
    kept = found.in_test.copy()
    for test in found.tests:
        inside = columns[test.column] == int(test.value)
        values = oracle.measures[test.measure]
        assert test.items == (kept & inside).sum()
        assert test.test.inside == pytest.approx(values[kept & inside].mean())
        assert test.test.outside == pytest.approx(values[kept & ~inside].mean())
        kept &= ~inside


@pytest.mark.parametrize("seed", range(4))
def test_what_is_searched_against_a_loop_over_families(seed: int) -> None:
    right, sure, family, columns = random_items(seed)
    found = search(right, sure, family, columns, seed)
    oracle = Oracle(right, sure, family, found.in_test)
    groups = [codes == value for codes in columns.values() for value in np.unique(codes)]
    assert found.searched == sum(oracle.eligible(inside) for inside in groups)
    most = max(
        min(np.unique(family[inside]).size, np.unique(family[~inside]).size) for inside in groups
    )
    assert found.most_families == most
    halves = [set(family[half]) for half in (found.in_test, ~found.in_test)]
    assert not halves[0] & halves[1]
    assert [len(half) for half in halves] == [35, 35]


@pytest.mark.parametrize("rate", [0.8, 0.3])
def test_the_detectable_difference_against_the_roots_of_scipy(rate: float) -> None:
    """Groups of one size, of single items: 3.4 + 0.1 per test standard errors of half the items."""
    n, groups = 400, 4
    right = np.random.default_rng(3).permutation(np.arange(n) < rate * n)
    topic = np.arange(n) % groups
    found = search(right, np.full(n, 0.8), np.arange(n), {"topic": topic})
    assert found.detectable is not None
    assert found.detectable.items == n / groups
    share, errors = (right.sum() + 1) / (n + 2), 3.4 + 0.1 * (len(found.tests) + 1)
    inside = np.sort([(~found.in_test & (topic == value)).sum() for value in range(groups)])

    def missing(points: float, own_items: float) -> float:
        own = max(0.0, share - points) if rate > 0.5 else min(1.0, share + points)
        least = share * (1 - share)
        spread = max(own * (1 - own), least) / own_items + least / (n / 2 - own_items)
        return points - errors * math.sqrt(spread)

    sizes = [optimize.brentq(missing, 0, 1, args=(own,)) for own in (inside[0], inside[-1])]
    assert min(sizes) * 0.98 <= found.detectable.points <= max(sizes) * 1.02


def test_families_of_copies_and_single_items_have_one_search() -> None:
    """Four copies of every item change no distance, no p-value and no detectable difference."""
    rng = np.random.default_rng(1)
    topic, right = np.arange(120) % 3, rng.random(120) < 0.8 - 0.5 * (np.arange(120) % 3 == 1)
    one, four = (
        search(
            np.repeat(right, copies),
            np.full(120 * copies, 0.8),
            np.repeat(np.arange(120), copies),
            {"topic": np.repeat(topic, copies)},
        )
        for copies in (1, 4)
    )
    assert one.tests
    for single, copied in zip(one.tests, four.tests, strict=True):
        assert copied.value == single.value
        assert copied.distance == pytest.approx(single.distance)
        assert copied.items == 4 * single.items
        assert copied.adjusted == pytest.approx(single.adjusted, rel=0.1)
    assert one.detectable is not None
    assert four.detectable is not None
    assert four.detectable.points == pytest.approx(one.detectable.points, rel=0.02)


def test_holm_is_over_the_tests_by_hand() -> None:
    right, sure, family, columns = random_items(2)
    found = search(right, sure, family, columns)
    p = [test.test.p_value for test in found.tests]
    for place, test in enumerate(found.tests):
        # Holm: the largest of (m - rank) p over the p-values up to this one.
        up_to = sorted(p)[: sorted(p).index(p[place]) + 1]
        adjusted = max((len(p) - rank) * value for rank, value in enumerate(up_to))
        assert test.adjusted == pytest.approx(min(1.0, adjusted))
        assert test.shown == (test.adjusted <= 0.05)
