"""Planted damage in files of others: one message that names file and place, never a traceback."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import record, write_jsonl
from commands import refuser, runner
from messages import assert_says
from run_frames import rows, write_run

from pact_cli.main import main as pact_eval
from pact_eval.errors import AdapterError
from pact_eval.models import safetensors_header

run, refused = runner(pact_eval), refuser(pact_eval)


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", rows(1, families=6))


@pytest.mark.parametrize("stderr", [subprocess.PIPE, subprocess.STDOUT])
@pytest.mark.parametrize("program", ["pact_cli", "pact_cli.audit"])
def test_an_exit_code_survives_a_reader_that_leaves(
    program: str, stderr: int, tmp_path: Path
) -> None:
    """`| head -1`: 8 wrong records are exit code 3, and a changed run is exit code 5."""
    if program == "pact_cli":
        run_folder = write_run(tmp_path / "run", rows(1, families=6))
        (run_folder / "predictions.parquet").write_bytes(b"PAR1")
        words, code = ("verify", run_folder), 5
    else:
        wrong = [{**record(f"r{n}-base"), "reference": {"x": 9}} for n in range(8)]
        words, code = ("data", write_jsonl(tmp_path / "eval.jsonl", wrong).parent), 3
    with subprocess.Popen(
        [sys.executable, "-m", program, *map(str, words)], stdout=subprocess.PIPE, stderr=stderr
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        errors = process.stderr.read() if process.stderr is not None else b""
        assert process.wait() == code, errors
        assert b"Traceback" not in errors


def test_a_panic_of_polars_prints_one_message(sealed: Path, tmp_path: Path) -> None:
    """Half of the metadata of a Parquet file is zeros."""
    content = bytearray((sealed / "predictions.parquet").read_bytes())
    for start in range(len(content) - 600, len(content) - 20, 40):
        damaged = bytearray(content)
        damaged[start : start + 20] = bytes(20)
        (tmp_path / f"{start}.parquet").write_bytes(damaged)
    code = f"""
import polars as pl
from pathlib import Path
from pact_eval.errors import RunError
from pact_eval.runs.rows import collected
for path in Path({str(tmp_path)!r}).glob("*.parquet"):
    try:
        collected(path, pl.scan_parquet(path, glob=False))
    except RunError as error:
        print(str(error).splitlines()[0])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout


def test_verify_does_not_read_rows_that_have_changed(sealed: Path) -> None:
    (sealed / "predictions.parquet").write_bytes(b"PAR1" * 100)
    result = run("verify", sealed, "--json", code=5)
    (checked,) = json.loads(result.stdout)["runs"]
    rows_check = next(check for check in checked["checks"] if check["subject"] == "rows")
    assert_says(rows_check["finding"], "not read", "SHA-256 differs")


@pytest.mark.parametrize("name", ["unanswered.parquet", "parts"])
def test_a_foreign_file_in_a_sealed_run_is_noticed(name: str, sealed: Path) -> None:
    assert run("verify", sealed).exit_code == 0
    if name == "parts":
        (sealed / name).mkdir()
    else:
        shutil.copy(sealed / "predictions.parquet", sealed / name)
    warnings = json.loads(run("report", sealed, "--resamples", "100", "--json").stdout)["warnings"]
    assert [warning["names"] for warning in warnings if warning["kind"] == "UnsealedFiles"] == [
        [name]
    ]
    assert_says(run("report", sealed, "--resamples", "100").stderr, name, "not covered by", "seal")
    assert name in run("verify", sealed, code=5).stdout


def test_a_key_of_10_megabytes_is_shortened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pact.toml").write_text(f"{'k' * 10**7} = 1\n")
    monkeypatch.chdir(tmp_path)
    assert len(refused("report", ".")) < 500
    (tmp_path / "pact.toml").write_text(f"k = '{'k' * 10**7}'\n")
    assert len(refused("report", ".")) < 500


ENTRY: dict[str, Any] = {
    "instance": {
        "id": "q1",
        "split": "test",
        "references": [{"output": {"text": "Ana"}, "tags": ["correct"]}],
    },
    "train_trial_index": 0,
    "output_mapping": {"A": "Ana", "B": "Ben"},
    "result": {"success": True, "completions": [{"text": " A", "logprob": 0.0}]},
}
STATISTICS: dict[str, Any] = {
    "instance_id": "q1",
    "train_trial_index": 0,
    "stats": [{"name": {"name": "exact_match"}, "mean": 1.0}],
}


