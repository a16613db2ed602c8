"""All worries of a page, gravest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pact_eval import metrics
from pact_eval.calibration import calibration_notes
from pact_eval.evaluation import RunCollection, ScoredItems
from pact_eval.preregistration import Registration, Scorecard
from pact_reports.page.diagnostics.model import GRAVITIES, WORRIES, Worry
from pact_reports.page.diagnostics.of_comparisons import (
    Difference,
    registration_worries,
    seed_worries,
    undecided_worries,
    verdict_worries,
    warning_worries,
)
from pact_reports.page.diagnostics.of_provenance import (
    contract_worries,
    missing_worries,
    setting_worries,
    version_worries,
)
from pact_reports.page.diagnostics.of_runs import (
    answer_mass_worries,
    calibration_worries,
    chance_worries,
    confident_error_worries,
    few_families_worries,
    flip_worries,
    letter_worries,
    same_answer_worries,
)
from pact_reports.page.item_columns import DecodedRun, partners
from pact_reports.tables.run_reports import RunReport

__all__ = ["WorryContext", "all_worries", "pairs_alike"]


@dataclass(frozen=True)
class WorryContext:
    """What worries are computed from.

    Attributes:
        collection: the runs.
        decoded: those on whole contexts under the decoding of the page.
        reports: of the same runs: every interval is that of the report.
        differences: of the method against the others.
        registration: of the criteria; None without any.
        scorecard: of the criteria; None without any.
        data_warnings: of files that are not those that were scored.
    """

    collection: RunCollection
    decoded: Sequence[DecodedRun]
    reports: Sequence[RunReport]
    differences: Sequence[Difference] = ()
    registration: Registration | None = None
    scorecard: Scorecard | None = None
    data_warnings: Sequence[str] = ()


def all_worries(context: WorryContext) -> tuple[Worry, ...]:
    """Return every worry, gravest first, then in the order of `WORRIES`, then of the runs."""
    found = [*_of_collection(context)]
    for decoded, report in zip(context.decoded, context.reports, strict=True):
        found += _of_run(decoded, report)
    found += _of_families(context)
    found += _of_notes(context)
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
    if context.scorecard is not None:
        yield from verdict_worries(context.scorecard)
    provenances = {run.label: run.run.provenance for run in collection.runs}
    for label, provenance in provenances.items():
        yield from contract_worries(label, provenance)
        yield from missing_worries(label, provenance)
    yield from setting_worries(provenances)
    yield from version_worries(provenances)
    arms = {arm: [run.seed for run in runs] for arm, runs in collection.arms.items()}
    yield from seed_worries(arms)
    yield from undecided_worries(context.differences)


def _of_run(decoded: DecodedRun, report: RunReport) -> Iterator[Worry]:
    label, items, views = decoded.run.label, decoded.raw, decoded.views
    yield from answer_mass_worries(label, views.answer_mass)
    yield from flip_worries(label, items.flipped, report.estimates["flip_rate"])
    yield from confident_error_worries(label, items.confidence, items.correct)
    kinds = report.evaluation.groups[1:]
    accuracy = {group.name: group.estimates["accuracy"] for group in kinds}
    chance = {kind: float((1 / views.n_choices[views.kind == kind]).mean()) for kind in accuracy}
    yield from chance_worries(label, accuracy, chance)
    yield from same_answer_worries(label, *pairs_alike(items))
    yield from letter_worries(label, report.evaluation)
    if decoded.calibrated is not None and decoded.run.calibrator is not None:
        yield from calibration_worries(label, report.ece)
        for note in calibration_notes(
            decoded.run.calibrator,
            kind=views.kind,
            n_choices=views.n_choices,
            prompt_tokens=views.prompt_tokens,
            decoding=None,
        ):
            yield Worry("calibrator", "minor", note, label)


def _of_notes(context: WorryContext) -> Iterator[Worry]:
    """Notes of the report: one that all of several runs have stands once."""
    labels: dict[str, list[str]] = {}
    for decoded, report in zip(context.decoded, context.reports, strict=True):
        for note in report.notes:
            labels.setdefault(note.rstrip("."), []).append(decoded.run.label)
    for note, runs in labels.items():
        if len(runs) == len(context.decoded) > 1:
            yield Worry("notes", "minor", f"every run: {note}")
        else:
            for label in runs:
                yield Worry("notes", "minor", note, label)


def _of_families(context: WorryContext) -> Iterator[Worry]:
    """Few families: once for runs on the same items."""
    pairs = list(zip(context.decoded, context.reports, strict=True))
    for decoded, report in pairs[:1] if context.collection.same_items else pairs:
        yield from few_families_worries(decoded.run.label, report.estimates["accuracy"])
