"""Results behind the tables and figures of released folders.

Tests over items, settings, data splits, the sweep of K, training curves, temperatures, reliability
and risk against coverage.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import Final

import numpy as np

from pact_eval._json import Json
from pact_eval._typing import FloatArray
from pact_eval.calibration.temperatures import Calibrator, ItemFacts
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_differences import ArmSummary
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics, MetricCell
from pact_eval.evaluation.arms.figure_results import SWEPT_METRICS, ArmSweep, ViewsSweep
from pact_eval.evaluation.arms.released_folder import (
    FigureData,
    LogStep,
    Preflight,
    ReleasedComparison,
    ReliabilityBin,
    RiskCoverage,
    Significance,
    SweepPoint,
)
from pact_eval.evaluation.arms.released_training import ReleasedTraining
from pact_eval.evaluation.curves.distributions import ArmCurve, RiskCoverageCurves, RiskReference
from pact_eval.evaluation.curves.probabilities import (
    LengthCurve,
    ReliabilityCurve,
    RunReliability,
    RunTemperatures,
    TemperatureByChoices,
    TemperatureByLength,
)
from pact_eval.evaluation.curves.training import (
    DISTANCES,
    TERMS,
    Smoothed,
    TrainingCurves,
    smoothed,
)
from pact_eval.evaluation.item_records import Split
from pact_eval.evaluation.registry import SINGLE, metric_spec
from pact_eval.metrics import Reliability, ece_of_gaps, oracle_error_rate
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.paired_tests import McNemarTest

# Differences below this are rounding.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class ItemTest:
    """Test over items of two runs.

    Attributes:
        control: arm of the second run.
        seed: of the runs, or None.
        test: McNemar's exact test.
        interval: of the difference in accuracy, over items.
        accuracies: of both runs, fractions; None if another table shows them.
    """

    control: str
    seed: int | None
    test: McNemarTest
    interval: Estimate
    accuracies: tuple[float, float] | None = None


@dataclass(frozen=True)
class PublishedTests:
    """Published tests of the method over items.

    Attributes:
        method: the arm that is compared with the others.
        tests: in the order of the file.
        notes: what was computed again, which runs are others than those with metrics, and the
            confident errors of a control.
    """

    method: str
    tests: tuple[ItemTest, ...]
    notes: tuple[str, ...]


def published_tests(metrics: ArmMetrics, method: str) -> PublishedTests:
    """Gather the published tests of an arm.

    Raises:
        InputError: none is published.
    """
    files = [folder.significance for folder in metrics.folders if folder.significance]
    compared = [pair for file in files for pair in file.comparisons if pair.run_a == method]
    if not compared:
        raise InputError(f"no test of {method} is published: expected it in significance.json")
    tests = tuple(
        ItemTest(
            pair.run_b, pair.seed, pair.test, pair.interval, (pair.accuracy_a, pair.accuracy_b)
        )
        for pair in compared
    )
    near = sum(pair.items_apart <= 1 + _ROUNDING for pair in compared)
    again = (
        f"p is computed again from the counts and equals the published one; {near} of "
        f"{len(compared)} published intervals are within an item of one drawn again from them."
    )
    errors = (text for file in files for text in _confident_errors(file, compared))
    return PublishedTests(method, tests, (again, *_other_runs(metrics, compared), *errors))


def _other_runs(metrics: ArmMetrics, compared: list[ReleasedComparison]) -> Iterator[str]:
    """Name the compared runs that differ from those with metrics, on all items or in a group."""
    named: dict[str, None] = {}
    for pair in compared:
        runs = ((pair.run_a, pair.accuracy_a), (pair.run_b, pair.accuracy_b))
        for place, (arm, accuracy) in enumerate(runs):
            other = metrics.another_run(arm, pair.seed, accuracy)
            if other is None and not _same_groups(metrics, arm, pair, place):
                other = f"{arm} has other accuracies by group here than in its results"
            if other is not None:
                named[f"{other}."] = None
    yield from named


def _same_groups(metrics: ArmMetrics, arm: str, pair: ReleasedComparison, place: int) -> bool:
    for name, group in {**pair.by_kind, **pair.by_domain}.items():
        cell = MetricCell("accuracy", arm, SINGLE, "boolean" if name == "noul" else name)
        value = metrics.row(cell, pair.seed).value
        if abs(value - (group.a_acc, group.b_acc)[place]) > _ROUNDING:  # False if it is NaN
            return False
    return True


def _confident_errors(file: Significance, compared: list[ReleasedComparison]) -> Iterator[str]:
    """Word the confident errors of each control that has one number of errors, not fewer."""
    for name, wrong in file.confidently_wrong.items():
        errors = {pair.n - pair.test.both - pair.test.c for pair in compared if pair.run_b == name}
        total = errors.pop() if len(errors) == 1 else 0
        if 0 < len(wrong) <= total:
            lowest = min(answer.confidence for answer in wrong)
            yield (
                f"{name}: {len(wrong):,} of {total:,} errors ({100 * len(wrong) / total:.0f}%) "
                f"have a confidence of {lowest:.3f} or more."
            )


_SETTING_SECTIONS: Final = ("data", "model", "loss", "optim", "evaluation")


@dataclass(frozen=True)
class ReleasedSetting:
    """A setting of the method, and of the arms that have another value.

    Attributes:
        key: its place in the configuration, such as `optim.learning_rate`.
        value: of the method; the values of several seeds are joined.
        others: by arm, its value.
    """

    key: str
    value: str
    others: Mapping[str, str]


def released_settings(metrics: ArmMetrics, method: str) -> tuple[ReleasedSetting, ...]:
    """Gather the settings of training and evaluation of released runs.

    Raises:
        InputError: no run of the method has settings.
    """
    by_arm: dict[str, list[ReleasedTraining]] = {}
    for run in metrics.trainings:
        by_arm.setdefault(run.arm, []).append(run)
    keys = dict.fromkeys(key for run in by_arm.get(method, ()) for key in run.settings)
    shown = [key for key in keys if key.split(".")[0] in _SETTING_SECTIONS]
    if not shown:
        raise InputError(f"no setting of {method} is known: expected config in results.json files")

    def value(arm: str, key: str) -> str:
        texts = (_setting_text(run.settings.get(key)) for run in by_arm[arm])
        return "; ".join(dict.fromkeys(texts))

    return tuple(
        ReleasedSetting(
            key,
            value(method, key),
            {arm: text for arm in by_arm if (text := value(arm, key)) != value(method, key)
             and key != "optim.seed"},
        )
        for key in shown
    )  # fmt: skip


def _setting_text(value: Json) -> str:
    """Return a setting as its file has it, without quotation marks and brackets."""
    if isinstance(value, list):
        return ", ".join(map(_setting_text, value)) or "–"
    if isinstance(value, bool):
        return str(value).lower()
    return "–" if value is None or value == "" else str(value)


_SPLIT_ROLES: Final = {"train": "train", "dev_select": "select", "dev_calib": "calibrate"}
_KINDS: Final = ("choice", "boolean", "score")
_HELD_OUT: Final = "data.inner_holdout_families"


def released_splits(metrics: ArmMetrics) -> tuple[Split, ...]:
    """Gather the data of released runs: the splits of the training file, all of it, the holdout.

    Families are known if `preflight.json` counts two records in each. It has the source families of
    the whole file; settings say how many of them other splits than `train` have together.

    Returns:
        The splits; none if no run records them.

    Raises:
        InputError: they, or the items of the holdout, do not add up to their file.
    """
    trained: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for run in metrics.trainings:
        for name, counts in run.splits.items():
            trained[name, tuple(counts.get(kind, 0) for kind in _KINDS)] += 1
    if not trained:
        return ()
    counted = [folder.preflight for folder in metrics.folders if folder.preflight is not None]
    preflight = counted[0] if len(counted) == 1 else None
    paired = preflight is not None and set(preflight.dataset.family_sizes) == {"2"}
    splits = []
    for (name, kinds), runs in trained.items():
        records, role = sum(kinds), _SPLIT_ROLES.get(name, "")
        pairs = records // 2 if paired else None
        source = _training_sources(metrics, preflight) if name == "train" else None
        splits.append(Split(name, role, records, pairs, pairs, source, kinds, runs, None))
    if preflight is None:
        return (*splits, _holdout(metrics, "holdout", None))
    data = preflight.dataset
    of_all = tuple(sum(split.kinds[at] for split in splits) for at in range(len(_KINDS)))
    evaluated = PureWindowsPath(data.eval_file).name
    holdout = _holdout(metrics, evaluated, data.eval_source_families)
    for key, expected, got in (
        ("train_rows", sum(of_all), data.train_rows),
        ("eval_rows", holdout.records, data.eval_rows),
    ):
        if expected != got:
            raise InputError(
                f"preflight.json: dataset: {key}: expected {expected:,}, the records in "
                f"results.json files, got {got:,}"
            )
    training_file = Split(
        PureWindowsPath(data.train_file).name,
        "train",
        data.train_rows,
        data.train_families,
        preflight.contrastive_pairs,
        data.train_source_families,
        of_all,
        len(metrics.trainings),
        None,
    )
    return (*splits, training_file, holdout)


def _training_sources(metrics: ArmMetrics, preflight: Preflight | None) -> int | None:
    """Return the source families that are left for training; None if that is not known."""
    held_out = [run.settings.get(_HELD_OUT) for run in metrics.trainings]
    number = held_out[0]
    if preflight is None or not isinstance(number, int) or isinstance(number, bool):
        return None
    left = preflight.dataset.train_source_families - number
    return left if number >= 0 and left > 0 and held_out.count(number) == len(held_out) else None


def _holdout(metrics: ArmMetrics, name: str, source_families: int | None) -> Split:
    """Count the items behind the metrics; those of several holdouts are the most of any."""
    items: dict[str, int] = {}
    for row in metrics.table.rows:
        if row.cell.metric == "accuracy":
            items[row.cell.group] = max(items.get(row.cell.group, 0), row.n or 0)
    pairs = metrics.sizes.get("pair_accuracy", (0, 0))[1]
    records, runs = items.get("all", 0), {(row.cell.arm, row.seed) for row in metrics.table.rows}
    families = pairs if 2 * pairs == records else None
    kinds = tuple(items.get(kind, 0) for kind in _KINDS)
    return Split(name, "test", records, families, pairs, source_families, kinds, len(runs), None)


@dataclass(frozen=True)
class ReleasedSweep:
    """The published sweep over K.

    Attributes:
        sweeps: one per metric.
        notes: the runs that are others than those with metrics.
    """

    sweeps: tuple[ViewsSweep, ...]
    notes: tuple[str, ...]


def released_sweep(metrics: ArmMetrics) -> ReleasedSweep:
    """Gather accuracy and view TV at every K, as published for some runs.

    A run is called `ARM` or `ARM_seedNUMBER`. TV is of two views or more.

    Raises:
        InputError: there is none.
    """
    swept = {name: points for folder in metrics.folders for name, points in folder.sweep.items()}
    if not swept:
        raise InputError("no sweep over K is published: expected it in ensemble_sweep.json")
    items = sum(sum(folder.choices.values()) for folder in metrics.folders)
    sweeps = []
    for metric, key, fewest in zip(
        SWEPT_METRICS, ("accuracy", "permutation_tv"), (1, 2), strict=True
    ):
        arms = tuple(
            _arm_sweep(name, [point for point in points if point.k >= fewest], key)
            for name, points in swept.items()
            if points[-1].k >= fewest
        )
        if arms:
            sweeps.append(ViewsSweep(metric_spec(metric), arms, items, None))
    seeds = {arm: metrics.seeds(arm) for arm in metrics.arms}
    runs = {f"{arm}_seed{seed}": (arm, seed) for arm in seeds for seed in seeds[arm]}
    runs |= {arm: (arm, seeds[arm][0]) for arm in seeds if len(seeds[arm]) == 1}
    notes = (
        metrics.another_run(*runs[name], points[0].accuracy)
        for name, points in swept.items()
        if name in runs and points[0].k == 1
    )
    return ReleasedSweep(tuple(sweeps), tuple(filter(None, notes)))


def _arm_sweep(name: str, points: Sequence[SweepPoint], key: str) -> ArmSweep:
    values = [getattr(point, key) for point in points]
    means = (ArmSummary.of(name, {None: Estimate.point(value)}) for value in values)
    return ArmSweep(name, tuple(point.k for point in points), tuple(means))


_LOGGED: Final = {"pc": "pcr", "pair_margin": "cf_delta", "ablated_gap": "necessity_gap"}


def released_figures(metrics: ArmMetrics) -> tuple[FigureData, ...]:
    """Return the numbers behind figures of single runs.

    Raises:
        InputError: there are none.
    """
    figures = tuple(folder.figures for folder in metrics.folders if folder.figures is not None)
    if not figures:
        raise InputError("no run has such data: expected figures/figure_data.json in the folder")
    for data in figures:
        arm, seed = data.run
        if seed not in metrics.seeds(arm):
            raise InputError(f"figure_data.json: run_dir: no results of {data.label}")
    return figures


def released_reliability(data: FigureData) -> RunReliability:
    """Gather the bins of a run, before and after T(x), with the ECE of these bins.

    Raises:
        InputError: there are no bins with items.
    """
    both = (data.reliability_uncalibrated, data.reliability_calibrated)
    curves = tuple(
        _bins(bins, calibrated=calibrated)
        for calibrated, bins in enumerate(both)
        if any(each.count for each in bins)
    )
    if not curves:
        raise InputError(f"{data.label}: no bins: expected reliability_uncalibrated")
    return RunReliability(data.label, data.run[0], curves, curves[0].ece.n, None)


def _bins(bins: Sequence[ReliabilityBin], *, calibrated: int) -> ReliabilityCurve:
    count = np.array([each.count for each in bins])
    confidence, accuracy = (
        np.array([getattr(each, name) for each in bins]) for name in ("confidence", "accuracy")
    )
    gaps = np.nan_to_num(count * (confidence - accuracy))
    ece = Estimate.point(float(ece_of_gaps(count.sum(), gaps)), int(count.sum()))
    unknown = np.full(count.size, math.nan)
    edges = np.linspace(0, 1, count.size + 1)
    reliability = Reliability(edges, count, confidence, accuracy)
    return ReliabilityCurve(bool(calibrated), reliability, unknown, unknown, ece, None)


def released_risk_coverage(metrics: ArmMetrics, data: FigureData) -> tuple[RiskCoverageCurves, ...]:
    """Gather the error rate of a run at every published coverage, before and after T(x).

    Raises:
        InputError: there is no curve.
    """
    arm, seed = data.run
    published = (data.risk_coverage_uncalibrated, data.risk_coverage_calibrated)
    curves = [curve for curve in published if curve is not None and curve.curve]
    if not curves:
        raise InputError(f"{data.label}: no curve: expected risk_coverage_uncalibrated")
    right = metrics.row(MetricCell("accuracy", arm, SINGLE, "all"), seed)
    choices = _counted_choices(metrics)
    n = choices.total()
    guessing = 1 - sum(items / c for c, items in choices.items()) / n if n else math.nan

    def one(curve: RiskCoverage) -> RiskCoverageCurves:
        coverage = np.array([point.coverage for point in curve.curve])
        errors = np.array([point.risk for point in curve.curve])
        of_arm = ArmCurve(arm, (seed,), errors[None], errors, None, (curve.aurc,))
        bounds = RiskReference(1 - right.value, oracle_error_rate(1 - right.value, coverage))
        return RiskCoverageCurves(coverage, (of_arm,), right.n or 0, None, (bounds,), guessing, ())

    return tuple(map(one, curves))


def released_curves(data: FigureData) -> TrainingCurves:
    """Smooth the training log of a run.

    Raises:
        InputError: it has no steps.
    """
    if not data.train_log:
        raise InputError(f"{data.label}: no training log: expected train_log in figure_data.json")
    terms, distances = (_columns(data.train_log, names) for names in (TERMS, DISTANCES))
    return TrainingCurves(data.label, len(data.train_log), terms, distances)


def _columns(log: Sequence[LogStep], names: Sequence[str]) -> dict[str, Smoothed]:
    columns = {}
    for name in names:
        logged = [(entry.step, getattr(entry, _LOGGED.get(name, name))) for entry in log]
        points = [(step, value) for step, value in logged if value is not None]
        if points:
            steps, values = np.array([step for step, _ in points]), np.array([v for _, v in points])
            columns[name] = Smoothed(steps, values, smoothed(values))
    return columns


_TOKENS: Final = 700.0
"""Prompt length at which T is compared: that of the paper, since folders have no prompt lengths."""

_SHORTEST: Final = 100
_POINTS: Final = 60


def _counted_choices(metrics: ArmMetrics) -> Counter[int]:
    return sum((Counter(folder.choices) for folder in metrics.folders), Counter[int]())


def _choices(metrics: ArmMetrics) -> dict[int, int]:
    """Return the number of holdout items by C.

    Raises:
        InputError: it is not known.
    """
    counts = _counted_choices(metrics)
    if not counts:
        raise InputError("the numbers of allowed answers are not known: expected holdout_rows.json")
    return dict(sorted(counts.items()))


def _temperatures(
    calibrator: Calibrator, choices: Sequence[int], tokens: Sequence[float]
) -> FloatArray:
    if calibrator.mode not in ("scalar", "contextual"):
        raise InputError(f"T(x) depends on more than C and length ({calibrator.mode} calibrator)")
    kinds = np.full(len(choices), "choice")
    return calibrator.temperatures(ItemFacts(kinds, np.array(choices), np.array(tokens)))


def released_temperature_by_choices(metrics: ArmMetrics) -> TemperatureByChoices:
    """Compute T against C for every released run with a calibrator, at 700 tokens.

    Raises:
        InputError: no run has a calibrator, or no number of answers is known.
    """
    choices = [*_choices(metrics)]
    runs = tuple(
        RunTemperatures(
            run.label,
            run.arm,
            run.seed,
            np.array(choices),
            _temperatures(run.calibration.calibrator, choices, [_TOKENS] * len(choices)),
            None,
        )
        for run in metrics.trainings
        if run.calibration is not None
    )
    if not runs:
        raise InputError("no run has a calibrator in its folder")
    return TemperatureByChoices(runs, _TOKENS)


def released_temperature_by_length(
    metrics: ArmMetrics, run: ReleasedTraining
) -> TemperatureByLength:
    """Compute T(x) of a released run against the prompt length, for each C of the holdout.

    Raises:
        InputError: the run has no calibrator, or one that does not depend on the length; or its
            longest prompt or the numbers of answers are not known.
    """
    calibration, choices = run.calibration, _choices(metrics)
    if calibration is None:
        raise InputError("no calibrator")
    if not calibration.calibrator.weights.log_tokens:
        raise InputError("T(x) does not depend on prompt length")
    if run.longest_prompt is None:
        raise InputError("its longest prompt is not known: expected views.max_tokens")
    tokens = np.linspace(min(_SHORTEST, run.longest_prompt), run.longest_prompt, _POINTS)
    curves = tuple(
        LengthCurve(
            c,
            n,
            tokens,
            _temperatures(calibration.calibrator, [c] * _POINTS, tokens.tolist()),
            None,
        )
        for c, n in choices.items()
    )
    return TemperatureByLength(run.label, curves, sum(choices.values()), None)
