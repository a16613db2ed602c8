"""`pact-eval report FOLDER`: one line per run, whatever state the run is in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import refuser, runner
from run_frames import labels, rows, write_run

from pact_cli.main import main
from pact_eval._json import Json
from pact_eval.runs.folder import RunWriter
from pact_eval.runs.provenance import write_provenance

run = runner(main)
refused = refuser(main)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def listed(*words: object) -> dict[str, dict[str, Any]]:
    return {
        entry["folder"]: entry
        for entry in json.loads(run("report", *words, "--json").stdout)["runs"]
    }


def unfinished(folder: Path) -> Path:
    settings: dict[str, Json] = {
        "k": 3,
        "data": {"sha256": "0" * 64, "records": 120},
        "adapter": None,
    }
    with RunWriter(folder, settings, {"arm": "c", "seed": 2, "command_line": []}) as writer:
        writer.write_part(0, rows(1))
    return folder


def test_an_unfinished_run_says_how_many_views_are_scored(home: Path) -> None:
    unfinished(home / "runs" / "c-2")
    (entry,) = listed().values()
    assert (entry["state"], entry["views"], entry["views_wanted"]) == ("resumable", 180, 360)
    text = run("report").stdout
    assert "resumable: 180 of 360 views" in text
    assert "repeat the command" in text


def test_changed_and_foreign_folders_do_not_end_the_list(home: Path) -> None:
    changed = write_run(home / "runs" / "changed", rows(1), arm="a")
    write_provenance(changed, labels(changed) | {"arm": "better"})
    torn = unfinished(home / "runs" / "torn")
    next((torn / "parts").iterdir()).write_bytes(b"")
    old = home / "runs" / "old"
    old.mkdir()
    (old / "run.json").write_text('{"format_version": 1}')
    write_run(home / "runs" / "zero", rows(1))
    (home / "runs" / "notes").mkdir()
    (home / "runs" / "demo.html").write_text("")
    entries = listed()
    states = {Path(name).name: entry["state"] for name, entry in entries.items()}
    assert states == {
        "changed": "tampered",
        "old": "unreadable",
        "torn": "tampered",
        "zero": "complete",
    }
    assert entries["runs/changed"]["arm"] is None
    text = run("report").stdout
    assert "changed since the" in text
    assert "expected run format 3, got 1" in text
    assert "`pact-eval verify RUN`" in text


def test_a_missing_folder_is_an_error(home: Path) -> None:
    assert "no folder runs here" in refused("report", code=2)


def test_hostile_names_stay_in_their_line(home: Path) -> None:
    write_run(home / "runs" / "[red]x\n", rows(1), arm="\x1b[2J")
    text = run("report").stdout
    assert "\x1b" not in text
    assert "[red]x\\n" in text
