"""Remedies: ways to combine the views of an item, with a letter prior removed or not.

A remedy takes the first views of every item and gives one distribution.
`remedied` also decodes the next views, so the flip rate of a remedy says whether its answer still
depends on the orders that it happened to get.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from pact_eval._typing import FloatArray
from pact_eval.errors import InputError
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import find_metric
from pact_eval.metrics.decoding import NONE_LEFT, normalise
from pact_eval.remedies.contextual import contextually_calibrated
from pact_eval.remedies.letter_priors import LetterPrior, PriorMethod
from pact_eval.remedies.second_orders import second_orders
from pact_eval.runs.predictions import Predictions

Combination = Literal["log-probability", "probability", "majority"]
"""How the views of an item become one answer."""

NO_PROBABILITIES: Final = "a majority has no probabilities"

_FLIP_RATE: Final = "flip_rate"
_COMBINED: Final[Mapping[Combination, str]] = {
    "log-probability": "",
    "probability": ", mean of p",
    "majority": ", majority",
}
_REMOVED: Final[Mapping[PriorMethod, str]] = {
    "additive": ", prior removed",
    "pride": ", PriDe",
    "batch": ", batch calibrated",
}

_NAME: Final = re.compile(r"k(\d{1,4})(?:_[a-z_]+)?")
_MOST_NAMED: Final = 1_000
_LEAST_VIEWS: Final[Mapping[Combination, int]] = {"probability": 2, "majority": 3}
_PRIORS_OF_ORDERS: Final[tuple[PriorMethod, ...]] = ("additive", "pride")
_MOST_CORRECTED: Final = 2
"""Letters are removed from at most so many views: further orders cancel what is left of them."""

SecondOrder = Literal["next", "reverse", "other"]
"""Which order the second view of an item shows."""

_SECOND: Final[Mapping[SecondOrder, str]] = {
    "next": "",
    "reverse": ", reverse order",
    "other": ", other order",
}


@dataclass(frozen=True, slots=True)
class Remedy:
    """A decoding of some views of every item.

    Attributes:
        views: number of views, from 1.
        combination: of several views: mean log-probability, mean probability, or the answer of most
            views, with ties broken by the mean log-probability.
        prior: the estimator of the letter prior that is removed from every view; None for none.
        as_published: whether the prior is fitted on the evaluated items themselves, as batch
            calibration was published. It is fitted on other families otherwise.
        from_file: whether prior and temperature are those of a file, fitted on another run.
        contextual: whether every view is divided by its content-free distribution.
        second: which order follows that of view 0: the next view, the reverse of the first order,
            or the first order that is neither; see `second_orders`.

    Examples:
        >>> Remedy(2).name, Remedy(1, prior="additive").title
        ('k2', 'K = 1, prior removed')
        >>> Remedy(1, prior="batch", as_published=True).name
        'k1_batch_as_published'
        >>> Remedy(2, from_file=True).title
        'K = 2 (file)'
    """

    views: int
    combination: Combination = "log-probability"
    prior: PriorMethod | None = None
    as_published: bool = False
    from_file: bool = False
    contextual: bool = False
    second: SecondOrder = "next"

    @property
    def name(self) -> str:
        """Name in files and in JSON."""
        parts = [f"k{self.views}"]
        if self.combination != "log-probability":
            parts.append(self.combination)
        if self.prior is not None:
            parts.append(self.prior)
        if self.contextual:
            parts.append("contextual")
        if self.second != "next":
            parts.append(self.second)
        if self.as_published:
            parts.append("as_published")
        return "_".join([*parts, "from_file"] if self.from_file else parts)

    @property
    def title(self) -> str:
        """Name in tables."""
        removed = "" if self.prior is None else _REMOVED[self.prior]
        if self.contextual:
            removed += ", contextual"
        fit = " on itself" if self.as_published else " (file)" if self.from_file else ""
        second = _SECOND[self.second]
        return f"K = {self.views}{second}{_COMBINED[self.combination]}{removed}{fit}"

    @property
    def has_probabilities(self) -> bool:
        """Whether the result is a distribution: a majority is an answer only."""
        return self.combination != "majority"


def remedies_for(
    k: int,
    *,
    same_orders: bool = False,
    content_free: int = 0,
    seconds: Sequence[SecondOrder] = (),
) -> tuple[Remedy, ...]:
    """Return the remedies that a run of K views can show, those of fewest views first.

    Args:
        k: number of views per item.
        same_orders: whether the views repeat one order, as repeats do: they say nothing of letters.
        content_free: number of views of which the content-free distributions are known.
        seconds: second orders that all items have, besides the next view.

    Means of p need two views, and majorities three: of two views, a majority is a tie.

    Examples:
        >>> [remedy.name for remedy in remedies_for(1)]
        ['k1', 'k1_batch', 'k1_batch_as_published']
        >>> [remedy.name for remedy in remedies_for(3)][-3:]
        ['k3', 'k3_probability', 'k3_majority']
    """
    remedies: list[Remedy] = []
    for views in range(1, k + 1):
        remedies.append(Remedy(views))
        if views == 2:
            remedies += [Remedy(2, second=second) for second in seconds]
        remedies += [Remedy(views, way) for way, least in _LEAST_VIEWS.items() if views >= least]
        if views <= _MOST_CORRECTED:
            methods = _PRIORS_OF_ORDERS if k > 1 and not same_orders else ()
            remedies += [Remedy(views, prior=method) for method in (*methods, "batch")]
            remedies.append(Remedy(views, prior="batch", as_published=True))
            remedies += [Remedy(views, contextual=True)] if content_free >= views else []
    return tuple(remedies)


def remedy_of_name(name: str) -> Remedy:
    """Return the remedy of a name, except those of a file.

    Raises:
        InputError: no remedy has that name.

    Examples:
        >>> remedy_of_name("k2_additive") == Remedy(2, prior="additive")
        True
    """
    match = _NAME.fullmatch(name)
    views = 0 if match is None else int(match[1])
    # Letters can be removed from one view if the run has two.
    largest = max(views, 2) if 0 < views <= _MOST_NAMED else 0
    seconds: tuple[SecondOrder, ...] = ("reverse", "other")
    for remedy in remedies_for(largest, content_free=_MOST_CORRECTED, seconds=seconds):
        if remedy.name == name:
            return remedy
    message = f"expected the name of a remedy, such as k2 or k2_additive, got {name!r}"
    raise InputError(message)


def why_undefined(remedy: Remedy, metric: str, items: ScoredItems) -> str | None:
    """Return why a metric of decoded items is undefined, if that is because of their decoding.

    Args:
        remedy: the decoding.
        metric: name of a metric, undefined on the items.
        items: scored items of what `remedied` returned. Without next views, they have one view.

    Returns:
        The reason; None if it is that of any items, which the metric itself has.
    """
    if not remedy.has_probabilities and not find_metric(metric).defined_for("answers"):
        return NO_PROBABILITIES
    if metric != _FLIP_RATE or items.k > 1 or items.repeats > 1:
        return None
    if remedy.second != "next":
        return "the orders of these two views are chosen: there are no next ones"
    return f"needs {2 * remedy.views} views per item"


def remedied(
    predictions: Predictions,
    remedy: Remedy,
    prior: LetterPrior | None,
    content_free: FloatArray | None = None,
) -> Predictions:
    """Decode the views of a run by a remedy.

    Args:
        predictions: views of items; at least as many as the remedy takes.
        remedy: the decoding.
        prior: its letter prior; None if it has none.
        content_free: (n, V, C) content-free probabilities of the first V views; used by contextual
            remedies.

    Returns:
        The same items. Their view 0 is the remedied distribution of the first views. Their view 1,
        if there are twice as many views, is that of the next ones. Repeats stay repeats, also if
        there is one view.

    Raises:
        InputError: there are fewer views, the content-free probabilities are missing, or the prior
            is missing or of another estimator.
        ValueError: the views of an item leave no answer possible.
    """
    if remedy.second != "next":
        predictions = _with_second(predictions, remedy)
    if remedy.views > predictions.k:
        message = f"{remedy.title}: expected {remedy.views} views or more, got {predictions.k}"
        raise InputError(message)
    if (prior and prior.method) != remedy.prior:
        raise InputError(f"{remedy.title}: expected its letter prior, and no other")
    by_view = _views_of(predictions, remedy, prior, content_free)
    starts = [start for start in (0, remedy.views) if start + remedy.views <= by_view.shape[1]]
    combine = _COMBINE[remedy.combination]
    sets = [combine(by_view[:, start : start + remedy.views]) for start in starts]
    return replace(
        predictions,
        logits=np.stack(sets, axis=1),
        code_order=predictions.code_order[:, starts],
        answer_mass=predictions.answer_mass[:, starts],
        censored=None,
        known="probabilities" if remedy.has_probabilities else "answers",
    )


def _with_second(predictions: Predictions, remedy: Remedy) -> Predictions:
    """Return the first view of every item with its reverse or other order as the second."""
    orders = second_orders(predictions)
    second = orders.reverse if remedy.second == "reverse" else orders.other
    if (second < 0).any():
        message = (
            f"{remedy.title}: {int((second < 0).sum()):,} of {len(second):,} items have no such "
            "view; score the run with --orders antithetic --k 3"
        )
        raise InputError(message)
    return predictions.chosen_views(np.stack([np.zeros_like(second), second], axis=1))


def _views_of(
    predictions: Predictions,
    remedy: Remedy,
    prior: LetterPrior | None,
    content_free: FloatArray | None,
) -> FloatArray:
    """Return the log-probabilities of views that the remedy combines."""
    if remedy.contextual:
        if content_free is None or content_free.shape[1] < remedy.views:
            message = (
                f"{remedy.title}: the run has no content-free prompts of {remedy.views} views; "
                "score it again with --content-free, which adds them"
            )
            raise InputError(message)
        return contextually_calibrated(predictions, content_free)
    return predictions.log_probs_by_view if prior is None else prior.removed(predictions)


def _mean_log_probability(by_view: FloatArray) -> FloatArray:
    return normalise(by_view.mean(axis=1), NONE_LEFT)


def _mean_probability(by_view: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        mean: FloatArray = np.log(np.exp(by_view).mean(axis=1))
    return mean


def _majority(by_view: FloatArray) -> FloatArray:
    """Return 0 at the answer of most views and -inf elsewhere; ties have the largest mean."""
    n, _, width = by_view.shape
    answers = by_view.argmax(axis=2)
    votes = (answers[..., np.newaxis] == np.arange(width)).sum(axis=1)
    tied = votes == votes.max(axis=1, keepdims=True)
    # An answer that one view excludes keeps its votes: only its mean is -inf.
    mean = np.where(tied, np.maximum(by_view.mean(axis=1), np.finfo(np.float64).min), -np.inf)
    chosen = np.full((n, width), -np.inf)
    chosen[np.arange(n), mean.argmax(axis=1)] = 0.0
    return chosen


_COMBINE: Final[Mapping[Combination, Callable[[FloatArray], FloatArray]]] = {
    "log-probability": _mean_log_probability,
    "probability": _mean_probability,
    "majority": _majority,
}
