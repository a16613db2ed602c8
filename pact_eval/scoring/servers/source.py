"""`Backend` backed by a server.

Rows have the log-probabilities that the server sent, in float64. `run.json` has under `server` who
was asked and who answered, and how many requests it took; under `probe` what the server is, asked
before the first window; `rounding` if probabilities are rounded.

If the probe finds that the server does not see orders, further views repeat the first. If it finds
that the model has changed since the run began, a resumed run is refused; if it finds so at the end,
the run says it.

Parity of a server with a local adapter or base model, on the items of the probe.

This is the only part of asking a server that needs torch. On a wire that sends token ids, both see
the same prompt. A server that builds prompts itself agrees only if it builds ours.

The local model is scored in float32. Servers load weights in the precision in which they are stored
unless told otherwise: if the answers are not those of float32, the same views are scored in that
precision too. What it moves here is the measure of what it may move there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl
import torch

from pact_eval._json import Json
from pact_eval.data.records import Record
from pact_eval.errors import ServerError
from pact_eval.progress import step
from pact_eval.prompts.contract import Order
from pact_eval.prompts.encoding import EncodedView
from pact_eval.runs.folder import RunWriter
from pact_eval.runs.predictions import with_rounding
from pact_eval.runs.provenance import ProbedServer, RecordedServer, Rounding, RunNames
from pact_eval.runs.rows import ABLATED_SCHEMA, SCHEMA, UNANSWERED
from pact_eval.scoring.model import ScoringModel, identify, resolve_dtype, stored_dtype
from pact_eval.scoring.request import request_of_local
from pact_eval.scoring.scorer import TOLERANCE
from pact_eval.scoring.servers.asking import (
    AskedItem,
    ItemAnswer,
    RequestQueue,
    count_requests,
    view_orders,
)
from pact_eval.scoring.servers.client import Client
from pact_eval.scoring.servers.find_wire import FoundWire, find_wire
from pact_eval.scoring.servers.probe import (
    PROBE_RECORDS,
    PROBE_SHA256,
    REPEATS,
    Parity,
    ServerProbe,
    change_since,
    probe_items,
    probe_server,
)
from pact_eval.scoring.servers.token_ids import TokenIdWire
from pact_eval.scoring.servers.wire import (
    NoAnswer,
    ServerRequest,
    ViewAnswer,
    Wire,
    probabilities_of,
)
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
        request: the server, as the user gave it.
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
        requests = count_requests(self.wire, items)
        orders: Counter[str] = Counter()
        for item in items:
            orders[item.field.kind] = max(orders[item.field.kind], len(item.distinct_orders))
        rate = self.request.requests_per_minute
        counts = len(items), requests, dict(orders), self._probes(), written
        return RequestPlan(*counts, rate, self.wire.name)

    def _probes(self) -> int:
        if not self.request.probe:
            return 0
        once = count_requests(self.wire, probe_items(self.wire))
        of_ids = 3 * once if isinstance(self.wire, TokenIdWire) else 0
        of_base = 0 if self.request.base_name is None else once + 1
        of_local = 0 if self.request.local is None else once
        twice = count_requests(self.wire, probe_items(self.wire, k=2))
        return twice + REPEATS - 1 + of_ids + of_base + of_local + once

    def item(self, record: Record, dataset: Dataset) -> AskedItem:
        """Return a record with the orders of its views."""
        key = record.order_key or record.id
        orders = view_orders(
            self.wire, record.field, item=key, k=dataset.k, seed=dataset.order_seed
        )
        return AskedItem(record.id, record.state, record.field, orders)


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
    request, detection = _resolve_wire(request)
    return ServerSource(request, detection.wire, detection.why, on_probe)


def probe(request: ServerRequest) -> ServerProbe:
    """Probe a server without a run.

    Raises:
        ServerError: the server cannot be used, or answers no item of the probe.
        AdapterError: the local adapter cannot be loaded.
    """
    request, detection = _resolve_wire(request)
    with step("Probing the server"), Client(request) as client:
        asker = RequestQueue(client, detection.wire, request.model)
        return replace(
            _run_probe(asker, client, detection.wire, request), wire_reason=detection.why
        )


def _resolve_wire(request: ServerRequest) -> tuple[ServerRequest, FoundWire]:
    """Return the wire, and the request with the name of the base model if the server gives it."""
    detection = find_wire(request)
    return replace(request, base_name=request.base_name or detection.base_name), detection


def _run_probe(
    asker: RequestQueue, client: Client, wire: Wire, request: ServerRequest
) -> ServerProbe:
    server_probe = probe_server(
        asker, client, wire, model=request.model, base_name=request.base_name
    )
    if request.local is None:
        return server_probe
    from pact_eval.scoring.servers.source import with_parity  # needs torch

    return with_parity(server_probe, asker, wire, request)


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
        self._probe: dict[str, Json] | None = None
        self._orders_are_views = True

    def probe(self) -> None:
        """Probe the server, or compare it with the probe of an earlier process.

        Raises:
            ServerError: the adapter is not applied, the server does not answer as the local adapter
                does, or the model has changed since the run began.
        """
        request = self._source.request
        self._probe = self._writer.recorded.recorded.get(_PROBE)
        if self._probe is not None:
            self._refuse_change()
        elif request.probe and self._before.requests is None:
            # Windows that were written without a probe have every order: so have the others.
            probe = replace(
                _run_probe(self._asker, self._client, self._source.wire, request),
                wire_reason=self._source.wire_reason,
            )
            self._source.on_probe(probe)
            if probe.faults:
                raise ServerError("; ".join(probe.faults))
            limits: dict[str, Json] = {
                "least_change": probe.least_change,
                "orders_are_views": probe.orders_are_views,
            }
            self._probe = probe.to_json() | limits
            self._writer.note({_PROBE: self._probe})
        self._orders_are_views = self._run_probe.orders_are_views is not False

    @property
    def _run_probe(self) -> ProbedServer:
        """The probe; without one, nothing is known."""
        return ProbedServer.of_json(self._probe or {}, _PROBE)

    def _change(self) -> float:
        """Return the largest TV between the answers to the probe now and when the run began."""
        probe = self._run_probe
        before = {name: answer for name, answer in probe.answers.items() if answer}
        if probe.probe_sha256 != PROBE_SHA256 or not before:
            return math.nan
        return change_since(self._asker, self._source.wire, before)

    @property
    def _least_change(self) -> float:
        """The smallest TV that is not put down to noise; infinity if it is not known."""
        least = self._run_probe.least_change
        return math.inf if least is None else least

    def _refuse_change(self) -> None:
        change = self._change()
        if change > self._least_change:
            raise ServerError(
                f"the model has changed since the run began: answers to the probe differ by "
                f"{change:.2g} (largest TV), noise by less; score into another folder"
            )

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
        """Ask for the views of some records."""
        items = [self._item(record) for record in window]

        def on_read(number: int, order: Order, read: ViewAnswer | NoAnswer) -> None:
            if isinstance(read, ViewAnswer) and order == items[number].orders[0]:
                on_answer(window[number], read.logits, read.answer_mass)

        answers = self._asker.ask(items, on_views, on_read)
        # Before the part: who answered is known of every part that is written.
        self._writer.note({_NOTE: self._requests.to_json()})
        rows = [
            row
            for record, item, answer in zip(window, items, answers, strict=True)
            for row in _rows(record, item, answer)
        ]
        ablated = any(record.ablation is not None for record in window)
        schema = dict(ABLATED_SCHEMA if ablated else SCHEMA) | {"logits": pl.List(pl.Float64())}
        return pl.DataFrame(rows, schema=schema | dict(UNANSWERED))

    def completed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Probe the server again; give probabilities that are rounded to 0.00 finite values."""
        if self._probe is not None:
            self._probe = self._probe | self._end()
        if self._source.wire.values != "probabilities":
            return self._without_false_mass(rows)
        kept, self._rounding = with_rounding(rows)
        return kept

    def _without_false_mass(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Remove the answer mass of all views if one reply has shown that it came from logits."""
        answered = rows.filter(pl.col("logits").list.len() > 0)
        if answered["answer_mass"].is_not_null().all():
            return rows
        if self._probe is not None:
            self._probe = self._probe | {"values": "logits"}
        return rows.with_columns(answer_mass=pl.lit(None, pl.Float32()))

    def _end(self) -> dict[str, Json]:
        """Return what the probe finds at the end; the answers are kept whatever it is."""
        try:
            change = self._change()
        except ServerError as error:
            return {"end": f"not probed: {error}"}
        if math.isnan(change):
            return {"end": "not probed"}
        return {"end_largest_tv": change, "changed": change > self._least_change}

    def _item(self, record: Record) -> AskedItem:
        item = self._source.item(record, self._dataset)
        if self._orders_are_views:
            return item
        return replace(item, orders=item.orders[:1] * len(item.orders))

    @property
    def _requests(self) -> RecordedServer:
        """Requests to the server, those of earlier processes included."""
        return RecordedServer(
            answered_by=self._asker.answered_by,
            requests=self._client.requests + (self._before.requests or 0),
            retries=self._client.retries + (self._before.retries or 0),
            concurrency=self._source.request.concurrency,
        )


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


_TIMES_ROUNDING: Final = 3.0
_MASS_SHARE: Final = 0.2


@dataclass(frozen=True)
class _Answers:
    """Answers to the same views, those of the server or of a local model."""

    views: Sequence[ViewAnswer]

    def difference(self, other: _Answers, *, rounded: bool) -> float:
        """Return the largest difference of a log-probability, or of a probability if rounded."""
        pairs = zip(self.views, other.views, strict=True)
        return max((_difference(*pair, rounded=rounded) for pair in pairs), default=math.inf)

    def mass_difference(self, other: _Answers) -> float | None:
        """Return the largest difference of the answer mass; None if none is known."""
        masses = [
            abs(one.answer_mass - two.answer_mass)
            for one, two in zip(self.views, other.views, strict=True)
            if one.answer_mass is not None and two.answer_mass is not None
        ]
        return max(masses, default=None)


def with_parity(
    probe: ServerProbe, asker: RequestQueue, wire: Wire, request: ServerRequest
) -> ServerProbe:
    """Return a probe with the agreement of a local model.

    Args:
        probe: the probe of the server.
        asker: asks the server.
        wire: the format of requests and answers.
        request: names the local adapter, or a base model alone.

    Raises:
        AdapterError: the model cannot be loaded.
        ServerError: no local model is named, or the server answers no item.
    """
    model = identify(replace(request_of_local(request), dtype="fp32"), may_differ=False)
    item_of_id = {item.record_id: item for item in probe_items(wire, k=2)}
    answers = dict(zip(item_of_id, asker.ask([*item_of_id.values()], alone=True), strict=True))
    views, served = _ask_server(model, wire, answers)
    exact = _score_here(model, views)
    parity = _parity(probe, request, torch.float32, served, exact, exact)
    precision = stored_dtype(model.base.folder)
    if request.local_dtype != "auto":
        precision = resolve_dtype(request.local_dtype, model.device)
    if precision != torch.float32 and not parity.holds:
        rounded = _score_here(replace(model, dtype=precision), views)
        parity = _parity(probe, request, precision, served, exact, rounded)
    return replace(probe, parity=parity)


def _ask_server(
    model: ScoringModel, wire: Wire, answers: dict[str, ItemAnswer]
) -> tuple[list[EncodedView], _Answers]:
    """Return the views that the server has answered, and its answers."""
    orders = {item.record_id: item.orders for item in probe_items(wire, k=2)}
    records = [record for record in PROBE_RECORDS if answers[record.id].views]
    views, served = [], []
    for view in model.encoder.encode(records, 2, 0):
        if view.code_order in orders[view.record_id]:
            answer = answers[view.record_id].views[orders[view.record_id].index(view.code_order)]
            views.append(view)
            served.append(answer if wire.prompts else replace(answer, answer_mass=None))
    return views, _Answers(served)


def _score_here(model: ScoringModel, views: Sequence[EncodedView]) -> _Answers:
    if not views:
        return _Answers([])
    scored = model.load().scorer.score(views)
    return _Answers([ViewAnswer(tuple(one.logits.tolist()), one.answer_mass) for one in scored])


def _parity(
    probe: ServerProbe,
    request: ServerRequest,
    precision: torch.dtype,
    served: _Answers,
    exact: _Answers,
    rounded: _Answers,
) -> Parity:
    """Compare the server with float32, by what a precision moves here."""
    has_decimals = probe.decimals is not None
    rounding = rounded.difference(exact, rounded=has_decimals) if served.views else 0.0
    mass_rounding = rounded.mass_difference(exact) or 0.0
    least = TOLERANCE[torch.float32]
    unit = 0.0 if probe.decimals is None else 0.5 * 10.0**-probe.decimals
    return Parity(
        adapter=str(request.local),
        views=len(served.views),
        largest_difference=served.difference(exact, rounded=has_decimals),
        tolerance=max(least, _TIMES_ROUNDING * rounding) + unit + probe.noise,
        precision=str(precision).removeprefix("torch."),
        rounding=rounding,
        largest_mass_difference=served.mass_difference(exact),
        mass_tolerance=max(_MASS_SHARE * least, _TIMES_ROUNDING * mass_rounding) + probe.noise,
    )


def _difference(served: ViewAnswer, local: ViewAnswer, *, rounded: bool) -> float:
    """Return the largest difference of a log-probability, or of a probability if rounded."""
    pair = [np.array(probabilities_of(view)) for view in (served, local)]
    if rounded:
        return float(np.abs(pair[0] - pair[1]).max())
    with np.errstate(divide="ignore"):
        return float(np.abs(np.log(pair[0]) - np.log(pair[1])).max())
