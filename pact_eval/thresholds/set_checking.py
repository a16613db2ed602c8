"""Checks of answer sets on another run: exact tests, as for gates.

What is tested is the coverage that was asked for. One item of each new family is drawn, so the
missed ones are binomial. The sets of a kind hold if the drawn items show at least this coverage,
and are broken if they show less. Sets that keep it on average over choices are as small as that
allows, so their coverage is close to it: a check often cannot tell. It then says what coverage the
drawn items do show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.settings import Settings
from pact_eval.results import Result
from pact_eval.runs.folder import RunSource
from pact_eval.runs.identity import Difference, RunIdentity
from pact_eval.stats.binomial import rate_limit
from pact_eval.thresholds.answer_sets import (
    GroupSets,
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
from pact_eval.thresholds.set_files import AnswerSetsFile, read_answer_sets
from pact_eval.thresholds.set_levels import FLOOR_CONFIDENCE
from pact_eval.thresholds.targets import Target


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
