r"""Names of the family and the domain of an item: a value of the log, or a part of it.

    doc.article                the value at this path of the log's own entry
    doc.id~^(.+)-\d+$          the first group of a regular expression in it, or the match

A long text, a list or an object stands for itself by its hash: two questions on one article are one
family, whatever the length of the article.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pact_eval._json import Json, dumps, sha256_of_json
from pact_eval.errors import InputError

_LONGEST: Final = 80
_HASH: Final = 16


@dataclass(frozen=True)
class Label:
    """One value of an entry that names its family or domain.

    Attributes:
        option: the option that gave it, for messages.
        path: the keys that lead to the value.
        pattern: the part of the value that is used; None uses all of it.
    """

    option: str
    path: tuple[str, ...]
    pattern: re.Pattern[str] | None

    @classmethod
    def of(cls, option: str, text: str) -> Label:
        """Read `PATH` or `PATH~REGEX`.

        Raises:
            InputError: there is no path, or the regular expression is not one.

        Examples:
            >>> Label.of("--family-from", "doc.id~^[a-z]+").of_entry({"doc": {"id": "law-7"}})
            'law'
        """
        name, tilde, expression = text.partition("~")
        if not name:
            message = f"{option} {text}: expected COLUMN or COLUMN~REGEX"
            raise InputError(message)
        try:
            return cls(option, tuple(name.split(".")), re.compile(expression) if tilde else None)
        except re.error as error:
            message = f"{option} {text}: not a regular expression ({error})"
            raise InputError(message) from None

    def of_entry(self, entry: Mapping[str, Json]) -> str:
        """Return the label of an entry of a log.

        Raises:
            ValueError: the entry has no such value, or the expression does not match it.
        """
        value = self._value(entry)
        if self.pattern is None:
            return _as_text(value)
        text = value if isinstance(value, str) else dumps(value)
        match = self.pattern.search(text)
        chosen = None if match is None else (match[1] if match.re.groups else match[0])
        if not chosen:
            message = f"{self.option}: {self.pattern.pattern} does not match {text!r:.60}"
            raise ValueError(message)
        return chosen

    def _value(self, entry: Mapping[str, Json]) -> Json:
        if ".".join(self.path) in entry:  # a name with dots
            return entry[".".join(self.path)]
        value: Json = dict(entry)
        for name in self.path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None or value == "":
            message = f"{self.option}: no value at {'.'.join(self.path)}"
            if len(self.path) == 1:
                message += f"; there are {', '.join(sorted(entry))[:200]}"
            raise ValueError(message)
        return value


@dataclass(frozen=True)
class Grouping:
    """Sources of the names of families and domains.

    Attributes:
        labels: by column of a run, the value that names it.
    """

    labels: Mapping[str, Label]

    @classmethod
    def of(cls, family_from: str | None, domain_from: str | None) -> Grouping:
        """Read the values of `--family-from` and `--domain-from`.

        Raises:
            InputError: a value is not `COLUMN` or `COLUMN~REGEX`.
        """
        texts = {"family": family_from, "domain": domain_from}
        return cls(
            {
                column: Label.of(f"--{column}-from", text)
                for column, text in texts.items()
                if text is not None
            }
        )

    def of_entry(self, entry: Mapping[str, Json]) -> dict[str, Json]:
        """Return the columns of an entry that this names; none if the source names all of them.

        Raises:
            ValueError: the entry has no such value.

        Examples:
            >>> Grouping.of("doc.article", None).of_entry({"doc": {"article": "a1"}})
            {'family': 'a1'}
        """
        return {column: label.of_entry(entry) for column, label in self.labels.items()}


def _as_text(value: Json) -> str:
    if isinstance(value, str) and len(value) <= _LONGEST:
        return value
    if isinstance(value, bool | int | float):
        return str(value)
    return sha256_of_json(value)[:_HASH]
