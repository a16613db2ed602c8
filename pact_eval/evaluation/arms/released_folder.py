"""Files of a released result folder that are about several runs; each may be missing.

    significance.json         {"comparisons": [...], "confidently_wrong": {"name": [...]}}
    ensemble_sweep.json       {"name": [{"k": ..., "accuracy": ..., "permutation_tv": ...}, ...]}
    preflight.json            {"dataset": {...}, "contrastive_pairs": ...}
    holdout_rows.json         {"rows": [{"probabilities": [...]}, ...]}
    figures/figure_data.json  {"run_dir": "ARM/seed-NUMBER", "train_log": [...], ...}

Keys that no class below names are left alone. What follows from other numbers is computed again: a
file that contradicts itself is refused.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar, get_args

import msgspec
import numpy as np

from pact_eval._files import read_json
from pact_eval.errors import InputError
from pact_eval.schema import Section, convert
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.paired_tests import McNemarTest, item_accuracy_difference, mcnemar_from_counts

Content = TypeVar("Content")

_REMEDY: Final = "take the file from its release again, or remove it"
# Shares and p-values that were computed in another order, or by another library.
_ROUNDING: Final = 1e-9
_SEED: Final = 17
_MOST_ITEMS: Final = 2**40


def _expect(name: str, expected: float, value: float, rounding: float = _ROUNDING) -> None:
    """Refuse a number that differs from what others say by more than rounding."""
    if not math.isclose(value, expected, rel_tol=1e-6, abs_tol=rounding):
        raise ValueError(
            f"{name}: expected {expected:.6g}, from the other numbers, got {value:.6g}"
        )


def expect_share(name: str, value: float) -> None:
    """Refuse what is not a fraction, with a ValueError."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: expected a fraction in 0 to 1, got {value:.6g}")


def expect_counts(counts: Mapping[str, int], least: int = 1) -> None:
    """Refuse numbers below the least one and above what can be counted, with a ValueError."""
    for name, count in counts.items():
        if not least <= count <= _MOST_ITEMS:
            raise ValueError(f"{name}: expected a whole number of at least {least}, got {count:,}")


def _expect_ascending(name: str, values: Sequence[int]) -> None:
    if not values or values[0] < 1 or any(b <= a for a, b in pairwise(values)):
        raise ValueError(f"{name}: expected ascending whole numbers above 0")


def read_released(path: Path, kind: type[Content]) -> Content:
    """Read a file of a released folder.

    Args:
        path: the file.
        kind: struct of its content, or another type that msgspec supports.

    Raises:
        InputError: the file is missing or cannot be read, lacks a key or has a wrong value.
    """
    struct = next(iter(get_args(kind)), kind)
    expected = ", ".join(getattr(struct, "__struct_fields__", ()))
    try:
        return convert(read_json(path, missing=f"no such file; expected {expected}"), kind)
    except ValueError as error:
        raise released_error(path, error) from None


def _read_if_there(path: Path, kind: type[Content]) -> Content | None:
    return read_released(path, kind) if path.exists() else None


def released_error(path: Path, error: ValueError) -> InputError:
    """Return the message on a wrong file, with what to do."""
    place = "" if str(error).startswith(str(path)) else f"{path}: "
    return InputError(f"{place}{error}; {_REMEDY}")


class McNemarCounts(Section, frozen=True):
    """Items that only A and only B answers correctly, and the published p-value."""

    b: int
    c: int
    exact_p: float


class PublishedInterval(Section, frozen=True):
    """A minus B in accuracy with its published interval, as fractions."""

    point: float
    ci95: tuple[float, float]


class GroupAccuracies(Section, frozen=True):
    """Accuracy of both runs in a group of items, as fractions."""

    n: int
    a_acc: float
    b_acc: float


