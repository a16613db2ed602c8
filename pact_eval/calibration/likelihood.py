"""The NLL of a form of calibrator on some items: items, design columns and likelihood.

The logarithms of C and L are centred and scaled to a standard deviation of 1, so the level of
the temperatures is all but independent of the slopes, and a ridge means the same on both slopes.
`raw` takes the fitted numbers back to a, b and c.

The likelihood of temperatures, with its first and second derivatives.

With s = z - max z, beta = 1 / T and p = softmax(beta z), an item costs

    NLL = log sum_j e^(beta s_j) - beta s_y                        (never overflows: s <= 0)
    dNLL/dbeta = E_p[s] - s_y          d2NLL/dbeta2 = Var_p[s]

and T = softplus(u) with u linear in the parameters, T' = sigmoid(u) = q, T'' = q (1 - q), so

    dbeta/du = -q / T^2                d2beta/du2 = 2 q^2 / T^3 - q (1 - q) / T^2

The NLL is convex in beta, hence has one minimum in u where all items share one T; over slopes it
need not be convex.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from pact_eval._choices import Decoding, Mode
from pact_eval._typing import BoolArray, FloatArray, IntArray, TextArray
from pact_eval.calibration.temperatures import (
    KINDS,
    NEUTRAL_BIAS,
    TEMPERATURE_FLOOR,
    Calibrator,
    Weights,
    asked_questions,
    inverse_softplus,
    softplus,
)
from pact_eval.errors import InputError, missing_probabilities
from pact_eval.metrics import TIE, correct, nll_nats, rows_of
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.estimate import ClusterText
from pact_eval.stats.rates import few_clusters, few_outcomes

FEWEST: Final = 100
"""A question with fewer families, or with fewer than five that have an error or a right answer, has
no temperature of its own. It would cost about 0.5 / F nats on new items with F families if no
questions differed, and gain as much if log T had a standard deviation of 0.15 over questions."""

NO_QUESTION: Final = (
    f"no question has {FEWEST} families, five of them with an error and five with a right answer"
)


@dataclass(frozen=True, eq=False)
class CalibrationItems:
    """Uncalibrated distributions with their references, and what a temperature may depend on.

    Attributes:
        log_probs: shape (n, C), log-probabilities in nats, canonical order, unused slots -inf.
        reference: shape (n,), canonical index of the right answer.
        kind: shape (n,), "choice", "boolean" or "score".
        n_choices: shape (n,), number of answers of each item.
        prompt_tokens: shape (n,), tokens of view 0, above 0; NaN if unknown.
        family: shape (n,), the clusters that standard errors respect; "" where unknown.
        source_family: shape (n,), what `choose_mode` leaves out together; "" where unknown.
        decoding: how the distributions were made; None if unknown.
        question: shape (n,), name of the question of each item; None if unknown.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.calibration.likelihood import CalibrationItems
        >>> names = np.array(["f1", "f2"])
        >>> items = CalibrationItems(
        ...     np.log([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 1]), np.array(["boolean"] * 2),
        ...     np.array([2, 2]), np.array([300.0, 400.0]), names, names)
        >>> len(items), len(items.take(np.array([False, True])))
        (2, 1)
    """

    log_probs: FloatArray
    reference: IntArray
    kind: TextArray
    n_choices: IntArray
    prompt_tokens: FloatArray
    family: TextArray
    source_family: TextArray
    decoding: Decoding | None = None
    question: TextArray | None = None

    def __len__(self) -> int:
        return len(self.reference)

    @classmethod
    def from_predictions(cls, predictions: Predictions, decoding: Decoding) -> CalibrationItems:
        """Take the items of a run under a decoding.

        Args:
            predictions: the scored views of a run.
            decoding: single (view 0) or ensemble (K views).

        Raises:
            InputError: the run has answers and no probabilities, or several right answers.
        """
        if predictions.known != "probabilities":
            raise missing_probabilities("a calibrator", predictions.known)
        if predictions.accepted is not None:
            raise InputError(
                "items have several right answers, and the reference is the most probable of them: "
                "its NLL cannot be fitted"
            )
        return cls(
            log_probs=predictions.log_probs(decoding),
            reference=predictions.reference,
            kind=predictions.kind,
            n_choices=predictions.n_choices,
            prompt_tokens=predictions.prompt_tokens,
            family=predictions.family,
            source_family=predictions.source_family,
            decoding=decoding,
            question=predictions.question,
        )

    @cached_property
    def likelihood(self) -> TemperatureLikelihood:
        """The NLL as a function of the temperatures.

        Raises:
            InputError: a right answer has probability 0.
        """
        return TemperatureLikelihood.of(self.log_probs, self.reference)

    def family_codes(self) -> tuple[IntArray, int]:
        """Number the families from 0 on; an item of unknown family is one of its own.

        Returns:
            (n,) code of each item, and the number of families.

        Examples:
            >>> names = np.array(["f2", "", "f1", "f2", ""])
            >>> items = CalibrationItems(
            ...     np.log(np.full((5, 2), 0.5)), np.zeros(5, np.int64), np.full(5, "boolean"),
            ...     np.full(5, 2), np.full(5, 300.0), names, names)
            >>> items.family_codes()
            (array([1, 2, 0, 1, 3]), 4)
        """
        names, codes = np.unique(self.family, return_inverse=True)
        own = len(names) + np.arange(len(self))
        distinct, codes = np.unique(np.where(self.family == "", own, codes), return_inverse=True)
        return codes.astype(np.int64), len(distinct)

    def too_few(self) -> ClusterText | None:
        """Return why the effect of a temperature has no interval: few families, or few outcomes.

        A temperature leaves the answers as they are.
        """
        family, families = self.family_codes()
        reason = few_clusters(families)
        if reason is not None or families < 2:
            return reason
        right = correct(self.log_probs, self.reference)
        return few_outcomes(
            *(np.unique(family[right == outcome]).size for outcome in (False, True))
        )

    def rows_by_question(self) -> dict[str, IntArray]:
        """Return the rows of each question, by sorted name.

        Raises:
            InputError: the questions are unknown.
        """
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(asked_questions(self)):
            rows.setdefault(name, []).append(row)
        return {name: np.array(rows[name]) for name in sorted(rows)}

    def own_questions(self) -> tuple[str, ...]:
        """Return the questions that have a temperature of their own; see `FEWEST`."""
        rows = self.rows_by_question().items()
        large = {name: self.take(at) for name, at in rows if len(at) >= FEWEST}
        return tuple(
            name
            for name, items in large.items()
            if items.family_codes()[1] >= FEWEST and items.too_few() is None
        )

    def nll(self, calibrator: Calibrator) -> FloatArray:
        """Return (n,) NLL in nats at the temperatures of a calibrator."""
        return nll_nats(calibrator.apply(self.log_probs, self), self.reference)

    def take(self, keep: BoolArray | IntArray) -> CalibrationItems:
        """Return the rows that a mask or an index keeps."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        per_item: dict[str, Any] = {
            name: array[keep] for name, array in arrays.items() if isinstance(array, np.ndarray)
        }
        return replace(self, **per_item)


