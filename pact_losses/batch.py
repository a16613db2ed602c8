"""Batches for the objective: tensors and index tables, checked once, and the collator of views.

Rows are views. The logits of a row are in letter order; `code_order` brings them into canonical
order. Three tables list the rows that belong together: `pairs` (the two members of a family),
`views` (two letter orders of one record) and `ablations` (contexts without the decisive sentence).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, get_args

import torch
from torch import Tensor

from pact_losses.errors import BatchError, FamilyError
from pact_losses.families import group_families
from pact_losses.views import TrainingView

PairViews = Literal["all", "primary"]
"""The views of a pair that the margin links: all, each with that of its number, or the primary."""

NO_REFERENCE: Final = -1
"""The reference of a row without one."""

_DTYPES: Final[dict[str, tuple[torch.dtype, ...]]] = {
    "is_score": (torch.bool,),
    "weight": (torch.float32, torch.float64),
}
"""Tensors that are not int64."""


@dataclass(frozen=True, eq=False)
class PactBatch:
    """A batch of n rows (views) with up to C answers.

    Attributes:
        code_order: shape (n, C), int64; canonical index shown at each letter, unused slots
            -1, all of them after the used ones.
        reference: shape (n,), int64; canonical index of the correct answer, `NO_REFERENCE` for a
            row without a label.
        is_score: shape (n,), bool; rows of Score fields, whose answers are ordered levels.
        pairs: shape (n_pairs, 2), int64; rows (base, counterfactual), one for each linked view.
        views: shape (n_views, 2), int64; rows that show one record under two letter orders,
            with one reference.
        ablations: shape (n_ablations, 3), int64; (row, y_a, y_b) with canonical answers.
        weight: shape (n,), float32 or float64, above 0 and finite; weight of the row in every mean.
            A pair, or two views, have the mean weight of their rows.
        record_ids: n names for messages.
        input_ids: shape (n, tokens), int64, padded on the left; None if logits come from
            elsewhere.
        attention_mask: shape (n, tokens), int64; 0 on padding. Given together with input_ids or
            not at all.
        code_tokens: shape (n, C), int64; token of each letter shown, unused slots 0.

    The checks run once, when a batch is created. `to` and `pin_memory` do not repeat them, because
    every check waits for the device. Two batches are equal if they are the same object.

    Raises:
        BatchError: shapes, types, ranges or tables do not fit; the message names the record.

    Examples:
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
        """Create a batch from lists, for logits that come from elsewhere; see the class for shapes.

        Args:
            code_order: (n, C); shorter rows are filled with -1.
            reference: (n,); None for no reference.
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
            code_order=_fill(orders, width, -1).reshape(n, width),
            reference=torch.tensor(
                [NO_REFERENCE if index is None else int(index) for index in reference],
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
        """Mask (n, C) of slots that hold an answer; the same in letter and in canonical order."""
        return self.code_order >= 0

    @property
    def n_choices(self) -> Tensor:
        """Number of answers of each row, shape (n,)."""
        return self.mask.sum(-1)

    @property
    def is_labelled(self) -> Tensor:
        """Mask of the rows that have a reference, shape (n,)."""
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
                # The only way to set a field of a frozen dataclass; `changed` is not shared yet.
                object.__setattr__(changed, field.name, change(value))
        return changed

    def _check_shapes(self) -> None:
        if self.code_order.ndim != 2:
            message = f"code_order: expected shape (n, C), got {tuple(self.code_order.shape)}"
            raise BatchError(message)
        n, width = len(self.record_ids), self.code_order.shape[-1]
        tokens = 0 if self.input_ids is None else self.input_ids.shape[-1]
        if (self.input_ids is None) != (self.attention_mask is None):
            raise BatchError("expected input_ids and attention_mask together, got one of them")
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
                raise BatchError(f"{name}: expected shape {shape}, got {tuple(value.shape)}")

    def _check_dtypes(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, Tensor):
                continue
            expected = _DTYPES.get(field.name, (torch.int64,))
            if value.dtype not in expected:
                dtypes = " or ".join(_name_of(dtype) for dtype in expected)
                raise BatchError(f"{field.name}: expected {dtypes}, got {_name_of(value.dtype)}")

    def _check_orders(self) -> None:
        width = self.code_order.shape[-1]
        slots = torch.arange(width, device=self.code_order.device)
        # Used slots hold each canonical index once: sorted, they are 0, 1, 2, ...
        expected = torch.where(slots < self.n_choices[:, None], slots, width)
        actual = torch.where(self.mask, self.code_order, width).sort(-1).values
        front = (self.mask == (slots < self.n_choices[:, None])).all(-1)
        good = (actual == expected).all(-1) & front & (self.n_choices >= 2)
        self._refuse(
            ~good, "expected a permutation of two or more answers in code_order, got {row}"
        )
        heavy = (self.weight > 0) & self.weight.isfinite()
        self._refuse(~heavy, "expected a finite weight above 0")

    def _check_references(self) -> None:
        outside = (self.reference < NO_REFERENCE) | (self.reference >= self.n_choices)
        self._refuse(outside, "expected a reference among the answers")

    def _check_tables(self) -> None:
        n = len(self)
        for name, rows in (
            ("pairs", self.pairs),
            ("views", self.views),
            ("ablations", self.ablations[:, 0]),
        ):
            strange = rows[(rows < 0) | (rows >= n)]
            if len(strange):
                raise BatchError(f"{name}: expected rows from 0 to {n - 1}, got {int(strange[0])}")
        self._check_pairs()
        self._check_views()
        self._check_ablations()

    def _check_pairs(self) -> None:
        first, second = self.pairs.unbind(-1)
        labelled = self.is_labelled
        for member in (first, second):
            self._refuse(~labelled[member], "expected a reference for a member of a pair", member)
        same_width = self.n_choices[first] == self.n_choices[second]
        self._refuse(
            ~same_width, "expected the same number of answers in both members of its pair", first
        )
        flips = self.reference[first] != self.reference[second]
        self._refuse(~flips, "expected different references in its pair", first)

    def _check_views(self) -> None:
        one, other = self.views.unbind(-1)
        alike = (self.n_choices[one] == self.n_choices[other]) & (one != other)
        self._refuse(~alike, "expected two views to be two rows of one record", one)
        agree = self.reference[one] == self.reference[other]
        self._refuse(~agree, "expected the same reference in two views of a record", one)

    def _check_ablations(self) -> None:
        row, y_a, y_b = self.ablations.unbind(-1)
        within = (torch.minimum(y_a, y_b) >= 0) & (torch.maximum(y_a, y_b) < self.n_choices[row])
        self._refuse(~within | (y_a == y_b), "expected two different answers of an ablation", row)

    def _refuse(self, bad: Tensor, fault: str, rows: Tensor | None = None) -> None:
        if bool(bad.any()):
            index = int(torch.nonzero(bad)[0])
            row = index if rows is None else int(rows[index])
            fault_text = fault.format(row=self.code_order[row].tolist())
            raise BatchError(f"record {self.record_ids[row]} (row {row}): {fault_text}")


def _table(rows: Any, width: int) -> Tensor:
    return torch.tensor([list(row) for row in rows], dtype=torch.long).reshape(-1, width)


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class PactCollator:
    """`collate_fn` of a `DataLoader`, from a list of views to a `PactBatch`.

    Rows are in the order of the views. Prompts are padded on the left, so the last position of
    every row is the answer position. Every permuted view is linked with the primary view of its
    record. The margin links the two members of a pair view by view: primary with primary, and the
    permuted views of one number with each other.

    Args:
        pad_token_id: any valid id; padding is masked out.
        n_codes: width of the code tables; that of the row with the most answers by default.
        pad_to_multiple_of: round the padded length up, for kernels that prefer it.
        pair_views: "all" for a margin of every view of a pair, as in the released code of the
            paper; "primary" for the primary views alone.
        require_pairs: refuse batches with incomplete families, to detect a family that is split
            over two batches. False for batches of single views, as in evaluation: pairs and views
            are then linked if both are in the batch.

    Raises:
        BatchError: no views, a view with more answers than `n_codes`, or one record's views with
            different numbers of answers.
        FamilyError: `require_pairs`, and a family is incomplete.
        ValueError: an argument is out of range.

    Examples:
        >>> def view(variant, reference, tokens):
        ...     return TrainingView(
        ...         record_id=f"a-{variant}", family="a", variant=variant, view=0, kind="boolean",
        ...         token_ids=tokens, code_tokens=(8, 9), code_order=(0, 1), reference=reference)
        >>> batch = PactCollator(0)([view("base", 0, (5, 6)), view("counterfactual", 1, (7,))])
        >>> batch.input_ids.tolist(), batch.attention_mask.tolist(), batch.pairs.tolist()
        ([[5, 6], [0, 7]], [[1, 1], [0, 1]], [[0, 1]])
    """

    pad_token_id: int
    n_codes: int | None = None
    pad_to_multiple_of: int | None = None
    require_pairs: bool = True
    pair_views: PairViews = "all"

    def __post_init__(self) -> None:
        if self.pair_views not in get_args(PairViews):
            options = " or ".join(get_args(PairViews))
            raise ValueError(f"expected pair_views to be {options}, got {self.pair_views}")
        lowest = {"pad_token_id": 0, "n_codes": 2, "pad_to_multiple_of": 1}
        for name, low in lowest.items():
            value = getattr(self, name)
            if value is None and name == "pad_token_id":  # from a tokenizer without padding
                raise ValueError(
                    "expected a pad_token_id, got None: use any valid id if the tokenizer has no "
                    "padding token, such as its eos_token_id"
                )
            if value is not None and value < low:
                raise ValueError(f"expected {name} of {low} or more, got {value}")

    def __call__(self, views: Sequence[TrainingView]) -> PactBatch:
        """Create the batch."""
        if not views:
            raise BatchError("expected at least one view, got none")
        width = self._code_width(views)
        if self.require_pairs:
            _check_complete(views)
        pairs, permuted = _paired_rows(views, self.pair_views), _permuted_rows(views)
        ids, mask = self._pad(views)
        return PactBatch(
            code_order=_fill([view.code_order for view in views], width, -1),
            reference=torch.tensor(
                [NO_REFERENCE if view.reference is None else view.reference for view in views]
            ),
            is_score=torch.tensor([view.kind == "score" for view in views]),
            pairs=_table(pairs, 2),
            views=_table(permuted, 2),
            ablations=_table(
                [
                    (row, *view.ablated_answers)
                    for row, view in enumerate(views)
                    if view.ablated_answers is not None
                ],
                3,
            ),
            weight=torch.tensor([view.weight for view in views], dtype=torch.float32),
            record_ids=tuple(view.record_id for view in views),
            input_ids=ids,
            attention_mask=mask,
            code_tokens=_fill([view.code_tokens for view in views], width, 0),
        )

    def _code_width(self, views: Sequence[TrainingView]) -> int:
        widest = max(views, key=lambda view: view.n_choices)
        if self.n_codes is not None and widest.n_choices > self.n_codes:
            raise BatchError(
                f"record {widest.record_id}: expected at most n_codes = {self.n_codes} answers, "
                f"got {widest.n_choices}"
            )
        return self.n_codes or widest.n_choices

    def _pad(self, views: Sequence[TrainingView]) -> tuple[torch.Tensor, torch.Tensor]:
        step = self.pad_to_multiple_of or 1
        width = -(-max(len(view.token_ids) for view in views) // step) * step
        ids = torch.full((len(views), width), self.pad_token_id, dtype=torch.long)
        mask = torch.zeros((len(views), width), dtype=torch.long)
        for row, view in enumerate(views):
            start = width - len(view.token_ids)
            ids[row, start:] = torch.tensor(view.token_ids)
            mask[row, start:] = 1
        return ids, mask


def _check_complete(views: Sequence[TrainingView]) -> None:
    try:
        group_families(views)
    except FamilyError as error:
        raise FamilyError(
            f"{error}\nUse complete families (FamilyBatchSampler), or require_pairs=False to allow "
            "single views."
        ) from error


def _paired_rows(views: Sequence[TrainingView], of: PairViews) -> list[tuple[int, int]]:
    """Rows (base, counterfactual) of one family and one number of the view."""
    labelled: dict[tuple[Hashable, str, int], int] = {}
    for row, view in enumerate(views):
        if view.role == "primary" or (view.role == "permuted" and of == "all"):
            labelled.setdefault((view.family, view.variant, view.view), row)
    return [
        (row, labelled[family, "counterfactual", number])
        for (family, variant, number), row in labelled.items()
        if variant == "base" and (family, "counterfactual", number) in labelled
    ]


def _permuted_rows(views: Sequence[TrainingView]) -> list[tuple[int, int]]:
    """Rows (primary, permuted) of one record."""
    primary: dict[tuple[Hashable, str], int] = {}
    for row, view in enumerate(views):
        if view.role == "primary":
            primary.setdefault((view.family, view.variant), row)
    return [
        (primary[view.family, view.variant], row)
        for row, view in enumerate(views)
        if view.role == "permuted" and (view.family, view.variant) in primary
    ]


def _fill(rows: Sequence[Sequence[int]], width: int, value: int) -> torch.Tensor:
    return torch.tensor(
        [[*row, *(value for _ in range(width - len(row)))] for row in rows], dtype=torch.long
    )
