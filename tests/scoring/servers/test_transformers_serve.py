"""A real server: `transformers serve` with our tiny model, against its own pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import transformers
from builders import question, record, write_jsonl
from tolerances import PROBABILITY
from transformers_server import serving

from pact_eval.runs.folder import read_run
from pact_eval.scoring.servers.dialects import systemone_question as asked_question
from pact_eval.scoring.servers.probe import ServerProbe
from pact_eval.scoring.servers.source import server_source
from pact_eval.scoring.servers.wire import ServerRequest
from pact_eval.scoring.windows import read_dataset, score_windows
from scoring.conftest import MODEL


def canonical(answer: dict[str, Any], keys: list[str]) -> list[float]:
    if answer["type"] == "noul":
        return [1 - answer["noul"], answer["noul"]]
    return [answer["probabilities"][key] for key in keys]


def test_a_run_through_the_server_equals_its_pipeline(tmp_path: Path) -> None:
    rows = [
        record(
            f"{kind}{n}-base", decision=question(kind, n=4), state=f"Clerk {n}: seal {n} broken."
        )
        for kind in ("choice", "noul", "score")
        for n in range(2)
    ]
    dataset = read_dataset(write_jsonl(tmp_path / "d.jsonl", rows), k=2)
    probes: list[ServerProbe] = []
    with serving(MODEL) as url:
        source = server_source(ServerRequest((url,), str(MODEL), concurrency=1), probes.append)
        score_windows(source, dataset, tmp_path / "run", labels={})
    (probed,) = probes
    assert probed.order is not None
    assert probed.floor is not None
    assert (probed.order.effect, probed.decimals, probed.floor.flips) == ("seen", None, 0)
    assert not probed.unanswered
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
