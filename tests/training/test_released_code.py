"""Rows of the table in docs/training.md: what the released code does, as published, and what we do.

The released code was read; nothing of it is here but names of keys and the formula of a decoding.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from adapters import SHIPPED
from builders import question, record, write_jsonl
from commands import runner
from transformers import AutoTokenizer

import pact_fixtures
from pact_cli.audit.main import main as audit
from pact_eval.calibration.temperatures import Calibrator, ItemFacts, Weights
from pact_eval.data.records import parse_field, read_records
from pact_eval.errors import PromptError
from pact_eval.metrics import decode_ensemble, log_softmax
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.training.recipe_model import recipe_settings

FIXTURES = Path(pact_fixtures.__file__).parent
RELEASED_KEYS = {
    *("task", "model", "revision", "system_prompt", "prompt_code_sha256", "max_length", "seed"),
    *("lora_rank", "learning_rate", "lr_scheduler", "inference_precision", "method", "pact"),
}
STEEPEST = -3.490833  # of log(L/1000), of the published calibrators of PACT


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(AutoTokenizer.from_pretrained(FIXTURES / "model"), NIMBLE)


def test_a_question_with_one_answer_decides_nothing_and_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 2 to 255 answers, got 1"):
        parse_field("decision", question(n=1))


def test_more_answers_than_letters_are_noted_by_the_audit_and_refused_by_a_local_model(
    encoder: Encoder, tmp_path: Path
) -> None:
    """Once, `pact-audit data` said nothing of 30 answers unless it had a tokenizer."""
    rows = [record(f"f{n}-base", decision=question(n=n)) for n in (26, 27, 30)]
    file = write_jsonl(tmp_path / "holdout.jsonl", rows)
    result = runner(audit)("data", file, "--only", "schema", "--json")
    (check,) = json.loads(result.stdout)["checks"]
    found = [(each["line"], each["code"], each["found"]) for each in check["findings"]]
    assert found == [(2, "server-only", "27"), (3, "server-only", "30")]
    fits, *too_many = read_records(file)
    assert len(encoder.encode([fits], 1, 0)) == 1
    with pytest.raises(PromptError, match="more answers than the Nimble contract has letters"):
        encoder.encode(too_many, 1, 0)


def test_an_adapter_of_the_contract_of_255_answers_has_our_prompts_up_to_26() -> None:
    """Both of its releases name the hash of the same prompt code."""
    config = json.loads((SHIPPED / "pact" / "schema_config.json").read_text("utf-8"))
    del config["contract_fingerprint"]
    NIMBLE.check_adapter({**config, "task": "schema_candidate_classification_v2"})


def test_the_settings_of_the_paper_store_activations() -> None:
    """With checkpointing on, the released code peaked at 28.8 GiB."""
    assert not recipe_settings("pact", {}).gradient_checkpointing
    assert recipe_settings("pact", {"gradient_checkpointing": True}).gradient_checkpointing


def released_ensemble(logits: np.ndarray, calibrator: Calibrator, tokens: np.ndarray) -> np.ndarray:
    """Each view divided by T of its own length: log-probabilities of shape (n, C)."""
    n, k, n_choices = logits.shape
    by_view = np.empty_like(logits)
    for view in range(k):
        t = calibrator.temperatures(ItemFacts(["choice"] * n, [n_choices] * n, tokens[:, view]))
        by_view[:, view] = log_softmax(logits[:, view] / t[:, None], [n_choices] * n)
    return log_softmax(by_view.mean(axis=1), [n_choices] * n)


def test_one_temperature_per_item_is_that_of_each_view_because_views_are_equally_long(
    encoder: Encoder,
) -> None:
    records = read_records(FIXTURES / "data" / "holdout.jsonl")[:40]
    views = encoder.encode(records, 4, 0)
    tokens = np.array([len(view.token_ids) for view in views], dtype=float).reshape(-1, 4)
    assert (tokens == tokens[:, :1]).all()
    calibrator = Calibrator("contextual", Weights((1.5, 0.5, 0.5), 0.4, STEEPEST))
    logits = np.random.default_rng(0).normal(0, 3, (40, 4, 5))
    sizes, kinds = [5] * 40, ["choice"] * 40
    items = ItemFacts(kinds, sizes, tokens[:, 0])
    ours = calibrator.apply(decode_ensemble(logits, sizes), items)
    theirs = released_ensemble(logits, calibrator, tokens)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    longer = released_ensemble(logits, calibrator, tokens + np.arange(0, 8, 2))
    assert 1e-4 < np.abs(np.exp(ours) - np.exp(longer)).max() < 0.05


def test_six_keys_of_the_released_schema_config_are_not_written() -> None:
    """The rank is in `adapter_config.json`, the settings of a recipe in `training.json`."""
    config = json.loads((SHIPPED / "pact" / "schema_config.json").read_text("utf-8"))
    assert RELEASED_KEYS - config.keys() == {
        *("lora_rank", "learning_rate", "lr_scheduler", "inference_precision", "method", "pact"),
    }
    assert json.loads((SHIPPED / "pact" / "adapter_config.json").read_text("utf-8"))["r"] > 0
    settings = recipe_settings("pact", {}).to_json()
    assert {"learning_rate", "schedule", "precision"} <= settings.keys()
