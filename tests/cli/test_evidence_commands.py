"""`calibrate`, `compare`, `report --views` and `report --calibration` as a user meets them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from commands import refuser, runner
from messages import assert_says
from run_frames import opposed, other_items, rows, write_run

from pact_cli.main import main
from pact_eval.calibration.files import read_calibrator, write_calibrator

pytestmark = pytest.mark.slow

run = runner(main)
refused = refuser(main)

FAST = ("--resamples", "200")
HOSTILE = "x[red]\x1b[31m\n"
SHOWN = "x[red]\\x1b[31m\\n"


NEUTRAL = 0.5413248538970947
WARM = {"bias": [1.8545865, NEUTRAL, NEUTRAL], "log_choices": 0, "log_tokens": 0}
"""A scalar temperature of 2, in the published form."""


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


def test_two_runs_side_by_side(a: Path, b: Path) -> None:
    options = ("--mcnemar", "--equivalence-margin", 0.5)
    text = run("compare", a, b, *FAST, *options, "--full").stdout
    first, rest = text.split("\nDecoding: ", maxsplit=1)
    brief = run("compare", a, b, *FAST, *options).stdout
    assert brief.startswith(f"{first}\n")
    assert_says(brief, "50.0 points: a-17 and b-17 are equivalent")
    assert rest.startswith(f"single, raw.\nA = {a}\nB = {b}\n60 items, 30 families;")
    for words in ("Holm", "McNemar over items", "sign flip", "only a-17 right", "only b-17 right"):
        assert words in text
    assert "Accuracy, margin 50.0 points: " in text
    assert_says(text, "Smallest difference", "80% power")
    value = json.loads(run("compare", a, b, *FAST, "--json").stdout)
    (comparison,) = value["comparisons"]
    groups = {group["name"]: group for group in comparison["comparison"]["groups"]}
    assert list(groups) == ["all", "choice", "boolean", "score"]
    metric = groups["all"]["metrics"]["accuracy"]
    assert metric["difference"]["value"] == pytest.approx(
        metric["a"]["value"] - metric["b"]["value"]
    )


def test_units_are_chosen_and_named(a: Path, b: Path, tmp_path: Path) -> None:
    """What intervals generalise to is said once, with the groups that are small."""
    text = " ".join(run("report", a, *FAST, "--full").stdout.split())
    assert "the same source families" in text
    source = ("--unit", "source_family")
    text = " ".join(run("report", a, *FAST, *source, "--full").stdout.split())
    assert "Intervals: new source families." in text
    assert "6 source fam." in text
    assert text.count("in: all (6), choice (2)") == 1
    value = json.loads(run("report", a, *FAST, *source, "--json").stdout)
    assert (value["unit"], value["intervals"]) == ("source_family", "new source families")
    assert value["groups"][0]["metrics"]["nll_nats"]["source_families"] == 6
    text = " ".join(run("compare", a, b, *FAST, *source, "--full").stdout.split())
    assert "Intervals: new source families." in text
    assert "families as the units" in text
    value = json.loads(run("compare", a, b, *FAST, *source, "--json").stdout)
    assert value["intervals"] == "new source families"
    assert value["comparisons"][0]["comparison"]["unit"] == "source_family"
    page = ("--html", tmp_path / "page.html")
    assert_says(refused("report", a, *source, *page, code=2), "is for the report", "terminal")


def test_more_runs_are_each_compared_with_the_first(a: Path, b: Path, tmp_path: Path) -> None:
    c = write_run(tmp_path / "c", rows(3))
    text = run("compare", a, b, c, *FAST, "--decoding", "ensemble", "--full").stdout
    assert text.count(f"A = {a}") == 2
    assert f"B = {c}" in text


@pytest.fixture
def arms(a: Path, b: Path, tmp_path: Path) -> tuple[str, str]:
    """Two arms with two seeds each."""
    write_run(tmp_path / "a-18", rows(11), arm="a", seed=18)
    write_run(tmp_path / "b-18", rows(12, skill=2.0), arm="b", seed=18)
    return f"a={tmp_path}/a-*", f"b={tmp_path}/b-*"


def test_arms_over_seeds(arms: tuple[str, str]) -> None:
    text = run("compare", "--arms", *arms, *FAST, "--full").stdout
    assert "seeds 17, 18" in text
    assert " ± " in text
    assert "all items, by seed" in text
    value = json.loads(run("compare", "--arms", *arms, *FAST, "--json").stdout)
    assert [arm["seeds"] for arm in value["arms"]["arms"]] == [[17, 18], [17, 18]]


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
    text = " ".join(run("compare", a, b, c, *FAST, "--full").stdout.split())
    assert (
        "p, adjusted for 4 tests (Holm), is at most 0.05; other differences are tested alone"
        in text
    )
    assert text.count("*: the difference is shown") == 2
    value = json.loads(run("compare", "--arms", *arms, *FAST, "--json").stdout)
    (conclusion,), (pair,) = value["answer"]["better"], value["arms"]["pairs"]
    accuracy = pair["differences"]["all"]["accuracy"]["evidence"]
    assert accuracy == conclusion["claims"][0]["evidence"]
    assert accuracy["tests"] == 2


def test_arms_show_by_seed_what_a_pair_of_runs_shows(arms: tuple[str, str]) -> None:
    plain = run("compare", "--arms", *arms, *FAST, "--full").stdout
    assert "is correct" not in plain
    assert "margin 50.0 points" not in plain
    more = ("--mcnemar", "--equivalence-margin", 0.5, "--full")
    text = run("compare", "--arms", *arms, *FAST, *more).stdout
    assert_says(text, "2 seeds", "one time in 2")
    (pair,) = json.loads(run("compare", "--arms", *arms, *FAST, "--json").stdout)["arms"]["pairs"]
    for seed, comparison in pair["seeds"].items():
        for name, ids in (("a", comparison["only_a"]), ("b", comparison["only_b"])):
            listed = "".join(f"  {item}\n" for item in ids)
            assert f"Seed {seed}: Only {name} is correct ({len(ids)}):\n{listed}" in text
        assert f"Seed {seed}: Accuracy, margin 50.0 points: " in text
        assert f"80% power at seed {seed}: " in text
    table = plain.split("one difference over 2 seeds")[1].split("by seed")[0]
    rows_of = {
        line.split("|")[1].strip(): line.split("|") for line in table.splitlines() if "|" in line
    }
    for title, name in (("NLL ↓", "nll_nats"), ("Flip rate ↓", "flip_rate")):
        assert (rows_of[title][-2].strip() == "=") == pair["differences"]["all"][name]["sign"][
            "same"
        ]


def test_arms_without_a_common_seed_say_so(a: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "b-18", rows(12), arm="b", seed=18)
    text = run("compare", "--arms", f"a={a}", f"b={tmp_path}/b-18", *FAST).stdout
    assert_says(text.splitlines()[0], "a and b cannot be compared", "share no seed")
    assert_says(text, "a and b have", "no seed in common")
    full = run("compare", "--arms", f"a={a}", f"b={tmp_path}/b-18", *FAST, "--full").stdout
    assert_says(full, "Note: a and b", "no seed in common")
    assert "all items, by seed" not in full


def test_a_folder_is_found_by_its_own_name_whatever_its_signs(b: Path, tmp_path: Path) -> None:
    odd = write_run(tmp_path / "a[17]", rows(1), arm="a", seed=17)
    text = run("compare", "--arms", f"a={odd}", f"b={b}", *FAST, "--full").stdout
    assert_says(text, "a - b", "all items", "by seed")


def test_groups_in_which_too_few_items_differ_are_named(a: Path, tmp_path: Path) -> None:
    same = write_run(tmp_path / "same", rows(1), arm="b", seed=17)
    text = run("compare", a, same, *FAST, "--full").stdout
    assert_says(text, "no item differs", "nothing to test")
    few = "too few items differ for any p-value below 0.05: choice (0), boolean (0), score (0)"
    assert f"Note: {few}" in text
    text = run("compare", "--arms", f"a={a}", f"b={same}", *FAST, "--full").stdout
    assert f"Note: seed 17: {few}" in text


def test_what_is_undefined_says_why_beside_the_table(tmp_path: Path) -> None:
    one, other = (write_run(tmp_path / str(seed), rows(seed, k=1)) for seed in (1, 2))
    reason = "one view only: K is 1"
    text = run("compare", one, other, *FAST, "--full").stdout
    assert f" {reason}.\n" in text
    text = run("report", "--views", one, "--full", *FAST).stdout
    assert f"¹ {reason}.\n" in text
    assert text.count("–¹") == 3


def test_every_number_of_a_sweep_names_its_decoding(a: Path, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"mode": "scalar", "weights": WARM}))
    for options, calibration in ((), "raw"), (("--calibration", path), "calibrated"):
        text = run("report", "--views", a, "--full", *FAST, *options).stdout
        assert_says(text, str(a), "Decoding: ensemble", f"K views, {calibration}; ")
        brief = run("report", "--views", a, *FAST, *options).stdout.split()  # a long path wraps
        assert f"items in 30 families, {calibration} Intervals:" in " ".join(brief)
        value = json.loads(run("report", "--views", a, *FAST, *options, "--json").stdout)
        assert value["decoding"] == {"views": "ensemble", "calibration": calibration}


def test_no_number_is_cut_in_a_narrow_terminal(
    a: Path, b: Path, calibration_run: Path, arms: tuple[str, str], tmp_path: Path
) -> None:
    calibrate = (
        "calibrate",
        calibration_run,
        "--force",
        "--mode",
        "contextual",
        "-o",
        tmp_path / "c.json",
    )
    for arguments in (
        ("compare", a, b, *FAST),
        ("compare", "--arms", *arms, *FAST),
        ("report", "--views", a, "--full", *FAST),
        calibrate,
    ):
        wide, narrow = (run(*arguments, COLUMNS=str(width)).stdout for width in (400, 45))
        assert "…" not in narrow
        assert len(narrow.splitlines()) > len(wide.splitlines())


def test_groups_are_what_the_first_run_calls_them(a: Path, tmp_path: Path) -> None:
    """An import may lack domains; the items are the same ones."""
    nameless = rows(2).with_columns(domain=pl.lit(""), source_family=pl.lit(""))
    b = write_run(tmp_path / "b-17", nameless, arm="b", seed=17)
    c = write_run(tmp_path / "b-18", nameless, arm="b", seed=18)
    d = write_run(tmp_path / "a-18", nameless, arm="a", seed=18)
    arguments = (f"a={a}", f"a={d}", f"b={b}", f"b={c}")
    value = json.loads(
        run("compare", "--arms", *arguments, *FAST, "--by", "domain", "--json").stdout
    )["arms"]
    assert value["groups"] == ["all", "d0", "d1", "d2", "d3"]
    assert list(value["pairs"][0]["differences"]) == value["groups"]
    run("compare", "--arms", *arguments, *FAST, "--by", "domain")


def test_what_cannot_be_compared_is_told(a: Path, b: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", rows(2, families=20))
    assert "20 items only in" in refused("compare", a, other, *FAST)
    assert_says(refused("compare", a, code=2), "expected two or more", "got 1")
    assert "expected NAME=PATTERN" in refused("compare", "--arms", a, b)
    assert "no such run folder" in refused("compare", "--arms", "a=none*", f"b={b}")
    assert "two arms or more" in refused("compare", "--arms", f"a={a}")
    twin = write_run(tmp_path / "a-17-again", rows(4), arm="a", seed=17)
    assert "two runs with seed 17" in refused("compare", "--arms", f"a={a}", f"a={twin}")
    nameless = write_run(tmp_path / "nameless", rows(4))
    assert "has no seed" in refused("compare", "--arms", f"a={nameless}", f"b={b}")
    assert_says(refused("compare", a, b, "--calibrated"), "expected calibration.json", "run folder")
    for margin in ("nan", 0, 2):
        message = refused("compare", a, b, "--equivalence-margin", margin, code=2)
        assert_says(message, "expected a number", "above 0, at most 1")


def test_a_sweep_shows_every_number_of_views(a: Path) -> None:
    text = run("report", "--views", a, "--full", *FAST).stdout
    rows_of = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]
    assert [name for name in rows_of if name] == ["K", "1", "2", "3"]
    value = json.loads(run("report", a, "--views", "2..3", *FAST, "--json").stdout)
    assert [point["k"] for point in value["points"]] == [2, 3]
    value = json.loads(run("report", a, "--views", "2", *FAST, "--json").stdout)
    assert value["points"][0]["k"] == 2
    assert "from 1 to 3, got 1 to 9" in refused("report", "--views", "1..9", a)
    for k in ("every", "9" * 5000, "1..", "-1"):
        assert_says(refused("report", a, f"--views={k}", code=2), "expected a number", "FROM..TO")


def test_a_calibrator_is_fitted_shown_written_and_applied(
    calibration_run: Path, a: Path, b: Path
) -> None:
    result = run("calibrate", calibration_run, "--holdout", a, "--holdout", b)
    assert result.stdout.startswith("Calibrating lowers NLL: 0.750 to 0.745 on left-out source f")
    assert "NLL on source families" in result.stdout
    assert f"wrote {calibration_run / 'calibration.json'}" in result.stdout
    written = [json.loads((folder / "calibration.json").read_bytes()) for folder in (a, b)]
    assert written[0] == written[1]
    assert written[0]["format"] == "pact-calibrator-2"
    assert written[0]["fit"]["run"]["data_sha256"] == "0" * 64
    report = run("report", a, *FAST, "--calibration", a / "calibration.json").stdout
    assert "K = 3, single, calibrated" in " ".join(report.split())
    assert "; single, calibrated\n" in run("compare", a, b, *FAST, "--calibrated").stdout
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
    assert "--allow other-decoding" in refused("report", "--views", a, *FAST, *calibration)
    run("report", "--views", a, *FAST, *calibration, "--allow", "other-decoding")


@pytest.mark.parametrize("mode", ["scalar", "per-kind", "contextual"])
def test_every_form_can_be_asked_for(mode: str, calibration_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.json"
    value = json.loads(
        run("calibrate", calibration_run, "--force", "--mode", mode, "-o", out, "--json").stdout
    )
    assert value["result"]["choice"] is None
    assert json.loads(out.read_bytes())["mode"] == mode
    assert not (calibration_run / "calibration.json").exists()


def test_a_calibrator_is_never_judged_on_its_own_families(calibration_run: Path, a: Path) -> None:
    twin = a.parent / "twin"
    shutil.copytree(calibration_run, twin)
    message = refused("calibrate", calibration_run, "--force", "--holdout", a, "--holdout", twin)
    assert_says(message, "families", "applied to")
    assert not (a / "calibration.json").exists()
    run("calibrate", calibration_run, "--force", "--mode", "scalar")
    path = calibration_run / "calibration.json"
    assert_says(refused("report", twin, "--calibration", path), "families", "applied to")


def test_the_published_form_of_a_calibrator_is_read(a: Path, tmp_path: Path) -> None:
    path = tmp_path / "published.json"
    neutral = 0.5413248538970947
    weights = {"bias": [2.28, neutral, neutral], "log_choices": 0.026, "log_tokens": 0.81}
    path.write_text(json.dumps({"mode": "contextual", "weights": weights}))
    result = run("report", a, *FAST, "--calibration", path)
    assert "calibrated" in result.stdout
    assert "Warning: " in result.stderr  # nobody knows what it was fitted on


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
    text = run(*arguments).stdout
    assert " ".join(f"Warning: {warnings[0]['text']}".split()) in " ".join(text.split())


def test_a_calibrator_that_does_not_help_is_not_written(a: Path, tmp_path: Path) -> None:
    poor = write_run(tmp_path / "opposed", opposed(other_items(rows(9, families=60))))
    export = tmp_path / "decision.json"
    words = ("calibrate", poor, "--mode", "scalar", "--holdout", a, "--export", export)
    result = run(*words, code=3)
    first = result.stdout.splitlines()[0]
    assert_says(first, "Calibrating does not help: NLL ", "on left-out source families")
    assert "Nothing is written; --force writes." in result.stdout
    assert not any(folder.exists() for folder in (export, a / "calibration.json"))
    value = json.loads(run(*words, "--json", code=3).stdout)
    assert (value["helps"], value["calibration"]) == (False, None)
    nll = value["result"]["left_out"]
    assert f"NLL {nll['raw']:.3f} to {nll['fitted']:.3f} on" in first
    assert nll["fitted"] > nll["raw"]
    result = run(*words, "--force")
    assert "Written by --force." in result.stdout
    assert export.exists()
    assert (a / "calibration.json").read_bytes() == (poor / "calibration.json").read_bytes()


def test_a_contextual_fit_shows_its_condition_number(calibration_run: Path, tmp_path: Path) -> None:
    arguments = (
        "calibrate",
        calibration_run,
        "--force",
        "--mode",
        "contextual",
        "-o",
        tmp_path / "c.json",
    )
    number = json.loads(run(*arguments, "--json").stdout)["result"]["fit"]["condition_number"]
    assert f"information: {number:,.1f} " in run(*arguments).stdout


def test_names_do_not_steer_the_terminal(b: Path, tmp_path: Path) -> None:
    calibration = write_run(tmp_path / f"{HOSTILE}c", other_items(rows(9)))
    holdout = write_run(tmp_path / f"{HOSTILE}a", rows(1), arm="a", seed=17)
    for arguments in (
        ("calibrate", calibration, "--force", "--mode", "scalar", "--holdout", holdout),
        ("compare", holdout, b, *FAST),
        ("compare", "--arms", f"{HOSTILE}={holdout}", f"b={b}", *FAST, "--mcnemar"),
        ("report", "--views", holdout, *FAST),
        ("report", holdout, *FAST, "--calibration", holdout / "calibration.json"),
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


def test_a_calibrator_used_beyond_its_fit_is_warned_of(
    calibration_run: Path, a: Path, b: Path
) -> None:
    run("calibrate", calibration_run, "--force", "--mode", "scalar", "--holdout", a, "--holdout", b)
    path = a / "calibration.json"
    beyond = "fitted on the single decoding, applied to the ensemble one"
    for arguments in (
        ("report", a, *FAST, "--calibration", path),
        ("compare", a, b, *FAST, "--calibrated"),
    ):
        assert beyond not in run(*arguments).stderr
        ensemble = (*arguments, "--decoding", "ensemble")
        assert_says(refused(*ensemble), "decoding:", "fitted on single", "applied to ensemble")
        assert beyond in run(*ensemble, "--allow", "other-decoding").stderr
    sweep = ("report", "--views", a, *FAST, "--calibration", path, "--allow", "other-decoding")
    assert beyond in run(*sweep).stderr
    run("calibrate", calibration_run, "--force", "--mode", "contextual", "--holdout", a)
    fitted = read_calibrator(path)
    write_calibrator(path, replace(fitted, fit={**(fitted.fit or {}), "n_choices": [2, 3]}))
    assert_says(
        run("report", a, *FAST, "--calibration", path).stderr,
        "answers outside",
        "2 to 3 of the fit",
    )


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_reader_that_has_gone_is_no_failure(a: Path, b: Path, options: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pact_cli", "compare", str(a), str(b), *FAST, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
