"""Typed content of files: what is refused, with its place, and what is written as it was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pytest

from pact_eval.errors import InputError
from pact_eval.schema import Section, convert, sha256_fits, with_sha256, without_nulls


class Part(Section, frozen=True):
    x: int
    y: int
    inside: Mapping[str, Mapping[str, tuple[float, ...]]] = {}


class Whole(Section, frozen=True, forbid_unknown_fields=True):
    remedy: ClassVar[str] = "restore it"

    mode: Literal["a", "b"]
    three: tuple[float, float, float] = (1.0, 2.0, 3.0)
    number: float = 1.0
    part: Part | None = None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "expected mode, found none"),
        ({"mode": "c"}, "mode: expected one of a, b, got c"),
        ({"mode": 3}, "mode: expected one of a, b, got an integer"),
        ({"mode": "a", "other": 1}, "expected only mode, three, number, part, got other"),
        ({"mode": "a", "three": [1, 2]}, "three: expected a list of 3 values, got 2 values"),
        ({"mode": "a", "three": [1, True, 2]}, "three[1]: expected a number, got true/false"),
        ({"mode": "a", "number": 10**400}, "number: expected a number that fits a float, got an"),
        ({"mode": "a", "number": "1"}, "number: expected a number, got text"),
        ({"mode": "a", "part": {"inside": {}}}, "part: expected x, y, found none"),
        ({"mode": "a", "part": []}, "part: expected an object, got a list"),
        ({"mode": "a", "part": {"x": 1.0, "y": 1}}, "part: x: expected an integer, got a number"),
        (
            {"mode": "a", "part": {"x": 1, "y": 2, "inside": {"p": {}, "q": {"r": [1, "s"]}}}},
            "part: inside: q: r[1]: expected a number, got text",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(value: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Whole.of_json(value, "f.json")
    assert str(caught.value).startswith(f"f.json: {words}")
    assert str(caught.value).endswith("; restore it")


@pytest.mark.parametrize("value", [[], "x", 3, None])
def test_what_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="expected an object, got"):
        convert(value, Part)


def test_a_section_is_written_as_it_is_read() -> None:
    value: dict[str, Any] = {
        "mode": "b",
        "number": 2.5,
        "part": {"x": 10**25, "y": 0, "inside": {"p": {"q": [1.0]}}},
    }
    assert Whole.of_json(value, "f.json").to_json() == value
    assert Whole.of_json({**value, "part": None}, "f.json").to_json() == {
        "mode": "b",
        "number": 2.5,
    }


def test_nulls_are_left_out_where_they_are_no_values() -> None:
    value: dict[str, Any] = {"a": None, "exact": {"b": None}, "c": {"d": None, "e": [None]}}
    assert without_nulls(value, frozenset({"exact"})) == {
        "exact": {"b": None},
        "c": {"e": [None]},
    }


def test_the_hash_of_a_file_shows_a_change() -> None:
    file = with_sha256({"k": 4})
    assert sha256_fits(file)
    assert not sha256_fits({**file, "k": 5})
    assert not sha256_fits({"k": 4})
    assert not sha256_fits([])
