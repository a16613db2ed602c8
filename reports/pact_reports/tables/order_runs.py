"""Order audits of several runs next to each other: effects, gains and preferred slots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from pact_eval._choices import ClusterUnit
from pact_eval.errors import InputError, counted
from pact_eval.evaluation.conclusions.order import (
    OrderAudit,
    OrderEffect,
    OrderGain,
    slot_name,
    ties_words,
)
from pact_eval.evaluation.registry import MetricSpec, metric_spec
from pact_eval.numbers import CLUSTERS, UNDEFINED, Unit, ends_text, small_text, value_text
from pact_eval.plain_text import lower_first
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.letter_preference import SlotPreference, SlotPreferences
from pact_reports.request import Request
from pact_reports.table import Cell, Column, Line, Mark, Part, Row, Table, make_table, table_row
from pact_reports.tables.cells import arm_cell, estimate_cell, p_value_cell, seed_text

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
    floor = effect.floor
    tv = small_text(floor.tv, "percent")
    flips = f"with {counted(floor.flips, 'flip')} of {floor.repeats}"
    alone = f"repeats moved at most {tv}%, {flips}"
    if floor.source == "rounding":
        alone = f"rounding in {floor.precision} alone at most {tv}%"
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
            return f"View TV is larger than noise alone could have made it: {alone}."
        case "not shown":
            return f"Noise alone could have made the view TV: {alone}."


def _floor_text(floor: float, spec: MetricSpec) -> str:
    """Write the effect of noise alone on a metric, however small."""
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
    why = effect.floor.unmeasured

    def noise(floor: float, spec: MetricSpec) -> Cell:
        if math.isnan(floor):
            return Cell(UNDEFINED, reason=why)
        return Cell(_floor_text(floor, spec))

    def moved(title: str, estimate: Estimate, floor: float, shown: bool) -> Row:
        mark: Mark | None = "significant" if shown else None
        cell = replace(estimate_cell(estimate, "percent"), mark=mark)
        return table_row(title, "", "", cell, noise(floor, _VIEW_TV))

    def gained(gain: OrderGain) -> Row:
        spec = gain.spec
        cell = estimate_cell(gain.difference, spec.difference_unit)
        if gain.beyond_floor:
            cell = replace(cell, mark="significant")
        elif gain.evidence.marked and not math.isnan(gain.floor):
            cell = replace(cell, reason="shown to differ from 0, but noise could have made it")
        sides = (value_text(side.value, spec.unit) for side in (gain.single, gain.ensemble))
        return table_row(_TITLES[spec.name], *sides, cell, noise(gain.floor, spec))

    unit = f"Rates in %, their gains ({views} - view 0) in points, NLL in nats."
    notes = [note, unit if audit.gains else "Rates in %."]
    if audit.one_order:
        notes[1] += f" {audit.one_order:,} other items show one order."
    heads = [f"{audit.items:,} items", "view 0", views, "effect of order", "noise"]
    return Table(
        name="order",
        title="Order of the answers: what it changes, next to noise alone",
        columns=tuple(Column(head, "right" if at % 3 else "left") for at, head in enumerate(heads)),
        rows=(
            moved("View TV", effect.view_tv, effect.floor.tv, effect.finding == "shown"),
            moved("Flip rate", effect.flip_rate, audit.flip_floor, audit.flips_beyond_floor),
            *map(gained, audit.gains),
        ),
        legend=(("significant", BEYOND_NOISE),),
        notes=(*notes, NOISE_ALONE),
        keys=1,
    )


def _slots_table(slots: SlotPreferences, unit: ClusterUnit) -> Table:
    def p_value(slot: SlotPreference) -> Cell:
        unmoved = "no answer depends on the slot" if math.isnan(slot.adjusted_p_value) else None
        cell = p_value_cell(slot.adjusted_p_value, unmoved)
        return cell if slot.marked else replace(cell, mark=None)

    return make_table(
        "slots",
        _every(slots),
        (Column("%", "left"), slot_name),
        ("chosen", lambda slot: value_text(slot.chosen, "percent")),
        ("by chance", lambda slot: value_text(slot.chance, "percent")),
        (
            Column("preference, points", "left"),
            lambda slot: estimate_cell(slot.preference, "points"),
        ),
        ("noise", lambda slot: f"±{value_text(slot.noise, 'percent')}"),
        (Column("p", numbers=("p",)), p_value),
        title="Slots: how often each is chosen, and by the same answers in other orders",
        legend=(("significant", ""),),
        notes=(slots_sentence(slots, unit),) if slots.items else (),
        keys=1,
    )


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

    columns = [_effect_column(title, "fraction", -1) for title in ("View TV", "Flips")]
    columns += [
        _effect_column(_GAINS[spec.name], _UNIT[spec.unit], spec.better)
        for spec in map(metric_spec, gains)
    ]
    return make_table(
        "order",
        [(run, _order_cells(audit, gains)) for run, audit in audited],
        (Column("Arm", "left"), lambda row: arm_cell(row[0].arm, names)),
        ("Seed", lambda row: seed_text(row[0].seed)),
        *((column, lambda row, at=at: row[1][at]) for at, column in enumerate(columns)),
        rule=lambda row: row[0].arm,
        title="Effect of the order, next to noise alone",
        caption=(
            f"{conclusions}. {k} views, raw. Gains: {k} views minus view 0, in "
            "points; NLL in nats; the rest in %. Items that are shown in one order are left out."
        ),
        legend=(("significant", BEYOND_NOISE),),
        notes=(NOISE_ALONE, *unusual),
        brackets="In brackets: 95% interval over families.",
    )


def _order_cells(audit: OrderAudit, gains: Sequence[str]) -> list[Cell]:
    effect, by_name = audit.effect, {gain.spec.name: gain for gain in audit.gains}
    shown, flipped = effect.finding == "shown", audit.flips_beyond_floor
    cells = [
        _effect_cell(effect.view_tv, _VIEW_TV, effect.floor.tv, marked=shown),
        _effect_cell(effect.flip_rate, _VIEW_TV, audit.flip_floor, marked=flipped),
    ]
    for gain in map(by_name.get, gains):
        if gain is None:
            reason = "no gain: one order, or views without a common answer"
            cells.append(Cell(UNDEFINED, reason=reason))
            continue
        spec = replace(gain.spec, unit=gain.spec.difference_unit)
        cells.append(_effect_cell(gain.difference, spec, gain.floor, marked=gain.beyond_floor))
    return cells


def _effect_column(title: str, unit: str, better: Literal[-1, 0, 1]) -> Column:
    names = (f"{title} ({unit})", f"{title} low", f"{title} high", f"{title} noise alone")
    return Column(title, numbers=names, better=better)


def _effect_cell(estimate: Estimate, spec: MetricSpec, floor: float, *, marked: bool) -> Cell:
    has_interval = not math.isnan(estimate.low)
    return Cell(
        text=spec.shown(estimate.value),
        numbers=(estimate.value, estimate.low, estimate.high, floor),
        mark="significant" if marked else None,
        reason=estimate.reason,
        interval=ends_text(estimate.low, estimate.high, spec.unit) if has_interval else "",
        below="noise not known" if math.isnan(floor) else f"noise {_floor_text(floor, spec)}",
    )
