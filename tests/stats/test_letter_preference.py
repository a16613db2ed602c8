"""Slot preferences against counts by hand, all permutations, and simulated noise."""

import math
from itertools import permutations, product

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from pact_eval.stats import letter_preference
from pact_eval.stats.letter_preference import SlotPreferences, slot_preferences
from pact_eval.stats.multiplicity import holm

Array = npt.NDArray[np.int64]
DRAWS = pytest.mark.parametrize("draws", [60, pytest.param(300, marks=pytest.mark.slow)])
LATIN = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]


def preference_of(orders: npt.ArrayLike, picked: npt.ArrayLike, seed: int = 0) -> SlotPreferences:
    cluster = np.arange(len(np.asarray(picked)))
    return slot_preferences(orders, picked, cluster, rng=np.random.default_rng(seed))


def test_counts_by_hand() -> None:
    # Item 0 has its answer 0 at slots A, C and B: consistent. Item 1 always takes the first slot.
    # Item 2 repeats its first order, so its third view does not count; it answers 1 and then 2.
    orders = [LATIN, LATIN, [[0, 1, 2], [0, 2, 1], [0, 1, 2]]]
    result = preference_of(orders, [[0, 0, 0], [0, 1, 2], [1, 2, 0]])
    assert (result.views, result.items, result.moved) == (8, 3, 2)
    assert [slot.shown for slot in result.slots] == [8, 8, 8]
    # Chosen: item 0 takes A, C, B; item 1 takes A three times; item 2 takes B twice.
    assert [slot.chosen for slot in result.slots] == [4 / 8, 3 / 8, 1 / 8]
    # By chance: item 1 has each answer at each slot once, 1 per slot; item 2's answers are at B
    # and C half the time, 1 per slot; item 0 is as it is.
    assert [slot.chance for slot in result.slots] == [2 / 8, 3 / 8, 3 / 8]
    assert [slot.preference.value for slot in result.slots] == [2 / 8, 0, -2 / 8]


def test_answers_without_an_order_or_in_one_order_are_left_out() -> None:
    orders = [LATIN, [[0, 1, 2]] * 3, [[0, 1, 2], [-1, -1, -1], [1, 0, 2]]]
    result = preference_of(orders, [[0, 1, 2], [0, 1, 2], [0, 0, 1]])
    assert (result.views, result.items) == (3, 1)
    assert preference_of(orders[1:], [[0, 1, 2], [0, 0, 1]]).slots == ()
    with pytest.raises(ValueError, match="answers .*order of their view"):
        preference_of([[[0, 1, -1], [1, 0, -1]]], [[0, 2]])


def test_slots_that_only_items_of_one_order_have_are_left_out() -> None:
    wide = [[0, 1, 2]] * 2
    result = preference_of([[[0, 1, -1], [1, 0, -1]], wide], [[0, 1], [2, 2]])
    assert [slot.shown for slot in result.slots] == [2, 2]


def test_answers_that_agree_in_all_orders_show_nothing() -> None:
    result = preference_of([LATIN] * 20, [[0, 0, 0]] * 20)
    assert result.moved == 0
    assert [slot.preference.value for slot in result.slots] == [0, 0, 0]
    assert all(np.isnan(slot.p_value) and not slot.marked for slot in result.slots)


def all_permutations(orders: Array, picked: Array) -> Array:
    """Counts the choices of every slot under every way to give answers to orders."""
    n, views = picked.shape
    counts = []
    for ways in product(permutations(range(views)), repeat=n):
        slots = [
            orders[item, ways[item][view]].tolist().index(picked[item, view])
            for item in range(n)
            for view in range(views)
        ]
        counts.append(np.bincount(slots, minlength=orders.shape[2]))
    return np.array(counts)


