"""Figures: files made of panels, their names, and reasons for missing ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from pact_eval.errors import InputError
from pact_eval.evaluation.arms.released_training import ReleasedTraining
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_reports.request import Request, reason

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_STEM: Final = 80

Run = TypeVar("Run", ExperimentRun, ReleasedTraining)

Panel: TypeAlias = "Callable[[Axes], Axes]"
"""Draws a result into the given axes, and returns them."""


@dataclass(frozen=True)
class FigureFile:
    """One drawing, a file in each format.

    Attributes:
        name: of the file, without its suffix.
        title: what it is of, in words.
        panels: from left to right, then down.
        inches: height of a row of panels, without its legend.
        square: whether axes are as high as they are wide, whatever `inches` is.
        panel_inches: the width from which on one more panel fits into a row.
        shared_rows: whether rows have names, which only the first panel of each line shows.
        note: text below all panels: what marks mean that the legend cannot show.
        caption: what else a reader must know, as sentences, if there is room.
        shows: what its title leaves out, for a second line.
        remark: what is not drawn and a reader must know, for the metadata of the file.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    inches: float = 2.0
    square: bool = False
    panel_inches: float = 2.5
    shared_rows: bool = False
    note: str = ""
    caption: str = ""
    shows: str = ""
    remark: str = ""

    def columns_at(self, width: float) -> int:
        """Return the number of panels next to each other in a drawing of this width in inches."""
        return min(len(self.panels), max(1, int(width / self.panel_inches)))

    def split(self, size: int) -> tuple[FigureFile, ...]:
        """Return files of at most so many panels each, with a number in name and title if several.

        Example:
            >>> [part.name for part in FigureFile("main", "", (max, min, max)).split(2)]
            ['main-1', 'main-2']
        """
        parts = [self.panels[at : at + size] for at in range(0, len(self.panels), size)]
        if len(parts) < 2:
            return (self,)
        numbered = ((f"{at}", f"{at} of {len(parts)}") for at in range(1, len(parts) + 1))
        return tuple(
            replace(self, name=f"{self.name}-{at}", title=f"{self.title} ({of})", panels=panels)
            for (at, of), panels in zip(numbered, parts, strict=True)
        )

    @property
    def full_title(self) -> str:
        """Its title on one line, with what it shows; the accessible name of the SVG."""
        return f"{self.title}: {self.shows}" if self.shows else self.title


@dataclass(frozen=True)
class Built:
    """The files of a figure, and its missing parts.

    Attributes:
        files: what can be drawn; empty if the figure is skipped.
        missing: what cannot be drawn and why, one text per part.
    """

    files: tuple[FigureFile, ...]
    missing: tuple[str, ...] = ()


def each_run(
    request: Request, runs: Sequence[Run], build: Callable[[Run, str], FigureFile]
) -> Built:
    """Build a file for every run, and collect why some runs have none.

    Args:
        request: names the runs.
        runs: in their order.
        build: makes the file of a run, which it is given with its name; the name of the file is
            completed by the arm and the seed of the run.
    """
    files: list[FigureFile] = []
    missing: list[str] = []
    for run in runs:
        name = request.names.run(run.label)
        try:
            file = build(run, name)
            files.append(replace(file, name=run_stem(file.name, run.arm, run.seed)))
        except InputError as error:
            why = reason(error).removeprefix(f"{run.label}: ")
            missing.append(f"{name}: {why}")
    if not runs:
        missing.append("no run on full contexts")
    return Built(tuple(files), tuple(missing))


def uncalibrated(
    request: Request, note: str = "no calibrator, so only raw values are shown"
) -> tuple[str, ...]:
    """Return a note for every run without a calibrator; none for published metrics."""
    without = [run.label for run in request.experiment.runs if run.calibrator is None]
    return tuple(f"{request.names.run(label)}: {note}" for label in without)


def run_stem(figure: str, arm: str, seed: int | str | None) -> str:
    """Return the stem of a file of one run: letters, digits, dashes and underscores.

    Examples:
        >>> run_stem("reliability", "../pact", 17)
        'reliability-pact-17'
        >>> run_stem("differences", "pact, full", "base")
        'differences-pact-full-base'
    """
    parts = (figure, arm, "" if seed is None else f"{seed}")
    plain = [_UNSAFE.sub("-", part).strip("-") for part in parts]
    return "-".join(filter(None, plain))[:_LONGEST_STEM]
