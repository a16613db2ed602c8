"""The training record: equal to that of the documented function, bound to its weights, bounded."""

from __future__ import annotations

import base64
import hashlib
import json
import unicodedata
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from builders import record, write_jsonl
from custody.adapters import (
    EXAMPLE,
    FIXTURES,
    HOLDOUT,
    ROOT,
    adapter_trained_on,
)
from hypothesis import given
from hypothesis import strategies as st

from pact_eval._json import Json
from pact_eval.custody import (
    TRAINING_RECORD,
    HashedData,
    TrainingRecord,
    UsedData,
    adapter_record,
    are_hashed,
    hash_data,
    hashes_of,
    overlap_with,
    read_training_record,
    write_training_record,
)
from pact_eval.data.records import read_records
from pact_eval.errors import AdapterError, InputError, TamperedError
from pact_eval.models import read_adapter_files

NIMBLE_TEXT = partial(json.dumps, ensure_ascii=False)
"""How a prompt writes a context that is not text: see the prompt contract."""

TRAIN = FIXTURES / "data" / "train.jsonl"


def hashed(text: str) -> int:
    """By hand: the first 64 bits of the SHA-256."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def test_hashes_by_hand(tmp_path: Path) -> None:
    rows = [
        record("a-base", family="Fam A", source_family="s", input={
            "state": {"b": "two", "a": "One  line"},
            "questions": record("x")["input"]["questions"],
        }),
        record("b-base", family="fam  b", source_family="s"),
    ]  # fmt: skip
    data = hash_data([UsedData(write_jsonl(tmp_path / "train.jsonl", rows))])
    assert data.hashes("families").tolist() == sorted([hashed("fam a"), hashed("fam b")])
    assert hashed('{"a":"one line","b":"two"}') in data.hashes("contexts").tolist()
    assert data.hashes("source_families").tolist() == [hashed("s")]
    first = json.dumps(rows[0], ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    assert hashed(" ".join(first.casefold().split())) in data.hashes("records").tolist()
    assert [(file.name, file.rows) for file in data.files] == [("train.jsonl", 2)]


def test_the_function_for_other_trainers_writes_the_same_record(tmp_path: Path) -> None:
    folder = adapter_trained_on(tmp_path / "a", {"steps": 3}, train=[TRAIN], selection=[HOLDOUT])
    files = read_adapter_files(folder)
    roles = {"train": hash_data([UsedData(TRAIN)]), "selection": hash_data([UsedData(HOLDOUT)])}
    ours = TrainingRecord(files.sha256, roles, {"steps": 3})  # type: ignore[arg-type]
    written = (folder / TRAINING_RECORD).read_bytes()
    write_training_record(folder, ours)
    assert (folder / TRAINING_RECORD).read_bytes() == written
    assert adapter_record(files) is not None


def test_some_records_of_a_file(tmp_path: Path) -> None:
    records = read_records(HOLDOUT)
    data = hash_data([UsedData(HOLDOUT, records[10:14])])
    alone = hash_data([UsedData(write_jsonl(tmp_path / "part.jsonl", lines(HOLDOUT)[10:14]))])
    assert data.files[0].rows == 4
    assert data.digest == alone.digest
    assert overlap_with(TrainingRecord("", {"train": data}, {}), records[:10]) is None
    met = overlap_with(TrainingRecord("", {"selection": data}, {}), records[:12])
    assert met is not None
    assert (met.items, met.roles) == (
        tuple(trained.id for trained in records[10:12]),
        ("selection",),
    )


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1]


def test_calibration_data_are_no_overlap() -> None:
    data = hash_data([UsedData(HOLDOUT)])
    assert (
        overlap_with(TrainingRecord("", {"calibration": data}, {}), read_records(HOLDOUT)) is None
    )


def test_contexts_under_other_names_overlap(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in lines(HOLDOUT)[:6]]
    for row in rows:
        row["family"] = f"other {row['family']}"
    data = hash_data([UsedData(write_jsonl(tmp_path / "copies.jsonl", rows))])
    met = overlap_with(TrainingRecord("", {"train": data}, {}), read_records(HOLDOUT))
    assert met is not None
    assert (len(met.items), len(met.families), met.by_family) == (6, 3, 0)


leaves = st.text(max_size=8) | st.integers() | st.booleans() | st.none()
states = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
).filter(lambda state: isinstance(state, list | dict))


@given(states, st.data())
def test_a_context_and_its_json_as_text_are_one(state: Json, data: st.DataObject) -> None:
    """Whatever writes the text: as a prompt does, with escapes, with indents, in other order."""
    texts = [
        NIMBLE_TEXT(state),
        json.dumps(state),
        json.dumps(state, indent=2, sort_keys=True),
        json.dumps(state, ensure_ascii=False, separators=(",", ":")) + "\n",
    ]
    trained, evaluated = data.draw(st.permutations([state, *texts]))[:2]
    assert are_hashed([evaluated], hashes_of([trained])).all()
    assert not are_hashed([[evaluated, 0]], hashes_of([trained])).any()


@given(st.text(min_size=1).filter(lambda text: not text.lstrip().startswith(("{", "["))))
def test_what_a_reader_cannot_see_changes_no_hash(text: str) -> None:
    wide = text.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)})
    torn = "\u00ad".join([*text.replace(" ", " \u00a0"), "\u200b"])
    if unicodedata.is_normalized("NFKC", text):
        assert are_hashed([wide], hashes_of([text])).all()
        assert are_hashed([torn], hashes_of([text])).all()
    assert not are_hashed([f"{text} x"], hashes_of([text])).any()


def test_a_record_of_the_first_format_finds_what_it_found(tmp_path: Path) -> None:
    """Its hashes are of texts as they were written, in one case and with single spaces."""
    states: list[Json] = ["Ｗｉｄｅ  Text", '{"b": 1, "a": "ﬁ"}', {"b": 1, "a": "ﬁ"}, "so\u00adft"]
    old = ["ｗｉｄｅ text", '{"b": 1, "a": "fi"}', '{"a":"fi","b":1}', "so\u00adft"]
    for state, text in zip(states, old, strict=True):
        assert are_hashed([state], np.array([hashed(text)], dtype=np.uint64)).all()
    folder = adapter_trained_on(tmp_path / "a", train=[TRAIN])
    path = folder / TRAINING_RECORD
    assert '"pact-training-data-v2"' in path.read_text("utf-8")
    path.write_text(path.read_text("utf-8").replace("data-v2", "data-v1"), "utf-8")
    read = read_training_record(folder)
    assert read is not None
    assert overlap_with(read, read_records(TRAIN)) is not None


def test_a_record_that_is_not_of_these_weights_is_refused(tmp_path: Path) -> None:
    folder = adapter_trained_on(tmp_path / "a", train=[TRAIN])
    other = adapter_trained_on(tmp_path / "b", arm="nimble_recipe", train=[TRAIN])
    path, schema = folder / TRAINING_RECORD, folder / "schema_config.json"
    written, stated = path.read_text("utf-8"), schema.read_text("utf-8")

    def message() -> str:
        with pytest.raises((AdapterError, TamperedError)) as error:
            adapter_record(read_adapter_files(folder))
        return str(error.value)

    path.write_text(written.replace('"rows": 120', '"rows": 121'), "utf-8")
    assert "which schema_config.json names" in message()
    path.unlink()
    assert "found none" in message()
    path.write_text((other / TRAINING_RECORD).read_text("utf-8"), "utf-8")
    assert "SHA-256" in message()
    without = json.loads(stated)
    del without["training_data_sha256"]
    schema.write_text(json.dumps(without), "utf-8")
    assert "training_data_sha256 in schema_config.json" in message()
    path.unlink()
    assert adapter_record(read_adapter_files(folder)) is None  # not stated: never an error
    schema.unlink()
    path.write_text((other / TRAINING_RECORD).read_text("utf-8"), "utf-8")
    assert "record of the weights" in message()
    path.write_text(written, "utf-8")
    assert adapter_record(read_adapter_files(folder)) is not None  # bound to the weights alone


@pytest.mark.parametrize(
    "change",
    [
        {"format": "v0"},
        {"weights_sha256": 3},
        {"roles": {"test": {}}},
        {"roles": {"train": {"files": [{}]}}},
        {"roles": {"train": {"files": [], "records": "AAA"}}},
        {"training": []},
    ],
)
def test_malformed_records_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    folder = adapter_trained_on(tmp_path / "a", train=[TRAIN])
    path = folder / TRAINING_RECORD
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(AdapterError, match="not a training record"):
        read_training_record(folder)


def test_a_record_of_100_000_records_has_at_most_5_mb(tmp_path: Path) -> None:
    """As in the miniature, two records in a family and a context of their own each."""
    rng = np.random.default_rng(1)
    numbers = {"records": 100_000, "contexts": 100_000, "families": 50_000, "source_families": 34}
    drawn = {name: rng.integers(0, 2**64, n, dtype=np.uint64) for name, n in numbers.items()}
    data = HashedData((), *(np.unique(each).astype(">u8").tobytes() for each in drawn.values()))
    write_training_record(tmp_path, TrainingRecord("", {"train": data}, {}))
    assert (tmp_path / TRAINING_RECORD).stat().st_size < 5_000_000
    read = read_training_record(tmp_path)
    assert read is not None
    assert np.array_equal(read.roles["train"].hashes("contexts"), data.hashes("contexts"))


def test_unsorted_hashes_are_refused() -> None:
    value = HashedData((), *[bytes(7) + b"\1" + bytes(7) + b"\2"] * 4).to_json()
    assert HashedData.of_json(value, "").hashes("families").tolist() == [1, 2]
    value["families"] = base64.b64encode(bytes(15) + b"\x02" + bytes(7) + b"\x01").decode()
    with pytest.raises(InputError, match="families: expected"):
        HashedData.of_json(value, "")


def test_the_docs_of_training_name_the_function_for_other_trainers() -> None:
    text = (ROOT / "docs" / "training.md").read_text("utf-8")
    assert f"[`write_training_data`](../examples/{EXAMPLE.name})" in text
