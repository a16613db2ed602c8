"""Parity of a server with a local adapter or base model, on the items of the probe.

This is the only part of asking a server that needs torch. On a wire that sends token ids, both see
the same prompt. A server that builds prompts itself agrees only if it builds ours.

The local model is scored in float32. Servers load weights in the precision in which they are stored
unless told otherwise: if the answers are not those of float32, the same views are scored in that
precision too. What it moves here is the measure of what it may move there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from pact_eval.prompts.encoding import EncodedView
from pact_eval.scoring.model import ScoringModel, identify, resolve_dtype, stored_dtype
from pact_eval.scoring.request import request_of_local
from pact_eval.scoring.scorer import TOLERANCE
from pact_eval.scoring.servers.asking import ItemAnswer, RequestQueue
from pact_eval.scoring.servers.probe import PROBE_RECORDS, Parity, ServerProbe, probe_items
from pact_eval.scoring.servers.request import ServerRequest
from pact_eval.scoring.servers.wire import ViewAnswer, Wire, probabilities_of

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
