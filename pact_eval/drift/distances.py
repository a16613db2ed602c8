"""Distances between the probabilities of two runs on the same items, next to those of noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval._typing import FloatArray
from pact_eval.evaluation.conclusions.order import NoiseFloor, noise_floor
from pact_eval.evaluation.items import ScoredItems
from pact_eval.runs.provenance import Provenance
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.linearised import linear_inference, linearised_ratio
from pact_eval.stats.rate_decomposition import GroupedOutcomes, mix_shift

QUANTILES: Final = (0.5, 0.9, 0.99, 1.0)
"""Quantiles of TV over items that are shown."""

_SAME: Final = 1e-9


@dataclass(frozen=True)
class JointFloor:
    """The largest TV that two runs of one unchanged model can have by noise alone.

    Attributes:
        tv: the floor; NaN if the noise of a run was not measured, or a temperature was applied.
        a: noise floor of the first run.
        b: noise floor of the second run.
    """

    tv: float
    a: NoiseFloor
    b: NoiseFloor


@dataclass(frozen=True)
class Distance:
    """Total variation distance (TV) between the distributions of two runs, per item.

    Attributes:
        mean: mean over items, with its interval over families.
        quantiles: by level of `QUANTILES`.
        floor: what noise alone can move.
        above_floor: share of items beyond it; NaN without a floor.
    """

    mean: Estimate
    quantiles: dict[float, float]
    floor: JointFloor
    above_floor: float


def distance(a: ScoredItems, b: ScoredItems, floor: JointFloor) -> Distance:
    """Measure how far the distribution of each item moved.

    Args:
        a: items of the first run, with their views in memory.
        b: the same items of the second run, in the same order.
        floor: what noise alone can move.
    """
    tv = item_tv(np.exp(a.log_probs), np.exp(b.log_probs))
    linear = linearised_ratio(tv, np.ones(len(tv)), a.cluster, a.n_clusters)
    mean = linear_inference(float(tv.mean()), linear, n=len(tv)).estimate()
    beyond = math.nan if math.isnan(floor.tv) else float((tv > floor.tv + _SAME).mean())
    levels = np.quantile(tv, QUANTILES).tolist()
    return Distance(mean, dict(zip(QUANTILES, levels, strict=True)), floor, beyond)


def item_tv(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return (n,) TV of distributions (n, C); one array may have fewer unused columns.

    Examples:
        >>> item_tv(np.array([[0.5, 0.5]]), np.array([[0.75, 0.25, 0.0]]))
        array([0.25])
    """
    width = max(p.shape[1], q.shape[1])
    p, q = (np.pad(matrix, ((0, 0), (0, width - matrix.shape[1]))) for matrix in (p, q))
    return np.asarray(np.abs(p - q).sum(axis=1) / 2)


def joint_floor(a: Provenance, b: Provenance, *, calibrated: bool, answers: int) -> JointFloor:
    r"""Return the largest TV that noise alone gives two runs.

    Two served runs of one model are repeats of one another: the larger of their repeat floors. A
    local run is at most its rounding floor away from exact arithmetic, so by the triangle
    inequality two floors add up otherwise. Probabilities that were rounded to d decimals are at
    most :math:`C \cdot 10^{-d} / 4` away from the unrounded ones; this is added unless both runs
    were rounded and repeated alike.

    Args:
        a: provenance of the first run.
        b: provenance of the second run.
        calibrated: whether temperatures were applied, which change what noise moves.
        answers: largest number of answers of an item, C.

    Examples:
        >>> runs = [Provenance.of({"settings": {"dtype": "float32"}}) for _ in "ab"]
        >>> joint_floor(*runs, calibrated=False, answers=4).tv < 1e-3
        True
    """
    first, second = noise_floor(a), noise_floor(b)
    if calibrated:
        return JointFloor(math.nan, first, second)
    repeats = {first.source, second.source} == {"repeats"}
    tv = max(first.tv, second.tv) if repeats else first.tv + second.tv
    if not (repeats and a.rounded_to == b.rounded_to):
        tv += sum(
            answers * 10.0**-provenance.rounded_to / 4
            for provenance in (a, b)
            if provenance.rounded_to is not None
        )
    return JointFloor(tv, first, second)


@dataclass(frozen=True)
class DomainShift:
    """One field kind in one domain, in both runs.

    Attributes:
        kind: the field kind.
        domain: the domain; "" if it is not known.
        items: items of each run.
        shares: share of the items of each run.
        accuracies: accuracy of each run; NaN without items.
        mix: what its other share adds to the change in accuracy.
        within: what its other accuracy adds.
    """

    kind: str
    domain: str
    items: tuple[int, int]
    shares: tuple[float, float]
    accuracies: tuple[float, float]
    mix: float
    within: float


@dataclass(frozen=True)
class Mix:
    """The change in accuracy, second run minus first, in three parts that add up to it.

    Attributes:
        total: the change.
        mix: due to other shares of the kinds and domains that both runs have.
        within: due to another accuracy within them.
        unshared: due to kinds and domains that only one run has.
        domains: each kind in each domain, largest parts first.
    """

    total: float
    mix: Estimate
    within: Estimate
    unshared: Estimate
    domains: tuple[DomainShift, ...]

    @property
    def same_domains(self) -> bool:
        """Whether both runs have every kind and domain."""
        return all(all(domain.items) for domain in self.domains)


def mix_of(a: ScoredItems, b: ScoredItems) -> Mix:
    """Decompose the change in accuracy between two runs by kind and domain.

    Args:
        a: items of the first run, with references.
        b: items of the second run.
    """
    samples = (a, b)
    names = [_cells(sample) for sample in samples]
    cells = sorted({*names[0], *names[1]})
    number = {cell: at for at, cell in enumerate(cells)}
    units = [sample.clusters.names[sample.cluster].astype(np.str_) for sample in samples]
    unit_names, codes = np.unique(np.concatenate(units), return_inverse=True)
    both = np.split(codes, [len(a)])
    shift = mix_shift(
        *(
            GroupedOutcomes(
                sample.correct.astype(np.float64),
                np.array([number[cell] for cell in cell_of]),
                code,
            )
            for sample, cell_of, code in zip(samples, names, both, strict=True)
        ),
        groups=len(cells),
        clusters=len(unit_names),
    )
    shifts = [
        DomainShift(
            *cells[one.group], one.rows, one.shares, one.rates, mix=one.mix, within=one.within
        )
        for one in shift.groups
    ]
    shifts.sort(key=lambda one: (-abs(one.mix) - abs(one.within), one.kind, one.domain))
    return Mix(shift.total, shift.mix, shift.within, shift.unshared, tuple(shifts))


def _cells(items: ScoredItems) -> list[tuple[str, str]]:
    kind, domain = items.labels["kind"], items.labels["domain"]
    return list(
        zip(kind.names[kind.codes].tolist(), domain.names[domain.codes].tolist(), strict=True)
    )
