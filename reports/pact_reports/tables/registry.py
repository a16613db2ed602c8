"""Registry of tables by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pact_reports.request import Spec
from pact_reports.table import Table
from pact_reports.tables import arms_compared as arms
from pact_reports.tables import runs
from pact_reports.tables.order_runs import build_order
from pact_reports.tables.per_answer import build_answers, build_confusion
from pact_reports.views.hypotheses import build_scorecard

TABLES: Final[Mapping[str, Spec[Table]]] = {
    "splits": Spec(runs.build_splits, "data", views="never", published=True),
    "main": Spec(arms.build_main, "better", published=True),
    "paired": Spec(arms.build_paired, "better"),
    "mcnemar": Spec(arms.build_mcnemar, "runs", published=True),
    "views": Spec(arms.build_views, "order", views="always", published=True),
    "order": Spec(build_order, "order", views="always"),
    "ablations": Spec(arms.build_ablations, "better", views="always", published=True),
    "scorecard": Spec(build_scorecard, "better", views="never", published=True),
    "kinds": Spec(runs.build_kinds, "where", published=True),
    "domains": Spec(runs.build_domains, "where", published=True),
    "calibration": Spec(runs.build_calibration, "probabilities", published=True),
    "answer-scores": Spec(runs.build_answer_scores, "probabilities"),
    "answers": Spec(build_answers, "where"),
    "confusion": Spec(build_confusion, "where"),
    "risk-coverage": Spec(runs.build_risk_coverage, "acting"),
    "gates": Spec(runs.build_gates, "acting", views="never"),
    "selection": Spec(runs.build_selection, "runs", published=True),
    "cost": Spec(runs.build_cost, "runs", views="never", published=True),
    "settings": Spec(arms.build_settings, "runs", views="never", published=True),
}
"""Every table, in the order in which a report shows them."""
