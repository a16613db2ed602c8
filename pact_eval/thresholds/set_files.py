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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pact_eval._files import write_atomically
from pact_eval._json import Json, dumps_indented, sha256_of_json
from pact_eval.runs.identity import RunIdentity
from pact_eval.thresholds.answer_sets import AnswerSets, KindSets
from pact_eval.thresholds.choice import Rule
from pact_eval.thresholds.files import SETS_FORMAT, counting_text, origin, read_promise, read_rule


@dataclass(frozen=True)
class AnswerSetsFile:
    """Content of a file of answer sets.

    Attributes:
        path: the file.
        rule: decoding, calibration and unit.
        coverage: share of new items whose set is to contain the right answer.
        confidence: with which the choice keeps it; None keeps it on average over choices.
        kinds: by kind, the least probability of an answer in a set; None takes every answer.
        model: identity of the model that they were chosen for.
        calibrator_sha256: of the calibrator that was applied; None for raw probabilities.
        families: names of the families that they were chosen on.
        ties_seed: with which ties between probabilities are broken; None breaks none.
    """

    path: Path
    rule: Rule
    coverage: float
    confidence: float | None
    kinds: Mapping[str, float | None]
    model: RunIdentity
    calibrator_sha256: str | None
    families: frozenset[str]
    ties_seed: int | None


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
    return content | {"sha256": sha256_of_json(content)}


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
    return read_promise(path, SETS_FORMAT, "file of answer sets", "thresholds --sets", _read)


def _read(path: Path, value: Mapping[str, Any]) -> AnswerSetsFile:
    kinds = {kind: sets["probability_at_least"] for kind, sets in value["kinds"].items()}
    return AnswerSetsFile(
        path=path,
        rule=read_rule(path, value["rule"] | {"by": "kind"}),
        coverage=float(value["coverage"]),
        confidence=value["confidence"],
        kinds={kind: None if least is None else float(least) for kind, least in kinds.items()},
        model=RunIdentity.of_json(value["model"]),
        calibrator_sha256=value["calibrator_sha256"],
        families=frozenset(value["chosen_on"]["families"]),
        ties_seed=value.get("ties_seed"),
    )


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
