"""Drift between two runs: changes, and tests of whether they exceed a margin.

On the same items, every number is paired. On other items (next month's), answers and distances
have no counterpart; accuracy and calibration are compared between samples, and the change in
accuracy is split into a shift of the mix and a change within kinds and domains.

All changes are the second run minus the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from pact_eval._choices import GroupBy
from pact_eval.calibration.temperatures import CalibrationWarning
from pact_eval.drift.pairs import Distance, PairedRuns, Pairing, Tempering, opened_runs, temperings
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.joins import SameRun, same_runs
from pact_eval.evaluation.registry import MetricSpec, find_metric, metric_spec
from pact_eval.evaluation.resampled_groups import metric_difference, resample_items
from pact_eval.evaluation.settings import Settings
from pact_eval.results import Result
from pact_eval.runs.folder import RunSource
from pact_eval.runs.identity import Difference
from pact_eval.runs.provenance import UNNAMED
from pact_eval.stats.estimate import ONE_CLUSTER, ClusterText, Estimate, Method
from pact_eval.stats.power import MarginFinding, MarginTest, margin_test
from pact_eval.stats.rate_differences import GroupedOutcomes, MixShift, mix_shift, paired_rates
from pact_eval.stats.rates import rate_estimate
from pact_eval.stats.summed_intervals import summed_interval
from pact_eval.thresholds.checking import CheckedGate, check_thresholds
from pact_eval.thresholds.choice import Rule
from pact_eval.thresholds.gates import Target


@dataclass(frozen=True)
class GateChange:
    """One gate on two runs.

    Attributes:
        file: the thresholds.
        rule: what the gate looks at.
        target: what it keeps.
        before: its check on the first run, with coverage and error.
        after: its check on the second run.
    """

    file: Path
    rule: Rule
    target: Target
    before: CheckedGate
    after: CheckedGate

    @property
    def broken(self) -> bool:
        """Whether the gate is broken on the second run."""
        return self.after.threshold is not None and self.after.verdict == "broken"


def gate_changes(
    files: Sequence[Path], first: RunSource, second: RunSource, settings: Settings
) -> tuple[GateChange, ...]:
    """Check the gates of files on two runs.

    Args:
        files: files of thresholds.
        first: the first run, or its folder.
        second: the second run.
        settings: the calibrator, if it is not in the run folders.

    Raises:
        InputError: a file cannot be read, its gates were chosen on families of a run, or a run
            lacks its decoding.
        TamperedError: a file has changed since it was written.
    """
    changes = []
    for file in files:
        before, after = (check_thresholds(file, run, settings=settings) for run in (first, second))
        changes += [
            GateChange(file, before.file.rule, before.file.target, one, other)
            for one, other in zip(before.gates, after.gates, strict=True)
        ]
    return tuple(changes)


@dataclass(frozen=True)
class AnswerChanges:
    """Answers of two runs to the same items.

    Attributes:
        group: all, or the kind, domain or source family.
        items: number of items.
        changed: share of items with another answer, with its interval over families.
        better: items whose answer became right; None without references.
        worse: items whose answer became wrong; None without references.
        both_wrong: items whose answer changed from one wrong answer to another; None likewise.
    """

    group: str
    items: int
    changed: Estimate
    better: int | None
    worse: int | None
    both_wrong: int | None

    @property
    def count(self) -> int:
        """Number of changed answers."""
        return round(self.changed.value * self.items)


def answer_changes(a: ScoredItems, b: ScoredItems, by: GroupBy) -> tuple[AnswerChanges, ...]:
    """Count the changed answers of all items, then of each group.

    Args:
        a: items of the first run.
        b: the same items of the second run, in the same order.
        by: kind, domain or source_family.
    """
    changed = a.predicted != b.predicted
    changes_by_group = []
    for name, rows in a.rows_by_group(by).items():
        here, cluster = changed[rows], a.cluster[rows]
        counts: tuple[int | None, int | None, int | None] = (None, None, None)
        if a.reference is not None:
            right_a, right_b = a.correct[rows], b.correct[rows]
            counts = (
                int((here & right_b).sum()),
                int((here & right_a).sum()),
                int((here & ~right_a & ~right_b).sum()),
            )
        share = rate_estimate(np.bincount(cluster, here), np.bincount(cluster))
        changes_by_group.append(AnswerChanges(name, len(rows), share, *counts))
    return tuple(changes_by_group)


def mix_of(a: ScoredItems, b: ScoredItems) -> MixShift:
    """Decompose the change in accuracy between two runs by kind and domain.

    Args:
        a: items of the first run, with references.
        b: items of the second run.

    Returns:
        The parts, those of the kinds and domains with the largest ones first.
    """
    samples = (
        GroupedOutcomes(
            sample.correct.astype(np.float64),
            np.array(_kinds_and_domains(sample)),
            sample.clusters.names[sample.cluster].astype(np.str_),
        )
        for sample in (a, b)
    )
    shift = mix_shift(*samples)
    largest = sorted(shift.groups, key=lambda one: -abs(one.mix) - abs(one.within))
    return replace(shift, groups=tuple(largest))


def _kinds_and_domains(items: ScoredItems) -> list[str]:
    kind, domain = (items.labels[name] for name in ("kind", "domain"))
    pairs = zip(kind.names[kind.codes].tolist(), domain.names[domain.codes].tolist(), strict=True)
    return [f"{kind}, {domain}" if domain else kind for kind, domain in pairs]


METRICS: Final = ("accuracy", "pair_accuracy", "nll_nats", "ece")
"""The metrics that are shown before and after."""


@dataclass(frozen=True)
class AccuracyChange:
    """The change in accuracy of a group of items.

    Attributes:
        group: all, or the kind, domain or source family.
        items: items of each run.
        accuracies: accuracy of each run; NaN without references.
        test: the change against the margin. Without references: plus or minus the share of
            changed answers, which bounds it.
    """

    group: str
    items: tuple[int, int]
    accuracies: tuple[float, float]
    test: MarginTest


@dataclass(frozen=True)
class MetricChange:
    """One metric of both runs.

    Attributes:
        spec: the metric.
        a: its value in the first run.
        b: its value in the second run.
        change: b minus a, with its 95% interval.
    """

    spec: MetricSpec
    a: Estimate
    b: Estimate
    change: Estimate


@dataclass(frozen=True, repr=False)
class Drift(Result):
    """Changes between two runs.

    Attributes:
        runs: the first and the second run.
        settings: decoding, calibrators, units and margin.
        views: views of each run that are used.
        pairing: whether they are on the same items.
        differences: what the runs record differently.
        accuracy: the change in accuracy against the margin: all items, then each group.
        metrics: metrics of all items before and after; empty without references.
        answers: changed answers by group; empty on other items.
        distance: how far probabilities moved; None on other items, or without probabilities.
        temperings: fitted temperatures before and after, and their ratio.
        gates: gates of thresholds before and after.
        mix: parts of the change in accuracy on other items; None on the same items.
        data: whether the data of the runs is sound; of a leak, with the accuracy of the second run.
    """

    runs: tuple[ExperimentRun, ExperimentRun]
    settings: Settings
    views: int
    pairing: Pairing
    differences: tuple[Difference, ...]
    accuracy: tuple[AccuracyChange, ...]
    metrics: tuple[MetricChange, ...]
    answers: tuple[AnswerChanges, ...]
    distance: Distance | None
    temperings: tuple[Tempering, ...]
    gates: tuple[GateChange, ...]
    mix: MixShift | None
    data: DataConclusion

    @property
    def test(self) -> MarginTest:
        """The change in accuracy of all items against the margin."""
        return self.accuracy[0].test

    @property
    def has_references(self) -> bool:
        """Whether the correct answers are known."""
        return bool(self.metrics)

    @property
    def broken_gates(self) -> tuple[GateChange, ...]:
        """Gates that are broken on the second run."""
        return tuple(gate for gate in self.gates if gate.broken)

    @property
    def finding(self) -> MarginFinding:
        """Changed beyond the margin, or with a broken gate; otherwise as the test says."""
        return "changed" if self.broken_gates else self.test.finding

    @property
    def warnings(self) -> tuple[CalibrationWarning | SameRun, ...]:
        """Warnings on a run compared with itself, and on calibrators if the settings apply them."""
        same = same_runs([run.run for run in self.runs])
        if not self.settings.calibrated:
            return same
        decoding = self.settings.decoding
        notes = (note for run in self.runs for note in run.calibrator_warnings(decoding))
        return (*same, *notes)


def measure_drift(
    first: RunSource,
    second: RunSource,
    settings: Settings,
    *,
    thresholds: Sequence[Path | str] = (),
) -> Drift:
    """Say whether a run has drifted from another, as `pact-eval compare A B --gate` does.

    Args:
        first: the run before, or its folder.
        second: the run after, on the same items or on others.
        settings: all choices of the user; `margin` is needed.
        thresholds: files of thresholds, whose gates are checked on both runs.

    Returns:
        What changed; `finding` is equivalent, changed or cannot tell.

    Raises:
        ValueError: the settings have no margin.
        RunError: a folder is not a complete run.
        InputError: an item differs in its reference, kind or family, or a run lacks the decoding.

    Examples:
        >>> import pact_eval
        >>> settings = pact_eval.Settings(margin=0.02)
        >>> pact_eval.measure_drift("runs/method", "runs/method", settings).pairing.paired
        True
        >>> pact_eval.measure_drift("runs/method", "runs/baseline", settings).finding
        'changed'
    """
    if settings.margin is None:
        raise ValueError("settings: expected a margin, got none")
    runs, data = opened_runs(first, second, settings)
    pair = PairedRuns.of(*runs, settings)
    paired, probabilities = pair.pairing.paired, pair.has_probabilities
    named = not {pair.a.known, pair.b.known} & {*UNNAMED}
    changed = answer_changes(pair.a, pair.b, settings.by) if paired and named else ()
    return Drift(
        runs=pair.runs,
        settings=settings,
        views=pair.views,
        pairing=pair.pairing,
        differences=pair.differences,
        accuracy=tuple(_without_references(pair, changed, settings.margin))
        if pair.ablated
        else tuple(_accuracy(pair, settings)),
        metrics=() if pair.ablated else tuple(_metrics(pair, settings)),
        answers=changed,
        distance=pair.distance(calibrated=settings.calibrated)
        if paired and probabilities
        else None,
        temperings=tuple(temperings(pair, settings.unit))
        if probabilities and not pair.ablated
        else (),
        gates=gate_changes([*map(Path, thresholds)], first, second, settings),
        mix=None if paired or pair.ablated else mix_of(pair.a, pair.b),
        data=_with_accuracies(data, pair),
    )


def _with_accuracies(data: DataConclusion, pair: PairedRuns) -> DataConclusion:
    """Return the conclusion on the data; of a leak, with the accuracy of the second run."""
    leak, items = data.leak, pair.b
    if leak is None or leak.left_out:
        return data
    leaked = np.isin(items.families.names, leak.families)[items.families.codes]
    everything, cluster = np.ones(len(items), dtype=np.bool_), items.cluster
    accuracy, without = (
        rate_estimate(np.bincount(cluster, items.correct & rows), np.bincount(cluster, rows))
        for rows in (everything, ~leaked)
    )
    judged = pair.runs[1].name
    leak = replace(leak, accuracy=accuracy, accuracy_without=without, judged=judged)
    return replace(data, leak=leak)


def _accuracy(pair: PairedRuns, settings: Settings) -> Iterator[AccuracyChange]:
    """Test the change in accuracy of all items and of each group that both runs have."""
    of_a, of_b = (items.rows_by_group(settings.by) for items in (pair.a, pair.b))
    for name, rows in of_a.items():
        if name in of_b:
            a, b = pair.a.taken(rows), pair.b.taken(of_b[name])
            accuracies = float(a.correct.mean()), float(b.correct.mean())
            if pair.pairing.paired:
                lead = b.correct.astype(np.int64) - a.correct
                change = paired_rates(lead, a.cluster, a.n_clusters).estimate()
            else:
                both = (resample_items(items, settings, names=["accuracy"])[0] for items in (a, b))
                change = _apart(*(group.estimate("accuracy") for group in both))
            test = margin_test(change, settings.margin or 1)
            yield AccuracyChange(name, (len(a), len(b)), accuracies, test)


def _without_references(
    pair: PairedRuns, changes: Sequence[AnswerChanges], margin: float
) -> Iterator[AccuracyChange]:
    """Bound the change in accuracy: it cannot exceed the share of changed answers."""
    unknown = (math.nan, math.nan)
    more = "; no references: plus or minus the changed answers"
    for answers in changes:
        share = answers.changed
        method = share.method and replace(share.method, detail=share.method.detail + more)
        reason = ClusterText("no references")
        bound = Estimate(
            0.0, -share.high, share.high, answers.items, share.clusters, method, reason
        )
        yield AccuracyChange(
            answers.group, (answers.items,) * 2, unknown, margin_test(bound, margin)
        )
    if not changes:
        sizes = len(pair.a), len(pair.b)
        reason = ClusterText("other items without references have no accuracy to compare")
        nothing = Estimate(math.nan, math.nan, math.nan, sum(sizes), 0, None, reason)
        yield AccuracyChange("all", sizes, unknown, margin_test(nothing, margin))


def _metrics(pair: PairedRuns, settings: Settings) -> list[MetricChange]:
    both = pair.a.known, pair.b.known
    names = [name for name in METRICS if all(map(find_metric(name).defined_for, both))]
    first, second = (resample_items(items, settings, names=names)[0] for items in (pair.a, pair.b))
    changes = []
    for name in names:
        if name not in first.drawn or name not in second.drawn:
            continue
        before, after = first.estimate(name), second.estimate(name)
        if math.isnan(before.value) or math.isnan(after.value):
            continue
        if pair.pairing.paired:
            change, _ = metric_difference(name, [(second, first)])
        else:
            change = _apart(before, after)
        changes.append(MetricChange(metric_spec(name), before, after, change))
    return changes


def _apart(before: Estimate, after: Estimate) -> Estimate:
    """Return the difference of two samples from the interval of each (MOVER, uncorrelated).

    Families that both samples have make errors of the same sign, so the interval is then long.
    """
    method = Method("MOVER interval", " (two samples)")
    n, clusters = before.n + after.n, min(before.clusters, after.clusters)
    value = after.value - before.value
    missing = next((interval for interval in (before, after) if math.isnan(interval.low)), None)
    if missing is not None or clusters < 2:
        reason = ONE_CLUSTER if missing is None else missing.reason
        return Estimate(value, math.nan, math.nan, n, clusters, method, reason)
    both = (after, before)
    low, high = summed_interval(
        [1, -1],
        [
            estimate.debiased if isinstance(estimate, CalibrationError) else estimate.value
            for estimate in both
        ],
        [estimate.low for estimate in both],
        [estimate.high for estimate in both],
        np.eye(2),
        n_clusters=clusters,
    ).at(0.95)
    return Estimate(value, low, high, n, clusters, method)
