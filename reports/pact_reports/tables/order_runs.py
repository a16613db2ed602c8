"""Order audits of several runs next to each other: effects, gains and preferred slots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from pact_eval._choices import ClusterUnit
from pact_eval.errors import InputError, counted
from pact_eval.evaluation.conclusions.order import (
    NoiseFloor,
    OrderAudit,
    OrderEffect,
    OrderGain,
    slot_name,
    ties_words,
)
from pact_eval.evaluation.registry import MetricSpec, metric_spec
from pact_eval.numbers import CLUSTERS, Unit, ends_text, small_text, value_text
from pact_eval.plain_text import lower_first
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.permuted_slots import SlotPreference, SlotPreferences
from pact_reports.request import Request
from pact_reports.table import (
    Cell,
    Column,
    Line,
    Mark,
    Part,
    Row,
    Table,
    columns_and_rows,
    right_columns,
    table_row,
)
from pact_reports.tables.cells import RUN_COLUMNS, estimate_cell, p_value_cell, run_rows

BEYOND_NOISE: Final = "shown, and larger than noise alone could have made it"
"""What marks an effect of the order."""

NOISE_ALONE: Final = (
    "Noise alone: the most that asking again in the same order could have given, by the probe's "
    "repeats for a server, by rounding errors for a local model."
)
"""What the noise next to a number is."""

_TITLES: Final = {"accuracy": "Accuracy", "pair_accuracy": "Pair accuracy", "nll_nats": "NLL"}


def noise_note(effect: OrderEffect) -> str | None:
    """Compare the view TV with noise alone, as a note of the table; None if not measured.

    The finding on the order, and its numbers, are those of `OrderConclusion`.

    Args:
        effect: of a run.

    Example:
        "View TV is larger than noise alone could have made it: repeats moved at most 1.2%, ..."
    """
    match effect.finding:
        case "one view" | "one order":
            return None
        case "identical":
            return (
                "Probabilities are the same in every order: the options are sorted before they are "
                "shown, or answers are cached."
            )
        case "no floor":
            return f"How much of the effect is noise is not known: {effect.floor.unmeasured}."
        case "shown":
            return f"View TV is larger than noise alone could have made it: {_alone(effect.floor)}."
        case "not shown":
            return f"Noise alone could have made the view TV: {_alone(effect.floor)}."


def _alone(floor: NoiseFloor) -> str:
    """Write the effect of noise alone.

    Example:
        >>> _alone(NoiseFloor("repeats", 0.0123, 5, 1))
        'repeats moved at most 1.2%, with 1 flip of 5'
    """
    tv = small_text(floor.tv, "percent")
    if floor.source == "rounding":
        return f"rounding in {floor.precision} alone at most {tv}%"
    return f"repeats moved at most {tv}%, with {counted(floor.flips, 'flip')} of {floor.repeats}"


def floor_text(floor: float, spec: MetricSpec) -> str:
    """Write the effect of noise alone on a metric, however small.

    Example:
        >>> floor_text(0.00005, metric_spec("view_tv"))
        '0.005'
    """
    return small_text(floor, "nats" if spec.unit == "nats" else "percent")


def slots_sentence(slots: SlotPreferences, unit: ClusterUnit = "family") -> str:
    """Name the slots that are preferred or avoided, and the test.

    Args:
        slots: of a run.
        unit: units of the intervals.
    """
    if not slots.items:
        return "Slots: no item is shown in two known orders."
    marked = [slot for slot in _every(slots) if slot.marked]
    preferences = [
        f"{slot_name(slot)} is {'preferred' if slot.preference.value > 0 else 'avoided'}"
        for slot in sorted(marked, key=lambda slot: slot.preference.value < 0)
    ]
    finding = "; ".join(preferences) or "No slot is shown to be preferred or avoided"
    tested = f"{slots.draws:,} permutations" if slots.draws else "normal limit of the permutations"
    basis = (
        f"{tested} of the answers of each item over its orders, and t over {CLUSTERS[unit]}: the "
        "larger p, Holm over the slots; "
        f"{slots.moved:,} of {slots.items:,} items answer differently"
    )
    basis += ties_words(slots.tied, slots.views)
    return f"{finding} ({basis})."


def order_parts(audit: OrderAudit, unit: ClusterUnit = "family") -> tuple[Part, ...]:
    """Lay out the order audit of one run: its effect and gains, then its slots.

    Args:
        audit: of the run.
        unit: units of the intervals.
    """
    note = noise_note(audit.effect)
    if not audit.items:
        return () if note is None else (Line(note, "caution"),)
    tables = (_effects_table(audit, note or ""), _slots_table(audit.slots, unit))
    return tuple(table for table in tables if table.rows)


def _effects_table(audit: OrderAudit, note: str) -> Table:
    effect, views = audit.effect, f"{audit.effect.k} views"
    moved, flipped = effect.finding == "shown", audit.flips_beyond_floor
    why = effect.floor.unmeasured
    unit = f"Rates in %, their gains ({views} - view 0) in points, NLL in nats."
    notes = [note, unit if audit.gains else "Rates in %."]
    if audit.one_order:
        notes[1] += f" {audit.one_order:,} other items show one order."
    return Table(
        name="order",
        title="Order of the answers: what it changes, next to noise alone",
        columns=(
            Column(f"{audit.items:,} items", "left"),
            *right_columns("view 0", views),
            Column("effect of order", "left"),
            Column("noise"),
        ),
        rows=(
            _effect_row("View TV", effect.view_tv, effect.floor.tv, why, moved),
            _effect_row("Flip rate", effect.flip_rate, audit.flip_floor, why, flipped),
            *(_gain_row(gain, why) for gain in audit.gains),
        ),
        legend=(("significant", BEYOND_NOISE),),
        notes=(*notes, NOISE_ALONE),
        keys=1,
    )


def _effect_row(title: str, estimate: Estimate, floor: float, why: str, shown: bool) -> Row:
    mark: Mark | None = "significant" if shown else None
    cell = replace(estimate_cell(estimate, "percent"), mark=mark)
    return table_row(title, "", "", cell, _floor_cell(floor, _VIEW_TV, why))


def _gain_row(gain: OrderGain, why: str) -> Row:
    spec = gain.spec
    cell = estimate_cell(gain.difference, spec.difference_unit)
    if gain.beyond_floor:
        cell = replace(cell, mark="significant")
    elif gain.evidence.marked and not math.isnan(gain.floor):
        cell = replace(cell, reason="shown to differ from 0, but noise could have made it")
    sides = (value_text(estimate.value, spec.unit) for estimate in (gain.single, gain.ensemble))
    return table_row(_TITLES[spec.name], *sides, cell, _floor_cell(gain.floor, spec, why))


def _floor_cell(floor: float, spec: MetricSpec, why: str) -> Cell:
    if math.isnan(floor):
        return Cell("–", reason=why)
    return Cell(floor_text(floor, spec))


def _slots_table(slots: SlotPreferences, unit: ClusterUnit) -> Table:
    layout = columns_and_rows(
        _every(slots),
        (Column("%", "left"), slot_name),
        ("chosen", lambda slot: value_text(slot.chosen, "percent")),
        ("by chance", lambda slot: value_text(slot.chance, "percent")),
        (
            Column("preference, points", "left"),
            lambda slot: estimate_cell(slot.preference, "points"),
        ),
        ("noise", lambda slot: f"±{value_text(slot.noise, 'percent')}"),
        (Column("p", numbers=("p",)), _slot_p_value),
    )
    return Table(
        "slots",
        "Slots: how often each is chosen, and by the same answers in other orders",
        "",
        *layout,
        legend=(("significant", ""),),
        notes=(slots_sentence(slots, unit),) if slots.items else (),
        keys=1,
    )


def _slot_p_value(slot: SlotPreference) -> Cell:
    unmoved = "no answer depends on the slot" if math.isnan(slot.adjusted_p_value) else None
    p_value = p_value_cell(slot.adjusted_p_value, unmoved)
    return p_value if slot.marked else replace(p_value, mark=None)


def _every(slots: SlotPreferences) -> tuple[SlotPreference, ...]:
    """Return the slots, and then the last slot of every item if it is a separate question."""
    return (*slots.slots, *(() if slots.last is None else (slots.last,)))


_GAINS: Final = {
    "accuracy": "Gain in accuracy",
    "pair_accuracy": "Gain in pair accuracy",
    "nll_nats": "Change of NLL",
}
_VIEW_TV: Final = metric_spec("view_tv")
_UNIT: Final[dict[Unit, str]] = {"percent": "fraction", "nats": "nats"}
_UNUSUAL: Final = ("identical", "no floor", "not shown")


def build_order(request: Request) -> Table:
    """Make the table of effects of the order and gains from averaging: one row per run.

    Raises:
        InputError: the runs do not compare, or no item is shown in two orders.
    """
    raw, names = request.raw, request.names
    audited = [(run, raw.order_audit(run)) for run in request.comparable]
    if not any(audit.items for _, audit in audited):
        remarks = (noise_note(audit.effect) for _, audit in audited)
        raise InputError(next(filter(None, remarks), "no item is shown in two orders (K is 1)"))
    measured = {gain.spec.name for _, audit in audited for gain in audit.gains}
    gains = [name for name in _GAINS if name in measured]
    k = max(audit.effect.k for _, audit in audited)
    conclusions = "; ".join(
        f"{names.run(run.label)}: {lower_first(raw.order(run).words.finding)}" for run, _ in audited
    )
    unusual = (
        f"{names.run(run.label)}: {noise_note(audit.effect)}"
        for run, audit in audited
        if audit.effect.finding in _UNUSUAL
    )
    rows = ((run.arm, run.seed, _order_cells(audit, gains)) for run, audit in audited)
    return Table(
        name="order",
        title="Effect of the order, next to noise alone",
        caption=(
            f"{conclusions}. {k} views, raw. Gains: {k} views minus view 0, in "
            "points; NLL in nats; the rest in %. Items that are shown in one order are left out."
        ),
        columns=(
            *RUN_COLUMNS,
            *(_column(title, "fraction", -1) for title in ("View TV", "Flips")),
            *(
                _column(_GAINS[spec.name], _UNIT[spec.unit], spec.better)
                for spec in map(metric_spec, gains)
            ),
        ),
        rows=run_rows(rows, names),
        legend=(("significant", BEYOND_NOISE),),
        notes=(NOISE_ALONE, *unusual),
        brackets="In brackets: 95% interval over families.",
    )


def _column(title: str, unit: str, better: Literal[-1, 0, 1]) -> Column:
    names = (f"{title} ({unit})", f"{title} low", f"{title} high", f"{title} noise alone")
    return Column(title, numbers=names, better=better)


def _order_cells(audit: OrderAudit, gains: Sequence[str]) -> list[Cell]:
    effect, by_name = audit.effect, {gain.spec.name: gain for gain in audit.gains}
    cells = [
        _cell(effect.view_tv, _VIEW_TV, effect.floor.tv, marked=effect.finding == "shown"),
        _cell(effect.flip_rate, _VIEW_TV, audit.flip_floor, marked=audit.flips_beyond_floor),
    ]
    for name in gains:
        gain = by_name.get(name)
        if gain is None:
            cells.append(Cell("–", reason="no gain: one order, or views without a common answer"))
            continue
        spec = replace(gain.spec, unit=gain.spec.difference_unit)
        cells.append(_cell(gain.difference, spec, gain.floor, marked=gain.beyond_floor))
    return cells


def _cell(estimate: Estimate, spec: MetricSpec, floor: float, *, marked: bool) -> Cell:
    has_interval = not math.isnan(estimate.low)
    return Cell(
        text=spec.shown(estimate.value),
        numbers=(estimate.value, estimate.low, estimate.high, floor),
        mark="significant" if marked else None,
        reason=estimate.reason,
        interval=ends_text(estimate.low, estimate.high, spec.unit) if has_interval else "",
        below="noise not known" if math.isnan(floor) else f"noise {floor_text(floor, spec)}",
    )
