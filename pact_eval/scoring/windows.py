"""Score a dataset in windows of records, with a local model or a server.

A window is a fixed number of records in file order. Batching, writing and resuming all work on
windows. Batches therefore do not depend on where a run was interrupted, and a written window is
never scored again.

A `Backend` names the settings of its run, checks the dataset before anything is scored, and opens
a `WindowScorer`. That is all that differs between a local model (`score.py`), several workers with
that model (`workers/source.py`) and a server (`servers/source.py`). A window's rows depend on the
window alone, so a scorer may return windows in any order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import polars as pl

from pact_eval._json import Json
from pact_eval.custody import HashedData, Overlap, TrainingRecord, adapter_record, overlap_with
from pact_eval.data.labelled.reader import LabelledData
from pact_eval.data.labelled.reading import AUTOMATIC, Reading
from pact_eval.data.opening import ManifestCheck, open_dataset
from pact_eval.data.records import Record
from pact_eval.errors import GateError, InputError, listed
from pact_eval.hub import snapshot_of
from pact_eval.models import AdapterFiles
from pact_eval.progress import step
from pact_eval.runs.custody import Custody, OtherData, StatedTraining, TrainedOn, TrainedRole
from pact_eval.runs.folder import CONTENTS, SETTING, RunWriter
from pact_eval.runs.provenance import Data, RunLabels, RunNames, ViewTokens, seen_from
from pact_eval.runs.rows import metadata_frame, with_metadata
from pact_eval.scoring.prefix_tree import shared_tokens

FEWEST_ITEMS: Final = 30
"""Number of answered items from which numbers are shown."""

_COUNTED: Final = ("right", "judged", "mass", "weighed")
_COLUMNS: Final = ("id", "reference", "logits", "answer_mass")

OnAnswer = Callable[[Record, Sequence[float], float | None], None]
"""Called with a record, the logits of its view 0 in canonical order, and their answer mass."""


@dataclass(frozen=True)
class _Answer:
    """What view 0 of an item adds: 1 or 0 if it is right or wrong, and its mass; NaN if unknown."""

    right: float
    mass: float


@dataclass
class RunningScores:
    """Accuracy and answer mass of the items that are answered so far.

    Items of a window are known one by one, where the source tells them, or with their window.

    Examples:
        >>> running = RunningScores()
        >>> rows = pl.DataFrame({"id": [str(n) for n in range(40)], "view": [0] * 40,
        ...     "reference": [0] * 40, "logits": [[1.0, 0.0]] * 40, "answer_mass": [0.5] * 40})
        >>> running.finished(rows)
        >>> dict(running.numbers)
        {'accuracy': 1.0, 'answer_mass': 0.5}
    """

    _sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0.0))
    _open: dict[str, _Answer] = field(default_factory=dict)

    def answered(self, record: Record, logits: Sequence[float], answer_mass: float | None) -> None:
        """Count the answer to a record whose window is not finished; once more changes nothing.

        Args:
            record: with a reference, or on an ablated context.
            logits: shape (C,), canonical order, of view 0; not empty.
            answer_mass: of view 0; None if unknown.
        """
        self._open[record.id] = _answer(record.reference, logits, answer_mass)

    def finished(self, rows: pl.DataFrame) -> None:
        """Count the rows of a window, whose items were counted one by one or not at all.

        Args:
            rows: one row per record and view; without logits if the view has no answer.
        """
        first = rows.filter((pl.col("view") == 0) & (pl.col("logits").list.len() > 0))
        for record_id in rows["id"].unique():
            self._open.pop(record_id, None)
        names = [name for name in _COLUMNS if name in first.columns]
        answers = (
            _answer(row.get("reference"), row["logits"], row["answer_mass"])
            for row in first.select(names).iter_rows(named=True)
        )
        for name, value in _sums(answers).items():
            self._sums[name] += value

    @property
    def numbers(self) -> Mapping[str, float]:
        """Accuracy and mean answer mass, in [0, 1], of those that are known; empty at first."""
        open_sums = _sums(self._open.values())
        sums = {name: value + open_sums[name] for name, value in self._sums.items()}
        means = {
            "accuracy": (sums["right"], sums["judged"]),
            "answer_mass": (sums["mass"], sums["weighed"]),
        }
        return {
            name: total / count for name, (total, count) in means.items() if count >= FEWEST_ITEMS
        }


def _answer(reference: int | None, logits: Sequence[float], answer_mass: float | None) -> _Answer:
    right = math.nan if reference is None else float(int(np.argmax(logits)) == reference)
    return _Answer(right, math.nan if answer_mass is None else float(answer_mass))


def _sums(answers: Iterable[_Answer]) -> dict[str, float]:
    """Return the sums of what is known, and of how many answers."""
    sums = dict.fromkeys(_COUNTED, 0.0)
    for answer in answers:
        for name, count, value in (
            ("right", "judged", answer.right),
            ("mass", "weighed", answer.mass),
        ):
            if not math.isnan(value):
                sums[name] += value
                sums[count] += 1
    return sums


def custody_of(
    adapter: AdapterFiles | None,
    dataset: Dataset,
    allow: Collection[str] = (),
    role: str | None = None,
) -> Custody:
    """Compare the data of a scoring with what its adapter was trained on.

    Args:
        adapter: the adapter; None for a base model alone, or a server.
        dataset: the data.
        allow: "trained-on" accepts records that the adapter was trained or selected on.
        role: what the run is for. One of the role "selection" chooses among adapters, so those that
            were selected on its records are accepted, and named.

    Returns:
        What the adapter's record says, and what was accepted.

    Raises:
        AdapterError: the training record of the adapter is missing, damaged or another one's.
        GateError: the adapter was trained or selected on evaluated families or contexts.
    """
    record = None if adapter is None else adapter_record(adapter)
    overlap = None if record is None else overlap_with(record, dataset.records)
    selects = role == "selection" and overlap is not None and overlap.roles == ("selection",)
    is_accepted = selects or "trained-on" in allow
    if adapter is not None and overlap is not None and not is_accepted:
        raise GateError(_refusal(adapter, dataset, overlap))
    check = dataset.manifest
    return Custody(
        None if record is None else _stated_training(record),
        _trained_on(dataset, overlap),
        None
        if check is None or not check.changed
        else OtherData(str(check.manifest), str(check.expected), check.actual),
        "" if check is None else check.unchecked,
    )


def _refusal(adapter: AdapterFiles, dataset: Dataset, overlap: Overlap) -> str:
    by_context = len(overlap.families) - overlap.by_family
    how = f", {by_context:,} of them by their contexts under other names" if by_context else ""
    used = {"train": "trained", "selection": "selected"}
    done = " and ".join(used[role] for role in overlap.roles)
    return (
        f"{adapter.folder}: the adapter was {done} on {dataset.path}: "
        f"{listed(overlap.families, 'family', 'families')} in its training record "
        f"({', '.join(overlap.files)}){how}. Score families that it has not seen, or use --allow "
        "trained-on, which every output then names"
    )


def _stated_training(record: TrainingRecord) -> StatedTraining:
    return StatedTraining(
        str(record.sha256), {role: _role(data) for role, data in record.roles.items()}
    )


def _role(data: HashedData) -> TrainedRole:
    return TrainedRole(
        tuple(file.name for file in data.files),
        len(data.hashes("records")),
        len(data.hashes("families")),
        data.digest,
    )


def _trained_on(dataset: Dataset, overlap: Overlap | None) -> TrainedOn | None:
    """Join what the adapter's record and what the manifest's files share with the data."""
    check = dataset.manifest
    families = set(() if check is None else check.families)
    items = set(() if overlap is None else overlap.items)
    met = [record for record in dataset.records if record.family in families or record.id in items]
    if not met:
        return None
    files = (*(() if overlap is None else overlap.files), *(() if check is None else check.files))
    return TrainedOn(
        tuple(record.id for record in met),
        tuple(dict.fromkeys(record.family for record in met)),
        tuple(dict.fromkeys(files)),
    )


WINDOW_RECORDS: Final = 64
"""Records per window."""


@dataclass(frozen=True)
class Dataset:
    """The records to be scored, and their views.

    Attributes:
        path: the file.
        sha256: SHA-256 of the full file.
        records: the records that are scored, in file order.
        k: views per record.
        order_seed: seed of the letter orders.
        manifest: what the manifest around the file says of it; None if none names it.
        labelled: how the file was read, if it is a labelled file.
        content_free: whether contexts were replaced by contents that say nothing.
    """

    path: Path
    sha256: str
    records: Sequence[Record]
    k: int
    order_seed: int
    manifest: ManifestCheck | None = None
    labelled: LabelledData | None = None
    content_free: bool = False

    @property
    def settings(self) -> Mapping[str, Json]:
        """The settings that identify the dataset and its views in `run.json`."""
        return {
            "data": Data(self.sha256, len(self.records)).to_json(),
            "k": self.k,
            "order_seed": self.order_seed,
            "window_records": WINDOW_RECORDS,
            **({} if self.labelled is None else {"labelled": self.labelled.to_json()}),
            **({SETTING: [*CONTENTS]} if self.content_free else {}),
        }


@dataclass(frozen=True)
class Window:
    """Records that are scored, written and resumed together.

    Attributes:
        number: place among the windows of the run, from 0.
        records: the records, in file order.
    """

    number: int
    records: Sequence[Record]


@dataclass(frozen=True)
class ScoredWindow:
    """The rows of a window.

    Attributes:
        window: the window.
        rows: one row per record and view; columns as in `SCHEMA`, and those of `UNANSWERED` if the
            source may leave records unanswered.
    """

    window: Window
    rows: pl.DataFrame


class WindowScorer(Protocol):
    """Scores windows of records, after everything that comes before the first of them."""

    @property
    def facts(self) -> Mapping[str, Json]:
        """Record of how the records were scored, for `run.json`."""

    def score(
        self, windows: Sequence[Window], on_views: Callable[[int], None], on_answer: OnAnswer
    ) -> Iterator[ScoredWindow]:
        """Score the K views of the records of windows, and yield each window once, in any order.

        Args:
            windows: the windows that are not written yet, in file order.
            on_views: called with the number of views that are done in windows not yet yielded.
            on_answer: called with answers of these windows, if they are known one by one.
        """

    def completed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of the run, given those of all windows."""


