"""A presenter: warnings, tables, answers and JSON of a result, for terminal, JSON and Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pact_eval._json import Json
from pact_eval.evaluation.conclusions.data import DataLeak
from pact_reports.cases import CiReport
from pact_reports.table import Line, Part
from pact_reports.tables.cells import leak_lines


@dataclass(frozen=True)
class Presenter:
    """Presentation of a result. It decides nothing: answers come from conclusions and verdicts.

    Attributes:
        tables: makes the tables and lines before the answers.
        to_json: makes the object of `--json`, but for its `headline`; see `json`.
        warnings: what a reader must know before the numbers, a sentence each.
        answers: makes the result in a sentence or a few, printed last.
        leak: gets the leak of the data behind the result; its line comes first.
        headline: makes the answer in a sentence, which comes next, before warnings and tables. Its
            first sentence is `headline` in JSON.
        headed: whether the tables have the leak and the headline already.
        remarks: makes what a command prints to stderr instead of stdout, unless it prints JSON.
        first: makes the rest of the first screen, which comes next: at most ten lines.
        more: the last line of the first screen, on how to see the rest.
        blocks: makes what a command prints if that is more than one block, between which there are
            no blank lines; files that were written are named after the first.
        ci: makes the cases and annotations of `--format`; None if the result is not a gate.

    Examples:
        >>> presenter = Presenter(tuple, dict, ["Look."], lambda: ["All is well."])
        >>> [part.text for part in presenter.parts()], presenter.json()
        (['Warning: Look.', 'All is well.'], {'headline': 'All is well.'})
    """

    tables: Callable[[], Iterable[Part]]
    to_json: Callable[[], dict[str, Json]]
    warnings: Sequence[str] = ()
    answers: Callable[[], Iterable[str]] = tuple
    leak: Callable[[], DataLeak | None] = lambda: None
    headline: Callable[[], Iterable[str]] = tuple
    headed: bool = False
    first: Callable[[], Iterable[Part]] = tuple
    more: str = "All numbers: --full."
    remarks: Callable[[], Iterable[Part]] = tuple
    blocks: Callable[[], Iterable[Iterable[Part]]] | None = None
    ci: Callable[[], CiReport] | None = None

    def parts(self) -> Iterable[Part]:
        """Return everything in the order of Python's `print`: the headline comes first."""
        warnings = (Line(f"Warning: {sentence}", "caution") for sentence in self.warnings)
        before = (*self.first_lines(), *warnings, *self.remarks())
        return (*before, *self.first(), *self.tables(), *answer_lines(self.answers()))

    def json(self) -> dict[str, Json]:
        """Return the object of `--json`: the sentence that the terminal prints first, and the rest.

        It is the first sentence of the headline, or of the answers if these alone say the result.
        """
        headline = next(iter((*self.headline(), *self.answers())), None)
        return ({} if headline is None else {"headline": headline}) | self.to_json()

    def first_lines(self) -> tuple[Line, ...]:
        """Return the leak and the headline."""
        if self.headed:
            return ()
        return (*leak_lines(self.leak()), *answer_lines(self.headline()))

    def printed(self, *, full: bool = True) -> Iterable[Iterable[Part]]:
        """Return the blocks that a command prints after the warnings.

        Args:
            full: print everything; otherwise the first screen alone, and how to see the rest.
        """
        if self.blocks is not None:
            return self.blocks()
        screen = (*self.first_lines(), *self.first())
        if not full:
            return ((*screen, Line(self.more, "faint")),)
        return ((*screen, *self.tables(), *answer_lines(self.answers())),)


def answer_lines(answers: Iterable[str]) -> Iterable[Line]:
    """Return answers as lines."""
    return (Line(answer, "strong") for answer in answers)
