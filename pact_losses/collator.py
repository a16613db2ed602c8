"""From views to a batch: padding on the left, and tables of the rows that belong together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch

from pact_losses.batch import NO_REFERENCE, PactBatch
from pact_losses.errors import BatchError, FamilyError
from pact_losses.families import group_families
from pact_losses.views import TrainingView


@dataclass(frozen=True)
class PactCollator:
    """Turns a list of views into a `PactBatch`; the `collate_fn` of a `DataLoader`.

    Rows stand in the order of the views. Prompts are padded on the left, so that the last position
    of every row is the answer position. Every permuted view is paired with the primary view of its
    record, and the primary views of a family with each other.

    Args:
        pad_token_id: any valid id; padding is masked out.
        n_codes: width of the code tables; that of the row with the most answers by default.
        pad_to_multiple_of: round the padded length up, for kernels that like it.
        require_pairs: refuse a batch that does not hold whole families: no family can be split over
            two batches unnoticed. False for batches of single views, as in evaluation: then pairs
            and views are tied together as far as both are there.

    Raises:
        BatchError: no views, a view with more answers than `n_codes`, or one record's views with
            different numbers of answers.
        FamilyError: `require_pairs`, and a family is not whole.
        ValueError: an argument is out of range.

    Example:
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

    def __post_init__(self) -> None:
        lowest = {"pad_token_id": 0, "n_codes": 2, "pad_to_multiple_of": 1}
        for name, low in lowest.items():
            value = getattr(self, name)
            if value is None and name == "pad_token_id":  # what tokenizers without one say
                message = (
                    "expected a pad_token_id, got None: any valid id will do where the tokenizer "
                    "has no padding token, such as its eos_token_id"
                )
                raise ValueError(message)
            if value is not None and value < low:
                message = f"expected {name} of {low} or more, got {value}"
                raise ValueError(message)

    def __call__(self, views: Sequence[TrainingView]) -> PactBatch:
        """Make the batch."""
        if not views:
            message = "expected at least one view, got none"
            raise BatchError(message)
        width = self._code_width(views)
        if self.require_pairs:
            _check_whole(views)
        pairs, permuted = _tables(views)
        ids, mask = self._padded(views)
        return PactBatch(
            code_order=_filled([view.code_order for view in views], width, -1),
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
            code_tokens=_filled([view.code_tokens for view in views], width, 0),
        )

    def _code_width(self, views: Sequence[TrainingView]) -> int:
        widest = max(views, key=lambda view: view.n_choices)
        if self.n_codes is not None and widest.n_choices > self.n_codes:
            message = (
                f"record {widest.record_id}: {widest.n_choices} answers, but n_codes leaves room "
                f"for {self.n_codes}"
            )
            raise BatchError(message)
        return self.n_codes or widest.n_choices

    def _padded(self, views: Sequence[TrainingView]) -> tuple[torch.Tensor, torch.Tensor]:
        step = self.pad_to_multiple_of or 1
        width = -(-max(len(view.token_ids) for view in views) // step) * step
        ids = torch.full((len(views), width), self.pad_token_id, dtype=torch.long)
        mask = torch.zeros((len(views), width), dtype=torch.long)
        for row, view in enumerate(views):
            start = width - len(view.token_ids)
            ids[row, start:] = torch.tensor(view.token_ids)
            mask[row, start:] = 1
        return ids, mask


def _check_whole(views: Sequence[TrainingView]) -> None:
    try:
        group_families(views)
    except FamilyError as error:
        message = (
            f"{error}\nA batch takes whole families (FamilyBatchSampler makes such batches); "
            "require_pairs=False takes single views."
        )
        raise FamilyError(message) from error


def _tables(views: Sequence[TrainingView]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Rows (base, counterfactual), and rows (primary, permuted) of one record."""
    primary: dict[tuple[Hashable, str], int] = {}
    for row, view in enumerate(views):
        if view.role == "primary":
            primary.setdefault((view.family, view.variant), row)
    pairs = [
        (row, primary[family, "counterfactual"])
        for (family, variant), row in primary.items()
        if variant == "base" and (family, "counterfactual") in primary
    ]
    permuted = [
        (primary[view.family, view.variant], row)
        for row, view in enumerate(views)
        if view.role == "permuted" and (view.family, view.variant) in primary
    ]
    return pairs, permuted


def _filled(rows: Sequence[Sequence[int]], width: int, value: int) -> torch.Tensor:
    return torch.tensor(
        [[*row, *(value for _ in range(width - len(row)))] for row in rows], dtype=torch.long
    )


def _table(rows: Sequence[Sequence[int]], width: int) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.long).reshape(-1, width)
