from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from losses.made_views import families, family, unpaired

from pact_losses import (
    FamilyBatchSampler,
    FamilyError,
    PactCollator,
    PactData,
    TrainingView,
    group_families,
    steps,
)
from pact_losses.steps import StepSampler

LENGTHS = st.lists(st.integers(2, 30), min_size=1, max_size=40)


@settings(max_examples=50)
@given(
    lengths=LENGTHS,
    size=st.integers(1, 5),
    ranks=st.integers(1, 4),
    epoch=st.integers(0, 3),
    drop_last=st.booleans(),
    bucket=st.integers(1, 9),
)
def test_no_family_is_split_over_batches_or_ranks(
    lengths: list[int], size: int, ranks: int, epoch: int, drop_last: bool, bucket: int
) -> None:
    views = families(lengths)
    if drop_last and len(lengths) // size // ranks == 0:
        with pytest.raises(ValueError, match="at least one batch on every rank"):
            _sampler(views, size, num_replicas=ranks, drop_last=True)
        return
    samplers = [
        _sampler(views, size, num_replicas=ranks, rank=rank, drop_last=drop_last, bucket=bucket)
        for rank in range(ranks)
    ]
    whole = {frozenset(family_rows.rows) for family_rows in group_families(views)}
    seen: list[frozenset[int]] = []
    for sampler in samplers:
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert len(batches) == len(sampler) == len(samplers[0])
        for batch in batches:
            assert len(batch) == len(set(batch))
            groups = [rows for rows in whole if rows & set(batch)]
            assert frozenset[int]().union(*groups) == set(batch)
            assert len(groups) <= size
            seen += groups
    if drop_last:
        assert len(seen) == len(set(seen)) == len(samplers[0]) * ranks * size
    else:
        assert set(seen) == whole
        # Only to fill up the last step is anything seen again.
        assert len(seen) - len(whole) <= (ranks - 1) * size


@given(lengths=LENGTHS, size=st.integers(1, 5), epoch=st.integers(0, 3))
def test_each_family_exactly_once_an_epoch(lengths: list[int], size: int, epoch: int) -> None:
    views = families(lengths)
    sampler = _sampler(views, size)
    sampler.set_epoch(epoch)
    assert sorted(row for batch in sampler for row in batch) == list(range(len(views)))


def test_the_order_follows_from_seed_and_epoch_alone() -> None:
    views = families(list(range(2, 80)))
    random.seed(1)
    first = list(_sampler(views, 4))
    random.seed(2)
    again = _sampler(views, 4)
    assert list(again) == first == list(again)
    again.set_epoch(1)
    assert list(again) != first
    again.set_epoch(0)
    assert list(again) == first
    next_seed = list(_sampler(views, 4, seed=18))
    assert next_seed != first
    again.set_epoch(1)
    assert next_seed != list(again)


def test_padding_waste_is_far_below_that_of_an_unsorted_order() -> None:
    rng = random.Random(3)
    views = families([rng.randrange(300, 1100) for _ in range(128)])
    bucketed, unsorted = (_waste(views, _sampler(views, 4, bucket=bucket)) for bucket in (64, 1))
    assert bucketed < 0.04 < 0.2 < unsorted


