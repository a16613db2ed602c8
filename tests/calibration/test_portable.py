"""Temperatures for `decision.json`: read and applied by transformers, and what they give up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from commands import refuser, runner
from messages import assert_says
from run_frames import edit_run, predictions, rows, write_run

from pact_cli.main import main
from pact_eval.calibration.files import read_calibrator
from pact_eval.calibration.fitting import fit_calibrator
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.portable import portable_calibration
from pact_eval.errors import InputError
from pact_eval.metrics import nll_nats

run, refused = runner(main), refuser(main)
TYPES = {"choice": "choice", "boolean": "noul", "score": "score"}


@pytest.fixture
def fitted(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", rows(1, families=90), arm="a", seed=1)


@pytest.mark.slow
def test_transformers_tempers_as_the_calibrator_does(fitted: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from transformers import DecisionConfig

    run("calibrate", fitted, "--mode", "per-kind", "--export", tmp_path / "decision.json")
    config = DecisionConfig.from_file(tmp_path / "decision.json")
    items = CalibrationItems.from_predictions(predictions(1, families=90), "single")
    ours = read_calibrator(fitted / "calibration.json").apply(
        items.log_probs, kind=items.kind, n_choices=items.n_choices
    )
    for row, (kind, n) in enumerate(zip(items.kind, items.n_choices, strict=True)):
        scores = torch.tensor(items.log_probs[row : row + 1, :n])
        processors = config.logits_processors[TYPES[str(kind)]]
        theirs = torch.softmax(processors(None, scores), dim=-1).numpy()[0]
        assert np.abs(np.exp(ours[row, :n]) - theirs).max() < 1e-6


def test_what_a_contextual_calibrator_loses_by_hand() -> None:
    items = CalibrationItems.from_predictions(predictions(1, families=90), "single")
    fit = fit_calibrator(items, mode="contextual")
    portable = portable_calibration(items, fit.calibrator)
    by_kind = fit_calibrator(items, mode="per-kind").calibrator
    after = by_kind.apply(items.log_probs, kind=items.kind, n_choices=items.n_choices)
    cost = nll_nats(after, items.reference).mean() - fit.nll_after
    assert portable.lost == ("the number of answers", "the prompt's length")
    assert portable.nll_change.value == pytest.approx(cost)
    assert portable.portable.nll_nats - portable.fitted.nll_nats == pytest.approx(cost)
    assert portable.nll_change.low < cost < portable.nll_change.high
    ensemble = CalibrationItems.from_predictions(predictions(1), "ensemble")
    with pytest.raises(InputError, match="temperatures of one view"):
        portable_calibration(ensemble, fit.calibrator)


def test_other_keys_stay_and_other_files_are_refused(fitted: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "decision.json").write_text('{"labels": {"noul": ["A", "B"]}}')
    text = run("calibrate", fitted, "--mode", "contextual", "--export", model).stdout
    assert_says(text, "T depends on", "number of answers", "prompt's length")
    written = json.loads((model / "decision.json").read_bytes())
    assert written["labels"] == {"noul": ["A", "B"]}
    assert sorted(written["temperature"]) == ["choice", "noul", "score"]
    assert "has temperatures already" in refused("calibrate", fitted, "--export", model)
    run("calibrate", fitted, "--export", model, "--overwrite", "--json")
    before = (fitted / "run.json").read_bytes()
    assert "got other keys" in refused("calibrate", fitted, "--export", fitted / "run.json")
    assert (fitted / "run.json").read_bytes() == before


def test_temperatures_of_a_served_run_come_on_top(fitted: Path, tmp_path: Path) -> None:
    edit_run(fitted, settings={"server": {"wire": "systemone"}})
    out = run("calibrate", fitted, "--mode", "scalar", "--export", tmp_path / "d.json", "--json")
    sentences = json.loads(out.stdout)["exported"]["sentences"]
    assert_says(sentences[1], "Nothing is lost", "one temperature per type")
    assert "multiply the two" in sentences[2]
