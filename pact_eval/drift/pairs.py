"""Pairs of runs: their items in one order, and how far probabilities and temperatures differ.

Distances are shown next to those of noise. Temperatures say whether the probabilities of a served
run are raw, or divided by a temperature. A run keeps what it was sent. If a server divides logits
by t, the T fitted on its run is that of the local run divided by t: their ratio is t, and dividing
the local logits by it leaves no distance between the two runs. If the model is another one, the
distance remains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval._choices import ClusterUnit
from pact_eval._typing import BoolArray, FloatArray
from pact_eval.calibration.fitting import fit_calibrator
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.temperatures import KINDS, inverse_softplus
from pact_eval.errors import InputError, counted
from pact_eval.evaluation.comparison import SharedViews, views_in_common
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.order import NoiseFloor, noise_floor
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.joins import align
from pact_eval.evaluation.run_records import conclude_on_data
from pact_eval.evaluation.settings import Settings
from pact_eval.metrics import log_softmax
from pact_eval.numbers import estimate_text, value_text
from pact_eval.runs.folder import RunSource, open_run, unanswered_ids
from pact_eval.runs.identity import Difference, RunIdentity, join_differences, log_differences
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Provenance
from pact_eval.stats._quantiles import t_quantile
from pact_eval.stats.estimate import ONE_CLUSTER, ClusterText, Estimate, Method
from pact_eval.stats.letter_preference import distinct_orders
from pact_eval.stats.linearised import mean_inference

QUANTILES: Final = (0.5, 0.9, 0.99, 1.0)
"""Quantiles of TV over items that are shown."""

_SAME: Final = 1e-9
_OF_RATIO: Final = 3
"""Digits of a ratio of temperatures."""


@dataclass(frozen=True)
class JointFloor:
    """The largest TV that two runs of one unchanged model can have by noise alone.

    Attributes:
        tv: the floor; NaN if the noise of a run was not measured, or a temperature was applied.
        a: noise floor of the first run.
        b: noise floor of the second run.
    """

    tv: float
    a: NoiseFloor
    b: NoiseFloor

    @property
    def sentence(self) -> str:
        """The effect of noise alone between two runs of one model."""
        if math.isnan(self.tv):
            if self.a.is_known and self.b.is_known:
                return "Noise: not known for probabilities after a temperature."
            if "not in the log" in (self.a.source, self.b.source):
                return "Noise: not known; an imported log does not say what repeats would move."
            return "Noise: not measured; a probe with repeats measures it."
        sources = dict.fromkeys(_source(side) for side in (self.a, self.b))
        return f"Noise alone ({', '.join(sources)}) moves at most {small_percent(self.tv)}."


def _source(floor: NoiseFloor) -> str:
    if floor.source == "rounding":
        return f"rounding in {floor.precision}"
    return f"{counted(floor.repeats, 'repeat')} of a probe"


def small_percent(rate: float) -> str:
    """Write a rate that may be far below 1% with two digits.

    Examples:
        >>> small_percent(0.0000123), small_percent(0.074)
        ('0.0012%', '7.4%')
    """
    return f"{100 * rate:.2g}%"


@dataclass(frozen=True)
class Distance:
    """Total variation distance (TV) between the distributions of two runs, per item.

    Attributes:
        mean: mean over items, with its interval over families.
        quantiles: by level of `QUANTILES`.
        floor: what noise alone can move.
        above_floor: share of items beyond it; NaN without a floor.
    """

    mean: Estimate
    quantiles: dict[float, float]
    floor: JointFloor
    above_floor: float

    @property
    def text(self) -> str:
        """The distance, next to noise."""
        quantiles = ", ".join(
            f"{'the largest' if level == 1 else f'{100 * level:.0f}% of items'} "
            f"{'' if level == 1 else '<= '}{value_text(value, 'percent')}"
            for level, value in self.quantiles.items()
        )
        beyond = ""
        if not math.isnan(self.above_floor):
            beyond = f" {value_text(self.above_floor, 'percent')}% of items moved more."
        mean = estimate_text(self.mean, "percent")
        return f"moved by {mean}% per item on average ({quantiles}). {self.floor.sentence}{beyond}"


def distance(a: ScoredItems, b: ScoredItems, floor: JointFloor) -> Distance:
    """Measure how far the distribution of each item moved.

    Args:
        a: items of the first run, with their views in memory.
        b: the same items of the second run, in the same order.
        floor: what noise alone can move.
    """
    tv = item_tv(np.exp(a.log_probs), np.exp(b.log_probs))
    mean = mean_inference(tv, a.cluster, a.n_clusters).estimate()
    beyond = math.nan if math.isnan(floor.tv) else float((tv > floor.tv + _SAME).mean())
    levels = np.quantile(tv, QUANTILES).tolist()
    return Distance(mean, dict(zip(QUANTILES, levels, strict=True)), floor, beyond)


def item_tv(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return (n,) TV of distributions (n, C); one array may have fewer unused columns.

    Examples:
        >>> item_tv(np.array([[0.5, 0.5]]), np.array([[0.75, 0.25, 0.0]]))
        array([0.25])
    """
    width = max(p.shape[1], q.shape[1])
    p, q = (np.pad(matrix, ((0, 0), (0, width - matrix.shape[1]))) for matrix in (p, q))
    return np.asarray(np.abs(p - q).sum(axis=1) / 2)


