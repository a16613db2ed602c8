"""Content-free prompts of a dataset: its records with a context that says nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from pact_eval.data.records import Record
from pact_eval.errors import InputError
from pact_eval.runs.content_free import CONTENTS, MOST_VIEWS, content_free_id
from pact_eval.runs.provenance import RunLabels
from pact_eval.runs.seal import CONTENT_FREE
from pact_eval.scoring.windows import Backend, Dataset, score_windows


def content_free_dataset(dataset: Dataset) -> Dataset:
    """Return a dataset with each context replaced by "N/A", "[MASK]" and the empty string.

    Questions and letter orders stay, and views are two at most.

    Raises:
        InputError: the dataset has ablated contexts.
    """
    if any(record.ablation is not None for record in dataset.records):
        message = f"--content-free: expected records with references, {dataset.path} has none"
        raise InputError(message)
    records = [
        _content_free(record, number)
        for record in dataset.records
        for number in range(len(CONTENTS))
    ]
    return replace(dataset, records=records, k=min(dataset.k, MOST_VIEWS), content_free=True)


def score_content_free(
    source: Backend,
    dataset: Dataset,
    out: Path,
    *,
    labels: RunLabels,
    allow: Collection[str] = (),
) -> None:
    """Score the content-free prompts of a complete run into its folder, or resume that.

    Nothing else in the folder of the run changes.

    Args:
        source: what has scored the run.
        dataset: the dataset of the run.
        out: the run folder.
        labels: those of the run.
        allow: as for `score_windows`.

    Raises:
        PactError: as for `score_windows`.
    """
    content_free = content_free_dataset(dataset)
    score_windows(source, content_free, out / CONTENT_FREE, labels=labels, allow=allow)


def _content_free(record: Record, number: int) -> Record:
    return replace(
        record,
        id=content_free_id(record.id, number),
        state=CONTENTS[number],
        order_key=record.order_key or record.id,
    )
