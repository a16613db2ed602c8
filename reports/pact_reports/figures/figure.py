"""What a figure is: plates made of panels, and the figures that are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from pact_eval.errors import InputError, RecordError
from pact_eval.evaluation import CollectedRun, RunCollection, ScoredItems, default_resamples
from pact_eval.runs import Decoding
from pact_reports.figures.style import COLUMN_INCHES, RunStyles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ECE_LEANS",
    "Built",
    "FigureRequest",
    "FigureSpec",
    "Panel",
    "Plate",
    "each_run",
    "reason",
]

ECE_LEANS: Final = (
    "The bootstrap of ECE leans upwards: ECE can stand at the low end of its interval or below it, "
    "and that is no error."
)
"""Said beside figures that show ECE with an interval."""

_MOST_BAND_RESAMPLES = 1_000

Panel: TypeAlias = "Callable[[Axes], Axes]"
"""Draws a result into axes that are given, and returns them."""


@dataclass(frozen=True)
class FigureRequest:
    """What figures are made from.

    Attributes:
        collection: the runs.
        decoding: single (view 0) or ensemble (K views) for all that rests on one distribution.
        resamples: bootstrap resamples; None takes as many as the report does.
        bootstrap_seed: seed of the bootstrap; every figure starts from it.
    """

    collection: RunCollection
    decoding: Decoding = "single"
    resamples: int | None = None
    bootstrap_seed: int = 0

    @property
    def styles(self) -> RunStyles:
        """The looks of arms and seeds."""
        return RunStyles.of(self.collection)

    @property
    def rng(self) -> np.random.Generator:
        """A generator of its own for each figure, so that none depends on what stands beside it."""
        return np.random.default_rng(self.bootstrap_seed)

    def resamples_for(self, items: int) -> int:
        """Return the number of resamples of an interval: that of the report."""
        return self.resamples or default_resamples(items)

    def band_resamples_for(self, items: int) -> int:
        """Return the number of resamples of a band, which costs a whole curve each."""
        return min(_MOST_BAND_RESAMPLES, self.resamples_for(items))

    def scored(self, run: CollectedRun, *, calibrated: bool = False) -> ScoredItems:
        """Return a run's items under the decoding.

        Raises:
            InputError: there is no such decoding of the run, or no calibrator.
        """
        try:
            return run.scored(self.decoding, calibrated=calibrated)
        except InputError:
            raise
        except ValueError as error:
            message = f"{run.label}: {error}"
            raise InputError(message) from None


@dataclass(frozen=True)
class Plate:
    """One drawing, a file in each format.

    Attributes:
        name: of the file, without ending.
        title: what it shows, in words; the SVG carries it for those who cannot see.
        panels: from left to right, then down.
        columns: panels beside each other.
        height: in inches.
        note: stands under all panels: what whiskers and marks mean, lines broken by hand.
        caption: what a reader has to know beside it, in sentences, where there is room.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    columns: int = 1
    height: float = 2.3
    note: str = ""
    caption: str = ""

    @property
    def width(self) -> float:
        """In inches."""
        return COLUMN_INCHES


@dataclass(frozen=True)
class Built:
    """The plates of a figure, and why there are not more.

    Attributes:
        plates: what can be drawn; none where the figure is skipped.
        missing: what could not be, in sentences.
    """

    plates: tuple[Plate, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class FigureSpec:
    """One figure that is known.

    Attributes:
        title: what it shows.
        needs: what it cannot be drawn without, in words.
        build: makes its plates; an InputError is the reason why there are none.
    """

    title: str
    needs: str
    build: Callable[[FigureRequest], Built]


def reason(error: InputError) -> str:
    """Return why something cannot be drawn, in one line: a file's first problem stands for all.

    Example:
        >>> from pact_eval.errors import Problem, RecordError
        >>> reason(RecordError("log.jsonl", [Problem(1, None, "no step"), Problem(2, None, "no")]))
        'log.jsonl:1: no step (and 1 more)'
    """
    first, *more = str(error).splitlines() or [""]
    n_more = len(error.problems) - 1 if isinstance(error, RecordError) else 0
    if n_more > 0:
        return f"{first} (and {n_more:,} more)"
    return " ".join([first, *more])


def each_run(request: FigureRequest, build: Callable[[CollectedRun], Plate]) -> Built:
    """Build a plate of every run, and gather why some have none."""
    plates: list[Plate] = []
    missing: list[str] = []
    for run in request.collection.runs:
        try:
            plates.append(build(run))
        except InputError as error:
            said = reason(error)
            missing.append(said if said.startswith(run.label) else f"{run.label}: {said}")
    if not request.collection.runs:
        missing.append("no run on whole contexts")
    return Built(tuple(plates), tuple(missing))