def joint_floor(a: Provenance, b: Provenance, *, calibrated: bool, answers: int) -> JointFloor:
    r"""Return the largest TV that noise alone gives two runs.

    Two served runs of one model are repeats of one another: the larger of their repeat floors. A
    local run is at most its rounding floor away from exact arithmetic, so by the triangle
    inequality two floors add up otherwise. Probabilities that were rounded to d decimals are at
    most :math:`C \cdot 10^{-d} / 4` away from the unrounded ones; this is added unless both runs
    were rounded and repeated alike.

    Args:
        a: provenance of the first run.
        b: provenance of the second run.
        calibrated: whether temperatures were applied, which change what noise moves.
        answers: largest number of answers of an item, C.

    Examples:
        >>> runs = [Provenance.of({"settings": {"dtype": "float32"}}) for _ in "ab"]
        >>> joint_floor(*runs, calibrated=False, answers=4).tv < 1e-3
        True
    """
    first, second = noise_floor(a), noise_floor(b)
    if calibrated:
        return JointFloor(math.nan, first, second)
    repeats = {first.source, second.source} == {"repeats"}
    tv = max(first.tv, second.tv) if repeats else first.tv + second.tv
    if not (repeats and a.rounded_to == b.rounded_to):
        tv += sum(
            answers * 10.0**-provenance.rounded_to / 4
            for provenance in (a, b)
            if provenance.rounded_to is not None
        )
    return JointFloor(tv, first, second)


ALL_KINDS: Final = "all"
"""Name of the fit on the items of every kind."""

_METHOD: Final = Method("t interval", " (log temperatures)")
_NAN: Final = math.nan


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
        a: T fitted on the first run, with its interval over families; NaN without a fit.
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
    tv: float = math.nan
    tv_left: float = math.nan
    finding: TemperingFinding = "cannot tell"
    left_out: int = 0

    @property
    def looks(self) -> str:
        """What the probabilities of the second run look like, to follow a subject."""
        if math.isnan(self.ratio.value):
            reason = self.ratio.reason
            return f"may be raw or tempered: no temperature could be fitted ({reason})"
        fitted = f"T fitted on them is {self.b.value:.2f}, locally {self.a.value:.2f}"
        if not math.isnan(self.tv):
            left = f"{small_percent(self.tv_left)} once that is undone"
            fitted += f"; mean TV {small_percent(self.tv)}, {left}"
        ends = ""
        if not math.isnan(self.ratio.low):
            ends = f" [{self.ratio.low:.{_OF_RATIO}g}, {self.ratio.high:.{_OF_RATIO}g}]"
        divided = f"divided by T = {self.ratio.value:.{_OF_RATIO}g}{ends}"
        match self.finding:
            case "tempered":
                return f"look tempered, {divided}: {fitted}"
            case "raw":
                return f"look raw, {divided}: {fitted}"
            case "other distributions":
                return f"differ by more than a temperature: if {divided}, {fitted}"
            case "cannot tell":
                return f"may be raw or tempered, {divided}: {fitted}"