def helm(folder: Path, entry: Any, statistics: Any) -> Path:
    folder.mkdir()
    state = {"adapter_spec": {"method": "multiple_choice_joint"}, "request_states": [entry]}
    (folder / "scenario_state.json").write_text(json.dumps(state))
    (folder / "per_instance_stats.json").write_text(json.dumps([statistics]))
    return folder


def test_a_healthy_log_of_helm_is_imported(tmp_path: Path) -> None:
    run("import", helm(tmp_path / "log", ENTRY, STATISTICS), "--out", tmp_path / "run")


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        ("tags", 5, "(id instance q1, trial 0): tags: expected a list, got an integer"),
        ("references", "x", "references: expected a list, got text"),
        ("completions", {"text": "A"}, "completions: expected a list, got an object"),
        ("logprob", "often", "logprob: expected a number, got text"),
        ("trial", [1], "(id request 0): train_trial_index: expected an integer, got a list"),
        ("stats", 7, "per_instance_stats.json: entry 0: stats: expected a list, got an integer"),
        ("stats", [5], None),
    ],
)
def test_wrong_types_in_a_log_of_helm(
    where: str, value: Any, words: str | None, tmp_path: Path
) -> None:
    entry, statistics = (json.loads(json.dumps(document)) for document in (ENTRY, STATISTICS))
    if where == "tags":
        entry["instance"]["references"][0]["tags"] = value
    elif where == "references":
        entry["instance"]["references"] = value
    elif where == "completions":
        entry["result"]["completions"] = value
    elif where == "logprob":
        entry["result"]["completions"] = [
            {"text": "A", "logprob": value},
            {"text": "B", "logprob": value},
        ]
    elif where == "trial":
        entry["train_trial_index"] = value
    else:
        statistics["stats"] = value
    words_of_command = (
        "import",
        helm(tmp_path / "log", entry, statistics),
        "--out",
        tmp_path / "run",
    )
    if words is None:
        run(*words_of_command)
    else:
        assert words in refused(*words_of_command)


def test_nested_json_on_the_first_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "samples_task_2026-01-01.jsonl"
    nested = "[" * 3000 + "]" * 3000
    path.write_text(
        f'{{"doc_id": 0, "arguments": {{}}, "filtered_resps": [], "resps": {nested}}}\n'
    )
    assert f"{path.name}" in refused("import", path, "--out", tmp_path / "run")


def test_a_header_of_too_many_tensors_is_bounded(tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps({f"t{n}": entry for n in range(100_001)}).encode()
    path = tmp_path / "adapter_model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(AdapterError, match="expected at most 100,000 tensors, got 100,001"):
        safetensors_header(path)


def test_an_export_into_a_missing_folder_is_refused_before_the_fit(
    sealed: Path, tmp_path: Path
) -> None:
    """The run is damaged too, which the fit would say."""
    (sealed / "predictions.parquet").write_bytes(b"PAR1")
    missing = tmp_path / "no" / "decision.json"
    message = refused("calibrate", sealed, "--out", tmp_path / "t.json", "--export", missing)
    assert f"no such folder: {missing.parent}" in message
    assert not missing.parent.exists()
    assert not (tmp_path / "t.json").exists()


@pytest.mark.parametrize("cut", [40, -8])
def test_a_damaged_gzip_suite_names_its_file(cut: int, tmp_path: Path) -> None:
    results = write_jsonl(
        tmp_path / "results.jsonl",
        [{"run_id": "a", "payload_sha256": "x", "status": "ok", "engine": "e", "response": {}}],
    )
    suite = tmp_path / "suite.jsonl.gz"
    packed = bytearray(gzip.compress(json.dumps({"scoring": {}} | ENTRY).encode() * 50))
    packed[cut : cut + 6] = b"\xff" * 6
    suite.write_bytes(packed)
    words = ("import", results, "--from", "decision-index", "--suite", suite)
    assert_says(refused(*words, "--out", tmp_path / "run"), "suite.jsonl.gz:", "damaged")


def test_a_wrong_type_of_scoring_names_suite_and_line(tmp_path: Path) -> None:
    results = write_jsonl(
        tmp_path / "results.jsonl",
        [{"run_id": "a", "payload_sha256": "x", "status": "ok", "engine": "e", "response": {}}],
    )
    suite = write_jsonl(
        tmp_path / "suite.jsonl", [{"scoring": {"type": ["one"]}, "_evaluation": {"run_id": "a"}}]
    )
    words = ("import", results, "--from", "decision-index", "--suite", suite)
    message = refused(*words, "--out", tmp_path / "run")
    assert_says(message, "suite.jsonl:1: scoring.type:", "expected text", "got a list")
