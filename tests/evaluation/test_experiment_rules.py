"""Runs that are read together: arms, labels, refusals, costs, notes and settings, by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from messages import assert_says
from run_frames import ablated_rows, edit_run, frame_of, other_items, rows, write_run

from pact_eval._json import Json
from pact_eval.calibration.temperatures import (
    UNKNOWN_FAMILIES,
    UNKNOWN_RUN,
    Calibrator,
    Weights,
    neutral_calibrator,
    write_calibrator,
)
from pact_eval.custody import TRAINING_RECORD
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.table_results import TRAINING_NAME, run_costs
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import (
    ChangedModel,
    OneOrder,
    PartlyKnown,
    Unanswered,
    near_ties,
    one_order,
    run_notes,
    several_right,
)
from pact_eval.evaluation.resampled_groups import mean_estimate
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Known, Provenance


def small(folder: Path, draw: int = 1, **labels: Any) -> Path:
    """Write a run of 6 families whose logits are of a draw."""
    return write_run(folder, rows(draw, families=6), **labels)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Two seeds of one arm, the later seed first, another arm, and a base model."""
    return [
        small(tmp_path / "base", 4, arm="base"),
        small(tmp_path / "a18", 2, arm="a", seed=18),
        small(tmp_path / "a17", 1, arm="a", seed=17),
        small(tmp_path / "b17", 3, arm="b", seed=17),
    ]


def test_arms_have_their_runs_by_seed(folders: list[Path]) -> None:
    experiment = Experiment.read(folders)
    assert {arm: [run.seed for run in runs] for arm, runs in experiment.arms.items()} == {
        "base": [None],
        "a": [17, 18],
        "b": [17],
    }
    assert [*experiment.arms] == ["base", "a", "b"]
    # The first arm with a seed is compared with the others.
    assert experiment.main_arm == "a"
    assert Experiment.read(folders[:1]).main_arm == "base"
    method = Experiment.read(folders, Settings(method="b"))
    assert (method.main_arm, [*method.arms]) == ("b", ["b", "base", "a"])
    with pytest.raises(InputError) as refused:
        _ = Experiment.read(folders, Settings(method="c")).main_arm
    assert_says(refused.value, "'c'", "base, a, b")
    with pytest.raises(InputError, match="no run"):
        _ = Experiment(runs=()).main_arm
    assert [run.label for run in experiment.runs[:2]] == ["base", "a, seed 18"]
    assert experiment.same_items
    assert experiment.notices == ()


def test_two_runs_of_one_label_need_another(tmp_path: Path) -> None:
    same = [small(tmp_path / name, arm="a", seed=17) for name in "xy"]
    with pytest.raises(InputError) as refused:
        Experiment.read(same)
    assert_says(refused.value, "same arm and seed (a, seed 17)", "--train-seed")
    both = Experiment.read(same, unique_labels=False)
    assert len(both.runs) == 2
    # Equal predictions are one run twice.
    assert [notice.sha256[:4] for notice in both.same_runs] == [
        both.runs[0].run.seal.predictions_sha256[:4]
    ]
    each, skipped = Experiment.read_each(same)
    assert (len(each), skipped) == (2, ())


def test_named_arms_replace_recorded_ones(tmp_path: Path, folders: list[Path]) -> None:
    experiment = Experiment.read_arms([f"ours={tmp_path / 'a1*'}", f"theirs={tmp_path / 'b17'}"])
    assert {arm: [run.seed for run in runs] for arm, runs in experiment.arms.items()} == {
        "ours": [17, 18],
        "theirs": [17],
    }
    for argument, message in (
        ("ours", "expected NAME=PATTERN"),
        ("=x", "expected NAME=PATTERN"),
        ("x=", "expected NAME=PATTERN"),
        (f"x={tmp_path / 'none*'}", "no such run folder"),
        (f"x={tmp_path / 'base'}", "the run has no seed"),
    ):
        with pytest.raises(InputError) as refused:
            Experiment.read_arms([argument])
        assert_says(refused.value, message)
    with pytest.raises(InputError, match="two runs with seed 17"):
        Experiment.read_arms([f"x={tmp_path / 'a17'}", f"x={tmp_path / 'b17'}"])


def test_the_calibrator_of_the_settings_is_for_named_arms_too(
    tmp_path: Path, folders: list[Path]
) -> None:
    settings = Settings(calibration=tmp_path / "none.json")
    experiment = Experiment.read_arms([f"ours={tmp_path / 'a17'}"], settings)
    with pytest.raises(InputError, match=r"none\.json: no such file"):
        _ = experiment.runs[0].calibrator


def test_the_shared_items_are_those_of_the_first_run(folders: list[Path]) -> None:
    experiment = Experiment.read(folders[:2])
    first, second = (run.scored("single").correct for run in experiment.runs)
    assert (first != second).any()
    assert (experiment.shared_items().correct == first).all()


