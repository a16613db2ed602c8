"""Fitting a calibrator by NLL, with everything a reader needs to judge the fit."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from pact_eval._choices import Mode
from pact_eval._json import Json
from pact_eval._typing import BoolArray, FloatArray
from pact_eval.calibration.likelihood import (
    FEWEST,
    NO_QUESTION,
    SLOPE_BOUND,
    TEMPERATURE_BOUNDS,
    CalibrationItems,
    Design,
    make_design,
)
from pact_eval.calibration.temperatures import (
    KINDS,
    MODES,
    TEMPERATURE_FLOOR,
    Calibrator,
    TemperatureSummary,
    neutral_calibrator,
    softplus,
)
from pact_eval.calibration.uncertainty import (
    FitEvidence,
    Parameter,
    level_parameters,
    observed_information,
    uncertainty,
    weight_parameters,
)
from pact_eval.errors import InputError, counted
from pact_eval.metrics import item_mean
from pact_eval.numbers import p_value_text
from pact_eval.plain_text import first_of, short_names
from pact_eval.progress import tracked
from pact_eval.stats.bootstrap import one_blas_thread
from pact_eval.stats.estimate import LEVEL
from pact_eval.stats.multiplicity import holm

# In mean NLL per unit of a scaled parameter; curvatures are about 0.01 to 1.
_GRADIENT_TOLERANCE: Final = 1e-10
_CONVERGED: Final = 1e-6
_AT_BOUND: Final = 1e-6
_POLISHING: Final = 2
"""Newton steps: the first leaves the square of the error."""
_FEWEST_COMPARED: Final = 2
_NEAR: Final = 1e-3
"""A longer step is none of rounding: the items hardly determine the number."""


@dataclass(frozen=True, eq=False)
class Minimum:
    """Minimum of the NLL.

    Attributes:
        fitted: (p,) numbers that go with the columns of the design.
        held: (p,) which of them a bound holds; slopes that go with a separated level are held at 0.
        separated: (p,) which of them were put to a bound because every right answer among their
            items is the most probable one already, so the NLL decreases as T approaches 0.
        converged: whether the gradient vanishes but for the bounds.
    """

    fitted: FloatArray
    held: BoolArray
    separated: BoolArray
    converged: bool

    @classmethod
    def free_at(cls, point: FloatArray) -> Minimum:
        """Return a point that no bound holds."""
        nowhere = np.zeros(len(point), dtype=np.bool_)
        return cls(point, nowhere, nowhere, converged=True)


def penalised_nll(fitted: FloatArray, design: Design, ridge: float) -> tuple[float, FloatArray]:
    r"""Return the mean NLL with its ridge, and the gradient.

    .. math:: \frac1n \Big(\sum_i NLL_i(x_i \theta) + \frac{ridge}2 \sum_{slopes} \theta_j^2\Big)

    Args:
        fitted: (p,) the point theta.
        design: columns x of n items, 1 or more.
        ridge: strength on the scaled slopes: the precision of a normal prior around 0 for the
            change of u that one standard deviation of log C or log L makes.
    """
    n = len(design.matrix)
    # A sum over columns, not a matrix product: its rounding depends on no other row.
    u = (design.matrix * fitted).sum(axis=1)
    nll, slope = design.items.likelihood.nll_and_slope(u)
    pull = np.where(design.is_slope, ridge * fitted, 0.0)
    value = float(nll.sum()) + 0.5 * float(pull @ fitted)
    return value / n, (design.matrix.T @ slope + pull) / n


def minimise(design: Design, ridge: float = 0.0, start: FloatArray | None = None) -> Minimum:
    """Minimise the NLL by L-BFGS-B from T = 1, within the bounds of the design.

    Slopes start at the best level without slopes, so more freedom never costs NLL.

    Args:
        design: the columns of the items.
        ridge: see `penalised_nll`.
        start: (p,) where to start instead, such as the fit with another ridge.
    """
    bounds, slope = design.bounds, design.is_slope
    if not len(design.matrix):
        return Minimum.free_at(design.start)
    columns = zip(design.matrix.T, slope, strict=True)
    likelihood = design.items.likelihood
    separated = np.array(
        [not is_slope and likelihood.separated(column != 0) for column, is_slope in columns],
        dtype=np.bool_,
    )
    box = bounds.copy()
    box[separated, 1] = box[separated, 0]
    if separated[0]:
        box[slope] = 0.0
    level = box.copy()
    level[slope] = 0.0
    if start is None:
        start = _search(design.start, design, 0.0, level)
    fitted = _search(start, design, ridge, box)
    _, gradient = penalised_nll(fitted, design, ridge)
    downhill = _step_downhill(fitted, gradient, box)
    near = np.abs(fitted[:, None] - bounds).min(axis=1) <= _AT_BOUND
    return Minimum(
        fitted,
        held=near | (separated[0] & slope),
        separated=separated,
        converged=bool(np.abs(downhill).max() < _CONVERGED),
    )


def _step_downhill(point: FloatArray, gradient: FloatArray, bounds: FloatArray) -> FloatArray:
    """Return (p,) a step against the gradient that stays within the bounds."""
    return np.asarray(np.clip(point - gradient, bounds[:, 0], bounds[:, 1]) - point)


def _search(start: FloatArray, design: Design, ridge: float, bounds: FloatArray) -> FloatArray:
    from scipy import optimize  # reports on raw runs do without it

    with one_blas_thread():
        start = np.clip(start, bounds[:, 0], bounds[:, 1])
        _, gradient = penalised_nll(start, design, ridge)
        if np.abs(_step_downhill(start, gradient, bounds)).max() <= _GRADIENT_TOLERANCE:
            return start  # as L-BFGS-B does, after a set-up that takes ten times as long
        result = optimize.minimize(
            penalised_nll,
            start,
            args=(design, ridge),
            jac=True,
            method="L-BFGS-B",
            bounds=optimize.Bounds(bounds[:, 0], bounds[:, 1]),
            options={"gtol": _GRADIENT_TOLERANCE, "ftol": 1e-15, "maxiter": 500},
        )
        return _polished(np.asarray(result.x), design, ridge, bounds)


def _polished(point: FloatArray, design: Design, ridge: float, bounds: FloatArray) -> FloatArray:
    """Return a point near a minimum after Newton steps in what no bound holds.

    L-BFGS-B ends where the NLL cannot fall by more than rounding, which leaves 1e-8 of the numbers
    to the exp and log of the processor. Where the gradient vanishes, they agree to 1e-12.
    """
    for _ in range(_POLISHING):
        free = (point > bounds[:, 0]) & (point < bounds[:, 1])
        _, gradient = penalised_nll(point, design, ridge)
        hessian = observed_information(point, design, ridge) / len(design.matrix)
        try:
            lower = np.linalg.cholesky(hessian[np.ix_(free, free)])
            step = np.linalg.solve(lower.T, np.linalg.solve(lower, gradient[free]))
        except np.linalg.LinAlgError:  # the items do not determine it
            return point
        if not np.abs(step).max(initial=0.0) < _NEAR:
            return point
        point = point.copy()
        point[free] -= step
        point = np.clip(point, bounds[:, 0], bounds[:, 1])
    return point


def best_scalar(items: CalibrationItems) -> Calibrator:
    """Return the scalar calibrator of least NLL, without what a reader needs to judge the fit."""
    design = make_design(items, "scalar")
    return design.calibrator(minimise(design).fitted)


def best_by_question(items: CalibrationItems, own: Collection[str]) -> Calibrator:
    """Return the per-question calibrator of least NLL, with temperatures of their own for `own`."""
    rows = items.rows_by_question()
    levels = {name: best_scalar(items.take(rows[name])) for name in own if name in rows}
    return _of_questions(best_scalar(items), levels)


def _of_questions(shared: Calibrator, own: Mapping[str, Calibrator]) -> Calibrator:
    biases = {name: scalar.weights.bias[0] for name, scalar in own.items()}
    return Calibrator("per-question", replace(shared.weights, questions=biases))


_FORMS: Final[Mapping[Mode, str]] = {
    "scalar": "one for all items",
    "per-kind": "one for each kind of question",
    "per-question": "one for each question",
    "contextual": "by number of answers and length of the prompt",
}


@dataclass(frozen=True, eq=False)
class CalibratorFit:
    """A fitted calibrator, and how far to trust it.

    Attributes:
        calibrator: what was fitted; its `fit` says all that follows, for the file.
        parameters: its weights, with standard errors, and which the data identify.
        levels: its temperature, one for each kind, or that at the geometric mean of C and L; of the
            per-question form that of all items, then those of questions of their own.
        condition_number: of the information scaled to a diagonal of 1, without any ridge; NaN
            where a bound holds everything.
        nll_before: mean NLL of the items in nats, uncalibrated.
        nll_after: the same, calibrated; never above `nll_before`.
        temperature: mean and range of the items' temperatures.
        items: number of items.
        families: number of families.
        ridge: strength of the ridge on the slopes.
        improved: whether the NLL fell; where it did not, T = 1 was kept.
        converged: whether the search ended where the gradient vanishes but for the bounds.
        at_bound: names of the parameters that a bound holds.
        notes: what a reader must know, in sentences.
    """

    calibrator: Calibrator
    parameters: tuple[Parameter, ...]
    levels: tuple[Parameter, ...]
    condition_number: float
    nll_before: float
    nll_after: float
    temperature: TemperatureSummary
    items: int
    families: int
    ridge: float
    improved: bool
    converged: bool
    at_bound: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """The temperatures, and which way they move the probabilities."""
        t = self.temperature
        spread = "" if t.low == t.high else f" on average, {t.low:.3f} to {t.high:.3f}"
        move = "more sure than before" if t.low < 1 else "as sure as before"
        if t.high > 1:
            move = "less sure than before" if t.low >= 1 else "some more and some less sure"
        return f"T = {t.mean:.3f}{spread}, {_FORMS[self.calibrator.mode]}: {move}"

    @property
    def unidentified(self) -> tuple[Parameter, ...]:
        """The parameters that the data do not determine; each has its `reason`."""
        return tuple(parameter for parameter in self.parameters if not parameter.identified)


def fit_as_json(fit: CalibratorFit, items: CalibrationItems) -> dict[str, Json]:
    """Return the `fit` section of a calibrator file; what is NaN or infinite is null there.

    Args:
        fit: the result of a fit.
        items: what it was fitted on. Their families and source families are listed, so a later
            run that shares some can be refused.
    """
    lengths = items.prompt_tokens[~np.isnan(items.prompt_tokens)]
    choices, tokens = (
        [int(values.min()), int(values.max())] if values.size else None
        for values in (items.n_choices, lengths)
    )
    section = {
        "decoding": items.decoding,
        "items": fit.items,
        "kinds": {kind: int((items.kind == kind).sum()) for kind in KINDS},
        "n_choices": choices,
        "prompt_tokens": tokens,
        "ridge": fit.ridge,
        "improved": fit.improved,
        "converged": fit.converged,
        "at_bound": list(fit.at_bound),
        "nll_nats": {"before": fit.nll_before, "after": fit.nll_after},
        "temperature": asdict(fit.temperature),
        "condition_number": fit.condition_number,
        "parameters": [asdict(parameter) for parameter in fit.parameters],
        "levels": [asdict(level) for level in fit.levels],
        "notes": list(fit.notes),
        "families": sorted(set(items.family.tolist()) - {""}),
        "source_families": sorted(set(items.source_family.tolist()) - {""}),
    }
    if fit.calibrator.mode == "per-question":
        rows = items.rows_by_question()
        section["questions"] = {name: len(of_question) for name, of_question in rows.items()}
    return {name: _finite(value) for name, value in section.items()}


def _finite(value: Any) -> Json:
    """Return the value with null for every number that JSON does not know."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    result: Json = value
    return result


