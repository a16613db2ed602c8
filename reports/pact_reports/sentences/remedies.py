"""Sentences on remedies of order effects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pact_eval.data.records import position_name
from pact_eval.numbers import interval_text, prompts_text, value_text
from pact_eval.remedies.comparison import FittedNote, RemedyComparison, RemedyMetric, RemedyRow
from pact_eval.remedies.letter_balance import LetterBalance


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
