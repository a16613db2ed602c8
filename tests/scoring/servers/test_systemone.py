"""The wire of /v1/systemone: requests as its specification has them, and answers not believed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from builders import question as question_json

from pact_eval.data.records import Field, parse_field
from pact_eval.scoring.servers.dialects import UnusableReplyError, Wire
from pact_eval.scoring.servers.wire import AskedItem, NoAnswer, Order, ViewAnswer

WIRE = Wire("systemone")
STATE: Any = {"turns": ["The gate is open."]}


def field(kind: str = "choice", **changes: Any) -> Field:
    return parse_field("decision", question_json(kind, **changes))


def asked(of: Field, order: Order | None = None) -> AskedItem:
    return AskedItem("a", STATE, of, (order or tuple(range(len(of.answers))),))


def read(of: Field, answer: Any, order: tuple[int, ...] | None = None, **reply: Any) -> Any:
    (call,) = WIRE.calls("m", asked(of, order))
    reply_read = WIRE.read(call, {"model": "m-1", "answers": {"decision": answer}} | reply)
    return reply_read.answers[0]


def test_requests_as_the_specification_has_them() -> None:
    bodies = [
        call.body
        for of in (field(n=2), field("boolean"), field("score", n=2))
        for call in WIRE.calls("m", asked(of))
    ]
    ask = "Which one?"
    assert bodies == [
        {"model": "m", "state": STATE, "questions": {"decision": question}}
        for question in (
            {
                "type": "choice",
                "instructions": ask,
                "criteria": {"answer_0": "Use 0.", "answer_1": "Use 1."},
            },
            {"type": "noul", "instructions": ask},
            {"type": "score", "instructions": ask, "criteria": ["Level 0", "Level 1"]},
        )
    ]


def test_a_view_is_the_criteria_in_another_order_and_answers_return_to_the_canonical_one() -> None:
    of = field(n=3)
    (call,) = WIRE.calls("m", asked(of, (2, 0, 1)))
    body: Any = call.body
    criteria = body["questions"]["decision"]["criteria"]
    assert list(criteria) == ["answer_2", "answer_0", "answer_1"]
    answer = {
        "type": "choice",
        "choice": "answer_2",
        "confidence": 17,
        "probabilities": {"answer_0": 0.3, "answer_2": 0.5, "answer_1": 0.2},
    }
    assert read(of, answer, (2, 0, 1)).logits == tuple(map(math.log, (0.3, 0.2, 0.5)))


def test_levels_of_a_score_are_numbered_by_position_in_a_view() -> None:
    answer = {"type": "score", "score": 0.7, "probabilities": {"0": 0.5, "1": 0.3, "2": 0.2}}
    answer_read = read(field("score", n=3), answer, (2, 1, 0))
    assert answer_read.logits == tuple(map(math.log, (0.2, 0.3, 0.5)))


def test_only_choices_have_views_unless_scores_are_asked_for() -> None:
    fields = [field(), field("boolean"), field("score")]
    assert [WIRE.permutes(field_of_kind) for field_of_kind in fields] == [True, False, False]
    assert [
        Wire("systemone", score_views=True).permutes(field_of_kind) for field_of_kind in fields
    ] == [
        True,
        False,
        True,
    ]


def test_a_boolean_is_false_then_true() -> None:
    answer_read = read(field("boolean"), {"type": "noul", "noul": 0.25})
    assert answer_read.logits == (math.log(0.75), math.log(0.25))


@pytest.mark.parametrize(
    "extra",
    [
        {"diagnostics": {"decision": {"label_mass": 0.75}}},
        {"answers": {"decision": {"type": "noul", "noul": 0.5, "x_label_mass": 0.75}}},
    ],
)
def test_mass_and_prompt_length_are_read_where_servers_tell_them(extra: Any) -> None:
    answer = {"type": "noul", "noul": 0.5}
    answer_read = read(field("boolean"), answer, usage={"input_tokens": 90}, **extra)
    assert (answer_read.answer_mass, answer_read.prompt_tokens) == (0.75, 90)
    plain = read(field("boolean"), answer, usage={"input_tokens": 90.0})
    assert (plain.answer_mass, plain.prompt_tokens) == (None, None)


def test_an_answer_that_is_left_out_is_missing() -> None:
    (call,) = WIRE.calls("m", asked(field()))
    reply = WIRE.read(call, {"model": "m", "answers": {"other": {"type": "noul", "noul": 0.5}}})
    assert isinstance(reply.answers[0], NoAnswer)
    assert reply.answers[0].status == "missing"


CHOICE = {"type": "choice", "choice": "answer_1"}
BAD_CHOICES = {
    "another item's answer": {"refund": 0.5, "repair": 0.5},
    "an answer too few": {"answer_0": 0.4, "answer_1": 0.6},
    "names in other letters": {"Answer_0": 0.2, "answer_1": 0.6, "answer_2": 0.2},
    "a million answers": {f"a{n}": 1e-6 for n in range(10**5)},
    "a sum of 1.2": {"answer_0": 0.2, "answer_1": 0.6, "answer_2": 0.4},
    "a negative number": {"answer_0": -0.2, "answer_1": 1.0, "answer_2": 0.2},
    "text": {"answer_0": "0.2", "answer_1": 0.6, "answer_2": 0.2},
    "true": {"answer_0": True, "answer_1": 0.0, "answer_2": 0.0},
    "NaN": {"answer_0": math.nan, "answer_1": 0.6, "answer_2": 0.4},
    "a list": [0.2, 0.6, 0.2],
    "another choice than the most probable": {"answer_0": 0.5, "answer_1": 0.3, "answer_2": 0.2},
    "nothing": None,
}


@pytest.mark.parametrize("probabilities", BAD_CHOICES.values(), ids=BAD_CHOICES)
def test_choices_that_are_not_believed(probabilities: Any) -> None:
    with pytest.raises(UnusableReplyError) as caught:
        read(field(), CHOICE | {"probabilities": probabilities})
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("boolean", {"type": "noul", "noul": 1.2}),
        ("boolean", {"type": "noul"}),
        ("boolean", {"type": "choice", "noul": 0.5}),
        ("boolean", "true"),
        ("score", {"type": "score", "score": 1.0, "probabilities": {"1": 0.5, "2": 0.2, "3": 0.3}}),
        ("score", {"type": "score", "score": 2.0, "probabilities": {"0": 0.5, "1": 0.2, "2": 0.3}}),
        ("score", {"type": "score", "probabilities": {"0": 0.5, "1": 0.2, "2": 0.3}}),
        ("score", {"type": "score", "score": 0.3, "probabilities": {"0": 0.4, "1": 0.2, "2": 0.1}}),
    ],
)
def test_other_answers_that_are_not_believed(kind: str, answer: Any) -> None:
    with pytest.raises(UnusableReplyError):
        read(field(kind), answer)


@pytest.mark.parametrize("reply", [None, [], "no", {"answers": None}, {"model": "m"}])
def test_replies_of_another_form_are_not_believed(reply: Any) -> None:
    (call,) = WIRE.calls("m", asked(field()))
    with pytest.raises(UnusableReplyError):
        WIRE.read(call, reply)


def test_rounded_probabilities_may_miss_the_sum_by_half_a_unit_per_answer() -> None:
    answer_read = read(field(n=6), CHOICE | {"probabilities": rounded(0.16, 0.17)})
    assert isinstance(answer_read, ViewAnswer)
    assert answer_read.logits[0] == math.log(0.16)
    with pytest.raises(UnusableReplyError, match="sum"):
        read(field(n=6), CHOICE | {"probabilities": rounded(0.15, 0.20)})


def rounded(others: float, most: float) -> dict[str, float]:
    return {f"answer_{n}": most if n == 1 else others for n in range(6)}
