"""Runs on decision templates: every layout, temperatures as shipped, and their verification."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapters import MODEL, copied
from commands import refuser, runner
from decision_models import TEMPLATES, write_decision_folder

import pact_eval
from pact_cli.main import main as pact_eval_program
from pact_eval.errors import InputError
from pact_eval.evaluation.settings import Settings
from pact_eval.metrics import log_softmax

run = runner(pact_eval_program)
refused = refuser(pact_eval_program)

HOLDOUT = MODEL.parent / "data" / "holdout.jsonl"
LIMIT = 6


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA folder with decision files and no `schema_config.json`."""
    folder = copied(tmp_path_factory.mktemp("models") / "adapter")
    (folder / "schema_config.json").unlink()
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = str(MODEL)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return write_decision_folder(folder, TEMPLATES["own"])


@pytest.fixture(scope="module")
def scored(adapter: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "adapter"
    words = ("--data", HOLDOUT, "--out", out, "--k", 2, "--limit", LIMIT, "--attention", "fused")
    result = run("score", adapter, *words)
    assert f"Contract: {adapter}: decision template" in result.stderr
    return out


@pytest.mark.slow
def test_a_full_model_with_its_lora_gives_the_same_rows(
    adapter: Path, scored: Path, tmp_path: Path
) -> None:
    full = tmp_path / "full"
    shutil.copytree(MODEL, full)
    shutil.copytree(adapter, full / "lora")
    write_decision_folder(full, TEMPLATES["own"] | {"adapter": "lora"})
    made = pact_eval.score(
        HOLDOUT, tmp_path / "run", adapter=full, k=2, limit=LIMIT, attention="fused"
    )
    first = pact_eval.read_run(scored)
    assert made.provenance.contract == first.provenance.contract
    assert np.array_equal(made.predictions.logits, first.predictions.logits)
    again = ("score", full, "--base-model", MODEL, "--data", HOLDOUT, "--out", tmp_path / "x")
    assert "a full decision model" in refused(*again)


@pytest.mark.slow
def test_raw_logits_are_kept_and_temperatures_applied_as_shipped(scored: Path) -> None:
    views = pact_eval.read_run(scored).predictions
    shipped = {"boolean": 2.0, "score": 0.5, "choice": 1.0}
    at = np.array([shipped[kind] for kind in views.kind])
    log_probs = log_softmax(views.logits[:, 0] / at[:, np.newaxis], views.n_choices)
    nll = -log_probs[np.arange(len(at)), views.references].mean()
    settings = Settings(calibrated=True, shipped=True, resamples=100)
    evaluation = pact_eval.evaluate(scored, settings)
    assert evaluation.calibration == "as shipped"
    assert evaluation.groups[0].estimates["nll_nats"].value == pytest.approx(nll, abs=1e-9)
    raw = pact_eval.evaluate(scored, Settings(resamples=100))
    assert raw.groups[0].estimates["nll_nats"].value != pytest.approx(nll, abs=1e-3)
    report = run("report", scored, "--calibration", "shipped", "--resamples", 100).stdout
    assert "temperatures as shipped" in " ".join(report.split())


def test_only_runs_on_templates_have_shipped_temperatures(tmp_path: Path) -> None:
    other = pact_eval.score(HOLDOUT, tmp_path / "run", base_model=str(MODEL), k=1, limit=2)
    with pytest.raises(InputError, match="only decision templates"):
        pact_eval.evaluate(other, Settings(calibrated=True, shipped=True))


@pytest.mark.slow
def test_a_run_is_verified_against_its_template(
    adapter: Path, scored: Path, tmp_path: Path
) -> None:
    run("verify", scored)
    original = (adapter / "decision.json").read_text()
    changes: list[dict[str, Any]] = [{"temperature": {}}, {"noul_options": ["false", "true"]}]
    for change in changes:
        (adapter / "decision.json").write_text(json.dumps(json.loads(original) | change))
        result = run("verify", scored, code=5)
        (adapter / "decision.json").write_text(original)
        assert "differs      prompts" in result.stdout


@pytest.mark.slow
def test_decide_applies_temperatures_on_request(adapter: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"sealed": {"type": "noul", "instructions": "Is it sealed?"}}')
    command = ("decide", adapter, "--context", "It is sealed.", "--schema", schema, "--json")
    raw, shipped = (
        json.loads(run(*command, *more).stdout)["answers"]["sealed"]["probabilities"]
        for more in ((), ("--as-shipped",))
    )
    odds = np.log(raw["true"] / raw["false"])
    assert np.log(shipped["true"] / shipped["false"]) == pytest.approx(odds / 2)


@pytest.mark.slow
def test_a_base_without_a_chat_template_is_scored_on_the_plain_prompt(tmp_path: Path) -> None:
    base = tmp_path / "base"
    shutil.copytree(MODEL, base)
    (base / "chat_template.jinja").unlink()
    words = ("--base-model", base, "--data", HOLDOUT, "--limit", 2, "--k", 2)
    message = refused("score", "--no-adapter", *words, "--out", tmp_path / "none")
    assert "--contract plain" in message
    named = ("--contract", "plain", "--out", tmp_path / "plain", "--attention", "fused")
    made = run("score", "--no-adapter", *words, *named)
    assert "Contract: the plain prompt, without a chat template" in made.stderr
    provenance = pact_eval.read_run(tmp_path / "plain").provenance
    assert provenance.contract_files == "plain"
    assert "plain, fingerprint" in run("verify", tmp_path / "plain").stdout
