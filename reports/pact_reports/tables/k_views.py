"""K-view decoding: ensemble answers, disagreement between views, and ensemble gain."""

from __future__ import annotations

from typing import Final

from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.arms.arm_metrics import MetricQuestion
from pact_eval.evaluation.arms.main_results import ArmSummaries, k_views
from pact_eval.evaluation.decoding import ENSEMBLE, ENSEMBLE_CALIBRATED
from pact_reports.table import Table
from pact_reports.tables.main_results import means_table
from pact_reports.tables.request import TableRequest

_TITLES: Final[dict[MetricQuestion, str]] = {
    ("accuracy", ENSEMBLE): "Accuracy",
    ("pair_accuracy", ENSEMBLE): "Pair accuracy",
    ("ece", ENSEMBLE): "ECE",
    ("ece", ENSEMBLE_CALIBRATED): "ECE after T(x)",
    ("view_tv", ENSEMBLE): "TV",
    ("view_tv", ENSEMBLE_CALIBRATED): "TV after T(x)",
    ("flip_rate", ENSEMBLE): "Flips",
    ("ensemble_gain", ENSEMBLE): "Gain",
}


def k_views_table(results: ArmSummaries, k: str = "K views", names: ArmNames = KEYS) -> Table:
    """Lay out the ensemble of the K views of runs.

    Args:
        results: of `k_views`.
        k: the number of views in words.
        names: display names of arms.
    """
    return means_table(
        results,
        name="views",
        title="K-view decoding",
        caption=(
            f"Decoding: {k} together; raw, except for the columns after T(x), which are "
            "calibrated. TV: mean total variation between views; flips: items whose answer the "
            "views change; gain: accuracy minus that of view 0 alone, in points."
        ),
        titles=_TITLES,
        names=names,
    )


def build_views(request: TableRequest) -> Table:
    """Make the table of K-view decoding of runs.

    Raises:
        InputError: the runs do not compare, or have one view.
    """
    results = k_views(request.metrics)
    if results.published:
        return k_views_table(results, names=request.names)
    k = max(run.predictions.k for run in request.comparable)
    return k_views_table(results, f"{k} views", request.names)
