"""A fitted calibrator, and its effect on runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pact_eval._json import Json
from pact_eval.calibration.effect import CalibrationEffect, GroupEffect
from pact_eval.calibration.fitting import CalibratorFit
from pact_eval.calibration.portable import PortableCalibration
from pact_eval.calibration.runs import FittedRun
from pact_eval.calibration.selection import ModeChoice
from pact_eval.calibration.temperatures import TemperatureSummary
from pact_eval.calibration.uncertainty import CONDITION_LIMIT, Parameter, Wald
from pact_eval.numbers import UNDEFINED, Unit, sample_text, value_text
from pact_eval.plain_text import one_line
from pact_eval.runs.places import shown
from pact_eval.stats.estimate import Estimate
from pact_reports.table import Cell, Column, Line, Part, Table, columns_and_rows
from pact_reports.views.brief import Brief, Fact
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import attributes, note_json, to_json, warnings_json


def present_fitted_run(
    fitted: FittedRun,
    written: Sequence[Path] = (),
    exported: tuple[Path, PortableCalibration] | None = None,
) -> Presenter:
    """Present a fit on a run.

    Args:
        fitted: the fit, with its effect on runs.
        written: files of the calibrator, those in the folders of other runs last.
        exported: file of the temperatures for transformers, and these temperatures.
    """
    sentences = [] if exported is None else [*exported[1].sentences(served=fitted.served)]
    lines = [fitted.answer]
    if not fitted.helps:
        lines = [f"{fitted.answer} {_FORCED if written else _NOT_WRITTEN}"]

    def as_json() -> dict[str, Json]:
        paths: list[Json] = [str(path) for path in written]
        values: dict[str, Json] = {
            "calibration": paths[0] if paths else None,
            "copies": paths[1:],
            "helps": None if fitted.left_out is None else fitted.helps,
            "shown": None if fitted.left_out is None else fitted.left_out.shown,
            "answer": {
                "helps": lines[0],
                **{shown(folder): text for folder, text in _answers(fitted).items()},
            },
            "result": _json(fitted),
        }
        if exported is None:
            return values
        file, portable = exported
        return values | {
            "exported": {
                "file": str(file),
                "portable": to_json(portable),
                "sentences": [*sentences],
            }
        }

    return Presenter(
        first=lambda: Brief([*_facts(fitted, sentences)]),
        tables=lambda: fitted_parts(fitted, fitted.folder),
        to_json=as_json,
        warnings=[*map(str, fitted.warnings)],
        headline=lambda: lines,
    )


_FORCED: Final = "Written by --force."
_NOT_WRITTEN: Final = "Nothing is written; --force writes."
_MOST_RUNS: Final = 3
"""Runs of a first screen; the tables have all."""


def _answers(fitted: FittedRun) -> dict[Path, str]:
    """Say what the temperatures do to every other run."""
    effects = fitted.effects.items()
    return {folder: effect.text for folder, effect in effects if folder != fitted.folder}


def _facts(fitted: FittedRun, exported: Sequence[str]) -> Iterator[Fact]:
    """Yield the first screen on a fit, below the answer."""
    fit, effect = fitted.fit, fitted.effects[fitted.folder]
    yield Fact("temperature", fit.text)
    title = one_line(fitted.titles.get(fitted.folder, shown(fitted.folder)))
    decoding = "" if effect.decoding != "ensemble" else ", all prompts of an item together"
    yield Fact("fitted on", f"{title}: {sample_text(fit.items, fit.families)}{decoding}")
    answers = _answers(fitted)
    for folder, text in [*answers.items()][:_MOST_RUNS]:
        yield Fact(one_line(fitted.titles.get(folder, shown(folder))), text)
    if len(answers) > _MOST_RUNS:
        yield Fact("...", f"{len(answers) - _MOST_RUNS:,} more runs")
    worse = [str(note) for effect in fitted.effects.values() for note in effect.warnings]
    if worse:
        more = f"; {len(worse) - 1:,} more" if len(worse) > 1 else ""
        yield Fact("worse", f"{worse[0]}{more}", "caution")
    notes = dict.fromkeys([*fit.notes, *map(str, effect.notes)])
    more = f"; {len(notes) - 1:,} more" if len(notes) > 1 else ""
    yield Fact("note", f"{next(iter(notes))}{more}" if notes else "", "caution")
    yield Fact("exported", " ".join(exported))


def _json(fitted: FittedRun) -> Json:
    """Return the fit, its reasons, and its effect on runs with `warnings` on scores that got worse.

    Rates are fractions, NLL is in nats.
    """
    return {
        "folder": shown(fitted.folder),
        **attributes(fitted, "calibrator", "choice", "left_out", "fit"),
        "effects": {
            shown(folder): {
                "decoding": effect.decoding,
                "groups": to_json(effect.groups),
                "warnings": [note_json(note) for note in effect.warnings],
                "notes": [note_json(note) for note in effect.notes],
            }
            for folder, effect in fitted.effects.items()
        },
        "warnings": warnings_json(fitted.warnings),
    }


def fitted_parts(fitted: FittedRun, run: Path) -> list[Part]:
    """Lay out a fit on a run: choice of its form, the fit, and its effect on runs."""
    parts = [] if fitted.choice is None else [*choice_parts(fitted.choice)]
    parts += fit_parts(fitted.fit)
    for name, effect in fitted.effects.items():
        named = fitted.titles.get(name, str(name))
        title = f"fit split: {named}" if name == run else named
        parts += effect_parts(title, effect)
    return parts


def choice_parts(choice: ModeChoice) -> tuple[Part, ...]:
    """Lay out the choice of a form: NLL on source families that were left out."""
    parts: list[Part] = []
    if choice.candidates:
        layout = columns_and_rows(
            choice.candidates,
            (Column("form", "left"), lambda form: form.mode or "T = 1"),
            ("ridge", lambda form: f"{form.ridge:g}" if form.mode == "contextual" else ""),
            ("numbers", lambda form: str(form.parameters)),
            ("NLL", lambda form: f"{form.nll:.4f}"),
            ("above the best", lambda form: f"{form.excess:+.4f}"),
            ("standard error", lambda form: _number(form.standard_error, 4)),
        )
        unit = "source families" if choice.nll is None else choice.nll.unit
        title = f"NLL on {unit} left out ({choice.folds} folds)"
        parts.append(Table("choice", title, "", *layout))
    return (*parts, *(Line(sentence) for sentence in (choice.why, *choice.left_out)))


def fit_parts(fit: CalibratorFit) -> tuple[Part, ...]:
    """Lay out a fit: its temperature, its parameters with standard errors, and notes."""
    weights = () if fit.calibrator.mode == "per-question" else fit.parameters
    layout = columns_and_rows(
        (*fit.levels, *weights),
        (Column("parameter", "left"), lambda parameter: parameter.name),
        ("value", lambda parameter: f"{parameter.value:.3f}"),
        ("by family", lambda parameter: _wald(parameter.by_family)),
        ("if items were independent", lambda parameter: _wald(parameter.independent)),
        ("", _state),
    )
    slopes = len(fit.parameters) > len(fit.levels)
    condition = f"Condition number of the information: {_condition(fit.condition_number)}."
    reasons = [
        f"{parameter.name}: {parameter.reason}"
        for parameter in fit.unidentified
        if parameter.reason
    ]
    return (
        Line(f"NLL {fit.nll_before:.4f} -> {fit.nll_after:.4f} on the items of the fit.", "strong"),
        Table("fit", "95% intervals", "", *layout, notes=(condition,) if slopes else ()),
        *(Line(f"Note: {note}", "caution") for note in dict.fromkeys([*fit.notes, *reasons])),
    )


def effect_parts(name: str, effect: CalibrationEffect) -> tuple[Part, ...]:
    """Lay out a run before and after calibration, with a warning for every score that got worse.

    Args:
        name: what the run is called.
        effect: what was measured.
    """
    layout = columns_and_rows(
        effect.groups,
        (Column("before -> after", "left"), lambda group: group.name),
        ("items", lambda group: f"{group.items:,}"),
        ("T", lambda group: _temperature(group.temperature)),
        ("NLL ↓", lambda group: _from_to(group, "nll_nats", "nats")),
        ("Brier ↓", lambda group: _from_to(group, "brier", "score")),
        ("ECE ↓", _ece_cell),
        ("AURC ↓", lambda group: _from_to(group, "aurc", "percent")),
        ("change of NLL, 95% interval", lambda group: _change(group.changes["nll_nats"])),
        ("accuracy", lambda group: value_text(group.after.accuracy, "percent")),
    )
    decoding_text = f", {effect.decoding} decoding" if effect.decoding else ""
    return (
        Table("effect", f"{name}{decoding_text}", "", *layout),
        *(Line(f"Warning: {note!s}", "caution") for note in effect.warnings),
        *(Line(f"Note: {note!s}", "caution") for note in effect.notes),
    )


def _temperature(t: TemperatureSummary) -> str:
    mean, low, high = (_number(x, 2) for x in (t.mean, t.low, t.high))
    return mean if low == high else f"{mean} ({low} to {high})"


def _from_to(group: GroupEffect, score: str, unit: Unit) -> str:
    """Write a score before and after."""
    return " -> ".join(
        value_text(getattr(scores, score), unit) for scores in (group.before, group.after)
    )


def _ece_cell(group: GroupEffect) -> Cell:
    noise = _from_to(group, "ece_floor", "percent")
    return Cell(_from_to(group, "ece", "percent"), below=f"noise {noise}")


def _wald(wald: Wald) -> str:
    if math.isnan(wald.low):
        return UNDEFINED
    return f"[{wald.low:.3f}, {wald.high:.3f}] (se {wald.standard_error:.3f})"


def _state(parameter: Parameter) -> str:
    if parameter.at_bound:
        return "at its bound"
    return "" if parameter.identified else "not identified"


def _condition(number: float) -> str:
    """Write a condition number and the limit above which slopes cannot be distinguished."""
    shown = UNDEFINED if math.isnan(number) else "∞" if math.isinf(number) else f"{number:,.1f}"
    return f"{shown} (above {CONDITION_LIMIT:,.0f} the slopes cannot be distinguished)"


def _change(change: Estimate) -> Cell:
    """Write the paired change of a proper score."""
    value = UNDEFINED if math.isnan(change.value) else f"{change.value:+.3f}"
    ends = "" if math.isnan(change.low) else f" [{change.low:+.3f}, {change.high:+.3f}]"
    return Cell(value + ends, reason=change.reason)


def _number(value: float, decimals: int) -> str:
    return UNDEFINED if math.isnan(value) else f"{value:.{decimals}f}"
