"""A fitted calibrator, and its effect on runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal

from pact_eval._json import Json
from pact_eval.calibration.effect import CalibrationEffect, GroupEffect
from pact_eval.calibration.fitting import CalibratorFit
from pact_eval.calibration.portable import PortableCalibration
from pact_eval.calibration.runs import FittedRun
from pact_eval.calibration.selection import ModeChoice
from pact_eval.calibration.uncertainty import CONDITION_LIMIT, Parameter, Wald
from pact_eval.numbers import UNDEFINED, Unit, sample_text, value_text
from pact_eval.plain_text import one_line
from pact_eval.runs.places import shown
from pact_reports.table import Cell, Column, Line, Part, make_table
from pact_reports.views.presenter import Brief, Fact, Presenter
from pact_reports.writers.json import attributes, to_json, warnings_json


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
    forced = "Written by --force." if written else "Nothing is written; --force writes."
    line = fitted.answer if fitted.helps else f"{fitted.answer} {forced}"
    shown_better, paths = fitted.left_out, [*map(str, written)]

    def as_json() -> dict[str, Json]:
        values: dict[str, Json] = {
            "calibration": paths[0] if paths else None,
            "copies": [*paths[1:]],
            "helps": None if shown_better is None else fitted.helps,
            "shown": None if shown_better is None else shown_better.shown,
            "answer": {
                "helps": line,
                **{shown(folder): text for folder, text in _answers(fitted).items()},
            },
            "result": _json(fitted),
        }
        if exported is not None:
            file, portable = str(exported[0]), to_json(exported[1])
            values["exported"] = {"file": file, "portable": portable, "sentences": [*sentences]}
        return values

    return Presenter(
        first=lambda: Brief([*_facts(fitted, sentences)]),
        tables=lambda: fitted_parts(fitted),
        to_json=as_json,
        warnings=[*map(str, fitted.warnings)],
        headline=lambda: [line],
    )


_MOST_RUNS: Final = 3
"""Runs of a first screen; the tables have all."""


def _answers(fitted: FittedRun) -> dict[Path, str]:
    """Say what the temperatures do to every other run."""
    effects = fitted.effects.items()
    return {folder: effect.text for folder, effect in effects if folder != fitted.folder}


def _facts(fitted: FittedRun, exported: Sequence[str]) -> Iterator[Fact]:
    """Yield the first screen on a fit, below the answer."""
    fit, effect, answers = fitted.fit, fitted.effects[fitted.folder], _answers(fitted)

    def title(folder: Path) -> str:
        return one_line(fitted.titles.get(folder, shown(folder)))

    def first_of(notes: Iterable[str]) -> str:
        first, *more = [*notes] or [""]
        return f"{first}; {len(more):,} more" if more else first

    yield Fact("temperature", fit.text)
    decoding = "" if effect.decoding != "ensemble" else ", all prompts of an item together"
    sample = sample_text(fit.items, fit.families)
    yield Fact("fitted on", f"{title(fitted.folder)}: {sample}{decoding}")
    for folder, text in [*answers.items()][:_MOST_RUNS]:
        yield Fact(title(folder), text)
    if len(answers) > _MOST_RUNS:
        yield Fact("...", f"{len(answers) - _MOST_RUNS:,} more runs")
    worse = (str(note) for effect in fitted.effects.values() for note in effect.warnings)
    yield Fact("worse", first_of(worse), "caution")
    yield Fact("note", first_of(dict.fromkeys([*fit.notes, *map(str, effect.notes)])), "caution")
    yield Fact("exported", " ".join(exported))


def _json(fitted: FittedRun) -> Json:
    """Return the fit, its reasons, and its effect on runs with `warnings` on scores that got worse.

    Rates are fractions, NLL is in nats.
    """
    return {
        "folder": shown(fitted.folder),
        **attributes(fitted, "calibrator", "choice", "left_out", "fit"),
        "effects": {
            shown(folder): attributes(effect, "decoding", "groups", "warnings", "notes")
            for folder, effect in fitted.effects.items()
        },
        "warnings": warnings_json(fitted.warnings),
    }


def fitted_parts(fitted: FittedRun) -> Iterator[Part]:
    """Lay out a fit on a run: choice of its form, the fit, and its effect on runs."""
    if fitted.choice is not None:
        yield from choice_parts(fitted.choice)
    yield from fit_parts(fitted.fit)
    for folder, effect in fitted.effects.items():
        named = fitted.titles.get(folder, str(folder))
        title = f"fit split: {named}" if folder == fitted.folder else named
        yield from effect_parts(title, effect)


def choice_parts(choice: ModeChoice) -> Iterator[Part]:
    """Lay out the choice of a form: NLL on source families that were left out."""
    if choice.candidates:
        unit = "source families" if choice.nll is None else choice.nll.unit
        yield make_table(
            "choice",
            choice.candidates,
            (Column("form", "left"), lambda form: form.mode or "T = 1"),
            ("ridge", lambda form: f"{form.ridge:g}" if form.mode == "contextual" else ""),
            ("numbers", lambda form: str(form.parameters)),
            ("NLL", lambda form: f"{form.nll:.4f}"),
            ("above the best", lambda form: f"{form.excess:+.4f}"),
            ("standard error", lambda form: _number(form.standard_error, 4)),
            title=f"NLL on {unit} left out ({choice.folds} folds)",
        )
    yield from (Line(sentence) for sentence in (choice.why, *choice.left_out))


def fit_parts(fit: CalibratorFit) -> Iterator[Part]:
    """Lay out a fit: its temperature, its parameters with standard errors, and notes."""
    weights = () if fit.calibrator.mode == "per-question" else fit.parameters

    def wald(parameter: Parameter, name: Literal["by_family", "independent"]) -> str:
        found: Wald = getattr(parameter, name)
        if math.isnan(found.low):
            return UNDEFINED
        return f"[{found.low:.3f}, {found.high:.3f}] (se {found.standard_error:.3f})"

    def state(parameter: Parameter) -> str:
        if parameter.at_bound:
            return "at its bound"
        return "" if parameter.identified else "not identified"

    notes = []
    if len(fit.parameters) > len(fit.levels):  # it has slopes
        number = fit.condition_number
        text = "∞" if math.isinf(number) else UNDEFINED if math.isnan(number) else f"{number:,.1f}"
        limit = f"above {CONDITION_LIMIT:,.0f} the slopes cannot be distinguished"
        notes = [f"Condition number of the information: {text} ({limit})."]
    yield Line(
        f"NLL {fit.nll_before:.4f} -> {fit.nll_after:.4f} on the items of the fit.", "strong"
    )
    yield make_table(
        "fit",
        (*fit.levels, *weights),
        (Column("parameter", "left"), lambda parameter: parameter.name),
        ("value", lambda parameter: f"{parameter.value:.3f}"),
        ("by family", partial(wald, name="by_family")),
        ("if items were independent", partial(wald, name="independent")),
        ("", state),
        title="95% intervals",
        notes=tuple(notes),
    )
    unknown = [f"{one.name}: {one.reason}" for one in fit.unidentified if one.reason]
    yield from (Line(f"Note: {note}", "caution") for note in dict.fromkeys([*fit.notes, *unknown]))


def effect_parts(name: str, effect: CalibrationEffect) -> Iterator[Part]:
    """Lay out a run before and after calibration, with a warning for every score that got worse.

    Args:
        name: what the run is called.
        effect: what was measured.
    """

    def temperature(group: GroupEffect) -> str:
        t = group.temperature
        mean, low, high = (_number(x, 2) for x in (t.mean, t.low, t.high))
        return mean if low == high else f"{mean} ({low} to {high})"

    def from_to(group: GroupEffect, score: str, unit: Unit) -> str:
        sides = (group.before, group.after)
        return " -> ".join(value_text(getattr(scores, score), unit) for scores in sides)

    def ece(group: GroupEffect) -> Cell:
        noise = from_to(group, "ece_floor", "percent")
        return Cell(from_to(group, "ece", "percent"), below=f"noise {noise}")

    def change(group: GroupEffect) -> Cell:
        """Write the paired change of NLL, a proper score."""
        nll = group.changes["nll_nats"]
        value = UNDEFINED if math.isnan(nll.value) else f"{nll.value:+.3f}"
        ends = "" if math.isnan(nll.low) else f" [{nll.low:+.3f}, {nll.high:+.3f}]"
        return Cell(value + ends, reason=nll.reason)

    yield make_table(
        "effect",
        effect.groups,
        (Column("before -> after", "left"), lambda group: group.name),
        ("items", lambda group: group.items),
        ("T", temperature),
        ("NLL ↓", lambda group: from_to(group, "nll_nats", "nats")),
        ("Brier ↓", lambda group: from_to(group, "brier", "score")),
        ("ECE ↓", ece),
        ("AURC ↓", lambda group: from_to(group, "aurc", "percent")),
        ("change of NLL, 95% interval", change),
        ("accuracy", lambda group: value_text(group.after.accuracy, "percent")),
        title=f"{name}{f', {effect.decoding} decoding' if effect.decoding else ''}",
    )
    yield from (Line(f"Warning: {note!s}", "caution") for note in effect.warnings)
    yield from (Line(f"Note: {note!s}", "caution") for note in effect.notes)


def _number(value: float, decimals: int) -> str:
    return UNDEFINED if math.isnan(value) else f"{value:.{decimals}f}"
