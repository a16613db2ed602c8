"""What a newcomer edits to add something, as ARCHITECTURE.md counts it: done in a copy, and used.

Every test copies the source, makes the edits, and runs commands of the copy in processes of their
own. The number of files that it edits is the one in the table of the page.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builders import question, record, write_jsonl
from messages import assert_says
from run_frames import predictions, rows, write_run
from runs.test_import_formats import MODULE as TWO_COLUMNS
from scoring.servers.loopback import Response, Sent, serving, softmax_of_names

from pact_eval.evaluation.items import ScoredItems

ROOT = Path(__file__).resolve().parents[1]
PACT_AUDIT = "from pact_cli.start import pact_audit; pact_audit()"


class Copy:
    """A copy of the source.

    Attributes:
        folder: its root.
        edited: the files that were added or edited.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.edited: set[str] = set()
        for package in ("pact_eval", "pact_losses", "cli", "reports"):
            shutil.copytree(ROOT / package, folder / package)
        for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "docs" / "site_hooks.py"]:
            copied = folder / page.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(page, copied)

    def add(self, path: str, text: str) -> None:
        """Adds a file."""
        assert not (self.folder / path).exists()
        (self.folder / path).write_text(text, encoding="utf-8")
        self.edited.add(path)

    def insert(self, path: str, before: str, text: str) -> None:
        """Inserts text before another, which occurs once."""
        content = (self.folder / path).read_text(encoding="utf-8")
        assert content.count(before) == 1, (path, before)
        content = content.replace(before, text + before)
        (self.folder / path).write_text(content, encoding="utf-8")
        self.edited.add(path)

    def python(self, *words: object) -> str:
        """Runs Python with the packages of the copy, and returns what it prints."""
        packages = (self.folder / part for part in (".", "cli", "reports"))
        path = os.pathsep.join(map(str, packages))
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            env=os.environ | {"PYTHONPATH": path},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pact_eval(self, *words: object) -> str:
        """Runs `pact-eval`."""
        return self.python("-m", "pact_cli", *words)

    def write_tables(self, page: str) -> None:
        """Writes the tables of the docs that follow from registries."""
        before = (self.folder / page).read_text(encoding="utf-8")
        self.python("docs/site_hooks.py")
        assert (self.folder / page).read_text(encoding="utf-8") != before
        self.edited.add(page)


@pytest.fixture
def source(tmp_path: Path) -> Copy:
    return Copy(tmp_path / "source")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", rows(1))


