"""Strict reading of TOML tables: every problem is collected, none ends the reading."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from pact_eval.errors import Problem
from pact_eval.preregistration.toml_lines import TomlPath

__all__ = ["TomlTable", "did_you_mean", "in_words"]

Value = TypeVar("Value", bound=str)

_KIND_IN_WORDS = {dict: "a table", list: "a list", str: "text", bool: "true/false"}


class TomlTable:
    """A table of a TOML file whose keys are read one by one.

    Args:
        values: the parsed table.
        path: keys and indices that lead to it.
        lines: line numbers by path.
        problems: what is wrong in the file; problems of this table are added.
        owner: id of the hypothesis that it belongs to, where that is known.
    """

    def __init__(
        self,
        values: Mapping[str, object],
        path: TomlPath,
        lines: Mapping[TomlPath, int],
        problems: list[Problem],
        owner: str | None = None,
    ) -> None:
        self.values = values
        self.path = path
        self.owner = owner
        self._lines = lines
        self._problems = problems

    def problem(self, message: str, key: str | None = None) -> None:
        """Add a problem of the table, or of one of its keys."""
        here = self._lines.get(self.path)
        line = here if key is None else self._lines.get((*self.path, key), here)
        self._problems.append(Problem(line, self.owner, message))

    @property
    def problems_so_far(self) -> int:
        """Number of problems of the file until now."""
        return len(self._problems)

    def inside(self, key: str, values: Mapping[str, object], *index: int) -> TomlTable:
        """Return a table inside this one, with the same owner."""
        return TomlTable(values, (*self.path, key, *index), self._lines, self._problems, self.owner)

    def refuse_unknown(self, known: Collection[str], what: str) -> None:
        """Refuse keys that nobody reads: they may be misspelt criteria."""
        for key in self.values:
            if key not in known:
                self.problem(f"unknown key {key} in {what}{did_you_mean(key, known)}", key)

    def text(self, key: str, example: str, *, default: str | None = None) -> str:
        """Return a text, its white space collapsed; `default` None makes the key compulsory."""
        found = self.values.get(key)
        if found is None and default is not None:
            return default
        if isinstance(found, str) and found.strip():
            return " ".join(found.split())
        self.problem(f"expected {key}, {example}, got {in_words(found)}", key)
        return ""

    def chosen(self, key: str, allowed: Sequence[Value]) -> Value:
        """Return a text that must be one of those allowed."""
        found = self.values.get(key)
        for value in allowed:
            if found == value:
                return value
        self.problem(_not_one_of(key, allowed, found), key)
        return allowed[0]

    def several(self, key: str, example: str, *, default: str | None = None) -> tuple[str, ...]:
        """Return one text or a list of different texts."""
        found = self.values.get(key, default)
        texts = found if isinstance(found, list) else [found]
        named = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
        if len(named) != len(texts) or not named:
            shown = in_words(found)
            self.problem(f"expected {key}, {example} or a list of such, got {shown}", key)
        elif twice := _twice(named):
            self.problem(f"{key} names {', '.join(twice)} twice", key)
        return tuple(named)

    def several_of(
        self, key: str, allowed: Sequence[Value], *, default: Value | None = None
    ) -> tuple[Value, ...]:
        """Return one or several of the texts allowed."""
        named = self.several(key, _one_of(allowed), default=default)
        for text in named:
            if text not in allowed:
                self.problem(_not_one_of(key, allowed, text), key)
        return tuple(value for text in named for value in allowed if value == text)

    def tables(self, key: str, example: str, *, compulsory: bool = True) -> list[TomlTable]:
        """Return the tables of an array of tables."""
        found = self.values.get(key, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            self.problem(f"expected {key} as tables, {example}, got {in_words(found)}", key)
            return []
        if compulsory and not found:
            self.problem(f"expected at least one {key}, {example}")
        return [self.inside(key, each, index) for index, each in enumerate(found)]

    def whole_numbers(self, key: str, example: str) -> tuple[int, ...] | None:
        """Return a list of different whole numbers; None where the key is absent."""
        found = self.values.get(key)
        if found is None:
            return None
        if not isinstance(found, list) or not found or not all(type(each) is int for each in found):
            self.problem(f"expected {key} as {example}, got {in_words(found)}", key)
            return None
        if twice := _twice(found):
            self.problem(f"{key} names {', '.join(map(str, twice))} twice", key)
        return tuple(dict.fromkeys(found))


def in_words(value: object) -> str:
    """Show a value of a TOML file in a message.

    Example:
        >>> in_words("lower"), in_words(None), in_words([1]), in_words(2)
        ('"lower"', 'nothing', 'a list', '2')
    """
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 60 else f'"{value[:60]}..."'
    if type(value) in (int, float):
        return str(value)
    return _KIND_IN_WORDS.get(type(value), f"a {type(value).__name__}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message: the nearest known word, or all of them.

    Example:
        >>> did_you_mean("metrik", ["metric", "arm"])
        '; did you mean metric?'
        >>> did_you_mean("x", ["metric", "arm"])
        '; expected one of metric, arm'
    """
    words = list(known)
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else f"; expected one of {', '.join(words)}"


def _not_one_of(key: str, allowed: Sequence[str], found: object) -> str:
    hint = ""
    if isinstance(found, str):
        near = difflib.get_close_matches(found, allowed, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]}?" if near else ""
    return f"expected {key}, {_one_of(allowed)}, got {in_words(found)}{hint}"


def _one_of(allowed: Sequence[str]) -> str:
    return f"one of {', '.join(allowed)}"


def _twice(values: Sequence[object]) -> list[str]:
    return [str(value) for value in dict.fromkeys(values) if values.count(value) > 1]
