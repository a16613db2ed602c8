"""Check "balance": spread of the references over kinds, domains and answer positions.

Under balance the reference of a record is at each of its C positions with probability 1/C, and the
two members of a pair have different positions. The number of pairs in which either reference is at
a given position is then a sum of independent trials with probability 2/C, over the pairs that have
that position (unpaired records: 1/C each). A position is favoured if its count has an upper tail
probability below 0.001 (exact Poisson-binomial distribution, Bonferroni over files, kinds and
positions) and is more than a fifth above expectation. Boolean pairs always hold both answers, so
they cannot favour one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from pact_eval.audit.context import DataContext
from pact_eval.audit.findings import Check, CheckResult, Collector
from pact_eval.data.index import Index
from pact_eval.data.records import position_name
from pact_eval.errors import Place

_LEVEL: Final = 0.001
_RATIO: Final = 1.2


@dataclass(frozen=True, slots=True)
class Position:
    """Count of references at one answer position of one kind in one file.

    Attributes:
        file: file name.
        kind: choice, boolean or score.
        position: canonical index, from 0.
        references: records whose reference occurs there.
        expected: records of which it would by chance.
        p_value: probability of so many or more under balance, before correction.
    """

    file: str
    kind: str
    position: int
    references: int
    expected: float
    p_value: float


@dataclass(frozen=True)
class Balance:
    """Spread of the references.

    Attributes:
        positions: by file, kind and position.
        groups: one row (group, name, file, records, pairs, references by position) for every kind,
            domain and source family of every file.
    """

    positions: tuple[Position, ...]
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The references of one kind, domain or source family in one file.

    Attributes:
        by: "kind", "domain" or "source_family".
        name: which.
        file: file name.
        records: number of records.
        families: number of families.
        references: records whose reference occurs at each position, canonical index from 0.
    """

    by: str
    name: str
    file: str
    records: int
    families: int
    references: tuple[int, ...]


def check_balance(index: Index, findings: Collector) -> CheckResult:
    """Count references, and test the answer positions.

    Args:
        index: the dataset.
        findings: collects favoured positions, and kinds that occur in some files only.

    Returns:
        The result, with a `Balance` as `measured`.
    """
    positions = tuple(
        position
        for (file, kind), frame in index.frame.group_by("file", "kind", maintain_order=True)
        for position in _positions(frame, index.files[file].name, str(kind))
    )
    for test in positions:
        if test.p_value * len(positions) < _LEVEL and test.references > _RATIO * test.expected:
            letter = position_name(test.position)
            findings.add(
                "position-favoured",
                Place(test.file),
                f"about {test.expected:.0f} references of {test.kind} records at position {letter}",
                f"{test.references:,} ({test.references / test.expected:.2f} times as many)",
            )
    kinds = dict(index.frame.group_by("file").agg(pl.col("kind").unique()).iter_rows())
    every = set().union(*kinds.values())
    for number, file in enumerate(index.files):
        if missing := every.difference(kinds.get(number, every)):
            actual = f"no {', '.join(sorted(missing))} records"
            findings.add("kind-missing", Place(file.name), "the kinds of the other files", actual)
    groups = tuple(
        group for by in ("kind", "domain", "source_family") for group in _groups(index, by)
    )
    return findings.result(f"{len(index):,} references", Balance(positions, groups))


def _positions(frame: pl.DataFrame, file: str, kind: str) -> list[Position]:
    """Test the positions of one kind in one file, a family as the unit."""
    families = frame.group_by("family", maintain_order=True).agg(
        pl.col("reference"), pl.col("n_choices").max(), pl.len()
    )
    size = families["len"].to_numpy().astype(np.int64)
    n_choices = families["n_choices"].to_numpy().astype(np.float64)
    pairs = size == 2
    tested = []
    for position in range(int(n_choices.max())):
        has = n_choices > position
        # One of two different positions, or each record of an odd family on its own.
        trials = np.where(pairs, 1, size)[has]
        share = np.where(pairs, 2 / n_choices, 1 / n_choices)[has]
        count = int((frame["reference"] == position).sum())
        expected = float((share * trials).sum())
        tested.append(Position(file, kind, position, count, expected, _tail(trials, share, count)))
    return tested


def _tail(trials: npt.NDArray[np.int64], share: npt.NDArray[np.float64], count: int) -> float:
    """Return the probability of `count` or more successes in trials of different probabilities."""
    size = int(trials.sum()) + 1
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for probability in np.unique(share):
        n = int(trials[share == probability].sum())
        spectrum *= np.fft.rfft(_binomial_masses(n, probability), size)
    mass = np.fft.irfft(spectrum, size)
    return float(np.clip(mass[count:].sum(), 0, 1))


def _binomial_masses(n: int, probability: float) -> npt.NDArray[np.float64]:
    """Return the probabilities of 0 to n successes; `scipy.stats` takes a second to import."""
    from scipy.special import gammaln, xlog1py, xlogy

    k = np.arange(n + 1)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.exp(ways + xlogy(k, probability) + xlog1py(n - k, -probability))


def _groups(index: Index, by: str) -> list[Group]:
    table = (
        index.frame.group_by("file", by, maintain_order=True)
        .agg(pl.len(), pl.col("family").n_unique(), pl.col("reference"), pl.col("n_choices").max())
        .sort("file", by)
    )
    columns = table.select("file", by, "len", "family", "reference", "n_choices").iter_rows()
    return [
        Group(
            by,
            name,
            index.files[file].name,
            records,
            families,
            tuple(np.bincount(references, minlength=n_choices).tolist()),
        )
        for file, name, records, families, references, n_choices in columns
    ]


CHECK: Final[Check[DataContext]] = Check(
    name="balance",
    question="Is the reference spread over kinds, domains and answer positions?",
    run=lambda context, findings: check_balance(context.index, findings),
    needs=("records",),
    cost=0.05,
    codes={
        "position-favoured": ("warning", "An answer position is right far more often than chance."),
        "kind-missing": ("note", "A kind occurs in some files and not in others."),
    },
)
