"""Registry of metrics: the only list of metrics, with their computation.

An entry has a name, a title, a unit, a direction and requirements. It has a function that computes
one number per item of a block, and a reduction that computes the metric of a group. `evaluate`,
`compare`, JSON and tables read the metrics from here. Call `register_metric` to add a metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval._choices import Decoding
from pact_eval._typing import FloatArray
from pact_eval.errors import NO_PROBABILITIES
from pact_eval.evaluation.calibration_error import CalibrationError, ece_interval
from pact_eval.numbers import Unit, value_text
from pact_eval.runs.provenance import UNSURE, Known
from pact_eval.stats.bootstrap import (
    InfluenceStatistic,
    LazyRowSums,
    Resampled,
    RowSums,
    Statistic,
    TotalsStatistic,
    mean_statistic,
    ratio_statistic,
)
from pact_eval.stats.bounds import Bounded, Side
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.linearised import linear_inference
from pact_eval.stats.rate_differences import paired_rates
from pact_eval.stats.rates import rate_estimate
from pact_eval.stats.summed_intervals import difference_of_other_rows

if TYPE_CHECKING:  # they import this module
    from pact_eval.evaluation.items import ScoredItems


DecodingName = Literal["single", "ensemble", "repeats", "repeats_together"]
"""Name of the decoding of one run in outputs; `decoding_name` says what each is."""


def decoding_name(decoding: Decoding, repeats: int) -> DecodingName:
    """Return the name of a decoding.

    `single` is view 0, and `ensemble` all K views. If the views are repeats of one order, single is
    the mean over the repeats of each metric (`repeats`), and ensemble the one distribution that
    they give together (`repeats_together`).

    Args:
        decoding: the choice of the user.
        repeats: number of repeats per item; 1 if the views are not repeats.

    Examples:
        >>> decoding_name("single", 1), decoding_name("single", 3), decoding_name("ensemble", 3)
        ('single', 'repeats', 'repeats_together')
    """
    if repeats == 1:
        return decoding
    return "repeats" if decoding == "single" else "repeats_together"


@dataclass(frozen=True, slots=True, order=True)
class MetricDecoding:
    """The decoding that a number is of; files and tables have its name.

    Attributes:
        views: one view alone (of repeats, the mean over them), or the K views together.
        calibrated: whether the probabilities are divided by a fitted temperature.

    Examples:
        >>> str(MetricDecoding("single")), str(MetricDecoding("ensemble", calibrated=True))
        ('single', 'ensemble_calibrated')
    """

    views: Decoding
    calibrated: bool = False

    @classmethod
    def parse(cls, name: str) -> MetricDecoding:
        """Return the decoding of a name.

        Raises:
            ValueError: no decoding has that name.

        Examples:
            >>> MetricDecoding.parse("ensemble_calibrated")
            MetricDecoding(views='ensemble', calibrated=True)
        """
        return DECODINGS[DECODING_NAMES.index(name)]

    def __str__(self) -> str:
        return f"{self.views}_calibrated" if self.calibrated else self.views


SINGLE: Final = MetricDecoding("single")
SINGLE_CALIBRATED: Final = MetricDecoding("single", calibrated=True)
ENSEMBLE: Final = MetricDecoding("ensemble")
ENSEMBLE_CALIBRATED: Final = MetricDecoding("ensemble", calibrated=True)
DECODINGS: Final = (SINGLE, SINGLE_CALIBRATED, ENSEMBLE, ENSEMBLE_CALIBRATED)
DECODING_NAMES: Final = tuple(map(str, DECODINGS))


MINUS: Final = "−"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """Name and display of a metric.

    Attributes:
        name: key in JSON.
        title: in tables.
        unit: how it is shown.
        better: 1 if higher is better, -1 if lower is better, 0 if differences are not marked.
    """

    name: str
    title: str
    unit: Unit
    better: Literal[-1, 0, 1]

    @property
    def difference_unit(self) -> Unit:
        """Unit of a difference between two values: points if the metric is a rate."""
        return "points" if self.unit == "percent" else self.unit

    def shown(self, value: float) -> str:
        """Write a value as papers print it: AURC in percent with two decimals, a true minus.

        Example:
            >>> from pact_eval.evaluation.registry import metric_spec
            >>> metric_spec("aurc").shown(0.0341), metric_spec("ensemble_gain").shown(-0.007)
            ('3.41', '−0.7')
        """
        if self.name == "aurc" and math.isfinite(value):
            return f"{100 * value:.2f}".replace("-", MINUS)
        return value_text(value, self.unit).replace("-", MINUS)


DIFFERENCE: Final = MetricSpec("difference", "Difference", "points", 0)
"""A difference between two rates, in points and signed."""


Need = Literal[
    "references", "ablated contexts", "several views", "ensemble", "pairs", "score items"
]
"""A requirement of a metric: `ensemble` is a distribution of several views
together. Metrics that need neither references nor ablated contexts are computed
for both types of run."""

Summary = Literal["main results", "figure of arms", "every run", "sweep", "ablations"]
"""Tables and figures that show only some metrics: the tables of main results, of every run (on the
page), of a sweep and of ablations, and the figure of arms (rates only)."""

SUMMARIES: Final[frozenset[Summary]] = frozenset(get_args(Summary))

CONFIDENT: Final = 0.9
"""An error with this confidence or more is a confident error."""

PAIR_MARGIN: Final = "pair_margin"
TRAINED_MARGIN: Final = 2.0
"""Margin m of the paper's training term L_CF, in nats."""