class Backend(Protocol):
    """Source of the answers to the records of a run."""

    @property
    def adapter(self) -> AdapterFiles | None:
        """The adapter that is scored; None for a base model alone, and for a server."""

    @property
    def settings(self) -> Mapping[str, Json]:
        """Settings that identify the source in `run.json`; resuming needs the same ones."""

    @property
    def names(self) -> RunNames:
        """Values for `run.json` that do not affect any number: `adapter`, `base_model`."""

    def check(self, dataset: Dataset) -> Mapping[str, Json]:
        """Check the dataset before the run folder is opened; return facts for `run.json`."""

    def open(self, dataset: Dataset, writer: RunWriter) -> AbstractContextManager[WindowScorer]:
        """Prepare for the first window that is missing."""


def read_dataset(
    path: Path,
    *,
    k: int,
    order_seed: int = 0,
    limit: int | None = None,
    allow: Collection[str] = (),
    reading: Reading = AUTOMATIC,
) -> Dataset:
    """Read the records to be scored.

    Args:
        path: a dataset file: records with references, or ablated contexts as `pact-audit ablate`
            writes them.
        k: views per record, at least 1.
        order_seed: seed of the letter orders.
        limit: score only this many records, from the start of the file.
        allow: as for `open_dataset`.
        reading: how a labelled file is read.

    Raises:
        InputError: the file cannot be read, or `k` or `limit` is below 1.
        RecordError: a record is malformed, even beyond the limit, or the file mixes ablated
            contexts and records with references.
        TamperedError: as for `open_dataset`.
        GateError: likewise.
    """
    for option, number in (("--k", k), ("--limit", limit)):
        if number is not None and number < 1:
            raise InputError(f"{option}: expected at least 1, got {number}")
    opened = open_dataset(path, allow=allow, allow_ablated=True, reading=reading)
    return Dataset(
        path,
        opened.sha256,
        opened.records[:limit],
        k,
        order_seed,
        opened.manifest,
        opened.labelled,
    )