def test_the_batches_of_one_step_have_similar_lengths_on_all_ranks() -> None:
    views = families(list(range(100, 356)))
    first, second = (
        [max(len(views[row].token_ids) for row in batch) for batch in sampler]
        for sampler in (_sampler(views, 4, num_replicas=2, rank=rank) for rank in range(2))
    )
    gaps = [abs(a - b) for a, b in zip(first, second, strict=True)]
    assert sum(gaps) / len(gaps) < 30


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_accelerate_hands_out_whole_families(ranks: int) -> None:
    sharding = pytest.importorskip("accelerate.data_loader")
    views = families([5] * 10)
    shards = [
        sharding.BatchSamplerShard(_sampler(views, 3), num_processes=ranks, process_index=rank)
        for rank in range(ranks)
    ]
    batches = [list(shard) for shard in shards]
    assert {len(shard) for shard in batches} == {-(-4 // ranks)}
    for batch in (batch for shard in batches for batch in shard):
        group_families([views[row] for row in batch])
    assert {row for shard in batches for batch in shard for row in batch} == set(range(len(views)))


def test_what_is_wrong_with_a_family_is_said_of_its_record() -> None:
    base, other, base_1, other_1, ablated = family("a", n_choices=3)
    cases: list[tuple[list[TrainingView], str]] = [
        ([base, base_1, ablated], "record a-base: expected a base and a counterfactual, got"),
        ([other], "record a-counterfactual: expected a base and a counterfactual, got"),
        ([ablated], "got no primary view"),
        ([base, replace(other, reference=0)], "different references, both members have 0"),
        ([base, other, base], "record a-base: two primary views, both number 0"),
        ([base, other, base_1, base_1], "record a-base: two permuted views, both number 1"),
        ([other, base_1], "record a-base: permuted view 1 without its primary view"),
        ([base, replace(other, kind="score")], "a-counterfactual: expected choice as in the base"),
        ([base, family("a", n_choices=2)[1]], "expected 3 answers as in the base, got 2"),
        ([base, replace(other, record_id="a-base")], "expected two records, both members have"),
        ([base, other, replace(other_1, record_id="b")], "record b: expected its primary view"),
        ([base, other, replace(base_1, reference=2)], "view 1 has reference 2, its primary view 0"),
        ([base, other, replace(ablated, ablated_answers=(1, 0))], "(0, 1), got (1, 0)"),
        ([base, other, replace(ablated, variant="counterfactual", record_id=other.record_id)],
         "record a-counterfactual: expected the ablated view to be of the base"),
    ]  # fmt: skip
    for views, message in cases:
        with pytest.raises(FamilyError) as caught:
            group_families(views)
        assert message in str(caught.value)
        assert str(caught.value).startswith("family a, record ")


def test_an_unpaired_record_is_a_family_of_its_own() -> None:
    views = [*family("a"), *unpaired("u", permuted=2)]
    assert [group.rows for group in group_families(views)] == [(0, 1, 2, 3, 4), (5, 6, 7)]
    batches = [row for batch in _sampler(views, 1) for row in batch]
    assert sorted(batches) == list(range(8))


def test_what_is_wrong_with_an_unpaired_record_is_said_of_it() -> None:
    alone, again = unpaired("u", permuted=1)
    paired = [replace(view, family="u") for view in family("a", ablated=False, permuted=0)]
    ablated = replace(alone, reference=None, ablated_answers=(0, 1))
    cases: list[tuple[list[TrainingView], str]] = [
        ([again], "record u: unpaired record without its primary view"),
        ([alone, alone], "record u: two primary views, both number 0, of the unpaired record"),
        ([alone, *paired], "record a-base: expected unpaired views only, got one of the base mem"),
        ([alone, ablated], "record u: expected no ablated view of an unpaired record"),
        ([alone, replace(again, reference=0)], "view 1 has reference 0, its primary view 1"),
        ([alone, replace(again, record_id="v")], "record v: expected its primary view to be of"),
    ]
    for views, message in cases:
        with pytest.raises(FamilyError) as caught:
            group_families(views)
        assert message in str(caught.value), str(caught.value)


def test_all_faulty_families_are_named_up_to_twenty() -> None:
    views = [view for number in range(25) for view in family(f"f{number}")[:1]]
    with pytest.raises(FamilyError) as caught:
        group_families(views + family("good"))
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 5 more families"


@pytest.mark.parametrize(
    ("size", "arguments", "message"),
    [
        (0, {}, "families_per_batch, bucket and num_replicas of 1 or more, got 0, 64 and 1"),
        (1, {"bucket": 0}, "got 1, 0 and 1"),
        (1, {"num_replicas": 2, "rank": 2}, "expected a rank from 0 to 1, got 2"),
        (2, {"drop_last": True}, "families for at least one batch on every rank, got 1"),
    ],
)
def test_arguments_out_of_range_are_refused(
    size: int, arguments: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        FamilyBatchSampler(family("a"), size, seed=0, **arguments)  # type: ignore[arg-type]


def test_no_views_make_no_batches() -> None:
    with pytest.raises(ValueError, match="at least one batch on every rank, got 0"):
        FamilyBatchSampler([], 1, seed=0)


def _sampler(views: list[TrainingView], size: int, **options: Any) -> FamilyBatchSampler:
    return FamilyBatchSampler(views, size, **({"seed": 17} | options))


def _waste(views: list[TrainingView], sampler: FamilyBatchSampler) -> float:
    """Share of a batch's places that is padding."""
    padded = sum(len(batch) * max(len(views[row].token_ids) for row in batch) for batch in sampler)
    return 1 - sum(len(view.token_ids) for view in views) / padded


@pytest.mark.parametrize(("processes", "accumulation"), [(1, 2), (2, 1), (2, 2), (3, 2), (4, 1)])
def test_the_steps_of_all_processes_are_those_of_one(
    processes: int, accumulation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven batches: every step has its batches of the epoch, and the first ones fill the last."""
    data = PactData(families([9] * 7), PactCollator(0))
    rows: list[list[list[list[int]]]] = []
    for rank in range(processes):
        monkeypatch.setattr(steps, "rank_and_count", lambda rank=rank: (rank, processes))
        sampler = StepSampler(data, families_per_batch=1, accumulation=accumulation, seed=3)
        rows.append(sampler._rows(0))
    batches = list(sampler.families)
    size = processes * accumulation
    taken = [
        [of_rank[step][at] for at in range(len(rows[0][step])) for of_rank in rows]
        for step in range(len(rows[0]))
    ]
    assert len(taken) == len(sampler) == -(-7 // size)
    assert [batch for step in taken for batch in step][:7] == batches
    left = 7 - size * (len(taken) - 1)
    filled = -(-left // processes) * processes - left
    assert taken[-1][left:] == batches[:filled]
    assert all(len(step) == size for step in taken[:-1])
