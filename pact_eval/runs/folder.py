"""The run folder: the scored views of one adapter on one dataset, and their provenance.

    run.json              provenance; `settings` determines the numbers and is compared on resuming
    predictions.parquet   one row per item and view, once the run is complete (rows of ablated
                          contexts have no references and one more column)
    unanswered.parquet    one row per item without an answer, with its status and the reason; absent
                          if all items are answered
    parts/                the same rows while the run is being written, one file per window of
                          records

A part is written under another name and then renamed: a part is either complete or absent. A killed
run resumes with the first missing part. Part n always holds the same records in the same batches.
An interrupted run therefore ends with the same bytes as an uninterrupted one.

`run.json` holds the SHA-256 of every part before the part is renamed, and the seal of the run
(`seal.py`) before `predictions.parquet` is. Readers refuse files with other hashes.

Content-free prompts of a run: the same questions and orders, with a context that says nothing.

    content-free/         a run in the folder of its run: its own rows, provenance and seal
        predictions.parquet   ids "0/<id>", "1/<id>", "2/<id>": one for each content

Its settings are those of the run, except for the number of records and views, and "content_free",
the list of contents. Readers of the run ignore the folder; `sweep --remedies` reads it.
"""

from __future__ import annotations

import datetime as dt
import platform
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from pact_eval._choices import Decoding
from pact_eval._files import atomic_path, sha256_of_file, write_parquet, writing
from pact_eval._json import Json, dumps, flat
from pact_eval._typing import FloatArray, IntArray
from pact_eval.errors import RunError, RunSettingsError, TamperedError, counted
from pact_eval.progress import step
from pact_eval.results import Result, short_value
from pact_eval.runs.places import naming_urls, refuse_remote, run_folder, run_folders, shown
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import (
    DAMAGE_ADVICE,
    EVALUATION,
    FORMAT_VERSION,
    Counts,
    Provenance,
    RunNames,
    Seal,
    as_written,
    read_provenance,
    write_provenance,
)
from pact_eval.runs.provenance import NAME as PROVENANCE_NAME
from pact_eval.runs.rows import ABLATED, answered, check_columns, collected, unanswered
from pact_eval.runs.seal import (
    CONTENT_FREE,
    PREDICTIONS,
    check_counts,
    check_seal,
    rows_of_seal,
    seal_of_rows,
    sealed,
)
from pact_eval.runs.seal import PARTS as _PARTS
from pact_eval.runs.seal import PREDICTIONS as _PREDICTIONS
from pact_eval.runs.seal import UNANSWERED as _UNANSWERED

if TYPE_CHECKING:
    from filelock import BaseFileLock


_LOCK = ".lock"
_FIXED_LABELS = ("arm", "seed")
_PARTIAL = re.compile(r"\..*\.tmp")
_PART = re.compile(r"part-\d{6,}\.parquet")


@dataclass(frozen=True)
class RunFolder:
    """A complete run; its rows are not read.

    Attributes:
        folder: the run folder, as given; the copy of a URL.
        provenance: what `run.json` records.
    """

    folder: Path
    provenance: Provenance

    @property
    def name(self) -> str:
        """Name of the folder, after links are resolved."""
        return self.folder.resolve().name

    @property
    def place(self) -> str:
        """The run folder as outputs call it: the path or the URL that was given."""
        return shown(self.folder)

    @property
    def arm(self) -> str:
        """The recipe: the recorded arm, or else the name of the folder; see `Provenance.named`."""
        return self.provenance.named(self.provenance.arm or self.name)

    @property
    def title(self) -> str:
        """The place, and how the model was quantised unless the name says it."""
        named = self.provenance.named(self.name)
        return f"{self.place}{named.removeprefix(self.name)}"

    @property
    def seed(self) -> int | None:
        """Training seed; None for a base model, or if the run does not record one."""
        return self.provenance.seed

    @property
    def role(self) -> str:
        """Role of the run: evaluation, unless it records another one."""
        return self.provenance.role or EVALUATION

    @property
    def settings(self) -> Mapping[str, Json]:
        """The recorded settings that determine the numbers: adapter, base, dataset, K, ..."""
        settings: Mapping[str, Json] = self.provenance.recorded.get("settings") or {}
        return settings

    @property
    def seal(self) -> Seal:
        """The seal, which `open_run` has checked.

        Raises:
            RunError: the run is not complete.
        """
        if self.provenance.seal is None:
            raise RunError(f"{self.place}: the run is not complete and has no seal")
        return self.provenance.seal

    @property
    def predictions_file(self) -> Path:
        """The Parquet file that holds its rows."""
        return self.folder / _PREDICTIONS

    @cached_property
    def ablated(self) -> bool:
        """Whether the rows are ablated contexts, which have no references. Reads one value.

        Raises:
            RunError: the file is damaged.
        """
        first = pl.scan_parquet(self.predictions_file, glob=False).select("variant").head(1)
        return collected(self.predictions_file, first).to_series().to_list() == [ABLATED]

    def require_references(self) -> None:
        """Refuse a run on ablated contexts.

        Raises:
            RunError: the contexts are ablated, or the file is damaged.
        """
        if self.ablated:
            raise RunError(
                f"{self.place}: a run on ablated contexts has no references, so its accuracy "
                "is undefined; use it with `pact-eval report` or, together with the runs on full "
                "contexts, with `pact-eval scorecard`"
            )


