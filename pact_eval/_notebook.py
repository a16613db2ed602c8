"""Results that a notebook shows as tables.

`pact_reports` lays results out and is above this package, so it is looked up by name when a
notebook asks for HTML, and not imported.
"""

from __future__ import annotations

from importlib import import_module


class NotebookTables:
    """A result that `pact_reports` can lay out; Jupyter calls `_repr_html_`."""

    def _repr_html_(self) -> str:
        html: str = import_module("pact_reports.notebook").to_html(self)
        return html
