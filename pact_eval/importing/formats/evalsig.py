"""Source "evalsig": a run of evalsig, one JSON object.

{"run_id", "model_id", "task_id", "metric_name",
"items": [{"item_id", "cluster_id", "score", "epoch", "metadata"}]}
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pact_eval.data.labelled.entries import Entry
from pact_eval.errors import InputError
from pact_eval.importing.graded import GradedSource
from pact_eval.importing.source import ImportOptions, Log, Start, as_dict, read_large_json

_KEYS: Final = ("run_id", "model_id", "task_id", "metric_name", "items")


class Evalsig(GradedSource):
    """A run of evalsig."""

    title = "evalsig"
    reads = "JSON"
    ids = ("item_id",)
    grades = ("score",)
    groups = ("cluster_id",)
    repeats = ("epoch", "metadata")

    def recognises(self, start: Start) -> bool:
        """An object with the keys of a run."""
        named = (re.search(rb'"%s"\s*:' % key.encode(), start.content) for key in _KEYS)
        return start.content.lstrip().startswith(b"{") and all(named)

    def open(self, path: Path, options: ImportOptions) -> Log:
        """Open a run.

        Raises:
            InputError: it is not a run.
        """
        run = read_large_json(path)
        items = run.get("items")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise InputError(f"{path}: items: expected a list of objects")
        facts = {"model": run.get("model_id"), "domain": run.get("task_id")}
        entries = [Entry(n, {**facts, **as_dict(item)}) for n, item in enumerate(items, 1)]
        rows, known = self.rows_of(path, entries, options)
        return Log(iter(rows), (path,), lambda: known)


SOURCE: Final = Evalsig()
"""The entry of the registry."""