@dataclass(frozen=True, repr=False)
class Run(RunFolder, Result):
    """A complete run, read; see `RunFolder`. A notebook shows it as a card, without metrics.

    Attributes:
        predictions: its scored views, with references unless the contexts are ablated.
    """

    predictions: Predictions

    def __repr__(self) -> str:
        items, name = len(self.predictions), type(self).__name__
        n_items = counted(items, "item")
        return f"{name}({short_value(self.name)}, {n_items}, K = {self.predictions.k})"

    def frame(self, decoding: Decoding = "single") -> pl.DataFrame:
        """Return one row per item as a polars data frame; see `pact_reports.frames.frame_of_run`.

        Args:
            decoding: single (view 0) or ensemble (K views), without a temperature. Repeats have a
                row each under single.

        Raises:
            InputError: the run has answers and no probabilities, and the decoding is ensemble.
        """
        frame: pl.DataFrame = import_module("pact_reports.frames").frame_of_run(self, decoding)
        return frame

    @cached_property
    def ablated(self) -> bool:
        """Whether the rows are ablated contexts, which have no references."""
        return self.predictions.ablated


RunSource: TypeAlias = RunFolder | Path | str
"""A run that is open or read, or the folder or URL of one."""


def read_run(source: RunSource) -> Run:
    """Read a complete run on records with references.

    Args:
        source: a run folder, or its URL; a run that is read already is returned.

    Returns:
        The run.

    Raises:
        RunError: the folder is not a run, has another format, is not complete, is damaged, or holds
            ablated contexts, which have no references.
        TamperedError: its files have changed since the run was sealed.
    """
    run = read_any_run(source)
    run.require_references()
    return run


def read_any_run(source: RunSource) -> Run:
    """Read a complete run, with or without references.

    Args:
        source: a run folder, or its URL. Of an open run, the seal is checked again, because its
            files may have changed; a run that is read already is returned.

    Returns:
        The run.

    Raises:
        RunError: the folder is not a run, has another format, is not complete, or is damaged.
        TamperedError: its files have changed since the run was sealed, or its `run.json` counts
            other items, views or K than the rows.
    """
    if isinstance(source, Run):
        return source
    opened = open_run(source.folder if isinstance(source, RunFolder) else source)
    path, provenance = opened.predictions_file, opened.provenance
    with naming_urls(), step(f"Reading {opened.folder.name}"):
        frame = _read_rows(path)
        try:
            predictions = Predictions.from_frame(frame)
            repeats = provenance.repeats and predictions.k > 1
            predictions = replace(predictions, known=provenance.known, repeats=repeats)
        except RunError as error:
            raise RunError(f"{path}: {error}") from None
        check_counts(opened.folder, provenance, items=len(predictions), views=len(frame))
    return Run(opened.folder, provenance, predictions)


def open_runs(sources: Iterable[RunSource]) -> list[RunFolder]:
    """Open runs in the given order; the URL of a pattern stands for the runs that match.

    Args:
        sources: as for `open_run`; a pattern has `*`, `?` or `[` in the last part of the URL.

    Raises:
        RunError: a folder is not a complete run, or nothing matches a pattern.
        TamperedError: the files of a run have changed since it was sealed.
    """
    runs: list[RunFolder] = []
    for source in sources:
        opened = [source] if isinstance(source, RunFolder) else run_folders([source])
        runs += map(open_run, opened)
    return runs