_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class Basis:
    """The units from which a metric is computed, if these are not all items.

    Attributes:
        units: number of items, pairs or errors.
        families: number of families (or source families, if those are the units) that they form.
        reason_if_none: reason if there are none.
        rows: (n,) whether an item counts, if that depends on the run.
    """

    units: int
    families: int
    reason_if_none: str
    rows: npt.NDArray[np.bool_] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Reduced:
    """A metric of a group of items.

    Attributes:
        statistic: the metric as a function of how often each family is drawn.
        basis: the units from which it is computed; None for all items.
    """

    statistic: Statistic
    basis: Basis | None = None


REPEATS_OF_ONE_ORDER: Final = "repeats of one order"
"""Why nothing is known of orders if the views of every item are repeats of one."""

REPEATS_NOT_VIEWS: Final = "repeats, not views"
"""Why a metric of views is undefined if the views of every item are repeats."""

Reduction = Callable[["ScoredItems", str], Reduced]
"""A function from the items of a group and the name of the metric to the metric."""


def mean_over_items(items: ScoredItems, name: str) -> Reduced:
    """The mean of the per-item values of a metric."""
    return Reduced(mean_statistic(items.values[name], items.cluster, items.n_clusters))


Interval = Callable[["ScoredItems", Resampled, np.random.Generator], Estimate]
"""A function from the items of a group, the resamples of the metric and a random generator to the
metric with its interval."""


