"""All worries of a page, gravest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval import metrics
from pact_eval.calibration import calibration_notes
from pact_eval.evaluation import ScoredItems, group_rows, label_codes
from pact_eval.hypotheses import Registration
from pact_eval.run_collection import RunCollection
from pact_eval.stats import Estimate, bootstrap_intervals, mean_statistic
from pact_reports.page.item_columns import DecodedRun, partners
from pact_reports.page.worries.model import GRAVITIES, WORRIES, Worry
from pact_reports.page.worries.of_comparisons import (
    Difference,
    registration_worries,
    seed_worries,
    undecided_worries,
    warning_worries,
)
from pact_reports.page.worries.of_provenance import (
    contract_worries,
    missing_worries,
    setting_worries,
    version_worries,
)
from pact_reports.page.worries.of_runs import (
    calibration_worries,
    chance_worries,
    code_mass_worries,
    confident_error_worries,
    few_families_worries,
    flip_worries,
    same_answer_worries,
)

__all__ = ["WorryContext", "all_worries", "pairs_alike"]

# Behind intervals that decide whether a worry is raised: fewer for many items, where intervals are
# narrow anyway.
_MOST_RESAMPLES: Final = 2_000
_FEWEST_RESAMPLES: Final = 200
_ITEM_DRAWS: Final = 20_000_000


@dataclass(frozen=True)
class WorryContext:
    """What worries are computed from.

    Attributes:
        collection: the runs.
        decoded: those on whole contexts under the decoding of the page.
        differences: of the method against the others.
        registration: of the criteria; None without any.
        data_warnings: of files that are not those that were scored.
        bootstrap_seed: seed of the bootstrap.
    """

    collection: RunCollection
    decoded: Sequence[DecodedRun]
    differences: Sequence[Difference] = ()
    registration: Registration | None = None
    data_warnings: Sequence[str] = ()
    bootstrap_seed: int = 0


def all_worries(context: WorryContext) -> tuple[Worry, ...]:
    """Return every worry, gravest first, then in the order of `WORRIES`, then of the runs."""
    found = [*_of_collection(context)]
    for decoded in context.decoded:
        found += _of_run(decoded, context.bootstrap_seed)
    found += _of_families(context)
    kinds = list(WORRIES)
    return tuple(
        sorted(found, key=lambda each: (GRAVITIES.index(each.gravity), kinds.index(each.kind)))
    )


def pairs_alike(items: ScoredItems) -> tuple[int, int]:
    """Count pairs whose references differ: those whose members get one answer, and all."""
    other = partners(items.predictions)
    reference, answer = items.predictions.reference, metrics.predicted(items.log_probs)
    # Each pair once: seen from its first member.
    first = np.flatnonzero((other > np.arange(len(other))) & (reference != reference[other]))
    return int((answer[first] == answer[other[first]]).sum()), len(first)


def _of_collection(context: WorryContext) -> Iterator[Worry]:
    collection = context.collection
    yield from warning_worries(
        collection.warnings, context.data_warnings, same_items=collection.same_items
    )
    if context.registration is not None:
        yield from registration_worries(context.registration)
    provenances = {run.label: run.run.provenance for run in collection.runs}
    for label, provenance in provenances.items():
        yield from contract_worries(label, provenance)
        yield from missing_worries(label, provenance)
    yield from setting_worries(provenances)
    yield from version_worries(provenances)
    arms = {arm: [run.seed for run in runs] for arm, runs in collection.arms.items()}
    yield from seed_worries(arms)
    yield from undecided_worries(context.differences)


def _of_run(decoded: DecodedRun, bootstrap_seed: int) -> Iterator[Worry]:
    label, items, views = decoded.run.label, decoded.raw, decoded.views
    yield from code_mass_worries(label, views.code_mass)
    yield from flip_worries(label, items.flipped)
    yield from confident_error_worries(label, items.confidence, items.correct)
    accuracy = _accuracy(items, bootstrap_seed)
    del accuracy["all"]
    chance = {kind: float((1 / views.n_choices[views.kind == kind]).mean()) for kind in accuracy}
    yield from chance_worries(label, accuracy, chance)
    yield from same_answer_worries(label, *pairs_alike(items))
    if decoded.calibrated is not None and decoded.run.calibrator is not None:
        after = decoded.calibrated
        yield from calibration_worries(
            label,
            metrics.ece(items.confidence, items.correct),
            metrics.ece(after.confidence, after.correct),
        )
        for note in calibration_notes(
            decoded.run.calibrator,
            kind=views.kind,
            n_choices=views.n_choices,
            prompt_tokens=views.prompt_tokens,
            decoding=None,
        ):
            yield Worry("calibrator", "minor", note, label)


def _of_families(context: WorryContext) -> Iterator[Worry]:
    """Few families: once for runs on the same items."""
    shared = context.collection.same_items
    for decoded in context.decoded[:1] if shared else context.decoded:
        accuracy = _accuracy(decoded.raw, context.bootstrap_seed)["all"]
        yield from few_families_worries(decoded.run.label, accuracy)


def _accuracy(items: ScoredItems, bootstrap_seed: int) -> dict[str, Estimate]:
    """Accuracy of all items and of each kind, with intervals over families."""
    found: dict[str, Estimate] = {}
    for name, rows in group_rows(items.predictions, "kind").items():
        cluster = label_codes(items.predictions.family[rows])
        n_clusters = int(cluster.max(initial=-1)) + 1
        found |= bootstrap_intervals(
            {name: mean_statistic(items.correct[rows], cluster, n_clusters)},
            n_clusters=n_clusters,
            n=len(rows),
            rng=np.random.default_rng(bootstrap_seed),
            resamples=max(_FEWEST_RESAMPLES, min(_MOST_RESAMPLES, _ITEM_DRAWS // len(rows))),
        )
    return found
