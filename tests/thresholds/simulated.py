"""Runs whose chances to be right are known, as folders and as items of a gate."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pact_eval.runs.folder import RunWriter
from pact_eval.runs.rows import SCHEMA, UNANSWERED
from pact_eval.thresholds.gates import GateItems


def items(rng: np.random.Generator, families: int, *, odd: float = 0.0) -> GateItems:
    """Returns pairs that share half of their luck; the logit of being right is the sureness."""
    unit = np.arange(families).repeat(2).astype(np.str_).astype(np.object_)
    common, luck = rng.normal(size=families), rng.random(families)
    sureness = 1.8 + common.repeat(2) + rng.normal(size=2 * families)
    chance = 1 / (1 + np.exp(sureness))
    chance = np.where(rng.random(chance.size) < odd, 0.6, chance)
    own = np.where(rng.random(families) < 0.5, luck, rng.random(families))
    wrong = np.c_[luck, own].ravel() < chance
    ids = np.arange(2 * families).astype(np.str_).astype(np.object_)
    return GateItems(ids, unit, unit, sureness, wrong)


def unequal_items(rng: np.random.Generator, families: int) -> GateItems:
    """Returns families of 1, 2 and 8 copies; the large ones are wrong more often."""
    size = rng.choice([1, 2, 8], families)
    sureness = 3 + 1.4 * rng.normal(size=families)
    wrong = rng.random(families) < 1 / (1 + np.exp(sureness - 0.7 * (size == 8)))
    unit = np.arange(families).repeat(size).astype(np.str_).astype(np.object_)
    ids = np.arange(unit.size).astype(np.str_).astype(np.object_)
    return GateItems(ids, unit, unit, sureness.repeat(size), wrong.repeat(size))


def resampled(gate_items: GateItems, families: int, rng: np.random.Generator) -> GateItems:
    """Returns so many families, drawn from those of some items, under new names."""
    code = gate_items.units.codes
    sizes = np.bincount(code)
    order, starts = np.argsort(code, kind="stable"), np.cumsum(sizes) - sizes
    drawn = rng.integers(sizes.size, size=families)
    rows = np.concatenate(
        [order[starts[family] : starts[family] + sizes[family]] for family in drawn]
    )
    names = [f"{number}-{rng.integers(2**40)}" for number in range(families)]
    unit = np.array(names, dtype=np.object_).repeat(sizes[drawn])
    ids = np.arange(rows.size).astype(np.str_).astype(np.object_)
    return replace(gate_items.taken(rows), ids=ids, unit=unit, fold=unit)


@cache
def _population() -> np.ndarray[Any, Any]:
    """Returns the sureness of a large draw of `items`, ascending."""
    return np.sort(1.8 + np.sqrt(2) * np.random.default_rng(1).normal(size=400_000))


def true_error(threshold: float) -> float:
    """Returns the error among accepted items of `items`, from a large draw."""
    sureness = _population()
    accepted = sureness[np.searchsorted(sureness, threshold) :]
    return float((1 / (1 + np.exp(accepted))).mean())


def run(
    folder: Path, seed: int, *, families: int = 300, skill: float = 3.0, k: int = 2, **changes: Any
) -> Path:
    """Writes a run of pairs with three answers; its families are named after the seed.

    Args:
        folder: the run folder.
        seed: of its logits.
        families: number of families; every tenth item has no answer with `unanswered`.
        skill: mean logit of the right answer above the others.
        k: views.
        changes: of the settings; `unanswered` leaves every tenth item without an answer.
    """
    rng = np.random.default_rng(seed)
    unanswered = changes.pop("unanswered", False)
    rows: list[dict[str, Any]] = []
    for item in range(2 * families):
        family = item // 2
        columns = {
            "id": f"{seed}-{family}-{item % 2}", "family": f"{seed}-{family}",
            "source_family": f"{seed}-s{family % 5}", "domain": f"d{family % 2}",
            "kind": ("choice", "score")[family % 2],
            "variant": ("base", "counterfactual")[item % 2], "reference": 1, "n_choices": 3,
            "status": None, "reason": None,
        }  # fmt: skip
        if unanswered and item % 10 == 0:
            facts = {"status": "failed", "reason": "none", "view": 0, "logits": []}
            rows.append(columns | facts | {"code_order": []})
            continue
        logits = 1.5 * rng.normal(size=3) + np.array([0.0, skill, 0.0])
        for view in range(k):
            seen = logits + 0.3 * rng.normal(size=3)
            order = [(slot + view) % 3 for slot in range(3)]
            rows.append(columns | {"view": view, "logits": seen.tolist(), "code_order": order})
    settings: dict[str, Any] = {
        "k": k,
        "adapter": {"sha256": "a" * 64},
        "contract": {"name": "nimble", "fingerprint": "c" * 64},
        "data": {"records": 2 * families},
    } | changes
    frame = pl.DataFrame(rows, schema=dict(SCHEMA) | dict(UNANSWERED))
    with RunWriter(folder, settings, {"source": "score", "arm": "pact", "seed": seed}) as writer:
        writer.write_part(0, frame)
        writer.finish(1.0, {})
    return folder
