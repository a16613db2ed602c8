"""`pact-eval report` with several runs, and with files to write."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from commands import runner, with_settings
from preregistration.checks import criteria
from reports.page.page_runs import two_runs

from pact_cli.audit.main import main as audit_main
from pact_cli.main import main

run = runner(main, "report")

FAST = ("--resamples", 200)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Path]:
    return two_runs(tmp_path_factory.mktemp("runs"), families=12)


@pytest.fixture(scope="module")
def folders(made: tuple[list[Path], Path]) -> list[Path]:
    return made[0]


def data_finding(page: Path) -> str:
    """Returns the finding on the data of a page."""
    text = page.read_text(encoding="utf-8")
    section = text[text.index('<section id="data"') :]
    (finding,) = re.findall(r"<strong class=.*?>(.*?)</strong>", section[: section.index("</ul>")])
    return re.sub("<.*?>", "", finding)


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure")
def test_the_page_audits_its_data_or_takes_an_audit(
    made: tuple[list[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders, data = made
    page, audit = tmp_path / "page.html", tmp_path / "audit.json"
    words = ["data", "--eval", str(data), "--json"]  # its exit code depends on the findings
    audit.write_text(CliRunner().invoke(audit_main, words).stdout)
    value = json.loads(audit.read_text())
    write = (*folders, *FAST, "--html", page)
    of_audit = with_settings(tmp_path, "report", audit=str(audit))
    run(*write, **of_audit)  # the runs record another dataset than the one audited
    assert data_finding(page) == "Not checked"
    recorded = json.loads((folders[0] / "run.json").read_bytes())["settings"]["data"]["sha256"]
    value["files"][0]["sha256"] = recorded
    audit.write_text(json.dumps(value))
    counts = value["counts"]
    expected = value["conclusion"]["status"].capitalize()
    assert (expected == "Problems") == (counts["error"] > 0)
    run(*write, "--data", data)
    assert data_finding(page) == expected
    run(*write, **of_audit)
    assert data_finding(page) == expected
    monkeypatch.setattr("pact_eval.evaluation.run_records.MOST_AUDITED", 1)
    run(*write, "--data", data)
    assert data_finding(page) == "Not checked"


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure")
def test_criteria_that_were_tampered_with(folders: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "h.toml"
    path.write_text(criteria(arm="pact", than='{ arm = "other" }'))
    runner(main)("register", path)
    path.write_text(path.read_text().replace('is = "higher"', 'is = "lower"'))
    out = tmp_path / "page.html"
    scorecard = runner(main, "scorecard")
    result = scorecard(path, *folders, *FAST, "--html", out, code=5)
    assert "TAMPERED" in result.stderr
    page = out.read_text(encoding="utf-8")
    better = page[page.index('<section id="better"') :]
    finding = better[: better.index("</li>")]
    assert 'class="bad"' in finding
    assert "Registration: TAMPERED" in finding
    assert "prove nothing" in finding
    assert '<a href="#better">Registration: TAMPERED</a>' in page
    assert "table-scorecard" in better[: better.index("<details")]


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure")
def test_the_scorecard_writes_the_page_with_its_verdicts(
    folders: list[Path], tmp_path: Path
) -> None:
    path, out = tmp_path / "h.toml", tmp_path / "page.html"
    path.write_text(criteria(arm="pact", than='{ arm = "other" }'))
    words = (path, *folders, *FAST, "--full")
    alone, with_page = (runner(main, "scorecard")(*words, *more) for more in ((), ("--html", out)))
    assert with_page.stdout == alone.stdout
    (verdict,) = re.findall(r"^H1 .*: ([A-Z]+)", alone.stdout, re.MULTILINE)
    assert f">{verdict}" in out.read_text(encoding="utf-8")
    assert runner(main, "verify")(out, *folders).exit_code == 0


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (("--html", "nowhere/page.html"), "no such folder to write page.html to", 1),
        (("--html", "."), "expected a file to write to, got a folder", 1),
        (("--html", "page.html", "--data", "nowhere"), "file or folder of records not found", 1),
        (("--data", "eval.jsonl"), "eval.jsonl", 1),
        (("--palette", "p.toml"), "palette = ... below [options.report] in pact.toml", 2),
        (("--html", "page.html", "--calibration", "c.json"), "FILE is for one run", 2),
        (("--calibration", "c.json"), "FILE is for one run", 2),
    ],
)
def test_bad_input_is_told(
    folders: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    message: str,
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*folders, *FAST, *options, code=code)
    assert message in " ".join(result.stderr.split())
    assert not list(tmp_path.iterdir())
