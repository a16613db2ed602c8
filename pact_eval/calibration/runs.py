"""Calibrators and run folders: fitted on one run, applied to others, never to its own families.

Choosing the form of a calibrator by cross-validation over source families.

A form with more parameters always has less NLL where it was fitted. What counts is its NLL on
source families it has not seen, and whether it beats a simpler form there by more than chance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval._choices import Allowance, Decoding, Mode
from pact_eval._json import Json
from pact_eval._typing import FloatArray, IntArray
from pact_eval.calibration.effect import CalibrationEffect, calibration_effect
from pact_eval.calibration.fitting import CalibratorFit, best_by_question, fit_calibrator, minimise
from pact_eval.calibration.likelihood import NO_QUESTION, CalibrationItems, make_design
from pact_eval.calibration.portable import PortableCalibration, portable_calibration
from pact_eval.calibration.temperatures import (
    TEMPERATURE_FLOOR,
    UNKNOWN_FAMILIES,
    UNKNOWN_RUN,
    CalibrationNote,
    CalibrationWarning,
    Calibrator,
    neutral_calibrator,
    read_calibrator,
    write_calibrator,
)
from pact_eval.errors import GateError, InputError, counted
from pact_eval.metrics import item_mean
from pact_eval.progress import step, tracked
from pact_eval.results import Result
from pact_eval.runs.custody import TrainedOnRun, refuse_trained_on, trained_on_json
from pact_eval.runs.folder import Run, RunSource, read_run
from pact_eval.runs.identity import Difference, RunIdentity, several_questions
from pact_eval.runs.places import refuse_remote
from pact_eval.runs.predictions import Predictions, censored_references
from pact_eval.runs.provenance import Provenance
from pact_eval.runs.seal import CALIBRATION_NAME
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
        >>> from pact_eval.calibration.runs import choose_mode
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
    of_source = "families" if n_source == families else "source families"
    forms, left_out = _forms(items, ridges)
    if n_source < 2:
        why = f"scalar: comparing forms needs 2 or more {of_source}, and there are {n_source}"
        return ModeChoice("scalar", 0.0, why, left_out=left_out, source_families=n_source)
    if n_source < _FEWEST_SOURCES:
        few = f"forms of several parameters: {n_source} {of_source} are too few to compare them"
        forms, left_out = forms[:1], (*left_out, f"{few}; {_FEWEST_SOURCES} or more are needed")
    forms, unusable = _usable(items, forms)
    left_out += unusable
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
    chosen = _simplest(fitted)
    neutral = _candidate(None, 0.0, 0, raw, nll[chosen.mode or "scalar", chosen.ridge], source)
    unit = _unit(n_source, families)
    why = _why(chosen, fitted, n_source, unit)
    return ModeChoice(
        mode=chosen.mode or "scalar",
        ridge=chosen.ridge,
        why=f"{why}{_beside_neutral(neutral, n_source)}",
        candidates=tuple(compared(min(raw, best, key=_round_mean))),
        left_out=left_out,
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
        reason = None
        # A question has no temperature of its own without enough outcomes. If it is at a bound, its
        # answers are no better than chance, and cross-validation says whether the bound does well.
        if mode not in ("scalar", "per-question"):
            reason = _why_undetermined(fit_calibrator(items, mode=mode, ridge=ridge))
        if reason is None:
            usable.append((mode, ridge))
        else:
            reasons[f"{mode}{f' with ridge {ridge:g}' if ridge else ''}: {reason}"] = None
    return usable, tuple(reasons)


def _why_undetermined(fit: CalibratorFit) -> str | None:
    """Say why a fit is not to be trusted with its parameters; None if it is."""
    if fit.at_bound:
        return f"a bound holds {', '.join(fit.at_bound)}"
    if fit.temperature.low <= TEMPERATURE_FLOOR:
        return "some temperatures are held at the floor"
    if not fit.converged:
        return "the fit did not converge"
    if fit.unidentified and not fit.ridge:
        return f"not identified: {', '.join(parameter.name for parameter in fit.unidentified)}"
    return None


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


def _simplest(table: Sequence[Candidate]) -> Candidate:
    near = [entry for entry in table if entry.excess <= entry.standard_error + _SAME]
    return min(near, key=lambda entry: (entry.parameters, entry.nll))


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


# What makes two fits the same: a fit of another form on the same run is a new version of it.
_SOURCE: Final = ("run", "decoding", "families", "source_families")


def check_owner(
    fitted: RunIdentity,
    applied: Provenance,
    *,
    allow: Collection[Allowance],
    where: str,
    what: str = "calibrator",
) -> tuple[CalibrationNote, ...]:
    """Refuse a calibrator, or another fit, that belongs to another run.

    Args:
        fitted: identity of the run of the fit, as the calibrator records it.
        applied: provenance of the run that it is applied to.
        allow: differences that the user accepts.
        where: name of the run in messages.
        what: what was fitted, for messages.

    Returns:
        A note if the owner is not known, or if differences were accepted.

    Raises:
        InputError: they differ; the message says in what, and which option accepts it.
    """
    here = RunIdentity.of(applied)
    differences = fitted.differences(here)
    _refuse(differences, allow, where, what)
    if not (fitted.names_model and here.names_model):
        return (UNKNOWN_RUN,)
    facts = [difference.fact for difference in differences]
    text = f"fitted on a run of another {' and another '.join(facts)}, as allowed"
    return (CalibrationNote("OtherRun", text, {"facts": [*facts]}),) if facts else ()


def check_decoding(
    calibrator: Calibrator, decoding: Decoding, *, allow: Collection[Allowance], where: str
) -> None:
    """Refuse a calibrator that was fitted on another decoding, if its file says so.

    Args:
        calibrator: what is applied.
        decoding: what it is applied to.
        allow: differences that the user accepts.
        where: name of the run in messages.

    Raises:
        InputError: it was fitted on another decoding.
    """
    fitted = (calibrator.fit or {}).get("decoding")
    if isinstance(fitted, str) and fitted and fitted != decoding:
        _refuse((Difference("decoding", fitted, decoding),), allow, where)


def identity_of_fit(calibrator: Calibrator) -> RunIdentity:
    """Return the identity of the run that a calibrator was fitted on, as its file records it."""
    return RunIdentity.of_json((calibrator.fit or {}).get("run"))


def refuse_overwriting(path: Path, calibrator: Calibrator, *, movable: bool = True) -> None:
    """Refuse to replace a calibrator of another fit.

    Args:
        path: the file to be written.
        calibrator: its new content. A file that holds the same weights, or a fit on the same run
            and decoding, may be replaced.
        movable: whether `--out` names another file; a holdout has the calibrator in its folder.

    Raises:
        InputError: the file holds something else.
    """
    if not path.is_file():
        return
    try:
        existing = read_calibrator(path)
    except InputError:
        existing = None
    if existing is not None and _is_same_fit(existing, calibrator):
        return
    what = (
        "another file" if existing is None else f"a calibrator of another fit ({_owner(existing)})"
    )
    elsewhere = ", or give another --out" if movable else ""
    message = f"{path}: holds {what}; nothing was written. Use --overwrite to replace it{elsewhere}"
    raise InputError(message)


def _refuse(
    differences: tuple[Difference, ...],
    allow: Collection[str],
    where: str,
    what: str = "calibrator",
) -> None:
    refused = [difference for difference in differences if difference.allowance not in allow]
    if not refused:
        return
    lines = [
        f"  {difference.words}: fitted on {difference.before}, applied to {difference.after}"
        for difference in refused
    ]
    options = " ".join(f"--allow {difference.allowance}" for difference in refused)
    raise InputError(
        f"{where}: the {what} belongs to another run:\n" + "\n".join(lines) + "\n"
        "  fit one with `pact-eval calibrate` on a run of the calibration split with this adapter "
        f"and decoding, or use {options}"
    )


def _is_same_fit(existing: Calibrator, calibrator: Calibrator) -> bool:
    """Return whether weights are the same, or the fits are on the same items of a known run."""
    first, second = (
        {name: (each.fit or {}).get(name) for name in _SOURCE} for each in (existing, calibrator)
    )
    same_weights = (existing.mode, existing.weights) == (calibrator.mode, calibrator.weights)
    return same_weights or (bool(first["run"]) and first == second)


def _owner(calibrator: Calibrator) -> str:
    fit = calibrator.fit or {}
    run = fit.get("run")
    if not isinstance(run, dict):
        return "its run is not recorded"
    named = {"arm": run.get("arm"), "seed": run.get("seed"), "decoding": fit.get("decoding")}
    adapter = RunIdentity.of_json(run).adapter_sha256
    named["adapter"] = None if adapter is None else f"{adapter[:12]}..."
    return ", ".join(f"{name} {value}" for name, value in named.items() if value is not None)


_NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Members:
    """Families and source families of the items of a run or a fit.

    Attributes:
        families: names of the families; "" (unknown) is not among them.
        source_families: names of the source families, likewise.
        complete: whether every item states its family.
    """

    families: frozenset[str]
    source_families: frozenset[str]
    complete: bool = True

    @classmethod
    def of_run(cls, predictions: Predictions) -> Members:
        """Return the members of a run."""
        families = set(predictions.family.tolist())
        source_families = set(predictions.source_family.tolist())
        return cls(
            frozenset(families - {""}),
            frozenset(source_families - {""}),
            complete="" not in families,
        )

    @classmethod
    def of_fit(cls, calibrator: Calibrator) -> Members:
        """Return the members that a calibrator's file lists; none are known where it lists none."""
        return cls.of_fit_json(calibrator.fit or {})

    @classmethod
    def of_fit_json(cls, fit: Mapping[str, Json]) -> Members:
        """Return the members that the `fit` of a file lists."""
        families, source_families = (
            frozenset(_names(fit.get(name))) for name in ("families", "source_families")
        )
        return cls(families, source_families, complete=bool(families))


