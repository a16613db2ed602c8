"""Notes on a calibrator that is applied to a run: their kind, their numbers and their sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pact_eval._json import Json
from pact_eval.notes import Note

NoteKind: TypeAlias = Literal[
    "UnknownFamilies",
    "FittedHere",
    "SharedSourceFamilies",
    "UnknownRun",
    "OtherRun",
    "FittedOnTraining",
    "NeutralTemperatures",
    "DifferentDecoding",
    "UnseenKind",
    "UnseenQuestion",
    "OutsideFit",
    "RoundedItems",
    "WorseScore",
]
"""The first five say whether the run of the fit and this one belong together and share no data, the
next six how a calibrator is used outside the data of its fit, or on probabilities that are
intervals. WorseScore: a proper score is shown to be worse after calibration."""


@dataclass(frozen=True)
class CalibrationNote(Note):
    """Something to know of a calibrator.

    Attributes:
        kind: what it is about.
        sentence: what every surface shows.
        numbers: those of the sentence, by name, for JSON.
    """

    kind: NoteKind
    sentence: str
    numbers: Mapping[str, Json] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return self.sentence


UNKNOWN_FAMILIES: Final = CalibrationNote(
    "UnknownFamilies",
    "not all families are known, so it is unknown whether the fit used some of these items",
)
FITTED_HERE: Final = CalibrationNote(
    "FittedHere",
    "the calibrator in its folder was fitted on this run and would flatter it, so it is not "
    "applied; `pact-eval calibrate CALIB_RUN --holdout RUN` applies it to another",
)
UNKNOWN_RUN: Final = CalibrationNote(
    "UnknownRun",
    "the fit or the run does not record its model, so it is unknown whether they belong together",
)


@dataclass(frozen=True)
class CalibrationWarning:
    """A note on a calibrator that is applied to one of several runs.

    Attributes:
        run: folder of the run.
        note: what a reader must know.
    """

    run: str
    note: CalibrationNote

    def __str__(self) -> str:
        return f"{self.run}: {self.note}"
