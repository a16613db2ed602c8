"""Tables of a TOML file as frozen dataclasses, with all problems of the file collected.

    @dataclass(frozen=True)
    class Seeds:
        main: Annotated[tuple[int, ...], Key("a list of integers, such as [17]")]
        order: Annotated[int, Key(least=0)] = 0

A field is a key of the table. Its type and its `Key` say what the key may hold, and its default
what an absent key means. msgspec would stop at the first problem.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin
from typing import get_type_hints as type_hints

from pact_eval.errors import Problem

Content = TypeVar("Content")

UNSTATED: Final = "?"
"""Stands for a text or path that a file lacks; such a file has a problem already."""

_KIND_IN_WORDS: Final = {dict: "a table", list: "a list", str: "text", bool: "true/false"}


@dataclass(frozen=True)
class Key:
    """What a key of a table may hold, besides its type.

    Attributes:
        words: an example or a description, for messages.
        name: the key; "" if it is the name of the field.
        least: the least integer; None for any.
        allowed: the texts that are allowed; empty for any, or for those of a `Literal`.
    """

    words: str = ""
    name: str = ""
    least: int | None = None
    allowed: Sequence[str] = ()


class TomlTable:
    """A parsed TOML table; its problems are collected.

    Attributes:
        values: the parsed table.
        problems: of the full file; those of this table are added.
        where: the table in words, such as "check 2: "; "" for the file, or if `owner` says it.
        owner: id of what the table belongs to, such as a hypothesis; None if it has no id.
    """

    def __init__(
        self,
        values: Mapping[str, object],
        problems: list[Problem],
        where: str = "",
        owner: str | None = None,
    ) -> None:
        self.values = values
        self.problems = problems
        self.where = where
        self.owner = owner

    def problem(self, message: str) -> None:
        """Add a problem of the table, or of one of its keys, which the message names."""
        self.problems.append(Problem(None, self.owner, f"{self.where}{message}"))

    def inside(self, values: Mapping[str, object], where: str = "") -> TomlTable:
        """Return a table inside this one."""
        return TomlTable(values, self.problems, f"{self.where}{where}", self.owner)

    def refuse_unknown(self, allowed: Collection[str], what: str) -> None:
        """Refuse unknown keys: they may be misspelt ones."""
        for key in self.values:
            if key not in allowed:
                self.problem(f"unknown key {key} in {what}{did_you_mean(key, allowed)}")

    def read(
        self, kind: type[Content], what: str, *, also: Sequence[str] = (), **given: Any
    ) -> Content:
        """Read the table as a dataclass.

        Args:
            kind: the dataclass. Fields are text, paths, literals, booleans, integers, positive
                numbers, mappings, or tuples of texts or of integers.
            what: what the table is, for messages about unknown keys.
            also: further keys of the table, which are read elsewhere.
            given: values of fields that are not keys.

        Returns:
            The content. If a value is wrong, this is a problem, and the field has its default, or
            some value of its type.
        """
        hints = type_hints(kind, include_extras=True)
        own: Any = [field for field in fields(kind) if field.name not in given]  # type: ignore[arg-type]
        keys = {field.name: _key_of(field.name, hints[field.name]) for field in own}
        self.refuse_unknown([*(key.name for key, _ in keys.values()), *also], what)
        for field in own:
            key, value_type = keys[field.name]
            factory = field.default_factory
            default = field.default if factory is MISSING else factory()
            given[field.name] = self.value(key, value_type, default)
        return kind(**given)

    def value(self, key: Key, kind: Any, default: Any = MISSING) -> Any:
        """Return the value of a key; without `default`, the key is compulsory.

        Args:
            key: the key, with its name.
            kind: its type; see `read`.
            default: what an absent or wrong value stands for.
        """
        value = self.values.get(key.name)
        if value is None and default is not MISSING:
            return default
        try:
            return (
                _several(key, kind, value) if get_origin(kind) is tuple else _one(key, kind, value)
            )
        except ValueError as error:
            self.problem(str(error))
        return _some_value(kind) if default is MISSING else default

    def tables(self, key: str, example: str, *, compulsory: bool = True) -> list[TomlTable]:
        """Return the tables of an array of tables."""
        values = self.values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            self.problem(f"expected {key} as tables, {example}, got {value_in_words(values)}")
            return []
        if compulsory and not values:
            self.problem(f"expected at least one {key}, {example}")
        return [
            self.inside(values_of_table, f"{key} {n}: ")
            for n, values_of_table in enumerate(values, start=1)
        ]

    def table(self, key: str, example: str) -> TomlTable:
        """Return the table of a key; an empty one if the key is absent."""
        values: Any = self.value(Key(example, key), Mapping, {})
        return self.inside(values, f"{key}: ")


def _key_of(name: str, hint: Any) -> tuple[Key, Any]:
    """Return the key of a field, and its type without the alternative None."""
    key = Key()
    if get_origin(hint) is Annotated:
        hint, key = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (member for member in get_args(hint) if member is not NoneType)
    allowed = get_args(hint) if get_origin(hint) is Literal else key.allowed
    return replace(key, name=key.name or name, allowed=allowed), hint


def _one(key: Key, kind: Any, value: Any) -> Any:
    """Return a value as its type.

    Raises:
        ValueError: it is of another one; the message names the nearest of the allowed texts.
    """
    if key.allowed:
        fits, form = value in key.allowed, f", one of {', '.join(key.allowed)}"
    elif kind is int:
        fits = type(value) is int and (key.least is None or value >= key.least)
        form = " as an integer" + ("" if key.least is None else f" of at least {key.least}")
    elif kind is float:
        fits = type(value) in (int, float) and 0 < value < math.inf
        form = " as a number above 0"
    elif kind in (str, Path):
        fits, form = isinstance(value, str) and bool(value.strip()), f", {key.words}"
    elif kind is bool:
        fits, form = isinstance(value, bool), " as true or false"
    else:
        fits, form = isinstance(value, get_origin(kind) or kind), f" as a table, {key.words}"
    if not fits:
        word = value if isinstance(value, str) else ""
        near = difflib.get_close_matches(word, key.allowed, n=1, cutoff=0.6)
        advice = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"expected {key.name}{form}, got {value_in_words(value)}{advice}")
    if key.allowed or kind not in (str, Path, float):
        return value
    return float(value) if kind is float else kind(" ".join(value.split()))


def _several(key: Key, kind: Any, value: Any) -> tuple[Any, ...]:
    """Return one text, or a list of different texts or integers, as a tuple.

    Raises:
        ValueError: it is something else, or names one twice.
    """
    item = get_args(kind)[0]
    values = [value] if item is str and isinstance(value, str) else value
    is_list = isinstance(values, list) and bool(values)
    if not is_list or any(
        type(one) is not item or one == "" or str(one).isspace() for one in values
    ):
        one = f"one of {', '.join(key.allowed)}" if key.allowed else key.words
        form = f", {one} or a list of such" if item is str else f" as {key.words}"
        raise ValueError(f"expected {key.name}{form}, got {value_in_words(value)}")
    named = tuple(one.strip() for one in values) if item is str else tuple(values)
    if twice := [str(one) for one in dict.fromkeys(named) if named.count(one) > 1]:
        raise ValueError(f"{key.name} names {', '.join(twice)} twice")
    for text in named if key.allowed else ():
        _one(key, str, text)
    return named


def _some_value(kind: Any) -> Any:
    """Return a value of a type, for a compulsory key that has none."""
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    return () if get_origin(kind) is tuple else kind(UNSTATED)


def value_in_words(value: object) -> str:
    """Show a value of a TOML file in a message."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 60 else f'"{value[:60]}..."'
    if type(value) in (int, float):
        return str(value)
    return _KIND_IN_WORDS.get(type(value), f"a {type(value).__name__}")


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return the end of a message: the nearest known word, or all of them.

    Examples:
        >>> did_you_mean("metrik", ["metric", "arm"])
        '; did you mean metric?'
        >>> did_you_mean("x", ["metric", "arm"])
        '; expected one of metric, arm'
    """
    words = list(allowed)
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else f"; expected one of {', '.join(words)}"
