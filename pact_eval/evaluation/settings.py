"""The settings of an evaluation: one object for all numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from pact_eval._choices import ECE_BINS, Allowance, Bins, ClusterUnit, Decoding, GroupBy
from pact_eval.results import short_repr


@dataclass(frozen=True, repr=False)
class Settings:
    """The choices of the user, for report, tables, figures and page.

    Attributes:
        decoding: single (view 0) or ensemble (K views).
        calibrated: apply a calibrator: `calibration`, or the one in each run's folder.
        calibration: calibrator file for every run; None uses the one in each run's folder.
        shipped: with `calibrated`, apply the temperatures that each run's decision template ships.
        by: grouping after all items: kind, domain, source_family, or a further column of the
            records.
        bins: bins of a column of numbers: how many, or their inner edges.
        ece_bins: bins of confidence of ECE, of equal width.
        resamples: bootstrap resamples; None uses `default_resamples` for the number of items.
        seed: seed of the bootstrap.
        method: arm that the others are compared with; None uses the first arm with a seed.
        margin: largest difference in a rate that does not matter, as a fraction; without it, there
            are no verdicts.
        unit: units of intervals and exact tests: family (new families of the same source families)
            or source_family (new source families).
        allow: differences that are accepted between a run and the run its calibrator was fitted on.
        data: datasets of the runs, files or folders, that are audited. Without any, those that
            `run.json` names are, if they are unchanged.
        audit: output of `pact-audit data --json` on the data.
        without_leaks: leave out the families that are also in files that a model is made from.
        target_error: largest error among the answers that a model gives alone, in (0, 1); None does
            not ask whether it may.

    Examples:
        >>> from pact_eval.evaluation.settings import Settings
        >>> settings = Settings(decoding="ensemble", seed=7)
        >>> bool(settings.rng().random() == settings.rng().random())
        True
        >>> settings
        Settings(decoding='ensemble', seed=7)
    """

    decoding: Decoding = "single"
    calibrated: bool = False
    by: GroupBy = "kind"
    resamples: int | None = None
    seed: int = 0
    method: str | None = None
    margin: float | None = None
    calibration: Path | None = None
    shipped: bool = False
    unit: ClusterUnit = "family"
    allow: tuple[Allowance, ...] = ()
    data: tuple[Path, ...] = ()
    audit: Path | None = None
    without_leaks: bool = False
    target_error: float | None = None
    bins: Bins | None = None
    ece_bins: int = ECE_BINS

    def __repr__(self) -> str:
        return short_repr(self, changed=True)

    @property
    def calibration_name(self) -> Literal["raw", "calibrated", "as shipped"]:
        """Name of the calibration."""
        if self.shipped:
            return "as shipped"
        return "calibrated" if self.calibrated else "raw"

    @property
    def label(self) -> dict[str, str]:
        """Views and calibration of the distributions, for reports."""
        return {"views": self.decoding, "calibration": self.calibration_name}

    def rng(self) -> np.random.Generator:
        """Return a new generator from the seed; every number uses the same resamples."""
        return np.random.default_rng(self.seed)
