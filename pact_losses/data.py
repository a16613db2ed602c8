"""The data of a training: views to train and select on, their collator, and its record.

Sums are over the processes of a distributed training, or of the one process that there is.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from torch import distributed, nn

from pact_losses.batch import PactBatch, PactCollator
from pact_losses.errors import PactLossError
from pact_losses.views import TrainingView


def rank_and_count() -> tuple[int, int]:
    """Return the number of this process, from 0, and the number of processes.

    Examples:
        >>> rank_and_count()
        (0, 1)
    """
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def summed(values: Mapping[str, float]) -> dict[str, float]:
    """Sum named numbers over all processes, in the order of the ranks; all processes must call it.

    Args:
        values: the numbers of this process; a name that it lacks counts as 0.

    Returns:
        The sums, the same in every process; names in the order in which they first occur.

    Examples:
        >>> summed({"ce": 4.0})
        {'ce': 4.0}
    """
    _, count = rank_and_count()
    if count == 1:
        return dict(values)
    parts: list[Mapping[str, float]] = [{} for _ in range(count)]
    distributed.all_gather_object(parts, dict(values))
    sums: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            sums[name] = sums.get(name, 0.0) + value
    return sums


class AdapterRecord(Protocol):
    """Writer of the record of a training, next to the weights of an adapter.

    `pact_eval.training.training_data` makes one from the files of the training. This package does
    not read files, so it knows the signature only.
    """

    def __call__(self, model: nn.Module, folder: Path, training: Mapping[str, Any]) -> None:
        """Write the record.

        Args:
            model: the trained model, without wrappers.
            folder: has PEFT's files of the adapter.
            training: facts such as the number of steps and the seed.
        """


@dataclass(frozen=True)
class PactData:
    """The views of a training, how they become batches, and what is recorded of their files.

    Attributes:
        train: views to train on, complete families.
        collate: turns views into a batch.
        selection: views of the selection split, of which the primary ones count; may be empty.
        record: writes `training_data.json` next to the weights whenever an adapter is saved. None
            if the files are not known; saving then warns.

    Examples:
        >>> def view(variant, reference):
        ...     return TrainingView(
        ...         record_id=f"a-{variant}", family="a", variant=variant, view=0, kind="boolean",
        ...         token_ids=(5, 6), code_tokens=(8, 9), code_order=(0, 1), reference=reference)
        >>> views = [view("base", 0), view("counterfactual", 1)]
        >>> data = PactData(views, PactCollator(0), selection=views)
        >>> [len(batch) for batch in data.selection_batches(rows=1)]
        [1, 1]
    """

    train: Sequence[TrainingView]
    collate: PactCollator
    selection: Sequence[TrainingView] = ()
    record: AdapterRecord | None = None

    @property
    def primary_views(self) -> list[TrainingView]:
        """The selection views that count in the NLL, whatever their batches."""
        return [view for view in self.selection if view.role == "primary"]

    def selection_batches(
        self, rows: int = 8, *, rank: int = 0, processes: int = 1
    ) -> Iterator[PactBatch]:
        """Yield the primary selection views in batches; with several processes, a share.

        Args:
            rows: views per batch, 1 or more.
            rank: number of this process, from 0.
            processes: number of processes that share the batches.

        Raises:
            PactLossError: there are no selection views.
        """
        views = self.primary_views
        if not views:
            raise PactLossError(
                "expected primary views of the selection split, got none; pass PactData(selection=)"
            )
        collate = replace(self.collate, require_pairs=False)
        for start in range(rank * rows, len(views), rows * processes):
            yield collate(views[start : start + rows])

    def save(
        self, model: nn.Module, folder: str | Path, training: Mapping[str, Any] | None = None
    ) -> None:
        """Save the adapter of a model in PEFT's format, and its record.

        With several processes, all may call it; only the first one writes.

        Args:
            model: a PEFT model, also one that a trainer has wrapped.
            folder: destination.
            training: facts for the record, such as the number of steps and the seed.
        """
        if rank_and_count()[0] > 0:
            return
        bare: Any = unwrapped(model)
        # By default, PEFT asks the hub for the base's configuration by name.
        bare.save_pretrained(str(folder), save_embedding_layers=False)
        self.write_record(bare, Path(folder), training or {})

    def write_record(self, model: nn.Module, folder: Path, training: Mapping[str, Any]) -> None:
        """Write the record of an adapter that was just saved; without one, warn.

        Args:
            model: the trained model.
            folder: has PEFT's files of the adapter.
            training: facts for the record.
        """
        if self.record is not None:
            self.record(unwrapped(model), folder, training)
            return
        message = (
            f"{folder}: the training data of this adapter are not stated, because PactData has no "
            "record; make it with pact_eval.training.training_data, which writes one"
        )
        warnings.warn(message, UserWarning, stacklevel=3)


def unwrapped(model: nn.Module) -> nn.Module:
    """Return a model without the wrappers of DistributedDataParallel and torch.compile."""
    for inner in ("module", "_orig_mod"):
        module = getattr(model, inner, None)
        if isinstance(module, nn.Module):
            return unwrapped(module)
    return model