def open_run(source: RunSource) -> RunFolder:
    """Read the provenance of a complete run and check its seal, without reading its rows.

    Args:
        source: a run folder, or its URL, whose files are copied; an open run is returned.

    Returns:
        The folder with its provenance; `predictions_file` exists.

    Raises:
        RunError: the folder is not a run, has another format, or is not complete.
        TamperedError: its files have changed since the run was sealed.
    """
    if isinstance(source, RunFolder):
        return source
    folder = run_folder(source)
    with naming_urls():
        provenance = read_provenance(folder)
        if not (folder / _PREDICTIONS).exists():
            raise RunError(
                f"{folder}: the run is not complete ({views_written(folder):,} views are scored); "
                "repeat the command that started it to resume"
            )
        check_seal(folder, provenance)
    return RunFolder(folder, provenance)


def unanswered_ids(run: RunFolder) -> frozenset[str]:
    """Return the ids of the items of a complete run that have no answer.

    Raises:
        RunError: the file of unanswered items is damaged.
    """
    return frozenset(unanswered_items(run)["id"].to_list())


def unanswered_items(run: RunFolder) -> pl.DataFrame:
    """Return the items of a complete run that have no answer.

    Returns:
        One row per item: id, family, source_family, domain, kind, and what else the file holds;
        without such items, an empty frame with these columns.

    Raises:
        RunError: the file of unanswered items is damaged.
    """
    if run.seal.unanswered_sha256 is None:
        names = ("id", "family", "source_family", "domain", "kind")
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String()))
    path = run.folder / _UNANSWERED
    return collected(path, pl.scan_parquet(path, glob=False))


def items_written(folder: Path) -> int:
    """Return the number of items in the parts of a run that is not complete, answered or not.

    Raises:
        RunError: a part is damaged.
        TamperedError: a part is not the one that was written.
    """
    return sum(_read_rows(part)["id"].n_unique() for part in _check_parts(folder))


def views_written(folder: Path) -> int:
    """Return the number of views in the parts of a run that is not complete.

    Raises:
        RunError: a part is damaged.
        TamperedError: a part is not the one that was written.
    """
    return sum(len(_read_rows(part)) for part in _check_parts(folder))


