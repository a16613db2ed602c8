"""Views taken one by one by a model here: the same answers, and runs that were killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from adaptive_runs import taken_rows
from commands import command_line

from pact_eval.errors import GateError
from pact_eval.remedies.view_rules import AdaptiveViews, view_rule
from pact_eval.runs.folder import read_run
from pact_eval.runs.view_rule import ViewRule
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.score import score
from pact_eval.scoring.windows import read_dataset
from scoring.conftest import FIXTURES, HOLDOUT

pytestmark = pytest.mark.slow

RULE = ViewRule(threshold=0.5, risk=0.05, full_share=0.2)
OF_A_PROCESS = ("created", "finished", "wall_seconds", "command_line", "seal")
# The counts of tokens are those of the process that finished the run.
SCORING = """
import sys
from dataclasses import replace
from pathlib import Path
from pact_eval.runs.view_rule import ViewRule
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.score import score
from pact_eval.scoring.windows import read_dataset
adapter, data, out = map(Path, sys.argv[1:4])
rule = ViewRule(threshold=0.5, risk=0.05, full_share=0.2)
dataset = replace(read_dataset(data, k=4, limit=128), rule=rule)
score(identify(ModelRequest(adapter, attention="fused")), dataset, out, labels={})
"""
ADAPTER = FIXTURES / "adapters" / "pact"


def scored(out: Path, rule: ViewRule | None) -> Path:
    dataset = replace(read_dataset(HOLDOUT, k=4, limit=128), rule=rule)
    score(identify(ModelRequest(ADAPTER, attention="fused")), dataset, out, labels={})
    return out


@pytest.fixture(scope="module")
def adaptive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scored(tmp_path_factory.mktemp("adaptive") / "run", RULE)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scored(tmp_path_factory.mktemp("full") / "run", None)


def test_the_rows_are_the_first_ones_of_a_run_of_all_views(adaptive: Path, full: Path) -> None:
    rows, of_all = (pl.read_parquet(run / "predictions.parquet") for run in (adaptive, full))
    expected = taken_rows(of_all, RULE)
    columns = ["id", "view", "code_order", "prompt_tokens", "reference"]
    assert rows.select(columns).equals(expected.select(columns))
    assert len(rows) < len(of_all)
    logits, others = (frame["logits"].explode().to_numpy() for frame in (rows, expected))
    assert np.abs(logits - others).max() < 1e-4


def test_tokens_are_counted_as_they_pass(adaptive: Path, full: Path) -> None:
    tokens, of_all = (read_run(run).provenance.engine.tokens for run in (adaptive, full))
    assert tokens["prompts"] < of_all["prompts"]
    # Each pass reads the contexts of its records again.
    rows = pl.read_parquet(adaptive / "predictions.parquet")
    assert tokens["prompts"] == rows["prompt_tokens"].sum()
    assert tokens["passed"] >= tokens["floor"]


@pytest.mark.posix
def test_a_killed_run_is_resumed_to_the_same_bytes(tmp_path: Path, adaptive: Path) -> None:
    out = tmp_path / "run"
    command = command_line("python", "-c", SCORING, ADAPTER, HOLDOUT, out)
    with subprocess.Popen(command) as process:
        until = time.monotonic() + 600
        while not len(list((out / "parts").glob("part-*"))) and time.monotonic() < until:
            assert process.poll() is None, "the run ended before it was killed"
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not (out / "predictions.parquet").exists()
    scored(out, RULE)
    files = [run / "predictions.parquet" for run in (out, adaptive)]
    assert files[0].read_bytes() == files[1].read_bytes()
    recorded = [json.loads((file.parent / "run.json").read_bytes()) for file in files]
    for values in recorded:
        values["engine"].pop("tokens")
        for name in OF_A_PROCESS:
            values.pop(name, None)
    assert recorded[0] == recorded[1]


def test_the_rule_is_chosen_on_other_families(full: Path) -> None:
    model = identify(ModelRequest(ADAPTER))
    records = read_dataset(HOLDOUT, k=4).records
    others = records[128:]
    rule = view_rule(AdaptiveViews(full, risk=0.05), others, 4, model.settings)
    assert rule.fit["families"] == 64
    assert 0 < rule.threshold < np.inf
    with pytest.raises(GateError):
        view_rule(AdaptiveViews(full, risk=0.05), records, 4, model.settings)
