"""HTML from templates, in which every text is escaped.

A template prints text on one line, with unprintable signs as escapes. Text from data goes through
the filter `data` too, which keeps its direction to itself. Only `trusted` text is not escaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from pact_eval import numbers
from pact_eval._json import Json, finite_number
from pact_eval.audit.findings import SEVERITIES, CheckResult
from pact_eval.errors import counted
from pact_eval.evaluation.run_records import cut
from pact_eval.evaluation.wrong_items import confidence_text
from pact_eval.plain_text import one_line, upper_first
from pact_reports.page.item_links import item_href, items_href
from pact_reports.table import Mark, Table
from pact_reports.writers.csv import to_csv
from pact_reports.writers.json import to_json
from pact_reports.writers.latex import to_latex
from pact_reports.writers.markdown import to_markdown

_IN_SCRIPT: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
_LONGEST: Final = 110
_MOST_PLACES: Final = 3
_MAYBE_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_SIGNS: Final[Mapping[Mark, str]] = {
    "tied": " ~",
    "significant": "†",
    "clearly better": " ++",
    "better": " +",
    "worse": " −",
    "clearly worse": " −−",
}
"""Of the marks of a table: each is a sign or a weight as well as a colour."""


def trusted(text: str) -> Markup:
    """Return HTML of our own, or of matplotlib, that templates print as it is."""
    return Markup(text)  # noqa: S704  # the only place where text becomes HTML unescaped


def data_text(text: str) -> Markup:
    r"""Return text from data: escaped, unprintable signs shown, its direction kept to itself.

    Example:
        >>> print(data_text("a\u202e<b>"))
        <bdi>a\u202e&lt;b&gt;</bdi>
    """
    return trusted(f"<bdi>{escape(one_line(text))}</bdi>")


def script_json(value: Json, name: str) -> Markup:
    r"""Return JSON in a script element that is data, not a program.

    No text in it can end the element, begin a comment, or break a line of JavaScript.

    Args:
        value: JSON.
        name: id of the element.

    Example:
        >>> print(script_json({"a": "</script>\u2028"}, "data"))
        <script type="application/json" id="data">{"a":"\u003c/script\u003e\u2028"}</script>
    """
    raw = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = _MAYBE_UNPRINTABLE.sub(_escape, raw.translate(_IN_SCRIPT))
    return trusted(f'<script type="application/json" id="{escape(name)}">{text}</script>')


def _escape(match: re.Match[str]) -> str:
    """Escape what would turn the order of signs around in a view of the source, or break a line."""
    sign = match[0]
    return sign if sign.isprintable() else json.dumps(sign)[1:-1]


def csp_hash(text: str) -> str:
    """Return the source expression by which a content security policy knows an inline text.

    Example:
        >>> csp_hash("")
        "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def table_formats(table: Table) -> dict[str, str]:
    """Return a table in every format that can be copied, by the name of its button."""
    return {"Markdown": to_markdown(table), "LaTeX": to_latex(table), "CSV": to_csv(table)}


def render(template: str, **values: object) -> Markup:
    """Return a template with its values; text in them is escaped.

    Args:
        template: its file, without the folder.
        values: what it prints or asks.

    Raises:
        jinja2.UndefinedError: the template names something that is not there.
    """
    return trusted(_TEMPLATES.get_template(template).render(values))


def _print_value(value: object) -> object:
    """Return what a template prints for a value."""
    if value is None:
        return ""
    return one_line(value) if type(value) is str else value


def _decimal(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _codes(check: CheckResult) -> list[dict[str, object]]:
    """Return what a check found, worst first: each code with its number and its first places."""
    return [
        {
            "name": code,
            "severity": severity,
            "count": check.counts[code],
            "places": [one.place for one in check.findings if one.code == code][:_MOST_PLACES],
        }
        for severity in SEVERITIES
        for code in check.codes(severity)
    ]


def _measured(check: CheckResult) -> dict[str, Json]:
    """Return the finite numbers that a check measured, by their names."""
    measured = to_json(check.measured)
    values = measured.items() if isinstance(measured, dict) else ()
    return {name: value for name, value in values if finite_number(value) is not None}


def _templates() -> Environment:
    templates = Environment(
        autoescape=True,
        finalize=_print_value,
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    templates.filters |= {
        "data": data_text,
        "codes": _codes,
        "measured": _measured,
        "by_name": lambda place: str(replace(place, file=Path(place.file).name)),
        "confidence": confidence_text,
        "decimal": _decimal,
        "height": lambda share: _decimal(8 + 290 * (1 - share)),
        "percent": lambda share: f"{100 * share:.1f}%",
        "shortened": lambda text: cut(text, _LONGEST),
        "thousands": lambda value: f"{value:,}",
        "upper_first": upper_first,
    }
    templates.tests["nan"] = math.isnan
    templates.globals |= {
        "counted": counted,
        "item_href": item_href,
        "items_href": items_href,
        "numbers": numbers,
        "script_json": script_json,
        "signs": _SIGNS,
        "table_formats": table_formats,
    }
    return templates


_TEMPLATES: Final = _templates()
