"""Runs of lm-evaluation-harness in folders: which files belong to one run.

`lm_eval --output_path out` writes `out/<model>/results_<date>.json` and
`out/<model>/samples_<task>_<date>.jsonl`. A folder and a date are one run. A path with several runs
is refused, with the command that imports each. Below version 0.4.3, a folder has `results.json` and
JSON arrays `<arguments>_<task>.jsonl`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pact_eval._files import open_regular, reading
from pact_eval.errors import InputError, SeveralFilesError
from pact_eval.importing.source import ImportOptions, as_dict, read_large_json

_DATE: Final = r"\d{4}-\d\d-\d\dT[\d.:-]+"
_SAMPLES: Final = re.compile(rf"samples_(?P<task>.+)_(?P<date>{_DATE})\.jsonl")
_RESULTS: Final = re.compile(rf".*_(?P<date>{_DATE})\.json|results\.json")
_OLD_SAMPLES: Final = re.compile(rb'\s*\[\s*\{\s*"doc_id"\s*:')
_START: Final = 256
_DEEPEST: Final = ("", "*/", "*/*/")
_SHOWN: Final = 20


@dataclass(frozen=True)
class HarnessRun:
    """One run: the files of samples of one folder and date.

    Attributes:
        samples: a file per task.
        folder: their folder.
        date: as in the names of its files; None if they have none.
        given: whether the user gave the one file of samples, of however many.
    """

    samples: tuple[Path, ...]
    folder: Path
    date: str | None
    given: bool = False

    @cached_property
    def results_file(self) -> Path | None:
        """The results next to the samples; None if they are not there."""
        name = "results.json" if self.date is None else f"*_{self.date}.json"
        return next(iter(sorted(self.folder.glob(name), key=_other_than_results)), None)

    @cached_property
    def results(self) -> Mapping[str, Any] | None:
        """What the results say; None if they are not there.

        Raises:
            InputError: they cannot be read.
        """
        return None if self.results_file is None else read_large_json(self.results_file)

    def task_of(self, file: Path) -> str:
        """Return the name of the task of a file: from its name, or from the results."""
        named = _SAMPLES.fullmatch(file.name)
        return named["task"] if named else _old_task(file.stem, self.results or {})


def is_samples(content: bytes) -> bool:
    """Return whether a file begins as samples of lm-evaluation-harness below 0.4.3 do."""
    return _OLD_SAMPLES.match(content) is not None


def is_results(path: Path, content: bytes) -> bool:
    """Return whether a file has the name and the first key of results."""
    named = _RESULTS.fullmatch(path.name) is not None
    return named and re.match(rb'\s*\{\s*"results"\s*:\s*\{', content) is not None


def runs_in(folder: Path) -> list[HarnessRun]:
    """Return the runs of a folder, or of the folders up to two levels deeper, hidden ones included.

    A folder with samples of its own hides what is deeper.
    """
    for deeper in _DEEPEST:
        by_run: dict[tuple[Path, str | None, str], list[Path]] = {}
        for file in sorted(folder.glob(f"{deeper}*.jsonl")):
            named = _SAMPLES.fullmatch(file.name)
            if named or _is_old(file):
                model = "" if named else _old_model(file)
                key = (file.parent, named["date"] if named else None, model)
                by_run.setdefault(key, []).append(file)
        if by_run:
            return [HarnessRun(tuple(files), *key[:2]) for key, files in by_run.items()]
    return []


def run_at(path: Path, options: ImportOptions) -> HarnessRun:
    """Return the run at a path: a file of samples, its results, or a folder.

    Raises:
        InputError: there is no run.
        SeveralFilesError: there are several; the message has the command of each.
    """
    if path.is_dir():
        runs = runs_in(path)
    elif named := _RESULTS.fullmatch(path.name):
        runs = [run for run in runs_in(path.parent) if run.date == named["date"]]
        runs = [run for run in runs if run.folder == path.parent]
    else:
        named = _SAMPLES.fullmatch(path.name)
        runs = [HarnessRun((path,), path.parent, named["date"] if named else None, given=True)]
    if not runs:
        message = (
            f"{path}: expected samples_<task>_<date>.jsonl in the folder, found none; lm_eval "
            "writes them with --log_samples --output_path FOLDER"
        )
        raise InputError(message)
    if len(runs) > 1:
        raise SeveralFilesError(_several(path, runs, options))
    return runs[0]


def import_command(path: Path, name: str, options: ImportOptions, *further: str) -> str:
    """Return the command that imports a path with the options of this import, and others."""
    given: list[str] = [*further]
    for option, value in options.settings.items():
        if isinstance(value, str):
            given += [f"--{option.replace('_', '-')}", value]
    return shlex.join(["pact-eval", "import", str(path), *given, "--out", f"runs/{name}"])


def _is_old(file: Path) -> bool:
    with reading(file), open_regular(file) as opened:
        return is_samples(opened.read(_START))


def _old_task(stem: str, results: Mapping[str, Any]) -> str:
    """Return the task at the end of a name, if the results have it; else the whole name."""
    tasks = sorted(as_dict(results.get("configs")), key=len, reverse=True)
    return next((task for task in tasks if stem.endswith(f"_{task}")), stem)


def _old_model(file: Path) -> str:
    """Return what comes before the task in a name of version 0.4.2: the arguments of the model."""
    run = HarnessRun((file,), file.parent, None)
    return file.stem.removesuffix(run.task_of(file))


def _other_than_results(path: Path) -> tuple[bool, str]:
    return not path.name.startswith("results_"), path.name


def _several(path: Path, runs: Sequence[HarnessRun], options: ImportOptions) -> str:
    """Return the message for several runs: what each is, and the command that imports it."""
    lines = []
    for run in runs[:_SHOWN]:
        model = str((run.results or {}).get("model_name") or run.folder.name)
        tasks = ", ".join(map(run.task_of, run.samples[:4])) + ", ..." * (len(run.samples) > 4)
        shots = sorted(set(map(str, as_dict((run.results or {}).get("n-shot")).values())))
        few = f", {' and '.join(shots)} shots" if shots else ""
        lines.append(f"  {model} of {(run.date or 'no date')[:19]}: {tasks}{few}")
        name = _name(path, run, runs)
        named = {file: f"{name}-{run.task_of(file)}" for file in run.samples}
        if run.results_file is not None and run.date is not None:
            named = {run.results_file: name}
        lines += [f"    {import_command(file, name, options)}" for file, name in named.items()]
    more = f"\n  and {len(runs) - _SHOWN:,} more" if len(runs) > _SHOWN else ""
    listed = "\n".join(lines)
    return f"{path}: {len(runs)} runs of lm-evaluation-harness; import one of them:\n{listed}{more}"


def _name(path: Path, run: HarnessRun, runs: Sequence[HarnessRun]) -> str:
    """Return a name for a run: that of its folder, with the date if the folder has others."""
    parts = run.folder.relative_to(path).parts if path.is_dir() else ()
    name = "-".join(part.strip("._") for part in parts) or run.folder.resolve().name.strip("._")
    siblings = [other for other in runs if other.folder == run.folder]
    return name if len(siblings) == 1 else f"{name}-{run.date or 'old'}"
