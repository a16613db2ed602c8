"""Results for Python: HTML for notebooks, text, JSON, and the outputs of a report on runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from pact_eval._choices import FigureStyle
from pact_eval._files import write_atomically
from pact_eval._json import Json, dumps_indented
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.arms.published import read_published
from pact_eval.results import Result, Writable
from pact_eval.thresholds.answer_sets import AnswerSets
from pact_eval.thresholds.choice import Thresholds
from pact_eval.thresholds.files import ThresholdsFile, read_thresholds, write_choice
from pact_reports.figures.axes import Width
from pact_reports.page.html import render
from pact_reports.views.registry import presenter_of
from pact_reports.writers import terminal

_COLUMNS: Final = 92


def to_html(result: Result) -> str:
    """Lay out a result as HTML that needs no style sheet and runs no script.

    Args:
        result: what a function of `pact_eval` returned.

    Returns:
        HTML; all text from data is escaped.
    """
    return str(render("parts.html", parts=presenter_of(result).parts()))


def to_text(result: Result) -> str:
    """Lay out a result as text of at most 92 columns, with ASCII borders.

    Args:
        result: what a function of `pact_eval` returned.
    """
    return terminal.to_text(*presenter_of(result).parts(), width=_COLUMNS).rstrip("\n")


def write(result: Writable, path: Path | str) -> Path:
    """Write the file of a result that other commands read; see `Writable`.

    Args:
        result: what a function of `pact_eval` returned.
        path: the file.

    Raises:
        InputError: the file cannot be written.
    """
    match result:
        case Thresholds() | AnswerSets():
            write_choice(Path(path), result)
        case _:
            write_atomically(Path(path), dumps_indented(to_json(result)))
    return Path(path)


def to_json(result: Result) -> dict[str, Json]:
    """Return a result as the object that a command prints with `--json`, if all is shown.

    Args:
        result: what a function of `pact_eval` returned.
    """
    return presenter_of(result).json()


@dataclass(frozen=True)
class Outputs:
    """Outputs to write, and inputs in addition to the runs.

    Attributes:
        html: file of the page.
        figures: folder of figures.
        tables: folder of tables.
        figure_names: keys of `FIGURES`; None draws all.
        figure_formats: svg, pdf or png; None writes SVG, or PDF in the style of a template.
        figure_style: key of `STYLES`.
        figure_width: "column", "text", or inches.
        table_names: keys of `TABLES`; None makes all.
        table_formats: latex, markdown or csv.
        palette: TOML file with the colours and display names of arms.
        arms: by arm, its `colour`, `marker` and `name`; the palette file comes first.
        arms_source: the file that `arms` is from, for messages.
        clear: TOML file with the changes of metrics that the table of ablations calls clear.
        data: files of records, or folders of datasets.
        criteria: hypotheses for the scorecard.
        command: the command line, for the last lines of the page.
        thresholds: files whose gates figures and tables show.
        published: tables of published metrics, which tables and figures show instead of runs.
    """

    html: Path | None = None
    figures: Path | None = None
    tables: Path | None = None
    figure_names: tuple[str, ...] | None = None
    figure_formats: tuple[str, ...] | None = None
    figure_style: FigureStyle = "default"
    figure_width: Width = "column"
    table_names: tuple[str, ...] | None = None
    table_formats: tuple[str, ...] = ("latex", "markdown", "csv")
    palette: Path | None = None
    arms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    arms_source: Path | None = None
    clear: Path | None = None
    data: tuple[Path, ...] = ()
    criteria: Path | None = None
    command: tuple[str, ...] = ()
    thresholds: tuple[Path, ...] = ()
    published: tuple[Path, ...] = ()

    @cached_property
    def metrics(self) -> ArmMetrics | None:
        """The published metrics, read; None if the runs are shown.

        Raises:
            InputError: a table cannot be read.
            RecordError: a row of a table cannot be understood.
        """
        return read_published(self.published) if self.published else None

    @property
    def gates(self) -> tuple[ThresholdsFile, ...]:
        """The thresholds, read.

        Raises:
            InputError: a file cannot be read.
            TamperedError: a file has changed since it was written.
        """
        return tuple(map(read_thresholds, self.thresholds))

    @property
    def any_table(self) -> bool:
        """Whether something with tables is written."""
        return self.html is not None or self.tables is not None
