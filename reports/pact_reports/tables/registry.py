"""Registry of tables by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pact_reports.tables.answer_scores import build_answer_scores
from pact_reports.tables.arm_tables import (
    build_ablations,
    build_calibration,
    build_domains,
    build_kinds,
    build_mcnemar,
    build_paired,
    build_selection,
    build_settings,
    build_splits,
)
from pact_reports.tables.decisions import build_costs, build_gates, build_risk_coverage
from pact_reports.tables.main_results import build_main, build_views
from pact_reports.tables.order_runs import build_order, build_slots
from pact_reports.tables.per_answer import build_answers, build_confusion
from pact_reports.tables.request import TableSpec
from pact_reports.tables.run_costs import build_cost
from pact_reports.tables.scorecard import build_scorecard

_SAME = "runs on the same items"
_ORDERS = f"{_SAME}, shown in two orders or more"
_FIXED = "a question whose answers are the same for all items"
_SHARED = "two arms with a seed in common, on the same items"

TABLES: Final[Mapping[str, TableSpec]] = {
    "splits": TableSpec(
        "data splits", "a run, or a dataset", build_splits, views="never", published=True
    ),
    "main": TableSpec(
        "main results, mean and deviation over seeds", _SAME, build_main, published=True
    ),
    "paired": TableSpec("differences from the method at the same seed", _SHARED, build_paired),
    "mcnemar": TableSpec(
        "tests over items at the same seed", _SHARED, build_mcnemar, published=True
    ),
    "views": TableSpec(
        "K-view decoding",
        f"{_SAME}, with K of 2 or more",
        build_views,
        views="always",
        published=True,
    ),
    "order": TableSpec(
        "order of the answers, next to noise alone", _ORDERS, build_order, views="always"
    ),
    "slots": TableSpec("preferred slots", _ORDERS, build_slots, views="always"),
    "ablations": TableSpec(
        "runs next to the method at the same seed",
        _SHARED,
        build_ablations,
        views="always",
        published=True,
    ),
    "scorecard": TableSpec(
        "hypotheses and verdicts", "criteria", build_scorecard, views="never", published=True
    ),
    "kinds": TableSpec("accuracy by kind", _SAME, build_kinds, published=True),
    "domains": TableSpec(
        "accuracy by domain", f"{_SAME} that name domains", build_domains, published=True
    ),
    "calibration": TableSpec(
        "before and after calibration", "a calibrator", build_calibration, published=True
    ),
    "answer-scores": TableSpec(
        "miscalibration, discrimination and uncertainty", _SAME, build_answer_scores
    ),
    "answers": TableSpec(
        "precision, recall and F1 of every answer", f"{_SAME}, with {_FIXED}", build_answers
    ),
    "confusion": TableSpec(
        "which answers are taken for which", f"{_SAME}, with {_FIXED}", build_confusion
    ),
    "risk-coverage": TableSpec(
        "error rate among the most confident items", _SAME, build_risk_coverage
    ),
    "gates": TableSpec(
        "chosen gates on the runs of their model", "thresholds", build_gates, views="never"
    ),
    "costs": TableSpec(
        "what gates cost, and what they are worth",
        "costs, or thresholds of costs",
        build_costs,
        views="never",
    ),
    "selection": TableSpec(
        "selected checkpoints",
        "a training log with selection NLL next to the adapter",
        build_selection,
        published=True,
    ),
    "cost": TableSpec(
        "what scoring and training took", "a run", build_cost, views="never", published=True
    ),
    "settings": TableSpec(
        "settings of training and evaluation",
        "a released folder",
        build_settings,
        views="never",
        published=True,
    ),
}
"""Every table, in the order in which a report shows them."""
