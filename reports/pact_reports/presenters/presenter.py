"""A presenter: warnings, tables, answers and JSON of a result, for terminal, JSON and Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pact_eval._json import Json
from pact_eval.evaluation.conclusions.data import DataLeak
from pact_reports.sentences.data import leak_lines
from pact_reports.table import Line, Part

if TYPE_CHECKING:
    from pact_reports.ci.report import CiReport


@dataclass(frozen=True)
class Presenter:
    """Presentation of a result. It decides nothing: answers come from conclusions and verdicts.

    Attributes:
        tables: makes the tables and lines before the answers.
        to_json: makes the object of `--json`.
        warnings: what a reader must know before the numbers, a sentence each.
        answers: makes the result in a sentence or a few, printed last, or alone with `--brief`.
        answer_first: whether these are printed before the tables instead.
        leak: gets the leak of the data behind the result; its line comes first.
        headline: makes the answer in a sentence, which comes next, before warnings and tables.
        remarks: makes what a command prints to stderr instead of stdout, unless it prints JSON.
        blocks: makes what a command prints if that is more than one block, between which there are
            no blank lines; files that were written are named after the first.
        ci: makes the cases and annotations of `--format`; None if the result is not a gate.

    Examples:
        >>> presenter = Presenter(tuple, dict, ["Look."], lambda: ["All is well."])
        >>> [part.text for part in presenter.parts()]
        ['Warning: Look.', 'All is well.']
    """

    tables: Callable[[], Iterable[Part]]
    to_json: Callable[[], dict[str, Json]]
    warnings: Sequence[str] = ()
    answers: Callable[[], Iterable[str]] = tuple
    answer_first: bool = False
    leak: Callable[[], DataLeak | None] = lambda: None
    headline: Callable[[], Iterable[str]] = tuple
    remarks: Callable[[], Iterable[Part]] = tuple
    blocks: Callable[[], Iterable[Iterable[Part]]] | None = None
    ci: Callable[[], CiReport] | None = None

    def parts(self) -> Iterable[Part]:
        """Return everything in the order of Python's `print`: the headline comes first."""
        warnings = (Line(f"Warning: {sentence}", "caution") for sentence in self.warnings)
        before = (*self.first_lines(), *warnings, *self.remarks())
        return (*before, *self.tables(), *self._last_lines())

    def first_lines(self) -> tuple[Line, ...]:
        """Return the leak, the headline, and the answers if they come first."""
        answers = answer_lines(self.answers()) if self.answer_first else ()
        return (*leak_lines(self.leak()), *answer_lines(self.headline()), *answers)

    def _last_lines(self) -> Iterable[Line]:
        return () if self.answer_first else answer_lines(self.answers())

    def printed(self) -> Iterable[Iterable[Part]]:
        """Return the blocks that a command prints after the warnings."""
        if self.blocks is not None:
            return self.blocks()
        return ((*self.first_lines(), *self.tables(), *self._last_lines()),)


def answer_lines(answers: Iterable[str]) -> Iterable[Line]:
    """Return answers as lines."""
    return (Line(answer, "strong") for answer in answers)
