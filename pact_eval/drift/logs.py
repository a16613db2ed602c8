"""Two logs or runs, read for drift: the same items, groups and names of answers in both."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pact_eval._files import is_url
from pact_eval.drift.unlabelled import LOG_COLUMNS, LogSide, UnlabelledDrift, compare_logs
from pact_eval.errors import InputError, counted
from pact_eval.evaluation.joins import has_lines_alone
from pact_eval.importing.answers import LogAnswers, answers_of_log, answers_of_run
from pact_eval.importing.source import ImportOptions
from pact_eval.importing.writing import is_log_folder
from pact_eval.notes import Note
from pact_eval.runs.provenance import NAME
from pact_eval.runs.seal import PREDICTIONS

_LEAST_SHARED: Final = 2
_SHORT: Final = 8
_DIGITS: Final = 9
_NAMES: Final = pl.coalesce(
    pl.col("options").list.get(pl.col("at"), null_on_oob=True), (pl.col("at") + 1).cast(pl.String)
)
"""The answers: their names, or their numbers from 1."""


@dataclass(frozen=True)
class NoIds(Note):
    """A table whose rows are known by their line alone.

    Attributes:
        place: the table.
    """

    place: str

    def __str__(self) -> str:
        what = "rows have no ids, so no item is compared with itself"
        return f"{self.place}: {what}; name their column: --columns id=NAME"


@dataclass(frozen=True)
class SplitIds(Note):
    """Ids under which different things were asked about.

    Attributes:
        ids: their number.
        first: of them by name.
    """

    ids: int
    first: str

    def __str__(self) -> str:
        named = f"{counted(self.ids, 'id')} of several texts, such as {self.first}"
        return f"{named}: each text is an item of its own"


@dataclass(frozen=True)
class OtherOrders(Note):
    """Answers to items in another order of the options than the one that is compared.

    Attributes:
        answers: their number.
    """

    answers: int

    def __str__(self) -> str:
        return f"left out: {counted(self.answers, 'answer')} to items in another order of options"


def read_place(place: Path | str, options: ImportOptions | None = None) -> LogAnswers:
    """Read the answers of a log or a run.

    Args:
        place: a file or folder of a log, a run folder, or a URL.
        options: how a log is read; None detects it.

    Raises:
        PactError: it cannot be read, or an option has to decide.
    """
    path = Path(place)
    is_run = (path / NAME).exists() or (path / PREDICTIONS).exists()
    is_run |= is_url(str(place)) and not path.suffix
    if path.is_dir() and not is_run and not is_log_folder(path):
        message = f"{path}: not a run (it has no {NAME}) and not a log; name a run or a file in it"
        raise InputError(message)
    return answers_of_run(place) if is_run else answers_of_log(path, options or ImportOptions())


def compare_answers(
    before: LogAnswers, after: LogAnswers, *, below: float | None = None, seed: int = 0
) -> UnlabelledDrift:
    """Compare the answers of two logs or runs without using right answers.

    Args:
        before: the answers of one.
        after: those of the other.
        below: threshold of confidence: the share of answers below it is tested too. In (0, 1).
        seed: of the permutations.

    Raises:
        InputError: answers are named in one of them and only numbered in the other.
    """
    frames, notes = _matched(before, after)
    drift = compare_logs(*frames, names=(before.place, after.place), below=below, seed=seed)
    return replace(
        drift,
        logs=(_side(before), _side(after)),
        prompts=_other_prompts(before.rows, after.rows),
        warnings=notes,
    )


def _matched(
    before: LogAnswers, after: LogAnswers
) -> tuple[tuple[pl.DataFrame, pl.DataFrame], tuple[Note, ...]]:
    """Return the rows of both as `compare_logs` takes them, and what to know of their items."""
    sides = (before, after)
    notes: list[Note] = [NoIds(side.place) for side in sides if has_lines_alone(side.log)]
    rows = pl.concat([_rows_of(side, at) for at, side in enumerate(sides)])
    rows = rows.with_columns(family=_joint_families(rows), question=_question(rows))
    states = pl.col("state").filter(pl.col("state") != "").n_unique().over("id") > 1
    split = rows.filter(states)["id"].unique().sort()
    notes += [SplitIds(len(split), split[0])] if len(split) else []
    for several, name, further in (
        (states, "{} ({})", pl.col("state").str.slice(0, _SHORT)),
        (pl.col("question").n_unique().over("id") > 1, "{}/{}", pl.col("question")),
    ):
        own = pl.when(several).then(pl.format(name, "id", further))
        rows = rows.with_columns(id=own.otherwise("id"))
    first = pl.col("order").min().over("log", "id")
    in_order = rows.filter(pl.col("order").is_null() | (pl.col("order") == first))
    left_out = len(rows) - len(in_order)
    notes += [OtherOrders(left_out)] if left_out else []
    rows = in_order
    _check_names(rows, (before.place, after.place))
    rows = rows.with_columns(answer=_NAMES)
    a, b = (rows.filter(pl.col("log") == at).select(*LOG_COLUMNS) for at in range(2))
    return (a, b), tuple(notes)


def _rows_of(answers: LogAnswers, log: int) -> pl.DataFrame:
    """Return the rows of a log with its number; ids that are only lines are its own.

    They are numbered by what they say, so that the order of lines does not matter.
    """
    rows = answers.rows.with_columns(log=pl.lit(log))
    if not has_lines_alone(answers.log):
        return rows
    rows = rows.sort("question", "at", "confidence", "status")
    own = pl.format("{}:{}", "log", pl.int_range(pl.len()).cast(pl.String).str.zfill(_DIGITS))
    family = pl.when(pl.col("family") == pl.col("id")).then(own).otherwise("family")
    return rows.with_columns(family=family, id=own)


def _joint_families(rows: pl.DataFrame) -> pl.Series:
    """Return a family for each row: items with a family in common in either log have one.

    It has the name of its first item by name, so that the order of rows does not matter.
    """
    items = rows["id"].rank("dense").to_numpy().astype(np.int64) - 1
    families = rows["family"].rank("dense").to_numpy().astype(np.int64) - 1 + items.max() + 1
    size = int(families.max()) + 1
    edges = coo_array((np.ones(len(rows)), (items, families)), shape=(size, size))
    _, code = connected_components(edges, directed=False)
    named = rows.select("id").with_columns(code=pl.Series(code[items]))
    return named.select(pl.col("id").min().over("code")).to_series()


def _question(rows: pl.DataFrame) -> pl.Expr:
    """Return the questions, or none if items hardly share any."""
    items = rows.select(pl.struct("id", "question").n_unique()).item()
    shared = rows["question"].n_unique() <= items / _LEAST_SHARED
    return pl.col("question") if shared else pl.lit("")


def _check_names(rows: pl.DataFrame, places: tuple[str, str]) -> None:
    """Check that answers to a question have names in both logs, in none, or both here and there.

    Of runs without their data, only the answers of boolean questions have names.

    Raises:
        InputError: they have names in one of them.
    """
    named = pl.col("options").is_not_null()
    answered = rows.filter(pl.col("at").is_not_null())
    sides = answered.group_by("question", "log").agg(any=named.any(), all=named.all())
    unlike = sides.filter(pl.struct("any", "all").n_unique().over("question") > 1)
    if unlike.is_empty():
        return
    fewest = unlike.sort("question", "any", "all", "log").row(0, named=True)
    place, question = places[fewest["log"]], fewest["question"]
    asked = f" to {question}" if question else ""
    raise InputError(
        f"{place}: answers{asked} have numbers here, and names in the other; give both as logs of "
        "one format, or both as runs"
    )


def _other_prompts(a: pl.DataFrame, b: pl.DataFrame) -> tuple[str, ...]:
    """Return the questions of both logs whose texts differ."""
    first, second = (
        rows.filter(pl.col("wording") != "")
        .group_by("question")
        .agg(pl.col("wording").unique().sort())
        for rows in (a, b)
    )
    both = first.join(second, on="question")
    return tuple(both.filter(pl.col("wording") != pl.col("wording_right"))["question"].sort())


def _side(answers: LogAnswers) -> LogSide:
    """Return what is known of one log besides its answers."""
    rows = answers.rows
    calls = rows.unique("line", maintain_order=True)
    latency = calls["latency_ms"].drop_nulls().to_numpy()
    prices = calls["price"].drop_nulls()
    status = rows["status"]
    quantiles = np.quantile(latency, [0.5, 0.95]) if latency.size else (math.nan, math.nan)
    return LogSide(
        place=answers.place,
        model=answers.model,
        answers=len(rows),
        unanswered=float(status.is_not_null().mean() or 0.0),  # type: ignore[arg-type]
        refused=float((status == "refused").fill_null(value=False).mean() or 0.0),  # type: ignore[arg-type]
        latency_ms=(float(quantiles[0]), float(quantiles[1])),
        price=math.fsum(prices) / len(rows) if len(prices) else math.nan,
        labelled=answers.labelled,
    )
