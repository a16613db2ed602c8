"""The wire of /v1/decisions: requests and answers as OpenAI's own types have them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from builders import question as question_json
from builders import record, write_jsonl
from commands import runner
from messages import assert_says

from pact_cli.main import main
from pact_eval.data.records import Field, parse_field
from pact_eval.runs.folder import read_run
from pact_eval.scoring.servers.dialects import UnusableReplyError, Wire
from pact_eval.scoring.servers.wire import AskedItem, NoAnswer
from scoring.servers.loopback import Response, Sent, score_served, serving, softmax_of_names

WIRE = Wire("openai-decisions")


def field(kind: str = "choice", **changes: Any) -> Field:
    return parse_field("decision", question_json(kind, **changes))


def call(of: Field, order: tuple[int, ...] | None = None, state: Any = "Open.") -> Any:
    item = AskedItem("a", state, of, (order or tuple(range(len(of.answers))),))
    return WIRE.calls("m", item)[0]


def read(of: Field, answer: Any, order: tuple[int, ...] | None = None) -> Any:
    return WIRE.read(call(of, order), {"model": "m-1", "answers": [answer]}).answers[0]


def choice(*probabilities: float, **changes: Any) -> dict[str, Any]:
    entries = [{"value": f"answer_{n}", "probability": p} for n, p in enumerate(probabilities)]
    best = max(entries, key=lambda entry: entry["probability"])["value"]  # type: ignore[arg-type,return-value]
    return {"type": "choice", "choice": best, "confidence": 17, "probabilities": entries} | changes


def score(*probabilities: float, start: int = 0, **changes: Any) -> dict[str, Any]:
    entries = [
        {"label": f"Level {n}", "value": n + start, "probability": p}
        for n, p in enumerate(probabilities)
    ]
    expected = sum((n + start) * p for n, p in enumerate(probabilities))
    return {"type": "score", "score": expected, "probabilities": entries} | changes


def test_requests_are_those_of_openais_types() -> None:
    """The source of truth is the request type of the package `openai` 3.54, read by hand."""
    decision = {"name": "decision", "instructions": "Which one?"}
    choices = [
        {"value": "answer_1", "description": "Use 1."},
        {"value": "answer_0", "description": "Use 0."},
    ]
    assert call(field(n=2), (1, 0)).body == {
        "model": "m",
        "input": "Open.",
        "questions": [decision | {"type": "choice", "choices": choices}],
    }
    assert call(field("boolean")).body["questions"] == [decision | {"type": "predicate"}]
    levels = [{"label": "Level 0"}, {"label": "Level 1"}]
    assert call(field("score", n=2)).body["questions"] == [
        decision | {"type": "score", "levels": levels}
    ]


def test_what_has_no_place_of_its_own_is_text() -> None:
    assert call(field(), state={"gate": ["é"]}).body["input"] == '{"gate": ["é"]}'
    described = field("boolean", instructions={"ask": 1}, criteria={"true": "It is open."})
    (question,) = call(described).body["questions"]
    assert question["instructions"].splitlines() == ['{"ask": 1}', "true: It is open."]
    same = field("score", criteria=["Low", "Low", None])
    (question,) = call(same).body["questions"]
    assert [level["label"] for level in question["levels"]] == ["0", "1", "2"]


def test_views_are_lists_in_another_order_and_answers_return_to_the_canonical_one() -> None:
    assert [WIRE.permutes(field(kind)) for kind in ("choice", "boolean", "score")] == [True, 0, 0]
    assert Wire("openai-decisions", score_views=True).permutes(field("score"))
    expected = tuple(map(math.log, (0.5, 0.3, 0.2)))
    assert read(field(), choice(0.5, 0.3, 0.2), (2, 0, 1)).logits == expected
    shown = score(0.5, 0.3, 0.2)
    shown["probabilities"] = [
        entry | {"value": position} for position, entry in enumerate(shown["probabilities"][::-1])
    ]
    assert read(field("score"), shown | {"score": 1.3}, (2, 1, 0)).logits == expected
    assert read(field("score"), score(0.5, 0.3, 0.2, start=1)).logits == expected
    boolean = read(field("boolean"), {"type": "predicate", "probability": 0.25})
    assert boolean.logits == (math.log(0.75), math.log(0.25))


def test_a_refusal_is_a_status() -> None:
    answer = read(field(), {"type": "refusal", "name": "decision"})
    assert isinstance(answer, NoAnswer)
    assert answer.status == "refused"
    assert_says(answer.reason, "declined")
    assert WIRE.read(call(field()), {"answers": []}).answers[0].status == "missing"  # type: ignore[union-attr]


MILLION = [{"value": f"a{n}", "probability": 1e-6} for n in range(10**5)]


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("choice", choice(0.5, 0.5)),
        ("choice", choice(0.5, 0.3, 0.2, name="another")),
        ("choice", choice(0.5, 0.3, 0.2, choice="answer_1")),
        ("choice", choice(0.5, 0.3, 0.2, choice=True)),
        ("choice", choice(0.5, 0.3, 0.4)),
        ("choice", choice(0.5, 0.3, math.nan)),
        ("choice", choice(0.5, 0.3, 0.2, probabilities={"answer_0": 1.0})),
        ("choice", choice(0.5, 0.3, 0.2, probabilities=MILLION)),
        ("choice", choice(0.4, 0.3, 0.2, 0.1)),
        ("choice", {"type": "predicate", "probability": 0.5}),
        ("boolean", {"type": "predicate", "probability": True}),
        ("score", score(0.5, 0.3, 0.2, score=0.1)),
        ("score", {"type": "score", "score": 0.7, "probabilities": [{"label": "Level 0"}] * 3}),
        ("score", score(0.5, 0.3, 0.2) | {"probabilities": score(0.5, 0.3)["probabilities"]}),
        ("choice", "answer_1"),
    ],
)
def test_answers_that_are_not_believed(kind: str, answer: Any) -> None:
    with pytest.raises(UnusableReplyError) as caught:
        read(field(kind), answer)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("reply", [None, {"answers": {}}, {"answers": [1, 2]}, {"model": "m"}])
def test_replies_of_another_form_are_not_believed(reply: Any) -> None:
    with pytest.raises(UnusableReplyError):
        WIRE.read(call(field()), reply)


def decisions(sent: Sent) -> Response:
    """Answers as a healthy server does, in the types of OpenAI; refuses what it is asked to."""
    (question,) = sent.body["questions"]
    if "refuse" in sent.body["input"]:
        return Response(
            {"model": "d-1", "answers": [{"type": "refusal", "name": question["name"]}]}
        )
    if question["type"] == "predicate":
        answer: dict[str, Any] = {"probability": softmax_of_names(["yes", "no"])[0]}
    else:
        key, entries = ("value", "choices") if question["type"] == "choice" else ("label", "levels")
        names = [entry[key] for entry in question[entries]]
        p = softmax_of_names(names, sent.body["input"])
        listed = [{key: name, "probability": share} for name, share in zip(names, p, strict=True)]
        answer = {"probabilities": listed, "confidence": 0.5}
        if key == "value":
            answer["choice"] = names[p.index(max(p))]
        else:
            answer["probabilities"] = [entry | {"value": n} for n, entry in enumerate(listed)]
            answer["score"] = sum(n * share for n, share in enumerate(p))
    answers = [answer | {"type": question["type"], "name": question["name"]}]
    return Response({"model": "d-1", "answers": answers, "usage": {"input_tokens": 7}})


def test_a_run_is_an_ordinary_run_with_its_refusals(tmp_path: Path) -> None:
    kinds = [question_json(n=3), question_json("noul"), question_json("score")]
    rows = [
        record(f"{state}{kind['type']}-base", decision=kind, state=state)
        for state in ("ab", "bc", "refuse")
        for kind in kinds
    ]
    data = write_jsonl(tmp_path / "d.jsonl", rows)
    with serving(decisions) as server:
        score_served(server, data, tmp_path / "run", wire="openai-decisions", probe=True)
        paths = {post.path for post in server.posts}
    run = read_run(tmp_path / "run")
    assert paths == {"/v1/decisions"}
    assert run.provenance.counts.unanswered == {"refused": 3}
    assert (len(run.predictions), run.predictions.k) == (6, 4)
    p = softmax_of_names(["answer_0", "answer_1", "answer_2"], "ab")
    assert [math.exp(z) for z in run.predictions.logits[0, 3]] == pytest.approx(p)
    assert "3 refused" in runner(main, "report")(tmp_path / "run", "--full").stdout
