"""The items in a page: columns for sorting and filtering, blocks for opened items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._json import Json
from pact_eval.data import Record
from pact_eval.evaluation import Experiment, ExperimentRun, most_probable, pair_partners
from pact_eval.evaluation.diagnostics import calibrated_items
from pact_eval.runs import Predictions
from pact_reports.page.item_columns import (
    KINDS,
    Column,
    item_columns,
    run_columns,
)
from pact_reports.page.item_texts import item_text
from pact_reports.page.packing import BlockStore, bytes_of, to_permille

Progress = Callable[[int, int], None]
"""Called with the number of packed items and the number of all items."""

_IDS: Final = 4_096
_TEXTS: Final = 64
_VIEWS: Final = 512


def pack_items(
    store: BlockStore,
    views: Predictions,
    records: Mapping[str, Record] | None,
    progress: Progress | None = None,
) -> Json:
    """Pack the data of the items that all runs on them share.

    Args:
        store: stores the blocks.
        views: the views of one of the runs.
        records: the records of all items by id; None leaves the texts out.
        progress: called while texts are packed.

    Returns:
        The numbers of the blocks.
    """
    n = len(views)
    domains = sorted(set(views.domain.tolist()))
    ids = views.ids.tolist()
    packed: dict[str, Json] = {
        "n": n,
        "kinds": [*KINDS],
        "domains": [*domains],
        "columns": _columns(store, item_columns(views, domains)),
        "ids": {
            "size": _IDS,
            "blocks": [store.add_json(ids[at : at + _IDS]) for at in range(0, n, _IDS)],
        },
        "texts": None,
    }
    if records is not None:
        blocks = list(_text_blocks(store, views, records, progress))
        packed["texts"] = {"size": _TEXTS, "blocks": [*blocks]}
    return packed


def pack_run(store: BlockStore, experiment: Experiment, run: ExperimentRun, items: int) -> Json:
    """Pack the answers and probabilities of one run.

    Args:
        store: stores the blocks.
        experiment: the experiment of the run, for the decoding of answers and confidences.
        run: the run.
        items: index of its items among the item sets of the page.

    Returns:
        The numbers of the blocks; the distributions of an item are in the order of `distributions`.
    """
    views = run.predictions
    decoding = experiment.settings.decoding
    names, log_probs = _distributions(experiment, run)
    probabilities, tops = np.exp(log_probs), most_probable(log_probs)
    slots = np.arange(probabilities.shape[2]) < views.n_choices[:, np.newaxis]
    view_blocks: list[Json] = []
    order_blocks: list[Json] = []
    # Rounded probabilities may tie, so the most probable answer of each distribution is stored too.
    top_blocks: list[Json] = []
    for at in range(0, len(views), _VIEWS):
        rows = slice(at, at + _VIEWS)
        top_blocks.append(store.add(bytes_of(tops[rows], "u1")))
        chosen = _flat(to_permille(probabilities[rows]), slots[rows])
        view_blocks.append(store.add(bytes_of(chosen, "u2")))
        # 255 marks a view of unknown order.
        orders = _flat(
            np.where(views.code_order[rows] < 0, 255, views.code_order[rows]), slots[rows]
        )
        order_blocks.append(store.add(bytes_of(orders, "u1")))
    return {
        "label": run.label,
        "items": items,
        "k": views.k,
        "decoding": decoding,
        "distributions": [*names],
        "columns": _columns(store, run_columns(experiment, run)),
        "views": {"size": _VIEWS, "blocks": view_blocks},
        "orders": {"size": _VIEWS, "blocks": order_blocks},
        "tops": {"size": _VIEWS, "blocks": top_blocks},
    }


def item_tables(experiment: Experiment) -> list[int]:
    """Return for each run the index of the run that has its items: the first run, or itself."""
    if experiment.same_items:
        return [0] * len(experiment.runs)
    return list(range(len(experiment.runs)))


def _flat(values: npt.NDArray[np.integer], slots: npt.NDArray[np.bool_]) -> npt.NDArray[np.integer]:
    """Flatten (n, distributions, answers), one item after another, without unused slots."""
    wide = np.broadcast_to(slots[:, np.newaxis, :], values.shape)
    chosen: npt.NDArray[np.integer] = values[wide]
    return chosen


def _distributions(
    experiment: Experiment, run: ExperimentRun
) -> tuple[list[str], npt.NDArray[np.float64]]:
    views = run.predictions
    names = [f"view {view}" for view in range(views.k)]
    parts = [views.log_probs_by_view]
    if views.k > 1:
        together = _ensemble(views)
        if together is not None:
            names.append("ensemble")
            parts.append(together[:, np.newaxis])
    calibrated = calibrated_items(experiment, run)
    if calibrated is not None:
        names.append(f"{experiment.settings.decoding} after T(x)")
        parts.append(calibrated.log_probs[:, np.newaxis])
    return names, np.concatenate(parts, axis=1)


def _ensemble(views: Predictions) -> npt.NDArray[np.float64] | None:
    try:
        return views.log_probs("ensemble")
    except ValueError:
        # The views of an item rule out all of its answers: the run has no such decoding.
        return None


def _columns(store: BlockStore, columns: Sequence[Column]) -> Json:
    return {
        column.name: [store.add(bytes_of(column.values, column.dtype)), column.dtype]
        for column in columns
    }


def _text_blocks(
    store: BlockStore,
    views: Predictions,
    records: Mapping[str, Record],
    progress: Progress | None,
) -> Iterator[int]:
    ids = views.ids.tolist()
    other = pair_partners(views).tolist()
    for at in range(0, len(ids), _TEXTS):
        rows = range(at, min(at + _TEXTS, len(ids)))
        yield store.add_json(
            [
                item_text(records[ids[row]], records[ids[other[row]]] if other[row] >= 0 else None)
                for row in rows
            ]
        )
        if progress is not None:
            progress(rows.stop, len(ids))
