"""What commands are given: runs, folders of runs, logs that become runs, adapters and data.

Adapters and data are local, or downloaded from the Hub; stderr has the commit.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import click

from pact_cli.commands import config_of
from pact_cli.console import announce
from pact_cli.next_commands import OF_REPORT, remedies_of
from pact_cli.options import LOG_SUFFIXES, leave_out
from pact_eval._files import is_url
from pact_eval.data.labelled.reading import Reading
from pact_eval.data.opening import local_data, only_file_of
from pact_eval.errors import PactError, RunError, ShapeError
from pact_eval.evaluation.run_list import is_folder_of_runs
from pact_eval.hub import hub_location, snapshot_of
from pact_eval.importing.import_run import is_log_folder
from pact_eval.importing.source import COLUMNS_REMARK, FURTHER_REMARK, ImportOptions
from pact_eval.importing.stored import StoredRun, how_read, store_run
from pact_eval.models import AdapterPlace, find_adapter
from pact_eval.runs.places import RUNS
from pact_eval.runs.provenance import NAME, RunLabels, advice_without_run, read_provenance
from pact_eval.runs.seal import PREDICTIONS


def resolve_adapter(place: Path, *, audited: bool = False) -> AdapterPlace:
    """Return an adapter on this machine; one of the Hub is downloaded, and its commit is said.

    Args:
        place: a folder, or a Hub id.
        audited: as for `find_adapter`.

    Raises:
        AdapterError: the Hub cannot provide it.
    """
    adapter = find_adapter(place, audited=audited)
    _say("Adapter", adapter.folder)
    return adapter


def resolve_dataset(place: Path, *, one_file: bool = False) -> Path:
    """Return data on this machine; those of the Hub are downloaded, and their commit is said.

    Args:
        place: a file or folder, or `hf://datasets/owner/name[@revision][/path]`.
        one_file: of a snapshot, return its only data file. A folder with a manifest is returned as
            it is.

    Raises:
        InputError: the Hub cannot provide it.
        SeveralFilesError: nothing decides which of its files is meant.
    """
    if not is_url(place) and snapshot_of(place) is None:
        return place
    path = local_data(place)
    path = only_file_of(path) if one_file else path
    _say("Data", path)
    return path


def resolve_data_file(place: Path) -> Path:
    """Return a data file on this machine, as `resolve_dataset` does."""
    return resolve_dataset(place, one_file=True)


def _say(what: str, path: Path) -> None:
    name = hub_location(path)
    if name is not None:
        announce([f"{what}: {name}"])


_ASKS_FOR_DATA: Final = "--data FILE"
"""What the message on a log without right answers offers."""

_OWN_JSON: Final = re.compile(rb'"format":\s*"pact-')
_START_BYTES: Final = 4096
_NO_LOGS: Final = (".html", ".htm", ".md", ".svg", ".png", ".pdf", ".tex", ".toml", ".lock", ".log")


@dataclass(frozen=True)
class Places:
    """Runs that a command was given.

    Attributes:
        runs: run folders and URLs, in order; a log is the run that it became.
        folders: those that hold runs.
        read: by run folder, how its log was read, for logs that were given.
    """

    runs: tuple[Path, ...]
    folders: tuple[Path, ...] = ()
    read: Mapping[Path, str] = field(default_factory=dict)

    def texts_in(self, data: Sequence[Path]) -> tuple[Path, ...]:
        """Return the datasets that were not read as the right answers of a log alone."""
        logs = [read_provenance(folder).recorded.get("log") for folder in self.read]
        labels = {log.get("labels") for log in logs if isinstance(log, dict)}
        return tuple(path for path in data if path.name not in labels)


def find_places(
    paths: Sequence[Path], reading: Reading, data: Sequence[Path] = (), words: str | None = None
) -> Places:
    """Return the runs of run folders, folders of runs, and logs, which are stored as runs.

    Args:
        paths: what was given; nothing stands for the folder of runs.
        reading: how logs are read.
        data: the datasets of the command line; one has the right answers of a log without them.
        words: the command that a refused log offers, before its options; None takes `report`.

    Raises:
        PactError: a log cannot be read; the message has the command for its options.
        RunError: a folder is not a run, and is not a log.
    """
    runs_folder = Path(config_of(click.get_current_context()).get("runs", RUNS))
    if not paths:
        setting = config_of(click.get_current_context()).values.get("runs")
        announce([f"Using FOLDER {runs_folder} ({setting.source})"] if setting else [])
        if not runs_folder.is_dir():
            raise click.UsageError(
                f"no folder {runs_folder} here; give a run, or a file of predictions: pact-eval "
                "report FILE"
            )
        return Places((), (runs_folder,))
    runs: list[Path] = []
    folders: list[Path] = []
    read: dict[Path, str] = {}
    for path in _without_other_files(paths):
        if _is_log(path):
            with remedies_of(path, words, OF_REPORT):
                stored = _store(path, runs_folder, ImportOptions(reading=reading), data)
            of_columns = (COLUMNS_REMARK, FURTHER_REMARK)  # the line on how it was read names them
            announce(remark for remark in stored.remarks if not remark.startswith(of_columns))
            folder = stored.folder
            read[folder] = f"{how_read(folder)}; saved as {folder}"
            runs.append(folder)
        elif is_folder_of_runs(path):
            folders.append(path)
        else:
            _refuse_other_folder(path)
            runs.append(path)
    return Places(tuple(runs), tuple(folders), read)


def _refuse_other_folder(path: Path) -> None:
    """Refuse a folder without runs that is not a log.

    Raises:
        RunError: it is one; the message says what it holds.
    """
    if not path.is_dir() or _is_run(path):
        return
    raise RunError(
        f"{path}: not a run (it has no {NAME}), not a folder of runs, and not a log of a known "
        f"format{advice_without_run(path)}"
    )


def _is_run(path: Path) -> bool:
    return (path / NAME).exists() or (path / PREDICTIONS).exists()


def _without_other_files(paths: Sequence[Path]) -> list[Path]:
    """Leave out files that are no logs, such as the page of the demo in `runs/*`."""
    others = [path for path in paths if path.is_file() and _is_other_file(path)]
    if len(others) == len(paths):
        raise click.UsageError(
            f"{others[0]}: expected a run, a folder of runs, or a log; a page is checked with "
            "`pact-eval verify PAGE RUN...`, a file of thresholds with `pact-eval thresholds RUN "
            "--check FILE`"
        )
    leave_out(others)
    return [path for path in paths if path not in others]


def _is_other_file(path: Path) -> bool:
    """Return whether a file cannot be a log: by its name, or because it is one of our own JSON."""
    if path.suffix.lower() in _NO_LOGS:
        return True
    if path.suffix.lower() != ".json":
        return False
    with path.open("rb") as file:
        return _OWN_JSON.search(file.read(_START_BYTES)) is not None


def _is_log(path: Path) -> bool:
    """Return whether a path is a file, a folder of files that are no runs, or the URL of a file."""
    if is_url(str(path)):
        return path.suffix.lower() in LOG_SUFFIXES
    if not path.is_dir():
        return path.exists() or path.suffix.lower() in LOG_SUFFIXES
    return not _is_run(path) and not is_folder_of_runs(path) and is_log_folder(path)


def _store(path: Path, runs: Path, options: ImportOptions, data: Sequence[Path]) -> StoredRun:
    """Store a log; one that has no right answers takes those of the dataset, if there is one.

    Raises:
        PactError: it cannot be read.
    """
    labels: RunLabels = {"command_line": [*sys.argv]}
    try:
        return store_run(path, runs, labels, options)
    except ShapeError as error:
        if len(data) != 1:
            raise
        answers = replace(options, data=resolve_dataset(data[0], one_file=True))
        try:
            return store_run(path, runs, labels, answers)
        except PactError as other:
            raise (other if _ASKS_FOR_DATA in str(error) else error) from None
