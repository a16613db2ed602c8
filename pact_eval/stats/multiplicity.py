"""Several tests at once: the chance of any false alarm among them, held at the level."""

from collections.abc import Hashable, Mapping
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray
from pact_eval.stats.estimate import LEVEL, Estimate

LEAST_CHANGE: Final = 0.0005
"""Half of the last digit in which losses are printed: three decimals."""

_Place = TypeVar("_Place", bound=Hashable)


def holm(p_values: npt.ArrayLike) -> FloatArray:
    r"""Adjust p-values by Holm's step-down procedure.

    .. math:: \tilde p_{(i)} = \min\{1, \max_{j \le i} (m - j + 1)\, p_{(j)}\}

    for the m p-values in ascending order. Calling those of at most 5% significant keeps the
    chance of any false alarm at 5%, whatever the dependence between the tests, and is never
    weaker than Bonferroni.

    Args:
        p_values: (m,) numbers in [0, 1]; NaN for a test that could not be made.

    Returns:
        (m,) adjusted p-values in the order given; NaN if there was no test, which counts as none.

    Raises:
        ValueError: The shape is not (m,), or a p-value lies outside [0, 1].

    References:
        Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
        Statistics 1979.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.multiplicity import holm
        >>> holm([0.099, 0.008, np.nan, 0.035]).round(3)
        array([0.099, 0.024,   nan, 0.07 ])
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1:
        raise ValueError(f"p_values: expected shape (m,), got {p.shape}")
    tested = ~np.isnan(p)
    if ((p[tested] < 0) | (p[tested] > 1)).any():
        raise ValueError("p_values: expected numbers in [0, 1] or NaN")
    tests = int(tested.sum())
    # NaN sort last, so the first `tests` places are those of the p-values.
    order = np.argsort(p, kind="stable")[:tests]
    steps = np.maximum.accumulate(p[order] * np.arange(tests, 0, -1))
    adjusted = np.full(p.size, np.nan)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def hochberg(p_values: npt.ArrayLike) -> FloatArray:
    r"""Adjust p-values by Hochberg's step-up procedure: Holm's factors, from the largest p-value.

    .. math:: \tilde p_{(i)} = \min_{j \ge i} (m - j + 1)\, p_{(j)}

    All m are significant if and only if the largest p-value is: this is the intersection-union
    test of the claim that all are true effects (Berger 1982), whatever the dependence. One by one,
    the chance of any false alarm is at most 5% for tests that are not negatively dependent.

    Args:
        p_values: (m,) numbers in [0, 1]; NaN for a test that could not be made.

    Returns:
        (m,) adjusted p-values, NaN without a test; none is above that of `holm`.

    References:
        Hochberg, "A sharper Bonferroni procedure for multiple tests of significance", Biometrika
        1988. Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics
        1982.

    Examples:
        >>> from pact_eval.stats.multiplicity import hochberg, holm
        >>> hochberg([0.04, 0.03]), holm([0.04, 0.03])
        (array([0.04, 0.04]), array([0.06, 0.06]))
    """
    p = np.asarray(p_values, dtype=np.float64)
    tests = int(np.isfinite(holm(p)).sum())
    order = np.argsort(p, kind="stable")[:tests][::-1]
    adjusted = np.full(p.size, np.nan)
    adjusted[order] = np.minimum.accumulate(p[order] * np.arange(1, tests + 1))
    return adjusted


def shown_increases(
    changes: Mapping[_Place, Estimate], p_values: Mapping[_Place, float], *, looks: int = 1
) -> frozenset[_Place]:
    """Return which of several changes are shown to be increases, adjusted together by Holm.

    With many items, even a change of 1e-6 is shown. Changes below `LEAST_CHANGE` do not show in
    any table and are left out.

    Args:
        changes: Each with its interval.
        p_values: Of no change, two-sided; NaN is no test.
        looks: How many such sets of changes are looked at, such as one for each of several runs.

    Returns:
        The keys of changes of `LEAST_CHANGE` or more whose interval is above 0 and whose adjusted
        p-value is at most 5%.

    Examples:
        >>> from pact_eval.stats.estimate import Estimate
        >>> from pact_eval.stats.multiplicity import shown_increases
        >>> change = Estimate(0.3, 0.1, 0.5, 324, 162)
        >>> shown_increases({"all": change, "score": change}, {"all": 0.02, "score": 0.4})
        frozenset({'all'})
        >>> shown_increases({"all": change, "score": change}, {"all": 0.03, "score": 0.4})
        frozenset()
    """
    adjusted = holm(np.array([p_values[place] for place in changes], dtype=np.float64))
    return frozenset(
        place
        for (place, change), p in zip(changes.items(), adjusted.tolist(), strict=True)
        if change.low > 0 and p * looks <= LEVEL and change.value >= LEAST_CHANGE
    )
