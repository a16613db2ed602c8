"""Data that an adapter was trained on: refused where they are used, and named on every surface."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from custody.adapters import HOLDOUT, adapter_trained_on
from messages import assert_says
from run_frames import edit_run, rows, write_run

import pact_eval
from pact_cli.main import main
from pact_eval._json import Json
from pact_eval.errors import GateError, TamperedError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.provenance import read_provenance
from pact_eval.verification import family_roles

SCORE = ("--limit", 4, "--k", 1)


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def leak(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter whose record says that it was trained on the holdout."""
    folder = tmp_path_factory.mktemp("adapters") / "leak"
    return adapter_trained_on(folder, {"steps": 3}, train=[HOLDOUT])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled dataset, in a folder that can be edited."""
    return shutil.copytree(HOLDOUT.parent, tmp_path_factory.mktemp("home") / "data")


def test_score_refuses_an_adapter_trained_on_the_data(leak: Path, tmp_path: Path) -> None:
    result = command("score", leak, "--data", HOLDOUT, "--out", tmp_path / "run", *SCORE)
    assert result.exit_code == 3
    assert "2 families" in result.stderr
    assert str(HOLDOUT) in result.stderr
    assert "holdout.jsonl" in result.stderr
    assert "--allow trained-on" in result.stderr
    assert not (tmp_path / "run").exists()


def test_python_refuses_it_too(leak: Path, tmp_path: Path) -> None:
    with pytest.raises(GateError, match="--allow trained-on"):
        pact_eval.score(HOLDOUT, tmp_path / "run", adapter=leak, k=1, limit=4)


@pytest.mark.slow
def test_a_run_that_selects_may_use_the_data_of_the_selection_alone(
    leak: Path, tmp_path: Path
) -> None:
    chosen = adapter_trained_on(tmp_path / "chosen", {"steps": 3}, selection=[HOLDOUT])
    words = ("--data", HOLDOUT, "--out", tmp_path / "run", *SCORE)
    assert "selected on" in command("score", chosen, *words).stderr
    assert command("score", leak, *words, "--role", "selection").exit_code == 3
    assert command("score", chosen, *words, "--role", "calibration").exit_code == 3
    assert command("score", chosen, *words, "--role", "selection").exit_code == 0
    trained_on = read_provenance(tmp_path / "run").custody.trained_on
    assert trained_on is not None
    assert len(trained_on.families) == 2


@pytest.mark.slow
def test_an_allowed_run_says_so_everywhere(leak: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--data", HOLDOUT, "--out", run, "--allow", "trained-on", *SCORE)
    result = command("score", leak, *words)
    assert result.exit_code == 0
    assert_says(result.stderr, "2 families", "may have learnt", "in holdout.jsonl")
    custody = read_provenance(run).custody
    assert custody.trained_on is not None
    assert len(custody.trained_on.items) == 4
    assert custody.training is not None
    assert custody.training.roles["train"].files == ("holdout.jsonl",)
    shown = command("report", run)
    assert shown.exit_code == 3
    leak_line = shown.stdout.splitlines()[0]
    assert leak_line.startswith("Leak: ")
    assert_says(leak_line, "4 items", "(2 groups)", "in holdout.jsonl")
    verified = command("verify", run)
    assert verified.exit_code == 3
    assert re.search(r"leak +training +allowed .*: 2 groups", verified.stdout)
    assert re.search(r"evaluation[ |]+2[ |]+train 2 ", verified.stdout)


@pytest.mark.slow
def test_a_changed_word_ends_with_5(data: Path, tmp_path: Path) -> None:
    file = data / "holdout.jsonl"
    whole = file.read_text("utf-8")
    file.write_text(whole.replace(" the ", " a ", 1), "utf-8")
    adapter = adapter_trained_on(tmp_path / "adapter")
    try:
        for place in (file, data):
            words = ("--data", place, "--out", tmp_path / "run", *SCORE)
            result = command("score", adapter, *words)
            assert result.exit_code == 5
            hashes = re.findall(r"[0-9a-f]{64}", result.stderr)
            assert len(set(hashes)) == 2
        with pytest.raises(TamperedError):
            pact_eval.score(file, tmp_path / "run", adapter=adapter, k=1, limit=4)
        allowed = ("--data", file, "--out", tmp_path / "run", "--allow", "other-data", *SCORE)
        result = command("score", adapter, *allowed)
    finally:
        file.write_text(whole, "utf-8")
    assert result.exit_code == 0
    assert "Training data not stated" in result.stderr
    shown = command("report", tmp_path / "run")
    assert shown.exit_code == 5
    assert_says(shown.stdout, "data", "PROBLEMS: a scored file", "not the one")
    verified = command("verify", tmp_path / "run")
    assert verified.exit_code == 5
    assert re.search(r"differs +manifest +allowed", verified.stdout)


def planted(folder: Path, seed: int = 1, **custody: Json) -> Path:
    """A run with random logits and a chain of custody."""
    write_run(folder, rows(seed), arm=folder.name, seed=seed)
    return edit_run(folder, custody=custody)


def trained_on(run_rows: Any, families: Sequence[str]) -> dict[str, Json]:
    items = run_rows.filter(run_rows["family"].is_in(families))["id"].unique(maintain_order=True)
    return {"items": items.to_list(), "families": [*families], "files": ["train.jsonl"]}


def stated(records: int, digest: str, file: str = "train.jsonl") -> dict[str, Json]:
    role: Json = {"files": [file], "records": records, "families": records // 2, "digest": digest}
    return {"sha256": digest * 8, "roles": {"train": role}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs `leaking` (three families of the training), `clean` and `unknown`."""
    home = tmp_path_factory.mktemp("runs")
    names = rows(1)["family"].unique(maintain_order=True).to_list()[:3]
    planted(home / "leaking", training=stated(20, "1" * 8), trained_on=trained_on(rows(1), names))
    planted(home / "clean", 2, training=stated(40, "2" * 8, "more.jsonl"))
    planted(home / "unknown", 3)
    return home