class ReleasedComparison(Section, frozen=True, dict=True):
    """Two runs on the same items, of which the counts were published, not the items.

    Attributes:
        run_a: arm of the first run.
        run_b: arm of the second run.
        n: number of items.
        accuracy_a: of the first run, a fraction.
        accuracy_b: of the second run, a fraction.
        mcnemar: counts and p-value.
        bootstrap: difference and interval.
        seed: of the runs; None if they have none.
        by_kind: accuracies by kind.
        by_domain: accuracies by domain.
    """

    run_a: str
    run_b: str
    n: int
    accuracy_a: float
    accuracy_b: float
    mcnemar: McNemarCounts
    bootstrap: PublishedInterval
    seed: int | None = None
    by_kind: dict[str, GroupAccuracies] = msgspec.field(default_factory=dict)
    by_domain: dict[str, GroupAccuracies] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse numbers that contradict each other."""
        expect_counts({"n": self.n})
        expect_share("accuracy_a", self.accuracy_a)
        expect_share("accuracy_b", self.accuracy_b)
        b, c, difference = self.mcnemar.b, self.mcnemar.c, self.accuracy_a - self.accuracy_b
        if min(b, c, self._both, self.n - b - c - self._both) < 0:
            items = f"of {self.n:,} items, {self.accuracy_a:.4f} and {self.accuracy_b:.4f} correct"
            raise ValueError(f"mcnemar: expected counts {items}, got b = {b:,} and c = {c:,}")
        _expect("mcnemar: b - c", self.n * difference, b - c)
        _expect("mcnemar: exact_p", self.test.p_value, self.mcnemar.exact_p, rounding=0.0)
        _expect("bootstrap: point", difference, self.bootstrap.point)
        for name, groups in (("by_kind", self.by_kind), ("by_domain", self.by_domain)):
            of_groups = tuple(groups.values())
            if of_groups:
                _expect(f"{name}: sum of n", self.n, sum(group.n for group in of_groups))
                right_a = sum(group.n * group.a_acc for group in of_groups)
                right_b = sum(group.n * group.b_acc for group in of_groups)
                _expect(f"{name}: mean of a_acc", self.accuracy_a, right_a / self.n)
                _expect(f"{name}: mean of b_acc", self.accuracy_b, right_b / self.n)

    @property
    def _both(self) -> int:
        return round(self.n * self.accuracy_a) - self.mcnemar.b

    @cached_property
    def test(self) -> McNemarTest:
        """McNemar's exact test, computed from the counts."""
        b, c, both = self.mcnemar.b, self.mcnemar.c, self._both
        return mcnemar_from_counts(b, c, both, self.n - b - c - both)

    @property
    def interval(self) -> Estimate:
        """The difference, with the published interval."""
        return Estimate(self.bootstrap.point, *self.bootstrap.ci95, self.n, self.n)

    @cached_property
    def items_apart(self) -> float:
        """The distance in items of the published interval from one drawn again over items."""
        drawn = item_accuracy_difference(
            self.mcnemar.b, self.mcnemar.c, self.n, rng=np.random.default_rng(_SEED)
        )
        low, high = self.bootstrap.ci95
        return self.n * max(abs(low - drawn.low), abs(high - drawn.high))


class WrongAnswer(Section, frozen=True):
    """A wrong answer with its confidence."""

    confidence: float


class Significance(Section, frozen=True):
    """Comparisons of runs, and by name of a model, its most confident wrong answers."""

    comparisons: tuple[ReleasedComparison, ...]
    confidently_wrong: dict[str, tuple[WrongAnswer, ...]] = msgspec.field(default_factory=dict)


class SweepPoint(Section, frozen=True):
    """Accuracy and view TV of an ensemble of K views, as fractions."""

    k: int
    accuracy: float
    permutation_tv: float

    def __post_init__(self) -> None:
        """Refuse what is not a fraction."""
        expect_share("accuracy", self.accuracy)
        expect_share("permutation_tv", self.permutation_tv)


class DatasetCounts(Section, frozen=True):
    """Records and source families of both files, and how many families have how many records."""

    train_file: str
    eval_file: str
    train_rows: int
    eval_rows: int
    train_families: int
    family_sizes: dict[str, int]
    train_source_families: int
    eval_source_families: int

    def __post_init__(self) -> None:
        """Refuse family sizes that do not add up, and negative counts."""
        if not all(size.isdecimal() and len(size) < 9 for size in self.family_sizes):
            raise ValueError(f"family_sizes: expected numbers of records, got {self.family_sizes}")
        records = sum(int(size) * count for size, count in self.family_sizes.items())
        _expect("train_families", sum(self.family_sizes.values()), self.train_families)
        _expect("train_rows", records, self.train_rows)
        counts = (*self.family_sizes.values(), self.train_source_families)
        if min(*counts, self.eval_rows, self.eval_source_families) < 0:
            raise ValueError("expected counts of at least 0")


class Preflight(Section, frozen=True):
    """Counts of the dataset before training."""

    dataset: DatasetCounts
    contrastive_pairs: int

    def __post_init__(self) -> None:
        """Refuse more pairs than families."""
        families = self.dataset.train_families
        if not 0 <= self.contrastive_pairs <= families:
            raise ValueError(
                f"contrastive_pairs: expected 0 to {families:,}, got {self.contrastive_pairs:,}"
            )


