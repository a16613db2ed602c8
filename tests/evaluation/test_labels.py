"""Labels of slices, joined: against the numbers of the whole column."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from pact_eval.evaluation.labels import (
    Labels,
    count_repeats,
    family_labels,
    text_labels,
)


def test_families_are_numbered_as_they_occur_where_members_stand_together() -> None:
    labels = family_labels(pl.Series(list("ccaab")))
    assert labels.codes.tolist() == [0, 0, 1, 1, 2]
    assert labels.texts.to_list() == ["c", "a", "b"]


def test_labels_of_few_texts_against_numpy_unique() -> None:
    texts = list("bbaaaccb")
    labels = text_labels(pl.Series(texts))
    names, codes = np.unique(texts, return_inverse=True)
    assert labels.texts.to_list() == names.tolist()
    assert labels.codes.tolist() == codes.tolist()


def test_families_have_one_number_wherever_their_members_are() -> None:
    families = ("xxyyyzxw", "aabbbbcdddef", "abcdefghijkl", "abcaabcdbaae", "aaaaaaaaaaaa", "")
    for family in families:
        labels = family_labels(pl.Series(list(family), dtype=pl.String))
        assert [labels.texts[code] for code in labels.codes.tolist()] == list(family)
        assert sorted(labels.texts.to_list()) == sorted(set(family))


def test_repeated_hashes_are_counted() -> None:
    hashes = np.array([1, 2**63, 1, 2**64 - 1, 2**63, 2**63 - 1, 2**63], dtype=np.uint64)
    assert count_repeats(hashes) == 3


@pytest.mark.parametrize("rows", [0, 7, 5000])
def test_labels_of_few_and_of_many_rows_against_numpy_unique(rows: int) -> None:
    """Polars numbers many rows, and Python few: both sort by code points."""
    texts = np.array(["", "Zebra", "ärger", "a10", "a2", "\U0001f600", "\uffee"])
    values = texts[np.random.default_rng(1).integers(0, len(texts), rows)]
    names, codes = np.unique(values, return_inverse=True)
    numbered = Labels.of(values)
    assert numbered.texts.to_list() == names.tolist()
    assert numbered.codes.tolist() == codes.tolist()
