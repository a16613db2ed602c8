"""Runs on other items: changes of the mix of kinds and domains, and of the accuracy within them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pact_eval.evaluation.items import ScoredItems
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.rate_decomposition import GroupedOutcomes, mix_shift


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
