"""Expanded percentile bootstrap over clusters, with one set of resamples for many statistics.

The two members of a contrastive pair are not independent: families are what is resampled.
A resample is a vector of cluster weights: how often each cluster was drawn. A *statistic* takes
such weights, (b, F), to values, (b,); its point estimate has every weight at 1. The item-level
bootstrap is the same with every item its own cluster: `cluster = np.arange(n)`.

BLAS runs on one thread: others gain nothing on a quiet machine, and spin on a busy one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.progress import step
from pact_eval.stats._quantiles import normal_cdf, normal_quantile, t_quantile, t_tail
from pact_eval.stats.clusters import check_cluster
from pact_eval.stats.estimate import NO_ROWS, ONE_CLUSTER, ClusterText, Estimate, Method
from pact_eval.stats.linearised import Linearisation, linearised_ratio


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let numpy and scipy multiply in one thread: our matrices are tall and narrow.

    Resampling took 2.5 times as long beside a busy process with two threads. Fitting a calibrator
    on 100,000 items takes half the CPU time with one.

    Examples:
        >>> from threadpoolctl import threadpool_info
        >>> with one_blas_thread():
        ...     {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        {1}
    """
    with _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries(_with_scipy: bool) -> ThreadpoolController:
    """Return the BLAS of numpy, and of scipy once it is loaded. Finding them takes 5 ms."""
    return ThreadpoolController()


Statistic: TypeAlias = Callable[[FloatArray], FloatArray]
"""A function of weights (b, F), or of totals (b, m), that returns the (b,) values."""

# Numbers in one batch of weights (8 MiB): the only thing that grows with rows times resamples.
_BATCH_NUMBERS = 2**20
# Resamples of a batch, at least: a product with fewer is bound by reading the totals.
_FEWEST_ROWS = 32
# Clusters drawn at a time: their counts fit the cache of a core, which halves the time.
_DRAWS = 2**15
_UNDEFINED_SHARE_TO_REPORT = 0.01
# Rows whose terms are made at a time: memory that is touched first takes longer than the sums.
_BLOCK_ROWS = 2**18


def cluster_sums(values: npt.ArrayLike, cluster: npt.ArrayLike, n_clusters: int) -> FloatArray:
    """Sum rows within clusters.

    Args:
        values: (n,) or (n, m) numbers or bools.
        cluster: (n,) cluster code of each row, in 0..n_clusters-1.
        n_clusters: Number of clusters F; a cluster without rows sums to 0.

    Returns:
        (F,) or (F, m) sums.

    Raises:
        ValueError: The shapes do not fit, or a code is out of range.

    Examples:
        >>> from pact_eval.stats.bootstrap import cluster_sums
        >>> cluster_sums([1.0, 2.0, 4.0], [0, 0, 1], 3)
        array([3., 4., 0.])
    """
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim not in (1, 2):
        raise ValueError(f"values: expected shape (n,) or (n, m), got {rows.shape}")
    codes = check_cluster(cluster, n_clusters, len(rows))
    columns = rows if rows.ndim == 2 else rows[:, None]
    sums = np.empty((n_clusters, columns.shape[1]))
    for column in range(columns.shape[1]):
        sums[:, column] = np.bincount(codes, weights=columns[:, column], minlength=n_clusters)
    return sums if rows.ndim == 2 else sums[:, 0]


