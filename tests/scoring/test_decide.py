from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from builders import question
from click.testing import CliRunner
from tolerances import PROBABILITY

from pact_cli.main import main
from pact_eval._json import Json
from pact_eval.errors import RequestError
from pact_eval.prompts.requests import Decision, parse_schema, read_context, read_schema
from pact_eval.scoring.decide import decide
from pact_eval.scoring.model import LoadedModel, identify
from pact_eval.scoring.request import ModelRequest
from scoring.conftest import Make

pytestmark = pytest.mark.slow

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


def test_the_command_prints_a_table_or_json(
    loaded: LoadedModel, qwen3: Path, tmp_path: Path
) -> None:
    assert loaded.source.adapter is not None
    (tmp_path / "schema.json").write_text(json.dumps({"questions": SCHEMA}))
    (tmp_path / "context.json").write_text('[{"speaker": "Zoë", "text": "[bold]Refund![/bold]"}]')
    arguments = [
        *("decide", str(loaded.source.adapter.folder), "--base-model", str(qwen3)),
        *("--context", str(tmp_path / "context.json"), "--schema", str(tmp_path / "schema.json")),
        *("--k", "2"),
    ]
    table = CliRunner().invoke(main, arguments)
    assert table.exit_code == 0, table.output
    for words in ("refund", "department", "urgency", "answer_3", "expected level", "answer mass"):
        assert words in table.stdout
    result = CliRunner().invoke(main, [*arguments, "--json"])
    answers = json.loads(result.stdout)["answers"]
    assert set(answers["department"]["probabilities"]) == {f"answer_{i}" for i in range(4)}
    assert answers["urgency"]["type"] == "score"


def test_contexts_are_files_or_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("from a file", encoding="utf-8")
    (tmp_path / "a.json").write_text('{"turns": ["é"]}', encoding="utf-8")
    (tmp_path / "bad.json").write_text('{"a": 1, "a": 2}', encoding="utf-8")
    assert read_context(str(tmp_path / "a.txt")) == "from a file"
    assert read_context(str(tmp_path / "a.json")) == {"turns": ["é"]}
    long = "A text that is no file name. " * 50
    assert read_context(long) == long
    (tmp_path / "crlf.txt").write_bytes(b"a\r\nb")
    assert read_context(str(tmp_path / "crlf.txt")) == "a\r\nb"
    for missing in (str(tmp_path / "missing.json"), "missing.md", str(tmp_path)):
        with pytest.raises(RequestError, match="no such file"):
            read_context(missing)
    with pytest.raises(RequestError, match='duplicate key "a"'):
        read_context(str(tmp_path / "bad.json"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "an object of questions by field name, got a list"),
        ("{}", "an object of questions"),
        ('{"a": {"type": "choice", "instructions": "x", "criteria": {"b": null}}}', "got 1"),
        ('{"a": {"type": "noul", "instructions": "x"}, "a": {}}', "duplicate key"),
    ],
)
def test_a_malformed_schema_is_told_with_its_file(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "schema.json").write_text(text)
    with pytest.raises(RequestError, match=words) as caught:
        read_schema(tmp_path / "schema.json")
    assert "schema.json" in str(caught.value)


def test_a_missing_schema_is_told(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no such file"):
        read_schema(tmp_path / "schema.json")
