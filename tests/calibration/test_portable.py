"""Temperatures for `decision.json`: read and applied by transformers, and what they give up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from calibration.simulated import by_kind, simulate, unsure
from commands import refuser, runner
from messages import assert_says
from run_frames import predictions, rows, write_run

from pact_cli.main import main
from pact_eval.calibration.fitting import fit_calibrator
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.portable import (
    check_decision_file,
    portable_calibration,
    write_decision_file,
)
from pact_eval.calibration.temperatures import (
    Calibrator,
    Weights,
    inverse_softplus,
    neutral_calibrator,
    read_calibrator,
    softplus,
)
from pact_eval.errors import InputError

run, refused = runner(main), refuser(main)
TYPES = {"choice": "choice", "boolean": "noul", "score": "score"}


@pytest.fixture
def fitted(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", rows(1, families=90), arm="a", seed=1)


@pytest.mark.slow
def test_transformers_tempers_as_the_calibrator_does(fitted: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from transformers import DecisionConfig

    run(
        "calibrate", fitted, "--force", "--mode", "per-kind", "--export", tmp_path / "decision.json"
    )
    config = DecisionConfig.from_file(tmp_path / "decision.json")
    items = CalibrationItems.from_predictions(predictions(1, families=90), "single")
    ours = read_calibrator(fitted / "calibration.json").apply(items.log_probs, items)
    for row, (kind, n) in enumerate(zip(items.kind, items.n_choices, strict=True)):
        scores = torch.tensor(items.log_probs[row : row + 1, :n])
        processors = config.logits_processors[TYPES[str(kind)]]
        theirs = torch.softmax(processors(None, scores), dim=-1).numpy()[0]
        assert np.abs(np.exp(ours[row, :n]) - theirs).max() < 1e-6


def test_an_ensemble_has_no_temperature_of_one_view() -> None:
    ensemble = CalibrationItems.from_predictions(predictions(1), "ensemble")
    with pytest.raises(InputError, match="temperatures of one view"):
        portable_calibration(ensemble, neutral_calibrator())


def test_other_keys_stay_and_other_files_are_refused(fitted: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "decision.json").write_text('{"labels": {"noul": ["A", "B"]}}')
    text = run("calibrate", fitted, "--force", "--mode", "contextual", "--export", model).stdout
    assert_says(text, "T depends on", "number of answers", "prompt's length")
    written = json.loads((model / "decision.json").read_bytes())
    assert written["labels"] == {"noul": ["A", "B"]}
    assert sorted(written["temperature"]) == ["choice", "noul", "score"]
    assert "has temperatures already" in refused("calibrate", fitted, "--export", model)
    run("calibrate", fitted, "--force", "--export", model, "--overwrite", "--json")
    before = (fitted / "run.json").read_bytes()
    assert "got other keys" in refused("calibrate", fitted, "--export", fitted / "run.json")
    assert (fitted / "run.json").read_bytes() == before


def test_temperatures_by_kind_have_the_names_of_transformers() -> None:
    items = simulate(60, np.random.default_rng(4), by_kind(1.3, 2.0, 0.8))
    biases = (inverse_softplus(1.5), inverse_softplus(2.0), inverse_softplus(3.0))
    portable = portable_calibration(items, Calibrator("per-kind", Weights(biases)))
    assert portable.temperatures == pytest.approx({"choice": 1.5, "noul": 2.0, "score": 3.0})
    assert portable.lost == ()


@pytest.mark.parametrize(
    ("answers", "tokens", "lost"),
    [
        (0.3, 0.0, ("the number of answers",)),
        (0.0, -0.2, ("the prompt's length",)),
        (0.3, -0.2, ("the number of answers", "the prompt's length")),
        (0.0, 0.0, ()),
    ],
)
def test_only_slopes_are_lost(answers: float, tokens: float, lost: tuple[str, ...]) -> None:
    items = simulate(60, np.random.default_rng(4), by_kind(1.3, 2.0, 0.8))
    fitted = Calibrator("contextual", Weights((1.0, 0.2, 0.3), answers, tokens))
    portable = portable_calibration(items, fitted)
    assert portable.lost == lost
    if not lost:  # the first bias serves all kinds
        assert [*portable.temperatures.values()] == pytest.approx([float(softplus(1.0))] * 3)
    else:
        levels = fit_calibrator(items, mode="per-kind").levels
        assert [*portable.temperatures.values()] == pytest.approx([t.value for t in levels])


def test_the_file_to_write_is_checked_before_anything_is_written(tmp_path: Path) -> None:
    file = tmp_path / "decision.json"
    assert check_decision_file(tmp_path, overwrite=False) == file
    assert check_decision_file(file, overwrite=False) == file
    with pytest.raises(InputError) as missing:
        check_decision_file(tmp_path / "none" / "decision.json", overwrite=True)
    assert_says(missing.value, "no such folder", str(tmp_path / "none"))
    file.write_text("[]")
    with pytest.raises(InputError, match="expected a JSON object, got a list"):
        check_decision_file(file, overwrite=True)
    file.write_text("{}")
    assert check_decision_file(file, overwrite=False) == file
    file.write_text('{"temperature": {"noul": 2.0}}')
    with pytest.raises(InputError, match="has temperatures already"):
        check_decision_file(file, overwrite=False)
    assert check_decision_file(file, overwrite=True) == file


def test_temperatures_replace_temperatures_and_nothing_else(tmp_path: Path) -> None:
    items = unsure(0.9, right=6, wrong=4)
    cold = Calibrator("scalar", Weights((inverse_softplus(0.5),) * 3))
    portable = portable_calibration(items, cold)
    file = tmp_path / "decision.json"
    write_decision_file(file, portable)
    expected = {"choice": 0.5, "noul": 0.5, "score": 0.5}
    assert json.loads(file.read_bytes()) == {"temperature": pytest.approx(expected)}
    file.write_text('{"labels": {"noul": ["A", "B"]}, "temperature": {"noul": 9.0, "other": 1.0}}')
    write_decision_file(file, portable)
    assert json.loads(file.read_bytes()) == {
        "labels": {"noul": ["A", "B"]},
        "temperature": pytest.approx(expected),
    }
