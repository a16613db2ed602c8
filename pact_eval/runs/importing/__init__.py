"""Predictions made elsewhere, imported as runs: one file per source."""

from pact_eval.runs.importing.json_lines import import_run, parse_mapping

__all__ = ["import_run", "parse_mapping"]
