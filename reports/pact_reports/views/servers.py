"""Decisions of a server, its probe, and what its requests cost."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from pact_eval._json import Json, dumps
from pact_eval.errors import counted
from pact_eval.plain_text import one_line
from pact_eval.prompts.requests import Decision
from pact_reports.table import (
    Cell,
    Column,
    Line,
    Part,
    Table,
    Tone,
    left_columns,
    right_columns,
    table_row,
)
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import attributes

if TYPE_CHECKING:  # they lead to torch and to a client
    from pact_eval.scoring.servers.decide import ServedDecisions, ServedField
    from pact_eval.scoring.servers.probe import ProbedOrderEffect, ServerProbe, TokenizerProbe
    from pact_eval.scoring.servers.source import RequestPlan
    from pact_eval.scoring.servers.wire import Spread
    from pact_eval.scoring.workers.pool import PoolProgress


def present_decide(decisions: Sequence[Decision]) -> Presenter:
    """Present one decision per field."""
    answered = [(decision, ()) for decision in decisions]
    return Presenter(
        tables=lambda: [decision_table(answered, "changes with the letters")],
        to_json=lambda: {"answers": {**answers_json(decisions)}},
    )


def answers_json(decisions: Iterable[Decision]) -> dict[str, dict[str, Json]]:
    """Turn decisions into JSON values, by the name of their field."""
    return {
        decision.field.name: {
            "type": decision.field.kind,
            "answer": decision.answer,
            "probabilities": {
                answer.key: probability
                for answer, probability in zip(
                    decision.field.answers, decision.probabilities, strict=True
                )
            },
            **attributes(decision, "expected_level", "answer_mass", "views_agree"),
        }
        for decision in decisions
    }


def present_served_decisions(served: ServedDecisions) -> Presenter:
    """Present the answers of a server; TV is a fraction in JSON."""
    return Presenter(tables=partial(served_parts, served), to_json=partial(_json, served))


def _json(served: ServedDecisions) -> dict[str, Json]:
    decisions = [field.decision for field in served.fields if field.decision is not None]
    answers = answers_json(decisions)
    for field in served.fields:
        answers[field.field.name] = answers.get(field.field.name, {}) | _spreads(field)
    return {
        "answers": {**answers},
        "server": {
            "wire": served.wire,
            "asked": served.model,
            **attributes(served, "answered_by", "decimals", "requests"),
        },
    }


def _spreads(field: ServedField) -> dict[str, Json]:
    """Return the probabilities in each order, and what orders and repeats move."""
    return {
        "orders": [
            {
                "order": [field.field.answers[index].key for index in view.order],
                "probabilities": {
                    answer.key: p
                    for answer, p in zip(field.field.answers, view.probabilities, strict=True)
                },
            }
            for view in field.orders
        ],
        **attributes(field, "between_orders", "between_repeats", "missing"),
    }


def present_server_probe(probe: ServerProbe) -> Presenter:
    """Present what a probe found."""
    return Presenter(
        tables=partial(probe_lines, probe),
        to_json=lambda: {"probe": probe.to_json(), "faults": [*probe.faults]},
    )


def decision_table(
    decisions: Sequence[tuple[Decision, Sequence[tuple[float, float]]]], changes: str
) -> Table:
    """Lay out one block of rows per field: its answer, then every answer, most probable first.

    Args:
        decisions: each with the range of every probability over the orders; empty for one order.
        changes: what is said of an answer on which the orders do not agree.
    """
    rows, notes = [], set[str]()
    for decision, ranges in decisions:
        texts = [f"{p:.1%}" for p in decision.probabilities]
        if ranges:
            notes.add("In brackets, the lowest and the highest probability over the orders.")
            texts = [
                f"{text} ({100 * low:.1f} to {100 * high:.1f})"
                for text, (low, high) in zip(texts, ranges, strict=True)
            ]
        answer = decision.answer
        if decision.expected_level is not None:
            answer = f"{answer} (expected level {decision.expected_level:.2f})"
        below = changes if decision.views_agree is False else ""
        first = (decision.field.name, decision.field.kind, Cell(answer, below=below))
        mass = "–" if decision.answer_mass is None else f"{decision.answer_mass:.1%}"
        ranked = sorted(
            zip(decision.field.answers, decision.probabilities, texts, strict=True),
            key=lambda entry: -entry[1],
        )
        for number, (option, _, text) in enumerate(ranked):
            *left, right = ("",) * 4 if number else (*first, mass)
            rows.append(table_row(*left, text, option.key, right, rule=number == 0))
    table = Table(
        name="decisions",
        columns=(
            *left_columns("field", "kind", "answer"),
            Column("probability"),
            Column("of", "left"),
            Column("answer mass"),
        ),
        rows=tuple(rows),
        notes=tuple(notes),
    )
    known = any(decision.answer_mass is not None for decision, _ in decisions)
    return table if known else table.only(range(len(table.columns) - 1))


def served_parts(decisions: ServedDecisions) -> tuple[Part, ...]:
    """Lay out the reply of a server to one request: decisions and their spread."""
    missing = [
        Line(f"{served.field.name}: {served.missing.status}: {served.missing.reason}", "caution")
        for served in decisions.fields
        if served.missing is not None
    ]
    name, decimals = decisions.answered_by, decisions.decimals
    by = "the answers carry no name" if name is None else f"{name} answers"
    rounded = "" if decimals is None else f"; probabilities are rounded to {decimals} decimals"
    who = (
        f"{decisions.model} was asked, {by}: wire {decisions.wire}, "
        f"{decisions.requests:,} requests{rounded}"
    )
    answered = [
        (field.decision, field.ranges if len(field.orders) > 1 else ())
        for field in decisions.fields
        if field.decision is not None
    ]
    return (
        decision_table(answered, "changes with the order"),
        _spread_table(decisions.fields),
        *missing,
        Line(one_line(who)),
    )


def _spread_table(fields: Sequence[ServedField]) -> Table:
    """Lay out the spread over orders and over repeats: two rows per field."""
    rows = []
    for served in fields:
        if served.between_repeats is not None:
            orders = ("one order", "–", "–")
            if served.between_orders is not None:
                orders = _spread(served.between_orders, "orders")
            rows += [
                table_row(*(served.field.name, *orders), rule=True),
                table_row(*("", *_spread(served.between_repeats, "repeats of one"))),
            ]
    return Table(
        name="orders",
        title="What the order of the answers moves, beside noise",
        columns=(
            *(Column(head, "left") for head in ("field", "asked in")),
            *right_columns("largest TV (%)", "flips"),
        ),
        rows=tuple(rows),
        notes=(
            "TV: total variation distance of two of the answers. Flips: those whose most probable "
            "answer is not that of the first. A server that remembers its answers shows no noise.",
        ),
    )


def _spread(spread: Spread, of: str) -> tuple[str, str, str]:
    return f"{spread.answers} {of}", f"{100 * spread.largest_tv:.1f}", f"{spread.flips}"


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
        **_token_id_lines(probe),
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


def _token_id_lines(probe: ServerProbe) -> dict[str, tuple[str, Tone | None]]:
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
        f"{counted(probe.floor.flips, 'flip')}"
    )


def _order(probe: ServerProbe) -> tuple[str, Tone | None]:
    if probe.order is None:
        return "no item could be asked in two orders", "caution"
    measured = (
        f"{probe.order.choices} items in two orders: largest TV {probe.order.largest_tv:.2g}, "
        f"{counted(probe.order.flips, 'flip')}"
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
        return "not compared with a model here (--local)", None
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


def _short(value: Json) -> str:
    text = one_line(dumps(value))
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."


_MOST_NAMED: Final = 8


def progress_sentence(progress: PoolProgress, now: dt.datetime) -> str:
    """Return the remaining windows, the rate of each worker, and the expected end.

    Args:
        progress: how far the workers are.
        now: the time.

    Examples:
        >>> from pact_eval.scoring.workers.pool import PoolProgress
        >>> progress = PoolProgress(30, 1900, {"worker 1": 0.55, "worker 2": 0.4})
        >>> progress_sentence(progress, dt.datetime(2026, 3, 1, 9, 30))
        '30 windows left; items/s: worker 1 0.55, worker 2 0.4; done in 34 min, at 10:03'
    """
    rates = progress.items_per_second
    rate_text = f"{progress.windows_left:,} windows left; items/s: {_rates(rates)}"
    left = progress.seconds_left
    if left is None or not progress.windows_left:
        return rate_text
    end = now + dt.timedelta(seconds=left)
    day = "" if end.date() == now.date() else f"{end:%Y-%m-%d} "
    return f"{rate_text}; done in {math.ceil(left / 60):,} min, at {day}{end:%H:%M}"


def thread_remarks(workers: int, threads: int, cores: int) -> list[str]:
    """Return settings to change if the workers of this machine compete for its cores.

    Args:
        workers: number of workers.
        threads: threads of each.
        cores: cores of the machine.

    Examples:
        >>> thread_remarks(2, 4, 8)
        []
        >>> thread_remarks(4, 8, 8)
        ['4 workers of 8 threads share 8 cores; OMP_NUM_THREADS=2 is faster, with other last bits']
    """
    if workers * threads <= cores:
        return []
    share = max(1, cores // workers)
    better = f"; OMP_NUM_THREADS={share} is faster, with other last bits" if share < threads else ""
    return [f"{workers} workers of {threads} threads share {cores} cores{better}"]


def _rates(rates: Mapping[str, float]) -> str:
    if len(rates) <= _MOST_NAMED:
        return ", ".join(f"{name} {rate:.2g}" for name, rate in rates.items())
    slowest = min(rates, key=lambda name: rates[name])
    high, total = max(rates.values()), sum(rates.values())
    low = rates[slowest]
    return f"{total:.3g} by {len(rates)} workers, {low:.2g} ({slowest}) to {high:.2g}"