def temperature_ratio(
    kind: str, a: CalibrationItems, b: CalibrationItems, *, paired: bool
) -> Tempering:
    r"""Fit one temperature on each of two runs.

    The logarithm of each T is linearised in its items, :math:`-s_i\,T'(u) / (I\,T)`, with the
    slope :math:`s_i` of the NLL in u and the information I (as for the standard errors of a fit by
    family). Families that both runs have count once.

    Args:
        kind: name of the items.
        a: items of the first run.
        b: items of the second run; the same in the same order if `paired`.
        paired: whether they are the same items.

    Returns:
        The temperatures and their ratio, without distances; NaN with a reason if a bound holds a
        fit, a reference has probability 0 in runs that are not paired, or there are no items.

    Examples:
        >>> import numpy as np
        >>> names = np.array([f"f{index // 2}" for index in range(40)])
        >>> def items(p):
        ...     return CalibrationItems(
        ...         np.log(np.tile([p, 1 - p], (40, 1))), (np.arange(40) % 4 == 0).astype(np.int64),
        ...         np.full(40, "boolean"), np.full(40, 2), np.full(40, 300.0), names, names)
        >>> fit = temperature_ratio("boolean", items(0.9), items(0.75), paired=True)
        >>> round(fit.a.value, 3), round(fit.b.value, 3), round(fit.ratio.value, 3)
        (2.0, 1.0, 2.0)
    """
    left_out = 0
    if paired:
        possible = _possible(a) & _possible(b)
        left_out = int((~possible).sum())
        a, b = a.take(possible), b.take(possible)
    first, of_first = _fit(a)
    second, of_second = _fit(b)
    n = len(a) + len(b)
    if isinstance(of_first, str) or isinstance(of_second, str):
        reason = of_first if isinstance(of_first, str) else str(of_second)
        ratio = Estimate(_NAN, _NAN, _NAN, n, 0, _METHOD, ClusterText(reason))
        return Tempering(kind, first, second, ratio, left_out=left_out)
    # An item of unknown family is a family of its own; of the same items, in both runs.
    own = [*range(len(a)), *range(0 if paired else len(a), len(b) + (0 if paired else len(a)))]
    names = np.concatenate([a.family, b.family]).astype(np.str_)
    unknown = np.char.add("\0", np.array(own).astype(np.str_))
    _, codes = np.unique(np.where(names == "", unknown, names), return_inverse=True)
    parts = np.bincount(codes, np.concatenate([of_first, -of_second]))
    clusters, value = len(parts), first.value / second.value
    ratio = Estimate(value, _NAN, _NAN, n, clusters, _METHOD, ONE_CLUSTER)
    if clusters > 1:
        error = math.sqrt(clusters / (clusters - 1) * float((parts**2).sum()))
        reach = math.exp(t_quantile(0.975, clusters - 1) * error)
        ratio = Estimate(value, value / reach, value * reach, n, clusters, _METHOD)
    return Tempering(kind, first, second, ratio, left_out=left_out)


def _possible(items: CalibrationItems) -> BoolArray:
    at = items.log_probs[np.arange(len(items)), items.reference]
    return np.asarray(~np.isneginf(at))


def _fit(items: CalibrationItems) -> tuple[Estimate, FloatArray | str]:
    """Return one temperature, and what each item adds to its logarithm, or why nothing is fitted.

    An item of unknown family is a family of its own.
    """
    n = len(items)
    impossible = int((~_possible(items)).sum())
    nothing = Estimate(_NAN, _NAN, _NAN, n, 0, _METHOD)
    if not n:
        return nothing, "there are no items"
    if impossible:
        return nothing, f"the reference has probability 0 in {counted(impossible, 'item')}"
    fit = fit_calibrator(items, mode="scalar")
    (level,) = fit.levels
    low, high = level.by_family.low, level.by_family.high
    temperature = Estimate(level.value, low, high, n, fit.families, _METHOD)
    if level.at_bound or not level.identified:
        return temperature, level.reason or "a bound holds the fit"
    u = np.full(n, inverse_softplus(level.value))
    _, slope = items.likelihood.nll_and_slope(u)
    information = float(items.likelihood.curvature(u).sum())
    # dT/du = sigmoid(u) = 1 - exp(-T)
    of_log = -math.expm1(-level.value) / level.value
    return temperature, -slope * of_log / information


@dataclass(frozen=True)
class Pairing:
    """Items that two runs have in common, and those of one alone.

    Attributes:
        paired: whether both runs were asked the same items.
        common: items that both have answered.
        only_a: other items that the first has answered.
        only_b: other items that the second has answered.
        unanswered: items that each run left unanswered.
    """

    paired: bool
    common: int
    only_a: int
    only_b: int
    unanswered: tuple[int, int]


