"""Formats of numbers, in every table and on the page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, Literal

from pact_eval._choices import ClusterUnit
from pact_eval.stats.estimate import ClusterText, Estimate

Unit = Literal["percent", "points", "nats", "score", "levels"]
"""Unit in which a number is shown: rates and their differences times 100, others unchanged."""

UNDEFINED = "–"
"""Shown if a number is undefined; the reason is given next to the table."""

_SCALE: dict[Unit, float] = {"percent": 100, "points": 100, "nats": 1, "score": 1, "levels": 1}
_DECIMALS: dict[Unit, int] = {"percent": 1, "points": 1, "nats": 3, "score": 3, "levels": 3}
# Decimals that a number next to 0 may have.
_MOST_DECIMALS: Final = 6
# Digits that rounding of sums may change: 319/400 - 316/400 is a last bit below 3/400.
_SURE_DECIMALS: Final = 9


def prompts_text(prompts: float) -> str:
    """Write mean prompts per item: a whole number as it is, others with two decimals.

    Example:
        >>> prompts_text(4.0), prompts_text(3.1234)
        ('4', '3.12')
    """
    return f"{prompts:,.0f}" if float(prompts).is_integer() else f"{prompts:,.2f}"


def value_text(value: float, unit: Unit, *, decimals: int = 0) -> str:
    """Write a number in its unit: rates in percent with one decimal, differences signed.

    The unit alone gives the decimals, so all numbers of a metric have as many in every row of a
    column. Only ends of intervals and noise floors that would print as 0 have more. A number that
    is written as 0 has no sign. A tie at the last decimal is written the same, whatever its sum.

    Args:
        value: rates as fractions.
        unit: of it.
        decimals: more decimals than usual.

    Example:
        >>> value_text(0.8210, "percent"), value_text(-0.0074, "points"), value_text(0.528, "nats")
        ('82.1', '-0.7', '0.528')
        >>> value_text(-0.00004, "points"), value_text(0.00004, "points")
        ('0.0', '0.0')
        >>> value_text(319 / 400 - 316 / 400, "points"), value_text(3 / 400, "points")
        ('+0.8', '+0.8')
        >>> value_text(float("nan"), "nats"), value_text(float("inf"), "nats")
        ('–', '∞')
    """
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    sign = "+" if unit == "points" else "-"
    sure = round(value * _SCALE[unit], _SURE_DECIMALS)
    text = f"{sure:{sign}.{_DECIMALS[unit] + decimals}f}"
    return text if text.strip("+-0.") else text.lstrip("+-")


def small_text(value: float, unit: Unit) -> str:
    """Write a number that may be far below the usual decimals, so that it does not seem to be 0.

    Example:
        >>> small_text(0.1234, "percent"), small_text(0.00005, "percent"), small_text(0.0, "nats")
        ('12.3', '0.005', '0.000')
    """
    size = abs(value * _SCALE[unit])
    if not 0 < size < 10.0 ** -_DECIMALS[unit]:
        return value_text(value, unit)
    decimals = min(math.ceil(-math.log10(size)), _MOST_DECIMALS)
    return value_text(value, unit, decimals=decimals - _DECIMALS[unit])


def estimate_text(estimate: Estimate, unit: Unit) -> str:
    """Write an estimate with its interval.

    Example:
        >>> estimate_text(Estimate(0.821, 0.778, 0.861, 324, 162), "percent")
        '82.1 [77.8, 86.1]'
    """
    return " ".join(part for part in estimate_parts(estimate, unit) if part)


def estimate_parts(estimate: Estimate, unit: Unit) -> tuple[str, str]:
    """Write an estimate, and its interval or nothing; neither seems to be 0 if 0 is excluded.

    Example:
        >>> estimate_parts(Estimate(0.821, 0.778, 0.861, 324, 162), "percent")
        ('82.1', '[77.8, 86.1]')
        >>> estimate_parts(Estimate(8e-5, 7e-5, 9e-5, 324, 162), "percent")
        ('0.008', '[0.007, 0.009]')
    """
    has_interval = not math.isnan(estimate.value) and not math.isnan(estimate.low)
    interval = ends_text(estimate.low, estimate.high, unit) if has_interval else ""
    excluded = has_interval and estimate.excludes_zero
    return _end(estimate.value, unit, 0, excluded=excluded), interval


def ends_text(low: float, high: float, unit: Unit, *, decimals: int = 0) -> str:
    """Write an interval, so that one which excludes 0 does not seem to touch it.

    An end next to 0 gets more decimals until it is not 0.

    Args:
        low: lower end.
        high: upper end.
        unit: of both.
        decimals: more decimals than usual for both ends.

    Example:
        >>> ends_text(0.778, 0.861, "percent")
        '[77.8, 86.1]'
        >>> ends_text(-0.111, -0.0003, "points")
        '[-11.1, -0.03]'
    """
    excluded = low > 0 or high < 0
    ends = (_end(end, unit, decimals, excluded=excluded) for end in (low, high))
    return f"[{', '.join(ends)}]"


def _end(value: float, unit: Unit, decimals: int, *, excluded: bool) -> str:
    text = value_text(value, unit, decimals=decimals)
    return text if text.strip("+-0.") or not excluded else small_text(value, unit)


def has_width(estimate: Estimate) -> bool:
    """Say whether the interval of an estimate is known and has a width.

    Example:
        >>> has_width(Estimate(0.0, 0.0, 0.0, 4, 2, None, "all resamples agree"))
        False
    """
    return not math.isnan(estimate.low) and estimate.low < estimate.high


def interval_text(estimate: Estimate, unit: Unit, word: str = "") -> str:
    """Write an estimate with its interval; a zero-width interval is replaced by the reason.

    Args:
        estimate: what to write.
        unit: of it.
        word: the unit after the numbers, such as " %" or " points".

    Example:
        >>> sure = Estimate(0.0, 0.0, 0.0, 4, 2, None, "all resamples agree")
        >>> interval_text(sure, "percent", " %")
        '0.0 % (no interval: all resamples agree)'
    """
    if has_width(estimate) or math.isnan(estimate.value):
        return f"{estimate_text(estimate, unit)}{word}"
    return f"{value_text(estimate.value, unit)}{word} ({no_interval(estimate)})"


GENERALISATION: Final[dict[ClusterUnit, str]] = {
    "family": "new families from the same source families",
    "source_family": "new source families",
}
"""What intervals over families, or over source families, generalise to."""


def generalisation_text(unit: ClusterUnit) -> str:
    """Say what intervals refer to.

    Example:
        >>> generalisation_text("source_family")
        'Intervals: new source families.'
    """
    return f"Intervals: {GENERALISATION[unit]}."


CLUSTER: Final[dict[ClusterUnit, str]] = {"family": "family", "source_family": "source family"}
"""What one cluster is called."""

CLUSTERS: Final[dict[ClusterUnit, str]] = {"family": "families", "source_family": "source families"}
"""What several clusters are called."""


def about(number: int) -> int:
    """Round a number of a plan to two digits.

    Example:
        >>> about(2688), about(97)
        (2700, 97)
    """
    return round(number, -max(0, len(str(number)) - 2))


def sample_text(items: int, clusters: int, unit: ClusterUnit = "family") -> str:
    """Write the size of a sample.

    Families are named as what they are, and only if the items have any.

    Example:
        >>> sample_text(324, 162), sample_text(9, 9)
        ('324 items in 162 groups that belong together', '9 items')
        >>> sample_text(2, 1, "source_family")
        '2 items in 1 source family'
    """
    counted = "1 item" if items == 1 else f"{items:,} items"
    if items == clusters:
        return counted
    if unit != "family":
        return f"{counted} in {clusters:,} {(CLUSTER if clusters == 1 else CLUSTERS)[unit]}"
    groups = "group that belongs" if clusters == 1 else "groups that belong"
    return f"{counted} in {clusters:,} {groups} together"


_PLAIN: Final[dict[ClusterUnit, str]] = {"family": "groups", "source_family": "sources"}


def plain_units(items: int, clusters: int, unit: ClusterUnit = "family") -> str:
    """Name what is independent of another, on first screens: items, or what they belong to.

    Example:
        >>> plain_units(400, 400), plain_units(324, 162), plain_units(324, 6, "source_family")
        ('items', 'groups', 'sources')
    """
    return "items" if items == clusters else _PLAIN[unit]


def plain_decoding(k: int, calibration: str) -> str:
    """Write on a first screen which probabilities are used.

    Example:
        >>> plain_decoding(1, "raw"), plain_decoding(4, "calibrated")
        ('probabilities as given', 'calibrated probabilities, 4 prompts per item together')
    """
    words = "probabilities as given" if calibration == "raw" else f"{calibration} probabilities"
    return words if k == 1 else f"{words}, {k} prompts per item together"


def short_clusters(unit: ClusterUnit) -> str:
    """Name several clusters in a narrow column: "fam.", or "source fam."."""
    return f"{CLUSTER[unit].removesuffix('family')}fam."


def reason_text(reason: str | None, unit: ClusterUnit = "family") -> str | None:
    """Write a reason with the name of its clusters; text of other origin is not touched.

    Example:
        >>> reason_text(ClusterText("one {cluster}: no interval"), "source_family")
        'one source family: no interval'
        >>> reason_text("no record of domain cluster-ops", "source_family")
        'no record of domain cluster-ops'
    """
    if isinstance(reason, ClusterText):
        return reason.over(CLUSTER[unit], CLUSTERS[unit])
    return reason


def methods_text(estimates: Iterable[Estimate], unit: ClusterUnit = "family") -> str:
    """Name the methods of intervals, each once, in the order of the estimates.

    Example:
        >>> from pact_eval.stats.estimate import Method
        >>> wilson = Estimate(0.8, 0.7, 0.9, 9, 4, Method("Wilson interval", " (rates)"))
        >>> drawn = Estimate(0.5, 0.4, 0.7, 9, 4, Method.bootstrap("", 200))
        >>> methods_text([wilson])
        '95% Wilson interval over families (rates)'
        >>> methods_text([wilson, drawn, wilson])
        '95% interval over families: Wilson (rates); bootstrap, 200 resamples'
    """
    all_estimates = list(estimates)
    intervals = [estimate for estimate in all_estimates if not math.isnan(estimate.low)]
    methods_used = (estimate.method for estimate in intervals or all_estimates)
    methods = list(dict.fromkeys(method for method in methods_used if method is not None))
    if not methods:
        return "no interval"
    if len(methods) == 1:
        return methods[0].over(CLUSTERS[unit])
    return f"95% interval over {CLUSTERS[unit]}: {'; '.join(method.short for method in methods)}"


def plain_reason(estimate: Estimate) -> str | None:
    """Return the reason of an estimate with the words of first screens for its clusters.

    Example:
        >>> few = ClusterText("3 {clusters}: no interval")
        >>> plain_reason(Estimate(0.5, math.nan, math.nan, 3, 3, None, few))
        '3 items: no interval'
    """
    if not isinstance(estimate.reason, ClusterText):
        return estimate.reason
    units = plain_units(estimate.n, estimate.clusters)
    return estimate.reason.over(units.removesuffix("s"), units)


def no_interval(estimate: Estimate) -> str:
    """Say in plain words why an estimate has no interval with a width.

    Example:
        >>> no_interval(Estimate(0.5, math.nan, math.nan, 2, 1, None, "one family: no interval"))
        'one family: no interval'
    """
    why = plain_reason(estimate) or "it has no width"
    return why if "no interval" in why else f"no interval: {why}"


def count_and_share(count: int, total: int) -> str:
    """Write a count and its share of a total in percent.

    Example:
        >>> count_and_share(39, 162), count_and_share(0, 0)
        ('39 (24%)', '0')
    """
    return f"{count:,} ({100 * count / total:.0f}%)" if total else f"{count:,}"


def views_words(k: int, repeats: int) -> str:
    """Name what a number is of: a view, K views, or repeats.

    Args:
        k: number of views that are decoded together.
        repeats: number of repeats per item; 1 if the views are not repeats.

    Example:
        >>> views_words(1, 1), views_words(4, 1), views_words(1, 3), views_words(3, 3)
        ('first order', '4 orders', 'mean of 3 repeats', '3 repeats together')
    """
    if repeats > 1:
        return f"mean of {repeats} repeats" if k == 1 else f"{k} repeats together"
    return "first order" if k == 1 else f"{k} orders"


def at_views(k: int, repeats: int) -> str:
    """Say where a difference is shown; see `views_words`.

    Example:
        >>> at_views(1, 1), at_views(4, 1), at_views(1, 3)
        ('in the first order', 'over 4 orders', 'in the mean of 3 repeats')
    """
    words = views_words(k, repeats)
    return f"over {words}" if k > 1 else f"in the {words}"


def p_value_text(p_value: float) -> str:
    """Write a p-value, never as 0.

    Example:
        >>> p_value_text(0.0349), p_value_text(1e-9)
        ('p = 0.035', 'p < 0.001')
    """
    return f"p {'' if p_value < 0.001 else '= '}{p_value_number(p_value)}"


def p_value_number(p_value: float) -> str:
    """Write a p-value for a column of them.

    Example:
        >>> p_value_number(0.0349), p_value_number(1e-9)
        ('0.035', '< 0.001')
    """
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def rate_text(estimate: Estimate) -> str:
    """Write a rate in percent, with its interval or why it has none.

    Example:
        >>> rate_text(Estimate(0.635, 0.586, 0.681, 400, 200))
        '63.5% [58.6, 68.1]'
    """
    if math.isnan(estimate.value) or not has_width(estimate):
        return interval_text(estimate, "percent", "%")
    value, interval = estimate_parts(estimate, "percent")
    return f"{value}% {interval}"