def score_windows(
    source: Backend,
    dataset: Dataset,
    out: Path,
    *,
    labels: RunLabels,
    allow: Collection[str] = (),
) -> Custody:
    """Score every view of a dataset into a run folder, or resume one.

    A complete run is not changed.

    Args:
        source: what answers the records.
        dataset: the records and their views.
        out: the run folder.
        labels: values that do not affect any number: arm, seed, command line.
        allow: "trained-on" scores data that the adapter was trained on; the run says so.

    Returns:
        What is known of the training data.

    Raises:
        GateError: the adapter was trained on evaluated families, or selected on them and the role
            of the run is not "selection".
        PactError: the source cannot score the dataset; windows that are written are kept.
        RunError: the folder cannot be used, or has a run with other settings.
    """
    custody = custody_of(source.adapter, dataset, allow, labels.get("role"))
    facts = dict(source.check(dataset))
    with step("Hashing the model"):
        settings = {**source.settings, **dataset.settings}
    names: RunNames = {
        "source": "score",
        **source.names,
        "data": str(dataset.path),
        "data_from_run": seen_from(out, dataset.path),
        **labels,
        "custody": custody.to_json(),
        **_hub(source.adapter, dataset),
    }
    with step("Opening the run"):
        opened = RunWriter(out, settings, names)
    with opened as writer:
        if writer.complete:
            return custody
        started = time.monotonic()
        try:
            with source.open(dataset, writer) as scorer:
                _score_missing(scorer, dataset, writer)
                with step("Joining the windows"):
                    metadata = metadata_frame(dataset.records)
                    rows = with_metadata(scorer.completed(writer.rows()), metadata)
                facts |= scorer.facts
        except BaseException:
            writer.add_wall_seconds(time.monotonic() - started)
            raise
        with step("Sealing the run"):
            writer.finish(time.monotonic() - started, facts, rows)
    return custody


