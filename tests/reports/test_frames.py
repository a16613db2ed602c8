"""Results as data frames: against the JSON of the commands, and a hand computation per item."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from run_frames import ablated_rows, frame_of, rows, write_run

import pact_eval
from pact_eval.runs.folder import read_any_run


def test_the_items_of_a_run_against_a_hand_computation(tmp_path: Path) -> None:
    logits = [[0.0, math.log(3)], [math.log(4), 0.0]]
    frame = frame_of(id=["i", "i"], view=[0, 1], reference=[1, 1], logits=logits)
    run = pact_eval.read_run(write_run(tmp_path / "run", frame))
    (single,) = run.frame().iter_rows(named=True)
    assert (single["predicted"], single["correct"]) == (1, True)
    assert single["confidence"] == pytest.approx(0.75)
    assert single["nll"] == pytest.approx(-math.log(0.75))
    assert single["probabilities"] == pytest.approx([0.25, 0.75])
    (together,) = run.frame("ensemble").iter_rows(named=True)
    assert together["probabilities"] == pytest.approx(np.array([2, math.sqrt(3)]) / 3.7320508)


def test_what_ablated_contexts_and_answers_lack(tmp_path: Path) -> None:
    ablated = read_any_run(write_run(tmp_path / "ablated", ablated_rows(1)))
    frame = ablated.frame()
    assert frame["reference"].null_count() == frame["nll"].null_count() == frame.height > 0
    assert frame["confidence"].null_count() == 0


def test_a_run_is_a_card_in_a_notebook(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", rows(1), arm="<script>", seed=17)
    run = pact_eval.read_run(folder)
    html = run._repr_html_()
    for fact in ("&lt;script&gt;", "17", "60 items in 30 groups", "K = 3"):
        assert fact in html
    assert "<script>" not in html
    ablated = read_any_run(write_run(tmp_path / "b", ablated_rows(1)))
    assert "ablated contexts" in ablated._repr_html_()
    log = tmp_path / "rows.jsonl"
    log.write_text('{"id": "a", "reference": 1, "p": [0.25, 0.75]}')
    imported = pact_eval.import_run(log, tmp_path / "c", map={"probabilities": "p"})
    assert "1 item" in imported._repr_html_()
