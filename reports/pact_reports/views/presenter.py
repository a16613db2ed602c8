"""A presenter: warnings, tables, answers and JSON of a result, for terminal, JSON and Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata

from pact_eval._json import Json
from pact_eval.evaluation.conclusions.data import DataLeak
from pact_reports.cases import Case, CiReport
from pact_reports.table import Line, Part
from pact_reports.tables.cells import leak_lines
from pact_reports.views.brief import Brief


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
        remarks: makes what a command prints to stderr instead of stdout, unless it prints JSON.
        first: makes the rest of the first screen; None if there is no other output.
        retold: whether the tables say what the first screen says, so that they replace it.
        listed: makes what was asked for beside the result, such as items; it follows either.
        blocks: makes what a command prints if that is more than one block, between which there are
            no blank lines, by whether all is printed; files that were written are named after the
            first.
        ci: makes the cases and annotations of `--format`; None if nothing is judged; see `cases`.
        tool: program that JSON names, with its version; "" names none.

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
    remarks: Callable[[], Iterable[Part]] = tuple
    first: Callable[[], Brief] | None = None
    retold: bool = False
    listed: Callable[[], Iterable[Part]] = tuple
    blocks: Callable[[bool], Iterable[Iterable[Part]]] | None = None
    ci: Callable[[], CiReport] | None = None
    tool: str = ""

    def parts(self) -> Iterable[Part]:
        """Return everything in the order of Python's `print`: the headline comes first."""
        warnings = (Line(f"Warning: {sentence}", "caution") for sentence in self.warnings)
        return (*self.first_lines(), *warnings, *self.remarks(), *self._rest())

    def json(self) -> dict[str, Json]:
        """Return the object of `--json`: the sentence that the terminal prints first, and the rest.

        It is the first sentence of the headline, or of the answers if these alone say the result.
        """
        headline = next(iter((*self.headline(), *self.answers())), None)
        tool = tool_json(self.tool) if self.tool else {}
        return tool | ({} if headline is None else {"headline": headline}) | self.to_json()

    def with_below(self, name: str, other: Presenter, *, full: bool) -> Presenter:
        """Return the presenter with that of another result below it.

        Args:
            name: of the other result in JSON.
            other: its presenter.
            full: show everything of it.
        """

        def listed() -> Iterable[Part]:
            blocks = other.printed(full=full)
            return (*self.listed(), *(part for block in blocks for part in block))

        return replace(
            self,
            listed=listed,
            to_json=lambda: self.to_json() | {name: other.json()},
            warnings=[*dict.fromkeys((*self.warnings, *other.warnings))],
        )

    def cases(self, command: str) -> CiReport:
        """Return the cases of `--format`: without a gate, that of the data, which may leak.

        Args:
            command: whose cases they are.
        """
        if self.ci is not None:
            return self.ci()
        leak, said = self.leak(), (*self.headline(), *self.answers(), "Nothing is judged.")
        case = Case("data", "failed" if leak else "skipped", str(leak or said[0]))
        return CiReport(command, said[0], (case,), {}, tuple(self.warnings))

    def first_lines(self) -> tuple[Line, ...]:
        """Return the leak and the headline."""
        return (*leak_lines(self.leak()), *answer_lines(self.headline()))

    def printed(self, *, full: bool = True) -> Iterable[Iterable[Part]]:
        """Return the blocks that a command prints after the warnings.

        Args:
            full: print everything; otherwise the first screen, if there is one.
        """
        if self.first is not None and not full:
            return ((*self.first().parts(self.first_lines()), *self.listed()),)
        if self.blocks is not None:
            listed = tuple(self.listed())
            return (*self.blocks(full), *([listed] if listed else []))
        return ((*self.first_lines(), *self._rest()),)

    def _rest(self) -> Iterable[Part]:
        """Return everything below the headline."""
        screen = () if self.first is None or self.retold else self.first().everything
        return (*screen, *self.tables(), *self.listed(), *answer_lines(self.answers()))


def tool_json(name: str) -> dict[str, Json]:
    """Return the program that made a result, and its version."""
    return {"tool": name, "version": metadata.version("pact-eval")}


def answer_lines(answers: Iterable[str]) -> Iterable[Line]:
    """Return answers as lines."""
    return (Line(answer, "strong") for answer in answers)
