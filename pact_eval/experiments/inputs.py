"""Files that a plan names, and their problems before anything starts."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval._files import sha256_of_file
from pact_eval.data.files import MANIFEST_NAME, DataFile, Role, dataset_files, read_manifest
from pact_eval.errors import InputError, PlanError, Problem, RecordError, TamperedError
from pact_eval.experiments.devices import search_path
from pact_eval.experiments.plan import UNSTATED, Plan
from pact_eval.hub.names import is_hub_id
from pact_eval.preregistration.criteria import read_hypotheses
from pact_eval.preregistration.registration import check_lock, lock_path, read_lock

SCRIPTS: Final = (".py", ".sh")
"""Ends of words of a command that are files of the user."""


@dataclass(frozen=True)
class PlanFiles:
    """Files that an experiment starts from. Paths start from the folder of the plan.

    Attributes:
        train: the training file; before the split, if the experiment makes the splits.
        holdout: the file to evaluate on.
        selection: the selection split; None if the experiment makes the splits.
        calibration: the calibration split, likewise.
        base: folder of the base model; None for a hub id.
    """

    train: Path
    holdout: Path
    selection: Path | None
    calibration: Path | None
    base: Path | None


def check_files(plan: Plan, problems: list[Problem]) -> PlanFiles:
    """Find the files of a plan.

    Args:
        plan: the plan.
        problems: its problems; those of its files are added.

    Raises:
        PlanError: there are problems.
        TamperedError: the hypotheses, their lock or the holdout have changed since they were
            registered.
    """
    by_role: dict[Role, Path] = {}
    if (plan.folder / plan.data.folder).is_dir():
        try:
            files = _data_files(plan)
            problems += _role_problems(plan, files)
            by_role = {file.role: plan.data.folder / file.name for file in files}
        except InputError as error:
            problems.append(_problem(f"data: folder: {error}"))
    problems += [*_hypotheses_problems(plan), *_missing(plan)]
    if problems:
        raise PlanError(str(plan.path), problems)
    base = Path(plan.model.base)
    holdout = by_role.get("eval", plan.data.folder / "holdout.jsonl")
    _check_registered(plan, holdout)
    return PlanFiles(
        train=by_role.get("train", plan.data.folder / "train.jsonl"),
        holdout=holdout,
        selection=by_role.get("selection"),
        calibration=by_role.get("calibration"),
        base=base if (plan.folder / base).is_dir() else None,
    )


def _problem(message: str) -> Problem:
    return Problem(None, None, message)


def _missing(plan: Plan) -> Iterator[Problem]:
    """Yield a problem for each file or program that does not exist."""
    data, base, hypotheses = plan.data.folder, plan.model.base, plan.judge.hypotheses
    if str(data) != UNSTATED and not (plan.folder / data).is_dir():
        yield _problem(f"data: folder: no such folder: {data}")
    if hypotheses is not None and not (plan.folder / hypotheses).is_file():
        yield _problem(f"judge: hypotheses: no such file: {hypotheses}")
    if base != UNSTATED and not (plan.folder / base).is_dir() and not is_hub_id(base):
        yield _problem(f"model: base: neither a folder nor a hub id: {base}")
    unpaired = plan.data.unpaired
    if unpaired is not None and not (plan.folder / unpaired).is_file():
        yield _problem(f"data: unpaired: no such file: {unpaired}")
    program, *words = plan.train.command or (sys.executable,)
    for word in words:
        is_script = word.endswith(SCRIPTS) and not word.startswith("-") and "{" not in word
        if is_script and not (plan.folder / word).is_file():
            yield _problem(f"train: command: no such file: {word}")
    # A program with a folder in its name starts from the folder of the plan.
    place = str(plan.folder / program) if "/" in program else program
    if program != UNSTATED and shutil.which(place, path=search_path()) is None:
        yield _problem(f"train: command: no such program: {program}")


def _data_files(plan: Plan) -> tuple[DataFile, ...]:
    folder = plan.folder / plan.data.folder
    manifest = folder / MANIFEST_NAME
    return dataset_files(folder, read_manifest(manifest).value if manifest.is_file() else None)


def _role_problems(plan: Plan, files: tuple[DataFile, ...]) -> Iterator[Problem]:
    """Yield a problem for each role that no file has, or several."""
    names: dict[Role, list[str]] = {}
    for file in files:
        names.setdefault(file.role, []).append(file.name)
    for role in ("train", "eval"):
        if role not in names:
            yield _problem(f"data: expected a file with the role {role} in {plan.data.folder}")
    if ("selection" in names) != ("calibration" in names):
        yield _problem(
            "data: expected files for selection and for calibration, or neither, which are then "
            f"split from the training file; got {', '.join(file.name for file in files)}"
        )
    for role, named in names.items():
        if len(named) > 1:
            yield _problem(f"data: expected one file with the role {role}, got {', '.join(named)}")


def _hypotheses_problems(plan: Plan) -> Iterator[Problem]:
    if plan.judge.hypotheses is None or not (plan.folder / plan.judge.hypotheses).is_file():
        return
    try:
        read_hypotheses(plan.folder / plan.judge.hypotheses)
    except RecordError as error:
        yield from (_problem(f"judge: hypotheses: {problem}") for problem in error.problems)
    except InputError as error:
        yield _problem(f"judge: hypotheses: {error}")


def _check_registered(plan: Plan, holdout: Path) -> None:
    """Refuse hypotheses or a holdout that are not those that were registered.

    A holdout that was not registered at all is left to the step `register`, which says so.

    Raises:
        TamperedError: they were changed, or the lock was.
    """
    if plan.judge.hypotheses is None:
        return
    path, data = plan.folder / plan.judge.hypotheses, plan.folder / holdout
    place = lock_path(path)
    if not path.is_file() or not place.exists():
        return
    lock = read_lock(place)
    registration = check_lock(read_hypotheses(path), lock, [])
    if registration.status == "TAMPERED":
        changes = "\n".join(f"  {reason}" for reason in registration.reasons)
        message = (
            f"{path}: not the registered hypotheses ({place}); register new ones as a file of "
            f"another name:\n{changes}"
        )
        raise TamperedError(message)
    registered = [file.sha256 for file in lock.data if file.name == data.name]
    if registered and data.is_file() and sha256_of_file(data) not in registered:
        message = f"{data}: changed since it was registered ({place}); restore it from a copy"
        raise TamperedError(message)
