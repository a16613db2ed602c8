"""Conclusions in a few words: the lines that `report` and `compare` print without `--full`.

Bad news is in capital letters, because a terminal may have no colours. A status decides what is bad
news; nothing is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pact_eval.data.records import position_name
from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion, DataLeak
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.notes import LowAnswerMass, Unanswered
from pact_eval.evaluation.registry import ABLATED_CONFIDENCE
from pact_eval.evaluation.report import Evaluation
from pact_eval.stats.estimate import Estimate
from pact_reports.numbers import (
    estimate_parts,
    has_width,
    interval_text,
    p_value_text,
    small_text,
    value_text,
)
from pact_reports.plain_text import lower_first, one_line
from pact_reports.sentences.conclusions import (
    UNDIRECTED,
    adjusted_text,
    corp_text,
    data_words,
    ece_text,
    followed_together,
    followed_words,
    gap_text,
    group_words,
    is_other_letter,
    ties_words,
    verb_of,
)
from pact_reports.sentences.data import leak_prefix
from pact_reports.table import Line

_LONGEST_NAME: Final = 32
_MOST_NAMES: Final = 4


def short_names(names: Sequence[str], longest: int = _LONGEST_NAME) -> tuple[str, ...]:
    """Cut the middle out of names that are too long for a line, if they still differ.

    Args:
        names: from data.
        longest: number of characters that a name may have.

    Example:
        >>> short_names(["pact", "a-recipe-with-a-long-name/and-a-seed-17"])
        ('pact', 'a-recipe-with-...and-a-seed-17')
    """
    side = (longest - 3) // 2
    safe = [one_line(name) for name in names]
    cut = [name if len(name) <= longest else f"{name[:side]}...{name[-side:]}" for name in safe]
    return tuple(cut if len(set(cut)) == len(set(safe)) else safe)


def loud(conclusion: Conclusion, finding: str) -> str:
    """Write a finding in capital letters if it is bad news, and otherwise in small ones."""
    if conclusion.tone == "bad":
        return finding.upper()
    return lower_first(finding)


def report_line(evaluation: Evaluation, leak: DataLeak | None = None) -> str:
    """Write how many answers of a run are right, and what else is bad news.

    Args:
        evaluation: of a run on full contexts, with its conclusions.
        leak: of its data; it comes first.

    Example:
        "letters answers 63.5% [58.6, 68.1] right, and FOLLOWS THE LETTER A."
    """
    (name,) = short_names([evaluation.run or "The run"])
    answered = next((note for note in evaluation.notes if isinstance(note, Unanswered)), None)
    of_them = "" if answered is None else f" of the {answered.answered:,} answered items"
    accuracy = rate_text(evaluation.groups[0].estimates["accuracy"])
    news = [*_bad_news(evaluation.conclusions)]
    if LowAnswerMass.of(evaluation.mean_answer_mass) is not None:
        news.append(f"has an ANSWER MASS OF {small_text(evaluation.mean_answer_mass, 'percent')}%")
    if len(news) > 1:
        listed = f", {', '.join(news[:-1])} and {news[-1]}"
    else:
        listed = f", and {news[0]}" if news else ""
    return f"{leak_prefix(leak)}{name} answers {accuracy}{of_them} right{listed}."


def mass_lines(masses: Mapping[str, float]) -> tuple[Line, ...]:
    """Write the answer masses of runs, or arms, if one of them is low.

    Args:
        masses: by name; NaN if unknown.

    Example:
        "LOW ANSWER MASS: a 0.008%, b 98.8% of the probability is on the answer letters."
    """
    if all(LowAnswerMass.of(mass) is None for mass in masses.values()):
        return ()
    known = {name: mass for name, mass in masses.items() if not math.isnan(mass)}
    told = ", ".join(f"{name} {small_text(mass, 'percent')}%" for name, mass in known.items())
    text = f"LOW ANSWER MASS: {told} of the probability is on the answer letters."
    return (Line(one_line(text), "bad"),)


def answer_line(evaluation: Evaluation, leak: DataLeak | None = None) -> str:
    """Write the first line on a run, on full or ablated contexts; arguments as `report_line`."""
    write = ablated_line if evaluation.contexts == "ablated" else report_line
    return write(evaluation, leak)


def ablated_line(evaluation: Evaluation, leak: DataLeak | None = None) -> str:
    """Write how sure a run is on contexts without the evidence.

    Args:
        evaluation: of a run on ablated contexts.
        leak: of its data; it comes first.

    Example:
        "ablated is 88.4% [77.2, 92.5] confident on contexts without the evidence."
    """
    (name,) = short_names([evaluation.run or "The run"])
    confidence = rate_text(evaluation.groups[0].estimates[ABLATED_CONFIDENCE])
    text = f"{name} is {confidence} confident on contexts without the evidence"
    return f"{leak_prefix(leak)}{text}."


def _bad_news(conclusions: Sequence[Conclusion]) -> Iterator[str]:
    """Yield what a run does badly, as verbs; a leak has a line of its own."""
    for conclusion in conclusions:
        if conclusion.tone != "bad" or conclusion.status == "leak":
            continue
        match conclusion:
            case OrderConclusion():
                followed = conclusion.followed
                yield followed_together(followed).upper() if followed else "is UNSTABLE"
            case ProbabilitiesConclusion():
                yield f"is {conclusion.status.partition(' ')[0].upper()}"
            case DataConclusion():
                yield "its data has PROBLEMS"


def rate_text(estimate: Estimate) -> str:
    """Write a rate in percent, with its interval or why it has none.

    Example:
        >>> rate_text(Estimate(0.635, 0.586, 0.681, 400, 200))
        '63.5% [58.6, 68.1]'
    """
    if math.isnan(estimate.value) or not has_width(estimate):
        return interval_text(estimate, "percent", "%")
    value, interval = estimate_parts(estimate, "percent")
    return f"{value}% {interval}"


def order_text(conclusion: OrderConclusion) -> str:
    """Write the conclusion on the order of one run on a line.

    Example:
        "FOLLOWS THE LETTER A: chosen 24.2 points [21.8, 26.7] above chance (p < 0.001); ..."
    """
    flips = conclusion.flip_rate
    ties = ties_words(conclusion.ties.tied, conclusion.ties.views)
    match conclusion.status:
        case "follows a letter" | "follows a position":
            first, *others = conclusion.followed
            letters = [
                slot
                for slot in others
                if is_other_letter(slot, first)
                and not math.isclose(slot.preference.value, first.preference.value)
            ]
            also = "".join(f", also {position_name(slot.slot)}" for slot in letters)
            test = p_value_text(first.adjusted_p_value)
            where = f"{group_words(first, conclusion.unit)}{also}"
            finding = loud(conclusion, followed_together(conclusion.followed))
            change = value_text(flips.value, "percent")
            points = _from_chance(first.preference, interval=True)
            return f"{finding}: chosen {points} ({test}){where}; {change}% of answers change{ties}"
        case "cannot tell":
            known = "" if math.isnan(flips.value) else f"{rate_text(flips)} of answers change; "
            return f"cannot tell: {known}{one_line(str(conclusion.reason))}"
        case status:
            return f"{loud(conclusion, status)}: {rate_text(flips)} of answers change{ties}"


def _from_chance(preference: Estimate, *, interval: bool = False) -> str:
    """Write how far the share of views that choose a slot is from that of permuted answers.

    Example:
        "24.2 points [21.8, 26.7] above chance"
    """
    above = preference.value > 0
    distance = preference if above else preference.negated
    value, ends = estimate_parts(distance, "percent")
    points = f"{value} points {ends}" if interval and ends else f"{value} points"
    return f"{points} {'above' if above else 'below'} chance"


def order_mark(conclusion: OrderConclusion) -> str:
    """Write the same beside other runs.

    Example:
        "FOLLOWS THE LETTER A (chosen 24.2 points above chance)"
    """
    if conclusion.followed:
        first = conclusion.followed[0]
        points = _from_chance(first.preference)
        if first.group is not None:
            points = f"{_from_chance(first.group.inside)} there"
        return f"{loud(conclusion, followed_words(first))} (chosen {points})"
    if conclusion.status == "cannot tell":
        return order_text(conclusion)
    changes = value_text(conclusion.flip_rate.value, "percent")
    return f"{loud(conclusion, conclusion.status)} ({changes}% of answers change)"


def order_word(conclusion: OrderConclusion) -> str:
    """Write the same in a cell of a table.

    Example:
        "FOLLOWS A"
    """
    if conclusion.followed:
        first = conclusion.followed[0]
        where = "the last place" if first.slot < 0 else position_name(first.slot)
        return loud(conclusion, f"{verb_of(first)} {where}")
    return loud(conclusion, conclusion.status)


def probabilities_text(conclusion: ProbabilitiesConclusion) -> str:
    """Write the conclusion on the probabilities of one run on a line.

    Example:
        "OVER-CONFIDENT: says 78.7%, is 63.5% right (ECE 15.6, chance 4.7; p < 0.001)"
    """
    if conclusion.status == "cannot tell":
        return f"cannot tell: {one_line(str(conclusion.reason))}"
    says, right = (
        value_text(share, "percent") for share in (conclusion.confidence, conclusion.accuracy)
    )
    details = [gap_text(conclusion)] if conclusion.status in UNDIRECTED else []
    details.append(ece_text(conclusion, "chance"))
    if conclusion.only_corp:
        details.append(corp_text(conclusion, "chance"))
    if conclusion.tone == "bad" or conclusion.shown_alone:
        details.append(adjusted_text(conclusion))
    finding = loud(conclusion, conclusion.status)
    return f"{finding}: says {says}%, is {right}% right ({'; '.join(details)})"


def probabilities_mark(conclusion: ProbabilitiesConclusion) -> str:
    """Write the same beside other runs.

    Example:
        "OVER-CONFIDENT (says 78.7%, is 63.5% right)"
    """
    if conclusion.status == "cannot tell":
        return probabilities_text(conclusion)
    finding = loud(conclusion, conclusion.status)
    if conclusion.status == "no error shown":
        return finding
    says, right = (
        value_text(share, "percent") for share in (conclusion.confidence, conclusion.accuracy)
    )
    return f"{finding} (says {says}%, is {right}% right)"


def probabilities_word(conclusion: ProbabilitiesConclusion) -> str:
    """Write the same in a cell of a table.

    Example:
        "OVER-CONFIDENT"
    """
    return loud(conclusion, conclusion.status.partition(" other")[0])


def beside(names: Sequence[str], marks: Sequence[str]) -> str:
    """Write what is said of several runs, each once.

    Example:
        >>> beside(["a", "b"], ["FOLLOWS THE LETTER A", "stable (0.0% of answers change)"])
        'a FOLLOWS THE LETTER A; b: stable (0.0% of answers change)'
        >>> beside(["a", "b"], ["no error shown", "no error shown"])
        'both: no error shown'
    """
    if len(marks) > 1 and len(set(marks)) == 1:
        return f"{'both' if len(marks) == 2 else 'all'}: {marks[0]}"
    pairs = zip(names, marks, strict=True)
    return "; ".join(f"{name}{' ' if mark[0].isupper() else ': '}{mark}" for name, mark in pairs)


def data_text(conclusion: DataConclusion) -> str:
    """Write the conclusion on data on a line or two."""
    words = data_words(conclusion)
    return f"{loud(conclusion, words.finding)}: {words.numbers.removesuffix('.')}"


def acting_line(conclusion: Conclusion) -> str:
    """Write the conclusion on acting alone on a line or two."""
    # Only this question needs the code that chooses gates.
    from pact_eval.thresholds.conclusion import Acting
    from pact_reports.sentences.thresholds import acting_text

    if not isinstance(conclusion, Acting):
        message = f"expected an Acting, got a {type(conclusion).__name__}"
        raise TypeError(message)
    return loud(conclusion, acting_text(conclusion))


def not_known_text(conclusions: Sequence[Conclusion]) -> str:
    """Name what was not checked, with the reasons; "" if all was.

    The lines on data and on acting alone name theirs.
    """
    parts = dict.fromkeys(
        part
        for conclusion in conclusions
        if conclusion.question not in ("data", "acting")
        for part in conclusion.unchecked
    )
    return ", ".join(f"{one_line(part.name)} ({one_line(part.reason)})" for part in parts)
