"""Outcomes of items and of pairs, counted by hand from the logits of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from run_frames import frame_of, write_run

from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_outcomes import item_outcomes

# Three pairs: both right; both wrong with one answer; one right. A seventh item is alone.
ANSWERS = [0, 1, 0, 0, 1, 1, 0]
REFERENCES = [0, 1, 1, 1, 0, 1, 0]


def test_pairs_by_hand(tmp_path: Path) -> None:
    frame = frame_of(
        id=list("abcdefg"),
        family=["p", "p", "q", "q", "r", "r", "s"],
        variant=["base", "counterfactual"] * 3 + ["base"],
        reference=REFERENCES,
        logits=[[2.0 * (answer == 0), 2.0 * (answer == 1)] for answer in ANSWERS],
    )
    experiment = Experiment.read([write_run(tmp_path / "run", frame)])
    outcomes = item_outcomes(experiment, experiment.runs[0])
    assert outcomes.predicted.tolist() == ANSWERS
    assert outcomes.partner.tolist() == [1, 0, 3, 2, 5, 4, -1]
    assert np.flatnonzero(outcomes.pair_right).tolist() == [0, 1]
    assert np.flatnonzero(outcomes.pair_wrong).tolist() == [2, 3]
    assert np.flatnonzero(outcomes.pair_same).tolist() == [2, 3, 4, 5]
