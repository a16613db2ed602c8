"""Random tables of known truth: the import states it to 1e-9, or asks. It is never wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import polars as pl
import pytest
from foreign_tables import Numbers, numbers_of, write_table
from random_tables import REFERENCE, REFERENCE_OF_OPTIONS, Table, random_table

import pact_eval
from logs import read_rows
from pact_eval.errors import InputError, ShapeError
from pact_eval.importing.answers import answers_of_log
from pact_eval.importing.source import LogOptions, import_options
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import OUTCOMES

BLOCK: Final = 20
"""Tables of one test; their seeds are those of the block."""
LEAST_READ: Final = 0.6


def stated(path: Path, out: Path, options: Mapping[str, Any]) -> Numbers | str:
    """What an import of a table says: its numbers, or its question."""
    try:
        imported = read_rows(path, import_options(cast("LogOptions", options)))
        if imported.values not in ("probabilities", "log_probabilities", "logits"):
            pact_eval.import_run(path, out, **options)
            return numbers_of(out)
    except ShapeError as error:
        return str(error)
    predictions = Predictions.from_frame(imported.frame)
    log_probs, items = predictions.log_probs("single"), np.arange(len(predictions))
    hits = log_probs.argmax(axis=1) == predictions.reference
    losses = -log_probs[items, predictions.reference]
    return Numbers(float(hits.mean()), float(losses.mean()), None, len(predictions))


def fault(table: Table, said: Numbers) -> str:
    """What is wrong with the numbers of a table; "" if nothing is."""
    if said.accuracy is None or abs(said.accuracy - table.accuracy) > 1e-9:
        return f"accuracy {said.accuracy}, true {table.accuracy}"
    if table.nll is None:
        return ""
    if said.nll is None or not math.isclose(said.nll, table.nll, rel_tol=1e-9, abs_tol=1e-9):
        return f"NLL {said.nll}, true {table.nll}"
    return ""


def _first(error: object) -> str:
    return str(error).partition("\n")[0]


def outcome(folder: Path, seed: int) -> tuple[str, str]:
    """How the table of a seed is read: "read", "asked" or "wrong", and what there is to say."""
    table = random_table(seed)
    path = write_table(folder, table.rows, table.dialect, f"t{seed}")
    told = f"seed {seed}: {table.traits}, {table.dialect}, {dict(table.options)}"
    try:
        said = stated(path, folder / f"{seed}", table.options)
        if isinstance(said, Numbers):
            wrong = fault(table, said)
            return ("wrong", f"{told}: {wrong}") if wrong else ("read", told)
        if table.statement is None:
            return "asked", f"{told}: {said}"
        again = stated(path, folder / f"{seed}-stated", table.statement)
    except InputError as error:
        return "wrong", f"{told}: {type(error).__name__}, exit {error.exit_code}: {_first(error)}"
    if isinstance(again, str):
        return "wrong", f"{told}: asked although all is stated by {table.statement}: {again}"
    wrong = fault(table, again)
    if wrong:
        return "wrong", f"{told}: {wrong} by {table.statement}"
    return "asked", f"{told}: {said}"


@pytest.mark.parametrize(
    "block", [*range(3), *(pytest.param(block, marks=pytest.mark.slow) for block in range(3, 15))]
)
def test_an_import_states_the_truth_or_asks(tmp_path: Path, block: int) -> None:
    outcomes = [outcome(tmp_path, seed) for seed in range(BLOCK * block, BLOCK * (block + 1))]
    wrong = [text for name, text in outcomes if name == "wrong"]
    assert not wrong, "\n".join(wrong)
    asked = [text for name, text in outcomes if name == "asked"]
    assert len(asked) <= (1 - LEAST_READ) * BLOCK, "\n".join(asked)


@pytest.mark.parametrize("seed", range(3))
def test_a_table_is_the_same_for_a_seed(seed: int) -> None:
    assert random_table(seed) == random_table(seed)


def _said(path: Path, options: Mapping[str, Any]) -> dict[str, tuple[object, float | None]]:
    """The answer to each item and its probability, read without right answers."""
    rows = answers_of_log(path, import_options(cast("LogOptions", options))).rows
    return {
        row["id"]: (row["options"][row["at"]] if row["options"] else row["at"], row["confidence"])
        for row in rows.filter(pl.col("at").is_not_null()).iter_rows(named=True)
    }


@pytest.mark.parametrize("block", range(3))
def test_answers_are_the_same_without_right_answers(tmp_path: Path, block: int) -> None:
    """Of tables that have them, and of the same tables without their column, or it asks."""
    read = 0
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        table = random_table(seed)
        options = dict(table.statement or table.options)
        columns = dict(options.get("columns", {}))
        labels = {*REFERENCE, *REFERENCE_OF_OPTIONS, *columns.pop("reference", ())}
        bare = [{k: v for k, v in row.items() if k not in labels} for row in table.rows]
        without = options | ({"columns": columns} if "columns" in options else {})
        path = write_table(tmp_path, table.rows, table.dialect, f"t{seed}")
        try:
            imported = read_rows(path, import_options(cast("LogOptions", options)))
            said = _said(path, options)
            read += 1
            assert _said(write_table(tmp_path, bare, table.dialect, f"u{seed}"), without) == said
        except ShapeError:
            continue
        frame = imported.frame.filter(pl.col("view") == 0)
        names = imported.facts.log.get("options")
        for item, logits in frame.select("id", "logits").drop_nulls("logits").iter_rows():
            if item not in said or imported.values == OUTCOMES:
                continue
            answer, sure = said[item]
            best = int(np.argmax(logits))
            shares = np.exp(np.array(logits) - max(logits))
            assert sure is None or math.isclose(sure, shares[best] / shares.sum(), rel_tol=1e-6)
            if isinstance(names, list):
                assert answer == names[best]
    assert read >= LEAST_READ * BLOCK
