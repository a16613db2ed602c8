"""The conclusion on the data as sentences."""

from __future__ import annotations

from collections.abc import Sequence

from pact_eval.evaluation import DataLeak
from pact_eval.evaluation.conclusions.conclusion import Unchecked
from pact_reports.numbers import value_text


def leak_sentence(leak: DataLeak) -> str:
    """Say what leaks, and how much of the accuracy it makes up.

    Examples:
        >>> leak_sentence(DataLeak(("a-base", "a-cf"), ("a",), ("train.jsonl",)))
        '2 items (1 family) are also in train.jsonl'
    """
    items = f"{len(leak.items):,} item{'' if len(leak.items) == 1 else 's'}"
    families = f"{len(leak.families):,} famil{'y' if len(leak.families) == 1 else 'ies'}"
    verb = "is" if len(leak.items) == 1 else "are"
    text = f"{items} ({families}) {verb} also in {', '.join(leak.files)}"
    if leak.accuracy is None or leak.accuracy_without is None:
        return text
    accuracy, without = (
        value_text(estimate.value, "percent") for estimate in (leak.accuracy, leak.accuracy_without)
    )
    return f"{text}; accuracy {accuracy}%, without these families {without}%"


def unchecked_list(unchecked: Sequence[Unchecked]) -> str:
    """Name what was not checked, with the reasons.

    Examples:
        >>> unchecked_list([Unchecked("separation", "one file")])
        'not checked: separation (one file)'
    """
    return f"not checked: {', '.join(f'{each.name} ({each.reason})' for each in unchecked)}"
