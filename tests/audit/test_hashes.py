"""The check "hashes" on two files and manifests that are written out."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from builders import record, write_jsonl
from messages import assert_says

from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.audit.findings import CheckResult
from pact_eval.data.splits import write_manifest

ONLY = DataAuditSettings(only=("hashes",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A training file of two records and an evaluation file of three, with their manifest."""
    for name, split, n_records in (("train", "train", 2), ("holdout", "validation", 3)):
        rows = [record(f"{name}{n}-base", split=split) for n in range(n_records)]
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    write_manifest(tmp_path)
    return tmp_path


def manifest(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    return value


def checked(folder: Path, **changes: Any) -> CheckResult:
    """Check the files against their manifest with some changes; None takes a key away."""
    value = {key: item for key, item in (manifest(folder) | changes).items() if item is not None}
    (folder / "manifest.json").write_text(json.dumps(value))
    return result_of(DatasetSource.of_folder(folder))


def result_of(source: DatasetSource) -> CheckResult:
    audit = audit_data(source, ONLY)
    return next(check for check in audit.checks if check.check == "hashes")


def findings_of(result: CheckResult) -> list[tuple[str, str, str]]:
    return [(finding.code, str(finding.place), finding.actual) for finding in result.findings]


def test_a_manifest_that_fits(folder: Path) -> None:
    result = checked(folder)
    assert (findings_of(result), result.scope) == ([], "2 files in manifest.json")


@pytest.mark.parametrize("n_rows", [1, 3])
@pytest.mark.parametrize(
    ("key", "name", "n_records"), [("training_rows", "train", 2), ("eval_rows", "holdout", 3)]
)
def test_rows_of_the_only_file(
    folder: Path, key: str, name: str, n_records: int, n_rows: int
) -> None:
    reported = findings_of(checked(folder, **{key: n_records - 2 + n_rows}))
    assert reported == [("rows-mismatch", f"{name}.jsonl", str(n_records))]


def test_rows_by_name(folder: Path) -> None:
    reported = findings_of(checked(folder, rows={"train.jsonl": 2, "holdout.jsonl": 4}))
    assert reported == [("rows-mismatch", "holdout.jsonl", "3")]
    assert findings_of(checked(folder, rows={"train.jsonl": 2})) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"rows": [1]}, "a list"),
        ({"roles": "train"}, "text"),
        ({"rows": {"train.jsonl": 2, "gone.jsonl": 1}}, "gone.jsonl"),
        ({"roles": {"train.jsonl": "train", "gone.jsonl": "eval"}}, "gone.jsonl"),
        ({"training_rows": "2"}, "text"),
        ({"training_rows": True}, "true"),
        ({"train_sha256": 3}, "an integer"),
    ],
)
def test_values_of_another_type(folder: Path, changes: dict[str, Any], text: str) -> None:
    value = manifest(folder) | changes
    path = folder / "other.json"
    path.write_text(json.dumps(value))
    files = [folder / "train.jsonl"], [folder / "holdout.jsonl"]
    source = DatasetSource.of_paths([], path, train=files[0], evaluation=files[1])
    result = result_of(source)
    assert {(code, place) for code, place, _ in findings_of(result)} == {
        ("manifest-malformed", "other.json")
    }
    assert any(text in actual for _, _, actual in findings_of(result))


@pytest.mark.parametrize(
    ("n_train", "n_eval", "expected"),
    [(2, 1, [("training_rows", "2"), ("train_sha256", "2")]), (1, 0, [("eval_rows", "0")])],
)
def test_facts_of_one_file_need_one_file(
    folder: Path, n_train: int, n_eval: int, expected: list[tuple[str, str]]
) -> None:
    train = [folder / "train.jsonl", folder / "more.jsonl"][:n_train]
    (folder / "more.jsonl").write_bytes((folder / "train.jsonl").read_bytes() + b"\n")
    evaluation = [folder / "holdout.jsonl"][:n_eval]
    digests = {path.name: sha256(path.read_bytes()).hexdigest() for path in [*train, *evaluation]}
    value = {
        "storage_format": manifest(folder)["storage_format"],
        "file_sha256": digests,
        **dict.fromkeys([key for key, _ in expected], 2),
    }
    if "train_sha256" in value:
        value["train_sha256"] = "0" * 64
    path = folder / "other.json"
    path.write_text(json.dumps(value))
    result = result_of(DatasetSource.of_paths([], path, train=train, evaluation=evaluation))
    malformed = [item for item in result.findings if item.code == "manifest-malformed"]
    assert [(item.expected.partition(":")[0], item.actual) for item in malformed] == [
        (key, f"{n} such files") for key, n in expected
    ]
    role = "training" if n_train == 2 else "evaluation"
    assert all(item.expected.endswith(f"one file for {role}") for item in malformed)


def test_other_bytes_are_told_once(folder: Path) -> None:
    """The hash of the only training file is in the manifest twice."""
    path = folder / "train.jsonl"
    path.write_bytes(path.read_bytes().replace(b"intact", b"broken"))
    digest = sha256(path.read_bytes()).hexdigest()
    assert findings_of(checked(folder)) == [("hash-mismatch", "train.jsonl", digest)]


