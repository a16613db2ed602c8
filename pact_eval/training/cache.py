"""A cache on disk of encoded training views.

The name of a cache file is a hash of everything that determines its content: the records, the
tokenizer and prompt (the fingerprints of the encoder and of the contract), the limit, and the plan
of views. A damaged file is replaced. A cache file contains plain columns and no code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import polars as pl

from pact_eval._files import atomic_path, write_parquet
from pact_eval._json import Json, dumps
from pact_eval.data.records import Record
from pact_eval.prompts.encoding import Encoder
from pact_eval.training.views import ViewPlan, training_views
from pact_losses import PactLossError, TrainingView

# Part of every key. Increase it whenever the columns or the construction of views change.
_FORMAT: Final = 2
_PROBES: Final = 64

_SCHEMA: Final = pl.Schema(
    {
        "record_id": pl.String(),
        "family": pl.String(),
        "variant": pl.String(),
        "view": pl.Int32(),
        "kind": pl.String(),
        "token_ids": pl.List(pl.Int32()),
        "code_tokens": pl.List(pl.Int32()),
        "code_order": pl.List(pl.Int16()),
        "reference": pl.Int16(),
        "ablated_answers": pl.List(pl.Int16()),
        "weight": pl.Float64(),
    }
)


def cached_training_views(
    records: Sequence[Record],
    encoder: Encoder,
    plan: ViewPlan,
    folder: Path,
    *,
    unpaired: Sequence[Record] = (),
    source: str = "training records",
    log: Callable[[str], None] = lambda _line: None,
) -> list[TrainingView]:
    """Return `training_views`, read from the cache if they were encoded before.

    Args:
        records: as for `training_views`.
        encoder: likewise.
        plan: likewise.
        folder: folder of the cache, created if it does not exist; one Parquet file per key.
        unpaired: as for `training_views`.
        source: name of the records in messages.
        log: called with one line about what was read, encoded or found damaged.

    Raises:
        RecordError: as for `training_views`.
        PromptError: likewise.
    """
    path = folder / f"views-{cache_key(records, encoder, plan, unpaired)[:32]}.parquet"
    if path.exists():
        try:
            views = _read(path)
        except (OSError, pl.exceptions.PolarsError, PactLossError, TypeError) as error:
            log(f"{path}: damaged, encoding again ({str(error).splitlines()[0]})")
        else:
            log(f"{path}: {len(views):,} views read")
            return views
    views = training_views(records, encoder, plan, unpaired=unpaired, source=source)
    _write(views, path)
    log(f"{path}: {len(views):,} views encoded")
    return views


def cache_key(
    records: Sequence[Record],
    encoder: Encoder,
    plan: ViewPlan,
    unpaired: Sequence[Record] = (),
) -> str:
    """Return the SHA-256 of everything that determines the views, as 64 hex digits.

    The key depends on the state, question, reference, certificate and names of each record, and on
    the order of the records. It does not depend on line numbers.
    """
    digest = hashlib.sha256()
    # The fingerprint covers one probe only; other tokenizer differences show on the records.
    probes = records[:: max(1, len(records) // _PROBES)]
    head: dict[str, Json] = {
        "format": _FORMAT,
        "encoder": encoder.fingerprint,
        "contract": encoder.contract.fingerprint,
        "max_prompt_tokens": encoder.max_prompt_tokens,
        "tokens": [list(view.token_ids) for view in encoder.encode(probes, 1, plan.seed)],
        "paired_records": len(records),
        **asdict(plan),
    }
    digest.update(dumps(head).encode("utf-8"))
    for record in (*records, *unpaired):
        content = asdict(record) | {"line": 0}
        digest.update(b"\n" + dumps(content).encode("utf-8"))
    return digest.hexdigest()


def _write(views: Sequence[TrainingView], path: Path) -> None:
    rows = [asdict(view) for view in views]
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two trainings that start together cannot read a partial file.
    with atomic_path(path) as partial:
        write_parquet(partial, pl.DataFrame(rows, schema=_SCHEMA))


def _read(path: Path) -> list[TrainingView]:
    # Without globbing: a folder name may contain "[".
    frame = pl.read_parquet(path, glob=False)
    if frame.schema != _SCHEMA:
        message = f"expected the columns {', '.join(_SCHEMA)}"
        raise TypeError(message)
    return [_view(row) for row in frame.iter_rows(named=True)]


def _view(row: dict[str, Any]) -> TrainingView:
    lists = ("token_ids", "code_tokens", "code_order", "ablated_answers")
    tuples = {name: None if row[name] is None else tuple(row[name]) for name in lists}
    return TrainingView(**(row | tuples))
