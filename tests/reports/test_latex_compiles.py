"""Tables through LaTeX itself, with booktabs and nothing else, on a two-column page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from reports.tables.table_runs import run_of, share

from pact_eval.calibration.temperatures import (
    Calibrator,
    Weights,
    inverse_softplus,
    write_calibrator,
)
from pact_eval.evaluation.experiment import Experiment
from pact_reports.request import Request
from pact_reports.writers.files import build_tables, write_tables

PAGE = r"""\documentclass[twocolumn]{article}
\usepackage{booktabs}
\begin{document}
\input{%s}
\end{document}
"""
HOSTILE = "=x|<b>_%&#$~^{\\end{table} \u202e\u00e9"


@pytest.fixture(scope="module")
def latex() -> str:
    """LaTeX, where there is one; in CI there has to be."""
    program = shutil.which("pdflatex")
    if program is None:
        reason = "pdflatex is not installed: the tables were not compiled"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return program


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The tables of three arms with three seeds, calibrated, and of a base model."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [
        run_of(
            folder / f"{arm}-{seed}", share(right + seed, 60), arm=arm, seed=seed, k=4, sure=1.37
        )
        for arm, right in (("nimble_recipe", 30), ("pact", 36), ("no_permuted_views", 33))
        for seed in (1, 2, 3)
    ]
    for run in runs:
        warm = Weights((inverse_softplus(1.3), 0.0, 0.0))
        write_calibrator(run / "calibration.json", Calibrator("scalar", warm))
    runs.append(run_of(folder / "base", share(24, 60), arm="base", seed=None, k=4))
    return _tables(runs, tmp_path_factory.mktemp("tables"))


def _tables(runs: list[Path], out: Path, *names: str) -> dict[str, Path]:
    request = Request(Experiment.read(runs))
    files = write_tables(build_tables(request, names or None), request, out, ["latex"])
    return {name: paths[0] for name, paths in files.items()}


def _log(latex: str, table: Path, folder: Path) -> str:
    (folder / "page.tex").write_text(PAGE % table.as_posix().removesuffix(".tex"), "utf-8")
    words = [latex, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "page.tex"]
    run = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, errors="replace", check=False
    )
    assert run.returncode == 0, run.stdout[-3000:]
    return run.stdout


@pytest.mark.slow
def test_every_table_compiles_and_fits_the_page(
    latex: str, written: dict[str, Path], tmp_path: Path
) -> None:
    """The main table was 150 points wider than the page before anybody compiled it."""
    assert {"main", "paired", "views", "kinds", "calibration", "cost"} <= set(written)
    for name, path in written.items():
        log = _log(latex, path, tmp_path)
        assert "page.pdf (1 page" in log.replace("\n", ""), name
        beyond = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log)]
        assert not [points for points in beyond if points > 1], name


@pytest.mark.parametrize(
    "names", [("kinds",), pytest.param((), marks=pytest.mark.slow)], ids=["one table", "all"]
)
def test_a_hostile_name_compiles(latex: str, tmp_path: Path, names: tuple[str, ...]) -> None:
    runs = [
        run_of(tmp_path / name, share(right, 60), arm=arm, seed=1, k=4)
        for name, arm, right in (("a", "plain", 30), ("b", HOSTILE, 36))
    ]
    for path in _tables(runs, tmp_path / "tables", *names).values():
        _log(latex, path, tmp_path)