def test_runs_of_other_items_are_not_compared(tmp_path: Path) -> None:
    a = small(tmp_path / "a", arm="a", seed=1)
    b = write_run(tmp_path / "b", other_items(rows(2, families=6)), arm="b", seed=1)
    experiment = Experiment.read([a, b])
    assert not experiment.same_items
    assert len(experiment.mismatches) == 1
    for refuses in (experiment.require_same_items, experiment.shared_items):
        with pytest.raises(InputError, match="item"):
            refuses()
    (lead,) = experiment.comparisons.better_than("a").values()
    assert lead.status == "cannot be compared"
    assert experiment.comparisons.better_runs[0].status == "cannot be compared"
    with pytest.raises(InputError, match="no run on full contexts"):
        Experiment(runs=()).shared_items()


def test_a_run_of_another_role_is_left_out(tmp_path: Path) -> None:
    a = small(tmp_path / "a", arm="a", seed=1)
    b = edit_run(small(tmp_path / "b", 2, arm="a", seed=2), role="calibration")
    experiment = Experiment.read([b, a])
    assert [run.folder for run in experiment.runs] == [a]
    assert [skipped.role for skipped in experiment.skipped] == ["calibration"]
    assert experiment.notices == experiment.skipped


def test_full_and_ablated_runs_are_kept_apart(tmp_path: Path) -> None:
    full = small(tmp_path / "a", arm="a", seed=1)
    ablated = write_run(tmp_path / "x", ablated_rows(1, families=6), arm="a", seed=1)
    experiment = Experiment.read([ablated, full])
    assert [run.folder for run in experiment.runs] == [full]
    assert [run.folder for run in experiment.all_runs] == [full, ablated]


def test_arms_without_a_shared_seed_cannot_be_compared(tmp_path: Path) -> None:
    folders = [small(tmp_path / f"r{seed}", seed, arm=f"arm{seed}", seed=seed) for seed in (1, 2)]
    (lead,) = Experiment.read(folders).comparisons.better_than("arm1").values()
    assert lead.status == "cannot be compared"
    assert_says(lead.reason, "arms share no seed")


def test_calibrators_are_applied_if_asked_and_noted(tmp_path: Path) -> None:
    folder = small(tmp_path / "a", arm="a", seed=1)
    run = Experiment.read([folder]).runs[0]
    assert (run.calibrator, run.temperature) == (None, None)
    assert run.use_notes("single") == ()
    assert run.calibrator_warnings("single") == ()
    assert run.applied("single", calibrated=False) is None
    with pytest.raises(InputError, match=r"expected calibration\.json"):
        run.applied("single", calibrated=True)
    write_calibrator(folder / "calibration.json", neutral_calibrator())
    experiment = Experiment.read([folder], Settings(calibrated=True))
    run = experiment.runs[0]
    assert run.calibrator == neutral_calibrator()
    assert run.applied("single", calibrated=False) is None
    assert run.applied("single", calibrated=True) == neutral_calibrator()
    (neutral,) = run.use_notes("single")
    assert neutral.kind == "NeutralTemperatures"
    fit_notes = (UNKNOWN_RUN, UNKNOWN_FAMILIES)
    assert run.fit_notes == fit_notes
    assert [warning.note for warning in run.calibrator_warnings()] == [*fit_notes]
    with_use = [warning.note for warning in run.calibrator_warnings("single")]
    assert with_use == [*fit_notes, neutral]
    assert run.temperature is not None
    assert (run.temperature.low, run.temperature.high) == (1.0, 1.0)
    assert len(experiment.applied_warnings) == 3
    raw = replace(experiment, settings=Settings())
    assert raw.applied_warnings == ()
    assert len(raw.warnings) == 2
    assert len(experiment.warnings) == 3
    elsewhere = tmp_path / "c.json"
    write_calibrator(elsewhere, Calibrator("scalar", Weights((1.0, 1.0, 1.0))))
    named = Experiment.read([folder], Settings(calibration=elsewhere)).runs[0]
    assert named.calibrator is not None
    assert named.calibrator.weights.bias == (1.0, 1.0, 1.0)


def test_the_mean_over_runs_by_hand(folders: list[Path]) -> None:
    experiment = Experiment.read(folders, Settings(resamples=50))
    runs = experiment.arms["a"]
    groups = [experiment.resampled(run, "single", calibrated=False) for run in runs]
    right = [run.scored().correct.mean() for run in runs]
    mean = mean_estimate(groups, "accuracy")
    assert mean.value == pytest.approx(np.mean(right))
    assert (mean.n, mean.clusters) == (12, 6)
    assert mean_estimate(groups[:1], "accuracy") == groups[0].estimate("accuracy")
    nll = mean_estimate(groups, "nll_nats")
    assert nll.value == pytest.approx(
        np.mean([run.scored().values["nll_nats"].mean() for run in runs])
    )


