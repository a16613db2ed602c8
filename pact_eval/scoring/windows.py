"""Score a dataset in windows of records, with a local model or a server.

A window is a fixed number of records in file order. Batching, writing and resuming all work on
windows. Batches therefore do not depend on where a run was interrupted, and a written window is
never scored again.

A `RowSource` names the settings of its run, checks the dataset before anything is scored, and opens
a `WindowScorer`. That is all that differs between a local model (`score.py`), several workers with
that model (`workers/source.py`) and a server (`servers/source.py`). A window's rows depend on the
window alone, so a scorer may return windows in any order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import polars as pl

from pact_eval._json import Json
from pact_eval.data.labelled.reader import LabelledData
from pact_eval.data.labelled.reading import AUTOMATIC, Reading
from pact_eval.data.opening import ManifestCheck, open_dataset
from pact_eval.data.records import Record
from pact_eval.errors import InputError
from pact_eval.hub.snapshots import snapshot_of
from pact_eval.models.folders import AdapterFiles
from pact_eval.progress import step
from pact_eval.runs.content_free import CONTENTS, SETTING
from pact_eval.runs.custody import Custody
from pact_eval.runs.folder import RunWriter
from pact_eval.runs.metadata import metadata_frame, with_metadata
from pact_eval.runs.provenance import Data, RunLabels, RunNames, seen_from
from pact_eval.scoring.custody import custody_of
from pact_eval.scoring.running import OnAnswer, RunningScores

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


class RowSource(Protocol):
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
            message = f"{option}: expected at least 1, got {number}"
            raise InputError(message)
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
    source: RowSource,
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
