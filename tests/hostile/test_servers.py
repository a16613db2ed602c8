"""Runs on a hostile server: each ends in time, in bounded memory, and with no wrong answer.

`make test-all` runs every tenth mode on each wire, `make fuzz` all modes on all wires.
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.parse
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest
from builders import record, write_jsonl
from click.testing import CliRunner
from commands import with_settings
from hostile import campaigns
from hostile.servers import KEY, MODES, WIRES, HostileServer, Mode, hostile_server
from scoring.conftest import MODEL

from pact_cli.main import main
from pact_eval.scoring.servers import client
from pact_eval.scoring.servers.wire import WireName

ALL = "PACT_FUZZ" in os.environ
TRIES = 2
ITEMS = 32
MOST_BYTES = 2**30
SLACK_SECONDS = 30.0  # this machine may be busy


def test_every_wire_has_a_hostile_server() -> None:
    """A new wire without one fails here."""
    assert {*WIRES} == {*get_args(WireName)} - {"auto"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [record(f"f{n}-base", state=f"Clerk: parcel {n} is open.") for n in range(ITEMS)]
    return write_jsonl(tmp_path_factory.mktemp("data") / "d.jsonl", rows)


@pytest.fixture(autouse=True)
def _short_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TRIES", TRIES)
    monkeypatch.setattr(client, "_FIRST_PAUSE", 1e-3)
    monkeypatch.setenv("PACT_KEY", KEY)


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
def test_every_mode_ends_in_time_and_without_a_wrong_answer(
    wire: str, data: Path, tmp_path: Path
) -> None:
    names = [*MODES] if ALL else [*MODES][1 + WIRES.index(wire) :: 10]
    failures = {}
    with hostile_server() as server:
        expected = scored(server, MODES["healthy"], wire, data, tmp_path / "healthy")
        for name in names:
            try:
                rows = scored(server, MODES[name], wire, data, tmp_path / name)
                check_rows(rows, expected, all_of_them=MODES[name].answered)
            except AssertionError as error:
                failures[name] = str(error)[:1000]
    assert not failures, json.dumps(failures, indent=1)


def scored(
    server: HostileServer, mode: Mode, wire: str, data: Path, out: Path
) -> dict[tuple[str, int], Any]:
    """Scores through a server in a mode; returns the answered rows, by item and view."""
    server.mode, server.previous = mode, None
    words = ["score", "--data", data, "--out", out, "--server", server.url, "--model", "m"]
    words += ["--wire", wire, "--k", 2, "--api-key-env", "PACT_KEY"]
    words += [] if mode.probe else ["--no-probe"]
    env = with_settings(out.parent, "score", timeout=mode.timeout, concurrency=64)
    words += ["--tokenizer", MODEL] if wire in ("vllm", "sglang") else []
    before, started = campaigns._reset_peak(), time.monotonic()
    result = CliRunner(env=env).invoke(main, [*map(str, words)])
    seconds, memory = time.monotonic() - started, campaigns._peak() - before
    campaigns.check_end(result)
    # Five requests that fail end a run, and until the first reply a try has five times as long.
    assert seconds < 5 * TRIES * 5 * mode.timeout + SLACK_SECONDS, f"{seconds:.0f} s"
    assert memory < MOST_BYTES, f"{memory:,} bytes"
    check_key(result.output)
    for file in out.rglob("*"):
        check_key(file.read_bytes().decode("latin-1") if file.is_file() else "")
    rows_path = out / "predictions.parquet"
    if not rows_path.exists():
        assert result.exit_code != 0, result.output
        return {}
    rows = pl.read_parquet(rows_path).filter(pl.col("logits").list.len() > 0)
    return {(row["id"], row["view"]): row["logits"] for row in rows.iter_rows(named=True)}


def check_rows(rows: dict[Any, Any], expected: dict[Any, Any], *, all_of_them: bool) -> None:
    wrong = [place for place, logits in rows.items() if logits != expected[place]]
    assert not wrong, f"answers of other items: {len(wrong)} of {len(rows)}"
    assert not all_of_them or rows.keys() == expected.keys(), f"{len(rows)} rows"


def check_key(text: str) -> None:
    """Asserts that a text has the key in no spelling."""
    plain = re.sub(r"\\u00(..)", lambda match: chr(int(match[1], 16)), urllib.parse.unquote(text))
    for spelling in (text, plain, plain.replace("\\", "")):
        assert KEY.lower() not in spelling.lower(), "the key is shown"
        assert KEY[:-4].lower() not in spelling.lower(), "a part of the key is shown"
