"""Decisions of a server, its probe, and what its requests cost."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from pact_eval._json import Json
from pact_eval.data.records import Field
from pact_eval.numbers import UNDEFINED
from pact_eval.plain_text import one_line
from pact_eval.prompts.requests import Decision
from pact_reports.table import Cell, Column, Line, Part, Table, make_table, table_row
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import attributes

if TYPE_CHECKING:  # they lead to torch and to a client
    from pact_eval.scoring.servers.decide import ServedDecisions, ServedField
    from pact_eval.scoring.servers.probe import ServerProbe
    from pact_eval.scoring.servers.source import RequestPlan
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
            "probabilities": _by_answer(decision.field, decision.probabilities),
            **attributes(decision, "expected_level", "answer_mass", "views_agree"),
        }
        for decision in decisions
    }


def _by_answer(field: Field, probabilities: Sequence[float]) -> dict[str, Json]:
    answers = (answer.key for answer in field.answers)
    return dict(zip(answers, probabilities, strict=True))


def present_served_decisions(served: ServedDecisions) -> Presenter:
    """Present the answers of a server; TV is a fraction in JSON.

    A field has its probabilities in each order, and what orders and repeats move.
    """

    def as_json() -> dict[str, Json]:
        answers = answers_json(one.decision for one in served.fields if one.decision is not None)
        for one in served.fields:
            orders: list[Json] = [
                {
                    "order": [one.field.answers[index].key for index in view.order],
                    "probabilities": _by_answer(one.field, view.probabilities),
                }
                for view in one.orders
            ]
            spread = attributes(one, "between_orders", "between_repeats", "missing")
            known = answers.get(one.field.name, {})
            answers[one.field.name] = known | {"orders": orders} | spread
        named = attributes(served, "wire", "answered_by", "decimals", "requests", asked="model")
        return {"answers": {**answers}, "server": named}

    return Presenter(tables=partial(served_parts, served), to_json=as_json)


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
    rows = []
    for decision, ranges in decisions:
        texts = [f"{p:.1%}" for p in decision.probabilities]
        if ranges:
            texts = [
                f"{text} ({100 * low:.1f} to {100 * high:.1f})"
                for text, (low, high) in zip(texts, ranges, strict=True)
            ]
        answer = decision.answer
        if decision.expected_level is not None:
            answer = f"{answer} (expected level {decision.expected_level:.2f})"
        below = changes if decision.views_agree is False else ""
        first = (decision.field.name, decision.field.kind, Cell(answer, below=below))
        mass = UNDEFINED if decision.answer_mass is None else f"{decision.answer_mass:.1%}"
        ranked = sorted(
            zip(decision.field.answers, decision.probabilities, texts, strict=True),
            key=lambda entry: -entry[1],
        )
        for number, (option, _, text) in enumerate(ranked):
            *left, right = ("",) * 4 if number else (*first, mass)
            rows.append(table_row(*left, text, option.key, right, rule=number == 0))
    heads = ("field", "kind", "answer", "probability", "of", "answer mass")
    numbers = ("probability", "answer mass")
    in_brackets = "In brackets, the lowest and the highest probability over the orders."
    table = Table(
        name="decisions",
        columns=tuple(Column(head, "right" if head in numbers else "left") for head in heads),
        rows=tuple(rows),
        notes=(in_brackets,) if any(ranges for _, ranges in decisions) else (),
    )
    known = any(decision.answer_mass is not None for decision, _ in decisions)
    return table if known else table.only(range(len(heads) - 1))


def served_parts(decisions: ServedDecisions) -> Iterator[Part]:
    """Lay out the reply of a server to one request: decisions and their spread."""
    answered = [
        (field.decision, field.ranges if len(field.orders) > 1 else ())
        for field in decisions.fields
        if field.decision is not None
    ]
    yield decision_table(answered, "changes with the order")
    yield _spread_table(decisions.fields)
    for served in decisions.fields:
        if served.missing is not None:
            why = f"{served.missing.status}: {served.missing.reason}"
            yield Line(f"{served.field.name}: {why}", "caution")
    name, decimals = decisions.answered_by, decisions.decimals
    by = "the answers carry no name" if name is None else f"{name} answers"
    rounded = "" if decimals is None else f"; probabilities are rounded to {decimals} decimals"
    yield Line(
        one_line(
            f"{decisions.model} was asked, {by}: wire {decisions.wire}, "
            f"{decisions.requests:,} requests{rounded}"
        )
    )


def _spread_table(fields: Sequence[ServedField]) -> Table:
    """Lay out the spread over orders and over repeats: two rows per field."""
    rows = [
        (served, of, spread)
        for served in fields
        if served.between_repeats is not None
        for of, spread in (
            ("orders", served.between_orders),
            ("repeats of one", served.between_repeats),
        )
    ]
    return make_table(
        "orders",
        rows,
        (Column("field", "left"), lambda row: row[0].field.name if row[1] == "orders" else ""),
        (
            Column("asked in", "left"),
            lambda row: f"{row[2].answers} {row[1]}" if row[2] else "one order",
        ),
        ("largest TV (%)", lambda row: f"{100 * row[2].largest_tv:.1f}" if row[2] else UNDEFINED),
        ("flips", lambda row: str(row[2].flips) if row[2] else UNDEFINED),
        rule=lambda row: row[0].field.name,
        title="What the order of the answers moves, beside noise",
        notes=(
            "TV: total variation distance of two of the answers. Flips: those whose most probable "
            "answer is not that of the first. A server that remembers its answers shows no noise.",
        ),
    )


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
    minutes = plan.seconds / 60
    duration = f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
    duration = f"{plan.seconds:.0f} s" if minutes < 2 else duration
    return f"{requests}; {duration} at {plan.requests_per_minute:,g} per minute"


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
