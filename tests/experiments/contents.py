"""Content of every file of an experiment, without what two equal experiments may differ in.

These are the exempt fields of docs/experiments.md. What is not listed here is compared, so a new
field that differs fails the tests.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HAPPENED = ("experiment.lock", "events.jsonl", "logs", "locks")
"""They say what happened; nothing of them is compared."""

FIELDS = {
    "run.json": ("created", "finished", "wall_seconds", "seal.provenance_sha256"),
    "hypotheses.lock": ("registered_at", "lock_sha256"),
    "training.json": ("wall_seconds", "seconds_per_step", "peak_memory_bytes"),
    "training_data.json": ("training.wall_seconds", "training.peak_memory_bytes"),
}
"""Exempt fields of JSON files."""

FIELDS_OF_RECIPES = {
    "run.json": "custody.training.sha256",
    "schema_config.json": "training_data_sha256",
}
"""Further ones if a recipe trained the adapter: hashes of `training_data.json`."""

SHOW_TIMES = (
    *("page.html", "scorecard.txt", "report.md", "cost.csv", "cost.md", "cost.tex"),
    *("scorecard.csv", "scorecard.md", "scorecard.tex"),
)
"""Files that show times, costs and the digest of runs; the rest of them is compared."""

_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\+00:00)?)?")
# The title of a page whose runs were scored on both sides of midnight.
_DAYS = re.compile(r"TIME to TIME")
_HASH = re.compile(r"\b[0-9a-f]{12,64}\b")
_ROW = re.compile(r"<tr.*?</tr>|^.*$", re.MULTILINE)
# Of a run: the cell before its seal, in HTML, Markdown, CSV and LaTeX.
_SECONDS_OF_RUN = re.compile(
    r"(?:[>|,&]|\\u0026) ?[\d,.]+"
    r"(?=(?:(?:\s*<[^>]*>)+| ?(?:[|,&]|\\u0026) ?)HASH(?:(?:\s*</\w+>)+?\s*</tr>| ?[\\|]))"
)
_SECONDS = re.compile(r"\d[\d,]*\.\d+")


def contents(folder: Path) -> dict[str, object]:
    """Return the content of every file of an experiment by its path in the folder."""
    files = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return {
        name: _content(path) for name, path in files.items() if name.split("/")[0] not in HAPPENED
    }


def _content(path: Path) -> object:
    if path.name in SHOW_TIMES:
        return _without_times(path.read_text("utf-8"))
    names = (*FIELDS, *FIELDS_OF_RECIPES)
    if path.name not in names and path.parent.name != "receipts":
        return path.read_bytes()
    value = json.loads(path.read_bytes())
    for field in FIELDS.get(path.name, ()):
        assert _dropped(value, field), f"{path} lacks {field}"
    _dropped(value, FIELDS_OF_RECIPES.get(path.name, ""))
    for part in ("inputs", "outputs") if path.parent.name == "receipts" else ():
        exempt = (*names, *SHOW_TIMES)
        value[part] = {
            name: sha for name, sha in value[part].items() if Path(name).name not in exempt
        }
    return value


def _dropped(value: dict[str, Any], field: str) -> bool:
    """Remove a field, such as `seal.provenance_sha256`; return whether it was there."""
    *tables, key = field.split(".")
    for table in tables:
        value = value.get(table, {})
    return value.pop(key, None) is not None


def _without_times(text: str) -> str:
    """Replace times, hashes, which cover times, and the seconds in rows of costs and of runs."""
    text = _HASH.sub("HASH", _DAYS.sub("TIME", _TIME.sub("TIME", text)))
    text = _SECONDS_OF_RUN.sub("SECONDS", text)
    return _ROW.sub(
        lambda row: _SECONDS.sub("SECONDS", row[0]) if _is_of_cost(row[0]) else row[0], text
    )


def _is_of_cost(row: str) -> bool:
    return all(word in row for word in ("cpu", "float32"))
