"""What is asked of a server, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pact_eval.scoring.servers.source import RequestPlan


def plan_sentence(plan: RequestPlan) -> str:
    """Return what a run will ask of a server, in one line.

    Examples:
        >>> from pact_eval.scoring.servers.source import RequestPlan
        >>> plan_sentence(RequestPlan(324, 900, {"choice": 4, "boolean": 1}, 45.0))
        '900 requests for 324 items (orders: choice 4, boolean 1), 45 s at the rate limit'
    """
    orders = ", ".join(f"{kind} {most}" for kind, most in plan.orders.items())
    limit = "" if plan.seconds is None else f", {_duration(plan.seconds)} at the rate limit"
    return f"{plan.requests:,} requests for {plan.items:,} items (orders: {orders}){limit}"


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
