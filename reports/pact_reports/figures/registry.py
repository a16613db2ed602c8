"""Registry of figures by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pact_reports.figures.arms import (
    build_differences,
    build_ece_by_kind,
    build_main,
    build_views,
    publish_differences,
    publish_ece_by_kind,
    publish_main,
    publish_views,
)
from pact_reports.figures.curves import (
    build_risk_coverage,
    build_view_tv,
    decide_risk_coverage,
    publish_risk_coverage,
)
from pact_reports.figures.decisions import build_costs, decide_costs
from pact_reports.figures.figure import FigureSpec
from pact_reports.figures.pairs import build_margins, build_pairs
from pact_reports.figures.probabilities import (
    build_choices,
    build_confidence,
    build_length,
    build_reliability,
    publish_choices,
    publish_length,
    publish_reliability,
)
from pact_reports.figures.remedies import build_remedies
from pact_reports.figures.training import (
    build_selection,
    build_training,
    publish_selection,
    publish_training,
)

_SAME = "runs on the same items"

FIGURES: Final[Mapping[str, FigureSpec]] = {
    "main": FigureSpec(
        "main comparison of arms", _SAME, build_main, views="always", publish=publish_main
    ),
    "reliability": FigureSpec(
        "reliability before and after T(x)",
        "a run; a calibrator for the second curve",
        build_reliability,
        publish=publish_reliability,
    ),
    "risk-coverage": FigureSpec(
        "risk against coverage",
        _SAME,
        build_risk_coverage,
        decide=decide_risk_coverage,
        publish=publish_risk_coverage,
    ),
    "costs": FigureSpec(
        "what gates cost, and what they are worth",
        "costs, or thresholds of costs",
        build_costs,
        decide=decide_costs,
    ),
    "tv": FigureSpec(
        "view TV of an item", f"{_SAME}, with K of 2 or more", build_view_tv, views="always"
    ),
    "views": FigureSpec(
        "accuracy and TV against K",
        f"{_SAME}, with K of 2 or more",
        build_views,
        views="never",
        publish=publish_views,
    ),
    "remedies": FigureSpec(
        "cost of remedies of order effects against their worth",
        "a run with K of 2 or more and known letter orders",
        build_remedies,
        views="never",
        on_page=False,
    ),
    "temperature-length": FigureSpec(
        "T(x) against prompt length for each C",
        "a calibrator with a slope on length, and known prompt lengths",
        build_length,
        views="never",
        publish=publish_length,
    ),
    "temperature-choices": FigureSpec(
        "T against C for every run",
        "a calibrator",
        build_choices,
        views="never",
        publish=publish_choices,
    ),
    "confidence": FigureSpec("confidence of right and wrong answers", "a run", build_confidence),
    "pairs": FigureSpec("outcomes of pairs, by kind", "complete pairs", build_pairs),
    "margins": FigureSpec(
        "margin of pairs, and the lead of either member",
        "complete pairs, and probabilities",
        build_margins,
    ),
    "ece-kind": FigureSpec("ECE by kind", _SAME, build_ece_by_kind, publish=publish_ece_by_kind),
    "differences": FigureSpec(
        "difference in accuracy between two arms, by kind and domain",
        "two arms with a seed in common, on the same items",
        build_differences,
        publish=publish_differences,
    ),
    "selection": FigureSpec(
        "selection trajectories and holdout accuracy",
        "a training log with selection NLL next to the adapter",
        build_selection,
        publish=publish_selection,
    ),
    "training": FigureSpec(
        "loss terms, mean d and ablated gap over training",
        "a training log next to the adapter",
        build_training,
        views="never",
        publish=publish_training,
    ),
}
"""Every figure, in the order in which a report shows them."""
