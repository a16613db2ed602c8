"""The report of each run, computed once for tables and page: what `pact-eval report` prints."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from pact_eval.errors import InputError
from pact_eval.evaluation import (
    CollectedRun,
    Evaluation,
    LowAnswerMass,
    ScoredItems,
    default_resamples,
    evaluate_items,
    group_rows,
    group_statistics,
    numeric_noise,
)
from pact_eval.preregistration import DecodingName
from pact_eval.runs import Decoding
from pact_eval.stats import Estimate, bootstrap_intervals
from pact_reports.sentences import note_sentence

__all__ = ["EceChange", "RunReport", "ece_change", "run_report"]


@dataclass(frozen=True)
class EceChange:
    """ECE before and after T(x), under the same resamples of families.

    Attributes:
        before: ECE, raw.
        after: after T(x), with its interval.
        difference: after minus before, with its interval: below 0 is better.
    """

    before: float
    after: Estimate
    difference: Estimate


@dataclass(frozen=True)
class RunReport:
    """What the report says of a run under one decoding.

    Attributes:
        evaluation: raw, by kind.
        ece: what T(x) does to ECE, of all items and by kind; empty without a calibrator.
        notes: what a reader must know, but for a low answer mass: a worry says that.
    """

    evaluation: Evaluation
    ece: Mapping[str, EceChange]
    notes: tuple[str, ...]

    @property
    def estimates(self) -> Mapping[str, Estimate]:
        """Of all items, by metric name."""
        return self.evaluation.groups[0].estimates

    def estimate(self, metric: str, decoding: DecodingName) -> Estimate | None:
        """Return an estimate of all items; None where it is not known under the decoding."""
        if not decoding.endswith("_calibrated"):
            return self.estimates.get(metric)
        return self.ece["all"].after if metric == "ece" and self.ece else None


def run_report(
    run: CollectedRun, decoding: Decoding, *, rng: np.random.Generator, resamples: int | None
) -> RunReport:
    """Compute the report of a run.

    Args:
        run: on whole contexts.
        decoding: single or ensemble.
        rng: source of the resamples; left as it is, so that no run depends on another.
        resamples: bootstrap resamples; None takes as many as the report does.

    Raises:
        InputError: there is no such decoding of the run.
    """
    try:
        raw = run.scored(decoding)
        evaluation = evaluate_items(
            raw,
            by="kind",
            rng=deepcopy(rng),
            resamples=resamples,
            noise=numeric_noise(run.provenance),
        )
    except ValueError as error:
        message = f"{run.label}: {error}"
        raise InputError(message) from None
    return RunReport(
        evaluation=evaluation,
        ece=_ece_changes(run, raw, decoding, rng, resamples),
        notes=tuple(
            note_sentence(note) for note in evaluation.notes if not isinstance(note, LowAnswerMass)
        ),
    )


def _ece_changes(
    run: CollectedRun,
    raw: ScoredItems,
    decoding: Decoding,
    rng: np.random.Generator,
    resamples: int | None,
) -> dict[str, EceChange]:
    if run.calibrator is None:
        return {}
    try:
        calibrated = run.scored(decoding, calibrated=True)
    except InputError:
        # The calibrator needs prompt lengths that the run does not know.
        return {}
    n = len(run.predictions)
    by_default = default_resamples(n)
    groups = group_rows(run.predictions, "kind")
    return {
        name: ece_change(raw.taken(rows), calibrated.taken(rows), rng, resamples or by_default)
        for name, rows in groups.items()
    }


def ece_change(
    before: ScoredItems, after: ScoredItems, rng: np.random.Generator, resamples: int
) -> EceChange:
    """Compare the ECE of the same items before and after T(x).

    Args:
        before: the items, raw.
        after: the same, calibrated.
        rng: source of the resamples; left as it is.
        resamples: of families, the same ones for both.
    """
    drawn = group_statistics(before).sets[0]
    raw = drawn.statistics["ece"]
    calibrated = group_statistics(after).sets[0].statistics["ece"]
    found = bootstrap_intervals(
        {
            "after": calibrated,
            "difference": lambda weights: calibrated(weights) - raw(weights),
        },
        n_clusters=drawn.n_clusters,
        n=drawn.n,
        rng=deepcopy(rng),
        resamples=resamples,
    )
    value = float(raw(np.ones((1, drawn.n_clusters)))[0])
    return EceChange(value, found["after"], found["difference"])
