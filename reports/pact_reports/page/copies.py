"""Texts that buttons of a page copy: tables as Markdown, LaTeX and CSV, and answers as sentences.

They are data in the page, next to what they are of. The script adds the buttons, so a page without
it has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pact_eval._json import Json
from pact_eval.evaluation.conclusions.conclusion import Said
from pact_reports.markup import Html, joined, script_json
from pact_reports.table import Table
from pact_reports.writers.csv import to_csv
from pact_reports.writers.html import table_html
from pact_reports.writers.latex import to_latex
from pact_reports.writers.markdown import to_markdown

_PREFIX: Final = "copies-"
"""Of the ids of the elements, which end with the id of the element that gets the buttons."""


def copyable_table(table: Table) -> Html:
    """Write a table with the texts of its buttons.

    Args:
        table: as the writers lay it out.
    """
    return joined([table_html(table), copies_html(f"table-{table.name}", formats_of(table))])


def formats_of(table: Table) -> dict[str, str]:
    """Return a table in every format that can be copied, by the name of its button.

    Args:
        table: as the writers lay it out.
    """
    return {"Markdown": to_markdown(table), "LaTeX": to_latex(table), "CSV": to_csv(table)}


def copies_html(target: str, texts: Mapping[str, str | Mapping[str, str]]) -> Html:
    """Write the texts that the buttons of an element copy.

    Args:
        target: id of the element that gets the buttons.
        texts: by the name of a button, what it copies; or that by the index of a reference.
    """
    values: dict[str, Json] = {
        name: text if isinstance(text, str) else {**text} for name, text in texts.items()
    }
    return script_json(values, f"{_PREFIX}{target}")


def sentences_text(sentences: Iterable[Said]) -> str:
    """Return conclusions as sentences, one a line.

    Args:
        sentences: conclusions in words.
    """
    return "\n".join(map(str, sentences))
