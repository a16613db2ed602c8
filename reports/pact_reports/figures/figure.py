"""Figures: files made of panels, their names, and reasons for missing ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from pact_eval.errors import InputError, RecordError
from pact_eval.evaluation.arms.arm_metrics import NEEDS_RUNS, ArmMetrics
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.notes import ViewsUse, views_notes
from pact_eval.evaluation.settings import Settings
from pact_eval.thresholds.decision_curves import Decisions
from pact_reports.figures.style import Looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_STEM: Final = 80

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
        basis: counts of items and families, for a caption.
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
    basis: str = ""
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
        return tuple(
            replace(
                self,
                name=f"{self.name}-{number}",
                title=f"{self.title} ({number} of {len(parts)})",
                panels=panels,
            )
            for number, panels in enumerate(parts, start=1)
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


@dataclass(frozen=True)
class FigureSpec:
    """One figure of the registry.

    Attributes:
        title: what it shows.
        needs: what it cannot be drawn without, in words.
        build: makes its files; raises InputError with the reason if there are none.
        views: when its numbers depend on K, so that runs are shown at the views that all have.
        decide: makes its files with the thresholds and costs of a reader; None if it needs none.
        publish: makes its files from published metrics; None if it needs runs.
        on_page: whether a page has it unless figures are named: those that take long are not.
    """

    title: str
    needs: str
    build: Callable[[Experiment, Looks], Built]
    views: ViewsUse = "ensembles"
    decide: Callable[[Experiment, Looks, Decisions], Built] | None = None
    publish: Callable[[ArmMetrics, Settings, Looks], Built] | None = None
    on_page: bool = True

    def built(
        self, experiment: Experiment, looks: Looks, decisions: Decisions | None = None
    ) -> Built:
        """Make the files, of runs with the same number of views; raises as `build`."""
        if self.views == "never":
            return self._build(experiment, looks, decisions)
        figure = self._build(experiment.comparisons.at_common_views, looks, decisions)
        notes = views_notes(experiment, self.views, looks.names)
        return replace(figure, missing=(*figure.missing, *notes))

    def published(self, metrics: ArmMetrics, settings: Settings, looks: Looks) -> Built:
        """Make the files from published metrics, under the decoding and method of the settings.

        Raises:
            InputError: the figure needs runs, or as `publish`.
        """
        if self.publish is None:
            raise InputError(NEEDS_RUNS)
        return self.publish(metrics, settings, looks)

    def _build(self, experiment: Experiment, looks: Looks, decisions: Decisions | None) -> Built:
        if self.decide is not None and decisions is not None:
            return self.decide(experiment, looks, decisions)
        return self.build(experiment, looks)


def reason(error: InputError) -> str:
    """Return the reason that something cannot be drawn, on one line.

    Examples:
        >>> from pact_eval.errors import Problem, RecordError
        >>> reason(RecordError("log.jsonl", [Problem(1, None, "no step"), Problem(2, None, "no")]))
        'log.jsonl:1: no step (and 1 more)'
    """
    first, *more = str(error).splitlines() or [""]
    n_more = len(error.problems) - 1 if isinstance(error, RecordError) else 0
    if n_more > 0:
        return f"{first} (and {n_more:,} more)"
    return " ".join([first, *more])


def each_run(
    experiment: Experiment, looks: Looks, build: Callable[[ExperimentRun, str], FigureFile]
) -> Built:
    """Build a file for every run, and collect why some runs have none."""
    files: list[FigureFile] = []
    missing: list[str] = []
    for run in experiment.runs:
        name = looks.names.run(run.label)
        try:
            files.append(build(run, name))
        except InputError as error:
            why = reason(error).removeprefix(f"{run.label}: ")
            missing.append(f"{name}: {why}")
    if not experiment.runs:
        missing.append("no run on full contexts")
    return Built(tuple(files), tuple(missing))


def uncalibrated(experiment: Experiment, looks: Looks) -> tuple[str, ...]:
    """Return a note for every run without a calibrator, of which figures show raw values only."""
    without = [run.label for run in experiment.runs if run.calibrator is None]
    return tuple(
        f"{looks.names.run(label)}: no calibrator, so only raw values are shown"
        for label in without
    )


def stem(*parts: str) -> str:
    """Join parts into the stem of a file name: letters, digits, dashes and underscores.

    Examples:
        >>> stem("reliability", "../pact, seed 17")
        'reliability-pact-seed-17'
    """
    plain = [_UNSAFE.sub("-", part).strip("-") for part in parts]
    return "-".join(part for part in plain if part)[:_LONGEST_STEM]


def run_stem(figure: str, run: ExperimentRun) -> str:
    """Return the stem of a figure of one run, such as "reliability-pact-17"."""
    return stem(figure, run.arm, "" if run.seed is None else str(run.seed))
