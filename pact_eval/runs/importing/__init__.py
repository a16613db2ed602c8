"""Logs made elsewhere, imported as runs: one file per format, one reader for all."""

from pact_eval.runs.importing.detection import SOURCE_NAMES, find_source
from pact_eval.runs.importing.row_reader import parse_mapping
from pact_eval.runs.importing.source import ImportedRows, ImportOptions
from pact_eval.runs.importing.writing import import_run

__all__ = [
    "SOURCE_NAMES",
    "ImportOptions",
    "ImportedRows",
    "find_source",
    "import_run",
    "parse_mapping",
]