@pytest.mark.parametrize(
    ("draws", "enumerated"),
    [(letter_preference.MOST_DRAWS, 5), (letter_preference.MOST_DRAWS, 2), (0, 5)],
)
def test_p_values_and_noise_against_all_permutations(
    draws: int, enumerated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether an item's permutations are enumerated, or the orders of random keys."""
    rng = np.random.default_rng(3)
    orders = np.array([rng.permutation(list(permutations(range(3))))[:3] for _ in range(4)])
    picked = np.array([[0, 1, 2], [2, 1, 0], [1, 1, 0], [0, 2, 2]])
    monkeypatch.setattr(letter_preference, "MOST_DRAWS", draws)
    monkeypatch.setattr(letter_preference, "_ENUMERATED_ORDERS", enumerated)
    counts = all_permutations(orders, picked)
    result = preference_of(orders, picked)
    observed = np.array([slot_result.chosen * slot_result.shown for slot_result in result.slots])
    sizes = np.abs(counts - counts.mean(axis=0))
    exact = (sizes >= np.abs(observed - counts.mean(axis=0)) - 1e-9).mean(axis=0)
    for slot, slot_result in enumerate(result.slots):
        assert slot_result.chance * slot_result.shown == pytest.approx(counts[:, slot].mean())
        if draws:
            assert slot_result.p_value == pytest.approx(exact[slot], abs=0.02)
        else:  # the variance is exact; four items are far from its limit
            deviation = slot_result.noise * slot_result.shown / 1.959964
            assert deviation == pytest.approx(counts[:, slot].std(), rel=1e-6)


def test_a_p_value_is_never_0_as_phipson_and_smyth_ask() -> None:
    """The observed order counts as one of the permutations: (1 + 0) / (1 + 9,999)."""
    always_first = preference_of([LATIN] * 30, [[0, 1, 2]] * 30)
    assert always_first.slots[0].p_value == 1 / (1 + letter_preference.MOST_DRAWS)


@DRAWS
def test_noise_alone_is_called_a_preference_in_one_of_twenty(
    draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_preference, "MOST_DRAWS", 999)
    rng = np.random.default_rng(1)
    alarms = 0
    for seed in range(draws):
        orders = np.array([[rng.permutation(4) for _ in range(3)] for _ in range(40)])
        # The model leans to answer 0, which is often first, and repeats itself with noise.
        picked = rng.choice(4, size=(40, 3), p=[0.7, 0.1, 0.1, 0.1])
        result = preference_of(orders, picked, seed)
        alarms += bool(result.preferred or result.avoided)
    assert alarms <= stats.binom.isf(1e-3, draws, 0.05)


@pytest.mark.parametrize("widths", [(3, 3), (2, 3)])
def test_the_last_slot_is_apart_only_where_numbers_of_answers_differ(
    widths: tuple[int, int],
) -> None:
    """Whoever picks the last answer picks slot 1 of two and slot 2 of three."""
    orders = np.full((20, 2, 3), -1)
    picked = np.zeros((20, 2), dtype=int)
    for item in range(20):
        n = widths[item % 2]
        orders[item, 0, :n], orders[item, 1, :n] = np.arange(n), np.arange(n)[::-1]
        picked[item] = orders[item, :, n - 1]
    result = slot_preferences(orders, picked, np.arange(20), rng=np.random.default_rng(0))
    last = result.last
    assert (last is None) == (widths[0] == widths[1])
    assert last is None or (last.slot, last.chosen, last.is_last) == (-1, 1.0, True)
    # If all items have as many answers, the last letter and the last position are one.
    assert [slot.is_last for slot in result.slots] == [False, False, last is None]


def leaning(
    rng: np.random.Generator, families: int, answers: int, lean: float
) -> tuple[Array, Array, Array]:
    """Returns orders, choices and families of two items, each of which leans to a letter."""
    cluster = np.arange(families).repeat(2)
    orders = rng.random((2 * families, 4, answers)).argsort(axis=2)
    belief = np.take_along_axis(rng.normal(0, 1, (2 * families, 1, answers)), orders, axis=2)
    leans = lean * np.eye(answers)[rng.integers(answers, size=families)]
    scores = belief + rng.normal(0, 0.6, orders.shape) + leans[cluster][:, None]
    picked = np.take_along_axis(orders, scores.argmax(axis=2)[:, :, None], axis=2)[:, :, 0]
    return orders, picked, cluster


@DRAWS
def test_families_that_lean_to_letters_of_their_own_are_no_preference(
    draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The permutations alone reject in half of the draws: 20 families lean to a letter each."""
    monkeypatch.setattr(letter_preference, "MOST_DRAWS", 0)
    rng = np.random.default_rng(6)
    alarms, permuted = 0, 0
    for _ in range(draws):
        orders, picked, cluster = leaning(rng, 20, 5, 2.0)
        result = slot_preferences(orders, picked, cluster, rng=rng)
        alarms += bool(result.preferred or result.avoided)
        permuted += holm([slot.p_value for slot in result.slots]).min() <= 0.05
    assert alarms <= stats.binom.isf(1e-3, draws, 0.05)
    assert permuted > draws / 3


def test_t_over_families_by_hand() -> None:
    """Ten families choose slot 0 in both orders: all agree, and t is the root of 10."""
    orders = np.array([[[0, 1], [1, 0]]] * 10)
    result = preference_of(orders, [[0, 1]] * 10)
    expected = 2 * stats.t.sf(math.sqrt(10), 9)
    assert [slot.family_p_value for slot in result.slots] == pytest.approx([expected, expected])
    assert [slot.adjusted_p_value for slot in result.slots] == pytest.approx(
        [2 * max(expected, result.slots[0].p_value)] * 2
    )
    # One of the ten has three items: the squares are 1 and 9, and 18^2 / (9 + 81) = 3.6.
    cluster = np.r_[np.arange(10), 9, 9]
    orders, picked = np.array([[[0, 1], [1, 0]]] * 12), [[0, 1]] * 12
    rng = np.random.default_rng(0)
    unequal = slot_preferences(orders, picked, cluster, rng=rng).slots[1].family_p_value
    assert unequal == pytest.approx(2 * stats.t.sf(12 / math.sqrt(18), 3 - 1))


def test_a_preference_that_lives_in_a_group_is_named_with_it() -> None:
    """Of 24 families in a group, 14 always choose slot 0; of the others, as many do as avoid it."""
    orders = np.array([[[0, 1], [1, 0]]] * 60)
    picked = np.array([[0, 1]] * 14 + [[0, 0]] * 42 + [[0, 1], [1, 0]] * 2)
    wide = np.arange(60) < 24
    groups: dict[letter_preference.Group, npt.NDArray[np.bool_]] = {6: wide, 5: ~wide}
    groups["choice"] = np.arange(60) % 2 == 0
    result = slot_preferences(
        orders, picked, np.arange(60), rng=np.random.default_rng(7), groups=groups
    )
    first, second = (slot.group for slot in result.slots)
    assert first is not None
    assert second is not None
    assert (first.group, second.group) == (6, 6)
    assert (first.inside.value, first.outside.value) == pytest.approx((14 / 48, 0))
    assert (first.inside.clusters, first.outside.clusters) == (24, 36)
    assert (second.inside.value, second.outside.value) == pytest.approx((-14 / 48, 0))
    del groups[6]
    alone = slot_preferences(
        orders, picked, np.arange(60), rng=np.random.default_rng(7), groups=groups
    )
    assert [slot.group for slot in alone.slots] == [None, None]


def test_tied_answers_share_a_choice() -> None:
    """Two letters that tie in every view are each half of the choices; no answer is preferred."""
    orders = np.array([[np.roll(np.arange(4), -view) for view in range(4)]] * 60)
    result = preference_of(orders, orders[:, :, :2])
    assert [slot.preference.value for slot in result.slots] == [0.25, 0.25, -0.25, -0.25]
    assert (result.preferred, result.avoided, result.tied) == ((0, 1), (2, 3), 240)
    uniform = preference_of(orders, np.sort(orders, axis=2))
    assert [slot.preference.value for slot in uniform.slots] == [0, 0, 0, 0]
    assert (uniform.moved, uniform.preferred, uniform.avoided) == (0, (), ())


@pytest.mark.parametrize("enumerated", [5, 2])
def test_ties_against_all_permutations(enumerated: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The p-value of ties, against every permutation of the answers of two items."""
    monkeypatch.setattr(letter_preference, "_ENUMERATED_ORDERS", enumerated)
    rng = np.random.default_rng(5)
    sixes = [*permutations(range(3))]
    orders = np.array([[sixes[at] for at in rng.permutation(6)[:3]] for _ in range(2)])
    tied = np.array([[[0, 1], [2, -1], [0, 2]], [[1, -1], [1, 2], [0, -1]]])

    def chosen(picked: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        counts = np.zeros(3)
        for order, answers in zip(orders.reshape(-1, 3), picked.reshape(-1, 2), strict=True):
            listed = answers[answers >= 0]
            for answer in listed:
                counts[order.tolist().index(answer)] += 1 / len(listed)
        return counts

    every = np.array(
        [chosen(np.stack([tied[0][[*a]], tied[1][[*b]]])) for a in sixes for b in sixes]
    )
    observed, result = chosen(tied), preference_of(orders, tied)
    for at, slot in enumerate(result.slots):
        assert slot.chosen * slot.shown == pytest.approx(observed[at])
        assert slot.chance * slot.shown == pytest.approx(every[:, at].mean())
        distances = np.abs(every[:, at] - every[:, at].mean())
        exact = (distances >= abs(observed[at] - every[:, at].mean()) - 1e-9).mean()
        assert slot.p_value == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("seed", [0, 1])
def test_items_of_several_numbers_of_orders_against_random_keys(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items of 2 to 6 orders with up to 26 answers and ties: both ways draw one distribution."""
    rng = np.random.default_rng(seed)
    width = int(rng.choice([3, 5, 26]))
    orders, picked = np.full((40, 6, width), -1), np.full((40, 6, width), -1)
    for item in range(40):
        views = int(rng.integers(2, 7))
        orders[item] = [rng.permutation(width)] * 6
        orders[item, :views] = [rng.permutation(width) for _ in range(views)]
        for view in range(6):
            ties = int(rng.integers(1, width + 1)) if rng.random() < 0.3 else 1
            picked[item, view, :ties] = orders[item, view][rng.permutation(width)[:ties]]
    found = preference_of(orders, picked)
    monkeypatch.setattr(letter_preference, "_ENUMERATED_ORDERS", 0)
    for slot, other in zip(found.slots, preference_of(orders, picked).slots, strict=True):
        # Five standard errors of a difference of two p-values of 9,999 draws each.
        assert slot.p_value == pytest.approx(other.p_value, abs=0.036)
        assert slot.noise == pytest.approx(other.noise, rel=0.1)


@pytest.mark.parametrize(("families", "known"), [(2, False), (4, False), (5, True)])
def test_fewer_than_five_families_have_no_interval(families: int, known: bool) -> None:
    """Student's t of two families reached beyond -100 and +100 points, which none can."""
    orders = np.array([[[0, 1], [1, 0]]] * families)
    picked = [[0, 1], *([[1, 1]] * (families - 1))]
    (preference, *_) = (slot.preference for slot in preference_of(orders, picked).slots)
    assert math.isfinite(preference.low) == known
    assert (preference.reason is None) == known
