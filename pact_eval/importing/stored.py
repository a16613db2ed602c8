"""Logs that are stored as runs under a free name, or found again as the run that they are."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Final

import polars as pl

from pact_eval._files import sha256_of_file
from pact_eval._json import Json
from pact_eval.data.labelled.reader import LabelledData
from pact_eval.errors import RunSettingsError
from pact_eval.importing.exchanges import MEASURED
from pact_eval.importing.import_run import default_folder, read_to_write
from pact_eval.importing.registry import source_of
from pact_eval.importing.source import ImportOptions
from pact_eval.runs.places import RUNS, url_of
from pact_eval.runs.provenance import NAME as PROVENANCE
from pact_eval.runs.provenance import Data, RunLabels, read_provenance
from pact_eval.runs.rows import PREFIX
from pact_eval.runs.seal import PREDICTIONS

_OF_ROWS: Final = ("k", "values", "log")
"""Settings of a run that follow from its log; the others are the bytes and the options."""

_WORDS: Final[Mapping[str, str]] = {
    "reference": "right answer",
    "prediction": "answer",
    "log_probabilities": "log-probabilities",
    "options": "answers to choose from",
    "source_family": "source group",
    "family": "group",
    "state": "text",
    "type": "kind",
}
"""Roles of columns in the words of a reader; the others are words already."""

_MOST_NAMED: Final = 3
_LEAST_SHARED: Final = 2  # items that share a value, on average, of a column that divides them


@dataclass(frozen=True)
class StoredRun:
    """A log as a run.

    Attributes:
        folder: the run folder.
        remarks: what to know of the log, one sentence each; empty if the run was there already.
        is_new: whether it was written now.
        labelled: how the labelled data with the right answers were read; None for other data.
    """

    folder: Path
    remarks: tuple[str, ...] = ()
    is_new: bool = True
    labelled: LabelledData | None = None


def store_run(
    path: Path,
    runs: Path | str = RUNS,
    labels: RunLabels | None = None,
    options: ImportOptions | None = None,
) -> StoredRun:
    """Store a log as a run: under its name, or with a number behind it if that is another run.

    A run that was made from the same bytes in the same way, with the labels that are given, is used
    again. Nothing is overwritten. Of two processes at once, the second waits.

    Args:
        path: a log, or its URL; see `registry.py`.
        runs: the folder of runs.
        labels: what names the run: arm, seed, command line.
        options: how the log is read; None detects its format.

    Raises:
        InputError: the log cannot be read.
        RecordError: a row is malformed, or the log contradicts itself; then nothing is written.
        RunError: a folder cannot be used.
    """
    from filelock import FileLock  # slow to import

    options, labels = options or ImportOptions(), labels or {}
    first = default_folder(path, runs)
    known = _known_settings(path, options)
    # Two commands at once would each find the name free, and write one log twice.
    with FileLock(_lock_of(first.parent), fallback_to_soft=False):
        for folder in _numbered(first) if known is not None else ():
            if not folder.exists():
                break
            if _is_run_of(folder, known) and _has_labels(folder, labels):
                return StoredRun(folder, is_new=False)
        log = read_to_write(path, labels, options)
        for folder in _numbered(first):
            if folder.exists() and not (folder / PROVENANCE).exists():
                continue
            is_new = not (folder / PREDICTIONS).exists()
            if not is_new and not _has_labels(folder, labels):
                continue
            try:
                log.write(folder)
            except RunSettingsError:
                continue
            break
    return StoredRun(folder, log.rows.remarks, is_new, log.rows.labelled)


def _lock_of(runs: Path) -> Path:
    """Return the file that is locked while a log is stored; the folder of runs has runs alone."""
    user = getattr(os, "getuid", int)()
    name = hashlib.sha256(os.fsencode(runs.resolve())).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"pact-eval-{user}-{name}.lock"


def _numbered(folder: Path) -> Iterator[Path]:
    """Yield a folder, and then its name with 2, 3, ... behind it."""
    yield folder
    for number in count(2):
        yield folder.with_name(f"{folder.name}-{number}")


def _known_settings(path: Path, options: ImportOptions) -> Mapping[str, Json] | None:
    """Return the settings of a run of one file that are known without reading its rows.

    Returns:
        None for folders and URLs, and if further files decide how the rows are read.
    """
    further = options.suites or options.data is not None or options.source is not None
    if further or url_of(path) is not None or not path.is_file():
        return None
    return {"data": Data(sha256_of_file(path)).to_json(), **options.settings}


def _is_run_of(folder: Path, settings: Mapping[str, Json] | None) -> bool:
    """Return whether a folder has the complete run of these settings, of this version."""
    if not (folder / PROVENANCE).exists() or not (folder / PREDICTIONS).exists():
        return False
    run = read_provenance(folder)
    recorded = run.recorded.get("settings")
    if run.source != "import" or not isinstance(recorded, dict):
        return False
    same = {name: value for name, value in recorded.items() if name not in _OF_ROWS} == settings
    return same and run.versions.get("pact-eval") == metadata.version("pact-eval")


def _has_labels(folder: Path, labels: RunLabels) -> bool:
    """Return whether a run has the labels that are given: others make it another run."""
    run = read_provenance(folder)
    recorded = {"arm": run.arm, "seed": run.seed, "role": run.role}
    given = {name: labels.get(name) for name in recorded}
    return all(value in (None, recorded[name]) for name, value in given.items())


def how_read(folder: Path) -> str:
    """Say how the log of a run was read: the role of each column, or what wrote the log.

    Args:
        folder: a complete run that was imported.

    Example:
        "label = right answer, p_* = probabilities, group = slice"
    """
    recorded = read_provenance(folder).recorded
    block, references = recorded.get("log"), recorded.get("references")
    log = block if isinstance(block, dict) else {}
    columns = log.get("columns")
    if not isinstance(columns, dict):
        slices = _slices(folder, MEASURED) if "requests" in log else ()
        return ", ".join([_source_text(log), *slices])
    words: dict[str, str] = {**_WORDS}
    if "probability_of" in log:
        words["probabilities"] = f"probability of {log['probability_of']}"
    if "percent" in log:
        words["confidence"] = "confidence in percent"
    parts = []
    for role, names in columns.items():
        if isinstance(names, list) and names != ["id"]:
            column, word = _column_names(names), words.get(role) or role
            is_said = word in (column, f"{column} in percent")
            parts.append(word if is_said else f"{column} = {word}")
    for what in ("text", "id"):
        number = log.get(f"{what}s")
        if isinstance(number, int) and number > 1:
            parts.append(f"rows with one {what} belong together: {number:,} {what}s")
    of_data = [] if references is None else [f"right answers from {references}"]
    return ", ".join([*parts, *of_data, *_slices(folder)])


def _source_text(log: Mapping[str, Json]) -> str:
    """Name what wrote a log, its tasks, and by which of its metrics it was read."""
    source = log.get("format")
    if source in (None, "rows"):
        return "rows in the format of pact-eval"
    tasks = log.get("tasks") or log.get("task") or log.get("run") or ()
    listed = [str(task) for task in (tasks if isinstance(tasks, list) else [tasks]) if task]
    more = len(listed) - _MOST_NAMED
    of_tasks = "".join(f", {task}" for task in listed[:_MOST_NAMED])
    of_tasks += f" and {more:,} more" if more > 0 else ""
    metric = log.get("metric")
    names = {*metric.values()} if isinstance(metric, dict) else {metric}
    by = f", answers by {', '.join(sorted(map(str, names)))}" if metric else ""
    labels = log.get("labels")
    of_labels = f", right answers from {labels}" if labels else ""
    return f"log of {source_of(str(source)).title}{of_tasks}{by}{of_labels}"


def _column_names(names: list[Json]) -> str:
    """Return the names of the columns of one role; several with one beginning as that and `*`.

    Examples:
        >>> _column_names(["p_yes", "p_no"]), _column_names(["label"]), _column_names(["a", "b"])
        ('p_*', 'label', 'a + b')
    """
    texts = [str(name) for name in names]
    if len(texts) < 2:
        return "".join(texts)
    shared = ""
    for letters in zip(*texts, strict=False):
        if len({*letters}) > 1:
            break
        shared += letters[0]
    if shared.rstrip("0123456789") and not shared[-1].isalnum():
        return f"{shared}*"
    if len(texts) > _MOST_NAMED:
        return f"{texts[0]} ... {texts[-1]} ({len(texts):,} columns)"
    return " + ".join(texts)


def _slices(folder: Path, without: Sequence[str] = ()) -> Iterator[str]:
    """Yield the further columns whose values items share: `--by` divides the report by them."""
    file = folder / PREDICTIONS
    stored = pl.read_parquet_schema(file)
    names = [name for name in stored if name.removeprefix(PREFIX) not in {name, *without}]
    if not names:
        return
    rows = pl.read_parquet(file, columns=["id", *names]).unique("id")
    shared = [
        name.removeprefix(PREFIX)
        for name in names
        if 1 < rows[name].n_unique() <= len(rows) / _LEAST_SHARED
    ]
    if not shared:
        return
    more = len(shared) - _MOST_NAMED
    listed = ", ".join(shared[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    yield f"{listed} = {'slice' if len(shared) == 1 else 'slices'}"
