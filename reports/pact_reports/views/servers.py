"""Decisions of a server, its probe, and what its requests cost."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from pact_eval._json import Json
from pact_eval.plain_text import one_line
from pact_eval.prompts.requests import Decision
from pact_reports.table import (
    Cell,
    Column,
    Line,
    Part,
    Table,
    left_columns,
    right_columns,
    table_row,
)
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import attributes

if TYPE_CHECKING:  # they lead to torch and to a client
    from pact_eval.scoring.servers.decide import ServedDecisions, ServedField
    from pact_eval.scoring.servers.probe import ServerProbe
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
    return tuple(
        Line(f"{subject:<10}{one_line(text)}", meaning) for subject, text, meaning in probe.findings
    )


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
