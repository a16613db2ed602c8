"""The sections of figures and of tables, with figures drawn as SVG for the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pact_eval._json import Json
from pact_eval.errors import InputError
from pact_eval.evaluation.conclusions.conclusion import Said
from pact_eval.progress import tracked
from pact_reports.figures.figure import FigureFile, reason
from pact_reports.figures.files import inline_svg
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import INK, MUTED, Looks
from pact_reports.markup import Html, data_text, element, joined, script_json
from pact_reports.page.request import PageRequest
from pact_reports.table import Table
from pact_reports.writers.csv import to_csv
from pact_reports.writers.files import BuiltTables
from pact_reports.writers.html import table_html
from pact_reports.writers.latex import to_latex
from pact_reports.writers.markdown import to_markdown

DARK_PAPER: Final = "#14181c"
"""The background of the page in its dark theme."""

_LEAST_CONTRAST: Final = 5.5
_LEAST_CONTRAST_OF_LIGHT: Final = 3.0
_LIGHT: Final = 0.5
_OF_PAGE: Final = {"#ffffff": "paper", INK.lower(): "ink", MUTED.lower(): "muted", "#000000": "ink"}
_COLOUR: Final = re.compile(r'(\s(?:fill|stroke|stop-color))="(#[0-9A-Fa-f]{6})"')
_BACKGROUND: Final = re.compile(r'<path d="[^"]*" fill="#ffffff"/>')
_VARIABLE: Final = re.compile(r"var\(--c-([0-9a-f]{6})\)")


def themed(svg: Html) -> Html:
    """Replace the colours of an SVG by variables, and remove its white background.

    Examples:
        >>> themed(Html('<path d="M 0 0 z" fill="#ffffff"/><path stroke="#0072B2"/>')).text
        '<path stroke="var(--c-0072b2)"/>'
    """
    text = _BACKGROUND.sub("", svg.text)
    return Html(_COLOUR.sub(lambda match: f'{match[1]}="var(--{variable(match[2])})"', text))


def variable(colour: str) -> str:
    """Return the name of the variable of a colour, without its dashes.

    Examples:
        >>> variable("#0072B2"), variable("#FFFFFF")
        ('c-0072b2', 'paper')
    """
    lower = colour.lower()
    return _OF_PAGE.get(lower, f"c-{lower[1:]}")


def stylesheet(texts: Iterable[Html]) -> str:
    """Return the rules of the variables that some texts use, for both themes and for print."""
    used = sorted({name for text in texts for name in _VARIABLE.findall(text.text)})
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
    if _luminance(colour) > _LIGHT:
        steps = [_mixed(colour, DARK_PAPER, share) for share in range(0, 100, 5)]
        return [step for step in steps if contrast(step, DARK_PAPER) >= _LEAST_CONTRAST_OF_LIGHT][
            -1
        ]
    steps = [_mixed(colour, "#ffffff", share) for share in range(0, 101, 5)]
    return next(step for step in steps if contrast(step, DARK_PAPER) >= _LEAST_CONTRAST)


def _mixed(colour: str, other: str, percent: int) -> str:
    pairs = zip(_parts(colour), _parts(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * percent / 100):02x}" for a, b in pairs)


def _parts(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def contrast(a: str, b: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21 (WCAG 2.2).

    Examples:
        >>> round(contrast("#000000", "#ffffff"))
        21
    """
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = (part / 255 for part in _parts(colour))
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


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


_TAG: Final = re.compile(r"<[A-Za-z][^>]*>")
_STYLE: Final = re.compile(r'\sstyle="([^"]*)"')
_NUMBER: Final = re.compile(r"-?\d+\.\d{3,}")
_PATH: Final = re.compile(r'(\sd=")([^"]*)"')
_ROUNDED: Final = re.compile(r'(\s(?:x|y|d|transform)=")([^"]*)"')
_STYLE_ELEMENT: Final = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
_BETWEEN: Final = re.compile(r">\s*\n\s*<")


def strict_svg(svg: str) -> Html:
    r"""Rewrite an `<svg>` element of matplotlib without styles and with fewer decimals.

    Args:
        svg: the element, as returned by `inline_svg`.

    Example:
        >>> page = strict_svg('<svg><path d="M 0.1234567 1 \nL 2 3 " style="fill: none"/></svg>')
        >>> page.text.partition("><")[2]
        'path d="M 0.12 1 2 3" fill="none"/></svg>'
    """
    # The style element applied to all elements; attributes of the root are inherited by all.
    text = _STYLE_ELEMENT.sub("", svg)
    text = text.replace("<svg", '<svg stroke-linejoin="round" stroke-linecap="butt"', 1)
    text = _TAG.sub(lambda match: _tag(match[0]), text)
    return Html(_BETWEEN.sub("><", text))


def _tag(tag: str) -> str:
    tag = _STYLE.sub(_attributes, tag)
    tag = _PATH.sub(lambda match: f'{match[1]}{_path(match[2])}"', tag)
    return _ROUNDED.sub(lambda match: f'{match[1]}{_NUMBER.sub(_rounded, match[2])}"', tag)


def _path(commands: str) -> str:
    """Write a path on one line; a line command after a move or a line needs no letter."""
    words, before = [], ""
    for word in commands.split():
        if word.isalpha():
            implied = word == "L" and before in ("M", "L")
            before = word
            if implied:
                continue
        words.append(word)
    return " ".join(words)


def _attributes(match: re.Match[str]) -> str:
    declared = [part.partition(":") for part in match[1].split(";") if part.strip()]
    return "".join(f' {name.strip()}="{value.strip()}"' for name, _, value in declared)


def _rounded(match: re.Match[str]) -> str:
    text = f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


