"""Tables of a TOML file, read key by key, with all problems of the file collected."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from pact_eval.errors import Problem

Value = TypeVar("Value", bound=str)

_KIND_IN_WORDS: Final = {dict: "a table", list: "a list", str: "text", bool: "true/false"}


class TomlTable:
    """A parsed TOML table whose keys are read one by one; problems are collected.

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

    def text(self, key: str, example: str, *, default: str | None = None) -> str:
        """Return a text, its white space collapsed; `default` None makes the key compulsory."""
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, str) and value.strip():
            return " ".join(value.split())
        self.problem(f"expected {key}, {example}, got {value_in_words(value)}")
        return ""

    def chosen(self, key: str, allowed: Sequence[Value], *, default: Value | None = None) -> Value:
        """Return a text that must be one of those allowed; `default` None makes it compulsory."""
        stated = self.values.get(key, default)
        for value in allowed:
            if stated == value:
                return value
        self.problem(_not_one_of(key, allowed, stated))
        return allowed[0]

    def several(self, key: str, example: str, *, default: str | None = None) -> tuple[str, ...]:
        """Return one text or a list of different texts."""
        value = self.values.get(key, default)
        texts = value if isinstance(value, list) else [value]
        named = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
        if len(named) != len(texts) or not named:
            shown = value_in_words(value)
            self.problem(f"expected {key}, {example} or a list of such, got {shown}")
        elif twice := _twice(named):
            self.problem(f"{key} names {', '.join(twice)} twice")
        return tuple(named)

    def several_of(
        self, key: str, allowed: Sequence[Value], *, default: Value | None = None
    ) -> tuple[Value, ...]:
        """Return one or several of the texts allowed."""
        named = self.several(key, _one_of(allowed), default=default)
        for text in named:
            if text not in allowed:
                self.problem(_not_one_of(key, allowed, text))
        return tuple(value for text in named for value in allowed if value == text)

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
        values = self.values.get(key, {})
        if not isinstance(values, dict):
            self.problem(f"expected {key} as a table, {example}, got {value_in_words(values)}")
            values = {}
        return self.inside(values, f"{key}: ")

    def flag(self, key: str) -> bool:
        """Return true or false; false where the key is absent."""
        value = self.values.get(key, False)
        if isinstance(value, bool):
            return value
        self.problem(f"expected {key} as true or false, got {value_in_words(value)}")
        return False

    def whole_number(self, key: str, *, default: int, least: int | None = None) -> int:
        """Return an integer, at least `least`."""
        value = self.values.get(key, default)
        if type(value) is int and (least is None or value >= least):
            return value
        bound = "" if least is None else f" of at least {least}"
        self.problem(f"expected {key} as an integer{bound}, got {value_in_words(value)}")
        return default

    def positive(self, key: str) -> float | None:
        """Return a finite number above 0; None where the key is absent."""
        value = self.values.get(key)
        if value is None:
            return None
        if type(value) in (int, float) and 0 < value < math.inf:  # type: ignore[operator]
            return float(value)  # type: ignore[arg-type]
        self.problem(f"expected {key} as a number above 0, got {value_in_words(value)}")
        return None

    def whole_numbers(self, key: str, example: str) -> tuple[int, ...] | None:
        """Return a list of different integers; None where the key is absent."""
        numbers = self.values.get(key)
        if numbers is None:
            return None
        if (
            not isinstance(numbers, list)
            or not numbers
            or not all(type(number) is int for number in numbers)
        ):
            self.problem(f"expected {key} as {example}, got {value_in_words(numbers)}")
            return None
        if twice := _twice(numbers):
            self.problem(f"{key} names {', '.join(map(str, twice))} twice")
        return tuple(dict.fromkeys(numbers))


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


def _not_one_of(key: str, allowed: Sequence[str], value: object) -> str:
    hint = ""
    if isinstance(value, str):
        near = difflib.get_close_matches(value, allowed, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]}?" if near else ""
    return f"expected {key}, {_one_of(allowed)}, got {value_in_words(value)}{hint}"


def _one_of(allowed: Sequence[str]) -> str:
    return f"one of {', '.join(allowed)}"


def _twice(values: Sequence[object]) -> list[str]:
    return [str(value) for value in dict.fromkeys(values) if values.count(value) > 1]
