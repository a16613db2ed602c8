"""Datasets that someone would like to pass: disguises, tricks, and shapes that crashed."""

from __future__ import annotations

import copy
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spoiled_datasets import Data, Record, audited, counts, findings, healthy

from pact_eval.audit.certificates import Coverage
from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.errors import InputError
from pact_fixtures.generator.dataset import generate_dataset, write_dataset

PAIRS: tuple[str, ...] = ("families", "certificates")


def say_again(record: Record, sentence: str) -> None:
    record["input"]["state"] = [
        {"speaker": "Clerk", "text": "Hello."},
        {"speaker": "Clerk", "text": f"{sentence}"},
        *turns(record["input"]["state"]),
    ]
    for evidence in record["evidence_certificate"]["spec"]["focus_evidence"]:
        evidence["path"] = []


def turns(state: Any) -> list[Any]:
    return state if isinstance(state, list) else [{"speaker": "Clerk", "text": state}]


def pair_of(data: Data) -> tuple[list[Record], dict[str, str]]:
    return data.holdout[:2], data.holdout[0]["evidence_certificate"]["verified_pair"]


@pytest.mark.parametrize(
    "respelt",
    [
        lambda text: text.replace(" ", "  "),
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: text.lower(),
        lambda text: text.rstrip("."),
        lambda text: text.replace("a", "a\u200b"),
    ],
    ids=["two spaces", "no-break spaces", "lower case", "no full stop", "zero-width spaces"],
)
def test_evidence_that_is_left_in_another_spelling(
    tmp_path: Path, respelt: Callable[[str], str]
) -> None:
    data = healthy(families=4)
    records, pair = pair_of(data)
    sentence = respelt(pair["right"])
    for record in records:
        say_again(record, f"Again: {sentence}")
    codes = counts(audited(data.write(tmp_path), PAIRS))
    assert "not-ablated" in codes or "old-wording-remains" in codes


@pytest.mark.parametrize(
    "disguise",
    [
        lambda text: f"{text[:5]}\u200b{text[5:]}",
        lambda text: f"{text[:5]}\u00ad{text[5:]}",
        lambda text: f"{text}\ufe0f",
        lambda text: text.upper(),
        lambda text: text.replace(".", "!"),
    ],
    ids=["zero-width space", "soft hyphen", "variation selector", "upper case", "another sign"],
)
def test_an_edit_that_nobody_can_read_is_none(
    tmp_path: Path, disguise: Callable[[str], str]
) -> None:
    data = healthy(families=4)
    (base, other), pair = pair_of(data)
    new = disguise(pair["right"])
    text = json.dumps(base["input"]["state"], ensure_ascii=False)
    old_text, new_text = (
        json.dumps(value_of_pair, ensure_ascii=False)[1:-1]
        for value_of_pair in (pair["right"], new)
    )
    other["input"]["state"] = json.loads(text.replace(old_text, new_text))
    for record in (base, other):
        record["evidence_certificate"]["verified_pair"]["negative_right"] = new
    assert "context-same" in counts(audited(data.write(tmp_path), PAIRS))


@pytest.mark.slow
def test_disguised_copies_are_near_duplicates(tmp_path: Path) -> None:
    data = healthy()
    for record in data.train[:2]:
        twin = copy.deepcopy(record)
        state = json.dumps(twin["input"]["state"], ensure_ascii=False)
        twin["input"]["state"] = json.loads(state.replace("e", "e\u200b").replace("s", "\uff53"))
        twin |= {"id": f"t-{record['variant']}", "family": "t", "source_family": "t-1"}
        data.holdout.append(twin | {"split": "validation", "provenance": {"source_id": "t"}})
    assert "near-duplicate" in counts(audited(data.write(tmp_path), ("separation",)))


@pytest.mark.parametrize("disguise", [" {}", "{}\u200b", "{} "])
def test_names_that_read_alike_are_shared(tmp_path: Path, disguise: str) -> None:
    data = healthy(families=4)
    for record in data.holdout[:2]:
        record["source_family"] = disguise.format(data.train[0]["source_family"].upper())
    assert counts(audited(data.write(tmp_path), ("separation",))) == {"shared-source-family": 1}


def test_the_old_wording_is_seen_where_the_new_one_is_part_of_it(tmp_path: Path) -> None:
    data = healthy(families=4)
    (base, other), pair = pair_of(data)
    old, new = (
        "The gate of box seven reads courtyard today.",
        "The gate of box seven reads courtyard",
    )
    left = pair["left"]
    for record, wording in ((base, old), (other, new)):
        record["input"]["state"] = f"Clerk: {left}\nGate: {wording}\nLater: {old}"
        certificate = record["evidence_certificate"]
        certificate["verified_pair"] |= {"right": old, "negative_right": new}
        for evidence in certificate["spec"]["focus_evidence"]:
            evidence["path"] = []
        certificate["spec"]["focus_evidence"][1]["text"] = old
    assert "old-wording-remains" in counts(audited(data.write(tmp_path), PAIRS))


