"""Runs with planted letter priors and order effects, whose true distributions are known."""

from __future__ import annotations

from typing import Final

import numpy as np

from pact_eval.prompts.contract import code_orders
from pact_eval.runs.predictions import Predictions

WIDTH: Final = 6
_SKILL: Final = 1.5


def planted_run(
    rng: np.random.Generator,
    *,
    families: int = 162,
    k: int = 4,
    prior: dict[int, np.ndarray] | None = None,
    order_noise: float = 0.0,
    share_at_a: float | None = None,
    choices: tuple[int, ...] = (2, 3, 4, 5, 6),
) -> Predictions:
    """Draws a run of pairs; without prior and noise, its probabilities are the true ones.

    Args:
        rng: source of items, references and noise.
        families: number of families of two items.
        k: views per item, in the letter orders of scoring.
        prior: by number of answers, what a letter adds to the logit of the answer next to it.
        order_noise: standard deviation of what an order adds to each answer of an item.
        share_at_a: share of items whose right answer is at letter A in view 0; None draws right
            answers from the true distributions.
        choices: numbers of answers.
    """
    n = 2 * families
    n_choices = np.repeat(rng.choice(choices, families), 2)
    used = np.arange(WIDTH) < n_choices[:, None]
    truth = np.where(used, rng.normal(0, _SKILL, (n, WIDTH)), -np.inf)
    shares = np.exp(truth - np.logaddexp.reduce(truth, axis=1, keepdims=True))
    reference = (shares.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=n_choices - 1)
    if share_at_a is not None:
        truth, reference = _moved_to_a(truth, reference, rng.random(n) < share_at_a, n_choices)
    ids = np.char.add("i", np.arange(n).astype(str))
    orders = np.full((n, k, WIDTH), -1)
    logits = np.repeat(truth[:, None], k, axis=1)
    for row, (name, answers) in enumerate(zip(ids, n_choices.tolist(), strict=True)):
        orders[row, :, :answers] = code_orders(0, str(name), answers, k)
        noise: dict[tuple[int, ...], np.ndarray] = {}
        for view in range(k):
            order = tuple(orders[row, view, :answers].tolist())
            noise.setdefault(order, rng.normal(0, order_noise, answers))
            logits[row, view, :answers] += noise[order]
            if prior is not None:
                logits[row, view, list(order)] += prior[answers]
    family = np.arange(n) // 2
    return Predictions(
        ids=ids,
        family=np.char.add("f", family.astype(str)),
        source_family=np.char.add("s", (family % 18).astype(str)),
        domain=np.char.add("d", (family % 6).astype(str)),
        kind=np.where(n_choices == 2, "boolean", "choice"),
        variant=np.tile(["base", "counterfactual"], families),
        n_choices=n_choices,
        logits=logits,
        code_order=orders,
        prompt_tokens=np.full(n, 300.0),
        answer_mass=np.ones((n, k)),
        references=reference,
    )


def _moved_to_a(
    truth: np.ndarray, reference: np.ndarray, to_a: np.ndarray, n_choices: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Swaps answers, with their logits, so that right answers are at A or at no place above."""
    truth, reference = truth.copy(), reference.copy()
    target = np.where(to_a, 0, np.where(reference == 0, n_choices - 1, reference))
    rows = np.arange(len(truth))
    truth[rows, target], truth[rows, reference] = truth[rows, reference], truth[rows, target]
    return truth, target


def letter_priors(rng: np.random.Generator, size: float) -> dict[int, np.ndarray]:
    """Draws a prior for each number of answers, with a mean of 0."""
    drawn = {n: rng.normal(0, size, n) for n in range(2, WIDTH + 1)}
    return {n: values - values.mean() for n, values in drawn.items()}
