"""Costs of remedies as a table: prompts, tokens, and the pay-back of a fit."""

from __future__ import annotations

import math
from typing import Final

from pact_eval.numbers import UNDEFINED, prompts_text
from pact_eval.remedies.comparison import RemedyComparison, RemedyRow
from pact_eval.remedies.costs import NoTokens
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import count_cell

NO_TOKENS: Final[dict[NoTokens, str]] = {
    "served": "a server answered: whether it shares prefixes is not known",
    "older": "the run does not record its shared prefixes: score it again",
    "unknown": "the run does not record the lengths of its prompts",
}
"""Why tokens through the prefix tree are not known."""


def costs_table(comparison: RemedyComparison) -> Table:
    """Lay out what remedies cost per item, and what their fits cost once."""
    once = "" if comparison.second_orders is None else ", each order of an item once"
    return Table(
        name="remedies-costs",
        title="Costs",
        caption=(
            f"Per item: prompts{once}; tokens that the fork engine computes, with shared prefixes "
            "counted once; tokens of full prompts, as sent to a server.\n"
            "Fit: once, on mean items of the run. Paid back: items from which on all views cost as "
            "much or more, in prompts and in computed tokens."
        ),
        columns=(
            Column("Remedy", "left"),
            Column("Prompts", numbers=("prompts per item",)),
            Column("Computed", numbers=("computed tokens per item",)),
            Column("Sent", numbers=("sent tokens per item",)),
            Column("Fit: prompts", numbers=("prompts of the fit",)),
            Column("Computed", numbers=("computed tokens of the fit",)),
            Column("Paid back: prompts", numbers=("items, by prompts",)),
            Column("Computed", numbers=("items, by computed tokens",)),
        ),
        rows=tuple(_row(row, comparison.no_tokens) for row in comparison.rows),
    )


def _row(row: RemedyRow, no_tokens: NoTokens | None) -> Row:
    cost, why = row.cost, None if no_tokens is None else NO_TOKENS[no_tokens]
    fit = cost.fitting_prompts > 0
    return Row(
        (
            Cell(row.remedy.title, data=row.remedy.name),
            Cell(prompts_text(cost.prompts), (cost.prompts,)),
            _tokens_cell(cost.tokens, why),
            _tokens_cell(cost.sent_tokens, NO_TOKENS["unknown"]),
            count_cell(round(cost.fitting_prompts) if fit else None),
            _tokens_cell(cost.fitting_tokens, why) if fit else count_cell(None),
            count_cell(cost.paid_back if fit else None),
            count_cell(cost.paid_back_tokens if fit else None),
        )
    )


def _tokens_cell(tokens: float, why: str | None) -> Cell:
    if math.isnan(tokens):
        return Cell(UNDEFINED, (math.nan,), reason=why)
    return Cell(f"{tokens:,.0f}", (tokens,))
