"""Figures as files, and the command that draws them."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest
from commands import runner
from matplotlib.figure import Figure
from messages import assert_says
from reports.figures.figure_runs import experiment_of, rows, simulated_folders
from run_frames import write_run

from pact_cli.main import main
from pact_eval._choices import FigureStyle
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_reports.figures.axes import STYLES
from pact_reports.figures.figure import FigureFile
from pact_reports.figures.files import (
    draw_figures,
    figure_bytes,
)
from pact_reports.figures.registry import FIGURES
from pact_reports.request import Request

run = runner(main)

HOSTILE = ('$\\frac{a}{<script>alert("1")</script>', "_x\x1b[31m\u202e & y", "../../up")
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: bytes) -> str:
    root = ET.fromstring(svg)  # noqa: S314 - our own
    return "\n".join("".join(element.itertext()) for element in root.iter(f"{SVG}text"))


def one_of_every_figure(experiment: Experiment) -> list[FigureFile]:
    """Returns the first file of every figure."""
    request = Request(experiment)
    built = [spec.made(request)[0] for spec in FIGURES.values()]
    return [figures.files[0] for figures in built if figures.files]


@pytest.fixture(scope="module")
def figure_files(experiment: Experiment) -> list[FigureFile]:
    return one_of_every_figure(experiment)


@pytest.fixture(scope="module")
def svgs(figure_files: list[FigureFile]) -> dict[str, bytes]:
    """Every figure as SVG, drawn without a note."""
    drawn = {file.name: figure_bytes(file, "svg") for file in figure_files}
    assert len(drawn) == len(FIGURES)
    assert not any(notes for _, notes in drawn.values())
    return {name: svg for name, (svg, _) in drawn.items()}


@pytest.mark.slow
def test_every_figure_is_drawn_in_bytes_that_stay_the_same(
    experiment: Experiment, figure_files: list[FigureFile], svgs: dict[str, bytes]
) -> None:
    again = one_of_every_figure(experiment_of([run.folder for run in experiment.runs]))
    for file in again:
        assert figure_bytes(file, "svg")[0].splitlines() == svgs[file.name].splitlines(), file.name
        assert b"<dc:date>" not in svgs[file.name]
    for format_ in ("pdf", "png"):
        assert figure_bytes(figure_files[0], format_) == figure_bytes(again[0], format_)


@pytest.mark.slow
def test_svg_holds_text_no_address_and_no_small_print(svgs: dict[str, bytes]) -> None:
    for name, drawn in svgs.items():
        svg = drawn.decode()
        assert "DejaVu Sans" in svg
        assert "@font-face" not in svg
        loaded = re.findall(r'(?:xlink:href|src|href)="([^"]*)"|url\(([^)]*)\)', svg)
        assert all((a or b).startswith("#") for a, b in loaded), name
        sizes = [float(size) for size in re.findall(r"(?:font:|font-size:)[^;\"]*?([\d.]+)px", svg)]
        assert min(sizes) >= 7, name
        width = re.search(r'width="([\d.]+)pt"', svg)
        assert width is not None
        assert float(width[1]) == pytest.approx(3.5 * 72)


# \columnwidth and \textwidth in TeX points, as neurips_2025.sty, icml2025.sty and acl.sty set them.
WIDTHS: dict[FigureStyle, tuple[float, float]] = {
    "neurips": (397.48, 397.48),
    "icml": (234.88, 487.82),
    "acl": (219.09, 455.24),
}


def test_styles_have_the_widths_of_their_templates() -> None:
    for name, widths in WIDTHS.items():
        style = STYLES[name]
        for width, points in zip((style.column, style.text), widths, strict=True):
            assert 72.27 * width == pytest.approx(points, abs=0.01)


@pytest.mark.parametrize("width", ["wide", 1.0, 40, float("nan")])
def test_a_width_that_no_page_has_is_refused(width: object) -> None:
    with pytest.raises(InputError, match="expected column, text, or 2.5 to 12 inches"):
        STYLES["icml"].inches(width)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_users_own_style_does_not_reach_a_figure(
    figure_files: list[FigureFile], svgs: dict[str, bytes]
) -> None:
    first = figure_files[0]
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.hashsalt": "x"}):
        assert figure_bytes(first, "svg")[0] == svgs[first.name]
        assert mpl.rcParams["font.size"] == 30


@pytest.mark.parametrize(
    "names",
    [("risk-coverage",), pytest.param(tuple(FIGURES), marks=pytest.mark.slow)],
    ids=["one figure", "all"],
)
def test_hostile_names_do_no_harm(tmp_path: Path, names: tuple[str, ...]) -> None:
    folders = simulated_folders(tmp_path / "runs", arms=HOSTILE, seeds=(1,), base=False, families=9)
    out = tmp_path / "out"
    drawn = draw_figures(Request(experiment_of(folders)), list(names), out)
    assert set(drawn.files) == set(names)
    files = [path for paths in drawn.files.values() for path in paths]
    assert sorted(out.iterdir()) == sorted(files)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+\.svg", path.name) for path in files)
    for path in files:
        raw = path.read_bytes()
        assert b"<script" not in raw
        assert not set(raw) & ({*range(32)} - {9, 10, 13})
        assert "\u202e" not in raw.decode()
        ET.fromstring(raw)  # noqa: S314 - our own
    labels = texts((out / "risk-coverage.svg").read_bytes())
    assert "$\\frac{a}{…" in labels
    assert "_x\\x1b[31" in labels
    assert "../../up" in labels


@pytest.mark.slow
def test_names_are_inert_on_axes_of_ones_own(tmp_path: Path) -> None:
    folders = simulated_folders(tmp_path, arms=HOSTILE[:1], seeds=(1, 2), families=9)
    for file in one_of_every_figure(experiment_of(folders)):
        for panel in file.panels:
            figure = Figure()
            panel(figure.subplots())
            figure.draw_without_rendering()


def test_two_arms_whose_names_fall_together_get_two_files(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / str(n), rows(n, families=6), arm=arm, seed=1)
        for n, arm in enumerate(("a b", "a/b"))
    ]
    drawn = draw_figures(Request(experiment_of(folders)), ["pairs"], tmp_path / "out")
    assert [path.name for path in drawn.files["pairs"]] == ["pairs-a-b-1.svg", "pairs-a-b-1-2.svg"]


@pytest.mark.parametrize(
    ("names", "formats"), [(["x"], ["svg"]), (["main"], ["gif"]), ([], ["svg"])]
)
def test_unknown_names_list_what_is_known(
    experiment: Experiment, tmp_path: Path, names: list[str], formats: list[str]
) -> None:
    with pytest.raises(
        InputError, match="expected (figures of main, rel|formats of svg, pdf, png)"
    ):
        draw_figures(Request(experiment), names, tmp_path, formats)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            ("--figures", "relibility"),
            "expected one or more of main, reliability, risk-coverage, tv",
        ),
        (("--figures", ","), "got none"),
        (("--format", "svg,gif"), "--format: expected one or more of svg, pdf, png; got 'gif'"),
    ],
)
def test_wrong_names_are_wrong_usage(tmp_path: Path, option: tuple[str, ...], message: str) -> None:
    result = run("paper", "--figures", "all", tmp_path, *option, code=2)
    assert message in result.stderr


def test_a_file_is_no_folder_for_figures(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=6), arm="pact", seed=1)
    (tmp_path / "file").write_text("")
    result = run("paper", folder, "--figures", "pairs", "-o", tmp_path / "file", code=1)
    assert_says(result.stderr, "expected a folder", "found a file")