TEMPERATURE_BOUNDS: Final = (0.05, 20.0)
"""A fit keeps the level of the temperatures in this range: the scalar T, the T of each kind, or the
T at the geometric mean of C and L."""

SLOPE_BOUND: Final = 10.0
"""A fit keeps the slopes b and c within plus or minus this."""

_SLOPES: Final = ("log_choices", "log_tokens")


@dataclass(frozen=True, eq=False)
class Design:
    """The columns of a form of calibrator on some items.

    Attributes:
        items: the items.
        mode: the form.
        matrix: (n, p) columns: 1 for all items, or for those of one kind; then scaled slopes.
        raw: (p, p) takes the fitted numbers to the parameters called `names`.
        names: (p,) "bias" or "bias_choice", ...; then "log_choices", "log_tokens".
        spans: by slope, max less min of its logarithm over the items.
        unvaried: by slope that is not fitted, why not.
    """

    items: CalibrationItems
    mode: Mode
    matrix: FloatArray
    raw: FloatArray
    names: tuple[str, ...]
    spans: dict[str, float]
    unvaried: dict[str, str]

    @property
    def is_slope(self) -> BoolArray:
        """Mask of the p numbers: True for slopes."""
        return np.array([name in _SLOPES for name in self.names], dtype=np.bool_)

    @property
    def start(self) -> FloatArray:
        """The fitted numbers at which T = 1 everywhere."""
        return np.where(self.is_slope, 0.0, inverse_softplus(1.0))

    @property
    def bounds(self) -> FloatArray:
        """(p, 2) range of each fitted number."""
        low, high = (inverse_softplus(temperature) for temperature in TEMPERATURE_BOUNDS)
        scale = SLOPE_BOUND / np.diag(self.raw)
        slope = np.column_stack([-scale, scale])
        return np.where(self.is_slope[:, None], slope, [low, high])

    def calibrator(self, fitted: FloatArray) -> Calibrator:
        """Return the calibrator with these fitted numbers; a kind without items keeps T = 1."""
        values = dict(zip(self.names, (self.raw @ fitted).tolist(), strict=True))
        shared = values.get("bias", NEUTRAL_BIAS)
        bias = tuple(values.get(f"bias_{kind}", shared) for kind in KINDS)
        slopes = (values.get(name, 0.0) for name in _SLOPES)
        return Calibrator(self.mode, Weights((bias[0], bias[1], bias[2]), *slopes))


