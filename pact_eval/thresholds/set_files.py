"""`sets.json`: answer sets with their promise, and the model and decoding that they belong to.

    {"format": "pact-answer-sets-1",
     "guarantee": one sentence,
     "rule": {"decoding", "calibration", "k", "unit", "counting"},
     "coverage": share of new items, "confidence": number or null (on average over choices),
     "ties_seed": breaks ties between probabilities, or null,
     "kinds": {kind: {"probability_at_least": number or null, "floor", "floor_confidence", "drawn",
                      "missed", "size": [value, low, high], "families", "families_needed"}},
     "model", "calibrator_sha256", "fingerprint", "chosen_on": as in a file of thresholds,
     "sha256": SHA-256 of the other members}

A set has the most probable answer, and those with at least the probability; null takes every
answer. For levels, it is the smallest interval with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pact_eval._files import write_atomically
from pact_eval._json import Json, dumps_indented
from pact_eval.schema import Section, with_sha256
from pact_eval.thresholds.answer_sets import AnswerSets, KindSets
from pact_eval.thresholds.files import SETS_FORMAT, PromiseFile, counting_text, origin, read_promise


class WrittenSets(Section, frozen=True):
    """The sets of a kind in a file.

    Attributes:
        probability_at_least: least probability of an answer in a set; None takes every answer.
    """

    probability_at_least: float | None


class AnswerSetsFile(PromiseFile, frozen=True):
    """Content of a file of answer sets, as far as it is used.

    Attributes:
        coverage: share of new items whose set is to contain the right answer.
        confidence: with which the choice keeps it; None keeps it on average over choices.
        written_kinds: the sets by kind.
        ties_seed: with which ties between probabilities are broken; None breaks none.
    """

    coverage: float
    confidence: float | None
    written_kinds: Mapping[str, WrittenSets] = msgspec.field(name="kinds")
    ties_seed: int | None = None

    @property
    def kinds(self) -> dict[str, float | None]:
        """By kind, the least probability of an answer in a set; None takes every answer."""
        return {kind: sets.probability_at_least for kind, sets in self.written_kinds.items()}


def answer_sets_json(answer_sets: AnswerSets) -> dict[str, Json]:
    """Return the content of `sets.json`."""
    chosen = answer_sets.rule
    rule: dict[str, Json] = {
        "decoding": chosen.decoding,
        "calibration": chosen.calibration,
        "k": chosen.k,
        "unit": chosen.unit,
        "counting": chosen.counting,
    }
    content: dict[str, Json] = {
        "format": SETS_FORMAT,
        "guarantee": sets_guarantee(answer_sets),
        "rule": rule,
        "coverage": answer_sets.coverage,
        "confidence": answer_sets.confidence,
        "ties_seed": answer_sets.ties_seed,
        "kinds": {kind.kind: _kind_json(kind) for kind in answer_sets.kinds},
        **origin(
            answer_sets.run,
            rule,
            items=sum(kind.sets.items for kind in answer_sets.kinds) + answer_sets.unanswered,
            unanswered=answer_sets.unanswered,
            families=answer_sets.families,
            source_families=answer_sets.source_families,
        ),
    }
    return with_sha256(content)


def sets_guarantee(answer_sets: AnswerSets) -> str:
    """Return the promise of the sets as one sentence."""
    units = "families" if answer_sets.rule.unit == "family" else "source families"
    sure = (
        f"on average over the {units} of the run"
        if answer_sets.confidence is None
        else f"with {100 * answer_sets.confidence:g}% confidence over the {units} of the run"
    )
    scope = ", for each kind alone" if len(answer_sets.kinds) > 1 else ""
    return (
        f"The right answer of an item is in its set with a probability of at least "
        f"{100 * answer_sets.coverage:g}%, {sure}{scope}, in new {units} from the same population"
        f"{counting_text(answer_sets.rule)}."
    )


def write_answer_sets(path: Path, answer_sets: AnswerSets) -> None:
    """Write a file of answer sets, atomically.

    Raises:
        InputError: the file cannot be written.
    """
    write_atomically(path, dumps_indented(answer_sets_json(answer_sets)))


def read_answer_sets(path: Path) -> AnswerSetsFile:
    """Read a file of answer sets, strictly.

    Raises:
        InputError: it cannot be read, or is not a file of answer sets.
        TamperedError: it has changed since it was written.
    """
    command = "thresholds --sets"
    file = read_promise(path, SETS_FORMAT, "file of answer sets", command, AnswerSetsFile)
    return msgspec.structs.replace(file, rule=msgspec.structs.replace(file.rule, by="kind"))


def _kind_json(kind_sets: KindSets) -> dict[str, Json]:
    level, size = kind_sets.level, kind_sets.sets.size
    ends = (size.low, size.high) if math.isfinite(size.low) else (None, None)
    return {
        "probability_at_least": level.threshold,
        "floor": level.floor,
        "floor_confidence": level.confidence,
        "drawn": level.drawn,
        "missed": level.missed,
        "size": [size.value, *ends],
        "families": kind_sets.sets.units,
        "families_needed": kind_sets.needed,
    }
