"""Answer one request by a server, and measure the effect of the order of the answers.

Each field is asked on its own, in the orders of its K views, and in the first order again and
again. Differences between orders mean little unless they are larger than those between repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pact_eval._json import Json
from pact_eval.data.records import Field
from pact_eval.errors import ServerError
from pact_eval.metrics import decode_ensemble
from pact_eval.progress import step
from pact_eval.prompts.requests import Decision
from pact_eval.runs.predictions import with_censored_zeros
from pact_eval.scoring.servers.asking import RequestQueue, view_orders
from pact_eval.scoring.servers.client import Client
from pact_eval.scoring.servers.find_wire import find_wire
from pact_eval.scoring.servers.probe import REPEATS, decimals_of
from pact_eval.scoring.servers.wire import (
    AskedItem,
    NoAnswer,
    Order,
    ServerRequest,
    Spread,
    ViewAnswer,
    spread_of,
)


@dataclass(frozen=True)
class OrderedAnswer:
    """The answer to one order.

    Attributes:
        order: the canonical index at each position.
        probabilities: of each answer, canonical order.
    """

    order: Order
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class ServedField:
    """Answers of a server to one field.

    Attributes:
        field: the question.
        decision: the answer over all orders; None if an order or a repeat was not answered.
        orders: the answer to each order; the canonical one first.
        between_orders: how much they differ; None if the field has one order.
        between_repeats: how much answers to the canonical order differ: noise.
        missing: why there is no decision; None if there is one.
    """

    field: Field
    decision: Decision | None = None
    orders: tuple[OrderedAnswer, ...] = ()
    between_orders: Spread | None = None
    between_repeats: Spread | None = None
    missing: NoAnswer | None = None

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """The smallest and the largest probability of each answer over the orders."""
        by_answer = zip(*(answer.probabilities for answer in self.orders), strict=True)
        return tuple((min(probabilities), max(probabilities)) for probabilities in by_answer)


@dataclass(frozen=True)
class ServedDecisions:
    """Answers of a server to one request.

    Attributes:
        wire: format of requests and answers.
        model: name of the model asked for.
        answered_by: name that the answers carry; None if they carry none.
        decimals: to how many decimals probabilities are rounded; None if they are not.
        requests: number of requests sent, retries included.
        fields: one per field, in schema order.
    """

    wire: str
    model: str
    answered_by: str | None
    decimals: int | None
    requests: int
    fields: tuple[ServedField, ...]


def decide_served(
    request: ServerRequest, state: Json, fields: Sequence[Field], *, k: int, order_seed: int = 0
) -> ServedDecisions:
    """Answer every field of one request by a server.

    Args:
        request: the server.
        state: the context: text, or any JSON value.
        fields: the schema; each field is asked on its own.
        k: orders per field, those of the views of a local run; each is asked once. Kinds that the
            server shows in one order are asked in one.
        order_seed: seed of the letter orders.

    Raises:
        ServerError: the server cannot be used, or answers no field.
    """
    wire = find_wire(request).wire
    with step("Asking the server"), Client(request) as client:
        asker = RequestQueue(client, wire, request.model)
        items = []
        for field in fields:
            orders = view_orders(wire, field, item=field.name, k=k, seed=order_seed)
            item = AskedItem(field.name, state, field, tuple(dict.fromkeys(orders)))
            # The first has the orders, the others repeat the canonical one.
            items += [item, *[replace(item, orders=item.orders[:1])] * (REPEATS - 1)]
        answers = asker.ask(items, alone=True)
        digits = decimals_of(wire, answers)
        served: list[ServedField] = []
        for start in range(0, len(items), REPEATS):
            item, repeats = items[start], answers[start : start + REPEATS]
            missing = [answer.missing for answer in repeats if answer.missing is not None]
            if missing:
                served.append(ServedField(item.field, missing=missing[0]))
                continue
            views = repeats[0].views
            p = [view.probabilities for view in views]
            served.append(
                ServedField(
                    field=item.field,
                    decision=_decision(item.field, views, digits),
                    orders=tuple(map(OrderedAnswer, item.orders, p)),
                    between_orders=spread_of(p) if len(p) > 1 else None,
                    between_repeats=spread_of([a.views[0].probabilities for a in repeats]),
                )
            )
        reasons = [field.missing for field in served if field.missing is not None]
        if len(reasons) == len(served):
            raise ServerError(f"no field was answered: {reasons[0].status}: {reasons[0].reason}")
    counts = asker.answered_by, digits, client.requests
    return ServedDecisions(wire.name, request.model, *counts, tuple(served))


def _decision(field: Field, views: Sequence[ViewAnswer], digits: int | None) -> Decision:
    """Return the answer over all orders: their mean log-probability, renormalised."""
    logits = [np.array(view.logits) for view in views]
    if digits is not None:
        logits = [with_censored_zeros(row, digits)[0] for row in logits]
    try:
        log_probs = decode_ensemble(np.stack(logits)[np.newaxis], np.array([len(logits[0])]))[0]
    except ValueError as error:
        raise ServerError(f"field {field.name}: {error}") from None
    masses = [view.answer_mass for view in views if view.answer_mass is not None]
    answers = {int(row.argmax()) for row in logits}
    return Decision(
        field,
        tuple(np.exp(log_probs).tolist()),
        float(np.mean(masses)) if masses else None,
        len(answers) == 1 if len(logits) > 1 else None,
    )
