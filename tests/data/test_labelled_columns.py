"""Random labelled tables: what is read without an option is what `--columns` reads."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from builders import write_jsonl
from messages import assert_says

from pact_eval.data.labelled.reader import LabelledData, read_labelled
from pact_eval.data.labelled.reading import Reading, reading_of, reading_of_json
from pact_eval.data.labelled.roles import ROLES
from pact_eval.errors import InputError, ShapeError

_TABLES: Final = 50
_FURTHER: Final = ("note", "score_a", "source", "B", "answer_index", "idx", "lang")
"""Names of further columns, which are no role."""


def _cells(rng: Random, role: str, row: int, options: list[str]) -> Any:
    if role == "options":
        return options
    if role == "reference":
        return rng.choice([rng.choice(options), options[row % len(options)]])
    return f"{role} {row}"


def _table(seed: int) -> list[dict[str, Any]]:
    """Returns rows of random columns: roles under names of theirs, some twice, and others."""
    rng = Random(seed)
    roles = [
        role
        for role in ("state", "question", "options", "reference", "id", "domain")
        if rng.random() < (0.9 if role in ("state", "reference") else 0.5)
    ]
    names = [(role, name) for role in roles for name in rng.sample(ROLES[role], 1)]
    names += [
        (role, name)
        for role in ("state", "options", "reference")
        if rng.random() < 0.15
        for name in rng.sample(ROLES[role], 1)
    ]
    names += [("", name) for name in _FURTHER if rng.random() < 0.2]
    rng.shuffle(names)
    options = [["red", "green", "blue"], ["0", "1", "2"], ["A", "B", "C"]][rng.randrange(3)]
    return [
        {
            name: _cells(rng, role, row, options) if role else rng.choice(["x", "y", row])
            for role, name in names
        }
        for row in range(9)
    ]


def _facts(data: LabelledData) -> list[tuple[Any, ...]]:
    return [
        (item.id, item.state, item.field, item.reference, item.domain, item.metadata)
        for item in data.records
    ]


def _read(path: Path, reading: Reading) -> LabelledData | ShapeError | None:
    """Returns the data, what the reader asks, or None if rows are malformed."""
    try:
        return read_labelled(path, reading)
    except ShapeError as error:
        return error
    except InputError:
        return None


def test_what_is_read_without_an_option_is_what_columns_reads(tmp_path: Path) -> None:
    outcomes = {"read": 0, "asked": 0}
    for seed in range(_TABLES):
        rows = _table(seed)
        path = write_jsonl(tmp_path / f"{seed}.jsonl", rows)
        data = _read(path, Reading())
        if isinstance(data, ShapeError):
            outcomes["asked"] += 1
            assert data.exit_code == 2
            assert "--" in str(data), f"seed {seed}: {data}"
        if not isinstance(data, LabelledData) or data.columns is None:
            continue
        outcomes["read"] += 1
        pairs = [f"{role}={'+'.join(names)}" for role, names in data.columns.roles.items()]
        stated = _read(path, reading_of(columns=pairs))
        assert isinstance(stated, LabelledData), f"seed {seed}: {rows[0]}: {stated}"
        assert _facts(stated) == _facts(data), f"seed {seed}: {rows[0]}"
        again = read_labelled(path, reading_of_json(data.to_json()))
        assert _facts(again) == _facts(data), f"seed {seed}: {rows[0]}"
        for role, names in data.columns.roles.items():
            fitting = [name for name in ROLES[role] if name in rows[0]]
            assert fitting == [*names], f"seed {seed}: {role} has {names}, and {fitting} fit"
    assert min(outcomes.values()) > _TABLES // 10, outcomes


@pytest.mark.parametrize(
    ("role", "first", "second", "cell"),
    [
        ("reference", "label", "gold", "a"),
        ("options", "choices", "candidates", ["a", "b"]),
        ("state", "text", "context", "What?"),
    ],
)
def test_two_columns_of_one_role_are_asked_about_though_they_agree(
    tmp_path: Path, role: str, first: str, second: str, cell: object
) -> None:
    others = {"text": "t", "choices": ["a", "b"], "label": "a"}
    path = write_jsonl(tmp_path / "a.jsonl", [others | {first: cell, second: cell}])
    error = _read(path, Reading())
    assert isinstance(error, ShapeError)
    said = (f"--columns {role}={first}", f"--columns {role}={second}")
    assert_says(str(error), role, *sorted(said, key=str(error).index))
