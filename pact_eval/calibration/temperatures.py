"""A calibrator: the temperature of each item, and its effect on a distribution.

    T(x) = max(softplus(a + b log C + c log(L / 1000)), 0.001)        p = softmax(z / T)

C is the number of answers of an item, L the length of its view 0 in tokens. With b = c = 0 this is
temperature scaling, with one a for all items (`scalar`), one for each field kind (`per-kind`), or
one for each question and one for all others (`per-question`).

The file of a calibrator has the released format, or the published form that came before it:

    {"format": "pact-calibrator-2",
     "mode": "scalar" | "per-kind" | "per-question" | "contextual",
     "weights": {"bias": [choice, boolean, score], "log_choices": b, "log_tokens": c,
                 "questions": {name: a} with the mode per-question alone},
     "fit": {how it was fitted: items, families, temperatures, standard errors, notes, ...},
     "sha256": SHA-256 of the other members}

The hash shows weights that were changed by accident or by hand; it is no signature. The published
form has no "format", "fit" or "sha256", and may have keys besides "mode" and "weights". All but
per-kind calibrators read bias[0] for all kinds; we write it three times.

Notes on a calibrator that is applied to a run: their kind, their numbers and their sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from pact_eval._choices import Mode
from pact_eval._files import read_json, write_atomically
from pact_eval._json import Json, describe, dumps
from pact_eval._typing import FloatArray
from pact_eval.data.records import FieldKind
from pact_eval.errors import InputError, TamperedError
from pact_eval.metrics import TIE, check_log_probs, check_whole, log_softmax, rows_of
from pact_eval.results import Note
from pact_eval.runs.identity import QUESTION
from pact_eval.runs.provenance import Provenance
from pact_eval.schema import Section, convert, sha256_fits, with_sha256
from pact_eval.templates.files import TEMPLATE_CONTRACT, TYPES

MODES: Final[tuple[Mode, ...]] = get_args(Mode)

KINDS: Final[tuple[FieldKind, ...]] = ("choice", "boolean", "score")
"""The field kinds in the order of a calibrator's biases (published files call boolean noul)."""

NEUTRAL_BIAS: Final = 0.5413248538970947
"""The bias of T = 1, log(e - 1) as float32 rounds it; taken for exactly that, so T is 1."""

TEMPERATURE_FLOOR: Final = 1e-3
"""No item's temperature is below this."""

SHIPPED: Final = "shipped"
"""Key of `fit`, true for temperatures that a decision template ships."""

_EXACT_NEUTRAL: Final = 0.5413248546129181
_NO_TOKENS: Final = (
    "the run does not know how long these prompts were; score them again, or fit a scalar or "
    "per-kind calibrator"
)


def softplus(u: npt.ArrayLike) -> FloatArray:
    """Return log(1 + e^u), without overflow.

    Args:
        u: Any numbers.

    Returns:
        Numbers above 0 (0 where u is far below 0), of the same shape; NaN stays NaN.

    Examples:
        >>> from pact_eval.calibration.temperatures import softplus
        >>> softplus([-800.0, 0.0, 8.0]).round(3)
        array([0.   , 0.693, 8.   ])
    """
    with np.errstate(invalid="ignore"):
        return np.logaddexp(0.0, np.asarray(u, dtype=np.float64))


def inverse_softplus(temperature: float) -> float:
    """Return the u with softplus(u) = `temperature`, a number above 0.

    Examples:
        >>> from pact_eval.calibration.temperatures import inverse_softplus
        >>> round(inverse_softplus(1.0), 8)
        0.54132485
    """
    return float(temperature + np.log(-np.expm1(-temperature)))


