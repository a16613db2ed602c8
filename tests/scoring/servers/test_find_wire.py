"""Which wire is found at servers that show what real ones show."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import pytest

from pact_eval.errors import ServerError
from pact_eval.scoring.servers.find_wire import FoundWire, find_wire
from pact_eval.scoring.servers.wire import ServerRequest, WireName
from scoring.conftest import MODEL
from scoring.servers.loopback import Response, Sent, serving, systemone
from scoring.servers.token_servers import SGLANG_MODELS, VLLM_MODELS

OPENAPI = {"paths": {}, "components": {"properties": {"logprob_token_ids": {"type": "array"}}}}
TOKENIZER = {"tokenizer": str(MODEL)}


def found_at(
    routes: Sequence[str],
    pages: dict[str, Any] | None = None,
    wire: WireName = "auto",
    **options: Any,
) -> FoundWire:
    with serving(systemone, pages, routes=routes) as server:
        return find_wire(ServerRequest((server.url,), "mine", wire=wire, **options))


COMPLETIONS, GENERATE = "/v1/completions", "/generate"
SYSTEMONE, DECISIONS = "/v1/systemone", "/v1/decisions"
VLLM_PAGES = {"/v1/models": VLLM_MODELS}
SGLANG_PAGES = {"/v1/models": SGLANG_MODELS, "/model_info": {"served_model_name": "base"}}
OTHER_PAGES = {"/v1/models": {"data": [{"id": "mine", "owned_by": "somebody"}]}}


@pytest.mark.parametrize(
    ("routes", "pages", "options", "expected", "why"),
    [
        ([SYSTEMONE], {}, {}, "systemone", "/v1/systemone exists"),
        ([DECISIONS], {}, {}, "openai-decisions", "/v1/decisions exists"),
        ([SYSTEMONE, DECISIONS], {}, {}, "systemone", "--wire openai-decisions"),
        ([COMPLETIONS, SYSTEMONE], VLLM_PAGES, TOKENIZER, "vllm", "owned_by vllm"),
        ([COMPLETIONS, SYSTEMONE], VLLM_PAGES, {}, "systemone", "with --tokenizer, --wire vllm"),
        ([COMPLETIONS], {"/openapi.json": OPENAPI}, TOKENIZER, "vllm", "takes logprob_token_ids"),
        ([GENERATE, DECISIONS], SGLANG_PAGES, TOKENIZER, "sglang", "owned_by sglang"),
        ([GENERATE, SYSTEMONE], SGLANG_PAGES, {}, "systemone", "with --tokenizer, --wire sglang"),
        # Any server may have /v1/completions: it must show the parameter.
        ([COMPLETIONS, SYSTEMONE], OTHER_PAGES, TOKENIZER, "systemone", "/v1/systemone exists"),
    ],
)
def test_the_rule(
    routes: list[str], pages: dict[str, Any], options: dict[str, Any], expected: str, why: str
) -> None:
    detected = found_at(routes, pages, **options)
    assert detected.wire.name == expected
    assert why in detected.why


def test_the_tokenizer_of_a_server_on_this_machine_is_found() -> None:
    models = {
        "data": [
            {"id": "base", "owned_by": "vllm", "root": str(MODEL)},
            {"id": "mine", "owned_by": "vllm", "root": "/adapters/mine", "parent": "base"},
        ]
    }
    detected = found_at([COMPLETIONS], {"/v1/models": models})
    assert detected.wire.name == "vllm"
    assert f"tokenizer of the server, {MODEL}" in detected.why
    assert detected.base_name == "base"


@pytest.mark.parametrize("root", ["/", "/" + "x" * 5000, "/a\0b", "relative", 3, None])
def test_folders_without_a_tokenizer_are_not_used(root: Any) -> None:
    models = {"data": [{"id": "mine", "owned_by": "vllm", "root": root}]}
    assert found_at([COMPLETIONS, SYSTEMONE], {"/v1/models": models}).wire.name == "systemone"


@pytest.mark.parametrize(
    ("routes", "pages", "message"),
    [
        ([], {}, r"no supported API.*/v1/completions \(vllm\): status 404.*--wire"),
        ([COMPLETIONS], OTHER_PAGES, "no supported API"),
        # SGLang's own /v1/decisions is another format.
        ([DECISIONS], SGLANG_PAGES, "no supported API"),
        ([COMPLETIONS], VLLM_PAGES, r"wire vllm .*owned_by vllm.*: give .*--tokenizer"),
    ],
)
def test_what_cannot_be_detected_is_an_error(
    routes: list[str], pages: dict[str, Any], message: str
) -> None:
    with pytest.raises(ServerError, match=message):
        found_at(routes, pages)


def test_a_wire_that_is_named_is_not_asked_for() -> None:
    assert found_at([], {}, "openai-decisions").wire.name == "openai-decisions"
    assert found_at([], {}, "sglang", **TOKENIZER).wire.name == "sglang"
    with pytest.raises(ServerError, match="--wire vllm .*--tokenizer"):
        found_at([COMPLETIONS], VLLM_PAGES, "vllm")


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_a_key_says_so(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(sent: Sent) -> Response:  # as vLLM: /generate is not there
        return Response({"detail": "key"}, status if sent.path.startswith("/v1/") else 404)

    monkeypatch.setattr("scoring.servers.loopback.asks_for_route", lambda _sent: False)
    with serving(denied) as server:
        message = f"a key is wanted; give the key by --api-key-env.*status {status}"
        with pytest.raises(ServerError, match=message):
            find_wire(ServerRequest((server.url,), "mine"))
        monkeypatch.setenv("MY_KEY", "another")
        with pytest.raises(ServerError, match="the key in MY_KEY is not accepted"):
            find_wire(ServerRequest((server.url,), "mine", key_variable="MY_KEY"))


def test_the_reason_of_llama_cpp_for_a_model_that_does_not_decide_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def plain_model(sent: Sent) -> Response:  # as llama.cpp's server with a GGUF of a chat model
        reason = {"error": {"code": 501, "message": "This model is not a decision model"}}
        return Response(reason, 501) if sent.path == SYSTEMONE else Response({}, 404)

    monkeypatch.setattr("scoring.servers.loopback.asks_for_route", lambda _sent: False)
    with serving(plain_model) as server:
        message = "systemone.*status 501, This model is not a decision model"
        with pytest.raises(ServerError, match=message):
            find_wire(ServerRequest((server.url,), "mine"))


def test_a_404_about_the_model_is_not_about_the_route(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_model(sent: Sent) -> Response:
        unknown = {"error": {"message": "model 'mine' does not exist"}}
        return Response(unknown if sent.path == SYSTEMONE else {"detail": "Not Found"}, 404)

    monkeypatch.setattr("scoring.servers.loopback.asks_for_route", lambda _sent: False)
    with serving(no_such_model) as server:
        assert find_wire(ServerRequest((server.url,), "mine")).wire.name == "systemone"


def test_a_server_that_does_not_run() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ServerError, match="no route .*running.*--wire"):
            find_wire(ServerRequest((url,), "mine"))