@dataclass(frozen=True, eq=False)
class PairedRuns:
    """Two runs under one decoding.

    Attributes:
        runs: the first and the second run.
        a: items of the first run; if paired, those that both have answered.
        b: items of the second run; if paired, the same in the same order.
        pairing: how they belong together.
        differences: what the runs record differently: data, model, contract, prompts.
        views: views of each that are used.
    """

    runs: tuple[ExperimentRun, ExperimentRun]
    a: ScoredItems
    b: ScoredItems
    pairing: Pairing
    differences: tuple[Difference, ...]
    views: int

    @classmethod
    def of(cls, first: ExperimentRun, second: ExperimentRun, settings: Settings) -> PairedRuns:
        """Pair two runs.

        Args:
            first: the run before.
            second: the run after.
            settings: decoding, calibrators and units.

        Raises:
            RunError: the rows of a run are damaged.
            InputError: a run lacks the decoding or its calibrator; one has ablated contexts and the
                other has not; or an item has another reference, kind, family or letter order of
                view 0 in the other run.
        """
        runs = first, second
        if runs[0].ablated != runs[1].ablated:
            raise InputError(
                f"{first.place} and {second.place}: one has ablated contexts, the other full ones"
            )
        pairing, predictions = _pair(*runs)
        views_a, views_b = predictions
        if settings.decoding == "single" and (views_a.repeats or views_b.repeats):
            # The mean over all repeats of one run, next to the same or to view 0 of the other.
            views_a, views_b = (
                views if views.repeats else views.with_views(1) for views in predictions
            )
        else:
            # Item by item the views that both runs have, or as many of other items.
            shared = SharedViews(min(views_a.k, views_b.k))
            if pairing.paired:
                shared = views_in_common(predictions)
            of_a, of_b = shared.chosen or (shared.k, shared.k)
            views_a, views_b = views_a.with_views(of_a), views_b.with_views(of_b)
        a, b = (
            ScoredItems.of(
                predictions,
                settings.decoding,
                run.applied(settings.decoding, calibrated=settings.calibrated),
            )
            .over(settings.unit)
            .grouped(settings.by, settings.bins)
            for run, predictions in zip(runs, (views_a, views_b), strict=True)
        )
        rows = math.lcm(a.asked, b.asked)
        if rows > 1:
            a, b = a.with_repeats(rows), b.with_repeats(rows)
        return cls(runs, a, b, pairing, _differences(*runs), min(views_a.k, views_b.k))

    @property
    def ablated(self) -> bool:
        """Whether the items have no references."""
        return self.a.reference is None

    @property
    def has_probabilities(self) -> bool:
        """Whether the probabilities of all answers are known in both runs."""
        return self.a.known == self.b.known == "probabilities"

    def distance(self, *, calibrated: bool) -> Distance:
        """Measure how far the probabilities of the paired items moved, next to what noise moves.

        Args:
            calibrated: whether temperatures were applied.
        """
        answers = int(self.a.predictions.n_choices.max(initial=2))
        first, second = (run.provenance for run in self.runs)
        floor = joint_floor(first, second, calibrated=calibrated, answers=answers)
        return distance(self.a, self.b, floor)


def opened_runs(
    first: RunSource, second: RunSource, settings: Settings
) -> tuple[tuple[ExperimentRun, ExperimentRun], DataConclusion]:
    """Open two runs one by one; without the families of a leak of either, if the settings say so.

    Args:
        first: the run before, or its folder.
        second: the run after.
        settings: calibrators, and the data of the runs.

    Returns:
        The runs, and whether their data is sound. A leak has no accuracies.

    Raises:
        RunError: a folder is not a complete run.
        InputError: no item is left.
    """
    together = replace(settings, without_leaks=False)
    before, after = (
        Experiment.read([open_run(source)], together).all_runs[0] for source in (first, second)
    )
    data = conclude_on_data([run for run in (before, after) if not run.ablated], settings)
    if settings.without_leaks and data.leak is not None:
        families, data = data.leak.families, data.leaving_out()
        before, after = (run.without_families(families, None) for run in (before, after))
    return (before, after), data


