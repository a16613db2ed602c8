"""The first screen of a page: four questions, each with a status, its numbers and a link."""

from __future__ import annotations

import math
from typing import Final

from pact_eval.evaluation import (
    BetterCard,
    Cards,
    DataConclusion,
    Lead,
    LettersCard,
    ProbabilitiesCard,
)
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.prompts import position_name
from pact_reports.arm_names import ArmNames
from pact_reports.markup import Html, data_text, element, joined
from pact_reports.numbers import interval_text, p_value_text, value_text
from pact_reports.page.data_audit import ANCHOR as DATA_AUDIT
from pact_reports.sentences.data import leak_sentence, unchecked_sentence

_MOST_LEADS: Final = 3
_TONES: Final = {
    "better": "good",
    "answers": "good",
    "no error shown": "good",
    "worse": "bad",
    "letters": "bad",
    "over-confident": "bad",
    "under-confident": "bad",
}


def cards_html(cards: Cards, names: ArmNames) -> Html:
    """Write the four cards: is it better, is the data sound, answers or letters, probabilities?

    Args:
        cards: what they show.
        names: display names of arms.
    """
    return element(
        "div",
        _better(cards.better, names),
        _data(cards.data),
        _letters(cards.letters, names),
        _probabilities(cards.probabilities, names),
        class_="cards",
    )


def _card(
    question: str, status: str, word: str, lines: list[Html | str], link: str, tone: str = ""
) -> Html:
    """Write one card.

    Args:
        question: its heading.
        status: decides the colour, unless a tone does.
        word: the answer.
        lines: the numbers.
        link: the id of the section that has more.
        tone: good, bad or open; by default that of the status.
    """
    tone = tone or _TONES.get(status, "open")
    return element(
        "section",
        element("h3", question),
        element("p", word, class_=f"status {tone}"),
        element("ul", *(element("li", line) for line in lines)),
        element("p", element("a", "more", href=f"#{link}", aria_label=f"More on: {question}")),
        class_="card",
    )


def _better(card: BetterCard, names: ArmNames) -> Html:
    words = {
        "better": "Better",
        "worse": "Worse",
        "not shown": "Not shown",
        "nothing to compare": "Nothing to compare",
    }
    method = data_text(names.arm(card.method))
    lines: list[Html | str] = []
    if len(card.leads) == 1:
        lines.append(_only_lead(method, names.arm(card.leads[0].arm), card.leads[0]))
    elif card.leads:
        lines.append(joined(["points of accuracy, ", method, " minus"]))
        lines += [_lead(names.arm(lead.arm), lead) for lead in card.leads[:_MOST_LEADS]]
    if len(card.leads) > _MOST_LEADS:
        lines.append(f"and {len(card.leads) - _MOST_LEADS} more arms")
    return _card("Is it better?", card.status, words[card.status], lines, "comparison")


def _only_lead(method: Html, other: str, lead: Lead) -> Html:
    """Write the only lead of a card: at view 0 and over K views."""
    numbers = [f"{interval_text(lead.difference, 'points')} points of accuracy"]
    if lead.by_views:
        numbers = [
            f"{interval_text(found, 'points')} points of accuracy, "
            f"{'view 0' if k == 1 else f'{k} views'}"
            for k, found in lead.by_views.items()
        ]
    first: list[Html | str] = [method, " - ", data_text(other), f": {numbers[0]}"]
    return joined([*first, *(element("br") for _ in numbers[1:]), *numbers[1:]])


def _lead(other: str, lead: Lead) -> Html:
    """Write one of several leads, on a line if the name is short.

    The test decides, so an interval that excludes 0 needs the word if its difference is not shown.
    """
    found = lead.difference
    known = math.isfinite(found.low)
    word = ", shown" if lead.shown else "" if known and not found.excludes_zero else ", not shown"
    return joined([data_text(other), f" {interval_text(found, 'points')}{word}"])


def _data(card: DataConclusion) -> Html:
    lines: list[Html | str] = []
    if card.leak is not None:
        lines.append(data_text(leak_sentence(card.leak)))
    if card.status == "not checked":
        lines.append(data_text(card.unchecked[0].reason))
    else:
        lines.append(f"{card.records:,} records")
        lines.append(f"{card.errors:,} errors, {card.warnings:,} warnings")
        if card.failed:
            lines.append(f"checks: {', '.join(card.failed)}")
        if card.unchecked:
            lines.append(data_text(unchecked_sentence(card.unchecked)))
    word = card.status.capitalize()
    return _card("Is the data sound?", card.status, word, lines, DATA_AUDIT, card.tone)


def _letters(card: LettersCard, names: ArmNames) -> Html:
    words = {
        "answers": "Answers",
        "letters": "Letters",
        "not shown": "Not shown",
        "unknown": "One view: unknown",
    }
    lines: list[Html | str] = [data_text(names.run(card.run))]
    if not math.isnan(card.flip_rate.value):
        rate = interval_text(card.flip_rate, "percent", "%")
        lines.append(f"{rate} of the answers change with the letters")
    found = "shown" if card.biased else "not shown"
    bias = f"letter bias {found} ({p_value_text(card.letters.p_value)})"
    never = [position_name(slot) for slot in card.letters.never_chosen]
    lines.append(f"{bias}; never chosen: {', '.join(never)}" if never else bias)
    return _card("Answers or letters?", card.status, words[card.status], lines, "diagnostics")


def _probabilities(card: ProbabilitiesCard, names: ArmNames) -> Html:
    words = {
        "over-confident": "Over-confident",
        "under-confident": "Under-confident",
        "no error shown": "No error shown",
        "unknown": "Unknown",
    }
    lines: list[Html | str] = [
        data_text(names.run(card.run)),
        f"mean confidence {value_text(card.confidence, 'percent')}%, accuracy "
        f"{value_text(card.accuracy, 'percent')}%",
    ]
    ece = card.ece
    if isinstance(ece, CalibrationError):
        found, chance = (value_text(each, "percent") for each in (ece.value, ece.floor))
        lines.append(f"ECE {found}%; by chance {chance}% ({p_value_text(ece.p_value)})")
    return _card("Probabilities?", card.status, words[card.status], lines, "calibration")
