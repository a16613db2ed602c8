"""Messages of many problems: one mistake is three lines, and none is lost."""

from __future__ import annotations

import re

import numpy as np
import pytest
from messages import assert_says

from pact_eval.errors import Problem, RecordError


def test_rows_of_one_kind_and_column_are_one_mistake() -> None:
    problems = [
        Problem(line, None, f"level: {line} is not a level", "values", "Give --levels 1..5.")
        for line in range(2, 60)
    ]
    first, count, remedy = str(RecordError("a.csv", problems)).splitlines()
    assert first == "a.csv:2: level: 2 is not a level"
    assert_says(count, "57 more", "lines 3, 4, 5, 6, 7, ...")
    assert remedy == "Give --levels 1..5."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Problem(1, None, "level: 6", "values"), Problem(2, None, "answer: 6", "values")),
        (Problem(1, None, "level: 6", "values"), Problem(2, None, "level: 6", "ids")),
        (Problem(1, None, "id: expected text, got 1"), Problem(2, None, "id: empty")),
        (Problem(1, None, "id: expected text"), Problem(2, None, "family: expected text")),
    ],
)
def test_another_kind_or_column_is_another_mistake(one: Problem, other: Problem) -> None:
    text = str(RecordError("a.csv", [one] * 5 + [other] * 5))
    assert one.message in text
    assert other.message in text
    assert len(text.splitlines()) == 4


@pytest.mark.parametrize(
    "message",
    [
        "level: expected a number, got {n}",
        "expected one of a{n}, b, found {n}",
        'duplicate key "k{n}"',
        "not valid JSON (Expecting value at column {n})",
        "samples_{n}.jsonl:{n}: target: expected text, got {n}",
        "samples_{n}.jsonl:{n} (id {n}): target: expected text, got {n}",
        "family x-{n}: expected references that differ",
    ],
)
def test_without_a_kind_the_message_up_to_its_value_decides(message: str) -> None:
    problems = [Problem(n, None, message.format(n=n)) for n in range(1, 80)]
    lines = str(RecordError("a.jsonl", problems)).splitlines()
    assert lines == [f"a.jsonl:1: {message.format(n=1)}", lines[1]]
    assert_says(lines[1], "78 more")


def test_places_are_lines_or_else_ids_or_left_out() -> None:
    by_id = [Problem(None, f"r{n}", "no answer") for n in range(4)]
    assert_says(str(RecordError("a.jsonl", by_id)), "3 more like it (ids r1, r2, r3)")
    assert str(RecordError("a.jsonl", [Problem(None, None, "x")] * 4)).endswith("more like it")


def test_a_remedy_of_several_mistakes_comes_once() -> None:
    problems = [Problem(n, None, f"{name}: wrong", "", "Run it.") for n in (1, 2) for name in "ab"]
    assert str(RecordError("a.jsonl", problems)).splitlines()[-1] == "Run it."
    assert str(RecordError("a.jsonl", problems)).count("Run it.") == 1


def test_the_rows_of_random_problems_are_all_counted() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        problems = [
            Problem(
                int(rng.integers(1, 99)),
                None,
                f"c{rng.integers(40)}: wrong value",
                str(rng.choice(["", "p", "q"])),
                str(rng.choice(["", "Do this.", "Do that."])),
            )
            for _ in range(rng.integers(1, 300))
        ]
        lines = str(RecordError("a.csv", problems)).splitlines()
        counted = sum(line.startswith("a.csv:") and "more problem" not in line for line in lines)
        counted += sum(int(more) for line in lines for more in re.findall(r"and (\d+) more", line))
        assert counted == len(problems)
        assert len(lines) <= 61
