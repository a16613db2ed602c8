"""Command of a trainer: words with placeholders. No shell reads it."""

from __future__ import annotations

import shlex
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PLACEHOLDERS: Final = (
    "arm",
    "seed",
    "base",
    "data",
    "train",
    "selection",
    "adapter",
    "settings",
)
"""Names that stand in braces in the command of a trainer."""


@dataclass(frozen=True)
class CommandTemplate:
    """A command with placeholders.

    Attributes:
        words: the program and its arguments. `{arm}` is a placeholder, `{{` is a brace.
    """

    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> CommandTemplate:
        """Divide a command into words, as a shell does; nothing else of a shell has a meaning.

        Raises:
            ValueError: a quote or a brace is not closed, a placeholder has a format, or there is no
                word.

        Examples:
            >>> CommandTemplate.parse("python train.py --out '{adapter}'").words
            ('python', 'train.py', '--out', '{adapter}')
        """
        words = tuple(shlex.split(text))
        if not words:
            message = "expected a program and its arguments"
            raise ValueError(message)
        for word in words:
            for _, name, form, conversion in string.Formatter().parse(word):
                if form or conversion:
                    ending = f"!{conversion}" if conversion else f":{form}"
                    message = f"expected {{{name}}} without a format, got {{{name}{ending}}}"
                    raise ValueError(message)
        return cls(words)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The names in braces, each once, in their order.

        Examples:
            >>> CommandTemplate.parse("train {arm} {seed} {arm}").placeholders
            ('arm', 'seed')
        """
        parts = (part for word in self.words for part in string.Formatter().parse(word))
        return tuple(dict.fromkeys(name for _, name, _, _ in parts if name is not None))

    def filled(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """Return the words with values in place of the placeholders.

        A value is never divided into words.

        Args:
            values: one for each placeholder.

        Examples:
            >>> CommandTemplate.parse("train --arm={arm}").filled({"arm": "no cf"})
            ('train', '--arm=no cf')
        """
        return tuple(
            "".join(
                literal + ("" if name is None else values[name])
                for literal, name, _, _ in string.Formatter().parse(word)
            )
            for word in self.words
        )

    def fixed_words(self) -> tuple[str, ...]:
        """Return the words without a placeholder, the program included.

        Examples:
            >>> CommandTemplate.parse("python train.py {arm}").fixed_words()
            ('python', 'train.py')
        """
        return tuple(
            "".join(literal for literal, _, _, _ in string.Formatter().parse(word))
            for word in self.words
            if all(name is None for _, name, _, _ in string.Formatter().parse(word))
        )
