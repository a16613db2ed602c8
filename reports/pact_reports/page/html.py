"""HTML from templates, in which every text is escaped.

A template prints text on one line, with unprintable signs as escapes. Text from data goes through
the filter `data` too, which keeps its direction to itself. Only `trusted` text is not escaped.

Drawings of matplotlib become inline SVG: small, strict, in colours of the page's themes. Links to
items are fragments that open one item, or that list some.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from pact_eval import numbers
from pact_eval._json import Json, finite_number
from pact_eval.audit.findings import SEVERITIES, CheckResult
from pact_eval.errors import counted
from pact_eval.evaluation.run_records import cut
from pact_eval.evaluation.wrong_items import confidence_text
from pact_eval.plain_text import one_line, upper_first
from pact_reports.figures.style import INK, MUTED
from pact_reports.table import Mark, Table
from pact_reports.writers.csv import to_csv
from pact_reports.writers.json import to_json
from pact_reports.writers.latex import to_latex
from pact_reports.writers.markdown import to_markdown

Outcome = Literal["right", "wrong", "confident", "flips"]
Pair = Literal["pair-right", "pair-one", "pair-wrong", "pair-same"]
Compared = Literal["only-a", "only-b", "both-right", "both-wrong"]

_SAFE: Final = "-._~"


def item_href(item: str, *, a: int | None = None, b: int | None = None) -> str:
    """Return the link that opens an item.

    Args:
        item: its id.
        a: index of run A; None leaves the runs as they are.
        b: index of run B.

    Examples:
        >>> item_href("visa-3/base", a=0, b=2)
        '#item=visa-3%2Fbase&a=1&b=3'
    """
    return f"#item={quote(item, safe=_SAFE)}{_runs(a, b)}"


def items_href(
    a: int,
    *,
    b: int | None = None,
    compared: Compared | None = None,
    outcome: Outcome | None = None,
    pair: Pair | None = None,
    kind: str | None = None,
    domain: str | None = None,
    bin_: int | None = None,
    calibrated: bool = False,
    ids: Sequence[str] = (),
) -> str:
    """Return the link that lists the items for which everything given holds.

    Args:
        a: index of run A, whose answers `outcome`, `pair` and `bin_` are about.
        b: index of run B; None shows no second run.
        compared: which of A and B is right; needs `b`.
        outcome: outcome of A. `confident` are errors with a confidence of 0.9 or more; `flips` are
            answers that change between views.
        pair: outcome of A on both members of the pair. `pair-same` is the same answer to both.
        kind: kind of the field.
        domain: domain.
        bin_: reliability bin of A's confidence, from 0.
        calibrated: the bin is of the confidence after T(x).
        ids: ids of the items.

    Examples:
        >>> items_href(1, outcome="flips")
        '#items&a=2&outcome=flips'
        >>> items_href(0, b=1, compared="only-a", kind="score")
        '#items&a=1&b=2&compare=only-a&kind=score'
        >>> items_href(0, bin_=14, calibrated=True)
        '#items&a=1&bin=15&calibrated=1'
        >>> items_href(0, ids=["a,b", "c"])
        '#items&a=1&ids=a%2Cb,c'
    """
    named = {"compare": compared, "outcome": outcome, "pair": pair, "kind": kind, "domain": domain}
    chosen = [f"&{name}={quote(value, safe=_SAFE)}" for name, value in named.items() if value]
    if bin_ is not None:
        chosen.append(f"&bin={bin_ + 1}{'&calibrated=1' if calibrated else ''}")
    if ids:
        chosen.append(f"&ids={','.join(quote(item, safe=_SAFE) for item in ids)}")
    return f"#items{_runs(a, b)}{''.join(chosen)}"


def _runs(a: int | None, b: int | None) -> str:
    """Write the numbers of runs, which count from 1 on a page."""
    runs = {"a": a, "b": b}
    return "".join(f"&{name}={run + 1}" for name, run in runs.items() if run is not None)


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


DARK_PAPER: Final = "#14181c"
"""The background of the page in its dark theme."""

_LIGHT: Final = 0.5
_OF_PAGE: Final = {"#ffffff": "paper", INK.lower(): "ink", MUTED.lower(): "muted", "#000000": "ink"}
_COLOUR: Final = re.compile(r'(\s(?:fill|stroke|stop-color))="(#[0-9A-Fa-f]{6})"')
_BACKGROUND: Final = re.compile(r'<path d="[^"]*" fill="#ffffff"/>')
_VARIABLE: Final = re.compile(r"var\(--c-([0-9a-f]{6})\)")


def page_svg(svg: str) -> Markup:
    """Return an `<svg>` element of matplotlib as a page has it: strict and in its colours."""
    return trusted(themed(strict_svg(svg)))


def themed(svg: str) -> str:
    """Replace the colours of an SVG by variables, and remove its white background.

    Examples:
        >>> themed('<path d="M 0 0 z" fill="#ffffff"/><path stroke="#0072B2"/>')
        '<path stroke="var(--c-0072b2)"/>'
    """
    text = _BACKGROUND.sub("", svg)
    return _COLOUR.sub(lambda match: f'{match[1]}="var(--{variable(match[2])})"', text)


def variable(colour: str) -> str:
    """Return the name of the variable of a colour, without its dashes.

    Examples:
        >>> variable("#0072B2"), variable("#FFFFFF")
        ('c-0072b2', 'paper')
    """
    lower = colour.lower()
    return _OF_PAGE.get(lower, f"c-{lower[1:]}")


def stylesheet(text: str) -> str:
    """Return the rules of the variables that a text uses, for both themes and for print."""
    used = sorted(set(_VARIABLE.findall(text)))
    if not used:
        return ""
    light = "".join(f"--c-{name}:#{name};" for name in used)
    dark = "".join(f"--c-{name}:{on_dark(f'#{name}')};" for name in used)
    by_system = "@media screen and (prefers-color-scheme:dark)"
    return (
        f":root{{{light}}}\n"
        f'{by_system}{{:root:not([data-theme="light"]){{{dark}}}}}\n'
        f'@media screen{{:root[data-theme="dark"]{{{dark}}}}}\n'
    )


def on_dark(colour: str) -> str:
    """Return the colour that replaces another on the page's dark paper.

    A dark colour is mixed with white until it can be read. A light one is mixed with the paper:
    labels on it are drawn in ink, which is light there.

    Examples:
        >>> on_dark("#e69f00"), on_dark("#0072b2"), on_dark("#9ccbe8")
        ('#e69f00', '#4c9cc9', '#516978')
    """
    light = _luminance(colour) > _LIGHT
    other, least = (DARK_PAPER, 3.0) if light else ("#ffffff", 5.5)
    parts = [*zip(bytes.fromhex(colour[1:]), bytes.fromhex(other[1:]), strict=True)]
    mixed = ([round(a + (b - a) * share / 100) for a, b in parts] for share in range(0, 101, 5))
    steps = [f"#{bytes(rgb).hex()}" for rgb in mixed]
    readable = [step for step in steps if contrast(step, DARK_PAPER) >= least]
    return readable[-1 if light else 0]


def contrast(a: str, b: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21 (WCAG 2.2).

    Examples:
        >>> round(contrast("#000000", "#ffffff"))
        21
    """
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = (part / 255 for part in bytes.fromhex(colour[1:]))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


