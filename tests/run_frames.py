"""Runs made of random logits, as frames and as folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pact_eval._files import sha256_of_file
from pact_eval._json import Json
from pact_eval.runs.folder import CONTENTS, MOST_VIEWS, SETTING, RunWriter
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import write_provenance
from pact_eval.runs.rows import ABLATED_SCHEMA, SCHEMA
from pact_eval.runs.seal import CONTENT_FREE, PREDICTIONS, UNANSWERED, seal_of_rows, sealed

KINDS = ("choice", "boolean", "score")


def rows(seed: int, *, families: int = 30, k: int = 3, skill: float = 1.0) -> pl.DataFrame:
    """Returns the rows of a run: items and references are always the same, logits by seed."""
    of_items, of_logits = np.random.default_rng(0), np.random.default_rng(seed)
    made: list[dict[str, Any]] = []
    for family in range(families):
        kind = KINDS[family % 3]
        n = 2 if kind == "boolean" else int(of_items.integers(2, 6))
        for variant in ("base", "counterfactual"):
            reference = int(of_items.integers(n))
            for view in range(k):
                logits = of_logits.normal(0, 1, n)
                logits[reference] += skill
                made.append(
                    {
                        "id": f"f{family}-{variant}",
                        "family": f"f{family}",
                        "source_family": f"s{family % 6}",
                        "domain": f"d{family % 4}",
                        "kind": kind,
                        "variant": variant,
                        "reference": reference,
                        "n_choices": n,
                        "view": view,
                        "code_order": [(slot + view) % n for slot in range(n)],
                        "logits": logits.tolist(),
                        "prompt_tokens": 200 + family,
                        "answer_mass": 0.9,
                    }
                )
    return pl.DataFrame(made, schema=SCHEMA)


def opposed(frame: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows with two source families, one far too sure and one far too unsure.

    A temperature that is fitted on one of them makes the other worse.
    """
    sure = pl.col("source_family").str.slice(-1).cast(pl.Int64) % 2 == 0
    sharp, flat = (pl.col("logits").list.eval(pl.element() * by) for by in (4, 0.25))
    return frame.with_columns(
        logits=pl.when(sure).then(sharp).otherwise(flat),
        source_family=pl.when(sure).then(pl.lit("s0")).otherwise(pl.lit("s1")),
    )


def frame_of(**columns: Any) -> pl.DataFrame:
    """Returns rows with these columns: two answers, one view, one family per id if not said."""
    n = len(columns["id"])
    views = columns.get("view", [0] * n)
    defaults: dict[str, Any] = {
        "family": columns["id"],
        "source_family": ["s"] * n,
        "domain": ["d"] * n,
        "kind": ["choice"] * n,
        "variant": [None] * n,
        "reference": [None] * n,
        "n_choices": [len(logits) for logits in columns["logits"]],
        "view": views,
        "code_order": [
            [(slot + view) % len(logits) for slot in range(len(logits))]
            for view, logits in zip(views, columns["logits"], strict=True)
        ],
        "prompt_tokens": [None] * n,
        "answer_mass": [None] * n,
    }
    schema = ABLATED_SCHEMA if "answers" in columns else SCHEMA
    return pl.DataFrame(defaults | columns, schema_overrides=schema).select(*schema)


def predictions(seed: int, **options: Any) -> Predictions:
    return Predictions.from_frame(rows(seed, **options))


def ablated_rows(seed: int, *, families: int = 30, k: int = 3, lean: float = 1.0) -> pl.DataFrame:
    """Returns the rows of a run on the ablated contexts of the families of `rows`.

    The first of the two answers is ahead of the second by about `lean`.
    """
    base = rows(seed, families=families, k=k, skill=0.0).filter(pl.col("variant") == "base")
    made = []
    for row in base.iter_rows(named=True):
        first = row["reference"]
        logits = list(row["logits"])
        logits[first] += lean
        answers = [first, (first + 1) % row["n_choices"]]
        row |= {"id": f"{row['id']}-ablated", "variant": "ablated", "reference": None}
        made.append(row | {"logits": logits, "answers": answers})
    return pl.DataFrame(made, schema=ABLATED_SCHEMA)


