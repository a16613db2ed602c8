from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import question
from tolerances import PROBABILITY

from pact_eval._json import Json
from pact_eval.prompts.requests import Decision, parse_schema
from pact_eval.scoring.decide import decide
from pact_eval.scoring.model import LoadedModel, identify
from pact_eval.scoring.request import ModelRequest
from scoring.conftest import Make

SCHEMA: dict[str, Json] = {
    "refund": question("noul"),
    "department": question(n=4),
    "urgency": question("score", 3),
}


@pytest.fixture(scope="module")
def loaded(qwen3: Path, make_adapter: Make) -> LoadedModel:
    return identify(ModelRequest(make_adapter(qwen3), str(qwen3))).load()


def decided(loaded: LoadedModel, k: int) -> list[Decision]:
    return decide(loaded, "I was charged twice.", parse_schema({"questions": SCHEMA}), k=k)


def test_every_field_gets_a_distribution_over_its_answers(loaded: LoadedModel) -> None:
    decisions = decided(loaded, 4)
    assert [d.field.name for d in decisions] == list(SCHEMA)
    assert [len(d.probabilities) for d in decisions] == [2, 4, 3]
    for one in decisions:
        assert sum(one.probabilities) == pytest.approx(1, abs=1e-12)
        assert one.answer in {answer.key for answer in one.field.answers}
        assert one.answer_mass is not None
        assert 0 < one.answer_mass <= 1
    assert decisions[2].expected_level == pytest.approx(
        np.dot([0, 1, 2], decisions[2].probabilities)
    )
    assert decisions[0].expected_level is None


def test_one_view_is_the_softmax_of_its_logits(loaded: LoadedModel) -> None:
    fields = parse_schema(SCHEMA)
    views = loaded.source.encoder.encode_request("I was charged twice.", fields, k=1, seed=0)
    for one, scored in zip(decided(loaded, 1), loaded.scorer.score(views), strict=True):
        p = np.exp(scored.logits - scored.logits.max())
        assert one.probabilities == pytest.approx((p / p.sum()).tolist(), abs=PROBABILITY)
        assert one.views_agree is None


def test_k_views_average_canonical_log_probabilities(loaded: LoadedModel) -> None:
    fields = parse_schema(SCHEMA)
    views = loaded.source.encoder.encode_request("I was charged twice.", fields, k=3, seed=0)
    scored = loaded.scorer.score(views)
    mean = np.mean([s.logits - np.log(np.exp(s.logits).sum()) for s in scored[3:6]], axis=0)
    p = np.exp(mean) / np.exp(mean).sum()
    one = decided(loaded, 3)[1]
    assert one.probabilities == pytest.approx(p.tolist(), abs=PROBABILITY)
    picks = {int(s.logits.argmax()) for s in scored[3:6]}
    assert one.views_agree == (len(picks) == 1)
