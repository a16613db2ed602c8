"""The report of a run of very many items, read slice by slice.

`evaluate` on a `Predictions` holds every text and every logit. Here a slice of the file becomes
columns of numbers before the next is read (about 60 bytes an item in the end), and the numbers of
the report are made from those, by the functions that `evaluate` uses beyond `GROUPED_ITEMS`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from pact_eval.errors import RunError
from pact_eval.evaluation.columns import ItemColumns
from pact_eval.evaluation.items import ordered_groups
from pact_eval.evaluation.report import (
    Evaluation,
    grouped_groups,
    repeated_views,
    report_notes,
)
from pact_eval.evaluation.specs import GroupBy
from pact_eval.evaluation.streaming import ScoredSlice, map_slices
from pact_eval.runs import Decoding
from pact_eval.stats import SlotHomogeneity, slot_homogeneity

__all__ = ["evaluate_file"]

_COLUMNS: Final = ("id", "family", "variant", "kind", "code_order", "answer_mass")
# Of a block of items, what columns keep and in which type; one answer has one letter of 26.
_FROM_BLOCKS: Final = {
    "predicted": np.int8,
    "confidence": np.float64,
    "nll": np.float64,
    "brier": np.float64,
    "expected_level_error": np.float64,
    "view_tv": np.float64,
    "flipped": np.float32,
    "gain": np.float32,
}


@dataclass(frozen=True, eq=False)
class _Part:
    """What is kept of a slice.

    Attributes:
        columns: those of its items by name, with hashes of ids and families.
        group: (n,) what the items are grouped by, as an index of `names`.
        names: of the groups in this slice.
        slots: (2, units) code positions that were picked, and that held the reference.
        of_item: (units,) the item of each unit, in this slice.
        answer_mass: sum of the known shares on the codes.
        masses: how many of them are known.
        smallest_log_prob: smallest finite log-probability of any view.
        repeated: items with fewer code orders than views.
    """

    columns: dict[str, npt.NDArray[Any]]
    group: npt.NDArray[np.integer]
    names: list[str]
    slots: npt.NDArray[np.int8]
    of_item: npt.NDArray[np.integer]
    answer_mass: float
    masses: int
    smallest_log_prob: float
    repeated: int


def evaluate_file(
    path: Path,
    *,
    decoding: Decoding,
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int | None = None,
    workers: int | None = None,
) -> Evaluation:
    """Compute the report of a run from its file, uncalibrated, without holding its rows.

    Args:
        path: `predictions.parquet` of a run with references; the K views of an item stand beside
            each other, in order, as `score` writes them.
        decoding: single or ensemble.
        by: kind, domain or source_family.
        rng: source of the resamples.
        resamples: bootstrap resamples of each interval; None leaves it to `grouped_groups`.
        workers: slices in flight; None takes the processors at hand, at most 4.

    Returns:
        What `evaluate` returns of many items. Families and ids are told apart by 64 bits of a hash.

    Raises:
        RunError: the file cannot be read, lacks a column, holds no item, rows that are no run, an
            id twice, or an item without a distribution (see `metrics.item_blocks`).
    """
    k, parts = map_slices(
        path, (*_COLUMNS, by), lambda part: _kept(part, by), decoding=decoding, workers=workers
    )
    _refuse_repeated_ids(np.concatenate([part.columns.pop("id") for part in parts]), path)
    columns = _joined(parts)
    masses = sum(part.masses for part in parts)
    mean_answer_mass = (
        math.fsum(part.answer_mass for part in parts) / masses if masses else math.nan
    )
    smallest = math.exp(min(part.smallest_log_prob for part in parts))
    letters = _letters(parts, columns.cluster)
    groups = grouped_groups(columns, _group_rows(parts), rng=rng, resamples=resamples)
    return Evaluation(
        decoding=decoding,
        calibration="raw",
        k=k,
        by=by,
        groups=groups,
        letters=letters,
        mean_answer_mass=mean_answer_mass,
        smallest_probability=smallest,
        notes=report_notes(
            groups[0],
            repeated=sum(part.repeated for part in parts),
            mean_answer_mass=mean_answer_mass,
            smallest=smallest,
        ),
    )


def _kept(part: ScoredSlice, by: GroupBy) -> _Part:
    """Take of a scored slice what the report needs."""
    n = len(part.rows)
    columns: dict[str, npt.NDArray[Any]] = {
        name: np.empty(n, dtype=dtype) for name, dtype in _FROM_BLOCKS.items()
    }
    picks = np.empty((n, part.k), dtype=np.int64)
    smallest = 0.0
    for block in part.blocks:
        for name, column in columns.items():
            column[block.rows] = getattr(block, name)
        picks[block.rows] = block.predicted_by_view.T
        smallest = min(smallest, block.smallest_log_prob)
    columns |= {
        "id": part.rows["id"].hash().to_numpy(),
        "cluster": part.rows["family"].fill_null("").hash().to_numpy(),
        "is_base": _is(part.rows["variant"], "base"),
        "is_score": _is(part.rows["kind"], "score"),
        "reference": part.reference.astype(np.int8),
    }
    labels = part.rows[by].fill_null("")
    names = labels.unique(maintain_order=True).to_list()
    mass = part.views["answer_mass"].drop_nulls().drop_nans()
    known, slots = _slots(part, picks)
    return _Part(
        columns=columns,
        group=labels.cast(pl.Enum(names)).to_physical().to_numpy(),
        names=names,
        slots=slots,
        of_item=known // part.k,
        answer_mass=float(mass.cast(pl.Float64).sum()),
        masses=len(mass),
        smallest_log_prob=smallest,
        repeated=repeated_views(part.rows["n_choices"].to_numpy(), part.k),
    )


def _is(column: pl.Series, value: str) -> npt.NDArray[np.bool_]:
    return (column == value).fill_null(value=False).to_numpy()


def _slots(
    part: ScoredSlice, picks: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    """Return the views of known code order, and the positions of their picks and references."""
    orders = part.views["code_order"]
    length = orders.list.len().to_numpy().astype(np.int64)
    starts = (np.cumsum(length) - length)[length > 0]
    known = np.flatnonzero(length)
    codes = orders.explode(empty_as_null=False).drop_nulls().to_numpy()
    answers = picks.ravel(), np.repeat(part.reference, part.k)
    slots = np.empty((2, known.size), dtype=np.int8)
    for row, answer in zip(slots, answers, strict=True):
        at = np.flatnonzero(codes == np.repeat(answer, length))
        if at.size != known.size or ((at < starts) | (at - starts >= length[known])).any():
            message = "code_order: expected every answer at exactly one code"
            raise RunError(message)
        row[:] = at - starts
    return known, slots


def _refuse_repeated_ids(hashes: npt.NDArray[np.uint64], path: Path) -> None:
    ranked = np.sort(hashes)
    repeated = int((ranked[1:] == ranked[:-1]).sum())
    if repeated:
        message = f"{path}: expected one item an id, got {repeated:,} ids more than once"
        raise RunError(message)


def _joined(parts: list[_Part]) -> ItemColumns:
    """Put the columns of the slices together, letting go of each as it is joined."""
    joined = {
        name: np.concatenate([part.columns.pop(name) for part in parts])
        for name in list(parts[0].columns)
    }
    # Members of a pair mostly stand beside each other: sorting runs of a label halves the work.
    hashes = joined["cluster"]
    new = np.r_[True, hashes[1:] != hashes[:-1]]
    codes = np.unique(hashes[new], return_inverse=True)[1].astype(np.int32)
    joined["cluster"] = codes[np.cumsum(new) - 1]
    if np.isnan(joined["gain"]).any():
        # One item whose views rule out all answers leaves the ensemble of the run undefined.
        joined["gain"][:] = np.nan
    return ItemColumns(**joined)


def _group_rows(parts: list[_Part]) -> dict[str, npt.NDArray[np.int64]]:
    """Return the rows of all items, then of each group by name."""
    names = ordered_groups(sorted({name for part in parts for name in part.names}))
    code_of = {name: code for code, name in enumerate(names)}
    codes = np.concatenate(
        [np.array([code_of[name] for name in part.names])[part.group] for part in parts]
    )
    by_code = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    return {"all": np.arange(codes.size)} | dict(
        zip(names, np.split(by_code, ends[:-1]), strict=True)
    )


def _letters(parts: list[_Part], cluster: npt.NDArray[np.integer]) -> SlotHomogeneity:
    """Test the letters over all views whose code order is known."""
    starts = np.cumsum([0, *(len(part.group) for part in parts[:-1])])
    items = [start + part.of_item for start, part in zip(starts, parts, strict=True)]
    picked, held = np.concatenate([part.slots for part in parts], axis=1)
    return slot_homogeneity(picked, held, cluster[np.concatenate(items)])
