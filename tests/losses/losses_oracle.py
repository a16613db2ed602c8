"""The equations of the paper in float64 numpy, one unit at a time and without masks.

Written from the equations alone: plain loops, probabilities that are exponentiated and logarithms
taken of them. Rows hold exactly as many logits as there are answers, in canonical order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from pact_losses import PactBatch

Row = npt.NDArray[np.float64]


def softmax(z: Row) -> Row:
    e = np.exp(z - z.max())
    return np.asarray(e / e.sum())


def ce(z: Row, y: int) -> float:
    return float(np.log(np.exp(z - z[y]).sum()))


def did(za: Row, zb: Row, ya: int, yb: int) -> float:
    return float((za[ya] - za[yb]) + (zb[yb] - zb[ya]))


def cf(d: float, m: float = 2.0) -> float:
    return float(np.log1p(np.exp(m - d)))


def kl(p: Row, q: Row) -> float:
    return sum(float(a * np.log(a / b)) for a, b in zip(p, q, strict=True) if a > 0)


def jsd(z: Row, z2: Row) -> float:
    p, q = softmax(z), softmax(z2)
    return kl(p, (p + q) / 2) / 2 + kl(q, (p + q) / 2) / 2


def gap(z: Row, ya: int, yb: int) -> float:
    return float(abs(z[ya] - z[yb]))


def nr(value: float, eps: float = 0.0) -> float:
    return max(value - eps, 0.0) ** 2


def emd(z: Row, y: int) -> float:
    p = softmax(z)
    return float(sum((p[: j + 1].sum() - (1.0 if j >= y else 0.0)) ** 2 for j in range(len(p))))


@dataclass
class Case:
    """A batch and its logits, as lists: canonical logits of each row, and how they are shown."""

    canonical: list[Row]
    order: list[list[int]]
    reference: list[int | None]
    is_score: list[bool]
    pairs: list[tuple[int, int]] = field(default_factory=list)
    views: list[tuple[int, int]] = field(default_factory=list)
    ablations: list[tuple[int, int, int]] = field(default_factory=list)
    weight: list[float] | None = None
    width: int | None = None

    def batch(self) -> PactBatch:
        batch = PactBatch.of(
            self.order,
            self.reference,
            is_score=self.is_score,
            pairs=self.pairs,
            views=self.views,
            ablations=self.ablations,
            weight=self.weight,
        )
        if self.width is None:
            return batch
        wider = torch.full((len(batch), self.width), -1)
        wider[:, : batch.code_order.shape[1]] = batch.code_order
        return PactBatch(
            **{name: getattr(batch, name) for name in _TABLES}
            | {"code_order": wider, "record_ids": batch.record_ids}
        )

    def code_logits(self, dtype: torch.dtype = torch.float64, fill: float = 0.0) -> torch.Tensor:
        width = self.width or max(len(order) for order in self.order)
        logits = np.full((len(self.order), width), fill)
        for row, (z, order) in enumerate(zip(self.canonical, self.order, strict=True)):
            logits[row, : len(order)] = z[order]
        return torch.tensor(logits, dtype=dtype)

    def weights(self) -> list[float]:
        return self.weight or [1.0] * len(self.order)


_TABLES = ("reference", "is_score", "pairs", "views", "ablations", "weight")


def mean(values: Sequence[float], weights: Sequence[float]) -> float:
    top = sum(value * weight for value, weight in zip(values, weights, strict=True))
    return top / sum(weights)


def known_reference(case: Case, row: int) -> int:
    reference = case.reference[row]
    assert reference is not None
    return reference


def expected_terms(case: Case, m: float = 2.0, eps: float = 0.0) -> dict[str, float]:
    """The weighted mean of every term that has units, by its equation."""
    z, w = case.canonical, case.weights()
    labelled = [row for row, y in enumerate(case.reference) if y is not None]
    score = [row for row in labelled if case.is_score[row]]
    reference = {row: known_reference(case, row) for row in labelled}
    margins = [did(z[a], z[b], reference[a], reference[b]) for a, b in case.pairs]
    values = {
        "ce": ([ce(z[row], reference[row]) for row in labelled], [w[row] for row in labelled]),
        "cf": ([cf(d, m) for d in margins], [(w[a] + w[b]) / 2 for a, b in case.pairs]),
        "pc": (
            [jsd(z[a], z[b]) for a, b in case.views],
            [(w[a] + w[b]) / 2 for a, b in case.views],
        ),
        "nr": (
            [nr(gap(z[row], a, b), eps) for row, a, b in case.ablations],
            [w[row] for row, _, _ in case.ablations],
        ),
        "emd": ([emd(z[row], reference[row]) for row in score], [w[row] for row in score]),
    }
    return {name: mean(*both) for name, both in values.items() if both[0]}


def family_case(
    sizes: Sequence[int] = (3, 2, 5),
    *,
    seed: int = 0,
    weighted: bool = False,
    width: int | None = None,
) -> Case:
    """Whole families: two primary views, two permuted ones and an ablated one for each size.

    Every other family is of a Score field.
    """
    rng = np.random.default_rng(seed)
    case = Case([], [], [], [], width=width)
    for k, n in enumerate(sizes):
        start = len(case.order)
        ya, yb = (int(y) for y in rng.permutation(n)[:2])
        shuffled = [rng.permutation(n).tolist() for _ in range(2)]
        case.order += [list(range(n)), list(range(n)), *shuffled, list(range(n))]
        case.reference += [ya, yb, ya, yb, None]
        case.is_score += [k % 2 == 1] * 5
        case.canonical += [2 * rng.standard_normal(n) for _ in range(5)]
        case.pairs.append((start, start + 1))
        case.views += [(start, start + 2), (start + 1, start + 3)]
        case.ablations.append((start + 4, ya, yb))
    if weighted:
        case.weight = rng.uniform(0.25, 4.0, len(case.order)).astype(np.float32).tolist()
    return case
