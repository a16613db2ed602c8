"""What the objective is told about a batch: tensors and index tables, checked once.

Rows are views. The logits of a row stand in code order; `code_order` brings them into canonical
order. Three tables say which rows belong together: `pairs` (the two members of a family), `views`
(two code orders of one record) and `ablations` (contexts without the decisive sentence).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final

import torch
from torch import Tensor

from pact_losses.errors import BatchError

NO_REFERENCE: Final = -1
"""Stands for the reference of a row that has none."""

_DTYPES: Final[dict[str, tuple[torch.dtype, ...]]] = {
    "is_score": (torch.bool,),
    "weight": (torch.float32, torch.float64),
}
"""What is not int64."""


@dataclass(frozen=True, eq=False)
class PactBatch:
    """A batch of n rows (views) with up to C answers.

    Attributes:
        code_order: shape (n, C), int64; canonical index shown at each code position, unused slots
            -1, all of them behind the used ones.
        reference: shape (n,), int64; canonical index of the right answer, `NO_REFERENCE` for a row
            without label.
        is_score: shape (n,), bool; rows of Score fields, whose answers are ordered levels.
        pairs: shape (n_pairs, 2), int64; rows (base, counterfactual).
        views: shape (n_views, 2), int64; rows that show one record under two code orders, with one
            reference.
        ablations: shape (n_ablations, 3), int64; (row, y_a, y_b) with canonical answers.
        weight: shape (n,), float32 or float64, above 0 and finite; weight of the row in every mean.
            A pair or two views weigh the mean of their rows.
        record_ids: n names for messages.
        input_ids: shape (n, tokens), int64, padded on the left; None where logits come from
            elsewhere.
        attention_mask: shape (n, tokens), int64; 0 on padding. It comes with input_ids or not at
            all.
        code_tokens: shape (n, C), int64; token of the code letter at each code position, unused
            slots 0.

    The checks run once, when a batch is made: `to` and `pin_memory` do not repeat them, since each
    of them waits for the device. Two batches are equal if they are the same object.

    Raises:
        BatchError: shapes, types, ranges or tables do not fit; the message names the record.

    Example:
        >>> batch = PactBatch.of([[1, 0], [0, 1]], [0, 1], pairs=[[0, 1]])
        >>> batch.mask.tolist(), batch.is_labelled.tolist()
        ([[True, True], [True, True]], [True, True])
    """

    code_order: Tensor
    reference: Tensor
    is_score: Tensor
    pairs: Tensor
    views: Tensor
    ablations: Tensor
    weight: Tensor
    record_ids: tuple[str, ...]
    input_ids: Tensor | None = None
    attention_mask: Tensor | None = None
    code_tokens: Tensor | None = None

    def __post_init__(self) -> None:
        self._check_shapes()
        self._check_dtypes()
        self._check_orders()
        self._check_references()
        self._check_tables()

    @classmethod
    def of(
        cls,
        code_order: Any,
        reference: Any,
        *,
        is_score: Any = None,
        pairs: Any = (),
        views: Any = (),
        ablations: Any = (),
        weight: Any = None,
        record_ids: Any = None,
    ) -> PactBatch:
        """Make a batch from lists, for logits that come from elsewhere; see the class for shapes.

        Args:
            code_order: (n, C); shorter rows are filled with -1.
            reference: (n,); None stands for no reference.
            is_score: (n,); none of them by default.
            pairs: (n_pairs, 2).
            views: (n_views, 2).
            ablations: (n_ablations, 3).
            weight: (n,); all 1 by default.
            record_ids: n names; "row 0", "row 1", ... by default.
        """
        orders = [list(order) for order in code_order]
        width = max((len(order) for order in orders), default=0)
        n = len(orders)
        return cls(
            code_order=torch.tensor(
                [order + [-1] * (width - len(order)) for order in orders], dtype=torch.long
            ).reshape(n, width),
            reference=torch.tensor(
                [NO_REFERENCE if each is None else int(each) for each in reference],
                dtype=torch.long,
            ),
            is_score=torch.tensor([False] * n if is_score is None else list(is_score)).bool(),
            pairs=_table(pairs, 2),
            views=_table(views, 2),
            ablations=_table(ablations, 3),
            weight=torch.ones(n) if weight is None else torch.tensor(list(weight)).float(),
            record_ids=tuple([f"row {k}" for k in range(n)] if record_ids is None else record_ids),
        )

    def __len__(self) -> int:
        return len(self.record_ids)

    @property
    def mask(self) -> Tensor:
        """Which slots hold an answer, shape (n, C); the same in code and in canonical order."""
        return self.code_order >= 0

    @property
    def n_choices(self) -> Tensor:
        """Number of answers of each row, shape (n,)."""
        return self.mask.sum(-1)

    @property
    def is_labelled(self) -> Tensor:
        """Which rows have a reference, shape (n,)."""
        return self.reference != NO_REFERENCE

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> PactBatch:
        """Return the batch with all of its tensors on a device; nothing is checked again."""
        return self._with_each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> PactBatch:
        """Return the batch in page-locked memory; `DataLoader(pin_memory=True)` asks for it."""
        return self._with_each(Tensor.pin_memory)

    def _with_each(self, change: Callable[[Tensor], Tensor]) -> PactBatch:
        changed = copy.copy(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                # A frozen dataclass is written to in this way alone; `changed` is ours still.
                object.__setattr__(changed, field.name, change(value))
        return changed

    def _check_shapes(self) -> None:
        if self.code_order.ndim != 2:
            message = f"code_order: expected shape (n, C), got {tuple(self.code_order.shape)}"
            raise BatchError(message)
        n, width = len(self.record_ids), self.code_order.shape[-1]
        tokens = 0 if self.input_ids is None else self.input_ids.shape[-1]
        if (self.input_ids is None) != (self.attention_mask is None):
            message = "expected input_ids and attention_mask together, got one of them"
            raise BatchError(message)
        expected = {
            "code_order": (n, width),
            "reference": (n,),
            "is_score": (n,),
            "weight": (n,),
            "pairs": (len(self.pairs), 2),
            "views": (len(self.views), 2),
            "ablations": (len(self.ablations), 3),
            "input_ids": (n, tokens),
            "attention_mask": (n, tokens),
            "code_tokens": (n, width),
        }
        for name, shape in expected.items():
            value = getattr(self, name)
            if value is not None and tuple(value.shape) != shape:
                message = f"{name}: expected shape {shape}, got {tuple(value.shape)}"
                raise BatchError(message)

    def _check_dtypes(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, Tensor):
                continue
            expected = _DTYPES.get(field.name, (torch.int64,))
            if value.dtype not in expected:
                wanted = " or ".join(_name_of(dtype) for dtype in expected)
                message = f"{field.name}: expected {wanted}, got {_name_of(value.dtype)}"
                raise BatchError(message)

    def _check_orders(self) -> None:
        width = self.code_order.shape[-1]
        slots = torch.arange(width, device=self.code_order.device)
        # A used slot holds each canonical index once, in whatever order: sorted, the row counts up.
        wanted = torch.where(slots < self.n_choices[:, None], slots, width)
        found = torch.where(self.mask, self.code_order, width).sort(-1).values
        front = (self.mask == (slots < self.n_choices[:, None])).all(-1)
        good = (found == wanted).all(-1) & front & (self.n_choices >= 2)
        self._refuse(
            ~good, "expected a permutation of two or more answers in code_order, got {row}"
        )
        heavy = (self.weight > 0) & self.weight.isfinite()
        self._refuse(~heavy, "expected a finite weight above 0")

    def _check_references(self) -> None:
        outside = (self.reference < NO_REFERENCE) | (self.reference >= self.n_choices)
        self._refuse(outside, "the reference is none of its answers")

    def _check_tables(self) -> None:
        n = len(self)
        for name, rows in (
            ("pairs", self.pairs),
            ("views", self.views),
            ("ablations", self.ablations[:, 0]),
        ):
            strange = rows[(rows < 0) | (rows >= n)]
            if len(strange):
                message = f"{name}: expected rows from 0 to {n - 1}, got {int(strange[0])}"
                raise BatchError(message)
        self._check_pairs()
        self._check_views()
        self._check_ablations()

    def _check_pairs(self) -> None:
        first, second = self.pairs.unbind(-1)
        labelled = self.is_labelled
        self._refuse(~labelled[first], "a member of a pair has no reference", first)
        self._refuse(~labelled[second], "a member of a pair has no reference", second)
        same_width = self.n_choices[first] == self.n_choices[second]
        self._refuse(
            ~same_width, "the members of its pair have different numbers of answers", first
        )
        flips = self.reference[first] != self.reference[second]
        self._refuse(~flips, "the references of its pair do not differ", first)

    def _check_views(self) -> None:
        one, other = self.views.unbind(-1)
        alike = (self.n_choices[one] == self.n_choices[other]) & (one != other)
        self._refuse(~alike, "two views of a record must be two rows of it", one)
        agree = self.reference[one] == self.reference[other]
        self._refuse(~agree, "two views of a record must have the same reference", one)

    def _check_ablations(self) -> None:
        row, y_a, y_b = self.ablations.unbind(-1)
        within = (torch.minimum(y_a, y_b) >= 0) & (torch.maximum(y_a, y_b) < self.n_choices[row])
        self._refuse(~within | (y_a == y_b), "an ablation takes two different answers", row)

    def _refuse(self, bad: Tensor, fault: str, rows: Tensor | None = None) -> None:
        if bool(bad.any()):
            index = int(torch.nonzero(bad)[0])
            row = index if rows is None else int(rows[index])
            said = fault.format(row=self.code_order[row].tolist())
            message = f"record {self.record_ids[row]} (row {row}): {said}"
            raise BatchError(message)


def _table(rows: Any, width: int) -> Tensor:
    return torch.tensor([list(row) for row in rows], dtype=torch.long).reshape(-1, width)


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
