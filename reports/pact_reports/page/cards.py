"""First screen of a page of two runs: a card per question, with conclusion, numbers and link."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.conclusions.better import BetterConclusion
from pact_eval.evaluation.conclusions.conclusion import QUESTIONS, Question, Said, Tone
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.experiment_conclusions import Conclusions, RunConclusions
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_eval.numbers import at_views, has_width, no_interval, value_text
from pact_reports.markup import Child, Html, data_text, element, joined
from pact_reports.page.data_audit import ANCHOR as DATA_AUDIT
from pact_reports.tables.scorecard import (
    basis_text,
    check_summary,
    compared_text,
    scorecard_legend,
)
from pact_reports.views.brief import beside

if TYPE_CHECKING:
    from pact_eval.preregistration.registration import Registration
    from pact_eval.preregistration.scorecard import (
        CheckComparison,
        HypothesisResult,
        JudgedCheck,
        Scorecard,
    )
    from pact_eval.thresholds.conclusion import Acting


_BETTER: Final = {
    "better": "Better",
    "worse": "Worse",
    "equivalent": "Equivalent",
    "not shown": "Not shown",
    "cannot be compared": "Cannot be compared",
}


def cards_html(
    conclusions: Conclusions,
    names: ArmNames,
    acting: Acting | None = None,
    differences: Html | None = None,
    runs: Sequence[RunConclusions] = (),
) -> Html:
    """Write a card for each question: better, data, order, probabilities, acting alone.

    Args:
        conclusions: on the main arm.
        names: display names of arms.
        acting: whether it may act alone; None if that was not asked.
        differences: the plot of the first card, which has the numbers behind its status.
        runs: all runs; order and probabilities of those that a card does not judge are a line.
    """
    order, probabilities = conclusions.order, conclusions.probabilities
    orders: list[Html | str] = [
        *_order_lines(order),
        *(_beside(names, run.run, run.order.mark) for run in runs if run.run != order.run),
    ]
    confidences: list[Html | str] = [
        _beside(names, run.run, run.probabilities.mark)
        for run in runs
        if run.run != probabilities.run
    ]
    return element(
        "div",
        _better(conclusions, differences),
        _data(conclusions.data),
        _run_card(
            *("order", names.run(order.run), order.words),
            *(order.tone, orders, "diagnostics"),
        ),
        _run_card(
            *("probabilities", names.run(probabilities.run), probabilities.words),
            *(probabilities.tone, confidences, "calibration"),
        ),
        acting_html(acting, names),
        class_="cards",
    )


def _card(
    question: str,
    tone: Tone,
    word: str,
    lines: Sequence[Html | str],
    link: str,
    plot: Html | None = None,
) -> Html:
    """Write one card.

    Args:
        question: its heading.
        tone: decides the colour.
        word: the answer.
        lines: the numbers.
        link: the id of the section that has more.
        plot: numbers that are drawn.
    """
    return element(
        "section",
        element("h3", question),
        element("p", word, class_=f"status {tone}"),
        plot,
        element("ul", *(element("li", line) for line in lines)) if lines else None,
        element("p", element("a", "more", href=f"#{link}", aria_label=f"More on: {question}")),
        class_="card",
    )


def _run_card(
    question: Question, run: str, words: Said, tone: Tone, lines: Sequence[Html | str], link: str
) -> Html:
    """Write the card of a conclusion on one run: its numbers part by part."""
    numbers: list[Html | str] = [data_text(run), *_numbers(words), *lines]
    return _card(QUESTIONS[question], tone, words.finding, numbers, link)


def _beside(names: ArmNames, run: str, mark: str) -> Html:
    return data_text(beside([names.run(run)], [mark]))


def _numbers(words: Said) -> list[str]:
    return [part.strip().removesuffix(".") for part in words.numbers.split(";")]


def acting_html(acting: Acting | None, names: ArmNames) -> Html:
    """Write the card on acting alone: its status, then the share with its condition.

    Args:
        acting: whether the main arm may act alone; None if that was not asked.
        names: display names of arms.
    """
    question = QUESTIONS["acting"]
    if acting is None:
        hint = "give --target-error, such as 0.05"
        return _card(question, "open", "Not asked", [hint], "figures")
    words = acting.words
    share = [words.finding] if acting.status == "share guaranteed" else []
    lines: list[Html | str] = [data_text(names.run(acting.run)), *share, *_numbers(words)]
    return _card(question, acting.tone, acting.status.capitalize(), lines, "figures")


def _order_lines(order: OrderConclusion) -> list[str]:
    """Name the unchecked parts; the reasons are with the diagnostics and in the tables."""
    return [f"not checked: {part.name}" for part in order.unchecked]


def _better(conclusions: Conclusions, differences: Html | None) -> Html:
    others, status = conclusions.better, conclusions.overall
    question = QUESTIONS["better"]
    if not others:
        return _card(question, "open", "Nothing to compare", [], "verdicts")
    lines: list[Html | str] = [data_text(other.reason) for other in others if other.reason]
    if status == "not shown":
        lines += [f"detectable here: {text} points" for text in map(_detectable, others) if text]
    word = _better_word(conclusions)
    return _card(question, others[0].tones[status], word, lines, "verdicts", differences)


def _detectable(other: BetterConclusion) -> str:
    """Write the smallest difference that the items show; "" if it is not known."""
    return "" if math.isnan(other.detectable) else value_text(other.detectable, "percent")


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


def _data(data: DataConclusion) -> Html:
    lines = [data_text(part) for part in data.parts]
    return _card(QUESTIONS["data"], data.tone, data.status.capitalize(), lines, DATA_AUDIT)


_OPEN_COMPARISONS: Final = 2


def criteria_html(
    scorecard: Scorecard | str, registration: Registration | None, names: ArmNames
) -> Html:
    """Write the registration, then every verdict with a line for each of its checks.

    Args:
        scorecard: scorecard of the criteria; or the reason that they cannot be judged, "" if no
            criteria were given.
        registration: status of the registration; if it is broken, verdicts are muted.
        names: display names of arms.
    """
    if isinstance(scorecard, str):
        return _no_verdict(scorecard)
    broken = registration is not None and registration.broken
    items = [_verdict(result, names, muted=broken) for result in scorecard.results]
    caption = f"Differences are first minus second. {scorecard_legend(scorecard)}"
    return joined(
        [
            None if registration is None else _registration(registration),
            element("ul", *items, class_="verdicts"),
            element("p", caption, class_="caption"),
        ]
    )


def _no_verdict(reason: str) -> Html:
    if reason:
        return element("p", "The criteria cannot be judged: ", data_text(reason), ".")
    return element(
        "p",
        "No criteria were given (",
        element("code", "--criteria HYPOTHESES.toml"),
        "), so there are no verdicts. Differences below were not registered.",
    )


def _registration(registration: Registration) -> Html:
    status = registration.status
    look = "bad" if registration.broken else "good" if registration.holds else "open"
    why: Child = None
    if registration.reasons and not registration.holds:
        why = joined([" ", data_text("; ".join(registration.reasons)), "."])
    warns = " The verdicts below prove nothing." if registration.broken else None
    badge = element("span", status, class_=f"verdict {look}")
    return element("p", "Registration: ", badge, why, warns, class_="registration")


def _verdict(result: HypothesisResult, names: ArmNames, *, muted: bool) -> Html:
    look = {"SUPPORTED": "good", "CONTRADICTED": "bad"}.get(result.verdict, "open")
    words = result.shown_words
    lines = [_check(check, names, beside=False) for check in result.checks]
    lines += [_check(check, names, beside=True) for check in result.beside]
    return element(
        "li",
        element("span", result.verdict, class_=f"verdict {'muted' if muted else look}"),
        " ",
        joined([element("strong", data_text(words)), ". "]) if words else None,
        data_text(result.hypothesis.id),
        ": ",
        data_text(result.hypothesis.claim),
        f" ({result.because})",
        element("ul", *lines, class_="evidence"),
    )


def _check(result: JudgedCheck, names: ArmNames, *, beside: bool) -> Html:
    measured = [
        comparison for comparison in result.comparisons if not math.isnan(comparison.difference)
    ]
    label = joined(["not decisive: " if beside else None, data_text(result.check.says), ": "])
    if not measured:
        lacks = "; ".join(dict.fromkeys([result.check.needs or "", *result.reasons]))
        why = joined([" (", data_text(lacks.strip("; ")), ")"]) if lacks.strip("; ") else None
        return element("li", label, result.summary, why)
    lines = [_comparison(comparison, names) for comparison in measured]
    if len(lines) <= _OPEN_COMPARISONS:
        return element("li", label, f"{check_summary(result)}: ", _listed(lines))
    listed = element("ul", *(element("li", line) for line in lines))
    more = element("details", element("summary", f"{len(lines):,} comparisons"), listed)
    return element("li", label, check_summary(result), more)


def _listed(lines: Sequence[Html]) -> Html:
    first, *more = lines
    return joined([first, *(joined(["; ", line]) for line in more)])


def _comparison(comparison: CheckComparison, names: ArmNames) -> Html:
    """Write a comparison: the quantities, the difference with its interval, and its basis."""
    basis = basis_text(comparison)
    interval = comparison.interval
    if interval is not None and not has_width(interval):
        basis += f"; {no_interval(interval)}"
    return joined(
        [
            data_text(compared_text(comparison, names)),
            " ",
            element("strong", data_text(comparison.difference_text)),
            f" ({basis}): {'shown' if comparison.shown else 'by value only'}",
        ]
    )
