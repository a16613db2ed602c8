"""What the functions of the public API return: frozen results, shown as tables or as JSON.

`pact_reports` lays results out and is above this package. It is looked up by name when a result is
shown, and not imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["Result"]


class Result:
    """Base of what the API returns: Jupyter and `print` show it as tables."""

    def to_json(self) -> dict[str, Any]:
        """Return the object that a command prints of it with `--json`."""
        values: dict[str, Any] = import_module("pact_reports.results").to_json(self)
        return values

    def _repr_html_(self) -> str:
        html: str = import_module("pact_reports.results").to_html(self)
        return html

    def __str__(self) -> str:
        text: str = import_module("pact_reports.results").to_text(self)
        return text
