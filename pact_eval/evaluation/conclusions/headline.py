"""Headline of several runs: names and accuracies, whether they differ, and bad news on each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.conclusions.better import BetterConclusion, several_line
from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion, leak_prefix
from pact_eval.evaluation.conclusions.order import OrderConclusion, followed_together
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.numbers import ends_text, has_width, value_text
from pact_eval.plain_text import one_line, short_names, upper_first
from pact_eval.stats.estimate import Estimate

_TWO: Final = 2
_PLURAL: Final[Mapping[str, str]] = {
    "FOLLOWS": "FOLLOW",
    "AVOIDS": "AVOID",
    "is": "are",
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


def headline(experiment: Experiment, names: ArmNames = KEYS) -> str:
    """Write what two or more runs are worth, in a sentence or two.

    Args:
        experiment: the runs, on full contexts.
        names: display names of arms.

    Raises:
        InputError: a run does not have the decoding of the settings.

    Example:
        "pact 66.7%, nimble_recipe 65.4%: no difference shown (±4). Both FOLLOW THE LETTER A."
    """
    main, one_each = experiment.main_arm, len(experiment.arms) == len(experiment.runs)
    runs = sorted(experiment.runs, key=lambda run: run.arm != main)
    called = short_names([names.arm(run.arm) if one_each else names.run(run.label) for run in runs])
    rates = {
        name: experiment.evaluation(run).groups[0].estimates["accuracy"].value
        for name, run in zip(called, runs, strict=True)
    }
    better = tuple(experiment.comparisons.better_than(main).values())
    if len(runs) == _TWO:
        text = ", ".join(f"{name} {value_text(rate, 'percent')}%" for name, rate in rates.items())
        text += f": {difference_words(better[0], *called)}" if len(better) == 1 else ""
    else:
        text = _spread(rates)
        if not experiment.same_items:
            text += "; not compared, as the runs have different items"
        elif better:
            text += f". {several_line(better, None, names)}"
    news = _news(experiment, dict(zip(called, runs, strict=True)))
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
        return conclusion.finding(left, right)
    match claim.status:
        case "better" | "worse":
            ahead = claim.difference if claim.status == "better" else claim.difference.negated
            ends = f" {ends_text(ahead.low, ahead.high, 'percent')}" if has_width(ahead) else ""
            points = f"{value_text(ahead.value, 'percent')} points{ends}"
            return f"{left if claim.status == 'better' else right} is more accurate, by {points}"
        case "equivalent":
            return "as accurate, within the margin"
        case _:
            return f"no difference shown{_half_width(claim.difference)}"


def _half_width(difference: Estimate) -> str:
    """Write the longer side of an interval, in points."""
    if not has_width(difference):
        return ""
    side = 100 * max(difference.value - difference.low, difference.high - difference.value)
    return f" (±{side:.0f} points)" if side >= 1 else f" (±{side:.1g} points)"


def _news(experiment: Experiment, runs: Mapping[str, ExperimentRun]) -> str:
    """Write the bad news on each of two runs; of more, name or count the runs by it."""
    conclusions = {
        name: (experiment.order(run), experiment.probabilities(run)) for name, run in runs.items()
    }
    news = {name: tuple(bad_news(of_run)) for name, of_run in conclusions.items()}
    if len({*news.values()}) == 1:
        every = "Both" if len(runs) == _TWO else f"All {len(runs):,}"
        verbs = " and ".join(map(_plural, next(iter(news.values()))))
        return f"{every} {verbs}" if verbs else ""
    if len(runs) == _TWO:
        return "; ".join(f"{name} {' and '.join(texts)}" for name, texts in news.items() if texts)
    bad: dict[str, list[str]] = {}
    for name, of_run in conclusions.items():
        for conclusion in of_run:
            if conclusion.tone == "bad":
                bad.setdefault(conclusion.status, []).append(name)
    few = {status: " and ".join(called) for status, called in bad.items() if len(called) <= _TWO}
    many = {status: f"{len(called):,} of {len(runs):,}" for status, called in bad.items()}
    return upper_first("; ".join(f"{status}: {who}" for status, who in (many | few).items()))


def _plural(news: str) -> str:
    verb, _, rest = news.partition(" ")
    return f"{_PLURAL.get(verb, verb)} {rest}"
