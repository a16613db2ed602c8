"""Figures fit the page of their template, whatever the numbers of runs, panels and rows."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from reports.figures import figure_runs
from reports.figures.figure_runs import simulated

from pact_eval._choices import FigureStyle
from pact_eval.evaluation.experiment import Experiment
from pact_reports.figures.axes import STYLES, Canvas, Width, with_legend
from pact_reports.figures.figure import FigureFile
from pact_reports.figures.files import figure_of, fitting, in_style
from pact_reports.figures.registry import FIGURES
from pact_reports.request import Request

WIDTHS: tuple[Width, ...] = ("column", "text")
CANVASES = [
    Canvas(style=style, width=width) for style, width in itertools.product(STYLES.values(), WIDTHS)
]


def sizes(file: FigureFile, canvas: Canvas) -> Iterator[tuple[float, float]]:
    """Yields width and height in inches of the drawings that a file becomes."""
    with in_style(canvas.style), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part, drawn in fitting(file, canvas):
            figure = drawn or figure_of(part, canvas)
            yield figure.get_figwidth(), figure.get_figheight()


def panel(ax: Any, entries: int) -> Any:
    lines = {
        f"a recipe, number {number}": ax.plot([0, 1], [0, number])[0] for number in range(entries)
    }
    return with_legend(ax, lines)


def random_file(seed: int) -> FigureFile:
    rng = np.random.default_rng(seed)
    return FigureFile(
        "any",
        "Any",
        (partial(panel, entries=int(rng.integers(0, 60))),) * int(rng.integers(1, 15)),
        inches=float(rng.uniform(0.8, 5.4)),
        square=bool(rng.integers(2)),
        panel_inches=float(rng.uniform(1.35, 3.0)),
        note="a note that is as long as notes are, on what marks mean in every panel" * 2,
    )


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed != 1)) for seed in range(8)]
)
def test_random_panels_fit(seed: int) -> None:
    canvas, file = CANVASES[seed % len(CANVASES)], random_file(seed)
    for width, height in sizes(file, canvas):
        assert width == canvas.inches
        assert height <= canvas.style.height
    parts = [part for part, _ in fitting(file, canvas)]
    assert [*itertools.chain.from_iterable(part.panels for part in parts)] == [*file.panels]
    assert len({part.name for part in parts}) == len(parts)


INPUTS: dict[str, dict[str, Any]] = {
    "one run": {"arms": ("pact",), "seeds": (17,), "base": False, "families": 12},
    "usual": {"arms": ("pact", "other", "third"), "seeds": (17, 18), "families": 24},
    "many": {
        "arms": tuple(f"a recipe with a long name, {number}" for number in range(20)),
        "seeds": (17,),
        "families": 80,
    },
}


@pytest.fixture(scope="module", params=INPUTS)
def any_runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        domains = tuple(f"domain number {number}" for number in range(40))
        patch.setattr(figure_runs, "DOMAINS", domains if request.param == "many" else ("a", "b"))
        return simulated(tmp_path_factory.mktemp("runs"), **INPUTS[request.param])


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("style", STYLES)
def test_every_figure_fits_the_page_of_every_style(
    any_runs: Experiment, name: str, style: FigureStyle
) -> None:
    if name == "differences" and len(any_runs.arms) == 1:
        return
    canvas = Canvas(style=STYLES[style])  # the narrowest: a wider one has fewer rows of panels
    built, _ = FIGURES[name].made(Request(any_runs))
    file = built.files[0]
    for width, height in sizes(file, canvas):
        assert width == canvas.inches
        assert height <= canvas.style.tallest, f"{file.name}: {height:.1f} inches"
