"""Calibrators and run folders: fitted on one run, applied to others, never to its own families."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from pact_eval._choices import Allowance, Decoding, Mode
from pact_eval._json import Json
from pact_eval.calibration.effect import CalibrationEffect, calibration_effect
from pact_eval.calibration.fitting import CalibratorFit, fit_calibrator
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.portable import PortableCalibration, portable_calibration
from pact_eval.calibration.selection import LeftOutNll, ModeChoice, choose_mode, left_out_nll
from pact_eval.calibration.temperatures import (
    UNKNOWN_FAMILIES,
    UNKNOWN_RUN,
    CalibrationNote,
    CalibrationWarning,
    Calibrator,
    read_calibrator,
    write_calibrator,
)
from pact_eval.errors import GateError, InputError
from pact_eval.progress import step
from pact_eval.results import Result
from pact_eval.runs.custody import TrainedOnRun, refuse_trained_on, trained_on_json
from pact_eval.runs.folder import Run, RunSource, read_run
from pact_eval.runs.identity import Difference, RunIdentity
from pact_eval.runs.places import refuse_remote
from pact_eval.runs.predictions import Predictions, censored_references
from pact_eval.runs.provenance import Provenance
from pact_eval.runs.seal import CALIBRATION_NAME

# What makes two fits the same: a fit of another form on the same run is a new version of it.
_SOURCE: Final = ("run", "decoding", "families", "source_families")


def check_owner(
    fitted: RunIdentity, applied: Provenance, *, allow: Collection[Allowance], where: str
) -> tuple[CalibrationNote, ...]:
    """Refuse a calibrator that belongs to another run.

    Args:
        fitted: identity of the run of the fit, as the calibrator records it.
        applied: provenance of the run that it is applied to.
        allow: differences that the user accepts.
        where: name of the run in messages.

    Returns:
        A note if the owner is not known, or if differences were accepted.

    Raises:
        InputError: they differ; the message says in what, and which option accepts it.
    """
    here = RunIdentity.of(applied)
    differences = fitted.differences(here)
    _refuse(differences, allow, where)
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


def _refuse(differences: Sequence[Difference], allow: Collection[str], where: str) -> None:
    refused = [difference for difference in differences if difference.allowance not in allow]
    if not refused:
        return
    lines = [
        f"  {difference.words}: fitted on {difference.before}, applied to {difference.after}"
        for difference in refused
    ]
    options = " ".join(f"--allow {difference.allowance}" for difference in refused)
    raise InputError(
        f"{where}: the calibrator belongs to another run:\n" + "\n".join(lines) + "\n"
        "  fit one with `pact-eval calibrate` on a run of the calibration split with this adapter "
        f"and decoding, or use {options}"
    )


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
    what = "another file"
    try:
        existing = read_calibrator(path)
    except InputError:
        pass
    else:
        fit, new = existing.fit or {}, calibrator.fit or {}
        same_source = all(fit.get(name) == new.get(name) for name in _SOURCE)
        same_weights = (existing.mode, existing.weights) == (calibrator.mode, calibrator.weights)
        if same_weights or (fit.get("run") and same_source):
            return
        run, owner = fit.get("run"), "its run is not recorded"
        if isinstance(run, dict):
            named = {
                "arm": run.get("arm"),
                "seed": run.get("seed"),
                "decoding": fit.get("decoding"),
            }
            adapter = identity_of_fit(existing).adapter_sha256
            named["adapter"] = None if adapter is None else f"{adapter[:12]}..."
            facts = (f"{name} {value}" for name, value in named.items() if value is not None)
            owner = ", ".join(facts)
        what = f"a calibrator of another fit ({owner})"
    elsewhere = ", or give another --out" if movable else ""
    message = f"{path}: holds {what}; nothing was written. Use --overwrite to replace it{elsewhere}"
    raise InputError(message)


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
        listed = {key: (calibrator.fit or {}).get(key) for key in ("families", "source_families")}
        families, source_families = (
            frozenset(name for name in names if isinstance(name, str))
            for names in (value if isinstance(value, list) else [] for value in listed.values())
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
    own = items[run.folder]
    choice = choose_mode(own) if mode == "auto" else None
    form, ridge = ("scalar" if mode == "auto" else mode), 0.0
    if choice is not None:
        form, ridge = choice.mode, choice.ridge
    with step("Fitting"):
        fit = fit_calibrator(own, mode=form, ridge=ridge)
        left_out = None if choice is None else choice.nll
        left_out = left_out or left_out_nll(own, mode=form, ridge=ridge)
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
        items=own,
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
    met = (calibrator.fit or {}).get("trained_on")
    families = met.get("families") if isinstance(met, dict) else None
    if not isinstance(families, int):
        return calibrator, notes
    text = (
        f"fitted on {families:,} families that the model may have learnt, as allowed: its "
        "temperatures may be too low"
    )
    training = CalibrationNote("FittedOnTraining", text, {"families": families})
    return calibrator, (*notes, training)


def is_fitted_on(path: Path, predictions: Predictions) -> bool:
    """Return whether the calibrator of a file was fitted on all families of a run.

    Raises:
        InputError: it cannot be read.
    """
    fitted, families = Members.of_fit(read_calibrator(path)), Members.of_run(predictions).families
    return bool(families) and families <= fitted.families


def identity_json(run: Run) -> dict[str, Json]:
    """Return which run a fit is on, for its file."""
    recorded = run.provenance
    return {
        "arm": recorded.arm,
        "seed": recorded.seed,
        **RunIdentity.of(recorded).to_json(),
        "data_sha256": recorded.data.sha256,
    }
