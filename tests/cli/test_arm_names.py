"""Display names of arms that do not tell them apart are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import refuser
from run_frames import rows, write_run

from pact_cli.main import main

refused = refuser(main)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[arms.a]\nname = "X"\n[arms.b]\nname = "X"', "arms 'a' and 'b' have the same display"),
        ('[arms.zqa]\nname = "zqb"', "arms 'zqa' and 'zqb' have the same display name 'zqb'"),
        ('[arms.a]\nname = " "', "arms.a.name: expected one line of printable text, got ' '"),
        ("[arms.a]\nname = 4", "arms.a: name: expected text in quotes, got 4"),
    ],
)
def test_names_that_do_not_tell_arms_apart_are_refused(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, arm in enumerate(("zqa", "zqb")):
        write_run(Path(arm), rows(seed, families=6), arm=arm, seed=1)
    Path("pact.toml").write_text(text)
    assert message in refused("report", "zqa", "zqb", "--resamples", 100)
