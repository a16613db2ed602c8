"""Remedies of order effects in one table: their values, and what they cost per item."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from pact_eval.evaluation.decoding import SINGLE
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.numbers import UNDEFINED, prompts_text
from pact_eval.remedies.comparison import RemedyComparison, RemedyRow
from pact_eval.remedies.costs import NoTokens
from pact_reports.sentences.remedies import balance_sentence
from pact_reports.table import Cell, Column, Line, Part, Row, Table, Tone
from pact_reports.tables.cells import unit_of, value_cell

_VALUES: Final = (
    ("accuracy", False),
    ("pair_accuracy", False),
    ("nll_nats", False),
    ("nll_nats", True),
    ("ece", False),
    ("flip_rate", False),
)
_SHORT: Final = {"Pair accuracy": "Pairs", "Flip rate": "Flips"}
_NO_TOKENS: Final[dict[NoTokens, str]] = {
    "served": "a server answered: whether it shares prefixes is not known",
    "older": "the run does not record its shared prefixes: score it again",
    "unknown": "the run does not record the lengths of its prompts",
}
"""Why tokens through the prefix tree are not known."""


def remedies_parts(comparison: RemedyComparison) -> Iterator[Part]:
    """Lay out remedies: values and costs, items without a prior, and the balance of letters."""
    yield _table(comparison)
    for row in comparison.rows:
        if row.without_prior:
            yield Line(
                f"Note: {row.remedy.title}: {row.without_prior:,} of {comparison.items:,} items "
                f"stay as they are, because {_why_untouched(row)}.",
                "caution",
            )
    if not comparison.content_free:
        yield Line(
            "Contextual calibration needs prompts without a context: repeat the scoring command "
            "with --content-free, which adds them to the run."
        )
    tone: Tone | None = "caution" if comparison.balance == "unbalanced" else None
    yield Line(balance_sentence(comparison), tone)


def _why_untouched(row: RemedyRow) -> str:
    if row.remedy.contextual:
        return "they have no content-free probabilities, or one of 0"
    return "the fit has no items, or too few orders, of their number of answers"


def _table(comparison: RemedyComparison) -> Table:
    specs = [comparison.rows[0].metric(name).spec for name, _ in _VALUES]
    folds = f"{comparison.folds} folds by {comparison.fold_unit}"
    return Table(
        name="remedies",
        title=f"Remedies, the cheapest in {comparison.price} first",
        caption=(
            f"{comparison.items:,} items, {comparison.families:,} families. Priors and "
            f"temperatures are fitted on other families ({folds}).\n"
            "K: views per item. Rates in %, NLL in nats. At T: after a temperature. Flips: another "
            "answer from the next views.\n"
            "Per item: prompts; tokens computed with shared prefixes counted once; tokens sent in "
            "full prompts."
        ),
        columns=(
            Column("Remedy", "left"),
            *map(_value_column, specs, (tempered for _, tempered in _VALUES)),
            Column("Prompts", numbers=("prompts per item",)),
            Column("Computed", numbers=("computed tokens per item",)),
            Column("Sent", numbers=("sent tokens per item",)),
        ),
        rows=tuple(_row(row, comparison.no_tokens) for row in comparison.rows),
    )


def _value_column(spec: MetricSpec, tempered: bool) -> Column:
    title = f"{spec.title} at T" if tempered else spec.title
    return Column(
        _SHORT.get(title, title),
        numbers=(f"{title} ({unit_of(spec, SINGLE)})",),
        better=spec.better,
    )


def _row(row: RemedyRow, no_tokens: NoTokens | None) -> Row:
    why = None if no_tokens is None else _NO_TOKENS[no_tokens]
    return Row(
        (
            Cell(row.remedy.title, data=row.remedy.name),
            *(_value_cell(row, name, tempered) for name, tempered in _VALUES),
            Cell(prompts_text(row.cost.prompts), (row.cost.prompts,)),
            _tokens_cell(row.cost.tokens, why),
            _tokens_cell(row.cost.sent_tokens, _NO_TOKENS["unknown"]),
        )
    )


def _value_cell(row: RemedyRow, name: str, tempered: bool) -> Cell:
    try:
        metric = row.metric(name, tempered=tempered)
    except KeyError:
        return Cell(UNDEFINED, (math.nan,), reason="no temperature can be fitted")
    return value_cell(metric.value.value, metric.spec, metric.value.reason)


def _tokens_cell(tokens: float, why: str | None) -> Cell:
    if math.isnan(tokens):
        return Cell(UNDEFINED, (math.nan,), reason=why)
    return Cell(f"{tokens:,.0f}", (tokens,))
