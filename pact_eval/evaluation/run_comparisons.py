"""Comparisons of the runs, and of the arms, of an experiment.

    experiment.comparisons
      .of_first            every metric of the first run and each of the others
      .of_arms             the same of arms, over the seeds that they share
      .better_runs         ) whether the first run, or arm,
      .better_arms         ) is better than each of the others

All of them are computed once, by the settings of the experiment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations
from typing import TYPE_CHECKING, TypeVar

from pact_eval._choices import Decoding, GroupBy
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_differences import (
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
    items_at_common_views,
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
from pact_eval.evaluation.resampled_groups import Computed, metric_difference, resample_items
from pact_eval.progress import tracked
from pact_eval.stats.estimate import Estimate

if TYPE_CHECKING:  # they import this module
    from pact_eval.evaluation.experiment import Experiment

_Metric = TypeVar("_Metric", bound=MetricComparison)


@dataclass(frozen=True)
class RunComparisons:
    """Comparisons of the runs and arms of an experiment, by its settings.

    Attributes:
        experiment: the runs.
    """

    experiment: Experiment

    @property
    def views_note(self) -> DifferentViews | None:
        """The views of the runs if they differ.

        Runs of one view, and of repeats, have no metric of K.
        """
        return self._at_common_views[1]

    @property
    def at_common_views(self) -> Experiment:
        """The runs with the views that all of them have, for numbers of runs next to each other.

        Runs of one view have neither view metrics nor an ensemble, so they do not count.
        """
        return self._at_common_views[0]

    @cached_property
    def _at_common_views(self) -> tuple[Experiment, DifferentViews | None]:
        experiment = self.experiment
        views = ((run, run.predictions) for run in experiment.runs)
        runs = [run for run, own in views if own.k > 1 and not own.repeats]
        if not runs:
            return experiment, None
        ks = {run.label: run.predictions.k for run in runs}
        if experiment.same_items:
            alike, shared = at_common_views(runs)
        else:  # of other items, the first views
            shared = SharedViews(min(ks.values()))
            alike = [run.with_views(shared.k) for run in runs]
        note = shared.note(ks, ensembles=True)
        if note is None:
            return experiment, None
        chosen = dict(zip(runs, alike, strict=True))
        return replace(
            experiment, runs=tuple(chosen.get(run, run) for run in experiment.runs)
        ), note

    @cached_property
    def of_first(self) -> tuple[Comparison, ...]:
        """The first run compared with each of the others.

        Raises:
            RunError: a run is on ablated contexts, which have no references.
            InputError: there are fewer than two runs, their items differ, or a run lacks the
                decoding or a calibrator.
        """
        self.experiment.require_two_runs()
        self.experiment.require_same_items()
        first, *others = self.experiment.runs
        comparisons = [self._comparison(first, run) for run in tracked(others, "Comparing", "runs")]
        return tuple(map(_with_claims, comparisons, self.better_runs))

    def _comparison(self, a: ExperimentRun, b: ExperimentRun) -> Comparison:
        """Compare two runs, without adjusting for the number of tests."""
        settings = self.experiment.settings
        with a.naming_errors():
            comparison = compare(self._score(a), self._score(b), settings)
        both = at_common_views((a, b))[0] if settings.decoding == "ensemble" else (a, b)
        of_runs = (
            replace(note, run=name)
            for name, run in zip("AB", both, strict=True)
            for note in run.score_notes(settings.decoding, calibrated=settings.calibrated)
        )
        return replace(comparison, notes=(*comparison.notes, *of_runs))

    def differing(self, a: ExperimentRun, b: ExperimentRun) -> tuple[DifferingItem, ...]:
        """Return the items that only one of two runs on the same items answers correctly.

        Raises:
            InputError: a run lacks the decoding or a calibrator.
        """
        return differing_of(*self._alike((a, b)))

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
        drawn = (resample_items(run, settings, by, ["accuracy"]) for run in self._alike((a, b)))
        return {
            first.name: metric_difference("accuracy", [(first, second)])[0]
            for first, second in zip(*drawn, strict=True)
        }

    def _score(self, run: ExperimentRun, decoding: Decoding | None = None) -> ScoredItems:
        """Return the items of a run under the decoding of the settings, or under another one.

        The other one is never calibrated: a calibrator belongs to one decoding.
        """
        settings = self.experiment.settings
        if decoding not in (None, settings.decoding):
            return self.experiment.scored(run, decoding).over(settings.unit)
        run.applied(settings.decoding, calibrated=settings.calibrated)
        items = self.experiment.scored(run, settings.decoding, calibrated=settings.calibrated)
        return items.over(settings.unit).grouped(settings.by, settings.bins)

    def _alike(
        self, runs: Sequence[ExperimentRun], decoding: Decoding | None = None
    ) -> list[ScoredItems]:
        """Return the items of runs at the views that all of them have; see `_score`."""
        scored = [self._score(run, decoding) for run in runs]
        return items_at_common_views(scored, [run.label for run in runs])[0]

    def decoded_pairs(self, runs: Sequence[ExperimentRun]) -> list[DecodedPairs]:
        """Return runs in pairs under the decoding of the settings, and under the other.

        Args:
            runs: the two runs of each pair, one pair after the other.

        Raises:
            InputError: a run lacks the decoding of the settings, or a calibrator.
        """
        settings = self.experiment.settings
        decodings = [settings.decoding]
        if all(run.provenance.known == "probabilities" for run in runs) and (
            views_in_common([run.predictions for run in runs]).k > 1
        ):
            decodings.append(other_decoding(settings.decoding))
        decoded = []
        for decoding in decodings:
            alike = self._alike(runs, decoding)
            drawn = [resample_items(run, settings, names=COMPARED)[0] for run in alike]
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

    def matched_rates(self, method: str) -> list[tuple[str, int | None, GroupComparison]]:
        """Compare the runs of an arm with those of every other arm at shared seeds; computed once.

        They are compared over all items, in the metrics of conclusions alone.

        Args:
            method: name of the arm, whose runs are the first of each comparison.

        Returns:
            The name of the other arm, the seed, and the comparison, one for each match.

        Raises:
            InputError: the item sets differ, or no other arm has a seed in common with the method.
        """
        self.experiment.require_same_items()
        settings = self.experiment.settings

        def rates(a: ExperimentRun, b: ExperimentRun) -> GroupComparison:
            scored = self._score(a), self._score(b)
            key = ("rates", id(b), settings)
            return a.once(key, lambda: compare(*scored, settings, COMPARED).groups[0])

        matched = [
            (arm, match.seed, rates(match.a, match.b))
            for arm, matches in self.against(method).items()
            for match in matches
        ]
        if not matched:
            raise InputError(f"no other arm has a seed in common with {method}")
        return matched

    @cached_property
    def better_runs(self) -> tuple[BetterConclusion, ...]:
        """Whether the first run is better than each of the others, adjusted together.

        Runs of other items cannot be compared.

        Raises:
            InputError: a run lacks the decoding or a calibrator.
        """
        first, *others = self.experiment.runs
        return self._better([(_names(first, run), (first, run)) for run in others])

    @cached_property
    def better_arms(self) -> tuple[BetterConclusion, ...]:
        """Whether the first arm is better than each of the others, adjusted together.

        Raises:
            InputError: there are fewer than two arms, or items differ.
        """
        return tuple(self.better_than(self._of_arms.arms[0].name).values())

    def better_than(self, method: str) -> dict[str, BetterConclusion]:
        """Conclude whether an arm is better than each of the others at shared seeds.

        Args:
            method: name of the arm.

        Returns:
            By the name of each other arm: arms without a shared seed, or with other items, cannot
            be compared.
        """
        pairs = [
            ((method, other), [run for match in matches for run in (match.a, match.b)])
            for other, matches in self.against(method).items()
        ]
        return {conclusion.right: conclusion for conclusion in self._better(pairs)}

    def _better(
        self, pairs: Sequence[tuple[tuple[str, str], Sequence[ExperimentRun]]]
    ) -> tuple[BetterConclusion, ...]:
        """Conclude on runs, or arms; what one line may name is adjusted together.

        Args:
            pairs: names of both, and their runs as for `decoded_pairs`; none without a shared seed.
        """
        if not self.experiment.same_items:
            reason = str(self.experiment.mismatches[0])
            return tuple(not_comparable(names, reason) for names, _ in pairs)
        return adjusted_claims([self._conclude(*pair) for pair in pairs])

    def _conclude(self, names: tuple[str, str], runs: Sequence[ExperimentRun]) -> BetterConclusion:
        if not runs:
            return not_comparable(names, "the arms share no seed")
        margin = self.experiment.settings.margin
        key = ("better", *map(id, runs), self.experiment.settings)
        conclusion = runs[0].once(
            key, lambda: better_of_pairs(names, self.decoded_pairs(runs), margin)
        )
        return replace(conclusion, left=names[0], right=names[1])

    @cached_property
    def of_arms(self) -> ArmsComparison:
        """The first arm compared with each of the others, seed by seed.

        Raises:
            InputError: there are fewer than two arms, or items differ.
        """
        pairs = tuple(map(_pair_with_claims, self._of_arms.pairs, self.better_arms))
        return replace(self._of_arms, pairs=pairs)

    @cached_property
    def _of_arms(self) -> ArmsComparison:
        self.experiment.require_same_items()
        return compare_arms(
            {
                arm: {run.seed: self._score(run) for run in runs}
                for arm, runs in self.experiment.arms.items()
            },
            self.experiment.settings,
        )


def _with_claims(comparison: Comparison, conclusion: BetterConclusion) -> Comparison:
    """Return a comparison whose tests of all items are those of its conclusion."""
    of_all = same_as_all(comparison.groups)
    tested = (replace(group, metrics=_tested(group.metrics, conclusion)) for group in of_all)
    return replace(comparison, groups=(*tested, *comparison.groups[len(of_all) :]))


def _pair_with_claims(pair: ArmPair, conclusion: BetterConclusion) -> ArmPair:
    of_all = same_as_all([*pair.differences])
    tested = {group: _tested(pair.differences[group], conclusion) for group in of_all}
    return replace(pair, differences={**pair.differences, **tested})


def _tested(metrics: Mapping[str, _Metric], conclusion: BetterConclusion) -> Mapping[str, _Metric]:
    claims = conclusion.by_metric

    def tested(name: str) -> _Metric:
        metric, claim = metrics[name], claims.get(name)
        if claim is None:
            return metric
        return replace(metric, evidence=claim.evidence, verdict=claim.verdict)

    return Computed(metrics, tested)


def _names(a: ExperimentRun, b: ExperimentRun) -> tuple[str, str]:
    """Return short names of two runs: those of their folders, or paths if these are equal."""
    return (a.name, b.name) if a.name != b.name else (a.place, b.place)


def run_differences(
    experiment: Experiment, references: Sequence[int], first: int = 0
) -> tuple[tuple[Claim | None, ...], ...]:
    """Compare the accuracy of every run with that of each reference, at the views that all have.

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
    alike = experiment.comparisons.at_common_views
    others = [at for at in range(len(alike.runs)) if at != first]

    @cache
    def claims_on(run: int, reference: int) -> list[Claim]:
        decoded = alike.comparisons.decoded_pairs([alike.runs[run], alike.runs[reference]])
        return [claim_of("accuracy", pairs, alike.settings.margin) for pairs in decoded]

    def adjust(pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Claim]:
        claims = iter(adjusted_together([claim for pair in pairs for claim in claims_on(*pair)]))
        of_pairs = {pair: [next(claims) for _ in claims_on(*pair)] for pair in pairs}
        return {pair: of_pair[0] for pair, of_pair in of_pairs.items()}

    with_first = [(at, first) for at in others]
    claims = adjust(with_first)
    if set(references) - {first}:
        claims = adjust([*with_first, *combinations(others, 2)]) | claims
    claims |= {(reference, run): turned(claim) for (run, reference), claim in claims.items()}
    return tuple(
        tuple(claims.get((run, reference)) for run in range(len(alike.runs)))
        for reference in references
    )
