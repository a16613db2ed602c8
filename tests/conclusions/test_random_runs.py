"""What is printed of random runs agrees with itself: `PACT_RUNS=1000` tests more of them.

`agreement.py` has the rules. Contradictions that are planted show that it finds them.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
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
FAST: Final = 25
RESAMPLES: Final = 200
TARGET: Final = 0.1
CHUNK: Final = 25

Change = Callable[[Surfaces], None]


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


def test_surfaces_agree_on_random_runs(tmp_path: Path) -> None:
    assert not found_in(range(min(FAST, RUNS)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FAST, RUNS, CHUNK))
def test_surfaces_agree_on_more_random_runs(first: int, tmp_path: Path) -> None:
    assert not found_in(range(first, min(first + CHUNK, RUNS)), tmp_path)


PAIR: Final = next(
    plan
    for plan in map(RandomRuns.of, range(1_000))
    if plan.known == "probabilities"
    and plan.sizes == "pairs"
    and plan.k > 1
    and plan.items > 100
    and len(plan.runs) == 2
    and plan.alike < 1
    and plan.decoding == "single"
    and not plan.runs[0].lean
    and plan.runs[0].confidence == "calibrated"
)
"""Two runs of whose numbers all have intervals."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Surfaces:
    return surfaces_of(PAIR, tmp_path_factory.mktemp("pair"))


def in_report(*path: str | int, to: Any) -> Change:
    """Change a value in the object of the report on the first run."""
    return lambda surfaces: _set(surfaces.reports[0], path, to)


def in_comparison(*path: str | int, to: Any) -> Change:
    """Change a value in the object of the comparison."""
    return lambda surfaces: _set(surfaces.comparison, path, to)


def _set(value: Any, path: tuple[str | int, ...], to: Any) -> None:
    _at(value, path[:-1])[path[-1]] = to


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _turn(evidence: dict[str, Any]) -> None:
    evidence["marked"] = not evidence["marked"]


def with_text(value: Any, old: str, new: str) -> Any:
    """Replace text in a text or in tuples and lists of texts."""
    if isinstance(value, str):
        assert old in value, value[:2_000]
        return value.replace(old, new)
    return type(value)(with_text(part, old, new) for part in value)


ACCURACY: Final = ("groups", 0, "metrics", "accuracy")
PROBABILITIES: Final = ("answer", "probabilities")
ORDER: Final = ("answer", "order")
CLAIM: Final = ("answer", "better", 0, "claims", 0)
ALL: Final = ("comparisons", 0, "comparison", "groups", 0, "metrics")
PLANTED: Final[dict[str, Change]] = {
    "a rate above 1": in_report(*ACCURACY, "high", to=1.2),
    "a value outside its interval": in_report(*ACCURACY, "value", to=0.0),
    "one end": in_report(*ACCURACY, "low", to=None),
    "a negative loss": in_report("groups", 0, "metrics", "nll_nats", "low", to=-0.1),
    "a gap that cannot be": in_report(*PROBABILITIES, "gap", "high", to=1.1),
    "a direction without a gap": in_report(*PROBABILITIES, "status", to="under-confident"),
    "stable with flips": in_report(*ORDER, "status", to="stable"),
    "follows nothing": in_report(*ORDER, "status", to="follows a letter"),
    "better without a difference": in_comparison(*CLAIM, "status", to="better"),
    "equivalent beyond the margin": in_comparison(*CLAIM, "status", to="equivalent"),
    "a small p-value beside 0": in_comparison(*ALL, "accuracy", "evidence", "p_value", to=1e-9),
    "a difference above 1": in_comparison(*ALL, "accuracy", "difference", "high", to=1.1),
    "a mark turned": lambda surfaces: _turn(_at(surfaces.comparison, ALL)["accuracy"]["evidence"]),
    "another number in print": lambda surfaces: surfaces.report_texts.__setitem__(
        0, with_text(surfaces.report_texts[0], "[", "[9")
    ),
    "another number in Python": lambda surfaces: surfaces.python_texts.__setitem__(
        0, with_text(surfaces.python_texts[0], "[", "[9")
    ),
    "undefined in print": lambda surfaces: surfaces.report_texts.__setitem__(
        0, with_text(surfaces.report_texts[0], "%", "nan %")
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_contradiction_is_found(name: str, pair: Surfaces) -> None:
    spoiled = Surfaces(pair.experiment)
    for key in ("reports", "comparison", "report_texts", "python_texts", "comparison_texts"):
        spoiled.__dict__[key] = copy.deepcopy(getattr(pair, key))
    spoiled.__dict__["source"] = pair.source
    assert not [*contradictions(spoiled)]
    PLANTED[name](spoiled)
    assert [*contradictions(spoiled)]


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
