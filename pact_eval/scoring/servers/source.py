"""A server as what answers the records of a run; see `RowSource`.

Rows have the log-probabilities that the server sent, in float64. `run.json` has under `server` who
was asked and who answered, and how many requests it took; `rounding` if probabilities are rounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import polars as pl

from pact_eval._json import Json
from pact_eval.data import Record
from pact_eval.runs import ABLATED_SCHEMA, SCHEMA, UNANSWERED, RunWriter
from pact_eval.scoring.servers.asking import (
    AskedItem,
    Asker,
    ItemAnswer,
    count_requests,
    view_orders,
)
from pact_eval.scoring.servers.client import Client
from pact_eval.scoring.servers.detect import find_wire
from pact_eval.scoring.servers.probabilities import decimals, with_censored_zeros
from pact_eval.scoring.servers.request import ServerRequest
from pact_eval.scoring.servers.wire import Wire
from pact_eval.scoring.windows import Dataset, record_columns

_NOTE = "server"


@dataclass(frozen=True)
class RequestPlan:
    """What a run will ask of a server, before it does.

    Attributes:
        items: number of items.
        requests: number of requests, without retries; fewer if the run resumes.
        orders: by field kind, the most orders of an item that are asked.
        seconds: the time that they take at the rate limit; None without one.
    """

    items: int
    requests: int
    orders: Mapping[str, int]
    seconds: float | None


@dataclass(frozen=True)
class ServerSource:
    """A server as what answers the records of a run; see `RowSource`.

    Attributes:
        request: the server, as the user gave it.
        wire: the format of requests and answers.
    """

    request: ServerRequest
    wire: Wire

    @property
    def settings(self) -> Mapping[str, Json]:
        """The wire and the name of the model; the address may change between two processes."""
        wire: dict[str, Json] = {"wire": self.wire.name, "model": self.request.model}
        return {"server": wire | dict(self.wire.settings)}

    @property
    def names(self) -> Mapping[str, Json]:
        """The name of the model, in the place of a base model, and the addresses."""
        return {
            "adapter": None,
            "base_model": self.request.model,
            "server_addresses": [*self.request.urls],
        }

    def check(self, dataset: Dataset) -> Mapping[str, Json]:
        """Nothing can be checked here: the server builds the prompts."""
        del dataset
        return {}

    @contextmanager
    def open(self, dataset: Dataset, writer: RunWriter) -> Iterator[_ServerScorer]:
        """Connect to the server.

        Raises:
            ServerError: the server cannot be used.
        """
        with Client(self.request) as client:
            scorer = _ServerScorer(self, dataset, writer, client)
            try:
                yield scorer
            finally:
                scorer.close()

    def plan(self, dataset: Dataset) -> RequestPlan:
        """Return what a run on a dataset will ask."""
        items = [self.item(record, dataset) for record in dataset.records]
        requests = count_requests(self.wire, items)
        orders: Counter[str] = Counter()
        for item in items:
            orders[item.field.kind] = max(orders[item.field.kind], len(item.distinct_orders))
        rate = self.request.requests_per_minute
        seconds = None if rate is None else requests * 60.0 / rate
        return RequestPlan(len(items), requests, dict(orders), seconds)

    def item(self, record: Record, dataset: Dataset) -> AskedItem:
        """Return a record with the orders of its views."""
        orders = view_orders(
            self.wire, record.field, item=record.id, k=dataset.k, seed=dataset.order_seed
        )
        return AskedItem(record.id, record.state, record.field, orders)


def server_source(request: ServerRequest) -> ServerSource:
    """Return a server as what answers the records of a run.

    Raises:
        ServerError: the key cannot be read, or the server speaks no wire that we know.
    """
    request.key()
    return ServerSource(request, find_wire(request))


class _ServerScorer:
    """Scores windows by asking a server; see `WindowScorer`."""

    def __init__(
        self, source: ServerSource, dataset: Dataset, writer: RunWriter, client: Client
    ) -> None:
        self._source = source
        self._dataset = dataset
        self._writer = writer
        self._client = client
        found = writer.noted(_NOTE)
        self._before: dict[str, Json] = dict(found) if isinstance(found, dict) else {}
        answered_by = self._before.get("answered_by")
        self._asker = Asker(
            client,
            source.wire,
            source.request.model,
            concurrency=source.request.concurrency,
            answered_by=answered_by if isinstance(answered_by, str) else None,
        )
        self._rounding: dict[str, Json] = {}

    def close(self) -> None:
        """Give up requests that are under way."""
        self._asker.close()

    @property
    def facts(self) -> Mapping[str, Json]:
        """Who answered, requests of all processes, and rounding."""
        return {_NOTE: self._note(), **({"rounding": self._rounding} if self._rounding else {})}

    def score(self, window: Sequence[Record], on_views: Callable[[int], None]) -> pl.DataFrame:
        """Ask for the views of some records."""
        items = [self._source.item(record, self._dataset) for record in window]
        answers = self._asker.ask(items, on_views)
        # Before the part: who answered is known of every part that is written.
        self._writer.note({_NOTE: self._note()})
        found = [
            row
            for record, item, answer in zip(window, items, answers, strict=True)
            for row in _rows(record, item, answer)
        ]
        ablated = any(record.ablation is not None for record in window)
        schema = dict(ABLATED_SCHEMA if ablated else SCHEMA) | {"logits": pl.List(pl.Float64())}
        return pl.DataFrame(found, schema=schema | dict(UNANSWERED))

    def completed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with finite values for probabilities that are rounded to 0.00."""
        sent = rows["logits"].explode(empty_as_null=False).drop_nulls().to_numpy()
        digits = decimals(np.exp(sent))
        if not sent.size or digits is None:
            return rows
        lists, zeros = [], 0
        for logits in rows["logits"]:
            values, censored = with_censored_zeros(logits.to_numpy(), digits)
            lists.append(values.tolist())
            zeros += censored
        self._rounding = {"decimals": digits, "views_with_zeros": zeros}
        return rows.with_columns(logits=pl.Series(lists, dtype=pl.List(pl.Float64())))

    def _note(self) -> dict[str, Json]:
        """Return what `run.json` keeps of the server, earlier processes included."""
        counts = {"requests": self._client.requests, "retries": self._client.retries}
        return {
            "answered_by": self._asker.answered_by,
            **{name: count + _whole(self._before.get(name)) for name, count in counts.items()},
            "concurrency": self._source.request.concurrency,
        }


def _rows(record: Record, item: AskedItem, answer: ItemAnswer) -> list[dict[str, Json]]:
    """Return the rows of one record: one per view, or one with its status."""
    columns = record_columns(record)
    if answer.missing is not None:
        nothing: dict[str, Json] = {"view": 0, "code_order": [], "logits": []}
        return [
            columns | nothing | {"status": answer.missing.status, "reason": answer.missing.reason}
        ]
    return [
        columns
        | {
            "view": number,
            "code_order": [*order],
            "logits": [*view.logits],
            "prompt_tokens": view.prompt_tokens,
            "answer_mass": view.answer_mass,
        }
        for number, (order, view) in enumerate(zip(item.orders, answer.views, strict=True))
    ]


def _whole(value: Json) -> int:
    return value if isinstance(value, int) else 0
