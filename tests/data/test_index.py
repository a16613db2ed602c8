"""The index reads every line once and finds every record again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import record, write_jsonl
from hypothesis import given, settings
from hypothesis import strategies as st

from pact_eval.data.files import DataFile, Role
from pact_eval.data.index import COLUMNS, Index, build_index, index_of_records
from pact_eval.errors import InputError, RecordError
from pact_fixtures.generator.dataset import record_fingerprint

TRAIN, OTHER = "f1-base", "f1-counterfactual"


def indexed(path: Path, role: Role = "eval") -> Index:
    return build_index([DataFile(path.name, role, path)])


def test_records_are_found_again_between_other_line_ends(tmp_path: Path) -> None:
    texts = ["a\u2028b", "c\u2029d\u0085e", "plain", "\U0001f600 é"]
    rows = [record(f"f{n}-base", state=text) for n, text in enumerate(texts)]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path = tmp_path / "x.jsonl"
    path.write_bytes(f"{lines[0]}\r\n\n{lines[1]}\n   \r\n{lines[2]}\n{lines[3]}".encode())
    index = indexed(path)
    assert not index.bad_lines
    assert [entry.record.state for entry in index.read(range(4))] == texts
    assert [entry.record.state for entry in index.read([3, 0])] == [texts[3], texts[0]]
    assert index.frame["line"].to_list() == [1, 3, 5, 6]
    assert str(index.place(3)) == "x.jsonl:6 (id f3-base)"
    assert index.facts[0].rows == 4
    assert index.frame.schema == COLUMNS


characters = st.characters(exclude_categories=["Cs"])
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | st.text(characters),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(characters, max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.lists(json_values, max_size=5))
@settings(max_examples=60)
def test_the_fingerprint_against_json_of_the_whole_list(
    tmp_path_factory: pytest.TempPathFactory, states: list[Any]
) -> None:
    rows = [record(f"f{n}-base", state=state) for n, state in enumerate(states)]
    path = write_jsonl(tmp_path_factory.mktemp("index") / "x.jsonl", rows)
    index = indexed(path)
    assert not index.bad_lines
    assert index.facts[0].fingerprint == record_fingerprint(rows)


def test_only_evaluation_files_that_are_json_have_a_fingerprint(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "x.jsonl", [record(), "no json"])
    assert indexed(path).facts[0].fingerprint is None
    path = write_jsonl(tmp_path / "y.jsonl", [record()])
    assert indexed(path, "train").facts[0].fingerprint is None


def test_families_need_not_stand_together(tmp_path: Path) -> None:
    names = ["a-base", "b-base", "b-counterfactual", "a-counterfactual", "c-base"]
    path = write_jsonl(tmp_path / "x.jsonl", [record(name) for name in names])
    families = list(indexed(path).families())
    assert [[entry.record.id for entry in family] for family in families] == [
        ["a-base", "a-counterfactual"],
        ["b-base", "b-counterfactual"],
        ["c-base"],
    ]


def test_a_family_with_a_bad_line_is_left_out(tmp_path: Path) -> None:
    bad = record("a-counterfactual", variant="neither")
    path = write_jsonl(tmp_path / "x.jsonl", [record("a-base"), bad, record("b-base"), "[1]"])
    index = indexed(path)
    assert [entries[0].record.family for entries in index.families()] == ["b"]
    assert [(str(line.place), line.is_json, line.family) for line in index.bad_lines] == [
        ("x.jsonl:2 (id a-counterfactual)", True, "a"),
        ("x.jsonl:4", True, None),
    ]


def test_the_same_family_of_two_files_is_two_families(tmp_path: Path) -> None:
    paths = [write_jsonl(tmp_path / name, [record("a-base")]) for name in ("x.jsonl", "y.jsonl")]
    index = index_of_records([DataFile(path.name, "train", path) for path in paths])
    assert [len(family) for family in index.families()] == [1, 1]
    assert len(index) == 2


def test_a_file_that_changes_during_the_audit_is_told(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "x.jsonl", [record()])
    index = indexed(path)
    path.write_bytes(b"  " + path.read_bytes())
    with pytest.raises(InputError, match="changed during the audit"):
        list(index.read([0]))


def test_contexts_are_read_again_alone(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "x.jsonl", [record(f"f{n}-base", state=f"t{n}") for n in range(3)]
    )
    index = indexed(path)
    assert [*index.states()] == [entry.record.state for entry in index.read(range(3))]
    path.write_bytes(path.read_bytes().replace(b'"state"', b'"skate"'))  # as long, and JSON still
    with pytest.raises(InputError, match="changed during the audit"):
        list(index.states())


def test_a_strict_index_names_every_problem_of_a_file(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "x.jsonl", [record(), "{", record(), record("b-base", id=[3])])
    with pytest.raises(RecordError) as caught:
        index_of_records([DataFile("x", "train", path)])
    *lines, remedy = str(caught.value).split("\n")
    assert f"pact-audit data {path}" in remedy
    assert [line.partition(": ")[0] for line in lines] == [
        f"{path}:2",
        f"{path}:3 (id f1-base)",
        f"{path}:4",
    ]


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_a_strict_index_of_nothing_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(RecordError, match="the file is empty"):
        index_of_records([DataFile("x", "train", path)])
    index = indexed(path)
    assert (len(index), index.facts[0].rows, list(index.families())) == (0, 0, [])
