"""Results for Python: HTML for notebooks, text for `print`, and JSON values."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pact_eval._files import write_atomically
from pact_eval._json import Json, dumps_indented
from pact_eval.results import Result, Writable
from pact_eval.thresholds.answer_sets import AnswerSets
from pact_eval.thresholds.choice import Thresholds
from pact_eval.thresholds.files import write_answer_sets, write_thresholds
from pact_reports.page.html import render
from pact_reports.views.registry import presenter_of
from pact_reports.writers import terminal

_COLUMNS: Final = 92


def to_html(result: Result) -> str:
    """Lay out a result as HTML that needs no style sheet and runs no script.

    Args:
        result: what a function of `pact_eval` returned.

    Returns:
        HTML; all text from data is escaped.
    """
    return str(render("parts.html", parts=presenter_of(result).parts()))


def to_text(result: Result) -> str:
    """Lay out a result as text of at most 92 columns, with ASCII borders.

    Args:
        result: what a function of `pact_eval` returned.
    """
    return terminal.to_text(*presenter_of(result).parts(), width=_COLUMNS).rstrip("\n")


def write(result: Writable, path: Path | str) -> Path:
    """Write the file of a result that other commands read; see `Writable`.

    Args:
        result: what a function of `pact_eval` returned.
        path: the file.

    Raises:
        InputError: the file cannot be written.
    """
    match result:
        case Thresholds():
            write_thresholds(Path(path), result)
        case AnswerSets():
            write_answer_sets(Path(path), result)
        case _:
            write_atomically(Path(path), dumps_indented(to_json(result)))
    return Path(path)


def to_json(result: Result) -> dict[str, Json]:
    """Return a result as the object that a command prints with `--json`, if all is shown.

    Args:
        result: what a function of `pact_eval` returned.
    """
    return presenter_of(result).json()