def ablated_predictions(seed: int, **options: Any) -> Predictions:
    return Predictions.from_frame(ablated_rows(seed, **options))


def other_items(frame: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows under names of their own."""
    return frame.with_columns(
        *(pl.format("calib-{}", pl.col(name)).alias(name) for name in ("id", "family")),
        source_family=pl.format("c{}", pl.col("source_family")),
    )


def write_run(
    folder: Path, frame: pl.DataFrame, *, arm: str | None = None, seed: int | None = None
) -> Path:
    """Writes a complete run folder."""
    k = frame["view"].n_unique()
    settings: dict[str, Json] = {"k": k, "data": {"sha256": "0" * 64}, "adapter": None}
    writer = RunWriter(folder, settings, {"arm": arm, "seed": seed, "command_line": []})
    writer.write_part(0, frame)
    writer.finish(1.0, {})
    writer.close()
    return folder


def edit_run(folder: Path, *, settings: Mapping[str, Any] | None = None, **labels: Any) -> Path:
    """Changes what a complete run records, and seals it anew."""
    recorded = json.loads((folder / "run.json").read_bytes()) | labels
    recorded["settings"] |= settings or {}
    return seal_again(folder, recorded)


def edit_rows(folder: Path, *columns: pl.Expr | pl.Series) -> Path:
    """Changes columns of a complete run, and seals it anew."""
    path = folder / PREDICTIONS
    pl.read_parquet(path).with_columns(*columns).write_parquet(path)
    return seal_again(folder, json.loads((folder / "run.json").read_bytes()))


def seal_again(folder: Path, recorded: Mapping[str, Json]) -> Path:
    """Writes a `run.json` with the seal of the rows in the folder."""
    path = folder / PREDICTIONS
    write_provenance(folder, sealed(recorded, seal_of_rows(path, pl.read_parquet(path))))
    return folder


def forge_seal(folder: Path) -> Path:
    """Seals whatever is in the folder, as somebody would who wants it to be read."""
    try:
        recorded = json.loads((folder / "run.json").read_bytes())
    except (ValueError, RecursionError):
        return folder
    seal = recorded.get("seal") if isinstance(recorded, dict) else None
    if isinstance(seal, dict):
        rows = {key: value for key, value in seal.items() if key != "provenance_sha256"}
        for key, name in (("predictions", PREDICTIONS), ("unanswered", UNANSWERED)):
            if f"{key}_sha256" in rows:
                rows[f"{key}_sha256"] = sha256_of_file(folder / name)
        write_provenance(folder, sealed(recorded, rows))
    return folder


def without_seal(folder: Path) -> Path:
    """Removes the seal of a run."""
    recorded = json.loads((folder / "run.json").read_bytes())
    del recorded["seal"]
    write_provenance(folder, recorded)
    return folder


def labels(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "run.json").read_bytes())
    return content


def write_content_free(folder: Path, frame: pl.DataFrame, seed: int = 0) -> Path:
    """Writes content-free prompts of two views into the folder of a run with these rows."""
    rng = np.random.default_rng(seed)
    views = frame.filter(pl.col("view") < MOST_VIEWS)
    logits = [rng.normal(size=len(row)).tolist() for row in views["logits"]]
    noise = views.with_columns(logits=pl.Series(logits, dtype=views.schema["logits"]))
    prompts = pl.concat(
        [
            noise.with_columns(id=pl.format("{}/{}", pl.lit(number), pl.col("id")))
            for number in range(len(CONTENTS))
        ]
    )
    write_run(folder / CONTENT_FREE, prompts)
    edit_run(folder / CONTENT_FREE, settings={SETTING: [*CONTENTS]})
    return folder