def counted(new: str) -> int:
    """Returns the number of edits that the page says."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    (number,) = re.findall(rf"^\| {new} \| (\d+) \|", page, re.MULTILINE)
    return int(number)


def test_a_metric(source: Copy, run: Path) -> None:
    source.insert(
        "pact_eval/evaluation/registry.py",
        'ABLATED_CONFIDENCE: Final = "ablated_confidence"\n',
        'DOUBT = MetricSpec("doubt", "Doubt", "percent", -1)\n'
        "_add(Metric(DOUBT, _FULL, lambda block: 1 - block.confidence, bounds=_SHARE))\n",
    )
    source.insert("docs/metrics.md", "| Pair accuracy |", "| Doubt | 1 - top probability | |\n")
    report = json.loads(source.pact_eval("report", run, "--json", "--resamples", 100))
    confidence = ScoredItems.of(predictions(1), "single").confidence
    doubt = report["groups"][0]["metrics"]["doubt"]
    assert doubt["value"] == pytest.approx(1 - confidence.mean())
    assert doubt["low"] < doubt["value"] < doubt["high"]
    assert "Doubt" in source.pact_eval("compare", run, run, "--resamples", 100, "--full")
    assert len(source.edited) == counted("metric")


SPELLING_CHECK = '''"""Check "spelling": are ids in lower case?"""

from pact_eval.audit.context import DataContext
from pact_eval.audit.findings import CheckResult
from pact_eval.audit.registry import Check


def check_spelling(context: DataContext) -> CheckResult:
    findings = context.collector("spelling")
    for row, name in enumerate(context.index.frame["id"]):
        if name != name.lower():
            findings.add("upper-case-id", context.index.place(row), "lower case", name)
    return findings.result(f"{len(context.index):,} ids")


CHECK = Check(
    name="spelling",
    question="Are all ids in lower case?",
    run=check_spelling,
    needs=("records",),
    codes={"upper-case-id": ("warning", "An id has an upper-case letter.")},
)
'''


def test_a_check(source: Copy, tmp_path: Path) -> None:
    source.add("pact_eval/audit/spelling.py", SPELLING_CHECK)
    source.insert("pact_eval/_choices.py", '"hashes", "schema",', '"spelling", ')
    source.write_tables("docs/reference/codes.md")
    data = write_jsonl(tmp_path / "data.jsonl", [record("a"), record("B")])
    words = ("--eval", data, "--only", "spelling", "--json")
    audit = json.loads(source.python("-c", PACT_AUDIT, "data", *words))
    assert audit["checks"][0]["codes"] == {"upper-case-id": {"severity": "warning", "count": 1}}
    assert len(source.edited) == counted("check")


def test_an_import_format(source: Copy, tmp_path: Path) -> None:
    source.add("pact_eval/importing/formats/two_columns.py", TWO_COLUMNS)
    source.write_tables("docs/imports.md")
    log = tmp_path / "answers.tsv"
    log.write_text("a\t0\t0\nb\t1\t0\n", "utf-8")
    source.pact_eval("import", log, "--from", "two-columns", "--out", tmp_path / "imported")
    recorded = json.loads((tmp_path / "imported" / "run.json").read_text("utf-8"))
    assert recorded["settings"]["log"] == "two-columns"
    assert len(source.edited) == counted("import format")


LETTERS_WIRE = '''"""The wire of `POST /v1/letters`: probabilities of the answers to a context."""

from pact_eval.scoring.servers.answers import in_canonical_order
from pact_eval.scoring.servers.wire import (
    QuestionWire,
    ReadReply,
    ViewAnswer,
    checked_log_probabilities,
)


class Letters(QuestionWire):
    """The wire of `/v1/letters`; see `QuestionWire`."""

    name = "letters"
    path = "/v1/letters"

    def request_fields(self, view):
        answers = [view.field.answers[index].key for index in view.order]
        return {"context": view.state, "answers": answers}

    def read(self, call, reply):
        (view,) = call.views
        logits = checked_log_probabilities(reply["probabilities"])
        return ReadReply(reply["model"], (ViewAnswer(in_canonical_order(logits, view.order)),))
'''


def test_a_wire(source: Copy, tmp_path: Path) -> None:
    source.add("pact_eval/scoring/servers/letters.py", LETTERS_WIRE)
    source.insert("pact_eval/scoring/servers/request.py", '"systemone",', '"letters", ')
    detect = "pact_eval/scoring/servers/find_wire.py"
    door = "from pact_eval.scoring.servers.openai_decisions import OpenAIDecisions\n"
    source.insert(detect, door, "from pact_eval.scoring.servers.letters import Letters\n")
    source.insert(detect, "SystemOne, OpenAIDecisions)\n", "Letters, ")
    rule = "    if name == Letters.name:\n        return Letters(score_views=request.score_views)\n"
    source.insert(detect, "    if name == OpenAIDecisions.name:\n", rule)
    source.insert("docs/servers.md", "| `systemone` |", "| `letters` | `/v1/letters` | ours | |\n")
    data = write_jsonl(tmp_path / "data.jsonl", [record("a", decision=question(n=3))])

    def respond(sent: Sent) -> Response:
        return Response(
            {"model": "served", "probabilities": softmax_of_names(sent.body["answers"])}
        )

    with serving(respond, routes=("/v1/letters",)) as server:
        words = ("--server", server.url, "--model", "mine", "--data", data, "--k", 2, "--no-probe")
        source.pact_eval("score", *words, "--out", tmp_path / "served")
    recorded = json.loads((tmp_path / "served" / "run.json").read_text("utf-8"))
    assert recorded["settings"]["server"]["wire"] == "letters"
    assert recorded["counts"]["items"] == 1
    assert len(source.edited) == counted("wire")


POSITION_SHARES = '''"""How often each answer is chosen, by its canonical position."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PositionShares:
    """Share of items by the position of the chosen answer."""

    shares: tuple[float, ...]


def position_shares(experiment, run):
    predicted = run.scored(experiment.settings.decoding).predicted
    return PositionShares(tuple((np.bincount(predicted) / len(predicted)).tolist()))
'''

POSITIONS_FIGURE = '''"""Chosen answers by their position."""

from functools import partial

from pact_eval.evaluation.curves.positions import position_shares
from pact_reports.figures.figure import FigureFile, each_run, run_stem