# A gain of NLL below this (nats) is rounding.
_NO_GAIN: Final = 1e-12


def fit_calibrator(items: CalibrationItems, *, mode: Mode, ridge: float = 0.0) -> CalibratorFit:
    r"""Fit temperatures by mean NLL with L-BFGS-B, from T = 1, with analytic gradients.

    .. math:: \min_{a, b, c} \frac1n \sum_i -\log softmax(z_i / T(x_i))_{y_i}

    The level of the temperatures stays within 0.05 to 20, the slopes within -10 to 10. If all
    right answers are already the most probable ones, the NLL decreases monotonically as T
    approaches 0: the level is set to 0.05, and a note says so. If nothing lowers the NLL, T = 1 is
    kept, and a note says so.
    Parameters do not depend on the order of the rows, but for rounding.

    Args:
        items: what to fit on: families that the adapter never saw, and that it is not judged on.
        mode: scalar, per-kind, per-question or contextual.
        ridge: strength of the ridge on the contextual slopes, 0 or more: the precision of a normal
            prior around 0 for the change of softplus^-1(T) that one standard deviation of log C or
            of log L makes. 0 is plain maximum likelihood, as published.

    Returns:
        The fit.

    Raises:
        InputError: A right answer has probability 0; a prompt length is unknown and the form is
            contextual; the form is per-question, and the questions are unknown or none has enough
            families; `ridge` is negative.

    References:
        Guo et al., "On calibration of modern neural networks", ICML 2017; the PACT paper, section
        "Contextual temperature".

    Examples:
        >>> import numpy as np
        >>> from pact_eval.calibration.fitting import fit_calibrator
        >>> from pact_eval.calibration.likelihood import CalibrationItems
        >>> n, names = 40, np.array([f"f{index // 2}" for index in range(40)])
        >>> items = CalibrationItems(
        ...     np.log(np.tile([0.9, 0.1], (n, 1))), (np.arange(n) % 4 == 0).astype(np.int64),
        ...     np.full(n, "boolean"), np.full(n, 2), np.full(n, 300.0), names, names)
        >>> fit = fit_calibrator(items, mode="scalar")  # says 90%, is right in 75%
        >>> round(fit.levels[0].value, 3), round(fit.nll_before, 3), round(fit.nll_after, 3)
        (2.0, 0.655, 0.562)
    """
    if mode not in MODES:
        raise InputError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
    if not (ridge >= 0 and math.isfinite(ridge)):
        raise InputError(f"ridge: expected a finite number, 0 or more, got {ridge}")
    if mode == "per-question":
        return _fit_questions(items)
    design = make_design(items, mode)
    minimum = minimise(design, ridge)
    calibrator = design.calibrator(minimum.fitted)
    before = item_mean(items.nll(neutral_calibrator()))
    improved = item_mean(items.nll(calibrator)) < before - _NO_GAIN
    if not improved:
        minimum, calibrator = Minimum.free_at(design.start), neutral_calibrator(mode)
    fitted, held = minimum.fitted, minimum.held
    # what the data say with the ridge, and alone
    penalised, data = (uncertainty(fitted, held, design, strength) for strength in (ridge, 0.0))
    evidence = FitEvidence(design, fitted, held, penalised, data)
    parameters, temperature = weight_parameters(evidence), calibrator.temperatures(items)
    fit = CalibratorFit(
        calibrator=calibrator,
        parameters=parameters,
        levels=level_parameters(evidence),
        condition_number=evidence.data.condition_number,
        nll_before=before,
        nll_after=item_mean(items.nll(calibrator)),
        temperature=TemperatureSummary.of(temperature),
        items=len(items),
        families=evidence.data.clusters,
        ridge=ridge,
        improved=improved,
        converged=minimum.converged,
        at_bound=tuple(parameter.name for parameter in parameters if parameter.at_bound),
        notes=_notes(design, minimum, temperature, improved=improved),
    )
    return replace(fit, calibrator=calibrator.with_provenance(**fit_as_json(fit, items)))


