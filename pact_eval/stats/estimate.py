"""A number with its uncertainty, and with what a reader needs to judge it."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Estimate:
    """A value, its interval, and what both rest on.

    Attributes:
        value: The point estimate; NaN if it is undefined, never 0 for lack of data.
        low: Lower end of the interval; NaN if there is none.
        high: Upper end of the interval; NaN if there is none.
        n: Rows behind the value.
        clusters: Clusters (families) that the rows form, the units that were resampled.
        method: How the interval was made, in words.
        reason: None, or a sentence that says why the value or the interval is NaN or infinite,
            or rests on fewer resamples than asked for.

    Examples:
        >>> from pact_eval.stats import Estimate
        >>> Estimate(0.82, 0.78, 0.86, n=324, clusters=162, method="percentile bootstrap").value
        0.82
    """

    value: float
    low: float
    high: float
    n: int
    clusters: int
    method: str
    reason: str | None = None


LEVEL: Final = 0.05
"""Two-sided level of tests, and of intervals of 95%: chance alone reaches it once in 20 times."""
