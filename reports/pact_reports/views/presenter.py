"""What a command says of a result: facts of the first screen, tables, answers, JSON, cases.

A presenter decides nothing: answers come from conclusions and verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Final

from pact_eval._json import Json
from pact_eval.errors import counted
from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion, DataLeak
from pact_eval.results import Note
from pact_reports.cases import Case, CiReport
from pact_reports.table import Cell, Column, Line, Part, Table, Tone, make_table
from pact_reports.tables.cells import leak_lines
from pact_reports.writers.terminal import to_text

MOST_LINES: Final = 12
"""Lines of a brief output at `COLUMNS` columns; notes that do not fit are counted."""

MOST_WITH_A_NOTE: Final = 16
"""So many lines it may have if it has one note, which is shown instead of counted."""

COLUMNS: Final = 100


@dataclass(frozen=True)
class Fact:
    """A line below the answer.

    Attributes:
        name: what it is about.
        text: what is said of it; without one, there is no line.
        tone: of the text.
        spare: whether `--full` alone shows it if there is no room.
    """

    name: str
    text: str
    tone: Tone | None = None
    spare: bool = False


@dataclass(frozen=True)
class Brief:
    """What a first screen has below the answer.

    Attributes:
        facts: one line each; spare ones only if they fit.
        notes: on the numbers; those that fit are shown. Notes without a short text are next to the
            metrics that they are about, with `--full`.
        more: how to see more, if no note is left out.
        cautions: directly below the answer.
        tables: before the facts.
        lines: after the facts.
        most: number of lines that all of it may take, with the answer.
    """

    facts: Sequence[Fact] = ()
    notes: Sequence[Note] = ()
    more: str = "All numbers: --full."
    cautions: Sequence[Line] = ()
    tables: Sequence[Table] = ()
    lines: Sequence[Line] = ()
    most: int = MOST_LINES

    @property
    def everything(self) -> tuple[Part, ...]:
        """All facts, for an output that has the tables too."""
        return (*self.cautions, *self.tables, facts_table(self.facts), *self.lines)

    def parts(self, answer: Sequence[Line]) -> tuple[Part, ...]:
        """Return an answer, the facts and notes that there is room for, and the last line."""
        notes = [note.short for note in self.notes if note.short]
        facts = [fact for fact in self.facts if fact.text]
        shown = [*notes]
        while True:
            parts = (*answer, *self._with(facts, shown, len(notes)))
            spare = [fact for fact in facts if fact.spare]
            if line_count(parts) <= self.most or not (shown or spare):
                break
            if shown:
                shown.pop()
            else:
                facts.remove(spare[-1])
        with_note = (*answer, *self._with(facts, notes, len(notes)))
        alone = len(notes) == 1 and line_count(with_note) <= MOST_WITH_A_NOTE
        return with_note if alone else parts

    def _with(self, facts: Sequence[Fact], notes: Sequence[str], of: int) -> tuple[Part, ...]:
        """Lay out facts and the first of some notes; the last line counts the others."""
        facts = [*facts, *(Fact("note", note, "caution") for note in notes)]
        left = of - len(notes)
        more = self.more
        if left:
            hidden = counted(left, "more note" if notes else "note")
            more = more.replace("All metrics", f"{hidden} and all metrics", 1)
        return (*replace(self, facts=facts).everything, Line(more, "faint"))


def line_count(parts: Iterable[Part]) -> int:
    """Count the lines of a first screen of `COLUMNS` columns."""
    return to_text(*parts, width=COLUMNS).count("\n")


def facts_table(facts: Sequence[Fact]) -> Table:
    """Lay out facts with a text as lines, their names in a column."""
    return make_table(
        "answer",
        [fact for fact in facts if fact.text],
        (Column("", "left"), lambda fact: fact.name),
        (Column("", "left", width=0.8), lambda fact: Cell(fact.text, tone=fact.tone)),
        bare=True,
    )


def tone_of(conclusion: Conclusion) -> Tone | None:
    """Return the colour of bad news; other news has none."""
    return "bad" if conclusion.tone == "bad" else None


def worst_tone(conclusions: Sequence[Conclusion]) -> Tone | None:
    """Return the colour of a line on several runs: that of bad news if any of them is."""
    return next((tone for conclusion in conclusions if (tone := tone_of(conclusion))), None)


def data_fact(conclusion: DataConclusion) -> Fact:
    """Say whether the data is sound; of a leak, the first line says it, and there is no other."""
    text = "" if conclusion.status == "leak" else conclusion.line
    return Fact("data", text, tone_of(conclusion))


def beside(names: Sequence[str], marks: Sequence[str]) -> str:
    """Write what is said of several runs, each once.

    Example:
        >>> beside(["a", "b"], ["FOLLOWS THE LETTER A", "stable (0.0% of answers change)"])
        'a FOLLOWS THE LETTER A; b: stable (0.0% of answers change)'
        >>> beside(["a", "b"], ["no error shown", "no error shown"])
        'both: no error shown'
    """
    if len(marks) > 1 and len(set(marks)) == 1:
        return f"{'both' if len(marks) == 2 else 'all'}: {marks[0]}"
    pairs = zip(names, marks, strict=True)
    return "; ".join(f"{name}{' ' if mark[0].isupper() else ': '}{mark}" for name, mark in pairs)


@dataclass(frozen=True)
class Presenter:
    """Presentation of a result.

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
        tool: dict[str, Json] = {}
        if self.tool:
            tool = {"tool": self.tool, "version": metadata.version("pact-eval")}
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


def answer_lines(answers: Iterable[str]) -> Iterable[Line]:
    """Return answers as lines."""
    return (Line(answer, "strong") for answer in answers)
