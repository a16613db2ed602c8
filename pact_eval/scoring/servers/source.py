"""`Backend` backed by a server.

Rows have the log-probabilities that the server sent, in float64. `run.json` has under `server` who
was asked and who answered, and how many requests it took; under `probe` what the server is, asked
before the first window; `rounding` if probabilities are rounded.

If the probe finds that the server does not see orders, further views repeat the first. If it finds
that the model has changed since the run began, a resumed run is refused; if it finds so at the end,
the run says it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import polars as pl

from pact_eval._json import Json
from pact_eval.data.records import Record
from pact_eval.errors import ServerError
from pact_eval.progress import step
from pact_eval.runs.folder import RunWriter
from pact_eval.runs.predictions import with_rounding
from pact_eval.runs.provenance import ProbedServer, RecordedServer, Rounding, RunNames
from pact_eval.runs.rows import ABLATED_SCHEMA, SCHEMA, UNANSWERED
from pact_eval.scoring.servers.asking import RequestQueue, count_requests, view_orders
from pact_eval.scoring.servers.client import Client
from pact_eval.scoring.servers.dialects import Wire
from pact_eval.scoring.servers.find_wire import find_wire
from pact_eval.scoring.servers.probe import (
    PROBE_SHA256,
    REPEATS,
    ServerProbe,
    change_since,
    probe_items,
    probe_server,
)
from pact_eval.scoring.servers.wire import AskedItem, NoAnswer, Order, ServerRequest, ViewAnswer
from pact_eval.scoring.windows import (
    Dataset,
    OnAnswer,
    ScoredWindow,
    Window,
    in_order,
    record_columns,
)

_NOTE = "server"
_PROBE = "probe"


@dataclass(frozen=True)
class RequestPlan:
    """Requests that a run will send to a server.

    Attributes:
        items: number of items that are asked.
        requests: number of requests for them, without retries.
        orders: by field kind, the most orders of an item that are asked.
        probes: number of further requests that probe the server, at the start and at the end.
        written: number of items whose answers an earlier process has written.
        requests_per_minute: the rate limit; None without one.
        wire: the format of requests and answers.
    """

    items: int
    requests: int
    orders: Mapping[str, int]
    probes: int = 0
    written: int = 0
    requests_per_minute: float | None = None
    wire: str = "systemone"

    @property
    def seconds(self) -> float | None:
        """The time that all requests take at the rate limit; None without one."""
        rate = self.requests_per_minute
        return None if rate is None else (self.requests + self.probes) * 60.0 / rate


@dataclass(frozen=True)
class ServerSource:
    """A server as what answers the records of a run; see `Backend`.

    Attributes:
        request: the server, as the user gave it, with the name of the base model if that is known.
        wire: the format of requests and answers.
        wire_reason: why this one.
        on_probe: called with the probe of the server, before the first window.
    """

    request: ServerRequest
    wire: Wire
    wire_reason: str = "as given"
    on_probe: Callable[[ServerProbe], None] = lambda _probe: None

    @property
    def adapter(self) -> None:
        """No adapter is known: a server does not say what its model was trained on."""

    @property
    def settings(self) -> Mapping[str, Json]:
        """The wire, the model's name, and prompts made here; not the address, which may change."""
        wire: dict[str, Json] = {"wire": self.wire.name, "model": self.request.model}
        return {"server": wire | dict(self.wire.settings), **self.wire.prompts}

    @property
    def names(self) -> RunNames:
        """The name of the model, in the place of a base model, and the addresses."""
        return {
            "adapter": None,
            "base_model": self.request.model,
            "server_addresses": [*self.request.urls],
        }

    def check(self, dataset: Dataset) -> Mapping[str, Json]:
        """Nothing is checked here: an item whose prompt is too long has a status instead."""
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
            with step("Probing the server"):
                scorer.probe()
            yield scorer

    def plan(self, dataset: Dataset, written: int = 0) -> RequestPlan:
        """Return what a run on a dataset will ask.

        Args:
            dataset: the records.
            written: number of records whose answers are written, from the start.
        """
        items = [self.item(record, dataset) for record in dataset.records[written:]]
        orders: Counter[str] = Counter()
        for item in items:
            orders[item.field.kind] = max(orders[item.field.kind], len(item.distinct_orders))
        once = count_requests(self.wire, probe_items(self.wire))
        probes = once + count_requests(self.wire, probe_items(self.wire, k=2)) + REPEATS - 1
        probes += 0 if self.wire.encoder is None else 3 * once
        probes += 0 if self.request.base_name is None else once + 1
        probes += 0 if self.request.local is None else once
        return RequestPlan(
            items=len(items),
            requests=count_requests(self.wire, items),
            orders=dict(orders),
            probes=probes if self.request.probe else 0,
            written=written,
            requests_per_minute=self.request.requests_per_minute,
            wire=self.wire.name,
        )

    def item(self, record: Record, dataset: Dataset) -> AskedItem:
        """Return a record with the orders of its views."""
        key = record.order_key or record.id
        orders = view_orders(
            self.wire, record.field, item=key, k=dataset.k, seed=dataset.order_seed
        )
        return AskedItem(record.id, record.state, record.field, orders)

    def probe(self, asker: RequestQueue) -> ServerProbe:
        """Probe the server, and compare it with a local model if one is named.

        Raises:
            ServerError: the server cannot be used, or answers no item of the probe.
            AdapterError: the local model cannot be loaded.
        """
        server_probe = probe_server(asker, self.request.base_name, self.wire_reason)
        if self.request.local is None:
            return server_probe
        from pact_eval.scoring.servers.parity import with_parity  # needs torch

        return with_parity(server_probe, asker, self.request)