def make_design(items: CalibrationItems, mode: Mode) -> Design:
    """Build the columns of a form.

    Args:
        items: what it is fitted on.
        mode: the form. Kinds without items, and slopes on what does not vary, get no column.

    Raises:
        InputError: the contextual form, and the prompt length of an item is unknown.
    """
    if mode == "contextual":
        return _contextual(items)
    n = len(items)
    if mode == "scalar":
        return Design(items, mode, np.ones((n, 1)), np.eye(1), ("bias",), {}, {})
    present = [kind for kind in KINDS if (items.kind == kind).any()]
    matrix = (items.kind[:, None] == np.array(present, dtype=np.str_)).astype(np.float64)
    names = tuple(f"bias_{kind}" for kind in present)
    matrix = matrix.reshape(n, len(present))
    return Design(items, mode, matrix, np.eye(len(present)), names, {}, {})


def _contextual(items: CalibrationItems) -> Design:
    unknown = np.isnan(items.prompt_tokens)
    if unknown.any():
        raise InputError(
            f"the contextual form needs the prompt length of every item, unknown in "
            f"{rows_of(unknown)}: score the run again, or fit the scalar or per-kind form"
        )
    logs = {
        "log_choices": np.log(items.n_choices.astype(np.float64)),
        "log_tokens": np.log(items.prompt_tokens / 1000.0),
    }
    unvaried = {} if len(items) else dict.fromkeys(logs, "there are no items")
    for name, what, scale in (("log_choices", "answers", 1), ("log_tokens", "prompt tokens", 1000)):
        if len(items) and np.ptp(logs[name]) == 0:
            unvaried[name] = f"every item has {np.exp(logs[name][0]) * scale:,.0f} {what}"
    varied = [name for name in logs if name not in unvaried]
    spread = [float(logs[name].std()) for name in varied]
    centre = [float(logs[name].mean()) for name in varied]
    columns = [(logs[name] - m) / s for name, m, s in zip(varied, centre, spread, strict=True)]
    raw = np.diag([1.0, *(1.0 / s for s in spread)])
    # a = level - b * mean log C - c * mean log(L / 1000)
    raw[0, 1:] = [-m / s for m, s in zip(centre, spread, strict=True)]
    spans = {name: float(np.ptp(logs[name])) for name in varied}
    matrix = np.column_stack([np.ones(len(items)), *columns])
    return Design(items, "contextual", matrix, raw, ("bias", *varied), spans, unvaried)


