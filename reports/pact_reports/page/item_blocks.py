"""The items in a page: columns for sorting and filtering, blocks for opened items."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._json import Json
from pact_eval.data.records import Record
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.item_outcomes import item_distributions, item_outcomes
from pact_eval.evaluation.item_records import ItemRecords
from pact_eval.evaluation.items import pair_partners
from pact_eval.progress import tracked
from pact_eval.prompts.contract import ChatContract, canonical_code_order
from pact_eval.runs.predictions import Predictions
from pact_reports.page.item_columns import (
    FLAGS,
    KINDS,
    Column,
    item_columns,
    run_columns,
)
from pact_reports.page.item_texts import (
    NO_ORDERS,
    contract_of,
    item_text,
    marked,
    missing_prompt,
    system_message,
    user_message,
    view_changes,
)
from pact_reports.page.packing import BlockStore, bytes_of, to_permille

_IDS: Final = 4_096
_TEXTS: Final = 64
_VIEWS: Final = 512


def pack_experiment(
    store: BlockStore,
    experiment: Experiment,
    item_records: ItemRecords | None,
    names: ArmNames = KEYS,
) -> Json:
    """Pack the items of all runs.

    Args:
        store: stores the blocks.
        experiment: the runs.
        item_records: the records of the items; None leaves the texts out.
        names: display names of arms.

    Returns:
        The numbers of the blocks, and what the script must know to read them.
    """
    records = None if item_records is None else item_records.records
    # A run whose dataset was not given may have read other texts than those on the page.
    doubtful = set() if item_records is None else {data.run for data in item_records.different}
    tables: list[Json] = []
    runs: list[Json] = []
    place: dict[int, int] = {}
    prompts: dict[tuple[int, bytes], Json] = {}
    owners = zip(experiment.runs, item_tables(experiment), strict=True)
    for run, owner in tracked(owners, "Packing items", "runs", total=len(experiment.runs)):
        views, contract = run.predictions, contract_of(run)
        if owner not in place:
            place[owner] = len(tables)
            tables.append(pack_items(store, views, records, contract))
        packed = {
            "label": names.run(run.label),
            **pack_run(store, experiment, run, place[owner]),
        }
        key = (owner, views.code_order.tobytes())
        if records is not None and contract is not None and key not in prompts:
            prompts[key] = pack_prompts(store, views, records, contract)
        packed["prompts"] = None if contract is None else prompts.get(key)
        packed["no_prompt"] = missing_prompt(run) or NO_ORDERS
        packed["same_data"] = run.label not in doubtful
        runs.append(packed)
    return {
        "items": tables,
        "runs": runs,
        "compared": [*compared_runs(experiment)],
        "flags": {**FLAGS},
        "bins": experiment.settings.ece_bins,
        "blocks": store.index,
    }


def compared_runs(experiment: Experiment) -> tuple[int, int | None]:
    """Return the two runs that a page compares first, as indices.

    Returns:
        The first run of the main arm, and a run of another arm on the same items: at the same
        seed, if there is one. Without another arm, the second is another run, or None.
    """
    runs, tables = experiment.runs, item_tables(experiment)
    a = next(at for at, run in enumerate(runs) if run.arm == experiment.main_arm)
    others = [at for at in range(len(runs)) if at != a and tables[at] == tables[a]]
    # False sorts before True, and the first of equal runs is taken.
    unlike = {at: (runs[at].arm == runs[a].arm, runs[at].seed != runs[a].seed) for at in others}
    return a, min(others, key=unlike.__getitem__, default=None)


def pack_items(
    store: BlockStore,
    views: Predictions,
    records: Mapping[str, Record] | None,
    contract: ChatContract | None = None,
) -> Json:
    """Pack the data of the items that all runs on them share.

    Args:
        store: stores the blocks.
        views: the views of one of the runs.
        records: the records of all items by id; None leaves the texts out, and so does a run that
            does not name the answers.
        contract: the contract that rendered the prompts; None leaves the prompts out.

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
        "system": None,
    }
    if records is not None and views.known != "outcomes":
        texts = _Texts(views, records, contract)
        packed["texts"] = {"size": _TEXTS, "blocks": [*texts.blocks(store)]}
        if contract is not None:
            packed["system"] = system_message(contract, records[ids[0]])
    return packed


