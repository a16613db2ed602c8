"""Answers of a log or a run, read without its right answers: a row for each answer of a model.

An item that was asked again has a row each time. Nothing is written, and no right answer is used.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from pact_eval._json import Json, dumps
from pact_eval.data.labelled.answers import cell_text
from pact_eval.errors import InputError, Problem, RecordError
from pact_eval.importing.exchanges import FACTS, several_models
from pact_eval.importing.graded import GradedSource
from pact_eval.importing.import_run import find_source
from pact_eval.importing.row_reader import MOST_PROBLEMS, OWN_NAMES, RowReader
from pact_eval.importing.source import ImportOptions, Log, LogRows, Source
from pact_eval.importing.table_cells import number_or_none
from pact_eval.runs.folder import open_run, unanswered_items
from pact_eval.runs.places import log_path, naming_urls, shown
from pact_eval.runs.provenance import OUTCOMES, REPEATS, TRIALS, UNNAMED, UNSURE, known_by_values
from pact_eval.runs.rows import PREFIX, collected

SCHEMA: Final[Mapping[str, Any]] = {
    "id": pl.String,
    "family": pl.String,
    "question": pl.String,
    "at": pl.Int64,
    "options": pl.List(pl.String),
    "confidence": pl.Float64,
    "order": pl.String,
    "status": pl.String,
    "line": pl.Int64,
    "state": pl.String,
    "wording": pl.String,
    "latency_ms": pl.Float64,
    "price": pl.Float64,
    "model": pl.String,
}
"""Columns of answers: `at` is the index of the answer in `options`, which is null if nothing names
them; `order` is the order in which they were shown, or the view if that is not known; null without
an answer."""

_BOOLEAN: Final = ("false", "true")
_SAID: Final = ("answer", "probabilities", "log_probabilities", "logits")


@dataclass(frozen=True, eq=False)
class LogAnswers:
    """The answers of a log or run.

    Attributes:
        place: the file or folder, as messages name it.
        rows: of `SCHEMA`, one per answer or reply without one.
        model: that answered; None if it is not known.
        labelled: whether it has right answers, which are left out.
        log: what the log says of itself, as `run.json` keeps it.
        remarks: how it was read, one sentence each.
    """

    place: str
    rows: pl.DataFrame
    model: str | None
    labelled: bool
    log: Mapping[str, Json] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def answers_of_log(path: Path, options: ImportOptions) -> LogAnswers:
    """Read the answers of a log.

    Args:
        path: a log, or its URL.
        options: how it is read; `filter` is also the model of a log of several.

    Raises:
        InputError: it cannot be read, or has no answers.
        RecordError: rows are malformed; one error lists all of them.
        ShapeError: an option has to decide.
    """
    options = replace(options, reading=replace(options.reading, unlabelled=True))
    path = log_path(path)
    with naming_urls():
        source = find_source(path, options.source)
        if isinstance(source, GradedSource):
            raise InputError(
                f"{path}: grades, which say whether each answer is right, and not which it is; "
                "compare two: pact-eval report BEFORE AFTER"
            )
        log = source.open(path, options)
        rows, has_references = _read(log, source, str(log.named or path))
    facts = log.facts()
    frame = pl.DataFrame(rows, schema=SCHEMA)
    if facts.block.get("views") in (REPEATS, TRIALS):
        frame = frame.with_columns(order=pl.lit(""))
    models: dict[str, list[int]] = defaultdict(list)
    for model, line in frame.select("model", "line").drop_nulls("model").iter_rows():
        models[model].append(line)
    model = facts.model or next(iter(models), None)
    if len(models) > 1:  # of a table
        if options.filter not in models:
            raise several_models(str(path), models, options.filter)
        frame, model = frame.filter(pl.col("model") == options.filter), options.filter
    labelled = has_references or bool(facts.block.get("labelled"))
    return LogAnswers(shown(path), frame, model, labelled, facts.block, facts.remarks)


def _read(log: Log, source: Source, named: str) -> tuple[list[dict[str, Json]], bool]:
    """Return the answers of an open log, and whether a row has a right answer.

    Raises:
        RecordError: a row is malformed, or there are none.
    """
    mapping = ({} if log.mapping is None else log.mapping) if source.own else OWN_NAMES
    # Replies with probabilities and without may be in one log.
    reader = RowReader(mapping, log.tolerance, mixed=True)
    answers: list[dict[str, Json]] = []
    problems: list[Problem] = []
    labelled = False
    for rows in log.blocks:
        columns = {**rows.columns}
        right = (columns.pop(name, None) for name in ("reference", "gold"))
        labelled |= any(cell is not None for cells in right for cell in cells or ())
        columns["reference"] = [0] * len(rows)
        said = [columns[name] for name in _SAID if name in columns]
        if said and "correct" in columns:
            columns["correct"] = [
                cell if all(other is None for other in others) else None
                for cell, *others in zip(columns["correct"], *said, strict=True)
            ]
        frame, failures = reader.read(columns, len(rows))
        answers += [
            _answer(rows, row["at"], row, len(answers) + place)
            for place, row in enumerate(frame.iter_rows(named=True))
        ]
        problems += [problem for _, problem in rows.found(failures)]
        if len(problems) >= MOST_PROBLEMS:
            break
    if not answers and not problems:
        problems.append(Problem(None, None, "expected at least one row, got an empty file"))
    if problems:
        raise RecordError(named, problems[:MOST_PROBLEMS])
    return answers, labelled


def _answer(rows: LogRows, at: int, row: Mapping[str, Any], number: int) -> dict[str, Json]:
    """Return the answer of a row of a log."""
    kind, order, view = row["kind"], row["code_order"], row["view"]
    named = row["status"] is None and row["values"] != OUTCOMES
    known = row["status"] is None and known_by_values(row["values"]) not in UNSURE
    facts = {name: cells[at] for name, cells in rows.facts.items()}
    names = facts["options"] or (_BOOLEAN if kind == "boolean" else ())
    further = {
        name: cells[at]
        for name, cells in (rows.columns if rows.further is None else rows.further).items()
    }
    model = (cell_text(further.get(name)) for name in ("model", "model_version"))
    return {
        "id": row["id"],
        "family": row["family"],
        "at": row["answer"] if named else None,
        "options": [*names] or None,
        "question": facts["question"] or cell_text(further.get("question")) or "",
        "confidence": _confidence(row["logits"], row["answer"]) if known else None,
        "order": None if row["status"] else dumps(order) if order or not view else f"view {view}",
        "status": row["status"],
        "line": number if facts["line"] is None else facts["line"],
        "state": facts["state"],
        "wording": facts["wording"],
        **_measured(further),
        "model": "@".join(name for name in model if name is not None) or None,
    }


def _confidence(logits: Any, at: Any) -> float:
    """Return the probability of an answer, of logits or log-probabilities."""
    top = max(logits)
    return math.exp(logits[at] - top) / math.fsum(math.exp(logit - top) for logit in logits)


def _measured(further: Mapping[str, Json]) -> dict[str, Json]:
    """Return latency and price, as far as columns of their names have numbers."""
    numbers: dict[str, Json] = {}
    for fact in ("latency_s", "latency_ms", "price"):
        cells = (_number(further.get(column)) for column in FACTS[fact])
        numbers[fact] = next((number for number in cells if number is not None), None)
    seconds = numbers.pop("latency_s")
    if numbers["latency_ms"] is None and isinstance(seconds, float):
        numbers["latency_ms"] = 1000 * seconds
    return numbers


def _number(cell: Json) -> float | None:
    number = number_or_none(cell)
    return number if number is not None and 0 <= number < math.inf else None


def answers_of_run(place: Path | str) -> LogAnswers:
    """Read the answers of a run; of views in other orders, those of the first.

    Args:
        place: a run folder, or its URL.

    Raises:
        RunError: it is not a complete run, or is damaged.
        InputError: the run does not say which answers were given.
    """
    run = open_run(place)
    provenance = run.provenance
    if provenance.known in UNNAMED:
        raise InputError(
            f"{run.place}: the run does not say which answers were given, only how right"
        )
    path = run.predictions_file
    answered = collected(path, pl.scan_parquet(path, glob=False))
    if not provenance.repeats or provenance.shuffled:
        answered = answered.filter(pl.col("view") == 0)
    log = provenance.recorded.get("log")
    block = log if isinstance(log, dict) else {}
    listed = block.get("options")
    names = [*map(str, listed)] if isinstance(listed, list) else None
    unsure = provenance.known in UNSURE
    frames = (answered, unanswered_items(run))
    made = [
        _answer_of_run(row, names, number, unsure=unsure)
        for number, row in enumerate(row for frame in frames for row in frame.iter_rows(named=True))
    ]
    frame = pl.DataFrame(made, schema=SCHEMA)
    paid = block.get("price")  # of all requests; each item has that of its request
    if isinstance(paid, int | float):
        frame = frame.with_columns(price=pl.lit(paid / len(frame)))
    model = provenance.adapter_name or provenance.base_model
    labelled = bool(answered["reference"].is_not_null().any())
    return LogAnswers(run.place, frame, model, labelled, block)


def _answer_of_run(
    row: Mapping[str, Any], names: list[str] | None, number: int, *, unsure: bool
) -> dict[str, Json]:
    logits = row.get("logits") or ()
    at = logits.index(max(logits)) if logits else None
    further = {name.removeprefix(PREFIX): row[name] for name in row if name.startswith(PREFIX)}
    return {
        "id": row["id"],
        "family": row["family"] or row["id"],
        "at": at,
        "question": cell_text(further.get("question")) or "",
        "options": [*_BOOLEAN] if row["kind"] == "boolean" else names,
        "confidence": None if at is None or unsure else _confidence(logits, at),
        "order": "",
        "line": number,
        "state": "",
        "wording": "",
        "status": None if logits else row.get("status") or "missing",
        **_measured(further),
    }