@dataclass(frozen=True, eq=False)
class RowSums:
    """Terms that rows add to totals: one number per row, in one column or in that of its label.

    Attributes:
        values: (n,) finite numbers or bools; None counts the rows.
        label: (n,) column of each row, in 0..size-1; None if there is one column.
        size: Number of columns.
    """

    values: npt.NDArray[Any] | None
    label: npt.NDArray[np.integer] | None = None
    size: int = 1

    def total(self, n: int) -> FloatArray:
        """Return the sums (size,) over all n rows."""
        if self.label is not None:
            return np.bincount(self.label, self.values, self.size).astype(np.float64)
        return np.array([n if self.values is None else self.values.sum(dtype=np.float64)], float)

    def by_cluster(self, cluster: npt.NDArray[np.integer], n_clusters: int) -> FloatArray:
        """Return the sums (size, F) of each cluster."""
        if self.label is None:
            return np.bincount(cluster, self.values, n_clusters).astype(np.float64)[None]
        cell = cluster.astype(np.int64) * self.size + self.label
        sums = np.bincount(cell, self.values, n_clusters * self.size).astype(np.float64)
        return np.ascontiguousarray(sums.reshape(n_clusters, self.size).T)


@dataclass(frozen=True, eq=False)
class LazyRowSums:
    """Sums whose terms are made when they are needed, for totals a block of rows at a time.

    Attributes:
        make: Takes some rows, and returns what they add.
    """

    make: Callable[[slice], RowSums]

    @cached_property
    def made(self) -> RowSums:
        """Terms that all rows add."""
        return self.make(slice(None))

    def total(self, n: int) -> FloatArray:
        """Return the sums (size,) over all n rows."""
        starts = range(0, n, _BLOCK_ROWS) or (0,)
        blocks = [slice(start, min(start + _BLOCK_ROWS, n)) for start in starts]
        sums = [self.make(block).total(block.stop - block.start) for block in blocks]
        return np.asarray(np.sum(sums, axis=0), dtype=np.float64)

    def by_cluster(self, cluster: npt.NDArray[np.integer], n_clusters: int) -> FloatArray:
        """Return the sums (size, F) of each cluster."""
        return self.made.by_cluster(cluster, n_clusters)


_COUNT = RowSums(None)


def _one_column(part: RowSums | LazyRowSums, n: int) -> FloatArray:
    """Return what each of n rows adds to a total in one column."""
    values = (part.made if isinstance(part, LazyRowSums) else part).values
    return np.ones(n) if values is None else values.astype(np.float64)


