"""What a page is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pact_eval.evaluation import AblatedEvaluation, RunCollection, Settings
from pact_eval.runs import Decoding
from pact_reports.figures import FigureRequest
from pact_reports.page.dataset import ItemRecords
from pact_reports.page.item_columns import DecodedRun, decoded
from pact_reports.tables import TableRequest
from pact_reports.tables.run_reports import RunReport

__all__ = ["PageRequest", "Progress"]

Progress = Callable[[int, int], None]
"""Called with how many parts of how many are made."""


@dataclass(frozen=True)
class PageRequest:
    """What a page is made from, and what a reader chose.

    Attributes:
        collection: the runs.
        records: those behind the items; None leaves texts out.
        decoding: single (view 0) or ensemble (K views) for all that rests on one distribution.
        method: arm that the others are compared with; None takes that of the first run with a seed.
        criteria: file of hypotheses for the scorecard.
        data: folders of datasets whose splits are counted.
        resamples: bootstrap resamples; None takes as many as the report does.
        bootstrap_seed: seed of the bootstrap.
        figures: names of the figures to draw; None draws all.
        tables: names of the tables to make; None makes all.
        command: that the page was made with, for its last lines.
    """

    collection: RunCollection
    records: ItemRecords | None = None
    decoding: Decoding = "single"
    method: str | None = None
    criteria: Path | None = None
    data: tuple[Path, ...] = ()
    resamples: int | None = None
    bootstrap_seed: int = 0
    figures: tuple[str, ...] | None = None
    tables: tuple[str, ...] | None = None
    command: tuple[str, ...] = ()

    @cached_property
    def for_tables(self) -> TableRequest:
        """The same for tables."""
        return TableRequest(
            collection=self.collection,
            decoding=self.decoding,
            method=self.method,
            criteria=self.criteria,
            data=self.data,
            resamples=self.resamples,
            bootstrap_seed=self.bootstrap_seed,
        )

    @cached_property
    def for_figures(self) -> FigureRequest:
        """The same for figures."""
        return FigureRequest(self.collection, self.decoding, self.resamples, self.bootstrap_seed)

    @cached_property
    def decoded(self) -> tuple[DecodedRun, ...]:
        """The runs on whole contexts under the decoding.

        Raises:
            InputError: there is no such decoding of a run.
        """
        return tuple(decoded(run, self.decoding) for run in self.collection.runs)

    @property
    def reports(self) -> tuple[RunReport, ...]:
        """What `pact-eval report` says of the runs on whole contexts; computed once.

        Raises:
            InputError: there is no such decoding of a run.
        """
        return tuple(self.for_tables.report(run) for run in self.collection.runs)

    def ablated_reports(self) -> tuple[AblatedEvaluation, ...]:
        """Return what `pact-eval report` says of the runs on ablated contexts.

        Raises:
            InputError: there is no such decoding of a run.
        """
        settings = Settings(
            decoding=self.decoding, resamples=self.resamples, seed=self.bootstrap_seed
        )
        experiment = replace(self.collection, settings=settings)
        return tuple(experiment.ablated_evaluation(run) for run in experiment.ablated)