def _fit_questions(items: CalibrationItems) -> CalibratorFit:
    """Fit one temperature on all items, and one on those of each question that has enough."""
    rows, names = items.rows_by_question(), items.own_questions()
    if not names:
        raise InputError(f"{NO_QUESTION}, which a temperature of its own needs: use --mode scalar")
    shared = fit_calibrator(items, mode="scalar")
    own = {
        name: fit_calibrator(items.take(rows[name]), mode="scalar")
        for name in tracked(names, "Fitting questions", "questions")
    }
    calibrator = _of_questions(
        shared.calibrator, {name: fit.calibrator for name, fit in own.items()}
    )
    parameters, levels = (
        (
            *getattr(shared, which),
            *(
                replace(parameter, name=f"{parameter.name}_{name}")
                for name, fit in own.items()
                for parameter in getattr(fit, which)
            ),
        )
        for which in ("parameters", "levels")
    )
    fits, names = (shared, *own.values()), short_names(names)
    notes = _difference(names, [fit.parameters[0] for fit in own.values()])
    few = short_names([name for name in rows if name not in own])
    if few:
        notes.append(
            f"{counted(len(few), 'question')} of fewer than {FEWEST} families, or five with an "
            f"error or a right answer ({first_of(few)}): T is that of all items"
        )
    notes += shared.notes
    for name, fit in zip(names, fits[1:], strict=True):
        notes += [f"{name}: {note}" for note in fit.notes]
    fit = replace(
        shared,
        calibrator=calibrator,
        parameters=parameters,
        levels=levels,
        condition_number=math.nan,
        nll_after=item_mean(items.nll(calibrator)),
        temperature=TemperatureSummary.of(calibrator.temperatures(items)),
        improved=any(fit.improved for fit in fits),
        converged=all(fit.converged for fit in fits),
        at_bound=tuple(parameter.name for parameter in parameters if parameter.at_bound),
        notes=tuple(notes),
    )
    return replace(fit, calibrator=calibrator.with_provenance(**fit_as_json(fit, items)))


