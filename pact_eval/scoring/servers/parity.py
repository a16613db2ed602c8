"""Is what is served what is here? The items of the probe, scored by a local adapter as well.

This is the only part of asking a server that needs torch. On a wire that sends token ids, both see
the same prompt. A server that builds prompts itself agrees only if it builds ours.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pact_eval.errors import ServerError
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.scorer import TOLERANCE
from pact_eval.scoring.servers.asking import Asker, ItemAnswer
from pact_eval.scoring.servers.probe import Parity, ServerProbe, probe_items
from pact_eval.scoring.servers.probe_items import PROBE_RECORDS
from pact_eval.scoring.servers.request import ServerRequest
from pact_eval.scoring.servers.wire import ViewAnswer, Wire, probabilities_of

_PROBABILITY_TOLERANCE = 1e-3


def with_parity(
    probe: ServerProbe, asker: Asker, wire: Wire, request: ServerRequest
) -> ServerProbe:
    """Return a probe with the agreement of a local adapter.

    Args:
        probe: the probe of the server.
        asker: asks the server.
        wire: the format of requests and answers.
        request: names the local adapter.

    Raises:
        AdapterError: the adapter cannot be loaded.
        ServerError: no adapter is named, or the server answers no item.
    """
    if request.local is None:
        raise ServerError("expected a local adapter to compare with")
    adapter = ModelRequest(request.local, request.local_base, dtype=request.local_dtype)
    loaded = identify(adapter).load()
    asked = {item.record_id: item for item in probe_items(wire, k=2)}
    records = [record for record in PROBE_RECORDS if record.id in probe.answers]
    views = [
        view
        for view in loaded.source.encoder.encode(records, 2, 0)
        if view.code_order in asked[view.record_id].distinct_orders
    ]
    scored = loaded.scorer.score(views)
    served = dict(zip(asked, asker.ask([*asked.values()], alone=True), strict=True))
    differences, masses = [], []
    for view, local in zip(views, scored, strict=True):
        answer = _view(served[view.record_id], asked[view.record_id].orders.index(view.code_order))
        if answer is None:
            continue
        here = ViewAnswer(tuple(local.logits.tolist()))
        differences.append(_difference(answer, here, rounded=probe.decimals is not None))
        if answer.answer_mass is not None and wire.prompts:
            masses.append(abs(answer.answer_mass - local.answer_mass))
    tolerance = TOLERANCE[loaded.scorer.dtype]
    if probe.decimals is not None:
        tolerance = 0.5 * 10.0**-probe.decimals + _PROBABILITY_TOLERANCE
    parity = Parity(
        str(request.local),
        len(differences),
        max(differences, default=math.inf),
        tolerance + probe.noise,
        max(masses, default=None),
    )
    return replace(probe, parity=parity)


def _view(answer: ItemAnswer, view: int) -> ViewAnswer | None:
    return answer.views[view] if answer.views else None


def _difference(served: ViewAnswer, local: ViewAnswer, *, rounded: bool) -> float:
    """Return the largest difference of a log-probability, or of a probability if rounded."""
    pair = [np.array(probabilities_of(view)) for view in (served, local)]
    if rounded:
        return float(np.abs(pair[0] - pair[1]).max())
    with np.errstate(divide="ignore"):
        return float(np.abs(np.log(pair[0]) - np.log(pair[1])).max())
