"""A labelled file that was written in the full format."""

from __future__ import annotations

from functools import partial

from pact_eval.data.labelled.plain import ConvertedFile
from pact_eval.plain_text import one_line
from pact_reports.presenters.presenter import Presenter
from pact_reports.sentences.labelled import labelled_json, labelled_remarks
from pact_reports.table import Line


def present(written: ConvertedFile) -> Presenter:
    """Present a converted file: how it was read, and what was written."""
    return Presenter(
        tables=lambda: (
            Line(one_line(f"wrote {written.path} ({written.facts.rows:,} records)")),
            Line(one_line(f"wrote {written.manifest}")),
        ),
        to_json=lambda: {
            "written": str(written.path),
            "manifest": str(written.manifest),
            "sha256": written.facts.sha256,
            "labelled": labelled_json([written.data])[0],
        },
        remarks=partial(_remarks, written),
    )


def _remarks(written: ConvertedFile) -> tuple[Line, ...]:
    return tuple(Line(remark) for remark in labelled_remarks(written.data))