class HoldoutItem(Section, frozen=True):
    """Probabilities of the allowed answers of an item."""

    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse an item without an answer."""
        if not self.probabilities:
            raise ValueError("probabilities: expected one number per allowed answer, got none")


class HoldoutRows(Section, frozen=True):
    """The items of the shipped run."""

    rows: tuple[HoldoutItem, ...]


class LogStep(Section, frozen=True):
    """Loss terms, mean pair margin and ablated gap of a logged training step."""

    step: int
    ce: float | None = None
    cf: float | None = None
    pcr: float | None = None
    nr: float | None = None
    emd: float | None = None
    cf_delta: float | None = None
    necessity_gap: float | None = None


class ReliabilityBin(Section, frozen=True):
    """Number of items in a bin of confidence; their mean confidence and accuracy, if it has any."""

    count: int
    confidence: float = math.nan
    accuracy: float = math.nan

    def __post_init__(self) -> None:
        """Refuse a bin with items whose means are not fractions."""
        if self.count < 0:
            raise ValueError(f"count: expected a whole number of at least 0, got {self.count:,}")
        if self.count:
            expect_share("confidence", self.confidence)
            expect_share("accuracy", self.accuracy)


class RiskPoint(Section, frozen=True):
    """Error rate among the share of the items with the highest confidence."""

    coverage: float
    risk: float

    def __post_init__(self) -> None:
        """Refuse what is not a fraction."""
        expect_share("coverage", self.coverage)
        expect_share("risk", self.risk)


class RiskCoverage(Section, frozen=True):
    """Points of a risk-coverage curve, and the area below all of it."""

    aurc: float
    curve: tuple[RiskPoint, ...]


class FigureData(Section, frozen=True):
    """Numbers behind the figures of one run.

    Attributes:
        run_dir: folder of the run; its last two names are the arm and `seed-NUMBER`.
        train_log: the logged steps.
        reliability_uncalibrated: the bins of ECE.
        reliability_calibrated: the same after T(x).
        risk_coverage_uncalibrated: errors against coverage.
        risk_coverage_calibrated: the same after T(x).
    """

    run_dir: str
    train_log: tuple[LogStep, ...] = ()
    reliability_uncalibrated: tuple[ReliabilityBin, ...] = ()
    reliability_calibrated: tuple[ReliabilityBin, ...] = ()
    risk_coverage_uncalibrated: RiskCoverage | None = None
    risk_coverage_calibrated: RiskCoverage | None = None

    def __post_init__(self) -> None:
        """Refuse a folder that names no run, and steps out of order."""
        _ = self.run
        if self.train_log:
            _expect_ascending("train_log: step", [entry.step for entry in self.train_log])

    @property
    def run(self) -> tuple[str, int]:
        """Arm and seed of the run."""
        match = re.search(r"([^\\/]+)[\\/]+seed-(\d{1,9})$", self.run_dir)
        if match is None:
            raise ValueError(f'run_dir: expected a path to ARM/seed-NUMBER, got "{self.run_dir}"')
        return match[1], int(match[2])

    @property
    def label(self) -> str:
        """The run, as figures name it."""
        return "{}, seed {}".format(*self.run)


@dataclass(frozen=True)
class ReleasedFolder:
    """The files of a released folder that are about several runs; None or empty if missing.

    Attributes:
        path: the folder.
        significance: paired tests of runs.
        sweep: by name of a run, its accuracy and view TV at every K.
        preflight: counts of the dataset.
        choices: by number of allowed answers C, the number of holdout items.
        figures: numbers behind figures of one run.
    """

    path: Path
    significance: Significance | None
    sweep: Mapping[str, tuple[SweepPoint, ...]]
    preflight: Preflight | None
    choices: Mapping[int, int]
    figures: FigureData | None


def read_released_folder(path: Path) -> ReleasedFolder:
    """Read the files of a released folder that are about several runs.

    Args:
        path: the folder; a file has none of them.

    Raises:
        InputError: a file cannot be read, lacks a key, has a wrong value or contradicts itself; the
            message has the file, the keys, what was expected and what to do.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     _ = Path(name, "ensemble_sweep.json").write_text(
        ...         '{"base": [{"k": 1, "accuracy": 0.64, "permutation_tv": 0}]}')
        ...     folder = read_released_folder(Path(name))
        >>> folder.sweep["base"][0].accuracy, folder.significance
        (0.64, None)
    """
    sweep_file = path / "ensemble_sweep.json"
    sweep = _read_if_there(sweep_file, dict[str, tuple[SweepPoint, ...]]) or {}
    for name, points in sweep.items():
        try:
            _expect_ascending(f"{name}: k", [point.k for point in points])
        except ValueError as error:
            raise released_error(sweep_file, error) from None
    holdout = _read_if_there(path / "holdout_rows.json", HoldoutRows)
    choices = Counter(len(row.probabilities) for row in holdout.rows) if holdout else {}
    return ReleasedFolder(
        path,
        significance=_read_if_there(path / "significance.json", Significance),
        sweep=sweep,
        preflight=_read_if_there(path / "preflight.json", Preflight),
        choices=dict(sorted(choices.items())),
        figures=_read_if_there(path / "figures" / "figure_data.json", FigureData),
    )