def _difference(names: Sequence[str], levels: Sequence[Parameter]) -> list[str]:
    """Say which question's temperature differs most from that of the others, if that is shown.

    Levels u = softplus^-1(T) are compared with the mean of the others, weighted by precision.
    Questions have `FEWEST` families or more, so the normal distribution is near enough. Families in
    common correlate the two, which makes the test conservative. Two questions are one test.
    """
    from scipy import special  # reports on raw runs do without it

    error = np.array([level.by_family.standard_error for level in levels])
    known = error > 0
    error, u = error[known], np.array([level.value for level in levels])[known]
    if u.size < _FEWEST_COMPARED:
        return []
    weight = 1 / error**2
    others = weight.sum() - weight
    mean = ((weight * u).sum() - weight * u) / others
    p = 2 * special.ndtr(-np.abs(u - mean) / np.sqrt(error**2 + 1 / others))
    adjusted = holm(p) if u.size > _FEWEST_COMPARED else p
    if not (adjusted <= LEVEL).any():
        return ["no question's temperature is shown to differ from that of the others"]
    most = int(np.argmax(np.where(adjusted <= LEVEL, np.abs(u - mean), -1.0)))
    own, rest = softplus([u[most], mean[most]])
    compared = [name for name, is_known in zip(names, known, strict=True) if is_known]
    text = f"the temperature of {compared[most]} differs most: {own:.3f}, of the others {rest:.3f}"
    if u.size == _FEWEST_COMPARED:
        between = f"{compared[most]} and {compared[1 - most]}"
        text = f"the temperatures of {between} differ: {own:.3f} and {rest:.3f}"
    return [f"{text} ({p_value_text(float(adjusted[most]))})"]


