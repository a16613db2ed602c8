"""Edits of the rows of a run that keep them well-formed: what somebody does to flatter a run."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable

import polars as pl
from mutations import Mutation
from run_frames import rows

Edit = Callable[[random.Random, pl.DataFrame], pl.DataFrame]


def fewer_items(draw: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    ids = frame["id"].unique(maintain_order=True).to_list()
    kept = draw.sample(ids, draw.randrange(1, len(ids)))
    return frame.filter(pl.col("id").is_in(kept))


def fewer_views(draw: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("view") == draw.choice((0, 1)))


def a_view_twice(draw: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    if draw.random() < 0.5:
        return pl.concat([frame, frame.slice(draw.randrange(len(frame)), 1)])
    return frame.with_columns(view=pl.lit(0, dtype=pl.Int16))


def swapped_references(_draw: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(reference=((pl.col("reference") + 1) % pl.col("n_choices")))


def flattered(_draw: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    best = pl.col("logits").list.arg_max().first().over("id")
    return frame.with_columns(reference=best.cast(pl.Int16))


def better_logits(draw: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    more = draw.choice((3.0, 0.001, -3.0))
    logits = [
        [value + more * (place == reference) for place, value in enumerate(values)]
        for values, reference in frame.select("logits", "reference").iter_rows()
    ]
    return _with(frame, "logits", logits)


def other_adapter(draw: random.Random, _frame: pl.DataFrame) -> pl.DataFrame:
    return rows(draw.randrange(2, 99), families=6, k=2)


def impossible_logit(draw: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    logits = frame["logits"].to_list()
    row = draw.randrange(len(logits))
    logits[row][0] = draw.choice((math.nan, math.inf, -math.inf, None, 3e38))
    return _with(frame, "logits", logits)


def impossible_value(draw: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    name, values = draw.choice(
        (
            ("answer_mass", (7.5, -0.1, math.nan, None)),
            ("reference", (9, -1, None)),
            ("prompt_tokens", (0, -5, None)),
            ("n_choices", (1, 27, None)),
            ("kind", ("essay", "", None)),
            ("view", (-1, 7, None)),
            ("variant", ("ablated", None)),
        )
    )
    value = pl.lit(draw.choice(values)).cast(frame.schema[name])
    chosen = pl.lit(True) if draw.random() < 0.5 else pl.int_range(pl.len()) == 0
    return frame.with_columns(pl.when(chosen).then(value).otherwise(name).alias(name))


def other_letters(_draw: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(code_order=pl.col("code_order").list.reverse())


def other_names(draw: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    name = draw.choice(("id", "family", "source_family", "domain", "variant"))
    odd = pl.lit(draw.choice(("", "\u202e", "a" * 20_000, "x\r\ny", "<b>")))
    new = odd if draw.random() < 0.5 else pl.concat_str(odd, name)
    return frame.with_columns(new.alias(name))


def other_columns(draw: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    name = draw.choice(frame.columns)
    action = draw.random()
    if action < 0.4:
        return frame.drop(name)
    if action < 0.7:
        return frame.with_columns(pl.lit(None).alias(name))
    return frame.with_columns(pl.lit("1").alias(name))


def other_order(draw: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sample(fraction=1.0, shuffle=True, seed=draw.randrange(99))


def no_rows(_draw: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.clear()


EDITS: tuple[Edit, ...] = (
    *(fewer_items, fewer_views, a_view_twice, swapped_references, flattered, better_logits),
    *(other_adapter, impossible_logit, impossible_value, impossible_value, other_letters),
    *(other_names, other_columns, other_order, no_rows),
)


def as_mutation(edit: Edit) -> Mutation:
    """Returns the edit as a mutation of the bytes of a Parquet file."""

    def mutate(draw: random.Random, content: bytes) -> bytes:
        written = io.BytesIO()
        edit(draw, pl.read_parquet(io.BytesIO(content))).write_parquet(written)
        return written.getvalue()

    return mutate


ROWS: tuple[Mutation, ...] = tuple(map(as_mutation, EDITS))


def _with(frame: pl.DataFrame, name: str, values: list[list[float]]) -> pl.DataFrame:
    return frame.with_columns(pl.Series(name, values, dtype=frame.schema[name]))
