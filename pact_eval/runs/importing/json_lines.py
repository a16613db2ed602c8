"""Import rows of JSON lines, one per item or per item and view.

A row holds one item, or one view of an item: its id, its reference, and its probabilities (or
logits, or log-probabilities) in canonical order. A probability of 0 stays 0. Its logit is minus
infinity, and the report says how many items have an infinite NLL.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, get_args

import polars as pl

from pact_eval._files import decoded, read_lines
from pact_eval._json import Json, describe, dumps, loads
from pact_eval.data import MAX_ANSWERS, MIN_ANSWERS, PairVariant
from pact_eval.errors import InputError, Problem, RecordError
from pact_eval.runs.importing.source import ImportedRows, write_import
from pact_eval.runs.rows import SCHEMA

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id",),
    "family": ("family",),
    "source_family": ("source_family",),
    "domain": ("domain",),
    "kind": ("kind", "type"),
    "variant": ("variant",),
    "reference": ("reference", "gold"),
    "probabilities": ("probabilities",),
    "log_probabilities": ("log_probabilities",),
    "logits": ("logits",),
    "view": ("view",),
    "code_order": ("code_order",),
    "prompt_tokens": ("prompt_tokens",),
    "answer_mass": ("answer_mass",),
}
"""Our columns, and the names that are tried without `--map`."""

_VALUES = ("probabilities", "log_probabilities", "logits")
_KINDS = {"choice": "choice", "noul": "boolean", "boolean": "boolean", "score": "score"}
# The largest float32, which some servers write (negative) for an answer that cannot be chosen.
# Squares and differences of such numbers are finite.
_LARGEST = 3.4028234663852886e38
_MOST_VIEWS = 10_000
_MOST_TOKENS = 2**31 - 1
_SUM_TOLERANCE = 1e-3
_EXACT_SUM = 1e-6


def parse_mapping(pairs: Sequence[str]) -> dict[str, str]:
    """Read `column=name` pairs: our column, and its name in the file.

    Raises:
        InputError: a pair has no `=`, or names a column that a run does not have.

    Examples:
        >>> parse_mapping(["reference=label", "id=example_id"])
        {'reference': 'label', 'id': 'example_id'}
    """
    mapping: dict[str, str] = {}
    for pair in pairs:
        column, equals, name = pair.partition("=")
        if not equals or not name or column not in COLUMNS:
            message = f"--map {pair}: expected COLUMN=NAME, COLUMN one of {', '.join(COLUMNS)}"
            raise InputError(message)
        if column in mapping:
            message = f"--map {pair}: {column} is already mapped to {mapping[column]}"
            raise InputError(message)
        mapping[column] = name
    return mapping


def import_run(
    path: Path, mapping: Mapping[str, str], out: Path, labels: Mapping[str, Json]
) -> ImportedRows:
    """Read a file of predictions and write it as a run.

    Importing the same file again leaves the run as it is.

    Args:
        path: JSON lines; see `COLUMNS`.
        mapping: our column -> its name in the file; overrides the defaults.
        out: the run folder.
        labels: what names the run: arm, seed, command line.

    Returns:
        What was imported.

    Raises:
        InputError: the file cannot be read.
        RecordError: any row is malformed; then nothing is written.
        RunError: the folder cannot be used, or has a run with other settings.
    """
    started = time.monotonic()
    rows = read_rows(path, mapping)
    write_import(rows, path, out, labels, settings={"mapping": dict(mapping)}, started=started)
    return rows


def read_rows(path: Path, mapping: Mapping[str, str]) -> ImportedRows:
    """Read a file of predictions.

    Args:
        path: JSON lines; see `COLUMNS` for the expected names.
        mapping: our column -> its name in the file; overrides the defaults.

    Returns:
        The rows, with remarks.

    Raises:
        InputError: the file cannot be read.
        RecordError: any row is malformed; one error lists all problems.
    """
    rows: list[dict[str, Json]] = []
    problems: list[Problem] = []
    ignored: dict[str, None] = {}
    seen: dict[tuple[str, int], int] = {}
    reader = _RowReader(mapping)
    for number, raw in read_lines(path):
        record_id: str | None = None
        try:
            value = loads(decoded(raw, number))
            record_id = reader.id_if_readable(value)
            key, row = reader.read(value)
            if key in seen:
                message = f"the same id and view already occur on line {seen[key]}"
                raise ValueError(message)
            seen[key] = number
            rows.append(row)
            ignored |= dict.fromkeys(name for name in _object(value) if name not in reader.used)
        except ValueError as error:
            problems.append(Problem(number, record_id, str(error)))
    if not rows and not problems:
        problems.append(Problem(None, None, "expected at least one row, got an empty file"))
    if not problems:
        problems += reader.unmet_mapping() + _missing_views(seen) + _inconsistent_views(rows)
    if problems:
        raise RecordError(str(path), problems)
    schema = dict(SCHEMA) | {"logits": pl.List(pl.Float64())}
    return ImportedRows(
        frame=pl.DataFrame(rows, schema=schema),
        values=reader.values or "",
        ignored_columns=tuple(ignored),
        renormalised=reader.renormalised,
        zero_on_reference=reader.zero_on_reference,
    )


class _RowReader:
    """Reads rows one by one and collects remarks about them."""

    def __init__(self, mapping: Mapping[str, str]) -> None:
        self._names = {
            column: (mapping[column],) if column in mapping else names
            for column, names in COLUMNS.items()
        }
        self.used = {name for names in self._names.values() for name in names}
        self._mapped_but_not_met = dict(mapping)
        self.values: str | None = None
        self.renormalised = 0
        self.zero_on_reference = 0

    def read(self, value: Json) -> tuple[tuple[str, int], dict[str, Json]]:
        """Return (id, view) of a row, and its columns."""
        obj = _object(value)
        return self._read(obj, self._text(obj, "id"))

    def id_if_readable(self, value: Json) -> str | None:
        """Return the id of a row, even if the row is otherwise malformed."""
        found = self._get(value, "id") if isinstance(value, dict) else None
        return found if isinstance(found, str) else None

    def unmet_mapping(self) -> list[Problem]:
        """Return one problem per mapped column that no row has."""
        return [
            Problem(None, None, f"--map {column}={name}: no row has a column {name}")
            for column, name in self._mapped_but_not_met.items()
        ]

    def _read(
        self, obj: Mapping[str, Json], record_id: str
    ) -> tuple[tuple[str, int], dict[str, Json]]:
        kind = _one_of("kind", self._text(obj, "kind", default="choice"), _KINDS)
        variant = self._text(obj, "variant", default="") or None
        if variant is not None:
            _one_of("variant", variant, {name: name for name in get_args(PairVariant)})
        logits = self._logits(obj)
        if kind == "boolean" and len(logits) != 2:
            message = f"expected 2 numbers for a boolean, got {len(logits)}"
            raise ValueError(message)
        reference = self._whole(obj, "reference", 0, len(logits) - 1)
        view = self._whole(obj, "view", 0, _MOST_VIEWS, default=0)
        order = self._code_order(obj, len(logits), view)
        self.zero_on_reference += logits[reference] == -math.inf
        family = self._text(obj, "family", default=record_id)
        return (record_id, view), {
            "id": record_id,
            "family": family,
            "source_family": self._text(obj, "source_family", default=family),
            "domain": self._text(obj, "domain", default="unknown"),
            "kind": kind,
            "variant": variant,
            "reference": reference,
            "n_choices": len(logits),
            "view": view,
            "code_order": [*order],
            "logits": [*logits],
            "prompt_tokens": self._whole(obj, "prompt_tokens", 1, _MOST_TOKENS)
            if self._get(obj, "prompt_tokens") is not None
            else None,
            "answer_mass": self._share(obj, "answer_mass"),
        }

    def _get(self, obj: Mapping[str, Json], column: str) -> Json:
        for name in self._names[column]:
            if obj.get(name) is not None:
                self._mapped_but_not_met.pop(column, None)
                return obj[name]
        return None

    def _share(self, obj: Mapping[str, Json], column: str) -> Json:
        value = self._get(obj, column)
        if value is None or (_is_number(value) and 0 <= float(str(value)) <= 1):
            return value
        message = f"{column}: expected a number from 0 to 1, got {_found(value)}"
        raise ValueError(message)

    def _text(self, obj: Mapping[str, Json], column: str, default: str | None = None) -> str:
        value = self._get(obj, column)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or (not value and default is None):
            message = f"{'/'.join(self._names[column])}: expected text, got {_found(value)}"
            raise ValueError(message)
        return value

    def _whole(
        self, obj: Mapping[str, Json], column: str, low: int, high: int, default: int | None = None
    ) -> int:
        value = self._get(obj, column)
        if value is None and default is not None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        name = "/".join(self._names[column])
        message = f"{name}: expected an integer from {low} to {high}, got {_found(value)}"
        raise ValueError(message)

    def _logits(self, obj: Mapping[str, Json]) -> list[float]:
        given = [column for column in _VALUES if self._get(obj, column) is not None]
        if len(given) != 1:
            message = f"expected one of {', '.join(_VALUES)}, got {', '.join(given) or 'none'}"
            raise ValueError(message)
        if self.values not in (None, given[0]):
            message = f"expected {self.values} as in earlier rows, got {given[0]}"
            raise ValueError(message)
        self.values = given[0]
        numbers = _numbers(self._get(obj, given[0]), given[0])
        if given[0] == "log_probabilities":
            self._check_sum([math.exp(min(number, 1.0)) for number in numbers])
        return self._from_probabilities(numbers) if given[0] == "probabilities" else numbers

    def _from_probabilities(self, probabilities: list[float]) -> list[float]:
        self._check_sum(probabilities)
        return [math.log(p) if p > 0 else -math.inf for p in probabilities]

    def _check_sum(self, probabilities: list[float]) -> None:
        if min(probabilities) < 0 or max(probabilities) > 1 + _EXACT_SUM:
            message = f"probabilities: expected values from 0 to 1, got {_found([*probabilities])}"
            raise ValueError(message)
        off = abs(math.fsum(probabilities) - 1)
        if off > _SUM_TOLERANCE:
            message = f"probabilities: expected a sum of 1, got {math.fsum(probabilities):.6g}"
            raise ValueError(message)
        self.renormalised += off > _EXACT_SUM

    def _code_order(self, obj: Mapping[str, Json], n_choices: int, view: int) -> list[int]:
        """View 0 is canonical by definition; other views need the column, or are unknown (-1)."""
        value = self._get(obj, "code_order")
        if value is None:
            return list(range(n_choices)) if view == 0 else []
        given = value if isinstance(value, list) else []
        order = [item for item in given if isinstance(item, int) and not isinstance(item, bool)]
        if len(order) != len(given) or sorted(order) != list(range(n_choices)):
            message = f"code_order: expected an order of 0 to {n_choices - 1}, got {_found(value)}"
            raise ValueError(message)
        return order


def _missing_views(seen: Mapping[tuple[str, int], int]) -> list[Problem]:
    """Check that every item has the views 0 to K - 1."""
    k = max(view for _, view in seen) + 1 if seen else 0
    views: dict[str, set[int]] = {}
    for record_id, view in seen:
        views.setdefault(record_id, set()).add(view)
    return [
        Problem(None, record_id, f"expected views 0 to {k - 1}, got {sorted(found)}")
        for record_id, found in views.items()
        if len(found) != k
    ]


def _inconsistent_views(rows: Sequence[Mapping[str, Json]]) -> list[Problem]:
    """Check that the values of an item are the same in all of its views."""
    columns = ("family", "source_family", "domain", "kind", "variant", "reference", "n_choices")
    first: dict[str, Mapping[str, Json]] = {}
    problems = []
    for row in rows:
        known = first.setdefault(str(row["id"]), row)
        for column in columns:
            if known[column] != row[column]:
                found = f"{_found(known[column])} and {_found(row[column])}"
                message = f"{column}: expected the same value in every view, got {found}"
                problems.append(Problem(None, str(row["id"]), message))
    return problems


def _one_of(column: str, value: str, allowed: Mapping[str, str]) -> str:
    if value not in allowed:
        message = f"{column}: expected {', '.join(allowed)}, got {_found(value)}"
        raise ValueError(message)
    return allowed[value]


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(value: Json, name: str) -> list[float]:
    if not isinstance(value, list) or not MIN_ANSWERS <= len(value) <= MAX_ANSWERS:
        found = f"{len(value)} numbers" if isinstance(value, list) else _found(value)
        message = f"{name}: expected a list of {MIN_ANSWERS} to {MAX_ANSWERS} numbers, got {found}"
        raise ValueError(message)
    try:
        numbers = [float(str(item)) if _is_number(item) else math.nan for item in value]
    except OverflowError:
        numbers = [math.inf]
    if not all(abs(number) <= _LARGEST for number in numbers):
        allowed = f"finite numbers from -{_LARGEST:.2g} to {_LARGEST:.2g}"
        message = f"{name}: expected {allowed}, got {_found(value)}"
        raise ValueError(message)
    return numbers


def _object(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        message = f"expected an object, got {describe(value)}"
        raise ValueError(message)
    return value


def _found(value: Json) -> str:
    text = "nothing" if value is None else dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
