"""The figures that are known, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pact_reports.figures.confidence import build_confidence
from pact_reports.figures.differences import build_differences
from pact_reports.figures.ece_by_kind import build_ece_kind
from pact_reports.figures.figure import FigureSpec
from pact_reports.figures.main_comparison import build_main
from pact_reports.figures.pair_failures import build_pairs
from pact_reports.figures.reliability import build_reliability
from pact_reports.figures.risk_coverage import build_risk_coverage
from pact_reports.figures.selection import build_selection
from pact_reports.figures.temperature import build_choices, build_length
from pact_reports.figures.training import build_training
from pact_reports.figures.tv_distribution import build_tv
from pact_reports.figures.views_sweep import build_views

__all__ = ["FIGURES"]

_SAME = "runs on the same items"

FIGURES: Final[Mapping[str, FigureSpec]] = {
    "main": FigureSpec("main comparison of arms", _SAME, build_main),
    "reliability": FigureSpec(
        "reliability before and after T(x)",
        "a run; a calibrator for the second curve",
        build_reliability,
    ),
    "risk-coverage": FigureSpec("risk against coverage", _SAME, build_risk_coverage),
    "tv": FigureSpec("View TV of an item", f"{_SAME}, with K of 2 or more", build_tv),
    "views": FigureSpec("accuracy and TV against K", f"{_SAME}, with K of 2 or more", build_views),
    "temperature-length": FigureSpec(
        "T(x) against prompt length for each C",
        "a calibrator with a slope on length, and known prompt lengths",
        build_length,
    ),
    "temperature-choices": FigureSpec("T against C for every run", "a calibrator", build_choices),
    "confidence": FigureSpec("confidence of right and wrong answers", "a run", build_confidence),
    "pairs": FigureSpec("how pairs come out, by kind", "complete pairs", build_pairs),
    "ece-kind": FigureSpec("ECE by kind", _SAME, build_ece_kind),
    "differences": FigureSpec(
        "difference in accuracy between two arms, by kind and domain",
        "two arms with a seed in common, on the same items",
        build_differences,
    ),
    "selection": FigureSpec(
        "selection trajectories and holdout accuracy",
        "a training log with selection NLL beside the adapter",
        build_selection,
    ),
    "training": FigureSpec(
        "loss terms, mean d and ablated gap over training",
        "a training log beside the adapter",
        build_training,
    ),
}
"""Every figure, in the order in which a report shows them."""
