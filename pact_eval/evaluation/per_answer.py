r"""Precision, recall and F1 of every answer of a question, and which answers are taken for which.

A question counts if all of its items have the same answers: an import that names its answers, a
question of a dataset, booleans, and levels of scores. For the answer a, over items i with the right
answer :math:`y_i` and the given one :math:`g_i`:

.. math:: precision = \frac{\#\{y_i = g_i = a\}}{\#\{g_i = a\}}, \quad
          recall = \frac{\#\{y_i = g_i = a\}}{\#\{y_i = a\}}, \quad
          F_1 = \frac{2 \#\{y_i = g_i = a\}}{\#\{y_i = a\} + \#\{g_i = a\}}

Macro F1 is the mean of F1 over the answers that are right or given at least once. Intervals are
over families: those of accuracy (Wilson) for shares of items, also for F1, which is a function of
one (see `_rates`), and for macro F1 those of every F1 together. Of repeats, every answer
counts.

References:
    Van Rijsbergen, "Information retrieval", 1979, chapter 7. Opitz and Burst, "Macro F1 and macro
    F1", arXiv 1911.03347, 2019: the mean of F1, not F1 of the means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from pact_eval._choices import ClusterUnit
from pact_eval._typing import BoolArray, IntArray, TextArray
from pact_eval.data.records import content_of
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.run_records import ItemTexts, cut
from pact_eval.runs.folder import item_column
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import UNNAMED
from pact_eval.stats.estimate import ONE_CLUSTER, ClusterText, Estimate, Method
from pact_eval.stats.rates import few_clusters, rate_estimate, without_interval
from pact_eval.stats.summed_intervals import correlations, summed_interval

FEWEST_ITEMS: Final = 20
"""So many items of a question, or of several with the same answers, are counted."""

_LONGEST_QUESTION: Final = 80


@dataclass(frozen=True)
class AnswerRates:
    """How often one answer is right, and how often it is given.

    Attributes:
        name: of the answer.
        right: number of answers to items whose right answer it is.
        given: number of times that it is given.
        both: number of times that it is right and given.
        precision: share of `both` in `given`; NaN with a reason if it is never given.
        recall: share of `both` in `right`; NaN with a reason if it is never right.
        f1: see the module; NaN with a reason if it is neither.
    """

    name: str
    right: int
    given: int
    both: int
    precision: Estimate
    recall: Estimate
    f1: Estimate


@dataclass(frozen=True, order=True)
class Mistake:
    """An answer that is given in place of a right one.

    Attributes:
        times: how often.
        right: name of the right answer.
        given: name of the given answer.
        of: how often the right answer is right.
    """

    times: int
    right: str
    given: str
    of: int

    @property
    def words(self) -> str:
        """The mistake in a few words.

        Example:
            >>> Mistake(17, "refund", "replace", 90).words
            'refund taken for replace: 17 of 90'
        """
        return f"{self.right} taken for {self.given}: {self.times:,} of {self.of:,}"


@dataclass(frozen=True, eq=False)
class QuestionAnswers:
    """The answers to one question, or to all questions with the same answers.

    Attributes:
        question: its text, or its kind; "" if all items of the run have it.
        kind: choice, boolean or score.
        answers: the answers in canonical order.
        confusion: (C, C) how often each answer (column) is given where each (row) is right.
        macro_f1: mean of F1 over the answers that are right or given at least once.
        unit: units of the intervals.
    """

    question: str
    kind: str
    answers: tuple[AnswerRates, ...]
    confusion: IntArray
    macro_f1: Estimate
    unit: ClusterUnit

    def mistakes(self, most: int) -> tuple[Mistake, ...]:
        """Return the most frequent mistakes; ties in the order of the answers.

        Args:
            most: number of mistakes to return.
        """
        wrong = self.confusion * ~np.eye(len(self.answers), dtype=np.bool_)
        cells = np.argsort(-wrong, axis=None, kind="stable")[:most]
        places = zip(*np.unravel_index(cells, wrong.shape), strict=True)
        return tuple(
            Mistake(
                times, self.answers[row].name, self.answers[column].name, self.answers[row].right
            )
            for row, column in places
            if (times := int(wrong[row, column]))
        )


def question_answers(
    run: ExperimentRun, items: ScoredItems, texts: ItemTexts
) -> tuple[QuestionAnswers, ...]:
    """Count the answers of a run by question, for questions whose items have the same answers.

    Args:
        run: the run.
        items: its items under a decoding, with the rows that the run has itself.
        texts: texts of its items.

    Returns:
        One value per question, the most items first; none for ablated contexts, and for runs that
        do not say which answers these are.
    """
    if items.reference is None or items.known in UNNAMED or not len(items):
        return ()
    items = items.with_sorted_families()  # sums do not depend on the order of the rows
    repeats, kinds = items.asked, items.labels["kind"]
    right, given = (np.array(codes, dtype=np.int64) for codes in (items.reference, items.predicted))
    views = None if items.views is None else run.predictions
    groups: Mapping[_Question, Sequence[int] | IntArray]
    if texts.options:
        only = _Question(str(kinds.names[kinds.codes[0]]), texts.options)
        groups = {only: np.arange(len(items) // repeats)}
    elif texts.records or texts.options_of:
        groups, places = _by_question(run.predictions, texts)
        for row, place in places.items():
            for codes in (right, given):
                codes[row * repeats : (row + 1) * repeats] = [
                    place[code] for code in codes[row * repeats : (row + 1) * repeats]
                ]
    else:
        n_choices = item_column(run.run, "n_choices") if views is None else views.n_choices
        groups = _by_kind(kinds.names[kinds.codes[::repeats]], n_choices)
    answers = []
    for question, members in sorted(groups.items(), key=lambda group: -len(group[1])):
        if len(members) >= FEWEST_ITEMS or texts.options:
            rows = (np.asarray(members)[:, None] * repeats + np.arange(repeats)).ravel()
            shown = "" if len(rows) == len(items) else question.shown
            cluster = np.unique(items.cluster[rows], return_inverse=True)[1]
            numbers = _numbers(question.names, right[rows], given[rows], cluster)
            answers.append(QuestionAnswers(shown, question.kind, *numbers, items.unit))
    return tuple(answers)


class _Question(NamedTuple):
    """Identity of a question.

    Attributes:
        kind: choice, boolean or score.
        names: of its answers.
        levels: descriptions of the levels of a score, which its keys do not tell apart.
        text: its text; None for several questions with these answers.
    """

    kind: str
    names: tuple[str, ...]
    levels: tuple[str | None, ...] = ()
    text: str | None = None

    @property
    def shown(self) -> str:
        """The question in a few words."""
        if self.text is not None:
            return cut(self.text, _LONGEST_QUESTION)
        return self.kind if self.kind == "boolean" else f"{self.kind}: {', '.join(self.names)}"


def _by_kind(kinds: TextArray, n_choices: IntArray) -> dict[_Question, IntArray]:
    """Return the items of booleans, and of scores with the same number of levels."""
    groups = {}
    for kind in ("boolean", "score"):
        of_kind = kinds == kind
        for n in np.unique(n_choices[of_kind]).tolist():
            question = _Question(kind, ItemTexts().answers("", kind, n))
            groups[question] = np.flatnonzero(of_kind & (n_choices == n))
    return groups


def _by_question(
    views: Predictions, texts: ItemTexts
) -> tuple[dict[_Question, list[int]], dict[int, list[int]]]:
    """Return the items of each question with enough of them, and of the others by their answers.

    Returns:
        The items, and of those that list the answers of a choice in another order, the place of
        each of their answers.
    """
    by_text: dict[_Question, list[int]] = {}
    places: dict[int, list[int]] = {}
    first: dict[frozenset[str], tuple[str, ...]] = {}
    columns = (views.ids.tolist(), views.kind.tolist(), views.n_choices.tolist())
    for at, (item, kind, n) in enumerate(zip(*columns, strict=True)):
        names, record = texts.answers(item, kind, n), texts.records.get(item)
        text = texts.questions.get(item)
        if record is None and text not in texts.options_of and kind == "choice":
            continue
        if kind == "choice" and first.setdefault(frozenset(names), names) != names:
            own, names = names, first[frozenset(names)]
            places[at] = [names.index(name) for name in own]
        levels: tuple[str | None, ...] = ()
        if record is not None:
            text = content_of(record.field.instructions)
            if kind == "score":
                levels = tuple(answer.description for answer in record.field.answers)
        by_text.setdefault(_Question(kind, names, levels, text), []).append(at)
    groups: dict[_Question, list[int]] = {}
    for question, members in by_text.items():
        pooled = question if len(members) >= FEWEST_ITEMS else question._replace(text=None)
        groups.setdefault(pooled, []).extend(members)
    return {question: sorted(members) for question, members in groups.items()}, places


def _numbers(
    names: Sequence[str], right: IntArray, given: IntArray, cluster: IntArray
) -> tuple[tuple[AnswerRates, ...], IntArray, Estimate]:
    """Return the rates of every answer, the confusion of answers, and macro F1."""
    rates = [_rates(name, right == at, given == at, cluster) for at, name in enumerate(names)]
    macro, n = _macro_f1(rates, right, given, cluster), len(names)
    for at, answer in enumerate(rates):
        three = (answer.precision, answer.recall, answer.f1)
        precision, recall, f1 = (without_interval(r, few_clusters(r.clusters)) for r in three)
        rates[at] = replace(answer, precision=precision, recall=recall, f1=f1)
    confusion = np.bincount(right * n + given, minlength=n * n).reshape(n, n)
    return tuple(rates), confusion, macro


def _rates(name: str, right: BoolArray, given: BoolArray, cluster: IntArray) -> AnswerRates:
    r"""Return the rates of one answer.

    F1 is that of the share J of `both` in the items where the answer is right or given:

    .. math:: F_1 = \frac{2 J}{1 + J}

    grows with J, so that its interval ends where that of J does.
    """
    both = right & given

    def share(counted: BoolArray, reason: str) -> Estimate:
        estimate = rate_estimate(np.bincount(cluster, both), np.bincount(cluster, counted))
        return estimate if counted.any() else replace(estimate, reason=ClusterText(reason))

    joint = share(right | given, "neither right nor given: no F1")
    value, low, high = (2 * at / (1 + at) for at in (joint.value, joint.low, joint.high))
    return AnswerRates(
        name=name,
        right=int(right.sum()),
        given=int(given.sum()),
        both=int(both.sum()),
        precision=share(given, "never given: no precision"),
        recall=share(right, "never right: no recall"),
        f1=replace(joint, value=value, low=low, high=high),
    )


def _macro_f1(
    answers: Sequence[AnswerRates], right: IntArray, given: IntArray, cluster: IntArray
) -> Estimate:
    """Return macro F1, with the interval that those of F1 give together; see `summed_interval`.

    The linearised mean would be too sure of answers that are rare: one that is never or always
    given rightly adds nothing to its variance.
    """
    used = [at for at, answer in enumerate(answers) if answer.right + answer.given]
    f1 = [answers[at].f1 for at in used]
    clusters = int(cluster.max()) + 1
    value = math.fsum(rate.value for rate in f1) / len(f1)
    method = Method("MOVER interval", " (macro F1)")
    estimate = Estimate(value, math.nan, math.nan, len(right), clusters, method)
    few = ONE_CLUSTER if clusters < 2 else few_clusters(clusters)
    if few is not None:
        return replace(estimate, reason=few)
    # What nothing is known of lies anywhere.
    ends = [(0.0, 1.0) if math.isnan(rate.low) else (rate.low, rate.high) for rate in f1]
    lows, highs = zip(*ends, strict=True)
    # What each family adds to F1 of an answer, up to a factor.
    influences = []
    for at, rate in zip(used, f1, strict=True):
        is_right, is_given = right == at, given == at
        added = 2.0 * (is_right & is_given) - rate.value * (1.0 * is_right + is_given)
        influences.append(np.bincount(cluster, added).astype(np.float64))
    summed = summed_interval(
        np.full(len(f1), 1 / len(f1)),
        [rate.value for rate in f1],
        lows,
        highs,
        correlations(influences),
        n_clusters=clusters,
        ends_at_zero=False,
    )
    low, high = summed.at(0.95)
    return replace(estimate, low=max(low, 0.0), high=min(high, 1.0))
