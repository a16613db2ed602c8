"""Conclusion on the data as sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pact_eval.evaluation.conclusions.conclusion import Unchecked
from pact_eval.evaluation.conclusions.data import DataConclusion, DataLeak
from pact_reports.numbers import value_text
from pact_reports.plain_text import lower_first, one_line
from pact_reports.table import Line


def leak_sentence(leak: DataLeak) -> str:
    """Name the leaked items, and their effect on accuracy.

    Examples:
        >>> leak_sentence(DataLeak(("a-base", "a-cf"), ("a",), ("train.jsonl",)))
        '2 items (1 family) are also in train.jsonl'
    """
    items = f"{len(leak.items):,} item{'' if len(leak.items) == 1 else 's'}"
    families = f"{len(leak.families):,} famil{'y' if len(leak.families) == 1 else 'ies'}"
    verb = "is" if len(leak.items) == 1 else "are"
    also = f"{verb} also in {', '.join(map(one_line, leak.files))}"
    if leak.left_out:
        return f"left out of all numbers: the families of {items} ({families}) that {also}"
    text = f"{items} ({families}) {also}"
    if leak.accuracy is None or leak.accuracy_without is None:
        return text
    judged = "" if leak.judged is None else f" of {one_line(leak.judged)}"
    if math.isnan(leak.accuracy_without.value):
        accuracy = value_text(leak.accuracy.value, "percent")
        return f"{text}; accuracy{judged} {accuracy}%, all of it on items of these families"
    accuracy, without = (
        value_text(estimate.value, "percent") for estimate in (leak.accuracy, leak.accuracy_without)
    )
    return f"{text}; accuracy{judged} {accuracy}%, {without}% without them"


def unchecked_list(unchecked: Sequence[Unchecked]) -> str:
    """List the unchecked parts, with the reasons.

    Examples:
        >>> unchecked_list([Unchecked(name, "one file") for name in ("separation", "shortcuts")])
        'not checked: separation, shortcuts (one file)'
    """
    reasons: dict[str, list[str]] = {}
    for part in unchecked:
        reasons.setdefault(part.reason, []).append(part.name)
    listed = (f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
    return f"not checked: {', '.join(listed)}"


def data_parts(conclusion: DataConclusion) -> Iterator[str]:
    """Yield the basis of the status of the data: leak, changed files, counts, open questions.

    Examples:
        >>> list(data_parts(DataConclusion.without_audit("give --data")))
        ['give --data']
    """
    if conclusion.leak is not None:
        yield leak_sentence(conclusion.leak)
    for manifest in conclusion.changed:
        yield f"a scored file is not the one of {manifest}"
    if conclusion.status == "not checked" or not conclusion.checks:
        yield from conclusion.open_reasons
        return
    yield f"{conclusion.records:,} records"
    yield f"{conclusion.errors:,} errors, {conclusion.warnings:,} warnings"
    if conclusion.failed:
        yield f"checks: {', '.join(conclusion.failed)}"
    if conclusion.unchecked:
        yield unchecked_list(conclusion.unchecked)


def leak_prefix(leak: DataLeak | None) -> str:
    """Return the prefix of a headline on leaked data, so it is not quoted without it.

    Examples:
        >>> leak_prefix(DataLeak(("i", "j"), ("f",), ("train.jsonl",))) + "a is better"
        'Leak of 2 items; a is better'
    """
    if leak is None or leak.left_out:
        return ""
    items = "1 item" if len(leak.items) == 1 else f"{len(leak.items):,} items"
    return f"Leak of {items}; "


def after_leak(sentence: str, leak: DataLeak | None) -> str:
    """Begin a sentence with the leak; its first word is ours, and goes on in small letters.

    Examples:
        >>> after_leak("No change is shown.", DataLeak(("i",), ("f",), ("train.jsonl",)))
        'Leak of 1 item; no change is shown.'
        >>> after_leak("No change is shown.", None)
        'No change is shown.'
    """
    prefix = leak_prefix(leak)
    return f"{prefix}{lower_first(sentence)}" if prefix else sentence


def leak_lines(leak: DataLeak | None) -> tuple[Line, ...]:
    """Return the first line of an output on runs whose data leaks, or leaked."""
    if leak is None:
        return ()
    text = leak_sentence(leak)
    if leak.left_out:
        return (Line(f"{text[0].upper()}{text[1:]}.", "caution"),)
    return (Line(f"Leak: {text}.", "bad"),)
