"""Registry of figures by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pact_reports.figures.arms import (
    build_differences,
    build_ece_by_kind,
    build_main,
    build_views,
)
from pact_reports.figures.curves import (
    build_risk_coverage,
    build_view_tv,
)
from pact_reports.figures.decisions import build_costs
from pact_reports.figures.figure import Built
from pact_reports.figures.pairs import build_margins, build_pairs
from pact_reports.figures.probabilities import (
    build_choices,
    build_confidence,
    build_length,
    build_reliability,
)
from pact_reports.figures.training import (
    build_selection,
    build_training,
)
from pact_reports.request import Spec

_SAME = "runs on the same items"

FIGURES: Final[Mapping[str, Spec[Built]]] = {
    "main": Spec("main comparison of arms", _SAME, build_main, views="always", published=True),
    "reliability": Spec(
        "reliability before and after T(x)",
        "a run; a calibrator for the second curve",
        build_reliability,
        published=True,
    ),
    "risk-coverage": Spec(
        "risk against coverage",
        _SAME,
        build_risk_coverage,
        published=True,
    ),
    "costs": Spec(
        "what gates cost, and what they are worth",
        "costs, or thresholds of costs",
        build_costs,
    ),
    "tv": Spec(
        "view TV of an item", f"{_SAME}, with K of 2 or more", build_view_tv, views="always"
    ),
    "views": Spec(
        "accuracy and TV against K",
        f"{_SAME}, with K of 2 or more",
        build_views,
        views="never",
        published=True,
    ),
    "temperature-length": Spec(
        "T(x) against prompt length for each C",
        "a calibrator with a slope on length, and known prompt lengths",
        build_length,
        views="never",
        published=True,
    ),
    "temperature-choices": Spec(
        "T against C for every run",
        "a calibrator",
        build_choices,
        views="never",
        published=True,
    ),
    "confidence": Spec("confidence of right and wrong answers", "a run", build_confidence),
    "pairs": Spec("outcomes of pairs, by kind", "complete pairs", build_pairs),
    "margins": Spec(
        "margin of pairs, and the lead of either member",
        "complete pairs, and probabilities",
        build_margins,
    ),
    "ece-kind": Spec("ECE by kind", _SAME, build_ece_by_kind, published=True),
    "differences": Spec(
        "difference in accuracy between two arms, by kind and domain",
        "two arms with a seed in common, on the same items",
        build_differences,
        published=True,
    ),
    "selection": Spec(
        "selection trajectories and holdout accuracy",
        "a training log with selection NLL next to the adapter",
        build_selection,
        published=True,
    ),
    "training": Spec(
        "loss terms, mean d and ablated gap over training",
        "a training log next to the adapter",
        build_training,
        views="never",
        published=True,
    ),
}
"""Every figure, in the order in which a report shows them."""
