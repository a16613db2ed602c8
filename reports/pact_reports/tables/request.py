"""Request for tables: the runs and the choices of the reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from pact_eval._choices import Decoding
from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.arms.comparison import Margin
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.notes import ViewsUse
from pact_eval.evaluation.run_records import files_of
from pact_eval.evaluation.settings import Settings
from pact_eval.preregistration.run_scorecard import JudgedHypotheses, judge_experiment
from pact_eval.thresholds.decision_curves import Decisions
from pact_reports.table import Table

# The default of `pact-eval scorecard`.
_SCORECARD_RESAMPLES: Final = 2_000


@dataclass(frozen=True)
class TableRequest:
    """Request for tables.

    Attributes:
        experiment: the runs, with the settings of all numbers: decoding, method and bootstrap.
        criteria: file of hypotheses for the scorecard.
        data: folders of datasets whose splits are counted.
        clear: by metric, the change that the table of ablations calls clear; without any, no
            change is marked.
        names: display names of arms.
        decisions: thresholds and costs, for tables of decisions.
        published: published metrics, which are shown instead of runs; None shows the runs.
    """

    experiment: Experiment
    criteria: Path | None = None
    data: tuple[Path, ...] = ()
    clear: Mapping[str, Margin] = field(default_factory=dict)
    names: ArmNames = KEYS
    decisions: Decisions | None = None
    published: ArmMetrics | None = None

    @property
    def decoding(self) -> Decoding:
        """Single (view 0) or ensemble (K views) for all that rests on one distribution."""
        return self.experiment.settings.decoding

    @cached_property
    def raw(self) -> Experiment:
        """The runs, raw and by kind, as tables show them unless their columns say otherwise."""
        settings = self.experiment.settings
        return replace(
            self.experiment.comparisons.at_common_views,
            settings=replace(settings, calibrated=False, calibration=None, by="kind", margin=None),
        )

    @property
    def comparable(self) -> tuple[ExperimentRun, ...]:
        """The runs on full contexts, all on the same items and with the same number of views.

        Raises:
            InputError: there are none, or their items differ.
        """
        if not self.experiment.runs:
            raise InputError("no run on full contexts")
        if not self.experiment.same_items:
            raise InputError("the runs hold different items, so their numbers cannot be compared")
        return self.experiment.comparisons.at_common_views.runs

    @cached_property
    def metrics(self) -> ArmMetrics:
        """Every metric of every run under every decoding, for all items and by kind.

        Raises:
            InputError: as `comparable`.
        """
        if self.published is not None:
            return self.published
        _ = self.comparable
        return ArmMetrics.of_runs(self.raw)

    @property
    def main_arm(self) -> str:
        """The arm that the others are compared with; errors as `Experiment.main_arm`."""
        if self.published is not None:
            return self.published.main_arm(self.experiment.settings.method)
        return self.experiment.main_arm

    @cached_property
    def judged(self) -> JudgedHypotheses:
        """The criteria judged on all runs, those on ablated contexts too.

        Raises:
            InputError: no criteria were given, they or the runs cannot be read, or runs on contexts
                of one sort hold other items.
            RecordError: the criteria cannot be understood.
        """
        if self.criteria is None:
            raise InputError("no criteria were given (paper --criteria, or scorecard --html)")
        chosen = self.experiment.settings
        settings = Settings(resamples=chosen.resamples or _SCORECARD_RESAMPLES, seed=chosen.seed)
        files = () if self.published is None else self.published.files
        return judge_experiment(self.criteria, replace(self.experiment, settings=settings), files)

    def check(self) -> None:
        """Refuse choices that cannot be met, so none is silently ignored.

        Raises:
            InputError: no run is of the method, the criteria are missing, or a folder holds no
                dataset.
            RecordError: the criteria cannot be understood.
        """
        if self.experiment.settings.method is not None:
            _ = self.main_arm
        if self.criteria is not None:
            from pact_eval.preregistration.criteria import read_hypotheses

            read_hypotheses(self.criteria)
        for folder in self.data:
            files_of(folder)


@dataclass(frozen=True)
class TableSpec:
    """Entry of the registry of tables.

    Attributes:
        title: what it shows.
        needs: what it cannot be made without, in words.
        build: makes it; an InputError is the reason why there is none.
        views: when its numbers depend on K, so that runs are shown at the views that all have.
        published: whether it can be made from published metrics.
    """

    title: str
    needs: str
    build: Callable[[TableRequest], Table]
    views: ViewsUse = "ensembles"
    published: bool = False
