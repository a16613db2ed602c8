"""Comparisons of the runs, and of the arms, of an experiment.

    experiment.comparisons
      .of(a, b)            every metric of two runs, with the same resamples
      .better_runs         ) whether the first run, or arm,
      .better_arms         ) is better than each of the others

All of them are computed once, by the settings of the experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from pact_eval._choices import Decoding, GroupBy
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.comparison import (
    ArmPair,
    ArmsComparison,
    SeedMatch,
    against,
    compare_arms,
)
from pact_eval.evaluation.comparison import (
    Comparison,
    DifferingItem,
    GroupComparison,
    MetricComparison,
    SharedViews,
    at_common_views,
    common_repeats,
    compare,
    differing_of,
    runs_at_common_views,
    same_as_all,
    views_in_common,
)
from pact_eval.evaluation.conclusions.better import (
    BetterConclusion,
    Claim,
    DecodedPairs,
    adjusted_claims,
    adjusted_together,
    better_of_pairs,
    claim_of,
    not_comparable,
    turned,
)
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import DifferentViews
from pact_eval.evaluation.registry import decoding_name
from pact_eval.evaluation.report import COMPARED, other_decoding
from pact_eval.evaluation.resampled_groups import (
    ResampledGroup,
    metric_difference,
    resample_items,
)
from pact_eval.evaluation.settings import Settings
from pact_eval.progress import tracked
from pact_eval.stats.estimate import Estimate

if TYPE_CHECKING:  # they import this module
    from pact_eval.evaluation.experiment import Experiment


@dataclass(frozen=True)
class RunComparisons:
    """Comparisons of the runs and arms of an experiment, by its settings.

    Attributes:
        experiment: the runs.
    """

    experiment: Experiment
    _kept: dict[str, tuple[BetterConclusion, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def views_note(self) -> DifferentViews | None:
        """The views of the runs if they differ.

        Runs of one view, and of repeats, have no metric of K.
        """
        ks = {run.label: run.predictions.k for run in self._of_several_views}
        return self._common_views[1].note(ks, ensembles=True) if ks else None

    @property
    def _of_several_views(self) -> tuple[ExperimentRun, ...]:
        views = ((run, run.predictions) for run in self.experiment.runs)
        return tuple(
            run for run, predictions in views if predictions.k > 1 and not predictions.repeats
        )

    @cached_property
    def _common_views(self) -> tuple[tuple[ExperimentRun, ...], SharedViews]:
        """The runs of several views with those that all have; of other items, the first views."""
        runs = self._of_several_views
        if self.experiment.same_items:
            return runs_at_common_views(runs)
        k = min(run.predictions.k for run in runs)
        return tuple(run.with_views(k) for run in runs), SharedViews(k)

    @cached_property
    def at_common_views(self) -> Experiment:
        """The runs with the views that all of them have, for numbers of runs next to each other.

        Runs of one view have neither view metrics nor an ensemble, so they do not count.
        """
        if self.views_note is None:
            return self.experiment
        alike = dict(zip(self._of_several_views, self._common_views[0], strict=True))
        return replace(
            self.experiment, runs=tuple(alike.get(run, run) for run in self.experiment.runs)
        )

    def of(self, a: ExperimentRun, b: ExperimentRun) -> Comparison:
        """Compare two runs under the decoding of the settings; computed once.

        Args:
            a: the first run.
            b: the second run; differences are a minus b.

        Raises:
            InputError: the items differ, or a run lacks the decoding or a calibrator.
        """
        return self._conclude(a, [b])[0][0]

    @cached_property
    def of_first(self) -> tuple[Comparison, ...]:
        """The first run compared with each of the others.

        Raises:
            RunError: a run is on ablated contexts, which have no references.
            InputError: the items differ, or a run lacks the decoding or a calibrator.
        """
        return tuple(comparison for comparison, _ in self._of_first)

    @cached_property
    def _of_first(self) -> tuple[tuple[Comparison, BetterConclusion], ...]:
        self.experiment.require_two_runs()
        self.experiment.require_same_items()
        first, *others = self.experiment.runs
        return self._conclude(first, others)

    def _conclude(
        self, first: ExperimentRun, others: Sequence[ExperimentRun]
    ) -> tuple[tuple[Comparison, BetterConclusion], ...]:
        """Compare a run with others, and conclude; what one line may name is adjusted together."""
        comparisons = [self._comparison(first, run) for run in tracked(others, "Comparing", "runs")]
        conclusions = self._better_of(first, others)
        return tuple(
            (_with_claims(comparison, conclusion), conclusion)
            for comparison, conclusion in zip(comparisons, conclusions, strict=True)
        )

    def _better_of(
        self, first: ExperimentRun, others: Sequence[ExperimentRun]
    ) -> tuple[BetterConclusion, ...]:
        """Conclude on a run and others, adjusted together; runs of other items are not compared."""
        for run in (first, *others):
            if run.mismatch is not None:
                reason = str(run.mismatch)
                return tuple(not_comparable(_names(first, other), reason) for other in others)
        return adjusted_claims([self._better(_names(first, run), (first, run)) for run in others])

    def _comparison(self, a: ExperimentRun, b: ExperimentRun) -> Comparison:
        """Compare two runs, without adjusting for the number of tests."""
        for run in (a, b):
            if run.mismatch is not None:
                raise InputError(str(run.mismatch))
        settings = self.experiment.settings

        def compared() -> Comparison:
            comparison = self._compare(a, b)
            ensemble = settings.decoding == "ensemble"
            both = runs_at_common_views((a, b))[0] if ensemble else (a, b)
            of_runs = (
                replace(note, run=name)
                for name, run in zip("AB", both, strict=True)
                for note in run.score_notes(settings.decoding, calibrated=settings.calibrated)
            )
            return replace(comparison, notes=(*comparison.notes, *of_runs))

        return a.once(("comparison", id(b), settings), compared)

    def _compare(
        self, a: ExperimentRun, b: ExperimentRun, names: Sequence[str] | None = None
    ) -> Comparison:
        settings = self.experiment.settings
        return compare(
            self._score(a),
            self._score(b),
            by=settings.by,
            rng=settings.rng(),
            resamples=settings.resamples,
            margin=settings.margin,
            names=names,
        )

    def differing(self, a: ExperimentRun, b: ExperimentRun) -> tuple[DifferingItem, ...]:
        """Return the items that only one of two runs on the same items answers correctly.

        Raises:
            InputError: a run lacks the decoding or a calibrator.
        """
        runs, _ = at_common_views({"A": self._score(a), "B": self._score(b)})
        return differing_of(runs["A"], runs["B"])

    def differences(
        self, a: ExperimentRun, b: ExperimentRun, by: GroupBy | None
    ) -> dict[str, Estimate]:
        """Return a minus b in accuracy: of all items, and then of each group.

        Args:
            a: the first run.
            b: the second run, with the same items.
            by: column of the groups; None has no group but all items.

        Raises:
            InputError: a run lacks the decoding or a calibrator.
        """
        settings = self.experiment.settings
        runs, _ = at_common_views({"A": self._score(a), "B": self._score(b)})
        drawn = (resample_items(run, settings, by, ["accuracy"]) for run in runs.values())
        return {
            first.name: metric_difference("accuracy", [(first, second)])[0]
            for first, second in zip(*drawn, strict=True)
        }

    def rates(self, a: ExperimentRun, b: ExperimentRun) -> GroupComparison:
        """Compare two runs over all items in the metrics of conclusions alone; computed once.

        Args:
            a: the first run.
            b: the second run, with the same items; differences are a minus b.

        Raises:
            InputError: a run lacks the decoding or a calibrator.
        """
        key = ("rates", id(b), self.experiment.settings)
        return a.once(key, lambda: self._compare(a, b, COMPARED).groups[0])

    def _score(self, run: ExperimentRun) -> ScoredItems:
        settings = self.experiment.settings
        run.applied(settings.decoding, calibrated=settings.calibrated)
        items = run.scored(settings.decoding, calibrated=settings.calibrated)
        return items.over(settings.unit).grouped(settings.by, settings.bins)

    def _pairs_by_decoding(self, runs: Sequence[ExperimentRun]) -> list[DecodedPairs]:
        """Return runs in pairs under the decoding of the settings, and under the other.

        The other decoding is never calibrated: a calibrator belongs to one decoding.

        Args:
            runs: the two runs of each pair, one pair after the other.
        """
        settings = self.experiment.settings
        decodings = [settings.decoding]
        if all(run.provenance.known == "probabilities" for run in runs) and (
            views_in_common([run.predictions for run in runs]).k > 1
        ):
            decodings.append(other_decoding(settings.decoding))
        decoded = []
        for decoding in decodings:
            chosen = decoding == settings.decoding
            items = [self._score(run) if chosen else _raw(run, decoding, settings) for run in runs]
            alike, _ = at_common_views({str(at): of_run for at, of_run in enumerate(items)})
            drawn = [resample_items(run, settings, names=COMPARED)[0] for run in alike.values()]
            repeats = common_repeats(runs, decoding)
            k = 1 if decoding == "single" else drawn[0].items.k
            pairs = list(zip(drawn[::2], drawn[1::2], strict=True))
            decoded.append(DecodedPairs(decoding_name(decoding, repeats), k, repeats, pairs))
        return decoded

    def against(self, method: str) -> dict[str, tuple[SeedMatch[ExperimentRun], ...]]:
        """Match the runs of an arm with those of every other arm at shared seeds.

        Args:
            method: name of the arm; its runs are the first of each match.

        Returns:
            By the name of each other arm, the matches by seed; none if it shares no seed.
        """
        by_seed = {
            arm: {run.seed: run for run in runs} for arm, runs in self.experiment.arms.items()
        }
        return against(by_seed, method)

    def better(self, a: ExperimentRun, b: ExperimentRun) -> BetterConclusion:
        """Conclude whether one run is better than another.

        Args:
            a: the first run.
            b: the second run; differences are a minus b.

        Raises:
            InputError: a run lacks the decoding or a calibrator.
        """
        return self._better_of(a, [b])[0]

    def _better(
        self, names: tuple[str, str], runs: Sequence[ExperimentRun], *, arms: bool = False
    ) -> BetterConclusion:
        """Conclude on runs in pairs, as `_pairs_by_decoding` takes them; not adjusted."""
        settings = self.experiment.settings

        def concluded() -> BetterConclusion:
            decoded = self._pairs_by_decoding(runs)
            return better_of_pairs(names, decoded, settings.margin, arms=arms)

        key = ("better", *map(id, runs), arms, settings)
        return replace(runs[0].once(key, concluded), left=names[0], right=names[1])

    @cached_property
    def better_runs(self) -> tuple[BetterConclusion, ...]:
        """Whether the first run is better than each of the others, adjusted together.

        Raises:
            InputError: a run lacks the decoding or a calibrator.
        """
        first, *others = self.experiment.runs
        return self._better_of(first, others)

    @cached_property
    def better_arms(self) -> tuple[BetterConclusion, ...]:
        """Whether the first arm is better than each of the others, adjusted together.

        Raises:
            InputError: there are fewer than two arms, or items differ.
        """
        first = self._of_arms.arms[0].name
        return self._better_than(first, arms=True)

    def better_than(self, method: str) -> dict[str, BetterConclusion]:
        """Conclude whether an arm is better than each of the others at shared seeds.

        Args:
            method: name of the arm.

        Returns:
            By the name of each other arm: arms without a shared seed, or with other items, cannot
            be compared.
        """
        others = self.against(method)
        if not self.experiment.same_items:
            reason = str(self.experiment.mismatches[0])
            return {arm: not_comparable((method, arm), reason) for arm in others}
        if method not in self._kept:
            self._kept[method] = self._better_than(method)
        return dict(zip(others, self._kept[method], strict=True))

    def _better_than(self, method: str, *, arms: bool = False) -> tuple[BetterConclusion, ...]:
        """Conclude on an arm; one shared seed is two runs unless `arms` says otherwise."""
        conclusions = []
        for other, matches in self.against(method).items():
            names, runs = (method, other), [run for match in matches for run in (match.a, match.b)]
            conclusions.append(
                self._better(names, runs, arms=arms or len(matches) > 1)
                if matches
                else not_comparable(names, "the arms share no seed")
            )
        return adjusted_claims(conclusions)

    @cached_property
    def of_arms(self) -> ArmsComparison:
        """The first arm compared with each of the others, seed by seed.

        Raises:
            InputError: there are fewer than two arms, or items differ.
        """
        comparison = self._of_arms
        pairs = zip(comparison.pairs, self.better_arms, strict=True)
        return replace(comparison, pairs=tuple(_pair_with_claims(*pair) for pair in pairs))

    @cached_property
    def _of_arms(self) -> ArmsComparison:
        settings = self.experiment.settings
        return compare_arms(
            {arm: self._score_seeds(arm) for arm in self.experiment.arms},
            by=settings.by,
            rng=settings.rng(),
            resamples=settings.resamples,
            margin=settings.margin,
        )

    def _score_seeds(self, arm: str) -> dict[int | None, ScoredItems]:
        self.experiment.require_same_items()
        return {run.seed: self._score(run) for run in self.experiment.arms[arm]}


def _raw(run: ExperimentRun, decoding: Decoding, settings: Settings) -> ScoredItems:
    return run.scored(decoding).over(settings.unit)


def _with_claims(comparison: Comparison, conclusion: BetterConclusion) -> Comparison:
    """Return a comparison whose tests of all items are those of its conclusion."""
    claims, same = conclusion.by_metric, len(same_as_all(comparison.groups))

    def tested(name: str, metric: MetricComparison) -> MetricComparison:
        if name not in claims:
            return metric
        return replace(metric, evidence=claims[name].evidence, verdict=claims[name].verdict)

    of_all = (
        replace(group, metrics={name: tested(name, group.metrics[name]) for name in group.metrics})
        for group in comparison.groups[:same]
    )
    return replace(comparison, groups=(*of_all, *comparison.groups[same:]))


def _pair_with_claims(pair: ArmPair, conclusion: BetterConclusion) -> ArmPair:
    claims, groups = conclusion.by_metric, same_as_all([*pair.differences])
    of_all = {
        group: {
            name: replace(metric, evidence=claims[name].evidence) if name in claims else metric
            for name, metric in pair.differences[group].items()
        }
        for group in groups
    }
    return replace(pair, differences={**pair.differences, **of_all})


def _names(a: ExperimentRun, b: ExperimentRun) -> tuple[str, str]:
    """Return short names of two runs: those of their folders, or paths if these are equal."""
    return (a.name, b.name) if a.name != b.name else (a.place, b.place)


def run_differences(
    experiment: Experiment, references: Sequence[int], first: int = 0
) -> tuple[tuple[Claim | None, ...], ...]:
    """Compare the accuracy of every run with that of each reference.

    The differences from the first reference are adjusted together, as `compare` adjusts them; those
    between other runs are adjusted over all pairs of runs. So a pair has one p-value, whichever of
    the two is the reference. Each run is resampled once.

    Args:
        experiment: runs on full contexts, on the same items.
        references: indices of runs, without repetition.
        first: index of the run with which the others are compared first.

    Returns:
        By reference, by run: the run minus the reference under the decoding of the settings; None
        for the reference itself.

    Raises:
        InputError: item sets differ, or a run lacks the decoding or a calibrator.
    """
    experiment.require_same_items()
    others = [at for at in range(len(experiment.runs)) if at != first]
    with_first = [(at, first) for at in others]
    decoding = experiment.settings.decoding
    claims_on = [_claims_on(experiment, views) for views in (decoding, other_decoding(decoding))]
    claims = _adjust(with_first, claims_on)
    if set(references) - {first}:
        pairs = [*with_first, *combinations(others, 2)]
        claims = _adjust(pairs, claims_on) | claims
    claims |= {(reference, run): turned(claim) for (run, reference), claim in claims.items()}
    return tuple(
        tuple(claims.get((run, reference)) for run in range(len(experiment.runs)))
        for reference in references
    )


_Pair = tuple[int, int]


def _adjust(
    pairs: Sequence[_Pair], claims_on: Sequence[Callable[[_Pair], Claim | None]]
) -> dict[_Pair, Claim]:
    """Return the claims on pairs under the decoding of the settings, adjusted with the others."""
    claims = [claim_on(pair) for claim_on in claims_on for pair in pairs]
    adjusted = adjusted_together([claim for claim in claims if claim is not None])
    return dict(zip(pairs, adjusted, strict=False))  # the decoding of the settings comes first


def _claims_on(experiment: Experiment, decoding: Decoding) -> Callable[[_Pair], Claim | None]:
    """Return a function from two runs to the claim on the first minus the second, not adjusted.

    It returns None for the decoding that is not that of the settings, if one of the runs lacks it.
    """
    settings, chosen = experiment.settings, decoding == experiment.settings.decoding
    runs = (
        experiment.comparisons.at_common_views.runs if decoding == "ensemble" else experiment.runs
    )

    @cache
    def drawn(at: int) -> ResampledGroup:
        calibrated = chosen and settings.calibrated
        if chosen:
            runs[at].applied(decoding, calibrated=calibrated)
        items = runs[at].scored(decoding, calibrated=calibrated).over(settings.unit)
        return resample_items(items, settings, names=COMPARED)[0]

    @cache
    def claim(pair: _Pair) -> Claim | None:
        both = [runs[at] for at in pair]
        known = (run.provenance.known == "probabilities" for run in both)
        if not chosen and not (all(known) and min(run.predictions.k for run in both) > 1):
            return None
        repeats = common_repeats(both, decoding)
        k = 1 if decoding == "single" else min(run.predictions.k for run in both)
        name = decoding_name(decoding, repeats)
        pairs = DecodedPairs(name, k, repeats, [(drawn(pair[0]), drawn(pair[1]))])
        return claim_of("accuracy", pairs, settings.margin)

    return claim
