"""Registry of figures by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pact_reports.figures.arms import build_differences, build_ece_by_kind, build_main, build_views
from pact_reports.figures.curves import build_risk_coverage, build_view_tv
from pact_reports.figures.figure import Built
from pact_reports.figures.pairs import build_margins, build_pairs
from pact_reports.figures.probabilities import (
    build_choices,
    build_confidence,
    build_length,
    build_reliability,
)
from pact_reports.figures.training import build_selection, build_training
from pact_reports.request import Spec

FIGURES: Final[Mapping[str, Spec[Built]]] = {
    "main": Spec(build_main, "better", "main comparison of arms", views="always", published=True),
    "reliability": Spec(
        build_reliability, "probabilities", "reliability before and after T(x)", published=True
    ),
    "risk-coverage": Spec(build_risk_coverage, "acting", "risk against coverage", published=True),
    "tv": Spec(build_view_tv, "order", "view TV of an item", views="always"),
    "views": Spec(build_views, "order", "accuracy and TV against K", views="never", published=True),
    "temperature-length": Spec(
        build_length,
        "probabilities",
        "T(x) against prompt length for each C",
        views="never",
        published=True,
    ),
    "temperature-choices": Spec(
        build_choices, "probabilities", "T against C for every run", views="never", published=True
    ),
    "confidence": Spec(build_confidence, "probabilities", "confidence of right and wrong answers"),
    "pairs": Spec(build_pairs, "where", "outcomes of pairs, by kind"),
    "margins": Spec(build_margins, "where", "margin of pairs, and the lead of either member"),
    "ece-kind": Spec(build_ece_by_kind, "probabilities", "ECE by kind", published=True),
    "differences": Spec(
        build_differences,
        "where",
        "difference in accuracy between two arms, by kind and domain",
        published=True,
    ),
    "selection": Spec(
        build_selection, "runs", "selection trajectories and holdout accuracy", published=True
    ),
    "training": Spec(
        build_training,
        "runs",
        "loss terms, mean d and ablated gap over training",
        views="never",
        published=True,
    ),
}
"""Every figure, in the order in which a report shows them."""
