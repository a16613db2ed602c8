"""The registry of import formats: one module in `formats` is all that a new format needs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pact_cli.main import main
from pact_eval.importing import formats
from pact_eval.importing.import_run import start_of
from pact_eval.importing.registry import sources

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs"

MODULE = '''
"""Source "two-columns": the id, the answer and the reference of an item, with tabs between them."""

from pact_eval.importing.source import Log, LogRow, Source


class TwoColumns(Source):
    title, reads = "A spreadsheet", "`.tsv`"

    def recognises(self, start):
        return start.path.suffix == ".tsv"

    def open(self, path, options):
        return Log(self.rows(path), (path,))

    def rows(self, path):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            record, answer, reference = line.split("\\t")
            row = {"id": record, "answer": int(answer), "reference": int(reference)}
            yield LogRow(number, record, row | {"n_choices": 2})


SOURCE = TwoColumns()
'''


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A log of a format whose module lies beside ours."""
    folder = tmp_path / "formats"
    folder.mkdir()
    (folder / "two_columns.py").write_text(MODULE, "utf-8")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(folder)])
    path = tmp_path / "answers.tsv"
    path.write_text("a\t0\t0\nb\t1\t0\nc\t1\t1\n", "utf-8")
    yield path
    sys.modules.pop(f"{formats.__name__}.two_columns", None)


@pytest.mark.parametrize("options", [["--from", "two-columns"], []], ids=["named", "detected"])
def test_a_module_is_a_format(log: Path, tmp_path: Path, options: list[str]) -> None:
    words = ["import", str(log), "--out", str(tmp_path / "run"), *options, "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    recorded = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert recorded["settings"]["log"] == "two-columns"
    assert recorded["counts"]["items"] == 3


def test_rows_of_our_own_are_tried_last(log: Path) -> None:
    assert [source.name for source in sources()][-1] == "rows"


@pytest.mark.parametrize(
    ("log_path", "name"),
    [
        ("lm_eval", "lm-eval"),
        ("inspect/answers.eval", "inspect"),
        ("inspect/answers.json", "inspect"),
        ("helm/tiny", "helm"),
        ("helm/tiny/scenario_state.json", "helm"),
    ],
)
def test_one_format_recognises_a_log(log_path: str, name: str) -> None:
    start = start_of(LOGS / log_path)
    recognising = [source.name for source in sources() if source.recognises(start)]
    assert [format_name for format_name in recognising if format_name != "rows"] == [name]