@dataclass(frozen=True, eq=False)
class TemperatureLikelihood:
    """NLL of n items as a function of u, where T = max(softplus(u), 0.001).

    Attributes:
        shifted: (n, C) logits less their maximum; -inf in slots without probability.
        finite: (n, C) the same with 0 for -inf, for products with probabilities of 0.
        of_reference: (n,) shifted logit of the right answer, finite.

    Examples:
        >>> import numpy as np
        >>> terms = TemperatureLikelihood.of(np.log([[0.9, 0.1]]), np.array([0]))
        >>> nll, slope = terms.nll_and_slope(np.array([0.5413248546129181]))
        >>> bool(np.isclose(nll[0], -np.log(0.9)))
        True
    """

    shifted: FloatArray
    finite: FloatArray
    of_reference: FloatArray

    @classmethod
    def of(cls, log_probs: FloatArray, reference: IntArray) -> TemperatureLikelihood:
        """Prepare log-probabilities (n, C), unused slots -inf, and references (n,).

        Raises:
            InputError: a right answer has probability 0, so the NLL is infinite at every T.
        """
        shifted = log_probs - log_probs.max(axis=1, keepdims=True)
        of_reference = shifted[np.arange(len(reference)), reference]
        impossible = np.isneginf(of_reference)
        if impossible.any():
            raise InputError(
                f"the right answer has probability 0 in {rows_of(impossible)}: its NLL is infinite "
                "at every temperature, and without such items the fit would be too confident; "
                "bring probabilities with more digits, or logits"
            )
        finite = np.where(np.isneginf(shifted), 0.0, shifted)
        return cls(shifted, finite, of_reference)

    def nll_and_slope(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return NLL in nats and dNLL/du, each (n,); the slope is 0 where T is held at the floor.

        Args:
            u: (n,) as in T = softplus(u).
        """
        temperature = np.maximum(softplus(u), TEMPERATURE_FLOOR)
        beta = 1.0 / temperature
        weights = np.exp(self.shifted * beta[:, None])
        total = weights.sum(axis=1)
        nll = np.log(total) - beta * self.of_reference
        mean = np.einsum("ij,ij->i", weights, self.finite) / total
        return nll, (mean - self.of_reference) * _beta_slope(u, temperature)

    def curvature(self, u: FloatArray) -> FloatArray:
        """Return d2NLL/du2, (n,); 0 where T is held at the floor."""
        from scipy import special  # reports on raw runs do without it

        temperature = np.maximum(softplus(u), TEMPERATURE_FLOOR)
        p = np.exp(self.shifted / temperature[:, None])
        p /= p.sum(axis=1, keepdims=True)
        mean = np.einsum("ij,ij->i", p, self.finite)
        variance = np.einsum("ij,ij->i", p, np.square(self.finite - mean[:, None]))
        q = special.expit(u)
        bend = 2 * q**2 / temperature**3 - q * (1 - q) / temperature**2
        bend[temperature <= TEMPERATURE_FLOOR] = 0.0
        first = _beta_slope(u, temperature)
        return np.asarray(variance * first**2 + (mean - self.of_reference) * bend)

    def separated(self, rows: BoolArray) -> bool:
        """Say whether the NLL of these rows decreases monotonically as T approaches 0.

        So it is where every right answer is the most probable one and is not merely tied with all
        the others everywhere.
        """
        right = bool((self.of_reference[rows] >= -TIE).all())
        return right and bool((self.finite[rows] < -TIE).any())


def _beta_slope(u: FloatArray, temperature: FloatArray) -> FloatArray:
    from scipy import special  # reports on raw runs do without it

    slope = -special.expit(u) / temperature**2
    slope[temperature <= TEMPERATURE_FLOOR] = 0.0
    return np.asarray(slope)
