"""Loud words on runs without the effect: `error_rates.py` at a tenth of its draws."""

from __future__ import annotations

import pytest
from conclusions.error_rates import WORDS, Word, rate

DRAWS = 40
"""At a rate of 5%, more than 7 of 40 draws are false once in 1,000 such tests."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.name)
def test_a_loud_word_is_rarely_false_and_often_true(word: Word) -> None:
    assert rate(word, word.null, range(DRAWS)) <= 7 / DRAWS
    assert rate(word, word.planted, range(6)) >= 0.5
