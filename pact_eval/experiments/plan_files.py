"""Files that a plan names, and their problems before anything starts."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

from pact_eval.data.files import (
    MANIFEST_NAME,
    DataFile,
    Role,
    dataset_files,
    read_manifest,
)
from pact_eval.data.index import index_of_records
from pact_eval.errors import InputError, Problem, RecordError, counted
from pact_eval.experiments.command_template import CommandTemplate
from pact_eval.experiments.plan import UNSTATED, Plan
from pact_eval.hub.names import is_hub_id
from pact_eval.preregistration.parsing import read_hypotheses

_SCRIPTS: Final = (".py", ".sh")
_NAMES_SHOWN: Final = 3


@dataclass(frozen=True)
class PlanFiles:
    """Files that an experiment starts from. Paths start from the folder of the plan.

    Attributes:
        train: the training file; before the split, if the experiment makes the splits.
        holdout: the file to evaluate on.
        selection: the selection split; None if the experiment makes the splits.
        calibration: the calibration split, likewise.
        data: all files of the dataset, with its manifest.
        scripts: files among the words of the command.
        base: folder of the base model; None for a hub id.
        base_commit: commit of a hub id whose revision can move; None if it is not known.
        missing: problems with files that do not exist.
        problems: all other problems.
    """

    train: Path
    holdout: Path
    selection: Path | None
    calibration: Path | None
    data: tuple[Path, ...]
    scripts: tuple[Path, ...]
    base: Path | None
    base_commit: str | None = None
    missing: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def has_splits(self) -> bool:
        """Whether the dataset has its own selection and calibration splits."""
        return self.selection is not None and self.calibration is not None


def search_path() -> str:
    """Return the PATH of commands: the programs next to this Python come first.

    So `python train.py` runs the Python that pact-eval runs in, also if its environment is not
    activated.
    """
    here = str(Path(sys.executable).parent)
    return os.pathsep.join([here, os.environ.get("PATH", os.defpath)])


def plan_files(plan: Plan) -> PlanFiles:
    """Find the files of a plan, and collect what is wrong with them.

    Args:
        plan: the plan.
    """
    problems: list[Problem] = []
    by_role: dict[Role, Path] = {}
    data: tuple[Path, ...] = ()
    if (plan.folder / plan.data.folder).is_dir():
        try:
            files = _data_files(plan)
            problems += _role_problems(plan, files)
            by_role = {file.role: plan.data.folder / file.name for file in files}
            data = (*(plan.data.folder / file.name for file in files), *_manifest(plan))
            problems += _shared_source_families(files)
        except InputError as error:
            problems.append(_problem(f"data: folder: {error}"))
    problems += _hypotheses_problems(plan)
    base = Path(plan.model.base)
    return PlanFiles(
        train=by_role.get("train", plan.data.folder / "train.jsonl"),
        holdout=by_role.get("eval", plan.data.folder / "holdout.jsonl"),
        selection=by_role.get("selection"),
        calibration=by_role.get("calibration"),
        data=data,
        scripts=tuple(
            path for path in (*_program(plan), *_scripts(plan)) if (plan.folder / path).is_file()
        ),
        base=base if (plan.folder / base).is_dir() else None,
        missing=tuple(_missing(plan)),
        problems=tuple(problems),
    )


def _problem(message: str) -> Problem:
    return Problem(None, None, message)


def _missing(plan: Plan) -> Iterator[Problem]:
    """Yield a problem for each file or program that does not exist; what is unstated is not one."""
    data, base, hypotheses = plan.data.folder, plan.model.base, plan.judge.hypotheses
    if str(data) != UNSTATED and not (plan.folder / data).is_dir():
        yield _problem(f"data: folder: no such folder: {data}")
    if hypotheses is not None and not (plan.folder / hypotheses).is_file():
        yield _problem(f"judge: hypotheses: no such file: {hypotheses}")
    if base != UNSTATED and not (plan.folder / base).is_dir() and not is_hub_id(base):
        yield _problem(f"model: base: neither a folder nor a hub id: {base}")
    for script in _scripts(plan):
        if not (plan.folder / script).is_file():
            yield _problem(f"train: command: no such file: {script}")
    unpaired = plan.data.unpaired
    if unpaired is not None and not (plan.folder / unpaired).is_file():
        yield _problem(f"data: unpaired: no such file: {unpaired}")
    if plan.train.command is None:
        return
    program = plan.train.command.words[0]
    # A program with a folder in its name starts from the folder of the plan.
    where = str(plan.folder / program) if os.path.dirname(program) else program  # noqa: PTH120
    if program != UNSTATED and shutil.which(where, path=search_path()) is None:
        yield _problem(f"train: command: no such program: {program}")


def _scripts(plan: Plan) -> tuple[Path, ...]:
    """Return the arguments of the command that must be files."""
    if plan.train.command is None:
        return ()
    words = CommandTemplate(plan.train.command.words[1:]).fixed_words()
    return tuple(
        Path(word) for word in words if word.endswith(_SCRIPTS) and not word.startswith("-")
    )


def _program(plan: Plan) -> tuple[Path, ...]:
    """Return the program of the command if it is a script of the user."""
    if plan.train.command is None:
        return ()
    return tuple(
        Path(word)
        for word in CommandTemplate(plan.train.command.words[:1]).fixed_words()
        if word.endswith(_SCRIPTS) and ("/" in word or (plan.folder / word).is_file())
    )


def _data_files(plan: Plan) -> tuple[DataFile, ...]:
    stated = [read_manifest(plan.folder / path).value for path in _manifest(plan)]
    return dataset_files(plan.folder / plan.data.folder, stated[0] if stated else None)


def _manifest(plan: Plan) -> tuple[Path, ...]:
    """Return the manifest of the dataset, if there is one."""
    path = plan.data.folder / MANIFEST_NAME
    return (path,) if (plan.folder / path).is_file() else ()


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


def _shared_source_families(files: tuple[DataFile, ...]) -> Iterator[Problem]:
    """Yield a problem for every two files that share a source family."""
    try:
        frame = index_of_records(files).frame
    except RecordError:
        return  # the audit, which is the first step, names every bad line
    names = [set(frame.filter(frame["file"] == n)["source_family"]) for n in range(len(files))]
    for (one, of_one), (other, of_other) in combinations(zip(files, names, strict=True), 2):
        shared = sorted(of_one & of_other)
        if shared:
            more = "" if len(shared) <= _NAMES_SHOWN else ", ..."
            yield _problem(
                f"data: {one.name} and {other.name} share "
                f"{counted(len(shared), 'source family')}: "
                f"{', '.join(shared[:_NAMES_SHOWN])}{more}"
            )


def _hypotheses_problems(plan: Plan) -> Iterator[Problem]:
    if plan.judge.hypotheses is None:
        return
    path = plan.folder / plan.judge.hypotheses
    if not path.is_file():
        return
    try:
        read_hypotheses(path)
    except RecordError as error:
        yield from (_problem(f"judge: hypotheses: {problem}") for problem in error.problems)
    except InputError as error:
        yield _problem(f"judge: hypotheses: {error}")
