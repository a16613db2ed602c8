"""What a release must meet: not worse than before, and bounds of metrics; PASS, FAIL or neither.

A requirement is a number with the interval that report and comparison print, and a bound
(`stats.bounds`). All of them are judged together, in every group if there are groups.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, Self

from pact_eval._choices import ClusterUnit
from pact_eval.calibration.temperatures import CalibrationWarning
from pact_eval.errors import InputError, counted
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.evaluation.conclusions.data import leak_prefix
from pact_eval.evaluation.experiment_run import ExperimentRun, has_several_questions
from pact_eval.evaluation.joins import LeftOutItems
from pact_eval.evaluation.registry import MetricSpec, find_metric, metrics_for
from pact_eval.evaluation.resampled_groups import resample_items
from pact_eval.evaluation.run_records import item_texts
from pact_eval.evaluation.settings import Settings
from pact_eval.evaluation.spending import Spending, compare_spending
from pact_eval.evaluation.wrong_items import SUREST, WrongItem, differing_items, wrong_items
from pact_eval.numbers import about, has_width, interval_text, plain_reason, plain_units, value_text
from pact_eval.plain_text import lower_first, one_line, short_names
from pact_eval.results import Note, Result
from pact_eval.runs.folder import unanswered_ids
from pact_eval.runs.identity import QUESTION
from pact_eval.stats.bounds import Bounded, BoundFinding, BoundTest, bound_tests
from pact_eval.stats.estimate import Estimate

if TYPE_CHECKING:
    from pact_eval.evaluation.experiment import Experiment

Verdict = Literal["PASS", "FAIL", "CANNOT TELL"]
"""All is shown; something is contradicted; neither."""

_SHORT: Final = {"flips": "flip_rate", "nll": "nll_nats", "pairs": "pair_accuracy"}
_AMOUNT: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*(%|points?|)")
_ALL: Final = "all"
_ORDER: Final[tuple[BoundFinding, ...]] = ("contradicted", "not shown", "shown")


def required_names() -> dict[str, str]:
    """Return the metrics that can be required: by what users write, the name in the registry.

    Examples:
        >>> [*required_names()][:6]
        ['accuracy', 'pairs', 'pair_margin', 'nll', 'brier', 'ece']
    """
    short = {name: word for word, name in _SHORT.items()}
    names = [metric.name for metric in metrics_for("full") if metric.spec.better]
    return {short.get(name, name): name for name in names}


@dataclass(frozen=True)
class Requirement:
    """A bound of a metric, or of the change of accuracy from the run before.

    Attributes:
        metric: name in the registry.
        bound: least or largest value, or points of accuracy that may be lost; rates are fractions.
        than_before: whether the run is compared with the one before.

    Examples:
        >>> Requirement.parse("ece=8").words, Requirement.not_worse("2").words
        ('ECE at most 8%', 'accuracy at most 2 points lower than before')
    """

    metric: str
    bound: float
    than_before: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read METRIC=VALUE; a rate is in percent.

        Raises:
            InputError: there is no such metric or number, or a rate may be a share or a percentage.

        Examples:
            >>> Requirement.parse("accuracy=85")
            Requirement(metric='accuracy', bound=0.85, than_before=False)
            >>> Requirement.parse("flips=0.1")
            Traceback (most recent call last):
                ...
            pact_eval.errors.InputError: 0.1 may be 0.1% or 10%: write flips=0.1% or flips=10
        """
        name, equals, value = (part.strip() for part in text.partition("="))
        names = required_names()
        metric = names.get(name, name)
        if not equals or metric not in names.values():
            message = f"expected METRIC=VALUE, a metric of {', '.join(names)}, got {text!r:.60}"
            raise InputError(message)
        return cls(metric, _amount(f"{name}=", value, find_metric(metric).spec))

    @classmethod
    def not_worse(cls, text: str) -> Self:
        """Read how many points of accuracy may be lost; errors as for `parse`."""
        return cls("accuracy", _amount("", text.strip(), find_metric("accuracy").spec), True)

    @property
    def title(self) -> str:
        """The metric within a sentence."""
        title = find_metric(self.metric).spec.title
        return title if title.isupper() or title == "Brier" else lower_first(title)

    @property
    def limit(self) -> str:
        """The bound in words, such as "at least 85%"."""
        spec = find_metric(self.metric).spec
        if self.than_before:
            points = f"{100 * self.bound:g}"
            return f"at most {points} point{'' if points == '1' else 's'} lower than before"
        amount = f"{100 * self.bound:g}%" if spec.unit == "percent" else f"{self.bound:g}"
        return f"at {'least' if spec.better > 0 else 'most'} {amount}"

    @property
    def words(self) -> str:
        """The requirement in words."""
        return f"{self.title} {self.limit}"

    def bounded(self, estimate: Estimate) -> Bounded:
        """Return a number, or a change of accuracy, with the bound."""
        if self.than_before:
            return Bounded(estimate, -self.bound, 1)
        entry = find_metric(self.metric)
        return entry.bounded(estimate, self.bound, 1 if entry.spec.better > 0 else -1)


