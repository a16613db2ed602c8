"""Decodings that may undo effects of the order, compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast

from pact_eval._json import Json
from pact_eval.data.records import position_name
from pact_eval.evaluation.registry import SINGLE, MetricSpec
from pact_eval.numbers import UNDEFINED, interval_text, prompts_text, value_text
from pact_eval.remedies.comparison import (
    FittedNote,
    LetterBalance,
    RemedyComparison,
    RemedyMetric,
    RemedyRow,
)
from pact_eval.remedies.costs import NoTokens
from pact_eval.remedies.decodings import temperature_of
from pact_eval.remedies.fitting import FittedRemedy, remedy_json
from pact_eval.remedies.priors import LetterPrior
from pact_reports.table import Cell, Column, Line, Part, Row, Table, Tone, table_row
from pact_reports.tables.cells import count_cell, leak_lines, unit_of, value_cell
from pact_reports.views.brief import COLUMNS, MOST_LINES, Brief, Fact
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import to_json
from pact_reports.writers.terminal import to_text


def present_remedy_comparison(comparison: RemedyComparison, *, full: bool = True) -> Presenter:
    """Present the remedies of a run.

    Args:
        comparison: the remedies.
        full: show every table below the answer; otherwise at most twelve lines.
    """

    def headline() -> Iterator[str]:
        yield remedies_answer(comparison)

    def tables() -> Iterable[Part]:
        if full:
            return remedies_parts(comparison)

        return brief_remedies(comparison)

    return Presenter(
        tables=tables,
        to_json=lambda: _json(comparison),
        warnings=[*fit_sentences(comparison.fit_notes)],
        leak=lambda: comparison.leak,
        headline=headline,
        headed=not full,
    )


def _json(comparison: RemedyComparison) -> dict[str, Json]:
    return {
        "answer": {
            "status": comparison.status,
            "helping": list(comparison.helping),
            "enough": comparison.enough,
            "price": comparison.price,
            "letters": comparison.balance,
        },
        "remedies": cast("dict[str, Json]", to_json(comparison))
        | {"rows": [_row(row) for row in comparison.rows]},
    }


def _row(row: RemedyRow) -> dict[str, Json]:
    """Return a row with the name of its remedy, which `calibrate --remedy` and hypotheses take."""
    return {
        "name": row.remedy.name,
        "title": row.remedy.title,
        **cast("dict[str, Json]", to_json(row)),
    }


def present_fitted_remedy(fitted: FittedRemedy, path: Path | None = None) -> Presenter:
    """Present a fitted remedy.

    Args:
        fitted: the remedy.
        path: its file, if it was written.
    """
    return Presenter(
        tables=partial(fitted_remedy_parts, fitted),
        to_json=lambda: {
            "file": None if path is None else str(path),
            "remedy": remedy_json(fitted),
        },
        warnings=[*map(str, fitted.warnings)],
    )


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
        rows=tuple(_remedies_row(row, comparison.no_tokens) for row in comparison.rows),
    )


def _value_column(spec: MetricSpec, tempered: bool) -> Column:
    title = f"{spec.title} at T" if tempered else spec.title
    return Column(
        _SHORT.get(title, title),
        numbers=(f"{title} ({unit_of(spec, SINGLE)})",),
        better=spec.better,
    )


def _remedies_row(row: RemedyRow, no_tokens: NoTokens | None) -> Row:
    why = None if no_tokens is None else _NO_TOKENS[no_tokens]
    return table_row(
        Cell(row.remedy.title, data=row.remedy.name),
        *(_value_cell(row, name, tempered) for name, tempered in _VALUES),
        Cell(prompts_text(row.cost.prompts), (row.cost.prompts,)),
        _tokens_cell(row.cost.tokens, why),
        _tokens_cell(row.cost.sent_tokens, _NO_TOKENS["unknown"]),
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


_MAIN: Final = ("k2", "k2_additive", "k1_additive", "k1_batch", "k1_contextual")
"""Remedies that most runs can show, after those of the answer."""


def brief_remedies(comparison: RemedyComparison) -> tuple[Part, ...]:
    """Lay out whether a remedy helps, and the main ones, in at most twelve lines."""
    files = [row.remedy.name for row in comparison.rows if row.remedy.from_file]
    names = [*comparison.references, *files, comparison.enough, *_MAIN]
    compared = {row.remedy.name for row in comparison.rows}
    shown = [name for name in dict.fromkeys(names) if name in compared]
    parts = _laid_out(comparison, shown)
    while to_text(*parts, width=COLUMNS).count("\n") > MOST_LINES and len(shown) > 1:
        shown.pop()
        parts = _laid_out(comparison, shown)
    return parts


def _laid_out(comparison: RemedyComparison, shown: Collection[str | None]) -> tuple[Part, ...]:
    marks = "" if comparison.k == 1 else "; * shown after Holm's adjustment"
    letters = "; right answers favour letters" if comparison.balance == "unbalanced" else ""
    return Brief(
        answer=(*leak_lines(comparison.leak), Line(remedies_answer(comparison), "strong")),
        facts=[
            Fact(
                "sample",
                f"{comparison.items:,} items, {comparison.families:,} families; fits by "
                f"{comparison.fold_unit}{marks}{letters}",
            ),
        ],
        notes=(),
        more="Pairs, ECE, flips, costs and letters: --full.",
        tables=[
            _brief_remedies_table([row for row in comparison.rows if row.remedy.name in shown])
        ],
    ).parts()


def _brief_remedies_table(rows: Sequence[RemedyRow]) -> Table:
    return Table(
        name="remedies",
        columns=(
            Column("remedy", "left"),
            Column("accuracy"),
            Column("- K = 1, points", "left"),
            Column("NLL"),
            Column("- K = 1, nats", "left"),
        ),
        rows=tuple(map(_brief_remedies_row, rows)),
        bare=True,
    )


def _brief_remedies_row(row: RemedyRow) -> Row:
    return table_row(
        row.remedy.title, *(cell for name in ("accuracy", "nll_nats") for cell in _cells(row, name))
    )


def _cells(row: RemedyRow, name: str) -> tuple[Cell, Cell]:
    """Return the value of a metric, and its difference from one view."""
    metric = row.metric(name)
    against = metric.differences.get("k1")
    difference = ""
    if against is not None:
        difference = interval_text(against.difference, metric.spec.difference_unit)
        difference += "*" if against.marked else ""
    percent = "%" if metric.spec.unit == "percent" else ""
    return Cell(f"{value_text(metric.value.value, metric.spec.unit)}{percent}"), Cell(difference)


def fitted_remedy_parts(fitted: FittedRemedy) -> Iterator[Part]:
    """Lay out a fitted remedy: its letter prior by number of answers, and its temperature."""
    if fitted.prior is not None:
        yield _prior_table(fitted, fitted.prior)
    if fitted.calibrator is None:
        text = "No temperature can be fitted on these items."
    else:
        text = f"Temperature after it: {temperature_of(fitted.calibrator):.3f}."
    yield Line(f"{fitted.remedy.title}. {text}")


def _prior_table(fitted: FittedRemedy, prior: LetterPrior) -> Table:
    widest = max(prior.log_prior)
    letters = [position_name(place) for place in range(widest)]
    return Table(
        name="letter-prior",
        title=f"Letter prior: {fitted.remedy.title}",
        caption="What the model adds to the log-probability of a letter, in nats, with a mean of "
        "0. Views: of each item of the fit.",
        columns=(
            Column("Answers", numbers=("answers",)),
            Column("Items", numbers=("items",)),
            Column("Views", numbers=("views",)),
            *(Column(letter, numbers=(f"{letter} (nats)",)) for letter in letters),
        ),
        rows=tuple(
            table_row(
                count_cell(count),
                count_cell(prior.items[count]),
                count_cell(prior.views[count]),
                *(
                    Cell(f"{value:+.3f}", (float(value),))
                    for value in prior.log_prior[count].tolist()
                ),
                *(Cell("", (math.nan,)) for _ in range(widest - count)),
            )
            for count in sorted(prior.log_prior)
        ),
    )


def remedies_answer(comparison: RemedyComparison) -> str:
    """Answer whether any remedy helps, and which of them is enough."""
    if comparison.status == "cannot tell":
        if comparison.k == 1:
            return (
                "Cannot tell whether a remedy helps: the run has one view per item. For K = 2 to 4 "
                "and letter priors, repeat the scoring command with --k 4 and another --out, or "
                "import a log with a row per view."
            )
        return "Cannot tell whether a remedy helps: there are too few families for an interval."
    if comparison.status == "none shown":
        return "None is shown to help: to improve accuracy or NLL over one view, and harm neither."
    all_views = comparison.row(comparison.references[-1])
    whole = all_views.remedy.title
    if comparison.enough is None:
        rows = [comparison.row(name) for name in comparison.helping]
        answer = f"Shown to help over one view: {'; '.join(row.remedy.title for row in rows)}."
        price = comparison.price
        if any(row.cost.price(price) < all_views.cost.price(price) for row in rows):
            answer += f" Those that cost less ({price}) are worse than {whole} by a 95% interval."
        return answer
    row = comparison.row(comparison.enough)
    return (
        f"Cheapest in {comparison.price} that helps (shown), and is not shown to be worse than "
        f"{whole}: {row.remedy.title} ({_price(comparison, row)} per item; "
        f"{whole}: {_price(comparison, all_views)}). {_gain(row)}"
    )


def _price(comparison: RemedyComparison, row: RemedyRow) -> str:
    price = row.cost.price(comparison.price)
    return prompts_text(price) if comparison.price == "prompts" else f"{price:,.0f}"


def balance_sentence(comparison: RemedyComparison) -> str:
    """Say whether references are balanced over letters, as batch calibration assumes."""
    assumed = (
        "Batch calibration takes right answers to be at every letter equally often, among items "
        "of as many answers"
    )
    if comparison.balance == "cannot tell":
        return f"{assumed}. Cannot tell whether they are: there is no interval."
    if comparison.balance == "balanced":
        return f"{assumed}. No imbalance is shown."
    places = "; ".join(
        f"{', '.join(map(_letter_share(balance), balance.unbalanced))} of {balance.n_choices} "
        f"answers ({value_text(balance.balanced_share, 'percent')}% if balanced)"
        for balance in comparison.letter_balance
        if balance.unbalanced
    )
    return f"{assumed}. They are shown not to be: {places}. Distrust its rows."


def _letter_share(balance: LetterBalance) -> Callable[[int], str]:
    def text(letter: int) -> str:
        share = value_text(balance.shares[letter].value, "percent")
        return f"{position_name(letter)} is right in {share}%"

    return text


def fit_sentences(notes: Sequence[FittedNote]) -> Iterator[str]:
    """Yield what a reader must know of remedies that were fitted on other runs."""
    for fitted in notes:
        yield f"{fitted.file}: {fitted.note!s}"


def _gain(row: RemedyRow) -> str:
    """Say which of accuracy and NLL is better than that of one view, with the interval."""
    shown = [row.metric(name) for name in ("accuracy", "nll_nats")]
    return " ".join(_difference(metric) for metric in shown if metric.is_better("k1"))


def _difference(metric: RemedyMetric) -> str:
    difference = metric.differences["k1"].difference
    unit = metric.spec.difference_unit
    word = " points" if unit == "points" else " nats"
    return f"{metric.spec.title} changes by {interval_text(difference, unit, word)}."