@dataclass(frozen=True, eq=False)
class TotalsStatistic:
    """A statistic that is a function of totals over resampled rows.

    Statistics of one sample share their matrix product: `resample` stacks their totals.

    Attributes:
        parts: What the rows add to the totals.
        function: Takes (b, m) totals, the columns of all parts in order, to (b,) values.
        cluster: (n,) cluster code of each row.
        n_clusters: Number of clusters F.
    """

    parts: tuple[RowSums | LazyRowSums, ...]
    function: Statistic
    cluster: npt.NDArray[np.integer]
    n_clusters: int

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return the (b,) values under (b, F) weights."""
        return self.function((np.concatenate(self.by_cluster()) @ weights.T).T)

    def by_cluster(self) -> list[FloatArray]:
        """Return the sums (size, F) of each part by cluster."""
        return [part.by_cluster(self.cluster, self.n_clusters) for part in self.parts]

    def on_rows(self) -> float:
        """Return the value on the rows themselves."""
        totals = np.concatenate([part.total(len(self.cluster)) for part in self.parts])
        return float(self.function(totals[None])[0])

    def linearised(self) -> Linearisation | None:
        """Return what each cluster adds; None if unknown, or if a row is not finite."""
        codes = self.cluster.astype(np.int64, copy=False)
        if self.function is not _ratio_of_totals or len(self.parts) != 2:
            return None
        below, top = (_one_column(part, len(self.cluster)) for part in self.parts)
        return linearised_ratio(top, below, codes, self.n_clusters) if below.any() else None

    def rows(self) -> tuple[FloatArray, BoolArray | None] | None:
        """Return the (n,) numbers whose mean this is, and which rows count; None for all.

        None if it is not a mean of rows.
        """
        if self.function is not _ratio_of_totals or len(self.parts) != 2:
            return None
        below, top = self.parts
        if not isinstance(below, RowSums) or not isinstance(top, RowSums) or top.values is None:
            return None
        counted = below.values
        if counted is not None and counted.dtype != np.bool_:
            return None
        return np.asarray(top.values, dtype=np.float64), counted

    def squares(self) -> FloatArray | None:
        """Return the (F,) sums of the squares of the rows; None if it is not a mean of rows."""
        of_rows = self.rows()
        if of_rows is None:
            return None
        values, counted = of_rows
        squares = values**2 if counted is None else np.where(counted, values**2, 0.0)
        return np.bincount(self.cluster, squares, self.n_clusters).astype(np.float64)

    def over(self, codes: IntArray, n_clusters: int) -> TotalsStatistic:
        """Return the same statistic with the clusters renumbered: f becomes codes[f]."""
        return replace(self, cluster=codes[self.cluster], n_clusters=n_clusters)


@dataclass(frozen=True, eq=False)
class InfluenceStatistic:
    """A statistic that is not a function of totals, but whose derivatives are known.

    Attributes:
        value: The value on the rows themselves.
        of_rows: Takes the numbers of some rows, which may repeat, to the value on them.
        influence: Makes the (n,) derivatives of the value in the weights of the rows.
        cluster: (n,) cluster code of each row.
        n_clusters: Number of clusters F.
    """

    value: float
    of_rows: Callable[[IntArray], float]
    influence: Callable[[], FloatArray]
    cluster: npt.NDArray[np.integer]
    n_clusters: int

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return the (b,) values under (b, F) weights, on as many copies of each row."""
        copies = weights.astype(np.int64)[:, self.cluster]
        rows = np.arange(len(self.cluster))
        return np.array([self.of_rows(np.repeat(rows, times)) for times in copies])

    def on_rows(self) -> float:
        """Return the value on the rows themselves."""
        return self.value

    def linearised(self) -> Linearisation | None:
        """Return what each cluster adds; None if a row is not finite."""
        codes = self.cluster.astype(np.int64, copy=False)
        scale = abs(self.value) / max(self.n_clusters, 1)
        return Linearisation.of_rows(self.influence(), codes, self.n_clusters, scale)

    def over(self, codes: IntArray, n_clusters: int) -> InfluenceStatistic:
        """Return the same statistic with the clusters renumbered: f becomes codes[f]."""
        return replace(self, cluster=codes[self.cluster], n_clusters=n_clusters)


SampleStatistic: TypeAlias = TotalsStatistic | InfluenceStatistic
"""A statistic that knows its value on the rows and what each cluster adds."""


def ratio_statistic(
    numerator: npt.ArrayLike, denominator: npt.ArrayLike, cluster: npt.ArrayLike, n_clusters: int
) -> Statistic:
    """Build the statistic sum(numerator) / sum(denominator) over resampled rows.

    A mean over a subset of the rows is this, with both arrays 0 outside the subset.

    Args:
        numerator: (n,) values; +inf, -inf and NaN count only in resamples that hold their row,
            where they make the ratio +inf, -inf or NaN (also where both infinities meet).
        denominator: (n,) finite numbers, 0 or more.
        cluster: (n,) cluster code of each row, in 0..n_clusters-1.
        n_clusters: Number of clusters F.

    Returns:
        A statistic; NaN for weights under which the denominator is 0.

    Raises:
        ValueError: The shapes do not fit, or a denominator is negative or not finite.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.bootstrap import ratio_statistic
        >>> statistic = ratio_statistic([1.0, np.inf], [2.0, 1.0], [0, 1], 2)
        >>> statistic(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]))
        array([0.5, inf, nan])
    """
    top, bottom = _numbers(numerator), _numbers(denominator)
    if top.ndim != 1 or top.shape != bottom.shape:
        raise ValueError(f"expected two equal shapes (n,), got {top.shape} and {bottom.shape}")
    if bottom.dtype != np.bool_ and not (np.isfinite(bottom) & (bottom >= 0)).all():
        raise ValueError("denominator: expected finite numbers, 0 or more")
    codes = check_cluster(cluster, n_clusters, len(top))
    return _ratio(RowSums(bottom), top, codes, n_clusters)


