"""Permutation test for position bias: choices of each slot, given the answers.

The answers of an item are permuted over its orders. What a model believes of an answer cancels.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray, IntArray
from pact_eval.stats._quantiles import normal_quantile
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_eval.stats.linearised import linear_inference, linearised_ratio
from pact_eval.stats.multiplicity import holm

MOST_DRAWS: Final = 9_999
"""Permutations that are drawn, if there are not too many views to permute."""

_LEAST_DRAWS = 999
_DRAWN_VIEWS = 20_000_000
_KEYS_AT_ONCE = 200_000
_ROUNDING = 1e-9


@dataclass(frozen=True)
class SlotPreference:
    """Frequency of one slot as the choice, compared with the same answers in other orders.

    Attributes:
        slot: its position, from 0; -1 for the last slot of every item.
        shown: views that have this slot.
        chosen: share of these views that choose it.
        chance: share that would, had each item given its answers to its orders at random.
        preference: chosen minus chance, with its 95% interval over clusters.
        noise: half the width of the range around 0 that holds 95% of the permutations.
        p_value: two-sided, of the permutations; NaN if no answer depends on the slot.
        adjusted_p_value: the same adjusted by Holm over the slots, the last one included.
    """

    slot: int
    shown: int
    chosen: float
    chance: float
    preference: Estimate
    noise: float
    p_value: float
    adjusted_p_value: float

    @property
    def marked(self) -> bool:
        """Whether the preference is shown: by the test, after Holm's adjustment, and its interval.

        The test asks about these items, and the interval about new families: both have to show
        it. There is no interval if all families agree; the test alone decides then.
        """
        holds_zero = self.preference.low <= 0 <= self.preference.high
        return self.adjusted_p_value <= LEVEL and not holds_zero


@dataclass(frozen=True)
class SlotPreferences:
    """All slots, from the first to the last.

    Attributes:
        slots: one per position.
        last: the last slot of every item, whatever its letter; None if all items have the same
            number of slots.
        views: views in different orders that were counted.
        items: items that they belong to.
        moved: items whose answer differs between two of their orders: only these can show
            anything.
        draws: permutations that were drawn; 0 if the p-values are those of the normal limit.
        tied: views in which several answers are equally probable; each is a share of a choice.
    """

    slots: tuple[SlotPreference, ...]
    views: int
    items: int
    moved: int
    draws: int
    last: SlotPreference | None = None
    tied: int = 0

    @property
    def preferred(self) -> tuple[int, ...]:
        """Slots that are shown to be chosen more often than by chance."""
        return tuple(
            tested.slot for tested in self.slots if tested.marked and tested.preference.value > 0
        )

    @property
    def avoided(self) -> tuple[int, ...]:
        """Slots that are shown to be chosen less often than by chance."""
        return tuple(
            tested.slot for tested in self.slots if tested.marked and tested.preference.value < 0
        )


def slot_preferences(
    code_order: npt.ArrayLike,
    picked: npt.ArrayLike,
    cluster: npt.ArrayLike,
    *,
    rng: np.random.Generator,
) -> SlotPreferences:
    r"""Test whether answers follow the slots at which they are shown.

    Item i gave the answers :math:`a_{ik}` in K_i different orders; :math:`o_{im}^{-1}(a)` is the
    slot of answer a in order m. A slot s was chosen more often than by chance by

    .. math:: T_s = \sum_i \sum_k \left( [o_{ik}^{-1}(a_{ik}) = s]
              - \frac{1}{K_i} \sum_m [o_{im}^{-1}(a_{ik}) = s] \right)

    Under the null hypothesis, the answers of an item are exchangeable over its orders: orders do
    nothing that repeats would not do. The distribution of T_s is then that of permuting the
    answers of every item over its orders. The test is exact up to the number of permutations
    drawn. It needs no references, and what a model believes of an answer in all orders cancels.

    Of m answers that tie in a view, each counts as 1/m of a choice.

    Of very many views, too many to permute, p-values and noise are those of the normal limit with
    the variance of the permutations, which is known exactly:

    .. math:: \operatorname{Var} T_s = \sum_i \frac{1}{K_i - 1} \sum_{k,m} d_{ikm}^2

    with :math:`d_{ikm}` the indicators :math:`[o_{im}^{-1}(a_{ik}) = s]`, centred by row and
    column (Hoeffding's combinatorial variance).

    Args:
        code_order: (n, K, C) answer at each slot; unused slots -1. An order that repeats one of
            the same item is left out, and so is an item with a view without an order, or with one
            order only.
        picked: (n, K) answer chosen in each view, or (n, K, T) the answers that tie, then -1.
        cluster: (n,) family codes 0, 1, ...
        rng: source of the permutations.

    Returns:
        A preference for each slot.

    Raises:
        ValueError: the shapes do not fit, or an answer is not in the order of its view.

    References:
        Hoeffding, "A combinatorial central limit theorem", Annals of Mathematical Statistics
        1951. Phipson and Smyth, "Permutation p-values should never be zero", Statistical
        Applications in Genetics and Molecular Biology 2010.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.permuted_slots import slot_preferences
        >>> orders = np.array([[[0, 1], [1, 0]]] * 10)
        >>> first = np.array([[0, 1]] * 10)  # whatever is shown first
        >>> test = slot_preferences(orders, first, np.arange(10), rng=np.random.default_rng(0))
        >>> test.slots[0].chosen, test.slots[0].chance, test.preferred, test.avoided
        (1.0, 0.5, (0,), (1,))
    """
    orders: IntArray = np.asarray(code_order)
    picks: IntArray = np.asarray(picked)
    picks = picks[..., None] if picks.ndim == 2 else picks
    by_letter = _preferences(orders, picks, cluster, rng)
    width = (orders >= 0).sum(axis=2)
    if not by_letter.items or np.unique(width[width > 0]).size == 1:
        return _adjusted(by_letter, None)
    last = _preferences(_from_the_end(orders, width), picks, cluster, rng).slots[0]
    return _adjusted(by_letter, replace(last, slot=-1))


def _from_the_end(orders: IntArray, width: IntArray) -> IntArray:
    """Return (n, K, C): the same orders with the last slot first; unused slots stay behind."""
    slot = np.arange(orders.shape[2])
    at = np.where(slot < width[:, :, None], width[:, :, None] - 1 - slot, slot)
    reversed_orders: IntArray = np.take_along_axis(orders, at, axis=2)
    return reversed_orders


def _adjusted(preferences: SlotPreferences, last: SlotPreference | None) -> SlotPreferences:
    """Adjust the p-values of all slots together, by Holm."""
    slots = [*preferences.slots, *([] if last is None else [last])]
    p_values = holm(np.array([slot.p_value for slot in slots], dtype=np.float64)).adjusted
    tested = [
        replace(slot, adjusted_p_value=p_value)
        for slot, p_value in zip(slots, p_values.tolist(), strict=True)
    ]
    last = None if last is None else tested.pop()
    return replace(preferences, slots=tuple(tested), last=last)


def _preferences(
    code_order: IntArray, picked: IntArray, cluster: npt.ArrayLike, rng: np.random.Generator
) -> SlotPreferences:
    """Test every slot, without adjusting the p-values for one another."""
    at, has, codes = _views(code_order, picked, cluster)
    if not len(at):
        return SlotPreferences((), 0, 0, 0, 0)
    counted = _Counted.of(at, has, codes)
    moved = counted.moved
    observed = counted.surplus.sum(axis=0)
    p_values, noise, draws = _null(at[moved], observed, rng)
    return SlotPreferences(
        slots=tuple(
            SlotPreference(
                slot=slot,
                shown=shown,
                chosen=float(counted.chosen[slot] / shown),
                chance=float((counted.chosen[slot] - observed[slot]) / shown),
                preference=counted.estimate(slot),
                noise=float(noise[slot] / shown),
                p_value=float(p_values[slot]),
                adjusted_p_value=float(p_values[slot]),
            )
            for slot, shown in enumerate(counted.shown.sum(axis=0).astype(int).tolist())
        ),
        views=int((_ties(at) > 0).sum()),
        items=len(at),
        moved=int(moved.sum()),
        draws=draws,
        tied=int((_ties(at) > 1).sum()),
    )


def _views(
    code_order: npt.ArrayLike, answers: IntArray, cluster: npt.ArrayLike
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the items that are shown in different orders, those orders first.

    Returns:
        (n, K, K, T) slot of the tied answers of view k in order m, -1 if either repeats another;
        (n, K, S) 1 if a view has a slot; (n,) the cluster codes.
    """
    orders: IntArray = np.asarray(code_order)
    codes: IntArray = np.asarray(cluster)
    if orders.ndim != 3 or answers.shape[:2] != orders.shape[:2] or codes.shape != orders.shape[:1]:
        raise ValueError(
            "expected code_order (n, K, C), picked (n, K) and cluster (n,), got "
            f"{orders.shape}, {answers.shape[:2]} and {codes.shape}"
        )
    distinct = distinct_orders(orders)
    kept = np.all((orders >= 0).any(axis=2), axis=1) & (distinct.sum(axis=1) > 1)
    orders, answers, distinct = orders[kept], answers[kept], distinct[kept]
    # Items of one order may have more slots than all others: nothing can be said of those.
    orders = orders[:, :, : (orders >= 0).sum(axis=2).max(initial=0)]
    # Orders that repeat another go last: permutations move the others only.
    first = np.argsort(~distinct, axis=1, kind="stable")
    orders = np.take_along_axis(orders, first[:, :, None], axis=1)
    answers = np.take_along_axis(answers, first[:, :, None], axis=1)
    distinct = np.take_along_axis(distinct, first, axis=1)
    at = np.stack([_slots_of(orders, tied) for tied in np.moveaxis(answers, -1, 0)], axis=-1)
    own = _diagonal(at)
    if (own[..., 0] < 0).any() or ((own < 0) & (answers >= 0)).any():
        raise ValueError("picked: expected answers that the order of their view shows")
    at[~(distinct[:, :, None] & distinct[:, None, :])] = -1
    return at, ((orders >= 0) & distinct[:, :, None]).astype(np.int64), codes[kept]


def distinct_orders(code_order: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return which views of an item are the first of their letter order.

    Args:
        code_order: (n, K, C) answer at each slot; unused slots -1, and all -1 in a view of unknown
            order.

    Returns:
        (n, K) False for a view whose order an earlier view of the item has. An unknown order
        counts as another one.

    Examples:
        >>> from pact_eval.stats.permuted_slots import distinct_orders
        >>> distinct_orders([[[0, 1], [1, 0], [0, 1], [1, 0]]])
        array([[ True,  True, False, False]])
    """
    orders: IntArray = np.asarray(code_order)
    distinct = np.ones(orders.shape[:2], dtype=np.bool_)
    for view in range(1, orders.shape[1]):
        first = orders[:, view, 0]
        for earlier in range(view):
            # Most orders of an item differ at the first letter: only the others are compared.
            same_first = (first == orders[:, earlier, 0]) & (first >= 0)
            alike = np.flatnonzero(same_first & distinct[:, view])
            if alike.size:
                distinct[alike, view] = (orders[alike, view] != orders[alike, earlier]).any(axis=1)
    return distinct


def _slots_of(orders: IntArray, answers: IntArray) -> IntArray:
    """Return (n, K, K): the slot of the answer of view k in order m; -1 if there is none."""
    n, views, slots = orders.shape
    # One more answer takes what is written for unused slots.
    inverse = np.full((n, views, slots + 1), -1, dtype=np.int64)
    at = np.broadcast_to(np.arange(slots), orders.shape)
    np.put_along_axis(inverse, np.where(orders < 0, slots, orders), at, axis=2)
    inverse[:, :, slots] = -1
    return np.take_along_axis(inverse.transpose(0, 2, 1), answers[:, :, None], axis=1)


def _diagonal(at: IntArray) -> IntArray:
    """Return (n, K, T): the slots of tied answers in the order in which they were given."""
    slots: IntArray = np.einsum("ikkt->ikt", at)
    return slots


def _ties(at: IntArray) -> IntArray:
    """Return (n, K): the number of answers that tie in a view, 0 if it repeats another order."""
    return np.asarray((_diagonal(at) >= 0).sum(axis=2))


def _share(at: IntArray, slot: int) -> FloatArray:
    """Return (n, K, K): the share of the choice of view k that is at a slot in order m."""
    return np.asarray((at == slot).sum(axis=3) / np.maximum(_ties(at), 1)[:, :, None])


@dataclass(frozen=True, eq=False)
class _Counted:
    """Counts by slot.

    Attributes:
        chosen: (S,) views that choose it.
        surplus: (F, S) by cluster, choices beyond chance.
        shown: (F, S) by cluster, views that have it.
        moved: (n,) whether the answer of an item differs between its orders.
    """

    chosen: FloatArray
    surplus: FloatArray
    shown: FloatArray
    moved: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, at: IntArray, has: IntArray, cluster: IntArray) -> "_Counted":
        """Count views by slot and cluster."""
        own = _diagonal(at)
        shape = (int(cluster.max()) + 1, has.shape[2])
        surplus, shown, chosen = np.zeros(shape), np.zeros(shape), np.zeros(shape[1])
        np.add.at(shown, cluster, has.sum(axis=1))
        for slot in range(shape[1]):
            share = _share(at, slot)
            given = np.einsum("ikk->i", share)
            chosen[slot] = given.sum()
            np.add.at(surplus[:, slot], cluster, given - _by_chance(at, share))
        # The answers of two orders are the same if they are at the same slot of the first order.
        differs = (at[:, :, 0] != at[:, :1, 0]).any(axis=2)
        moved = (differs & (own[..., 0] >= 0)).any(axis=1)
        return cls(chosen, surplus, shown, moved)

    def estimate(self, slot: int) -> Estimate:
        """Return the choices beyond chance as a share of the views that have the slot."""
        surplus, shown = self.surplus[:, slot], self.shown[:, slot]
        n = int(shown.sum())
        linear = linearised_ratio(surplus, shown)
        return linear_inference(float(surplus.sum()) / n, linear, n=n).estimate()


def _by_chance(at: IntArray, share: FloatArray) -> FloatArray:
    """Return (n,) choices of a slot, on average over the permutations of the answers."""
    return np.asarray(share.sum(axis=(1, 2)) / (_ties(at) > 0).sum(axis=1))


def _null(
    at: IntArray, observed: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, int]:
    """Return the p-value and the 95% range of every slot, and the number of permutations."""
    slots = range(observed.size)
    spread = np.array([_variance(at, slot) for slot in slots])
    testable = spread > _ROUNDING
    p_values, noise = np.full(observed.size, np.nan), np.zeros(observed.size)
    draws = min(MOST_DRAWS, _DRAWN_VIEWS // max(1, at.shape[0] * at.shape[1]))
    if not testable.any():
        return p_values, noise, 0
    if draws < _LEAST_DRAWS:
        draws = 0
        deviation = np.sqrt(spread[testable])
        tails = np.abs(observed[testable]) / deviation / math.sqrt(2)
        p_values[testable] = [math.erfc(tail) for tail in tails.tolist()]
        noise[testable] = normal_quantile(1 - LEVEL / 2) * deviation
    else:
        chance = np.array([_by_chance(at, _share(at, slot)).sum() for slot in slots])
        sizes = np.abs(_permuted(at, observed.size, draws, rng) - chance)[:, testable]
        beyond = (sizes >= np.abs(observed[testable]) - _ROUNDING).sum(axis=0)
        p_values[testable] = (1 + beyond) / (1 + draws)
        noise[testable] = np.quantile(sizes, 1 - LEVEL, axis=0, method="higher")
    return p_values, noise, draws


def _variance(at: IntArray, slot: int) -> float:
    """Return the variance of the choices of a slot over the permutations."""
    valid = at[..., 0] >= 0
    orders = (_ties(at) > 0).sum(axis=1).astype(np.float64)[:, None, None]
    chosen = _share(at, slot)
    rows, columns = (chosen.sum(axis=axis, keepdims=True) / orders for axis in (2, 1))
    centred = chosen - rows - columns + rows.sum(axis=1, keepdims=True) / orders
    return float((np.where(valid, centred, 0.0) ** 2 / (orders - 1)).sum())


def _permuted(at: IntArray, slots: int, draws: int, rng: np.random.Generator) -> FloatArray:
    """Return (draws, S): choices of each slot if answers are given to orders at random."""
    items, views, _, most = at.shape
    unused = _diagonal(at)[..., 0] < 0
    layers = [(at[..., tied] + 1).astype(np.int64).ravel() for tied in range(most)]
    weights = None if most == 1 else (1 / np.maximum(_ties(at), 1)).ravel()
    first = np.arange(items)
    choices = []
    together = max(1, _KEYS_AT_ONCE // (items * views))
    for start in range(0, draws, together):
        keys = rng.random((min(together, draws - start), items, views))
        # Unused views keep their places at the end, where every slot is -1.
        keys[:, unused] = np.inf
        row = np.arange(len(keys))[:, None] * (slots + 1)
        counts = np.zeros(len(keys) * (slots + 1))
        for order, answer in enumerate(_ranks(keys)):
            weight = None if weights is None else weights[first * views + answer].ravel()
            for columns in layers:
                cell = columns[first * views**2 + answer * views + order] + row
                counts += np.bincount(cell.ravel(), weight, minlength=counts.size)
        choices.append(counts.reshape(len(keys), slots + 1)[:, 1:])
    return np.concatenate(choices)


def _ranks(keys: FloatArray) -> list[IntArray]:
    """Return the rank of each of the last axis' keys among them, key by key.

    Of the few views of a run, comparing every two takes half the time of sorting.
    """
    series = [np.ascontiguousarray(keys[..., view]) for view in range(keys.shape[-1])]
    ranks = [np.zeros(keys.shape[:-1], dtype=np.int64) for _ in series]
    for late in range(len(series)):
        for early in range(late):
            above = series[early] <= series[late]
            ranks[late] += above
            ranks[early] += ~above
    return ranks
