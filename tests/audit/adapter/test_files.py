"""Kinds of files by name and first bytes, and what of a folder is listed; by hand."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from pact_eval.audit.adapter.files import (
    HEAD_BYTES,
    FileRecord,
    _kind,
    check_files,
    is_pickle,
    list_files,
    shown,
)
from pact_eval.audit.findings import Collector

SAFE = b"\x80\x02\0\0\0\0\0\0{"


@pytest.mark.parametrize(
    ("name", "beginning", "kind"),
    [
        ("a.json", b"{}", "other"),
        ("a.BIN", b"", "pickled"),
        ("a.txt", b"\x80\x02", "pickled"),
        ("a.txt", b"\x80\x05", "pickled"),
        ("a.txt", b"\x80\x01", "other"),
        ("a.txt", b"\x80\x06", "other"),
        ("a.txt", b"xx/data.pkl", "pickled"),
        ("a.txt", b" " * 4088 + b"data.pkl", "pickled"),
        ("a.txt", b" " * 4089 + b"data.pkl", "other"),
        ("a.npy", b"\x93NUMPY {'descr': '|O'}", "pickled"),
        ("a.npy", b"\x93NUMPY {'descr': '<f8'}", "other"),
        ("a.npy", b"{'descr': '|O'}", "other"),
        ("a.py", b"", "code-file"),
        ("a", b"#!/bin/sh", "code-file"),
        ("a", b"\x7fELF", "code-file"),
        ("a.tgz", b"", "archive"),
        ("a", b"PK\x03\x04", "archive"),
        ("a", b"PK\x03", "other"),
        ("a.safetensors", SAFE, "other"),
        ("a.safetensors", b"\x80\x02\0\0\0\0\0\0x", "not-safetensors"),
        ("a.safetensors", b"version https://git-lfs.x", "not-safetensors"),
        ("a.safetensors", b"#!/bin/sh", "not-safetensors"),
        ("a.safetensors", b"PK\x03\x04", "not-safetensors"),
        ("a.safetensors", b"", "other"),
    ],
)
def test_kinds_of_files(name: str, beginning: bytes, kind: str) -> None:
    assert _kind(name, beginning)[0] == kind


def cut_inside_a_text(opcodes: bytes) -> bytes:
    """Return the head of a file whose last opcode has a text that goes on after it."""
    return (opcodes + b"X\xff\xff\xff\x00").ljust(HEAD_BYTES, b"a")


@pytest.mark.parametrize(
    ("raw", "is_one"),
    [
        (b"N.", True),
        (b"N. and more", False),
        (b"N" * 7 + b". and more", True),
        (b"N" * 6 + b". and more", False),
        (b"cos\nsystem\n. and more", True),
        (b"cos\nsys tem\n. and more", False),
        (b"cos\nsystem\n)R and more", True),
        (b")R", False),
        (b"", False),
        (b"Not a pickle", False),
        (b"(tt", False),
        (b"(0N.", True),
        (b"N(0.", True),
        (b"(0.", False),
        (b"0N.", False),
        (b"N0N.", True),
        (b"N0.", False),
        (b"N00N.", False),
        (b"NN\x86.", True),
        (b"N\x86.", False),
        (b"(NNt.", True),
        (b"1.", False),
        (b"(N1N.", True),
        (b"(N1.", False),
        (b"N2.", True),
        (b"N" * HEAD_BYTES, True),
        (b"N" * (HEAD_BYTES - 1), False),
        (b"N" * (HEAD_BYTES - 2) + b"xN", False),
        (cut_inside_a_text(b"N" * 8), True),
        (cut_inside_a_text(b"N" * 7), False),
    ],
)
def test_opcodes_that_find_what_they_need(raw: bytes, is_one: bool) -> None:
    assert is_pickle(raw) is is_one


def listed(
    folder: Path, others: list[str] | None = None
) -> tuple[tuple[FileRecord, ...], list[tuple[str, str]]]:
    collector = Collector("files", 20)
    records = list_files(folder, collector, [] if others is None else others)
    result = collector.result("")
    return records, [(finding.code, str(finding.place)) for finding in result.findings]


def test_files_are_listed_by_name_with_size_and_hash(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.json").write_bytes(b"{}")
    (tmp_path / "a.txt").write_bytes(b"abc")
    for tool in (".git", ".cache"):
        (tmp_path / tool).mkdir()
        (tmp_path / tool / "x.py").write_bytes(b"")
    records, findings = listed(tmp_path)
    assert records == (
        FileRecord("a.txt", 3, sha256(b"abc").hexdigest()),
        FileRecord("b/x.json", 2, sha256(b"{}").hexdigest()),
    )
    assert findings == [("not-looked-into", ".cache"), ("not-looked-into", ".git")]


def test_files_elsewhere_are_judged_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"abc")
    others = ["run.sh", "x.pt", "y.zip", "z.json", "w.safetensors", "a.txt"]
    records, findings = listed(tmp_path, others)
    names = ["a.txt", "run.sh", "w.safetensors", "x.pt", "y.zip", "z.json"]
    assert [record.name for record in records] == names
    assert {record.sha256 for record in records[1:]} == {None}
    assert findings == [("pickled", "x.pt"), ("code-file", "run.sh"), ("archive", "y.zip")]


def test_a_hub_that_was_not_asked_is_a_note(tmp_path: Path) -> None:
    collector = Collector("files", 20)
    assert list_files(tmp_path, collector, None) == ()
    assert collector.result("").counts == {"not-looked-into": 1}


CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PARTS = ["adapter_model-2-of-2.safetensors", "adapter_model-1-of-2.safetensors"]


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        ([CONFIG, WEIGHTS], []),
        ([CONFIG], [WEIGHTS]),
        ([WEIGHTS], [CONFIG]),
        ([CONFIG, *PARTS], [WEIGHTS, PARTS[1]]),
        ([CONFIG, WEIGHTS, *PARTS], []),
    ],
)
def test_files_that_peft_needs(names: list[str], missing: list[str]) -> None:
    records = [FileRecord(name, 1_000, "ab") for name in names]
    result = check_files([*records, FileRecord("x", None, None)], Collector("files", 20))
    assert [(finding.code, finding.place.file) for finding in result.findings] == [
        ("file-missing", name) for name in missing
    ]
    assert result.scope == f"{len(names) + 1} files, {len(names)},000 bytes"


def test_names_are_shown_in_160_characters() -> None:
    assert shown("x" * 160) == "x" * 160
    assert shown("x" * 161) == "x" * 157 + "..."
    assert shown("é\n") == "é\\n"
