"""Words that `benchmarks/claim_rates.py` does not draw: on runs without the effect, and with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conclusions.planted import TARGET, Plan, right_by_chance
from run_frames import write_run

from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.thresholds.conclusion import acting_of_run

DRAWS = 30
"""At a rate of 5%, more than 5 of 30 draws are false in 0.3% of such tests; at 30%, in 92%."""
FAMILIES = 100

pytestmark = pytest.mark.slow


def unstable(experiment: Experiment) -> bool:
    return experiment.order(experiment.runs[0]).status == "unstable"


def acts(experiment: Experiment) -> bool:
    conclusion = acting_of_run(experiment, experiment.runs[0])
    return conclusion is not None and conclusion.status == "share guaranteed"


def said(word: Callable[[Experiment], bool], plan: Plan, draws: int, home: Path) -> int:
    """Returns in how many runs of a plan a word is said."""
    settings, count = Settings(resamples=400, target_error=TARGET), 0
    for seed in range(draws):
        run = write_run(home / f"{seed}", plan.rows(seed), arm="a", seed=1)
        count += word(Experiment.read([run], settings))
    return count


@pytest.mark.parametrize(
    ("word", "null", "planted"),
    [
        # 8.8% of the answers change: just below the limit.
        (unstable, Plan(families=FAMILIES, noise=0.115), Plan(families=FAMILIES, noise=0.3)),
        # Every gate has an error of 5%: the limit itself.
        (
            acts,
            Plan(families=3 * FAMILIES, k=1, change=right_by_chance(1 - TARGET)),
            Plan(families=3 * FAMILIES, k=1, skill=3.0),
        ),
    ],
)
def test_loud_words_are_rarely_false_and_often_true(
    word: Callable[[Experiment], bool], null: Plan, planted: Plan, tmp_path: Path
) -> None:
    assert said(word, null, DRAWS, tmp_path / "null") <= 5
    assert said(word, planted, 6, tmp_path / "planted") >= 3