def _amount(option: str, text: str, spec: MetricSpec) -> float:
    """Read an amount; of a rate, a percentage as a fraction."""
    match, rate = _AMOUNT.fullmatch(text), spec.unit == "percent"
    if match is None or (match[2] and not rate):
        unit = "a percentage, such as 85" if rate else f"a number of {spec.unit}"
        raise InputError(f"expected {unit}, got {text!r:.60}")
    number = float(match[1])
    if not rate:
        return number
    if not 0 < number < 100:
        raise InputError(f"expected a percentage above 0 and below 100, got {text!r:.60}")
    if number < 1 and not match[2]:
        share = f"{100 * number:g}"
        message = f"{text} may be {text}% or {share}%: write {option}{text}% or {option}{share}"
        raise InputError(message)
    return number / 100


@dataclass(frozen=True)
class JudgedRequirement:
    """A requirement of a group of items, and whether it is met.

    Attributes:
        requirement: the metric and its bound.
        group: "all", or a group of the column that was asked for.
        estimate: the metric of the new run, or its accuracy minus that of the one before.
        test: the number against the bound, adjusted for all requirements together.
        unit: what intervals take as independent.
    """

    requirement: Requirement
    group: str
    estimate: Estimate
    test: BoundTest
    unit: ClusterUnit

    @property
    def name(self) -> str:
        """The requirement in words, with the group."""
        return one_line(self.requirement.words + self._of_group)

    @property
    def _of_group(self) -> str:
        return "" if self.group == _ALL else f" ({self.group})"

    @property
    def rank(self) -> tuple[int, float]:
        """Contradicted ones first, then those not shown, the farthest from being met first."""
        ahead = self.requirement.bounded(self.estimate).lead > 0
        sure = 1 - self.test.p_value
        lead = -2.0 if math.isnan(sure) else math.copysign(sure, 1 if ahead else -1)
        return _ORDER.index(self.test.finding), lead

    @property
    def value(self) -> str:
        """The number with its interval and unit; of ECE, the noise of few items is taken out."""
        spec, estimate = find_metric(self.requirement.metric).spec, self.estimate
        unit = spec.difference_unit if self.requirement.than_before else spec.unit
        word = {"percent": "%", "points": " points"}.get(unit, "")
        if math.isnan(estimate.value):
            return f"not known ({plain_reason(estimate) or 'no item counts'})"
        if not isinstance(estimate, CalibrationError) or not has_width(estimate):
            return interval_text(estimate, unit, word)
        ends = estimate.low, estimate.high, estimate.n, estimate.clusters
        true = interval_text(Estimate(estimate.debiased, *ends), unit, word)
        return f"{true}, {value_text(estimate.value, unit)} with noise"

    @property
    def result(self) -> str:
        """The finding, and what would change it."""
        reason, needed = None, self.test.needed
        if needed is not None:
            units = plain_units(self.estimate.n, self.estimate.clusters, self.unit)
            reason = f"about {about(needed):,} {units} would do"
        elif has_width(self.estimate):
            reason = plain_reason(replace(self.estimate, reason=self.test.reason))
        return "; ".join(filter(None, (self.test.finding, reason)))

    @property
    def sentence(self) -> str:
        """The number and what is required.

        Example:
            "accuracy is 78.2 [74.0, 81.9]%; required: at least 85%"
        """
        verb = "changed by" if self.requirement.than_before else "is"
        number = f"{self.requirement.title}{self._of_group} {verb} {self.value}"
        return one_line(f"{number}; required: {self.requirement.limit}")