def test_costs_of_runs_by_hand(tmp_path: Path) -> None:
    folder = small(tmp_path / "runs" / "a", arm="a", seed=1)
    edit_run(folder, adapter="adapter", longest_prompt_tokens=321)
    (cost,) = run_costs(Experiment.read([folder]))
    assert (cost.arm, cost.seed, cost.views, cost.k) == ("a", 1, 36, 3)
    assert cost.longest_prompt_tokens == 321
    assert cost.wall_seconds == 1.0
    assert not cost.has_adapter
    assert (cost.training_minutes, cost.training_steps) == (None, None)
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    record = {"training": {"wall_seconds": 90, "steps": 12, "peak_memory_bytes": math.nan}}
    (adapter / TRAINING_RECORD).write_text("[]")
    (cost,) = run_costs(Experiment.read([folder]))
    assert cost.training_steps is None
    (adapter / TRAINING_RECORD).write_text(json.dumps(record).replace("NaN", "null"))
    (cost,) = run_costs(Experiment.read([folder]))
    assert (cost.training_minutes, cost.training_steps) == (1.5, 12)
    assert cost.training_peak_bytes is None
    (adapter / TRAINING_NAME).write_text('{"steps": 14, "views_per_pair": 8.0}')
    (cost,) = run_costs(Experiment.read([folder]))
    assert (cost.training_steps, cost.training_views_per_pair) == (14, 8.0)
    assert cost.training_minutes == 1.5


def test_notes_of_a_run_are_those_of_its_record() -> None:
    assert run_notes(Provenance.of({})) == ()
    unanswered = Provenance.of({"counts": {"items": 9, "views": 9, "unanswered": {"empty": 2}}})
    assert run_notes(unanswered) == (Unanswered(9, {"empty": 2}),)
    words: dict[Known, str] = {
        "answers": "The run has answers and no probabilities: NLL, Brier, ECE, AURC and view TV",
        "grades": "The run only says whether each answer is right: NLL, Brier, ECE, AURC and",
        "confidences": "Only the confidence of the answer is known: NLL, Brier, pair margin and",
        "outcomes": "the answer is known, and whether it is right: NLL, Brier, pair margin and",
    }
    for known, said in words.items():
        (note,) = run_notes(Provenance.of({"settings": {"values": known}}))
        assert note == PartlyKnown(known)
        assert_says(note, said)
    for changed, notes in ((True, (ChangedModel(0.2, 0.01),)), (False, ())):
        probe: dict[str, Json] = {
            "changed": changed,
            "end_largest_tv": 0.2,
            "least_change": 0.01,
        }
        assert run_notes(Provenance.of({"probe": probe})) == notes
    no_least = Provenance.of({"probe": {"changed": True, "end_largest_tv": 0.2}})
    assert run_notes(no_least) == (ChangedModel(0.2, 0.0),)
    assert run_notes(Provenance.of({"probe": {"changed": True}})) == ()


def test_items_of_one_order_are_counted() -> None:
    frame = frame_of(
        id=list("aabbcc"),
        view=[0, 1] * 3,
        reference=[0] * 6,
        code_order=[[0, 1], [1, 0], [0, 1], [0, 1], [1, 0], [1, 0]],
        logits=[[1.0, 0.0]] * 6,
    )
    items = ScoredItems.of(Predictions.from_frame(frame), "single")
    assert one_order(items) == (OneOrder(2, 1),)
    assert one_order(items.taken(np.array([0]))) in ((), (OneOrder(0, 1),))
    assert several_right(items) == ()


def test_several_right_answers_by_hand() -> None:
    """Answers 0 and 2 of the first item are right, of probabilities 0.5 and 0.2."""
    frame = frame_of(
        id=["a", "b"],
        reference=[0, 1],
        logits=[np.log([0.5, 0.3, 0.2]).tolist(), np.log([0.6, 0.4, 0.0001]).tolist()],
    ).with_columns(accepted=pl.Series([[0, 2], [1]]))
    items = ScoredItems.of(Predictions.from_frame(frame), "single")
    (note,) = several_right(items)
    assert note.items == 1
    assert note.nll_of_any == pytest.approx(-(math.log(0.7) + math.log(0.4 / 1.0001)) / 2, abs=1e-6)


@pytest.mark.parametrize(("noise", "ties"), [(0.049, 1), (0.05, 2), (0.2, 3)])
def test_a_tie_is_within_twice_the_noise(noise: float, ties: int) -> None:
    assert near_ties(np.array([0.0, 0.1, 0.4, 3.0]), noise).items == ties


def test_the_name_of_the_calibration() -> None:
    names = [
        settings.calibration_name
        for settings in (
            Settings(),
            Settings(calibrated=True),
            Settings(calibrated=True, shipped=True),
        )
    ]
    assert names == ["raw", "calibrated", "as shipped"]
    assert Settings(decoding="ensemble", calibrated=True).label == {
        "views": "ensemble",
        "calibration": "calibrated",
    }
    assert Settings(seed=3).rng().random() == np.random.default_rng(3).random()