@dataclass(frozen=True, slots=True)
class Weights:
    """The numbers in T(x) = softplus(a + b log C + c log(L / 1000)).

    Attributes:
        bias: a for choice, boolean and score; all but per-kind calibrators read the first for all
            kinds.
        log_choices: b.
        log_tokens: c.
        questions: a by question, of the per-question form; other questions have the first bias.
            None in other forms.
    """

    bias: tuple[float, float, float]
    log_choices: float = 0.0
    log_tokens: float = 0.0
    questions: Mapping[str, float] | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the JSON object of the released format."""
        weights: dict[str, Json] = {"bias": [*self.bias]}
        weights |= {"log_choices": self.log_choices, "log_tokens": self.log_tokens}
        return weights if self.questions is None else weights | {"questions": {**self.questions}}


class TemperedItems(Protocol):
    """What the temperatures of n items may depend on: the views of a run have it, for example."""

    @property
    def kind(self) -> npt.ArrayLike:
        """(n,) "choice", "boolean" or "score"; only the per-kind form reads them."""

    @property
    def n_choices(self) -> npt.ArrayLike:
        """(n,) number of answers C, 1 or more."""

    @property
    def prompt_tokens(self) -> npt.ArrayLike | None:
        """(n,) tokens L of view 0, NaN if unknown; only needed where c is not 0."""

    @property
    def question(self) -> npt.ArrayLike | None:
        """(n,) name of the question; only needed by the per-question form."""


@dataclass(frozen=True, eq=False)
class ItemFacts:
    """The members of `TemperedItems`, given one by one."""

    kind: npt.ArrayLike
    n_choices: npt.ArrayLike
    prompt_tokens: npt.ArrayLike | None = None
    question: npt.ArrayLike | None = None


@dataclass(frozen=True, slots=True)
class TemperatureSummary:
    """Mean and range of the temperatures of some items; NaN if there are none."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, temperature: FloatArray) -> TemperatureSummary:
        """Summarise temperatures of shape (n,)."""
        if not temperature.size:
            return cls(float("nan"), float("nan"), float("nan"))
        return cls(float(temperature.mean()), float(temperature.min()), float(temperature.max()))


