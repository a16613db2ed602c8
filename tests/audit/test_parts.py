"""Datasets in parts, in two processes; the source of truth is one process over all of them."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from spoiled_datasets import audited, counts, findings, healthy

from pact_eval.audit import families, parts
from pact_eval.audit.context import DataAuditSettings, DataContext, DatasetSource
from pact_eval.data import index as data_index
from pact_eval.data import processes
from pact_eval.errors import InputError

pytestmark = pytest.mark.slow

CHECKS = ("schema", "families", "certificates", "separation", "balance", "shortcuts", "hashes")


def spoilt(folder: Path) -> Path:
    """Write a dataset of which every third family has one of five faults, its lines shuffled.

    Some lines are not JSON, some are not records, and the first training families are in the
    evaluation file too, with other articles.
    """
    data, draw = healthy(), random.Random(17)
    for number, record in enumerate(data.train):
        if number % 6 == 1:
            fault = draw.randrange(6)
            if fault == 0:
                record["domain"] = "elsewhere"
            elif fault == 1:
                record["evidence_certificate"] = None
            elif fault == 2:
                record["input"]["state"] = "Another context altogether."
            elif fault == 3:
                record["variant"] = "base"
            elif fault == 4:
                record["family_id"] = f"alone-{number}"
            else:
                record["reference"] = {"target": "none of the answers"}
    copies = json.loads(json.dumps(data.train[:16]).replace(" the ", " a ", 40))
    draw.shuffle(data.train)
    data.holdout += copies
    data.write(folder)
    for name, broken in (("train.jsonl", (5, 90)), ("holdout.jsonl", ())):
        lines = (folder / name).read_bytes().split(b"\n")
        for place in broken:
            lines[place] = lines[place][:-9]
        lines[40:40] = [b"", b"  "]
        (folder / name).write_bytes(b"\n".join(lines))
    return folder


def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use two processes and two threads for datasets of any size."""
    monkeypatch.setattr(parts, "FEWEST_RECORDS", 1)
    monkeypatch.setattr(parts, "_FAMILIES_IN_A_PART", 7)
    monkeypatch.setattr(data_index, "FEWEST_BYTES", 1)
    monkeypatch.setattr(data_index, "_BYTES_IN_A_PART", 10_000)
    monkeypatch.setattr("pact_eval.audit.near_duplicates._CHUNK_ROWS", 13)
    monkeypatch.setattr(processes, "usable_cores", lambda: 2)
    monkeypatch.setattr(parts, "usable_cores", lambda: 2)


def test_parts_in_two_processes_find_what_one_process_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = spoilt(tmp_path)
    monkeypatch.setattr(processes, "usable_cores", lambda: 1)
    whole = audited(folder, CHECKS, keep=3)
    in_small_parts(monkeypatch)
    in_parts = audited(folder, CHECKS, keep=3)
    assert repr(in_parts) == repr(whole)  # NaN is not equal to itself
    assert {check.check for check in whole.checks if check.counts} >= {*CHECKS[:4]}
    assert max(counts(whole).values()) > 3
    assert counts(whole)["not-json"] == 2
    assert len(findings(whole)) > 20


def test_the_index_in_parts_is_that_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = spoilt(tmp_path)
    source, settings = DatasetSource.of_folder(folder), DataAuditSettings()
    whole = DataContext.read(source, settings).index
    in_small_parts(monkeypatch)
    index = DataContext.read(source, settings).index
    assert index.frame.equals(whole.frame)
    assert index.facts == whole.facts
    assert index.bad_lines == whole.bad_lines
    assert index.bad_lines


@pytest.mark.parametrize("content", [b"", b"\n\n", b'{"id": 1}'], ids=["empty", "blank", "bad"])
def test_a_file_without_records_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    folder = healthy(2).write(tmp_path)
    (folder / "train.jsonl").write_bytes(content)
    whole = audited(folder, CHECKS)
    in_small_parts(monkeypatch)
    assert repr(audited(folder, CHECKS)) == repr(whole)


def test_a_file_that_is_missing_is_an_error_in_parts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = DatasetSource.of_folder(healthy(2).write(tmp_path))
    shutil.move(tmp_path / "train.jsonl", tmp_path / "moved.jsonl")
    in_small_parts(monkeypatch)
    with pytest.raises(InputError, match=r"train\.jsonl: no such file"):
        DataContext.read(source, DataAuditSettings())


def test_a_file_that_changes_during_the_audit_is_an_error_in_parts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = healthy().write(tmp_path)
    context = DataContext.read(DatasetSource.of_folder(folder), DataAuditSettings())
    (file,) = folder.glob("train.jsonl")
    file.write_bytes(file.read_bytes().replace(b"{", b"[", 1)[::-1])
    in_small_parts(monkeypatch)
    with pytest.raises(InputError, match="changed during the audit"):
        parts.look_at_families(context.index, {"families": families.Families(context)})


AUDIT = """
import sys
from pathlib import Path
from pact_eval.data import processes
from pact_eval.audit import parts
from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.data import index
parts.FEWEST_RECORDS = index.FEWEST_BYTES = 1
index._BYTES_IN_A_PART = 2_000
processes.usable_cores = parts.usable_cores = lambda: 2
print("begin", flush=True)
while True:
    settings = DataAuditSettings(only=["families", "shortcuts"])
    audit_data(DatasetSource.of_folder(Path(sys.argv[1])), settings)
    print("audited", flush=True)
"""


def processes_of_group(group: int) -> list[str]:
    """Return the names of the processes of a group that have not ended."""
    names = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().rpartition(") ")
        except OSError:  # it has just ended
            continue
        state, _, of = rest.split()[:3]
        if int(of) == group and state != "Z":
            names.append(name)
    return names


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_an_interrupt_ends_all_processes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", AUDIT, str(healthy().write(tmp_path))]
    with subprocess.Popen(
        command,
        start_new_session=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as audit:
        assert audit.stdout is not None
        assert [audit.stdout.readline().strip() for _ in range(2)] == ["begin", "audited"]
        assert len(processes_of_group(audit.pid)) >= 3
        os.killpg(audit.pid, signal.SIGINT)
        ends = time.monotonic() + 60
        while processes_of_group(audit.pid) and time.monotonic() < ends:
            time.sleep(0.1)
        assert processes_of_group(audit.pid) == []
        # With 1 if the signal came while a library caught it and raised an error of its own.
        assert audit.wait() in (-signal.SIGINT, 1)
