"""A fitted calibrator, and its effect on runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pact_eval._json import Json
from pact_eval.calibration.portable import PortableCalibration
from pact_eval.calibration.runs import FittedRun
from pact_eval.runs.places import shown
from pact_reports.presenters.presenter import Presenter, answer_lines
from pact_reports.sentences.answers import calibration_answer, left_out_answer
from pact_reports.table import Line, Part
from pact_reports.tables.fit import fitted_parts
from pact_reports.writers.json import note_json, to_json, warnings_json


def present(
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
