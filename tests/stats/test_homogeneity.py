import math

import numpy as np
import numpy.typing as npt
import pytest
from messages import assert_says
from scipy import stats
from statsmodels.stats.contingency_tables import SquareTable

from pact_eval.stats.homogeneity import SlotHomogeneity, chi2_tail, slot_homogeneity
from pact_eval.stats.paired_tests import mcnemar_from_counts

Slots = npt.NDArray[np.int64]


def biased_units(n: int, slots: int, seed: int) -> tuple[Slots, Slots]:
    """Draws references evenly, and picks that are wrong in 40% and then lean towards slot 0."""
    rng = np.random.default_rng(seed)
    reference = rng.integers(0, slots, n)
    leaning = rng.choice(slots, n, p=np.arange(slots, 0, -1) / sum(range(slots + 1)))
    return np.where(rng.random(n) < 0.4, leaning, reference), reference


@pytest.mark.parametrize("slots", [2, 3, 6])
def test_singletons_against_statsmodels(slots: int) -> None:
    picked, reference = biased_units(300, slots, slots)
    table = np.zeros((slots, slots))
    np.add.at(table, (picked, reference), 1)
    expected = SquareTable(table, shift_zeros=False).homogeneity(method="stuart_maxwell")
    result = slot_homogeneity(picked, reference, np.arange(300))
    assert result.chi2 == pytest.approx(expected.statistic, rel=1e-10)
    assert result.dof == expected.df == slots - 1
    assert result.p_value == pytest.approx(expected.pvalue, rel=1e-10)


@pytest.mark.parametrize("dof", [1, 2, 3, 4, 5, 8, 25, 100, 101])
def test_tail_against_scipy_stats(dof: int) -> None:
    values = [0.0, *np.geomspace(1e-12, 1300, 200).tolist()]
    tails = [chi2_tail(value, dof) for value in values]
    assert tails == pytest.approx(stats.chi2.sf(values, dof), rel=1e-12, abs=1e-290)
    assert chi2_tail(1e6, dof) == 0


def test_clusters_against_naive_loop() -> None:
    rng = np.random.default_rng(2)
    reference, picked = rng.integers(0, 5, (40, 3)), rng.integers(0, 5, (40, 3))
    family = rng.integers(0, 15, 40)
    d, s = np.zeros(5), np.zeros((5, 5))
    for name in set(family.tolist()):
        d_f = np.zeros(5)
        for item in np.flatnonzero(family == name):
            for view in range(3):
                d_f[picked[item, view]] += 1
                d_f[reference[item, view]] -= 1
        d, s = d + d_f, s + np.outer(d_f, d_f)
    result = slot_homogeneity(picked, reference, family)
    assert result.chi2 == pytest.approx(d @ np.linalg.pinv(s, hermitian=True) @ d, rel=1e-9)
    assert result.dof == np.linalg.matrix_rank(s) == 4
    assert result.p_value == pytest.approx(stats.chi2.sf(result.chi2, 4))
    assert result.observed.tolist() == np.bincount(picked.ravel(), minlength=5).tolist()
    assert result.expected.tolist() == np.bincount(reference.ravel(), minlength=5).tolist()
    assert (result.units, result.clusters) == (120, len(set(family.tolist())))


def test_hand_computation_with_clusters() -> None:
    """d_f = (2, -2), (1, -1), (-1, 1), (0, 0): d = 2, S = 4 + 1 + 1, chi2 = 4 / 6."""
    picked = [0, 0, 0, 1, 1, 0]
    reference = [1, 1, 1, 0, 0, 1]
    result = slot_homogeneity(picked, reference, ["a", "a", "b", "c", "d", "d"])
    assert result.chi2 == pytest.approx(4 / 6)
    assert (result.dof, result.clusters, result.discordant_clusters) == (1, 4, 3)
    # chi2 cannot exceed 3 here, and 3.84 is needed.
    assert_says(result.reason, "only 3 families differ", "p-value below 0.05")
    alone = slot_homogeneity(picked[:2], reference[:2], ["a", "a"]).reason
    assert_says(alone, "only 1 family differs", "p-value below 0.05")


def test_copies_of_a_view_are_no_evidence() -> None:
    """Four identical views of each item must not look like four times the data."""
    picked, reference = biased_units(200, 4, 3)
    once = slot_homogeneity(picked, reference, np.arange(200))
    picked, reference = (np.repeat(slots[:, None], 4, axis=1) for slots in (picked, reference))
    fourfold = slot_homogeneity(picked, reference, np.arange(200))
    assert fourfold.chi2 == pytest.approx(once.chi2, rel=1e-9)
    assert fourfold.p_value == pytest.approx(once.p_value, rel=1e-9)
    naive = slot_homogeneity(picked.ravel(), reference.ravel(), np.arange(800))
    assert naive.chi2 == pytest.approx(4 * once.chi2, rel=1e-9)


def test_false_alarms_are_as_rare_as_they_claim() -> None:
    """Families err as one, without a preference for any letter: 5% of the tests may object."""
    rng, tries, families = np.random.default_rng(4), 200, 100
    alarms = {"families": 0, "items": 0}
    for _ in range(tries):
        reference = rng.integers(0, 4, families).repeat(4)
        other = rng.integers(0, 4, families).repeat(4)
        wrong = (rng.random(families) < 0.5).repeat(4)
        picked = np.where(wrong, other, reference)
        cluster = np.arange(families).repeat(4)
        alarms["families"] += slot_homogeneity(picked, reference, cluster).p_value < 0.05
        alarms["items"] += slot_homogeneity(picked, reference, np.arange(4 * families)).p_value < (
            0.05
        )
    low, high = stats.binom.interval(1 - 2e-4, tries, 0.05)
    assert low <= alarms["families"] <= high
    assert alarms["items"] > high


