"""Commands on a full disk: one message, and every file as before or complete."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from full_disks import files_of_at_most
from messages import assert_says
from run_frames import rows, write_run
from spoiled_datasets import healthy

from pact_cli.audit.main import main as pact_audit
from pact_cli.main import main as pact_eval

pytestmark = pytest.mark.posix

ADVICE = "cannot be written (File too large); free some space or write to another disk"


def run(*arguments: object, limit: int | None = None) -> Result:
    words = [str(argument) for argument in arguments]
    main = pact_audit if words[0] == "split" else pact_eval
    if limit is None:
        return CliRunner().invoke(main, words)
    with files_of_at_most(limit):
        return CliRunner().invoke(main, words)


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def refused(result: Result, path: Path) -> None:
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert f"{path}" in result.stderr
    assert ADVICE in result.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return write_run(folder / "a", rows(1, families=9)), write_run(
        folder / "b", rows(2, families=9)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (["report", "RUNS", "--resamples", "100", "--html", "OUT/page.html"], 50_000),
        (["paper", "RUNS", "--resamples", "100", "--tables", "main", "--out", "OUT"], 1_000),
        (["paper", "RUNS", "--resamples", "100", "--figures", "main", "--out", "OUT"], 5_000),
    ],
)
def test_a_good_file_is_never_replaced_by_a_truncated_one(
    tmp_path: Path, runs: tuple[Path, Path], words: list[str], limit: int
) -> None:
    named = [word.replace("OUT", str(tmp_path)) for word in words]
    arguments = [argument for word in named for argument in (runs if word == "RUNS" else (word,))]
    assert run(*arguments).exit_code == 0
    before = content(tmp_path)
    assert any(len(raw) > limit for raw in before.values())
    refused(run(*arguments, limit=limit), tmp_path)
    assert content(tmp_path) == before


def test_an_import_that_did_not_fit_is_complete_after_the_same_command(tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text(
        "".join(
            f'{{"id": "{n}", "reference": 0, "probabilities": [0.{n + 1}, 0.{9 - n}0]}}\n'
            for n in range(8)
        ).replace("0.90]", "0.9]")
    )
    refused(run("import", source, "--out", tmp_path / "run", limit=1_000), tmp_path / "run")
    again = run("import", source, "--out", tmp_path / "run")
    assert again.exit_code == 0, again.output
    assert run("import", source, "--out", tmp_path / "other").exit_code == 0
    ours, expected = content(tmp_path / "run"), content(tmp_path / "other")
    assert ours["predictions.parquet"] == expected["predictions.parquet"]


def test_a_split_that_does_not_fit_leaves_no_file(tmp_path: Path) -> None:
    source = healthy().write(tmp_path / "data") / "train.jsonl"
    arguments = ("split", source, "--out", tmp_path / "out", "--select", 2, "--calibrate", 2)
    refused(run(*arguments, limit=source.stat().st_size // 2), tmp_path / "out")
    assert content(tmp_path / "out") == {}
    assert run(*arguments).exit_code == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_device_is_named(runs: tuple[Path, Path]) -> None:
    result = run("report", runs[0], "--html", "/dev/full")
    assert result.exit_code == 1
    assert_says(result.stderr, "/dev/full: cannot be written", "No space left", "free some")
