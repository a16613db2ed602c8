"""First screen of a page of two runs: a card per question, and the verdicts on hypotheses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.conclusions.better import BetterConclusion
from pact_eval.evaluation.conclusions.conclusion import QUESTIONS, Question, Sentence, Tone
from pact_eval.evaluation.conclusions.experiment_conclusions import Conclusions, RunConclusions
from pact_eval.numbers import at_views, has_width, no_interval, value_text
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_eval.preregistration.scorecard import CheckComparison, JudgedCheck
from pact_eval.thresholds.conclusion import Acting
from pact_reports.page.html import data_text
from pact_reports.page.item_links import DATA_AUDIT
from pact_reports.tables.scorecard import (
    basis_text,
    check_summary,
    compared_text,
    scorecard_legend,
)
from pact_reports.views.brief import beside


@dataclass(frozen=True)
class Card:
    """The answer to a question.

    Attributes:
        question: its heading.
        tone: decides the colour.
        word: the answer.
        lines: the numbers; text from data is `data_text`.
        link: the id of the section that has more.
        forest: a plot of differences, or why there is none; None without.
    """

    question: str
    tone: Tone
    word: str
    lines: Sequence[str]
    link: str
    forest: dict[str, Any] | str | None = None


def make_cards(
    conclusions: Conclusions,
    names: ArmNames,
    acting: Acting | None = None,
    forest: dict[str, Any] | str | None = None,
    runs: Sequence[RunConclusions] = (),
) -> list[Card]:
    """Return a card for each question: better, data, order, probabilities, acting alone.

    Args:
        conclusions: on the main arm.
        names: display names of arms.
        acting: whether it may act alone; None if that was not asked.
        forest: the plot of the first card, which has the numbers behind its status.
        runs: all runs; order and probabilities of those that a card does not judge are a line.
    """
    data, order, probabilities = conclusions.data, conclusions.order, conclusions.probabilities

    def card(question: Question, of: Any, link: str, more: Sequence[str]) -> Card:
        """Return the card of a conclusion on one run: its numbers part by part."""
        others = [run for run in runs if run.run != of.run]
        marks = [
            data_text(beside([names.run(run.run)], [getattr(run, question).mark])) for run in others
        ]
        lines = [data_text(names.run(of.run)), *_numbers(of.words), *more, *marks]
        return Card(QUESTIONS[question], of.tone, of.words.finding, lines, link)

    # The reasons for unchecked parts are with the diagnostics and in the tables.
    unchecked = [f"not checked: {part.name}" for part in order.unchecked]
    parts = [data_text(part) for part in data.parts]
    return [
        _better(conclusions, forest),
        Card(QUESTIONS["data"], data.tone, data.status.capitalize(), parts, DATA_AUDIT),
        card("order", order, "diagnostics", unchecked),
        card("probabilities", probabilities, "calibration", []),
        acting_card(acting, names),
    ]


def _numbers(words: Sentence) -> list[str]:
    return [part.strip().removesuffix(".") for part in words.numbers.split(";")]


def acting_card(acting: Acting | None, names: ArmNames) -> Card:
    """Return the card on acting alone: its status, then the share with its condition.

    Args:
        acting: whether the main arm may act alone; None if that was not asked.
        names: display names of arms.
    """
    question = QUESTIONS["acting"]
    if acting is None:
        hint = "give --target-error, such as 0.05"
        return Card(question, "open", "Not asked", [hint], "figures")
    words = acting.words
    lines = [data_text(names.run(acting.run)), *_numbers(words)]
    return Card(question, acting.tone, acting.status.capitalize(), lines, "figures")


def _better(conclusions: Conclusions, forest: dict[str, Any] | str | None) -> Card:
    others, status = conclusions.better, conclusions.overall
    question = QUESTIONS["better"]
    if not others:
        return Card(question, "open", "Nothing to compare", [], "verdicts")
    lines: list[str] = [data_text(other.reason) for other in others if other.reason]
    if status == "not shown":
        known = (other.detectable for other in others if not math.isnan(other.detectable))
        lines += [f"detectable here: {value_text(value, 'percent')} points" for value in known]
    word = ", ".join(_better_words(others)) if len(others) == 1 else status.capitalize()
    return Card(question, others[0].tones[status], word, lines, "verdicts", forest)


def _better_words(others: Sequence[BetterConclusion]) -> Iterator[str]:
    """Return the status against one other arm, with the decoding if they differ."""
    (other,) = others
    claims = other.of("accuracy")
    if len({claim.status for claim in claims}) < 2:
        yield other.status.capitalize()
        return
    for at, claim in enumerate(claims):
        status = claim.status if at else claim.status.capitalize()
        yield f"{status} {at_views(claim.k, claim.repeats)}"


def verdicts(judged: JudgedHypotheses, names: ArmNames) -> dict[str, Any]:
    """Return the registration and every verdict with its checks, as a template writes them.

    Args:
        judged: the scorecard, and what the lock proves.
        names: display names of arms.
    """
    checks = [
        [
            *(_check(check, names, beside=False) for check in result.checks),
            *(_check(check, names, beside=True) for check in result.beside),
        ]
        for result in judged.scorecard.results
    ]
    return {
        "registration": judged.registration,
        "results": list(zip(judged.scorecard.results, checks, strict=True)),
        "legend": scorecard_legend(judged.scorecard),
    }


def _check(result: JudgedCheck, names: ArmNames, *, beside: bool) -> dict[str, Any]:
    """Return a check: its comparisons, or what it lacks."""
    measured = [
        comparison for comparison in result.comparisons if not math.isnan(comparison.difference)
    ]
    return {
        "says": result.check.says,
        "beside": beside,
        "summary": check_summary(result) if measured else result.summary,
        "lacks": "; ".join(dict.fromkeys([result.check.needs or "", *result.reasons])).strip("; "),
        "comparisons": [
            {
                "compared": compared_text(comparison, names),
                "difference": comparison.difference_text,
                "basis": _basis(comparison),
                "shown": comparison.shown,
            }
            for comparison in measured
        ],
    }


def _basis(comparison: CheckComparison) -> str:
    interval = comparison.interval
    if interval is None or has_width(interval):
        return basis_text(comparison)
    return f"{basis_text(comparison)}; {no_interval(interval)}"
