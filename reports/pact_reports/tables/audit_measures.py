"""What checks measured, in words and small tables."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any

from rich.box import ASCII2, SIMPLE_HEAD
from rich.table import Table

from pact_eval.audit import Balance, Coverage, Lengths, NearDuplicates, Shortcuts
from pact_eval.prompts import CODES
from pact_reports.numbers import UNDEFINED, estimate_text, value_text
from pact_reports.plain_text import cell

__all__ = ["balance_table", "groups_table", "measured_line", "shortcuts_table"]


@singledispatch
def measured_line(_measured: Any) -> str:
    """Say in a few words what a check measured; empty where it measured nothing."""
    return ""


@measured_line.register
def _(measured: Coverage) -> str:
    return (
        f"{measured.ablated:,} of {measured.records:,} contexts ablated, {measured.pairs:,} of "
        f"{measured.families:,} pairs certified"
    )


@measured_line.register
def _(measured: Lengths) -> str:
    return (
        f"{measured.minimum:,} to {measured.maximum:,} tokens (median {measured.median:,.0f}, 99% "
        f"up to {measured.p99:,.0f}), limit {measured.limit:,}"
    )


@measured_line.register
def _(measured: NearDuplicates) -> str:
    nearest = [
        f"{where} {cosine:.2f}"
        for where, cosine in (
            ("across files", measured.largest_across),
            ("within", measured.largest_within),
        )
        if not math.isnan(cosine)
    ]
    how = "" if measured.exact else "likely pairs only; "
    if not nearest:
        return f"{how}no pair near {measured.threshold:g}"
    return f"{how}largest cosine {', '.join(nearest)}, threshold {measured.threshold:g}"


@measured_line.register
def _(measured: Shortcuts) -> str:
    sampled = ""
    if measured.records < measured.records_in_all:
        sampled = f"{measured.records:,} of {measured.records_in_all:,} records; "
    gains = ", ".join(
        f"{probe.view} {UNDEFINED if probe.reason else f'{100 * probe.gain.value:.0f}%'}"
        for probe in measured.probes
    )
    return f"{sampled}gain {gains}"


def shortcuts_table(shortcuts: Shortcuts, *, plain: bool) -> Table:
    """Lay out what a bag of words finds in each view.

    Args:
        shortcuts: what was measured.
        plain: ASCII rules.

    Returns:
        One row a view: accuracy, the guess it is held against, the best that the text could tell,
        and the gain with its interval, in percent.
    """
    table = Table(box=ASCII2 if plain else SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("a bag of words reads")
    for title in ("accuracy", "a guess", "at best", "gain: 0 guess, 100 best"):
        table.add_column(title, justify="right")
    for probe in shortcuts.probes:
        table.add_row(
            probe.view,
            value_text(probe.accuracy.value, "percent"),
            value_text(probe.baseline, "percent"),
            value_text(probe.ceiling, "percent"),
            cell(probe.reason) if probe.reason else estimate_text(probe.gain, "percent"),
        )
    return table


def balance_table(balance: Balance, *, plain: bool) -> Table:
    """Lay out where the references of each kind stand.

    Args:
        balance: what was counted.
        plain: ASCII rules.

    Returns:
        One row a file and kind; at each position the references and, in brackets, those by chance.
    """
    kinds: dict[str, list[str]] = {}
    for each in balance.positions:
        shown = f"{each.references:,} ({each.expected:,.0f})"
        kinds.setdefault(f"{each.file}: {each.kind}", []).append(shown)
    widest = max(map(len, kinds.values()), default=0)
    table = Table(box=ASCII2 if plain else SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("references (by chance)")
    for code in CODES[:widest]:
        table.add_column(code, justify="right")
    for kind, cells in kinds.items():
        table.add_row(cell(kind), *cells, *[""] * (widest - len(cells)))
    return table


def groups_table(balance: Balance, *, plain: bool) -> Table:
    """Lay out records, families and references by file and kind, domain, source family."""
    widest = max((len(group.references) for group in balance.groups), default=0)
    table = Table(box=ASCII2 if plain else SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for title in ("file", "by", "name"):
        table.add_column(title)
    for title in ("records", "families", *CODES[:widest]):
        table.add_column(title, justify="right")
    for group in balance.groups:
        counts = [f"{n:,}" for n in group.references]
        table.add_row(
            cell(group.file),
            group.by.replace("_", " "),
            cell(group.name),
            f"{group.records:,}",
            f"{group.families:,}",
            *counts,
            *[""] * (widest - len(counts)),
        )
    return table
