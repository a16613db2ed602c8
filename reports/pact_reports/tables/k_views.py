"""K-view decoding: what the views together say, how far they disagree, and what they gain."""

from __future__ import annotations

from typing import Final

from pact_eval.errors import InputError
from pact_eval.preregistration import (
    ArmValues,
    MetricQuestion,
    MetricTable,
    arm_values,
    known_decodings,
)
from pact_reports.table import Table
from pact_reports.tables.main_results import means_table
from pact_reports.tables.request import TableRequest

__all__ = ["build_views", "k_views", "k_views_table"]

_RAW: Final = "ensemble"
_CALIBRATED: Final = "ensemble_calibrated"
_TITLES: Final[dict[MetricQuestion, str]] = {
    ("accuracy", _RAW): "Accuracy",
    ("pair_accuracy", _RAW): "Pair accuracy",
    ("ece", _RAW): "ECE",
    ("ece", _CALIBRATED): "ECE after T(x)",
    ("view_tv", _RAW): "TV",
    ("view_tv", _CALIBRATED): "TV after T(x)",
    ("flip_rate", _RAW): "Flips",
    ("ensemble_gain", _RAW): "Gain",
}


def k_views(table: MetricTable) -> ArmValues:
    """Summarise what the K views of runs say together.

    Accuracy, flips and gain rest on the argmax, which no temperature changes; ECE and TV are taken
    raw and, where the table has them, calibrated.

    Args:
        table: the numbers.

    Returns:
        Mean and deviation over the seeds of each arm.

    Raises:
        InputError: no run has more views than one.
    """
    if not known_decodings(table, "accuracy", (_RAW, _CALIBRATED)):
        message = "no run has more views than one: K is 1"
        raise InputError(message)
    return arm_values(table, list(_TITLES))


def k_views_table(results: ArmValues, k: str = "K views") -> Table:
    """Lay out what the K views of runs say together.

    Args:
        results: of `k_views`.
        k: the number of views in words.
    """
    return means_table(
        results,
        name="views",
        title="K-view decoding",
        caption=(
            f"Decoding: {k} together; raw, but for the columns after T(x), which are calibrated. "
            "TV: mean total variation between views; flips: items whose answer the views change; "
            "gain: accuracy over that of view 0 alone, in points, near 0 where nothing was lost."
        ),
        titles=_TITLES,
    )


def build_views(request: TableRequest) -> Table:
    """Make the table of K-view decoding of runs.

    Raises:
        InputError: the runs do not compare, or have one view.
    """
    runs = request.comparable
    ks = sorted({run.predictions.k for run in runs})
    named = f"{ks[0]} views" if len(ks) == 1 else f"{ks[0]} to {ks[-1]} views, by run,"
    return k_views_table(k_views(request.metrics), named)