_TAG: Final = re.compile(r"<[A-Za-z][^>]*>")
_STYLE: Final = re.compile(r'\sstyle="([^"]*)"')
_NUMBER: Final = re.compile(r"-?\d+\.\d{3,}")
_PATH: Final = re.compile(r'(\sd=")([^"]*)"')
_ROUNDED: Final = re.compile(r'(\s(?:x|y|d|transform)=")([^"]*)"')
_STYLE_ELEMENT: Final = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
_BETWEEN: Final = re.compile(r">\s*\n\s*<")


def strict_svg(svg: str) -> str:
    r"""Rewrite an `<svg>` element of matplotlib without styles and with fewer decimals.

    Args:
        svg: the element, as returned by `inline_svg`.

    Example:
        >>> page = strict_svg('<svg><path d="M 0.1234567 1 \nL 2 3 " style="fill: none"/></svg>')
        >>> page.partition("><")[2]
        'path d="M 0.12 1 2 3" fill="none"/></svg>'
    """
    # The style element applied to all elements; attributes of the root are inherited by all.
    text = _STYLE_ELEMENT.sub("", svg)
    text = text.replace("<svg", '<svg stroke-linejoin="round" stroke-linecap="butt"', 1)
    text = _TAG.sub(lambda match: _tag(match[0]), text)
    return _BETWEEN.sub("><", text)


def _tag(tag: str) -> str:
    """Write styles as attributes, paths without needless letters, and numbers with two decimals."""

    def attributes(match: re.Match[str]) -> str:
        declared = (part.partition(":") for part in match[1].split(";") if part.strip())
        return "".join(f' {name.strip()}="{value.strip()}"' for name, _, value in declared)

    def rounded(match: re.Match[str]) -> str:
        text = f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
        return "0" if text in ("-0", "") else text

    tag = _STYLE.sub(attributes, tag)
    tag = _PATH.sub(lambda match: f'{match[1]}{_path(match[2])}"', tag)
    return _ROUNDED.sub(lambda match: f'{match[1]}{_NUMBER.sub(rounded, match[2])}"', tag)


def _path(commands: str) -> str:
    """Write a path on one line; a line command after a move or a line needs no letter."""
    words, before = [], ""
    for word in commands.split():
        if not (word == "L" and before in ("M", "L")):
            words.append(word)
        before = word if word.isalpha() else before
    return " ".join(words)