@dataclass(frozen=True, repr=False)
class Release(Result):
    """A run, maybe with the one before it, and whether it meets what is required.

    Attributes:
        experiment: the runs, with the settings of all numbers.
        judged: each requirement in each group; contradicted ones first, then those not shown, the
            farthest from being met first.
        by: the column of the groups; "" if all items are one group.
        wrong: the surest wrong answers: of items that only the run before answers correctly, or of
            the run alone.
        wrong_in_all: how many such items there are.
    """

    experiment: Experiment
    judged: tuple[JudgedRequirement, ...]
    by: str
    wrong: tuple[WrongItem, ...]
    wrong_in_all: int

    @property
    def new(self) -> ExperimentRun:
        """The run that is judged."""
        return self.experiment.runs[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Short names of the run, and of the one before."""
        return tuple(short_names([run.name for run in self.experiment.runs]))

    def count(self, finding: BoundFinding) -> int:
        """Return how many requirements have a finding."""
        return sum(judged.test.finding == finding for judged in self.judged)

    @property
    def verdict(self) -> Verdict:
        """FAIL if items leak or a requirement is contradicted, PASS if all are shown."""
        if self.experiment.data.status == "leak" or self.count("contradicted"):
            return "FAIL"
        return "CANNOT TELL" if self.count("not shown") else "PASS"

    @cached_property
    def spending(self) -> Spending | None:
        """Which run is cheaper or faster, and whether it is not worse as required; None if unknown.

        Without a requirement that it is not worse, that is not asked.
        """
        if len(self.experiment.runs) == 1:
            return None
        spending = compare_spending(self.experiment, *self.experiment.runs)
        before = [one for one in self.judged if one.requirement.than_before]
        if spending is None or not before:
            return spending
        shown = all(one.test.finding == "shown" for one in before)
        return replace(spending, not_worse=shown, margin=before[0].requirement.bound)

    @property
    def warnings(self) -> tuple[CalibrationWarning | Note, ...]:
        """Warnings on the runs, and on items of a single run that it left unanswered."""
        unanswered = unanswered_ids(self.new.run)
        left_out = LeftOutItems(len(unanswered), {self.new.place: len(unanswered)})
        alone = unanswered and self.experiment.left_out is None
        return (*self.experiment.applied_warnings, *((left_out,) if alone else ()))

    @property
    def answer(self) -> str:
        """The verdict in a sentence, after the leak of the data if there is one.

        Example:
            "FAIL: new: accuracy is 78.2 [74.0, 81.9]%; required: at least 85%. 1 more is missed."
        """
        verdict, name, first = self.verdict, self.names[0], self.judged[0].sentence
        if verdict == "PASS":
            words = [*dict.fromkeys(judged.requirement.words for judged in self.judged)]
            listed = f"{', '.join(words[:-1])} and {words[-1]}" if words[1:] else words[0]
            groups = counted(len({judged.group for judged in self.judged}), "group")
            where = f", in each of {groups} of {self.by}" if self.by else ""
            text = f"PASS: {name} meets {listed}{where}."
        elif verdict == "FAIL" and not self.count("contradicted"):
            text = f"FAIL: {name}: items are in a file that the model is made from."
        else:
            missed = verdict == "FAIL"
            others = self.count("contradicted" if missed else "not shown") - 1
            verb = f"{'is' if others == 1 else 'are'} {'missed' if missed else 'not shown'}"
            more = f" {others:,} more {verb}." if others else ""
            text = f"{verdict}: {name}: {first}.{more}"
        return f"{leak_prefix(self.experiment.data.leak)}{text}"


def judge_release(
    experiment: Experiment, requirements: Sequence[Requirement], *, grouped: bool | None = None
) -> Release:
    """Judge whether a run meets what is required.

    Args:
        experiment: the run, and after it the one before, on the same items, if there is one.
        requirements: one or more, each metric once.
        grouped: require them of every group of `settings.by`, in place of all items; those of
            "all" are one group. None: of every question, if the items are of several.

    Raises:
        InputError: there are not one or two runs, only one although it must not be worse than
            another, a metric twice, other items, or a run lacks the decoding or a calibrator.
        RunError: a run is on ablated contexts, which have no references.
    """
    for run in experiment.ablated:
        run.run.require_references()
    runs, settings = experiment.runs, experiment.settings
    before = any(requirement.than_before for requirement in requirements)
    if before and len(runs) != 2:
        raise InputError(f"not worse: expected the new run and the one before, got {len(runs)}")
    if len(runs) not in (1, 2):
        raise InputError(f"expected one run, or the new run and the one before, got {len(runs)}")
    experiment.require_same_items()
    kinds = [(requirement.metric, requirement.than_before) for requirement in requirements]
    if not kinds or len(set(kinds)) < len(kinds):
        raise InputError("expected requirements, each metric once")
    if grouped is None:
        grouped = has_several_questions(runs[0])
        settings = replace(settings, by=QUESTION, bins=None) if grouped else settings
    grouped = grouped and settings.by != _ALL
    experiment = replace(experiment, settings=shown_groups(settings))
    numbers = [
        (requirement, group, estimate)
        for requirement in requirements
        for group, estimate in _numbers(experiment, requirement, grouped=grouped).items()
    ]
    tests = bound_tests([requirement.bounded(estimate) for requirement, _, estimate in numbers])
    judged = [
        JudgedRequirement(*number, test, settings.unit)
        for number, test in zip(numbers, tests, strict=True)
    ]
    judged.sort(key=lambda one: one.rank)
    by = str(settings.by) if grouped else ""
    return Release(experiment, tuple(judged), by, *_deciding(experiment))


def shown_groups(settings: Settings) -> Settings:
    """Return settings for what is shown beside a verdict: "all" is no column of a table.

    Example:
        >>> shown_groups(Settings(by="all")).by, shown_groups(Settings(by="question")).by
        ('kind', 'question')
    """
    return replace(settings, by="kind") if settings.by == _ALL else settings


def _numbers(
    experiment: Experiment, requirement: Requirement, *, grouped: bool
) -> dict[str, Estimate]:
    """Return the number of a requirement in every group, or of all items."""
    settings, (new, *before) = experiment.settings, experiment.runs
    by = settings.by if grouped else None
    if requirement.than_before:
        numbers = experiment.comparisons.differences(new, before[0], by)
    else:
        groups = resample_items(experiment.items(new), settings, by, [requirement.metric])
        numbers = {group.name: group.estimate(requirement.metric) for group in groups}
    first, *others = numbers
    return {name: numbers[name] for name in (others if grouped else [first])}


def _deciding(experiment: Experiment) -> tuple[tuple[WrongItem, ...], int]:
    """Return the surest wrong answers that a reader looks at first, and how many there are."""
    new, *before = experiment.runs
    texts = item_texts(new, experiment.settings.data)
    if not before:
        wrong = wrong_items(new, experiment.items(new, letters=False), texts, SUREST)
        return wrong.items, wrong.wrong
    differing = experiment.comparisons.differing(new, before[0])
    listed = differing_items(differing, new.predictions, texts, SUREST)["b"]
    return listed, sum(item.correct == "b" for item in differing)
