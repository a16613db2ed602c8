from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from messages import assert_says
from spoiled_datasets import healthy

import pact_fixtures
from pact_eval.data.ablation import write_ablated_records
from pact_eval.data.records import Record, parse_record, read_records
from pact_eval.errors import PromptError, RecordError
from pact_eval.prompts.contract import code_orders
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.contracts import load_tokenizer
from pact_eval.training import ViewPlan, training_views, views_sha256
from pact_losses import TrainingView, group_families

MODEL = Path(pact_fixtures.__file__).parent / "model"


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(load_tokenizer(MODEL), NIMBLE)


@pytest.fixture
def records() -> list[Record]:
    return [parse_record(value, line=k) for k, value in enumerate(healthy(4).train, 1)]


def by_role(views: list[TrainingView], role: str) -> list[TrainingView]:
    return [view for view in views if view.role == role]


def test_a_family_gives_two_primary_two_permuted_and_one_ablated_view_as_in_the_paper(
    encoder: Encoder, records: list[Record]
) -> None:
    views = training_views(records, encoder)
    for _, family in itertools.groupby(views, key=lambda view: view.family):
        assert [view.role for view in family] == [
            *("primary", "primary"),
            *("permuted", "permuted"),
            "ablated",
        ]
    assert len(views) == 5 * len(records) // 2


def test_labelled_views_against_the_encoding_of_scoring(
    encoder: Encoder, records: list[Record]
) -> None:
    bare = [replace(record, certificate=None) for record in records]  # only ablations need one
    views = training_views(bare, encoder, ViewPlan(permuted=2, ablated=False, seed=5))
    scored = {(view.record_id, view.view): view for view in encoder.encode(records, 3, 5)}
    assert len(views) == len(scored)
    for view in views:
        other = scored[view.record_id, view.view]
        assert view.token_ids == other.token_ids
        assert view.code_tokens == other.code_tokens
        assert view.code_order == other.code_order


def test_references_stay_canonical_whatever_the_code_order(
    encoder: Encoder, records: list[Record]
) -> None:
    reference = {record.id: record.reference for record in records}
    for view in training_views(records, encoder, ViewPlan(seed=3)):
        if view.role != "ablated":
            assert view.reference == reference[view.record_id]
            orders = code_orders(3, view.record_id, view.n_choices, 2)
            assert view.code_order == orders[view.view]


def test_ablated_views_against_the_ablated_file_that_is_scored(
    encoder: Encoder, tmp_path: Path
) -> None:
    """One context in training and in `pact-audit ablate`: H3 would measure something else."""
    folder = healthy(4).write(tmp_path / "data")
    write_ablated_records(folder / "train.jsonl", tmp_path / "ablated.jsonl")
    ablated = read_records(tmp_path / "ablated.jsonl", require_reference=False)
    records = read_records(folder / "train.jsonl")
    scored = encoder.encode(ablated, 1, 0)
    views = by_role(training_views(records, encoder), "ablated")
    assert [view.token_ids for view in views] == [view.token_ids for view in scored]
    reference = {record.id: record.reference for record in records}
    for view in views:
        pair = [record for record in records if record.family == view.family]
        assert view.ablated_answers == tuple(reference[record.id] for record in pair)


def spoiled(records: list[Record], **changes: Any) -> list[Record]:
    return [replace(records[0], **changes), *records[1:]]


def test_families_that_cannot_be_trained_on_are_named_together(
    encoder: Encoder, records: list[Record]
) -> None:
    other = next(record.reference for record in records[1:2])
    bad = [
        replace(records[0], reference=other),
        records[1],
        records[2],  # without its partner
        replace(records[4], certificate=None),
        records[5],
        replace(records[6], reference=None),
        records[7],
    ]
    with pytest.raises(RecordError) as caught:
        training_views(bad, encoder, source="train.jsonl")
    expectations = {
        0: ("different references", "both are"),
        2: ("base and one counterfactual", "got base", "give records"),
        4: ("evidence certificate",),
        6: ("reference in both members", "one has none"),
    }
    assert len(caught.value.problems) == len(expectations)
    for row, parts in expectations.items():
        place = f"train.jsonl:{row + 1} (id {records[row].id}): "
        (line,) = (line for line in str(caught.value).splitlines() if line.startswith(place))
        assert_says(line, "expected", *parts)


def test_members_with_other_answers_are_refused(encoder: Encoder, records: list[Record]) -> None:
    field = records[0].field
    turned = replace(field, answers=field.answers[::-1])
    with pytest.raises(RecordError, match="expected the same answers in both members"):
        training_views(spoiled(records, field=turned), encoder)


