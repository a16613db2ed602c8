"""Figures as files, and the command that draws them."""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
from dataclasses import replace
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
from pact_eval.thresholds.decision_curves import Decisions
from pact_eval.thresholds.targets import Target
from pact_reports.figures.canvas import STYLES, Canvas, Width
from pact_reports.figures.figure import FigureFile, stem
from pact_reports.figures.files import (
    draw_figures,
    figure_bytes,
    in_style,
    inline_svg,
)
from pact_reports.figures.layout import figure_of
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import Looks

pytestmark = pytest.mark.slow

run = runner(main)

HOSTILE = ('$\\frac{a}{<script>alert("1")</script>', "_x\x1b[31m\u202e & y", "../../up")
COSTS = Decisions(costs=Target.of_costs(wrong=5, review=1))
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: bytes) -> str:
    root = ET.fromstring(svg)  # noqa: S314 - our own
    return "\n".join("".join(element.itertext()) for element in root.iter(f"{SVG}text"))


def one_of_every_figure(experiment: Experiment) -> list[FigureFile]:
    """Returns the first file of every figure; that of remedies, the slowest, is of one run."""
    looks = Looks.of(experiment)
    of_first = replace(experiment, runs=experiment.runs[:1])
    built = [
        spec.built(of_first if name == "remedies" else experiment, looks, COSTS)
        for name, spec in FIGURES.items()
    ]
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


def test_every_figure_is_drawn_in_bytes_that_stay_the_same(
    experiment: Experiment, figure_files: list[FigureFile], svgs: dict[str, bytes]
) -> None:
    again = one_of_every_figure(experiment_of([run.folder for run in experiment.runs]))
    for file in again:
        assert figure_bytes(file, "svg")[0] == svgs[file.name], file.name
        assert b"<dc:date>" not in svgs[file.name]
    for format_ in ("pdf", "png"):
        assert figure_bytes(figure_files[0], format_) == figure_bytes(again[0], format_)


def test_a_drawing_does_not_stay_in_memory(figure_files: list[FigureFile]) -> None:
    """A table of legends kept every figure that a process had drawn."""

    def figures() -> int:
        gc.collect()
        return sum(isinstance(living, Figure) for living in gc.get_objects())

    before = figures()
    for file in figure_files[:3]:
        figure_bytes(file, "svg")
    assert figures() == before


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


def test_nothing_is_cut_off_at_the_edges(figure_files: list[FigureFile], tmp_path: Path) -> None:
    arms = ("a long name of an arm, longer than that", "_another_name_that_goes_on")
    folders = simulated_folders(tmp_path, arms=arms, seeds=(117, 118), families=9)
    long = one_of_every_figure(experiment_of(folders))
    # The column of acl is narrower than the default one.
    cases: list[tuple[FigureStyle, list[FigureFile]]] = [("default", figure_files), ("acl", long)]
    for style, files in cases:
        canvas = Canvas(STYLES[style])
        for file in files:
            with in_style(canvas.style):
                figure = figure_of(file, canvas)
                box = figure.get_tightbbox()
            width, height = figure.get_size_inches()
            assert box.x0 >= -0.005, (file.name, style)
            assert box.y0 >= -0.005, (file.name, style)
            assert box.x1 <= width + 0.005, (file.name, style)
            assert box.y1 <= height + 0.005, (file.name, style)


# \columnwidth and \textwidth in TeX points, as neurips_2025.sty, icml2025.sty and acl.sty set them.
WIDTHS: dict[FigureStyle, tuple[float, float]] = {
    "neurips": (397.48, 397.48),
    "icml": (234.88, 487.82),
    "acl": (219.09, 455.24),
}


