"""The batch: what it refuses and says, what it fills in, and that moving it checks nothing."""

import math
from typing import Any

import pytest
import torch
from needs import needs
from torch.utils.data import DataLoader

from pact_losses import NO_REFERENCE, BatchError, PactBatch


def tensors(**changes: Any) -> dict[str, Any]:
    """A healthy pair with a permuted view of its base and an ablated one, as keyword arguments."""
    return {
        "code_order": torch.tensor([[0, 1, 2], [0, 1, 2], [2, 0, 1], [0, 1, 2]]),
        "reference": torch.tensor([0, 2, 0, NO_REFERENCE]),
        "is_score": torch.zeros(4, dtype=torch.bool),
        "pairs": torch.tensor([[0, 1]]),
        "views": torch.tensor([[0, 2]]),
        "ablations": torch.tensor([[3, 0, 2]]),
        "weight": torch.ones(4),
        "record_ids": ("a-base", "a-cf", "a-base", "a-base"),
    } | changes


def test_what_it_derives() -> None:
    batch = PactBatch.of([[1, 0], [2, 0, 1]], [None, 2])
    assert batch.code_order.tolist() == [[1, 0, -1], [2, 0, 1]]
    assert batch.mask.tolist() == [[True, True, False], [True, True, True]]
    assert batch.n_choices.tolist() == [2, 3]
    assert batch.is_labelled.tolist() == [False, True]
    assert batch.weight.tolist() == [1.0, 1.0]
    assert batch.record_ids == ("row 0", "row 1")
    assert batch.pairs.shape == batch.views.shape == (0, 2)
    assert batch.ablations.shape == (0, 3)
    assert len(batch) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"code_order": torch.tensor([0, 1])}, r"code_order: expected shape \(n, C\), got \(2,\)"),
        ({"code_order": torch.zeros(3, 2).long()}, r"code_order: expected shape \(4, 2\), got"),
        ({"reference": torch.tensor([0])}, r"reference: expected shape \(4,\), got \(1,\)"),
        ({"weight": torch.ones(4, 1)}, r"weight: expected shape \(4,\), got \(4, 1\)"),
        ({"pairs": torch.zeros(1, 3).long()}, r"pairs: expected shape \(1, 2\), got \(1, 3\)"),
        ({"views": torch.zeros(2).long()}, r"views: expected shape \(2, 2\), got \(2,\)"),
        ({"ablations": torch.zeros(1, 2).long()}, r"ablations: expected shape \(1, 3\)"),
        ({"code_tokens": torch.zeros(4, 2).long()}, r"code_tokens: expected shape \(4, 3\)"),
        (
            {
                name: torch.zeros(4, n).long()
                for name, n in (("input_ids", 7), ("attention_mask", 6))
            },
            r"attention_mask: expected shape \(4, 7\), got \(4, 6\)",
        ),
        (
            {name: torch.zeros(3, 7).long() for name in ("input_ids", "attention_mask")},
            r"input_ids: expected shape \(4, 7\), got \(3, 7\)",
        ),
        ({"input_ids": torch.zeros(4, 7).long()}, "expected input_ids and attention_mask together"),
        ({"code_order": torch.zeros(4, 3)}, "code_order: expected int64, got float32"),
        ({"reference": torch.zeros(4)}, "reference: expected int64, got float32"),
        ({"pairs": torch.zeros(1, 2).int()}, "pairs: expected int64, got int32"),
        ({"is_score": torch.zeros(4).long()}, "is_score: expected bool, got int64"),
        ({"code_tokens": torch.zeros(4, 3).int()}, "code_tokens: expected int64, got int32"),
        ({"weight": torch.ones(4).half()}, "weight: expected float32 or float64, got float16"),
    ],
)
def test_shapes_and_types(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BatchError, match=message):
        PactBatch(**tensors(**changes))


@pytest.mark.parametrize("order", [[0, 0, 1], [1, 2, 3], [0, -1, 1], [0, -1, -1], [-1, -1, -1]])
def test_code_orders_that_are_no_permutations(order: list[int]) -> None:
    orders = tensors()["code_order"].clone()
    orders[1] = torch.tensor(order)
    message = (
        rf"record a-cf \(row 1\): expected a permutation of two or more answers .*\[{order[0]}"
    )
    with pytest.raises(BatchError, match=message):
        PactBatch(**tensors(code_order=orders))


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
def test_weights(weight: float) -> None:
    message = r"record a-cf \(row 1\): expected a finite weight above 0"
    with pytest.raises(BatchError, match=message):
        PactBatch(**tensors(weight=torch.tensor([1.0, weight, 1.0, 1.0])))


