"""Items asked of a server: their views, each order once, and one status per item.

An order that is a view is asked once. Further views of the same order repeat its answer, as two
answers have two orders, and as a boolean on a wire that does not permute it has one.

An item is answered if all of its views are. Otherwise it has the status of the first view without
an answer, and no numbers: nothing is imputed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from pact_eval.data.records import Field
from pact_eval.errors import InputError, ServerError
from pact_eval.prompts.contract import code_orders
from pact_eval.scoring.servers.client import Client, NoUsableReplyError, RefusedRequestError
from pact_eval.scoring.servers.dialects import UnusableReplyError, Wire
from pact_eval.scoring.servers.wire import (
    AskedItem,
    Call,
    NoAnswer,
    Order,
    ReadReply,
    ViewAnswer,
    shortened,
)

OnRead = Callable[[int, Order, ViewAnswer | NoAnswer], None]


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


def count_requests(wire: Wire, items: Iterable[AskedItem]) -> int:
    """Return the number of requests for items, without retries."""
    return sum(math.ceil(len(item.distinct_orders) / wire.views_per_request) for item in items)


class RequestQueue:
    """Sender of items to a server, several requests at a time.

    Args:
        client: sends the requests.
        wire: makes and reads them.
        model: name of the model.
        answered_by: name of the model that has answered so far, in an earlier process say.
    """

    def __init__(
        self, client: Client, wire: Wire, model: str, *, answered_by: str | None = None
    ) -> None:
        self.client = client
        self.wire = wire
        self.model = model
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
        by_order: list[dict[Order, ViewAnswer | NoAnswer]] = [{} for _ in items]
        waiting: dict[Future[ReadReply], tuple[int, Call]] = {}
        done = 0
        try:
            for number, item in enumerate(items):
                try:
                    calls = self.wire.calls(model or self.model, item)
                except InputError as error:
                    missing = NoAnswer("unsupported", str(error))
                    by_order[number] |= dict.fromkeys(item.distinct_orders, missing)
                    continue
                for call in calls:
                    answer = partial(self._answer, call, of_run=model is None)
                    future = self.client.submit(answer)
                    waiting[future] = number, call
                    if alone:
                        for ended in self.client.finished([future]):
                            ended.result()  # what ends the run ends it here
            for future in self.client.finished(waiting):
                number, call = waiting[future]
                for order, read in zip(call.orders, future.result().answers, strict=True):
                    by_order[number][order] = read
                    on_read(number, order, read)
                done += sum(items[number].orders.count(order) for order in call.orders)
                on_views(done)
        except BaseException:
            self.client.stop()
            raise
        answers = []
        for item, answered in zip(items, by_order, strict=True):
            views = [answered[order] for order in item.orders]
            missing_view = next((view for view in views if isinstance(view, NoAnswer)), None)
            complete = tuple(view for view in views if isinstance(view, ViewAnswer))
            answers.append(ItemAnswer(() if missing_view else complete, missing_view))
        return answers

    async def _answer(self, call: Call, *, of_run: bool) -> ReadReply:
        """Send one request and read its answers; what happens to it alone is a status.

        Raises:
            ServerError: another model answers than before, and what `Client` raises.
        """
        client, record = self.client, call.item.record_id
        body = json.dumps(call.body, ensure_ascii=False, allow_nan=False).encode()
        try:
            read = await client.post(call.path, body, partial(self.wire.read, call))
        except RefusedRequestError as error:
            if not error.capacity:
                client.failed(f"record {record}: {error}")
            return ReadReply(None, (NoAnswer("unsupported", str(error)),) * len(call.orders))
        except (NoUsableReplyError, UnusableReplyError) as error:
            reason = client.hidden(str(error))
            client.failed(f"record {record}: {reason}")
            return ReadReply(None, (NoAnswer("failed", reason),) * len(call.orders))
        if of_run and read.model is not None:
            name = shortened(client.hidden(read.model))
            self.answered_by = self.answered_by or name
            if name != self.answered_by:
                raise ServerError(
                    f"two models answer to {self.model}: {self.answered_by} and {name}; a run is "
                    "of one model: name a version"
                )
        client.succeeded()
        return read