def test_styles_have_the_widths_and_letters_of_their_templates(
    figure_files: list[FigureFile],
) -> None:
    (small,) = (file for file in figure_files if file.name.startswith("pairs"))
    for name, widths in WIDTHS.items():
        style = STYLES[name]
        for width, points in zip((style.column, style.text), widths, strict=True):
            assert 72.27 * width == pytest.approx(points, abs=0.01)
        # Every figure in the narrowest column, a small one in the others.
        for file in figure_files if name == "acl" else [small]:
            pdf, notes = figure_bytes(file, "pdf", Canvas(style))
            assert notes == (), file.name  # no sign that the font lacks
            box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", pdf)
            assert box is not None
            assert float(box[1]) == pytest.approx(72 * style.column, abs=0.01), file.name
            fonts = set(re.findall(rb"/FontName /(?:[A-Z]{6}\+)?([\w-]+)", pdf))
            assert fonts <= {b"STIXGeneral-Regular", b"STIXGeneral-Bold"}, file.name
            if file == small:
                assert figure_bytes(file, "pdf", Canvas(style)) == (pdf, notes)


@pytest.mark.parametrize(("name", "width"), [("acl", "column"), ("neurips", "text")])
def test_reliability_is_square(
    figure_files: list[FigureFile], name: FigureStyle, width: Width
) -> None:
    (file,) = (file for file in figure_files if file.square)
    style = STYLES[name]
    with in_style(style):
        figure = figure_of(file, Canvas(style, width))
        figure.draw_without_rendering()
        x, y = figure.get_size_inches()
        for ax in figure.axes:
            box = ax.get_position()
            assert x * box.width == pytest.approx(y * box.height, rel=0.02)


def test_a_drawing_for_a_page(figure_files: list[FigureFile]) -> None:
    """One width, no background, no titles; every colour is one that the page can replace."""
    canvas = Canvas(width=7.0, transparent=True, words=False)
    for file in figure_files[:5]:
        svg = inline_svg(file, canvas)
        root = ET.fromstring(svg)  # noqa: S314 - our own
        assert root.get("width") == "504pt"
        background = re.search(r'<g id="[^"]*patch_1">(.*?)</g>', svg, re.DOTALL)
        assert background is None or "fill: none" in background[1] or "opacity: 0" in background[1]
        assert " items, " not in texts(svg.encode())
        assert "rgb(" not in svg


@pytest.mark.parametrize("width", ["wide", 1.0, 40, float("nan")])
def test_a_width_that_no_page_has_is_refused(width: object) -> None:
    with pytest.raises(InputError, match="expected column, text, or 2.5 to 12 inches"):
        STYLES["icml"].inches(width)  # type: ignore[arg-type]


def test_the_command_draws_for_a_template(tmp_path: Path) -> None:
    folders = simulated_folders(
        tmp_path / "runs", arms=("pact",), seeds=(1,), base=False, families=6, logs=False
    )
    options = ("--figures", "pairs", "--style", "icml", "--width", "text", "--resamples", 100)
    run("paper", *folders, "-o", tmp_path / "figs", *options)
    pdf = (tmp_path / "figs" / "pairs-pact-1.pdf").read_bytes()
    assert b"/MediaBox [ 0 0 486 " in pdf
    wrong = run(
        "paper",
        "--figures",
        "all",
        *folders,
        "-o",
        tmp_path / "x",
        *options,
        "--width",
        "1",
        code=1,
    )
    assert_says(wrong.stderr, "width: expected", "2.5 to 12 inches", "got 1.0")


def test_the_users_own_style_does_not_reach_a_figure(
    figure_files: list[FigureFile], svgs: dict[str, bytes]
) -> None:
    first = figure_files[0]
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.hashsalt": "x"}):
        assert figure_bytes(first, "svg")[0] == svgs[first.name]
        assert mpl.rcParams["font.size"] == 30


def test_hostile_names_do_no_harm(tmp_path: Path) -> None:
    folders = simulated_folders(tmp_path / "runs", arms=HOSTILE, seeds=(1,), base=False, families=9)
    out = tmp_path / "out"
    drawn = draw_figures(experiment_of(folders), list(FIGURES), out, decisions=COSTS)
    assert set(drawn.files) == set(FIGURES)
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
    drawn = draw_figures(experiment_of(folders), ["pairs"], tmp_path / "out")
    assert [path.name for path in drawn.files["pairs"]] == ["pairs-a-b-1.svg", "pairs-a-b-1-2.svg"]


