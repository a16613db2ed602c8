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
from dataclasses import replace
from typing import Final

import numpy as np
import torch

from pact_eval.scoring.model import ScoringModel, identify, resolve_dtype, stored_dtype
from pact_eval.scoring.request import request_of_local
from pact_eval.scoring.scorer import TOLERANCE
from pact_eval.scoring.servers.asking import RequestQueue
from pact_eval.scoring.servers.probe import PROBE_RECORDS, Parity, ServerProbe, probe_items
from pact_eval.scoring.servers.wire import ServerRequest, ViewAnswer

_TIMES_ROUNDING: Final = 3.0
_MASS_SHARE: Final = 0.2


def with_parity(probe: ServerProbe, asker: RequestQueue, request: ServerRequest) -> ServerProbe:
    """Return a probe with the agreement of a local model.

    Args:
        probe: the probe of the server.
        asker: asks the server.
        request: names the local adapter, or a base model alone.

    Raises:
        AdapterError: the model cannot be loaded.
        ServerError: no local model is named, or the server answers no item.
    """
    model = identify(replace(request_of_local(request), dtype="fp32"), may_differ=False)
    items = probe_items(asker.wire, k=2)
    answers = {
        (item.record_id, order): view
        for item, answer in zip(items, asker.ask(items, alone=True), strict=True)
        if answer.views
        for order, view in zip(item.orders, answer.views, strict=True)
    }
    views = [
        view
        for view in model.encoder.encode(PROBE_RECORDS, 2, 0)
        if (view.record_id, view.code_order) in answers
    ]
    served = [answers[view.record_id, view.code_order] for view in views]
    if not asker.wire.prompts:
        served = [replace(answer, answer_mass=None) for answer in served]

    def score_here(model: ScoringModel) -> list[ViewAnswer]:
        scored = model.load().scorer.score(views) if views else []
        return [ViewAnswer(tuple(one.logits.tolist()), one.answer_mass) for one in scored]

    def parity_in(precision: torch.dtype, rounded: Sequence[ViewAnswer]) -> Parity:
        """Compare the server with float32, by what a precision moves here."""
        off, mass_off = _differences(served, exact, rounded=probe.decimals is not None)
        moved, mass_moved = _differences(rounded, exact, rounded=probe.decimals is not None)
        least = TOLERANCE[torch.float32]
        unit = 0.0 if probe.decimals is None else 0.5 * 10.0**-probe.decimals
        return Parity(
            adapter=str(request.local),
            views=len(served),
            largest_difference=off,
            tolerance=max(least, _TIMES_ROUNDING * moved) + unit + probe.noise,
            precision=str(precision).removeprefix("torch."),
            rounding=moved,
            largest_mass_difference=mass_off,
            mass_tolerance=max(_MASS_SHARE * least, _TIMES_ROUNDING * (mass_moved or 0.0))
            + probe.noise,
        )

    exact = score_here(model)
    parity = parity_in(torch.float32, exact)
    precision = stored_dtype(model.base.folder)
    if request.local_dtype != "auto":
        precision = resolve_dtype(request.local_dtype, model.device)
    if precision != torch.float32 and not parity.holds:
        parity = parity_in(precision, score_here(replace(model, dtype=precision)))
    return replace(probe, parity=parity)


def _differences(
    left: Sequence[ViewAnswer], right: Sequence[ViewAnswer], *, rounded: bool
) -> tuple[float, float | None]:
    """Return the largest difference of a log-probability, and of the answer mass if known.

    If probabilities are rounded, the first is that of a probability.
    """
    differences, masses = [], []
    for one, other in zip(left, right, strict=True):
        p, q = np.array(one.probabilities), np.array(other.probabilities)
        with np.errstate(divide="ignore"):
            moved = np.abs(p - q) if rounded else np.abs(np.log(p) - np.log(q))
        differences.append(float(moved.max()))
        if one.answer_mass is not None and other.answer_mass is not None:
            masses.append(abs(one.answer_mass - other.answer_mass))
    return max(differences, default=math.inf), max(masses, default=None)
