"""Scoring end to end, on real models and real Parquet, with real kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from builders import record, write_jsonl
from click.testing import CliRunner
from commands import command_line
from messages import assert_says
from steps import Steps
from tolerances import LOGIT

from pact_cli.main import main
from pact_eval._files import sha256_of_file
from pact_eval.errors import AdapterError, PromptError, RunSettingsError
from pact_eval.models import sha256_of_weights
from pact_eval.progress import watched
from pact_eval.runs.folder import Run, read_run
from pact_eval.scoring.model import ScoringModel, identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.score import score
from pact_eval.scoring.scorer import Scorer
from pact_eval.scoring.windows import WINDOW_RECORDS, read_dataset
from scoring.conftest import HOLDOUT, Make


@pytest.fixture(scope="module")
def model(qwen3: Path, make_adapter: Make) -> ScoringModel:
    return identify(ModelRequest(make_adapter(qwen3), str(qwen3), attention="fused"))


def numbers_of(run: Run, items: int | None = None) -> dict[str, float]:
    """Accuracy and answer mass of view 0 of the first items of a run."""
    predictions = run.predictions
    assert predictions.references is not None
    references = predictions.references[:items]
    right = predictions.logits[:items, 0].argmax(axis=1) == references
    mass = pl.read_parquet(run.folder / "predictions.parquet").filter(pl.col("view") == 0)
    return {"accuracy": right.mean(), "answer_mass": mass["answer_mass"][:items].mean()}


@pytest.mark.slow
def test_a_run_holds_every_view_and_says_what_it_is(
    model: ScoringModel, qwen3: Path, tmp_path: Path
) -> None:
    dataset = read_dataset(HOLDOUT, k=3, limit=70)
    steps = Steps()
    with watched(steps):
        score(model, dataset, tmp_path / "run", labels={"arm": "pact", "seed": 17})
    assert [step.name for step in steps.outer] == [
        *("Measuring prompts", "Hashing the model", "Opening the run"),
        *("Loading the model", "Checking the engine", "Scoring"),
        *("Joining the windows", "Sealing the run"),
    ]
    scoring = steps.outer[-3]
    assert (scoring.done, scoring.total, scoring.unit) == (70, 70, "items")
    run = read_run(tmp_path / "run")
    assert scoring.numbers == pytest.approx(numbers_of(run))
    assert len(run.predictions) == 70
    assert run.predictions.k == 3
    settings = run.settings
    assert model.adapter is not None
    assert settings["adapter"] == {
        "sha256": sha256_of_file(model.adapter.weights),
        "config_sha256": sha256_of_file(model.adapter.folder / "adapter_config.json"),
    }
    assert settings["base"] == {
        "sha256": sha256_of_weights(qwen3),
        "config_sha256": sha256_of_file(qwen3 / "config.json"),
        "revision": None,
    }
    assert settings["data"] == {"sha256": sha256_of_file(HOLDOUT), "records": 70}
    assert (settings["device"], settings["dtype"], settings["k"]) == ("cpu", "float32", 3)
    assert run.provenance.recorded["counts"] == {"items": 70, "views": 210}
    assert run.provenance.recorded["attention"] == "sdpa"
    assert (run.provenance.recorded["arm"], run.provenance.recorded["seed"]) == ("pact", 17)
    assert float(str(run.provenance.recorded["adapter_largest_logit_change"])) > 0
    rows = pl.read_parquet(tmp_path / "run" / "predictions.parquet")
    references = dict(zip(rows["id"], rows["reference"], strict=True))
    assert all(references[one.id] == one.reference for one in dataset.records)


def test_logits_stand_in_canonical_order_whatever_the_letters(
    model: ScoringModel, tmp_path: Path
) -> None:
    dataset = read_dataset(HOLDOUT, k=2, limit=4)
    score(model, dataset, tmp_path / "run", labels={})
    predictions = read_run(tmp_path / "run").predictions
    loaded = model.load()
    by_id = {one.id: one for one in dataset.records}
    for item, record_id in enumerate(predictions.ids.tolist()):
        views = model.encoder.encode([by_id[record_id]], 2, 0)
        for view, scored in zip(views, loaded.scorer.score(views), strict=True):
            n = len(view.code_order)
            assert predictions.code_order[item, view.view, :n].tolist() == list(view.code_order)
            ours = predictions.logits[item, view.view, :n]
            np.testing.assert_allclose(ours, scored.logits, atol=LOGIT)


@pytest.mark.slow
def test_scores_do_not_depend_on_the_order_of_the_file(model: ScoringModel, tmp_path: Path) -> None:
    lines = HOLDOUT.read_text(encoding="utf-8").split("\n")[:20]
    (tmp_path / "reversed.jsonl").write_text("\n".join(reversed(lines)) + "\n", encoding="utf-8")
    (tmp_path / "straight.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    runs = []
    for name in ("straight", "reversed"):
        dataset = read_dataset(tmp_path / f"{name}.jsonl", k=2)
        score(model, dataset, tmp_path / name, labels={})
        runs.append(read_run(tmp_path / name).predictions)
    assert runs[0].ids.tolist() == runs[1].ids.tolist()[::-1]
    assert (runs[0].code_order == runs[1].code_order[::-1]).all()
    straight, reverse = (run.log_probs("single") for run in runs)
    np.testing.assert_allclose(straight, reverse[::-1], atol=LOGIT)


@pytest.mark.slow
def test_the_adapter_switched_off_is_the_base_model(
    model: ScoringModel, qwen3: Path, tmp_path: Path
) -> None:
    assert model.adapter is not None
    of_base: Any = {"base_model": str(qwen3), "attention": "fused"}
    off = identify(ModelRequest(model.adapter.folder, apply_adapter=False, **of_base))
    alone = identify(ModelRequest(None, **of_base))
    dataset = read_dataset(HOLDOUT, k=1, limit=8)
    logits = {}
    for name, one in (("on", model), ("off", off), ("alone", alone)):
        score(one, dataset, tmp_path / name, labels={})
        logits[name] = read_run(tmp_path / name).predictions.logits
    assert (logits["off"] == logits["alone"]).all()
    assert (logits["on"] != logits["off"]).any()
    assert read_run(tmp_path / "off").settings["adapter"] is None


def test_a_limit_beyond_the_file_is_the_whole_file_and_other_settings_are_refused(
    model: ScoringModel, tmp_path: Path
) -> None:
    path = write_jsonl(tmp_path / "eval.jsonl", [record(), record("f2-base")])
    score(model, read_dataset(path, k=1), tmp_path / "run", labels={})
    score(model, read_dataset(path, k=1, limit=2), tmp_path / "run", labels={})
    score(model, read_dataset(path, k=1, limit=9), tmp_path / "run", labels={})
    for dataset, difference in (
        (read_dataset(path, k=1, limit=1), "data.records: .* 2, this command 1"),
        (read_dataset(path, k=2), "k: .* 1, this command 2"),
    ):
        with pytest.raises(RunSettingsError, match=difference):
            score(model, dataset, tmp_path / "run", labels={})


def test_a_prompt_over_the_limit_is_told_before_anything_is_scored(
    model: ScoringModel, tmp_path: Path
) -> None:
    path = write_jsonl(
        tmp_path / "eval.jsonl", [record(), record("f2-base", state="very long " * 2000)]
    )
    with pytest.raises(PromptError, match=r"eval.jsonl: (.|\n)*line 2 .id f2-base."):
        score(model, read_dataset(path, k=1), tmp_path / "run", labels={})
    assert not (tmp_path / "run").exists()


def test_an_untrained_adapter_is_refused_before_anything_is_written(
    qwen3: Path, make_adapter: Make, tmp_path: Path
) -> None:
    untrained = identify(ModelRequest(make_adapter(qwen3, zero=True), str(qwen3)))
    with pytest.raises(AdapterError, match="no effect"):
        score(untrained, read_dataset(HOLDOUT, k=1, limit=4), tmp_path / "run", labels={})
    assert not list((tmp_path / "run" / "parts").iterdir())


ITEMS = 2 * WINDOW_RECORDS + 1  # three windows


def _arguments(adapter: Path, base: Path, out: Path) -> list[str]:
    return [
        *("score", str(adapter), "--base-model", str(base), "--data", str(HOLDOUT)),
        *("--limit", str(ITEMS), "--k", "1", "--out", str(out)),
        *("--attention", "fused"),
    ]


def _started(arguments: list[str], **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command_line("pact-eval", *arguments), stdout=subprocess.DEVNULL, text=True, **options
    )


def _wait_for_parts(process: subprocess.Popen[str], parts: Path, n: int) -> None:
    deadline = time.monotonic() + 120
    while len(list(parts.glob("part-*"))) < n:
        assert process.poll() is None, "the run ended before it could be stopped"
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.skipif(
    "PACT_TEST_PRODUCTS" in os.environ, reason="the process that it kills chooses for itself"
)
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(
    model: ScoringModel, qwen3: Path, tmp_path: Path
) -> None:
    assert model.adapter is not None
    adapter = model.adapter.folder
    process = _started(_arguments(adapter, qwen3, tmp_path / "killed"), stderr=subprocess.DEVNULL)
    parts = tmp_path / "killed" / "parts"
    _wait_for_parts(process, parts, 1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 1 <= len(list(parts.glob("part-*"))) < 3
    for name in ("killed", "whole"):
        result = CliRunner().invoke(main, _arguments(adapter, qwen3, tmp_path / name))
        assert result.exit_code == 0, result.output
    killed, uninterrupted = (
        tmp_path / name / "predictions.parquet" for name in ("killed", "whole")
    )
    assert killed.read_bytes() == uninterrupted.read_bytes()
    provenance = json.loads((tmp_path / "killed" / "run.json").read_text())
    assert provenance["counts"] == {"items": ITEMS, "views": ITEMS}


@pytest.mark.slow
def test_resuming_scores_only_what_is_missing(
    model: ScoringModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = read_dataset(HOLDOUT, k=2, limit=70)

    with pytest.raises(KeyboardInterrupt), watched(Steps(stop_after="part-000000.parquet")):
        score(model, dataset, tmp_path / "run", labels={})
    record_ids: list[str] = []
    plain = Scorer.score

    def counted(scorer: Scorer, views: Any, *rest: Any) -> Any:
        record_ids.extend(view.record_id for view in views)
        return plain(scorer, views, *rest)

    monkeypatch.setattr(Scorer, "score", counted)
    monkeypatch.setattr(Scorer, "check_adapter_effect", lambda *_: 1.0)
    score(model, dataset, tmp_path / "run", labels={})
    missing = {one.id for one in dataset.records[WINDOW_RECORDS:]}
    assert set(record_ids) == missing
    assert len(read_run(tmp_path / "run").predictions) == 70


@pytest.mark.slow
def test_an_interrupt_is_a_message_and_keeps_what_was_scored(
    model: ScoringModel, qwen3: Path, tmp_path: Path
) -> None:
    assert model.adapter is not None
    process = _started(
        _arguments(model.adapter.folder, qwen3, tmp_path / "run"),
        stderr=subprocess.PIPE,
        # A shell that starts the suite in the background has it, and its children, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    parts = tmp_path / "run" / "parts"
    _wait_for_parts(process, parts, 1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in errors
    kept = len(list(parts.glob("part-*"))) * WINDOW_RECORDS
    kept_in = str(tmp_path / "run")
    assert_says(errors, "interrupted", f"{kept} scored items", kept_in, "same command resumes")
    assert list(parts.glob("part-*"))
