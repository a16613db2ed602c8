r"""Test of whether the probabilities of a served run are raw, or divided by a temperature.

A run keeps what it was sent. If a server divides logits by t, the T fitted on its run is that of
the local run divided by t: their ratio is t, and dividing the local logits by it leaves no distance
between the two runs. If the model is another one, the distance remains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval._choices import ClusterUnit
from pact_eval._typing import BoolArray
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.ratios import ALL_KINDS, temperature_ratio
from pact_eval.calibration.temperatures import KINDS
from pact_eval.drift.distances import item_tv
from pact_eval.drift.pairing import PairedRuns
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.settings import Settings
from pact_eval.metrics import log_softmax
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.permuted_slots import distinct_orders

TemperingFinding: TypeAlias = Literal["tempered", "raw", "other distributions", "cannot tell"]
"""other distributions: a TV of more than 1% is left once the ratio is undone, and more than half of
that between the runs. raw: the interval of the ratio lies within `RAW` of 1. tempered: it excludes
1. cannot tell: none of these, no fit, or ensembles of other items in unlike numbers of orders."""

RAW: Final = 1.05
"""A ratio of temperatures from 1 / `RAW` to `RAW` counts as none."""

_EXPLAINED: Final = 0.5
_LARGE: Final = 0.01


@dataclass(frozen=True)
class Tempering:
    """The temperatures of two runs on the items of a kind.

    Attributes:
        kind: choice, boolean or score; "all" for one temperature of all items.
        a: T fitted on the first run, with its interval over families.
        b: T fitted on the second run.
        ratio: T of the first divided by T of the second: what the second run's logits are divided
            by, if they are those of the first.
        tv: mean TV between the runs; NaN if they are not paired.
        tv_left: mean TV after the logits of the first run are divided by the ratio.
        finding: what is shown.
        left_out: items left out of the fits, because a run gives their reference probability 0.
    """

    kind: str
    a: Estimate
    b: Estimate
    ratio: Estimate
    tv: float
    tv_left: float
    finding: TemperingFinding
    left_out: int


@dataclass(frozen=True)
class ServedTempering:
    """The temperatures of a served run against those of a local run.

    Attributes:
        local: folder of the local run.
        served: folder of the served run.
        temperings: of all items, then of each kind.
    """

    local: Path
    served: Path
    temperings: tuple[Tempering, ...]


def served_tempering(
    first: ExperimentRun, second: ExperimentRun, settings: Settings
) -> ServedTempering | None:
    """Compare the temperatures of a served and a local run, in either order.

    Args:
        first: a run.
        second: another run.
        settings: decoding and units; calibrators are not applied.

    Returns:
        None unless one run was served and the other scored here, with references and
        probabilities.

    Raises:
        InputError: an item has another reference, kind or family in the other run.
    """
    local, served = (second, first) if first.provenance.served else (first, second)
    sides = local.provenance, served.provenance
    if sides[0].served or not sides[1].served or sides[0].source != "score":
        return None
    if local.ablated or served.ablated or any(side.known != "probabilities" for side in sides):
        return None
    raw = replace(settings, calibrated=False, calibration=None, shipped=False)
    pair = PairedRuns.of(local, served, raw)
    return ServedTempering(local.folder, served.folder, temperings(pair, settings.unit))


def temperings(pair: PairedRuns, unit: ClusterUnit) -> tuple[Tempering, ...]:
    """Fit temperatures on two runs: of all items, then of each kind.

    Temperatures are those of the raw distributions, whatever the settings apply.

    Args:
        pair: the runs, with references and probabilities.
        unit: units of the intervals.
    """
    return tuple(_temperings(pair, unit))


def _temperings(pair: PairedRuns, unit: ClusterUnit) -> Iterator[Tempering]:
    paired = pair.pairing.paired
    a, b = (_items(items, unit) for items in (pair.a, pair.b))
    for kind in (ALL_KINDS, *KINDS):
        in_a, in_b = (
            np.ones(len(items), dtype=np.bool_) if kind == ALL_KINDS else items.kind == kind
            for items in (a, b)
        )
        if not (in_a.any() and in_b.any()):
            continue
        of_a, of_b = a.take(np.asarray(in_a)), b.take(np.asarray(in_b))
        fit = temperature_ratio(kind, of_a, of_b, paired=paired)
        tv = left = math.nan
        if paired:
            q = np.exp(of_b.log_probs)
            tv = float(item_tv(np.exp(of_a.log_probs), q).mean())
            if not math.isnan(fit.ratio.value):
                with np.errstate(invalid="ignore"):
                    cooled = of_a.log_probs / fit.ratio.value
                left = float(item_tv(np.exp(log_softmax(cooled, of_a.n_choices)), q).mean())
        yield Tempering(
            kind=kind,
            a=fit.a,
            b=fit.b,
            ratio=fit.ratio,
            tv=tv,
            tv_left=left,
            finding=_finding(fit.ratio, tv, left)
            if _alike_views(pair, in_a, in_b)
            else "cannot tell",
            left_out=fit.left_out,
        )


def _alike_views(pair: PairedRuns, in_a: BoolArray, in_b: BoolArray) -> bool:
    """Return whether both runs decode items of a kind from views of as many orders.

    Paired items have the same orders. Of other items, an ensemble over two orders has another
    temperature than one over repeats of a single order.
    """
    if pair.pairing.paired or pair.a.decoding == "single":
        return True
    orders = [
        set(distinct_orders(items.predictions.code_order[rows]).sum(axis=1).tolist())
        for items, rows in ((pair.a, in_a), (pair.b, in_b))
    ]
    return orders[0] == orders[1]


def _items(items: ScoredItems, unit: ClusterUnit) -> CalibrationItems:
    views = items.predictions
    fitted_items = CalibrationItems.from_predictions(views, items.decoding)
    if unit == "family":
        return fitted_items
    return CalibrationItems(**{**vars(fitted_items), "family": views.source_family})


def _finding(ratio: Estimate, tv: float, left: float) -> TemperingFinding:
    if left > max(_LARGE, _EXPLAINED * tv):  # False if it is not known
        return "other distributions"
    if ratio.low >= 1 / RAW and ratio.high <= RAW:
        return "raw"
    apart = ratio.low > 1 or ratio.high < 1  # False without an interval
    return "tempered" if apart else "cannot tell"
