r"""What the requests of runs cost and how long they took, and which run is cheaper or faster.

A log has the price and the latency of every request; items of one request share them, so requests
are counted once. Of two runs on the same items, both answers to a request are compared:

- *price*: the mean difference A - B;
- *latency*: the geometric mean of the ratios A / B, as latencies have long tails.

Intervals and tests are Student's t over families (`stats.linearised`), adjusted for both (Holm). If
all families differ by the same number, there is no interval, and the exact sign test over families
decides. *Cheaper and not worse* is the claim that both are shown, each at its own level
(intersection-union test). Accuracy is *not worse* if its interval shows that it falls by less than
the margin; without one, *better* if it shows that it rises.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import polars as pl

from pact_eval._choices import ClusterUnit
from pact_eval.evaluation.experiment_run import ExperimentRun, item_facts, without_prefix
from pact_eval.evaluation.labels import Labels
from pact_eval.numbers import has_width
from pact_eval.runs.folder import unanswered_items
from pact_eval.runs.identity import QUESTION, question_texts
from pact_eval.stats.bounds import Bounded
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_eval.stats.linearised import mean_inference
from pact_eval.stats.multiplicity import holm

if TYPE_CHECKING:
    from pact_eval.evaluation.experiment import Experiment

Measure = Literal["price", "latency_ms"]
"""Of a request: its price in the currency of the log, or its latency in milliseconds."""

_MEASURES: Final[tuple[Measure, ...]] = ("price", "latency_ms")
_LESS: Final[dict[Measure, str]] = {"price": "cheaper", "latency_ms": "faster"}
_MORE: Final[dict[Measure, str]] = {"price": "dearer", "latency_ms": "slower"}
_SECOND: Final = 1000


@dataclass(frozen=True)
class Spent:
    """What the requests of a run cost, as far as its log says.

    Attributes:
        requests: number of requests, those without an answer included.
        price: mean price of a request; None if it is not known.
        latency: median latency in milliseconds; None likewise.
        latency_95: the latency that 95% of the requests do not exceed; None likewise.
    """

    requests: int
    price: float | None
    latency: float | None
    latency_95: float | None

    @property
    def words(self) -> str:
        """The numbers in a few words.

        Example:
            >>> Spent(800, 0.00123, 148.2, 1310.0).words
            '800, price 0.00123 each, 148 ms in the median, 95% within 1.31 s'
        """
        texts = [f"{self.requests:,}"]
        if self.price is not None:
            texts.append(f"price {self.price:.3g} each")
        if self.latency is not None and self.latency_95 is not None:
            median, most = _time(self.latency), _time(self.latency_95)
            texts.append(f"{median} in the median, 95% within {most}")
        return ", ".join(texts)

    @property
    def cell(self) -> str:
        """Price and latency for a table.

        Example:
            >>> Spent(800, 0.00123, 148.2, 1310.0).cell
            '0.00123, 148 ms (1.31 s)'
        """
        texts = [] if self.price is None else [f"{self.price:.3g}"]
        if self.latency is not None and self.latency_95 is not None:
            texts.append(f"{_time(self.latency)} ({_time(self.latency_95)})")
        return ", ".join(texts)


@dataclass(frozen=True)
class SpendingChange:
    """The price, or the latency, of two runs on the same requests.

    Attributes:
        measure: price or latency_ms.
        a: mean price, or median latency, of A.
        b: that of B.
        change: the mean difference A - B of prices, or the geometric mean of the ratios A / B of
            latencies, with its interval over families.
        p_value: of no change, adjusted for both measures.
    """

    measure: Measure
    a: float
    b: float
    change: Estimate
    p_value: float

    @property
    def finding(self) -> Literal["less", "more", "not shown"]:
        """Whether A is shown to need less or more than B."""
        if not self.p_value <= LEVEL:
            return "not shown"
        return "less" if self.change.value < float(self.measure == "latency_ms") else "more"

    def words(self, other: str) -> str:
        """The numbers, with the name of the other run.

        Example:
            >>> change = Estimate(0.61, 0.58, 0.64, n=800, clusters=800)
            >>> SpendingChange("latency_ms", 131.0, 215.0, change, 0.001).words("old")
            '131 ms in the median, old 215 ms (0.61 [0.58, 0.64] times)'
        """
        value, low, high = self.change.value, self.change.low, self.change.high
        if self.measure == "price":
            ends = f" [{low:+.3g}, {high:+.3g}]" if has_width(self.change) else ""
            return f"price {self.a:.3g}, {other} {self.b:.3g} ({value:+.3g}{ends})"
        ends = f" [{low:.2f}, {high:.2f}]" if has_width(self.change) else ""
        return f"{_time(self.a)} in the median, {other} {_time(self.b)} ({value:.2f}{ends} times)"


@dataclass(frozen=True)
class Spending:
    """Which of two runs on the same requests is cheaper or faster, and whether it is not worse.

    Attributes:
        changes: of price and latency, as far as both logs have them.
        not_worse: whether A is shown to be not worse than B in accuracy; without a margin, better.
        margin: loss of accuracy that does not matter, as a fraction; 0 without one.
    """

    changes: tuple[SpendingChange, ...]
    not_worse: bool
    margin: float

    @property
    def finding(self) -> str:
        """What is shown of A in a few words.

        Example:
            "cheaper and not worse (margin 2 points)"
        """
        shown = [change for change in self.changes if change.finding != "not shown"]
        words = [(_LESS if change.finding == "less" else _MORE)[change.measure] for change in shown]
        if not shown:
            return "no difference shown"
        gained = all(change.finding == "less" for change in shown)
        kept = f"not worse (margin {100 * self.margin:g} points)" if self.margin else "better"
        words += [kept] if gained and self.not_worse else []
        return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))

    def words(self, name: str, other: str) -> str:
        """What is shown of A, with the numbers of both.

        Args:
            name: of A.
            other: of B.
        """
        numbers = "; ".join(change.words(other) for change in self.changes)
        shown = any(change.finding != "not shown" for change in self.changes)
        return f"{name} is {self.finding}: {numbers}" if shown else f"{self.finding}: {numbers}"


def spent(run: ExperimentRun) -> Spent | None:
    """Return what the requests of a run cost; None if its log has neither prices nor latencies."""
    requests = _requests(run)
    known = {name: requests[name].drop_nulls() for name in _MEASURES if name in requests.columns}
    price, latency = (known.get(name, pl.Series([], dtype=pl.Float64)) for name in _MEASURES)
    if not len(price) and not len(latency):
        return None
    times = latency.to_numpy()
    return Spent(
        requests=len(requests),
        price=float(price.to_numpy().mean()) if len(price) else None,
        latency=float(np.median(times)) if len(times) else None,
        latency_95=float(np.quantile(times, 0.95, method="inverted_cdf")) if len(times) else None,
    )


def compare_spending(experiment: Experiment, a: ExperimentRun, b: ExperimentRun) -> Spending | None:
    """Compare the price and the latency of two runs on the same items, request by request.

    Args:
        experiment: the runs, with the margin of accuracy in its settings.
        a: a run.
        b: another run; changes are from B to A.

    Returns:
        None if the logs do not both have a price or a latency of the same requests.
    """
    joined = _requests(a).join(_requests(b), on="request", suffix=" of b")
    tests = [
        test
        for name in _MEASURES
        if name in joined.columns and f"{name} of b" in joined.columns
        for test in _change(name, joined, experiment.settings.unit)
    ]
    if not tests:
        return None
    adjusted = holm([test.p_value for test in tests]).tolist()
    margin = experiment.settings.margin or 0.0
    difference = next(iter(experiment.comparisons.differences(a, b, None).values()))
    kept = Bounded(difference, -margin, 1).kept and difference.concentration is None
    return Spending(
        tuple(replace(test, p_value=p) for test, p in zip(tests, adjusted, strict=True)),
        not_worse=kept,
        margin=margin,
    )


def _requests(run: ExperimentRun) -> pl.DataFrame:
    """Return the requests of a run: families, and price and latency as far as they are known.

    A price counts only in a log of requests: elsewhere, a column of this name may be a fact about
    the item.
    """
    log = run.provenance.recorded.get("log")
    priced = isinstance(log, dict) and "requests" in log
    measures = [name for name in _MEASURES if priced or name != "price"]
    facts, without = item_facts(run, *measures, QUESTION), unanswered_items(run.run)
    if len(without):
        lost = without_prefix(without)
        kept = [name for name in facts.columns if name in lost.columns]
        facts = pl.concat([facts, lost.select(kept)], how="diagonal_relaxed")
    request = pl.col("id")
    if QUESTION in facts.columns:
        asked = pl.Series("asked", question_texts(facts[QUESTION]).tolist(), dtype=pl.String)
        request = request.str.strip_suffix("/" + asked)
    known = [name for name in measures if name in facts.columns and facts[name].dtype.is_numeric()]
    least = {"price": pl.col("price") >= 0, "latency_ms": pl.col("latency_ms") > 0}
    return (
        facts.with_columns(request.alias("request"))
        .group_by("request", maintain_order=True)
        .agg(
            pl.col("family", "source_family").first(),
            *(pl.when(least[name]).then(pl.col(name)).drop_nulls().first() for name in known),
        )
    )


def _change(measure: Measure, joined: pl.DataFrame, unit: ClusterUnit) -> Iterator[SpendingChange]:
    """Yield the change of a measure, if there are requests of which both are known."""
    both = joined.drop_nulls([measure, f"{measure} of b"])
    if not len(both):
        return
    a, b = (both[name].to_numpy().astype(np.float64) for name in (measure, f"{measure} of b"))
    family = Labels.of(both[unit].to_numpy().astype(np.object_))
    change = a - b if measure == "price" else np.log(a / b)
    inference = mean_inference(change, family.codes, len(family), outer=True)
    estimate, p_value = inference.estimate(), inference.p_value()
    if math.isnan(p_value):  # all families agree
        p_value = 2 * 0.5 ** len(family) if estimate.value else 1.0
    if measure == "price":
        yield SpendingChange(measure, float(a.mean()), float(b.mean()), estimate, min(p_value, 1.0))
        return
    value, low, high = map(math.exp, (estimate.value, estimate.low, estimate.high))
    ratio = replace(estimate, value=value, low=low, high=high)
    yield SpendingChange(measure, float(np.median(a)), float(np.median(b)), ratio, min(p_value, 1))


def _time(milliseconds: float) -> str:
    if milliseconds < _SECOND:
        return f"{milliseconds:.3g} ms"
    return f"{milliseconds / _SECOND:.3g} s"
