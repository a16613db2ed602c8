"""`split`, `convert` and `ablate`, killed at any moment: the same command completes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import killed
import pytest
from spoiled_datasets import healthy

pytestmark = [pytest.mark.slow, pytest.mark.posix]

TABLE = "id,text,label,source_family\n" + "".join(
    f"r{number},Is this {'good' if number % 2 else 'bad'} number {number}?,"
    f"{'pos' if number % 2 else 'neg'},s{number % 6}\n"
    for number in range(40)
)
FEW = 4  # changes to the folder that a command makes at least


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, without what a kill left of a temporary one."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".tmp"}


@pytest.mark.parametrize(
    "words",
    [
        "split records.jsonl --out {out}",
        "split table.csv --out {out}",
        "convert table.csv {out}/eval.jsonl",
        "ablate records.jsonl --out {out}/ablated.jsonl",
    ],
)
def test_the_same_command_completes_what_a_kill_left(tmp_path: Path, words: str) -> None:
    (healthy().write(tmp_path / "data") / "train.jsonl").rename(tmp_path / "records.jsonl")
    (tmp_path / "table.csv").write_text(TABLE)
    folder = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, killed.__file__, folder, "pact-audit", *words.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)
    assert len(codes) >= FEW
    assert set(codes) == {0}, done.stderr
    undisturbed = contents(folder / str(len(codes)))
    for number in range(len(codes)):
        assert contents(folder / str(number)) == undisturbed
