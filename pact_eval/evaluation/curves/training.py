"""Training logs of runs: loss terms and distances over the steps, and selected checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval._typing import FloatArray, IntArray
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics, MetricCell
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.registry import SINGLE
from pact_eval.runs.training_log import SELECTION_NLL, TrainingLog, training_log_of_run
from pact_eval.stats.estimate import Estimate

TERMS: Final = ("ce", "cf", "pc", "nr", "emd")
"""Loss terms of a training log, without weight or ramp."""

DISTANCES: Final = ("pair_margin", "ablated_gap")
"""Distances of answers in a training log, in nats."""

DECAY: Final = 0.9
"""Decay of the moving averages, per step."""


@dataclass(frozen=True, eq=False)
class Smoothed:
    """One logged number over training.

    Attributes:
        steps: (m,) the steps that log the number.
        values: (m,) the logged values.
        average: (m,) exponential moving average, see `smoothed`.
    """

    steps: IntArray
    values: FloatArray
    average: FloatArray


@dataclass(frozen=True, eq=False)
class TrainingCurves:
    """Training curves of one run.

    Attributes:
        run: label of the run.
        steps: number of steps in the log.
        terms: by name, the loss terms that the log has.
        distances: by name, the mean pair margin and ablated gap in nats, if the log has them.
    """

    run: str
    steps: int
    terms: Mapping[str, Smoothed]
    distances: Mapping[str, Smoothed]


@dataclass(frozen=True, eq=False)
class Trajectory:
    """NLL of the selection split over the training of one run.

    Attributes:
        arm: arm of the run.
        seed: seed of the run, or None.
        steps: (m,) training steps at which the selection split was evaluated.
        nll_nats: (m,) selection NLL at these steps.
        selected_step: the step of the selected checkpoint, which has the lowest NLL.
        selected_nll_nats: the NLL at this step.
        accuracy: accuracy of the run, a fraction with its 95% interval over families; published
            ones have no interval.
        selection_accuracy: (m,) accuracy of the selection split, if it is known.
    """

    arm: str
    seed: int | None
    steps: IntArray
    nll_nats: FloatArray
    selected_step: int
    selected_nll_nats: float
    accuracy: Estimate
    selection_accuracy: FloatArray | None = None

    @property
    def selected_accuracy(self) -> float | None:
        """Accuracy of the selection split at the selected step; None if it is not known."""
        if self.selection_accuracy is None:
            return None
        return float(self.selection_accuracy[self.steps == self.selected_step][0])


def training_curves(run: ExperimentRun) -> TrainingCurves:
    """Read and smooth the training log of a run's adapter.

    Raises:
        InputError: there is no log, or it has none of these numbers.
    """
    log = training_log_of_run(run.run)
    terms, distances = _smooth_columns(log, TERMS), _smooth_columns(log, DISTANCES)
    if not (terms or distances):
        columns = ", ".join(log.columns) or "nothing"
        message = f"the training log has no loss terms, pair margin or ablated gap, only {columns}"
        raise InputError(message)
    return TrainingCurves(run.label, len(log), terms, distances)


def _smooth_columns(log: TrainingLog, names: Sequence[str]) -> dict[str, Smoothed]:
    columns = {}
    for name in names:
        if not log.missing([name]):
            steps, values = log.logged(name)
            columns[name] = Smoothed(steps, values, smoothed(values))
    return columns


def smoothed(values: FloatArray, decay: float = DECAY) -> FloatArray:
    """Return the exponential moving average, with bias correction.

    The average at step t is the mean of the values up to t with weights decay^(t - s).

    Args:
        values: (m,) finite numbers.
        decay: in [0, 1).

    Examples:
        >>> smoothed(np.array([1.0, 3.0]), 0.5).round(4).tolist()
        [1.0, 2.3333]
    """
    average = np.empty(len(values))
    total = weight = 0.0
    for number, value in enumerate(values.tolist()):
        total, weight = decay * total + value, decay * weight + 1
        average[number] = total / weight
    return average


def selection_trajectory(experiment: Experiment, run: ExperimentRun) -> Trajectory:
    """Read a run's selection NLL over training, and evaluate the run.

    Raises:
        InputError: the run has no training log, or one without selection NLL.
    """
    log = training_log_of_run(run.run)
    steps, nll = log.logged(SELECTION_NLL)
    selected, lowest = log.selected
    accuracy = experiment.evaluation(run, calibrated=False).groups[0].estimates["accuracy"]
    return Trajectory(run.arm, run.seed, steps, nll, selected, lowest, accuracy)


def released_trajectories(metrics: ArmMetrics) -> tuple[Trajectory, ...]:
    """Return the selection of every released run, with its accuracy at view 0.

    Raises:
        InputError: the metrics are not from released result folders.
    """
    if not metrics.trainings:
        raise InputError("no selection is known: expected a folder with dev_history.json files")
    trajectories = []
    for run in metrics.trainings:
        row = metrics.row(MetricCell("accuracy", run.arm, SINGLE, "all"), run.seed)
        trajectories.append(
            Trajectory(
                run.arm,
                run.seed,
                np.array([point.step for point in run.history], dtype=np.int64),
                np.array([point.nll_nats for point in run.history]),
                run.selected.step,
                run.selected.nll_nats,
                Estimate.point(row.value, row.n or 0),
                np.array([point.accuracy for point in run.history]),
            )
        )
    return tuple(trajectories)