class RunWriter:
    """Writer of a run, part by part; opening an unfinished run resumes it.

    Args:
        folder: the run folder; created if it does not exist.
        settings: everything that determines the numbers: JSON values, possibly nested.
        names: everything that names the run but does not change its numbers.

    Raises:
        RunError: the folder holds something else, is damaged, or another process writes to it.
        RunSettingsError: the folder has a run with other settings; the message names them.
        TamperedError: the run in the folder, or a part of it, has changed since it was written.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Json], names: RunNames) -> None:
        self.folder = folder
        self._lock: BaseFileLock | None = None
        _make_folder(folder)
        self._lock = _lock_folder(folder)
        try:
            self._open(settings, cast("Mapping[str, Json]", names))
        except BaseException:  # without an object, nobody could release the lock
            self.close()
            raise

    def _open(self, settings: Mapping[str, Json], labels: Mapping[str, Json]) -> None:
        self._provenance = _provenance_of(self.folder, settings, labels)
        self._parts = dict(self.recorded.parts)
        self._done = {int(part.stem.removeprefix("part-")) for part in _check_parts(self.folder)}
        for stale in (path for path in self.folder.iterdir() if _PARTIAL.fullmatch(path.name)):
            stale.unlink()  # left by a process that was killed while writing
        if self.complete:
            self._close_run()
        else:
            (self.folder / _PARTS).mkdir(exist_ok=True)
            write_provenance(self.folder, self._provenance)

    @property
    def complete(self) -> bool:
        """Whether every row of the run is written."""
        return (self.folder / _PREDICTIONS).exists()

    @property
    def begun(self) -> bool:
        """Whether a part is written."""
        return bool(self._done)

    def has_part(self, number: int) -> bool:
        """Return whether part `number` is already written."""
        return number in self._done

    def write_part(self, number: int, frame: pl.DataFrame) -> None:
        """Write one part atomically; columns as in `predictions.SCHEMA`."""
        path = self.folder / _PARTS / f"part-{number:06d}.parquet"
        with atomic_path(path) as partial:
            write_parquet(partial, frame)
            self._parts[path.name] = sha256_of_file(partial)
            self._provenance["parts"] = {**self._parts}
            # Before the rename: a part without its hash is never there, whenever a kill comes.
            write_provenance(self.folder, self._provenance)
        self._done.add(number)

    def rows(self) -> pl.DataFrame:
        """Return the rows of all parts, in order."""
        return pl.concat([_read_rows(part) for part in _check_parts(self.folder)])

    @property
    def recorded(self) -> Provenance:
        """Contents of `run.json` so far, from this process or an earlier one."""
        return Provenance.of(as_written(self._provenance), str(self.folder / PROVENANCE_NAME))

    def note(self, facts: Mapping[str, Json]) -> None:
        """Keep facts in the `run.json` of an unfinished run."""
        self._provenance.update(facts)
        write_provenance(self.folder, self._provenance)

    def finish(
        self, wall_seconds: float, facts: Mapping[str, Json], rows: pl.DataFrame | None = None
    ) -> None:
        """Join the parts into `predictions.parquet`, seal the run and close it.

        Args:
            wall_seconds: time this process spent scoring; added to that of earlier processes.
            facts: results of scoring (largest difference, ...), kept in `run.json`.
            rows: the rows of the run; None takes those of the parts.

        Raises:
            RunError: no item was answered.
        """
        everything = self.rows() if rows is None else rows
        frame, without = answered(everything), unanswered(everything)
        statuses = dict(without["status"].value_counts().sort("status").iter_rows())
        if frame.is_empty():
            reasons = f"{dumps({**statuses})}; the first: {without['reason'][0]}"
            raise RunError(f"{self.folder}: no item was answered: {reasons}")
        counts = Counts(frame["id"].n_unique(), len(frame), statuses)
        self._provenance.update({"status": "complete", "finished": _now(), **facts})
        self._provenance["counts"] = counts.to_json()
        self._add_wall_seconds(wall_seconds)
        beside = self.folder / _UNANSWERED
        if not without.is_empty():
            with atomic_path(beside) as partial:
                write_parquet(partial, without)
        # The rows are renamed last: they mark the run as complete. A run that is killed before this
        # is finished again, from its parts.
        with atomic_path(self.folder / _PREDICTIONS) as partial:
            write_parquet(partial, frame)
            seal = seal_of_rows(partial, frame, None if without.is_empty() else beside)
            self._provenance = sealed(self._provenance, seal)
            write_provenance(self.folder, self._provenance)
        self._close_run()

    def add_wall_seconds(self, wall_seconds: float) -> None:
        """Add scoring time to the `run.json` of an unfinished run."""
        self._add_wall_seconds(wall_seconds)
        write_provenance(self.folder, self._provenance)

    def _add_wall_seconds(self, wall_seconds: float) -> None:
        earlier = self.recorded.wall_seconds or 0.0
        self._provenance["wall_seconds"] = round(earlier + wall_seconds, 3)

    def _close_run(self) -> None:
        """Remove what a complete run does not need; also what a killed process has left."""
        self._provenance.pop("parts", None)
        write_provenance(self.folder, self._provenance)
        shutil.rmtree(self.folder / _PARTS, ignore_errors=True)

    def close(self) -> None:
        """Release the lock on the folder; safe to call twice."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _provenance_of(
    folder: Path, settings: Mapping[str, Json], labels: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the provenance of the run in the folder, or a new one."""
    if not ((folder / _PREDICTIONS).exists() or bool(_parts(folder))):
        return {
            "format_version": FORMAT_VERSION,
            "status": "running",
            "created": _now(),
            "settings": dict(settings),
            **labels,
            "versions": library_versions(quantised=settings.get("quantisation") is not None),
        }
    recorded = read_provenance(folder)
    complete = (folder / _PREDICTIONS).exists()
    seal = check_seal(folder, recorded) if complete else None
    provenance: dict[str, Json] = dict(recorded.recorded)
    _refuse_other_settings(folder, provenance.get("settings"), settings)
    given = {key: value for key, value in labels.items() if value is not None}
    # Labels do not change numbers, but arm and seed of a run must not change silently.
    fixed = {key: provenance[key] for key in _FIXED_LABELS if provenance.get(key) is not None}
    requested = {key: given.get(key, value) for key, value in fixed.items()}
    _refuse_other_settings(folder, fixed, requested)
    if seal is not None:
        # The run gets the labels that it lacks, and its role. What it has stays: the same command
        # from another place must not change its digest.
        added = {
            key: value
            for key, value in given.items()
            if provenance.get(key) is None or key == "role"
        }
        return sealed(provenance | added, rows_of_seal(seal))
    provenance |= given
    versions = library_versions(quantised=settings.get("quantisation") is not None)
    if provenance.get("versions") != versions:
        provenance["resumed_with_versions"] = versions
    return provenance


def library_versions(*, quantised: bool = False) -> dict[str, Json]:
    """Return the versions of Python and of the libraries that scores depend on, by name.

    Args:
        quantised: whether the base model is quantised, so that bitsandbytes is one of them.

    Examples:
        >>> library_versions()["polars"] == pl.__version__
        True
    """
    versions: dict[str, Json] = {"python": platform.python_version()}
    quantising = ("bitsandbytes",) if quantised else ()
    for package in ("pact-eval", "torch", "transformers", "peft", "numpy", "polars", *quantising):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _differing(before: Mapping[str, Json], after: Mapping[str, Json]) -> list[str]:
    """Return the keys whose values differ, by name."""
    return [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]


def _refuse_other_settings(folder: Path, recorded: Json, requested: Mapping[str, Json]) -> None:
    before, now = flat(recorded), flat(dict(requested))
    differing = _differing(before, now)
    if differing:
        lines = [
            f"  {key}: the folder has {dumps(before.get(key))}, this command {dumps(now.get(key))}"
            for key in differing
        ]
        raise RunSettingsError(
            f"{folder} has a run with other settings; give another --out, or remove the folder:\n"
            + "\n".join(lines)
        )


def _make_folder(folder: Path) -> None:
    refuse_remote(folder)
    own_names = {PROVENANCE_NAME, _PARTS, _LOCK}
    entries = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    foreign = [name for name in entries if name not in own_names and not _PARTIAL.fullmatch(name)]
    if foreign and not (folder / PROVENANCE_NAME).exists():
        raise RunError(f"{folder}: the folder is not empty and is not a run; give another --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{folder}: cannot be created ({error.strerror})") from None


def _lock_folder(folder: Path) -> BaseFileLock:
    from filelock import FileLock, Timeout  # slow to import

    path = folder / _LOCK
    with writing(path), path.open("a"):
        pass  # a folder that cannot be written is not one that cannot be locked
    # Not a marker file in place of a lock of the system: a killed process would leave it.
    lock = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        message = f"{folder}: another process is writing to this run"
    except OSError as error:
        message = (
            f"{path}: cannot be locked ({error.strerror or error}); without a lock, "
            "two processes could write to one run: give an --out on a local disk"
        )
    else:
        return lock
    raise RunError(message)


def _check_parts(folder: Path) -> list[Path]:
    """Return the parts of an unfinished run, after checking them against `run.json`.

    Raises:
        TamperedError: a part is not the one that was written.
    """
    parts = _parts(folder)
    hashes = read_provenance(folder).parts if parts else {}
    if parts and not (folder / _PREDICTIONS).exists():
        for part in parts:
            if hashes.get(part.name) != sha256_of_file(part):
                raise TamperedError(
                    f"{part}: not the part that was written (its SHA-256 is not the one in "
                    f"{PROVENANCE_NAME}); remove it and repeat the scoring command, which scores "
                    "only its items again"
                )
    return parts


def _parts(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / _PARTS).glob("*") if _PART.fullmatch(path.name))


def first_items(opened: RunFolder, items: int) -> Predictions:
    """Read the first items of a run whose views are next to each other.

    Args:
        opened: a complete run.
        items: number of items to read.

    Raises:
        RunError: the file is damaged.
    """
    path = opened.predictions_file
    rows = pl.scan_parquet(path, glob=False).head(items * int(opened.provenance.k or 1))
    return Predictions.from_frame(collected(path, rows))


def ids_at(opened: RunFolder, items: IntArray) -> list[str]:
    """Return the ids of some items of a run whose views are next to each other.

    Args:
        opened: a complete run.
        items: (m,) numbers of the items, ascending.

    Raises:
        RunError: the file is damaged.
    """
    ids: list[str] = collected(opened.predictions_file, _rows_at(opened, items).select("id"))[
        "id"
    ].to_list()
    return ids[:: int(opened.provenance.k or 1)]


def items_at(opened: RunFolder, items: IntArray) -> Predictions:
    """Read some items of a run whose views are next to each other; see `ids_at`."""
    rows = _rows_at(opened, items)
    return Predictions.from_frame(collected(opened.predictions_file, rows))


def item_column(opened: RunFolder, name: str) -> npt.NDArray[Any]:
    """Return (n,) the values of a column of a run whose views are next to each other, by item.

    Raises:
        RunError: the file is damaged.
    """
    path = opened.predictions_file
    column = collected(path, pl.scan_parquet(path, glob=False).select(name))
    return column.gather_every(int(opened.provenance.k or 1))[name].to_numpy()


def _rows_at(opened: RunFolder, items: IntArray) -> pl.LazyFrame:
    k = int(opened.provenance.k or 1)
    rows = pl.Series((items[:, None] * k + np.arange(k)).ravel())
    numbered = pl.scan_parquet(opened.predictions_file, glob=False).with_row_index("row")
    return numbered.filter(pl.col("row").is_in(rows.implode())).drop("row")


def _read_rows(path: Path) -> pl.DataFrame:
    try:
        # Without globbing: a folder name may contain "[".
        frame = collected(path, pl.scan_parquet(path, glob=False))
    except RunError as error:
        advice = (
            "remove it and repeat the scoring command, which scores only its items again"
            if path.parent.name == _PARTS
            else DAMAGE_ADVICE
        )
        raise RunError(f"{error}; {advice}") from None
    try:
        check_columns(frame)
    except RunError as error:
        raise RunError(f"{path}: {error}") from None
    return frame


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


CONTENTS: Final = ("N/A", "[MASK]", "")
"""What replaces the context, as published: Zhao et al., ICML 2021."""

MOST_VIEWS: Final = 2
"""Views of content-free prompts: as many as remedies with contextual calibration have."""

SETTING: Final = "content_free"
"""Key of the contents in the settings of content-free prompts."""

_OTHER: Final = (SETTING, "k", "data.records")


def content_free_id(record_id: str, content: int) -> str:
    """Return the id of a record with a content in place of its context.

    Examples:
        >>> content_free_id("travel-01-base", 2)
        '2/travel-01-base'
    """
    return f"{content}/{record_id}"


def record_id_of(prompt_id: str) -> str:
    """Return the id of the record of a content-free prompt.

    Examples:
        >>> record_id_of(content_free_id("travel-01/base", 2))
        'travel-01/base'
    """
    return prompt_id.partition("/")[2]


def content_free_run(run: RunFolder) -> Run | None:
    """Return the content-free prompts of a run; None if it has none, or not all of them yet.

    Raises:
        RunError: they were scored with other settings than the run, or are damaged.
        TamperedError: they have changed since they were scored.
    """
    folder = run.folder / CONTENT_FREE
    if not (folder / PREDICTIONS).exists():
        return None
    content_free = read_run(folder)
    settings = (flat(dict(run.settings)), flat(dict(content_free.settings)))
    differing = [key for key in _differing(*settings) if key not in _OTHER]
    if differing or content_free.settings.get(SETTING) != [*CONTENTS]:
        raise RunError(
            f"{folder}: not the content-free prompts of this run (they differ in "
            f"{', '.join(differing) or SETTING}); remove the folder, and repeat the scoring "
            "command with --content-free"
        )
    return content_free


def content_free_probabilities(predictions: Predictions, content_free: Predictions) -> FloatArray:
    """Return the mean distribution of the content-free prompts of every item and view.

    Args:
        predictions: the views of a run, n items with C answers at most.
        content_free: its content-free prompts, of V views.

    Returns:
        Shape (n, V, C) in canonical order; NaN for items of which a content has no answer, or whose
        orders are not those of the run.
    """
    width, views = predictions.logits.shape[2], min(content_free.k, predictions.k)
    rows = {name: row for row, name in enumerate(content_free.ids.tolist())}
    by_content = np.array(
        [
            [rows.get(content_free_id(name, number), -1) for number in range(len(CONTENTS))]
            for name in predictions.ids.tolist()
        ]
    ).reshape(len(predictions), len(CONTENTS))
    missing = (by_content < 0).any(axis=1)
    own = content_free.code_order[by_content, :views, :width]
    orders = predictions.code_order[:, np.newaxis, :views, : own.shape[3]]
    missing |= (own != orders).any(axis=(1, 2, 3))
    mean = np.exp(content_free.log_probs_by_view)[by_content, :views].mean(axis=1)
    mean[missing] = np.nan
    padded = np.zeros((len(predictions), views, width))
    padded[..., : mean.shape[2]] = mean[..., :width]
    return padded
