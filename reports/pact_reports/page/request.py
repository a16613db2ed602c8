"""The input of a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pact_eval._files import sha256_of_file
from pact_eval._json import Json
from pact_eval.evaluation.arm_names import ArmNames, names_in
from pact_eval.evaluation.arms.comparison import Margin
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.headline import headline
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import ItemRecords
from pact_eval.evaluation.report import ReportDigest, report_digest
from pact_eval.evaluation.run_records import files_of
from pact_eval.thresholds.conclusion import Acting, acting_of_arm
from pact_eval.thresholds.decision_curves import Decisions
from pact_reports.figures.style import NEUTRAL, Palette
from pact_reports.tables.request import TableRequest
from pact_reports.views.brief import report_line
from pact_reports.writers.json import attributes


@dataclass(frozen=True)
class PageRequest:
    """The runs of a page and the choices of the user.

    Attributes:
        experiment: the runs, with the settings for all numbers.
        records: the records of the items; None leaves texts out.
        criteria: file of hypotheses for the scorecard.
        data: dataset folders whose splits are counted.
        figures: names of the figures to draw; None draws all.
        tables: names of the tables to make; None makes all.
        palette: colours and display names of the arms.
        audit: what an audit of the data found.
        clear: by metric, the smallest change that the table of ablations marks as clear.
        command: the command that makes the page, shown at its end.
        decisions: thresholds and costs, for figures and tables of decisions.
        grouped: the same runs, whose settings name a column other than the kind; None without one.
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
    audit: DataConclusion = field(
        default_factory=lambda: DataConclusion.without_audit("no dataset was given")
    )
    decisions: Decisions | None = None
    grouped: Experiment | None = None

    @cached_property
    def names(self) -> ArmNames:
        """The display names of the arms.

        Raises:
            InputError: two arms would have the same one.
        """
        return names_in(self.experiment, self.palette.names)

    @cached_property
    def for_tables(self) -> TableRequest:
        """The request for the tables of the page."""
        return TableRequest(
            *(self.experiment, self.criteria, self.data, self.clear, self.names),
            decisions=self.decisions,
        )

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
            "audit": _audit(self.audit),
            "decisions": _decisions(self.decisions),
            "clear_changes": {name: str(change) for name, change in sorted(self.clear.items())},
        }
        present = {name: value for name, value in inputs.items() if value}
        settings = (self.grouped or self.experiment).settings
        return report_digest(self.experiment.all_runs, settings, present)


def _decisions(decisions: Decisions | None) -> Json:
    """Return the thresholds and costs of a page; None without any."""
    if decisions is None:
        return None
    costs = decisions.costs
    return {
        "thresholds": [sha256_of_file(file.path) for file in decisions.files],
        "costs": None if costs is None else [costs.cost_wrong, costs.cost_review],
    }


def _audit(conclusion: DataConclusion) -> Json:
    """Return the audit that a page shows; None without one."""
    if conclusion.status == "not checked":
        return None
    return {
        **attributes(conclusion, "status", "records", "errors", "warnings", "failed"),
        "leaked": list(conclusion.items),
        "codes": {code: n for check in conclusion.checks for code, n in check.counts.items()},
    }
