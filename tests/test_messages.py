"""The check of messages: it fails if a part is missing or in another order."""

from __future__ import annotations

import pytest
from messages import assert_says

MESSAGE = "a.jsonl:3: expected 2 answers,\n  got 5; see --help"


def test_parts_in_order_and_across_lines_are_accepted() -> None:
    assert_says(MESSAGE, "a.jsonl:3", "2 answers, got 5", "--help")


@pytest.mark.parametrize("parts", [("a.jsonl:4",), ("got 5", "2 answers"), ("got 5", "got 5"), ()])
def test_a_missing_a_repeated_and_a_misplaced_part_are_told(parts: tuple[str, ...]) -> None:
    with pytest.raises(AssertionError):
        assert_says(MESSAGE, *parts)