@pytest.mark.parametrize("reference", [-2, 3])
def test_references_outside_of_the_answers(reference: int) -> None:
    message = r"record a-cf \(row 1\): expected a reference among the answers"
    with pytest.raises(BatchError, match=message):
        PactBatch(**tensors(reference=torch.tensor([0, reference, 0, NO_REFERENCE])))
    with pytest.raises(BatchError, match="expected a reference among the answers"):
        PactBatch.of([[0, 1], [0, 1, 2]], [2, 2])  # a slot that the first row does not use


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pairs": [[0, 4]]}, "pairs: expected rows from 0 to 3, got 4"),
        ({"views": [[-1, 2]]}, "views: expected rows from 0 to 3, got -1"),
        ({"ablations": [[4, 0, 1]]}, "ablations: expected rows from 0 to 3, got 4"),
        ({"pairs": [[0, 3]]}, r"record a-base \(row 3\): expected a reference"),
        ({"pairs": [[3, 0]]}, r"record a-base \(row 3\): expected a reference"),
        ({"pairs": [[0, 2]]}, r"record a-base \(row 0\): expected different references in its"),
        ({"pairs": [[1, 1]]}, r"record a-cf \(row 1\): expected different references in its pair"),
        ({"views": [[0, 0]]}, r"\(row 0\): expected two views to be two rows of one record"),
        ({"views": [[0, 1]]}, r"\(row 0\): expected the same reference in two views of a record"),
        ({"ablations": [[3, 1, 1]]}, r"\(row 3\): expected two different answers of an ablation"),
        ({"ablations": [[3, 0, 3]]}, r"\(row 3\): expected two different answers of an ablation"),
        ({"ablations": [[3, -1, 0]]}, r"\(row 3\): expected two different answers of an ablation"),
    ],
)
def test_index_tables(changes: dict[str, Any], message: str) -> None:
    tables = {name: torch.tensor(value) for name, value in changes.items()}
    with pytest.raises(BatchError, match=message):
        PactBatch(**tensors(**tables))


@pytest.mark.parametrize("table", ["pairs", "views"])
def test_rows_with_different_numbers_of_answers(table: str) -> None:
    message = {"pairs": "same number of answers in both", "views": "to be two rows of one"}[table]
    with pytest.raises(BatchError, match=rf"row 1 \(row 1\): .*{message}"):
        PactBatch.of([[0, 1], [0, 1], [0, 1, 2]], [1, 0, 1], **{table: [[1, 2]]})


def test_an_empty_batch() -> None:
    batch = PactBatch.of([], [])
    assert len(batch) == 0
    assert batch.mask.shape == (0, 0)


def test_moving_takes_every_tensor_and_leaves_the_batch_as_it_was() -> None:
    tokens = torch.zeros(4, 5).long()
    batch = PactBatch(**tensors(input_ids=tokens, attention_mask=tokens, code_tokens=tokens[:, :3]))
    moved = batch.to("meta", non_blocking=True)
    for name, value in vars(batch).items():
        if isinstance(value, torch.Tensor):
            assert value.device.type == "cpu"
            assert getattr(moved, name).device.type == "meta"
            assert getattr(moved, name).shape == value.shape
    assert moved.record_ids == batch.record_ids
    assert isinstance(moved, PactBatch)


def test_pinning_takes_every_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[int] = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        pinned.append(id(tensor))
        return tensor.clone()

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    tokens = torch.ones(4, 5).long()
    batch = PactBatch(**tensors(input_ids=tokens, attention_mask=tokens, code_tokens=tokens[:, :3]))
    copied = batch.pin_memory()
    held = {name: value for name, value in vars(batch).items() if isinstance(value, torch.Tensor)}
    assert sorted(pinned) == sorted(map(id, held.values()))
    assert all(getattr(copied, name).equal(value) for name, value in held.items())
    assert not any(getattr(copied, name) is value for name, value in held.items())


@needs("a CUDA device", present=torch.cuda.is_available())
def test_a_loader_that_pins_pins_the_whole_batch() -> None:
    batch = next(
        iter(DataLoader([PactBatch(**tensors())], batch_size=None, pin_memory=True))  # type: ignore[arg-type]
    )
    held = [value for value in vars(batch).values() if isinstance(value, torch.Tensor)]
    assert held
    assert all(value.is_pinned() for value in held)


def test_moving_repeats_no_check() -> None:
    """On the meta device tensors hold no data: every check of a value would raise."""
    on_meta: dict[str, Any] = {
        name: value.to("meta") if isinstance(value, torch.Tensor) else value
        for name, value in tensors().items()
    }
    with pytest.raises((NotImplementedError, RuntimeError)):
        PactBatch(**on_meta)
    PactBatch(**tensors()).to("meta")
