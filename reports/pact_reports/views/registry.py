"""The one registry of views: where a result is presented, by the name of its type."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from pact_reports.views.presenter import Presenter

VIEWS: Final[Mapping[str, tuple[str, str]]] = {
    "AblatedFile": ("datasets", "present_ablated_file"),
    "Acting": ("thresholds", "present_acting"),
    "AdapterAudit": ("audit", "present_adapter_audit"),
    "AnswerSets": ("thresholds", "present_answer_sets"),
    "AnswerSetsCheck": ("thresholds", "present_answer_sets_check"),
    "CheckedReport": ("verification", "present_checked_report"),
    "ConvertedFile": ("datasets", "present_converted_file"),
    "DataAudit": ("audit", "present_data_audit"),
    "DatasetDiff": ("datasets", "present_dataset_diff"),
    "Drift": ("drift", "present_drift"),
    "Evaluation": ("report", "present_evaluation"),
    "ExperimentOutcome": ("experiment", "present_experiment_outcome"),
    "Export": ("export", "present_export"),
    "FittedRun": ("calibration", "present_fitted_run"),
    "JudgedHypotheses": ("hypotheses", "present_judged_hypotheses"),
    "Lock": ("datasets", "present_lock"),
    "Release": ("comparison", "present_release"),
    "RemedyComparison": ("sweep", "present_remedy_comparison"),
    "Run": ("run_list", "present_run"),
    "RunComparison": ("comparison", "present_run_comparison"),
    "RunEvaluation": ("report", "present_run_evaluation"),
    "RunReport": ("report", "present_whole_report"),
    "SamplePlan": ("sample_sizes", "present_sample_plan"),
    "ServedDecisions": ("servers", "present_served_decisions"),
    "ServerProbe": ("servers", "present_server_probe"),
    "Split": ("datasets", "present_split"),
    "Thresholds": ("thresholds", "present_thresholds"),
    "ThresholdsCheck": ("thresholds", "present_thresholds_check"),
    "UnlabelledDrift": ("drift", "present_unlabelled_drift"),
    "WrittenManifest": ("datasets", "present_written_manifest"),
    "WrittenReport": ("written_report", "present_written_report"),
}
"""By type: the module of this package, and its function. The function takes the result, and
keywords with defaults for what only a command knows. Modules are imported when they are needed."""


def presenter_of(result: object) -> Presenter:
    """Return the presenter of a result.

    Args:
        result: what a function of `pact_eval` returned.

    Raises:
        TypeError: neither its type nor a base of it is in `VIEWS`.

    Example:
        >>> presenter_of("text")
        Traceback (most recent call last):
            ...
        TypeError: no presenter of results of type str
    """
    for kind in type(result).__mro__:
        if kind.__name__ in VIEWS:
            module, function = VIEWS[kind.__name__]
            presenter: Presenter = getattr(import_module(f"{__package__}.{module}"), function)(
                result
            )
            return presenter
    raise TypeError(f"no presenter of results of type {type(result).__name__}")