MAKERS: dict[str, tuple[str, ...]] = {
    "calibrate": ("calibrate", "RUN", "--force", "--out", "made.json"),
    "thresholds": ("thresholds", "RUN", "--target-error", "0.4", "--out", "made.json"),
    "sets": ("thresholds", "RUN", "--coverage", "0.6"),
    "scorecard": ("scorecard", "criteria.toml", "RUN"),
}


@pytest.mark.parametrize(
    "maker",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "thresholds")) for name in MAKERS],
)
def test_what_is_made_from_a_run_on_training_data_is_refused_or_says_so(
    maker: str, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("register", "criteria.toml", "--example").exit_code == 0

    def made_from(run: str, *more: str) -> Result:
        return command(*(runs / run if word == "RUN" else word for word in MAKERS[maker]), *more)

    refused = made_from("leaking")
    assert refused.exit_code == 3
    for part in ("3 families", "train.jsonl", "--allow trained-on"):
        assert part in refused.stderr
    allowed = made_from("leaking", "--allow", "trained-on")
    assert allowed.exit_code == 0, allowed.stderr
    assert_says(allowed.stderr, "3 families", "may have learnt")
    if maker in ("calibrate", "thresholds"):
        made = json.loads(Path("made.json").read_text("utf-8"))
        stated = made["fit"] if maker == "calibrate" else made["chosen_on"]
        assert stated["trained_on"] == {"families": 3, "files": ["train.jsonl"]}
        Path("made.json").unlink()
    assert made_from("clean").exit_code == 0


FEW = ("--resamples", 100)


@pytest.mark.parametrize("words", [("report", "leaking"), ("compare", "leaking", "clean")])
def test_a_report_and_a_comparison_begin_with_the_leak(runs: Path, words: tuple[str, ...]) -> None:
    name, *folders = words
    result = command(name, *(runs / folder for folder in folders), *FEW)
    assert result.exit_code == 3
    assert result.stdout.startswith("Leak: 6 items (3 groups) are also in train.jsonl")


def test_without_leaks_leaves_these_families_out(runs: Path) -> None:
    result = command("report", runs / "leaking", "--without-leaks", *FEW)
    assert result.exit_code == 0
    assert "Left out of all" in result.stdout
    experiment = Experiment.read([runs / "leaking"], Settings(without_leaks=True))
    whole = Experiment.read([runs / "leaking"]).runs[0].predictions
    assert len(experiment.runs[0].predictions) == len(whole) - 6


def test_unknown_training_data_are_named_and_no_error(runs: Path) -> None:
    run, warning = runs / "unknown", "training data not stated"
    result = command("report", run, "--full", *FEW)
    assert result.exit_code == 0
    assert warning in result.stdout
    value = json.loads(command("report", run, "--json", *FEW).stdout)
    data = value["answer"]["data"]
    assert {"name": "training data", "reason": "not stated"} in data["unchecked"]
    assert warning not in command("report", runs / "clean", "--full", *FEW).stdout


@pytest.mark.parametrize(("other", "differs"), [("leaking", True), ("unknown", False)])
def test_compare_names_different_training_data(runs: Path, other: str, differs: bool) -> None:
    message = command("compare", runs / other, runs / "clean", *FEW).stderr
    assert ("different data" in message) is differs
    if differs:
        assert_says(message, "train.jsonl (10 families)", "more.jsonl (20 families)")


def test_roles_by_family_by_hand(runs: Path, tmp_path: Path) -> None:
    run = runs / "clean"
    gates = tmp_path / "thresholds.json"
    families = rows(2)["family"].unique().to_list()
    gates.write_text(json.dumps({"chosen_on": {"families": families}}), "utf-8")
    result = command("verify", run, "--thresholds", gates)
    assert result.exit_code == 3
    assert re.search(r"thresholds[ |]+30[ |]+evaluation 30", result.stdout)
    (table,) = family_roles([pact_eval.read_run(run)], choices=[gates])
    assert [(row.role, row.families, dict(row.shared)) for row in table.roles] == [
        ("thresholds", 30, {"evaluation": 30}),
        ("evaluation", 30, {"thresholds": 30}),
    ]


@pytest.mark.parametrize(
    "custody",
    [
        {"training": []},
        {"training": {"sha256": "a"}},
        {"training": {"sha256": "a", "roles": {"train": {"files": [3]}}}},
        {"trained_on": {"items": "x"}},
        {"other_data": {"manifest": 3}},
    ],
)
def test_a_malformed_chain_of_custody_is_a_message(tmp_path: Path, custody: Any) -> None:
    run = planted(tmp_path / "run", **custody)
    result = command("report", run)
    assert result.exit_code == 1
    assert "run.json: custody: " in result.stderr
