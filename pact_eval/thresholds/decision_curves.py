r"""Decision curves: costs and values of gates, and the chosen gates among them.

With the costs :math:`c_w` of a wrong decision and :math:`c_r` of a review, a gate t costs

.. math:: c(t) = c_w \, P(\text{accepted and wrong}) + c_r \, P(\text{escalated})

per item. Its value over "always answer" is :math:`c(-\infty) - c(t)`, over "always ask"
:math:`c_r - c(t)` (Vickers and Elkin 2006 compare a model with both, too). Bands resample families;
cost and values see the same resamples. Items without an answer are escalated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from pact_eval._typing import FloatArray
from pact_eval.errors import InputError
from pact_eval.evaluation.curves.probabilities import Band, curve_band
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.registry import MEAN_CONFIDENCE
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.identity import RunIdentity
from pact_eval.stats.estimate import Estimate
from pact_eval.thresholds.checking import run_to_check
from pact_eval.thresholds.choice import Rule, gate_items, group_rows, rate_over_units, rule_of
from pact_eval.thresholds.files import ThresholdsFile, read_thresholds
from pact_eval.thresholds.gates import ROUNDING, GateItems, Target

_POINTS: Final = 200


@dataclass(frozen=True)
class Decisions:
    """Costs and files of thresholds that a reader decides with.

    Attributes:
        files: thresholds, whose gates are marked.
        costs: of a wrong decision and of a review; None without costs.
    """

    files: tuple[ThresholdsFile, ...] = ()
    costs: Target | None = None

    @classmethod
    def of(
        cls, paths: Sequence[Path], *, wrong: float | None = None, review: float | None = None
    ) -> Decisions:
        """Read thresholds. Without costs, those of the first thresholds that have some are used.

        Args:
            paths: files of thresholds.
            wrong: cost of a wrong decision.
            review: cost of a review; both or none.

        Raises:
            InputError: a file cannot be read, one cost lacks, or a review is not cheaper.
            TamperedError: a file has changed since it was written.
        """
        files = tuple(read_thresholds(path) for path in paths)
        if (wrong is None) != (review is None):
            raise InputError(
                "expected the costs of a wrong decision and of a review, got one of them"
            )
        costs = next((file.target for file in files if file.target.kind == "cost"), None)
        if wrong is not None and review is not None:
            costs = Target.of_costs(wrong=wrong, review=review)
        return cls(files, costs)


@dataclass(frozen=True)
class GateMark:
    """The chosen gates of a file on a run of their model: what all of them together do.

    Attributes:
        run: label of the run.
        arm: its arm.
        seed: its seed.
        file: the thresholds.
        accepted: share of the items that are accepted.
        error: error among accepted items.
        own_families: families of the run that the gates were chosen on; their error is optimistic.
    """

    run: str
    arm: str
    seed: int | None
    file: ThresholdsFile
    accepted: Estimate
    error: Estimate
    own_families: int


@dataclass(frozen=True)
class GateNote:
    """Reason why a file marks nothing on a run, or a note on its marks.

    Attributes:
        run: label of the run; None if the note is on a file alone.
        text: what to know.
    """

    run: str | None
    text: str


@dataclass(frozen=True)
class GateMarks:
    """The chosen gates on the runs of an experiment.

    Attributes:
        marks: one per run and file of its model.
        notes: why a file marks nothing, or what to know of its marks.
    """

    marks: tuple[GateMark, ...]
    notes: tuple[GateNote, ...]


@dataclass(frozen=True, eq=False)
class CostCurve:
    """Costs of every gate on a run.

    Attributes:
        run: label of the run.
        arm: its arm.
        seed: its seed.
        rule: what the gates look at.
        thresholds: (points,) gates, from every answer (-inf) to nothing (inf).
        escalated: (points,) share of the items that each escalates.
        cost: (points,) per item, and its 95% band over families.
        over_answering: (points,) value over always answering, and its band.
        over_asking: (points,) value over always asking, and its band.
        chosen: index of the gate of a file; None without one.
        items: number of items, unanswered ones included.
        families: number of their families.
    """

    run: str
    arm: str
    seed: int | None
    rule: Rule
    thresholds: FloatArray
    escalated: FloatArray
    cost: tuple[FloatArray, Band]
    over_answering: tuple[FloatArray, Band]
    over_asking: tuple[FloatArray, Band]
    chosen: int | None
    items: int
    families: int

    def nearest(self, share: float) -> int:
        """Return the index of the gate that escalates a share of the items, or about that."""
        return int(np.argmin(np.abs(self.escalated - share)))


def gate_marks(experiment: Experiment, files: Sequence[ThresholdsFile]) -> GateMarks:
    """Return what chosen gates do on the runs of their model."""
    marks: list[GateMark] = []
    notes: list[GateNote] = []
    for file in files:
        runs = [run for run in experiment.runs if _is_model(file, run)]
        if not runs:
            notes.append(GateNote(None, f"{file.path}: no run of its model"))
        for run in runs:
            try:
                marks.append(_mark(file, run))
            except InputError as error:
                notes.append(GateNote(run.label, str(error)))
                continue
            if marks[-1].own_families:
                text = (
                    f"the gates of {file.path} were chosen on {marks[-1].own_families:,} of its "
                    "families, so their error is optimistic"
                )
                notes.append(GateNote(run.label, text))
    return GateMarks(tuple(marks), tuple(notes))


def cost_curve(experiment: Experiment, run: ExperimentRun, decisions: Decisions) -> CostCurve:
    """Compute the costs of every gate of a run.

    The gates are on the signal of the first file of the run's model that has one gate for all
    items; without one, on the top probability under the decoding of the settings.

    Args:
        experiment: the runs, with the settings of the bootstrap.
        run: one of them.
        decisions: costs, and thresholds.

    Raises:
        InputError: there are no costs, or the run has no probabilities.
    """
    if decisions.costs is None:
        raise InputError("no costs were given (--cost-wrong, or thresholds of costs)")
    run.require(MEAN_CONFIDENCE)
    settings = experiment.settings
    file = next(
        (
            candidate
            for candidate in decisions.files
            if candidate.rule.by == "all" and _is_model(candidate, run)
        ),
        None,
    )
    rule = rule_of(run, "top", "all", replace(settings, calibrated=False, shipped=False))
    source, gate = run, None
    if file is not None:
        rule, gate = file.rule, file.gates["all"]
        source = run_to_check(file, run.folder, Settings())
    items, columns = gate_items(source, rule)
    thresholds, at = _grid(items, gate)
    curve = _costs(items, thresholds, decisions.costs)
    every = np.ones(len(items))
    values = np.split(curve(every), 3)
    band = curve_band(curve, items.units.codes, settings)
    lows, highs = np.split(band.low, 3), np.split(band.high, 3)
    bands = [Band(low, high) for low, high in zip(lows, highs, strict=True)]
    cost, over_answering, over_asking = zip(values, bands, strict=True)
    return CostCurve(
        run=run.label,
        arm=run.arm,
        seed=run.seed,
        rule=rule,
        thresholds=thresholds,
        escalated=np.array([1 - items.accepted(threshold).mean() for threshold in thresholds]),
        cost=cost,
        over_answering=over_answering,
        over_asking=over_asking,
        chosen=None if file is None else at,
        items=len(items),
        families=len(set(columns["family"].tolist())),
    )


def _is_model(file: ThresholdsFile, run: ExperimentRun) -> bool:
    return not file.model.differences(RunIdentity.of(run.provenance))


def _mark(file: ThresholdsFile, run: ExperimentRun) -> GateMark:
    items, columns = gate_items(run_to_check(file, run.folder, Settings()), file.rule)
    accepted = np.zeros(len(items), dtype=np.bool_)
    for name, rows in group_rows(columns, file.rule.by).items():
        accepted[rows] = items.taken(rows).accepted(file.gates.get(name))
    return GateMark(
        run=run.label,
        arm=run.arm,
        seed=run.seed,
        file=file,
        accepted=rate_over_units(items, accepted),
        error=rate_over_units(items, items.wrong, accepted),
        own_families=len(file.families & set(columns["family"].tolist()) - {""}),
    )


def _grid(items: GateItems, gate: float | None) -> tuple[FloatArray, int]:
    """Return gates from every answer to nothing, and the index of the chosen one."""
    sure = items.sureness[items.sureness > -np.inf]
    shares = np.linspace(0, 1, _POINTS) if sure.size else np.array([])
    inner = np.quantile(sure, shares) - ROUNDING if sure.size else sure
    chosen = np.inf if gate is None else gate
    grid = np.unique(np.r_[-np.inf, inner, chosen, np.inf])
    return grid, int(np.searchsorted(grid, chosen))


def _costs(
    items: GateItems, thresholds: FloatArray, costs: Target
) -> Callable[[FloatArray], FloatArray]:
    """Return a function from (n,) weights to costs and values, (3 * points,)."""
    order = np.argsort(-items.sureness, kind="stable")
    ranked, wrong = items.sureness[order], items.wrong[order]
    answered = int((ranked > -np.inf).sum())
    kept = np.minimum(np.searchsorted(-ranked, -thresholds, side="right"), answered)
    per_error, per_review = costs.cost_wrong or 0.0, costs.cost_review or 0.0

    def curve(weights: FloatArray) -> FloatArray:
        weight = weights[order]
        accepted = np.r_[0.0, np.cumsum(weight)][kept]
        errors = np.r_[0.0, np.cumsum(weight * wrong)][kept]
        total = weight.sum()
        cost = (per_error * errors + per_review * (total - accepted)) / total
        return np.concatenate([cost, cost[0] - cost, per_review - cost])

    return curve
