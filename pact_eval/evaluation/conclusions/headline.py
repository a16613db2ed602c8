"""The first sentence on several runs, of page, terminal and JSON.

Conclusions on every run, and every arm, of an experiment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final, TypeVar

from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.arms.arm_differences import ArmSummary
from pact_eval.evaluation.conclusions.better import (
    BetterConclusion,
    BetterStatus,
    p_words,
    points_text,
)
from pact_eval.evaluation.conclusions.conclusion import Conclusion, Tone
from pact_eval.evaluation.conclusions.data import DataConclusion, leak_prefix
from pact_eval.evaluation.conclusions.order import OrderConclusion, followed_together
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.conclusions.where import WhereConclusion
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.notes import LowAnswerMass
from pact_eval.numbers import at_views, has_width, small_text, value_text
from pact_eval.plain_text import one_line, short_names, upper_first
from pact_eval.stats.estimate import Estimate

_TWO: Final = 2
_MOST_NAMES: Final = 4
_PHRASES: Final[Mapping[BetterStatus, str]] = {
    "better": "is more accurate{} than {}",
    "worse": "is less accurate{} than {}",
    "equivalent": "is as accurate{} as {}, within the margin",
    "not shown": "is not shown to differ in accuracy{} from {}",
    "cannot be compared": "cannot be compared{} with {}",
}
_PLURAL: Final[Mapping[str, str]] = {
    "FOLLOWS": "FOLLOW",
    "AVOIDS": "AVOID",
    "is": "are",
    "has": "have",
}


def bad_news(conclusions: Sequence[Conclusion]) -> Iterator[str]:
    """Yield what a run does badly, as verbs; a leak has a line of its own."""
    for conclusion in conclusions:
        if conclusion.tone != "bad" or conclusion.status == "leak":
            continue
        match conclusion:
            case OrderConclusion():
                followed = conclusion.followed
                yield followed_together(followed).upper() if followed else "is UNSTABLE"
            case ProbabilitiesConclusion():
                yield f"is {conclusion.status.partition(' ')[0].upper()}"
            case DataConclusion():
                yield "its data has PROBLEMS"


def mass_news(mass: float) -> Iterator[str]:
    """Yield that an answer mass is low, as a verb; nothing if it is not, or not known.

    Example:
        >>> [*mass_news(0.4)], [*mass_news(0.95)]
        (['has an ANSWER MASS OF 40.0%'], [])
    """
    if LowAnswerMass.of(mass) is not None:
        yield f"has an ANSWER MASS OF {small_text(mass, 'percent')}%"


@dataclass(frozen=True)
class Side:
    """A run, or the runs of an arm, which are compared as one.

    Attributes:
        name: to write.
        runs: one, or one for each seed of the arm.
    """

    name: str
    runs: Sequence[ExperimentRun]


def headline(experiment: Experiment, names: ArmNames = KEYS) -> str:
    """Write what two or more runs are worth, in a sentence or two.

    The main arm is compared with each of the others; of runs of one arm, the first with each.

    Args:
        experiment: the runs, on full contexts.
        names: display names of arms.

    Raises:
        InputError: a run does not have the decoding of the settings.

    Example:
        "pact 66.7%, base 65.4%: no difference shown (±4 points). Both FOLLOW THE LETTER A."
    """
    runs, method = experiment.runs, experiment.settings.method
    if len(experiment.arms) == 1:
        sides = [Side(names.run(run.label), [run]) for run in runs]
        return headline_of(experiment, sides, experiment.comparisons.better_runs, names)
    first = runs[0].arm if len(runs) == _TWO and method is None else experiment.main_arm
    better = [*experiment.comparisons.better_than(first).values()]
    arms = sorted(experiment.arms.items(), key=lambda arm: arm[0] != first)
    sides = [Side(names.arm(arm), of_arm) for arm, of_arm in arms]
    return headline_of(experiment, sides, better, names)


def headline_of(
    experiment: Experiment,
    sides: Sequence[Side],
    conclusions: Sequence[BetterConclusion],
    names: ArmNames = KEYS,
) -> str:
    """Write what runs, or arms, are worth: accuracies, whether they differ, and bad news on each.

    Args:
        experiment: has all runs, on full contexts.
        sides: the first is compared with each of the others.
        conclusions: on the first and each of the others.
        names: display names of arms, to name single runs of sides of several.

    Raises:
        InputError: a run does not have the decoding of the settings.
    """
    called = short_names([side.name for side in sides])
    runs = [run for side in sides for run in side.runs]
    seeds = len(runs) > len(sides)
    rates = [_accuracy(experiment, side) for side in sides]
    percents = [f"{value_text(rate, 'percent')}%" for rate in rates]
    named = [f"{name} {percent}" for name, percent in zip(called, percents, strict=True)]
    text = ", ".join(named)
    if len(sides) > _TWO:
        known = [at for at, rate in enumerate(rates) if not math.isnan(rate)] or [
            *range(len(rates))
        ]
        highest, lowest = max(known, key=rates.__getitem__), min(known, key=rates.__getitem__)
        span = f"{named[highest]} to {named[lowest]}"
        if percents[highest] == percents[lowest]:
            span = f"{percents[highest]} each"
        text = f"{len(runs):,} runs: {span}"
    text += " (means over seeds)" if seeds else ""
    if len(sides) == _TWO:
        text += f": {difference_words(conclusions[0], *called)}"
    elif not experiment.same_items:
        text += "; not compared, as the runs have different items"
    else:
        text += f". {_several_words(conclusions, called)}"
    if seeds:
        called = short_names([names.run(run.label) for run in runs])
    news = _news(experiment, called, runs)
    return f"{leak_prefix(experiment.data.leak)}{text}.{f' {news}.' if news else ''}"


def _accuracy(experiment: Experiment, side: Side) -> float:
    """Return the accuracy of a run, or its mean over the runs of an arm."""
    evaluations = map(experiment.evaluation, side.runs)
    return fmean(one.groups[0].estimates["accuracy"].value for one in evaluations)


def _several_words(conclusions: Sequence[BetterConclusion], names: Sequence[str]) -> str:
    """Write how the first run or arm compares with each of several others, in their accuracy.

    Args:
        conclusions: of the first with each of the others.
        names: what all of them are called.

    Example:
        "pact is more accurate than base and ce; is not shown to differ in accuracy from no_cf"
    """
    first, *others = names
    named: dict[tuple[BetterStatus, str], list[str]] = {}
    for conclusion, other in zip(conclusions, others, strict=True):
        at, leading = "", conclusion.leading
        if leading is not None and leading is not conclusion.claims[0]:  # shown there alone
            at = f" {at_views(leading.k, leading.repeats)}"
        named.setdefault((conclusion.status, at), []).append(other)
    parts = [
        phrase.format(at, _list_names(named[status, at]))
        for status, phrase in _PHRASES.items()
        for named_status, at in named
        if named_status == status
    ]
    return f"{first} {'; '.join(parts)}"


def _list_names(names: Sequence[str]) -> str:
    """List names; the first of many.

    Example:
        >>> _list_names(["a", "b", "c"]), _list_names(["a", "b", "c", "d", "e", "f"])
        ('a, b and c', 'a, b, c and 3 more')
    """
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[: _MOST_NAMES - 1])} and {len(names) - _MOST_NAMES + 1} more"
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def difference_words(conclusion: BetterConclusion, left: str, right: str) -> str:
    """Write whether two runs whose accuracies are named differ.

    Args:
        conclusion: on both.
        left: what the first is called.
        right: what the second is called.

    Examples:
        >>> from pact_eval.evaluation.conclusions.better import not_comparable
        >>> difference_words(not_comparable(("a", "b"), "item sets differ"), "a", "b")
        'not compared, as item sets differ'
    """
    ahead = replace(conclusion, left=left, right=right).better_first
    claim, first = ahead.leading, ahead.left
    if claim is None:
        return f"not compared, as {one_line(str(conclusion.reason))}"
    difference = claim.difference
    lead = points_text(difference, "percent")
    if any(other.status != claim.status for other in ahead.of("accuracy")):
        if claim.status != "better":
            lead = f"{first} - {ahead.right} {points_text(difference, 'points')}"
        return f"{ahead.finding(first, ahead.right)}: {lead}"
    if claim.status == "better":
        return f"{first} is more accurate, by {lead}{p_words(claim)}"
    if claim.status == "equivalent":
        margin = math.nan if claim.verdict is None else claim.verdict.margin
        return f"as accurate, within the margin of {value_text(margin, 'percent')} points"
    half = ""
    if has_width(difference):
        side = 100 * max(difference.value - difference.low, difference.high - difference.value)
        half = f" (±{side:.0f} points)" if side >= 1 else f" (±{side:.1g} points)"
    return f"no difference shown{half}{p_words(claim)}"


def _news(experiment: Experiment, names: Sequence[str], runs: Sequence[ExperimentRun]) -> str:
    """Write the bad news on runs; of three or more, name or count the runs by it."""
    judged = [(experiment.order(run), experiment.probabilities(run)) for run in runs]
    masses = [experiment.evaluation(run).mean_answer_mass for run in runs]
    news = [
        (*bad_news(conclusions), *mass_news(mass))
        for conclusions, mass in zip(judged, masses, strict=True)
    ]
    two = len(runs) == _TWO
    if len({*news}) == 1:
        them = "Both" if two else f"All {len(runs):,}"
        return f"{them} {' and '.join(map(_plural, news[0]))}" if news[0] else ""
    if two:
        pairs = zip(names, news, strict=True)
        return "; ".join(f"{name} {' and '.join(verbs)}" for name, verbs in pairs if verbs)
    bad: dict[str, list[str]] = {}
    for name, conclusions, mass in zip(names, judged, masses, strict=True):
        for conclusion in conclusions:
            if conclusion.tone == "bad":
                bad.setdefault(conclusion.status, []).append(name)
        if LowAnswerMass.of(mass) is not None:
            share = f"{name} ({small_text(mass, 'percent')}%)"
            bad.setdefault("low answer mass", []).append(share)
    few = {status: " and ".join(called) for status, called in bad.items() if len(called) <= _TWO}
    many = {status: f"{len(called):,} of {len(runs):,}" for status, called in bad.items()}
    return upper_first("; ".join(f"{status}: {who}" for status, who in (many | few).items()))


def _plural(news: str) -> str:
    verb, _, rest = news.partition(" ")
    return f"{_PLURAL.get(verb, verb)} {rest}"


_Judged = TypeVar("_Judged", bound=Conclusion)
_WORST_FIRST: Final[tuple[Tone, ...]] = ("bad", "open", "good")


@dataclass(frozen=True)
class RunConclusions:
    """Conclusions on one of several runs.

    Attributes:
        run: its label.
        accuracy: of all items, with its interval.
        where: in which groups of items it is wrong, or wrongly sure.
        data: what an audit found of the data that the run scored, and of its training data.
        order: whether it follows the order of the answers.
        probabilities: whether they are right, under the decoding of the settings.
    """

    run: str
    accuracy: Estimate
    where: WhereConclusion
    data: DataConclusion
    order: OrderConclusion
    probabilities: ProbabilitiesConclusion


def conclude_runs(experiment: Experiment, data: DataConclusion) -> tuple[RunConclusions, ...]:
    """Answer the questions of a reader for every run of an experiment.

    Args:
        experiment: runs on full contexts.
        data: what an audit found; that of the experiment itself is concluded for each run.

    Raises:
        InputError: a run does not have the decoding of the settings.
    """
    return tuple(
        RunConclusions(
            run=run.label,
            accuracy=experiment.evaluation(run).groups[0].estimates["accuracy"],
            where=experiment.where(run),
            data=experiment.data_of(run) if data is experiment.data else data,
            order=experiment.order(run),
            probabilities=experiment.probabilities(run),
        )
        for run in experiment.runs
    )


@dataclass(frozen=True)
class ArmConclusions:
    """Conclusions on one of several arms.

    Attributes:
        arm: its name.
        seeds: seeds of its runs, ascending; None for a run without a seed.
        accuracy: of all items, over the seeds.
        order: of the run with the worst status.
        probabilities: of the run with the worst status, under the decoding of the settings.
    """

    arm: str
    seeds: tuple[int | None, ...]
    accuracy: ArmSummary
    order: OrderConclusion
    probabilities: ProbabilitiesConclusion


def conclude_arms(experiment: Experiment) -> tuple[ArmConclusions, ...]:
    """Answer the questions of a reader for every arm of an experiment.

    Args:
        experiment: runs of two or more arms on the same items.

    Raises:
        InputError: there are fewer than two arms, items differ, or a run does not have the
            decoding of the settings.
    """
    return tuple(
        ArmConclusions(
            arm=arm.name,
            seeds=arm.seeds,
            accuracy=arm.summaries["all"]["accuracy"],
            order=worst([*map(experiment.order, experiment.arms[arm.name])]),
            probabilities=worst([*map(experiment.probabilities, experiment.arms[arm.name])]),
        )
        for arm in experiment.comparisons.of_arms.arms
    )


def worst(conclusions: Sequence[_Judged]) -> _Judged:
    """Return the worst of one or more conclusions: of those of the worst tone, the surest.

    That is the one with the most answers that change, or with the smallest p-value.
    """

    def badness(conclusion: Conclusion) -> tuple[int, float]:
        number = math.nan
        if isinstance(conclusion, OrderConclusion):
            number = -conclusion.flip_rate.value
        elif isinstance(conclusion, ProbabilitiesConclusion):
            number = conclusion.p_value
        tone = _WORST_FIRST.index(conclusion.tone)
        return tone, math.inf if math.isnan(number) else number

    return min(conclusions, key=badness)
