"""Remedies: the views of an item in one distribution, with letters removed or not.

A remedy takes the first views of every item and gives one distribution.
`remedied` also decodes the next views, so the flip rate of a remedy says whether its answer still
depends on the orders that it happened to get.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pact_eval._typing import FloatArray
from pact_eval.errors import InputError
from pact_eval.evaluation.items import ScoredItems
from pact_eval.metrics.decoding import NONE_LEFT, normalise
from pact_eval.remedies.priors import LetterPrior, PriorMethod, contextually_calibrated
from pact_eval.runs.predictions import Predictions

_FLIP_RATE: Final = "flip_rate"
_REMOVED: Final[Mapping[PriorMethod, str]] = {
    "additive": ", prior removed",
    "batch": ", batch calibrated",
}
_NAME: Final = re.compile(r"k([1-9]\d{0,2})")


@dataclass(frozen=True, slots=True)
class Remedy:
    """A decoding of some views of every item: their mean log-probability.

    Attributes:
        views: number of views, from 1.
        prior: the estimator of the letter prior that is removed from every view; None for none.
        from_file: whether prior and temperature are those of a file, fitted on another run.
        contextual: whether every view is divided by its content-free distribution.

    Examples:
        >>> Remedy(2).name, Remedy(1, prior="additive").title
        ('k2', 'K = 1, prior removed')
        >>> Remedy(2, from_file=True).title
        'K = 2 (file)'
    """

    views: int
    prior: PriorMethod | None = None
    from_file: bool = False
    contextual: bool = False

    @property
    def name(self) -> str:
        """Name in files and in JSON."""
        parts = [f"k{self.views}"]
        if self.prior is not None:
            parts.append(self.prior)
        if self.contextual:
            parts.append("contextual")
        return "_".join([*parts, "from_file"] if self.from_file else parts)

    @property
    def title(self) -> str:
        """Name in tables."""
        removed = "" if self.prior is None else _REMOVED[self.prior]
        if self.contextual:
            removed += ", contextual"
        return f"K = {self.views}{removed}{' (file)' if self.from_file else ''}"


_OF_LETTERS: Final = (
    Remedy(1, prior="additive"),
    Remedy(1, prior="batch"),
    Remedy(1, contextual=True),
    Remedy(2, prior="additive"),
)
"""Decodings that remove letters. Further orders cancel what is left of them."""


def remedies_for(
    k: int, *, same_orders: bool = False, content_free: bool = True
) -> tuple[Remedy, ...]:
    """Return one view and the remedies that a run of K views can show, fewest views first.

    Args:
        k: number of views per item.
        same_orders: whether the views repeat one order, as repeats do: they say nothing of letters.
        content_free: whether the run has content-free prompts.

    Examples:
        >>> [remedy.name for remedy in remedies_for(1, content_free=False)]
        ['k1', 'k1_batch']
        >>> [remedy.name for remedy in remedies_for(4)]
        ['k1', 'k1_additive', 'k1_batch', 'k1_contextual', 'k2', 'k2_additive', 'k4']
    """
    views = sorted({1, min(2, k), k})
    letters = [
        remedy
        for remedy in _OF_LETTERS
        if remedy.views <= k
        and (remedy.prior != "additive" or (k > 1 and not same_orders))
        and (content_free or not remedy.contextual)
    ]
    remedies = [*map(Remedy, views), *letters]
    return tuple(sorted(remedies, key=lambda remedy: remedy.views))


def remedy_of_name(name: str) -> Remedy:
    """Return the remedy of a name: any number of views, or a decoding that removes letters.

    Raises:
        InputError: no remedy has that name.

    Examples:
        >>> remedy_of_name("k2_additive") == Remedy(2, prior="additive")
        True
        >>> remedy_of_name("k3") == Remedy(3)
        True
    """
    views = _NAME.fullmatch(name)
    if views is not None:
        return Remedy(int(views[1]))
    for remedy in _OF_LETTERS:
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
    if metric != _FLIP_RATE or items.k > 1 or items.repeats > 1:
        return None
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
    if remedy.views > predictions.k:
        message = f"{remedy.title}: expected {remedy.views} views or more, got {predictions.k}"
        raise InputError(message)
    if (prior and prior.method) != remedy.prior:
        raise InputError(f"{remedy.title}: expected its letter prior, and no other")
    by_view = _views_of(predictions, remedy, prior, content_free)
    starts = [start for start in (0, remedy.views) if start + remedy.views <= by_view.shape[1]]
    sets = [
        normalise(by_view[:, start : start + remedy.views].mean(axis=1), NONE_LEFT)
        for start in starts
    ]
    return replace(
        predictions,
        logits=np.stack(sets, axis=1),
        code_order=predictions.code_order[:, starts],
        answer_mass=predictions.answer_mass[:, starts],
        censored=None,
        known="probabilities",
    )


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
