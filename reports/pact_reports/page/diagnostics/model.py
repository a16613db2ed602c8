"""What a worry is, which there are, and the thresholds beyond which they are raised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

__all__ = [
    "CONFIDENT_WRONG",
    "FEW_FAMILIES",
    "FLIPS",
    "GRAVITIES",
    "LOW_CODE_MASS",
    "SAME_ANSWER",
    "VERY_LOW_CODE_MASS",
    "WORRIES",
    "Gravity",
    "Worry",
    "WorryKind",
]

Gravity = Literal["grave", "serious", "minor"]
"""grave: the numbers may be worth nothing; serious: a claim would not survive a reviewer; minor: a
reader has to know."""

GRAVITIES: Final[tuple[Gravity, ...]] = ("grave", "serious", "minor")

VERY_LOW_CODE_MASS: Final = 0.5
"""Mean answer mass below this is grave: most of what the model would say is no answer."""
LOW_CODE_MASS: Final = 0.9
"""Mean answer mass below this is serious."""
FLIPS: Final = 0.1
"""Share of items whose answer changes with the letters, from which it is serious."""
CONFIDENT_WRONG: Final = 0.1
"""Share of the answers given with confidence 0.9 or more that may be wrong; above it is grave."""
SAME_ANSWER: Final = 0.25
"""Share of pairs with two references whose members get one answer, from which it is serious."""
FEW_FAMILIES: Final = 100
"""Below so many families, intervals of rates are some 10 points to either side."""


@dataclass(frozen=True, slots=True)
class WorryKind:
    """One thing that can be worrying.

    Attributes:
        title: in a few words.
        why: why it matters, in a sentence.
        show: filter of the item browser that shows the items behind it, or None.
    """

    title: str
    why: str
    show: str | None = None


@dataclass(frozen=True, slots=True)
class Worry:
    """One thing to worry about.

    Attributes:
        kind: a key of `WORRIES`.
        gravity: how bad it is.
        says: what was found, with the number and the threshold, in a sentence.
        run: label of the run that it is about, or None.
    """

    kind: str
    gravity: Gravity
    says: str
    run: str | None = None


WORRIES: Final[Mapping[str, WorryKind]] = {
    "other-items": WorryKind(
        "Runs on other items",
        "Numbers of runs that answered other questions do not compare.",
    ),
    "other-data": WorryKind(
        "Not the dataset that was scored",
        "The contexts shown beside the items may not be those that the model read.",
    ),
    "registration": WorryKind(
        "Registration does not hold",
        "Criteria that were changed, or written down after the runs, prove nothing.",
    ),
    "contract": WorryKind(
        "Another prompt contract",
        "The adapter was trained on prompts of another form than those it was scored on.",
    ),
    "answer-mass": WorryKind(
        "Little answer mass",
        "What falls on no answer code is left out of every probability: a model that would rather "
        "say something else is judged on what it hardly says.",
    ),
    "confident-errors": WorryKind(
        "Confident errors",
        "A reader acts on answers given with 90% or more; of those, one in ten may be wrong if "
        "confidence means what it says.",
        show="confident",
    ),
    "chance": WorryKind(
        "Near chance",
        "A kind on which the model may be guessing says nothing about its reading, whatever the "
        "accuracy over all kinds.",
    ),
    "flips": WorryKind(
        "Answers change with the letters",
        "Which letter stands beside an answer means nothing: an answer that changes with it was "
        "not read off the context.",
        show="flips",
    ),
    "same-answer": WorryKind(
        "Both members of a pair get the same answer",
        "Their references differ: a model that answers both alike did not see the edited fact.",
        show="pair-same",
    ),
    "verdict": WorryKind(
        "Supported, but not shown",
        "Verdicts rest on the values alone: a value that holds may do so by chance, of items or of "
        "training.",
    ),
    "worse": WorryKind(
        "The method is worse",
        "The whole interval lies on the other side of 0: on these items the other arm has the "
        "higher accuracy.",
    ),
    "calibration": WorryKind(
        "Calibration does not help",
        "A temperature that was fitted on other families is there to lower ECE; where ECE rises, "
        "the two splits differ or there was nothing to mend.",
    ),
    "calibrator": WorryKind(
        "Calibrator beyond its fit",
        "A temperature is known only where it was fitted, and must share no family with the run.",
    ),
    "undecided": WorryKind(
        "Difference not shown",
        "An interval that covers 0 leaves open which of the two is better.",
    ),
    "one-seed": WorryKind(
        "One seed",
        "How much training varies is unknown: another seed may turn a small difference around.",
    ),
    "letters": WorryKind(
        "Letters are not picked as they are right",
        "The letter beside an answer means nothing: one that is picked more often than the right "
        "answer stands behind it is preferred for itself.",
    ),
    "few-families": WorryKind(
        "Few families",
        "The members of a family are not independent, so that the families are what was sampled.",
    ),
    "one-view": WorryKind(
        "One view",
        "Whether the answer depends on the letters cannot be known from one order of them.",
    ),
    "notes": WorryKind(
        "Notes of the report",
        "What the report of a run says beside its numbers: a reader has to know it.",
    ),
    "settings": WorryKind(
        "Runs scored with different settings",
        "Part of a difference may come from how the runs were scored.",
    ),
    "provenance": WorryKind(
        "Provenance lacks something",
        "A number that cannot be led back to what made it cannot be made again.",
    ),
    "versions": WorryKind(
        "Mixed versions of tools",
        "Another version of a library may give other logits for the same adapter.",
    ),
}
"""Every worry, in the order in which those of one gravity stand."""
