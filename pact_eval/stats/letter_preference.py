"""Permutation test for position bias: choices of each slot, given the answers.

The answers of an item are permuted over its orders. What a model believes of an answer cancels.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.stats._quantiles import normal_quantile, t_tail
from pact_eval.stats.clusters import degrees_of_freedom
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_eval.stats.linearised import LinearInference, linear_inference, linearised_ratio
from pact_eval.stats.multiplicity import holm
from pact_eval.stats.rates import few_clusters, without_interval

MOST_DRAWS: Final = 9_999
"""Permutations that are drawn, if there are not too many views to permute."""

Group = int | str
"""A group of items: its number of answers, or its kind."""

_LEAST_DRAWS = 999
_DRAWN_VIEWS = 20_000_000
_KEYS_AT_ONCE = 200_000
_ENUMERATED_ORDERS = 5
_ENUMERATED_TIES = 12  # their least common multiple is 27,720: sums fit an integer
_ROUNDING = 1e-9
_FEWEST_FAMILIES = 5  # of a group that is named


@dataclass(frozen=True)
class GroupPreference:
    """The group of items in which a preference lives: none is shown in the other items.

    Attributes:
        group: number of answers, or kind.
        inside: preference in the group, with its 95% interval over clusters.
        outside: preference in the other items that have the slot; the intervals do not overlap.
    """

    group: Group
    inside: Estimate
    outside: Estimate


@dataclass(frozen=True)
class SlotPreference:
    """Frequency of one slot as the choice, compared with the same answers in other orders.

    Attributes:
        slot: its position, from 0; -1 for the last slot of every item.
        shown: views that have this slot.
        chosen: share of these views that choose it.
        chance: share that would, had each item given its answers to its orders at random.
        preference: chosen minus chance, with its 95% interval over clusters; none below 5.
        noise: half the width of the range around 0 that holds 95% of the permutations.
        p_value: two-sided, of the permutations; NaN if no answer depends on the slot.
        family_p_value: two-sided, of t over clusters.
        adjusted_p_value: the larger of both, adjusted by Holm over the slots, the last one
            included.
        is_last: whether it is the last slot of every item.
        group: the group of items in which a shown preference lives; None if no group is shown to
            differ from the other items.
    """

    slot: int
    shown: int
    chosen: float
    chance: float
    preference: Estimate
    noise: float
    p_value: float
    family_p_value: float
    adjusted_p_value: float
    is_last: bool = False
    group: GroupPreference | None = None

    @property
    def marked(self) -> bool:
        """Whether the preference is shown, by both tests after Holm's adjustment.

        The permutations ask about these items, and t over clusters about new families.
        """
        return self.adjusted_p_value <= LEVEL


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
    groups: Mapping[Group, BoolArray] | None = None,
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

    Families that lean to letters of their own, some to one and some to another, are no preference
    of the model, but permutations within items reject. So t over families has to reject as well:
    that of `LinearInference`. If families avoid a slot, those that choose it are rare and may not
    be in the sample, whose variance is then too small. The deviations of an avoided slot are
    therefore taken from 0, with Satterthwaite's degrees of freedom of their squares:

    .. math:: t = \sum_f T_{fs} \Big/ \sqrt{\sum_f T_{fs}^2}, \quad
              \nu = \frac{(\sum_f T_{fs}^2)^2}{\sum_f T_{fs}^4} - 1

    A preference lives in a group of items if its interval there lies beyond that of the other
    items, at 5% over the number of groups (Bonferroni), and the interval of the others holds 0.

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
        groups: (n,) which items are in a group, by group, of groups that may be named.

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
        >>> from pact_eval.stats.letter_preference import slot_preferences
        >>> orders = np.array([[[0, 1], [1, 0]]] * 10)
        >>> first = np.array([[0, 1]] * 10)  # whatever is shown first
        >>> test = slot_preferences(orders, first, np.arange(10), rng=np.random.default_rng(0))
        >>> test.slots[0].chosen, test.slots[0].chance, test.preferred, test.avoided
        (1.0, 0.5, (0,), (1,))
    """
    orders: IntArray = np.asarray(code_order)
    picks: IntArray = np.asarray(picked)
    picks = picks[..., None] if picks.ndim == 2 else picks
    views = _Views.of(orders, picks, np.asarray(cluster))
    if not len(views.at):
        return SlotPreferences((), 0, 0, 0, 0)
    kept = {group: inside[views.kept] for group, inside in (groups or {}).items()}
    slots, draws = _test_slots(views, rng)
    slots = [
        replace(slot, group=views.group(slot, kept)) if slot.marked else slot for slot in slots
    ]
    return SlotPreferences(
        last=slots.pop() if slots[-1].slot < 0 else None,
        slots=tuple(slots),
        views=int((views.ties > 0).sum()),
        items=len(views.at),
        moved=int(views.moved.sum()),
        draws=draws,
        tied=int((views.ties > 1).sum()),
    )


