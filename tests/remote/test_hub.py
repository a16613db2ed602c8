"""Runs on the Hugging Face Hub. A local server stands in for it: its replies are made by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from commands import runner
from messages import assert_says
from run_frames import rows, write_run

from pact_cli.main import main

pytestmark = pytest.mark.slow

run = runner(main)
REPOSITORY = "owner/name"
TOKEN = "hf_of_the_test"  # noqa: S105


class Hub(BaseHTTPRequestHandler):
    """The four addresses of the Hub that reading needs, over a folder; only with the token."""

    folder: Path

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        tree, resolve = (
            f"/api/datasets/{REPOSITORY}/tree/main",
            f"/datasets/{REPOSITORY}/resolve/main/",
        )
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.reply(401, b"{}", "RepoNotFound")
        elif path.startswith(tree):
            self.reply_tree(path.removeprefix(tree).strip("/"))
        elif path.startswith(resolve):
            self.reply_file(self.folder / path.removeprefix(resolve))
        elif path.startswith(f"/api/datasets/{REPOSITORY}"):
            self.reply(200, json.dumps({"id": REPOSITORY, "sha": "0" * 40}).encode())
        else:
            self.reply(404, b"{}", "RepoNotFound")

    def reply_tree(self, name: str) -> None:
        place = self.folder / name
        if not place.is_dir():
            self.reply(404, b"{}", "EntryNotFound")
            return
        entries = [
            {
                "type": "directory" if path.is_dir() else "file",
                "oid": "0" * 40,
                "size": 0 if path.is_dir() else path.stat().st_size,
                "path": str(path.relative_to(self.folder)),
            }
            for path in sorted(place.iterdir())
        ]
        self.reply(200, json.dumps(entries).encode())

    def reply_file(self, path: Path) -> None:
        if path.is_file():
            self.reply(200, path.read_bytes())
        else:
            self.reply(404, b"", "EntryNotFound")

    def reply(self, status: int, content: bytes, code: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "application/json")
        if code is not None:
            self.send_header("X-Error-Code", code)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What a process needs to take the folder `hub` for the repository."""
    (tmp_path / "hub").mkdir()
    handler = type("HubOfTheTest", (Hub,), {"folder": tmp_path / "hub"})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield os.environ | {
            "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_OFFLINE": "0",
            "HF_TOKEN": TOKEN,
        }
        server.shutdown()


def report(url: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "pact_cli", "report", url, "--json", "--resamples", "100"]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def test_a_run_of_a_dataset_repository(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = write_run(tmp_path / "hub" / "runs" / "one", rows(1, families=9, k=2), arm="a", seed=1)
    expected = run("report", folder, "--json", "--resamples", 100).stdout
    for revision in ("", "@main"):
        done = report(f"hf://datasets/{REPOSITORY}{revision}/runs/one", environment)
        assert done.returncode == 0, done.stderr
        assert done.stdout == expected


def test_what_the_hub_does_not_give_is_one_line(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    url = f"hf://datasets/{REPOSITORY}/runs/one"
    assert f"{url}: no such run folder" in report(url, environment).stderr
    done = report(url, environment | {"HF_TOKEN": "hf_another"})
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "set HF_TOKEN" in done.stderr
    assert "hf_another" not in done.stdout + done.stderr
    done = report(url, environment | {"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert_says(done.stderr, "cannot be reached")
    done = report("hf://owner", environment)
    assert "expected hf://datasets/OWNER/NAME" in done.stderr
