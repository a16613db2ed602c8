"""The first screen of a page: one card per question, with its conclusion, numbers and a link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pact_eval.evaluation.conclusions.better import BetterConclusion
from pact_eval.evaluation.conclusions.conclusion import Tone
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.experiment_conclusions import Conclusions
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_reports.arm_names import ArmNames
from pact_reports.markup import Html, data_text, element, joined
from pact_reports.numbers import at_views, interval_text, views_words
from pact_reports.page.data_audit import ANCHOR as DATA_AUDIT
from pact_reports.sentences.conclusions import (
    QUESTIONS,
    Said,
    conclusion_words,
    order_words,
    probabilities_words,
)
from pact_reports.sentences.data import data_parts

if TYPE_CHECKING:  # a page without the question does not wait for what chooses gates
    from pact_eval.thresholds.conclusion import Acting

_MOST_LEADS: Final = 3
_BETTER: Final = {
    "better": "Better",
    "worse": "Worse",
    "equivalent": "Equivalent",
    "not shown": "Not shown",
    "cannot be compared": "Cannot be compared",
}


def cards_html(conclusions: Conclusions, names: ArmNames, acting: Acting | None = None) -> Html:
    """Write a card for each question: better, data, order, probabilities, acting alone.

    Args:
        conclusions: on the main arm.
        names: display names of arms.
        acting: whether it may act alone; None if that was not asked.
    """
    order, probabilities = conclusions.order, conclusions.probabilities
    return element(
        "div",
        _better(conclusions, names),
        _data(conclusions.data),
        _run_card(
            *("order", names.run(order.run), order_words(order)),
            *(order.tone, _order_lines(order), "diagnostics"),
        ),
        _run_card(
            *("probabilities", names.run(probabilities.run), probabilities_words(probabilities)),
            *(probabilities.tone, [], "calibration"),
        ),
        _acting(acting, names),
        class_="cards",
    )


def _card(question: str, tone: Tone, word: str, lines: Sequence[Html | str], link: str) -> Html:
    """Write one card.

    Args:
        question: its heading.
        tone: decides the colour.
        word: the answer.
        lines: the numbers.
        link: the id of the section that has more.
    """
    return element(
        "section",
        element("h3", question),
        element("p", word, class_=f"status {tone}"),
        element("ul", *(element("li", line) for line in lines)),
        element("p", element("a", "more", href=f"#{link}", aria_label=f"More on: {question}")),
        class_="card",
    )


def _run_card(
    question: str, run: str, words: Said, tone: Tone, lines: Sequence[str], link: str
) -> Html:
    """Write the card of a conclusion on one run: its numbers part by part."""
    numbers: list[Html | str] = [data_text(run), *_numbers(words), *lines]
    return _card(QUESTIONS[question], tone, words.finding, numbers, link)


def _numbers(words: Said) -> list[str]:
    return [part.strip().removesuffix(".") for part in words.numbers.split(";")]


def _acting(acting: Acting | None, names: ArmNames) -> Html:
    """Write the card on acting alone: its status, then the share with its condition."""
    question = QUESTIONS["acting"]
    if acting is None:
        hint = "give --target-error, such as 0.05"
        return _card(question, "open", "Not asked", [hint], "figures")
    words = conclusion_words(acting)
    share = [words.finding] if acting.status == "share guaranteed" else []
    lines: list[Html | str] = [data_text(names.run(acting.run)), *share, *_numbers(words)]
    return _card(question, acting.tone, acting.status.capitalize(), lines, "figures")


def _order_lines(order: OrderConclusion) -> list[str]:
    """Name the unchecked parts; the reasons are with the diagnostics and in the tables."""
    return [f"not checked: {part.name}" for part in order.unchecked]


def _better(conclusions: Conclusions, names: ArmNames) -> Html:
    others, status = conclusions.better, conclusions.overall
    question = QUESTIONS["better"]
    if not others:
        return _card(question, "open", "Nothing to compare", [], "comparison")
    method = data_text(names.arm(conclusions.method))
    lines: list[Html | str] = []
    if len(others) == 1:
        lines.append(_only_lead(method, others[0], names))
    else:
        lines.append(joined(["points of accuracy, ", method, " minus"]))
        lines += [_lead(other, names) for other in others[:_MOST_LEADS]]
    if len(others) > _MOST_LEADS:
        lines.append(f"and {len(others) - _MOST_LEADS} more arms")
    return _card(question, others[0].tones[status], _better_word(conclusions), lines, "comparison")


def _better_word(conclusions: Conclusions) -> str:
    """Write the status against all other arms; against one, with the decoding if they differ."""
    others = conclusions.better
    if len(others) > 1:
        return _BETTER[conclusions.overall]
    claims = others[0].of("accuracy")
    statuses = list(dict.fromkeys(claim.status for claim in claims))
    if len(statuses) < 2:
        return _BETTER[others[0].status]
    return ", ".join(
        f"{_BETTER[claim.status] if not at else _BETTER[claim.status].lower()} "
        f"{at_views(claim.k, claim.repeats)}"
        for at, claim in enumerate(claims)
    )


def _only_lead(method: Html, other: BetterConclusion, names: ArmNames) -> Html:
    """Write the only lead of a card: at view 0 and over K views."""
    against: list[Html | str] = [method, " - ", data_text(names.arm(other.right)), ": "]
    if other.reason is not None:
        return joined([*against, data_text(other.reason)])
    numbers = [
        f"{interval_text(claim.difference, 'points')} points of accuracy, "
        f"{views_words(claim.k, claim.repeats)}"
        for claim in other.of("accuracy")
    ]
    return joined([*against, numbers[0], *(part for text in numbers[1:] for part in _line(text))])


def _line(text: str) -> tuple[Html, str]:
    return element("br"), text


def _lead(other: BetterConclusion, names: ArmNames) -> Html:
    """Write one of several leads, on a line if the name is short."""
    name = data_text(names.arm(other.right))
    accuracy = [claim for claim in other.claims if claim.metric == "accuracy"]
    if not accuracy:
        return joined([name, " cannot be compared: ", data_text(other.reason or "")])
    claim = accuracy[0]
    return joined([name, f" {interval_text(claim.difference, 'points')}, {claim.status}"])


def _data(data: DataConclusion) -> Html:
    lines = [data_text(part) for part in data_parts(data)]
    return _card(QUESTIONS["data"], data.tone, data.status.capitalize(), lines, DATA_AUDIT)
