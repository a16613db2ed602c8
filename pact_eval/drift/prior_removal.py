r"""Test of whether two runs differ by a letter prior that was removed from one of them.

If a letter prior is removed from run B and not from run A, their log-probabilities differ by the
same amount at the same letter of every item, up to a constant of the item:

.. math:: \log p_A(a) - \log p_B(a) = \beta_{l(a)} + \text{constant}

The prior is fitted by least squares, for each number of answers. If almost no distance is left once
it is put back, one run lacks it. Which one is told by the preference that the views of a run show:
it is close to 0 after the removal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from pact_eval._typing import FloatArray
from pact_eval.drift.distances import item_tv
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.metrics import log_softmax
from pact_eval.remedies.letter_priors import fit_letter_prior, letters_of_answers
from pact_eval.runs.predictions import Predictions

PriorSide = Literal["first", "second", "cannot tell"]
"""Which run has the prior removed; cannot tell: neither has views that show its preference."""

_FEWEST: Final = 10
"""Items of a number of answers; a prior of C letters fits fewer by chance."""

_LEAST_TV: Final = 0.005
_LEFT: Final = 0.2


@dataclass(frozen=True)
class PriorRemoval:
    """A letter prior by which two runs differ.

    Attributes:
        removed_from: the run that lacks it.
        log_prior: by number of answers, the log-preference of letters A, B, ... in nats that the
            run without it lacks, with a mean of 0.
        items: number of items with such a number of answers.
        tv: mean TV between the runs on these items, at view 0.
        tv_left: mean TV once the prior is put back.
    """

    removed_from: PriorSide
    log_prior: Mapping[int, tuple[float, ...]]
    items: int
    tv: float
    tv_left: float

    @property
    def largest(self) -> tuple[str, float]:
        """The letter with the largest preference, and its size in nats."""
        sizes = [
            (abs(value), chr(ord("A") + at), value)
            for values in self.log_prior.values()
            for at, value in enumerate(values)
        ]
        _, letter, value = max(sizes)
        return letter, value


def prior_removal(first: ExperimentRun, second: ExperimentRun) -> PriorRemoval | None:
    """Return the letter prior by which a local run and one from elsewhere differ.

    Args:
        first: a run; the items of both are in the same order.
        second: another run.

    Returns:
        None if the runs do not differ by a letter prior, if both were scored here, or if letters or
        probabilities are not known.
    """
    elsewhere = [
        run.provenance.served or run.provenance.source != "score" for run in (first, second)
    ]
    sides = (first, second)
    if not any(elsewhere) or any(
        run.ablated or run.provenance.known != "probabilities" for run in sides
    ):
        return None
    a, b = first.predictions, second.predictions
    try:
        letters = letters_of_answers(a.first_views(1))[:, 0]
        p, q = (views.first_views(1).log_probs("single") for views in (a, b))
    except (InputError, ValueError):
        return None
    width = min(p.shape[1], q.shape[1])
    return _between(p[:, :width], q[:, :width], letters[:, :width], (a, b))


def _between(
    p: FloatArray, q: FloatArray, letters: np.ndarray, views: tuple[Predictions, Predictions]
) -> PriorRemoval | None:
    n_choices = views[0].n_choices
    log_prior: dict[int, tuple[float, ...]] = {}
    distances: list[FloatArray] = []
    left: list[FloatArray] = []
    for count in np.unique(n_choices).tolist():
        rows = n_choices == count
        of_p, of_q = p[rows, :count], q[rows, :count]
        finite = np.isfinite(of_p).all(axis=1) & np.isfinite(of_q).all(axis=1)
        if finite.sum() < _FEWEST:
            continue
        of_p, of_q, at = of_p[finite], of_q[finite], letters[rows][finite, :count]
        by_letter = np.empty(of_p.shape)
        np.put_along_axis(by_letter, at, of_p - of_q, axis=1)
        by_letter -= by_letter.mean(axis=1, keepdims=True)
        prior = by_letter.mean(axis=0)
        without = log_softmax(of_p - prior[at], np.full(len(of_p), count))
        log_prior[count] = tuple(prior.tolist())
        distances.append(item_tv(np.exp(of_p), np.exp(of_q)))
        left.append(item_tv(np.exp(without), np.exp(of_q)))
    if not log_prior:
        return None
    tv, tv_left = (float(np.concatenate(parts).mean()) for parts in (distances, left))
    if tv < _LEAST_TV or tv_left > _LEFT * tv:
        return None
    side, sign = _side(views, log_prior)
    signed = {count: tuple(sign * value for value in row) for count, row in log_prior.items()}
    return PriorRemoval(side, signed, sum(map(len, distances)), tv, tv_left)


def _side(
    views: tuple[Predictions, Predictions], log_prior: Mapping[int, tuple[float, ...]]
) -> tuple[PriorSide, int]:
    """Return the run that has less of the preference, and the sign of what it lacks."""
    for number, own in enumerate(views):
        if own.k == 1 or own.repeats:
            continue
        try:
            fitted = fit_letter_prior(own, "additive").log_prior
        except InputError:
            continue
        counts = [count for count in log_prior if count in fitted]
        if not counts:
            continue
        here = np.concatenate([fitted[count] for count in counts])
        apart = np.concatenate([np.array(log_prior[count]) for count in counts])
        # The preference of the first run is that of the second plus what lies between them.
        first, second = (here, here - apart) if number == 0 else (here + apart, here)
        if np.square(second).sum() < np.square(first).sum():
            return "second", 1
        return "first", -1
    return "cannot tell", 1
