"""A fitted calibrator, and its effect on runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pact_eval._json import Json
from pact_eval.calibration.effect import CalibrationEffect, Scores
from pact_eval.calibration.fitting import CalibratorFit
from pact_eval.calibration.portable import PortableCalibration
from pact_eval.calibration.runs import FittedRun
from pact_eval.calibration.selection import LeftOutNll, ModeChoice
from pact_eval.calibration.uncertainty import CONDITION_LIMIT, Parameter
from pact_eval.numbers import UNDEFINED, value_text
from pact_eval.plain_text import one_line
from pact_eval.runs.places import shown
from pact_eval.stats.estimate import Estimate
from pact_reports.table import Cell, Column, Line, Part, Row, Table, table_row
from pact_reports.views.presenter import Presenter, answer_lines
from pact_reports.writers.json import note_json, to_json, warnings_json


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

    def tables() -> Iterable[Part]:
        return (*fitted_parts(fitted, fitted.folder), *map(Line, sentences))

    def as_json() -> dict[str, Json]:
        paths: list[Json] = [str(path) for path in written]
        values: dict[str, Json] = {
            "calibration": paths[0] if paths else None,
            "copies": paths[1:],
            "helps": None if fitted.left_out is None else fitted.helps,
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

    others = {
        folder: effect for folder, effect in fitted.effects.items() if folder != fitted.folder
    }
    answers = [calibration_answer(shown(folder), effect) for folder, effect in others.items()]
    first = [left_out_answer(fitted.left_out, written=bool(written))]
    return Presenter(
        tables=tables,
        to_json=as_json,
        warnings=[*map(str, fitted.warnings)],
        headline=lambda: first,
        answers=lambda: answers,
        blocks=lambda: ((*answer_lines(first), *tables()), answer_lines(answers)),
    )


def _json(fitted: FittedRun) -> Json:
    """Return the fit, its reasons, and its effect on runs with `warnings` on scores that got worse.

    Rates are fractions, NLL is in nats.
    """
    return {
        "folder": shown(fitted.folder),
        "calibrator": to_json(fitted.calibrator),
        "choice": to_json(fitted.choice),
        "left_out": to_json(fitted.left_out),
        "fit": to_json(fitted.fit),
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
        titles = ("ridge", "numbers", "NLL", "above the best", "standard error")
        rows = [
            _row(
                candidate.mode or "T = 1",
                f"{candidate.ridge:g}" if candidate.mode == "contextual" else "",
                str(candidate.parameters),
                f"{candidate.nll:.4f}",
                f"{candidate.excess:+.4f}",
                _number(candidate.standard_error, 4),
            )
            for candidate in choice.candidates
        ]
        unit = "source families" if choice.nll is None else choice.nll.unit
        title = f"NLL on {unit} left out ({choice.folds} folds)"
        parts.append(_table("choice", title, "form", titles, rows))
    return (*parts, *(Line(sentence) for sentence in (choice.why, *choice.left_out)))


def fit_parts(fit: CalibratorFit) -> tuple[Part, ...]:
    """Lay out a fit: its temperature, its parameters with standard errors, and notes."""
    titles = ("value", "by family", "if items were independent", "")
    rows = [_row(*_parameter(parameter)) for parameter in (*fit.levels, *fit.parameters)]
    slopes = len(fit.parameters) > len(fit.levels)
    condition = f"Condition number of the information: {_condition(fit.condition_number)}."
    reasons = [
        f"{parameter.name}: {parameter.reason}"
        for parameter in fit.unidentified
        if parameter.reason
    ]
    return (
        Line(fit_sentence(fit), "strong"),
        _table(
            "fit", "95% intervals", "parameter", titles, rows, notes=[condition] if slopes else []
        ),
        *(Line(f"Note: {note}", "caution") for note in dict.fromkeys([*fit.notes, *reasons])),
    )


def fit_sentence(fit: CalibratorFit) -> str:
    """Write the temperature of a fit, and the NLL before and after, in one sentence."""
    t = fit.temperature
    return (
        f"{fit.calibrator.mode}: T = {t.mean:.3f} on average, {t.low:.3f} to {t.high:.3f}; NLL "
        f"{fit.nll_before:.4f} -> {fit.nll_after:.4f} on {fit.items:,} items of "
        f"{fit.families:,} families"
    )


def effect_parts(name: str, effect: CalibrationEffect) -> tuple[Part, ...]:
    """Lay out a run before and after calibration, with a warning for every score that got worse.

    Args:
        name: what the run is called.
        effect: what was measured.
    """
    rows = []
    for group in effect.groups:
        t = group.temperature
        mean, low, high = (_number(x, 2) for x in (t.mean, t.low, t.high))
        pairs = zip(_scores(group.before), _scores(group.after), strict=True)
        floors = (value_text(scores.ece_floor, "percent") for scores in (group.before, group.after))
        change = group.changes["nll_nats"]
        nll, brier, ece, aurc = (Cell(f"{before} -> {after}") for before, after in pairs)
        rows.append(
            table_row(
                group.name,
                f"{group.items:,}",
                mean if low == high else f"{mean} ({low} to {high})",
                *(nll, brier, replace(ece, below=f"noise {' -> '.join(floors)}"), aurc),
                Cell(_change(change), reason=change.reason),
                value_text(group.after.accuracy, "percent"),
            )
        )
    decoding_text = f", {effect.decoding} decoding" if effect.decoding else ""
    titles = (
        *("items", "T", "NLL ↓", "Brier ↓", "ECE ↓", "AURC ↓"),
        *("change of NLL, 95% interval", "accuracy"),
    )
    return (
        _table("effect", f"{name}{decoding_text}", "before -> after", titles, rows),
        *(Line(f"Warning: {note!s}", "caution") for note in effect.warnings),
        *(Line(f"Note: {note!s}", "caution") for note in effect.notes),
    )


def _table(
    name: str,
    title: str,
    first: str,
    titles: Iterable[str],
    rows: Iterable[Row],
    notes: Iterable[str] = (),
) -> Table:
    columns = (Column(first, "left"), *map(Column, titles))
    return Table(name, title, "", columns, tuple(rows), notes=tuple(notes))


def _row(*texts: str) -> Row:
    return table_row(*texts)


def _condition(number: float) -> str:
    """Write a condition number and the limit above which slopes cannot be distinguished."""
    shown = UNDEFINED if math.isnan(number) else "∞" if math.isinf(number) else f"{number:,.1f}"
    return f"{shown} (above {CONDITION_LIMIT:,.0f} the slopes cannot be distinguished)"


def _parameter(parameter: Parameter) -> tuple[str, ...]:
    intervals = (
        UNDEFINED
        if math.isnan(wald.low)
        else f"[{wald.low:.3f}, {wald.high:.3f}] (se {wald.standard_error:.3f})"
        for wald in (parameter.by_family, parameter.independent)
    )
    state = "at its bound" if parameter.at_bound else ""
    if not parameter.identified and not state:
        state = "not identified"
    return (parameter.name, f"{parameter.value:.3f}", *intervals, state)


def _scores(scores: Scores) -> tuple[str, ...]:
    return (
        value_text(scores.nll_nats, "nats"),
        value_text(scores.brier, "score"),
        value_text(scores.ece, "percent"),
        value_text(scores.aurc, "percent"),
    )


def _change(change: Estimate) -> str:
    """Write the paired change of a proper score."""
    value = UNDEFINED if math.isnan(change.value) else f"{change.value:+.3f}"
    ends = "" if math.isnan(change.low) else f" [{change.low:+.3f}, {change.high:+.3f}]"
    return value + ends


def _number(value: float, decimals: int) -> str:
    return UNDEFINED if math.isnan(value) else f"{value:.{decimals}f}"


def left_out_answer(nll: LeftOutNll | None, *, written: bool) -> str:
    """Say whether temperatures lower the NLL of families that were left out of their fit.

    Args:
        nll: on these families; None if there is one family.
        written: whether the calibrator was written.

    Examples:
        >>> from pact_eval.calibration.selection import LeftOutNll
        >>> left_out_answer(LeftOutNll(0.992, 1.01, "families"), written=True)
        'Calibrating does not help: NLL 0.992 to 1.010 on left-out families. Written by --force.'
        >>> left_out_answer(LeftOutNll(0.992, 0.97, "families"), written=True)
        'Calibrating lowers NLL: 0.992 to 0.970 on left-out families.'
    """
    if nll is None:
        return "Not known whether calibrating helps: there is one family, and none to leave out."
    before, after = (f"{number:.3f}" for number in (nll.raw, nll.fitted))
    if before == after:
        before, after = (f"{number:.6f}" for number in (nll.raw, nll.fitted))
    numbers = f"{before} to {after} on left-out {nll.unit}."
    if nll.falls:
        return f"Calibrating lowers NLL: {numbers}"
    why = "Written by --force." if written else "Nothing is written; --force writes."
    return f"Calibrating does not help: NLL {numbers} {why}"


def calibration_answer(name: str, effect: CalibrationEffect) -> str:
    """Write the effect of the temperatures on a run: what gets better, and what worse.

    The word is that of the paired interval of NLL, and holds for "the probabilities" only if the
    Brier score and the ECE do not go the other way.

    Args:
        name: what the run is called.
        effect: scores before and after.
    """
    group = effect.groups[0]
    before, after, change = group.before, group.after, group.changes["nll_nats"]
    if not math.isnan(change.low):
        ends = f" [{change.low:+.3f}, {change.high:+.3f}] nats"
    else:
        ends = " nats" if change.reason is None else f" nats ({change.reason})"
    nll = f"{change.value:+.3f}{ends}"
    moves = {  # as printed
        f"Brier {before.brier:.3f} to {after.brier:.3f}": round(after.brier, 3)
        - round(before.brier, 3),
        f"ECE {100 * before.ece:.1f} to {100 * after.ece:.1f}%": round(after.ece, 3)
        - round(before.ece, 3),
    }
    word, other = ("better", "worse") if change.value < 0 else ("worse", "better")
    against = [text for text, move in moves.items() if move * change.value < 0]
    along = [text for text in moves if text not in against]
    if not change.excludes_zero:
        text = f"No effect on the probabilities shown: NLL {nll}; {', '.join(moves)}"
    elif not against:
        text = f"The probabilities get {word}: NLL {nll}; {', '.join(along)}"
    else:
        text = f"NLL gets {word}, {nll}, but {' and '.join(against)} {other}"
        text += "".join(f"; {too}" for too in along)
    return f"{one_line(name)}: {text}."
