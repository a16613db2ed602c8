"""Card of a run: its model, its data and the number of items, without metrics."""

from __future__ import annotations

from pact_eval.numbers import sample_text
from pact_eval.plain_text import one_line
from pact_eval.runs.folder import Run
from pact_eval.runs.seal import seal_digest
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.report import run_facts


def run_card(run: Run) -> Table:
    """Lay out a run: one row per fact.

    Args:
        run: on full or ablated contexts.
    """
    views = run.predictions
    families = len({*views.family.tolist()})
    contexts = "ablated contexts, which have no right answers" if run.ablated else None
    facts = {
        **run_facts(run.provenance),
        "contexts": contexts,
        "sample": sample_text(len(views), families, "family"),
        "views": f"K = {views.k}",
        "seal": None if run.provenance.seal is None else seal_digest(run.provenance.seal),
    }
    return Table(
        name="run",
        title=one_line(f"Run {run.title}"),
        caption="",
        columns=(Column("", "left"), Column("", "left")),
        rows=tuple(
            Row((Cell(label), Cell(one_line(str(value)))))
            for label, value in facts.items()
            if value is not None
        ),
        keys=1,
    )
