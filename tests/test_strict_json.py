from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pact_eval._files import read_lines
from pact_eval._json import dumps, loads
from pact_eval.errors import InputError

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_healthy_json_is_what_the_standard_parser_says(value: object) -> None:
    text = json.dumps(value)
    assert loads(text) == json.loads(text)
    assert loads(dumps(value)) == value  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', 'duplicate key "c"'),
        ('{"a": NaN}', "finite number, got NaN"),
        ('{"a": -Infinity}', "finite number, got -Infinity"),
        ('{"a": 1e999}', "finite number, got 1e999"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"\\uDC00": 1}', "half of a surrogate pair"),
        ('{"a": 1', "not valid JSON"),
        ("[" * 100_000, "nested more than 200 levels"),
        ("[" * 201 + "]" * 201, "nested more than 200 levels"),
        ('{"a": ' * 500 + "1" + "}" * 500, "nested more than 200 levels"),
        ("1" * 5000, "4,300 digits"),
    ],
)
def test_what_means_two_things_or_nothing_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        loads(text)


def test_a_whole_surrogate_pair_is_one_character() -> None:
    assert loads('"\\ud83d\\ude00"') == "😀"


def test_lines_are_split_on_line_feeds_only(tmp_path: Path) -> None:
    # str.splitlines split records at these characters; a text may hold any of them raw.
    path = tmp_path / "a.jsonl"
    path.write_bytes('"a\u2028b"\n"c\u0085d\u2029"\r\n\n"e"'.encode())
    assert [(number, json.loads(line)) for number, line in read_lines(path)] == [
        (1, "a\u2028b"),
        (2, "c\u0085d\u2029"),
        (4, "e"),
    ]


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing.jsonl: no such file"):
        list(read_lines(tmp_path / "missing.jsonl"))
    with pytest.raises(InputError, match="got a folder"):
        list(read_lines(tmp_path))


def test_as_many_levels_as_the_walking_functions_bear() -> None:
    text = "[" * 200 + "]" * 200
    assert dumps(loads(text)) == text
    wide = "[" + ", ".join(["[1]"] * 1000) + "]"
    assert dumps(loads(wide)) == wide
