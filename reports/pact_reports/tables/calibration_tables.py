"""A fitted calibrator: its temperatures, why its form, and what it does to runs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from pact_eval._json import Json
from pact_eval.calibration import (
    CONDITION_LIMIT,
    CalibrationEffect,
    CalibratorFit,
    FittedRun,
    ModeChoice,
    Parameter,
    Scores,
)
from pact_reports.numbers import UNDEFINED, value_text
from pact_reports.plain_text import cell, visible
from pact_reports.writers.json_values import to_json
from pact_reports.writers.terminal import new_table, whole

__all__ = ["calibration_json", "choice_report", "effect_report", "fit_report"]


def choice_report(choice: ModeChoice, *, plain: bool) -> Iterator[RenderableType]:
    """Lay out why a form was chosen: NLL on source families that were left out."""
    if choice.candidates:
        title = f"NLL on source families left out ({choice.folds} folds)"
        table = new_table("form", plain=plain, title=title)
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
        yield whole(table)
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
    table = new_table("95% intervals", plain=plain)
    for name in ("value", "by family", "if items were independent"):
        table.add_column(name, justify="right")
    table.add_column("")
    for parameter in (*fit.levels, *fit.parameters):
        table.add_row(*_parameter(parameter))
    yield whole(table)
    if len(fit.parameters) > len(fit.levels):
        yield Text(f"Condition number of the information: {_condition(fit.condition_number)}.")
    reasons = [f"{each.name}: {each.reason}" for each in fit.unidentified if each.reason]
    for note in dict.fromkeys([*fit.notes, *reasons]):
        yield Text(f"Note: {visible(note)}", style="yellow")


def _condition(number: float) -> str:
    """Write a condition number beside the limit above which slopes are not told apart."""
    shown = UNDEFINED if math.isnan(number) else "∞" if math.isinf(number) else f"{number:,.1f}"
    return f"{shown} (above {CONDITION_LIMIT:,.0f} the slopes are not told apart)"


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
    made = f", {effect.decoding} decoding" if effect.decoding else ""
    table = new_table("before -> after", plain=plain, title=f"{name}{made}")
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
    yield whole(table)
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


def calibration_json(fitted: FittedRun) -> dict[str, Json]:
    """Turn a fit on a run into JSON values: the fit, its reasons, and what it does to runs.

    Args:
        fitted: the fit.

    Returns:
        Rates as fractions, NLL in nats. Beside the scores of every run stand its `warnings`, one
        for every score that got worse on all items or on a kind.
    """
    effects: dict[str, Json] = {}
    for name, effect in fitted.effects.items():
        warnings: list[Json] = [*effect.warnings]
        effects[str(name)] = {
            "decoding": effect.decoding,
            "groups": to_json(effect.groups),
            "warnings": warnings,
            "notes": to_json(effect.notes),
        }
    return {
        "folder": str(fitted.folder),
        "calibrator": to_json(fitted.calibrator),
        "choice": to_json(fitted.choice),
        "fit": to_json(fitted.fit),
        "effects": effects,
        "warnings": [*fitted.warnings],
    }


def _number(value: float, decimals: int) -> str:
    return UNDEFINED if math.isnan(value) else f"{value:.{decimals}f}"
