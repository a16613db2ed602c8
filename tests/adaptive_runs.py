"""Adaptive runs made from runs of all views: the rows that a rule would have taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from run_frames import rows

from pact_eval._json import Json
from pact_eval.prompts.code_orders import code_orders
from pact_eval.runs.folder import RunWriter
from pact_eval.runs.view_rule import ViewRule

RULE = ViewRule(threshold=1.5, risk=0.05, full_share=0.3, full_seed=1)


def full_rows(seed: int, *, families: int = 90, k: int = 4) -> pl.DataFrame:
    """The rows of a run of all views in the orders of scoring; an order has one answer."""
    parts = []
    for item in rows(seed, families=families, k=k).partition_by("id", maintain_order=True):
        orders = code_orders(0, item["id"][0], item["n_choices"][0], k)
        first = {order: view for view, order in reversed([*enumerate(orders)])}
        logits = item["logits"].to_list()
        parts.append(
            item.with_columns(
                code_order=pl.Series([[*order] for order in orders], dtype=pl.List(pl.Int16())),
                logits=pl.Series(
                    [logits[first[order]] for order in orders], dtype=pl.List(pl.Float32())
                ),
            )
        )
    return pl.concat(parts)


def views_by_hand(logits: np.ndarray, orders: list[tuple[int, ...]], threshold: float) -> int:
    """The number of views that an item takes, one view at a time."""
    most = len(dict.fromkeys(orders))
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    for taken in range(1, most):
        second, first = np.sort(log_probs[:taken].mean(axis=0))[-2:]
        if (first - second) / np.sqrt(1 / taken - 1 / most) >= threshold:
            return taken
    return most


def taken_rows(frame: pl.DataFrame, rule: ViewRule) -> pl.DataFrame:
    """The rows of an adaptive run, from those of a run of all views."""
    parts = []
    for item in frame.partition_by("id", maintain_order=True):
        orders = [tuple(order) for order in item["code_order"]]
        taken = len(dict.fromkeys(orders))
        if not rule.gets_all_views(item["family"][0]):
            taken = views_by_hand(np.array(item["logits"].to_list()), orders, rule.threshold)
        parts.append(item.head(taken))
    return pl.concat(parts)


def write_adaptive(folder: Path, frame: pl.DataFrame, rule: ViewRule = RULE) -> Path:
    """Writes the adaptive run of a run of all views."""
    k = frame["view"].n_unique()
    settings: dict[str, Json] = {
        "k": k, "data": {"sha256": "0" * 64}, "adapter": None, "views": rule.to_json(),
    }  # fmt: skip
    with RunWriter(folder, settings, {"command_line": []}) as writer:
        writer.write_part(0, taken_rows(frame, rule))
        writer.finish(1.0, {})
    return folder
