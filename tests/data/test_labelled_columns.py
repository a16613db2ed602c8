"""Labelled tables: exact names, `--columns` for any others, and nothing guessed between two."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from builders import write_jsonl
from foreign_tables import Dialect, write_table
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import assert_says

from pact_eval._json import dumps
from pact_eval.data.labelled.answers import POSITIONS
from pact_eval.data.labelled.columns import SETS
from pact_eval.data.labelled.reader import LabelledData, read_labelled
from pact_eval.data.labelled.reading import (
    PREDICTED,
    ROLES,
    Reading,
    parse_columns,
    reading_of,
    reading_of_json,
)
from pact_eval.errors import InputError, RecordError, ShapeError

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
        ("options", "choices", "options", ["a", "b"]),
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"alpha": "x", "beta": "y"}, ("options=NAME", "--columns question=question")),
        ({"choices": ["x", "y"], "A": "x", "B": "y"}, ("options=choices", "options=A+B")),
        ({"option1": "x", "option2": "y", "A": "y", "B": "x"}, ("option1+option2", "A+B")),
    ],
)
def test_options_of_other_names_or_of_two_are_asked_about(
    tmp_path: Path, options: dict[str, Any], said: tuple[str, ...]
) -> None:
    rows = [{"question": f"q{number}", **options, "answer": number % 3} for number in range(6)]
    error = _read(write_jsonl(tmp_path / "a.jsonl", rows), Reading())
    assert isinstance(error, ShapeError)
    assert_says(str(error), *said)


def test_every_name_is_documented() -> None:
    docs = Path(__file__).parents[2] / "docs"
    labelled, imports = ((docs / f"{name}.md").read_text() for name in ("labelled", "predictions"))
    for names in ROLES.values():
        assert all(name in labelled for name in names)
    tables = imports.partition("## Columns")[2]
    for role, names in PREDICTED.items():
        row = next(line for line in tables.splitlines() if line.startswith("| ") and role in line)
        assert all(name in row for name in names), row
    for name in SETS:
        assert name[0].islower() or name.removesuffix(" MC1") in labelled, name


@pytest.mark.parametrize("name", SETS)
def test_the_columns_of_a_set_are_read_as_its_columns_say(tmp_path: Path, name: str) -> None:
    """Whether the set is recognised, or its `--columns` are given; form aside, which both have."""
    roles = parse_columns([SETS[name][0]])
    rows = [
        {column: f"{column} {row}" for names in roles.values() for column in names}
        for row in range(4)
    ]
    for number, row in enumerate(rows):
        if "reference" not in roles:
            row["label"] = "ab"[number % 2]
            continue
        (column,) = roles["reference"]
        if roles.get("options") == (column,):
            row[column] = {"choices": ["x", "y", "z"], "labels": [0, 1, 0]}  # type: ignore[assignment]
        elif len(roles.get("options", ())) == 1:
            row |= {roles["options"][0]: ["x", "y"], column: "x"}  # type: ignore[dict-item]
        elif "options" in roles and column not in roles["options"]:
            row[column] = row[roles["options"][1]]
        elif column not in roles.get("options", ()):
            row[column] = "ab"[number % 2]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    stated = {role: names for role, names in roles.items() if role != "ignored"}
    form = POSITIONS[0] if roles.get("options") == roles.get("reference") else None
    said = Reading(columns=stated, form=form)
    ours, theirs = (read_labelled(path, each) for each in (Reading(), said))
    assert _facts(ours) == _facts(theirs)
    assert ours.columns is not None
    assert {role: ours.columns.roles[role] for role in stated} == stated


_NAME: Final = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=6)
_TEXT: Final = st.text("abcxyz 09é,;|", min_size=1, max_size=8).map(lambda text: f"t{text}.")
_CONTAINERS: Final = ("csv", "semicolon.csv", "tsv", "jsonl", "array.json", "parquet")


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_is_written_is_read_or_refused_with_its_columns(data: st.DataObject) -> None:
    """Any names of columns: `--columns` reads what was written; without it, that or a question."""
    count = data.draw(st.integers(2, 4))
    usual = st.sampled_from(["text", "question", "answer", "label", "choices", "A", "B", "option1"])
    names = data.draw(
        st.lists(usual | _NAME, min_size=count + 2, max_size=count + 2, unique_by=str.casefold)
    )
    state, reference, *options = names
    rows = [
        dict(
            zip(names, [f"item {number}", *([""] * (count + 1))], strict=True),
            **dict(zip(options, texts, strict=True)),
        )
        | {reference: texts[data.draw(st.integers(0, count - 1))]}
        for number, texts in enumerate(
            data.draw(
                st.lists(
                    st.lists(_TEXT, min_size=count, max_size=count, unique_by=str.casefold),
                    min_size=2,
                    max_size=6,
                )
            )
        )
    ]
    stated = dumps({"state": [state], "reference": reference, "options": [*options]})
    with tempfile.TemporaryDirectory() as folder:
        path = write_table(Path(folder), rows, Dialect(data.draw(st.sampled_from(_CONTAINERS))))
        read = _read(path, reading_of(columns=[stated], answers="text"))
        if isinstance(read, ShapeError):
            assert "both divide every row" in str(read)  # a name or a cell has a "|" or a ";"
            return
        assert read is not None
        for item, row in zip(read.records, rows, strict=True):
            answers = [answer.key for answer in item.field.answers]
            assert (item.state, answers) == (row[state], [row[name] for name in options])
            assert answers[item.reference or 0] == row[reference]
        unstated = _read(path, Reading())
        if isinstance(unstated, ShapeError):
            message = str(unstated)
            asked = ("both fit" in message, "look like the options" in message)
            assert any(asked) or all(name in message for name in names)
        elif unstated is not None:
            assert unstated.columns is not None
            for role, columns in unstated.columns.roles.items():
                assert role == "options" or {*columns} <= {*ROLES[role]}


def test_predictions_of_several_orders_are_read_as_their_items(tmp_path: Path) -> None:
    """One item is asked in two orders; another with the same id and another text is an error."""
    rows = [
        {"id": item, "view": view, "text": f"message {item}", "label": label, "p_yes": 0.5 + view}
        for item, label in (("a", "yes"), ("b", "no"))
        for view in (0, 1)
    ]
    for container in ("csv", "jsonl", "parquet"):
        data = read_labelled(write_table(tmp_path, rows, Dialect(container), "views"))
        assert [record.id for record in data.records] == ["a", "b"]
        assert sum(data.left_out.values()) == 2
    for wrong in (rows[1] | {"text": "another"}, rows[1] | {"view": 0}, rows[1] | {"label": "no"}):
        with pytest.raises(RecordError) as refused:
            read_labelled(write_jsonl(tmp_path / "wrong.jsonl", [rows[0], wrong, *rows[2:]]))
        assert_says(refused.value, "id of line 1")


@pytest.mark.parametrize("seed", range(10))
def test_shuffled_orders_of_items_are_read_as_the_first_row_of_each(
    tmp_path: Path, seed: int
) -> None:
    rng = Random(seed)
    rows = [
        {"id": f"i{item}", "view": view, "text": f"message {item}", "label": ["yes", "no"][side]}
        for item, side in ((n, n % 2 if n < 2 else rng.randrange(2)) for n in range(12))
        for view in rng.sample(range(6), rng.randint(1, 4))
    ]
    rng.shuffle(rows)
    first = [row for at, row in enumerate(rows) if row["id"] not in [r["id"] for r in rows[:at]]]
    both = [
        read_labelled(write_jsonl(tmp_path / f"{name}.jsonl", table)).records
        for name, table in (("all", rows), ("first", first))
    ]
    facts = [[(r.id, r.state, r.field, r.reference) for r in records] for records in both]
    assert facts[0] == facts[1]