class Inference(Protocol):
    """The interval of a number, and the p-value that inverts it."""

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the number with its interval."""
        ...

    def p_value(self) -> float:
        """Return the level at which the interval ends at 0; NaN without an interval."""
        ...


DifferenceInference = Callable[[Resampled], Inference]
"""Takes a difference between runs on resamples to its inference."""


def mean_interval(_items: ScoredItems, drawn: Resampled, _rng: np.random.Generator) -> Estimate:
    """The skewness-corrected t interval over families; see `stats.LinearInference`."""
    return _linear(drawn, outer=False).estimate()


def ranking_interval(_items: ScoredItems, drawn: Resampled, _rng: np.random.Generator) -> Estimate:
    """The interval of a mean whose families may add any amount, as a confident error to AURC."""
    return _linear(drawn, outer=False, heavy_tailed=True).estimate()


def rate_interval(_items: ScoredItems, drawn: Resampled, _rng: np.random.Generator) -> Estimate:
    """The Wilson interval of a share of rows, over families; see `stats.rate_estimate`.

    The mean of such shares over runs is the share in the rows of all runs, if these are as many.
    """
    statistics = [
        statistic for _, statistic in drawn.terms if isinstance(statistic, TotalsStatistic)
    ]
    if len(statistics) < max(1, len(drawn.terms)) or not math.isfinite(drawn.value):
        return drawn.estimate()
    counts = [statistic.by_cluster() for statistic in statistics]
    (counted,), _ = counts[0]
    if not all(np.array_equal(rows, counted) for (rows,), _ in counts):
        return _linear(drawn, outer=False).estimate()
    positive = np.sum([positive for _, (positive,) in counts], axis=0)
    by_term = [squares for one in statistics if (squares := one.squares()) is not None]
    squares = np.sum(by_term, axis=0) if len(by_term) == len(counts) else None
    rate = rate_estimate(positive, len(counts) * counted, squares=squares)
    return replace(rate, value=drawn.value)


def gain_interval(_items: ScoredItems, drawn: Resampled, _rng: np.random.Generator) -> Estimate:
    """The score interval of a difference of two rates within one run."""
    return rate_difference(drawn).estimate()


def mean_difference(drawn: Resampled) -> Inference:
    """Inference on a difference of means over families; see `stats.LinearInference`."""
    return _linear(drawn, outer=True)


def ranking_difference(drawn: Resampled) -> Inference:
    """Inference on a difference of means to which families may add any amount."""
    return _linear(drawn, outer=True, heavy_tailed=True)


def rate_difference(drawn: Resampled) -> Inference:
    """Inference on a difference of rates over families.

    The score interval (see `stats.PairedRates`) if both are rates of the same rows; otherwise, as
    for confident errors, `difference_of_other_rows`.
    """
    if not math.isfinite(drawn.value):
        return mean_difference(drawn)
    rows = drawn.rows()
    if rows is not None and np.abs(rows[0]).max() <= 1 + _ROUNDING:
        return replace(paired_rates(*rows, drawn.n_clusters), value=drawn.value)
    return difference_of_other_rows(drawn)


def _linear(drawn: Resampled, *, outer: bool, heavy_tailed: bool = False) -> Inference:
    """Student's t, or percentiles of resamples if families have no finite influence."""
    linear = drawn.linearised()
    if linear is None:
        return drawn
    return linear_inference(drawn.value, linear, n=drawn.n, outer=outer, heavy_tailed=heavy_tailed)


