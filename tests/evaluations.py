"""The report of a run or of scored views, without a folder or an experiment."""

from __future__ import annotations

import numpy as np

from pact_eval._choices import Bins, Decoding, GroupBy
from pact_eval.calibration.temperatures import Calibrator
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import numeric_noise, run_notes
from pact_eval.evaluation.report import Evaluation, evaluate_items
from pact_eval.runs.folder import Run
from pact_eval.runs.predictions import Predictions


def evaluate(
    run: Run | Predictions,
    *,
    decoding: Decoding,
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int | None = None,
    calibrator: Calibrator | None = None,
    bins: Bins | None = None,
) -> Evaluation:
    """Return the report; near ties need a run, which records its precision."""
    predictions = run.predictions if isinstance(run, Run) else run
    noise = numeric_noise(run.provenance) if isinstance(run, Run) else None
    notes = run_notes(run.provenance) if isinstance(run, Run) else ()
    items = ScoredItems.of(predictions, decoding, calibrator).grouped(by, bins)
    return evaluate_items(items, by=by, rng=rng, resamples=resamples, noise=noise, notes=notes)
