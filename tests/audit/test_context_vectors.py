"""Vectors of contexts and their prefixes, against plain counting."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import record, write_jsonl

from pact_eval.audit import near_duplicates as context_vectors
from pact_eval.audit.near_duplicates import (
    ContextVectors,
    Groups,
    Pairs,
    _count_grams,
    _levels,
    cosines,
    largest_cosine,
    ranks,
)
from pact_eval.data.files import DataFile
from pact_eval.data.index import index_of_records

TEXTS = ["abcdeabcde", "abcdefgh", "xyzabcdef", "", "qqq", "fghijklm", "defghij"]


def vectors_of(folder: Path, texts: list[str], family: list[int] | None = None) -> ContextVectors:
    rows = [record(f"r{n}", state=text) for n, text in enumerate(texts)]
    index = index_of_records([DataFile("x", "train", write_jsonl(folder / "x", rows))])
    return ContextVectors(index, np.array(family or range(len(texts))))


def grams(text: str) -> Counter[str]:
    return Counter(text[n : n + 5] for n in range(max(len(text) - 4, min(len(text), 1))))


def cosine(left: dict[str, float], right: dict[str, float]) -> float:
    return sum(value * right.get(gram, 0.0) for gram, value in left.items())


def plain(texts: list[str]) -> list[dict[str, float]]:
    """Return unit vectors by n-gram: counts times log((1 + n) / (1 + frequency)) + 1."""
    counted = [grams(text) for text in texts]
    frequency = Counter(gram for of in counted for gram in of)
    vectors = []
    for of in counted:
        weights = {
            gram: n * (math.log((1 + len(texts)) / (1 + frequency[gram])) + 1)
            for gram, n in of.items()
        }
        length = math.hypot(*weights.values()) or 1
        vectors.append({gram: weight / length for gram, weight in weights.items()})
    return vectors


def test_vectors_against_plain_counting(tmp_path: Path) -> None:
    vectors = vectors_of(tmp_path, TEXTS)
    rows = np.arange(len(TEXTS))
    products = (vectors.rows(rows) @ vectors.rows(rows).T).toarray()
    expected = plain(TEXTS)
    for row, left in enumerate(expected):
        for other, right in enumerate(expected):
            assert products[row, other] == pytest.approx(cosine(left, right), abs=1e-6)
    assert vectors.is_empty.tolist() == [text == "" for text in TEXTS]
    assert len(vectors) == 7
    some = vectors.rows(np.array([6, 3, 0, 6])).toarray()
    assert some.tolist() == vectors.rows(rows).toarray()[[6, 3, 0, 6]].tolist()
    pairs = np.array([0, 1, 4]), np.array([1, 2, 4])
    assert cosines(vectors, *pairs).tolist() == pytest.approx([products[0, 1], products[1, 2], 1])


def test_ngrams_against_plain_counting() -> None:
    texts = ["abcdeabcde", "", "abc", "aaaaaaa", "abcd\u00e9"]
    row, gram, count = _count_grams(texts)
    expected = [(n, number) for n, text in enumerate(texts) for number in grams(text).values()]
    assert sorted(zip(row.tolist(), count.tolist(), strict=True)) == sorted(expected)
    assert gram.min() >= 0
    assert gram.max() < 2**22
    assert len(set(gram[row == 0].tolist())) == 5
    again = _count_grams(["abc", "abcde"])
    assert again[1][0] == gram[row == 2][0]
    assert again[1][1] in gram[row == 0]
    assert _count_grams(["", ""])[0].tolist() == []


def test_chunks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(len(TEXTS))
    expected = vectors_of(tmp_path, TEXTS)
    monkeypatch.setattr(context_vectors, "_CHUNK_ROWS", 3)
    vectors = vectors_of(tmp_path, TEXTS)
    assert vectors.rows(rows).toarray().tolist() == expected.rows(rows).toarray().tolist()
    for threshold, least in ((0, 0), (0.5, 0.4), (0.9, 0.8)):
        left, right = vectors.prefixes(threshold, least), expected.prefixes(threshold, least)
        assert left.matrix.toarray().tolist() == right.matrix.toarray().tolist()
        assert (left.cut.tolist(), left.rest.tolist()) == (right.cut.tolist(), right.rest.tolist())


def test_ngrams_of_one_family_are_not_in_prefixes(tmp_path: Path) -> None:
    """The first two texts are of one family: what only they share is left out."""
    texts = ["abcdefgh", "abcdefgh", "defghijk", "mnopqrst"]
    vectors = vectors_of(tmp_path, texts, [0, 0, 1, 2])
    shared = vectors.prefixes(0, 0).matrix
    # Of the first two "defgh" alone is in another family.
    assert np.diff(shared.indptr).tolist() == [1, 1, 1, 0]
    apart = vectors_of(tmp_path, texts, [0, 1, 1, 2]).prefixes(0, 0).matrix
    assert np.diff(apart.indptr).tolist() == [4, 4, 1, 0]


def test_levels_are_about_equally_large() -> None:
    """64 levels share the occurrences of what several families have, from rare to frequent."""
    frequency = np.array([3, 1, 8, 2, 2])
    shared = np.array([True, True, True, False, True])
    # In order: 1, 2, 3, 8 with 0, 1, 3 and 6 of 14 before them.
    expected = [1 + 3 * 64 // 14, 1, 1 + 6 * 64 // 14, 0, 1 + 1 * 64 // 14]
    assert _levels(frequency, shared).tolist() == expected
    assert _levels(np.array([5, 7]), np.array([False, False])).tolist() == [0, 0]


def test_rests_are_the_lengths_above_each_level(tmp_path: Path) -> None:
    vectors = vectors_of(tmp_path, TEXTS)
    prefixes = vectors.prefixes(0.6, 0.5)
    unit = vectors.rows(np.arange(len(TEXTS)))
    for row in range(len(TEXTS)):
        columns, values = unit[[row]].indices, unit[[row]].data
        levels = vectors._level[columns]
        for level in range(65):
            rest = math.sqrt(sum(values[(levels > level)].astype(float) ** 2))
            assert prefixes.rest[row, level] == pytest.approx(rest, abs=1e-6)
        kept = columns[(levels > 0) & (levels <= prefixes.cut[row])]
        assert sorted(prefixes.matrix[[row]].indices.tolist()) == sorted(kept.tolist())


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
def test_a_prefix_ends_as_soon_as_the_rest_is_short_enough(
    tmp_path: Path, threshold: float
) -> None:
    """As soon as the product of the rest and of the longest rest at that level is smaller."""
    least = 0.9 * threshold
    prefixes = vectors_of(tmp_path, TEXTS).prefixes(threshold, least)
    longest = prefixes.rest.max(axis=0)
    for rest, cut in zip(prefixes.rest, prefixes.cut.tolist(), strict=True):
        if rest[0] < threshold:
            assert cut == 0
            continue
        assert rest[cut] * longest[cut] < least or rest[cut] < least
        assert cut == 0 or rest[cut - 1] * longest[cut - 1] >= least


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.6, 0.9])
def test_bounds_of_cosines_hold(tmp_path: Path, threshold: float) -> None:
    """Two contexts that reach the threshold have a bound and a product of prefixes as large."""
    vectors = vectors_of(tmp_path, TEXTS)
    margin = 0.05 * threshold
    prefixes = vectors.prefixes(threshold, threshold - margin)
    products = (prefixes.matrix @ prefixes.matrix.T).toarray()
    row, other = np.triu_indices(len(TEXTS), 1)
    exact = cosines(vectors, row, other)
    upper = prefixes.largest_cosines(row, other, products[row, other])
    reached = exact >= threshold
    assert (upper[reached] >= exact[reached] - 1e-6).all()
    assert (products[row, other][reached] >= margin - 1e-6).all()


# pairs


def test_comparable_contexts() -> None:
    """Of two families, and in two files only if they differ."""
    groups = Groups(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 0]), np.array([7, 7, 7, 8], "u8"))
    pairs = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]
    row, other = np.array(pairs).T
    assert groups.comparable(row, other).tolist() == [True, False, False, False, True, True]


def test_representatives_of_equal_contexts() -> None:
    """The first of each of the first two families of a file."""
    file = np.array([0] * 6 + [1] * 2)
    family = np.array([4, 4, 3, 2, 3, 1, 4, 4])
    state = np.array([7, 7, 7, 7, 7, 8, 7, 7], "u8")
    chosen = Groups(file, family, state).representatives()
    assert np.flatnonzero(chosen).tolist() == [0, 2, 5, 6]


def test_the_nearest_pair_of_each_row() -> None:
    """Of equal cosines the earlier row and neighbour count."""
    pairs = Pairs(
        np.array([5, 5, 5, 6, 6, 7]),
        np.array([3, 1, 2, 4, 0, 1]),
        np.array([0.5, 0.9, 0.9, 0.7, 0.8, 0.1], "f4"),
    )
    nearest = pairs.nearest(pairs.row)
    assert (nearest.row.tolist(), nearest.other.tolist()) == ([5, 6, 7], [1, 0, 1])
    by_parity = pairs.nearest(pairs.row % 2, pairs.other % 2)
    chosen = sorted(zip(by_parity.row.tolist(), by_parity.other.tolist(), strict=True))
    assert chosen == [(5, 1), (5, 2), (6, 0)]


def test_ranks_within_equal_keys() -> None:
    assert ranks(np.array([1, 1, 2, 2, 2])).tolist() == [0, 1, 0, 1, 2]
    assert ranks(np.array([1, 1, 1]), np.array([1, 2, 2])).tolist() == [0, 0, 1]
    assert ranks(np.array([2, 1]), np.array([1, 1])).tolist() == [0, 0]
    assert ranks(np.zeros(0)).tolist() == []


def test_largest_cosines_within_and_across(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["abcdefghij", "abcdefghix", "zzzzzzzzzz", "abcdefxxxx"]
    vectors = vectors_of(tmp_path, texts)
    state = np.arange(4).astype("u8")
    groups = Groups(np.array([0, 0, 0, 1]), np.arange(4), state)
    expected = plain(texts)
    within = cosine(expected[0], expected[1])
    across = max(cosine(expected[n], expected[3]) for n in range(3))
    for block_rows in (1_024, 1):
        monkeypatch.setattr("pact_eval.audit.near_duplicates._BLOCK_ROWS", block_rows)
        assert largest_cosine(vectors, groups, across=False) == pytest.approx(within, abs=1e-6)
        assert largest_cosine(vectors, groups, across=True) == pytest.approx(across, abs=1e-6)
    alone = Groups(np.zeros(4, dtype=int), np.array([0, 0, 1, 0]), state)
    assert math.isnan(largest_cosine(vectors, alone, across=True))
    assert math.isnan(largest_cosine(vectors, alone, across=False))


def test_cosines_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = vectors_of(tmp_path, TEXTS)
    row, other = (index.ravel() for index in np.indices((7, 7)))
    at_once: Any = cosines(vectors, row, other)
    monkeypatch.setattr("pact_eval.audit.near_duplicates._BATCH_PAIRS", 5)
    assert cosines(vectors, row, other).tolist() == at_once.tolist()
    assert at_once.max() <= 1
    assert cosines(vectors, row[:0], other[:0]).tolist() == []
