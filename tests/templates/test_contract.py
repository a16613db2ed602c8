"""Decision templates as a contract: views, fingerprints, refusals and detection."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from adapters import MODEL, copied
from builders import question, record
from decision_models import FORMS_A_MARK, LETTERS, NEUTRAL, TEMPLATES, write_decision_folder
from messages import assert_says
from transformers import AutoTokenizer

from pact_eval.data.records import parse_field, parse_record, read_records
from pact_eval.errors import AdapterError, ContractMismatchError, PromptError
from pact_eval.models import read_adapter_files
from pact_eval.prompts.contract import PromptContract
from pact_eval.prompts.encoding import Encoder, TrainingPrompts
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.contracts import find_contract, named_contract
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.templates.contract import DecisionTemplate
from pact_eval.templates.files import DecisionFiles, read_decision_files


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(MODEL)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., DecisionFiles]:
    folder = tmp_path_factory.mktemp("files")

    def made(name: str = "own", **changes: Any) -> DecisionFiles:
        path = folder / "one.json"
        path.write_text(json.dumps(TEMPLATES[name] | changes), encoding="utf-8")
        return read_decision_files(path)

    return made


def views(tokenizer: Any, files: DecisionFiles, kind: str, k: int = 3) -> list[tuple[Any, str]]:
    """The order and the text of each view of a question with three answers."""
    one = parse_record(record("a-base", decision=question(kind), state="The seal is broken."))
    encoded = Encoder(tokenizer, DecisionTemplate(files)).encode([one], k, 0)
    return [(view.code_order, tokenizer.decode(view.token_ids)) for view in encoded]


@pytest.mark.parametrize(
    ("name", "kind", "shown"),
    [
        ("own", "choice", "{letter}) answer_{n} Use {n}."),
        ("own", "score", "{letter}) {n} Level {n}"),  # levels keep their numbers
        ("generic", "score", "{letter}. Level {n}"),
    ],
)
def test_views_permute_criteria_and_leave_the_tokenizer_as_it_was(
    tokenizer: Any, files: Any, name: str, kind: str, shown: str
) -> None:
    before = len(tokenizer)
    made = views(tokenizer, files(name), kind)
    for order, text in made:
        lines = [shown.format(letter=a, n=n) for a, n in zip("ABC", order, strict=True)]
        assert "\n".join(lines) in text
    assert len({order for order, _ in made}) == 3
    assert len(tokenizer) == before


def test_a_boolean_is_permuted_only_under_neutral_labels(tokenizer: Any, files: Any) -> None:
    permuted = views(tokenizer, files(), "boolean")
    assert [order for order, _ in permuted] == [(1, 0), (0, 1), (1, 0)]
    assert_says(permuted[0][1].replace("null", "None"), "A) true None", "B) false None")
    for labels in (["Yes", "No"], ["Y", "N"]):
        fixed = views(tokenizer, files(labels={"noul": labels}), "boolean")
        assert {order for order, _ in fixed} == {(1, 0)}
        assert len({text for _, text in fixed}) == 1


def test_a_template_that_ignores_the_order_is_not_permuted(tokenizer: Any, files: Any) -> None:
    sorts = "{{ state }}{% for option in question.options|sort %} {{ option }}{% endfor %}"
    made = files(chat_template=sorts)
    assert {order for order, _ in views(tokenizer, made, "choice")} == {(0, 1, 2)}


def test_fingerprints_cover_what_makes_ids(tokenizer: Any, files: Any) -> None:
    made = [
        files(),
        files(chat_template=TEMPLATES["own"]["chat_template"] + " "),
        files(labels=NEUTRAL | {"score": LETTERS[::-1]}),
        files(noul_options=["false", "true"]),
        files(sanitize_control_tokens=False),
        files("generic"),
    ]
    contracts = [DecisionTemplate(files_of_contract).fingerprint for files_of_contract in made]
    assert len(set(contracts)) == len(made)
    bound = [
        Encoder(tokenizer, DecisionTemplate(files_of_contract)).fingerprint
        for files_of_contract in made
    ]
    assert len(set(bound)) == len(made)
    # A temperature changes no logit, and default labels may be written out.
    assert files(temperature={"noul": 3}).fingerprint == files().fingerprint
    assert files("generic", labels={"choice": LETTERS}).fingerprint == files("generic").fingerprint
    other = AutoTokenizer.from_pretrained(MODEL)
    other.add_tokens(["seal"])
    assert Encoder(other, DecisionTemplate(made[0])).fingerprint != bound[0]


@pytest.mark.parametrize("bos_token", [None, "<|endoftext|>"])
def test_the_plain_prompt_is_the_text_of_the_nimble_contract(bos_token: str | None) -> None:
    base = AutoTokenizer.from_pretrained(MODEL)  # as a model that only continues texts
    base.chat_template, base.bos_token = None, bos_token
    encoder = Encoder(base, named_contract("plain"))
    for one in read_records(MODEL.parent / "data" / "holdout.jsonl")[:30]:
        for view in encoder.encode([one], 3, 0):
            order = view.code_order
            system, user = NIMBLE.messages(one.state, [one.field], one.field.name, order)
            text = f"{bos_token or ''}{system['content']}\n\n{user['content']}\n\n" + '{"code": "'

            assert [*view.token_ids] == base(text, add_special_tokens=False)["input_ids"]
            answered = [f"{text}{letter}" for letter in LETTERS[: one.n_choices]]
            ids = base(answered, add_special_tokens=False)["input_ids"]
            assert ids == [[*view.token_ids, token] for token in view.code_tokens]
        assert len({view.code_order for view in encoder.encode([one], 2, 0)}) == 2
    base.add_special_tokens({"additional_special_tokens": ["[INST]"]})
    writable = f"[INST] <|mark|> <|split|> {' '.join(base.all_special_tokens)}"
    field = parse_field("decision", {"type": "noul", "instructions": writable})
    (view,) = Encoder(base, named_contract("plain")).encode_orders(writable, field, [(0, 1)])
    assert not {*view.token_ids[1:]} & {*base.all_special_ids}
    asked = NIMBLE.messages(writable, [field], "decision", (0, 1))[1]["content"]
    assert asked in base.decode([*view.token_ids])
    with pytest.raises(PromptError, match=r"no chat template.*--contract plain"):
        Encoder(base, named_contract("generic"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chat_template": "{{ questions|tojson }}"}, "reads `questions`"),
        ({"chat_template": "{{ state"}, "is not a Jinja template"),
        ({"chat_template": "{{ raise_exception('no') }}"}, "cannot render it .no."),
        ({"chat_template": "a<|mark|>{{ state }}<|mark|>"}, "trained decision head"),
    ],
)
def test_templates_that_cannot_be_scored_are_refused(
    tokenizer: Any, files: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(PromptError, match=message):
        Encoder(tokenizer, DecisionTemplate(files(**changes)))


def test_requests_that_cannot_be_asked_are_refused(tokenizer: Any, files: Any) -> None:
    def refused(
        message: str, made: DecisionFiles, state: Any = "x", **question_options: Any
    ) -> None:
        raw = record("a-base", decision=question(**question_options), state=state, reference=None)
        one = parse_record(raw, line=7, require_reference=False)
        with pytest.raises(PromptError, match=message):
            Encoder(tokenizer, DecisionTemplate(made)).check_lengths([one], 1, 0)

    refused(r"line 7 \(id a-base\): 3 answers", files(labels={"choice": ["A", "B"]}))
    refused("not distinct single tokens", files(labels={"choice": ["Alpha beta", "B", "C"]}))
    refused(r"line 7 \(id a-base\).*criteria", files(), kind="score", criteria=["low", None])
    refused("forms a mark", files("own, not sanitised"), state=FORMS_A_MARK)
    clash = {"a": None, "a<|mark|>": None}
    refused("2 answers, the prompt shows 1", files("own, not sanitised"), criteria=clash)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("head.safetensors", b"x"),
        ("readout.safetensors", b"x"),
        ("judge_config.json", b"{}"),
        ("decision_config.json", b'{"codes": ["A"]}'),
        ("config.json", b'{"architectures": ["JevForDecision"]}'),
    ],
)
def test_models_with_a_trained_head_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    write_decision_folder(tmp_path, TEMPLATES["own"])
    with pytest.raises(AdapterError, match=rf"trained decision head \({name}\)"):
        read_decision_files(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": {"noul": "AB"}}, "labels: noul: expected a list, got text"),
        ({"labels": {"noul": ["A", 2]}}, r"labels: noul\[1\]: expected text, got an integer"),
        ({"temperature": {"noul": 0}}, "temperature: noul: expected a number above 0, got 0"),
        ({"temperature": {"noul": 10**400}}, "temperature: noul: expected a number that fits"),
        ({"temperature": {"noul": True}}, "temperature: noul: expected a number, got true"),
        ({"noul_options": ["yes", "no"]}, "noul_options: expected"),
        ({"sanitize_control_tokens": "no"}, "sanitize_control_tokens: expected true or false"),
        ({"adapter": "../elsewhere"}, "adapter: expected the name of a subfolder"),
        ({"chat_template": ["x"]}, "chat_template: expected text, got a list"),
    ],
)
def test_malformed_files_are_refused(files: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AdapterError, match=message):
        files(**changes)


def test_the_contract_is_the_one_that_the_folders_state(tmp_path: Path) -> None:
    adapter = copied(tmp_path / "adapter")
    base = write_decision_folder(tmp_path / "base", TEMPLATES["generic"])

    def contract_of(named: str | None = None, at: Path = MODEL) -> PromptContract:
        return find_contract(named, read_adapter_files(adapter), at)

    assert contract_of() is contract_of(at=base) is NIMBLE  # schema_config.json states it
    (adapter / "schema_config.json").unlink()
    assert contract_of() is NIMBLE
    assert_says(contract_of(at=base).label, f"{base}: ", "generic prompt")
    write_decision_folder(adapter, TEMPLATES["own"])
    assert contract_of(at=base).label == f"{adapter}: decision template"
    assert contract_of("nimble") is NIMBLE
    assert contract_of("generic").fingerprint == DecisionFiles().fingerprint
    with pytest.raises(AdapterError, match="no such folder"):
        named_contract(str(tmp_path / "nowhere"))


def test_an_adapter_states_the_template_of_its_training(tmp_path: Path, tokenizer: Any) -> None:
    adapter = copied(tmp_path / "adapter")
    stated = adapter / "schema_config.json"
    contract = named_contract(str(write_decision_folder(tmp_path / "own", TEMPLATES["own"])))
    encoder = Encoder(tokenizer, contract)
    schema = (
        {"model": str(MODEL)} | contract.schema_config() | TrainingPrompts.of(encoder).to_json()
    )
    stated.write_text(json.dumps(schema))
    with pytest.raises(AdapterError, match="decision template.*folder has none"):
        identify(ModelRequest(adapter))
    for name, text in contract.adapter_files().items():
        (adapter / name).write_text(text)
    assert identify(ModelRequest(adapter)).contract.fingerprint == contract.fingerprint
    with pytest.raises(ContractMismatchError, match="contract_fingerprint"):
        identify(ModelRequest(adapter, contract="generic"))
    identified = identify(ModelRequest(adapter, contract="generic", allow_contract_mismatch=True))
    assert identified.contract_mismatch is not None


def test_the_files_of_a_contract_are_read_back(tmp_path: Path, files: Any) -> None:
    made = files()
    for name, text in made.texts().items():
        (tmp_path / name).write_text(text)
    assert replace(read_decision_files(tmp_path), source=made.source) == made
    assert files(sort_choices=True).ignored == ("sort_choices",)  # as transformers ignores it


def test_every_question_of_a_request_has_a_prompt_of_its_own(tokenizer: Any, files: Any) -> None:
    fields = [parse_field(name, question("boolean")) for name in ("one", "two")]
    encoder = Encoder(tokenizer, DecisionTemplate(files()))
    prompts = encoder.encode_request("The seal is broken.", fields, k=1, seed=0)
    alone = encoder.encode_request("The seal is broken.", fields[1:], k=1, seed=0)
    assert prompts[1] == alone[0]
