"""Checks of answer sets on another run: exact tests, as for gates.

What is tested is the coverage that was asked for. One item of each new family is drawn, so the
missed ones are binomial. The sets of a kind hold if the drawn items show at least this coverage,
and are broken if they show less. Sets that keep it on average over choices are as small as that
allows, so their coverage is close to it: a check often cannot tell. It then says what coverage the
drawn items do show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from pact_eval._files import write_atomically
from pact_eval._json import Json, dumps_indented
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.settings import Settings
from pact_eval.results import Result
from pact_eval.runs.folder import RunSource
from pact_eval.runs.identity import Difference, RunIdentity
from pact_eval.schema import Section, with_sha256
from pact_eval.stats.proportions import rate_limit
from pact_eval.thresholds.answer_sets import (
    FLOOR_CONFIDENCE,
    AnswerSets,
    GroupSets,
    KindSets,
    MadeSets,
    covered_by,
    described,
    described_groups,
    set_items,
    set_sizes,
)
from pact_eval.thresholds.checking import (
    CheckedGate,
    GateVerdict,
    checked_gates,
    refuse_own_families,
    run_to_check,
    worst_verdict,
)
from pact_eval.thresholds.choice import group_rows
from pact_eval.thresholds.files import SETS_FORMAT, PromiseFile, counting_text, origin, read_promise
from pact_eval.thresholds.targets import Target


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


@dataclass(frozen=True)
class CheckedSets:
    """The sets of a kind on another run.

    Attributes:
        kind: choice, boolean or score.
        threshold: least probability of an answer in a set; None takes every answer.
        test: the exact tests: `wrong` of `drawn` items are missed, `coverage` is that of all items,
            and `verdict` holds, cannot tell or broken.
        shown: coverage that the drawn items show, with the confidence of the check for all kinds
            together.
        sets: what the sets are like here.
    """

    kind: str
    threshold: float | None
    test: CheckedGate
    shown: float
    sets: GroupSets


@dataclass(frozen=True, repr=False)
class AnswerSetsCheck(Result):
    """A check of answer sets on a run.

    Attributes:
        run: the run.
        file: the sets.
        kinds: one result per kind of the file.
        groups: all items, and every domain if there are several.
        differences: how the model and the prompts differ from those that the sets belong to.
        model_known: whether both models are known.
        without_sets: items of kinds that the file does not have; they take every answer.
        unanswered: items without an answer, which have no set.
    """

    run: ExperimentRun
    file: AnswerSetsFile
    kinds: tuple[CheckedSets, ...]
    groups: tuple[GroupSets, ...]
    differences: tuple[Difference, ...]
    model_known: bool
    without_sets: int
    unanswered: int

    @property
    def verdict(self) -> GateVerdict:
        """The worst one of the kinds; without sets smaller than all answers, cannot tell."""
        return worst_verdict(kind.test for kind in self.kinds)


def check_answer_sets(
    path: Path, source: RunSource, *, settings: Settings | None = None
) -> AnswerSetsCheck:
    """Check the answer sets of a file on a run of other families.

    Args:
        path: file of answer sets.
        source: a complete run with references.
        settings: the calibrator, if it is not in the run folder, and the bootstrap.

    Returns:
        One result per kind. Other models and prompts are reported, not refused.

    Raises:
        RunError: the folder is not a complete run with references.
        InputError: the file cannot be read; the run lacks the decoding of the sets (its views, or
            their calibrator); or the sets were chosen on families of the run.
        TamperedError: the file has changed since it was written.
    """
    file, settings = read_answer_sets(path), settings or Settings()
    run = run_to_check(file, source, settings)
    items = set_items(run, file.rule, file.ties_seed)
    refuse_own_families(file, items.columns["family"], run.place)
    made = MadeSets(set_sizes(items, file.kinds), covered_by(items, file.kinds))
    groups = group_rows(items.columns, "kind")
    nothing = np.zeros(len(items.covering), dtype=np.bool_)
    confidence = file.confidence or FLOOR_CONFIDENCE
    tests = checked_gates(
        {kind: items.covering.taken(groups.get(kind, nothing)) for kind in file.kinds},
        file.kinds,
        target=Target.of_escalation(round(1 - file.coverage, 12)),
        level=1 - confidence,
    )
    kinds = tuple(
        CheckedSets(
            kind=test.group,
            threshold=test.threshold,
            test=test,
            shown=_coverage_shown(test, tests, file.coverage, 1 - confidence),
            sets=described(items, test.group, groups.get(test.group, nothing), made, settings),
        )
        for test in tests
    )
    here = RunIdentity.of(run.provenance)
    return AnswerSetsCheck(
        run=run,
        file=file,
        kinds=kinds,
        groups=described_groups(items, made, settings),
        differences=file.model.differences(here),
        model_known=file.model.names_model and here.names_model,
        without_sets=sum(
            int(rows.sum()) for kind, rows in groups.items() if kind not in file.kinds
        ),
        unanswered=items.unanswered,
    )


def _coverage_shown(
    test: CheckedGate, tests: Sequence[CheckedGate], coverage: float, level: float
) -> float:
    """Return the lower limit of a coverage that agrees with the adjusted tests.

    Kinds whose sets do not hold share the level. Those that hold show the coverage, and more only
    if all kinds hold (Strassburger and Bretz 2008, for Holm's procedure).
    """
    open_tests = [other for other in tests if other.verdict != "holds"]
    if test.threshold is None:
        return 1.0
    if test.verdict == "holds" and open_tests:
        return coverage
    sharing = len(open_tests or [other for other in tests if other.threshold is not None])
    limit = 1 - rate_limit(test.wrong, test.drawn, 1 - level / sharing) if test.drawn else 0.0
    return max(limit, coverage) if test.verdict == "holds" else limit