@dataclass(frozen=True)
class Metric:
    """An entry of the registry.

    Attributes:
        spec: name, title, unit and direction.
        needs: requirements of the metric.
        per_item: maps a block of m items to (m,) numbers or bools; None if the reduction needs
            no numbers except confidence, prediction and reference.
        reduction: computes the metric of a group of items.
        summaries: tables and figures that show it; report and comparison show every metric.
        argmax_only: whether it depends on the most probable answer only. Then no temperature
            changes it.
        reported: False if only hypotheses use it, and no report or comparison.
        interval: makes the interval of the metric of one run.
        difference: makes the interval and the test of a difference between runs; with a noise
            floor, `ece_difference` makes them from the intervals of the runs instead.
        bounds: smallest and largest possible value, at which intervals end.
        noise_floor: whether chance alone moves the value of a perfect run from 0. Its estimates are
            then `CalibrationError`, and tables show both numbers.
        driven_by_errors: whether it comes mostly from wrong answers. Few families with an error
            then say little about it, and it has no interval.
        of_confidence: whether it depends on the most probable answer and its probability only.
    """

    spec: MetricSpec
    needs: frozenset[Need]
    per_item: Callable[[metrics.ItemBlock], npt.NDArray[Any]] | None = None
    reduction: Reduction = field(default=mean_over_items)
    summaries: frozenset[Summary] = SUMMARIES
    argmax_only: bool = False
    reported: bool = True
    interval: Interval = mean_interval
    difference: DifferenceInference = mean_difference
    bounds: tuple[float, float] = (-math.inf, math.inf)
    noise_floor: bool = False
    driven_by_errors: bool = False
    of_confidence: bool = False

    @property
    def name(self) -> str:
        """Key in JSON."""
        return self.spec.name

    @property
    def counts(self) -> Literal["item", "pair", "error"]:
        """Unit of the mean: item, pair or error.

        Examples:
            >>> [find_metric(name).counts for name in ("nll_nats", "pair_margin")]
            ['item', 'pair']
        """
        if self.name == "confident_errors":
            return "error"
        return "pair" if "pairs" in self.needs else "item"

    def defined_for(self, known: Known) -> bool:
        """Return whether it is defined for runs that know this much of their items.

        Examples:
            >>> [find_metric("ece").defined_for(known) for known in ("confidences", "answers")]
            [True, False]
        """
        if known == "probabilities":
            return True
        of_answers = self.argmax_only and "ensemble" not in self.needs
        return of_answers or (self.of_confidence and known not in UNSURE)

    def members(self, items: ScoredItems) -> ScoredItems:
        """Return the items that it is of: the Score items, if it needs them."""
        return items.score_items if "score items" in self.needs else items

    def reduced(self, items: ScoredItems) -> Reduced:
        """Return the metric of a group of items, undefined if it needs what is not known of them.

        Args:
            items: those of the group; for Score items, only these.
        """
        if not self.defined_for(items.known):
            return undefined(NO_PROBABILITIES[items.known])
        return self.reduction(items, self.name)

    @property
    def uses_all_views(self) -> bool:
        """Whether it is computed from all K views under every decoding."""
        return "several views" in self.needs

    def within_bounds(self, estimate: Estimate) -> Estimate:
        """Return an estimate whose interval ends at the smallest and largest possible value."""
        if math.isnan(estimate.low) or math.isnan(estimate.high):
            return estimate
        low, high = np.clip((estimate.low, estimate.high), *self.bounds).tolist()
        return replace(estimate, low=low, high=high)

    def within_difference(self, difference: Estimate) -> Estimate:
        """Return a difference of two values, whose interval ends at the largest possible one."""
        if math.isnan(difference.low) or math.isnan(difference.high):
            return difference
        most = self.bounds[1] - self.bounds[0]
        low, high = max(difference.low, -most), min(difference.high, most)
        return replace(difference, low=low, high=high)

    def bounded(self, estimate: Estimate, bound: float, side: Side) -> Bounded:
        """Return a value with a bound; an interval of ECE reaches from the value without bias.

        Args:
            estimate: of the metric, with its interval.
            bound: the bound.
            side: 1 if the value must be above it, -1 if below.
        """
        centre = estimate.debiased if isinstance(estimate, CalibrationError) else None
        return Bounded(estimate, bound, side, centre, self.noise_floor)

    def applies_to(self, contexts: Contexts) -> bool:
        """Return whether the metric is defined for runs on such contexts."""
        other: Need = "ablated contexts" if contexts == "full" else "references"
        return other not in self.needs


Contexts = Literal["full", "ablated"]
"""Full contexts, with references, or evidence-ablated contexts, which have no correct answer."""

_REGISTRY: dict[str, Metric] = {}


def register_metric(metric: Metric) -> None:
    """Add a metric to every report and comparison that is computed from now on.

    Raises:
        ValueError: a metric of that name is registered already.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.evaluation.registry import Metric, MetricSpec
        >>> from pact_eval.evaluation.registry import registered_metrics
        >>> def margin(block):  # distance of the two largest probabilities
        ...     largest = np.sort(block.probs, axis=0)
        ...     return largest[-1] - largest[-2]
        >>> spec = MetricSpec("margin", "Margin", "percent", 1)
        >>> register_metric(Metric(spec, frozenset({"references"}), margin))
        >>> registered_metrics("full")[-1].title
        'Margin'
        >>> del _REGISTRY["margin"]  # an example, not a metric of every report
    """
    if metric.name in _REGISTRY:
        raise ValueError(f"metric {metric.name!r} is registered already; choose another name")
    _REGISTRY[metric.name] = metric


def metrics_for(contexts: Contexts) -> tuple[Metric, ...]:
    """Return the reported metrics of one type of contexts, in the order of the report."""
    return tuple(
        metric for metric in _REGISTRY.values() if metric.reported and metric.applies_to(contexts)
    )


def registered_metrics(
    contexts: Contexts = "full", summary: Summary | None = None
) -> tuple[MetricSpec, ...]:
    """Return name, title, unit and direction of the reported metrics, in the order of the report.

    Args:
        contexts: of the runs.
        summary: only the metrics that this table or figure shows; None returns all.
    """
    return tuple(
        metric.spec
        for metric in metrics_for(contexts)
        if summary is None or summary in metric.summaries
    )


