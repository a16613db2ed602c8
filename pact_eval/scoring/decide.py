"""Answer one request of several fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pact_eval._json import Json
from pact_eval.data.records import Field, FieldKind
from pact_eval.metrics import decode_ensemble, log_softmax
from pact_eval.prompts.requests import Decision
from pact_eval.scoring.model import LoadedModel


def decide(
    loaded: LoadedModel,
    state: Json,
    fields: Sequence[Field],
    *,
    k: int,
    order_seed: int = 0,
    temperatures: Mapping[FieldKind, float] | None = None,
) -> list[Decision]:
    """Answer every field of one request.

    Args:
        loaded: the model.
        state: the context: text, or any JSON value.
        fields: the schema; every prompt shows all of it.
        k: views per field; their canonical log-probabilities are averaged.
        order_seed: seed of the letter orders.
        temperatures: temperature of each field kind, 1 if it is left out.

    Returns:
        One decision per field, in schema order.

    Raises:
        RequestError: the fields do not fit the contract.
        PromptError: a prompt is over the limit.
        AdapterError: the adapter changes nothing.
    """
    views = loaded.source.encoder.encode_request(state, fields, k=k, seed=order_seed)
    # With all views: a single view shares no prefix, so it would not check prefix sharing.
    loaded.scorer.prepare(views)
    if loaded.source.adapter is not None:
        loaded.scorer.check_adapter_effect(views[:1])
        if loaded.source.merge:
            loaded.scorer.merge_adapter(views)
    scored = loaded.scorer.score(views)
    decisions = []
    for number, field in enumerate(fields):
        mine = scored[number * k : (number + 1) * k]
        logits = np.stack([view.logits for view in mine]).astype(np.float64)
        n_choices = np.array([len(field.answers)])
        log_probs = decode_ensemble(logits[np.newaxis], n_choices)[0]
        if temperatures:
            tempered = log_probs[np.newaxis] / temperatures.get(field.kind, 1.0)
            log_probs = log_softmax(tempered, n_choices)[0]
        orders = {view.code_order for view in views[number * k : (number + 1) * k]}
        agree = len({int(row.argmax()) for row in logits}) == 1 if len(orders) > 1 else None
        mass = float(np.mean([view.answer_mass for view in mine]))
        decisions.append(Decision(field, tuple(np.exp(log_probs).tolist()), mass, agree))
    return decisions
