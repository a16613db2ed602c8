"""Reliability diagrams of a page, with a link from every bin to its items.

They are drawn here, not by matplotlib, so that each point can be clicked, focused and read aloud.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from pact_eval.errors import InputError
from pact_eval.evaluation.curves.probabilities import BinnedCurve, binned_reliability
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_reports.figures.figure import reason
from pact_reports.figures.style import Looks
from pact_reports.markup import Html, data_text, element
from pact_reports.page.item_links import items_href
from pact_reports.page.sections import variable

_LEFT: Final = 34.0
_TOP: Final = 8.0
_SIDE: Final = 290.0
_STRIP: Final = 30.0
_WIDTH: Final = 340
_HEIGHT: Final = 382
_OPEN_RUNS: Final = 4
_TICKS: Final = (0, 0.25, 0.5, 0.75, 1)


def reliability_html(experiment: Experiment, looks: Looks) -> Html:
    """Draw accuracy against confidence for every run; points lead to the items of their bin.

    Args:
        experiment: the runs, in the order of the item browser.
        looks: colours of the arms.
    """
    figures = [_figure(experiment, run, at, looks) for at, run in enumerate(experiment.runs)]
    hint = (
        f"Every point is one of {experiment.settings.ece_bins} bins of confidence and leads to its "
        "items; lines are 95% intervals of the accuracy over families. Bars are numbers of items; "
        "the largest is given. Hollow and dashed: raw. Filled: after T(x)."
    )
    rest = figures[_OPEN_RUNS:]
    more = element("summary", f"{len(rest):,} more runs")
    return element(
        "section",
        element("h3", "Reliability"),
        element("p", hint, class_="hint"),
        element("div", *figures[:_OPEN_RUNS], class_="figures"),
        element("details", more, element("div", *rest, class_="figures")) if rest else None,
        id="reliability",
    )


def _figure(experiment: Experiment, run: ExperimentRun, at: int, looks: Looks) -> Html:
    name = looks.names.run(run.label)
    title = element("strong", "Reliability of ", data_text(name))
    try:
        curves = binned_reliability(experiment, run)
    except InputError as error:
        return element("figure", element("figcaption", title, element("span", reason(error))))
    colour = f"var(--{variable(looks.arms[run.arm].colour)})"
    parts = [part for curve in curves for part in _curve(curve, at, colour)]
    sentences = [
        f"{'After T(x)' if curve.calibrated else 'Raw'}: "
        + str(experiment.probabilities(run, calibrated=curve.calibrated).words)
        for curve in curves
    ]
    drawn = element(
        "svg",
        *_frame(),
        *_counts(curves[0], at, colour),
        *parts,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="group",
        aria_label=f"Reliability of {name}, by bin",
        class_="bins",
    )
    words = [element("span", sentence) for sentence in sentences]
    return element("figure", element("figcaption", title, *words), drawn, id=f"bins-{at + 1}")


def _frame() -> Iterator[Html]:
    """Draw the axes, the diagonal, and the names of the axes."""
    bottom, right = _y(0), _x(1)
    yield _line("axis", _LEFT, _TOP, _LEFT, bottom)
    yield _line("axis", _LEFT, bottom, right, bottom)
    yield _line("diagonal", _LEFT, bottom, right, _TOP)
    for tick in _TICKS:
        number = f"{100 * tick:g}"
        yield _text(number, _LEFT - 5, _y(tick) + 4, "end")
        yield _text(number, _x(tick), bottom + _STRIP + 26, "middle")
    middle = _x(0.5)
    yield _text("Confidence (%)", middle, bottom + _STRIP + 46, "middle")
    yield _text("Accuracy (%)", _LEFT + 6, _TOP + 8, "start")


def _counts(curve: BinnedCurve, run: int, colour: str) -> Iterator[Html]:
    """Draw the numbers of items as bars below the diagram, each a link."""
    bins = curve.bins
    most = max(int(bins.count.max()), 1)
    top, width = _y(0) + 12, _SIDE / bins.count.size
    for at in range(bins.count.size):
        if not bins.count[at]:
            continue
        height = max(1.0, _STRIP * int(bins.count[at]) / most)
        bar = element(
            "rect",
            x=_number(_LEFT + at * width + 1),
            y=_number(top),
            width=_number(width - 2),
            height=_number(height),
            fill=colour,
        )
        # The point above is the link of the keyboard.
        href = items_href(run, bin_=at, calibrated=curve.calibrated)
        yield element("a", bar, href=href, tabindex="-1", aria_hidden="true")
    yield _text(f"{most:,}", _LEFT - 5, top + _STRIP, "end")


def _curve(curve: BinnedCurve, run: int, colour: str) -> Iterator[Html]:
    bins = curve.bins
    filled = [at for at, count in enumerate(bins.count.tolist()) if count]
    places = [(_x(bins.mean_confidence[at]), _y(bins.accuracy[at])) for at in filled]
    points = " ".join(f"{_number(x)},{_number(y)}" for x, y in places)
    look = "calibrated" if curve.calibrated else "raw"
    fill = colour if curve.calibrated else "var(--paper)"
    yield element("polyline", points=points, class_=look, stroke=colour)
    for at, (x, y) in zip(filled, places, strict=True):
        low, high = float(curve.low[at]), float(curve.high[at])
        interval = None
        if not math.isnan(low):
            interval = _line("of-bin", x, _y(low), x, _y(high), stroke=colour)
        circle = {"cx": _number(x), "cy": _number(y)}
        yield element(
            "a",
            interval,
            element("circle", **circle, r="10", class_="target"),
            element("circle", **circle, r="4.5", class_=look, stroke=colour, fill=fill),
            href=items_href(run, bin_=at, calibrated=curve.calibrated),
            aria_label=_words(curve, at),
        )


def _words(curve: BinnedCurve, at: int) -> str:
    """Describe a bin: its range, its items, their accuracy and confidence."""
    bins = curve.bins
    start, end = (100 * float(edge) for edge in bins.edges[at : at + 2])
    count = int(bins.count[at])
    items = "1 item" if count == 1 else f"{count:,} items"
    return (
        f"Confidence{' after T(x)' if curve.calibrated else ''} of {start:.1f}% to {end:.1f}%: "
        f"{items}, {100 * float(bins.accuracy[at]):.1f}% right, mean confidence "
        f"{100 * float(bins.mean_confidence[at]):.1f}%"
    )


def _x(share: float) -> float:
    return _LEFT + _SIDE * float(share)


def _y(share: float) -> float:
    return _TOP + _SIDE * (1 - float(share))


def _line(look: str, x1: float, y1: float, x2: float, y2: float, stroke: str | None = None) -> Html:
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return element(
        "line", **{name: _number(value) for name, value in ends.items()}, class_=look, stroke=stroke
    )


def _text(text: str, x: float, y: float, anchor: str) -> Html:
    return element("text", text, x=_number(x), y=_number(y), text_anchor=anchor)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
