"""Runs in an object store. Source of truth: the same run folders on disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import refuser, runner
from messages import assert_says
from remote.s3_server import S3, Lying, Silent, served
from run_frames import edit_run, other_items, rows, write_content_free, write_run

from pact_cli.main import main
from pact_eval import Experiment, read_run
from pact_eval.errors import InputError, MissingExtraError, RunError, TamperedError
from pact_eval.runs import places
from pact_eval.runs.folder import RunWriter, open_run
from pact_eval.runs.places import run_folder, run_folders

run, refused = runner(main), refuser(main)
FEW = ("--resamples", 100)


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """Two runs of two arms, and one of other families."""
    folder = tmp_path / "runs"
    write_run(folder / "one-1", rows(1, families=9, k=2), arm="a", seed=1)
    write_run(folder / "two-1", rows(2, families=9, k=2), arm="b", seed=1)
    write_run(folder / "calibration", other_items(rows(3, families=12, k=2)), arm="a", seed=1)
    return folder


@pytest.fixture
def remote(local: Path, bucket: Path) -> str:
    """The URL of the same folder in the store."""
    shutil.copytree(local, bucket / "runs")
    return f"s3://{bucket.name}/runs"


COMMANDS = {
    "json": "report {0}/one-1 {0}/two-1 --json --resamples 100",
    "arms": "compare a={0}/one-* b={0}/two-* --json --resamples 100",
    "calibrate": "calibrate {0}/calibration --force --mode scalar --out {1}/calibration.json",
    "page": "report {0}/one-1 {0}/two-1 --html {1}/page.html --resamples 100",
    "verify": "verify {0}/one-1 {0}/two-1",
}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_say_of_urls_what_they_say_of_folders(
    command: str, local: Path, remote: str, copied: Path, tmp_path: Path
) -> None:
    texts, made = [], []
    for place in (str(local), remote):
        out = tmp_path / "out"
        out.mkdir()
        result = run(*COMMANDS[command].format(place, out).split())
        texts.append(result.output.replace(place, "PLACE").split())
        made.append(
            {
                path.name: path.read_bytes().replace(place.encode(), b"PLACE")
                for path in sorted(out.rglob("*"))
                if path.is_file()
            }
        )
        shutil.rmtree(out)
    # Lines wrap and columns widen with the length of a name; numbers and words are the same.
    assert [word.strip("-+") for word in texts[0]] == [word.strip("-+") for word in texts[1]]
    assert made[0] == made[1]
    for content in made[1].values():
        assert str(copied).encode() not in content


def test_a_url_may_be_compared_with_a_folder(local: Path, remote: str) -> None:
    expected = run("compare", local / "one-1", local / "two-1", "--json", *FEW).stdout
    output = run("compare", f"{remote}/one-1", local / "two-1", "--json", *FEW).stdout
    assert output.replace(f"{remote}/one-1", str(local / "one-1")) == expected
    assert f'"{remote}/one-1"' in output


@pytest.mark.slow
def test_a_pattern_stands_for_the_runs_that_match(local: Path, remote: str) -> None:
    expected = run("report", local / "one-1", local / "two-1", "--json", *FEW).stdout
    output = run("report", f"{remote}/*-1", "--json", *FEW).stdout
    assert output.replace(remote, str(local)) == expected
    with pytest.raises(RunError, match="/runs/none-\\*: no such run"):
        run_folders([f"{remote}/none-*"])
    with pytest.raises(RunError, match="expected one run .*pattern"):
        run_folder(f"{remote}/*-1")


def test_a_calibrator_in_the_store_is_applied(local: Path, remote: str, bucket: Path) -> None:
    calibrated = local / "one-1" / "calibration.json"
    run("calibrate", local / "calibration", "--force", "--out", calibrated, "--mode", "scalar")
    shutil.copy(calibrated, bucket / "runs" / "one-1")
    words = ("--calibration", "own", "--json", *FEW)
    errors = runner(main)("compare", f"{remote}/one-1", f"{remote}/two-1", *words, code=1).stderr
    assert_says(errors, f"{remote}/two-1: ", "calibration.json", "found none")
    expected = Experiment.read([local / "one-1"]).runs[0].calibrator
    assert expected is not None
    assert Experiment.read([f"{remote}/one-1"]).runs[0].calibrator == expected


def test_a_run_is_copied_again_if_it_changes(remote: str, bucket: Path, copied: Path) -> None:
    url = f"{remote}/one-1"
    first = open_run(url).folder
    assert open_run(url).folder == first
    assert len([*copied.glob("*/*")]) == 1
    edit_run(bucket / "runs" / "one-1", arm="renamed")
    second = open_run(url)
    assert (second.arm, second.place) == ("renamed", url)
    assert second.folder != first
    shutil.rmtree(bucket / "runs" / "one-1")
    with pytest.raises(RunError, match="one-1: no such run"):
        open_run(url)


@pytest.mark.slow
def test_content_free_prompts_are_read_with_their_run(
    local: Path, remote: str, bucket: Path
) -> None:
    for folder in (local, bucket / "runs"):
        write_content_free(folder / "one-1", rows(1, families=9, k=2))
    words = ("sweep", "--remedies", "--json", *FEW)
    expected = run(*words, local / "one-1").stdout
    assert '"contextual": true' in expected
    assert run(*words, f"{remote}/one-1").stdout.replace(remote, str(local)) == expected
    verified = run("verify", f"{remote}/one-1").stdout
    assert_says(verified, "content-free", "ok", "54 items")
    content_free = bucket / "runs" / "one-1" / "content-free"
    edit_run(content_free, settings={"k": 1})
    assert_says(run("verify", f"{remote}/one-1", code=5).stdout, "content-free", "differs")
    shutil.rmtree(content_free)
    without = run(*words, f"{remote}/one-1").stdout
    assert '"contextual": true' not in without


def test_changed_rows_are_refused(remote: str, bucket: Path, local: Path) -> None:
    for folder in (bucket / "runs", local):
        path = folder / "one-1" / "predictions.parquet"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    remote_result = run("report", f"{remote}/one-1", code=5)
    local_result = run("report", local / "one-1", code=5)
    assert_says(remote_result.stderr, "one-1/predictions.parquet: changed", "sealed")
    assert remote_result.stderr.replace(remote, str(local)) == local_result.stderr
    with pytest.raises(TamperedError, match=rf"^{remote}/one-1/predictions.parquet"):
        read_run(f"{remote}/one-1")


def test_what_is_not_a_run_is_named(remote: str, bucket: Path) -> None:
    assert f"{remote}/none: no such run" in refused("report", f"{remote}/none")
    assert "it holds 3 folders: give '" in refused("report", remote)
    (bucket / "runs" / "one-1" / "predictions.parquet").unlink()
    assert_says(refused("report", f"{remote}/one-1"), "one-1: ", "not complete")
    assert "no such bucket" in refused("report", "s3://no-such-bucket/runs/one-1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_SECRET_ACCESS_KEY", "another-secret"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
        ("AWS_ALLOW_HTTP", "false"),
    ],
)
def test_an_environment_that_cannot_read_is_one_line_without_keys(
    name: str, value: str, remote: str, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    for words in (("report", f"{remote}/one-1"), ("report", f"{remote}/*")):
        message = refused(*words)
        assert message.count("\n") == 1
        assert_says(message, "denies access", "cannot be reached", name)
        assert s3.secret not in message
        assert value == "false" or value not in message


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://AKIA:hunter2@bucket/run", "a URL may not hold credentials"),
        ("s3://AKIA:hun/ter2@bucket/run", "a URL may not hold credentials"),
        ("s3://bucket/run?X-Amz-Signature=hunter2", "without a query or signature"),
        ("https://bucket.s3.amazonaws.com/hunter2", "expected a path, or a URL that begins with"),
        ("s3://bucket/runs/../run", "expected names between single slashes"),
        ("s3://bucket/a\\b", "expected names between single slashes"),
        ("s3://bucket/*/run", "in the last part only"),
    ],
)
def test_urls_that_are_refused(url: str, expected: str, copied: Path) -> None:
    message = refused("report", url)
    assert expected in message
    assert not any(secret in message for secret in ("hunter2", "hun/ter2", "ter2@"))
    with pytest.raises(InputError):
        read_run(url)


def test_nothing_is_written_to_a_store(remote: str, bucket: Path, local: Path) -> None:
    before = sorted(path for path in bucket.rglob("*"))
    for words in (
        ("report", local / "one-1", "--html", f"{remote}/page.html"),
        ("import", local / "one-1", "--out", f"{remote}/imported"),
        ("paper", "--tables", "all", local / "one-1", "--out", f"{remote}/tables"),
    ):
        assert_says(refused(*words, code=2), "local path", "URL")
    with pytest.raises(InputError, match="nothing is written"):
        RunWriter(Path(f"{remote}/new"), {}, {})
    message = refused("calibrate", f"{remote}/calibration", "--mode", "scalar", "--force")
    assert_says(message, f"{remote}/calibration/calibration.json: ", "nothing is written")
    assert sorted(path for path in bucket.rglob("*")) == before
    assert not Path("s3:").exists()


def test_the_extra_is_named(remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.fsspec", None)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for url, library in ((f"{remote}/one-1", "obstore"), ("hf://datasets/o/n", "huggingface_hub")):
        with pytest.raises(MissingExtraError, match=f"needs {library}.*\\[remote\\]"):
            read_run(url)


@pytest.fixture
def lying(
    tmp_path: Path, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, int]]:
    """The keys and sizes that a lying server lists; every file has five bytes."""
    sizes: dict[str, int] = {}
    for server in served(tmp_path, backend=Lying(sizes, b"{   }")):
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield sizes


def test_a_run_that_changes_while_it_is_copied_is_refused(
    remote: str, bucket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = places._ranges

    def changing(store: Any, url: str, size: int) -> Iterator[bytes]:
        yield from ranges(store, url, size)
        (bucket / "runs" / "one-1" / "calibration.json").write_text("{}")

    monkeypatch.setattr(places, "_ranges", changing)
    assert_says(refused("report", f"{remote}/one-1"), "changed while", "copied")


def test_a_run_that_does_not_fit_the_disk_is_refused(lying: dict[str, int], copied: Path) -> None:
    lying |= {"run/run.json": 5, "run/predictions.parquet": 1 << 60}
    message = refused("report", "s3://bucket/run")
    assert_says(message, "1,152,921,504,606,846,981 bytes", "set TMPDIR")


def test_folders_with_names_that_lead_elsewhere_are_refused(lying: dict[str, int]) -> None:
    lying |= {"runs/a\\..\\b/run.json": 5}
    assert_says(refused("report", "s3://bucket/runs/*"), "cannot be the name", "local file")


@pytest.mark.slow
def test_copies_are_removed_at_the_end_and_after_ctrl_c(
    remote: str, s3: S3, bucket: Path, tmp_path: Path
) -> None:
    space = tmp_path / "space"
    space.mkdir()
    environment = os.environ | {"TMPDIR": str(space)}
    words = [sys.executable, "-m", "pact_cli", "report", f"{remote}/one-1", "--resamples", "100"]
    done = subprocess.run(words, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not [*space.iterdir()]
    silent = Silent()
    for slow in served(s3.folder, backend=silent):
        process = subprocess.Popen(
            words,
            env=environment | slow.environment,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            assert silent.request_arrived.wait(60)
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
        assert b"interrupted" in errors
        assert time.monotonic() - started < 30  # and not the minute of the server
        assert not [*space.iterdir()]
