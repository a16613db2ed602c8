"""The notebook of the docs: its cells run in a kernel, and trackers hold the report's numbers."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import pact_eval

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8").split("## In a notebook\n")[1]
CELLS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NOWHERE = "http://127.0.0.1:9"
"""A proxy that no one answers: whoever asks the network fails."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "fixtures").symlink_to(ROOT / "fixtures")
    return folder


@pytest.fixture(scope="module")
def executed(home: Path) -> Iterator[Any]:
    """The notebook with its outputs, run without a network."""
    v4: Any = nbformat.v4  # its functions have no types
    notebook = v4.new_notebook(cells=[*map(v4.new_code_cell, CELLS)])
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(home)}}
    )
    offline = {
        "HOME": str(home),
        "HTTP_PROXY": NOWHERE,
        "HTTPS_PROXY": NOWHERE,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "WANDB_SILENT": "true",
    }
    with pytest.MonkeyPatch.context() as patched:
        for name, value in offline.items():
            patched.setenv(name, value)
        yield client.execute()


def shown(cell: Any, kind: str) -> list[str]:
    """Returns what a cell shows in a form, such as text/html."""
    return [
        data[kind] for data in (output.get("data", {}) for output in cell.outputs) if kind in data
    ]


def test_every_cell_shows_its_result(executed: Any) -> None:
    audit, score, numbers, *plots = executed.cells[:5]
    (findings,) = shown(audit, "text/html")
    assert "severity" in findings
    (card,) = shown(score, "text/html")
    assert "holdout.jsonl" in card
    assert "324" in card
    (table,) = shown(numbers, "text/html")
    assert "accuracy" in table
    assert [len(shown(plot, "image/png")) for plot in plots] == [1, 1]


@pytest.fixture(scope="module")
def report(executed: Any, home: Path) -> Any:
    """The numbers of the report, computed again."""
    assert executed.cells
    return pact_eval.evaluate(home / "runs" / "notebook", pact_eval.Settings(by="domain"))


def test_mlflow_holds_the_numbers(report: Any, home: Path) -> None:
    expected = {
        name: estimate.value
        for name, estimate in report.groups[0].estimates.items()
        if estimate.value == estimate.value
    }
    with closing(sqlite3.connect(home / "mlflow.db")) as database:
        logged = dict(database.execute("SELECT key, value FROM metrics"))
    assert logged == pytest.approx(expected)
    (table,) = home.glob("mlruns/*/*/artifacts/report.json")
    assert json.loads(table.read_text()) == report.frame().to_dict(as_series=False)


def test_weights_and_biases_holds_the_table(report: Any, home: Path) -> None:
    (table,) = home.glob("wandb/offline-run-*/files/media/table/report_*.table.json")
    logged = json.loads(table.read_text())
    frame = report.frame()
    assert logged["columns"] == frame.columns
    assert logged["data"] == [list(row) for row in frame.rows()]
    (records,) = home.glob("wandb/offline-run-*/run-*.wandb")
    content = records.read_bytes()
    assert b"pair_accuracy" in content
    accuracy = report.groups[0].estimates["accuracy"].value
    assert json.dumps(accuracy).encode() in content
