"""Answer one request by a server, and measure the effect of the order of the answers.

Each field is asked on its own, in the orders of its K views, and in the first order again and
again. Differences between orders mean little unless they are larger than those between repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pact_eval._json import Json
from pact_eval.data.records import Field
from pact_eval.errors import ServerError
from pact_eval.metrics import decode_ensemble
from pact_eval.progress import step
from pact_eval.prompts.requests import Decision
from pact_eval.runs.predictions import with_censored_zeros
from pact_eval.scoring.servers.asking import AskedItem, ItemAnswer, Order, RequestQueue, view_orders
from pact_eval.scoring.servers.client import Client
from pact_eval.scoring.servers.find_wire import find_wire
from pact_eval.scoring.servers.probe import REPEATS, decimals_of
from pact_eval.scoring.servers.wire import (
    NoAnswer,
    ServerRequest,
    ViewAnswer,
    probabilities_of,
    total_variation,
)


@dataclass(frozen=True)
class Spread:
    """Differences of several answers to one question.

    Attributes:
        answers: number of answers.
        largest_tv: largest total variation distance of two of them, in [0, 1].
        flips: answers whose most probable answer is not that of the first.
    """

    answers: int
    largest_tv: float
    flips: int


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
            distinct = tuple(dict.fromkeys(orders))
            items.append(AskedItem(field.name, state, field, distinct))
            items += [AskedItem(field.name, state, field, distinct[:1])] * (REPEATS - 1)
        answers = asker.ask(items, alone=True)
        digits = decimals_of(wire, answers)
        served_fields = tuple(
            _field(item, answers[at : at + REPEATS], digits)
            for at, item in enumerate(items)
            if at % REPEATS == 0
        )
        missing = [
            served_field.missing
            for served_field in served_fields
            if served_field.missing is not None
        ]
        if len(missing) == len(served_fields):
            raise ServerError(f"no field was answered: {missing[0].status}: {missing[0].reason}")
        counts = asker.answered_by, digits, client.requests
    return ServedDecisions(wire.name, request.model, *counts, served_fields)


def _field(item: AskedItem, answers: Sequence[ItemAnswer], digits: int | None) -> ServedField:
    """Return what was found of one field: the first answer has its orders, the others repeat."""
    missing = next((answer.missing for answer in answers if answer.missing is not None), None)
    if missing is not None:
        return ServedField(item.field, missing=missing)
    views, repeats = answers[0].views, [answer.views[0] for answer in answers]
    orders = [probabilities_of(view) for view in views]
    between_orders = _spread(orders) if len(orders) > 1 else None
    return ServedField(
        field=item.field,
        decision=_decision(item.field, views, digits),
        orders=tuple(map(OrderedAnswer, item.orders, orders)),
        between_orders=between_orders,
        between_repeats=_spread([probabilities_of(view) for view in repeats]),
    )


def _spread(distributions: Sequence[Sequence[float]]) -> Spread:
    first = int(np.argmax(distributions[0]))
    largest = max(total_variation(p, q) for p, q in combinations(distributions, 2))
    return Spread(
        len(distributions), largest, sum(int(np.argmax(p)) != first for p in distributions)
    )


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