def _hub(adapter: AdapterFiles | None, dataset: Dataset) -> RunNames:
    """Return repository and commit of an adapter and data that came from the Hub."""
    places = {"adapter": None if adapter is None else adapter.folder, "data": dataset.path}
    hub: dict[str, Json] = {
        name: snapshot.to_json()
        for name, place in places.items()
        if place is not None and (snapshot := snapshot_of(place)) is not None
    }
    return {"hub": hub} if hub else {}


def record_columns(record: Record) -> dict[str, Json]:
    """Return the columns of a run's row that depend on the record alone."""
    return {
        "id": record.id,
        "family": record.family,
        "source_family": record.source_family,
        "domain": record.domain,
        "kind": record.field.kind,
        "variant": record.variant,
        "reference": record.reference,
        "n_choices": record.n_choices,
        **({} if record.ablation is None else {"answers": [*record.ablation.answers]}),
    }


def in_order(
    windows: Iterable[Window], score: Callable[[Sequence[Record]], pl.DataFrame]
) -> Iterator[ScoredWindow]:
    """Score windows one after the other: what a `WindowScorer` of one process does.

    Args:
        windows: the windows.
        score: returns the rows of some records.

    Examples:
        >>> list(in_order([], lambda records: pl.DataFrame()))
        []
    """
    for window in windows:
        yield ScoredWindow(window, score(window.records))


def windows_of(dataset: Dataset) -> list[Window]:
    """Return the windows of a dataset, in file order."""
    starts = range(0, len(dataset.records), WINDOW_RECORDS)
    return [
        Window(number, dataset.records[start : start + WINDOW_RECORDS])
        for number, start in enumerate(starts)
    ]


def missing_windows(dataset: Dataset, writer: RunWriter) -> list[Window]:
    """Return the windows of a dataset that are not written yet, in file order."""
    return [window for window in windows_of(dataset) if not writer.has_part(window.number)]


def _score_missing(scorer: WindowScorer, dataset: Dataset, writer: RunWriter) -> None:
    """Score the windows that are not written yet."""
    missing = missing_windows(dataset, writer)
    total = len(dataset.records)
    done = total - sum(len(window.records) for window in missing)

    with step("Scoring", total, "items", done=done) as scoring:
        running = RunningScores()

        def on_views(views: int) -> None:
            scoring.done = done + views // dataset.k

        def on_answer(record: Record, logits: Sequence[float], answer_mass: float | None) -> None:
            running.answered(record, logits, answer_mass)
            scoring.numbers = running.numbers

        for scored in scorer.score(missing, on_views, on_answer):
            writer.write_part(scored.window.number, scored.rows)
            running.finished(scored.rows)
            scoring.numbers = running.numbers
            done += len(scored.window.records)
            scoring.done = done


class ViewTokenCounter:
    """Counts the tokens of one view of every record, of two views, and so on up to K.

    Prompts share prefixes within a window of records, as they do when they are scored. Counts do
    not depend on the engine, on memory, or on where a run was interrupted.

    Args:
        k: views per record.

    Examples:
        >>> counter = ViewTokenCounter(2)
        >>> counter.add([(1, 2, 3), (1, 2, 4), (1, 5, 6), (1, 5, 6)])  # two records
        >>> counter.counts
        ViewTokens(prompts=(6, 12), shared=(5, 6))
    """

    def __init__(self, k: int) -> None:
        self._k = k
        self._prompts = [0] * k
        self._shared = [0] * k

    def add(self, prompts: Sequence[Sequence[int]]) -> None:
        """Count the prompts of some windows of records: K of each record, record by record."""
        step = WINDOW_RECORDS * self._k
        for start in range(0, len(prompts), step):
            self._add_window([tuple(ids) for ids in prompts[start : start + step]])

    def _add_window(self, prompts: Sequence[tuple[int, ...]]) -> None:
        for views in range(1, self._k + 1):
            first = [ids for number, ids in enumerate(prompts) if number % self._k < views]
            self._prompts[views - 1] += sum(map(len, first))
            self._shared[views - 1] += shared_tokens(first)

    @property
    def counts(self) -> ViewTokens:
        """The counts so far."""
        return ViewTokens(tuple(self._prompts), tuple(self._shared))
