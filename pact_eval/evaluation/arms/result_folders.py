"""Released result folders: the summaries that the paper's code wrote of its runs.

    FOLDER/runs/ARM/seed-SEED/results.json      a trained run
    FOLDER/baselines.json                       the base model

    {"run": ARM, "seed": SEED or null,
     "holdout": {DECODING: {"summary": {GROUP: {COLUMN: number}, "by_domain": {...}}}}}

Decodings, groups and columns are those of `published_rows.py`. Domains are groups of accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pact_eval._files import read_json
from pact_eval._json import Json
from pact_eval.errors import InputError, Problem, RecordError
from pact_eval.evaluation.arms.published_paths import result_files
from pact_eval.evaluation.arms.published_rows import (
    COLUMNS,
    COUNTS,
    DECODINGS,
    PublishedRow,
    problems_of,
)

_DOMAINS: Final = "by_domain"


def read_result_rows(path: Path) -> list[PublishedRow]:
    """Read the results of a file, or of all files below a folder.

    Raises:
        InputError: a file cannot be read.
        RecordError: a key is missing or has a wrong value; all of one file.
    """
    return [row for file in result_files(path) for row in _read_file(file)]


def _read_file(path: Path) -> list[PublishedRow]:
    problems: list[Problem] = []
    rows = list(_rows(path, read_json(path), problems))
    for row in rows:
        place = row.source.removeprefix(f"{path}: ")
        problems += (_problem(f"{place}.{name}", text) for name, text in problems_of(row))
    if problems:
        raise RecordError(str(path), problems)
    if not rows:
        message = f"{path}: expected numbers in holdout, got none"
        raise InputError(message)
    return rows


def _rows(path: Path, value: Json, problems: list[Problem]) -> Iterator[PublishedRow]:
    result = _object(value, "", problems)
    run, seed = result.get("run"), result.get("seed")
    if not isinstance(run, str) or not run:
        problems.append(_problem("run", "expected the name of an arm"))
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        problems.append(_problem("seed", "expected an integer or null"))
    if problems:
        return
    labels = {"run": str(run), "seed": "" if seed is None else str(seed)}
    for decoding, scored in _object(result.get("holdout"), "holdout", problems).items():
        if decoding not in DECODINGS:
            expected = f"expected one of {', '.join(DECODINGS)}"
            problems.append(_problem(f"holdout.{decoding}", expected))
            continue
        key = f"holdout.{decoding}.summary"
        holder = _object(scored, key.removesuffix(".summary"), problems)
        groups = dict(_object(holder.get("summary"), key, problems))
        domains = _object(groups.pop(_DOMAINS, {}), f"{key}.{_DOMAINS}", problems)
        placed = [(f"{key}.{name}", name, group) for name, group in groups.items()]
        placed += [(f"{key}.{_DOMAINS}.{name}", name, group) for name, group in domains.items()]
        for place, name, group in placed:
            cells = _cells(_object(group, place, problems), place, problems)
            yield PublishedRow(
                f"{path}: {place}", {**labels, "decoding": decoding, "group": name, **cells}
            )


def _problem(key: str, message: str) -> Problem:
    return Problem(None, None, f"{key}: {message}" if key else message)


def _object(value: Json, key: str, problems: list[Problem]) -> Mapping[str, Json]:
    """Return a JSON object; an empty one, and a problem, if it is none."""
    if isinstance(value, dict):
        return value
    problems.append(_problem(key, "expected an object"))
    return {}


def _cells(group: Mapping[str, Json], place: str, problems: list[Problem]) -> dict[str, str]:
    """Return the known numbers of a group as texts; a null is left out."""
    cells = {}
    for name in (*COLUMNS, *COUNTS):
        value = group.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            problems.append(_problem(f"{place}.{name}", "expected a number"))
            continue
        cells[name] = repr(value)
    return cells
