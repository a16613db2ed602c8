"""Conclusions in words: one finding and its numbers, the same on every surface.

No rule is here: a status has one finding, and the numbers are those that the conclusion holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pact_eval._choices import ClusterUnit
from pact_eval.data.records import position_name
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion, DataLeak
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.stats.permuted_slots import Group, SlotPreference
from pact_reports.numbers import (
    CLUSTERS,
    interval_text,
    p_value_text,
    value_text,
)
from pact_reports.plain_text import lower_first, one_line
from pact_reports.sentences.data import data_parts, leak_prefix

QUESTIONS: Final = {
    "better": "Is it better?",
    "data": "Is the data sound?",
    "order": "Follows the order?",
    "probabilities": "Probabilities right?",
    "acting": "May it act alone?",
}
"""The question of a reader that a conclusion answers."""

_MOST_LETTERS: Final = 2

NOT_SHOWN: Final = "No accuracy difference shown"
"""The finding if neither run, or arm, is shown to be better."""


@dataclass(frozen=True)
class Said:
    """A conclusion in words.

    Attributes:
        finding: its status, as a phrase that begins with a capital letter.
        numbers: what the status rests on; "" if there is nothing.
    """

    finding: str
    numbers: str = ""

    def __str__(self) -> str:
        return f"{self.finding}: {self.numbers}" if self.numbers else f"{self.finding}."


def beside_leak(words: Said, leak: DataLeak | None) -> Said:
    """Begin a headline with the leak of its data, so that it is not quoted without it.

    Examples:
        >>> leak = DataLeak(("i", "j"), ("f",), ("train.jsonl",))
        >>> beside_leak(Said("a is better"), leak).finding
        'Leak of 2 items; a is better'
        >>> beside_leak(Said(NOT_SHOWN), leak).finding
        'Leak of 2 items; no accuracy difference shown'
    """
    prefix, finding = leak_prefix(leak), words.finding
    if prefix and finding.startswith(NOT_SHOWN):  # other findings begin with a name
        finding = lower_first(finding)
    return replace(words, finding=f"{prefix}{finding}")


def data_words(conclusion: DataConclusion) -> Said:
    """Write the conclusion on the data of runs, with leaks and open questions.

    Examples:
        >>> str(data_words(DataConclusion.without_audit("give --data")))
        'Not checked: give --data.'
    """
    parts = "; ".join(map(one_line, data_parts(conclusion)))
    return Said(conclusion.status.capitalize(), f"{parts}.")


def order_words(conclusion: OrderConclusion) -> Said:
    """Write the conclusion on the order of the answers.

    Example:
        "Follows the letter A: chosen in 84.0% of views with it, 41.0% by chance: +43.0 points ..."

    Of a run of which nothing can be told, the share that changes is still known:
        "Cannot tell: 12.5 [9.6, 16.1]% of the answers change with the order: ..."
    """
    flips = conclusion.flip_rate
    share = f"{interval_text(flips, 'percent', '%')} of the answers change"
    ties = ties_words(conclusion.ties.tied, conclusion.ties.views)
    change = f"{share} with the order"
    match conclusion.status:
        case "follows a letter" | "follows a position":
            first = conclusion.followed[0]
            more = [slot for slot in conclusion.followed[1:] if is_other_letter(slot, first)]
            rest = "".join(f"; also {followed_words(slot)}" for slot in more[:_MOST_LETTERS])
            finding = followed_together(conclusion.followed)
            sentence = f"{finding[0].upper()}{finding[1:]}"
            return Said(sentence, f"{_preference(first, conclusion.unit)}{rest}; {share}{ties}.")
        case "unstable":
            return Said(
                "Unstable", f"{change}; no letter or position is shown to be preferred{ties}."
            )
        case "stable":
            most = value_text(flips.high, "percent")
            return Said("Stable", f"{change}, at most {most}%{ties}.")
        case "cannot tell":
            known = "" if math.isnan(flips.value) else f"{change}: "
            return Said("Cannot tell", f"{known}{one_line(str(conclusion.reason))}.")


def ties_words(tied: int, views: int) -> str:
    """Say how tied answers are counted; nothing without ties.

    Examples:
        >>> ties_words(3, 240), ties_words(0, 240)
        ('; 3 of 240 views tie: each tied letter has a share of the choice', '')
    """
    if not tied:
        return ""
    return f"; {tied:,} of {views:,} views tie: each tied letter has a share of the choice"


def is_other_letter(slot: SlotPreference, first: SlotPreference) -> bool:
    """Return whether a letter is followed beside another; the rest are avoided because of it."""
    return slot.slot >= 0 and first.slot >= 0 and slot.preference.value > 0


def verb_of(slot: SlotPreference) -> str:
    """Return "follows" or "avoids"."""
    return "follows" if slot.preference.value > 0 else "avoids"


def followed_words(slot: SlotPreference) -> str:
    """Write that a letter or position is followed or avoided, and in which items.

    Examples:
        "follows the letter A in questions of 6 answers", "follows D, the last place"
    """
    where = f"the letter {position_name(slot.slot)}"
    if slot.is_last:
        where = "the last place" if slot.slot < 0 else f"{position_name(slot.slot)}, the last place"
    of = "" if slot.group is None else f" in {group_name(slot.group.group)}"
    return f"{verb_of(slot)} {where}{of}"


def group_name(group: Group) -> str:
    """Name a group of items.

    Examples:
        >>> group_name(6), group_name("choice")
        ('questions of 6 answers', 'choice questions')
    """
    return f"questions of {group} answers" if isinstance(group, int) else f"{group} questions"


def group_words(slot: SlotPreference, unit: ClusterUnit) -> str:
    """Write a preference in the group of items in which it lives, and elsewhere; "" without one.

    Args:
        slot: that is followed or avoided.
        unit: units of the intervals.

    Example:
        ", there +29.4 [+16.8, +45.6] (15 families), elsewhere +3.2 [-0.8, +7.1]"
    """
    if slot.group is None:
        return ""
    inside, outside = (
        interval_text(side, "points") for side in (slot.group.inside, slot.group.outside)
    )
    families = f"{slot.group.inside.clusters:,} {CLUSTERS[unit]}"
    return f", there {inside} ({families}), elsewhere {outside}"


def followed_together(followed: Sequence[SlotPreference]) -> str:
    """Write which letters are followed equally, such as "follows the letters A and B".

    Args:
        followed: letters and positions, those that are followed most first.
    """
    first = followed[0]
    equal = [
        slot
        for slot in followed
        if slot.slot >= 0 and math.isclose(slot.preference.value, first.preference.value)
    ]
    if len(equal) < 2 or first.slot < 0:
        return followed_words(first)
    *most, last = (position_name(slot.slot) for slot in equal)
    return f"{verb_of(first)} the letters {', '.join(most)} and {last}"


def _preference(slot: SlotPreference, unit: ClusterUnit) -> str:
    chosen, chance = (value_text(share, "percent") for share in (slot.chosen, slot.chance))
    points = interval_text(slot.preference, "points", " points")
    test = p_value_text(slot.adjusted_p_value)
    return (
        f"chosen in {chosen}% of views with it, {chance}% by chance: {points} ({test})"
        f"{group_words(slot, unit)}"
    )


def probabilities_words(conclusion: ProbabilitiesConclusion) -> Said:
    """Write the conclusion on the probabilities of a run.

    Example:
        "Over-confident: mean confidence 73.1%, accuracy 52.0%; ECE 21.3%, by chance 5.0% ..."
    """
    if conclusion.status == "cannot tell":
        return Said("Cannot tell", f"{one_line(str(conclusion.reason))}.")
    confidence, accuracy = (
        value_text(share, "percent") for share in (conclusion.confidence, conclusion.accuracy)
    )
    numbers = f"mean confidence {confidence}%, accuracy {accuracy}%"
    details = [ece_text(conclusion, "by chance", "%")]
    if conclusion.status in UNDIRECTED:
        numbers += f", {gap_text(conclusion)}"
    if conclusion.only_corp:
        details.append(corp_text(conclusion, "by chance"))
    details.append(adjusted_text(conclusion))
    return Said(conclusion.status.capitalize(), f"{numbers}; {'; '.join(details)}.")


UNDIRECTED: Final = ("miscalibrated", "no error shown")
"""Statuses whose sentence has the interval of the gap."""


def gap_text(conclusion: ProbabilitiesConclusion) -> str:
    """Write confidence minus accuracy with its interval, which tells how much a mean may hide.

    Example:
        "gap +4.6 [-1.2, +9.9] points"
    """
    return f"gap {interval_text(conclusion.gap, 'points', ' points')}"


def ece_text(conclusion: ProbabilitiesConclusion, by_chance: str, unit: str = "") -> str:
    """Write the ECE next to that of a calibrated model, with the number of bins if it is unusual.

    Example:
        "ECE (30 bins) 7.7%, by chance 6.7%"
    """
    ece = conclusion.ece
    value = f"{value_text(ece.value, 'percent')}{unit}"
    if not isinstance(ece, CalibrationError):
        return f"ECE {value}"
    bins = "" if ece.bins == CalibrationError.bins else f" ({ece.bins} bins)"
    return f"ECE{bins} {value}, {by_chance} {value_text(ece.floor, 'percent')}{unit}"


def corp_text(conclusion: ProbabilitiesConclusion, by_chance: str) -> str:
    """Write the miscalibration without bins next to that of a calibrated model.

    Example:
        "CORP miscalibration 0.0201, by chance 0.0007"
    """
    corp = conclusion.corp
    return f"CORP miscalibration {corp.value:.4f}, {by_chance} {corp.floor:.4f}"


def adjusted_text(conclusion: ProbabilitiesConclusion) -> str:
    """Write the smallest p-value after adjustment.

    If a test alone would show an error, but not the three together, the text says so.

    Example:
        "p = 0.011"
    """
    p_value = p_value_text(conclusion.p_value)
    return f"{p_value} after adjustment for three tests" if conclusion.shown_alone else p_value


_NAMES: Final = {
    "order": "Order",
    "probabilities": "Probabilities",
    "data": "Data",
    "acting": "Acting alone",
}


def conclusion_words(conclusion: Conclusion) -> Said:
    """Write a conclusion on one run."""
    match conclusion:
        case DataConclusion():
            return data_words(conclusion)
        case OrderConclusion():
            return order_words(conclusion)
        case ProbabilitiesConclusion():
            return probabilities_words(conclusion)
    if conclusion.question == "acting":
        return _acting_words(conclusion)
    message = f"no words for {type(conclusion).__name__}"
    raise TypeError(message)


def _acting_words(conclusion: Conclusion) -> Said:
    """Write the conclusion on acting alone; import the choice of gates only if needed."""
    from pact_eval.thresholds.conclusion import Acting
    from pact_reports.sentences.thresholds import acting_words

    if not isinstance(conclusion, Acting):
        message = f"expected an Acting, got a {type(conclusion).__name__}"
        raise TypeError(message)
    return acting_words(conclusion)


def conclusion_line(conclusion: Conclusion) -> str:
    """Write a conclusion on one run as a line, with its subject.

    Example:
        "Order: stable: at most 4.1% of the answers change: 2.0 [0.8, 4.1]% ..."
    """
    words = conclusion_words(conclusion)
    words = replace(words, finding=lower_first(words.finding))
    return f"{_NAMES[conclusion.question]}: {words}"
