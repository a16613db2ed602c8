"""A presenter: the warnings, tables, answer and JSON of a result, for terminal, JSON and Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pact_eval._json import Json
from pact_reports.table import Line, Part


@dataclass(frozen=True)
class Presenter:
    """What is shown of a result. It decides nothing: answers come from conclusions and verdicts.

    Attributes:
        answer: the result in a sentence or two, printed last, or alone with `--brief`.
        tables: makes the tables and lines before the answer.
        to_json: makes the object of `--json`.
        warnings: what a reader must know before the numbers, a sentence each.

    Examples:
        >>> presenter = Presenter("All is well.", tuple, lambda: {"fine": True}, ("Look.",))
        >>> [part.text for part in presenter.parts()]
        ['Warning: Look.', 'All is well.']
    """

    answer: str
    tables: Callable[[], Iterable[Part]]
    to_json: Callable[[], dict[str, Json]]
    warnings: tuple[str, ...] = ()

    def parts(self) -> tuple[Part, ...]:
        """Return everything in the order of Python's `print`: warnings, tables, answer."""
        warnings = (Line(f"Warning: {sentence}", "caution") for sentence in self.warnings)
        return (*warnings, *self.tables(), self.answer_line)

    @property
    def answer_line(self) -> Line:
        """The answer as the last line."""
        return Line(self.answer, "strong")
