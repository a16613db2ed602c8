"""Items with columns, of which it is known whether a group differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl
from run_frames import frame_of

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.evaluation.conclusions.where import WhereConclusion, where_conclusion
from pact_eval.evaluation.item_columns import item_columns
from pact_eval.evaluation.items import ScoredItems
from pact_eval.runs.predictions import Predictions

Columns = Mapping[str, Any]


def frame_of_groups(
    right: BoolArray, confidence: FloatArray, columns: Columns, family: IntArray | None = None
) -> pl.DataFrame:
    """Return rows of two answers, of which the first is chosen with a confidence above 50%."""
    n = right.size
    families = np.arange(n) if family is None else family
    frame = frame_of(
        id=[f"i{at:05}" for at in range(n)],
        family=[f"f{at:05}" for at in families],
        reference=np.where(right, 0, 1).tolist(),
        logits=np.log(np.stack([confidence, 1 - confidence], axis=1)).tolist(),
    )
    return frame.with_columns(
        **{f"metadata.{name}": pl.Series(values, strict=False) for name, values in columns.items()}
    )


def where_in(frame: pl.DataFrame, *, seed: int = 0, by: str = "kind") -> WhereConclusion:
    """Return what is concluded on a run with these rows."""
    items = ScoredItems.of(Predictions.from_frame(frame), "single")
    return where_conclusion("run", items, item_columns(items), seed=seed, by=by)


def texts(prefix: str, codes: IntArray) -> list[str]:
    """Return codes as texts."""
    return [f"{prefix}{code}" for code in codes.tolist()]


def broken_domains(seed: int) -> pl.DataFrame:
    """Two of ten domains are wrong: 23% and 27% right, the others 82%."""
    rng = np.random.default_rng(seed)
    domain = np.repeat(np.arange(10), 30)
    rate = np.select([domain == 3, domain == 7], [0.23, 0.27], 0.82)
    confidence = np.clip(rng.normal(0.85, 0.08, 300), 0.51, 0.99)
    columns = {"topic": texts("d", domain), "length": rng.normal(size=300)}
    return frame_of_groups(rng.random(300) < rate, confidence, columns)


def over_confident_group(seed: int) -> pl.DataFrame:
    """All shops are right in 75%; one says 98%, the others 75%."""
    rng = np.random.default_rng(seed)
    shop = rng.integers(0, 4, 600)
    confidence = np.clip(np.where(shop == 2, 0.98, 0.75) + rng.normal(0, 0.02, 600), 0.51, 0.995)
    columns = {"shop": texts("s", shop), "length": rng.normal(size=600)}
    return frame_of_groups(rng.random(600) < 0.75, confidence, columns)


NULLS: Final = (
    *("single items", "pairs", "copies", "over-confident", "over-confident copies"),
    *("opposed pairs", "other spread", "other sizes", "96% right"),
)
"""Runs in which no group differs in accuracy or in confidence minus accuracy."""


def null_run(kind: str, seed: int, families: int = 300) -> pl.DataFrame:
    """Return a run of one of `NULLS` with seven columns of very different groups."""
    rng = np.random.default_rng([seed, NULLS.index(kind)])
    sizes = {"pairs": 2, "opposed pairs": 2, "copies": 4, "over-confident copies": 4}
    size = np.full(families, sizes.get(kind, 1))
    if kind == "other sizes":
        size[::4] = 8
    family = np.repeat(np.arange(families), size)
    columns = _columns(rng, family)
    if kind == "other sizes":
        shop = np.where(np.arange(families) % 4 == 0, 0, rng.integers(1, 4, families))
        columns["shop"] = texts("s", shop[family])
    low = 0.85 if kind.startswith("over") else 0.6
    confidence = rng.uniform(low, 0.999, families)[family]
    if kind == "96% right":
        confidence = np.full(family.size, 0.96)
    if kind == "other spread":  # a group always says 80%, the others 61% or 99%
        several = np.where(rng.random(family.size) < 0.5, 0.61, 0.99)
        confidence = np.where(np.array(columns["small"]) == "1", 0.8, several)
    alike = {"pairs": 0.7, "copies": 1.0, "over-confident copies": 1.0, "other sizes": 1.0}
    own, shared = rng.random(family.size), rng.random(families)[family]
    luck = np.where(rng.random(family.size) < alike.get(kind, 0.0), shared, own)
    right = luck < confidence - 0.25 * kind.startswith("over")
    if kind == "opposed pairs":  # one member of most families is right, and the other is wrong
        first = np.tile([True, False], families)
        opposed = (rng.random(families) < 0.5)[family] == first
        right = np.where((rng.random(families) < 0.6)[family], opposed, luck < 0.8)
        confidence = np.full(family.size, 0.62)
        columns["member"] = texts("m", first.astype(int))
    return frame_of_groups(right, confidence, columns, family)


def _columns(rng: np.random.Generator, family: IntArray) -> dict[str, Any]:
    families, n = int(family.max()) + 1, family.size
    shares = [0.6, 0.2, 0.1, 0.05, 0.03, 0.02]
    return {
        "topic": texts("t", rng.integers(0, 10, families)[family]),
        "shop": texts("s", rng.choice(6, families, p=shares)[family]),
        "small": texts("", (rng.random(families) < 0.12).astype(int)[family]),
        "row": texts("r", rng.integers(0, 3, n)),
        "length": rng.normal(size=n),
        "stars": rng.integers(1, 6, n).astype(float),
    }
