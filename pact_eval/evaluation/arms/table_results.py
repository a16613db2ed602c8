"""Results behind the tables of runs and arms.

Ablations, metrics before and after calibration, accuracy by group, costs, and decomposed scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pact_eval import metrics
from pact_eval._choices import Decoding, GroupBy
from pact_eval._files import read_json, read_toml
from pact_eval._json import Json, finite_number
from pact_eval.calibration.temperatures import TemperatureSummary
from pact_eval.custody import TRAINING_RECORD
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_differences import ArmSummary, Margin, against, parse_margin
from pact_eval.evaluation.arms.arm_metrics import (
    ArmMetrics,
    MetricCell,
    MetricQuestion,
    MetricRow,
    MetricTable,
)
from pact_eval.evaluation.arms.released_training import ReleasedCalibration, ReleasedTraining
from pact_eval.evaluation.diagnostics import calibrated_items, made_worse
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.registry import (
    ENSEMBLE,
    ENSEMBLE_CALIBRATED,
    SINGLE,
    MetricDecoding,
    find_metric,
    metric_names,
    metric_spec,
    registered_metrics,
)
from pact_eval.evaluation.report import Calibration, ChanceMiscalibration
from pact_eval.runs.folder import RunFolder
from pact_eval.stats.estimate import Estimate

Change = Literal["clearly better", "better", "worse", "clearly worse"]
"""What a change of a metric means for the reader."""

_SMALL_SHARE: Final = 0.25
# Differences of equal numbers that were summed in another order.
_ROUNDING: Final = 1e-12


@dataclass(frozen=True)
class Ablation:
    """One run and its differences from that of the method at the same seed.

    Attributes:
        arm: of the run.
        rows: the number of each question.
        changes: this run's minus the method's; NaN if one of them is undefined.
        marks: what the changes mean, or None if they are small or no thresholds are given.
    """

    arm: str
    rows: tuple[MetricRow, ...]
    changes: tuple[float, ...]
    marks: tuple[Change | None, ...]


@dataclass(frozen=True)
class Ablations:
    """The runs next to the method, seed by seed.

    Attributes:
        method: the arm that the others are compared with.
        questions: metric and decoding of each column.
        blocks: by seed, the method's run first.
        sizes: of `ArmMetrics.sizes`, what the numbers rest on.
        published: whether these are published numbers, without the noise floor of ECE.
        clear: by metric of the columns, the change that is called clear.
    """

    method: str
    questions: tuple[MetricQuestion, ...]
    blocks: Mapping[int, tuple[Ablation, ...]]
    sizes: Mapping[str, tuple[int, int]]
    published: bool
    clear: Mapping[str, Margin]


def ablations(
    metrics: ArmMetrics,
    method: str,
    decoding: Decoding = "single",
    clear: Mapping[str, Margin] | None = None,
) -> Ablations:
    """Compare every other run with that of the method at the same seed.

    Args:
        metrics: the numbers.
        method: an arm with seeds.
        decoding: single or ensemble, for all but TV and flips, which are of the K views.
        clear: by metric, the change that is called clear; changes below a quarter of it, and those
            of other metrics, are not marked.

    Raises:
        InputError: the method has no seed, or no other arm shares one with it.
    """
    clear = clear or {}
    questions = _questions(metrics, method, decoding)
    # A base model, which has no seed, is not an ablation.
    seeds: dict[str, dict[int | None, int]] = {
        arm: {seed: seed for seed in metrics.table.seeds(arm)} for arm in metrics.arms
    }
    shared = {
        arm: [match.a for match in matches] for arm, matches in against(seeds, method).items()
    }
    blocks: dict[int, tuple[Ablation, ...]] = {}
    for seed in metrics.table.seeds(method):
        sharing = [arm for arm in shared if seed in shared[arm]]
        if sharing:
            base = metrics.rows(method, seed, questions)
            blocks[seed] = tuple(
                _ablation(arm, metrics.rows(arm, seed, questions), base, clear)
                for arm in (method, *sharing)
            )
    if not blocks:
        raise InputError(f"no other arm has a seed in common with {method}")
    shown = {metric: clear[metric] for metric, _ in questions if metric in clear}
    return Ablations(
        method=method,
        questions=questions,
        blocks=blocks,
        sizes=metrics.sizes,
        published=metrics.published,
        clear=shown,
    )


def change_mark(metric: str, change: float, clear: Margin) -> Change | None:
    """Classify a change of a metric: better or worse, clearly or slightly.

    Args:
        metric: its name.
        change: in its unit, rates as fractions.
        clear: the change that is called clear.

    Examples:
        >>> change_mark("accuracy", -0.031, Margin(2, "points"))
        'clearly worse'
        >>> change_mark("flip_rate", 0.0154, Margin(2, "points"))
        'worse'
        >>> change_mark("accuracy", 0.003, Margin(2, "points"))
    """
    size, better = abs(change), metric_spec(metric).better * change > 0
    if math.isnan(change) or size < _SMALL_SHARE * clear.distance - _ROUNDING:
        return None
    if size < clear.distance - _ROUNDING:
        return "better" if better else "worse"
    return "clearly better" if better else "clearly worse"


def read_clear_changes(path: Path) -> dict[str, Margin]:
    """Read the margins of clear changes of metrics.

    Args:
        path: TOML file of metric names and margins, such as `accuracy = "2 points"`.

    Raises:
        InputError: the file cannot be read, or names an unknown metric or a wrong margin.
    """
    margins = {}
    for metric, margin in read_toml(path).items():
        if metric not in metric_names():
            raise InputError(f"{path}: expected names of metrics, got {metric!r}")
        try:
            margins[metric] = parse_margin(str(margin), metric)
        except ValueError as error:
            raise InputError(f"{path}: {metric}: {error}") from None
    return margins


def _questions(metrics: ArmMetrics, method: str, decoding: Decoding) -> tuple[MetricQuestion, ...]:
    own = ArmMetrics(MetricTable(row for row in metrics.table.rows if row.cell.arm == method))
    questions: list[MetricQuestion] = []
    for spec in registered_metrics("full", "ablations"):
        decodings = [MetricDecoding(decoding)]
        if find_metric(spec.name).uses_all_views:
            decodings = [ENSEMBLE, ENSEMBLE_CALIBRATED]
        questions += [
            (spec.name, available) for available in own.known_decodings(spec.name, decodings)[:1]
        ]
    return tuple(questions)


def _ablation(
    arm: str, rows: tuple[MetricRow, ...], base: tuple[MetricRow, ...], clear: Mapping[str, Margin]
) -> Ablation:
    pairs = list(zip(rows, base, strict=True))
    changes = tuple(row.value - reference.value for row, reference in pairs)
    marks = tuple(
        change_mark(row.cell.metric, change, clear[row.cell.metric])
        if row.cell.metric in clear
        else None
        for row, change in zip(rows, changes, strict=True)
    )
    return Ablation(arm, rows, changes, marks)


CALIBRATED_METRICS: Final = ("nll_nats", "ece", "aurc")
"""Metrics that are shown before and after calibration."""

# Differences below this are rounding.
_PRINTED: Final = 1e-9


@dataclass(frozen=True)
class CalibratedRun:
    """One run before and after calibration.

    Attributes:
        arm: of the run.
        seed: of the run, or None.
        before: NLL, ECE and AURC, raw.
        after: the same, calibrated.
        temperature: mean and range of T(x) over its items; None where it is not known.
        fitted: the calibrator of a released run, with numbers of the split of its fit; else None.
        shown_worse: names of the metrics that T(x) is shown to make worse; None for published
            numbers, which have no intervals.
    """

    arm: str
    seed: int | None
    before: tuple[MetricRow, ...]
    after: tuple[MetricRow, ...]
    temperature: TemperatureSummary | None
    shown_worse: frozenset[str] | None = None
    fitted: ReleasedCalibration | None = None

    @property
    def worse(self) -> tuple[bool, ...]:
        """Whether each metric is shown to be worse; published ones: by any amount but rounding."""
        if self.shown_worse is not None:
            return tuple(row.cell.metric in self.shown_worse for row in self.before)
        return tuple(
            after.value > before.value + _PRINTED
            for before, after in zip(self.before, self.after, strict=True)
        )


def calibrated_runs(
    metrics: ArmMetrics, decoding: Decoding = "single"
) -> tuple[CalibratedRun, ...]:
    """Gather the runs that have calibrated numbers.

    Args:
        metrics: the numbers; those of runs have temperatures, and tests of what T(x) changes.
        decoding: single or ensemble.

    Raises:
        InputError: no run has raw and calibrated numbers.
    """
    experiment = metrics.experiment
    runs = {} if experiment is None else {(run.arm, run.seed): run for run in experiment.runs}
    fitted = {(run.arm, run.seed): run.calibration for run in metrics.trainings}
    raw, calibrated = MetricDecoding(decoding), MetricDecoding(decoding, calibrated=True)
    gathered = []
    for arm in metrics.arms:
        for seed in metrics.seeds(arm):
            before, after = (
                metrics.rows(arm, seed, [(metric, when) for metric in CALIBRATED_METRICS])
                for when in (raw, calibrated)
            )
            if all(math.isnan(row.value) for row in after):
                continue
            run = runs.get((arm, seed))
            temperature = None if run is None else run.temperature
            worse = None if experiment is None or run is None else made_worse(experiment, run)
            numbers = before, after, temperature, worse
            gathered.append(CalibratedRun(arm, seed, *numbers, fitted.get((arm, seed))))
    if not gathered:
        raise InputError("no run has a calibrator in its folder")
    return tuple(gathered)


@dataclass(frozen=True)
class GroupAccuracy:
    """Accuracy of runs by group.

    Attributes:
        by: what the groups are.
        decoding: of all numbers.
        groups: names of the groups, each with its number of items as far as it is known.
        rows: by run, accuracy in each group, then Score MAE of all items.
    """

    by: GroupBy
    decoding: MetricDecoding
    groups: tuple[tuple[str, int | None], ...]
    rows: tuple[tuple[MetricRow, ...], ...]


def group_accuracy(metrics: ArmMetrics, by: GroupBy, decoding: MetricDecoding) -> GroupAccuracy:
    """Gather the accuracy of every run in every group.

    Args:
        metrics: the numbers.
        by: what the groups are.
        decoding: decoding of all numbers.

    Raises:
        InputError: there is no group but all items.
    """
    metrics = metrics.by_group(by)
    names = dict.fromkeys(
        row.cell.group
        for row in metrics.table.rows
        if row.cell.metric == "accuracy" and row.cell.group != "all"
    )
    if not names:
        raise InputError(f"no numbers by {by}")
    questions = [*(("accuracy", name) for name in names), ("score_mae", "all")]
    rows = tuple(
        tuple(
            metrics.row(MetricCell(metric, arm, decoding, group), seed)
            for metric, group in questions
        )
        for arm in metrics.arms
        for seed in metrics.seeds(arm)
    )
    sizes = [next((row[at].n for row in rows if row[at].n), None) for at in range(len(names))]
    return GroupAccuracy(by, decoding, tuple(zip(names, sizes, strict=True)), rows)


TRAINING_NAME: Final = "training.json"
"""A file that a trainer may write into the adapter folder, with `wall_minutes`, `steps`,
`views_per_pair` and `peak_memory_bytes`. What it lacks is taken from the training record."""


@dataclass(frozen=True)
class RunCost:
    """Cost of one run; values that are not recorded are None.

    Attributes:
        arm: arm of the run.
        seed: seed of the run, or None.
        views: number of scored views over all items.
        k: number of views per item.
        wall_seconds: time of scoring, summed over the processes that scored the run.
        longest_prompt_tokens: longest prompt of all views.
        device: device on which it was scored.
        dtype: dtype of the model on that device, and its quantisation.
        has_adapter: whether an adapter was used.
        training_minutes: time of training the adapter.
        training_steps: steps of the optimiser.
        training_views_per_pair: views of a pair in training: primary, permuted, ablated.
        training_peak_bytes: most memory that the training held: of the GPU, or of the process.
    """

    arm: str
    seed: int | None
    views: int
    k: int
    wall_seconds: float | None
    longest_prompt_tokens: int | None
    device: str | None
    dtype: str | None
    has_adapter: bool
    training_minutes: float | None
    training_steps: float | None
    training_views_per_pair: float | None
    training_peak_bytes: float | None


def run_costs(experiment: Experiment) -> tuple[RunCost, ...]:
    """Read the costs of the runs from `run.json` and from the files in the adapter folder."""
    return tuple(_cost(run) for runs in experiment.arms.values() for run in runs)


def _cost(run: ExperimentRun) -> RunCost:
    recorded, training = run.provenance, _training(run.run)
    return RunCost(
        arm=run.arm,
        seed=run.seed,
        views=len(run.predictions) * run.predictions.k,
        k=run.predictions.k,
        wall_seconds=recorded.wall_seconds,
        longest_prompt_tokens=recorded.longest_prompt_tokens,
        device=recorded.device,
        dtype=recorded.precision,
        has_adapter=recorded.adapter is not None,
        training_minutes=_number(training.get("wall_minutes")),
        training_steps=_number(training.get("steps")),
        training_views_per_pair=_number(training.get("views_per_pair")),
        training_peak_bytes=_number(training.get("peak_memory_bytes")),
    )


def _training(run: RunFolder) -> Mapping[str, Json]:
    """Return what the files of the adapter of a run say of its training; empty without them."""
    named = run.provenance.adapter_folder
    if named is None:
        return {}
    for above in (Path(), *run.folder.resolve().parents):
        recorded = _read(above / named / TRAINING_RECORD).get("training")
        facts = recorded if isinstance(recorded, dict) else {}
        seconds = _number(facts.get("wall_seconds"))
        facts = facts if seconds is None else facts | {"wall_minutes": seconds / 60}
        facts |= _read(above / named / TRAINING_NAME)
        if facts:
            return facts
    return {}


def _read(path: Path) -> dict[str, Json]:
    try:
        value = read_json(path)
    except InputError:
        return {}
    return value if isinstance(value, dict) else {}


def _number(value: Json) -> float | None:
    if isinstance(value, int | float) and finite_number(value) is not None:
        return value
    return None


@dataclass(frozen=True)
class ArmCost:
    """Cost of training one released arm.

    Attributes:
        arm: its name.
        steps: optimiser steps of each run, by seed.
        views_per_pair: training views of a pair, the largest of its runs.
        hours: time of training over seeds.
        peak_gib: peak GPU memory, the largest of its runs; None if one does not record it.
        accuracy: of view 0 over seeds, uncalibrated.
    """

    arm: str
    steps: tuple[int, ...]
    views_per_pair: float
    hours: ArmSummary
    peak_gib: float | None
    accuracy: ArmSummary


def arm_costs(metrics: ArmMetrics) -> tuple[ArmCost, ...]:
    """Gather the cost of training every arm of released runs.

    Raises:
        InputError: the metrics are not from released result folders.
    """
    if not metrics.trainings:
        message = "no cost of training is known: expected a folder with train_report.json files"
        raise InputError(message)
    by_arm: dict[str, list[ReleasedTraining]] = {}
    for run in metrics.trainings:
        by_arm.setdefault(run.arm, []).append(run)
    accuracy = metrics.summaries([*by_arm], "accuracy", SINGLE)
    return tuple(_arm_cost(runs, accuracy[arm]) for arm, runs in by_arm.items())


def _arm_cost(runs: list[ReleasedTraining], accuracy: ArmSummary) -> ArmCost:
    arm = runs[0].arm
    hours = {run.seed: Estimate.point(run.wall_seconds / 3600) for run in runs}
    peaks = [run.peak_gib for run in runs if run.peak_gib is not None]
    return ArmCost(
        arm=arm,
        steps=tuple(run.steps for run in runs),
        views_per_pair=max(run.views_per_pair for run in runs),
        hours=ArmSummary.of(arm, hours),
        peak_gib=max(peaks) if len(peaks) == len(runs) else None,
        accuracy=accuracy,
    )


@dataclass(frozen=True)
class RunAnswerScores:
    """Brier and log score of one run in parts.

    Attributes:
        arm: of the run.
        seed: of the run, or None.
        calibration: raw or calibrated.
        families: number of families of the items.
        scores: of all items.
        chance: miscalibration of a calibrated model.
    """

    arm: str
    seed: int | None
    calibration: Calibration
    families: int
    scores: metrics.AnswerScores
    chance: ChanceMiscalibration


def run_answer_scores(experiment: Experiment) -> tuple[RunAnswerScores, ...]:
    """Split the scores of every run, and of every run with a calibrator after T(x) as well.

    A calibrator that needs prompt lengths that the run does not record is left out.

    Raises:
        InputError: a run does not have the decoding.
    """
    scores = []
    for runs in experiment.arms.values():
        for run in runs:
            scores.append(_scores(experiment, run, calibrated=False))
            if calibrated_items(experiment, run) is not None:
                scores.append(_scores(experiment, run, calibrated=True))
    return tuple(run_scores for run_scores in scores if run_scores is not None)


def _scores(
    experiment: Experiment, run: ExperimentRun, *, calibrated: bool
) -> RunAnswerScores | None:
    """Return the numbers of the report of the run; None for ablated contexts."""
    decoding = experiment.settings.decoding
    everything = experiment.evaluation(run, decoding, calibrated=calibrated).groups[0]
    if everything.answer_scores is None or everything.chance is None:
        return None
    return RunAnswerScores(
        arm=run.arm,
        seed=run.seed,
        calibration="calibrated" if calibrated else "raw",
        families=everything.families,
        scores=everything.answer_scores,
        chance=everything.chance,
    )
