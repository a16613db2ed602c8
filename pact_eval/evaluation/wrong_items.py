"""Items that a run, or one of two, answers wrongly, and those whose answer changes with the order.

Of repeats, the answer is the one that most of them give, and the confidence is the mean over them.
Unanswered items have no answer, and are not listed; accuracy is of the answered items too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.evaluation.comparison import DifferingItem
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.run_records import ItemTexts, cut
from pact_eval.plain_text import one_line, short_names
from pact_eval.runs.folder import ids_at, items_at
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import UNNAMED

SUREST: Final = 3
"""Wrong answers in the line of `report`."""

_LONGEST_ANSWER: Final = 24
# Confidences that differ by rounding are equal.
_DECIMALS: Final = 12


@dataclass(frozen=True)
class WrongItem:
    """An item that a run answers wrongly.

    Attributes:
        id: its id.
        text: its question or context on one line; None if it is not known.
        right: names of the right answers; empty if the run does not say which answers these are.
        given: name of the answer that the run gives; None likewise.
        confidence: probability of that answer; NaN if it is not known.
    """

    id: str
    text: str | None
    right: tuple[str, ...]
    given: str | None
    confidence: float

    @property
    def words(self) -> str:
        """The item in a few words.

        Example:
            >>> WrongItem("t0292", None, ("replace",), "refund", 0.991).words
            't0292: refund (99%), is replace'
        """
        (name,) = short_names([self.id])
        said = "" if self.given is None else f": {_short(self.given)}"
        sure = confidence_text(self.confidence)
        right = f", is {' or '.join(map(_short, self.right))}" if self.right else ""
        return f"{name}{said}{f' ({sure})' if sure else ''}{right}"


def confidence_text(confidence: float) -> str:
    """Write a confidence as a whole percentage, never a rounded one as 100%; "" if it is NaN.

    Example:
        >>> confidence_text(0.991), confidence_text(0.9999), confidence_text(1.0)
        ('99%', '>99%', '100%')
    """
    if math.isnan(confidence):
        return ""
    text = f"{100 * confidence:.0f}%"
    return ">99%" if text == "100%" and confidence < 1 else text


def _short(answer: str) -> str:
    return one_line(cut(" ".join(answer.split()), _LONGEST_ANSWER))


@dataclass(frozen=True)
class WrongItems:
    """The surest wrong answers of a run; ties are in the order of the ids as texts.

    Attributes:
        wrong: number of items that are answered wrongly.
        answered: number of answered items.
        items: the surest of them; without confidences, the first ids.
    """

    wrong: int
    answered: int
    items: tuple[WrongItem, ...]

    @property
    def words(self) -> str:
        """The items on one line.

        Example:
            >>> WrongItems(2, 9, (WrongItem("a", None, ("yes",), "no", 0.75),)).words
            '1 surest of 2: a: no (75%), is yes'
            >>> WrongItems(1, 9, (WrongItem("a", None, ("yes",), "no", 0.75),)).words
            '1: a: no (75%), is yes'
            >>> WrongItems(0, 9, ()).words
            'none of 9 answers'
        """
        if not self.items:
            return f"none of {self.answered:,} answers"
        shown, listed = len(self.items), "; ".join(item.words for item in self.items)
        if shown == self.wrong:
            return f"{'all ' if shown > 1 else ''}{shown}: {listed}"
        if math.isnan(self.items[0].confidence):
            return f"{shown} of {self.wrong:,}, the first by id: {listed}"
        return f"{shown} surest of {self.wrong:,}: {listed}"


@dataclass(frozen=True)
class ChangedItem:
    """An item to which a run gives several answers, as the order of its answers changes.

    Attributes:
        id: its id.
        text: its question or context on one line; None if it is not known.
        right: names of the right answers; empty for ablated contexts.
        given: by name of an answer, the number of orders with it, the most frequent first.
    """

    id: str
    text: str | None
    right: tuple[str, ...]
    given: Mapping[str, int]


@dataclass(frozen=True)
class ChangedItems:
    """The items whose answer changes most with the order.

    Attributes:
        changed: number of items whose answer changes.
        tested: number of items whose orders were compared.
        items: those with the most orders that give another answer than the most frequent one; ties
            are in the order of the ids as texts.
    """

    changed: int
    tested: int
    items: tuple[ChangedItem, ...]


@dataclass(frozen=True)
class ItemLists:
    """Items of a run that are worth a look.

    Attributes:
        wrong: answered wrongly, the surest first; None for ablated contexts.
        changed: whose answer changes with the order; None if no item was shown in two orders.
        texts_known: whether a file with the texts of the items is known.
    """

    wrong: WrongItems | None
    changed: ChangedItems | None
    texts_known: bool


def wrong_items(run: ExperimentRun, items: ScoredItems, texts: ItemTexts, most: int) -> WrongItems:
    """Return the surest wrong answers of a run.

    Args:
        run: a run on full contexts.
        items: its items under a decoding, with the rows that the run has itself.
        texts: texts of its items.
        most: number of items to return.
    """
    answers, right = by_majority(items)
    confidence: FloatArray = by_repeat(items, items.confidence).mean(axis=1)
    views = None if items.views is None else run.predictions

    def ids_of(chosen: IntArray) -> Sequence[str]:
        return ids_at(run.run, chosen) if views is None else views.ids[chosen].tolist()

    chosen = _surest(confidence, ~right, ids_of, most)
    ordered = np.sort(chosen)  # a file is read in its order
    shown = items_at(run.run, ordered) if views is None else views.taken(ordered)
    listed = []
    for row, at in zip(chosen.tolist(), np.searchsorted(ordered, chosen).tolist(), strict=True):
        text, named, names = _described(shown, at, texts)
        given = None if shown.known in UNNAMED else names[answers[row]]
        named = () if given is None else named
        sure = float(confidence[row])
        listed.append(WrongItem(str(shown.ids[at]), text, named, given, sure))
    return WrongItems(int((~right).sum()), len(right), tuple(listed))


def _surest(
    confidence: FloatArray, wrong: BoolArray, ids_of: Callable[[IntArray], Sequence[str]], most: int
) -> IntArray:
    """Return (m,) the rows of the surest wrong answers; ties in the order of their ids."""
    rows: IntArray = np.flatnonzero(wrong)
    sure = np.nan_to_num(np.round(confidence[rows], _DECIMALS))
    if len(rows) > most:
        least = np.partition(sure, len(sure) - most)[len(sure) - most] if most else math.inf
        rows, sure = rows[sure >= least], sure[sure >= least]
    ids = ids_of(rows) if len(rows) else []
    order = sorted(range(len(rows)), key=lambda at: (-sure[at], ids[at]))
    return rows[order[:most]]


def _described(
    views: Predictions, at: int, texts: ItemTexts
) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """Return the text of an item, the names of its right answers, and those of all its answers."""
    item = str(views.ids[at])
    names = texts.answers(item, str(views.kind[at]), int(views.n_choices[at]))
    right = [] if views.references is None else np.flatnonzero(views.right_answers[at]).tolist()
    return texts.text(item), tuple(names[index] for index in right), names


def changed_items(items: ScoredItems, texts: ItemTexts, most: int) -> ChangedItems | None:
    """Return the items whose answer changes most with the order of their answers.

    Args:
        items: items with their views, raw.
        texts: texts of the items.
        most: number of items to return.

    Returns:
        The items; None if no item was shown in two orders.
    """
    flipped, views = items.values["flip_rate"], items.predictions
    tested = int(np.count_nonzero(~np.isnan(flipped)))
    if not tested:
        return None
    tops = metrics.predicted(views.log_probs_by_view)
    counts = {row: Counter(tops[row].tolist()) for row in np.flatnonzero(flipped == 1).tolist()}

    def rank(row: int) -> tuple[int, str]:
        return max(counts[row].values()), str(views.ids[row])

    listed = []
    for row in sorted(counts, key=rank)[:most]:
        text, right, names = _described(views, row, texts)
        given = Counter[str]()
        for answer, times in counts[row].most_common():
            given[names[answer]] += times
        listed.append(ChangedItem(str(views.ids[row]), text, right, given))
    return ChangedItems(len(counts), tested, tuple(listed))


def surest_first(item: WrongItem | DifferingItem) -> tuple[float, str]:
    """Return the key that sorts wrong answers: the surest first, and ties by id.

    Example:
        >>> items = [WrongItem(name, None, (), None, 0.5 + 0.1 * (name == "c")) for name in "bac"]
        >>> [item.id for item in sorted(items, key=surest_first)]
        ['c', 'a', 'b']
    """
    return -float(np.nan_to_num(np.round(item.confidence, _DECIMALS))), item.id


def differing_items(
    differing: Sequence[DifferingItem], views: Predictions, texts: ItemTexts, most: int
) -> dict[str, tuple[WrongItem, ...]]:
    """Return the items that only one of two runs answers correctly.

    Args:
        differing: all of them, of the runs A and B.
        views: the items of A.
        texts: texts of the items.
        most: number of items of each run to return.

    Returns:
        By the run that is right, "a" or "b", the answers of the other, which is wrong: the surest
        first, and ties in the order of the ids as texts.
    """
    listed: dict[str, tuple[WrongItem, ...]] = {}
    for side in ("a", "b"):
        right = [item for item in differing if item.correct == side]
        wrong = []
        for item in sorted(right, key=surest_first)[:most]:
            text, named, names = _described(views, item.row, texts)
            given = None if item.other is None else names[item.other]
            named = () if item.reference is None else named
            wrong.append(WrongItem(item.id, text, named, given, item.confidence))
        listed[side] = tuple(wrong)
    return listed


def by_repeat(items: ScoredItems, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return (n, R) values of the repeats of each item; R is 1 without repeats."""
    return values.reshape(-1, items.asked)


def by_majority(items: ScoredItems) -> tuple[IntArray, BoolArray]:
    """Return (n,) the answer that most repeats of each item give, and whether it is right."""
    answers, right = (by_repeat(items, values) for values in (items.predicted, items.correct))
    rows, first = np.arange(len(answers)), first_of_most(answers)
    return answers[rows, first], right[rows, first]


def first_of_most(answers: IntArray) -> IntArray:
    """Return (n,) the first repeat with the answer that most repeats give; ties to the lowest.

    Args:
        answers: (n, R) canonical index of the answer of each repeat.

    Example:
        >>> first_of_most(np.array([[2, 1, 1], [0, 2, 1]])).tolist()
        [1, 0]
    """
    if answers.shape[1] == 1:
        return np.zeros(len(answers), dtype=np.int64)
    counts = (answers[:, :, np.newaxis] == np.arange(answers.max(initial=0) + 1)).sum(axis=1)
    most = counts.argmax(axis=1)
    return np.asarray((answers == most[:, np.newaxis]).argmax(axis=1))