def find_metric(name: str) -> Metric:
    """Return the entry of a metric.

    Raises:
        KeyError: there is no metric of that name.
    """
    return _REGISTRY[name]


def metric_spec(name: str) -> MetricSpec:
    """Return name, title, unit and direction of a metric.

    Examples:
        >>> metric_spec("aurc").title
        'AURC'
    """
    return find_metric(name).spec


def metric_names() -> tuple[str, ...]:
    """Return the names of all registered metrics, including those that only hypotheses use."""
    return tuple(_REGISTRY)


def _over_some(
    items: ScoredItems,
    values: npt.NDArray[Any],
    counted: npt.NDArray[np.bool_],
    reason_if_none: str,
) -> Reduced:
    """The mean of (n,) values over the items that count."""
    numbers = np.where(counted, values, 0.0)
    ratio = ratio_statistic(numbers, counted, items.cluster, items.n_clusters)
    basis = Basis(int(counted.sum()), items.clusters.count(counted), reason_if_none, counted)
    return Reduced(ratio, basis)


def _over_views(items: ScoredItems, name: str) -> Reduced:
    """The mean of a metric of several views, undefined for one view."""
    if items.repeats > 1:
        return undefined(REPEATS_NOT_VIEWS)
    reason = "one view only: K is 1"
    if items.k > 1 and "ensemble" in find_metric(name).needs:
        reason = "the views of an item rule out all of its answers"
    values, orders = items.values[name], items.reordered
    defined = values if orders is None or items.k == 1 else values[orders]
    if len(defined) and np.isnan(defined[0]) and np.isnan(defined).all():
        return undefined(reason)
    if orders is not None:
        # Where the order of the answers never changes, nothing is said about it.
        return _over_some(items, values, orders, "no item is shown in two orders")
    mean = mean_over_items(items, name).statistic
    return Reduced(mean, Basis(len(items), items.n_clusters, reason))


def undefined(reason: str) -> Reduced:
    """Return a metric that is undefined, with the reason."""
    return Reduced(lambda weights: np.full(len(weights), np.nan), Basis(0, 0, reason))


def _over_score_items(items: ScoredItems, name: str) -> Reduced:
    """The mean over Score items; `items` contains only those, so only they are resampled."""
    basis = Basis(len(items), items.n_clusters, "no score items")
    return Reduced(mean_over_items(items, name).statistic, basis)


def _over_recorded(items: ScoredItems, name: str) -> Reduced:
    """The mean over the items of which the run records a value."""
    values = items.values[name]
    recorded = ~np.isnan(values)
    if recorded.all() and len(values):
        return mean_over_items(items, name)
    if not recorded.any():
        return undefined("the run does not record it")
    return _over_some(items, values, recorded, "the run does not record it")


def pair_margins(items: ScoredItems) -> FloatArray:
    """Return (P,) the margin of each complete pair in nats, in the order of `ScoredItems.pairs`.

    It is NaN or infinite if both members have the same right answer, or if one of the two right
    answers has probability 0 or is not offered; see `metrics.pair_margin_nats`.
    """
    return metrics.pair_margin_nats(items.pairs, items.values[PAIR_MARGIN])


def _over_margins(
    items: ScoredItems, _name: str, *, number_of: Callable[[FloatArray], npt.NDArray[Any]]
) -> Reduced:
    """The mean of a number over the pairs that have a margin."""
    margins = pair_margins(items)
    return _over_pairs(items, number_of(margins), np.isfinite(margins))


def _over_pairs(
    items: ScoredItems, numbers: npt.NDArray[Any], counted: npt.NDArray[np.bool_] | None = None
) -> Reduced:
    """The mean of (P,) numbers over the complete pairs, or over those that count."""
    base, n_clusters = items.pairs.base, items.n_clusters
    cluster = items.cluster.take(base)
    if counted is None or counted.all():
        basis = Basis(base.size, items.clusters.count(base), "no complete pairs")
        return Reduced(mean_statistic(numbers, cluster, n_clusters), basis)
    rows, of_base = np.zeros(len(items), dtype=np.bool_), np.zeros(len(items))
    rows[base[counted]], of_base[base] = True, numbers
    return _over_some(items, of_base, rows, "no pair has a finite margin")


