from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from losses.made_views import families, family, unpaired
from torch.utils.data import DataLoader

from pact_losses import (
    NO_REFERENCE,
    BatchError,
    FamilyBatchSampler,
    FamilyError,
    PactBatch,
    PactCollator,
    PactLossError,
    TrainingView,
)


def test_a_batch_against_tables_written_by_hand() -> None:
    a = family("a", tokens=3, references=(1, 0))
    b = family("b", tokens=2, references=(2, 0), n_choices=3, kind="score", ablated=False)
    batch = PactCollator(0)([*a, *b])
    assert batch.record_ids == tuple(view.record_id for view in [*a, *b])
    assert batch.reference.tolist() == [1, 0, 1, 0, NO_REFERENCE, 2, 0, 2, 0]
    assert batch.is_score.tolist() == [False] * 5 + [True] * 4
    assert batch.pairs.tolist() == [[0, 1], [2, 3], [5, 6], [7, 8]]
    assert batch.views.tolist() == [[0, 2], [1, 3], [5, 7], [6, 8]]
    assert batch.ablations.tolist() == [[4, 1, 0]]
    assert batch.weight.tolist() == [1.0] * 9
    assert batch.code_order[:, :2].tolist()[0] == [0, 1]
    assert batch.code_order[0].tolist() == [0, 1, -1]
    assert batch.code_tokens is not None
    assert batch.code_tokens.tolist() == [[3, 4, 0]] * 5 + [[3, 4, 5]] * 4


def test_prompts_end_at_the_last_position() -> None:
    views = [
        replace(view, token_ids=tuple(range(5, 6 + row))) for row, view in enumerate(family("a"))
    ]
    batch = PactCollator(9, pad_to_multiple_of=4)(views)
    assert batch.input_ids is not None
    assert batch.attention_mask is not None
    assert batch.input_ids.shape == batch.attention_mask.shape == (5, 8)
    assert batch.input_ids[0].tolist() == [9, 9, 9, 9, 9, 9, 9, 5]
    for row, view in enumerate(views):
        mask = batch.attention_mask[row].bool()
        assert tuple(batch.input_ids[row][mask].tolist()) == view.token_ids
        assert mask.tolist() == sorted(mask.tolist())


def test_order_of_the_rows_and_several_permuted_views() -> None:
    views = family("a", permuted=2, n_choices=4)[::-1]
    batch = PactCollator(0)(views)
    assert sorted(batch.pairs.tolist()) == [[2, 1], [4, 3], [6, 5]]
    assert sorted(batch.views.tolist()) == [[5, 1], [5, 3], [6, 2], [6, 4]]
    primary = PactCollator(0, pair_views="primary")(views)
    assert primary.pairs.tolist() == [[6, 5]]
    weighted = [replace(view, weight=0.5 + row) for row, view in enumerate(views)]
    assert PactCollator(0)(weighted).weight.tolist() == [0.5 + row for row in range(7)]


def test_a_permuted_view_without_its_twin_has_no_margin() -> None:
    base, other, base_1, other_1, base_2, _ = family("a", permuted=2, n_choices=3, ablated=False)
    batch = PactCollator(0)([base, other, other_1, base_1, base_2])
    assert batch.pairs.tolist() == [[0, 1], [3, 2]]


def test_an_unpaired_record_is_in_no_pair() -> None:
    alone = unpaired("u", permuted=1)
    batch = PactCollator(0)([*family("a"), *alone])
    assert batch.pairs.tolist() == [[0, 1], [2, 3]]
    assert batch.views.tolist() == [[0, 2], [1, 3], [5, 6]]
    assert batch.weight.tolist() == [1.0] * 5 + [pytest.approx(0.3)] * 2
    assert batch.reference.tolist()[5:] == [1, 1]


def test_codes_are_as_wide_as_asked_for() -> None:
    batch = PactCollator(0, n_codes=6)(family("a", n_choices=3))
    assert batch.code_order.shape == (5, 6)
    assert batch.n_choices.tolist() == [3] * 5
    with pytest.raises(
        BatchError, match="record a-base: expected at most n_codes = 2 answers, got 3"
    ):
        PactCollator(0, n_codes=2)(family("a", n_choices=3))


@pytest.mark.parametrize("missing", [0, 1])
def test_a_family_that_is_split_over_two_batches_is_refused(missing: int) -> None:
    views = family("a", permuted=0)
    there = views[:missing] + views[missing + 1 :]
    with pytest.raises(FamilyError, match="family a, record a-.*\n.*FamilyBatchSampler"):
        PactCollator(0)(there)


def test_single_views_are_tied_together_as_far_as_they_are_there() -> None:
    base, other, base_1, other_1, ablated = family("a")
    collate = PactCollator(0, require_pairs=False)
    alone = collate([base, base_1, other_1, ablated])
    assert alone.pairs.tolist() == [[1, 2]]  # the permuted views are both there
    assert alone.views.tolist() == [[0, 1]]
    assert alone.ablations.tolist() == [[3, 0, 1]]
    assert collate([other, base]).pairs.tolist() == [[1, 0]]


def test_references_that_do_not_flip_are_refused_either_way() -> None:
    base, other, *_ = family("a")
    for require_pairs in (True, False):
        with pytest.raises(PactLossError, match="record a-base.* different references"):
            PactCollator(0, require_pairs=require_pairs)([base, replace(other, reference=0)])


def test_no_views_are_refused() -> None:
    with pytest.raises(BatchError, match="expected at least one view, got none"):
        PactCollator(0)([])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pad_token_id": -1}, "pad_token_id of 0 or more, got -1"),
        ({"n_codes": 1}, "n_codes of 2 or more, got 1"),
        ({"pad_to_multiple_of": 0}, "pad_to_multiple_of of 1 or more, got 0"),
        ({"pair_views": "some"}, "pair_views to be all or primary, got some"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PactCollator(**{"pad_token_id": 0, **arguments})


def test_a_tokenizer_without_a_padding_token_is_told_what_to_give() -> None:
    nothing: Any = None
    with pytest.raises(ValueError, match="expected a pad_token_id, got None: use any valid id"):
        PactCollator(nothing)


@pytest.mark.parametrize(
    ("workers", "start"), [(0, None), pytest.param(2, "spawn", marks=pytest.mark.slow)]
)
def test_a_data_loader_yields_batches_of_whole_families(workers: int, start: str | None) -> None:
    views = families([3, 9, 4, 8, 5])
    loader: DataLoader[TrainingView] = DataLoader(
        views,  # type: ignore[arg-type]
        batch_sampler=FamilyBatchSampler(views, 2, seed=17),
        collate_fn=PactCollator(0),
        num_workers=workers,
        multiprocessing_context=start,
    )
    batches = list(loader)
    assert all(isinstance(batch, PactBatch) for batch in batches)
    assert sorted(len(batch) for batch in batches) == [5, 10, 10]
    assert sum(len(batch.pairs) for batch in batches) == 10
    assert torch.cat([batch.ablations[:, 0] for batch in batches]).shape == (5,)
