r"""Conformal answer sets: the confidence that lets an answer into the set, by one item per family.

What is promised. An item is drawn from a new family: the sets of such items contain the right
answer with a probability of at least `coverage`. Here

.. math:: C(x) = \{j : \tilde p_j(x) \ge t\}

where :math:`\tilde p_j` is the probability of answer j, and 1 for the most probable one, so that no
set is empty (Sadinle, Lei and Wasserman 2019: of all sets with the same coverage, those of the
least mean size if the probabilities are true). For levels, :math:`\tilde p_j` is the smaller one of
the largest probabilities on either side of j, itself included. The set is then the smallest
interval that contains every level with :math:`p_j \ge t`.

Why it holds. The drawn items (`gate_items.py`: one of each family) are independent of each other,
and exchangeable with an item that is drawn from a new family in the same way, whatever the
dependence within a family. Let v be the sureness of their right answers, n their number, and t the
m-th smallest v. The new item is missed if its v is below t, so its rank among the n + 1 is m at
most, which has a probability of at most m / (n + 1). The largest m with

.. math:: m \le (n + 1) (1 - coverage)

gives the coverage on average over the families of the run (split conformal prediction; Vovk et al.
2005, Lei et al. 2018; for groups, Dunn, Wasserman and Ramdas 2023, "subsampling once").

On average is not every time: with few families, the coverage of one choice may be lower. For each
number of missed drawn items m - 1 there is a *floor* that the coverage of this choice keeps with
`FLOOR_CONFIDENCE`: the bound of Clopper and Pearson, 1 - u with
:math:`P(Bin(n, u) \le m - 1) = 1 - confidence` (Vovk 2012; Bates et al. 2021). A demanded
confidence chooses the largest m whose floor, at that confidence, is the coverage itself.

Probabilities of two decimals have ties: many items share the m-th smallest v, and all of them are
covered, so sets are larger than the coverage needs. Ties may be broken at random: the hash of a
seed and of the id of an item gives a number in [0, `TIE_WIDTH`), which is added to the
probabilities of all of its answers. The guarantee is for any probabilities, so for these, too.

All members of each family could vote, with weights (Lee, Barber and Willett 2023), or only whole
families (the least sure member). In simulations (docs/thresholds.md), sets are not
smaller with the former, and larger with the latter; and only independent items have an exact floor.

References:
    Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", 2005. Vovk, "Conditional
    validity of inductive conformal predictors", ACML 2012. Lei, G'Sell, Rinaldo, Tibshirani and
    Wasserman, "Distribution-free predictive inference for regression", JASA 2018. Sadinle, Lei and
    Wasserman, "Least ambiguous set-valued classifiers with bounded error levels", JASA 2019. Dunn,
    Wasserman and Ramdas, "Distribution-free prediction sets for two-layer hierarchical models",
    JASA 2023. Lee, Barber and Willett, "Distribution-free inference with hierarchical data", 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray, TextArray
from pact_eval.stats.binomial import critical_count, rate_limit
from pact_eval.thresholds.gate_items import GateItems
from pact_eval.thresholds.sequence import ROUNDING

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
        >>> from pact_eval.thresholds.set_levels import answer_sureness
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
        >>> from pact_eval.thresholds.gate_items import GateItems
        >>> from pact_eval.thresholds.set_levels import choose_level
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
    missed = missed_most(n, coverage, confidence)
    if missed < 0:
        return SetLevel(None, n, 0, 1.0, at)
    floor = coverage if confidence is not None else 1 - rate_limit(missed, n, at)
    # A little lower: an answer as sure as another must be in a set with it, whatever rounds it.
    return SetLevel(float(drawn[missed]) - ROUNDING, n, missed, floor, at)


def missed_most(drawn: int, coverage: float, confidence: float | None) -> int:
    """Return how many drawn items may be missed; -1 if they are too few for any smaller sets."""
    if confidence is not None:
        return int(critical_count(drawn, 1 - coverage, 1 - confidence))
    return math.floor((drawn + 1) * (1 - coverage) + ROUNDING) - 1


def families_for_sets(items: GateItems, coverage: float, confidence: float | None) -> int | None:
    """Return the families with which sets can have less than every answer; None without items."""
    if not len(items):
        return None
    least = math.ceil(coverage / (1 - coverage) - ROUNDING)
    if confidence is not None:
        least = math.ceil(math.log(1 - confidence) / math.log(coverage) - ROUNDING)
    return math.ceil(least * len(items.units) / float(items.draw.chance.sum()) - ROUNDING)
