"""Ownership of calibrators: the adapter, prompts and decoding of the run it was fitted on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from pact_eval._choices import Allowance, Decoding
from pact_eval._json import Json
from pact_eval.calibration.files import read_calibrator
from pact_eval.calibration.notes import FitNote, OtherRun, UnknownRun
from pact_eval.calibration.temperatures import Calibrator
from pact_eval.errors import InputError
from pact_eval.runs.identity import Difference, RunIdentity
from pact_eval.runs.provenance import Provenance

# What makes two fits the same: a fit of another form on the same run is a new version of it.
_SOURCE: Final = ("run", "decoding", "families", "source_families")


def check_owner(
    fitted: RunIdentity,
    applied: Provenance,
    *,
    allow: Collection[Allowance],
    where: str,
    what: str = "calibrator",
) -> tuple[FitNote, ...]:
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
        return (UnknownRun(),)
    return (OtherRun(tuple(difference.fact for difference in differences)),) if differences else ()


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
    if existing is not None and (_same_source(existing, calibrator) or _same(existing, calibrator)):
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
    message = (
        f"{where}: the {what} belongs to another run:\n" + "\n".join(lines) + "\n"
        "  fit one with `pact-eval calibrate` on a run of the calibration split with this adapter "
        f"and decoding, or use {options}"
    )
    raise InputError(message)


def _source(calibrator: Calibrator) -> Mapping[str, Json] | None:
    fit = calibrator.fit or {}
    return {name: fit.get(name) for name in _SOURCE} if fit.get("run") else None


def _same_source(one: Calibrator, other: Calibrator) -> bool:
    return _source(one) is not None and _source(one) == _source(other)


def _same(one: Calibrator, other: Calibrator) -> bool:
    return (one.mode, one.weights) == (other.mode, other.weights)


def _owner(calibrator: Calibrator) -> str:
    fit = calibrator.fit or {}
    run = fit.get("run")
    if not isinstance(run, dict):
        return "its run is not recorded"
    named = {"arm": run.get("arm"), "seed": run.get("seed"), "decoding": fit.get("decoding")}
    adapter = RunIdentity.of_json(run).adapter_sha256
    named["adapter"] = None if adapter is None else f"{adapter[:12]}..."
    return ", ".join(f"{name} {value}" for name, value in named.items() if value is not None)
