"""Logs, read without writing a run."""

from pathlib import Path

from pact_eval.importing.import_run import find_source, read_log
from pact_eval.importing.source import ImportedRows, ImportOptions
from pact_eval.runs.places import log_path, naming_urls


def read_rows(path: Path, options: ImportOptions | None = None) -> ImportedRows:
    """Reads a log as `import_run` does."""
    options, path = options or ImportOptions(), log_path(path)
    with naming_urls():
        return read_log(find_source(path, options.source), path, options)[0]
