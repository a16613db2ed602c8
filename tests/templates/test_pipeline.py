"""Token ids, logits and answers are those of `pipeline("decision")` of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from adapters import MODEL
from decision_models import FORMS_A_MARK, HOSTILE, TEMPLATES, requests
from tolerances import LOGIT, PROBABILITY, tempered
from transformers.decision import DecisionConfig

from pact_eval.data.records import Field, parse_field
from pact_eval.scoring.decide import decide
from pact_eval.scoring.model import LoadedModel, identify
from pact_eval.scoring.request import ModelRequest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def decide_here() -> Any:
    """The pipeline; each test gives it another configuration."""
    return transformers.pipeline("decision", model=str(MODEL), device="cpu", dtype="float32")


@pytest.fixture(scope="module", params=TEMPLATES)
def contract(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("contract") / "decision.json"
    path.write_text(json.dumps(TEMPLATES[request.param]), encoding="utf-8")
    return path


def loaded(contract: Path) -> LoadedModel:
    request = ModelRequest(None, str(MODEL), apply_adapter=False, contract=str(contract))
    return identify(request).load()


def field_of(request: dict[str, Any]) -> Field:
    return parse_field("decision", request["questions"]["decision"])


def test_logits_equal_those_of_the_pipeline(contract: Path, decide_here: Any) -> None:
    """20 requests on each of five templates; hostile texts and control tokens everywhere."""
    decide_here.decision_config = DecisionConfig.from_file(contract)
    hostile = [text for text in HOSTILE if text != FORMS_A_MARK]
    safe = decide_here.decision_config.sanitize_control_tokens
    asked_requests = list(requests(20, HOSTILE if safe else hostile))
    model = loaded(contract)
    encode = model.source.encoder.encode_request
    views = [encode(one["state"], [field_of(one)], k=1, seed=0)[0] for one in asked_requests]
    scored = model.scorer.score(views)
    largest = 0.0
    for one, view, view_scores in zip(asked_requests, views, scored, strict=True):
        ready = decide_here.preprocess(one)
        ((inputs, (question,)),) = ready["prompts"]
        assert list(view.token_ids) == inputs["input_ids"][0, : inputs["marks"][0]].tolist()
        with torch.no_grad():
            ((scores,),) = decide_here._forward(ready)["scores"]
        temperature = decide_here.decision_config.temperature.get(question.type, 1.0)
        here = view_scores.logits[list(view.code_order)] / temperature
        off = float(np.abs(here - scores.numpy()).max())
        largest = max(largest, off / tempered(LOGIT, temperature))
    assert largest < 1


def test_answers_as_shipped_equal_those_of_the_pipeline(contract: Path, decide_here: Any) -> None:
    decide_here.decision_config = DecisionConfig.from_file(contract)
    model = loaded(contract)
    temperatures = model.source.contract.files.temperatures  # type: ignore[attr-defined]
    for one in requests(3):
        answer = decide_here(one)["decision"]
        (decision,) = decide(model, one["state"], [field_of(one)], k=1, temperatures=temperatures)
        boolean = answer["type"] == "noul"
        expected = (
            [1 - answer["noul"], answer["noul"]] if boolean else [*answer["probabilities"].values()]
        )
        assert np.abs(np.array(decision.probabilities) - expected).max() < PROBABILITY
