"""The run folder: the scored views of one adapter on one dataset, and where they come from.

    run.json              provenance; `settings` decides the numbers and is what resuming compares
    predictions.parquet   one row an item and view, once the run is complete (with a column more,
                          and without references, where the items are ablated contexts)
    parts/                the same rows while the run is being written, one file a window of records

A part is written beside its place and renamed into it, so that a part either is whole or is not
there. A killed run goes on with the first missing part. Part n always holds the same records in the
same batches, so an interrupted run ends with the same bytes as one that was not.
"""

from __future__ import annotations

import datetime as dt
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import IO

import polars as pl

from pact_eval._files import atomic_path
from pact_eval._json import Json, dumps
from pact_eval.errors import RunError, RunSettingsError
from pact_eval.runs.predictions import ABLATED, Predictions, check_columns
from pact_eval.runs.provenance import (
    FORMAT_VERSION,
    Provenance,
    read_provenance,
    write_provenance,
)
from pact_eval.runs.provenance import NAME as PROVENANCE_NAME

if sys.platform != "win32":  # on Windows two writers in one folder are the user's own care
    import fcntl

_PARTS = "parts"
_PREDICTIONS = "predictions.parquet"
_LOCK = ".lock"
_FIXED_LABELS = ("arm", "seed")
_PARTIAL = re.compile(r"\..*\.tmp")
_PART = re.compile(r"part-\d{6,}\.parquet")


@dataclass(frozen=True)
class RunFolder:
    """A complete run; its rows are not read.

    Attributes:
        folder: the run folder as it was given.
        provenance: what `run.json` records.
    """

    folder: Path
    provenance: Provenance

    @property
    def name(self) -> str:
        """Name of the folder, after links are resolved."""
        return self.folder.resolve().name

    @property
    def arm(self) -> str:
        """The recipe: the recorded arm, or else the name of the folder."""
        return self.provenance.arm or self.name

    @property
    def seed(self) -> int | None:
        """Seed of the training; None for a base model, or if the run does not record one."""
        return self.provenance.seed

    @property
    def settings(self) -> Mapping[str, Json]:
        """What decided the numbers: adapter, base, dataset, K, ... as recorded."""
        return self.provenance.settings

    @property
    def predictions_file(self) -> Path:
        """The Parquet file that holds its rows."""
        return self.folder / _PREDICTIONS

    @cached_property
    def ablated(self) -> bool:
        """Whether the rows are ablated contexts, which have no references; reads one value.

        Raises:
            RunError: the file is damaged.
        """
        try:
            first = pl.scan_parquet(self.predictions_file, glob=False).select("variant").head(1)
            return first.collect().to_series().to_list() == [ABLATED]
        except (pl.exceptions.PolarsError, OSError):
            # The one reader of rows says what is wrong, and where.
            return bool((_read_rows(self.predictions_file)["variant"].head(1) == ABLATED).any())


@dataclass(frozen=True)
class Run(RunFolder):
    """A complete run, read; see `RunFolder`.

    Attributes:
        predictions: its scored views, with references unless the contexts are ablated.
    """

    predictions: Predictions


def read_run(folder: Path) -> Run:
    """Read a complete run on records with references.

    Args:
        folder: a run folder.

    Returns:
        The run.

    Raises:
        RunError: the folder is no run, is of a later format, is not complete, is damaged, or holds
            ablated contexts, which have no references.
    """
    run = read_any_run(folder)
    if run.predictions.ablated:
        message = (
            f"{folder}: a run on ablated contexts has no references, so its accuracy "
            "is undefined; use it with `pact-eval report` or, together with the runs on full "
            "contexts, with `pact-eval scorecard`"
        )
        raise RunError(message)
    return run


