"""Brief outputs: an answer, facts below it, and a pointer to more, in at most twelve lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.notes import (
    ChangedModel,
    DifferentViews,
    IncompletePairs,
    LargeFamilies,
    LowAnswerMass,
    RepeatedPrompts,
    RoundedProbabilities,
    SeveralRight,
    SmallGroups,
    Unanswered,
    UnmatchedSeeds,
)
from pact_eval.notes import Note
from pact_reports.table import Cell, Column, Line, Part, Row, Table, Tone
from pact_reports.writers.terminal import to_text

MOST_LINES: Final = 12
"""Lines of a brief output at `COLUMNS` columns; notes that do not fit are counted."""

COLUMNS: Final = 100

_ON_ACCURACY: Final = (
    *(ChangedModel, IncompletePairs, LargeFamilies, LowAnswerMass, RepeatedPrompts),
    *(RoundedProbabilities, SeveralRight, Unanswered, UnmatchedSeeds),
)
"""Notes on the numbers of brief outputs; the others are on metrics that `--full` shows."""


@dataclass(frozen=True)
class Fact:
    """A line below the answer.

    Attributes:
        name: what it is about.
        text: what is said of it; without one, there is no line.
        tone: of the text.
    """

    name: str
    text: str
    tone: Tone | None = None


@dataclass(frozen=True)
class Brief:
    """A brief output.

    Attributes:
        answer: the first lines.
        facts: below them.
        notes: on the numbers; those that fit are shown.
        more: how to see more, if no note is left out.
        tables: between the answer and the facts.
        lines: after the facts.
        most: number of lines that all of it may take.
    """

    answer: Sequence[Line]
    facts: Sequence[Fact]
    notes: Sequence[Note]
    more: str
    tables: Sequence[Table] = ()
    lines: Sequence[Line] = ()
    most: int = MOST_LINES

    def parts(self) -> tuple[Part, ...]:
        """Return the answer, the facts, as many notes as there is room for, and the last line."""
        shown = [note for note in self.notes if _on_accuracy(note)]
        for number in range(len(shown), 0, -1):
            parts = self._with(shown[:number])
            if to_text(*parts, width=COLUMNS).count("\n") <= self.most:
                return parts
        return self._with([])

    def _with(self, notes: Sequence[Note]) -> tuple[Part, ...]:
        facts = [*self.facts, *(Fact("note", str(note), "caution") for note in notes)]
        left = len(self.notes) - len(notes)
        more = self.more
        if left:
            counted = f"{left} more note{'' if left == 1 else 's'}" if notes else _counted(left)
            more = more.replace("All metrics", f"{counted} and all metrics", 1)
        last = Line(more, "faint")
        return (*self.answer, *self.tables, facts_table(facts), *self.lines, last)


def _on_accuracy(note: Note) -> bool:
    """Return whether a note is about numbers of a brief output, which are of all items."""
    if isinstance(note, SmallGroups):
        return note.groups[0].name == "all"
    if isinstance(note, DifferentViews):
        return note.ensembles
    return isinstance(note, _ON_ACCURACY)


def _counted(notes: int) -> str:
    return "1 note" if notes == 1 else f"{notes} notes"


def facts_table(facts: Sequence[Fact]) -> Table:
    """Lay out facts with a text as lines, their names in a column."""
    rows = (Row((Cell(fact.name), Cell(fact.text, tone=fact.tone))) for fact in facts if fact.text)
    return Table(
        name="answer",
        title="",
        caption="",
        columns=(Column("", "left"), Column("", "left", width=0.8)),
        rows=tuple(rows),
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
