"""Statistics: intervals and tests that respect the family as the unit of sampling."""

from pact_eval.stats.bootstrap import (
    Statistic,
    bootstrap_intervals,
    cluster_sums,
    mean_statistic,
    ratio_statistic,
    rows_statistic,
    totals_statistic,
)
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.homogeneity import SlotHomogeneity, slot_homogeneity

__all__ = [
    "Estimate",
    "SlotHomogeneity",
    "Statistic",
    "bootstrap_intervals",
    "cluster_sums",
    "mean_statistic",
    "ratio_statistic",
    "rows_statistic",
    "slot_homogeneity",
    "totals_statistic",
]
