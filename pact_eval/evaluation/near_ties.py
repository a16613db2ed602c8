"""Answers that rounding could have chosen: items whose two best logits hardly differ.

Two engines, two batch sizes or two machines give logits that differ in the last digits. Where the
two best answers lie closer together than that, which one comes first says nothing about the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from pact_eval._json import Json
from pact_eval.runs import ScoredViews

__all__ = ["NOISE", "NearTies", "near_ties", "near_ties_of_file", "numeric_noise"]

NOISE: Final[Mapping[str, float]] = {"float32": 1e-4, "float16": 0.016, "bfloat16": 0.125}
"""How far a logit may be off by rounding, by the precision of the run: at least so much.

One unit in the last place of a logit near 16, and for float32 what summation in another order does.
"""


@dataclass(frozen=True)
class NearTies:
    """How many answers rounding could have chosen.

    Attributes:
        items: whose two best logits of view 0 differ by twice the noise or less.
        noise: how far a logit may be off.
    """

    items: int
    noise: float

    @property
    def note(self) -> str | None:
        """What a reader of the report must know, or None where there is no near tie."""
        if not self.items:
            return None
        counted = "1 item has" if self.items == 1 else f"{self.items:,} items have"
        return (
            f"{counted} two best answers whose logits differ by {2 * self.noise:.2g} or less "
            "(view 0): rounding could change which comes first"
        )


def numeric_noise(provenance: Mapping[str, Json]) -> float | None:
    """Return how far a logit of a run may be off by rounding.

    What the run measured against one plain pass a prompt, but no less than `NOISE`; None for a run
    that does not know its precision.

    Args:
        provenance: `run.json`.

    Example:
        >>> numeric_noise({"settings": {"dtype": "bfloat16"}})
        0.125
    """
    settings, engine = provenance.get("settings"), provenance.get("engine")
    dtype = settings.get("dtype") if isinstance(settings, dict) else None
    if not isinstance(dtype, str) or dtype not in NOISE:
        return None
    check = engine.get("check") if isinstance(engine, dict) else None
    measured = check.get("largest_logit_difference") if isinstance(check, dict) else None
    return max(NOISE[dtype], float(measured) if isinstance(measured, int | float) else 0.0)


def near_ties(views: ScoredViews, noise: float) -> NearTies:
    """Count items whose two best logits of view 0 differ by twice the noise or less.

    Args:
        views: of a run.
        noise: how far a logit may be off.
    """
    best = np.sort(views.logits[:, 0, :], axis=-1)[:, -2:]
    with np.errstate(invalid="ignore"):  # -inf beside -inf is no tie
        gap = best[:, 1] - best[:, 0]
    return NearTies(int((gap <= 2 * noise).sum()), noise)


def near_ties_of_file(path: Path, noise: float) -> NearTies:
    """Count as `near_ties` does, in one pass over the Parquet file of a run.

    Args:
        path: of the predictions.
        noise: how far a logit may be off.
    """
    best = pl.col("logits").list.sort(descending=True)
    # NaN, of -inf beside -inf, is larger than any number here.
    near = best.list.get(0) - best.list.get(1) <= 2 * noise
    rows = pl.scan_parquet(path).filter(pl.col("view") == 0)
    count = rows.select(near.sum()).collect(engine="streaming").item()
    return NearTies(int(count), noise)
