"""Registry of tables by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pact_reports.request import Spec
from pact_reports.table import Table
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
from pact_reports.tables.decisions import build_gates, build_risk_coverage
from pact_reports.tables.main_results import build_main, build_views
from pact_reports.tables.order_runs import build_order
from pact_reports.tables.per_answer import build_answers, build_confusion
from pact_reports.tables.run_costs import build_cost
from pact_reports.tables.scorecard import build_scorecard

_SAME = "runs on the same items"
_ORDERS = f"{_SAME}, shown in two orders or more"
_FIXED = "a question whose answers are the same for all items"
_SHARED = "two arms with a seed in common, on the same items"

TABLES: Final[Mapping[str, Spec[Table]]] = {
    "splits": Spec(
        "data splits", "a run, or a dataset", build_splits, views="never", published=True
    ),
    "main": Spec("main results, mean and deviation over seeds", _SAME, build_main, published=True),
    "paired": Spec("differences from the method at the same seed", _SHARED, build_paired),
    "mcnemar": Spec("tests over items at the same seed", _SHARED, build_mcnemar, published=True),
    "views": Spec(
        "K-view decoding",
        f"{_SAME}, with K of 2 or more",
        build_views,
        views="always",
        published=True,
    ),
    "order": Spec(
        "order of the answers, next to noise alone", _ORDERS, build_order, views="always"
    ),
    "ablations": Spec(
        "runs next to the method at the same seed",
        _SHARED,
        build_ablations,
        views="always",
        published=True,
    ),
    "scorecard": Spec(
        "hypotheses and verdicts", "criteria", build_scorecard, views="never", published=True
    ),
    "kinds": Spec("accuracy by kind", _SAME, build_kinds, published=True),
    "domains": Spec(
        "accuracy by domain", f"{_SAME} that name domains", build_domains, published=True
    ),
    "calibration": Spec(
        "before and after calibration", "a calibrator", build_calibration, published=True
    ),
    "answer-scores": Spec(
        "miscalibration, discrimination and uncertainty", _SAME, build_answer_scores
    ),
    "answers": Spec(
        "precision, recall and F1 of every answer", f"{_SAME}, with {_FIXED}", build_answers
    ),
    "confusion": Spec(
        "which answers are taken for which", f"{_SAME}, with {_FIXED}", build_confusion
    ),
    "risk-coverage": Spec("error rate among the most confident items", _SAME, build_risk_coverage),
    "gates": Spec(
        "chosen gates on the runs of their model", "thresholds", build_gates, views="never"
    ),
    "selection": Spec(
        "selected checkpoints",
        "a training log with selection NLL next to the adapter",
        build_selection,
        published=True,
    ),
    "cost": Spec(
        "what scoring and training took", "a run", build_cost, views="never", published=True
    ),
    "settings": Spec(
        "settings of training and evaluation",
        "a released folder",
        build_settings,
        views="never",
        published=True,
    ),
}
"""Every table, in the order in which a report shows them."""