def mean_statistic(values: npt.ArrayLike, cluster: npt.ArrayLike, n_clusters: int) -> Statistic:
    """Build the statistic that is the mean of the resampled rows.

    Args:
        values: (n,) numbers or bools, infinities and NaN as in `ratio_statistic`.
        cluster: (n,) cluster code of each row, in 0..n_clusters-1.
        n_clusters: Number of clusters F.

    Returns:
        A statistic; NaN for weights that leave no row.

    Raises:
        ValueError: The shapes do not fit, or a code is out of range.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.bootstrap import mean_statistic
        >>> mean_statistic([1.0, 3.0, 8.0], [0, 0, 1], 2)(np.array([[1.0, 1.0], [2.0, 0.0]]))
        array([4., 2.])
    """
    rows = _numbers(values)
    if rows.ndim != 1:
        raise ValueError(f"values: expected shape (n,), got {rows.shape}")
    return _ratio(_COUNT, rows, check_cluster(cluster, n_clusters, len(rows)), n_clusters)


def _numbers(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return float64, or bools as they are: an eighth of the memory, and all are finite."""
    array = np.asarray(values)
    return array if array.dtype == np.bool_ else array.astype(np.float64, copy=False)


def _ratio(
    bottom: RowSums, top: npt.NDArray[Any], cluster: IntArray, n_clusters: int
) -> TotalsStatistic:
    if top.dtype == np.bool_ or np.isfinite(top).all():
        return TotalsStatistic((bottom, RowSums(top)), _ratio_of_totals, cluster, n_clusters)
    # The finite part and the counts of the others are summed separately: a weight of 0 times an
    # infinite sum would be NaN.
    flags = (top == np.inf, top == -np.inf, np.isnan(top))
    finite = np.where(np.isfinite(top), top, 0.0)
    parts = (bottom, *(RowSums(values) for values in (finite, *flags)))
    return TotalsStatistic(parts, _ratio_of_totals, cluster, n_clusters)


def _ratio_of_totals(totals: FloatArray) -> FloatArray:
    below, finite = totals[:, 0], totals[:, 1]
    ratio: FloatArray = np.full(len(totals), np.nan)
    np.divide(finite, below, out=ratio, where=below > 0)
    if totals.shape[1] > 2:
        plus, minus, undefined = totals[:, 2:].T
        ratio[(plus > 0) & (below > 0)] = np.inf
        ratio[(minus > 0) & (below > 0)] = -np.inf
        ratio[(undefined > 0) | ((plus > 0) & (minus > 0))] = np.nan
    return ratio


def _same(left: BoolArray | None, right: BoolArray | None) -> bool:
    """Return whether two statistics count the same rows; None counts all."""
    if left is None or right is None:
        return left is right
    return np.array_equal(left, right)


@dataclass(frozen=True, eq=False)
class Resampled:
    """A statistic on the rows, and on each resample of their clusters.

    Resampled statistics that saw the same resamples can be subtracted and averaged.

    Attributes:
        value: The statistic on the rows themselves.
        resamples: Number of resamples, b.
        draw: Returns the (b,) values on the resamples, which many intervals never need.
        n: Rows.
        n_clusters: Clusters that the rows form.
        terms: What was resampled, as a weighted sum: weights and statistics.
    """

    value: float
    resamples: int
    draw: Callable[[], FloatArray]
    n: int
    n_clusters: int
    terms: tuple[tuple[float, Statistic], ...] = ()

    @cached_property
    def replicates(self) -> FloatArray:
        """(b,) the statistic on the resamples; NaN if it is undefined."""
        return self.draw()

    @property
    def statistic(self) -> Statistic | None:
        """Resampled statistic; None for sums of several."""
        return self.terms[0][1] if len(self.terms) == 1 else None

    def linearised(self) -> Linearisation | None:
        """Return what each cluster adds; None if a term does not say it, or is not finite."""
        if not self.terms or not math.isfinite(self.value):
            return None
        parts = []
        for weight, statistic in self.terms:
            part = statistic.linearised() if isinstance(statistic, SampleStatistic) else None
            if part is None:
                return None
            parts.append((weight, part))
        return Linearisation.weighted_sum(parts)

    def rows(self) -> tuple[FloatArray, npt.NDArray[np.integer]] | None:
        """Return the (n,) numbers whose mean this is, and their clusters.

        None if it is not the mean of rows, or if the terms are of different rows.
        """
        total: FloatArray = np.zeros(0)
        first: TotalsStatistic | None = None
        counted: BoolArray | None = None
        for weight, statistic in self.terms:
            of_term = statistic.rows() if isinstance(statistic, TotalsStatistic) else None
            if of_term is None or not isinstance(statistic, TotalsStatistic):
                return None
            values, mask = of_term
            if first is None:
                total, first, counted = weight * values, statistic, mask
            elif _same(mask, counted) and np.array_equal(first.cluster, statistic.cluster):
                total = total + weight * values
            else:
                return None
        if first is None:
            return None
        if counted is not None:
            return total[counted], first.cluster[counted]
        return total, first.cluster

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the value with its expanded percentile interval; see `percentile_estimate`.

        A value that is NaN has no interval, so its replicates are not drawn.
        """
        undefined = math.isnan(self.value)
        return percentile_estimate(
            self.value,
            np.full(self.resamples, np.nan) if undefined else self.replicates,
            n=self.n,
            n_clusters=self.n_clusters,
            confidence=confidence,
            expanded=True,
        )

    def p_value(self) -> float:
        """Return the level at which the interval ends at 0; NaN without an interval."""
        return inverted_p_value(self.estimate, self.resamples, self.n_clusters)

    def __sub__(self, other: Resampled) -> Resampled:
        """Return this minus another; NaN if either is NaN or both are the same infinity."""
        return Resampled.weighted_sum([(1.0, self), (-1.0, other)])

    @classmethod
    def mean(cls, parts: Sequence[Resampled]) -> Resampled:
        """Return the mean of one or more, such as a difference at several seeds."""
        return cls.weighted_sum([(1 / len(parts), part) for part in parts])

    @classmethod
    def weighted_sum(cls, parts: Sequence[tuple[float, Resampled]]) -> Resampled:
        """Return a weighted sum of one or more that saw the same resamples."""

        def summed() -> FloatArray:
            with np.errstate(invalid="ignore"):
                drawn = [weight * part.replicates for weight, part in parts]
                return np.asarray(np.sum(drawn, axis=0), dtype=np.float64)

        with np.errstate(invalid="ignore"):
            return cls(
                float(np.sum([weight * part.value for weight, part in parts])),
                parts[0][1].resamples,
                summed,
                parts[0][1].n,
                parts[0][1].n_clusters,
                tuple(
                    (weight * factor, statistic)
                    for weight, part in parts
                    for factor, statistic in part.terms
                ),
            )


def resample(
    statistics: Mapping[str, Statistic],
    *,
    n_clusters: int,
    n: int,
    rng: np.random.Generator,
    resamples: int = 10_000,
) -> dict[str, Resampled]:
    """Compute statistics on the rows, and on resamples of clusters when these are needed.

    Args:
        statistics: By name, functions from (b, F) cluster weights to (b,) values.
        n_clusters: Number of clusters F.
        n: Number of rows, for the record.
        rng: Source of the resamples, which depend on nothing else but F and their number. They are
            the same for all statistics: its state does not change, and nothing else may change it.
        resamples: Number of resamples.

    Returns:
        By name, value and replicates; all replicates are NaN if there are fewer than two clusters.

    Raises:
        ValueError: A count is negative, or a statistic does not return one value per resample.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.stats.bootstrap import mean_statistic, resample
        >>> a, b = ([1, 1, 0, 1], [1, 0, 0, 1])
        >>> runs = {name: mean_statistic(run, [0, 0, 1, 1], 2) for name, run in zip("ab", (a, b))}
        >>> rng = np.random.default_rng(1)
        >>> drawn = resample(runs, n_clusters=2, n=4, rng=rng, resamples=100)
        >>> estimate = (drawn["a"] - drawn["b"]).estimate()
        >>> estimate.value, estimate.low, estimate.high
        (0.25, 0.0, 0.5)
    """
    _check_bootstrap(n_clusters, n, resamples)
    return {
        name: Resampled(
            _value(name, statistic, n_clusters),
            resamples,
            partial(_draw, name, statistic, n_clusters, n, rng, resamples),
            n,
            n_clusters,
            ((1.0, statistic),),
        )
        for name, statistic in statistics.items()
    }


def _draw(
    name: str,
    statistic: Statistic,
    n_clusters: int,
    n: int,
    rng: np.random.Generator,
    resamples: int,
) -> FloatArray:
    """Return the (b,) values of a statistic on resamples of clusters."""
    replicates = np.full(resamples, np.nan)
    if n_clusters < 2:
        return replicates
    of_weights = _summed_once(statistic)
    batches = weight_batches(n_clusters, max(n, n_clusters), resamples, same_stream(rng))
    with one_blas_thread(), step("Resampling", resamples, "resamples") as drawn:
        for batch, weights in batches:
            replicates[batch] = _check_weights(name, of_weights(weights), weights)
            drawn.done = batch.stop
    return replicates


def same_stream(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator that draws what this one draws next.

    A report takes one for every metric of every group, in a tenth of the time of a deepcopy.
    """
    twin = type(rng.bit_generator)()
    twin.state = rng.bit_generator.state
    return np.random.Generator(twin)


def _summed_once(statistic: Statistic) -> Statistic:
    """Return a statistic that does not sum its rows by cluster again for each batch of weights."""
    if not isinstance(statistic, TotalsStatistic):
        return statistic
    totals, function = np.concatenate(statistic.by_cluster()), statistic.function
    return lambda weights: function((totals @ weights.T).T)


def _value(name: str, statistic: Statistic, n_clusters: int) -> float:
    if not n_clusters:
        return math.nan
    if isinstance(statistic, SampleStatistic):
        return statistic.on_rows()
    ones = np.ones((1, n_clusters))
    return float(_check_weights(name, statistic(ones), ones)[0])


def percentile_estimate(
    value: float,
    replicates: npt.ArrayLike,
    *,
    n: int,
    n_clusters: int,
    confidence: float,
    expanded: bool,
) -> Estimate:
    """Turn replicates into a percentile interval, and the reasons for what is not there.

    Args:
        value: The point estimate.
        replicates: (b,) values of the resamples; NaN ones are left out.
        n: Number of rows, for the record.
        n_clusters: Number of clusters F, of which there must be two for an interval.
        confidence: Nominal coverage of the interval, in (0, 1).
        expanded: Take the quantiles at the levels of `expanded_tail`; False takes them at
            (1 - confidence) / 2 and its counterpart, as published intervals do.

    Returns:
        The estimate. The interval is NaN, with a reason, where the value is NaN, there is one
        cluster only, or all resamples agree, which does not mean certainty; a reason also says
        where the value is infinite or more than 1% of the replicates were NaN.

    Raises:
        ValueError: A count is negative, there is no replicate, or `confidence` is outside (0, 1).

    Examples:
        >>> from pact_eval.stats.bootstrap import percentile_estimate
        >>> draws = [1.0, 2.0, 3.0]
        >>> estimate = percentile_estimate(
        ...     2.0, draws, n=9, n_clusters=3, confidence=0.5, expanded=False
        ... )
        >>> estimate.low, estimate.high
        (1.5, 2.5)
    """
    drawn = np.asarray(replicates, dtype=np.float64)
    _check_bootstrap(n_clusters, n, drawn.size, confidence)
    kind = "expanded percentile" if expanded else "percentile"
    method = Method.bootstrap(kind, drawn.size, confidence)
    tail = expanded_tail(confidence, n_clusters) if expanded else (1 - confidence) / 2
    low, high = _interval(drawn, value, tail)
    return Estimate(value, low, high, n, n_clusters, method, _reason(value, drawn, n_clusters))


def expanded_tail(confidence: float, n_clusters: int) -> float:
    r"""Return the level of the lower quantile of an expanded percentile interval.

    .. math:: a = \Phi\left(-\sqrt{\tfrac{F}{F - 1}}\; t_{(1 + confidence) / 2,\, F - 1}\right)

    The variance of resamples is :math:`(F - 1) / F` of the unbiased one, and normal quantiles
    ignore that it is estimated from F clusters; for the mean of a symmetric distribution, this
    level gives the t interval.

    Args:
        confidence: Nominal coverage of the interval, in (0, 1).
        n_clusters: Number of clusters F; with fewer than two, the level is not expanded.

    Returns:
        The level, at most (1 - confidence) / 2.

    References:
        Hesterberg, "What teachers should know about the bootstrap", The American Statistician
        2015, section 5.3 (in the supplement: "expanded percentile interval").

    Examples:
        >>> from pact_eval.stats.bootstrap import expanded_tail
        >>> [round(expanded_tail(0.95, clusters), 4) for clusters in (8, 162, 10_000)]
        [0.0057, 0.0238, 0.025]
    """
    if n_clusters < 2:
        return (1 - confidence) / 2
    t = t_quantile((1 + confidence) / 2, n_clusters - 1)
    return normal_cdf(-math.sqrt(n_clusters / (n_clusters - 1)) * t)


def _check_bootstrap(n_clusters: int, n: int, resamples: int, confidence: float = 0.95) -> None:
    if n_clusters < 0 or n < 0:
        raise ValueError(f"expected n_clusters >= 0 and n >= 0, got {n_clusters} and {n}")
    if resamples < 1:
        raise ValueError(f"resamples: expected at least 1, got {resamples}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: expected a number in (0, 1), got {confidence}")


def _check_weights(name: str, values: FloatArray, weights: FloatArray) -> FloatArray:
    checked = np.asarray(values, dtype=np.float64)
    if checked.shape != (len(weights),):
        raise ValueError(
            f"statistic {name!r}: expected shape ({len(weights)},) from weights of shape "
            f"{weights.shape}, got {checked.shape}"
        )
    return checked


def weight_batches(
    n_clusters: int, width: int, resamples: int, rng: np.random.Generator
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield weights (b, F), how often each cluster was drawn; b rows of `width` fit a batch.

    The draws are one stream in the order of the resamples, whatever the size of the batches.
    """
    size = max(_FEWEST_ROWS, _BATCH_NUMBERS // width)
    for start in range(0, resamples, size):
        rows = min(size, resamples - start)
        weights = np.empty((rows, n_clusters))
        step = max(1, _DRAWS // n_clusters)
        for first in range(0, rows, step):
            some = weights[first : first + step]
            drawn = rng.integers(0, n_clusters, size=some.shape)
            drawn += n_clusters * np.arange(len(some))[:, None]
            some[:] = np.bincount(drawn.ravel(), minlength=some.size).reshape(some.shape)
        yield slice(start, start + rows), weights


def _interval(replicates: FloatArray, value: float, tail: float) -> tuple[float, float]:
    defined = np.sort(replicates[~np.isnan(replicates)])
    if math.isnan(value) or defined.size == 0 or _agree(defined):
        return math.nan, math.nan
    place = tail * (defined.size - 1)
    below, above = math.floor(place), math.ceil(place)
    low, high = defined[[below, above]], defined[[-1 - above, -1 - below]]
    if not np.isfinite([low, high]).all():
        return float(low[0]), float(high[1])
    share = place - below
    return float(low[0] + share * (low[1] - low[0])), float(high[1] - share * (high[1] - high[0]))


def _agree(defined: FloatArray) -> bool:
    return defined.size > 0 and bool(np.allclose(defined, defined[0], rtol=1e-12, atol=0))


def _reason(value: float, replicates: FloatArray, n_clusters: int) -> ClusterText | None:
    """Say why an estimate is NaN, infinite or curtailed; None if it is none of these."""
    if n_clusters == 0:
        return NO_ROWS
    if math.isnan(value):
        return ClusterText("undefined on these rows")
    if n_clusters == 1:
        return ONE_CLUSTER
    undefined = np.isnan(replicates)
    share, agree = float(undefined.mean()), _agree(replicates[~undefined])
    sentences = []
    if math.isinf(value):
        sentences.append("infinite on these rows")
    if share == 1:
        sentences.append("undefined in every resample: no interval")
    elif share > _UNDEFINED_SHARE_TO_REPORT:
        sentences.append(f"{share:.1%} of the resamples are undefined and left out")
        if agree:
            sentences.append("the others all agree: no interval")
    elif agree:
        sentences.append("all resamples agree, which does not mean certainty: no interval")
    return ClusterText("; ".join(sentences)) if sentences else None


_HALVINGS = 30


def inverted_p_value(
    interval: Callable[[float], Estimate], resamples: int, n_clusters: int
) -> float:
    r"""Return the p-value of a difference from the function that makes its interval.

    .. math:: p = \inf\{\alpha : 0 \notin [l(1 - \alpha), u(1 - \alpha)]\}

    found by bisection to 1e-9, and never below `least_p_value`. Intervals have to grow with their
    confidence.

    Args:
        interval: Takes a confidence in (0, 1) to the difference with such an interval.
        resamples: Number of resamples B behind the interval.
        n_clusters: Number of clusters F that were resampled.

    Returns:
        A p-value in (0, 1]; NaN if there is no interval.

    References:
        Davison and Hinkley, "Bootstrap methods and their application", 1997, section 5.7.

    Examples:
        >>> from pact_eval.stats.bootstrap import inverted_p_value
        >>> from pact_eval.stats.estimate import Estimate
        >>> def wide(confidence):  # 0.3, and to either side as much as the confidence
        ...     return Estimate(0.3, 0.3 - confidence, 0.3 + confidence, 9, 9)
        >>> round(inverted_p_value(wide, resamples=9_999, n_clusters=162), 3)
        0.7
    """
    least, most = 0.0, 1.0
    for _ in range(_HALVINGS):
        level = (least + most) / 2
        estimate = interval(1 - level)
        if math.isnan(estimate.low) or math.isnan(estimate.high):
            return math.nan
        least, most = (least, level) if estimate.excludes_zero else (level, most)
    return min(1.0, max(most, least_p_value(resamples, n_clusters)))


def least_p_value(resamples: int, n_clusters: int) -> float:
    r"""Return the smallest p-value that so many resamples of so many clusters can give.

    .. math:: 2\,P\left[T_{F - 1} \le \sqrt{\tfrac{F - 1}{F}}\;\Phi^{-1}(a)\right], \quad
              a = \frac{1}{B + 1}

    the level at which `expanded_tail` is a.

    References:
        Davison and Hinkley, "Bootstrap methods and their application", 1997, section 4.2.5, for
        the share; Hesterberg, "What teachers should know about the bootstrap", The American
        Statistician 2015, for the expansion.

    Examples:
        >>> from pact_eval.stats.bootstrap import least_p_value
        >>> round(least_p_value(10_000, 162), 5), round(least_p_value(10_000, 8), 3)
        (0.00029, 0.01)
    """
    share = 1 / (resamples + 1)
    if share >= 0.5:
        return 1.0
    t = math.sqrt((n_clusters - 1) / n_clusters) * normal_quantile(share)
    return min(1.0, 2 * t_tail(t, n_clusters - 1))