def server_source(
    request: ServerRequest, on_probe: Callable[[ServerProbe], None] = lambda _probe: None
) -> ServerSource:
    """Return a server as what answers the records of a run.

    Args:
        request: the server, as the user gave it.
        on_probe: called with the probe of the server, before the first window.

    Raises:
        ServerError: the key cannot be read, or the server speaks no wire that pact-eval knows.
    """
    detection = find_wire(request)
    request = replace(request, base_name=request.base_name or detection.base_name)
    return ServerSource(request, detection.wire, detection.why, on_probe)


def probe(request: ServerRequest) -> ServerProbe:
    """Probe a server without a run.

    Raises:
        ServerError: the server cannot be used, or answers no item of the probe.
        AdapterError: the local adapter cannot be loaded.
    """
    source = server_source(request)
    with step("Probing the server"), Client(source.request) as client:
        return source.probe(RequestQueue(client, source.wire, request.model))


class _ServerScorer:
    """Scores windows by asking a server; see `WindowScorer`."""

    def __init__(
        self, source: ServerSource, dataset: Dataset, writer: RunWriter, client: Client
    ) -> None:
        self._source = source
        self._dataset = dataset
        self._writer = writer
        self._client = client
        self._before = writer.recorded.server or RecordedServer()
        self._asker = RequestQueue(
            client, source.wire, source.request.model, answered_by=self._before.answered_by
        )
        self._rounding: Rounding | None = None
        self._probe: dict[str, Json] | None = writer.recorded.recorded.get(_PROBE)
        self._least_change = math.inf
        self._orders_are_views = True

    def probe(self) -> None:
        """Probe the server, or compare it with the probe of an earlier process.

        Raises:
            ServerError: the adapter is not applied, the server does not answer as the local adapter
                does, or the model has changed since the run began.
        """
        is_resumed = self._probe is not None
        # Windows that were written without a probe have every order: so have the others.
        if not is_resumed and self._source.request.probe and self._before.requests is None:
            probe = self._source.probe(self._asker)
            self._source.on_probe(probe)
            if probe.faults:
                raise ServerError("; ".join(probe.faults))
            limits: dict[str, Json] = {
                "least_change": probe.least_change,
                "orders_are_views": probe.orders_are_views,
            }
            self._probe = probe.to_json() | limits
            self._writer.note({_PROBE: self._probe})
        recorded = ProbedServer.of_json(self._probe or {}, _PROBE)
        self._orders_are_views = recorded.orders_are_views is not False
        if recorded.least_change is not None:
            self._least_change = recorded.least_change
        if is_resumed and (change := self._change()) > self._least_change:
            raise ServerError(
                f"the model has changed since the run began: answers to the probe differ by "
                f"{change:.2g} (largest TV), noise by less; score into another folder"
            )

    def _change(self) -> float:
        """Return the largest TV between the answers to the probe now and when the run began."""
        recorded = ProbedServer.of_json(self._probe or {}, _PROBE)
        before = {name: answer for name, answer in recorded.answers.items() if answer}
        if recorded.probe_sha256 != PROBE_SHA256 or not before:
            return math.nan
        return change_since(self._asker, before)

    @property
    def facts(self) -> Mapping[str, Json]:
        """Result of the probe, requests of all processes, and rounding."""
        facts: dict[str, Json] = {_NOTE: self._requests.to_json()}
        if self._rounding is not None:
            facts["rounding"] = self._rounding.to_json()
        if self._probe is not None:
            facts[_PROBE] = self._probe
        return facts

    def score(
        self, windows: Sequence[Window], on_views: Callable[[int], None], on_answer: OnAnswer
    ) -> Iterator[ScoredWindow]:
        """Ask for the views of windows, one after the other."""
        return in_order(windows, lambda records: self._ask_window(records, on_views, on_answer))

    def _ask_window(
        self, window: Sequence[Record], on_views: Callable[[int], None], on_answer: OnAnswer
    ) -> pl.DataFrame:
        """Ask for the views of some records: a row per view, or one with the status of a record."""
        items = [self._source.item(record, self._dataset) for record in window]
        if not self._orders_are_views:
            items = [replace(item, orders=item.orders[:1] * len(item.orders)) for item in items]

        def on_read(number: int, order: Order, read: ViewAnswer | NoAnswer) -> None:
            if isinstance(read, ViewAnswer) and order == items[number].orders[0]:
                on_answer(window[number], read.logits, read.answer_mass)

        answers = self._asker.ask(items, on_views, on_read)
        # Before the part: who answered is known of every part that is written.
        self._writer.note({_NOTE: self._requests.to_json()})
        rows: list[dict[str, Json]] = []
        for record, item, answer in zip(window, items, answers, strict=True):
            columns = record_columns(record)
            if answer.missing is not None:
                missing = {"status": answer.missing.status, "reason": answer.missing.reason}
                rows.append({**columns, "view": 0, "code_order": [], "logits": [], **missing})
            rows += [
                columns
                | {
                    "view": number,
                    "code_order": [*item.orders[number]],
                    "logits": [*view.logits],
                    "prompt_tokens": view.prompt_tokens,
                    "answer_mass": view.answer_mass,
                }
                for number, view in enumerate(answer.views)
            ]
        ablated = any(record.ablation is not None for record in window)
        schema = dict(ABLATED_SCHEMA if ablated else SCHEMA) | {"logits": pl.List(pl.Float64())}
        return pl.DataFrame(rows, schema=schema | dict(UNANSWERED))

    def completed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Probe the server again; give probabilities that are rounded to 0.00 finite values.

        The answer mass of all views is unknown if one reply has shown that it came from logits.
        """
        if self._probe is not None:
            end: dict[str, Json] = {"end": "not probed"}
            try:
                change = self._change()
            except ServerError as error:  # the answers are kept, whatever it is
                end = {"end": f"not probed: {error}"}
            else:
                if not math.isnan(change):
                    end = {"end_largest_tv": change, "changed": change > self._least_change}
            self._probe = self._probe | end
        if self._source.wire.values == "probabilities":
            rows, self._rounding = with_rounding(rows)
            return rows
        answered = rows.filter(pl.col("logits").list.len() > 0)
        if answered["answer_mass"].is_not_null().all():
            return rows
        if self._probe is not None:
            self._probe = self._probe | {"values": "logits"}
        return rows.with_columns(answer_mass=pl.lit(None, pl.Float32()))

    @property
    def _requests(self) -> RecordedServer:
        """Requests to the server, those of earlier processes included."""
        return RecordedServer(
            answered_by=self._asker.answered_by,
            requests=self._client.requests + (self._before.requests or 0),
            retries=self._client.retries + (self._before.retries or 0),
            concurrency=self._source.request.concurrency,
        )
