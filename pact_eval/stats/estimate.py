"""A number with its uncertainty, its sample size and its method."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Self

LEVEL: Final = 0.05
"""Two-sided level of tests, and of intervals of 95%: chance alone reaches it once in 20 times."""

POWER: Final = 0.8
"""Chance with which a number of items or clusters that is named as enough shows a finding."""

FEWEST: Final = 5
"""Clusters, and clusters with an error or a right answer, below which there is no interval."""

FEW_CLUSTERS: Final = 30
"""Clusters below which intervals are rough; nothing is planned from their widths."""

_FAMILY: Final = ("family", "families")


class ClusterText(str):
    """A sentence about clusters, which are families unless a reader says what else they are.

    It is written with `{cluster}` and `{clusters}`; other braces are left alone.

    Examples:
        >>> few = ClusterText("only 3 {clusters} differ")
        >>> few
        'only 3 families differ'
        >>> few.over("source family", "source families")
        'only 3 source families differ'
    """

    _template: str

    def __new__(cls, template: str) -> Self:
        """Return the sentence about families; `template` has the names of clusters as fields."""
        text = super().__new__(cls, _fill(template, *_FAMILY))
        text._template = template
        return text

    def over(self, cluster: str, clusters: str) -> str:
        """Return the sentence with other words for a cluster and for several."""
        return _fill(self._template, cluster, clusters)


def _fill(template: str, cluster: str, clusters: str) -> str:
    return template.replace("{clusters}", clusters).replace("{cluster}", cluster)


# Why there is no interval, or no number.
ONE_CLUSTER: Final = ClusterText("one {cluster}: no interval")
NO_ROWS: Final = ClusterText("no rows: nothing to estimate")


def differing_text(count: int, one: str, several: str) -> str:
    """Say how many things differ, with the noun for one or for several."""
    return f"{count} {one} differs" if count == 1 else f"{count} {several} differ"


@dataclass(frozen=True)
class Method:
    """Method of an interval.

    Attributes:
        name: What it is: "Wilson interval", "percentile bootstrap".
        detail: What else there is to know, with its punctuation: " (rates)", ", 200 resamples".
        confidence: Nominal coverage, in (0, 1).
        units: What was drawn, or what the variance is over.

    Examples:
        >>> wilson = Method("Wilson interval", " (rates)")
        >>> str(wilson), wilson.short
        ('95% Wilson interval over families (rates)', 'Wilson (rates)')
        >>> wilson.over("source families")
        '95% Wilson interval over source families (rates)'
        >>> str(Method.bootstrap("percentile", 2_000))
        '95% percentile bootstrap over families, 2,000 resamples'
    """

    name: str
    detail: str = ""
    confidence: float = 0.95
    units: str | None = None

    @classmethod
    def bootstrap(cls, kind: str, resamples: int, confidence: float = 0.95) -> Method:
        """Return the method of a bootstrap over clusters."""
        return cls(f"{kind} bootstrap".strip(), f", {resamples:,} resamples", confidence)

    @property
    def short(self) -> str:
        """Name and detail alone, for lists of methods over the same units."""
        return f"{self.name.removesuffix(' interval')}{self.detail}"

    def over(self, clusters: str) -> str:
        """Return the method in words, where clusters have the given name."""
        return f"{100 * self.confidence:g}% {self.name} over {self.units or clusters}{self.detail}"

    def __str__(self) -> str:
        return self.over(_FAMILY[1])


@dataclass(frozen=True)
class Estimate:
    """A value, its interval, and what both rest on.

    Attributes:
        value: The point estimate; NaN if it is undefined, never 0 for lack of data.
        low: Lower end of the interval; NaN if there is none.
        high: Upper end of the interval; NaN if there is none.
        n: Rows behind the value.
        clusters: Clusters (families) that the rows form, the units that were resampled.
        method: How the interval was made; None if none was tried.
        reason: None, or a sentence that says why the value or the interval is NaN or infinite,
            or rests on fewer resamples than asked for.
        concentration: None, or a sentence on the few clusters that have more than a quarter of the
            rows. No equivalence is shown then.

    Examples:
        >>> from pact_eval.stats.estimate import Estimate
        >>> Estimate(0.82, 0.78, 0.86, n=324, clusters=162).value
        0.82
    """

    value: float
    low: float
    high: float
    n: int
    clusters: int
    method: Method | None = None
    reason: ClusterText | None = None
    concentration: ClusterText | None = None

    @classmethod
    def point(
        cls, value: float, n: int = 0, clusters: int = 0, reason: ClusterText | None = None
    ) -> Self:
        """Return a value without an interval; the arguments are as the attributes.

        Examples:
            >>> Estimate.point(0.82, n=324).low
            nan
        """
        return cls(value, math.nan, math.nan, n, clusters, None, reason)

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval, and 0 is outside it."""
        return self.low > 0 or self.high < 0

    @property
    def negated(self) -> Self:
        """The same estimate with the opposite sign, such as B - A of A - B.

        Examples:
            >>> Estimate(-0.25, -0.5, -0.125, n=8, clusters=4).negated.low
            0.125
        """
        return replace(self, value=-self.value, low=-self.high, high=-self.low)
