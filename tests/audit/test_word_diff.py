"""Words of two texts beside each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pact_eval.audit.word_diff import word_diff, words

texts = st.lists(st.sampled_from(["a", "b", "c", "d.", "Box", "7"]), max_size=12).map(" ".join)


@given(texts, texts)
def test_the_segments_are_the_texts(left: str, right: str) -> None:
    diff = word_diff(left, right)
    assert " ".join(s.left for s in diff.segments if s.left).split() == words(left)
    assert " ".join(s.right for s in diff.segments if s.right).split() == words(right)
    assert (diff.edited_words == 0) == (words(left) == words(right))
    assert diff.edited_words <= len(words(left)) + len(words(right))
    assert all((s.kind == "same") == (s.left == s.right) for s in diff.segments)


@pytest.mark.parametrize(
    ("left", "right", "edited"),
    [
        ("Field E holds 6.", "Field E holds 9.", 1),
        ("It is so.", "It is not at all so.", 3),
        ("a b c d", "a d", 2),
        ("one two three", "four five", 3),
        ("", "new words", 2),
        ("same\u2028line", "same line", 0),
        ("a x b y c", "a p q b z c", 3),
    ],
)
def test_edited_words_against_a_hand_count(left: str, right: str, edited: int) -> None:
    assert word_diff(left, right).edited_words == edited


def test_texts_that_share_nothing_stay_affordable() -> None:
    """Two contexts of 100 kB took difflib minutes: beyond a bound the middle is one change."""
    left, right = (" ".join(f"{sign}{n}" for n in range(12_000)) for sign in "ab")
    diff = word_diff(f"start {left} end", f"start {right} end")
    assert [segment.kind for segment in diff.segments] == ["same", "changed", "same"]
    assert diff.edited_words == 12_000
