"""Base of conclusions: a status from a closed list, its basis, and the unchecked parts.

A conclusion is the only place that decides what a reader is told. Headline, page, diagnostics,
JSON, captions and exit codes lay it out and have no rule of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

from pact_eval.audit.findings import plain_check
from pact_eval.plain_text import lower_first
from pact_eval.results import short_repr

Question = Literal["better", "where", "data", "order", "probabilities", "acting"]
"""Is A better than B? Where is it wrong? Is the data sound? Does it follow the order? Are the
probabilities right? May it act alone?"""

Tone = Literal["good", "bad", "open"]
"""good: what a reader hopes for is shown; bad: a problem is shown; open: neither is shown."""

Severity = Literal["critical", "warning", "info"]
"""critical: the numbers may be meaningless; warning: a reviewer would not accept a claim; info: for
information."""

SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "info")

QUESTIONS: Final[Mapping[Question, str]] = {
    "better": "Is it better?",
    "where": "Where is it wrong?",
    "data": "Is the data sound?",
    "order": "Follows the order?",
    "probabilities": "Probabilities right?",
    "acting": "May it act alone?",
}
"""The question of a reader that a conclusion answers."""

NOT_SHOWN: Final = "No accuracy difference shown"
"""The finding if neither run, or arm, is shown to be better."""

TONES: Final[Mapping[str, Tone]] = {
    **dict.fromkeys(("better", "equivalent", "nothing found", "sound as far as checked"), "good"),
    **dict.fromkeys(("stable", "no error shown", "share guaranteed"), "good"),
    **dict.fromkeys(("worse", "found", "leak", "problems"), "bad"),
    **dict.fromkeys(("follows a letter", "follows a position", "unstable"), "bad"),
    **dict.fromkeys(("over-confident", "under-confident", "miscalibrated"), "bad"),
    **dict.fromkeys(("not shown", "cannot be compared", "too few to tell", "no groups"), "open"),
    **dict.fromkeys(("doubts", "not checked", "cannot tell", "none shown"), "open"),
}
"""The tone of every status, of every question."""

_SUBJECTS: Final[Mapping[Question, str]] = {"acting": "Acting alone"}


@dataclass(frozen=True)
class Sentence:
    """A conclusion in words.

    Attributes:
        finding: its status, as a phrase that begins with a capital letter.
        numbers: what the status rests on; "" if there is nothing.
    """

    finding: str
    numbers: str = ""

    def __str__(self) -> str:
        return f"{self.finding}: {self.numbers}" if self.numbers else f"{self.finding}."


@dataclass(frozen=True)
class Unchecked:
    """A part of a question that could not be checked.

    Attributes:
        name: name of the check, metric or decoding.
        reason: why, as a sentence without a full stop.
    """

    name: str
    reason: str


def unchecked_list(unchecked: Sequence[Unchecked]) -> str:
    """List the unchecked parts, with the reasons.

    Examples:
        >>> unchecked_list([Unchecked(name, "one file") for name in ("separation", "shortcuts")])
        'not checked: overlap of files, shortcuts (one file)'
    """
    reasons: dict[str, list[str]] = {}
    for part in unchecked:
        reasons.setdefault(part.reason, []).append(plain_check(part.name))
    listed = (f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
    return f"not checked: {', '.join(listed)}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Conclusion(ABC):
    """The answer to one question.

    Attributes:
        status: one of a closed list, which every subclass narrows.
        items: ids of the items behind the status, in the order of the run; empty if the status is
            about all items.
        unchecked: what was not checked, and why.
    """

    question: ClassVar[Question]

    status: str
    items: tuple[str, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def tone(self) -> Tone:
        """Tone of the status: whether it is good or bad news."""
        return TONES[self.status]

    @property
    @abstractmethod
    def words(self) -> Sentence:
        """The finding and its numbers, the same on every surface."""

    @property
    def sentence(self) -> str:
        """The conclusion on one run as a line, with its subject.

        Example:
            "Order: stable: 2.0% [0.8, 4.1] of answers change."
        """
        words = replace(self.words, finding=lower_first(self.words.finding))
        return f"{_SUBJECTS.get(self.question, self.question.capitalize())}: {words}"

    @property
    def line(self) -> str:
        """The conclusion in `report` without `--full`; bad news is in capitals."""
        words = self.words
        return f"{self.emphasise(words.finding)}: {words.numbers.removesuffix('.')}"

    def emphasise(self, finding: str) -> str:
        """Write a finding in capitals if it is bad news: a terminal may have no colours."""
        return finding.upper() if self.tone == "bad" else lower_first(finding)