def test_a_relabelling_of_the_slots_changes_nothing() -> None:
    picked, reference = biased_units(100, 5, 6)
    new_name = np.array([3, 0, 4, 1, 2])
    before = slot_homogeneity(picked, reference, np.arange(100) // 2)
    after = slot_homogeneity(new_name[picked], new_name[reference], np.arange(100) // 2)
    assert after.chi2 == pytest.approx(before.chi2, rel=1e-9)
    assert after.observed[new_name].tolist() == before.observed.tolist()


def test_slots_that_nobody_uses_cost_no_degrees_of_freedom() -> None:
    picked, reference = biased_units(100, 3, 7)
    dense = slot_homogeneity(picked, reference, np.arange(100))
    sparse = slot_homogeneity(picked * 5, reference * 5, np.arange(100))
    assert sparse.chi2 == pytest.approx(dense.chi2, rel=1e-9)
    assert sparse.dof == dense.dof


def test_the_statistic_never_exceeds_the_discordant_clusters() -> None:
    result = slot_homogeneity([0] * 12, [1, 2, 3] * 4, [0] * 6 + [1] * 6)
    assert result.discordant_clusters == 2
    assert result.chi2 <= 2 + 1e-9


def check_no_evidence(result: SlotHomogeneity) -> None:
    assert (result.chi2, result.dof, result.p_value) == (0.0, 0, 1.0)
    assert result.discordant_clusters == 0
    assert result.reason is not None


def test_without_discordance_there_is_no_evidence() -> None:
    check_no_evidence(slot_homogeneity([0, 1, 2], [0, 1, 2], [0, 1, 2]))
    check_no_evidence(slot_homogeneity([0, 1], [1, 0], ["a", "a"]))


def test_without_rows_the_test_is_undefined() -> None:
    result = slot_homogeneity([], [], [])
    assert math.isnan(result.chi2)
    assert math.isnan(result.p_value)
    assert (result.dof, result.units, result.clusters) == (0, 0, 0)
    assert result.observed.shape == (0,)
    assert_says(result.reason, "no rows", "nothing to test")


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="picked and reference of one shape"):
        slot_homogeneity([0, 1], [0], [0, 1])
    with pytest.raises(ValueError, match="picked and reference of one shape"):
        slot_homogeneity([[0, 1]], [[0, 1]], [0, 1])
    with pytest.raises(ValueError, match="picked: expected letter positions"):
        slot_homogeneity([-1], [0], [0])
    with pytest.raises(ValueError, match="reference: expected letter positions"):
        slot_homogeneity([0], [0.5], [0])


def test_only_letters_that_are_shown_are_named() -> None:
    """F is avoided: its 20 references are answered by any other letter, none of them often."""
    rng = np.random.default_rng(1)
    reference = np.concatenate([np.full(20, 5), rng.integers(0, 5, 180)])
    picked = np.concatenate([np.arange(20) % 5, reference[20:]])
    homogeneity = slot_homogeneity(picked, reference, np.arange(200))
    assert homogeneity.observed[5] == 0
    assert homogeneity.p_value < 0.05
    assert (homogeneity.favoured, homogeneity.avoided) == ((), (5,))
    for slot in range(6):
        picks, holds = picked == slot, reference == slot
        wrongly, missed = picks & ~holds, holds & ~picks
        exact = mcnemar_from_counts(int(wrongly.sum()), int(missed.sum()), 0, 0).p_value
        assert homogeneity.letter_p_values[slot] >= exact / 2
        assert (homogeneity.letter_p_values[slot] < 0.05) == (6 * exact < 0.05)


def test_a_single_favourite_is_named_and_what_it_replaces() -> None:
    reference = np.tile(np.arange(4), 60)
    picked = np.where(np.arange(240) % 5 == 0, 0, reference)
    homogeneity = slot_homogeneity(picked, reference, np.arange(240))
    assert homogeneity.favoured == (0,)
    assert set(homogeneity.avoided) == {1, 2, 3}
    fair = slot_homogeneity(reference, reference, np.arange(240))
    assert (fair.favoured, fair.avoided) == ((), ())
    assert math.isnan(fair.detectable)


def test_the_detectable_shift_is_shown_four_times_in_five() -> None:
    """Units with confusions in both directions, and a true shift of the size that is named."""
    rng = np.random.default_rng(4)

    def run(shift: float) -> SlotHomogeneity:
        reference = rng.integers(0, 2, 1_000)
        flip = rng.random(1_000) < np.where(reference == 1, 0.1 + shift, 0.1 - shift)
        return slot_homogeneity(
            np.where(flip, 1 - reference, reference), reference, np.arange(1_000)
        )

    size = float(np.mean([run(0.0).detectable for _ in range(20)]))
    shown = np.mean([bool(run(size).favoured) for _ in range(400)])
    assert 0.7 < shown < 0.9


def test_letters_that_tie_are_shares_of_a_unit() -> None:
    """Twice as many units, each counted as half, are the same test."""
    rng = np.random.default_rng(3)
    picked, held, family = rng.integers(3, size=60), rng.integers(3, size=60), np.arange(60) // 2
    whole = slot_homogeneity(picked, held, family)
    twice = np.repeat([picked, held, family], 2, axis=1)
    halves = slot_homogeneity(twice[0], twice[1], twice[2], np.full(120, 0.5))
    assert halves.observed.tolist() == whole.observed.tolist()
    assert (halves.units, halves.dof) == (whole.units, whole.dof)
    assert halves.chi2 == pytest.approx(whole.chi2)
    assert halves.detectable == pytest.approx(whole.detectable)
