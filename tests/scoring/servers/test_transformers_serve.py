"""A real server: `transformers serve` with our tiny model, against its own pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from builders import question, record, write_jsonl
from tolerances import PROBABILITY
from transformers_server import serving

from pact_eval.runs.folder import read_run
from pact_eval.scoring.servers.request import ServerRequest
from pact_eval.scoring.servers.source import probe, server_source
from pact_eval.scoring.servers.systemone import question as asked_question
from pact_eval.scoring.windows import read_dataset, score_windows
from scoring.conftest import MODEL

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(MODEL) as address:
        yield address


def test_scores_equal_those_of_the_pipeline(url: str, tmp_path: Path) -> None:
    rows = [
        record(
            f"{kind}{n}-base", decision=question(kind, n=4), state=f"Clerk {n}: seal {n} broken."
        )
        for kind in ("choice", "noul", "score")
        for n in range(3)
    ]
    dataset = read_dataset(write_jsonl(tmp_path / "d.jsonl", rows), k=3)
    source = server_source(ServerRequest((url,), str(MODEL), concurrency=1))
    score_windows(source, dataset, tmp_path / "run", labels={})
    served = read_run(tmp_path / "run").predictions
    decide = transformers.pipeline("decision", model=str(MODEL), device="cpu", dtype="float32")
    largest = 0.0
    for row, one in enumerate(dataset.records):
        for view, order in enumerate(source.item(one, dataset).orders):
            questions: Any = {"decision": asked_question(one.field, order)}
            answer = decide({"state": one.state, "questions": questions})["decision"]
            expected = canonical(answer, [a.key for a in one.field.answers])
            probabilities = np.exp(served.logits[row, view, : one.n_choices])
            largest = max(largest, float(np.abs(probabilities - expected).max()))
    assert largest < PROBABILITY


def canonical(answer: dict[str, Any], keys: list[str]) -> list[float]:
    if answer["type"] == "noul":
        return [1 - answer["noul"], answer["noul"]]
    return [answer["probabilities"][key] for key in keys]


def test_the_probe_finds_that_it_sees_orders_and_does_not_round(url: str) -> None:
    result = probe(ServerRequest((url,), str(MODEL)))
    assert result.order is not None
    assert result.floor is not None
    assert (result.order.effect, result.decimals, result.floor.flips) == ("seen", None, 0)
    assert not result.unanswered