def check_disjoint(fitted: Members, applied: Members) -> tuple[CalibrationNote, ...]:
    """Refuse to judge a calibrator on families that it was fitted on.

    Families that meet are an error: the same texts, or their counterfactual twins, would be fitted
    and judged. Shared source families are a warning: other families of one origin are not
    copies, and a temperature has few parameters to remember them by, but such a run shows less of
    how the calibrator does on new sources; and datasets exist that have no others.

    Args:
        fitted: of the run that the calibrator was fitted on, or of its file.
        applied: of the run that it is applied to.

    Returns:
        Source families that meet, and families that are unknown.

    Raises:
        InputError: Families meet.

    Examples:
        >>> from pact_eval.calibration.runs import Members, check_disjoint
        >>> fitted = Members(frozenset({"f1", "f2"}), frozenset({"travel-01"}))
        >>> check_disjoint(fitted, Members(frozenset({"f3"}), frozenset({"travel-02"})))
        ()
    """
    shared = fitted.families & applied.families
    if shared:
        raise InputError(
            f"the calibrator was fitted on {len(shared):,} of the {len(applied.families):,} "
            f"families it is applied to ({_few(shared)}): its scores there would flatter it; fit "
            "it on separate families, as `pact-audit split` makes them"
        )
    notes: list[CalibrationNote] = []
    if not (fitted.complete and applied.complete):
        notes.append(UNKNOWN_FAMILIES)
    common = sorted(fitted.source_families & applied.source_families)
    if common:
        text = (
            f"source families both in the fit and in this run: {len(common):,} ({_few(common)}); "
            "how the fit does on new sources is not shown"
        )
        notes.append(CalibrationNote("SharedSourceFamilies", text, {"names": [*common]}))
    return tuple(notes)


