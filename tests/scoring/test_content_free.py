"""Content-free prompts: real models, real kills, servers, and runs that were complete before."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from commands import command_line
from messages import assert_says
from steps import Steps
from tolerances import LOGIT

from pact_cli.main import main
from pact_eval.data.records import AblatedFrom, read_records
from pact_eval.errors import InputError, RunError, TamperedError
from pact_eval.progress import watched
from pact_eval.prompts.contract import code_orders
from pact_eval.prompts.nimble import NIMBLE, prompt_text
from pact_eval.remedies import ContentFree
from pact_eval.runs.folder import (
    CONTENTS,
    content_free_run,
    open_run,
    read_run,
)
from pact_eval.runs.seal import CONTENT_FREE
from pact_eval.scoring.model import ScoringModel, identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.score import LocalSource, score
from pact_eval.scoring.servers.source import server_source
from pact_eval.scoring.servers.wire import ServerRequest
from pact_eval.scoring.sources import content_free_dataset, score_content_free
from pact_eval.scoring.windows import WINDOW_RECORDS, read_dataset, score_windows
from scoring.conftest import HOLDOUT, Make
from scoring.servers.loopback import serving, softmax_of_names, systemone
from scoring.servers.test_served_runs import dataset_file


@pytest.fixture(scope="module")
def model(qwen3: Path, make_adapter: Make) -> ScoringModel:
    return identify(ModelRequest(make_adapter(qwen3), str(qwen3), attention="fused"))


@pytest.fixture(scope="module")
def run(model: ScoringModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a run of 30 records with its content-free prompts."""
    folder = tmp_path_factory.mktemp("content-free") / "run"
    dataset = read_dataset(HOLDOUT, k=3, limit=30)
    score(model, dataset, folder, labels={})
    score_content_free(LocalSource(model), dataset, folder, labels={})
    return folder


@pytest.mark.slow
def test_prompts_keep_question_and_orders_and_lose_the_context(
    model: ScoringModel, run: Path
) -> None:
    dataset = read_dataset(HOLDOUT, k=3, limit=30)
    records = content_free_dataset(dataset).records
    assert [record.state for record in records[:3]] == ["N/A", "[MASK]", ""]
    loaded = model.load()
    rows = pl.read_parquet(run / CONTENT_FREE / "predictions.parquet")
    for record, original in zip(records[:9:3], dataset.records[:3], strict=True):
        views = model.encoder.encode([record], 2, 0)
        expected = model.encoder.encode([original], 2, 0)
        assert [view.code_order for view in views] == [view.code_order for view in expected]
        scored = loaded.scorer.score(views)
        ours = rows.filter(pl.col("id") == record.id).sort("view")["logits"].to_list()
        for view_logits, result in zip(ours, scored, strict=True):
            np.testing.assert_allclose(view_logits, result.logits, atol=LOGIT)


@pytest.mark.slow
def test_tokens_per_item_against_prompts_tokenised_one_by_one(run: Path, tokenizer: Any) -> None:
    """Three contents of 30 items; a window's prompts share their prefixes."""
    records = [
        (replace(record, state=content), record.id)
        for record in read_records(HOLDOUT)[:30]
        for content in ("N/A", "[MASK]", "")
    ]
    sent, shared = np.zeros(2), np.zeros(2)
    for start in range(0, len(records), WINDOW_RECORDS):
        prefixes: tuple[set[tuple[int, ...]], ...] = (set(), set())
        for record, key in records[start : start + WINDOW_RECORDS]:
            for view, order in enumerate(code_orders(0, key, record.n_choices, 2)):
                field = record.field
                text = prompt_text(tokenizer, NIMBLE, record.state, [field], field.name, order)
                ids = tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
                sent[view:] += len(ids)
                for distinct in prefixes[view:]:
                    distinct.update(ids[:end] for end in range(1, len(ids) + 1))
        shared += [len(distinct) for distinct in prefixes]
    prompts = _prompts_of(run)
    assert prompts is not None
    assert prompts.costs.sent == pytest.approx(sent / 90)
    assert prompts.costs.shared == pytest.approx(shared / 90)


