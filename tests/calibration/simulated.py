"""Items whose true temperatures are known: answers are drawn from softmax(z / T)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.temperatures import softplus

Array: TypeAlias = npt.NDArray[Any]
TrueTemperature: TypeAlias = Callable[[Array, Array, Array], Array]


def constant(temperature: float) -> TrueTemperature:
    return lambda kind, _n_choices, _tokens: np.full(len(kind), temperature)


def by_kind(choice: float, boolean: float, score: float) -> TrueTemperature:
    return lambda kind, _n_choices, _tokens: np.select(
        [kind == "choice", kind == "boolean"], [choice, boolean], score
    )


def contextual(a: float, b: float, c: float) -> TrueTemperature:
    return lambda _kind, n_choices, tokens: softplus(
        a + b * np.log(n_choices) + c * np.log(tokens / 1000)
    )


def simulate(
    n: int, rng: np.random.Generator, temperature: TrueTemperature, sources: int = 20
) -> CalibrationItems:
    """Draw n items, two a family, with 2 to 6 answers and some 250 to 1,500 prompt tokens."""
    n_choices = rng.integers(2, 7, n)
    tokens = np.round(np.exp(rng.normal(np.log(600), 0.35, n))).astype(np.float64)
    kind = np.where(n_choices == 2, "boolean", np.where(rng.random(n) < 0.3, "score", "choice"))
    logits = rng.normal(0, 3, (n, 6))
    logits[np.arange(6) >= n_choices[:, None]] = -np.inf
    truth = special.softmax(logits / temperature(kind, n_choices, tokens)[:, None], axis=1)
    drawn = (truth.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    family = np.arange(n) // 2
    return CalibrationItems(
        log_probs=special.log_softmax(logits, axis=1),
        reference=np.minimum(drawn, n_choices - 1),
        kind=kind.astype(np.str_),
        n_choices=n_choices,
        prompt_tokens=tokens,
        family=np.array([f"family-{index}" for index in family], dtype=np.str_),
        source_family=np.array([f"source-{index % sources}" for index in family], dtype=np.str_),
        decoding="single",
    )


def items_of(
    log_probs: npt.ArrayLike, reference: npt.ArrayLike, **changes: npt.ArrayLike
) -> CalibrationItems:
    """Return items of log-probabilities (n, C), all answers used; boolean where C is 2."""
    rows = np.asarray(log_probs, dtype=np.float64)
    n, width = rows.shape
    columns: dict[str, Any] = {
        "kind": np.full(n, "boolean" if width == 2 else "choice"),
        "n_choices": np.full(n, width),
        "prompt_tokens": np.full(n, 500.0),
        "family": np.array([f"family-{index}" for index in range(n)], dtype=np.str_),
        "source_family": np.full(n, "source"),
    }
    columns |= {name: np.asarray(values) for name, values in changes.items()}
    return CalibrationItems(rows, np.asarray(reference, dtype=np.int64), **columns)


def unsure(sure: float, right: int, wrong: int) -> CalibrationItems:
    """Return boolean items that are all `sure` of answer 0, and right as often as said."""
    rows = np.log(np.tile([sure, 1 - sure], (right + wrong, 1)))
    return items_of(rows, [0] * right + [1] * wrong)