def _test_slots(views: "_Views", rng: np.random.Generator) -> tuple[list[SlotPreference], int]:
    """Return the slots in turn, the last slot of every item at the end, and the permutations."""
    observed = views.surplus.sum(axis=0)
    p_values, noise, draws = _null(views.at[views.moved], views.ties[views.moved], observed, rng)
    inferences = [views.inference(slot) for slot in range(observed.size)]
    over_families = [views.family_p_value(*inference) for inference in enumerate(inferences)]
    adjusted = holm(np.maximum(p_values, over_families))
    shown = views.shown.sum(axis=0).astype(int).tolist()
    return [
        SlotPreference(
            slot=slot if slot < views.letters else -1,
            shown=shown[slot],
            chosen=float(views.chosen[slot] / shown[slot]),
            chance=float((views.chosen[slot] - observed[slot]) / shown[slot]),
            preference=without_interval(inference.estimate(), few_clusters(inference.clusters)),
            noise=float(noise[slot] / shown[slot]),
            p_value=float(p_values[slot]),
            family_p_value=over_families[slot],
            adjusted_p_value=float(adjusted[slot]),
            is_last=slot == views.last,
        )
        for slot, inference in enumerate(inferences)
    ], draws


@dataclass(frozen=True, eq=False)
class _Views:
    """The items that are shown in different orders, those orders first, and their choices.

    Attributes:
        at: (n, K, K, T) slot of the tied answers of view k in order m, -1 if either repeats
            another. If numbers of answers differ, the last slot of every item is one more slot.
        ties: (n, K) number of answers that tie in a view, 0 if it repeats another order.
        shown: (n, S) views that have a slot.
        cluster: (n,) code of the cluster.
        kept: which of all items these are.
        letters: number of slots without that of the end.
        chosen: (S,) views that choose a slot.
        surplus: (n, S) choices beyond chance.
    """

    at: IntArray
    ties: IntArray
    shown: FloatArray
    cluster: IntArray
    kept: BoolArray
    letters: int
    chosen: FloatArray
    surplus: FloatArray

    @property
    def last(self) -> int:
        """The slot that is the last one of every item."""
        return len(self.chosen) - 1

    @property
    def moved(self) -> BoolArray:
        """(n,) whether the answer of an item differs between its orders."""
        # The answers of two orders are the same if they are at the same slot of the first order.
        differs = (self.at[:, :, 0] != self.at[:, :1, 0]).any(axis=2)
        return np.asarray((differs & (self.ties > 0)).any(axis=1))

    @classmethod
    def of(cls, orders: IntArray, answers: IntArray, codes: IntArray) -> "_Views":
        """Read the items that are shown in different orders, and count their choices."""
        shape = orders.shape
        if orders.ndim != 3 or answers.shape[:2] != shape[:2] or codes.shape != shape[:1]:
            raise ValueError(
                "expected code_order (n, K, C), picked (n, K) and cluster (n,), got "
                f"{shape}, {answers.shape[:2]} and {codes.shape}"
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
        own: IntArray = np.einsum("ikkt->ikt", at)
        if (own[..., 0] < 0).any() or ((own < 0) & (answers >= 0)).any():
            raise ValueError("picked: expected answers that the order of their view shows")
        at[~(distinct[:, :, None] & distinct[:, None, :])] = -1
        ties = (own >= 0).sum(axis=2) * distinct
        has = (orders >= 0) & distinct[:, :, None]
        letters, width = orders.shape[2], (orders >= 0).sum(axis=2)
        if np.unique(width).size > 1:
            ends = at == width[:, None, :, None] - 1
            at = np.concatenate([at, np.where(ends, letters, -1)], axis=3)
            has = np.concatenate([has, distinct[:, :, None]], axis=2)
        chosen, surplus = np.zeros(has.shape[2]), np.zeros((len(at), has.shape[2]))
        for slot in range(chosen.size):
            share = _share(at, ties, slot)
            choices = np.einsum("ikk->i", share)
            chosen[slot], surplus[:, slot] = choices.sum(), choices - _by_chance(ties, share)
        return cls(
            at=at,
            ties=ties,
            shown=has.sum(axis=1).astype(np.float64),
            cluster=codes[kept],
            kept=kept,
            letters=letters,
            chosen=chosen,
            surplus=surplus,
        )

    def inference(self, slot: int, rows: BoolArray | None = None) -> LinearInference:
        """Return the choices beyond chance as a share of the views that have the slot."""
        rows = np.ones(len(self.at), dtype=np.bool_) if rows is None else rows
        surplus, shown = self.surplus[rows, slot], self.shown[rows, slot]
        linear = linearised_ratio(surplus, shown, self.cluster[rows], int(self.cluster.max()) + 1)
        n = int(shown.sum())
        return linear_inference(float(surplus.sum()) / n, linear, n=n)

    def family_p_value(self, slot: int, inference: LinearInference) -> float:
        """Return the two-sided p-value of t over families; see `slot_preferences`."""
        surplus = np.bincount(self.cluster, self.surplus[:, slot]).astype(np.float64)
        squares, p_value = surplus**2, inference.p_value()
        if inference.value > 0 and not math.isnan(p_value):
            return p_value
        if squares.max() <= _ROUNDING**2:
            return 1.0
        t = abs(float(surplus.sum())) / math.sqrt(float(squares.sum()))
        return float(np.fmax(p_value, 2 * t_tail(t, degrees_of_freedom(squares))))

    def group(
        self, slot: SlotPreference, groups: Mapping[Group, BoolArray]
    ) -> GroupPreference | None:
        """Return the group in which a preference lives, if there is one; see `slot_preferences`."""
        at = slot.slot if slot.slot >= 0 else self.letters
        living: list[GroupPreference] = []
        for group, inside in groups.items():
            masks = [rows for rows in (inside, ~inside) if self.shown[rows, at].any()]
            sides = [self.inference(at, rows) for rows in masks]
            if len(sides) < 2 or min(side.clusters for side in sides) < _FEWEST_FAMILIES:
                continue
            near, far = (side.estimate(1 - LEVEL / len(groups)) for side in sides)
            if slot.preference.value < 0:
                near, far = near.negated, far.negated
            lives = GroupPreference(group, *(side.estimate() for side in sides))
            if near.low > far.high and lives.outside.low <= 0 <= lives.outside.high:
                living.append(lives)
        return max(living, key=lambda lives: abs(lives.inside.value), default=None)


def distinct_orders(code_order: npt.ArrayLike) -> BoolArray:
    """Return which views of an item are the first of their letter order.

    Args:
        code_order: (n, K, C) answer at each slot; unused slots -1, and all -1 in a view of unknown
            order.

    Returns:
        (n, K) False for a view whose order an earlier view of the item has. An unknown order
        counts as another one.

    Examples:
        >>> from pact_eval.stats.letter_preference import distinct_orders
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


def _share(at: IntArray, ties: IntArray, slot: int) -> FloatArray:
    """Return (n, K, K): the share of the choice of view k that is at a slot in order m."""
    return np.asarray((at == slot).sum(axis=3) / np.maximum(ties, 1)[:, :, None])


def _by_chance(ties: IntArray, share: FloatArray) -> FloatArray:
    """Return (n,) choices of a slot, on average over the permutations of the answers."""
    return np.asarray(share.sum(axis=(1, 2)) / (ties > 0).sum(axis=1))


def _null(
    at: IntArray, ties: IntArray, observed: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, int]:
    """Return the p-value and the 95% range of every slot, and the number of permutations."""
    slots = range(observed.size)
    spread = np.array([_variance(at, ties, slot) for slot in slots])
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
        chance = np.array([_by_chance(ties, _share(at, ties, slot)).sum() for slot in slots])
        sizes = np.abs(_permute(at, ties, observed.size, draws, rng) - chance)[:, testable]
        beyond = (sizes >= np.abs(observed[testable]) - _ROUNDING).sum(axis=0)
        p_values[testable] = (1 + beyond) / (1 + draws)
        noise[testable] = np.quantile(sizes, 1 - LEVEL, axis=0, method="higher")
    return p_values, noise, draws


def _variance(at: IntArray, ties: IntArray, slot: int) -> float:
    """Return the variance of the choices of a slot over the permutations."""
    counted = ties > 0
    valid = counted[:, :, None] & counted[:, None, :]
    orders = counted.sum(axis=1).astype(np.float64)[:, None, None]
    chosen = _share(at, ties, slot)
    rows, columns = (chosen.sum(axis=axis, keepdims=True) / orders for axis in (2, 1))
    centred = chosen - rows - columns + rows.sum(axis=1, keepdims=True) / orders
    return float((np.where(valid, centred, 0.0) ** 2 / (orders - 1)).sum())


def _permute(
    at: IntArray, ties: IntArray, slots: int, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Return (draws, S): choices of each slot if answers are given to orders at random."""
    orders = (ties > 0).sum(axis=1)
    many = (orders > _ENUMERATED_ORDERS) | (ties > _ENUMERATED_TIES).any(axis=1)
    choices = np.zeros((draws, slots))
    for v in np.unique(orders[~many]).tolist():
        # Orders that repeat another stand last, and do not move.
        items = (orders == v) & ~many
        choices += _enumerated(at[items, :v, :v], ties[items, :v], slots, draws, rng)
    if many.any():
        choices += _sorted_keys(at[many], ties[many], slots, draws, rng)
    return choices


def _enumerated(
    at: IntArray, ties: IntArray, slots: int, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Return (draws, S) choices: of each item, the number of one of its K! permutations is drawn.

    What a permutation chooses is known beforehand, in whole units of a choice. Several slots share
    an integer, so one sum over the items counts them all.
    """
    n, v = ties.shape
    unit = math.lcm(*np.unique(ties).tolist())  # of m answers that tie, each is 1/m of a choice
    shares = np.stack([_share(at, ties, slot) for slot in range(slots)], axis=-1)
    orders = list(itertools.permutations(range(v)))
    chosen = np.stack([shares[:, order, range(v)].sum(axis=1) for order in orders], axis=1)
    units = np.rint(chosen * unit).astype(np.int64)
    bits = int(units.max(axis=1).sum(axis=0).max()).bit_length()
    together = 63 // bits
    parts = [range(slot, min(slot + together, slots)) for slot in range(0, slots, together)]
    packed = [(units[..., part] << bits * np.arange(len(part))).sum(axis=2) for part in parts]
    rows = len(orders) * np.arange(n)
    sums = np.zeros((draws, slots), dtype=np.int64)
    at_once = max(1, _KEYS_AT_ONCE // n)
    for start in range(0, draws, at_once):
        some = slice(start, min(start + at_once, draws))
        drawn = rows + rng.integers(len(orders), size=(some.stop - start, n))
        for part, codes in zip(parts, packed, strict=True):
            total = codes.ravel()[drawn].sum(axis=1)[:, None]
            sums[some, part.start : part.stop] = total >> bits * np.arange(len(part))
    return (sums & ((1 << bits) - 1)) / unit


def _sorted_keys(
    at: IntArray, ties: IntArray, slots: int, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Return (draws, S) choices: the orders of random keys are the permutations."""
    items, views, _, most = at.shape
    unused = ties == 0
    layers = [(at[..., tied] + 1).astype(np.int64).ravel() for tied in range(most)]
    weights = None if ties.max() == 1 else (1 / np.maximum(ties, 1)).ravel()
    first = np.arange(items)
    choices = []
    together = max(1, _KEYS_AT_ONCE // (items * views))
    for start in range(0, draws, together):
        keys = rng.random((min(together, draws - start), items, views))
        # Unused views keep their places at the end, where every slot is -1.
        keys[:, unused] = np.inf
        row = np.arange(len(keys))[:, None] * (slots + 1)
        counts = np.zeros(len(keys) * (slots + 1))
        for order, answer in enumerate(np.moveaxis(keys.argsort(axis=2), 2, 0)):
            weight = None if weights is None else weights[first * views + answer].ravel()
            for columns in layers:
                cell = columns[first * views**2 + answer * views + order] + row
                counts += np.bincount(cell.ravel(), weight, minlength=counts.size)
        choices.append(counts.reshape(len(keys), slots + 1)[:, 1:])
    return np.concatenate(choices)
