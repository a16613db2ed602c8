"""May it act alone? One conclusion for planted runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import runner
from messages import assert_says
from thresholds.simulated import run

import pact_eval
from pact_cli.main import main
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.thresholds.choice import Thresholds, choose_thresholds
from pact_eval.thresholds.conclusion import (
    Acting,
    acting,
    acting_of_run,
    least_tested,
    with_acting,
    worst_acting,
)
from pact_eval.thresholds.gates import Target

command = runner(main, "thresholds")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("runs")
    return {
        "able": run(home / "able", 1),
        "hopeless": run(home / "hopeless", 2, skill=0.0),
        "few": run(home / "few", 3, families=20),
    }


@pytest.fixture(scope="module")
def chosen(runs: dict[str, Path]) -> dict[str, Thresholds]:
    target = Target.of_error(0.1)
    return {name: choose_thresholds(folder, target) for name, folder in runs.items()}


@pytest.mark.parametrize(
    ("name", "status", "tone"),
    [
        ("able", "share guaranteed", "good"),
        ("hopeless", "none shown", "open"),
        ("few", "cannot tell", "open"),
    ],
)
def test_a_planted_run_has_its_status(
    runs: dict[str, Path], chosen: dict[str, Thresholds], name: str, status: str, tone: str
) -> None:
    thresholds = chosen[name]
    conclusion = acting(thresholds)
    assert (conclusion.question, conclusion.status) == ("acting", status)
    assert conclusion.tone == tone
    answer = json.loads(command(runs[name], "--target-error", 0.1, "--json").stdout)["answer"]
    assert (answer["question"], answer["status"]) == ("acting", status)
    assert answer["text"] == str(conclusion.words)
    word = {"share guaranteed": "Yes: ", "none shown": "No: ", "cannot tell": "Cannot tell: "}
    assert answer["text"].startswith(word[status])
    (gate,) = conclusion.gates
    assert gate is thresholds.gates[0]
    assert (conclusion.share is not None) == (status == "share guaranteed")
    assert bool(conclusion.unchecked) == (status == "cannot tell")
    assert gate.needed is None or not gate.guaranteed


def test_a_failed_test_is_told_of_one_gate_and_of_no_one_of_several(
    runs: dict[str, Path], chosen: dict[str, Thresholds]
) -> None:
    conclusion = acting(chosen["hopeless"])
    (gate,) = conclusion.gates
    test = gate.chosen.test
    assert test is not None
    closest = f"closest: {test.wrong:,} wrong of {test.accepted:,} tested"
    assert_says(str(conclusion.words), "with 600 items in 300 groups", closest)
    by_kind = choose_thresholds(runs["hopeless"], Target.of_error(0.1), by="kind")
    words = str(acting(by_kind).words)
    assert_says(words, "of any of 2 kinds")
    assert "tested" not in words


def test_one_group_with_a_gate_is_a_share_of_all_items(runs: dict[str, Path]) -> None:
    thresholds = choose_thresholds(runs["able"], Target.of_error(0.1), by="kind")
    accepted = sum(gate.coverage.value * gate.items for gate in thresholds.gates)
    conclusion = acting(thresholds)
    assert conclusion.share is not None
    assert conclusion.share.value == pytest.approx(accepted / 600)
    assert [gate.group for gate in conclusion.gates] == ["choice", "score"]


@pytest.mark.parametrize(("rate", "confidence"), [(0.05, 0.95), (0.1, 0.9), (0.02, 0.99)])
def test_the_fewest_tested_items_by_theory(rate: float, confidence: float) -> None:
    least = least_tested(Target.of_error(rate), confidence)
    assert (1 - rate) ** least <= 1 - confidence < (1 - rate) ** (least - 1)


def test_what_counts_the_same_is_in_the_file_and_in_the_words(
    tmp_path: Path,
) -> None:
    rows: list[dict[str, Any]] = [
        {"id": f"{family}-{item}", "family": str(family), "kind": "boolean",
         "reference": int(family % 20 > 0), "probabilities": [0.1, 0.9]}
        for family in range(400)
        for item in range(30 if family in (101, 202, 303) else 1)
    ]  # fmt: skip
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    runner(main, "import")(log, "--out", tmp_path / "run")
    options = (tmp_path / "run", "--target-error", 0.1)
    output = command(*options, "--out", tmp_path / "t.json").stdout
    assert output.startswith("Yes: ")
    assert_says(output, "new groups like these, each group counting once")
    file = json.loads((tmp_path / "t.json").read_text())
    assert file["rule"]["counting"] == "families"
    tested = file["gates"]["all"]["families_tested"]
    assert tested == 400
    assert f"487, 400, {tested}" in command(*options, "--full").stdout
    by_item = json.loads(command(*options, "--counting", "items", "--json").stdout)
    assert by_item["answer"]["status"] == "cannot tell"
    assert by_item["gates"][0]["chosen"]["tested_units"] < 30


@pytest.mark.parametrize("name", ["able", "hopeless", "few"])
def test_a_report_has_the_gate_of_the_command(
    runs: dict[str, Path], chosen: dict[str, Thresholds], name: str
) -> None:
    settings = Settings(target_error=0.1, resamples=200)
    report = with_acting(Experiment.read([runs[name]], settings).report())
    in_report = report.conclusions[-1]
    assert isinstance(in_report, Acting)
    expected_acting = acting(chosen[name])
    assert (in_report.status, in_report.share) == (expected_acting.status, expected_acting.share)
    (gate,), (expected,) = in_report.gates, expected_acting.gates
    assert (expected.chosen, expected.coverage) == (gate.chosen, gate.coverage)
    assert pact_eval.evaluate(runs[name], settings).conclusions[-1] == in_report


def test_without_a_target_nothing_is_asked(runs: dict[str, Path]) -> None:
    experiment = Experiment.read([runs["able"]])
    assert acting_of_run(experiment, experiment.runs[0]) is None


def test_of_several_seeds_the_smallest_share_is_told(runs: dict[str, Path]) -> None:
    settings = Settings(target_error=0.1, resamples=200)
    able, hopeless = (
        with_acting(Experiment.read([runs[name]], settings).report()).acting
        for name in ("able", "hopeless")
    )
    assert isinstance(able, Acting)
    assert isinstance(hopeless, Acting)
    assert worst_acting([able, hopeless]) is hopeless
    assert able.share is not None
    less = replace(able, share=replace(able.share, value=able.share.value / 2))
    assert worst_acting([able, less]) is less
    assert worst_acting([]) is None