def _pair(
    first: ExperimentRun, second: ExperimentRun
) -> tuple[Pairing, tuple[Predictions, Predictions]]:
    """Put the items of two runs in one order if both were asked the same items."""
    a, b = first.predictions, second.predictions
    without = unanswered_ids(first.run), unanswered_ids(second.run)
    answered = set(a.ids.tolist()), set(b.ids.tolist())
    common = answered[0] & answered[1]
    paired = bool(common) and all(
        mine - common <= unanswered
        for mine, unanswered in zip(answered, reversed(without), strict=True)
    )
    pairing = Pairing(
        paired=paired,
        common=len(common),
        only_a=len(answered[0] - common),
        only_b=len(answered[1] - common),
        unanswered=(len(without[0]), len(without[1])),
    )
    if not paired:
        return pairing, (a, b)
    if len(common) < max(len(a), len(b)):
        a, b = (
            items.taken(np.flatnonzero([item in common for item in items.ids.tolist()]))
            for items in (a, b)
        )
    return pairing, (a, align(a, b, names=(first.place, second.place)))


def _differences(first: ExperimentRun, second: ExperimentRun) -> tuple[Difference, ...]:
    """Return what the runs record differently: the data, then the model and the prompts."""
    data = [
        difference
        for difference in join_differences(first.provenance, second.provenance)
        if difference.fact == "data"
    ]
    logs = log_differences(first.provenance, second.provenance)
    identities = [RunIdentity.of(run.provenance) for run in (first, second)]
    return (*data, *identities[0].differences(identities[1]), *logs)


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

    @property
    def sentences(self) -> tuple[str, ...]:
        """Whether the probabilities of the served run look raw or tempered, by kind."""
        everything, *kinds = self.temperings
        alike = {kind.finding for kind in kinds} == {"raw"}
        return tuple(
            f"Served probabilities{'' if kind.kind == 'all' else f' of {kind.kind}'} {kind.looks}."
            for kind in ([everything] if alike or not kinds else kinds)
        )


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
    return ServedTempering(local.folder, served.folder, tuple(temperings(pair, settings.unit)))


def temperings(pair: PairedRuns, unit: ClusterUnit) -> Iterator[Tempering]:
    """Fit temperatures on two runs: of all items, then of each kind.

    Temperatures are those of the raw distributions, whatever the settings apply.

    Args:
        pair: the runs, with references and probabilities.
        unit: units of the intervals.
    """
    paired, sides = pair.pairing.paired, (pair.a, pair.b)
    a, b = (CalibrationItems.from_predictions(side.predictions, side.decoding) for side in sides)
    if unit == "source_family":
        a, b = (replace(items, family=items.source_family) for items in (a, b))
    for kind in (ALL_KINDS, *KINDS):
        in_a, in_b = (
            np.ones(len(items), dtype=np.bool_) if kind == ALL_KINDS else items.kind == kind
            for items in (a, b)
        )
        if not (in_a.any() and in_b.any()):
            continue
        of_a, of_b = a.take(np.asarray(in_a)), b.take(np.asarray(in_b))
        fit = temperature_ratio(kind, of_a, of_b, paired=paired)
        if paired:
            q = np.exp(of_b.log_probs)
            fit = replace(fit, tv=float(item_tv(np.exp(of_a.log_probs), q).mean()))
            if not math.isnan(fit.ratio.value):
                with np.errstate(invalid="ignore"):
                    cooled = of_a.log_probs / fit.ratio.value
                left = item_tv(np.exp(log_softmax(cooled, of_a.n_choices)), q)
                fit = replace(fit, tv_left=float(left.mean()))
        # Paired items have the same orders. Of other items, an ensemble over two orders has another
        # temperature than one over repeats of a single order.
        alike = paired or pair.a.decoding == "single"
        if not alike:
            orders = [
                set(distinct_orders(side.predictions.code_order[rows]).sum(axis=1).tolist())
                for side, rows in zip(sides, (in_a, in_b), strict=True)
            ]
            alike = orders[0] == orders[1]
        if alike:
            fit = replace(fit, finding=_finding(fit))
        yield fit


def _finding(fit: Tempering) -> TemperingFinding:
    ratio = fit.ratio
    if fit.tv_left > max(_LARGE, _EXPLAINED * fit.tv):  # False if it is not known
        return "other distributions"
    if ratio.low >= 1 / RAW and ratio.high <= RAW:
        return "raw"
    apart = ratio.low > 1 or ratio.high < 1  # False without an interval
    return "tempered" if apart else "cannot tell"
