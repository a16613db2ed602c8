"""The lines that `report` and `compare` print without `--full`.

Bad news is in capital letters, because a terminal may have no colours. A status decides what is bad
news; nothing is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion, DataLeak, leak_prefix
from pact_eval.evaluation.conclusions.order import OrderConclusion, followed_together
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.notes import LowAnswerMass, Unanswered
from pact_eval.evaluation.registry import ABLATED_CONFIDENCE
from pact_eval.evaluation.report import Evaluation
from pact_eval.numbers import rate_text, small_text
from pact_eval.plain_text import one_line, short_names
from pact_reports.table import Line


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
