"""Comparisons of the runs, and of the arms, of an experiment.

    experiment.comparisons
      .of(a, b)            every metric of two runs, with the same resamples
      .answer(a, b)        the same at view 0 and over K views, in short
      .better_runs         ) whether the first run, or arm,
      .better_arms         ) is better than each of the others

All of them are computed once, by the settings of the experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Final

from pact_eval._choices import Decoding, GroupBy
from pact_eval._hints import readable_hints
from pact_eval.errors import InputError
from pact_eval.evaluation.answers import ComparisonAnswer, compare_rates, decoded_comparison
from pact_eval.evaluation.common_views import SharedViews, common_repeats, runs_at_common_views
from pact_eval.evaluation.comparison import Comparison, MetricComparison, compare, same_as_all
from pact_eval.evaluation.conclusions.better import (
    BetterConclusion,
    Claim,
    DecodedArms,
    adjusted_claims,
    adjusted_together,
    better_of_arms,
    better_of_runs,
    claim_status,
    not_comparable,
    turned,
)
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.metric_differences import metric_difference
from pact_eval.evaluation.metric_specs import decoding_name
from pact_eval.evaluation.notes import DifferentViews
from pact_eval.evaluation.report import default_resamples
from pact_eval.evaluation.resampled_groups import ResampledGroup
from pact_eval.evaluation.run_rates import COMPARED, HEADLINE, other_decoding, resampled_rates
from pact_eval.progress import tracked
from pact_eval.stats.equivalence import equivalence_verdict

if TYPE_CHECKING:
    from pact_eval.evaluation.arms.comparison import ArmPair, ArmsComparison, GroupMatch
    from pact_eval.evaluation.arms.differences import ArmDifference, SeedMatch
    from pact_eval.evaluation.experiment import Experiment


@dataclass(frozen=True)
class RunComparisons:
    """Comparisons of the runs and arms of an experiment, by its settings.

    Attributes:
        experiment: the runs.
    """

    experiment: Experiment

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
        return self._concluded(a, [b])[0][0]

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
        return self._concluded(first, others)

    def _concluded(
        self, first: ExperimentRun, others: Sequence[ExperimentRun]
    ) -> tuple[tuple[Comparison, BetterConclusion], ...]:
        """Compare a run with others, and conclude; what one line may name is adjusted together."""
        comparisons = [self._comparison(first, run) for run in tracked(others, "Comparing", "runs")]
        conclusions = adjusted_claims(
            [
                self._better(first, run, comparison)
                for run, comparison in zip(others, comparisons, strict=True)
            ]
        )
        return tuple(
            (_with_claims(comparison, conclusion), conclusion)
            for comparison, conclusion in zip(comparisons, conclusions, strict=True)
        )

    def _comparison(self, a: ExperimentRun, b: ExperimentRun) -> Comparison:
        """Compare two runs, without adjusting for the number of tests."""
        for run in (a, b):
            if run.mismatch is not None:
                raise InputError(str(run.mismatch))
        settings = self.experiment.settings

        def compared() -> Comparison:
            comparison = compare(
                self._scored(a),
                self._scored(b),
                by=settings.by,
                rng=settings.rng(),
                resamples=settings.resamples,
                margin=settings.margin,
            )
            of_runs = (
                replace(note, run=name)
                for name, run in zip("AB", self._decoded_alike(a, b), strict=True)
                for note in run.score_notes(settings.decoding, calibrated=settings.calibrated)
            )
            return replace(comparison, notes=(*comparison.notes, *of_runs))

        return a.once(("comparison", id(b), settings), compared)

    def _scored(self, run: ExperimentRun) -> ScoredItems:
        settings = self.experiment.settings
        run.applied(settings.decoding, calibrated=settings.calibrated)
        items = run.scored(settings.decoding, calibrated=settings.calibrated)
        return items.over(settings.unit).grouped(settings.by, settings.bins)

    def _at_common_views(
        self, a: ExperimentRun, b: ExperimentRun
    ) -> tuple[tuple[ExperimentRun, ...], SharedViews]:
        """Return two runs with the views that both have; computed once."""
        return a.once(("common views", id(b)), lambda: runs_at_common_views((a, b)))

    def _decoded_alike(self, a: ExperimentRun, b: ExperimentRun) -> tuple[ExperimentRun, ...]:
        """Return two runs with the views that the decoding of the settings uses of both."""
        single = self.experiment.settings.decoding == "single"
        return (a, b) if single else self._at_common_views(a, b)[0]

    def answer(self, a: ExperimentRun, b: ExperimentRun) -> ComparisonAnswer:
        """Compare A and B under the decoding of the settings, and under the other; not adjusted.

        The other decoding is never calibrated: a calibrator belongs to one decoding.

        Args:
            a: the first run.
            b: the second run; differences are a minus b.

        Raises:
            InputError: the items differ, or a run lacks the decoding or a calibrator.
        """
        return self._answer(a, b, self._comparison(a, b))

    def _answer(
        self, a: ExperimentRun, b: ExperimentRun, comparison: Comparison
    ) -> ComparisonAnswer:
        """Return the answer in a comparison under the decoding of the settings."""
        settings, (pair, shared) = self.experiment.settings, self._at_common_views(a, b)
        repeats = common_repeats((a, b), settings.decoding)
        chosen = decoded_comparison(comparison.groups[0], settings.decoding, shared.k, repeats)
        if shared.k == 1 or any(run.provenance.known != "probabilities" for run in (a, b)):
            return ComparisonAnswer(chosen, None)
        decoding = other_decoding(settings.decoding)
        alike = (a, b) if decoding == "single" else pair
        runs = [run.scored(decoding).over(settings.unit) for run in alike]
        resamples = settings.resamples or default_resamples(len(runs[0]))
        rates = compare_rates(
            *runs, rng=settings.rng(), resamples=resamples, margin=settings.margin
        )
        repeats = common_repeats((a, b), decoding)
        return ComparisonAnswer(chosen, decoded_comparison(rates, decoding, shared.k, repeats))

    def answers(self, method: str) -> dict[str, ComparisonAnswer | ArmPair]:
        """Compare an arm with each of the others at shared seeds; computed once.

        Args:
            method: name of the arm.

        Returns:
            By the name of each other arm that shares a seed: the answer of the two runs, or the
            difference of the arms if they share several seeds.

        Raises:
            InputError: items differ.
        """
        self.experiment.require_same_items()
        return self.experiment.arms[method][0].once(
            ("answers", method, self.experiment.settings), lambda: self._answers(method)
        )

    def _answers(self, method: str) -> dict[str, ComparisonAnswer | ArmPair]:
        answers: dict[str, ComparisonAnswer | ArmPair] = {}
        for arm, matches in self.against(method).items():
            if matches:
                pair, (only, *others) = self.seeds(method, arm), matches
                alone = self._answer(only.a, only.b, pair.seeds[only.seed]) if not others else None
                answers[arm] = alone or pair
        return answers

    def against(self, method: str) -> dict[str, tuple[SeedMatch[ExperimentRun], ...]]:
        """Match the runs of an arm with those of every other arm at shared seeds.

        Args:
            method: name of the arm; its runs are the first of each match.

        Returns:
            By the name of each other arm, the matches by seed; none if it shares no seed.
        """
        from pact_eval.evaluation.arms.differences import against

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
        for run in (a, b):
            if run.mismatch is not None:
                return not_comparable(_names(a, b), str(run.mismatch))
        return self._concluded(a, [b])[0][1]

    def _better(
        self, a: ExperimentRun, b: ExperimentRun, comparison: Comparison
    ) -> BetterConclusion:
        """Conclude on two runs of the same items."""
        differing = (*comparison.only_a, *comparison.only_b)
        return better_of_runs(self._answer(a, b, comparison), _names(a, b), differing)

    @cached_property
    def better_runs(self) -> tuple[BetterConclusion, ...]:
        """Whether the first run is better than each of the others, adjusted together.

        Raises:
            RunError: a run is on ablated contexts, which have no references.
            InputError: the items differ, or a run lacks the decoding or a calibrator.
        """
        return tuple(conclusion for _, conclusion in self._of_first)

    @cached_property
    def better_arms(self) -> tuple[BetterConclusion, ...]:
        """Whether the first arm is better than each of the others, adjusted together.

        Raises:
            InputError: there are fewer than two arms, or items differ.
        """
        return adjusted_claims(
            [
                self._better_of_pair(pair)
                if pair.seeds
                else not_comparable((pair.a, pair.b), "the arms share no seed")
                for pair in self._of_arms.pairs
            ]
        )

    def _better_of_pair(self, pair: ArmPair) -> BetterConclusion:
        """Conclude on two arms under the decoding of the settings, and under the other."""
        from pact_eval.evaluation.arms.differences import arm_difference

        settings = self.experiment.settings
        matches = self.against(pair.a)[pair.b]
        runs = [run for match in matches for run in (match.a, match.b)]
        common, shared = runs_at_common_views(runs)

        def decoded(decoding: Decoding, differences: Mapping[str, ArmDifference]) -> DecodedArms:
            repeats = common_repeats(runs, decoding)
            k = 1 if decoding == "single" else shared.k
            return DecodedArms(decoding_name(decoding, repeats), k, repeats, differences)

        by_decoding = [decoded(settings.decoding, pair.differences["all"])]
        if shared.k > 1 and all(run.provenance.known == "probabilities" for run in runs):
            other = other_decoding(settings.decoding)
            scored = [run.scored(other) for run in (runs if other == "single" else common)]
            resamples = settings.resamples or default_resamples(len(scored[0]))
            drawn = [
                resampled_rates(items.over(settings.unit), rng=settings.rng(), resamples=resamples)
                for items in scored
            ]
            pairs = [*zip(drawn[::2], drawn[1::2], strict=True)]
            differences = {name: arm_difference(name, pairs) for name in HEADLINE}
            by_decoding.append(decoded(other, differences))
        names = pair.a, pair.b
        return better_of_arms(names, len(pair.seeds), by_decoding, settings.margin)

    def better_than(self, method: str) -> dict[str, BetterConclusion]:
        """Conclude whether an arm is better than each of the others at shared seeds.

        Args:
            method: name of the arm.

        Returns:
            By the name of each other arm: arms without a shared seed, or with other items, cannot
            be compared.
        """
        if not self.experiment.same_items:
            reason = str(self.experiment.mismatches[0])
            return {arm: not_comparable((method, arm), reason) for arm in self.against(method)}
        answers, arms = self.answers(method), list(self.against(method))
        conclusions = [self._better_than(method, arm, answers.get(arm)) for arm in arms]
        return dict(zip(arms, adjusted_claims(conclusions), strict=True))

    def _better_than(
        self, method: str, arm: str, answer: ComparisonAnswer | ArmPair | None
    ) -> BetterConclusion:
        names = (method, arm)
        if answer is None:
            return not_comparable(names, "the arms share no seed")
        if not isinstance(answer, ComparisonAnswer):
            return self._better_of_pair(answer)
        (comparison,) = self.seeds(method, arm).seeds.values()
        return better_of_runs(answer, names, (*comparison.only_a, *comparison.only_b))

    def seeds(self, a: str, b: str) -> ArmPair:
        """Compare two arms at the seeds that both have, in the metrics of conclusions.

        It is computed once, over all items. `of_arms` has every metric and group.

        Args:
            a: name of the first arm.
            b: name of the second arm; differences are a minus b.

        Raises:
            InputError: an arm is unknown, the arms have no seed in common, or items differ.
        """
        from pact_eval.evaluation.arms.comparison import compare_seeds

        settings = self.experiment.settings
        return self.experiment.arms[a][0].once(
            ("seeds", a, b, settings),
            lambda: compare_seeds(
                (a, self._scored_seeds(a)),
                (b, self._scored_seeds(b)),
                metrics=COMPARED,
                rng=settings.rng(),
                resamples=settings.resamples,
                margin=settings.margin,
            ),
        )

    def accuracy_matches(self, a: str, b: str, by: GroupBy) -> tuple[GroupMatch, ...]:
        """Resample the accuracy of two arms by group, at the seeds that both have.

        Args:
            a: name of the first arm.
            b: name of the second arm.
            by: kind, domain or source_family.

        Raises:
            InputError: an arm is unknown, the arms have no seed in common, or items differ.
        """
        from pact_eval.evaluation.arms.comparison import resampled_matches

        matches, _ = resampled_matches(
            (a, self._scored_seeds(a)),
            (b, self._scored_seeds(b)),
            by=by,
            metrics=("accuracy",),
            rng=self.experiment.settings.rng(),
            resamples=self.experiment.settings.resamples,
        )
        return matches

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
        from pact_eval.evaluation.arms.comparison import compare_arms

        settings = self.experiment.settings
        return compare_arms(
            {arm: self._scored_seeds(arm) for arm in self.experiment.arms},
            by=settings.by,
            rng=settings.rng(),
            resamples=settings.resamples,
            margin=settings.margin,
        )

    def _scored_seeds(self, arm: str) -> dict[int | None, ScoredItems]:
        self.experiment.require_same_items()
        return {run.seed: self._scored(run) for run in self.experiment.arms[arm]}


readable_hints(vars(RunComparisons).values())


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


_METRIC: Final = "accuracy"


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
    by_decoding = _claims(experiment)
    claims = _adjusted(with_first, by_decoding)
    if set(references) - {first}:
        pairs = [*with_first, *combinations(others, 2)]
        claims = _adjusted(pairs, by_decoding) | claims
    claims |= {(reference, run): turned(claim) for (run, reference), claim in claims.items()}
    return tuple(
        tuple(claims.get((run, reference)) for run in range(len(experiment.runs)))
        for reference in references
    )


_Pair = tuple[int, int]


def _adjusted(
    pairs: Sequence[_Pair], by_decoding: Sequence[Callable[[_Pair], Claim | None]]
) -> dict[_Pair, Claim]:
    """Return the claims on pairs under the decoding of the settings, adjusted with the others."""
    claims = [claim_on(pair) for claim_on in by_decoding for pair in pairs]
    adjusted = adjusted_together([claim for claim in claims if claim is not None])
    return dict(zip(pairs, adjusted, strict=False))  # the decoding of the settings comes first


def _claims(experiment: Experiment) -> list[Callable[[_Pair], Claim | None]]:
    """Return functions from two runs to the claim on the first minus the second, not adjusted.

    Returns:
        That of the decoding of the settings, and that of the other, which runs may lack.
    """
    decoding = experiment.settings.decoding
    return [_claims_of(experiment, decoding), _claims_of(experiment, other_decoding(decoding))]


def _claims_of(experiment: Experiment, decoding: Decoding) -> Callable[[_Pair], Claim | None]:
    settings = experiment.settings
    chosen = decoding == settings.decoding
    shared = experiment.comparisons.at_common_views if decoding == "ensemble" else experiment
    several = [
        run.predictions.k > 1 and run.provenance.known == "probabilities" for run in shared.runs
    ]

    @cache
    def drawn(at: int) -> ResampledGroup:
        run, calibrated = shared.runs[at], chosen and settings.calibrated
        if chosen:
            run.applied(decoding, calibrated=calibrated)
        items = run.scored(decoding, calibrated=calibrated).over(settings.unit)
        resamples = settings.resamples or default_resamples(len(items))
        return resampled_rates(items, rng=settings.rng(), resamples=resamples)

    @cache
    def claim(pair: _Pair) -> Claim | None:
        if not chosen and not all(several[at] for at in pair):
            return None
        run, reference = pair
        difference, evidence = metric_difference(_METRIC, [(drawn(run), drawn(reference))])
        margin = settings.margin
        verdict = None if margin is None else equivalence_verdict(difference, margin)
        runs = [shared.runs[at] for at in pair]
        repeats = common_repeats(runs, decoding)
        k = 1 if decoding == "single" else min(run.predictions.k for run in runs)
        status = claim_status(difference, evidence, verdict)
        views = decoding_name(decoding, repeats), k, repeats
        return Claim(_METRIC, *views, status, difference, evidence, verdict)

    return claim
