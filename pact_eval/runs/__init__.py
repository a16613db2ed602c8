"""Run folders: provenance and predictions, written part by part; imports and training logs."""

from pact_eval.runs.folder import (
    Run,
    RunFolder,
    RunWriter,
    open_run,
    read_any_run,
    read_run,
)
from pact_eval.runs.importing import import_run, parse_mapping
from pact_eval.runs.predictions import (
    ABLATED_SCHEMA,
    SCHEMA,
    Decoding,
    Predictions,
    check_columns,
)
from pact_eval.runs.provenance import Provenance
from pact_eval.runs.training_log import SELECTION_NLL, TrainingLog, training_log_of_run

__all__ = [
    "ABLATED_SCHEMA",
    "SCHEMA",
    "SELECTION_NLL",
    "Decoding",
    "Predictions",
    "Provenance",
    "Run",
    "RunFolder",
    "RunWriter",
    "TrainingLog",
    "check_columns",
    "import_run",
    "open_run",
    "parse_mapping",
    "read_any_run",
    "read_run",
    "training_log_of_run",
]
