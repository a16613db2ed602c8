"""The PACT objective: the terms of a batch, weighted, ramped in and summed.

    L = L_CE + r_t (cf L_CF + pc L_PC + nr L_NR + emd L_EMD + am L_AM)

Every term is the weighted mean over the units that it applies to: cross-entropy and answer mass
over labelled rows, the margin over pairs, consistency over pairs of views, necessity over ablated
rows, transport over labelled rows of Score fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Final

import torch
from torch import Tensor, nn

from pact_losses.batch import PactBatch
from pact_losses.candidates import AnswerLogits
from pact_losses.errors import BatchError, NonFiniteError, PactLossError
from pact_losses.terms import (
    ablated_gap,
    answer_mass_loss,
    counterfactual_margin_loss,
    cross_entropy,
    jensen_shannon,
    necessity_loss,
    ordinal_transport_loss,
    pair_margin,
    to_canonical,
)

_NAMED_AT_MOST = 5

_UNITS_OF: Final = {"am": "ce"}
"""Terms whose units are those of another one."""


@dataclass(frozen=True)
class PactWeights:
    """The weights of the terms besides cross-entropy (weight 1); defaults from the paper.

    The paper has no term of the answer mass, so its weight is 0. At weight 1 and without a ramp,
    cross-entropy and that term are together plain cross-entropy over the vocabulary.

    Attributes:
        cf: weight of the counterfactual margin.
        pc: weight of permutation consistency.
        nr: weight of evidence necessity.
        emd: weight of ordinal transport.
        am: weight of the answer mass.

    Raises:
        PactLossError: a weight is below 0 or not finite.

    Examples:
        >>> PactWeights(nr=0.0)
        PactWeights(cf=0.5, pc=0.5, nr=0.0, emd=0.3, am=0.0)
    """

    cf: float = 0.5
    pc: float = 0.5
    nr: float = 0.2
    emd: float = 0.3
    am: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_range(f"weight {field.name}", getattr(self, field.name), math.inf)


@dataclass(frozen=True)
class PactOutput:
    """The loss of one batch, with its terms.

    Attributes:
        total: scalar with a graph; call `backward` on it.
        terms: raw means without weight or ramp, detached: "ce", "cf", "pc", "nr", "emd", "am". A
            term without units in the batch is absent, and so is "am" if only the letters were read;
            a term of weight 0 is present.
        diagnostics: detached scalars, each present only if the batch has units for it:
            "pair_margin" (mean d, nats), "pairs_beyond_margin" (share of pairs with d > m),
            "jsd" (mean, nats), "ablated_gap" (mean, nats), "answer_mass" (mean share, if it is
            known), and always "ramp" (r_t). They are weighted like the terms.
        unit_weights: for every entry of `terms`, the summed weight of its units. If all weights are
            1, this is the number of units. Over several batches, sum(weight * term) / sum(weight)
            is the exact mean.
    """

    total: Tensor
    terms: Mapping[str, Tensor]
    diagnostics: Mapping[str, Tensor]
    unit_weights: Mapping[str, Tensor]


@dataclass(frozen=True)
class _Term:
    """One term of one batch: u units, each of k rows."""

    name: str
    factor: float
    rows: Tensor
    weight: Tensor
    values: Tensor
    diagnostics: Mapping[str, Tensor]

    def mean(self, values: Tensor, unit_total: Tensor | float | None = None) -> Tensor:
        """Weighted mean over units: of this batch, or its share of a mean over `unit_total`."""
        whole = self.weight.sum() if unit_total is None else unit_total
        return (values * (self.weight / whole)).sum()


class PactLoss(nn.Module):
    """The PACT objective as a module without parameters.

    A term whose weight (ramp included) is 0 is computed without a graph. It does not affect the
    total or a gradient, even if it is NaN.

    Args:
        weights: weights of the terms.
        margin: m of the counterfactual margin, nats, 0 or above.
        epsilon: eps of evidence necessity, nats, 0 or above.
        ramp: share of the training over which r_t rises linearly from 0 to 1; 0 for no ramp.

    Raises:
        PactLossError: a setting is out of its range.

    Examples:
        >>> batch = PactBatch.of([[0, 1], [0, 1]], [0, 1], pairs=[[0, 1]])
        >>> loss_fn = PactLoss()
        >>> out = loss_fn(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), batch, progress=1.0)
        >>> {name: round(float(value), 4) for name, value in out.terms.items()}
        {'ce': 0.3133, 'cf': 0.6931}
        >>> round(float(out.total), 4), float(out.diagnostics["pair_margin"])
        (0.6598, 2.0)
    """

    __call__: Callable[..., PactOutput]

    def __init__(
        self,
        weights: PactWeights | None = None,
        margin: float = 2.0,
        epsilon: float = 0.0,
        ramp: float = 0.1,
    ) -> None:
        super().__init__()
        self.weights = PactWeights() if weights is None else weights
        self.margin = _check_range("margin", margin, math.inf)
        self.epsilon = _check_range("epsilon", epsilon, math.inf)
        self.ramp = _check_range("ramp", ramp, 1.0)

    def extra_repr(self) -> str:
        """Show the settings."""
        return f"{self.weights}, margin={self.margin}, epsilon={self.epsilon}, ramp={self.ramp}"

    def ramp_at(self, progress: float) -> float:
        """Return r_t, the factor of all terms except cross-entropy, from 0 to 1.

        Args:
            progress: share of the training up to and with this step, 0 to 1.

        Raises:
            PactLossError: progress is outside [0, 1].

        Examples:
            >>> [PactLoss(ramp=0.1).ramp_at(progress) for progress in (0.0, 0.05, 0.1, 1.0)]
            [0.0, 0.5, 1.0, 1.0]
        """
        _check_range("progress", progress, 1.0)
        return 1.0 if self.ramp == 0 else min(1.0, progress / self.ramp)

    def forward(
        self,
        code_logits: Tensor | AnswerLogits,
        batch: PactBatch,
        *,
        progress: float,
        totals: Mapping[str, float] | None = None,
    ) -> PactOutput:
        """Compute the loss of a batch.

        Args:
            code_logits: shape (n, C), any floating type; logits of the letter tokens at the last
                position, in letter order. Values in unused slots are ignored. `AnswerLogits` also
                give the answer mass.
            batch: the n rows.
            progress: share of the training up to and with this step: (step + 1) / total_steps for
                steps from 0, so that the first step has a ramp above 0, as in the released code.
            totals: for gradient accumulation, `unit_totals` of all batches of the optimiser step.
                The losses of those batches then add up to the loss of the step as one batch; do not
                divide them by the number of batches. Without `totals`, every batch has its own
                mean, and the mean over batches is exact only if all have the same units.

        Raises:
            BatchError: the logits do not fit the batch, no view is labelled, or the answer mass
                has a weight and is not known.
            NonFiniteError: the total, or a logit that contributes to it, is not a finite number;
                the message names the term and up to five records.
            PactLossError: progress is outside [0, 1].
        """
        ramp = self.ramp_at(progress)
        logits = AnswerLogits.of(code_logits)
        _check_fit(logits.letters, batch)
        units = _unit_rows(batch)
        if _knows_mass(logits, batch, self.weights.am):
            units["am"] = units[_UNITS_OF["am"]]
        canonical = AnswerLogits(to_canonical(logits.letters, batch.code_order), logits.rest)
        terms = [self._measure(name, rows, canonical, batch, ramp) for name, rows in units.items()]
        active = [term for term in terms if term.factor > 0]
        total = _weighted_sum(active, totals)
        _refuse_non_finite(total, active, logits.letters, batch)
        diagnostics = {
            name: term.mean(values).detach()
            for term in terms
            for name, values in term.diagnostics.items()
        }
        return PactOutput(
            total=total,
            terms={term.name: term.mean(term.values).detach() for term in terms},
            diagnostics=diagnostics | {"ramp": total.new_tensor(ramp)},
            unit_weights={term.name: term.weight.sum() for term in terms},
        )

    def _measure(
        self, name: str, rows: Tensor, canonical: AnswerLogits, batch: PactBatch, ramp: float
    ) -> _Term:
        factor = 1.0 if name == "ce" else ramp * getattr(self.weights, name)
        with torch.set_grad_enabled(torch.is_grad_enabled() and factor > 0):
            values, diagnostics = self._values(name, rows, canonical, batch)
        weight = batch.weight[rows].to(values.dtype).mean(-1)
        return _Term(name, factor, rows, weight, values, diagnostics)

    def _values(
        self, name: str, rows: Tensor, canonical: AnswerLogits, batch: PactBatch
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """One value per unit, and the diagnostics of the units."""
        first, last = rows[:, 0], rows[:, -1]
        logits, reference = canonical.letters[first], batch.reference[first]
        if name == "am" and canonical.rest is not None:
            loss = answer_mass_loss(logits, canonical.rest[first])
            return loss, {"answer_mass": (-loss).exp()}
        if name == "ce":
            return cross_entropy(logits, reference), {}
        if name == "emd":
            return ordinal_transport_loss(logits, reference), {}
        if name == "pc":
            divergence = jensen_shannon(logits, canonical.letters[last])
            return divergence, {"jsd": divergence}
        if name == "cf":
            others = canonical.letters[last]
            margins = pair_margin(logits, others, reference, batch.reference[last])
            loss = counterfactual_margin_loss(margins, self.margin)
            return loss, {"pair_margin": margins, "pairs_beyond_margin": margins > self.margin}
        gap = ablated_gap(logits, *batch.ablations[:, 1:].unbind(-1))
        return necessity_loss(gap, self.epsilon), {"ablated_gap": gap}


def unit_totals(batches: Iterable[PactBatch]) -> dict[str, float]:
    """Sum the weights of the units of each term over the batches of one optimiser step.

    Pass the result to `PactLoss` as `totals` to make gradient accumulation exact. With data
    parallelism, also sum it over the processes, and multiply the loss by their number if gradients
    are averaged.

    Args:
        batches: all batches of the step.

    Returns:
        A number for each of "ce", "cf", "pc", "nr", "emd" that has units in the batches; those of
        "am" are those of "ce".

    Examples:
        >>> batch = PactBatch.of([[0, 1], [0, 1]], [0, 1], pairs=[[0, 1]])
        >>> unit_totals([batch, batch])
        {'ce': 4.0, 'cf': 2.0}
    """
    sums: dict[str, float] = {}
    for batch in batches:
        for name, rows in _unit_rows(batch).items():
            weight = float(batch.weight[rows].mean(-1).sum())
            sums[name] = sums.get(name, 0.0) + weight
    return sums


def _unit_rows(batch: PactBatch) -> dict[str, Tensor]:
    """The rows of every unit, shape (units, rows per unit); terms without units are left out."""
    labelled = batch.is_labelled
    rows = {
        "ce": labelled.nonzero(),
        "cf": batch.pairs,
        "pc": batch.views,
        "nr": batch.ablations[:, :1],
        "emd": (labelled & batch.is_score).nonzero(),
    }
    return {name: table for name, table in rows.items() if len(table)}


def _weighted_sum(active: list[_Term], totals: Mapping[str, float] | None) -> Tensor:
    parts = []
    for term in active:
        units = _UNITS_OF.get(term.name, term.name)
        unit_total = None if totals is None else totals.get(units, 0.0)
        if unit_total is not None and not unit_total > 0:
            raise BatchError(
                f"totals: expected the summed unit weight of term {term.name}, above 0, got "
                f"{unit_total}; make it with unit_totals of all batches of the optimiser step"
            )
        parts.append(term.factor * term.mean(term.values, unit_total))
    return torch.stack(parts).sum()


def _check_range(name: str, value: float, highest: float) -> float:
    if not (math.isfinite(value) and 0 <= value <= highest):
        permitted = "a finite number, 0 or above" if math.isinf(highest) else f"0 to {highest:g}"
        raise PactLossError(f"{name}: expected {permitted}, got {value}")
    return value


def _check_fit(code_logits: Tensor, batch: PactBatch) -> None:
    expected, shape = tuple(batch.code_order.shape), tuple(code_logits.shape)
    message = None
    if shape != expected:
        message = f"code_logits: expected shape {expected}, the mask of the batch, got {shape}"
        if len(shape) == 2 and shape[1] > expected[1]:
            message += ": more letters than the mask has columns"
    elif not code_logits.is_floating_point():
        message = f"code_logits: expected a floating type, got {code_logits.dtype}"
    elif code_logits.device != batch.code_order.device:
        message = (
            f"code_logits are on {code_logits.device}, the batch on {batch.code_order.device}; "
            "move it with batch.to(code_logits.device)"
        )
    elif not bool(batch.is_labelled.any()):
        names = _name_rows(batch, range(len(batch))) or "none"
        message = f"expected a labelled view in every batch, got no reference for records: {names}"
    if message is not None:
        raise BatchError(message)


def _knows_mass(logits: AnswerLogits, batch: PactBatch, weight: float) -> bool:
    """Return whether the answer mass is known; it must be if it has a weight."""
    rest = logits.rest
    if rest is None:
        if weight > 0:
            raise BatchError(
                f"weight am is {weight:g}, but only the logits of the letters are given; pass "
                "those of answer_logits"
            )
        return False
    expected = (len(batch),)
    if tuple(rest.shape) != expected or not rest.is_floating_point():
        raise BatchError(
            f"rest: expected shape {expected} of a floating type, got {tuple(rest.shape)} of "
            f"{rest.dtype}"
        )
    return True


def _refuse_non_finite(
    total: Tensor, active: list[_Term], code_logits: Tensor, batch: PactBatch
) -> None:
    involved = torch.zeros_like(batch.is_labelled)
    for term in active:
        involved[term.rows.flatten()] = True
    bad = involved & (~code_logits.detach().isfinite() & batch.mask).any(-1)
    if bool(total.isfinite() & ~bad.any()):
        return
    if bool(bad.any()):
        entered = ", ".join(term.name for term in active if bool(bad[term.rows].any()))
        names = _name_rows(batch, bad.nonzero().flatten().tolist())
        raise NonFiniteError(f"logits are not finite (used in {entered}) for records: {names}")
    for term in active:
        faulty = ~term.values.isfinite()
        if bool(faulty.any()):
            names = _name_rows(batch, term.rows[faulty].flatten().tolist())
            raise NonFiniteError(f"term {term.name} is not finite for records: {names}")
    parts = ", ".join(f"{t.name} {t.factor:g} x {float(t.mean(t.values)):g}" for t in active)
    raise NonFiniteError(f"the total is not finite, but each of its terms is: {parts}")


def _name_rows(batch: PactBatch, rows: Iterable[int]) -> str:
    names = list(dict.fromkeys(batch.record_ids[row] for row in rows))
    more = f" and {len(names) - _NAMED_AT_MOST} more" if len(names) > _NAMED_AT_MOST else ""
    return ", ".join(names[:_NAMED_AT_MOST]) + more
