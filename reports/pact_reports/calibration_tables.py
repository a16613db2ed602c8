"""Tables of a fitted calibrator: its temperatures, why its form, and what it does to runs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.box import ASCII2, SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pact_eval.calibration import (
    CalibrationEffect,
    CalibratorFit,
    ModeChoice,
    Parameter,
    Scores,
)
from pact_reports.numbers import UNDEFINED, value_text
from pact_reports.plain_text import cell, visible

__all__ = ["choice_report", "effect_report", "fit_report"]


def choice_report(choice: ModeChoice, *, plain: bool) -> Iterator[RenderableType]:
    """Lay out why a form was chosen: NLL on source families that were left out."""
    if choice.candidates:
        title = f"NLL on source families left out ({choice.folds} folds)"
        table = _table("form", plain=plain, title=title)
        for name in ("ridge", "numbers", "NLL", "above the best", "standard error"):
            table.add_column(name, justify="right")
        for each in choice.candidates:
            table.add_row(
                each.mode or "T = 1",
                f"{each.ridge:g}" if each.mode == "contextual" else "",
                str(each.parameters),
                f"{each.nll:.4f}",
                f"{each.excess:+.4f}",
                _number(each.standard_error, 4),
            )
        yield table
    for sentence in (choice.why, *choice.left_out):
        yield Text(visible(sentence))


def fit_report(fit: CalibratorFit, *, plain: bool) -> Iterator[RenderableType]:
    """Lay out a fit: its temperature, its numbers with standard errors, and what to mind."""
    t = fit.temperature
    yield Text(
        f"{fit.calibrator.mode}: T = {t.mean:.3f} on average, {t.low:.3f} to {t.high:.3f}; NLL "
        f"{fit.nll_before:.4f} -> {fit.nll_after:.4f} on {fit.items:,} items of "
        f"{fit.families:,} families",
        style="bold",
    )
    table = _table("95% intervals", plain=plain)
    for name in ("value", "by family", "if items were independent"):
        table.add_column(name, justify="right")
    table.add_column("")
    for parameter in (*fit.levels, *fit.parameters):
        table.add_row(*_parameter(parameter))
    yield table
    reasons = [f"{each.name}: {each.reason}" for each in fit.unidentified if each.reason]
    for note in dict.fromkeys([*fit.notes, *reasons]):
        yield Text(f"Note: {visible(note)}", style="yellow")


def _parameter(parameter: Parameter) -> tuple[Text | str, ...]:
    intervals = (
        UNDEFINED
        if math.isnan(wald.low)
        else f"[{wald.low:.3f}, {wald.high:.3f}] (se {wald.standard_error:.3f})"
        for wald in (parameter.by_family, parameter.independent)
    )
    state = "at its bound" if parameter.at_bound else ""
    if not parameter.identified and not state:
        state = "not identified"
    return (cell(parameter.name), f"{parameter.value:.3f}", *intervals, state)


def effect_report(name: str, effect: CalibrationEffect, *, plain: bool) -> Iterator[RenderableType]:
    """Lay out a run before and after calibration, with a warning wherever it got worse.

    Args:
        name: what the run is called.
        effect: what was measured.
        plain: ASCII rules.

    Yields:
        A table by kind, then warnings and notes.
    """
    table = _table("before -> after", plain=plain, title=name)
    for title in ("items", "T", "NLL ↓", "Brier ↓", "ECE ↓", "AURC ↓", "accuracy"):
        table.add_column(title, justify="right")
    for group in effect.groups:
        mean, low, high = (
            _number(x, 2)
            for x in (group.temperature.mean, group.temperature.low, group.temperature.high)
        )
        before, after = _scores(group.before), _scores(group.after)
        table.add_row(
            cell(group.name),
            f"{group.items:,}",
            mean if low == high else f"{mean} ({low} to {high})",
            *(f"{b} -> {a}" for b, a in zip(before, after, strict=True)),
            value_text(group.after.accuracy, "percent"),
        )
    yield table
    for warning in effect.warnings:
        yield Text(f"Warning: {visible(warning)}", style="bold yellow")
    for note in effect.notes:
        yield Text(f"Note: {visible(note)}", style="yellow")


def _scores(scores: Scores) -> tuple[str, ...]:
    return (
        value_text(scores.nll_nats, "nats"),
        value_text(scores.brier, "score"),
        value_text(scores.ece, "percent"),
        value_text(scores.aurc, "percent"),
    )


def _table(first: str, *, plain: bool, title: str | None = None) -> Table:
    table = Table(
        box=ASCII2 if plain else SIMPLE_HEAD,
        pad_edge=False,
        header_style="bold",
        title=None if title is None else cell(title, style="italic"),
        title_justify="left",
    )
    table.add_column(first)
    return table


def _number(value: float, decimals: int) -> str:
    return UNDEFINED if math.isnan(value) else f"{value:.{decimals}f}"
