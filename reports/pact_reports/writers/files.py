"""Tables as files: LaTeX, Markdown and CSV, and one Markdown document of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pact_eval._files import write_atomically
from pact_eval.errors import InputError, RecordError, ShapeError
from pact_eval.progress import tracked
from pact_reports.request import Request
from pact_reports.table import Table
from pact_reports.tables.cells import leak_lines
from pact_reports.tables.registry import TABLES
from pact_reports.writers.csv import to_csv
from pact_reports.writers.latex import to_latex
from pact_reports.writers.markdown import markdown_text, to_markdown

FORMATS: Final = ("latex", "markdown", "csv")
"""Formats that tables are written in."""

REPORT_NAME: Final = "report.md"
"""The document that joins all tables."""

_WRITERS: Final[Mapping[str, tuple[str, Callable[[Table], str]]]] = {
    "latex": (".tex", to_latex),
    "markdown": (".md", to_markdown),
    "csv": (".csv", to_csv),
}


@dataclass(frozen=True)
class BuiltTables:
    """Tables of runs.

    Attributes:
        tables: by name, in the order in which they were asked for.
        skipped: by name, why there is none.
    """

    tables: Mapping[str, Table]
    skipped: Mapping[str, str]


def build_tables(request: Request, names: Iterable[str] | None = None) -> BuiltTables:
    """Make tables of runs.

    Args:
        request: the runs and what was chosen.
        names: keys of `TABLES`; None makes all.

    Returns:
        The tables, and those that lack data with the reason.

    Raises:
        InputError: a name is unknown.
        RecordError: a file of criteria or data cannot be understood.
        ShapeError: nothing decides how a labelled file is read.
    """
    table_names = list(TABLES) if names is None else list(dict.fromkeys(names))
    refuse_unknown("table", table_names, TABLES)
    tables: dict[str, Table] = {}
    skipped: dict[str, str] = {}
    for name in tracked(table_names, "Making tables", "tables"):
        try:
            table, notes = TABLES[name].made(request)
            tables[name] = replace(table, notes=(*table.notes, *notes))
        except (RecordError, ShapeError):
            # Criteria or data that were named: they are to be put right, not left out.
            raise
        except InputError as error:
            skipped[name] = str(error)
    leak = tuple(line.text for line in leak_lines(request.experiment.data.leak))
    source = "" if request.published is None else request.published.published_text
    leak += (source,) if source else ()
    unlike = tuple(f"Caution: {difference!s}." for difference in request.experiment.unlike)
    noted = {
        name: replace(made, notes=(*leak, *made.notes, *unlike), source=source)
        for name, made in tables.items()
    }
    return BuiltTables(noted, skipped)


def write_tables(
    built: BuiltTables, request: Request, out: Path, formats: Sequence[str] = FORMATS
) -> dict[str, tuple[Path, ...]]:
    """Write tables into a folder; with Markdown, also the document that joins them.

    Args:
        built: what to write.
        request: what it was made from.
        out: the folder; made where it is missing. Files of the same names are replaced.
        formats: of `FORMATS`.

    Returns:
        The files of each table, and those of "report".

    Raises:
        InputError: a format is unknown, or the folder is a file.
    """
    refuse_unknown("format", formats, FORMATS)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: expected a folder for tables, got a file")
    out.mkdir(parents=True, exist_ok=True)
    endings = [_WRITERS[name] for name in dict.fromkeys(formats)]
    files = {}
    for name, table in built.tables.items():
        texts = {out / f"{table.name}{ending}": write(table) for ending, write in endings}
        files[name] = tuple(_written(path, text) for path, text in texts.items())
    if "markdown" in formats:
        text = markdown_report(request, built)
        files["report"] = (_written(out / REPORT_NAME, text),)
    return files


def markdown_report(request: Request, built: BuiltTables) -> str:
    """Join tables into one Markdown document.

    Args:
        request: the runs, or the published metrics.
        built: their tables.

    Returns:
        What leaks, runs and warnings first, then every table, then what is left out and why.
    """
    experiment, metrics = request.experiment, request.published
    lines = ["# Report", ""]
    for line in leak_lines(experiment.data.leak):
        lines += [f"> {markdown_text(line.text)}", ""]
    lines += ["## Runs", ""]
    if metrics is None:
        arms = {arm: tuple(run.seed for run in runs) for arm, runs in experiment.arms.items()}
    else:
        arms = {arm: metrics.seeds(arm) for arm in metrics.arms}
        lines += [f"> {markdown_text(metrics.published_text)}", ""]
    for arm, seeds_of_arm in arms.items():
        seeds = [str(seed) for seed in seeds_of_arm if seed is not None]
        seeds_text = f": seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}" if seeds else ""
        lines.append(f"- {markdown_text(request.names.arm(arm))}{seeds_text}")
    if experiment.ablated:
        lines.append(f"- on ablated contexts: {len(experiment.ablated)}")
    for warning in experiment.warnings:
        lines += ["", f"> {markdown_text(str(warning))}"]
    lines += ["", "## Tables", "", ""]
    text = "\n".join(lines)
    text += "\n".join(map(to_markdown, _with_notes_once(built.tables.values())))
    if built.skipped:
        left = [f"- {name}: {markdown_text(why)}" for name, why in built.skipped.items()]
        text += "\n".join(["", "## Left out", "", *left, ""])
    return text


def _with_notes_once(tables: Iterable[Table]) -> Iterator[Table]:
    """Yield the tables of one document; a note is below the first table that has it."""
    written: set[str] = set()
    for table in tables:
        yield replace(table, notes=tuple(note for note in table.notes if note not in written))
        written.update(table.notes)


def _written(path: Path, text: str) -> Path:
    # As bytes: line ends and paths that are not valid Unicode must not change.
    write_atomically(path, text.encode("utf-8", errors="backslashreplace"))
    return path


def refuse_unknown(what: str, names: Sequence[str], choices: Iterable[str]) -> None:
    """Refuse names that are not among the choices, and no name at all.

    Raises:
        InputError: a name is unknown, or there is none.
    """
    choices = list(choices)
    unknown = [name for name in names if name not in choices]
    if unknown or not names:
        got = ", ".join(map(repr, unknown)) or "none"
        raise InputError(f"expected {what}s of {', '.join(choices)}; got {got}")