@pytest.mark.slow
def test_a_complete_run_gets_them_interrupted_or_not_without_a_change_of_its_own(
    model: ScoringModel, run: Path, tmp_path: Path
) -> None:
    dataset = read_dataset(HOLDOUT, k=3, limit=30)
    score(model, dataset, tmp_path / "run", labels={})
    names = ("run.json", "predictions.parquet")
    before = [(tmp_path / "run" / name).read_bytes() for name in names]
    source = LocalSource(model)
    with pytest.raises(KeyboardInterrupt), watched(Steps(stop_after="part-000000.parquet")):
        score_content_free(source, dataset, tmp_path / "run", labels={})
    assert content_free_run(open_run(tmp_path / "run")) is None
    score_content_free(source, dataset, tmp_path / "run", labels={})
    assert [(tmp_path / "run" / name).read_bytes() for name in names] == before
    added, together = (
        (folder / CONTENT_FREE / "predictions.parquet").read_bytes()
        for folder in (tmp_path / "run", run)
    )
    assert added == together


@pytest.mark.slow
def test_a_killed_command_resumes_with_the_same_bytes(
    model: ScoringModel, qwen3: Path, tmp_path: Path
) -> None:
    assert model.adapter is not None
    words = ["score", str(model.adapter.folder), "--base-model", str(qwen3), "--data", str(HOLDOUT)]
    words += ["--k", "2", "--limit", "40", "--attention", "fused", "--content-free", "--out"]
    killed = tmp_path / "killed"
    process = subprocess.Popen(
        command_line("pact-eval", *words, killed),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    parts = killed / CONTENT_FREE / "parts"
    while process.poll() is None and not list(parts.glob("part-*")):
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert (killed / "predictions.parquet").exists()
    for folder in (killed, tmp_path / "whole"):
        result = CliRunner().invoke(main, [*words, str(folder)])
        assert result.exit_code == 0, result.output
    for name in ("predictions.parquet", f"{CONTENT_FREE}/predictions.parquet"):
        assert (killed / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def _prompts_of(folder: Path) -> ContentFree | None:
    run = read_run(folder)
    return ContentFree.of_run(run, run.predictions)


@pytest.mark.slow
def test_those_of_another_run_are_refused(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    other = tmp_path / "run" / CONTENT_FREE / "run.json"
    recorded = json.loads(other.read_text())
    recorded["settings"]["dtype"] = "bfloat16"
    other.write_text(json.dumps(recorded))
    with pytest.raises(TamperedError):
        _prompts_of(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / CONTENT_FREE)
    shutil.copytree(
        run, tmp_path / "run" / CONTENT_FREE
    )  # a run of other records, with its own seal
    with pytest.raises(RunError) as error:
        _prompts_of(tmp_path / "run")
    assert_says(error.value, CONTENT_FREE, "--content-free")


def test_a_server_is_asked_for_them_too(tmp_path: Path) -> None:
    data = dataset_file(tmp_path)
    dataset = read_dataset(data, k=4)
    with serving(systemone) as server:
        request = ServerRequest(urls=(server.url,), model="mine", probe=False)
        source = server_source(request)
        score_windows(source, dataset, tmp_path / "run", labels={})
        before = len(server.posts)
        score_content_free(source, dataset, tmp_path / "run", labels={})
        states = {sent.body["state"] for sent in server.posts[before:]}
    assert states == set(CONTENTS)
    prompts = _prompts_of(tmp_path / "run")
    assert prompts is not None
    p_cf = prompts.probabilities
    names = ["answer_0", "answer_1", "answer_2"]
    expected = np.mean([softmax_of_names(names, json.dumps(text)) for text in CONTENTS], axis=0)
    assert p_cf[0, 0, :3] == pytest.approx(expected)


def test_ablated_contexts_have_none() -> None:
    dataset = read_dataset(HOLDOUT, k=1, limit=1)
    (record,) = dataset.records
    ablated = replace(record, ablation=AblatedFrom(record.id, (0, 1)), reference=None)
    with pytest.raises(InputError) as error:
        content_free_dataset(replace(dataset, records=[ablated]))
    assert_says(error.value, "--content-free", "references")
