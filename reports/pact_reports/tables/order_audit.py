"""Order audit of a run: effects of the order of the answers, next to noise alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from pact_eval._choices import ClusterUnit
from pact_eval.evaluation.conclusions.order import slot_name, ties_words
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.evaluation.order_audit import OrderAudit, OrderGain
from pact_eval.evaluation.order_effect import NoiseFloor, OrderEffect
from pact_eval.evaluation.registry import metric_spec
from pact_eval.numbers import CLUSTERS, interval_text, small_text, value_text
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.permuted_slots import SlotPreference, SlotPreferences
from pact_reports.table import Cell, Column, Line, Mark, Part, Row, Table
from pact_reports.tables.cells import estimate_cell, p_value_cell

PROBE: Final = "pact-eval probe --server URL --model NAME"
"""The command that measures the noise of a server."""

BEYOND_NOISE: Final = "shown, and larger than noise alone could have made it"
"""What marks an effect of the order."""

NOISE_ALONE: Final = (
    "Noise alone: the most that asking again in the same order could have given, by the probe's "
    "repeats for a server, by rounding errors for a local model."
)
"""What the noise next to a number is."""

_VIEW_TV: Final = metric_spec("view_tv")
_TITLES: Final = {"accuracy": "Accuracy", "pair_accuracy": "Pair accuracy", "nll_nats": "NLL"}


def order_sentence(effect: OrderEffect) -> str | None:
    """Describe the effect of the order on probabilities, next to noise; None if not measured.

    Args:
        effect: of a run.
    """
    tv = interval_text(effect.view_tv, "percent", "%")
    match effect.finding:
        case "one view" | "one order":
            return None
        case "identical":
            return (
                "Views make no difference: the answers are identical in every order. The options "
                "are sorted before they are shown, or answers are cached."
            )
        case "no floor":
            moved = f"view TV {tv}"
            if math.isnan(effect.view_tv.value):
                moved = f"flip rate {interval_text(effect.flip_rate, 'percent', '%')}"
            return (
                f"Order of the answers: {moved}; how much of it is noise is not known, because "
                f"{_unmeasured(effect.floor)}."
            )
        case "shown":
            return f"The order moves probabilities: view TV {tv}; {_alone(effect.floor)}."
        case "not shown":
            return (
                "Repeats may move probabilities as much as other orders do: view TV "
                f"{tv}; {_alone(effect.floor)}."
            )


def _unmeasured(floor: NoiseFloor) -> str:
    """Explain a missing noise floor, and name the measurement that provides it, if any."""
    if floor.source == "not in the log":
        return "the log has no repeats of one order"
    return f"no repeats were measured (`{PROBE}` measures them)"


def _alone(floor: NoiseFloor) -> str:
    """Write the effect of noise alone.

    Example:
        >>> _alone(NoiseFloor("repeats", 0.0123, 5, 1))
        'repeats moved at most 1.2%, with 1 flip of 5'
    """
    tv = small_text(floor.tv, "percent")
    if floor.source == "rounding":
        return f"rounding in {floor.precision} alone at most {tv}%"
    flips = "1 flip" if floor.flips == 1 else f"{floor.flips} flips"
    return f"repeats moved at most {tv}%, with {flips} of {floor.repeats}"


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
    sentence = order_sentence(audit.effect)
    if not audit.items:
        return () if sentence is None else (Line(sentence, "caution"),)
    tables = (_effects_table(audit, sentence or ""), _slots_table(audit.slots, unit))
    return tuple(table for table in tables if table.rows)


def _effects_table(audit: OrderAudit, sentence: str) -> Table:
    effect, views = audit.effect, f"{audit.effect.k} views"
    moved, flipped = effect.finding == "shown", audit.flips_beyond_floor
    why = _unmeasured(effect.floor)
    unit = f"Rates in %, their gains ({views} - view 0) in points, NLL in nats."
    notes = [sentence, unit if audit.gains else "Rates in %."]
    if audit.one_order:
        notes[1] += f" {audit.one_order:,} other items show one order."
    return Table(
        name="order",
        title="Order of the answers: what it changes, next to noise alone",
        caption="",
        columns=(
            Column(f"{audit.items:,} items", "left"),
            Column("view 0"),
            Column(views),
            Column("effect of order", "left"),
            Column("noise"),
        ),
        rows=(
            _effect_row(
                "View TV", effect.view_tv, _floor_cell(effect.floor.tv, _VIEW_TV, why), moved
            ),
            _effect_row(
                "Flip rate", effect.flip_rate, _floor_cell(audit.flip_floor, _VIEW_TV, why), flipped
            ),
            *(_gain_row(gain, why) for gain in audit.gains),
        ),
        legend=(("significant", BEYOND_NOISE),),
        notes=(*notes, NOISE_ALONE),
        keys=1,
    )


def _effect_row(title: str, estimate: Estimate, floor: Cell, shown: bool) -> Row:
    mark: Mark | None = "significant" if shown else None
    cell = replace(estimate_cell(estimate, "percent"), mark=mark)
    return Row((Cell(title), Cell(""), Cell(""), cell, floor))


def _gain_row(gain: OrderGain, why: str) -> Row:
    spec = gain.spec
    cell = estimate_cell(gain.difference, spec.difference_unit)
    if gain.beyond_floor:
        cell = replace(cell, mark="significant")
    elif gain.evidence.marked and not math.isnan(gain.floor):
        cell = replace(cell, reason="shown to differ from 0, but noise could have made it")
    sides = (value_text(estimate.value, spec.unit) for estimate in (gain.single, gain.ensemble))
    return Row(
        (Cell(_TITLES[spec.name]), *map(Cell, sides), cell, _floor_cell(gain.floor, spec, why))
    )


def _floor_cell(floor: float, spec: MetricSpec, why: str) -> Cell:
    if math.isnan(floor):
        return Cell("–", reason=why)
    return Cell(floor_text(floor, spec))


def _slots_table(slots: SlotPreferences, unit: ClusterUnit) -> Table:
    return Table(
        name="slots",
        title="Slots: how often each is chosen, and by the same answers in other orders",
        caption="",
        columns=(
            Column("%", "left"),
            Column("chosen"),
            Column("by chance"),
            Column("preference, points", "left"),
            Column("noise"),
            Column("p", numbers=("p",)),
        ),
        rows=tuple(_slot_row(slot) for slot in _every(slots)),
        legend=(("significant", ""),),
        notes=(slots_sentence(slots, unit),) if slots.items else (),
        keys=1,
    )


def _every(slots: SlotPreferences) -> tuple[SlotPreference, ...]:
    """Return the slots, and then the last slot of every item if it is a separate question."""
    return (*slots.slots, *(() if slots.last is None else (slots.last,)))


def _slot_row(slot: SlotPreference) -> Row:
    unmoved = "no answer depends on the slot" if math.isnan(slot.adjusted_p_value) else None
    p_value = p_value_cell(slot.adjusted_p_value, unmoved)
    return Row(
        (
            Cell(slot_name(slot)),
            Cell(value_text(slot.chosen, "percent")),
            Cell(value_text(slot.chance, "percent")),
            estimate_cell(slot.preference, "points"),
            Cell(f"±{value_text(slot.noise, 'percent')}"),
            p_value if slot.marked else replace(p_value, mark=None),
        )
    )