def test_a_sentence_that_is_not_in_the_context_is_named(
    encoder: Encoder, records: list[Record]
) -> None:
    with pytest.raises(RecordError, match=f"id {records[0].id}.*focus sentence is not in"):
        training_views(spoiled(records, state="Nothing is known."), encoder)


def test_unpaired_records_have_a_canonical_view_of_the_mixing_weight(
    encoder: Encoder, records: list[Record]
) -> None:
    views = training_views(records[:4], encoder, unpaired=records[4:6])
    mixed = [view for view in views if view.variant == "unpaired"]
    assert views[: -len(mixed)] == training_views(records[:4], encoder)
    assert [(view.record_id, view.role, view.weight) for view in mixed] == [
        (record.id, "primary", 0.3) for record in records[4:6]
    ]
    assert [view.token_ids for view in mixed] == [
        view.token_ids for view in encoder.encode(records[4:6], 1, 0)
    ]
    assert len(group_families(views)) == 4  # each is a family of its own
    plan = ViewPlan(unpaired_permuted=2, unpaired_weight=0.5)
    views = training_views(records[:4], encoder, plan, unpaired=records[4:5])
    mixed = [view for view in views if view.variant == "unpaired"]
    assert [view.role for view in mixed] == ["primary", "permuted", "permuted"]
    assert {view.weight for view in mixed} == {0.5}
    # Equal views in equal order: every batch, and so every weight, is the same bit for bit.
    without = training_views(records[:4], encoder)
    assert (
        training_views(records[:4], encoder, ViewPlan(unpaired_weight=0.0), unpaired=records[4:])
        == without
    )


def test_an_unpaired_record_without_a_reference_is_refused(
    encoder: Encoder, records: list[Record]
) -> None:
    with pytest.raises(RecordError, match=f"id {records[4].id}.*reference in an unpaired record"):
        training_views(records[:4], encoder, unpaired=[replace(records[4], reference=None)])


def test_a_plan_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 0 or more permuted views, got -1 and 0"):
        ViewPlan(permuted=-1)
    with pytest.raises(ValueError, match="got 1 and -1 of unpaired records"):
        ViewPlan(unpaired_permuted=-1)
    with pytest.raises(ValueError, match="finite unpaired_weight of 0 or more, got -1"):
        ViewPlan(unpaired_weight=-1)


def test_prompts_over_the_limit_are_refused_never_cut(records: list[Record]) -> None:
    short = Encoder(load_tokenizer(MODEL), NIMBLE, max_prompt_tokens=50)
    with pytest.raises(PromptError, match="over the limit of 50 tokens"):
        training_views(records, short)


def test_the_hash_of_views_knows_all_that_decides_the_views(
    encoder: Encoder, records: list[Record]
) -> None:
    plan = ViewPlan()
    key = views_sha256(records, encoder, plan)
    assert key == views_sha256([replace(record, line=99) for record in records], encoder, plan)
    others = [
        views_sha256(records[::-1], encoder, plan),
        views_sha256(records[:-2], encoder, plan),
        views_sha256(spoiled(records, state="Other."), encoder, plan),
        views_sha256(spoiled(records, reference=1 - (records[0].reference or 0)), encoder, plan),
        views_sha256(records, encoder, ViewPlan(permuted=2)),
        views_sha256(records, encoder, ViewPlan(ablated=False)),
        views_sha256(records, encoder, ViewPlan(seed=1)),
        views_sha256(records[:-2], encoder, plan, records[-2:]),
        views_sha256(records[:-2], encoder, replace(plan, unpaired_weight=0.4), records[-2:]),
        views_sha256(records, Encoder(load_tokenizer(MODEL), NIMBLE, max_prompt_tokens=1000), plan),
    ]
    assert len({key, *others}) == len(others) + 1


def test_the_hash_of_views_knows_the_tokenizer_beyond_its_probe(
    encoder: Encoder, records: list[Record]
) -> None:
    """The encoder's fingerprint covers one probe only; here a word of the records is split."""
    other = load_tokenizer(MODEL)
    prompt = other.decode(encoder.encode(records[:1], 1, 0)[0].token_ids)
    start = prompt.index('"context"') + 30
    other.add_tokens([prompt[start : start + 8]])
    changed = Encoder(other, NIMBLE)
    plan = ViewPlan()
    assert changed.fingerprint == encoder.fingerprint
    assert changed.encode(records, 1, 0) != encoder.encode(records, 1, 0)
    assert views_sha256(records, changed, plan) != views_sha256(records, encoder, plan)
