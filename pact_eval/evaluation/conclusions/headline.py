"""Headline of several runs: names and accuracies, whether they differ, and bad news on each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.conclusions.better import BetterConclusion, Claim, several_line
from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion, leak_prefix
from pact_eval.evaluation.conclusions.order import OrderConclusion, followed_together
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.numbers import ends_text, has_width, value_text
from pact_eval.plain_text import lower_first, one_line, short_names, upper_first

_TWO: Final = 2
_PLURAL: Final[Mapping[str, str]] = {
    "FOLLOWS": "FOLLOW",
    "AVOIDS": "AVOID",
    "is": "are",
    "its": "their",
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
    better = tuple(experiment.comparisons.better_than(experiment.main_arm).values())
    runs = _main_first(experiment)
    one_each = len(experiment.arms) == len(runs)
    called = short_names([names.arm(run.arm) if one_each else names.run(run.label) for run in runs])
    first = _of_two if len(runs) == _TWO else _of_many
    news = _news(experiment, dict(zip(called, runs, strict=True)))
    prefix = leak_prefix(experiment.data.leak)
    text = f"{prefix}{first(experiment, dict(zip(called, runs, strict=True)), better, names)}."
    return f"{text} {news}." if news else text


def _main_first(experiment: Experiment) -> list[ExperimentRun]:
    main = experiment.main_arm
    return sorted(experiment.runs, key=lambda run: run.arm != main)


def _accuracy(experiment: Experiment, run: ExperimentRun) -> float:
    evaluation = experiment.evaluation(run, calibrated=False)
    return evaluation.groups[0].estimates["accuracy"].value


def _of_two(
    experiment: Experiment,
    runs: Mapping[str, ExperimentRun],
    better: Sequence[BetterConclusion],
    _: ArmNames,
) -> str:
    rates = (f"{name} {_percent(_accuracy(experiment, run))}" for name, run in runs.items())
    if len(better) != 1:
        return " and ".join(rates)
    left, right = runs
    return f"{', '.join(rates)}: {difference_words(better[0], left, right)}"


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
    differing = {each.status for each in conclusion.of("accuracy")} != {claim.status}
    if differing:
        return lower_first(conclusion.finding(left, right))
    match claim.status:
        case "better" | "worse":
            ahead = left if claim.status == "better" else right
            return f"{ahead} is more accurate, by {_lead(claim)}"
        case "equivalent":
            margin = "" if claim.verdict is None else f" of {_points(claim.verdict.margin)} points"
            return f"as accurate, within the margin{margin}"
        case _:
            return f"no difference shown{_half_width(claim)}"


def _lead(claim: Claim) -> str:
    ahead = claim.difference if claim.difference.value > 0 else claim.difference.negated
    ends = f" {ends_text(ahead.low, ahead.high, 'percent')}" if has_width(ahead) else ""
    return f"{value_text(ahead.value, 'percent')} points{ends}"


def _half_width(claim: Claim) -> str:
    """Write the longer side of the interval of a difference, in points."""
    value, low, high = (getattr(claim.difference, end) for end in ("value", "low", "high"))
    if not has_width(claim.difference):
        return ""
    points = 100 * max(value - low, high - value)
    return f" (±{points:.0f} points)" if points >= 1 else f" (±{points:.1g} points)"


def _points(value: float) -> str:
    return value_text(value, "percent").removesuffix(".0")


def _percent(value: float) -> str:
    return f"{value_text(value, 'percent')}%"


def _of_many(
    experiment: Experiment,
    runs: Mapping[str, ExperimentRun],
    better: Sequence[BetterConclusion],
    names: ArmNames,
) -> str:
    """Write the highest and the lowest accuracy, and how the main arm compares with the others."""
    rates = {name: _accuracy(experiment, run) for name, run in runs.items()}
    known = {name: rate for name, rate in rates.items() if not math.isnan(rate)}
    low, high = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    text = f"{len(runs):,} runs: {high} {_percent(known[high])} to {low} {_percent(known[low])}"
    if not experiment.same_items:
        return f"{text}; not compared, as the runs have different items"
    return f"{text}. {several_line(better, None, names)}" if better else text


def _news(experiment: Experiment, runs: Mapping[str, ExperimentRun]) -> str:
    """Write the bad news on each of two runs; of more, count the runs by it."""
    conclusions = {
        name: (experiment.order(run), experiment.probabilities(run, calibrated=False))
        for name, run in runs.items()
    }
    news = {name: [*bad_news(of_run)] for name, of_run in conclusions.items()}
    if not any(news.values()):
        return ""
    if len(set(map(tuple, news.values()))) == 1:
        every = "Both" if len(runs) == _TWO else f"All {len(runs):,}"
        return f"{every} {' and '.join(map(_plural, next(iter(news.values()))))}"
    if len(runs) == _TWO:
        return "; ".join(f"{name} {' and '.join(texts)}" for name, texts in news.items() if texts)
    bad: dict[str, list[str]] = {}
    for name, of_run in conclusions.items():
        for conclusion in of_run:
            if conclusion.tone == "bad":
                bad.setdefault(conclusion.status, []).append(name)
    listed = (f"{status}: {_who(called, len(runs))}" for status, called in bad.items())
    return upper_first("; ".join(listed))


def _who(called: Sequence[str], runs: int) -> str:
    """Name one or two runs, or count them."""
    if len(called) == runs:
        return f"all {runs:,}"
    return " and ".join(called) if len(called) <= _TWO else f"{len(called):,} of {runs:,}"


def _plural(news: str) -> str:
    verb, _, rest = news.partition(" ")
    return f"{_PLURAL.get(verb, verb)} {rest}"
