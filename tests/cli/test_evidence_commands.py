"""`calibrate`, `compare`, `sweep` and `report --calibration` as a user meets them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from commands import refuser, runner
from messages import assert_says
from run_frames import opposed, other_items, rows, write_run

from pact_cli.main import main
from pact_eval.calibration.temperatures import read_calibrator, write_calibrator

run = runner(main)
refused = refuser(main)

FAST = ("--resamples", "200")
HOSTILE = "x[red]\x1b[31m\n"
SHOWN = "x[red]\\x1b[31m\\n"


@pytest.fixture
def a(tmp_path: Path) -> Path:
    return write_run(tmp_path / "a-17", rows(1), arm="a", seed=17)


@pytest.fixture
def b(tmp_path: Path) -> Path:
    return write_run(tmp_path / "b-17", rows(2, skill=2.0), arm="b", seed=17)


@pytest.fixture
def calibration_run(tmp_path: Path) -> Path:
    """The same items under names of their own, 200 families."""
    return write_run(tmp_path / "calib", other_items(rows(9, families=200)))


@pytest.fixture
def arms(a: Path, b: Path, tmp_path: Path) -> tuple[str, str]:
    """Two arms with two seeds each."""
    write_run(tmp_path / "a-18", rows(11), arm="a", seed=18)
    write_run(tmp_path / "b-18", rows(12, skill=2.0), arm="b", seed=18)
    return f"a={tmp_path}/a-*", f"b={tmp_path}/b-*"


@pytest.mark.slow
def test_only_what_the_first_line_may_name_is_adjusted(
    a: Path, b: Path, arms: tuple[str, str], tmp_path: Path
) -> None:
    """Two other runs, at view 0 and over 3 views, are four tests; other rows are tested alone."""
    c = write_run(tmp_path / "c", rows(3))
    value = json.loads(run("compare", a, b, c, *FAST, "--json").stdout)
    claims = [claim for one in value["answer"]["better"] for claim in one["claims"]]
    for metric, number in (("accuracy", 4), ("pair_accuracy", 4), ("answer_mass", 0)):
        tests = [claim["evidence"] for claim in claims if claim["metric"] == metric]
        tested = [test for test in tests if test["p_value"] is not None]
        assert (len(tests), {test["tests"] for test in tested} - {number}) == (number, set())
    for one, pair in zip(value["answer"]["better"], value["comparisons"], strict=True):
        everything, *groups = pair["comparison"]["groups"]
        assert everything["metrics"]["accuracy"]["evidence"] == one["claims"][0]["evidence"]
        assert everything["metrics"]["nll_nats"]["evidence"]["adjusted_p_value"] is None
        assert {group["metrics"]["accuracy"]["evidence"]["tests"] for group in groups} == {0}
    value = json.loads(run("compare", *arms, *FAST, "--json").stdout)
    (conclusion,), (pair,) = value["answer"]["better"], value["arms"]["pairs"]
    accuracy = pair["differences"]["all"]["accuracy"]["evidence"]
    assert accuracy == conclusion["claims"][0]["evidence"]
    assert accuracy["tests"] == 2


def test_arms_without_a_common_seed_say_so(a: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "b-18", rows(12), arm="b", seed=18)
    text = run("compare", f"a={a}", f"b={tmp_path}/b-18", *FAST).stdout
    assert_says(text.splitlines()[0], "a ", "b ", "not compared", "share no seed")


def test_what_cannot_be_compared_is_told(a: Path, b: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", rows(2, families=20))
    assert "20 items only in" in refused("compare", a, other, *FAST)
    assert_says(refused("compare", a, code=2), "expected two or more", "got 1")
    assert "expected NAME=PATTERN" in refused("compare", f"a={a}", b)
    assert "no such run folder" in refused("compare", "a=none*", f"b={b}")
    assert "two arms or more" in refused("compare", f"a={a}")
    twin = write_run(tmp_path / "a-17-again", rows(4), arm="a", seed=17)
    assert "two runs with seed 17" in refused("compare", f"a={a}", f"a={twin}")
    nameless = write_run(tmp_path / "nameless", rows(4))
    assert "has no seed" in refused("compare", f"a={nameless}", f"b={b}")
    assert_says(
        refused("compare", a, b, "--calibration", "own"), "expected calibration.json", "run folder"
    )
    for margin in ("nan", 0, 2):
        message = refused("compare", a, b, "--margin", margin, code=2)
        assert_says(message, "expected a number", "above 0, at most 1")


@pytest.mark.slow
def test_a_calibrator_is_fitted_shown_written_and_applied(
    calibration_run: Path, a: Path, b: Path
) -> None:
    run("calibrate", calibration_run, "--holdout", a, "--holdout", b)
    written = [json.loads((folder / "calibration.json").read_bytes()) for folder in (a, b)]
    assert written[0] == written[1]
    assert written[0]["format"] == "pact-calibrator-2"
    assert written[0]["fit"]["run"]["data_sha256"] == "0" * 64
    raw = json.loads(run("report", a, *FAST, "--json").stdout)["groups"][0]["metrics"]
    value = json.loads(
        run("report", a, *FAST, "--json", "--calibration", a / "calibration.json").stdout
    )
    calibrated = value["groups"][0]["metrics"]
    assert value["decoding"] == {"views": "single", "calibration": "calibrated"}
    assert calibrated["accuracy"] == raw["accuracy"]
    assert calibrated["view_tv"] == raw["view_tv"]
    assert calibrated["nll_nats"]["value"] < raw["nll_nats"]["value"]
    calibration = ("--calibration", a / "calibration.json")
    assert "--allow other-decoding" in refused("sweep", a, *FAST, *calibration)
    run("sweep", a, *FAST, *calibration, "--allow", "other-decoding")


def test_a_calibrator_is_never_judged_on_its_own_families(calibration_run: Path, a: Path) -> None:
    twin = a.parent / "twin"
    shutil.copytree(calibration_run, twin)
    message = refused("calibrate", calibration_run, "--force", "--holdout", a, "--holdout", twin)
    assert_says(message, "families", "applied to")
    assert not (a / "calibration.json").exists()
    run("calibrate", calibration_run, "--force", "--mode", "scalar")
    path = calibration_run / "calibration.json"
    assert_says(refused("report", twin, "--calibration", path), "families", "applied to")


def test_what_calibration_made_worse_is_told_in_json_and_on_stderr(tmp_path: Path) -> None:
    """On a run that is more accurate than the one it was fitted on, T is too high."""
    poor = write_run(tmp_path / "poor", other_items(rows(9, families=200, skill=0.3)))
    sure = write_run(tmp_path / "sure", rows(4, families=100, skill=3.0))
    arguments = ("calibrate", poor, "--mode", "scalar", "--holdout", sure)
    result = run(*arguments, "--json")
    effects = json.loads(result.stdout)["result"]["effects"]
    warnings = effects[str(sure)]["warnings"]
    worse = [
        (group["name"], score)
        for group in effects[str(sure)]["groups"]
        for score in ("nll_nats", "brier")
        if (group["changes"][score]["low"] or 0) > 0  # null with fewer than five errors
    ]
    assert worse
    assert len(warnings) == len(worse)
    for warning in warnings:
        assert f"Warning: {sure}: {warning['text']}\n" in result.stderr


def test_a_calibrator_that_does_not_help_is_not_written(a: Path, tmp_path: Path) -> None:
    poor = write_run(tmp_path / "opposed", opposed(other_items(rows(9, families=60))))
    export = tmp_path / "decision.json"
    words = ("calibrate", poor, "--mode", "scalar", "--holdout", a, "--export", export)
    result = run(*words, code=3)
    first = result.stdout.splitlines()[0]
    assert_says(first, "Calibrating does not help: on items left out of the fit")
    assert not any(folder.exists() for folder in (export, a / "calibration.json"))
    value = json.loads(run(*words, "--json", code=3).stdout)
    assert (value["helps"], value["calibration"]) == (False, None)
    nll = value["result"]["left_out"]
    assert nll["fitted"] > nll["raw"]
    forced = run(*words, "--force")
    assert export.exists()
    own, other = poor / "calibration.json", a / "calibration.json"
    assert [line for line in forced.stdout.splitlines() if line.startswith("wrote ")] == [
        f"wrote {file}" for file in (own, other, export)
    ]
    value = json.loads(run(*words, "--force", "--overwrite", "--json").stdout)
    assert (value["calibration"], value["copies"]) == (str(own), [str(other)])
    assert (a / "calibration.json").read_bytes() == (poor / "calibration.json").read_bytes()


@pytest.mark.slow
def test_names_do_not_steer_the_terminal(b: Path, tmp_path: Path) -> None:
    calibration = write_run(tmp_path / f"{HOSTILE}c", other_items(rows(9)))
    holdout = write_run(tmp_path / f"{HOSTILE}a", rows(1), arm="a", seed=17)
    for arguments in (
        ("calibrate", calibration, "--force", "--mode", "scalar", "--holdout", holdout),
        ("compare", holdout, b, *FAST),
        ("compare", f"{HOSTILE}={holdout}", f"b={b}", *FAST, "--items", 9),
        ("sweep", holdout, *FAST),
    ):
        result = run(*arguments)
        assert "\x1b" not in result.output
        assert SHOWN in result.output.replace("\n", "")


def test_nothing_is_left_where_a_calibrator_cannot_be_written(
    calibration_run: Path, tmp_path: Path
) -> None:
    taken = tmp_path / "folder"
    taken.mkdir()
    assert "cannot be written" in refused("calibrate", calibration_run, "--force", "-o", taken)
    assert {path.name for path in tmp_path.iterdir()} == {"calib", "folder"}


@pytest.mark.slow
def test_a_calibrator_used_beyond_its_fit_is_warned_of(
    calibration_run: Path, a: Path, b: Path
) -> None:
    run("calibrate", calibration_run, "--force", "--mode", "scalar", "--holdout", a, "--holdout", b)
    path = a / "calibration.json"
    beyond = "fitted on the single decoding, applied to the ensemble one"
    for arguments in (
        ("report", a, *FAST, "--calibration", path),
        ("compare", a, b, *FAST, "--calibration", "own"),
    ):
        assert beyond not in run(*arguments).stderr
        ensemble = (*arguments, "--decoding", "ensemble")
        assert_says(refused(*ensemble), "decoding:", "fitted on single", "applied to ensemble")
        assert beyond in run(*ensemble, "--allow", "other-decoding").stderr
    run("calibrate", calibration_run, "--force", "--mode", "contextual", "--holdout", a)
    fitted = read_calibrator(path)
    write_calibrator(path, replace(fitted, fit={**(fitted.fit or {}), "n_choices": [2, 3]}))
    assert_says(
        run("report", a, *FAST, "--calibration", path).stderr,
        "answers outside",
        "2 to 3 of the fit",
    )
