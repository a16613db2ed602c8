"""One pass over the Parquet file of a run: its metrics, however many items it holds.

The file is read slice by slice, a few slices at a time, and every slice is turned into totals
before the next one is read: of an item nothing stays but 8 bytes for AURC and 8 for its pair. The
numbers are those of `Predictions.from_frame` and `metrics`, which hold all items at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from pact_eval.errors import RunError
from pact_eval.metrics import (
    ItemBlock,
    MetricTotals,
    PairTotals,
    item_blocks,
    pair_keys,
    pair_totals,
)
from pact_eval.runs import Decoding, check_columns

__all__ = ["RunMetrics", "ScoredSlice", "map_slices", "stream_metrics", "streamable_items"]

Result = TypeVar("Result")

# Rows of a slice: those of a row group as polars writes it, so that none is decoded twice.
_SLICE_ROWS: Final = 2**18
_MOST_WORKERS: Final = 4
_ALWAYS: Final = ("reference", "n_choices", "logits")


@dataclass(frozen=True)
class RunMetrics:
    """The metrics of a run, from one pass over its file.

    Attributes:
        k: views of every item.
        decoding: single or ensemble.
        totals: what the metrics of items are made of, and the metrics.
        pairs: the complete pairs.
    """

    k: int
    decoding: Decoding
    totals: MetricTotals
    pairs: PairTotals


@dataclass(frozen=True, eq=False)
class ScoredSlice:
    """Some items of a run, scored.

    Attributes:
        k: views of every item.
        rows: the rows of the items' view 0, with the columns asked for.
        views: the rows of all their views.
        reference: (n,) canonical index of the right answer.
        blocks: the scored items, in blocks; `rows` of a block point into this slice.
    """

    k: int
    rows: pl.DataFrame
    views: pl.DataFrame
    reference: npt.NDArray[np.int64]
    blocks: Iterator[ItemBlock]


def stream_metrics(
    path: Path, *, decoding: Decoding = "single", workers: int | None = None
) -> RunMetrics:
    """Compute the metrics of a run in one pass, in memory that hardly grows with its items.

    Args:
        path: `predictions.parquet` of a run with references; the K views of an item stand beside
            each other, in order, as `score` writes them.
        decoding: single or ensemble.
        workers: slices in flight; None takes the processors at hand, at most 4.

    Returns:
        The totals, and the metrics made from them. Ids are not checked for being unique.

    Raises:
        RunError: the file cannot be read, lacks a column, holds no item, rows that are no run, or
            an item without a distribution (see `metrics.item_blocks`).

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> frame = pl.DataFrame({
        ...     "id": ["a", "b"], "family": "f", "source_family": "s", "domain": "d",
        ...     "kind": "boolean", "variant": ["base", "counterfactual"], "reference": [1, 0],
        ...     "n_choices": 2, "view": 0, "code_order": [[0, 1]] * 2,
        ...     "logits": [[0.0, 2.0], [0.0, 1.0]], "prompt_tokens": 9, "answer_mass": 1.0})
        >>> frame.write_parquet(folder / "predictions.parquet")
        >>> metrics = stream_metrics(folder / "predictions.parquet")
        >>> metrics.totals.accuracy, metrics.totals.aurc(), metrics.pairs.accuracy
        (0.5, 0.25, 0.0)
    """
    columns = ("kind", "family", "variant")
    k, parts = map_slices(path, columns, _totals, decoding=decoding, workers=workers)
    keys = [key for _, key in parts]
    return RunMetrics(
        k=k,
        decoding=decoding,
        totals=MetricTotals.merged([totals for totals, _ in parts]),
        pairs=pair_totals(np.concatenate(keys)),
    )


def _totals(part: ScoredSlice) -> tuple[MetricTotals, npt.NDArray[np.uint64]]:
    is_score = (part.rows["kind"] == "score").to_numpy()
    correct = np.zeros(len(part.rows), dtype=np.bool_)
    totals = []
    for block in part.blocks:
        correct[block.rows] = block.correct
        totals.append(MetricTotals.of(block, part.reference, is_score))
    hashes = part.rows["family"].fill_null("").hash().to_numpy()
    is_base = (part.rows["variant"] == "base").fill_null(value=False).to_numpy()
    return MetricTotals.merged(totals), pair_keys(hashes, is_base, correct)


def streamable_items(path: Path) -> int:
    """Count the items of a run whose file can be read slice by slice.

    Args:
        path: `predictions.parquet` of a run.

    Returns:
        Number of items; 0 where the file has to be read whole: its items are ablated contexts, or
        their views do not stand beside each other (as in some imports), or it is damaged, and
        `read_any_run` says how.
    """
    scan = pl.scan_parquet(path, glob=False)
    try:
        views = _read(path, scan.select("view"))["view"].to_numpy()
        variants = _read(path, scan.select("variant").head(1))["variant"]
    except RunError:
        return 0
    k = int(views.max(initial=0)) + 1
    ablated = (variants == "ablated").any()
    return 0 if ablated or not _in_order(views, k) else views.size // k


def map_slices(
    path: Path,
    columns: tuple[str, ...],
    function: Callable[[ScoredSlice], Result],
    *,
    decoding: Decoding,
    workers: int | None = None,
) -> tuple[int, list[Result]]:
    """Score a run slice by slice, and keep what a function makes of each.

    Args:
        path: `predictions.parquet`, as for `stream_metrics`.
        columns: columns that the function reads.
        function: takes a scored slice to what is kept of it; called from several threads.
        decoding: single or ensemble.
        workers: slices in flight; None takes the processors at hand, at most 4.

    Returns:
        The number of views of every item, and the results in the order of the file.

    Raises:
        RunError: as `stream_metrics`.
    """
    # Without globbing: a folder may be called "[new]".
    scan = pl.scan_parquet(path, glob=False)
    k, rows = _views_and_rows(scan, path)
    ids = ("id",) if k > 1 else ()
    wanted = scan.select(*dict.fromkeys((*_ALWAYS, *ids, *columns)))
    size = _SLICE_ROWS if _SLICE_ROWS % k == 0 else _SLICE_ROWS * k

    def scored(start: int) -> Result:
        frame = _read(path, wanted.slice(start, size))
        try:
            return function(_scored(frame, k, decoding))
        except ValueError as error:
            where = f"of rows {start:,} to {start + len(frame) - 1:,}"
            message = f"{path}: {error} {where}"
            raise RunError(message) from None

    with ThreadPoolExecutor(workers or min(_MOST_WORKERS, os.cpu_count() or 1)) as pool:
        return k, list(pool.map(scored, range(0, rows, size)))


def _read(path: Path, rows: pl.LazyFrame) -> pl.DataFrame:
    try:
        return rows.collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        message = f"{path}: damaged or cut short ({reason})"
        raise RunError(message) from None


def _check_columns(path: Path, rows: pl.DataFrame) -> None:
    try:
        check_columns(rows)
    except RunError as error:
        message = f"{path}: {error}"
        raise RunError(message) from None


def _in_order(views: npt.NDArray[np.integer], k: int) -> bool:
    return views.size % k == 0 and bool((views.reshape(-1, k) == np.arange(k)).all())


def _views_and_rows(scan: pl.LazyFrame, path: Path) -> tuple[int, int]:
    """Return K and the number of rows, after checking columns and the order of the views."""
    _check_columns(path, _read(path, scan.head(0)))
    views = _read(path, scan.select("view"))["view"].to_numpy()
    k = int(views.max(initial=0)) + 1
    if not views.size:
        message = f"{path}: the run holds no item"
        raise RunError(message)
    if not _in_order(views, k):
        message = f"{path}: expected the {k} views of each item beside each other, in order"
        raise RunError(message)
    return k, views.size


def _scored(frame: pl.DataFrame, k: int, decoding: Decoding) -> ScoredSlice:
    if frame["reference"].null_count():
        message = f"{frame['reference'].null_count():,} of {len(frame):,} rows have no reference"
        raise RunError(message)
    if not (frame["logits"].list.len() == frame["n_choices"]).all():
        message = "expected as many logits as an item has answers"
        raise RunError(message)
    first = frame.gather_every(k)
    if k > 1:
        for column in ("id", "n_choices", "reference"):
            of_views = frame[column].to_physical() if column != "id" else frame[column].hash()
            if (np.ptp(of_views.to_numpy().reshape(-1, k), axis=1) != 0).any():
                message = f"expected the {k} views of an item to have one {column}"
                raise RunError(message)
    reference = first["reference"].to_numpy().astype(np.int64)
    blocks = item_blocks(
        frame["logits"].explode(empty_as_null=False).to_numpy(),
        first["n_choices"].to_numpy(),
        reference,
        views=k,
        ensemble=decoding == "ensemble",
    )
    return ScoredSlice(k=k, rows=first, views=frame, reference=reference, blocks=blocks)