def pack_run(
    store: BlockStore, experiment: Experiment, run: ExperimentRun, items: int
) -> dict[str, Json]:
    """Pack the answers and probabilities of one run.

    Args:
        store: stores the blocks.
        experiment: the experiment of the run, for the decoding of answers and confidences.
        run: the run.
        items: index of its items among the item sets of the page.

    Returns:
        The numbers of the blocks; those of an item are in the order of `ItemDistributions.names`.
    """
    views, distributions = run.predictions, item_distributions(experiment, run)
    slots = distributions.used
    shown = views.code_order >= 0
    view_blocks: list[Json] = []
    order_blocks: list[Json] = []
    # Rounded probabilities may tie, so the most probable answer of each distribution is stored too.
    top_blocks: list[Json] = []
    for at in range(0, len(views), _VIEWS):
        rows = slice(at, at + _VIEWS)
        top_blocks.append(store.add(bytes_of(distributions.tops[rows], "u1")))
        chosen = _flat(to_permille(distributions.probabilities[rows]), slots[rows])
        view_blocks.append(store.add(bytes_of(chosen, "u2")))
        # 255 marks a view of unknown order.
        orders = _flat(np.where(shown[rows], views.code_order[rows], 255), slots[rows])
        order_blocks.append(store.add(bytes_of(orders, "u1")))
    return {
        "items": items,
        "k": views.k,
        "repeats": views.k if views.repeats else 1,
        "decoding": experiment.settings.decoding,
        "distributions": [*distributions.names],
        "columns": _columns(store, run_columns(item_outcomes(experiment, run))),
        "views": {"size": _VIEWS, "blocks": view_blocks},
        "orders": {"size": _VIEWS, "blocks": order_blocks},
        "tops": {"size": _VIEWS, "blocks": top_blocks},
    }


def item_tables(experiment: Experiment) -> list[int]:
    """Return for each run the index of the first run that has its items, in its order."""
    first: dict[tuple[bytes, ...], int] = {}
    return [first.setdefault(_items_key(run), at) for at, run in enumerate(experiment.runs)]


def _items_key(run: ExperimentRun) -> tuple[bytes, ...]:
    views = run.predictions
    ids = hashlib.sha256("\0".join(views.ids.tolist()).encode("utf-8", errors="replace"))
    return ids.digest(), views.reference.tobytes(), views.n_choices.tobytes()


def _flat(values: npt.NDArray[np.integer], slots: npt.NDArray[np.bool_]) -> npt.NDArray[np.integer]:
    """Flatten (n, distributions, answers), one item after another, without unused slots."""
    wide = np.broadcast_to(slots[:, np.newaxis, :], values.shape)
    chosen: npt.NDArray[np.integer] = values[wide]
    return chosen


def _columns(store: BlockStore, columns: Sequence[Column]) -> Json:
    return {
        column.name: [store.add(bytes_of(column.values, column.dtype)), column.dtype]
        for column in columns
    }


@dataclass(frozen=True)
class _Texts:
    """The texts of the items that some runs share."""

    views: Predictions
    records: Mapping[str, Record]
    contract: ChatContract | None

    def blocks(self, store: BlockStore) -> Iterator[int]:
        ids = self.views.ids.tolist()
        other = pair_partners(self.views).tolist()
        prompt = _prompts(self.contract, self.records)
        for at in tracked(range(0, len(ids), _TEXTS), "Packing texts", "parts"):
            rows = range(at, min(at + _TEXTS, len(ids)))
            texts: list[Json] = []
            for row in rows:
                pair = [ids[row]] if other[row] < 0 else [ids[row], ids[other[row]]]
                record, partner = self.records[pair[0]], self.records[pair[-1]]
                marks = marked(prompt(pair[0]), prompt(pair[-1])) if prompt else None
                texts.append(item_text(record, partner if len(pair) > 1 else None, marks))
            yield store.add_json(texts)


def _prompts(
    contract: ChatContract | None, records: Mapping[str, Record]
) -> Callable[[str], str] | None:
    """Return a function from an id to the user message in canonical order."""
    if contract is None:
        return None

    # The members of a pair need each other's message, and are near each other.
    @lru_cache(maxsize=_TEXTS)
    def message(item: str) -> str:
        record = records[item]
        return user_message(contract, record, canonical_code_order(record.field))

    return message


def pack_prompts(
    store: BlockStore, views: Predictions, records: Mapping[str, Record], contract: ChatContract
) -> Json:
    """Pack the differences of the prompts of a run's views from those in canonical order.

    Args:
        store: stores the blocks.
        views: the views of the run.
        records: the records of all items by id.
        contract: the contract of the run.

    Returns:
        The numbers of the blocks; None if the run does not record the letter order of a view.
    """
    recorded = (views.code_order >= 0).sum(axis=2) == views.n_choices[:, np.newaxis]
    if not recorded.all():
        return None
    ids, sizes = views.ids.tolist(), views.n_choices.tolist()
    blocks: list[Json] = []
    for at in range(0, len(ids), _TEXTS):
        rows = range(at, min(at + _TEXTS, len(ids)))
        orders = (views.code_order[row, :, : sizes[row]].tolist() for row in rows)
        changes = [
            view_changes(contract, records[ids[row]], order)
            for row, order in zip(rows, orders, strict=True)
        ]
        blocks.append(store.add_json([*changes]))
    return {"size": _TEXTS, "blocks": blocks}