def read_any_run(folder: Path) -> Run:
    """Read a complete run, with or without references.

    Args:
        folder: a run folder.

    Returns:
        The run.

    Raises:
        RunError: the folder is no run, is of a later format, is not complete, or is damaged.
    """
    provenance = open_run(folder).provenance
    frame = _read_rows(folder / _PREDICTIONS)
    try:
        return Run(folder, provenance, Predictions.from_frame(frame))
    except RunError as error:
        message = f"{folder / _PREDICTIONS}: {error}"
        raise RunError(message) from None


def open_run(folder: Path) -> RunFolder:
    """Read what a complete run says of itself, and none of its rows.

    Args:
        folder: a run folder.

    Returns:
        The folder with its provenance; `predictions_file` is there to be read.

    Raises:
        RunError: the folder is no run, is of a later format, or is not complete.
    """
    provenance = read_provenance(folder)
    if not (folder / _PREDICTIONS).exists():
        done = sum(len(_read_rows(part)) for part in _parts(folder))
        message = (
            f"{folder}: the run is not complete ({done:,} views are scored); repeat the command "
            "that started it to resume the run"
        )
        raise RunError(message)
    return RunFolder(folder, provenance)


class RunWriter:
    """Writes a run part by part; opening an unfinished run resumes it.

    Args:
        folder: the run folder; made where it does not exist.
        settings: everything that decides the numbers, JSON values, nested objects allowed.
        labels: what names the run without changing its numbers (command line, arm, ...).

    Raises:
        RunError: the folder holds something else, is damaged, or another process writes it.
        RunSettingsError: the folder belongs to other settings; the message names them.
    """

    def __init__(
        self, folder: Path, settings: Mapping[str, Json], labels: Mapping[str, Json]
    ) -> None:
        self.folder = folder
        self._lock: IO[str] | None = None
        _make_folder(folder)
        self._lock = _locked(folder)
        try:
            self._provenance = _provenance_of(folder, settings, labels)
            self._done = {_part_number(part): len(_read_rows(part)) for part in _parts(folder)}
        except RunError:
            self.close()
            raise
        for stale in (each for each in folder.iterdir() if _PARTIAL.fullmatch(each.name)):
            stale.unlink()  # of a process that was killed while it wrote
        if self.complete:
            # A process that was killed while it closed the run may have left these.
            shutil.rmtree(folder / _PARTS, ignore_errors=True)
        else:
            (folder / _PARTS).mkdir(exist_ok=True)
        write_provenance(folder, self._provenance)

    @property
    def complete(self) -> bool:
        """Whether every row of the run is written."""
        return (self.folder / _PREDICTIONS).exists()

    @property
    def rows_done(self) -> int:
        """Number of item views that were already scored when the run was opened, or since."""
        return sum(self._done.values())

    def has_part(self, number: int) -> bool:
        """Whether part `number` is already written."""
        return number in self._done

    def write_part(self, number: int, frame: pl.DataFrame) -> None:
        """Write one part atomically; columns as in `predictions.SCHEMA`."""
        _write_parquet(frame, self.folder / _PARTS / f"part-{number:06d}.parquet")
        self._done[number] = len(frame)

    def finish(self, wall_seconds: float, facts: Mapping[str, Json]) -> None:
        """Join the parts into `predictions.parquet` and close the run.

        Args:
            wall_seconds: time this process spent scoring; added to that of earlier ones.
            facts: what was found out while scoring (counts, drift, ...), kept in `run.json`.
        """
        parts = [_read_rows(part) for part in _parts(self.folder)]
        self._provenance.update({"status": "complete", "finished": _now(), **facts})
        self.add_wall_seconds(wall_seconds)
        # Last, because it is what makes the run complete: killed before, it is closed again.
        _write_parquet(pl.concat(parts), self.folder / _PREDICTIONS)
        shutil.rmtree(self.folder / _PARTS)

    def add_wall_seconds(self, wall_seconds: float) -> None:
        """Add scoring time to the record, also when the run is left unfinished."""
        before = self._provenance.get("wall_seconds")
        earlier = float(before) if isinstance(before, int | float) else 0.0
        self._provenance["wall_seconds"] = round(earlier + wall_seconds, 3)
        write_provenance(self.folder, self._provenance)

    def close(self) -> None:
        """Let go of the folder; safe to call twice."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _provenance_of(
    folder: Path, settings: Mapping[str, Json], labels: Mapping[str, Json]
) -> dict[str, Json]:
    """Return what is known of the run in the folder, or a new beginning."""
    if not _holds_rows(folder):
        return _new_provenance(settings, labels)
    provenance = dict(read_provenance(folder))
    _refuse_other_settings(folder, provenance.get("settings"), settings)
    # Labels decide no number, but a run must not pass for another arm or seed in silence.
    known = {key: provenance[key] for key in _FIXED_LABELS if provenance.get(key) is not None}
    given = {key: labels[key] for key in known if labels.get(key) is not None}
    _refuse_other_settings(folder, known, known | given)
    provenance |= {key: value for key, value in labels.items() if value is not None}
    versions = _versions()
    if provenance.get("versions") != versions:
        provenance["resumed_with_versions"] = versions
    return provenance


def _new_provenance(settings: Mapping[str, Json], labels: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "format_version": FORMAT_VERSION,
        "status": "running",
        "created": _now(),
        "settings": dict(settings),
        **labels,
        "versions": _versions(),
    }


def _versions() -> dict[str, Json]:
    found: dict[str, Json] = {"python": platform.python_version()}
    for package in ("pact-eval", "torch", "transformers", "peft", "numpy", "polars"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _refuse_other_settings(folder: Path, found: Json, wanted: Mapping[str, Json]) -> None:
    before, now = _flat(found), _flat(dict(wanted))
    differing = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
    if differing:
        lines = [
            f"  {key}: the folder has {dumps(before.get(key))}, this command {dumps(now.get(key))}"
            for key in differing
        ]
        message = (
            f"{folder} belongs to a run with other settings; give another --out, or remove it:\n"
            + "\n".join(lines)
        )
        raise RunSettingsError(message)


def _flat(value: Json, prefix: str = "") -> dict[str, Json]:
    if not isinstance(value, dict):
        return {prefix: value}
    flat: dict[str, Json] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{prefix}.{key}" if prefix else key)
    return flat


def _holds_rows(folder: Path) -> bool:
    """A run that failed before its first row (a wrong base model, say) binds nobody."""
    return (folder / _PREDICTIONS).exists() or bool(_parts(folder))


def _make_folder(folder: Path) -> None:
    known = {PROVENANCE_NAME, _PARTS, _LOCK}
    entries = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    foreign = [name for name in entries if name not in known and not _PARTIAL.fullmatch(name)]
    if foreign and not (folder / PROVENANCE_NAME).exists():
        message = f"{folder}: the folder is not empty and holds no run; give another --out"
        raise RunError(message)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{folder}: cannot be made ({error.strerror})"
        raise RunError(message) from None


def _locked(folder: Path) -> IO[str] | None:
    if sys.platform == "win32":
        return None
    file = (folder / _LOCK).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        message = f"{folder}: another process is writing this run"
        raise RunError(message) from None
    return file


def _parts(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / _PARTS).glob("*") if _PART.fullmatch(path.name))


def _part_number(part: Path) -> int:
    return int(part.stem.removeprefix("part-"))


def _read_rows(path: Path) -> pl.DataFrame:
    try:
        # Without globbing: a folder may be called "[new]".
        frame = pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        advice = (
            "; remove it and run the scoring command again, only its items are scored anew"
            if path.parent.name == _PARTS
            else "; restore it from a copy, or remove the run folder and make the run again"
        )
        message = f"{path}: damaged or cut short ({reason}){advice}"
        raise RunError(message) from None
    try:
        check_columns(frame)
    except RunError as error:
        message = f"{path}: {error}"
        raise RunError(message) from None
    return frame


def _write_parquet(frame: pl.DataFrame, path: Path) -> None:
    with atomic_path(path) as partial:
        frame.write_parquet(partial)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
