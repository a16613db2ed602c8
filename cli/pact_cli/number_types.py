"""Types of options that are numbers, whose messages say which numbers are expected."""

from __future__ import annotations

import math
from typing import Any, Final

import click


class WholeNumber(click.IntRange):
    """A whole number in a range.

    Example:
        >>> WholeNumber(min=1).expected
        'a whole number from 1'
    """

    name = "N"

    @property
    def expected(self) -> str:
        """The numbers that are expected, in words."""
        return f"a whole number{_range(self)}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; refuse another value with the numbers that are expected."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"expected {self.expected}, got {value!r:.60}", param, ctx)

    def _describe_range(self) -> str:
        return _range(self).strip(", ")


class Number(click.FloatRange):
    """A number in a range; not nan, which no range has.

    Example:
        >>> Number(min=0, max=1, min_open=True).expected
        'a number above 0, at most 1'
    """

    name = "X"

    @property
    def expected(self) -> str:
        """The numbers that are expected, in words."""
        return f"a number{_range(self)}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; refuse another value with the numbers that are expected."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        if isinstance(number, float) and math.isnan(number):
            self.fail(f"expected {self.expected}, got {value!r:.60}", param, ctx)
        return number

    def _describe_range(self) -> str:
        return _range(self).strip(", ")


def _range(kind: WholeNumber | Number) -> str:
    """Return a range in words that follow "number"."""
    if isinstance(kind, WholeNumber):
        least = "" if kind.min is None else f" from {kind.min}"
        return least if kind.max is None else f"{least} to {kind.max}"
    least = "" if kind.min is None else f" above {kind.min:g}"
    if kind.max is None:
        return least
    return f"{least} and below {kind.max:g}" if kind.max_open else f"{least}, at most {kind.max:g}"


INTEGER: Final = WholeNumber()
"""Any whole number, such as a seed."""

COUNT: Final = WholeNumber(min=1)
"""A whole number from 1."""

NATURAL: Final = WholeNumber(min=0)
"""A whole number from 0."""

RESAMPLES: Final = WholeNumber(min=100)
"""A number of resamples that gives an interval."""

POSITIVE: Final = Number(min=0, min_open=True)
"""A number above 0."""

SHARE: Final = Number(min=0, max=1, min_open=True)
"""A share above 0, at most 1."""

RATE: Final = Number(min=0, max=1, min_open=True, max_open=True)
"""A share above 0 and below 1."""
