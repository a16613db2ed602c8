"""What is printed of random runs agrees with itself: `PACT_RUNS=1000` tests more of them.

`agreement.py` has the rules.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from commands import runner
from conclusions.agreement import Surfaces, contradictions
from conclusions.random_runs import RandomRuns

from pact_cli.main import main
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings

RUNS: Final = int(os.environ.get("PACT_RUNS", "300"))
FAST: Final = 8
"""Seeds that are always tested; all others are slow."""
RESAMPLES: Final = 200
TARGET: Final = 0.1
CHUNK: Final = 25


def surfaces_of(plan: RandomRuns, home: Path) -> Surfaces:
    """Write the runs of a seed, and return what is printed of them."""
    settings = Settings(
        resamples=RESAMPLES, margin=plan.margin, decoding=plan.decoding, target_error=TARGET
    )
    return Surfaces(Experiment.read(plan.write(home), settings))


def found_in(seeds: range, home: Path) -> list[str]:
    """Return the contradictions in what is printed of the runs of some seeds."""
    return [
        f"seed {seed}: {contradiction}"
        for seed in seeds
        for contradiction in contradictions(surfaces_of(RandomRuns.of(seed), home / f"{seed}"))
    ]


@pytest.mark.parametrize("seed", range(min(FAST, RUNS)))
def test_surfaces_agree_on_random_runs(seed: int, tmp_path: Path) -> None:
    assert not found_in(range(seed, seed + 1), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FAST, RUNS, CHUNK))
def test_surfaces_agree_on_more_random_runs(first: int, tmp_path: Path) -> None:
    assert not found_in(range(first, min(first + CHUNK, RUNS)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_commands_print_what_the_surfaces_are(seed: int, tmp_path: Path) -> None:
    plan = RandomRuns.of(seed)
    surfaces = surfaces_of(plan, tmp_path)
    folders = [tmp_path / name for name in "ab"[: len(plan.runs)]]
    words: list[Any] = ["--resamples", RESAMPLES, "--decoding", plan.decoding, "--json"]
    run = runner(main)
    report = json.loads(run("report", folders[0], *words, "--target-error", TARGET).stdout)
    assert report["answer"] == surfaces.reports[0]["answer"]
    assert report["groups"] == surfaces.reports[0]["groups"]
    if len(folders) > 1:
        margin = [] if plan.margin is None else ["--margin", plan.margin]
        compared = json.loads(run("compare", *folders, *words, *margin).stdout)
        assert compared["answer"] == surfaces.comparison["answer"]
        assert (
            compared["comparisons"][0]["comparison"]
            == (surfaces.comparison["comparisons"][0]["comparison"])
        )


PAIRS: Final = [seed for seed in range(60) if len(RandomRuns.of(seed).runs) == 2]


@pytest.mark.slow
@pytest.mark.parametrize("seed", PAIRS)
def test_the_gate_says_what_the_comparison_says(seed: int, tmp_path: Path) -> None:
    """Theory: exit 0 asks for the entire interval inside the margin, exit 3 for one beyond it."""
    folders = RandomRuns.of(seed).write(tmp_path)
    margin = 0.05
    settings = Settings(resamples=RESAMPLES, margin=margin)
    (conclusion,) = Experiment.read(folders, settings).comparisons.better_runs
    words = ["--margin", margin, "--resamples", RESAMPLES]
    result = gate(*folders, *words)
    claim = next((claim for claim in conclusion.claims if claim.metric == "accuracy"), None)
    if claim is None or claim.status == "cannot be compared":
        assert result != 0
        return
    low, high = claim.difference.low, claim.difference.high
    inside = -margin < low and high < margin
    assert (result == 0) <= inside
    assert (result == 3) <= (low > margin or high < -margin)
    assert (claim.status == "equivalent") <= (result == 0)


def gate(*words: Any) -> int:
    """Return the exit code of `compare --gate`."""
    result = CliRunner().invoke(main, ["compare", "--gate", *map(str, words)])
    assert result.exit_code in (0, 3, 4), result.output
    return result.exit_code
