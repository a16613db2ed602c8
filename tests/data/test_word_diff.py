"""Words of two texts beside each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pact_eval.data.diff import edited_words, same_words, word_diff, words

texts = st.lists(st.sampled_from(["a", "b", "c", "d.", "Box", "7"]), max_size=12).map(" ".join)


@given(texts, texts)
def test_the_segments_are_the_texts(left: str, right: str) -> None:
    diff = word_diff(left, right)
    assert words(" ".join(s.left for s in diff.segments)) == words(left)
    assert words(" ".join(s.right for s in diff.segments)) == words(right)
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
        ("Box W reads fair.", "Box-W-was-never-opened-since-May", 11),
        ("封条完好", "封条已经破损", 4),
        ("a", "a_b_c", 4),
        ("the seal", "the se\u00adal", 0),
    ],
)
def test_edited_words_against_a_hand_count(left: str, right: str, edited: int) -> None:
    assert word_diff(left, right).edited_words == edited


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("It is shut.", "It is\u200b shut!", True),
        ("It is shut.", "IT IS SHUT", True),
        ("Zoe\u0308", "Zo\u00eb", True),
        ("It is shut.", "It is open.", False),
        ("3.5 kg", "35 kg", False),
    ],
)
def test_texts_that_read_alike_have_the_same_words(left: str, right: str, same: bool) -> None:
    assert same_words(left, right) == same


spaced = st.text(st.sampled_from("ab7.' \n\u00ad\u2028"), max_size=24)


@given(spaced, spaced, spaced, spaced)
def test_edits_between_equal_ends_against_full_comparisons(
    start: str, left: str, right: str, end: str
) -> None:
    texts = start + left + end, start + right + end
    assert edited_words(*texts) == word_diff(*texts).edited_words
    a, b = ([word for word in words(text) if word[0].isalnum()] for text in texts)
    assert same_words(*texts) == (a == b)


def test_texts_that_would_cost_minutes_are_one_change() -> None:
    """1,600 alternating words took difflib 11 seconds: equal words are counted beforehand."""
    left, right = (" ".join(f"x {sign}{n}" for n in range(1_600)) for sign in "ab")
    diff = word_diff(f"start {left} end", f"start {right} end")
    assert [segment.kind for segment in diff.segments] == ["same", "changed", "same"]