def draw_positions(positions, ax):
    ax.bar(range(len(positions.shares)), positions.shares)
    ax.set_xlabel("Position of the chosen answer")
    return ax


def build_positions(experiment, looks):
    def file(run):
        panel = partial(draw_positions, position_shares(experiment, run))
        return FigureFile(run_stem("positions", run), "Positions of chosen answers", (panel,))

    return each_run(experiment, looks, file)
'''


def test_a_figure(source: Copy, run: Path, tmp_path: Path) -> None:
    source.add("pact_eval/evaluation/curves/positions.py", POSITION_SHARES)
    source.add("reports/pact_reports/figures/positions.py", POSITIONS_FIGURE)
    registry = "reports/pact_reports/figures/registry.py"
    door = "from pact_reports.figures.probabilities import build_confidence, build_reliability\n"
    source.insert(registry, door, "from pact_reports.figures.positions import build_positions\n")
    spec = 'FigureSpec("positions of chosen answers", "a run", build_positions)'
    source.insert(registry, '    "pairs": FigureSpec(', f'    "positions": {spec},\n')
    source.insert("docs/figures.md", "| `risk-coverage` |", "| `positions` | chosen | a run |\n")
    source.pact_eval("paper", run, "--figures", "positions", "--out", tmp_path / "figures")
    (drawing,) = (tmp_path / "figures").iterdir()
    assert_says(drawing.read_text(encoding="utf-8"), "Position", "chosen answer")
    assert len(source.edited) == counted("figure")


RUN_SIZE = '''"""The size of a run."""

from dataclasses import dataclass

from pact_eval.results import Result
from pact_eval.runs.folder import read_run


@dataclass(frozen=True)
class RunSize(Result):
    """Numbers of items and of views."""

    items: int
    views: int


def run_size(source):
    predictions = read_run(source).predictions
    return RunSize(len(predictions), predictions.k)
'''

MEASURE_SIZE = '''def measure_size(run):
    """Return the size of a run, as `pact-eval size` prints it."""
    from pact_eval.evaluation.run_size import run_size

    return run_size(run)


'''

RUN_SIZE_PRESENTER = '''"""The size of a run."""

from pact_reports.presenters.presenter import Presenter
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.writers.json import to_json


def present(size):
    columns = (Column("items"), Column("views"))
    cells = (Cell(f"{size.items}"), Cell(f"{size.views}"))
    return Presenter(
        tables=lambda: [Table("size", "Size", "", columns, (Row(cells),))],
        to_json=lambda: to_json(size),
        answers=lambda: [f"{size.items * size.views} prompts."],
    )
'''

SIZE_COMMAND = '''"""`pact-eval size`: the size of a run."""

from pact_cli.commands import command
from pact_cli.console import emit
from pact_cli.options import RUN, json_option, path_argument


@command()
@path_argument("run", "RUN", RUN)
@json_option
def size(run, as_json):
    """Print the size of RUN."""
    from pact_eval import measure_size
    from pact_reports.presenters.registry import presenter_of

    emit(presenter_of(measure_size(run)), as_json=as_json)
'''


def test_a_result(source: Copy, run: Path) -> None:
    source.add("pact_eval/evaluation/run_size.py", RUN_SIZE)
    source.insert("pact_eval/api.py", '    "measure_drift",\n', '    "measure_size",\n')
    source.insert("pact_eval/api.py", "def judge(\n", MEASURE_SIZE)
    source.add("reports/pact_reports/presenters/run_size.py", RUN_SIZE_PRESENTER)
    source.add("cli/pact_cli/size.py", SIZE_COMMAND)
    section = "`pact-eval size RUN` prints the size of a run, as `pact_eval.measure_size` does.\n\n"
    source.insert("docs/commands.md", "## Train\n", section)
    printed = source.pact_eval("size", run)
    assert printed.splitlines()[-1] == "180 prompts."
    expected = {"headline": "180 prompts.", "items": 60, "views": 3}
    assert json.loads(source.pact_eval("size", run, "--json")) == expected
    call = f"size = pact_eval.measure_size({str(run)!r})"
    code = f"import pact_eval; {call}; print(size); print(size.to_json())"
    assert source.python("-c", code) == f"{printed}{expected}\n"
    assert "size " in source.pact_eval("--help").splitlines()[-1]
    assert len(source.edited) == counted("result") <= 5
