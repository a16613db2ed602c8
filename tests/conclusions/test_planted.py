"""Planted cases: what is concluded is what is true of them.

`test_random_runs.py` compares the surfaces with one another.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import runner
from conclusions import surfaces
from conclusions.planted import CASES, TARGET, Case
from messages import assert_says

from pact_cli.main import main
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.stats import letter_preference
from pact_eval.thresholds.conclusion import acting_of_run


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_conclusions_say_what_is_true(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_preference, "MOST_DRAWS", 999)  # half of the time was that of draws
    runs = [case.first.write(tmp_path / "first", case.seeds[0])]
    if case.second is not None:
        runs.append(case.second.write(tmp_path / "second", case.seeds[1]))
    settings = Settings(resamples=400, margin=case.margin, target_error=TARGET)
    experiment = Experiment.read(runs, settings)
    run = experiment.all_runs[0]
    order = experiment.order(run)
    assert case.order in ("", order.status)
    assert case.probabilities in ("", experiment.probabilities(run).status)
    if case.acting:
        acting = acting_of_run(experiment, run)
        assert acting is not None
        assert acting.status == case.acting
    where = experiment.where(run)
    assert case.where in ("", where.status)
    if case.groups:
        assert tuple(group.name for group in where.groups) == case.groups
    if case.second is not None:
        (better,) = experiment.comparisons.better_runs
        assert {claim.k: claim.status for claim in better.of("accuracy")} == case.better
    if case.letter:
        last = {"last": "Follows the last place", "Z": "Follows Z, the last place"}
        finding = last.get(case.letter, f"Follows the letter {case.letter}")
        assert order.words.finding == finding


SHOWN_GAPS = {
    "12 items, 90% sure, 2 right": True,
    "right only on average": False,
    "says 80% and is right in 66%, says 85% and is right in 99%": False,
    "over-confident": True,
}
"""Runs with a calibration error that is shown, and whether the sign of its mean gap is."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN_GAPS)
def test_a_mean_gap_that_is_not_shown_is_not_called_0(name: str, tmp_path: Path) -> None:
    """Theory: an interval that includes 0 shows neither a gap nor that there is none."""
    (case,) = (case for case in CASES if case.name == name)
    folder = case.first.write(tmp_path / "first", case.seeds[0])
    experiment = Experiment.read([folder])
    conclusion = experiment.probabilities(experiment.runs[0])
    assert conclusion.p_value <= 0.05, "the error itself is shown"
    gap = 100 * np.array([conclusion.gap.value, conclusion.gap.low, conclusion.gap.high])
    assert (gap[1] > 0 or gap[2] < 0) == SHOWN_GAPS[name]
    line = surfaces.facts(runner(main)("report", folder).stdout)["probabilities"]
    words = str(conclusion.words)
    for text in (line, words):
        assert "right on average" not in text
        if not SHOWN_GAPS[name]:  # how large it may be
            assert_says(text, "gap {:+.1f} [{:+.1f}, {:+.1f}]".format(*gap), "points")
    # Of an error that cancels in a bin, the bins of ECE show nothing and CORP does.
    assert conclusion.only_corp == name.startswith("says 80%")
    if conclusion.only_corp:
        assert conclusion.corp.value > 10 * conclusion.corp.floor
        assert_says(
            line, "MISCALIBRATED: says 82.5%", f"CORP miscalibration {conclusion.corp.value:.4f}"
        )
