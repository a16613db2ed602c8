"""The request for tables, figures and a page: the runs, and the choices of the reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Generic, TypeVar

from pact_eval._choices import Decoding
from pact_eval._files import sha256_of_file
from pact_eval._json import Json
from pact_eval.errors import InputError, RecordError
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.arms.arm_differences import Margin
from pact_eval.evaluation.arms.arm_metrics import NEEDS_RUNS, ArmMetrics
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.headline import headline
from pact_eval.evaluation.curves.training import (
    Trajectory,
    released_trajectories,
    selection_trajectory,
)
from pact_eval.evaluation.diagnostics import Topic
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.item_records import ItemRecords
from pact_eval.evaluation.notes import ViewsUse, views_notes
from pact_eval.evaluation.report import ReportDigest, report_digest
from pact_eval.evaluation.run_records import files_of
from pact_eval.evaluation.settings import Settings
from pact_eval.preregistration.run_scorecard import JudgedHypotheses, judge_experiment
from pact_eval.thresholds.conclusion import Acting, acting_of_arm
from pact_eval.thresholds.files import ThresholdsFile
from pact_reports.figures.style import NEUTRAL, Looks, Palette
from pact_reports.views.brief import report_line
from pact_reports.writers.json import attributes

# The default of `pact-eval scorecard`.
_SCORECARD_RESAMPLES: Final = 2_000


@dataclass(frozen=True)
class Request:
    """The runs, or published metrics, and the choices of the reader.

    Attributes:
        experiment: the runs, with the settings of all numbers: decoding, method and bootstrap.
        records: for a page, the records of the items; None leaves texts out.
        criteria: file of hypotheses for the scorecard.
        data: folders of datasets whose splits are counted.
        figures: for a page, names of the figures to draw; None draws all.
        tables: for a page, names of the tables to make; None makes all.
        palette: colours and display names of the arms.
        clear: by metric, the change that the table of ablations calls clear; without any, no
            change is marked.
        command: the command that makes a page, shown at its end.
        thresholds: files whose gates figures and tables show.
        grouped: for a page, the same runs, whose settings name a column other than the kind; None
            without one.
        published: published metrics, which are shown instead of runs; None shows the runs.
    """

    experiment: Experiment
    records: ItemRecords | None = None
    criteria: Path | None = None
    data: tuple[Path, ...] = ()
    figures: tuple[str, ...] | None = None
    tables: tuple[str, ...] | None = None
    palette: Palette = NEUTRAL
    clear: Mapping[str, Margin] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    thresholds: tuple[ThresholdsFile, ...] = ()
    grouped: Experiment | None = None
    published: ArmMetrics | None = None

    @property
    def names(self) -> ArmNames:
        """The display names of the arms.

        Raises:
            InputError: two arms would have the same one.
        """
        return self.looks.names

    @cached_property
    def looks(self) -> Looks:
        """The looks of the arms in figures; errors as `names`."""
        if self.published is not None:
            return Looks.of_published(self.published, self.palette)
        return Looks.of(self.experiment, self.palette)

    @property
    def source(self) -> Experiment | ArmMetrics:
        """What numbers are from: the runs, or the published metrics."""
        return self.experiment if self.published is None else self.published

    @property
    def decoding(self) -> Decoding:
        """Single (view 0) or ensemble (K views) for all that rests on one distribution."""
        return self.experiment.settings.decoding

    @cached_property
    def at_common_views(self) -> Request:
        """The same request of runs with the views that all of them have."""
        common = self.experiment.comparisons.at_common_views
        return self if common is self.experiment else replace(self, experiment=common)

    @cached_property
    def raw(self) -> Experiment:
        """The runs, raw and by kind, as tables show them unless their columns say otherwise."""
        settings = self.experiment.settings
        return replace(
            self.experiment,
            settings=replace(settings, calibrated=False, calibration=None, by="kind", margin=None),
        )

    @property
    def comparable(self) -> tuple[ExperimentRun, ...]:
        """The runs on full contexts, all on the same items.

        Raises:
            InputError: there are none, or their items differ.
        """
        if not self.experiment.runs:
            raise InputError("no run on full contexts")
        if not self.experiment.same_items:
            raise InputError("the runs hold different items, so their numbers cannot be compared")
        return self.experiment.runs

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

    @cached_property
    def trajectories(self) -> tuple[Sequence[Trajectory], tuple[str, ...]]:
        """How checkpoints were selected, by run, and why this is not known of some runs.

        Raises:
            InputError: it is not known of any run.
        """
        if self.published is not None:
            return released_trajectories(self.published), ()
        trajectories, missing = [], []
        for run in self.experiment.runs:
            try:
                trajectories.append(selection_trajectory(self.experiment, run))
            except InputError as error:
                why = reason(error).removeprefix(f"{run.label}: ")
                missing.append(f"{self.names.run(run.label)}: {why}")
        if not trajectories:
            raise InputError("; ".join(missing) or "no run on full contexts")
        return trajectories, tuple(missing)

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

    @cached_property
    def acting(self) -> Acting | None:
        """Whether the main arm may act alone; None if the settings name no target error."""
        if self.experiment.settings.target_error is None:
            return None
        return acting_of_arm(self.experiment)

    @property
    def compares(self) -> bool:
        """Whether there is a section on differences: of several runs, or with criteria."""
        return len(self.experiment.runs) > 1 or self.criteria is not None

    @cached_property
    def called(self) -> tuple[str, ...]:
        """What the runs are called, in their order: by their arms if each arm has one run."""
        experiment = self.experiment
        if len(experiment.arms) == len(experiment.runs):
            return tuple(self.names.arm(run.arm) for run in experiment.runs)
        return tuple(self.names.run(run.label) for run in experiment.runs)

    @cached_property
    def answer(self) -> str:
        """The first sentence: what the only run, or each of several, is worth."""
        experiment = self.experiment
        if len(experiment.runs) > 1:
            return headline(experiment, self.names)
        evaluation = experiment.report(experiment.runs[0]).evaluation
        return report_line(evaluation, experiment.data.leak)

    @cached_property
    def digest(self) -> ReportDigest:
        """The digest of the page: runs, settings, and all other inputs.

        Raises:
            InputError: a folder contains no dataset.
        """
        lock = None
        if self.criteria is not None:
            from pact_eval.preregistration.registration import lock_path

            lock = lock_path(self.criteria)
        inputs: dict[str, Json] = {
            "texts": None if self.records is None else [*self.records.files],
            "data": [
                [[file.name, file.role, sha256_of_file(file.path)] for file in files_of(folder)]
                for folder in self.data
            ],
            "criteria": None if self.criteria is None else sha256_of_file(self.criteria),
            "lock": sha256_of_file(lock) if lock is not None and lock.is_file() else None,
            "audit": _audit(self.experiment.data),
            "thresholds": [sha256_of_file(file.path) for file in self.thresholds],
            "clear_changes": {name: str(change) for name, change in sorted(self.clear.items())},
        }
        present = {name: value for name, value in inputs.items() if value}
        settings = (self.grouped or self.experiment).settings
        return report_digest(self.experiment.all_runs, settings, present)


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


def _audit(conclusion: DataConclusion) -> Json:
    """Return the audit that a page shows; None without one."""
    if conclusion.status == "not checked":
        return None
    return {
        **attributes(conclusion, "status", "records", "errors", "warnings", "failed"),
        "leaked": list(conclusion.items),
        "codes": {code: n for check in conclusion.checks for code, n in check.counts.items()},
    }


Made = TypeVar("Made")


@dataclass(frozen=True)
class Spec(Generic[Made]):
    """Entry of the registry of tables or of figures.

    Attributes:
        build: makes it; an InputError is the reason why there is none.
        topic: the section of a page that has it; what compares runs is with them if there is one.
        title: what a figure shows, for the page.
        views: when its numbers depend on K, so that runs are shown at the views that all have.
        published: whether it can be made from published metrics.
    """

    build: Callable[[Request], Made]
    topic: Topic
    title: str = ""
    views: ViewsUse = "ensembles"
    published: bool = False

    def made(self, request: Request) -> tuple[Made, tuple[str, ...]]:
        """Make it, of runs with the same number of views.

        Returns:
            What was made, and the notes on the views of its runs.

        Raises:
            InputError: it needs runs instead of published metrics, or as `build`.
        """
        if request.published is not None:
            if not self.published:
                raise InputError(NEEDS_RUNS)
            return self.build(request), ()
        of_views = request if self.views == "never" else request.at_common_views
        notes = views_notes(request.experiment, self.views, request.names)
        return self.build(of_views), notes
