"""Types of values on the command line: numbers in a range, closed lists, paths."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, get_args

import click

from pact_eval._files import is_url
from pact_eval.errors import PactError


class LazyChoice(click.Choice[str]):
    """A choice whose names are read when they are needed: to show them, or to check a value.

    Args:
        names: returns them.

    Example:
        >>> kind = LazyChoice(lambda: ("rows", "helm"))
        >>> kind.convert("rows", None, None)
        'rows'
    """

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        self._names = names
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override] # click sets it once
        """The names."""
        return tuple(self._names())


def choice(names: object) -> click.Choice[str]:
    """Return the choice of a closed list: one of the names of a `Literal`.

    Example:
        >>> from typing import Literal
        >>> choice(Literal["scalar", "contextual"]).choices
        ('scalar', 'contextual')
    """
    return click.Choice(get_args(names))


class _InRange:
    """Refusal of a value, with the numbers that are expected in words."""

    expected: str

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; refuse another value with the numbers that are expected."""
        try:
            number = super().convert(value, param, ctx)  # type: ignore[misc] # of a range of click
        except click.BadParameter:
            number = math.nan
        if isinstance(number, float) and math.isnan(number):  # no range has nan
            raise click.BadParameter(
                f"expected {self.expected}, got {value!r:.60}", ctx=ctx, param=param
            )
        return number

    def _describe_range(self) -> str:
        return self.expected.partition("number")[2].strip(", ")


class WholeNumber(_InRange, click.IntRange):
    """A whole number in a range.

    Example:
        >>> WholeNumber(min=1).expected
        'a whole number from 1'
    """

    name = "N"

    @property
    def expected(self) -> str:  # type: ignore[override]
        """The numbers that are expected, in words."""
        least = "" if self.min is None else f" from {self.min}"
        return f"a whole number{least}{'' if self.max is None else f' to {self.max}'}"


class Number(_InRange, click.FloatRange):
    """A number in a range; not nan, which no range has.

    Example:
        >>> Number(min=0, max=1, min_open=True).expected
        'a number above 0, at most 1'
    """

    name = "X"

    @property
    def expected(self) -> str:  # type: ignore[override]
        """The numbers that are expected, in words."""
        least = "" if self.min is None else f" above {self.min:g}"
        if self.max is None:
            return f"a number{least}"
        most = f" and below {self.max:g}" if self.max_open else f", at most {self.max:g}"
        return f"a number{least}{most}"


class LocalPath(click.Path):
    """The type of an option that is a local path; the library checks the rest.

    Args:
        hub: form of the URLs of the Hub that are accepted as well; None accepts none.
    """

    def __init__(self, hub: str | None = None) -> None:
        super().__init__(path_type=Path)
        self.hub = hub

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; refuse other URLs, which only runs and logs can be."""
        text = os.fspath(value)
        if is_url(text) and not (self.hub and text.lower().startswith("hf:/")):
            accepted = f" or {self.hub}" if self.hub else ""
            self.fail(
                f"expected a local path{accepted}, got a URL; only runs and logs can be "
                f"{'other ' if self.hub else ''}URLs",
                param,
                ctx,
            )
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        # pathlib drops the "./", which says that this is not a Hub id.
        is_local = self.hub is not None and text.startswith(("./", ".\\")) and not path.exists()
        return path.absolute() if is_local else path


class Parsed(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4
    """The type of a text that a function of the library reads.

    Args:
        read: returns the value; its errors are those of usage.
    """

    name = "text"

    def __init__(self, read: Callable[[str], object]) -> None:
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value; refuse what the function refuses, without the name of the option."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except PactError as error:
            option = "" if param is None else param.opts[0]
            message = str(error).removeprefix(f"{option} {value}: ").removeprefix(f"{option}: ")
            self.fail(message, param, ctx)


INTEGER: Final = WholeNumber()
"""Any whole number, such as a seed."""

COUNT: Final = WholeNumber(min=1)
"""A whole number from 1."""

NATURAL: Final = WholeNumber(min=0)
"""A whole number from 0."""

PATH: Final = LocalPath()
"""The type of an option that is a local path."""

DATASET: Final = LocalPath("hf://datasets/OWNER/NAME")
"""The type of a dataset: a local path, or a place in a dataset repository of the Hub."""

ADAPTER: Final = LocalPath("hf://OWNER/NAME")
"""The type of an adapter: a local folder, or a Hub id with `hf://` before it or not."""

Count: TypeAlias = Annotated[int, COUNT]
Natural: TypeAlias = Annotated[int, NATURAL]
Resamples: TypeAlias = Annotated[int, WholeNumber(min=100)]
"""A number of resamples that gives an interval."""

Positive: TypeAlias = Annotated[float, Number(min=0, min_open=True)]
"""A number above 0."""

Share: TypeAlias = Annotated[float, Number(min=0, max=1, min_open=True)]
"""A share above 0, at most 1."""

Rate: TypeAlias = Annotated[float, Number(min=0, max=1, min_open=True, max_open=True)]
"""A share above 0 and below 1."""

DatasetPath: TypeAlias = Annotated[Path, DATASET]
AdapterPath: TypeAlias = Annotated[Path, ADAPTER]
