"""Parts of options: their group and page in `--help`, and their choices."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import click

Command = TypeVar("Command", bound=Callable[..., Any])

Group: TypeAlias = Literal[
    "Data", "Model", "Server", "Views", "Numbers", "Sets", "Checks", "Speed", "Output"
]
"""A group of options in `--help`."""

_SENTENCE_END: Final = re.compile(r"(?<=[.?]) +")

GROUPS: Final[tuple[Group, ...]] = get_args(Group)
"""The groups, in the order in which `--help` shows them."""


class PactOption(click.Option):
    """An option in a group of `--help`.

    Args:
        declarations: the names, as for `click.option`.
        group: its group in `--help`.
        first_page: whether `--help` shows it; `--help-all` shows every option.
        alone: value of the option if no value follows it; None if one must follow.
        accepts: whether a word after the option is its value, for an option with `alone`.
        attributes: as for `click.option`.
    """

    def __init__(
        self,
        declarations: Sequence[str],
        *,
        group: Group = "Output",
        first_page: bool = False,
        alone: str | None = None,
        accepts: Callable[[str], bool] = bool,
        **attributes: Any,
    ) -> None:
        super().__init__(declarations, **attributes)
        self.group = group
        self.first_page = first_page
        self.alone = alone
        self.accepts = accepts
        self._shows_range = True

    def in_short(self) -> PactOption:
        """Return the option as the first page shows it: a sentence, without the range."""
        short = copy.copy(self)
        short.help = _SENTENCE_END.split(self.help or "", maxsplit=1)[0]
        short._shows_range = False
        return short

    def get_help_extra(self, ctx: click.Context) -> click.types.OptionHelpExtra:
        """Return what help shows in brackets: the default, and maybe the range."""
        extra = super().get_help_extra(ctx)
        if not self._shows_range:
            extra.pop("range", None)
        return extra


def option(*names: str, group: Group = "Output", **attributes: Any) -> Callable[[Command], Command]:
    """Return a decorator that adds a `PactOption`, as `click.option` does."""
    return click.option(*names, cls=PactOption, group=group, **attributes)


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


def choice(names: object, *more: str) -> click.Choice[str]:
    """Return the choice of a closed list: one of the names of a `Literal`.

    Args:
        names: the `Literal`.
        more: names that come first.

    Example:
        >>> choice(Literal["scalar", "contextual"], "auto").choices
        ('auto', 'scalar', 'contextual')
    """
    return click.Choice([*more, *get_args(names)])
