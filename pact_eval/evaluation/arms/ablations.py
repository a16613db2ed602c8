"""Ablations: differences of the runs of other arms from the method at the same seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pact_eval._choices import Decoding
from pact_eval._files import read_toml
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics, MetricQuestion
from pact_eval.evaluation.arms.cells import MetricRow, MetricTable
from pact_eval.evaluation.arms.differences import Margin, against, parse_margin
from pact_eval.evaluation.metric_specs import ENSEMBLE, ENSEMBLE_CALIBRATED, MetricDecoding
from pact_eval.evaluation.registry import find_metric, metric_names, metric_spec, registered_metrics

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
        seed: of both.
        rows: the number of each question.
        changes: this run's minus the method's; NaN if one of them is undefined.
        marks: what the changes mean, or None if they are small or no thresholds are given.
    """

    arm: str
    seed: int
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
                _ablation(arm, seed, metrics.rows(arm, seed, questions), base, clear)
                for arm in (method, *sharing)
            )
    if not blocks:
        message = f"no other arm has a seed in common with {method}"
        raise InputError(message)
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
            message = f"{path}: expected names of metrics, got {metric!r}"
            raise InputError(message)
        try:
            margins[metric] = parse_margin(str(margin), metric)
        except ValueError as error:
            message = f"{path}: {metric}: {error}"
            raise InputError(message) from None
    return margins


def _questions(metrics: ArmMetrics, method: str, decoding: Decoding) -> tuple[MetricQuestion, ...]:
    own = ArmMetrics(MetricTable(row for row in metrics.table.rows if row.cell.arm == method))
    questions: list[MetricQuestion] = []
    for spec in registered_metrics("full", "ablations"):
        decodings = [MetricDecoding(decoding)]
        if find_metric(spec.name).of_views:
            decodings = [ENSEMBLE, ENSEMBLE_CALIBRATED]
        questions += [
            (spec.name, available) for available in own.known_decodings(spec.name, decodings)[:1]
        ]
    return tuple(questions)


def _ablation(
    arm: str,
    seed: int,
    rows: tuple[MetricRow, ...],
    base: tuple[MetricRow, ...],
    clear: Mapping[str, Margin],
) -> Ablation:
    pairs = list(zip(rows, base, strict=True))
    changes = tuple(row.value - reference.value for row, reference in pairs)
    marks = tuple(
        change_mark(row.cell.metric, change, clear[row.cell.metric])
        if row.cell.metric in clear
        else None
        for row, change in zip(rows, changes, strict=True)
    )
    return Ablation(arm, seed, rows, changes, marks)
