"""Report on one run: every number, from its predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import metadata
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from pact_eval import metrics
from pact_eval._choices import Bins, ClusterUnit, Decoding, GroupBy
from pact_eval._json import Json, sha256_of_json
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.metric_specs import DecodingName, MetricSpec, decoding_name
from pact_eval.evaluation.notes import (
    IncompletePairs,
    InfiniteNll,
    LargeFamilies,
    LowAnswerMass,
    NearTies,
    PairsWithoutMargin,
    RepeatedPrompts,
    near_ties,
    numeric_noise,
    one_order,
    run_notes,
    small_groups,
)
from pact_eval.evaluation.registry import Contexts, registered_metrics
from pact_eval.evaluation.resampled_groups import ResampledGroup, resampled_groups
from pact_eval.evaluation.settings import Settings
from pact_eval.notes import Note
from pact_eval.progress import step, tracked
from pact_eval.results import Framed
from pact_eval.runs.folder import Run
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.seal import seal_digest
from pact_eval.stats.bootstrap import same_stream
from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.homogeneity import SlotHomogeneity, slot_homogeneity

if TYPE_CHECKING:
    from pact_eval.calibration.notes import CalibrationWarning
    from pact_eval.calibration.temperatures import Calibrator
    from pact_eval.evaluation.chance_miscalibration import ChanceMiscalibration
    from pact_eval.evaluation.conclusions.conclusion import Conclusion
    from pact_eval.notes import Note


Calibration = Literal["raw", "calibrated", "as shipped"]
"""Whether distributions were divided by a temperature: fitted, or shipped with a template."""

SMALL_VIEW_TV: Final = 0.01
"""View TV below which an item counts as hardly moved by the order of its answers."""

_NO_ORDERS: Final = "the run does not record the order in which answers were shown"
_MOST_RESAMPLES: Final = 10_000
_FEWEST_RESAMPLES: Final = 200
_LARGE_RESAMPLES: Final = 1_000
# Items times resamples: up to the first, 10,000 resamples; up to the second, 1,000.
_ITEM_DRAWS: Final = 200_000_000
_LARGE_ITEM_DRAWS: Final = 2_000_000_000


@dataclass(frozen=True)
class ViewTvQuantiles:
    """Quantiles of view TV over the items that are shown in several orders; fractions.

    Attributes:
        items: number of these items.
        median: half of them have this view TV or less.
        p90: 90% of them have this view TV or less.
        largest: highest view TV of an item.
        share_below_small: share of them with a view TV below `SMALL_VIEW_TV`.
        recorded: whether an imported log states view TV, and the run has one view of an item.
    """

    items: int
    median: float
    p90: float
    largest: float
    share_below_small: float
    recorded: bool

    @classmethod
    def of(cls, items: ScoredItems) -> ViewTvQuantiles | None:
        """Return the quantiles, interpolated between items; None if no item has a view TV."""
        tv = items.view_tv[~np.isnan(items.view_tv)] if items.repeats == 1 else np.empty(0)
        if not tv.size:
            return None
        median, p90, largest = np.quantile(tv, [0.5, 0.9, 1.0]).tolist()
        return cls(tv.size, median, p90, largest, float(np.mean(tv < SMALL_VIEW_TV)), items.k == 1)


@dataclass(frozen=True, eq=False)
class TopAnswers:
    """The most probable answers of a group of items, as events that are right or wrong.

    Attributes:
        confidence: (n,) their probabilities.
        correct: (n,) whether they are right.
        cluster: (n,) code of the unit of intervals of each item, 0..F-1.
        n_clusters: number of units, F.
        rng: source of draws; it is copied, so draws do not depend on what is drawn before.
    """

    confidence: FloatArray
    correct: BoolArray
    cluster: IntArray
    n_clusters: int
    rng: np.random.Generator

    @classmethod
    def of(cls, group: ResampledGroup) -> TopAnswers | None:
        """Return those of a group; None without confidences, and for ablated contexts."""
        items = group.items
        if items.reference is None or items.known == "answers":
            return None
        arrays = items.confidence, items.correct, items.cluster
        return cls(*arrays, items.n_clusters, same_stream(group.rng))

    def __len__(self) -> int:
        return len(self.confidence)


@dataclass(frozen=True)
class Group:
    """All numbers of one group of items.

    Attributes:
        name: "all", or the kind, domain or source family.
        items: number of items.
        answers: number of answers that means are taken over: items, times repeats if there are any.
        families: number of families.
        clusters: number of units of the intervals: families, or source families.
        estimates: by metric name.
        pairs: outcomes of the complete pairs; None for ablated contexts.
        nll: finite part and number of infinite items; None without probabilities, and for
            ablated contexts.
        top_answers: for `answer_scores` and `chance`; None as above.
    """

    name: str
    items: int
    answers: int
    families: int
    clusters: int
    estimates: Mapping[str, Estimate]
    pairs: metrics.PairOutcomes | None
    nll: metrics.NllSummary | None
    top_answers: TopAnswers | None = field(repr=False, compare=False)

    @cached_property
    def answer_scores(self) -> metrics.AnswerScores | None:
        """Brier and log score of "the answer is right" in parts; None without `top_answers`."""
        answers = self.top_answers
        if answers is None:
            return None
        return metrics.answer_scores(answers.confidence, answers.correct)

    @cached_property
    def chance(self) -> ChanceMiscalibration | None:
        """Their miscalibration if the model were calibrated; None without `top_answers`."""
        from pact_eval.evaluation.chance_miscalibration import chance_miscalibration

        answers = self.top_answers
        if answers is None:
            return None
        return chance_miscalibration(answers, rng=same_stream(answers.rng))


@dataclass(frozen=True, repr=False)
class Evaluation(Framed):
    """Every number of the report on one run under one decoding.

    A run on ablated contexts has no references. It has only the metrics that need none; other
    attributes that need references are None.

    Attributes:
        contexts: full, or ablated.
        decoding: single (view 0) or ensemble (K views); all numbers except TV, flips, ensemble gain
            and the letters depend on it.
        calibration: raw or calibrated; the same numbers depend on it.
        k: number of views per item.
        repeats: number of repeats per item; 1 if the views are not repeats of one order. Under the
            decoding single, every number is then a mean over the repeats.
        by: grouping after all items: kind, domain or source_family.
        unit: units of intervals: families, or source families.
        metrics: the metrics of the groups, in the order of the report.
        groups: all items first, then the groups.
        letters: test of letter bias over all items and views; None for ablated contexts.
        mean_answer_mass: mean share of the next-token distribution on the letters; NaN if unknown.
        smallest_probability: smallest probability above 0 in the run.
        near_ties: answers that rounding could have changed; None if the precision is unknown.
        notes: notes on the numbers.
        view_tv: quantiles of view TV over all items; None if no item is shown in several orders.
        warnings: warnings on the run and its calibrator; `pact_eval.evaluate` fills them.
        conclusions: on the order and the probabilities of the run; `pact_eval.evaluate` fills them.
        run: name of the run; "" if unknown. `pact_eval.evaluate` fills it.
    """

    contexts: Contexts
    decoding: Decoding
    calibration: Calibration
    k: int
    repeats: int
    by: GroupBy
    unit: ClusterUnit
    metrics: tuple[MetricSpec, ...]
    groups: tuple[Group, ...]
    letters: SlotHomogeneity | None
    mean_answer_mass: float
    smallest_probability: float
    near_ties: NearTies | None
    notes: tuple[Note, ...]
    view_tv: ViewTvQuantiles | None = None
    warnings: tuple[CalibrationWarning | Note, ...] = ()
    conclusions: tuple[Conclusion, ...] = ()
    run: str = ""

    @property
    def decoding_name(self) -> DecodingName:
        """Name of the decoding in outputs."""
        return decoding_name(self.decoding, self.repeats)


def default_resamples(items: int) -> int:
    """Return the default number of resamples; many items need fewer, as their intervals are narrow.

    The default is 10,000 up to 20,000 items. It falls to 1,000 at 200,000 items and stays there up
    to 2,000,000; then it falls to 200.

    Examples:
        >>> [default_resamples(n) for n in (324, 100_000, 1_000_000, 10_000_000)]
        [10000, 2000, 1000, 200]
    """
    n = max(items, 1)
    large = max(_FEWEST_RESAMPLES, min(_LARGE_RESAMPLES, _LARGE_ITEM_DRAWS // n))
    return max(large, min(_MOST_RESAMPLES, _ITEM_DRAWS // n))


def evaluate(
    run: Run | Predictions,
    *,
    decoding: Decoding,
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int | None = None,
    calibrator: Calibrator | None = None,
    bins: Bins | None = None,
) -> Evaluation:
    """Compute the report.

    Args:
        run: a run, or only its scored views; near ties need a run, which records its precision.
        decoding: single or ensemble.
        by: kind, domain or source_family.
        rng: source of the resamples; every group starts from the same state, so an interval does
            not depend on other groups.
        resamples: bootstrap resamples of each interval; None uses `default_resamples`.
        calibrator: temperatures to divide by; None leaves the distributions raw.
        bins: bins of the numbers of a further column.

    Returns:
        Estimates for all items and for each group. Undefined values (pair accuracy without pairs,
        TV of one view, ...) are NaN with a reason.

    Raises:
        ValueError: the views of an item have no answer of positive probability in common, so the
            ensemble is undefined.
        InputError: the calibrator needs prompt lengths that are unknown.
    """
    predictions = run.predictions if isinstance(run, Run) else run
    noise = numeric_noise(run.provenance) if isinstance(run, Run) else None
    notes = run_notes(run.provenance) if isinstance(run, Run) else ()
    items = ScoredItems.of(predictions, decoding, calibrator).grouped(by, bins)
    return evaluate_items(items, by=by, rng=rng, resamples=resamples, noise=noise, notes=notes)


def evaluate_items(
    items: ScoredItems,
    *,
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int | None = None,
    noise: float | None = None,
    notes: tuple[Note, ...] = (),
) -> Evaluation:
    """Compute the report on scored items, in memory or read from a file; see `evaluate`.

    Args:
        items: all items of a run under one decoding.
        by: kind, domain or source_family.
        rng: source of the resamples.
        resamples: bootstrap resamples of each interval; None uses `default_resamples`.
        noise: possible rounding error of a logit; None leaves near ties out.
        notes: notes on the run, to come first.
    """
    drawn = resampled_groups(
        items, by, rng=rng, resamples=resamples or default_resamples(len(items))
    )
    with step("Computing intervals", sum(len(group.items) for group in drawn), "items"):
        groups = tuple(group_numbers(group) for group in drawn)
    ties = None if noise is None else near_ties(items.facts.logit_gap, noise)
    return Evaluation(
        contexts=items.contexts,
        decoding=items.decoding,
        calibration="raw" if items.calibrator is None else items.calibrator.name,
        k=max(items.k, items.repeats),
        repeats=items.repeats,
        by=by,
        unit=items.unit,
        metrics=registered_metrics(items.contexts),
        groups=groups,
        letters=_letters(items),
        mean_answer_mass=items.facts.answer_mass,
        smallest_probability=items.facts.smallest_probability,
        near_ties=ties,
        notes=(
            *RepeatedPrompts.of(items),
            *notes,
            *_notes(items, groups[0], ties),
            *LargeFamilies.of(items),
            *small_groups({group.name: group.items.n_clusters for group in drawn}, items.unit),
        ),
        view_tv=ViewTvQuantiles.of(items),
    )


def group_numbers(group: ResampledGroup) -> Group:
    """Return all numbers of a group of items."""
    items = group.items
    undefined = items.reference is None or items.known != "probabilities"
    names = tracked(_names(items.contexts), "Computing metrics", "metrics", counts=len(items))
    return Group(
        name=group.name,
        items=items.n_items,
        answers=len(items),
        families=items.n_families,
        clusters=items.n_clusters,
        estimates={name: group.estimate(name) for name in names},
        pairs=_pair_outcomes(items),
        nll=None if undefined else metrics.nll_summary(items.nll),
        top_answers=TopAnswers.of(group),
    )


def _pair_outcomes(items: ScoredItems) -> metrics.PairOutcomes | None:
    if items.reference is None:
        return None
    outcomes = metrics.pair_outcomes(items.pairs, items.predicted, items.reference)
    return replace(outcomes, same_answer=None) if items.known == "outcomes" else outcomes


def _names(contexts: Contexts) -> list[str]:
    return [spec.name for spec in registered_metrics(contexts)]


def _letters(items: ScoredItems) -> SlotHomogeneity | None:
    """Test the letters over all views whose letter order is known."""
    if items.reference is None:
        return None
    facts = items.facts
    clusters = items.cluster[facts.of_item]
    homogeneity = slot_homogeneity(facts.picked, facts.held, clusters, facts.weight)
    return (
        homogeneity if facts.of_item.size else replace(homogeneity, reason=ClusterText(_NO_ORDERS))
    )


def _notes(items: ScoredItems, everything: Group, ties: NearTies | None) -> tuple[Note, ...]:
    notes: list[Note] = []
    facts, nll, pairs = items.facts, everything.nll, everything.pairs
    if nll is not None and nll.infinite_items:
        smallest = facts.smallest_probability
        bound = nll.lower_bound(smallest)
        notes.append(InfiniteNll(nll.infinite_items, nll.items, smallest, bound))
    low = LowAnswerMass.of(facts.answer_mass)
    if low is not None:
        notes.append(low)
    if pairs is not None and pairs.incomplete_families and len(items.pairs):
        notes.append(IncompletePairs(pairs.incomplete_families))
    notes += PairsWithoutMargin.of(items)
    notes += one_order(items)
    if ties is not None and ties.items:
        notes.append(ties)
    return tuple(notes)


FORMAT: Final = "pact-digest-2"
_SETTINGS: Final = (
    *("decoding", "calibrated", "by", "unit", "resamples", "seed", "method", "margin"),
)


@dataclass(frozen=True)
class ReportDigest:
    """The digest of a report, with what it covers.

    Attributes:
        version: version of pact-eval.
        settings: decoding, grouping, bootstrap, accepted differences, ...
        runs: for each run, its arm and `seal_digest`, and the SHA-256 of its calibrator (null if
            it has none).
        inputs: SHA-256 of what else decides what is shown, by name: criteria, texts, ...
    """

    version: str
    settings: Mapping[str, Json]
    runs: tuple[Mapping[str, Json], ...]
    inputs: Mapping[str, Json] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """The digest: 64 hex digits."""
        return sha256_of_json(self.content)

    @property
    def content(self) -> dict[str, Json]:
        """Content that the digest covers."""
        return {
            "format": FORMAT,
            "version": self.version,
            "settings": dict(self.settings),
            "runs": [dict(run) for run in self.runs],
            "inputs": dict(self.inputs),
        }

    @property
    def json(self) -> dict[str, Json]:
        """Content, and the digest itself."""
        return {"sha256": self.sha256, **self.content}


def report_digest(
    runs: Sequence[ExperimentRun], settings: Settings, inputs: Mapping[str, Json] | None = None
) -> ReportDigest:
    """Return the digest of a report on runs.

    Args:
        runs: the runs, in the order of the report.
        settings: the settings of all its numbers.
        inputs: SHA-256 of what else decides what is shown, by name.

    Returns:
        The digest.
    """
    run_digests: tuple[Mapping[str, Json], ...] = tuple(
        {"arm": run.arm, "run": seal_digest(run.run.seal), "calibrator": _calibrator_sha256(run)}
        for run in runs
    )
    chosen: dict[str, Json] = {name: getattr(settings, name) for name in _SETTINGS}
    chosen["allow"] = [*sorted(set(settings.allow))]
    if settings.bins is not None:
        chosen["bins"] = settings.bins if isinstance(settings.bins, int) else [*settings.bins]
    if settings.without_leaks:
        chosen["without_leaks"] = True
    if settings.target_error is not None:
        chosen["target_error"] = settings.target_error
    return ReportDigest(metadata.version("pact-eval"), chosen, run_digests, inputs or {})


def _calibrator_sha256(run: ExperimentRun) -> str | None:
    if run.calibrator is None:
        return None
    from pact_eval.calibration.files import calibrator_sha256

    return calibrator_sha256(run.calibrator)
