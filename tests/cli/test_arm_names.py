"""Display names of arms: every output for readers has the name, and no output has the key.

The keys occur in nothing else: neither in folders nor in texts.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from commands import runner
from preregistration.checks import criteria
from run_frames import ablated_rows, rows, write_run

from pact_cli.main import main

run = runner(main)

A, B = "zqa", "zqb"
KEYS = re.compile("zq[ab]")
HOSTILE = "P act & co_1 <b>é日"
LATEX = r"P act \& co\_1 \textless{}b\textgreater{}\'{e}[U+65E5]"
SETTINGS = f'[arms.{A}]\nname = "{HOSTILE}"\n[arms.ZQB]\nname = "Baseline"\ncolour = "#123456"\n'
TABLES = ("main", "paired", "kinds", "cost", "ablations", "answer-scores", "views", "order")
FAST = ("--resamples", 100)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two arms, of which one has a seed more and another K, and their settings."""
    home = tmp_path_factory.mktemp("project")
    for number, (arm, seed, k) in enumerate([(A, 1, 3), (A, 2, 3), (B, 1, 2)]):
        write_run(home / f"runs/{number}", rows(number, k=k, families=15), arm=arm, seed=seed)
    write_run(home / "runs/ablated", ablated_rows(9, families=15), arm=A, seed=1)
    (home / "h.toml").write_text(criteria(arm=A, than=f'{{ arm = "{B}" }}'))
    (home / "pact.toml").write_text(SETTINGS)
    return home


@pytest.fixture(autouse=True)
def _here(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)


@pytest.fixture(scope="module")
def written(project: Path) -> Path:
    """Every file that a report can write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        runs = sorted(map(str, project.glob("runs/*")))
        for command in (("report", "--html", "p.html"), ("paper", "-o", "paper")):
            heard = run(*command, *runs, *FAST, "--criteria", "h.toml", "-v").stderr
            assert not KEYS.search(heard)
        assert HOSTILE in heard
    return project


@pytest.mark.slow
def test_tables_show_names_and_csv_keys(written: Path) -> None:
    latex = {path.stem: path.read_text() for path in (written / "paper").glob("*.tex")}
    texts = [*latex.values()]
    texts += [path.read_text() for path in (written / "paper").glob("*.md")]
    assert not [text for text in texts if KEYS.search(text)]
    for name in TABLES:
        assert LATEX in latex[name]
        assert r"P act &amp; co\_1 &lt;b&gt;é日" in (written / f"paper/{name}.md").read_text()
        with (written / f"paper/{name}.csv").open(newline="") as file:
            cells = {cell for row in csv.reader(file) for cell in row}
        assert cells & {A, B}
        assert not cells & {HOSTILE, "Baseline"}


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
    text: str, message: str, tmp_path: Path
) -> None:
    settings = tmp_path / "other.toml"
    settings.write_text(text)
    runs = ("report", "runs/0", "runs/2", *FAST)
    result = run(*runs, code=1, PACT_EVAL_CONFIG=str(settings))
    assert message in result.stderr
