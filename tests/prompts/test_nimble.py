from __future__ import annotations

import json
from typing import Any

import pytest
from builders import question
from hypothesis import given
from hypothesis import strategies as st
from test_strict_json import json_values

from pact_eval._json import Json
from pact_eval.data.records import LETTERS, parse_field
from pact_eval.errors import ContractMismatchError, RequestError
from pact_eval.prompts.contract import canonical_code_order
from pact_eval.prompts.nimble import NIMBLE, NimbleContract, safe_json

FINGERPRINT = "fb04eca3d6dc37d419a4556dff33ce47f17ffcdb9c41c176ac2c023de48244b7"


def test_prompts_against_the_golden_rendering(golden_prompts: dict[str, Any]) -> None:
    request = golden_prompts["request"]
    fields = [parse_field(name, value) for name, value in request["questions"].items()]
    for field in fields:
        messages = NIMBLE.messages(
            request["state"], fields, field.name, canonical_code_order(field)
        )
        # The Qwen3.5 chat template, as the golden file shows it, thinking disabled.
        text = "".join(
            f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
            for message in messages
        )
        text += "<|im_start|>assistant\n<think>\n\n</think>\n\n"
        assert text == golden_prompts["prompts"][field.name]


def test_the_fingerprint_is_the_one_recorded_in_runs_and_adapters() -> None:
    # A change here means that no adapter trained before fits: it needs a new contract, not a fix.
    assert NIMBLE.fingerprint == FINGERPRINT


def test_the_fingerprint_breaks_with_one_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NimbleContract, "system_prompt", NIMBLE.system_prompt + " ")
    assert NimbleContract().fingerprint != FINGERPRINT


def _payload(text: str) -> tuple[Any, Any]:
    body, _, name = text.rpartition("\n\nRequested field: ")
    return json.loads(body), json.loads(name)


@given(state=json_values, instructions=json_values.filter(lambda value: value is not None))
def test_any_state_and_instructions_survive_the_rendering(state: Json, instructions: Json) -> None:
    field = parse_field("decision", question("noul", instructions=instructions))
    text = NIMBLE.messages(state, [field], "decision", (0, 1))[1]["content"]
    payload, name = _payload(text)
    expected = state if isinstance(state, str) else json.dumps(state, ensure_ascii=False)
    assert payload["context"] == expected
    schema = payload["schema"]
    assert isinstance(schema, list)
    description = (
        instructions
        if isinstance(instructions, str)
        else json.dumps(instructions, ensure_ascii=False)
    )
    assert schema[0]["description"] == description
    assert name == "decision"


@given(st.text())
def test_angle_brackets_never_reach_the_prompt(state: str) -> None:
    # A context must not be able to write <|im_end|>.
    field = parse_field("decision", question("noul"))
    text = NIMBLE.messages(f"<|im_end|>{state}<", [field], "decision", (0, 1))[1]["content"]
    assert "<" not in text
    assert ">" not in text


def test_non_ascii_text_and_quotes_stay_as_they_are() -> None:
    assert safe_json('Zoë said "no" – \u2028') == '"Zoë said \\"no\\" – \u2028"'


def test_key_order_codes_and_defaults_against_the_contract_text() -> None:
    choice = parse_field("a", question(criteria={"x": None, "y": "why"}))
    score = parse_field("b", question("score", criteria=["low", None]))
    boolean = parse_field("c", question("noul", criteria={"true": "so"}))
    text = NIMBLE.messages("", [choice, score, boolean], "a", (1, 0))[1]["content"]
    assert text == (
        '{"context": "", "schema": ['
        '{"name": "a", "description": "Which one?", "choices": ['
        '{"code": "A", "value": "y", "description": "why"}, '
        '{"code": "B", "value": "x", "description": "x"}]}, '
        '{"name": "b", "description": "Which one?", "choices": ['
        '{"code": "A", "value": "0", "description": "low"}, {"code": "B", "value": "1"}]}, '
        '{"name": "c", "description": "Which one?", "choices": ['
        '{"code": "A", "value": false, "description": "No"}, '
        '{"code": "B", "value": true, "description": "so"}]}]}'
        '\n\nRequested field: "a"'
    )


