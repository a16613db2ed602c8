"""The wires of token ids: requests, replies, and runs through servers that answer as documented."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import question
from commands import runner
from messages import assert_says

from pact_cli.main import main
from pact_eval.data.records import parse_field
from pact_eval.errors import PromptError, ServerError
from pact_eval.prompts.contract import code_orders
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.runs.folder import read_run
from pact_eval.scoring.servers.asking import count_requests
from pact_eval.scoring.servers.dialects import UnusableReplyError, Wire
from pact_eval.scoring.servers.source import probe
from pact_eval.scoring.servers.wire import AskedItem, ServerRequest, WireName
from pact_eval.scoring.windows import read_dataset
from scoring.conftest import MODEL
from scoring.servers.loopback import Response, Sent, score_served, serving
from scoring.servers.test_served_runs import dataset_file
from scoring.servers.token_servers import (
    SGLANG_MODELS,
    VLLM_MODELS,
    answering,
    by_hash,
    sglang,
    vllm,
)

FIELD = parse_field("decision", question(n=3))
ORDERS = ((0, 1, 2), (2, 0, 1))
ITEM = AskedItem("a", "Open.", FIELD, ORDERS)
SERVERS: dict[str, Any] = {
    "vllm": (vllm, VLLM_MODELS, "/v1/completions"),
    "sglang": (sglang, SGLANG_MODELS, "/generate"),
}


@pytest.fixture(scope="module")
def encoder(tokenizer: Any) -> Encoder:
    return Encoder(tokenizer, NIMBLE)


@pytest.fixture(params=["vllm", "sglang"])
def wire(request: pytest.FixtureRequest, encoder: Encoder) -> Wire:
    return Wire(request.param, encoder=encoder, base_names=["base"])


def replied(wire: Wire, change: Callable[[Any], object] = lambda _reply: None) -> Any:
    """A reply to the two views, changed."""
    (call,) = wire.calls("mine", ITEM)
    respond, _, _ = SERVERS[wire.name]
    value = json.loads(json.dumps(respond(Sent("POST", call.path, {}, call.body)).value))
    change(value)
    return wire.read(call, value)


def test_requests_are_those_of_the_servers_types(encoder: Encoder) -> None:
    """The sources of truth are CompletionRequest and GenerateReqInput, read by hand."""
    prompts = [[*view.token_ids] for view in encoder.encode_orders("Open.", FIELD, ORDERS)]
    letters = [*encoder.answer_tokens(FIELD)]
    (call,) = Wire("vllm", encoder=encoder).calls("mine", ITEM)
    assert call.body == {
        "model": "mine", "prompt": prompts, "max_tokens": 1, "temperature": 0, "top_p": 1,
        "top_k": 0, "min_p": 0, "repetition_penalty": 1, "logprobs": 1,
        "logprob_token_ids": letters, "return_tokens_as_token_ids": True,
        "add_special_tokens": False,
    }  # fmt: skip
    (call,) = Wire("sglang", encoder=encoder, base_names=["base"]).calls("mine", ITEM)
    expected: Any = {
        "input_ids": prompts, "sampling_params": {"max_new_tokens": 1, "temperature": 1},
        "return_logprob": True, "logprob_start_len": -1, "token_ids_logprob": [letters] * 2,
    }  # fmt: skip
    assert call.body == expected | {"lora_path": "mine"}
    (call,) = Wire("sglang", encoder=encoder, base_names=["base"]).calls("base", ITEM)
    assert call.body == expected


def test_answers_by_hand(wire: Wire, encoder: Encoder) -> None:
    read = replied(wire)
    for order, encoded, answer in zip(
        ORDERS, encoder.encode_orders("Open.", FIELD, ORDERS), read.answers, strict=True
    ):
        shown = by_hash("mine", encoded.token_ids, encoded.code_tokens)
        assert [answer.logits[index] for index in order] == shown
        assert answer.answer_mass == pytest.approx(0.9)
        assert answer.prompt_tokens == len(encoded.token_ids)
    assert read.model == ("mine" if wire.name == "vllm" else None)
    assert wire.values == "log-probabilities"


def values_of(wire: Wire, reply: Any) -> Any:
    """The part of a reply with the values after the prompt of view 0."""
    if wire.name == "vllm":
        return reply["choices"][1]["logprobs"]["top_logprobs"]
    return reply[0]["meta_info"]["output_token_ids_logprobs"]


def set_value(wire: Wire, reply: Any, number: int, value: Any) -> None:
    """Change the value of a letter in view 0."""
    assert wire.encoder is not None
    token = wire.encoder.answer_tokens(FIELD)[number]
    if wire.name == "vllm":
        values_of(wire, reply)[0][f"token_id:{token}"] = value
    else:
        next(pair for pair in values_of(wire, reply)[0] if pair[1] == token)[0] = value


def test_minus_infinity_is_read(wire: Wire) -> None:
    read = replied(wire, lambda reply: set_value(wire, reply, 1, -9999.0))
    assert read.answers[0].logits[1] == -math.inf
    assert 0 < read.answers[0].answer_mass < 0.9


@pytest.mark.parametrize("value", [None, True, "-1", [], 1e999])
def test_values_that_are_not_numbers_are_not_believed(wire: Wire, value: Any) -> None:
    with pytest.raises(UnusableReplyError, match="expected a number"):
        replied(wire, lambda reply: set_value(wire, reply, 0, value))


def nothing_possible(wire: Wire, reply: Any) -> None:
    for number in range(3):
        set_value(wire, reply, number, -9999.0)


def other_ids(wire: Wire, reply: Any) -> None:
    first = values_of(wire, reply)
    first[0] = {"token_id:1": -1.0} if wire.name == "vllm" else [[-1.0, 1, None]]


FAULTS: dict[str, tuple[Callable[[Wire, Any], object], str]] = {
    "no letter possible": (nothing_possible, "no letter has a probability"),
    "other ids": (other_ids, "expected one for each letter asked, got none for id"),
    "no token": (lambda wire, reply: values_of(wire, reply).clear(), "for the token"),
    "no values": (lambda wire, reply: values_of(wire, reply).insert(0, None), "for the token"),
    "one prompt less": (
        lambda wire, reply: (reply["choices"] if wire.name == "vllm" else reply).pop(),
        "for each of 2 prompts",
    ),
    "another prompt": (
        lambda wire, reply: (
            reply["usage"].update(prompt_tokens=3)
            if wire.name == "vllm"
            else reply[0]["meta_info"].update(prompt_tokens=3)
        ),
        "the server has read",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_replies_that_are_not_believed(wire: Wire, fault: str) -> None:
    change, message = FAULTS[fault]
    with pytest.raises(UnusableReplyError, match=message):
        replied(wire, lambda reply: change(wire, reply))


@pytest.mark.parametrize("reply", [None, {}, [1, 2], {"choices": 3}, {"choices": [1, 2]}])
def test_replies_of_wrong_types_are_not_believed(wire: Wire, reply: Any) -> None:
    (call,) = wire.calls("mine", ITEM)
    with pytest.raises(UnusableReplyError):
        wire.read(call, reply)


@pytest.mark.parametrize("index", [0, 2, None, True, "1"])
def test_choices_have_the_index_of_their_prompt(encoder: Encoder, index: Any) -> None:
    with pytest.raises(UnusableReplyError, match="each of 2 prompts"):
        replied(
            Wire("vllm", encoder=encoder), lambda reply: reply["choices"][0].update(index=index)
        )


@pytest.mark.parametrize("name", ["B", "token_id:-1", "token_id:", "token_id:1e3", ""])
def test_tokens_have_ids(encoder: Encoder, name: str) -> None:
    def named(reply: Any) -> None:
        reply["choices"][0]["logprobs"]["top_logprobs"][0][name] = -1.0

    with pytest.raises(UnusableReplyError, match="expected token_id:N"):
        replied(Wire("vllm", encoder=encoder), named)


def test_an_id_is_not_repeated(encoder: Encoder) -> None:
    def repeated(reply: Any) -> None:
        pairs = reply[1]["meta_info"]["output_token_ids_logprobs"][0]
        pairs.append(pairs[0])

    with pytest.raises(UnusableReplyError, match="each token id, got two"):
        replied(Wire("sglang", encoder=encoder), repeated)


@pytest.mark.parametrize("pair", [None, [], [-1.0], [-1.0, None], [-1.0, -2], [-1.0, True]])
def test_values_come_with_their_id(encoder: Encoder, pair: Any) -> None:
    def changed(reply: Any) -> None:
        reply[0]["meta_info"]["output_token_ids_logprobs"][0][0] = pair

    with pytest.raises(UnusableReplyError):
        replied(Wire("sglang", encoder=encoder), changed)


def test_logits_are_told_from_log_probabilities(wire: Wire) -> None:
    read = replied(wire, lambda reply: set_value(wire, reply, 2, 4.5))
    assert wire.values == "logits"
    assert [answer.answer_mass for answer in read.answers] == [None, None]
    assert read.answers[0].logits[2] == 4.5


def test_views_beyond_the_limit_of_one_request_are_further_requests(encoder: Encoder) -> None:
    wire = Wire("vllm", encoder=encoder)
    wire.views_per_request = 3
    orders = tuple(code_orders(0, "a", 3, 6))
    calls = wire.calls("mine", AskedItem("a", "Open.", FIELD, orders))
    assert [len(call.orders) for call in calls] == [3, 3]
    assert count_requests(wire, [AskedItem("a", "Open.", FIELD, orders[:4])]) == 2


def test_prompts_over_the_limit_are_unsupported(tokenizer: Any) -> None:
    short = Wire("vllm", encoder=Encoder(tokenizer, NIMBLE, max_prompt_tokens=20))
    with pytest.raises(PromptError, match="the limit is 20"):
        short.calls("mine", ITEM)


def request(url: str, wire: WireName = "auto", **options: Any) -> ServerRequest:
    all_options: dict[str, Any] = {"model": "mine", "tokenizer": str(MODEL)} | options
    return ServerRequest(urls=(url,), wire=wire, **all_options)


@pytest.mark.parametrize("name", SERVERS)
def test_a_served_run_has_views_and_mass_for_every_kind(
    name: str, tmp_path: Path, encoder: Encoder
) -> None:
    data = dataset_file(tmp_path)
    respond, models, path = SERVERS[name]
    with serving(answering({path: respond}), {"/v1/models": models}, routes=(path,)) as server:
        score_served(server, data, tmp_path / "run", tokenizer=str(MODEL))
    assert len(server.posts) == 12  # one request per item
    run = read_run(tmp_path / "run")
    dataset = read_dataset(data, k=4)
    expected = encoder.encode(dataset.records, 4, 0)
    predictions = run.predictions
    for row, one in enumerate(dataset.records):
        for view in range(4):
            encoded = expected[row * 4 + view]
            assert tuple(predictions.code_order[row, view, : one.n_choices]) == encoded.code_order
            shown = by_hash("mine", encoded.token_ids, encoded.code_tokens)
            logits = predictions.logits[row, view][list(encoded.code_order)]
            assert logits == pytest.approx(shown)
    assert np.allclose(predictions.answer_mass, 0.9)
    # The prompts are recorded as a local run records them: the two can be compared.
    assert run.settings["prompts_sha256"] == encoder.fingerprint
    assert run.provenance.contract.fingerprint == NIMBLE.fingerprint


def test_the_mass_of_a_run_is_unknown_if_one_reply_shows_logits(tmp_path: Path) -> None:
    data = dataset_file(tmp_path)
    seen = [0]

    def later(model: str, prompt: Sequence[int], ids: Sequence[int]) -> list[float]:
        seen[0] += 1
        return [value + 5.0 * (seen[0] > 10) for value in by_hash(model, prompt, ids)]

    respond = answering({"/v1/completions": lambda sent: vllm(sent, later)})
    with serving(respond) as server:
        one_by_one: Any = {"wire": "vllm", "tokenizer": str(MODEL), "concurrency": 1}
        score_served(server, data, tmp_path / "run", k=1, **one_by_one)
    run = read_run(tmp_path / "run")
    assert np.isnan(run.predictions.answer_mass).all()
    assert np.isfinite(run.predictions.logits[:, :, :2]).all()
    assert " answers " in runner(main, "report")(tmp_path / "run").stdout
    with serving(answering({"/v1/completions": lambda sent: vllm(sent, later)})) as server:
        words = ["--server", server.url, "--model", "mine", "--wire", "vllm"]
        shown = runner(main, "score", "--probe")(*words, "--tokenizer", MODEL).stdout
    assert "logits, not log-probabilities" in shown


def test_a_server_may_refuse_an_item_as_too_long(tmp_path: Path) -> None:
    """The message is that of vLLM."""
    data = dataset_file(tmp_path)
    text = "This model's maximum context length is 40 tokens. However, you requested 57 tokens."

    def choosy(sent: Sent) -> Response:
        too_long = len(sent.body["logprob_token_ids"]) == 2
        return Response({"error": {"message": text}}, 400) if too_long else vllm(sent)

    with serving(answering({"/v1/completions": choosy})) as server:
        score_served(server, data, tmp_path / "run", k=2, wire="vllm", tokenizer=str(MODEL))
    assert read_run(tmp_path / "run").provenance.counts.unanswered == {"unsupported": 4}


def test_an_unknown_model_ends_the_run_with_its_name() -> None:
    body = {"error": {"message": "The model `other` does not exist.", "code": 404}}
    respond = answering({"/v1/completions": lambda _sent: Response(body, 404)})
    with (
        serving(respond, {"/v1/models": VLLM_MODELS}) as server,
        pytest.raises(ServerError, match=r"404: .*`other`.*model other"),
    ):
        probe(request(server.url, "vllm", model="other"))


def test_an_adapter_that_is_not_applied_is_caught_without_its_base_name() -> None:
    """`/v1/models` names the base model of an adapter."""

    def ignores(model: str, prompt: Sequence[int], ids: Sequence[int]) -> list[float]:
        return by_hash("base", prompt, ids)

    for name, (respond, models, path) in SERVERS.items():
        pages = {"/v1/models": models}
        with serving(answering({path: respond}), pages, routes=(path,)) as server:
            result = probe(request(server.url))
        assert (result.wire, result.faults) == (name, ())
        assert result.base is not None
        assert result.base.name == "base"
        silent = answering({path: partial(respond, scored=ignores)})
        with serving(silent, pages, routes=(path,)) as server:
            (fault,) = probe(request(server.url)).faults
        assert_says(fault, "adapter is not applied")


def test_another_tokenizer_is_caught(encoder: Encoder) -> None:
    def tokenize(sent: Sent) -> Response:
        ids = encoder.tokenizer([sent.body["prompt"]], add_special_tokens=False)["input_ids"][0]
        return Response({"tokens": [*ids[:-1], ids[-1] + 1] if wrong else ids})

    for wrong in (False, True):
        respond = answering({"/v1/completions": vllm, "/tokenize": tokenize})
        with serving(respond) as server:
            result = probe(request(server.url, "vllm"))
        assert result.tokenizer is not None
        assert result.tokenizer.same is not wrong
        assert result.tokenizer.prompts == (1 if wrong else 5)
        assert bool(result.faults) is wrong


def test_batches_that_change_answers_count_as_noise() -> None:
    def noisy(sent: Sent) -> Response:
        several = len(sent.body["prompt"]) > 1

        def scored(model: str, prompt: Sequence[int], ids: Sequence[int]) -> list[float]:
            values = by_hash(model, prompt, ids)
            return [values[0] - 0.1 * several, *values[1:]]

        return vllm(sent, scored)

    with serving(answering({"/v1/completions": noisy})) as server:
        result = probe(request(server.url, "vllm"))
    assert result.batches is not None
    assert 0.001 < result.batches.largest_tv < 0.1
    assert result.floor is not None
    assert result.least_change >= 3 * result.batches.largest_tv
    assert not result.faults
