"""Choosing the form of a calibrator by cross-validation over source families.

A form with more parameters always has less NLL where it was fitted. What counts is its NLL on
source families it has not seen, and whether it beats a simpler form there by more than chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval._choices import Mode
from pact_eval._typing import FloatArray, IntArray
from pact_eval.calibration.fitting import best_by_question, fit_calibrator, minimise
from pact_eval.calibration.likelihood import NO_QUESTION, CalibrationItems, make_design
from pact_eval.calibration.temperatures import TEMPERATURE_FLOOR, neutral_calibrator
from pact_eval.errors import counted
from pact_eval.metrics import item_mean
from pact_eval.progress import tracked
from pact_eval.runs.identity import several_questions
from pact_eval.stats._quantiles import t_quantile
from pact_eval.stats.bootstrap import cluster_sums
from pact_eval.stats.clusters import dealt_folds
from pact_eval.stats.estimate import LEVEL

_Form: TypeAlias = tuple[Mode, float]

RIDGES: Final = (0.0, 1.0, 4.0, 16.0, 64.0, 256.0)
"""The ridges that `choose_mode` tries. Some 200 items carry about 10 of the same unit."""

_LEAVE_ONE_OUT: Final = 20
_FOLDS: Final = 10
# A standard error over fewer source families says little, and luck passes for a better form.
_FEWEST_SOURCES: Final = 5
# Held-out NLL (nats) closer than this is the same.
_SAME: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Candidate:
    """One form in the comparison.

    Attributes:
        mode: the form; None is T = 1, for comparison only.
        ridge: strength of the ridge on its slopes.
        parameters: how many numbers it fits.
        nll: mean NLL in nats of the items while their source family was left out.
        excess: `nll` less the lowest in the comparison, T = 1 included.
        standard_error: of `excess`, over source families.
    """

    mode: Mode | None
    ridge: float
    parameters: int
    nll: float
    excess: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class LeftOutNll:
    """Mean NLL in nats of items, each under temperatures that were fitted without its family.

    Attributes:
        raw: at T = 1.
        fitted: under the fitted temperatures.
        unit: what was left out: families if there is one source family, or each has its own.
        clusters: number of these.
        standard_error: of the fall from `raw` to `fitted`, over them.
    """

    raw: float
    fitted: float
    unit: Literal["families", "source families"]
    clusters: int
    standard_error: float

    @property
    def falls(self) -> bool:
        """Whether the temperatures lower the NLL of what they were not fitted on."""
        return self.raw - self.fitted > _SAME

    @property
    def shown(self) -> bool:
        """Whether the 95% interval of the fall (Student's t over what was left out) excludes 0."""
        error = t_quantile(1 - LEVEL / 2, self.clusters - 1) * self.standard_error
        return self.raw - self.fitted > max(error, _SAME)

    @property
    def sentence(self) -> str:
        """Whether calibrating helps.

        Examples:
            >>> LeftOutNll(0.992, 0.95, "families", 100, 0.01).sentence.partition(": ")[2]
            'on items left out of the fit, the loss (NLL) falls from 0.992 to 0.950.'
            >>> LeftOutNll(0.992, 0.99, "families", 100, 0.01).sentence.partition(":")[0]
            'Calibrating is not shown to help'
            >>> LeftOutNll(0.992, 1.01, "families", 100, 0.01).sentence.partition(":")[0]
            'Calibrating does not help'
        """
        before, after = (f"{number:.3f}" for number in (self.raw, self.fitted))
        if before == after:
            before, after = (f"{number:.6f}" for number in (self.raw, self.fitted))
        finding = "helps" if self.shown else "is not shown to help"
        chance = "" if self.shown else ", which may be chance"
        if not self.falls:
            finding, chance = "does not help", ""
        move = "falls" if self.falls else "goes"
        numbers = f"the loss (NLL) {move} from {before} to {after}{chance}"
        return f"Calibrating {finding}: on items left out of the fit, {numbers}."


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """The form that `choose_mode` chose, and why.

    Attributes:
        mode: the form.
        ridge: the ridge to fit it with.
        why: the reason, in a sentence.
        candidates: the table behind it, T = 1 first; empty if nothing could be compared.
        left_out: why some forms are not in the table, in sentences.
        source_families: number of source families.
        folds: number of folds they were dealt to; 0 where nothing was compared.
        nll: of the chosen form and of T = 1 on families left out; None where nothing was compared.
    """

    mode: Mode
    ridge: float
    why: str
    candidates: tuple[Candidate, ...] = ()
    left_out: tuple[str, ...] = ()
    source_families: int = 0
    folds: int = 0
    nll: LeftOutNll | None = None


def choose_mode(items: CalibrationItems, *, ridges: Sequence[float] = RIDGES) -> ModeChoice:
    """Choose the form of a calibrator and its ridge, by NLL on source families left out.

    Each source family is left out in turn; more than 20 are dealt into 10 folds of about equal
    size. The contextual form is fitted with every ridge, and its best one is kept. Then the
    simplest form is chosen whose NLL exceeds the best one's by no more than one standard error of
    that difference over source families: the difference, because how hard the families are is
    common to all forms and would hide it. Nothing here is random.

    The per-question form is compared if the items are of several questions (`several_questions`).
    Forms of several parameters are compared only if all items together determine them: not where
    a bound holds one, a temperature is held at the floor, or (without a ridge) a slope is not
    identified. Few source families can make such a fit look good by luck.

    Args:
        items: what to choose on; the same items are then fitted with `fit_calibrator`.
        ridges: what to try for the contextual form.

    Returns:
        The choice. With fewer than 5 source families it is scalar, compared with T = 1 alone; with
        fewer than 2 nothing is compared.

    Raises:
        InputError: A right answer has probability 0.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.calibration.likelihood import CalibrationItems
        >>> from pact_eval.calibration.selection import choose_mode
        >>> n, names = 40, np.array([f"f{index // 2}" for index in range(40)])
        >>> items = CalibrationItems(
        ...     np.log(np.tile([0.9, 0.1], (n, 1))), (np.arange(n) % 4 == 0).astype(np.int64),
        ...     np.full(n, "boolean"), np.full(n, 2), np.full(n, 300.0), names, names)
        >>> choice = choose_mode(items)
        >>> choice.mode, choice.left_out[0]
        ('scalar', 'per-kind: all items are of one kind')
    """
    source = np.unique(items.source_family, return_inverse=True)[1].astype(np.int64)
    n_source = int(source.max(initial=-1)) + 1
    families = items.family_codes()[1]
    forms, left_out = _forms(items, ridges)
    if n_source < _FEWEST_SOURCES:
        of_source = "families" if n_source == families else "source families"
        if n_source < 2:
            why = f"scalar: comparing forms needs 2 or more {of_source}, and there are {n_source}"
            return ModeChoice("scalar", 0.0, why, left_out=left_out, source_families=n_source)
        few = f"forms of several parameters: {n_source} {of_source} are too few to compare them"
        forms, left_out = forms[:1], (*left_out, f"{few}; {_FEWEST_SOURCES} or more are needed")
    forms, unusable = _usable(items, forms)
    fold = _folds(source, n_source)
    nll = _held_out_nll(items, fold, forms)
    contextual = [form for form in forms if form[0] == "contextual"]
    if contextual:
        # Ties go to the stronger ridge.
        best_ridge = min(contextual, key=lambda form: (_round_mean(nll[form]), -form[1]))
        forms = [form for form in forms if form[0] != "contextual" or form == best_ridge]
    raw = items.nll(neutral_calibrator())
    best = min((nll[form] for form in forms), key=_round_mean)
    sizes = {form: _parameters(items, form[0]) for form in forms}

    def compared(losses: FloatArray) -> list[Candidate]:
        """Compare T = 1 and all forms with one of them."""
        return [
            _candidate(None, 0.0, 0, raw, losses, source),
            *(_candidate(*form, sizes[form], nll[form], losses, source) for form in forms),
        ]

    _, *fitted = compared(best)
    near = [entry for entry in fitted if entry.excess <= entry.standard_error + _SAME]
    chosen = min(near, key=lambda entry: (entry.parameters, entry.nll))
    neutral = _candidate(None, 0.0, 0, raw, nll[chosen.mode or "scalar", chosen.ridge], source)
    unit = _unit(n_source, families)
    return ModeChoice(
        mode=chosen.mode or "scalar",
        ridge=chosen.ridge,
        why=f"{_why(chosen, fitted, n_source, unit)}{_beside_neutral(neutral, n_source)}",
        candidates=tuple(compared(min(raw, best, key=_round_mean))),
        left_out=(*left_out, *unusable),
        source_families=n_source,
        folds=int(fold.max()) + 1,
        nll=LeftOutNll(neutral.nll, chosen.nll, unit, n_source, neutral.standard_error),
    )


def left_out_nll(items: CalibrationItems, *, mode: Mode, ridge: float = 0.0) -> LeftOutNll | None:
    """Compare a form with T = 1 on families left out, in the folds of `choose_mode`.

    Args:
        items: what the form is fitted on.
        mode: the form.
        ridge: strength of the ridge on its slopes.

    Returns:
        The NLL of both: on source families left out, or on families if all items have one source
        family, or each family has its own. None if there are not two of these.
    """
    source = np.unique(items.source_family, return_inverse=True)[1].astype(np.int64)
    cluster, clusters = items.family_codes()
    n_source = int(source.max(initial=-1)) + 1
    unit = _unit(n_source, clusters)
    if unit == "source families":
        cluster, clusters = source, n_source
    if clusters < 2:
        return None
    nll = _held_out_nll(items, _folds(cluster, clusters), [(mode, ridge)])[mode, ridge]
    neutral = items.nll(neutral_calibrator())
    error = _candidate(None, 0.0, 0, neutral, nll, cluster).standard_error
    return LeftOutNll(item_mean(neutral), item_mean(nll), unit, clusters, error)


def _parameters(items: CalibrationItems, mode: Mode) -> int:
    """Return the number of parameters that items read."""
    if mode != "per-question":
        return len(make_design(items, mode).names)
    own = items.own_questions()
    return len(own) + (len(own) < len(items.rows_by_question()))


def _unit(source_families: int, families: int) -> Literal["families", "source families"]:
    """Return what is left out: families if there is one source family, or each has its own."""
    return "source families" if 1 < source_families < families else "families"


def _forms(items: CalibrationItems, ridges: Sequence[float]) -> tuple[list[_Form], tuple[str, ...]]:
    """Return the forms that can be compared on these items, and why the others cannot."""
    forms: list[_Form] = [("scalar", 0.0)]
    left_out = []
    if len(np.unique(items.kind)) > 1:
        forms.append(("per-kind", 0.0))
    else:
        left_out.append("per-kind: all items are of one kind")
    if items.question is not None and several_questions(items.question, items.family):
        if items.own_questions():
            forms.append(("per-question", 0.0))
        else:
            left_out.append(f"per-question: {NO_QUESTION}")
    unknown = int(np.isnan(items.prompt_tokens).sum())
    if unknown:
        left_out.append(f"contextual: the prompt length of {counted(unknown, 'item')} is unknown")
    elif len(make_design(items, "contextual").names) == 1:
        left_out.append("contextual: neither the number of answers nor the prompt length varies")
    else:
        forms += [("contextual", float(ridge)) for ridge in ridges]
    return forms, tuple(left_out)


def _usable(items: CalibrationItems, forms: Sequence[_Form]) -> tuple[list[_Form], tuple[str, ...]]:
    """Return the forms that all items together determine, and why the others are left out."""
    usable: list[_Form] = []
    reasons: dict[str, None] = {}
    for mode, ridge in tracked(forms, "Fitting all items", "forms"):
        # A question has no temperature of its own without enough outcomes. If it is at a bound, its
        # answers are no better than chance, and cross-validation says whether the bound does well.
        if mode in ("scalar", "per-question"):
            usable.append((mode, ridge))
            continue
        fit = fit_calibrator(items, mode=mode, ridge=ridge)
        unidentified = [] if ridge else [parameter.name for parameter in fit.unidentified]
        doubts = {
            f"a bound holds {', '.join(fit.at_bound)}": bool(fit.at_bound),
            "some temperatures are held at the floor": fit.temperature.low <= TEMPERATURE_FLOOR,
            "the fit did not converge": not fit.converged,
            f"not identified: {', '.join(unidentified)}": bool(unidentified),
        }
        reason = next((text for text, applies in doubts.items() if applies), None)
        if reason is None:
            usable.append((mode, ridge))
        else:
            reasons[f"{mode}{f' with ridge {ridge:g}' if ridge else ''}: {reason}"] = None
    return usable, tuple(reasons)


def _folds(source: IntArray, n_source: int) -> IntArray:
    """Return the fold of each item: its source family, or one of 10 of about equal size."""
    if n_source <= _LEAVE_ONE_OUT:
        return source
    sizes = np.bincount(source, minlength=n_source)
    return dealt_folds(sizes, _FOLDS)[source]


def _held_out_nll(
    items: CalibrationItems, fold: IntArray, forms: Sequence[_Form]
) -> dict[_Form, FloatArray]:
    """Return by form the NLL of each item (n,) under a calibrator fitted on the other folds."""
    nll = {form: np.full(len(items), np.nan) for form in forms}
    own = items.own_questions() if any(mode == "per-question" for mode, _ in forms) else ()
    folds = range(int(fold.max()) + 1)
    for left_out in tracked(folds, "Cross-validating", "folds"):
        train, test = items.take(fold != left_out), fold == left_out
        unseen = items.take(test)
        designs = {mode: make_design(train, mode) for mode, _ in forms if mode != "per-question"}
        fitted: dict[Mode, FloatArray] = {}
        for mode, ridge in forms:
            if mode == "per-question":
                nll[mode, ridge][test] = unseen.nll(best_by_question(train, own))
                continue
            minimum = minimise(designs[mode], ridge, start=fitted.get(mode))
            fitted[mode] = minimum.fitted
            nll[mode, ridge][test] = unseen.nll(designs[mode].calibrator(minimum.fitted))
    return nll


def _round_mean(nll: FloatArray) -> float:
    return round(item_mean(nll) / _SAME) * _SAME


def _candidate(
    mode: Mode | None,
    ridge: float,
    parameters: int,
    nll: FloatArray,
    best: FloatArray,
    source: IntArray,
) -> Candidate:
    """Compare a form with the best one; the standard error takes source families as clusters."""
    clusters = int(source.max()) + 1
    difference = nll - best
    excess = item_mean(difference)
    sums = cluster_sums(difference - excess, source, clusters)
    spread = clusters / (clusters - 1) * float(np.square(sums).sum())
    error = float(np.sqrt(spread)) / len(nll)
    return Candidate(mode, ridge, parameters, item_mean(nll), excess, error)


def _why(chosen: Candidate, forms: Sequence[Candidate], clusters: int, unit: str) -> str:
    """Say why a form was chosen among all that were fitted, of which the best has no excess."""
    best = min(forms, key=lambda entry: entry.nll)
    others = [entry for entry in forms if entry is not chosen]
    of_it = f"its NLL on {clusters} {unit} left out, {chosen.nll:.4f} nats,"
    if not others:
        return f"{_name(chosen)}: the only form that can be fitted here"
    if chosen is best:
        simpler = [entry for entry in others if entry.parameters < chosen.parameters]
        near = min(simpler or others, key=lambda entry: entry.nll)
        more = " by more than one standard error" if simpler else ""
        unsure = ", no difference shown" if simpler and not _differs(near, clusters) else ""
        return (
            f"{_name(chosen)}: {of_it} is the lowest of the fitted forms{more} ({_name(near)}: "
            f"{near.nll:.4f}, {near.excess:.4f} ± {near.standard_error:.4f} more{unsure})"
        )
    return (
        f"{_name(chosen)}: {of_it} is within one standard error of the lowest of the fitted forms "
        f"({_name(best)}: {best.nll:.4f}; {chosen.excess:.4f} ± {chosen.standard_error:.4f} "
        "less), and it has fewer parameters"
    )


def _beside_neutral(neutral: Candidate, clusters: int) -> str:
    """Say whether T = 1 is shown to differ from the chosen form, which `neutral.excess` is over."""
    more = neutral.excess
    numbers = f"{neutral.nll:.4f}, {abs(more):.4f} ± {neutral.standard_error:.4f}"
    numbers += " more" if more > 0 else " less"
    if not _differs(neutral, clusters):
        return f"; no difference from T = 1 shown ({numbers})"
    return "" if more > 0 else f"; T = 1 is better ({numbers})"


def _differs(entry: Candidate, clusters: int) -> bool:
    """Return whether the 95% interval of an excess (Student's t over families) excludes 0."""
    return abs(entry.excess) > t_quantile(1 - LEVEL / 2, clusters - 1) * entry.standard_error


def _name(entry: Candidate) -> str:
    ridge = f" with ridge {entry.ridge:g}" if entry.mode == "contextual" else ""
    return f"{entry.mode}{ridge}"
