"""What the functions of the public API return: frozen results, which a notebook shows as tables.

`pact_reports` lays results out and is above this package. It is looked up by name when a notebook
asks for HTML, and not imported.
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["Result"]


class Result:
    """Base of what the API returns. Jupyter calls `_repr_html_` and shows the result as tables."""

    def _repr_html_(self) -> str:
        html: str = import_module("pact_reports.notebook").to_html(self)
        return html
