"""Letters of the references of a run, by number of answers."""

from __future__ import annotations

from typing import Final

from pact_eval.data.records import position_name
from pact_eval.numbers import value_text
from pact_eval.remedies.comparison import RemedyComparison
from pact_eval.remedies.letter_balance import LetterBalance
from pact_reports.table import Cell, Column, Mark, Row, Table
from pact_reports.tables.cells import count_cell

_LEGEND: Final[tuple[tuple[Mark, str], ...]] = (
    ("significant", "shown to be unbalanced, by simultaneous 95% intervals over all letters"),
)


def balance_table(comparison: RemedyComparison) -> Table:
    """Lay out how often each letter is right in view 0: a row per number of answers."""
    widest = max(balance.n_choices for balance in comparison.letter_balance)
    return Table(
        name="letter-balance",
        title="Letters of right answers",
        caption="Share of the items of as many answers whose right answer is at the letter, in %.",
        columns=(
            Column("Answers", numbers=("answers",)),
            Column("Items", numbers=("items",)),
            Column("Balanced", numbers=("balanced share (%)",)),
            *(
                Column(position_name(letter), numbers=(f"{position_name(letter)} (%)",))
                for letter in range(widest)
            ),
        ),
        rows=tuple(_row(balance, widest) for balance in comparison.letter_balance),
        legend=_LEGEND,
    )


def _row(balance: LetterBalance, widest: int) -> Row:
    def share(letter: int) -> Cell:
        if letter >= balance.n_choices:
            return Cell("", (None,))
        value = balance.shares[letter].value
        mark: Mark | None = "significant" if letter in balance.unbalanced else None
        return Cell(value_text(value, "percent"), (value,), mark)

    return Row(
        (
            count_cell(balance.n_choices),
            count_cell(balance.shares[0].n),
            Cell(value_text(balance.balanced_share, "percent"), (balance.balanced_share,)),
            *map(share, range(widest)),
        )
    )