def test_signs_that_the_font_lacks_are_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=6), arm="\u6f22", seed=1)
    drawn = draw_figures(experiment_of([folder]), ["pairs"], tmp_path / "out", ("svg", "png"))
    (note,) = drawn.notes["pairs"]
    assert_says(note, "pairs-1.png: ", "font lacks")
    assert "\u6f22" in (tmp_path / "out" / "pairs-1.svg").read_text()


def test_inline_svg_stands_in_a_page(figure_files: list[FigureFile]) -> None:
    elements = [inline_svg(file) for file in figure_files[:4]]
    ids: list[str] = []
    for file, element in zip(figure_files, elements, strict=False):
        root = ET.fromstring(element)  # noqa: S314 - our own
        assert root.get("role") == "img"
        assert root.get("aria-label") == file.full_title
        mine = [node.get("id", "") for node in root.iter() if node.get("id")]
        assert all(name.startswith(f"{file.name}-") for name in mine)
        used = re.findall(r'(?:href="#|url\(#)([^")]+)', element)
        assert set(used) <= set(mine)
        ids += mine
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("names", "formats"), [(["x"], ["svg"]), (["main"], ["gif"]), ([], ["svg"])]
)
def test_unknown_names_list_what_is_known(
    experiment: Experiment, tmp_path: Path, names: list[str], formats: list[str]
) -> None:
    with pytest.raises(
        InputError, match="expected (figures of main, rel|formats of svg, pdf, png)"
    ):
        draw_figures(experiment, names, tmp_path, formats)


def test_stems_are_plain() -> None:
    assert stem("x", "../a b", "", "\u202e") == "x-a-b"
    assert len(stem("x" * 300)) == 80


def test_the_command_draws_what_it_can(tmp_path: Path) -> None:
    folders = simulated_folders(
        tmp_path / "runs", arms=("pact",), seeds=(1,), base=False, families=6, logs=False
    )
    out = tmp_path / "figs"
    only = "pairs, reliability, differences, training"
    options = ("--figures", only, "--format", "svg,png", "--resamples", 100)
    result = run("paper", *folders, "-o", out, *options)
    assert str(out / "pairs-pact-1.svg") in result.stdout.splitlines()
    assert (out / "reliability-pact-1.png").read_bytes().startswith(b"\x89PNG")
    assert_says(result.stderr, "figure differences: left out", "one arm")
    assert_says(result.stderr, "figure training: left out", "pact, seed 1", "run.json names no")
    assert "left out" not in result.stdout


def test_the_command_as_json(tmp_path: Path) -> None:
    folders = simulated_folders(tmp_path / "runs", arms=("pact",), seeds=(1,), families=6)
    only = ("--figures", "pairs", "--json", "--resamples", 100)
    result = run("paper", *folders, "-o", tmp_path / "figs", *only)
    value = json.loads(result.stdout)
    assert set(value) == {"answer", "files", "skipped", "notes", "warnings"}
    assert value["files"]["figures"]["pairs"][0] == str(tmp_path / "figs" / "pairs-pact-1.svg")
    assert value["skipped"] == {}


def test_the_command_fails_where_nothing_can_be_drawn(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=6, k=1), arm="pact", seed=1)
    result = run("paper", folder, "--figures", "tv", "-o", tmp_path / "figs", code=1)
    assert "no figure" in result.stderr
    assert_says(result.stderr, "figure tv: left out", "one view only")
    assert not (tmp_path / "figs").exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            ("--figures", "relibility"),
            "expected one or more of main, reliability, risk-coverage, costs, tv",
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


def test_results_need_no_matplotlib() -> None:
    code = (
        "import sys, pact_cli.main; assert 'numpy' not in sys.modules\n"
        "import pact_reports.figures; assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
