"""`pact-eval paper` of published metrics, without a run."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
from commands import refuser, runner
from messages import assert_says
from released_results import write_result_folder
from reports.tables.table_runs import run_of, share

from pact_cli.main import main

HEADER = "run,seed,decoding,group,count,pairs,accuracy,pair_accuracy,nll,ece,aurc,permutation_tv\n"
PLANTED = (
    "base,,single,all,40,20,0.5,0.25,1.1,0.3,0.2,",
    "pact,17,single,all,40,20,0.8,0.6,0.5,0.10,0.04,",
    "pact,18,single,all,40,20,0.9,0.8,0.4,0.12,0.02,",
    "ce,17,single,all,40,20,0.7,0.5,0.6,0.20,0.06,",
    "ce,18,single,all,40,20,0.8,0.5,0.6,0.20,0.06,",
    "pact,17,single_calibrated,all,40,20,0.8,0.6,0.45,0.05,0.04,",
    "pact,18,single_calibrated,all,40,20,0.9,0.8,0.41,0.06,0.02,",
    "pact,17,ensemble,all,40,20,0.85,0.7,0.4,0.04,0.03,0.08",
    "pact,18,ensemble,all,40,20,0.9,0.8,0.3,0.06,0.02,0.06",
    "pact,17,single,choice,30,15,0.75,0.5,0.6,0.12,0.05,",
    "pact,17,single,noul,10,5,0.95,0.9,0.2,0.04,0.01,",
)
MADE = {"main", "views", "ablations", "kinds", "calibration"}

tables = runner(main, "paper", "--tables", "all")


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    path = tmp_path / "metrics.csv"
    path.write_text(HEADER + "".join(f"{line}\n" for line in PLANTED), encoding="utf-8")
    return path


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_tables_have_the_planted_numbers(planted: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = tables(planted, "-o", out, "--json")
    written = json.loads(done.stdout)
    assert written["files"]["tables"].keys() == MADE | {"report"}
    by_arm = {row["Arm"]: row for row in read_csv(out / "main.csv")}
    assert list(by_arm) == ["base", "pact", "ce"]
    pact = by_arm["pact"]
    assert float(pact["Accuracy mean (fraction, single)"]) == pytest.approx(0.85, abs=1e-12)
    deviation = float(pact["Accuracy deviation (fraction, single)"])
    assert deviation == pytest.approx(math.sqrt(0.005), abs=1e-12)
    assert by_arm["base"]["Accuracy deviation (fraction, single)"] == ""
    assert float(pact["ECE after T(x) mean (fraction, single_calibrated)"]) == pytest.approx(0.055)
    views = {row["Arm"]: row for row in read_csv(out / "views.csv")}
    tv = views["pact"]["TV after T(x) mean (fraction, ensemble_calibrated)"]
    assert float(tv) == pytest.approx(0.07)
    gain = float(views["pact"]["Gain mean (fraction, ensemble)"])
    assert gain == pytest.approx(0.025, abs=1e-12)
    ablations = read_csv(out / "ablations.csv")
    assert [(row["Seed"], row["Arm"]) for row in ablations] == [
        ("17", "pact"),
        ("17", "ce"),
        ("18", "pact"),
        ("18", "ce"),
    ]
    change = float(ablations[1]["Accuracy minus the method's (fraction, single)"])
    assert change == pytest.approx(-0.1, abs=1e-12)
    kinds = [row for row in read_csv(out / "kinds.csv") if row["Arm"] == "pact"]
    assert [float(kinds[0][f"{kind} (fraction, single)"]) for kind in ("Choice", "Boolean")] == [
        0.75,
        0.95,
    ]
    calibration = {row["Seed"]: row for row in read_csv(out / "calibration.csv")}
    assert calibration["18"]["NLL after mark"] == "worse"


def test_runs_and_published_metrics_are_not_mixed(planted: Path, tmp_path: Path) -> None:
    folder = run_of(tmp_path / "a-17", share(20, 40), arm="a", seed=17)
    refused = refuser(main)("paper", "--tables", "all", planted, folder, "-o", tmp_path / "out")
    assert_says(refused, "published metrics alone", "runs alone")


@pytest.mark.parametrize("only", ["--tables", "--figures"])
@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"{HEADER}pact,17,single,all,40,20,0.8,0.6,much,0.1,0.04,\n", ":2: column nll: "),
        (f"{HEADER}pact,17,single,all,40,20,80,0.6,0.5,0.1,0.04,\n", ":2: column accuracy: "),
        (f"{HEADER}pact,17,single,all,40,20,0.8\n", ":2: expected 12 cells"),
        (f'{HEADER}"pact,17,single,all\n', ":2: not a CSV table"),
        ("run,seed,accuracy\n", ":1: expected a table with the columns"),
        ("run,seed,decoding,group,ece,ece\n", ":1: column ece appears twice"),
    ],
)
def test_a_malformed_table_ends_with_line_and_column(
    only: str, text: str, place: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    refused = refuser(main)("paper", only, "all", path, "-o", tmp_path / "out")
    assert f"{path}{place}" in refused
    assert not (tmp_path / "out").exists()


def test_a_table_without_rows_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text(HEADER, encoding="utf-8")
    refused = refuser(main)("paper", "--tables", "all", path, "-o", tmp_path / "out")
    assert_says(refused, "empty.csv: expected", "got no number")
    missing = refuser(main)(
        "paper", "--tables", "all", tmp_path / "none.csv", "-o", tmp_path / "out"
    )
    assert "none.csv: no such file" in missing


def test_a_damaged_file_among_published_ones_is_named_with_a_remedy(
    tmp_path: Path, made_files: Path
) -> None:
    folder = write_result_folder(made_files, tmp_path / "released")
    damaged = sorted(folder.rglob("results.json"))[1]
    damaged.write_bytes(damaged.read_bytes()[:200])
    message = refuser(main)("paper", folder, "--tables", "main", "-o", tmp_path / "out")
    assert_says(message, str(damaged), "not valid JSON", "copy this file again")