@dataclass(frozen=True)
class Calibrator:
    """Temperatures for items, and the calibrated distributions that they make.

    Attributes:
        mode: the form.
        weights: its numbers.
        fit: how it was fitted, as its file says; None if unknown.

    Raises:
        InputError: A weight is not finite, or a form without slopes or questions has some.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.calibration.temperatures import Calibrator, Weights
        >>> hot = Calibrator("scalar", Weights(bias=(1.8545865, 0.0, 0.0)))
        >>> item = ItemFacts(["choice"], [2])
        >>> hot.temperatures(item).round(3)
        array([2.])
        >>> np.exp(hot.apply(np.log([[0.9, 0.1]]), item)).round(3)
        array([[0.75, 0.25]])
    """

    mode: Mode
    weights: Weights
    fit: Mapping[str, Json] | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InputError(f"calibrator: expected mode {_join(MODES)}, got {self.mode!r}")
        slopes = (self.weights.log_choices, self.weights.log_tokens)
        questions = self.weights.questions
        if (
            len(self.weights.bias) != len(KINDS)
            or not np.isfinite([*self.weights.bias, *slopes, *(questions or {}).values()]).all()
        ):
            raise InputError(f"calibrator: expected 3 biases and 2 finite slopes, got {self}")
        if (self.mode == "per-question") != (questions is not None):
            expected = "no questions" if self.weights.questions is not None else "questions"
            raise InputError(f"calibrator: weights: expected {expected} with mode {self.mode}")
        if self.mode != "contextual" and any(slopes):
            raise InputError(
                f"calibrator: mode {self.mode} has no slopes, got log_choices {slopes[0]} and "
                f"log_tokens {slopes[1]}; expected 0, or mode contextual"
            )

    @property
    def name(self) -> Literal["calibrated", "as shipped"]:
        """Name of its distributions in reports."""
        return "as shipped" if (self.fit or {}).get(SHIPPED) is True else "calibrated"

    @property
    def is_neutral(self) -> bool:
        """Whether every temperature is 1."""
        w = self.weights
        read = w.bias if self.mode == "per-kind" else (w.bias[0], *(w.questions or {}).values())
        return not (w.log_choices or w.log_tokens) and all(
            bias in (NEUTRAL_BIAS, _EXACT_NEUTRAL) for bias in read
        )

    @property
    def depends_on(self) -> tuple[str, ...]:
        """What its temperatures depend on besides the kind, in words."""
        w = self.weights
        facts = {
            "the number of answers": w.log_choices,
            "the prompt's length": w.log_tokens,
            "the question": w.questions is not None,
        }
        return tuple(words for words, depends in facts.items() if depends)

    def by_type(self, where: str = "") -> dict[str, float]:
        """Return the temperature of each type of question, as transformers names them.

        Args:
            where: what a message begins with.

        Raises:
            InputError: they depend on more.
        """
        if self.depends_on:
            raise InputError(
                f"{where}its temperature depends on {' and '.join(self.depends_on)}; decision.json "
                "has one number per kind: fit one with `pact-eval calibrate --mode per-kind`"
            )
        at = self.temperatures(ItemFacts([*KINDS], [2] * len(KINDS))).tolist()
        return {TYPES[kind]: number for kind, number in zip(KINDS, at, strict=True)}

    def temperatures(self, items: TemperedItems) -> FloatArray:
        r"""Give each item its temperature.

        .. math:: T(x) = \max(softplus(a + b \log C + c \log(L / 1000)), 10^{-3})

        Args:
            items: n items.

        Returns:
            (n,) temperatures, 0.001 or more.

        Raises:
            InputError: Shapes differ, a kind is unknown, a length or a question is needed and
                unknown, a length is not above 0, or a temperature comes out infinite.

        References:
            The PACT paper, section "Contextual temperature".
        """
        choices = check_whole("n_choices", items.n_choices)
        if choices.ndim != 1 or (choices < 1).any():
            raise InputError("n_choices: expected shape (n,), every number 1 or more")
        w, names = self.weights, np.asarray(items.kind, dtype=np.str_)
        if names.shape != choices.shape:
            raise InputError(f"kind: expected shape {choices.shape}, got {names.shape}")
        bias = np.full(len(names), w.bias[0], dtype=np.float64)
        if self.mode == "per-kind":
            of_kind = names[:, None] == np.array(KINDS)
            unknown = ~of_kind.any(axis=1)
            if unknown.any():
                got = f"{str(names[unknown][0])!r} in {rows_of(unknown)}"
                raise InputError(f"kind: expected {_join(KINDS)}, got {got}")
            bias = np.array(w.bias, dtype=np.float64)[of_kind.argmax(axis=1)]
        elif w.questions is not None:
            own = [w.questions.get(name, w.bias[0]) for name in asked_questions(items)]
            if len(own) != len(bias):
                raise InputError(f"question: expected shape {bias.shape}, got ({len(own)},)")
            bias = np.array(own, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            u = np.where(bias == NEUTRAL_BIAS, _EXACT_NEUTRAL, bias)
            u = u + w.log_choices * np.log(choices)
            if w.log_tokens:
                u = u + w.log_tokens * _log_thousands(items.prompt_tokens, len(names))
        bad = np.isnan(u) | (u == np.inf)
        if bad.any():
            raise InputError(f"calibrator: no finite temperature for {rows_of(bad)}")
        return np.maximum(softplus(u), TEMPERATURE_FLOOR)

    def apply(self, log_probs: npt.ArrayLike, items: TemperedItems) -> FloatArray:
        """Return the log-probabilities (n, C) or (n, K, C) of items at their temperatures.

        Raises:
            InputError: As `temperatures`.
            ValueError: As `at_temperatures`.
        """
        return at_temperatures(log_probs, items.n_choices, self.temperatures(items))

    def with_provenance(self, **more: Json) -> Calibrator:
        """Return the calibrator with more entries in `fit`, such as the run it was fitted on."""
        return replace(self, fit={**(self.fit or {}), **more})


def at_temperatures(
    log_probs: npt.ArrayLike, n_choices: npt.ArrayLike, temperature: FloatArray
) -> FloatArray:
    r"""Divide log-probabilities by temperatures and renormalise.

    That is softmax(z / T), since log-probabilities are logits less a constant; and it is the
    ensemble of views that were each divided by T, since one item has one T and

    .. math:: \tfrac1K \sum_k \log softmax(z_k / T)_j
              = \tfrac1T \Big(\tfrac1K \sum_k \log softmax(z_k)_j\Big) + const_k

    where the constant does not depend on the answer j. A calibrator therefore applies to any
    decoding. The predicted answer never changes: answers tied to 1e-12 stay tied at any T, and
    others stay apart (a temperature so high that rounding would tie them leaves 2e-12). At
    T = 1 a row stays as it is, to the last digit.

    Args:
        log_probs: (n, C_max) log-probabilities in nats in canonical order, or (n, K, C_max)
            by view; what unused slots hold is ignored.
        n_choices: (n,) number of answers of each item.
        temperature: (n,) above 0.

    Returns:
        Log-probabilities of the same shape; unused slots are -inf, probability 0 stays 0.

    Raises:
        ValueError: `log_probs` has NaN or values above 0, or an item has no possible answer.
    """
    original = check_log_probs(log_probs, ndim=None)
    normal = log_softmax(original, n_choices)
    temperature = temperature.reshape(-1, *[1] * (normal.ndim - 1))
    below = normal - normal.max(axis=-1, keepdims=True)
    # Ties as `metrics.predicted` sees them, to the last bit, so the answer stays.
    possible = np.where(np.isneginf(normal), -np.inf, original)
    tied = possible >= possible.max(axis=-1, keepdims=True) - TIE
    ordered = np.where(tied, 0.0, np.minimum(below / temperature, -2 * TIE))
    calibrated = log_softmax(ordered, n_choices)
    return np.where((temperature == 1.0) & np.isfinite(normal), original, calibrated)


def neutral_calibrator(mode: Mode = "scalar") -> Calibrator:
    """Return the calibrator that leaves every distribution as it is: T = 1.

    Examples:
        >>> from pact_eval.calibration.temperatures import neutral_calibrator
        >>> neutral_calibrator().temperatures(ItemFacts(["score"], [5]))
        array([1.])
    """
    weights = Weights((NEUTRAL_BIAS,) * 3, questions={} if mode == "per-question" else None)
    return Calibrator(mode, weights)


def asked_questions(items: TemperedItems) -> list[str]:
    """Return the names of the questions of items.

    Raises:
        InputError: they are unknown.

    Examples:
        >>> asked_questions(ItemFacts(["choice"] * 2, [3, 3], question=np.array(["a", "b"])))
        ['a', 'b']
    """
    if items.question is None:
        raise InputError(
            f"temperatures per question need a column {QUESTION}, and there is none: import a log "
            "that names the questions, or calibrate with another --mode"
        )
    return [str(name) for name in np.asarray(items.question, dtype=np.object_)]


def _log_thousands(prompt_tokens: npt.ArrayLike | None, n: int) -> FloatArray:
    """Return log(L / 1000) after checking that every length is known."""
    tokens = np.full(n, np.nan) if prompt_tokens is None else prompt_tokens
    lengths = np.asarray(tokens, dtype=np.float64)
    if lengths.shape != (n,):
        raise InputError(f"prompt_tokens: expected shape ({n},), got {lengths.shape}")
    unknown = np.isnan(lengths)
    if unknown.any():
        raise InputError(
            f"prompt_tokens: a calibrator with a slope on prompt length needs them, unknown in "
            f"{rows_of(unknown)}: {_NO_TOKENS}"
        )
    bad = ~((lengths > 0) & np.isfinite(lengths))
    if bad.any():
        raise InputError(
            f"prompt_tokens: expected numbers above 0, got {lengths[bad][0]} in {rows_of(bad)}"
        )
    return np.log(lengths / 1000.0)


def _join(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


FORMAT: Final = "pact-calibrator-2"
"""What the released format calls itself."""

_ADVICE: Final = "restore it from a copy, or fit it again with `pact-eval calibrate`"


class _Weights(Section, frozen=True, forbid_unknown_fields=True):
    """The numbers of a file: see `Weights`."""

    bias: tuple[float, float, float]
    log_choices: float
    log_tokens: float
    questions: Mapping[str, float] | None = None


class _Published(Section, frozen=True):
    """The published form."""

    mode: Mode
    weights: _Weights


class _Released(_Published, frozen=True, forbid_unknown_fields=True):
    """The released format."""

    format: str
    sha256: str
    fit: Mapping[str, Any] = {}


def calibrator_to_json(calibrator: Calibrator) -> dict[str, Json]:
    """Return the JSON object of the released format.

    Examples:
        >>> from pact_eval.calibration.temperatures import calibrator_to_json, neutral_calibrator
        >>> calibrator_to_json(neutral_calibrator())["weights"]["log_tokens"]
        0.0
    """
    content: dict[str, Json] = {
        "format": FORMAT,
        "mode": calibrator.mode,
        "weights": calibrator.weights.to_json(),
        "fit": dict(calibrator.fit or {}),
    }
    return with_sha256(content)


def calibrator_sha256(calibrator: Calibrator) -> str:
    """Return the SHA-256 that a calibrator's file holds: 64 hex digits."""
    return str(calibrator_to_json(calibrator)["sha256"])


def calibrator_from_json(value: Json, source: str = "calibrator") -> Calibrator:
    """Read the released format, or the published form, which has no "format".

    Args:
        value: The parsed JSON.
        source: The file's name for messages.

    Returns:
        The calibrator.

    Raises:
        InputError: Something is missing, unknown or of the wrong type; the message says what was
            expected and what was found.
        TamperedError: The content is not that of its "sha256", or its "format" was removed.

    Examples:
        >>> from pact_eval.calibration.temperatures import calibrator_from_json
        >>> weights = {"bias": [0.0, 0.0, 0.0], "log_choices": 0.5, "log_tokens": -0.5}
        >>> calibrator_from_json({"mode": "contextual", "weights": weights}).weights.log_choices
        0.5
    """
    released = isinstance(value, dict) and "format" in value
    if isinstance(value, dict) and not released and {"sha256", "fit"} & set(value):
        raise TamperedError(
            f'{source}: changed since it was written ("fit" or "sha256", no "format"); {_ADVICE}'
        )
    if isinstance(value, dict) and value.get("format", FORMAT) != FORMAT:
        written = value["format"]
        got = dumps(written) if isinstance(written, str) else describe(written)
        raise InputError(
            f'{source}: format: expected "{FORMAT}", got {got}; a newer pact-eval may read it'
        )
    try:
        content = convert(value, _Released if released else _Published)
    except ValueError as error:
        raise InputError(f"{source}: {error}; {_ADVICE}") from None
    if isinstance(content, _Released) and not sha256_fits(value):
        raise TamperedError(
            f"{source}: changed since it was written (its SHA-256 is another one); {_ADVICE}"
        )
    weights = content.weights
    try:
        return Calibrator(
            content.mode,
            Weights(weights.bias, weights.log_choices, weights.log_tokens, weights.questions),
            content.fit or None if isinstance(content, _Released) else None,
        )
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def read_calibrator(path: Path) -> Calibrator:
    """Read a calibrator file, strictly.

    Raises:
        InputError: the file cannot be read, is not JSON, or is not a calibrator.
        TamperedError: the file has changed since it was written.
    """
    return calibrator_from_json(read_json(path), str(path))


def write_calibrator(path: Path, calibrator: Calibrator) -> None:
    """Write a calibrator file in the released format, atomically.

    Raises:
        InputError: the file cannot be written.
    """
    write_atomically(path, dumps(calibrator_to_json(calibrator)) + "\n")


def calibrator_as_shipped(run: Provenance, where: str) -> Calibrator:
    """Return the temperatures that the decision template of a run ships.

    Args:
        run: provenance of the run.
        where: name of the run in messages.

    Raises:
        InputError: the run was not scored on a decision template, or a temperature is below the
            least that a calibrator has.

    Examples:
        >>> run = Provenance.of({"settings": {"contract": {"name": "decision-template",
        ...                                                "temperatures": {"boolean": 2.0}}}})
        >>> calibrator_as_shipped(run, "run").temperatures(
        ...     ItemFacts(["boolean", "score"], [2, 3]))
        array([2., 1.])
    """
    if run.contract.name != TEMPLATE_CONTRACT:
        raise InputError(
            f"{where}: scored on the contract {run.contract.name or 'of an import'}; only decision "
            "templates ship temperatures"
        )
    shipped = run.contract.temperatures
    low = {kind: value for kind, value in shipped.items() if value < TEMPERATURE_FLOOR}
    if low:
        message = f"{where}: expected temperatures of {TEMPERATURE_FLOOR} or more, got {low}"
        raise InputError(message)
    choice, boolean, score = (
        inverse_softplus(shipped[kind]) if kind in shipped else NEUTRAL_BIAS for kind in KINDS
    )
    return Calibrator("per-kind", Weights((choice, boolean, score)), {SHIPPED: True})


NoteKind: TypeAlias = Literal[
    "UnknownFamilies",
    "FittedHere",
    "SharedSourceFamilies",
    "UnknownRun",
    "OtherRun",
    "FittedOnTraining",
    "NeutralTemperatures",
    "DifferentDecoding",
    "UnseenKind",
    "UnseenQuestion",
    "OutsideFit",
    "RoundedItems",
    "WorseScore",
]
"""The first five say whether the run of the fit and this one belong together and share no data, the
next six how a calibrator is used outside the data of its fit, or on probabilities that are
intervals. WorseScore: a proper score is shown to be worse after calibration."""


@dataclass(frozen=True)
class CalibrationNote(Note):
    """Something to know of a calibrator.

    Attributes:
        kind: what it is about.
        sentence: what every surface shows.
        numbers: those of the sentence, by name, for JSON.
    """

    kind: NoteKind
    sentence: str
    numbers: Mapping[str, Json] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return self.sentence


UNKNOWN_FAMILIES: Final = CalibrationNote(
    "UnknownFamilies",
    "not all families are known, so it is unknown whether the fit used some of these items",
)
FITTED_HERE: Final = CalibrationNote(
    "FittedHere",
    "the calibrator in its folder was fitted on this run and would flatter it, so it is not "
    "applied; `pact-eval calibrate CALIB_RUN --holdout RUN` applies it to another",
)
UNKNOWN_RUN: Final = CalibrationNote(
    "UnknownRun",
    "the fit or the run does not record its model, so it is unknown whether they belong together",
)


@dataclass(frozen=True)
class CalibrationWarning:
    """A note on a calibrator that is applied to one of several runs.

    Attributes:
        run: folder of the run.
        note: what a reader must know.
    """

    run: str
    note: CalibrationNote

    def __str__(self) -> str:
        return f"{self.run}: {self.note}"
