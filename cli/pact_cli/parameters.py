"""Parts of options: their group in `--help`, and their choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import click

Command = TypeVar("Command", bound=Callable[..., Any])

Group: TypeAlias = Literal[
    "Data", "Model", "Server", "Views", "Numbers", "Sets", "Checks", "Speed", "Output"
]
"""A group of options in `--help`."""

GROUPS: Final[tuple[Group, ...]] = get_args(Group)
"""The groups, in the order in which `--help` shows them."""


class PactOption(click.Option):
    """An option in a group of `--help`.

    Args:
        declarations: the names, as for `click.option`.
        group: its group in `--help`.
        alone: value of the option if no value follows it; None if one must follow.
        accepts: whether a word after the option is its value, for an option with `alone`.
        attributes: as for `click.option`.
    """

    def __init__(
        self,
        declarations: Sequence[str],
        *,
        group: Group = "Output",
        alone: str | None = None,
        accepts: Callable[[str], bool] = bool,
        **attributes: Any,
    ) -> None:
        super().__init__(declarations, **attributes)
        self.group = group
        self.alone = alone
        self.accepts = accepts


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