CALIBRATION_FIGURES: Final = (
    *("reliability", "confidence", "ece-kind"),
    *("temperature-length", "temperature-choices"),
)
"""Figures in the section on calibration; the others are in the section of figures."""

CALIBRATION_TABLES: Final = ("calibration", "answer-scores")
"""Tables in the section on calibration."""

ORDER_TABLES: Final = ("order", "slots")
"""Tables in the section on the order of the answers."""

_OPEN_FILES: Final = 4


@dataclass(frozen=True)
class DrawnFigures:
    """The figures of a page.

    Attributes:
        elements: by figure, its files.
        missing: by figure that is not drawn, the reason.
        partly: by figure that is drawn in part, the reason.
    """

    elements: Mapping[str, Sequence[Html]]
    missing: Mapping[str, str]
    partly: Mapping[str, str]


def drawn_figures(request: PageRequest) -> DrawnFigures:
    """Draw the figures that a page shows as inline SVG."""
    looks = Looks.of(request.experiment, request.palette)
    on_page = [name for name, figure in FIGURES.items() if figure.on_page]
    names = on_page if request.figures is None else list(request.figures)
    drawn: dict[str, list[Html]] = {}
    missing: dict[str, str] = {}
    partly: dict[str, str] = {}
    for name in tracked(names, "Drawing figures", "figures"):
        try:
            figure = FIGURES[name].built(request.experiment, looks, request.decisions)
            elements = [_figure(file) for file in figure.files]
        except ValueError as error:
            # InputError is a ValueError. An error of drawing must not prevent the page.
            why = reason(error) if isinstance(error, InputError) else f"drawing failed: {error}"
            missing[name] = why
        else:
            if elements:
                drawn[name] = elements
            if figure.missing:
                (partly if elements else missing)[name] = "; ".join(figure.missing)
    return DrawnFigures(drawn, missing, partly)


def figures_html(drawn: DrawnFigures, *, calibration: bool) -> Html | None:
    """Lay out the figures of a section.

    Args:
        drawn: the figures of the page.
        calibration: those on calibration, or all others.

    Returns:
        None if the section has no figure.
    """
    shown: list[Html] = []
    folded: list[Html] = []
    for name, elements in drawn.elements.items():
        if (name in CALIBRATION_FIGURES) != calibration:
            continue
        # The section on calibration begins with diagrams of the same bins, whose points are links.
        if len(elements) > _OPEN_FILES or name == "reliability":
            folded.append(_folded(FIGURES[name].title, elements))
        else:
            shown += elements
    if not (shown or folded):
        return None
    grid = element("div", *shown, class_="figures") if shown else None
    return joined([grid, *folded])


def _folded(title: str, elements: Sequence[Html]) -> Html:
    """Collapse the files of a figure."""
    n = "1 figure" if len(elements) == 1 else f"{len(elements):,} figures"
    summary = element("summary", f"{title[:1].upper()}{title[1:]}: {n}")
    return element("details", summary, element("div", *elements, class_="figures"))


def _figure(file: FigureFile) -> Html:
    shows = f"{file.shows[:1].upper()}{file.shows[1:]}." if file.shows else None
    return element(
        "figure",
        element(
            "figcaption",
            element("strong", data_text(file.title)),
            element("span", data_text(shows)) if shows else None,
        ),
        themed(strict_svg(inline_svg(file))),
        _how_to_read(file.caption),
        id=f"figure-{file.name}",
    )


def _how_to_read(caption: str) -> Html | None:
    if not caption:
        return None
    return element("details", element("summary", "How to read it"), element("p", caption))


def tables_html(built: BuiltTables, names: Sequence[str] | None = None) -> Html | None:
    """Write the tables of a section.

    Args:
        built: the tables of the page.
        names: those of the section; None takes all that no other section has.
    """
    written = [copyable_table(table) for name, table in built.tables.items() if _is_of(name, names)]
    return joined(written) if written else None


def _is_of(name: str, names: Sequence[str] | None) -> bool:
    """Return whether a section has a table; see `tables_html`."""
    return name not in (*CALIBRATION_TABLES, *ORDER_TABLES) if names is None else name in names


_NOTHING: Final = DrawnFigures({}, {}, {})


def left_out_html(
    built: BuiltTables | None = None,
    names: Sequence[str] | None = None,
    drawn: DrawnFigures = _NOTHING,
    *,
    calibration: bool = False,
) -> Html | None:
    """Fold what a section lacks into one line, with the reasons.

    Args:
        built: the tables of the page; None if the section has none.
        names: those of the section, as for `tables_html`.
        drawn: the figures of the page.
        calibration: those on calibration, or all others.

    Returns:
        None if nothing is left out.
    """

    def of_section(reasons: Mapping[str, str]) -> dict[str, str]:
        return {
            name: why
            for name, why in reasons.items()
            if (name in CALIBRATION_FIGURES) == calibration
        }

    skipped = {} if built is None else built.skipped
    kinds = {
        "Not drawn": of_section(drawn.missing),
        "Drawn in part": of_section(drawn.partly),
        "Not made": {name: why for name, why in skipped.items() if _is_of(name, names)},
    }
    kinds = {kind: reasons for kind, reasons in kinds.items() if reasons}
    if not kinds:
        return None
    counted = "; ".join(
        f"{kind if not at else kind.lower()}: {len(reasons):,}"
        for at, (kind, reasons) in enumerate(kinds.items())
    )
    lines = [
        element("li", f"{kind}: ", element("code", name), ": ", data_text(why))
        for kind, reasons in kinds.items()
        for name, why in reasons.items()
    ]
    listed = element("ul", *lines, class_="missing")
    return element("details", element("summary", counted), listed, class_="left-out")
