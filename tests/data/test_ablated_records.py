"""Ablated contexts as records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from spoiled_datasets import healthy

from pact_eval.data.ablation import occurrences, write_ablated_records
from pact_eval.data.records import read_records
from pact_eval.errors import RecordError
from pact_fixtures.generator.questions import Atom, read_facts


def test_one_record_a_pair_with_the_two_answers_it_concerns(tmp_path: Path) -> None:
    data = healthy()
    source = data.write(tmp_path) / "holdout.jsonl"
    written = write_ablated_records(source, tmp_path / "ablated.jsonl")
    assert (written.records, written.families, written.problems) == (162, 162, ())
    ablated = read_records(written.path, require_reference=False)
    values = [json.loads(line) for line in written.path.read_bytes().split(b"\n")[:-1]]
    references = [record.reference for record in read_records(source)]
    for number, (record, value) in enumerate(zip(ablated, values, strict=True)):
        base = data.holdout[2 * number]
        assert record.reference is None
        assert record.certificate is None
        assert value["ablation"]["answers"] == references[2 * number : 2 * number + 2]
        assert value["ablation"]["record"] == base["id"]
        assert record.id == f"{base['id']}-ablated"
        assert value["input"]["questions"] == base["input"]["questions"]
        assert value["provenance"] == base["provenance"]
        assert occurrences(record.state, value["ablation"]["removed"]) == 0
        assert occurrences(base["input"]["state"], value["ablation"]["removed"]) == 1


def test_the_focus_fact_is_unknown_there_by_the_generators_interpreter(tmp_path: Path) -> None:
    source = healthy().write(tmp_path) / "holdout.jsonl"
    written = write_ablated_records(source, tmp_path / "ablated.jsonl")
    records = {record.id: record for record in read_records(source)}
    for value in map(json.loads, written.path.read_bytes().split(b"\n")[:-1]):
        base = records[value["ablation"]["record"]]
        assert base.certificate is not None
        spec: dict[str, list[dict[str, str]]] = base.certificate["spec"]  # type: ignore[assignment]
        statement = spec["atoms"][0]["statement"]
        attribute, _, rest = statement.removeprefix("The ").partition(" of this ")
        subject = rest.partition(" is ")[0]
        atom = Atom("focus", statement, attribute, subject, ("",))
        assert atom.judge(read_facts(base.state)) != "unknown"
        assert atom.judge(read_facts(value["input"]["state"])) == "unknown"


def test_pairs_that_cannot_be_ablated_are_all_named_and_nothing_is_written(tmp_path: Path) -> None:
    data = healthy(families=4)
    del data.holdout[0]["evidence_certificate"]
    data.holdout[3]["reference"] = data.holdout[2]["reference"]
    del data.holdout[5]
    source = data.write(tmp_path) / "holdout.jsonl"
    with pytest.raises(RecordError) as caught:
        write_ablated_records(source, tmp_path / "ablated.jsonl")
    messages = [problem.message for problem in caught.value.problems]
    assert [m for m in messages if "certificate" in m or "differ" in m or "got 1" in m] == messages
    assert len(messages) == 3
    assert not list(tmp_path.glob("ablated*"))
    written = write_ablated_records(source, tmp_path / "ablated.jsonl", allow_missing=True)
    assert (written.records, written.families, len(written.problems)) == (1, 4, 3)
