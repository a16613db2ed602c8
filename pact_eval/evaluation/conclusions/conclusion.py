"""Base of conclusions: a status from a closed list, its basis, and the unchecked parts.

A conclusion is the only place that decides what a reader is told. Headline, cards, diagnostics,
JSON, captions and exit codes lay it out and have no rule of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from pact_eval.results import short_repr

Question = Literal["better", "data", "order", "probabilities", "acting"]
"""Is A better than B? Is the data sound? Does it follow the order? Are the probabilities right?
May it act alone?"""

Tone = Literal["good", "bad", "open"]
"""good: what a reader hopes for is shown; bad: a problem is shown; open: neither is shown."""

Severity = Literal["critical", "warning", "info"]
"""critical: the numbers may be meaningless; warning: a reviewer would not accept a claim; info: for
information."""

SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "info")


@dataclass(frozen=True)
class Unchecked:
    """A part of a question that could not be checked.

    Attributes:
        name: name of the check, metric or decoding.
        reason: why, as a sentence without a full stop.
    """

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Conclusion:
    """The answer to one question.

    Attributes:
        status: one of a closed list, which every subclass narrows.
        items: ids of the items behind the status, in the order of the run; empty if the status is
            about all items.
        unchecked: what was not checked, and why.
    """

    question: ClassVar[Question]
    tones: ClassVar[Mapping[str, Tone]]
    """The tone of every status."""

    status: str
    items: tuple[str, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def tone(self) -> Tone:
        """Tone of the status: whether it is good or bad news."""
        return self.tones[self.status]
