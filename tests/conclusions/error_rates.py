"""How often each loud word is false on runs without the effect, and true on runs with it.

python tests/conclusions/error_rates.py [DRAWS]     400 draws take about 30 minutes on one core
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from conclusions.planted import TARGET, Plan, drawn_to, right_by_chance, scaled
from run_frames import write_run

from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.thresholds.report_acting import acting_of_run
from pact_fixtures.generator.dataset import Dataset, generate_dataset, write_dataset

DRAWS = 400
"""Of 400 draws at 5%, up to 28 are sampling error (97.5% of samples)."""

_FAMILIES = 100
_SETTINGS = Settings(resamples=400, target_error=TARGET)


@dataclass(frozen=True)
class Word:
    """A loud word, a run without what it says, and one with it.

    Attributes:
        name: the word.
        null: how a run without the effect is made.
        planted: how a run with the effect is made.
        said: whether a surface says the word of an experiment.
        second: how the run that both are compared with is made, or None.
    """

    name: str
    null: Plan
    planted: Plan
    is_said: Callable[[Experiment], bool]
    second: Plan | None = None


def _headline(experiment: Experiment) -> bool:
    (conclusion,) = experiment.comparisons.better_runs
    return conclusion.status in ("better", "worse")


def _follows(experiment: Experiment) -> bool:
    return experiment.order(experiment.runs[0]).status.startswith("follows")


def _unstable(experiment: Experiment) -> bool:
    return experiment.order(experiment.runs[0]).status == "unstable"


def _miscalibrated(experiment: Experiment) -> bool:
    return experiment.probabilities(experiment.runs[0]).tone == "bad"


def _acts(experiment: Experiment) -> bool:
    conclusion = acting_of_run(experiment, experiment.runs[0])
    return conclusion is not None and conclusion.status == "share guaranteed"


_SAME = Plan(families=_FAMILIES, noise=0.5)
_MORE = Plan(families=_FAMILIES, noise=0.5, skill=2.1)
WORDS = (
    Word("better or worse, at view 0 or over 4 views", _SAME, _MORE, _headline, _SAME),
    Word(
        "follows a letter or position",
        Plan(families=_FAMILIES, noise=0.6, skill=1.0),
        Plan(families=_FAMILIES, noise=0.6, skill=1.0, change=drawn_to(0, 0.4)),
        _follows,
    ),
    Word(
        "unstable",
        # 8.8% of the answers change: just below the limit.
        Plan(families=_FAMILIES, noise=0.115),
        Plan(families=_FAMILIES, noise=0.3),
        _unstable,
    ),
    Word(
        "over-confident, under-confident or miscalibrated",
        Plan(families=_FAMILIES, k=1),
        Plan(families=_FAMILIES, k=1, change=scaled(1.6)),
        _miscalibrated,
    ),
    Word(
        "may decide a share (error of at most 5%)",
        # Every gate has an error of 5%: the limit itself.
        Plan(families=3 * _FAMILIES, k=1, change=right_by_chance(1 - TARGET)),
        Plan(families=3 * _FAMILIES, k=1, skill=3.0),
        _acts,
    ),
)


WORDS_OF_RUNS = [
    tuple(words)
    for _, words in groupby(WORDS, key=lambda word: (word.null, word.planted, word.second))
]
"""Words that are looked for in the same runs."""


def rates(words: Sequence[Word], seeds: range, *, planted: bool) -> dict[str, float]:
    """Returns by name the shares of draws in which words of the same runs are said."""
    plan = words[0].planted if planted else words[0].null
    says = [
        [word.is_said(experiment) for word in words]
        for experiment in _experiments(plan, words[0].second, seeds)
    ]
    shares = np.mean(says, axis=0).tolist()
    return {word.name: share for word, share in zip(words, shares, strict=True)}


def _experiments(plan: Plan, second: Plan | None, seeds: range) -> Iterator[Experiment]:
    for seed in seeds:
        with tempfile.TemporaryDirectory() as home:
            plans = [plan, *([] if second is None else [second])]
            folders = [
                write_run(Path(home) / f"{at}", run_plan.rows(2 * seed + at), arm=f"{at}", seed=1)
                for at, run_plan in enumerate(plans)
            ]
            yield Experiment.read(folders, _SETTINGS)


def leak_rate(seeds: range, *, plants: bool) -> float:
    """Returns the share of generated datasets in which the audit finds a leak.

    Args:
        seeds: seeds of the datasets, whose files share no source family.
        plants: whether the training file gets one pair of the holdout, under other names and
            with one of twenty words left out.
    """
    leaks = 0
    for seed in seeds:
        dataset = generate_dataset("full", seed)
        if plants:
            _plant_pair(dataset, np.random.default_rng(seed))
        with tempfile.TemporaryDirectory() as home:
            write_dataset(dataset, Path(home))
            source = DatasetSource.of_folder(Path(home))
            audit = audit_data(source, DataAuditSettings(only=["separation"]))
        leaks += DataConclusion.of_audit(audit).status == "leak"
    return leaks / len(seeds)


def _plant_pair(dataset: Dataset, rng: np.random.Generator) -> None:
    """Adds a pair of the holdout to the training records, as a careless copy would."""
    at = 2 * int(rng.integers(len(dataset.holdout) // 2))
    for row in json.loads(json.dumps(dataset.holdout[at : at + 2])):
        for key in ("id", "family", "source_family"):
            row[key] = f"copy-{row[key]}"
        row["provenance"]["source_id"] = row["family"]
        row["input"]["state"] = _without_words(row["input"]["state"], rng)
        dataset.train.append(row)


def _without_words(state: Any, rng: np.random.Generator) -> Any:
    """Leaves one of twenty words out of every text of a context."""
    if isinstance(state, Mapping):
        return {key: _without_words(value, rng) for key, value in state.items()}
    if isinstance(state, list):
        return [_without_words(value, rng) for value in state]
    if isinstance(state, str):
        return " ".join(word for word in state.split(" ") if rng.random() >= 1 / 20)
    return state


def main(draws: int) -> None:
    """Prints a table: the rate of each word without its effect, and with it."""
    sys.stdout.write("| word | without the effect | with the planted effect |\n|---|---|---|\n")
    for words in WORDS_OF_RUNS:
        null = rates(words, range(draws), planted=False)
        for name, share in rates(words, range(draws // 4), planted=True).items():
            _print_row(name, null[name], share, draws)
    sound = leak_rate(range(draws), plants=False)
    _print_row("leak", sound, leak_rate(range(draws // 4), plants=True), draws)


def _print_row(name: str, null: float, power: float, draws: int) -> None:
    sys.stdout.write(f"| {name} | {100 * null:.1f}% of {draws} | {100 * power:.0f}% |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS)
