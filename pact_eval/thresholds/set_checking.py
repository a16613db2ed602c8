"""Do answer sets still keep their promise on another run? Exact tests, as for gates.

A check sees one choice, so it tests the *floor*: the coverage that this choice keeps with the
confidence of the floor (`set_levels.py`). One item of each new family is drawn, so the missed ones
are binomial. The sets of a kind hold if the drawn items show a coverage above the floor, and are
broken if they show one below it. Sets that keep their promise are called broken in at most
2 (1 - confidence) of the pairs of a choice and a check: either the choice has missed its floor, or
the test has erred.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pact_eval.evaluation import ExperimentRun, Settings
from pact_eval.results import Result
from pact_eval.runs import Difference, RunIdentity, RunSource
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
    checked_gate,
    refuse_own_families,
    run_to_check,
    worst_verdict,
)
from pact_eval.thresholds.choice import group_rows
from pact_eval.thresholds.set_files import AnswerSetsFile, FiledKind, read_answer_sets
from pact_eval.thresholds.targets import Target


@dataclass(frozen=True)
class CheckedSets:
    """The sets of a kind on another run.

    Attributes:
        kind: choice, boolean or score.
        filed: what the file says of it.
        test: the exact tests: `wrong` of `drawn` items are missed, `coverage` is that of all items,
            and `verdict` holds, cannot tell or broken.
        sets: what the sets are like here.
    """

    kind: str
    filed: FiledKind
    test: CheckedGate
    sets: GroupSets


@dataclass(frozen=True)
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
        return worst_verdict(each.test for each in self.kinds)


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
    items = set_items(run, file.rule)
    refuse_own_families(file, items.columns["family"], run.place)
    thresholds = {kind: each.threshold for kind, each in file.kinds.items()}
    made = MadeSets(set_sizes(items, thresholds), covered_by(items, thresholds))
    groups = group_rows(items.columns, "kind")
    nothing = np.zeros(len(items.covering), dtype=np.bool_)
    kinds = tuple(
        CheckedSets(
            kind=kind,
            filed=filed,
            test=checked_gate(
                *(kind, items.covering.taken(groups.get(kind, nothing)), filed.threshold),
                target=Target.of_escalation(1 - min(filed.floor, 1 - 1e-12)),
                level=1 - filed.confidence,
            ),
            sets=described(items, kind, groups.get(kind, nothing), made, settings),
        )
        for kind, filed in file.kinds.items()
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
