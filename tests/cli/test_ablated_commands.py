"""Ablated contexts as a user meets them: what works on them, and what says why it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from commands import runner
from messages import assert_says
from run_frames import ablated_rows, rows, write_run
from spoiled_datasets import healthy

from pact_cli.audit.main import main as audit
from pact_cli.main import main
from pact_eval.data.ablation import write_ablated_records
from pact_fixtures.paper import HYPOTHESES

run = runner(main)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write_run(tmp_path / "whole", rows(1), arm="no_nr", seed=17)


@pytest.fixture
def ablated(tmp_path: Path) -> Path:
    return write_run(tmp_path / "ablated", ablated_rows(1, lean=3.0), arm="no_nr", seed=17)


@pytest.mark.parametrize(
    "command",
    [
        "compare {ablated} {ablated}",
        "compare {whole} {ablated}",
        "compare a={ablated} b={whole}",
        "calibrate {ablated}",
        "calibrate {whole} --holdout {ablated}",
        "sweep {ablated}",
    ],
)
def test_what_needs_references_says_what_to_use_instead(
    command: str, whole: Path, ablated: Path
) -> None:
    result = run(*command.format(whole=whole, ablated=ablated).split(), code=1)
    assert result.stdout == ""
    assert_says(result.stderr, "ablated:", "ablated contexts", "no references")
    assert "`pact-eval report`" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not list(whole.glob("calibration.json"))


@pytest.mark.slow
def test_h3_has_its_evidence(tmp_path: Path, whole: Path, ablated: Path) -> None:
    other = [
        write_run(tmp_path / "pact", rows(2), arm="pact_full", seed=17),
        write_run(tmp_path / "pact-abl", ablated_rows(2, lean=0.0), arm="pact_full", seed=17),
    ]
    arguments = ("scorecard", HYPOTHESES, whole, ablated, *other, "--resamples", 200)
    text = run(*arguments, "--full").stdout
    assert "H3 Necessity" in text
    assert "H3 Necessity: PARTLY TESTED" not in text
    value = json.loads(run(*arguments, "--json").stdout)
    h3 = next(hypothesis for hypothesis in value["hypotheses"] if hypothesis["id"] == "H3")
    (comparison,) = h3["checks"][0]["comparisons"]
    assert comparison["holds"]
    assert comparison["interval"]["low"] > 0


def test_the_audit_says_what_a_file_of_ablated_contexts_is(tmp_path: Path) -> None:
    source = healthy(families=4).write(tmp_path)
    written = write_ablated_records(source / "holdout.jsonl", tmp_path / "ablated.jsonl")
    result = CliRunner().invoke(audit, ["data", "--eval", str(written.path)])
    assert result.exit_code == 3
    assert "Traceback" not in result.output
    text = " ".join(result.stdout.split())
    assert_says(text, "no reference", "`pact-eval score`", "`register`")
    again = CliRunner().invoke(
        audit, ["ablate", str(written.path), "--out", str(tmp_path / "twice.jsonl")]
    )
    assert again.exit_code == 1
    assert_says(again.output, "ablated context", "no reference")