def _names(value: Json) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _few(names: Iterable[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - _NAMES_SHOWN:,} more" if len(shown) > _NAMES_SHOWN else ""
    return ", ".join(shown[:_NAMES_SHOWN]) + more


@dataclass(frozen=True, repr=False)
class FittedRun(Result):
    """A calibrator that was fitted on a run.

    Attributes:
        folder: the run it was fitted on.
        calibrator: what was fitted, with its provenance.
        choice: why its form was chosen; None if the user named it.
        fit: the fit.
        effects: scores before and after, by run folder; that of the fit split first.
        warnings: what the runs have in common with the fit, and should not.
        items: what it was fitted on.
        served: whether a server sent these probabilities, which it may have tempered.
        titles: by run folder, what outputs call it; see `RunFolder.title`.
        left_out: NLL on families that were left out of the fit; None if there is one family.
    """

    folder: Path
    calibrator: Calibrator
    choice: ModeChoice | None
    fit: CalibratorFit
    effects: Mapping[Path, CalibrationEffect]
    warnings: tuple[CalibrationWarning | TrainedOnRun, ...]
    items: CalibrationItems = field(repr=False)
    served: bool = False
    titles: Mapping[Path, str] = field(default_factory=dict)
    left_out: LeftOutNll | None = None

    @property
    def helps(self) -> bool:
        """Whether NLL falls on families that were left out of the fit, as far as there are any."""
        return self.left_out is None or self.left_out.falls

    @property
    def answer(self) -> str:
        """Whether calibrating helps, in a sentence."""
        if self.left_out is None:
            return (
                "Cannot tell whether calibrating helps: there is one item, or one group of them, "
                "and none to leave out of the fit."
            )
        return self.left_out.sentence

    def portable(self) -> PortableCalibration:
        """Return the temperatures by type of question that transformers can apply.

        Raises:
            InputError: the fit is on an ensemble of views.
        """
        return portable_calibration(self.items, self.calibrator)

    def write(
        self, out: Path | None = None, *, overwrite: bool = False, force: bool = False
    ) -> tuple[Path, ...]:
        """Write the calibrator to a file and into the run folders that it was applied to.

        Args:
            out: the file; None takes `calibration.json` in the folder of the run it was fitted on.
            overwrite: replace calibrators of other fits.
            force: write it even if it does not help.

        Returns:
            The file, then those in the folders of the other runs.

        Raises:
            GateError: NLL does not fall on left-out families; nothing was written.
            InputError: a file holds a calibrator of another fit, or is in an object store; nothing
                was written. Or a file cannot be written.
        """
        if not (self.helps or force):
            message = "calibrating does not help: NLL does not fall on left-out families"
            raise GateError(f"{message}; nothing was written, force=True writes it")
        applied = [folder for folder in self.effects if folder != self.folder]
        first = out or self.folder / CALIBRATION_NAME
        paths = (first, *(folder / CALIBRATION_NAME for folder in applied))
        for target in paths:
            refuse_remote(target)
        if not overwrite:
            for target in paths:
                refuse_overwriting(target, self.calibrator, movable=target == first)
        for target in paths:
            write_calibrator(target, self.calibrator)
        return paths


def _fit(
    items: CalibrationItems, mode: Mode | Literal["auto"]
) -> tuple[ModeChoice | None, CalibratorFit, LeftOutNll | None]:
    """Return why the form was chosen, the fit, and what it does on families left out."""
    choice = choose_mode(items) if mode == "auto" else None
    form, ridge = (choice.mode, choice.ridge) if choice is not None else (mode, 0.0)
    form = "scalar" if form == "auto" else form
    with step("Fitting"):
        fit = fit_calibrator(items, mode=form, ridge=ridge)
        left_out = choice.nll if choice is not None else None
        return choice, fit, left_out or left_out_nll(items, mode=form, ridge=ridge)


def fit_on_run(
    source: RunSource,
    holdouts: Sequence[RunSource] = (),
    *,
    mode: Mode | Literal["auto"],
    decoding: Decoding,
    allow: Collection[Allowance] = (),
) -> FittedRun:
    """Fit a calibrator on a run, and apply it to others of the same adapter.

    Args:
        source: the run of the calibration split, or its folder.
        holdouts: runs to apply it to.
        mode: the form; "auto" chooses it by cross-validation over source families.
        decoding: single or ensemble: the distributions that it is fitted on and applied to.
        allow: differences between a holdout and the run that are accepted.

    Returns:
        The fit and its effects; nothing is written.

    Raises:
        RunError: a folder is not a complete run.
        InputError: a holdout has another adapter, base or contract, its families meet those of the
            run, or the items cannot be fitted. Or it is for several views, which were taken one by
            one in a run.
        GateError: the adapter was trained or selected on items of a run.
    """
    run = read_run(source)
    others = {holdout.folder: holdout for holdout in map(read_run, holdouts)}
    runs = {run.folder: run} | others
    members = Members.of_run(run.predictions)
    identity = RunIdentity.of(run.provenance)
    trained = refuse_trained_on([run, *others.values()], allow)
    warnings = tuple(
        CalibrationWarning(other.place, note)
        for other in others.values()
        for note in (
            *check_owner(identity, other.provenance, allow=allow, where=other.place),
            *check_disjoint(members, Members.of_run(other.predictions)),
        )
    )
    items = {
        name: CalibrationItems.from_predictions(each.predictions, decoding)
        for name, each in runs.items()
    }
    choice, fit, left_out = _fit(items[run.folder], mode)
    return FittedRun(
        folder=run.folder,
        calibrator=fit.calibrator.with_provenance(
            run=identity_json(run),
            chosen=None if choice is None else choice.why,
            left_out_nll=None
            if left_out is None
            else {"raw": left_out.raw, "fitted": left_out.fitted, "unit": left_out.unit},
            **trained_on_json(run),
        ),
        choice=choice,
        fit=fit,
        effects={
            name: _effect(each, items[name], fit.calibrator, decoding)
            for name, each in runs.items()
        },
        warnings=(*trained, *warnings),
        items=items[run.folder],
        served=run.provenance.served,
        titles={name: titled.title for name, titled in runs.items()},
        left_out=left_out,
    )


def _effect(
    run: Run, items: CalibrationItems, calibrator: Calibrator, decoding: Decoding
) -> CalibrationEffect:
    """Return the effect on a run, with a note if its probabilities are known up to an interval."""
    effect, decimals = calibration_effect(items, calibrator), run.provenance.rounded_to
    if decimals is None and not run.provenance.censored:
        return effect
    censored, n = censored_references(run.predictions, decoding, decimals), len(items)
    if decimals is None:
        text = (
            f"the log lists only the most probable tokens; {censored:,} of {n:,} correct answers "
            "are not among them: they count as the least probable listed token, and NLL and T "
            "depend on that"
        )
    elif censored:
        text = (
            f"probabilities are rounded to {decimals} decimals; {censored:,} of {n:,} correct "
            f"answers were rounded to 0: they count as {0.5 * 10**-decimals:g} or less, and NLL "
            "and T depend on that"
        )
    else:
        text = (
            f"probabilities are rounded to {decimals} decimals; no correct answer was rounded to 0"
        )
    numbers: dict[str, Json] = {"decimals": decimals, "censored": censored, "items": n}
    return replace(effect, notes=(*effect.notes, CalibrationNote("RoundedItems", text, numbers)))


def calibrator_for(
    path: Path,
    provenance: Provenance,
    predictions: Predictions,
    *,
    allow: Collection[Allowance] = (),
) -> tuple[Calibrator, tuple[CalibrationNote, ...]]:
    """Read a calibrator that is to be applied to a run. Every reader of calibrators calls this.

    Args:
        path: its file.
        provenance: provenance of the run.
        predictions: the views of the run.
        allow: differences from the run of the fit that are accepted.

    Returns:
        The calibrator, and notes: source families that meet, families or runs that are not known,
        differences that were allowed, and a fit on data that the adapter was trained on. For use
        outside the data of its fit, see `calibration_notes`.

    Raises:
        InputError: it cannot be read, it belongs to another adapter, base or contract, or it was
            fitted on families of this run.
    """
    calibrator = read_calibrator(path)
    owner = check_owner(identity_of_fit(calibrator), provenance, allow=allow, where=str(path))
    members = Members.of_run(predictions)
    notes = (*owner, *check_disjoint(Members.of_fit(calibrator), members))
    return calibrator, (*notes, *_fitted_on_training(calibrator))


def is_fitted_on(path: Path, predictions: Predictions) -> bool:
    """Return whether the calibrator of a file was fitted on all families of a run.

    Raises:
        InputError: it cannot be read.
    """
    fitted, families = Members.of_fit(read_calibrator(path)), Members.of_run(predictions).families
    return bool(families) and families <= fitted.families


def _fitted_on_training(calibrator: Calibrator) -> tuple[CalibrationNote, ...]:
    met = (calibrator.fit or {}).get("trained_on")
    families = met.get("families") if isinstance(met, dict) else None
    if not isinstance(families, int):
        return ()
    text = (
        f"fitted on {families:,} families that the model may have learnt, as allowed: its "
        "temperatures may be too low"
    )
    return (CalibrationNote("FittedOnTraining", text, {"families": families}),)


def identity_json(run: Run) -> dict[str, Json]:
    """Return which run a fit is on, for its file."""
    recorded = run.provenance
    return {
        "arm": recorded.arm,
        "seed": recorded.seed,
        **RunIdentity.of(recorded).to_json(),
        "data_sha256": recorded.data.sha256,
    }
