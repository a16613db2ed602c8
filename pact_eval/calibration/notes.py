"""Notes on a calibrator that is applied to a run, as typed values.

`pact_reports` turns each of them into a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pact_eval._choices import Decoding
from pact_eval.runs.identity import Fact

ScoreName: TypeAlias = Literal["nll_nats", "brier"]
"""A proper score, by which a calibrator is judged."""


@dataclass(frozen=True)
class UnknownFamilies:
    """Not all families are known, so the calibrator may have been fitted on some of the items."""


@dataclass(frozen=True)
class SharedSourceFamilies:
    """Source families that are both in the fit and in the run.

    Attributes:
        names: of these source families, sorted.
    """

    names: tuple[str, ...]


@dataclass(frozen=True)
class UnknownRun:
    """The calibrator or the run does not record its model, so they may not belong together."""


@dataclass(frozen=True)
class OtherRun:
    """A calibrator of another run, which the user allowed.

    Attributes:
        facts: in what the runs differ.
    """

    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class FittedOnTraining:
    """The calibrator was fitted on data that the adapter was trained on, which the user allowed.

    Attributes:
        families: number of these families.
    """

    families: int


@dataclass(frozen=True)
class NeutralTemperatures:
    """Temperatures that are all 1: the calibrator changes nothing."""


@dataclass(frozen=True)
class DifferentDecoding:
    """A calibrator is applied to another decoding than that of its fit.

    Attributes:
        fitted: decoding of the fit.
        applied: decoding that it is applied to.
    """

    fitted: str
    applied: Decoding


@dataclass(frozen=True)
class UnseenKind:
    """The fit had no items of a kind, so the temperature of that kind is 1.

    Attributes:
        field_kind: choice, boolean or score.
    """

    field_kind: str


@dataclass(frozen=True)
class OutsideFit:
    """Items beyond the range of the fit, whose temperatures are extrapolated.

    Attributes:
        quantity: what is beyond its range.
        outside: number of such items.
        items: number of all items.
        low: lower end of the range of the fit.
        high: upper end.
    """

    quantity: Literal["answers", "prompt tokens"]
    outside: int
    items: int
    low: float
    high: float


@dataclass(frozen=True)
class WorseScore:
    """A proper score that is shown to be worse after calibration.

    Attributes:
        group: "all", or a field kind.
        score: its name.
        before: uncalibrated.
        after: calibrated.
        low: lower end of the paired interval of the change, above 0.
        high: upper end.
    """

    group: str
    score: ScoreName
    before: float
    after: float
    low: float
    high: float


@dataclass(frozen=True)
class RoundedItems:
    """The probabilities of a run are known up to an interval, before it was calibrated.

    Attributes:
        decimals: to how many decimals a server has rounded them; None if the log lists only the
            most probable tokens.
        censored: items whose correct answer was rounded to 0, or not listed, in some view of the
            decoding.
        items: number of all items.
    """

    decimals: int | None
    censored: int
    items: int


FitNote: TypeAlias = (
    UnknownFamilies | SharedSourceFamilies | UnknownRun | OtherRun | FittedOnTraining
)
"""Whether the run of the fit and this one belong together, and share no data."""

UseNote: TypeAlias = (
    NeutralTemperatures | DifferentDecoding | UnseenKind | OutsideFit | RoundedItems
)
"""How a calibrator is used outside the data of its fit, or on probabilities that are intervals."""

CalibrationNote: TypeAlias = FitNote | UseNote | WorseScore


@dataclass(frozen=True)
class CalibrationWarning:
    """A note on a calibrator that is applied to one of several runs.

    Attributes:
        run: folder of the run.
        note: what a reader must know.
    """

    run: str
    note: CalibrationNote
