"""Headline of several runs: names and accuracies, whether they differ, and bad news on each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.conclusions.better import BetterConclusion, p_words, several_line
from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion, leak_prefix
from pact_eval.evaluation.conclusions.order import OrderConclusion, followed_together
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.notes import LowAnswerMass
from pact_eval.numbers import ends_text, has_width, small_text, value_text
from pact_eval.plain_text import one_line, short_names, upper_first
from pact_eval.stats.estimate import Estimate

_TWO: Final = 2
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


def headline(experiment: Experiment, names: ArmNames = KEYS) -> str:
    """Write what two or more runs are worth, in a sentence or two.

    Args:
        experiment: the runs, on full contexts.
        names: display names of arms.

    Raises:
        InputError: a run does not have the decoding of the settings.

    Example:
        "pact 66.7%, base 65.4%: no difference shown (±4 points). Both FOLLOW THE LETTER A."
    """
    one_each, runs = len(experiment.arms) == len(experiment.runs), experiment.runs

    def name(run: ExperimentRun) -> str:
        return names.arm(run.arm) if one_each else names.run(run.label)

    if len(runs) == _TWO:
        first, second = runs if experiment.settings.method != runs[1].arm else runs[::-1]
        better = experiment.comparisons.better(first, second)
        better = replace(better, left=name(first), right=name(second))
        return pair_headline(experiment, (first, second), better)
    main = experiment.main_arm
    runs = tuple(sorted(runs, key=lambda run: run.arm != main))
    called = short_names([name(run) for run in runs])
    text = _spread(dict(zip(called, _accuracies(experiment, runs), strict=True)))
    several = tuple(experiment.comparisons.better_than(main).values())
    if not experiment.same_items:
        text += "; not compared, as the runs have different items"
    elif several:
        text += f". {several_line(several, None, names)}"
    news = _news_of_many(experiment, dict(zip(called, runs, strict=True)))
    return _with_news(experiment, text, news)


def pair_headline(
    experiment: Experiment,
    runs: tuple[ExperimentRun, ExperimentRun],
    conclusion: BetterConclusion,
) -> str:
    """Write what two runs are worth: both accuracies, whether they differ, and bad news on each.

    Args:
        experiment: has both runs, on full contexts.
        runs: the first and the second.
        conclusion: on both, with the names to write.

    Raises:
        InputError: a run does not have the decoding of the settings.
    """
    names = short_names((conclusion.left, conclusion.right))
    rates = zip(names, _accuracies(experiment, runs), strict=True)
    text = ", ".join(f"{name} {value_text(rate, 'percent')}%" for name, rate in rates)
    text += f": {difference_words(conclusion, *names)}"
    return _with_news(experiment, text, _news_of_two(experiment, names, runs))


def _accuracies(experiment: Experiment, runs: Sequence[ExperimentRun]) -> list[float]:
    evaluations = map(experiment.evaluation, runs)
    return [one.groups[0].estimates["accuracy"].value for one in evaluations]


def _with_news(experiment: Experiment, text: str, news: str) -> str:
    return f"{leak_prefix(experiment.data.leak)}{text}.{f' {news}.' if news else ''}"


def _spread(rates: Mapping[str, float]) -> str:
    """Write the highest and the lowest accuracy."""
    known = {name: rate for name, rate in rates.items() if not math.isnan(rate)} or rates
    ends = (max(known, key=known.__getitem__), min(known, key=known.__getitem__))
    listed = " to ".join(f"{name} {value_text(known[name], 'percent')}%" for name in ends)
    return f"{len(rates):,} runs: {listed}"


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
    claim = conclusion.leading
    if claim is None:
        return f"not compared, as {one_line(str(conclusion.reason))}"
    if any(other.status != claim.status for other in conclusion.of("accuracy")):
        return several_line([replace(conclusion, left=left, right=right)])
    match claim.status:
        case "better" | "worse":
            ahead = claim.difference if claim.status == "better" else claim.difference.negated
            ends = f" {ends_text(ahead.low, ahead.high, 'percent')}" if has_width(ahead) else ""
            points = f"{value_text(ahead.value, 'percent')} points{ends}"
            first = left if claim.status == "better" else right
            return f"{first} is more accurate, by {points}{p_words(claim)}"
        case "equivalent":
            margin = math.nan if claim.verdict is None else claim.verdict.margin
            points = "" if math.isnan(margin) else f" of {value_text(margin, 'percent')} points"
            return f"as accurate, within the margin{points}"
        case _:
            return f"no difference shown{_half_width(claim.difference)}{p_words(claim)}"


def _half_width(difference: Estimate) -> str:
    """Write the longer side of an interval, in points."""
    if not has_width(difference):
        return ""
    side = 100 * max(difference.value - difference.low, difference.high - difference.value)
    return f" (±{side:.0f} points)" if side >= 1 else f" (±{side:.1g} points)"


def _news_of(experiment: Experiment, run: ExperimentRun) -> tuple[str, ...]:
    """Return the bad news on a run, as verbs."""
    conclusions = (experiment.order(run), experiment.probabilities(run))
    mass = experiment.evaluation(run).mean_answer_mass
    return (*bad_news(conclusions), *mass_news(mass))


def _news_of_two(
    experiment: Experiment, names: Sequence[str], runs: Sequence[ExperimentRun]
) -> str:
    """Write the bad news on each of two runs; that of both once."""
    news = [_news_of(experiment, run) for run in runs]
    if news[0] == news[1]:
        return f"Both {' and '.join(map(_plural, news[0]))}" if news[0] else ""
    pairs = zip(names, news, strict=True)
    return "; ".join(f"{name} {' and '.join(verbs)}" for name, verbs in pairs if verbs)


def _news_of_many(experiment: Experiment, runs: Mapping[str, ExperimentRun]) -> str:
    """Write the bad news on three or more runs: name or count the runs by it."""
    news = {name: _news_of(experiment, run) for name, run in runs.items()}
    if len({*news.values()}) == 1:
        verbs = " and ".join(map(_plural, next(iter(news.values()))))
        return f"All {len(runs):,} {verbs}" if verbs else ""
    bad: dict[str, list[str]] = {}
    for name, run in runs.items():
        for conclusion in (experiment.order(run), experiment.probabilities(run)):
            if conclusion.tone == "bad":
                bad.setdefault(conclusion.status, []).append(name)
        if [*mass_news(experiment.evaluation(run).mean_answer_mass)]:
            bad.setdefault("low answer mass", []).append(name)
    few = {status: " and ".join(called) for status, called in bad.items() if len(called) <= _TWO}
    many = {status: f"{len(called):,} of {len(runs):,}" for status, called in bad.items()}
    return upper_first("; ".join(f"{status}: {who}" for status, who in (many | few).items()))


def _plural(news: str) -> str:
    verb, _, rest = news.partition(" ")
    return f"{_PLURAL.get(verb, verb)} {rest}"
