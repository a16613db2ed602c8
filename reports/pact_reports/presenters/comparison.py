"""The comparison of items, and the common part of all comparisons of an experiment."""

from __future__ import annotations

from functools import partial
from typing import cast

from pact_eval._json import Json
from pact_eval.evaluation.comparison import Comparison
from pact_eval.evaluation.experiment import Experiment
from pact_eval.numbers import GENERALISATION
from pact_reports.presenters.presenter import Presenter
from pact_reports.table import Line
from pact_reports.tables.brief_comparison import cautions, decoding_text
from pact_reports.tables.comparison import comparison_parts
from pact_reports.writers.json import to_json, warnings_json


def present(comparison: Comparison) -> Presenter:
    """Present a comparison of items that are not from runs."""
    return Presenter(
        tables=partial(comparison_parts, comparison),
        to_json=lambda: cast("dict[str, Json]", to_json(comparison)),
    )


def heading(experiment: Experiment) -> tuple[Line, ...]:
    """Say which distributions are compared, and in what runs differ."""
    decoding = f"Decoding: {decoding_text(experiment)}."
    return (Line(decoding), *cautions(experiment))


def experiment_json(experiment: Experiment) -> dict[str, Json]:
    """Return what holds for all comparisons of an experiment as JSON values."""
    return {
        "decoding": {**experiment.settings.label},
        "intervals": GENERALISATION[experiment.settings.unit],
        "unlike_runs": [*map(to_json, experiment.unlike)],
        "warnings": warnings_json(experiment.applied_warnings),
    }
