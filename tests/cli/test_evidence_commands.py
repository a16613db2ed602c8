"""`calibrate`, `compare`, `sweep` and `report --calibration` as a user meets them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result
from run_frames import rows, write_run

from pact_cli.evaluate import main

FAST = ("--resamples", "200")


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def refused(*arguments: object, code: int = 1) -> str:
    result = run(*arguments, code=code)
    assert result.stdout == ""
    return result.stderr


@pytest.fixture
def a(tmp_path: Path) -> Path:
    return write_run(tmp_path / "a-17", rows(1), arm="a", seed=17)


@pytest.fixture
def b(tmp_path: Path) -> Path:
    return write_run(tmp_path / "b-17", rows(2, skill=2.0), arm="b", seed=17)


@pytest.fixture
def calibration_run(tmp_path: Path) -> Path:
    """The same items under names of their own, 200 families."""
    frame = rows(9, families=200).with_columns(
        *(pl.format("calib-{}", pl.col(name)).alias(name) for name in ("id", "family")),
        source_family=pl.format("c{}", pl.col("source_family")),
    )
    return write_run(tmp_path / "calib", frame)


def test_two_runs_side_by_side(a: Path, b: Path) -> None:
    text = run("compare", a, b, *FAST, "--holm", "--mcnemar", "--equivalence-margin", 0.5).stdout
    assert text.startswith(f"Decoding: single, raw.\nA = {a}\nB = {b}\n60 items, 30 families;")
    for words in ("Holm", "McNemar", "sign flip", "Only A is right (", "Only B is right ("):
        assert words in text
    assert "Accuracy, margin 50.0 points: " in text
    assert "Smallest difference that this holdout shows with 80% power" in text
    value = json.loads(run("compare", a, b, *FAST, "--json").stdout)
    (comparison,) = value["comparisons"]
    groups = {group["name"]: group for group in comparison["comparison"]["groups"]}
    assert list(groups) == ["all", "choice", "boolean", "score"]
    metric = groups["all"]["metrics"]["accuracy"]
    assert metric["difference"]["value"] == pytest.approx(
        metric["a"]["value"] - metric["b"]["value"]
    )


def test_more_runs_are_each_compared_with_the_first(a: Path, b: Path, tmp_path: Path) -> None:
    c = write_run(tmp_path / "c", rows(3))
    text = run("compare", a, b, c, *FAST, "--decoding", "ensemble").stdout
    assert text.count(f"A = {a}") == 2
    assert f"B = {c}" in text


def test_arms_over_seeds(a: Path, b: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "a-18", rows(11), arm="a", seed=18)
    write_run(tmp_path / "b-18", rows(12, skill=2.0), arm="b", seed=18)
    arguments = (f"a={tmp_path}/a-*", f"b={tmp_path}/b-*")
    text = run("compare", "--arms", *arguments, *FAST, "--holm").stdout
    assert "seeds 17, 18" in text
    assert " ± " in text
    assert "a - b, seed by seed" in text
    value = json.loads(run("compare", "--arms", *arguments, *FAST, "--json").stdout)
    assert [arm["seeds"] for arm in value["arms"]["arms"]] == [[17, 18], [17, 18]]


def test_what_cannot_be_compared_is_told(a: Path, b: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", rows(2, families=20))
    assert "20 only in" in refused("compare", a, other, *FAST)
    assert "expected two runs or more, got 1" in refused("compare", a, code=2)
    assert "expected NAME=PATTERN" in refused("compare", "--arms", a, b)
    assert "no such run folder" in refused("compare", "--arms", "a=none*", f"b={b}")
    assert "two arms or more" in refused("compare", "--arms", f"a={a}")
    twin = write_run(tmp_path / "a-17-again", rows(4), arm="a", seed=17)
    assert "two runs with seed 17" in refused("compare", "--arms", f"a={a}", f"a={twin}")
    nameless = write_run(tmp_path / "nameless", rows(4))
    assert "has no seed" in refused("compare", "--arms", f"a={nameless}", f"b={b}")
    assert "expected calibration.json in the run folder" in refused("compare", a, b, "--calibrated")


def test_a_sweep_shows_every_number_of_views(a: Path) -> None:
    text = run("sweep", a, *FAST).stdout
    assert [line.split("|")[1].strip() for line in text.splitlines() if "[" in line][::1][0] == "1"
    value = json.loads(run("sweep", a, "--k", "2..3", *FAST, "--json").stdout)
    assert [point["k"] for point in value["points"]] == [2, 3]
    assert json.loads(run("sweep", a, "--k", "2", *FAST, "--json").stdout)["points"][0]["k"] == 2
    assert "from 1 to 3, got 1 to 9" in refused("sweep", a, "--k", "1..9")
    assert "expected a number or FROM..TO" in refused("sweep", a, "--k", "all", code=2)


def test_a_calibrator_is_fitted_shown_written_and_applied(
    calibration_run: Path, a: Path, b: Path
) -> None:
    result = run("calibrate", calibration_run, "--holdout", a, "--holdout", b)
    assert "NLL on source families left out" in result.stdout
    assert f"wrote {calibration_run / 'calibration.json'}" in result.stdout
    written = [json.loads((each / "calibration.json").read_bytes()) for each in (a, b)]
    assert written[0] == written[1]
    assert written[0]["format"] == "pact-calibrator-1"
    assert written[0]["fit"]["run"]["data_sha256"] == "0" * 64
    assert (
        "Decoding: single, calibrated"
        in run("report", a, *FAST, "--calibration", a / "calibration.json").stdout
    )
    assert "Decoding: single, calibrated." in run("compare", a, b, *FAST, "--calibrated").stdout
    raw = json.loads(run("report", a, *FAST, "--json").stdout)["groups"][0]["metrics"]
    value = json.loads(
        run("report", a, *FAST, "--json", "--calibration", a / "calibration.json").stdout
    )
    calibrated = value["groups"][0]["metrics"]
    assert value["decoding"] == {"views": "single", "calibration": "calibrated"}
    assert calibrated["accuracy"] == raw["accuracy"]
    assert calibrated["tv"] == raw["tv"]
    assert calibrated["nll_nats"]["value"] < raw["nll_nats"]["value"]
    run("sweep", a, *FAST, "--calibration", a / "calibration.json")


@pytest.mark.parametrize("mode", ["scalar", "per-kind", "contextual"])
def test_every_form_can_be_asked_for(mode: str, calibration_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.json"
    value = json.loads(
        run("calibrate", calibration_run, "--mode", mode, "-o", out, "--json").stdout
    )
    assert value["result"]["choice"] is None
    assert json.loads(out.read_bytes())["mode"] == mode
    assert not (calibration_run / "calibration.json").exists()


def test_a_calibrator_is_never_judged_on_its_own_families(calibration_run: Path, a: Path) -> None:
    twin = a.parent / "twin"
    shutil.copytree(calibration_run, twin)
    message = refused("calibrate", calibration_run, "--holdout", a, "--holdout", twin)
    assert "families it is applied to" in message
    assert not (a / "calibration.json").exists()
    run("calibrate", calibration_run, "--mode", "scalar")
    path = calibration_run / "calibration.json"
    assert "families it is applied to" in refused("report", twin, "--calibration", path)


def test_the_published_form_of_a_calibrator_is_read(a: Path, tmp_path: Path) -> None:
    path = tmp_path / "published.json"
    neutral = 0.5413248538970947
    weights = {"bias": [2.28, neutral, neutral], "log_choices": 0.026, "log_tokens": 0.81}
    path.write_text(json.dumps({"mode": "contextual", "weights": weights}))
    result = run("report", a, *FAST, "--calibration", path)
    assert "calibrated" in result.stdout
    assert "Warning: " in result.stderr  # nobody knows what it was fitted on