def test_a_manifest_elsewhere_is_held_against_what_is_audited(tmp_path: Path) -> None:
    trusted = healthy(families=4).write(tmp_path / "trusted")
    untrusted = tmp_path / "untrusted"
    shutil.copytree(trusted, untrusted)
    (untrusted / "manifest.json").unlink()
    manifest = trusted / "manifest.json"
    only = DataAuditSettings(only=["hashes"])
    files = [untrusted / "train.jsonl"], [untrusted / "holdout.jsonl"]

    def tampered() -> tuple[bool, bool]:
        of_folder = audit_data(DatasetSource.of_folder(untrusted, manifest), only)
        source = DatasetSource.of_paths([], manifest, train=files[0], evaluation=files[1])
        of_files = audit_data(source, only)
        return bool(of_folder.tampering), bool(of_files.tampering)

    assert tampered() == (False, False)
    path = untrusted / "holdout.jsonl"
    path.write_bytes(path.read_bytes().replace(b"the", b"teh", 1))
    assert tampered() == (True, True)


def test_unreadable_lines_fail_whatever_was_asked(tmp_path: Path) -> None:
    folder = healthy(families=4).write(tmp_path)
    (folder / "holdout.jsonl").write_text("{}\n" * 5)
    assert counts(audited(folder, ("families",)))["malformed"] == 5
    (folder / "holdout.jsonl").write_text("")
    assert counts(audited(folder, ("balance",)))["empty-file"] == 1


def test_a_link_out_of_the_folder_is_told(tmp_path: Path) -> None:
    folder = healthy(families=4).write(tmp_path / "data")
    (folder / "manifest.json").unlink()
    outside = tmp_path / "elsewhere.jsonl"
    (folder / "holdout.jsonl").rename(outside)
    (folder / "holdout.jsonl").symlink_to(outside)
    with pytest.raises(InputError, match=r"holdout\.jsonl: .*file of this folder"):
        DatasetSource.of_folder(folder)


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "../x.jsonl", "/etc/passwd"])
def test_names_that_no_file_of_the_folder_can_have(tmp_path: Path, name: str) -> None:
    folder = healthy(families=4).write(tmp_path)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["file_sha256"][name] = "0" * 64
    path.write_text(json.dumps(manifest))
    assert set(counts(audited(folder, ("hashes",)))) <= {"path-outside", "listed-file-missing"}
    assert counts(audited(folder, ("hashes",)))


@pytest.mark.slow
def test_more_files_than_fit_a_byte(tmp_path: Path) -> None:
    data = healthy(families=2)
    (tmp_path / "train.jsonl").write_text(json.dumps(data.train[0]))
    for number in range(300):
        record = data.train[0] | {"id": f"r{number}", "family": f"f{number}"}
        (tmp_path / f"train-{number}.jsonl").write_text(json.dumps(record))
    audit = audited(tmp_path, ("schema",))
    assert len(audit.files) == 301


def test_wordings_that_made_a_regular_expression_explode(tmp_path: Path) -> None:
    """Old "a", new "aa" in a text of 40 a's would not have ended."""
    data = healthy(families=4)
    (base, other), _ = pair_of(data)
    old, new = "a b c ", "a b c a b c "
    for record, text in ((base, old * 60), (other, old * 90 + "x")):
        record["input"]["state"] = text
        pair = record["evidence_certificate"]["verified_pair"]
        pair |= {"right": old, "negative_right": new}
    start = time.perf_counter()
    audited(data.write(tmp_path), PAIRS)
    assert time.perf_counter() - start < 30


def test_other_line_ends_separators_and_nesting_pass_every_check(tmp_path: Path) -> None:
    """Healthy data stay healthy with CRLF, U+2028, U+2029, U+0085 and a nested JSON context."""
    data = healthy(families=6)
    for number, record in enumerate(data.train + data.holdout):
        sign = "\u2028\u2029\u0085"[(number // 2) % 3]
        state = record["input"]["state"]
        more = [f"line{sign}another {number // 2}"]
        record["input"]["state"] = {"log": {"turns": state, "more": more}, "n": [1, {"x": None}]}
        for evidence in record["evidence_certificate"]["spec"]["focus_evidence"]:
            evidence["path"] = ["log", "turns", *map(str, evidence["path"])]
    folder = data.write(tmp_path)
    assert counts(audited(folder, ("schema", *PAIRS, "separation"))) == {}
    for name in ("train.jsonl", "holdout.jsonl"):
        path = folder / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert counts(audited(folder, ("schema", *PAIRS, "separation"))) == {}


@pytest.mark.slow
def test_the_full_generated_dataset_passes_every_check(tmp_path: Path) -> None:
    dataset = generate_dataset("full", seed=17)
    write_dataset(dataset, tmp_path)
    audit = audited(tmp_path)
    assert findings(audit) == []
    assert audit.families == (1338, 162)
    coverage = next(check for check in audit.checks if check.check == "certificates").measured
    assert coverage == Coverage(3000, 3000, 1500, 1500)
