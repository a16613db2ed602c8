"""Outputs of a report on runs, and its inputs in addition to the runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pact_eval._choices import FigureStyle
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.arms.published import read_published
from pact_eval.thresholds.decision_curves import Decisions
from pact_reports.figures.axes import Width


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
        cost_wrong: cost of a wrong decision, for figures and tables of costs.
        cost_review: cost of a review by a person.
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
    cost_wrong: float | None = None
    cost_review: float | None = None
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
    def decisions(self) -> Decisions | None:
        """The thresholds and costs, read; None without any.

        Raises:
            InputError: a file cannot be read, or the costs are not two.
            TamperedError: a file has changed since it was written.
        """
        if not self.thresholds and self.cost_wrong is None and self.cost_review is None:
            return None
        return Decisions.of(self.thresholds, wrong=self.cost_wrong, review=self.cost_review)

    @property
    def any_table(self) -> bool:
        """Whether something with tables is written."""
        return self.html is not None or self.tables is not None
