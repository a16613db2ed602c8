"""Score a dataset: records in, a run folder out. A run can resume at every window of records.

A window is a fixed number of records in file order. Batching, writing and resuming all work on
windows. Batches therefore do not depend on where a run was interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from pact_eval._files import sha256_of_file
from pact_eval._json import Json
from pact_eval.data import Record, read_records
from pact_eval.errors import PromptError
from pact_eval.prompts import EncodedView
from pact_eval.runs import ABLATED_SCHEMA, SCHEMA, RunWriter
from pact_eval.scoring.engine import ScoredView
from pact_eval.scoring.model import LoadedModel, ScoringModel

WINDOW_RECORDS: Final = 64
"""Records per window."""

_PROOF_RECORDS = 4

Progress = Callable[[int, int], None]
"""Called with (items done, total items) after every batch."""


@dataclass(frozen=True)
class Dataset:
    """The records to be scored, and their views.

    Attributes:
        path: the file.
        sha256: SHA-256 of the full file.
        records: the records that are scored, in file order.
        k: views per record.
        order_seed: seed of the letter orders.
    """

    path: Path
    sha256: str
    records: Sequence[Record]
    k: int
    order_seed: int

    @property
    def settings(self) -> Mapping[str, Json]:
        """The settings that identify the dataset and its views in `run.json`."""
        return {
            "data": {"sha256": self.sha256, "records": len(self.records)},
            "k": self.k,
            "order_seed": self.order_seed,
            "window_records": WINDOW_RECORDS,
        }


def read_dataset(path: Path, *, k: int, order_seed: int = 0, limit: int | None = None) -> Dataset:
    """Read the records to be scored.

    Args:
        path: a dataset file: records with references, or ablated contexts as `pact-audit ablate`
            writes them.
        k: views per record, at least 1.
        order_seed: seed of the letter orders.
        limit: score only this many records, from the start of the file.

    Raises:
        InputError: the file cannot be read.
        RecordError: a record is malformed, even beyond the limit, or the file mixes ablated
            contexts and records with references.
    """
    records = read_records(path, allow_ablated=True)
    return Dataset(path, sha256_of_file(path), records[:limit], k, order_seed)


def score(
    model: ScoringModel,
    dataset: Dataset,
    out: Path,
    *,
    labels: Mapping[str, Json],
    progress: Progress = lambda _done, _total: None,
) -> None:
    """Score every view of a dataset into a run folder, or resume one.

    A complete run is not changed.

    Args:
        model: the model.
        dataset: the records and their views.
        out: the run folder.
        labels: values that do not affect any number: arm, seed, command line.
        progress: called after every batch.

    Raises:
        PromptError: a prompt is over the limit; nothing was scored.
        AdapterError: the model cannot be loaded, or the adapter changes nothing.
        RunError: the folder cannot be used, or has a run with other settings.
    """
    try:
        longest = model.encoder.check_lengths(dataset.records, dataset.k, dataset.order_seed)
    except PromptError as error:
        message = f"{dataset.path}: {error}"
        raise PromptError(message) from None
    settings = {**model.settings, **dataset.settings}
    names: dict[str, Json] = {
        "source": "score",
        "adapter": None if model.adapter is None else str(model.adapter.folder),
        "base_model": model.base.label,
        "data": str(dataset.path),
        **labels,
    }
    with RunWriter(out, settings, names) as writer:
        if writer.complete:
            return
        started = time.monotonic()
        facts: dict[str, Json] = {"longest_prompt_tokens": longest}
        try:
            facts |= _score_windows(model.load(), dataset, writer, progress)
        except BaseException:
            writer.add_wall_seconds(time.monotonic() - started)
            raise
        writer.finish(time.monotonic() - started, facts)


def _score_windows(
    loaded: LoadedModel, dataset: Dataset, writer: RunWriter, progress: Progress
) -> dict[str, Json]:
    records, total = dataset.records, len(dataset.records)
    facts: dict[str, Json] = {"attention": loaded.attention}
    # Always with the first records: a resumed run then chooses the same engine.
    proof = _encode(loaded, dataset, records[:_PROOF_RECORDS])
    loaded.scorer.prepare(proof)
    if loaded.source.adapter is not None:
        facts["adapter_largest_logit_change"] = loaded.scorer.check_adapter_effect(proof)
        if loaded.source.merge:
            facts["merge_drift"] = loaded.scorer.merge_adapter(proof)
    loaded.scorer.reset_counts()
    progress(writer.rows_done // dataset.k, total)
    for number, start in enumerate(range(0, total, WINDOW_RECORDS)):
        if writer.has_part(number):
            continue
        window = records[start : start + WINDOW_RECORDS]
        views = _encode(loaded, dataset, window)
        before = writer.rows_done

        def on_batch(views_done: int, before: int = before) -> None:
            progress((before + views_done) // dataset.k, total)

        scored = loaded.scorer.score(views, on_batch)
        writer.write_part(number, _rows(window, views, scored))
    facts["counts"] = {"items": total, "views": writer.rows_done}
    facts["engine"] = loaded.scorer.facts
    return facts


def _encode(loaded: LoadedModel, dataset: Dataset, records: Sequence[Record]) -> list[EncodedView]:
    return loaded.source.encoder.encode(records, dataset.k, dataset.order_seed)


def _rows(
    records: Sequence[Record], views: Sequence[EncodedView], scored: Sequence[ScoredView]
) -> pl.DataFrame:
    by_id = {record.id: record for record in records}
    rows = [
        {
            "id": record.id,
            "family": record.family,
            "source_family": record.source_family,
            "domain": record.domain,
            "kind": record.field.kind,
            "variant": record.variant,
            "reference": record.reference,
            "n_choices": record.n_choices,
            "view": view.view,
            "code_order": list(view.code_order),
            "logits": result.logits.tolist(),
            "prompt_tokens": len(view.token_ids),
            "answer_mass": result.answer_mass,
            **({} if record.ablation is None else {"answers": list(record.ablation.answers)}),
        }
        for view, result in zip(views, scored, strict=True)
        if (record := by_id[view.record_id])
    ]
    ablated = any(record.ablation is not None for record in records)
    return pl.DataFrame(rows, schema=ABLATED_SCHEMA if ablated else SCHEMA)
