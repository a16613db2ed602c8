"""Notes on a calibrator that is applied to a run, each with its sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pact_eval._choices import Decoding
from pact_eval.notes import Note
from pact_eval.runs.identity import Fact

ScoreName: TypeAlias = Literal["nll_nats", "brier"]
"""A proper score, by which a calibrator is judged."""

_TITLES: Final[dict[ScoreName, str]] = {"nll_nats": "NLL", "brier": "Brier"}
_SHOWN: Final = 3


@dataclass(frozen=True)
class UnknownFamilies(Note):
    """Not all families are known, so the calibrator may have been fitted on some of the items."""

    def __str__(self) -> str:
        return (
            "not all families are known, so it is unknown whether the fit used some of these items"
        )


@dataclass(frozen=True)
class SharedSourceFamilies(Note):
    """Source families that are both in the fit and in the run.

    Attributes:
        names: of these source families, sorted.
    """

    names: tuple[str, ...]

    def __str__(self) -> str:
        more = f" and {len(self.names) - _SHOWN:,} more" if len(self.names) > _SHOWN else ""
        return (
            f"source families both in the fit and in this run: {len(self.names):,} "
            f"({', '.join(self.names[:_SHOWN])}{more}); how the fit does on new sources is not "
            "shown"
        )


@dataclass(frozen=True)
class UnknownRun(Note):
    """The calibrator or the run does not record its model, so they may not belong together."""

    def __str__(self) -> str:
        return (
            "the fit or the run does not record its model, so it is unknown whether "
            "they belong together"
        )


@dataclass(frozen=True)
class OtherRun(Note):
    """A calibrator of another run, which the user allowed.

    Attributes:
        facts: in what the runs differ.
    """

    facts: tuple[Fact, ...]

    def __str__(self) -> str:
        return f"fitted on a run of another {' and another '.join(self.facts)}, as allowed"


@dataclass(frozen=True)
class FittedOnTraining(Note):
    """The calibrator was fitted on data that the adapter was trained on, which the user allowed.

    Attributes:
        families: number of these families.
    """

    families: int

    def __str__(self) -> str:
        return (
            f"fitted on {self.families:,} families that the model may have learnt, as allowed: "
            "its temperatures may be too low"
        )


@dataclass(frozen=True)
class NeutralTemperatures(Note):
    """Temperatures that are all 1: the calibrator changes nothing."""

    def __str__(self) -> str:
        return "every temperature is 1: this calibrator changes nothing"


@dataclass(frozen=True)
class DifferentDecoding(Note):
    """A calibrator is applied to another decoding than that of its fit.

    Attributes:
        fitted: decoding of the fit.
        applied: decoding that it is applied to.
    """

    fitted: str
    applied: Decoding

    def __str__(self) -> str:
        return f"fitted on the {self.fitted} decoding, applied to the {self.applied} one"


@dataclass(frozen=True)
class UnseenKind(Note):
    """The fit had no items of a kind, so the temperature of that kind is 1.

    Attributes:
        field_kind: choice, boolean or score.
    """

    field_kind: str

    def __str__(self) -> str:
        return f"fitted without items of kind {self.field_kind}: T = 1 there"


@dataclass(frozen=True)
class OutsideFit(Note):
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

    def __str__(self) -> str:
        return (
            f"{self.outside:,} of {self.items:,} items have {self.quantity} outside the "
            f"{self.low:,} to {self.high:,} of the fit: their temperatures are extrapolated"
        )


@dataclass(frozen=True)
class WorseScore(Note):
    """A proper score that is shown to be worse after calibration.

    Attributes:
        group: "all", or a field kind.
        score: its name.
        before: uncalibrated.
        after: calibrated.
        low: lower end of the paired interval of the change, above 0.
        high: upper end.

    Examples:
        >>> str(WorseScore("all", "nll_nats", 0.52, 0.55, 0.01, 0.05))
        'NLL of all items got worse: 0.5200 to 0.5500 nats; change [0.0100, 0.0500]'
    """

    group: str
    score: ScoreName
    before: float
    after: float
    low: float
    high: float

    def __str__(self) -> str:
        where = "all items" if self.group == "all" else f"{self.group} items"
        unit = " nats" if self.score == "nll_nats" else ""
        return (
            f"{_TITLES[self.score]} of {where} got worse: {self.before:.4f} to {self.after:.4f}"
            f"{unit}; change [{self.low:.4f}, {self.high:.4f}]"
        )


@dataclass(frozen=True)
class RoundedItems(Note):
    """The probabilities of a run are known up to an interval, before it was calibrated.

    Attributes:
        decimals: to how many decimals a server has rounded them; None if the log lists only the
            most probable tokens.
        censored: items whose correct answer was rounded to 0, or not listed, in some view of the
            decoding.
        items: number of all items.

    Examples:
        >>> str(RoundedItems(2, 0, 40))
        'probabilities are rounded to 2 decimals; no correct answer was rounded to 0'
        >>> str(RoundedItems(2, 3, 40)).partition(": ")[2]
        'they count as 0.005 or less, and NLL and T depend on that'
    """

    decimals: int | None
    censored: int
    items: int

    def __str__(self) -> str:
        if self.decimals is None:
            return (
                f"the log lists only the most probable tokens; {self.censored:,} of {self.items:,} "
                "correct answers are not among them: they count as the least probable listed "
                "token, and NLL and T depend on that"
            )
        rounding = f"probabilities are rounded to {self.decimals} decimals"
        if not self.censored:
            return f"{rounding}; no correct answer was rounded to 0"
        return (
            f"{rounding}; {self.censored:,} of {self.items:,} correct answers were rounded to 0: "
            f"they count as {0.5 * 10**-self.decimals:g} or less, and NLL and T depend on that"
        )


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

    def __str__(self) -> str:
        return f"{self.run}: {self.note}"
