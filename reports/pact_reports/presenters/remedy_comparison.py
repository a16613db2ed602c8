"""Remedies of the order effects of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from pact_eval._json import Json
from pact_eval.remedies.comparison import RemedyComparison, RemedyRow
from pact_reports.presenters.presenter import Presenter
from pact_reports.sentences.remedies import fit_sentences, remedies_answer
from pact_reports.table import Part
from pact_reports.writers.json import to_json


def present(comparison: RemedyComparison, *, full: bool = True) -> Presenter:
    """Present the remedies of a run.

    Args:
        comparison: the remedies.
        full: show every table below the answer; otherwise at most twelve lines.
    """

    def headline() -> Iterator[str]:
        yield remedies_answer(comparison)

    def tables() -> Iterable[Part]:
        if full:
            from pact_reports.tables.remedies import remedies_parts

            return remedies_parts(comparison)
        from pact_reports.tables.brief_remedies import brief_remedies

        return brief_remedies(comparison)

    return Presenter(
        tables=tables,
        to_json=lambda: _json(comparison),
        warnings=[*fit_sentences(comparison.fit_notes)],
        leak=lambda: comparison.leak,
        headline=headline,
        headed=not full,
    )


def _json(comparison: RemedyComparison) -> dict[str, Json]:
    return {
        "answer": {
            "status": comparison.status,
            "helping": list(comparison.helping),
            "enough": comparison.enough,
            "price": comparison.price,
            "letters": comparison.balance,
        },
        "remedies": cast("dict[str, Json]", to_json(comparison))
        | {"rows": [_row(row) for row in comparison.rows]},
    }


def _row(row: RemedyRow) -> dict[str, Json]:
    """Return a row with the name of its remedy, which `calibrate --remedy` and hypotheses take."""
    return {
        "name": row.remedy.name,
        "title": row.remedy.title,
        **cast("dict[str, Json]", to_json(row)),
    }
