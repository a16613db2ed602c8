"""An exported adapter."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pact_eval._json import Json
from pact_eval.plain_text import one_line
from pact_reports.table import Line
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import attributes

if TYPE_CHECKING:  # it leads to torch
    from pact_eval.export import Export


def present_export(export: Export) -> Presenter:
    """Present an exported folder: its files, comparisons, and how it is loaded."""
    return Presenter(tables=partial(_lines, export), to_json=partial(_json, export))


def _lines(export: Export) -> tuple[Line, ...]:
    """Return the written files, the comparison, and the place of the loading instructions."""
    shipped = ", ".join(f"{kind} {number:.3g}" for kind, number in export.temperatures.items())
    texts = {
        "wrote": f"{export.folder}: {len(export.files)} files, layout {export.layout}",
        "token ids": f"equal to ours on {export.prompts:,} prompts",
        "answers": f'within {export.tolerance:g} through pipeline("decision") on '
        f"{export.answers:,} questions; largest difference of a probability "
        f"{export.largest_difference:.1g}",
        "precision": _precision(export),
        "ships": f"temperatures {shipped}" if shipped else "no temperatures",
        **({"letters": _letters(export)} if "letter_prior.json" in export.files else {}),
        "load it": f"three lines in {export.folder / 'README.md'}",
    }
    return tuple(Line(f"{subject:<11}{one_line(text)}") for subject, text in texts.items())


def _letters(export: Export) -> str:
    readme = export.folder / "README.md"
    return f"letter_prior.json, which transformers does not read; {readme} has the function"


def _precision(export: Export) -> str:
    if export.stored == "float32":
        return "float32, in which the weights are stored"
    return (
        f"compared in float32; transformers loads the stored {export.stored} if no dtype is named, "
        f"which moves a probability by up to {export.stored_difference:.1g}"
    )


def _json(export: Export) -> dict[str, Json]:
    """Return the numbers, with probabilities as fractions."""
    return {
        "folder": str(export.folder),
        **attributes(export, "layout", "files", "temperatures"),
        "prompts_compared": export.prompts,
        "answers_compared": export.answers,
        **attributes(export, "largest_difference", "tolerance"),
        "stored_precision": export.stored,
        "stored_difference": export.stored_difference,
    }
