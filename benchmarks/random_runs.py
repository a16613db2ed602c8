"""Random predictions of any number of items, written as those of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from pact_eval.runs.rows import SCHEMA

PART: Final = 1_000_000
ROW_GROUP: Final = 2**18
WIDTH: Final = 6


def part(number: int, items: int) -> pl.DataFrame:
    """Return the rows of some families: two items each, with the same number of answers."""
    rng = np.random.default_rng(number)
    n_choices = rng.integers(2, WIDTH + 1, (items + 1) // 2).repeat(2)[:items]
    reference = (rng.random(items) * n_choices).astype(np.int16)
    logits = rng.normal(0, 1.5, (items, WIDTH)).astype(np.float32)
    logits[np.arange(items), reference] += 1.5
    row = number * PART + np.arange(items)
    lists, orders = [], []
    for answers in range(2, WIDTH + 1):
        rows = np.flatnonzero(n_choices == answers)
        order = np.broadcast_to(np.arange(answers, dtype=np.int16), (rows.size, answers))
        for made, values in ((lists, logits[rows, :answers]), (orders, order)):
            column = pl.Series(np.ascontiguousarray(values)).arr.to_list()
            made.append(pl.DataFrame({"row": rows, "values": column}))
    return pl.DataFrame({"row": row, "pair": row // 2}).select(
        id=pl.format("r{}", "row"),
        family=pl.format("f{}", "pair"),
        source_family=pl.format("s{}", pl.col("pair") % 1_000),
        domain=pl.format("d{}", pl.col("pair") % 5),
        kind=pl.Series(np.where(n_choices == 2, "boolean", "choice")),
        variant=pl.Series(np.where(row % 2 == 0, "base", "counterfactual")),
        reference=pl.Series(reference),
        n_choices=pl.Series(n_choices.astype(np.int16)),
        view=pl.lit(0, dtype=pl.Int16),
        code_order=pl.concat(orders).sort("row")["values"],
        logits=pl.concat(lists).sort("row")["values"],
        prompt_tokens=pl.lit(200, dtype=pl.Int32),
        answer_mass=pl.lit(0.9, dtype=pl.Float32),
    )


def write_rows(folder: Path, items: int, views: int = 1) -> Path:
    """Write the predictions of a run; further views are view 0 times a random factor."""
    parts = []
    for number, start in enumerate(range(0, items, PART)):
        path = folder / f"part-{number:06d}.parquet"
        rows = part(number, min(PART, items - start)).select(list(SCHEMA))
        if views > 1:
            rows = rows.select(pl.all().repeat_by(views).explode())
            view = np.tile(np.arange(views, dtype=np.int16), len(rows) // views)
            factor = np.random.default_rng(number).normal(1, 0.3, len(rows)).astype(np.float32)
            logits = pl.col("logits") * pl.Series(factor)
            rows = rows.with_columns(view=pl.Series(view), logits=logits)
        rows.write_parquet(path)
        parts.append(path)
    whole = folder / "predictions.parquet"
    # Row groups as in runs, which are not sunk: a sink writes smaller ones.
    pl.scan_parquet(parts).sink_parquet(whole, row_group_size=ROW_GROUP)
    for path in parts:
        path.unlink()
    return whole