def confident_errors(items: ScoredItems) -> npt.NDArray[np.bool_]:
    """Return (n,) whether the answer is wrong with a confidence of `CONFIDENT` or more."""
    return metrics.is_confident(items.confidence, CONFIDENT) & ~items.correct


def _ece(items: ScoredItems, _name: str) -> Reduced:
    """ECE from sums per bin, which are linear in the weights of families."""
    confidence, correct = items.confidence, items.correct

    def gaps(rows: slice) -> RowSums:
        bins = metrics.bin_index(confidence[rows], items.ece_bins)
        return RowSums(confidence[rows] - correct[rows], bins, items.ece_bins)

    def ece(totals: FloatArray) -> FloatArray:
        return metrics.ece_of_gaps(totals[:, 0], totals[:, 1:])

    parts = (RowSums(None), LazyRowSums(gaps))
    return Reduced(TotalsStatistic(parts, ece, items.cluster, items.n_clusters))


def _aurc(items: ScoredItems, _name: str) -> Reduced:
    """AURC and its influence; no interval resamples it."""
    confidence, correct = items.confidence, items.correct
    return Reduced(
        InfluenceStatistic(
            metrics.aurc(confidence, correct),
            lambda rows: metrics.aurc(confidence[rows], correct[rows]),
            lambda: metrics.aurc_influence(confidence, correct),
            items.cluster,
            items.n_clusters,
        )
    )


ANSWER_MASS: Final = "answer_mass"
ABLATED_CONFIDENCE: Final = "ablated_confidence"
ABLATED_GAP: Final = "ablated_gap"
MEAN_CONFIDENCE: Final = "mean_confidence"

_FULL: Final[frozenset[Need]] = frozenset({"references"})
_PAIRS: Final[frozenset[Need]] = _FULL | {"pairs"}
_SCORE: Final[frozenset[Need]] = _FULL | {"score items"}
_VIEWS: Final[frozenset[Need]] = frozenset({"several views"})
_ABLATED: Final[frozenset[Need]] = frozenset({"ablated contexts"})
_NONE: Final[frozenset[Summary]] = frozenset()
_MAIN: Final[frozenset[Summary]] = frozenset({"main results"})
_RUNS: Final[frozenset[Summary]] = frozenset({"every run", "sweep", "ablations"})
_SHARE: Final = (0.0, 1.0)
_POSITIVE: Final = (0.0, math.inf)

_rate = partial(Metric, interval=rate_interval, difference=rate_difference, bounds=_SHARE)
# The letters A to Z show 26 levels.
_level = partial(
    Metric, needs=_SCORE, reduction=_over_score_items, bounds=(0.0, 25.0), driven_by_errors=True
)