def test_only_the_requested_field_is_permuted() -> None:
    """And 26 answers have the letters A to Z."""
    most = parse_field("decision", question(n=26))
    payload, _ = _payload(
        NIMBLE.messages("", [most], "decision", canonical_code_order(most))[1]["content"]
    )
    assert tuple(choice["code"] for choice in payload["schema"][0]["choices"]) == LETTERS
    fields = [parse_field("a", question(n=3)), parse_field("b", question(n=3))]
    payload, _ = _payload(NIMBLE.messages("", fields, "b", (2, 0, 1))[1]["content"])
    values = [[c["value"] for c in field["choices"]] for field in payload["schema"]]
    assert values == [
        ["answer_0", "answer_1", "answer_2"],
        ["answer_2", "answer_0", "answer_1"],
    ]


@pytest.mark.parametrize(
    ("requested", "order", "words"),
    [
        ("b", (0, 1), "'b' is not in the schema"),
        ("a", (0, 0), "expected an order of the 2 answers"),
        ("a", (0, 1, 2), "expected an order of the 2 answers"),
    ],
)
def test_a_request_that_does_not_fit_is_refused(
    requested: str, order: tuple[int, ...], words: str
) -> None:
    with pytest.raises(RequestError, match=words):
        NIMBLE.messages("", [parse_field("a", question(n=2))], requested, order)


def test_two_fields_of_one_name_are_refused() -> None:
    field = parse_field("a", question())
    with pytest.raises(RequestError, match="must be unique"):
        NIMBLE.messages("", [field, field], "a", (0, 1, 2))


PUBLISHED = {
    "task": "schema_candidate_classification_v1",
    "prompt_code_sha256": "a0a0f94d0f65e972bc20d088678ad3d595ff1c42b9c0d78f96034526303f63fc",
}


@pytest.mark.parametrize(
    "config",
    [
        PUBLISHED,
        PUBLISHED | {"system_prompt": NIMBLE.system_prompt},
        {"task": NIMBLE.task, "contract_fingerprint": FINGERPRINT},
        # Our fingerprint is a check on behaviour and outranks a hash of someone's source file.
        PUBLISHED | {"prompt_code_sha256": "0" * 64, "contract_fingerprint": FINGERPRINT},
    ],
)
def test_adapters_of_this_contract_are_accepted(config: dict[str, Json]) -> None:
    NIMBLE.check_adapter(config)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "task nothing"),
        (PUBLISHED | {"task": "other"}, 'task "other", expected "schema_candidate'),
        (PUBLISHED | {"system_prompt": "Classify."}, 'system_prompt "Classify."'),
        (PUBLISHED | {"prompt_code_sha256": "0" * 64}, "prompt_code_sha256"),
        ({"task": NIMBLE.task}, "prompt_code_sha256 nothing"),
        (PUBLISHED | {"contract_fingerprint": "0" * 64}, "contract_fingerprint"),
    ],
)
def test_adapters_of_another_contract_are_refused(config: dict[str, Json], words: str) -> None:
    with pytest.raises(ContractMismatchError, match=words):
        NIMBLE.check_adapter(config)


@pytest.mark.parametrize("length", [78, 79, 100])
def test_long_values_are_cut_to_80_signs_in_messages(length: int) -> None:
    """Two quotes belong to the value, so 78 letters are 80 signs."""
    with pytest.raises(ContractMismatchError) as refused:
        NIMBLE.check_adapter({"task": "x" * length})
    shown = str(refused.value).split(" has task ")[1].split(", expected")[0]
    assert len(shown) == 80
    assert shown.endswith("...") == (length > 78)
