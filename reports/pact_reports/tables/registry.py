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

TABLES: Final[Mapping[str, Spec[Table]]] = {
    "splits": Spec(build_splits, "data", views="never", published=True),
    "main": Spec(build_main, "better", published=True),
    "paired": Spec(build_paired, "better"),
    "mcnemar": Spec(build_mcnemar, "runs", published=True),
    "views": Spec(build_views, "order", views="always", published=True),
    "order": Spec(build_order, "order", views="always"),
    "ablations": Spec(build_ablations, "better", views="always", published=True),
    "scorecard": Spec(build_scorecard, "better", views="never", published=True),
    "kinds": Spec(build_kinds, "where", published=True),
    "domains": Spec(build_domains, "where", published=True),
    "calibration": Spec(build_calibration, "probabilities", published=True),
    "answer-scores": Spec(build_answer_scores, "probabilities"),
    "answers": Spec(build_answers, "where"),
    "confusion": Spec(build_confusion, "where"),
    "risk-coverage": Spec(build_risk_coverage, "acting"),
    "gates": Spec(build_gates, "acting", views="never"),
    "selection": Spec(build_selection, "runs", published=True),
    "cost": Spec(build_cost, "runs", views="never", published=True),
    "settings": Spec(build_settings, "runs", views="never", published=True),
}
"""Every table, in the order in which a report shows them."""
