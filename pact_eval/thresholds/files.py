"""Files of choices: gates or answer sets, their guarantee, and the model that they belong to.

`thresholds.json` holds gates, and `sets.json` has "coverage", "ties_seed" and "kinds" in place of
"target" and "gates" (by question, "rule" has "by", and each of "kinds" its "kind"):

    {"format": "pact-thresholds-1",
     "guarantee": one sentence,
     "rule": {"signal", "decoding", "calibration", "k", "by", "unit", "counting"},
     "target": {"kind", "rate", "cost_wrong", "cost_review"},
     "confidence": {"asked", "each", "all", "together"},
     "gates": {group: {"sureness_at_least": number or null, "coverage": [value, low, high],
                       "realised_error": number or null, "accepted", "wrong", "p_value"}},
     "model": identity of the run's model and prompts, "calibrator_sha256": ... or null,
     "fingerprint": SHA-256 of model, calibrator and rule,
     "chosen_on": {"run", "arm", "seed", "data_sha256", "predictions_sha256", "items", "unanswered",
                   "families": [names], "source_families": [names]},
     "sha256": SHA-256 of the other members}

The sureness is the signal, or minus the signal if low values are sure (entropy, disagreement).
null accepts nothing, -10 every answer. The hash shows a change by accident or by hand; it is not a
signature.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from pact_eval._files import read_json, write_atomically
from pact_eval._json import Json, describe, dumps_indented, sha256_of_json
from pact_eval.calibration.temperatures import calibrator_sha256
from pact_eval.errors import InputError
from pact_eval.numbers import CLUSTERS
from pact_eval.runs.custody import trained_on_json
from pact_eval.runs.folder import unanswered_items
from pact_eval.runs.identity import RunIdentity
from pact_eval.schema import Section, convert_hashed, with_sha256
from pact_eval.stats.estimate import Estimate
from pact_eval.thresholds.answer_sets import AnswerSets
from pact_eval.thresholds.choice import Rule, Thresholds
from pact_eval.thresholds.gates import EVERY_ANSWER, Target

FORMAT: Final = "pact-thresholds-1"
"""What the format of thresholds calls itself."""

SETS_FORMAT: Final = "pact-answer-sets-1"
"""What the format of answer sets calls itself."""

Promise = TypeVar("Promise", bound="PromiseFile")


class ChosenOn(Section, frozen=True):
    """The run of a choice.

    Attributes:
        families: names of its families.
    """

    families: frozenset[str]


class PromiseFile(Section, frozen=True, kw_only=True):
    """What files of thresholds and of answer sets have in common.

    Attributes:
        path: the file.
        rule: what the choice looks at.
        model: identity of the model that it was made for.
        calibrator_sha256: of the calibrator that was applied; None for raw probabilities.
        chosen_on: the run that it was made on.
    """

    path: Path = Path()
    rule: Rule
    model: RunIdentity
    calibrator_sha256: str | None
    chosen_on: ChosenOn

    @property
    def families(self) -> frozenset[str]:
        """Names of the families that the choice was made on."""
        return self.chosen_on.families


class GateConfidence(Section, frozen=True):
    """Confidence of the gates of a file.

    Attributes:
        each: of each gate alone.
    """

    each: float


class WrittenGate(Section, frozen=True):
    """A gate of a file.

    Attributes:
        sureness_at_least: the least sureness that is accepted; None accepts nothing.
    """

    sureness_at_least: float | None


class ThresholdsFile(PromiseFile, frozen=True):
    """Content of a file of thresholds, as far as it is used.

    Attributes:
        target: what the gates keep.
        confidence: with which they keep it.
        written_gates: the gates by group.
    """

    target: Target
    confidence: GateConfidence
    written_gates: Mapping[str, WrittenGate] = msgspec.field(name="gates")

    @property
    def gates(self) -> dict[str, float | None]:
        """By group, the least sureness that is accepted; None accepts nothing."""
        return {group: gate.sureness_at_least for group, gate in self.written_gates.items()}


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


def choice_json(choice: Thresholds | AnswerSets) -> dict[str, Json]:
    """Return the content of `thresholds.json` or of `sets.json`."""
    own = _gates_json(choice) if isinstance(choice, Thresholds) else _sets_json(choice)
    rule, run = own["rule"], choice.run
    model = RunIdentity.of(run.provenance).to_json()
    calibrator = None if choice.rule.calibration == "raw" else run.calibrator
    calibrator_hash = None if calibrator is None else calibrator_sha256(calibrator)
    items, unanswered = len(run.predictions), len(unanswered_items(run.run))
    content: dict[str, Json] = {
        **own,
        "model": model,
        "calibrator_sha256": calibrator_hash,
        "fingerprint": sha256_of_json(
            {"model": model, "calibrator_sha256": calibrator_hash, "rule": rule}
        ),
        "chosen_on": {
            "run": run.place,
            "arm": run.provenance.arm,
            "seed": run.provenance.seed,
            "data_sha256": run.provenance.data.sha256,
            "predictions_sha256": run.run.seal.predictions_sha256,
            "items": items + unanswered,
            "unanswered": unanswered,
            "families": [*choice.families],
            "source_families": [*choice.source_families],
            **trained_on_json(run.run),
        },
    }
    return with_sha256(content)


def write_choice(path: Path, choice: Thresholds | AnswerSets) -> None:
    """Write a file of thresholds or of answer sets, atomically.

    Raises:
        InputError: the file cannot be written.
    """
    write_atomically(path, dumps_indented(choice_json(choice)))


def _gates_json(thresholds: Thresholds) -> dict[str, Json]:
    """Return what a file has of gates alone, their guarantee in one sentence first."""
    target, units = thresholds.target, CLUSTERS[thresholds.rule.unit]
    of = "the error among accepted items" if target.limits_error else "the share of escalated items"
    scope = ""
    if len(thresholds.gates) > 1:
        scope = ", for all gates together" if thresholds.together else ", for each gate alone"
    gates: dict[str, Json] = {}
    for gate in thresholds.gates:
        threshold, test, realised = gate.chosen.threshold, gate.chosen.test, gate.realised_error
        gates[gate.group] = {
            "sureness_at_least": None if threshold is None else max(threshold, EVERY_ANSWER),
            "coverage": _with_ends(gate.coverage),
            "realised_error": realised.value if math.isfinite(realised.value) else None,
            "accepted": None if test is None else test.accepted,
            "wrong": None if test is None else test.wrong,
            "p_value": None if test is None else test.p_value,
            "families": gate.units,
            "families_tested": gate.chosen.tested_units,
            "families_needed": gate.needed,
        }
    return {
        "format": FORMAT,
        "guarantee": (
            f"With {100 * thresholds.confidence:g}% confidence over the {units} of the run{scope}, "
            f"{of} is at most {100 * target.rate:g}% in new {units} from the same population"
            f"{thresholds.rule.counting_text}."
        ),
        "rule": thresholds.rule.to_json(),
        "target": target.to_json(),
        "confidence": {
            "asked": thresholds.confidence,
            "each": thresholds.confidence_of_each,
            "all": thresholds.confidence_of_all,
            "together": thresholds.together,
        },
        "gates": gates,
    }


def _sets_json(sets: AnswerSets) -> dict[str, Json]:
    """Return what a file has of answer sets alone, their promise in one sentence first."""
    by, units = sets.rule.by, CLUSTERS[sets.rule.unit]
    names = ("decoding", "calibration", "k", "unit", "counting")
    rule: dict[str, Json] = {name: getattr(sets.rule, name) for name in names}
    sure = "on average"
    if sets.confidence is not None:
        sure = f"with {100 * sets.confidence:g}% confidence"
    scope = f", for each {by} alone" if len(sets.kinds) > 1 else ""
    kinds: dict[str, Json] = {}
    for kind in sets.kinds:
        level = kind.level
        kinds[kind.kind] = {
            "probability_at_least": level.threshold,
            "floor": level.floor,
            "floor_confidence": level.confidence,
            "drawn": level.drawn,
            "missed": level.missed,
            "size": _with_ends(kind.sets.size),
            "families": kind.sets.units,
            "families_needed": kind.needed,
            **({} if by == "kind" else {"kind": kind.kind_of_field}),
        }
    return {
        "format": SETS_FORMAT,
        "guarantee": (
            f"The right answer of an item is in its set with a probability of at least "
            f"{100 * sets.coverage:g}%, {sure} over the {units} of the run{scope}, in new {units} "
            f"from the same population{sets.rule.counting_text}."
        ),
        "rule": rule | ({} if by == "kind" else {"by": by}),
        "coverage": sets.coverage,
        "confidence": sets.confidence,
        "ties_seed": sets.ties_seed,
        "kinds": kinds,
    }


def _with_ends(estimate: Estimate) -> list[Json]:
    """Return a value with its interval, which is null if there is none."""
    ends = (estimate.low, estimate.high) if math.isfinite(estimate.low) else (None, None)
    return [estimate.value, *ends]


def is_answer_sets(path: Path) -> bool:
    """Return whether a file calls itself one of answer sets; False if it cannot be read.

    The reader of the file says what is wrong with it.
    """
    try:
        value = read_json(path)
    except InputError:
        return False
    return isinstance(value, dict) and value.get("format") == SETS_FORMAT


def read_thresholds(path: Path) -> ThresholdsFile:
    """Read a file of thresholds, strictly.

    Raises:
        InputError: it cannot be read, has another format, or a value has the wrong type.
        TamperedError: it has changed since it was written.
    """
    return _read_promise(path, FORMAT, "file of thresholds", "thresholds", ThresholdsFile)


def read_answer_sets(path: Path) -> AnswerSetsFile:
    """Read a file of answer sets, strictly.

    Raises:
        InputError: it cannot be read, has another format, or a value has the wrong type.
        TamperedError: it has changed since it was written.
    """
    noun, command = "file of answer sets", "thresholds --sets"
    file = _read_promise(path, SETS_FORMAT, noun, command, AnswerSetsFile)
    by = "question" if file.rule.by == "question" else "kind"
    return replace(file, rule=replace(file.rule, by=by))


def _read_promise(
    path: Path, format_: str, noun: str, command: str, kind: type[Promise]
) -> Promise:
    """Read a file that this package wrote: its name, the command that makes it, its struct."""
    value = read_json(path)
    if not isinstance(value, dict) or value.get("format") != format_:
        got = describe(value) if not isinstance(value, dict) else describe(value.get("format"))
        other = got.strip('"') in (FORMAT, SETS_FORMAT)
        reader = "; `pact-eval thresholds RUN --check FILE` reads it" if other else ""
        raise InputError(f'{path}: expected a {noun} with format "{format_}", got {got}{reader}')
    advice = f"restore it from a copy, or choose again with `pact-eval {command}`"
    file = convert_hashed(value, kind, where=str(path), advice=advice)
    rule, written = file.rule, value.get("rule")
    if isinstance(written, dict) and "counting" not in written:
        # A file that does not say what counts the same is of the time when items did.
        rule = replace(rule, counting="items")
    return replace(file, path=path, rule=rule)