def _notes(
    design: Design, minimum: Minimum, temperature: FloatArray, *, improved: bool
) -> tuple[str, ...]:
    """Say in sentences what a reader must know before trusting a fit."""
    items = design.items
    notes = []
    if minimum.separated.any():
        names = [design.names[j].removeprefix("bias_") for j in np.flatnonzero(minimum.separated)]
        which = "" if names == ["bias"] else f" of kind {' and '.join(names)}"
        notes.append(
            f"the model is right on every item{which}, so the NLL decreases monotonically as T "
            f"approaches 0: T is set to its lower bound, {TEMPERATURE_BOUNDS[0]:g}, and would make "
            "any error on other data very costly; fit on more items before using it"
        )
    hot = minimum.held & ~design.is_slope & ~minimum.separated & (minimum.fitted > 1)
    if not len(items):
        notes.append("there are no items: T = 1")
    elif not improved:
        notes.append("no temperature lowers the NLL of these items: T = 1 is kept")
    if hot.any():
        notes.append(
            f"T reached its upper bound, {TEMPERATURE_BOUNDS[1]:g}: these probabilities say "
            "no more about the right answer than chance does, or less"
        )
    steep = minimum.held & design.is_slope & (minimum.fitted != 0)
    notes += [
        f"the slope {design.names[j]} ran to its bound, "
        f"{np.sign(minimum.fitted[j]) * SLOPE_BOUND:g}: these items do not determine it"
        for j in np.flatnonzero(steep)
    ]
    if not minimum.converged:
        notes.append("the search ended before the gradient vanished: do not trust the parameters")
    low = int((temperature <= TEMPERATURE_FLOOR).sum())
    if low:
        notes.append(f"items whose temperature is held at {TEMPERATURE_FLOOR:g}: {low:,}")
    absent = [kind for kind in KINDS if not (items.kind == kind).any()]
    if design.mode == "per-kind" and absent and len(items):
        notes.append(f"no items of kind {' or '.join(absent)}: T = 1 there")
    used = np.arange(items.log_probs.shape[1]) < items.n_choices[:, None]
    zeros = int((np.isneginf(items.log_probs) & used).any(axis=1).sum())
    if zeros:
        notes.append(
            f"items with answers of probability 0, which no temperature changes: {zeros:,}"
        )
    return tuple(notes)
