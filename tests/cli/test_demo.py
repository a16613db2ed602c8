"""The demo: its tables become runs and a page without a model; with one, it scores adapters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands import refuser, runner
from messages import assert_says

from pact_cli.main import main

say, refused = runner(main), refuser(main)

WITHOUT_TORCH = """
import sys
for name in ("torch", "transformers", "peft", "tokenizers"):
    sys.modules[name] = None
from pact_cli.main import main
main(sys.argv[1:])
"""


def test_the_demo_needs_no_torch_and_says_what_was_planted(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH, "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert_says(done.stdout, "made-up", "tickets-new", "FOLLOWS THE LETTER A", "OVER-CONFIDENT")
    assert_says(done.stdout, "no difference shown", "Next: pact-eval report")
    runs = [f"runs/tickets-{version}" for version in ("old", "new")]
    assert (tmp_path / "runs" / "demo.html").stat().st_size > 100_000
    scored = [sys.executable, "-c", WITHOUT_TORCH, "demo", "--score"]
    lacking = subprocess.run(scored, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert lacking.returncode == 1
    assert_says(lacking.stderr, "model")
    verify = [sys.executable, "-m", "pact_cli", "verify", *runs]
    assert subprocess.run(verify, cwd=tmp_path, capture_output=True, check=False).returncode == 0


def test_the_demo_replaces_no_file_of_yours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "tickets-old.csv"
    own.write_text("mine\n", encoding="utf-8")
    assert_says(refused("demo"), "tickets-old.csv", "another folder")
    assert own.read_text(encoding="utf-8") == "mine\n"
    assert [path.name for path in tmp_path.iterdir()] == ["tickets-old.csv"]


@pytest.mark.slow
def test_the_demo_scores_the_adapters_again_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for options in ((), ("--score",)):  # numbers of what is scored ask for it, too
        said = say("demo", *options, "--k", 2, "--limit", 12).stdout
        assert_says(said, "runs/demo-nimble_recipe", "next: pact-eval compare runs/demo-pact")
    assert (tmp_path / "runs" / "demo.html").exists()
    assert not list(tmp_path.glob("*.csv"))
