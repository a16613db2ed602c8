"""Contexts that are nearly the same: pairs whose TF-IDF vectors have a large cosine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval.audit.cosine_search import ContextVectors, Groups, Pairs, largest_cosine, near_pairs
from pact_eval.audit.findings import Collector
from pact_eval.data.index import Index
from pact_eval.data.records import context_text
from pact_eval.data.word_diff import word_diff
from pact_eval.progress import step

_MOST_ROWS_OF_ALL_PAIRS: Final = 2_500


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """Result of the search for near duplicates.

    Attributes:
        contexts: contexts that were compared, one a record.
        without_text: contexts that hold no text and were left out.
        threshold: cosine from which two contexts are near duplicates.
        exact: whether the nearest near duplicate of each context is known. Every context that has
            one is reported in any case. But if a context has 50 or more of them in one file, a
            nearer one than the named one may exist.
        largest_across: largest cosine between two files. NaN if there is none: in a dataset of more
            than 2,500 records, if none reaches the threshold.
        largest_within: likewise, between two families of one file.
    """

    contexts: int
    without_text: int
    threshold: float
    exact: bool
    largest_across: float
    largest_within: float

    @property
    def text(self) -> str:
        """What was measured, in a few words."""
        largest = {"across files": self.largest_across, "within": self.largest_within}
        nearest = [f"{where} {x:.2f}" for where, x in largest.items() if not math.isnan(x)]
        if not nearest:
            return f"no pair near {self.threshold:g}"
        limit = "" if self.exact else "; of 50 or more alike in a file not all pairs are compared"
        return f"largest cosine {', '.join(nearest)}, threshold {self.threshold:g}{limit}"


def add_near_duplicates(
    index: Index, findings: Collector, *, threshold: float
) -> tuple[NearDuplicates, Pairs]:
    """Find contexts that are nearly the same, of two files or of two families of one file.

    Adds `near-duplicate`, one finding for two families of different files, at the record of the
    later file: for each of its records, the nearest one of each earlier file. Adds
    `near-duplicate-within`, one finding per family that has a neighbour in its own file, the
    nearest.
    The left side of a comparison is the neighbour. Members of one family are near by design and
    never compared, nor are equal contexts of two files, which are `shared-context`.

    Args:
        index: the dataset; its records are read once again.
        findings: collector of the check "separation".
        threshold: least cosine of near duplicates, in (0, 1].

    Returns:
        The largest cosines and whether the nearest neighbours are known; and, for each record with
        near duplicates in earlier files, the nearest one of each of these files.

    Raises:
        ValueError: the threshold is out of its range.
        InputError: a file has changed since the index was built.

    Examples:
        >>> import pact_fixtures
        >>> from pathlib import Path
        >>> from pact_eval.data.index import index_of_records
        >>> from pact_eval.data.files import DataFile
        >>> path = Path(pact_fixtures.__file__).parent / "data" / "holdout.jsonl"
        >>> index = index_of_records([DataFile("holdout.jsonl", "eval", path)])
        >>> near, across = add_near_duplicates(index, Collector("separation", 5), threshold=0.8)
        >>> near.contexts, near.exact, round(near.largest_within, 2), len(across.row)
        (324, True, 0.51, 0)
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"expected a threshold in (0, 1], got {threshold}")
    groups = Groups(
        index.frame["file"].to_numpy().astype(np.intp),
        index.frame["family"].rank("dense").to_numpy().astype(np.intp) - 1,
        index.frame["context"].to_numpy(),
    )
    with step("Near duplicates", total=100):
        with step("Counting n-grams", counts=25):
            vectors = ContextVectors(index, groups.family)
        near, exact = near_pairs(vectors, groups, threshold)
    across = _report(index, groups, near, findings)
    n_empty = int(vectors.is_empty.sum())
    largest = []
    for is_across in (True, False):
        chosen = near.take((groups.file[near.row] != groups.file[near.other]) == is_across)
        cosine = float(np.fmax.reduce(chosen.cosine, initial=math.nan))
        if math.isnan(cosine) and len(index) <= _MOST_ROWS_OF_ALL_PAIRS:
            cosine = largest_cosine(vectors, groups, across=is_across)
        largest.append(cosine)
    return NearDuplicates(len(index) - n_empty, n_empty, threshold, exact, *largest), across


def _report(index: Index, groups: Groups, near: Pairs, findings: Collector) -> Pairs:
    """Add one finding per pair of families of two files, one per family within a file.

    Returns:
        Of each record, its nearest duplicate in each earlier file.
    """
    file, family = groups.file, groups.family
    is_across = file[near.row] != file[near.other]
    across, within = near.take(is_across), near.take(~is_across)
    across = across.nearest(across.row, file[across.other])
    row, other = across.row, across.other
    families = across.nearest(file[row], family[row], file[other], family[other])
    row, other = np.append(within.row, within.other), np.append(within.other, within.row)
    within = Pairs(row, other, np.tile(within.cosine, 2)).nearest(file[row], family[row])
    add_pairs(findings, "near-duplicate", "a context unlike those of other files", index, families)
    add_pairs(findings, "near-duplicate-within", "contexts that differ", index, within)
    return across


def add_pairs(findings: Collector, code: str, expected: str, index: Index, pairs: Pairs) -> None:
    """Add a finding per pair, in the order of the records; read the full text of each again.

    Args:
        findings: collects them.
        code: their code.
        expected: what a sound dataset has instead.
        index: the dataset; the pairs are rows of it.
        pairs: contexts, each with its neighbour.
    """
    pairs = pairs.take(np.lexsort((pairs.other, pairs.row)))
    for left, right, cosine in zip(
        pairs.other.tolist(), pairs.row.tolist(), pairs.cosine.tolist(), strict=True
    ):
        comparison = None
        if findings.wants(code):
            texts = [context_text(located.record.state) for located in index.read([left, right])]
            comparison = word_diff(*texts)
        actual = f"cosine {cosine:.2f} to {index.place(left)}"
        findings.add(code, index.place(right), expected, actual, comparison)