def test_another_hash_of_the_training_file_is_told(folder: Path) -> None:
    digest = sha256((folder / "train.jsonl").read_bytes()).hexdigest()
    assert findings_of(checked(folder, train_sha256="0" * 64)) == [
        ("hash-mismatch", "train.jsonl", digest)
    ]
    assert findings_of(checked(folder, train_sha256=digest.upper())) == []


def test_a_fingerprint_of_lines_that_are_not_json(folder: Path) -> None:
    path = folder / "holdout.jsonl"
    path.write_bytes(path.read_bytes() + b"{\n")
    reported = findings_of(checked(folder, file_sha256={}, rows=None, roles=None, eval_rows=4))
    ((place, actual),) = [text for code, *text in reported if code == "fingerprint-mismatch"]
    assert (place, actual.partition(":")[0]) == ("holdout.jsonl", "none")
    assert_says(actual, "line is not JSON")


@pytest.mark.parametrize(
    ("value", "text"), [(None, "none"), ([], "a list"), ({"train.jsonl": 1}, "an object")]
)
def test_hashes_are_an_object_of_texts(folder: Path, value: Any, text: str) -> None:
    result = checked(folder, file_sha256=value, rows=None, roles=None)
    assert ("manifest-malformed", "manifest.json", text) in findings_of(result)
    assert result.scope == "0 files in manifest.json"


def test_files_that_the_manifest_does_not_name(folder: Path, tmp_path_factory: Any) -> None:
    digests = manifest(folder)["file_sha256"]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    more = write_jsonl(elsewhere / "more.jsonl", [record("x", split="train")])
    near = write_jsonl(folder / "near.jsonl", [record("y", split="train")])
    source = DatasetSource.of_paths([folder], train=[more])
    result = result_of(source)
    digest = {path: sha256(path.read_bytes()).hexdigest() for path in (more, near)}
    reported = [(code, Path(place).name, text) for code, place, text in findings_of(result)]
    assert ("file-not-in-manifest", "more.jsonl", f"none; the file has {digest[more]}") in reported
    assert [name for code, name, text in reported if "was not audited" in text] == ["near.jsonl"]
    both = DatasetSource.of_paths([folder], train=[near])
    assert ("file-unhashed", "near.jsonl", f"none; the file has {digest[near]}") in [
        (code, Path(place).name, text) for code, place, text in findings_of(result_of(both))
    ]
    assert set(digests) == {"train.jsonl", "holdout.jsonl"}


def test_files_elsewhere_are_known_by_their_names(folder: Path, tmp_path_factory: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    copies = [elsewhere / name for name in ("train.jsonl", "holdout.jsonl")]
    for copy in copies:
        copy.write_bytes((folder / copy.name).read_bytes())
    source = DatasetSource.of_paths(
        [], folder / "manifest.json", train=copies[:1], evaluation=copies[1:]
    )
    assert findings_of(result_of(source)) == []


@pytest.mark.parametrize(
    ("name", "code", "place"),
    [
        ("notes.md", "listed-file-missing", "notes.md"),
        ("../notes.md", "path-outside", "manifest.json"),
    ],
)
def test_names_of_the_manifest(folder: Path, name: str, code: str, place: str) -> None:
    digests = manifest(folder)["file_sha256"] | {name: "0" * 64}
    result = checked(folder, file_sha256=digests)
    assert [(item[0], item[1]) for item in findings_of(result)] == [(code, place)]
    assert result.scope == "3 files in manifest.json"


def test_other_files_are_hashed_too(folder: Path) -> None:
    (folder / "notes.md").write_bytes(b"abc")
    digest = sha256(b"abc").hexdigest()
    digests = manifest(folder)["file_sha256"] | {"notes.md": digest.upper()}
    assert findings_of(checked(folder, file_sha256=digests)) == []
    (folder / "notes.md").write_bytes(b"abd")
    ((code, place, _),) = findings_of(checked(folder))
    assert (code, place) == ("hash-mismatch", "notes.md")


@pytest.mark.parametrize(("stated", "text"), [(None, "none"), ("v2", "v2"), (2, "2")])
def test_the_format_of_the_manifest(folder: Path, stated: Any, text: str) -> None:
    assert findings_of(checked(folder, storage_format=stated)) == [
        ("storage-format-unknown", "manifest.json", text)
    ]


def test_roles_that_there_are(folder: Path) -> None:
    path = folder / "other.json"
    value = manifest(folder) | {"roles": {"train.jsonl": "train", "holdout.jsonl": "teach"}}
    path.write_text(json.dumps(value))
    files = [folder / "train.jsonl"], [folder / "holdout.jsonl"]
    source = DatasetSource.of_paths([], path, train=files[0], evaluation=files[1])
    (finding,) = result_of(source).findings
    assert finding.code == "manifest-malformed"
    assert_says(finding.expected, "roles among", "train", "eval")


def test_no_manifest_is_a_warning(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    result = result_of(DatasetSource.of_folder(folder))
    assert findings_of(result) == [("manifest-missing", "manifest.json", "none")]
    assert result.scope == "no manifest"
