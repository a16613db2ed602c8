"""An exported adapter."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pact_eval.plain_text import one_line
from pact_reports.table import Line
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import attributes

if TYPE_CHECKING:  # it leads to torch
    from pact_eval.export import Export


def present_export(export: Export) -> Presenter:
    """Present an exported folder: its files, comparisons, and how it is loaded."""
    parts = ("layout", "files", "temperatures", "largest_difference", "tolerance")
    renamed = {
        "prompts_compared": "prompts",
        "answers_compared": "answers",
        "stored_precision": "stored",
    }
    return Presenter(
        tables=partial(_lines, export),
        to_json=lambda: {
            "folder": str(export.folder),
            **attributes(export, *parts, "stored_difference", **renamed),
        },
    )


def _lines(export: Export) -> tuple[Line, ...]:
    """Return the written files, the comparison, and the place of the loading instructions."""
    readme = export.folder / "README.md"
    shipped = ", ".join(f"{kind} {number:.3g}" for kind, number in export.temperatures.items())
    precision = "float32, in which the weights are stored"
    if export.stored != "float32":
        precision = (
            f"compared in float32; transformers loads the stored {export.stored} if no dtype is "
            f"named, which moves a probability by up to {export.stored_difference:.1g}"
        )
    letters = f"letter_prior.json, which transformers does not read; {readme} has the function"
    texts = {
        "wrote": f"{export.folder}: {len(export.files)} files, layout {export.layout}",
        "token ids": f"equal to ours on {export.prompts:,} prompts",
        "answers": f'within {export.tolerance:g} through pipeline("decision") on '
        f"{export.answers:,} questions; largest difference of a probability "
        f"{export.largest_difference:.1g}",
        "precision": precision,
        "ships": f"temperatures {shipped}" if shipped else "no temperatures",
        "letters": letters if "letter_prior.json" in export.files else "",
        "load it": f"three lines in {readme}",
    }
    return tuple(Line(f"{name:<11}{one_line(text)}") for name, text in texts.items() if text)
