"""Items asked of a server: their views, each order once, and one status per item.

An order that is a view is asked once. Further views of the same order repeat its answer, as two
answers have two orders, and as a boolean on a wire that does not permute it has one.

An item is answered if all of its views are. Otherwise it has the status of the first view without
an answer, and no numbers: nothing is imputed.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from pact_eval._json import Json
from pact_eval.data.records import Field
from pact_eval.errors import InputError, ServerError
from pact_eval.prompts.contract import code_orders
from pact_eval.scoring.servers.client import Client
from pact_eval.scoring.servers.wire import (
    AskedView,
    Call,
    NoAnswer,
    NoUsableReplyError,
    ReadReply,
    RefusedRequestError,
    UnusableReplyError,
    ViewAnswer,
    Wire,
    shortened,
)

Order = tuple[int, ...]
OnRead = Callable[[int, Order, ViewAnswer | NoAnswer], None]


@dataclass(frozen=True)
class AskedItem:
    """An item with the orders of its K views.

    Attributes:
        record_id: id of the item.
        state: the context.
        field: the question.
        orders: the order of each view.
    """

    record_id: str
    state: Json
    field: Field
    orders: tuple[Order, ...]

    @property
    def distinct_orders(self) -> tuple[Order, ...]:
        """The orders without repetitions; view 0 comes first."""
        return tuple(dict.fromkeys(self.orders))


@dataclass(frozen=True)
class ItemAnswer:
    """The answers to the K views of an item, or why there is none.

    Attributes:
        views: one per view; empty if the item is not answered.
        missing: why it is not answered; None if it is.
    """

    views: tuple[ViewAnswer, ...]
    missing: NoAnswer | None = None


def view_orders(wire: Wire, field: Field, *, item: str, k: int, seed: int) -> tuple[Order, ...]:
    """Return the orders of the K views of an item on a wire.

    Args:
        wire: says whether other orders of this question are views.
        field: the question.
        item: id of the item, which keys its orders.
        k: number of views.
        seed: seed of the letter orders.

    Returns:
        K orders, those of a local run if the wire permutes the question; else K times the canonical
        one.
    """
    if wire.permutes(field):
        return tuple(code_orders(seed, item, len(field.answers), k))
    return (tuple(range(len(field.answers))),) * k


class RequestQueue:
    """Sender of items to a server, several requests at a time.

    Args:
        client: sends the requests.
        wire: makes and reads them.
        model: name of the model.
        answered_by: name of the model that has answered so far, in an earlier process say.
    """

    def __init__(
        self,
        client: Client,
        wire: Wire,
        model: str,
        *,
        answered_by: str | None = None,
    ) -> None:
        self._client = client
        self._wire = wire
        self._model = model
        self._lock = threading.Lock()
        self.answered_by = answered_by

    def ask(
        self,
        items: Sequence[AskedItem],
        on_views: Callable[[int], None] = lambda _views: None,
        on_read: OnRead = lambda _number, _order, _answer: None,
        *,
        model: str | None = None,
        alone: bool = False,
    ) -> list[ItemAnswer]:
        """Ask for items.

        Args:
            items: the items and the orders of their views.
            on_views: called with the number of views that are done.
            on_read: called with the number of an item, an order, and the answer in that order.
            model: another model to ask; None asks that of the run.
            alone: whether to send one request at a time; a server that batches may answer
                differently in the last digits.

        Returns:
            One answer per item, in order.

        Raises:
            ServerError: no request can be served, too many in a row fail, or two models answer.
        """
        answers_by_item: list[dict[Order, ViewAnswer | NoAnswer]] = [{} for _ in items]
        waiting: dict[Future[ReadReply], tuple[int, Call]] = {}
        done = 0
        try:
            for number, item in enumerate(items):
                for call in self._calls(item, answers_by_item[number], model or self._model):
                    answer = partial(self._answer, call, of_run=model is None)
                    future = self._client.pool.submit(answer)
                    waiting[future] = (number, call)
                    if alone:
                        for ended in self._client.waits.finished([future]):
                            ended.result()  # what ends the run ends it here
            for future in self._client.waits.finished(waiting):
                number, call = waiting[future]
                read = future.result()
                orders = [view.order for view in call.views]
                answers_by_item[number] |= dict(zip(orders, read.answers, strict=True))
                for order, view_answer in zip(orders, read.answers, strict=True):
                    on_read(number, order, view_answer)
                done += sum(items[number].orders.count(order) for order in orders)
                on_views(done)
        except BaseException:
            self._client.stop()
            raise
        return [
            _item_answer(item, views) for item, views in zip(items, answers_by_item, strict=True)
        ]

    def _calls(
        self, item: AskedItem, by_order: dict[Order, ViewAnswer | NoAnswer], model: str
    ) -> list[Call]:
        """Return the requests for an item; note why if it cannot be asked."""
        views = [
            AskedView(item.record_id, item.state, item.field, order)
            for order in item.distinct_orders
        ]
        try:
            return self._wire.calls(model, views)
        except InputError as error:
            by_order |= dict.fromkeys(item.distinct_orders, NoAnswer("unsupported", str(error)))
            return []

    def _answer(self, call: Call, *, of_run: bool) -> ReadReply:
        """Send one request and read its answers; what happens to it alone is a status."""
        body = json.dumps(call.body, ensure_ascii=False, allow_nan=False).encode()
        try:
            read = self._client.post(call.path, body, partial(self._wire.read, call))
        except RefusedRequestError as error:
            if not error.capacity:
                self._client.failed(f"record {call.views[0].record_id}: {error}")
            return _without_answers(call, NoAnswer("unsupported", str(error)))
        except (NoUsableReplyError, UnusableReplyError) as error:
            reason = self._client.hidden(str(error))
            self._client.failed(f"record {call.views[0].record_id}: {reason}")
            return _without_answers(call, NoAnswer("failed", reason))
        if of_run and read.model is not None:
            self._check_model(shortened(self._client.hidden(read.model)))
        self._client.succeeded()
        return read

    def _check_model(self, name: str) -> None:
        """Refuse answers of two models.

        Raises:
            ServerError: another name than that of earlier answers.
        """
        with self._lock:
            first = self.answered_by = self.answered_by or name
        if name != first:
            raise ServerError(
                f"two models answer to {self._model}: {first} and {name}; a run is of one model: "
                "name a version"
            )


def count_requests(wire: Wire, items: Iterable[AskedItem]) -> int:
    """Return the number of requests for items, without retries."""
    return sum(math.ceil(len(item.distinct_orders) / wire.views_per_request) for item in items)


def _without_answers(call: Call, reason: NoAnswer) -> ReadReply:
    return ReadReply(None, (reason,) * len(call.views))


def _item_answer(item: AskedItem, by_order: Mapping[Order, ViewAnswer | NoAnswer]) -> ItemAnswer:
    views = [by_order[order] for order in item.orders]
    for view in views:
        if isinstance(view, NoAnswer):
            return ItemAnswer((), view)
    return ItemAnswer(tuple(view for view in views if isinstance(view, ViewAnswer)))
