"""Loud words on runs without the effect: `error_rates.py` at a thirteenth of its draws."""

from __future__ import annotations

import pytest
from conclusions.error_rates import WORDS_OF_RUNS, Word, rates

DRAWS = 30
"""At a rate of 5%, more than 5 of 30 draws are false in 0.3% of such tests; at 30%, in 92%."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "words", WORDS_OF_RUNS, ids=lambda words: "; ".join(word.name for word in words)
)
def test_loud_words_are_rarely_false_and_often_true(words: tuple[Word, ...]) -> None:
    for name, share in rates(words, range(DRAWS), planted=False).items():
        assert share <= 5 / DRAWS, name
    for name, share in rates(words, range(6), planted=True).items():
        assert share >= 0.5, name
