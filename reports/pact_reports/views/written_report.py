"""Files that `report` and `paper` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pact_eval._json import Json
from pact_reports.files import WrittenReport
from pact_reports.table import Line
from pact_reports.tables.cells import leak_lines
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import answer_json, attributes, note_json, warnings_json


def present_written_report(
    written: WrittenReport,
    *,
    left_out: Sequence[Json] = (),
    other_data: Sequence[Json] = (),
    reasons: bool = True,
) -> Presenter:
    """Present files by their paths, and below a page what it says first.

    Without a page, only paths go to standard output: a leak is a remark.

    Args:
        written: the files.
        left_out: warnings on files that are not runs, as JSON values.
        other_data: warnings on datasets that are not those of the runs, as JSON values.
        reasons: name the figures and tables that were not made, with the reasons; otherwise they
            are counted if no page was written.
    """
    metrics, leak = written.published, written.data.leak
    published = [] if metrics is None else [metrics.published_text]

    def as_json() -> dict[str, Json]:
        warnings = [*left_out, *warnings_json(written.warnings), *other_data]
        if metrics is not None:
            files: list[Json] = [*map(str, metrics.files)]
            warnings.append({"kind": "PublishedMetrics", "files": files, "text": published[0]})
        return {
            "answer": answer_json([written.data]),
            "files": written.files_json(),
            "skipped": {**_why_skipped(written)},
            **attributes(written, "notes"),
            "warnings": [*warnings, *map(note_json, written.different)],
        }

    def remarks() -> Iterator[Line]:
        yield from leak_lines(leak) if written.html is None else ()
        lines = skipped_lines(written)
        if not reasons:
            counted = len(lines) if written.html is None else 0
            what = "figure or table lacks" if counted == 1 else "figures and tables lack"
            lines = [f"{counted} {what} data; -v says which"] if counted else []
        if written.html is None:
            drawn = written.notes.items()
            notes = [f"figure {name}: {note}" for name, texts in drawn for note in texts]
            lines = [*notes, *lines]
        yield from (Line(line, unbroken=True) for line in lines)

    return Presenter(
        tables=lambda: (Line(str(path), unbroken=True) for path in written.paths),
        to_json=as_json,
        warnings=[*published, *map(str, written.warnings), *map(str, written.different)],
        answers=lambda: [written.answer] if written.answer else [],
        leak=lambda: None if written.html is None else leak,
        remarks=remarks,
    )


def skipped_lines(written: WrittenReport) -> list[str]:
    """Name the figures and tables that were not made, one line each, with the reason."""
    return [f"{name}: left out: {why}" for name, why in _why_skipped(written).items()]


def _why_skipped(written: WrittenReport) -> dict[str, str]:
    """Return by name why it was not made; a figure and a table may have the same name."""
    groups = {"figure": written.skipped_figures, "table": written.skipped_tables}
    return {
        f"{kind} {name}": why for kind, reasons in groups.items() for name, why in reasons.items()
    }
