"""Requests to a server, and the findings of a probe, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pact_eval._json import Json, dumps
from pact_eval.plain_text import one_line
from pact_reports.table import Line, Tone

if TYPE_CHECKING:  # none of them is needed to read runs
    from pact_eval.scoring.servers.probe import ProbedOrderEffect, ServerProbe
    from pact_eval.scoring.servers.source import RequestPlan
    from pact_eval.scoring.servers.token_probe import TokenizerProbe

_MOST_CHARACTERS: Final = 100


def plan_sentence(plan: RequestPlan) -> str:
    """Return the plan of the requests of a run, in one line.

    Args:
        plan: the requests for all views.

    Examples:
        >>> from pact_eval.scoring.servers.source import RequestPlan
        >>> plan_sentence(RequestPlan(324, 900, {"choice": 4}, requests_per_minute=1200.0))
        '900 requests for 324 items (wire systemone; orders: choice 4); 45 s at 1,200 per minute'
    """
    orders = ", ".join(f"{kind} {most}" for kind, most in plan.orders.items())
    about = f"wire {plan.wire}; orders: {orders or 'none'}"
    about += f"; {plan.written:,} more are written" if plan.written else ""
    requests = f"{plan.requests:,} requests for {plan.items:,} items ({about})"
    requests += f", {plan.probes} to probe" if plan.probes else ""
    if plan.seconds is None:
        return requests
    return f"{requests}; {_duration(plan.seconds)} at {plan.requests_per_minute:,g} per minute"


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def probe_lines(probe: ServerProbe) -> tuple[Line, ...]:
    """Return the findings of a probe in about ten lines; important ones are coloured."""
    findings: dict[str, tuple[str, Tone | None]] = {
        "model": (_identity(probe), None),
        "server": (_server(probe), None),
        "wire": (f"{probe.wire}: {probe.wire_reason}", None),
        "answers": (_answers(probe), "caution" if probe.unanswered else None),
        "values": (_values(probe), "caution" if probe.values == "logits" else None),
        "noise": (_noise(probe), None),
        **_of_token_ids(probe),
        "order": _order(probe),
        "adapter": _adapter(probe),
        "parity": _parity(probe),
        "probe": (f"{len(probe.answers)} items, set {probe.probe_sha256[:12]}", None),
    }
    return tuple(
        Line(f"{subject:<10}{one_line(text)}", tone) for subject, (text, tone) in findings.items()
    )


def _identity(probe: ServerProbe) -> str:
    by = "no name in the answers" if probe.answered_by is None else f"{probe.answered_by} answers"
    return f"{probe.model} was asked, {by}; a name is no proof of the weights"


def _server(probe: ServerProbe) -> str:
    parts = [f"version {_short(probe.version)}"] if probe.version is not None else []
    parts += [f"{name}: {text}" for name, text in probe.headers.items()][:3]
    parts += [] if probe.models is None else [f"/v1/models {_short(probe.models)}"]
    return "; ".join(parts) or "says nothing about itself"


def _answers(probe: ServerProbe) -> str:
    items = len(probe.answers) + len(probe.unanswered)
    without = "".join(f"; {name}: {why}" for name, why in probe.unanswered.items())
    return f"{len(probe.answers)} of {items} items{without}"


def _values(probe: ServerProbe) -> str:
    if probe.values == "logits":
        return "logits, not log-probabilities (raw_logits mode): the answer mass is unknown"
    rounded = "not rounded" if probe.decimals is None else f"rounded to {probe.decimals} decimals"
    return f"{probe.values}, {rounded}"


def _of_token_ids(probe: ServerProbe) -> dict[str, tuple[str, Tone | None]]:
    """Return the lines on wires that send token ids."""
    findings: dict[str, tuple[str, Tone | None]] = {}
    if probe.batches is not None:
        findings["batches"] = (
            f"{probe.batches.prompts} prompts alone and in batches: largest TV "
            f"{probe.batches.largest_tv:.2g}",
            None,
        )
    if probe.tokenizer is not None:
        findings["tokenizer"] = _tokenizer(probe.tokenizer)
    return findings


def _tokenizer(tokenizer: TokenizerProbe) -> tuple[str, Tone | None]:
    if not tokenizer.same:
        return "the server makes other ids of the same prompt", "bad"
    if not tokenizer.prompts:
        return "not compared: the server has no /tokenize", "caution"
    return f"the same ids of {tokenizer.prompts} prompts here and there", "good"


def _noise(probe: ServerProbe) -> str:
    if probe.floor is None:
        return "not measured"
    return (
        f"the same request {probe.floor.repeats} times: largest TV {probe.floor.largest_tv:.2g}, "
        f"{_counted(probe.floor.flips, 'flip')}"
    )


def _order(probe: ServerProbe) -> tuple[str, Tone | None]:
    if probe.order is None:
        return "no item could be asked in two orders", "caution"
    measured = (
        f"{probe.order.choices} items in two orders: largest TV {probe.order.largest_tv:.2g}, "
        f"{_counted(probe.order.flips, 'flip')}"
    )
    meaning: dict[ProbedOrderEffect, tuple[str, Tone | None]] = {
        "seen": ("the order is seen", None),
        "within noise": ("not more than noise", "caution"),
        "not seen": ("the server does not see the order: views are repeated, not asked", "caution"),
        "unknown": ("rounding may hide an effect", "caution"),
    }
    text, tone = meaning[probe.order.effect]
    return f"{measured}; {text}", tone


def _adapter(probe: ServerProbe) -> tuple[str, Tone | None]:
    if probe.base_missing is not None:
        return f"not compared: {probe.base_missing}", "caution"
    if probe.base is None:
        return "not compared with its base (--base-name NAME)", None
    measured = f"{probe.base.name} differs by TV {probe.base.largest_tv:.2g}"
    if probe.base.applied:
        return f"{measured}: the adapter is applied", "good"
    return f"{measured}: the adapter is not applied, or changes nothing", "bad"


def _parity(probe: ServerProbe) -> tuple[str, Tone | None]:
    if probe.parity is None:
        return "not compared with a local adapter (--local ADAPTER)", None
    what = "log-probability" if probe.decimals is None else "probability"
    measured = (
        f"{probe.parity.adapter} on {probe.parity.views} views: largest difference of a {what} "
        f"{probe.parity.largest_difference:.2g}, at most {probe.parity.tolerance:.2g} expected in "
        f"{probe.parity.precision}"
    )
    if probe.parity.rounding:
        measured += f", which moves them by {probe.parity.rounding:.2g} here"
    if probe.parity.largest_mass_difference is not None:
        measured += f"; of the answer mass {probe.parity.largest_mass_difference:.2g}"
    return measured, "good" if probe.parity.holds else "bad"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _short(value: Json) -> str:
    text = one_line(dumps(value))
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."