_METRICS: Final = (
    _rate(
        MetricSpec("accuracy", "Accuracy", "percent", 1),
        _FULL,
        lambda block: block.correct,
        argmax_only=True,
    ),
    _rate(
        MetricSpec("pair_accuracy", "Pair accuracy", "percent", 1),
        _PAIRS,
        reduction=lambda items, _: _over_pairs(
            items, metrics.pair_correct(items.pairs, items.correct)
        ),
        argmax_only=True,
    ),
    Metric(
        MetricSpec(PAIR_MARGIN, "Pair margin", "nats", 1),
        _PAIRS,
        lambda block: block.lead_nats,
        partial(_over_margins, number_of=lambda margin: margin),
        summaries=_NONE,
    ),
    # The mean is tested. Tests of shares of the same margins would only cost power.
    _rate(
        MetricSpec("margin_not_positive", "Margin up to 0", "percent", 0),
        _PAIRS,
        reduction=partial(_over_margins, number_of=lambda margin: margin <= metrics.TIE),
        summaries=_NONE,
    ),
    _rate(
        MetricSpec("margin_below_trained", "Margin below 2", "percent", 0),
        _PAIRS,
        reduction=partial(
            _over_margins, number_of=lambda margin: margin < TRAINED_MARGIN - metrics.TIE
        ),
        summaries=_NONE,
    ),
    Metric(
        MetricSpec("nll_nats", "NLL", "nats", -1),
        _FULL,
        lambda block: block.nll_nats,
        summaries=_MAIN | _RUNS,
        bounds=_POSITIVE,
        driven_by_errors=True,
    ),
    Metric(
        MetricSpec("brier", "Brier", "score", -1),
        _FULL,
        lambda block: block.brier,
        summaries=_MAIN,
        bounds=(0.0, 2.0),
        driven_by_errors=True,
    ),
    Metric(
        MetricSpec("ece", "ECE", "percent", -1),
        _FULL,
        reduction=_ece,
        of_confidence=True,
        interval=ece_interval,
        bounds=_SHARE,
        driven_by_errors=True,
        noise_floor=True,
    ),
    Metric(
        MetricSpec("aurc", "AURC", "percent", -1),
        _FULL,
        reduction=_aurc,
        of_confidence=True,
        summaries=_MAIN | {"every run", "ablations"},
        interval=ranking_interval,
        difference=ranking_difference,
        bounds=_SHARE,
        driven_by_errors=True,
    ),
    _level(
        MetricSpec("score_mae", "Score MAE", "levels", -1),
        per_item=lambda block: block.expected_level_error,
        summaries=_MAIN | {"ablations"},
    ),
    _level(
        MetricSpec("score_rps", "Score RPS", "levels", -1),
        per_item=lambda block: block.rps,
        summaries=_MAIN,
    ),
    _level(
        MetricSpec("score_level_mae", "Score level MAE", "levels", -1),
        per_item=lambda block: block.level_error,
        summaries=_NONE,
        argmax_only=True,
    ),
    Metric(
        MetricSpec(ABLATED_CONFIDENCE, "Mean confidence", "percent", -1),
        _ABLATED,
        lambda block: block.confidence,
        bounds=_SHARE,
    ),
    Metric(
        MetricSpec(ABLATED_GAP, "Answer gap", "nats", -1),
        _ABLATED,
        lambda block: block.answer_gap_nats,
        bounds=_POSITIVE,
    ),
    Metric(
        MetricSpec("view_tv", "View TV", "percent", -1),
        _VIEWS,
        lambda block: block.view_tv,
        _over_views,
        summaries=_RUNS | {"figure of arms"},
        bounds=_SHARE,
    ),
    _rate(
        MetricSpec("flip_rate", "Flip rate", "percent", -1),
        _VIEWS,
        lambda block: block.flipped,
        _over_views,
        summaries=_RUNS,
        argmax_only=True,
    ),
    _rate(
        MetricSpec("order_accuracy", "Mean accuracy", "percent", 1),
        _FULL | _VIEWS,
        lambda block: block.order_accuracy,
        _over_views,
        summaries=frozenset({"every run"}),
        argmax_only=True,
        difference=mean_difference,
    ),
    Metric(
        MetricSpec("ensemble_gain", "Ensemble gain", "points", 0),
        _FULL | _VIEWS | {"ensemble"},
        lambda block: block.ensemble_gain,
        _over_views,
        summaries=frozenset({"sweep"}),
        argmax_only=True,
        interval=gain_interval,
        bounds=(-1.0, 1.0),
    ),
    _rate(
        MetricSpec("confident_errors", "Confident errors", "percent", -1),
        _FULL,
        reduction=lambda items, _: _over_some(
            items, confident_errors(items), ~items.correct, "no errors"
        ),
        of_confidence=True,
        summaries=_NONE,
    ),
    Metric(
        MetricSpec(ANSWER_MASS, "Answer mass", "percent", 1),
        frozenset(),
        lambda block: metrics.mean_answer_mass(block.answer_mass),
        _over_recorded,
        summaries=frozenset({"every run"}),
        bounds=_SHARE,
    ),
    Metric(
        MetricSpec(MEAN_CONFIDENCE, "Mean confidence", "percent", 0),
        _FULL,
        reduction=lambda items, _: Reduced(
            mean_statistic(items.confidence, items.cluster, items.n_clusters)
        ),
        of_confidence=True,
        summaries=_NONE,
        reported=False,
        bounds=_SHARE,
    ),
)
for _metric in _METRICS:
    register_metric(_metric)
