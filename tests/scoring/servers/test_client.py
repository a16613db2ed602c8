"""The HTTP client, against real servers on the loopback interface that misbehave on purpose."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from pact_eval.errors import ServerError
from pact_eval.scoring.servers.client import (
    MOST_FAILURES,
    TRIES,
    Client,
    NoUsableReplyError,
    RefusedRequestError,
)
from pact_eval.scoring.servers.wire import ServerRequest
from scoring.servers.loopback import Response, Sent, serving


def request_to(*urls: str, **options: Any) -> ServerRequest:
    return ServerRequest(urls=urls, model="m", **options)


def post(client: Client) -> Any:
    return client.wait_for(lambda: client.post("/v1/x", b"{}", lambda value: value))


def refusal(response: Response, kind: type[ServerError] = NoUsableReplyError) -> ServerError:
    """Returns the error that a server's response to the only request leads to."""
    with (
        serving(in_turn(response)) as server,
        Client(request_to(server.url)) as c,
        pytest.raises(kind) as caught,
    ):
        post(c)
    return caught.value


def in_turn(*responses: Response) -> Any:
    left = list(responses)
    return lambda _sent: left.pop(0) if len(left) > 1 else left[0]


@pytest.mark.parametrize("status", [408, 429, 529])
def test_passing_statuses_are_tried_again(status: int) -> None:
    busy = Response({"error": "busy"}, status, {"retry-after": "0"})
    with (
        serving(in_turn(busy, busy, Response({"ok": 1}))) as server,
        Client(request_to(server.url)) as c,
    ):
        assert post(c) == {"ok": 1}
        assert (c.requests, c.retries) == (3, 2)


def test_a_server_that_is_always_busy_is_given_up() -> None:
    busy = Response({"detail": "all slots are taken"}, 529)
    with serving(in_turn(busy)) as server, Client(request_to(server.url)) as c:
        with pytest.raises(NoUsableReplyError, match=f"{TRIES} tries .* 529: all slots"):
            post(c)
        assert len(server.posts) == TRIES


def test_retry_after_is_kept_and_a_long_one_ends_the_run() -> None:
    wait = Response(None, 429, {"retry-after-ms": "300"})
    with serving(in_turn(wait, Response({}))) as server, Client(request_to(server.url)) as c:
        started = time.monotonic()
        post(c)
        assert time.monotonic() - started >= 0.3
    hours = Response(None, 429, {"retry-after": "7200"})
    assert "asks to wait 7,200 s" in str(refusal(hours, ServerError))


@pytest.mark.parametrize(
    ("status", "body", "message", "capacity"),
    [
        (
            400,
            {"detail": [{"loc": ["body", "q"], "msg": "at most 26 options"}]},
            "body.q: at most",
            True,
        ),
        (422, {"error": {"message": "exceeds the context length"}}, "context length", True),
        (422, {"object": "error", "message": "state is blank"}, "state is blank", False),
        (413, {"object": "error", "message": "state is blank"}, "state is blank", True),
    ],
)
def test_refusals_are_not_repeated_and_say_why(
    status: int, body: Any, message: str, capacity: bool
) -> None:
    with serving(in_turn(Response(body, status))) as server, Client(request_to(server.url)) as c:
        with pytest.raises(RefusedRequestError, match=message) as caught:
            post(c)
        assert caught.value.capacity is capacity
        assert len(server.posts) == 1


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (Response({"detail": "no key"}, 401), "401: no key; give the key by --api-key-env"),
        (Response({"detail": "no key"}, 403), "403: no key"),
        (Response({"error": "no such model"}, 404), "no such model \\(model m\\)"),
        (Response("not here", 501), "501"),
        (Response(None, 307, {"location": "http://127.0.0.1:1/"}), "redirects to .* not followed"),
    ],
)
def test_what_no_repetition_cures_ends_the_run(response: Response, message: str) -> None:
    with serving(in_turn(response)) as server, Client(request_to(server.url)) as c:
        with pytest.raises(ServerError, match=message):
            post(c)
        assert len(server.sent) == 1


def test_failures_in_a_row_end_the_run_and_a_success_between_them_does_not() -> None:
    with Client(request_to("http://127.0.0.1:9")) as c:
        for _ in range(3):
            for _ in range(MOST_FAILURES - 1):
                c.failed("bad")
            c.succeeded()
        for _ in range(MOST_FAILURES - 1):
            c.failed("bad")
        with pytest.raises(ServerError, match=f"{MOST_FAILURES} requests in a row .* worse"):
            c.failed("worse")


def test_a_server_that_does_not_run_is_given_up_after_one_request() -> None:
    """A probe asked five requests in turn, each with its pauses: 80 s without a word."""
    with serving(in_turn(Response(None))) as server:
        pass  # its port is free now
    with (
        Client(request_to(server.url)) as c,
        pytest.raises(ServerError, match="is the server running"),
    ):
        post(c)


@pytest.mark.parametrize(
    ("raw", "headers", "message"),
    [
        (b")]}'\n{}", {}, "not strict JSON"),
        (b'{"a": NaN}', {}, "NaN"),
        (b'{"a": 1, "a": 2}', {}, "duplicate key"),
        (b"[" * 4_000, {}, "nested"),
        (b"\x1f\x8b", {"content-encoding": "gzip"}, "compressed"),
    ],
)
def test_what_is_not_strict_json_is_no_answer(
    raw: bytes, headers: dict[str, str], message: str
) -> None:
    assert message in str(refusal(Response(raw=raw, headers=headers)))


def test_the_key_is_in_one_header_and_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret-key")

    def echo(sent: Sent) -> Response:
        return Response({"detail": f"bad header {sent.headers['authorization']}"}, 403)

    with serving(echo) as server, Client(request_to(server.url, key_variable="MY_KEY")) as c:
        with pytest.raises(ServerError) as caught:
            post(c)
        assert "bad header Bearer [key]" in str(caught.value)
        assert "s3cret" not in f"{caught.value!r}{c!r}{vars(c._request)}"
        assert [name for name, text in server.sent[0].headers.items() if "s3cret" in text] == [
            "authorization"
        ]


@pytest.mark.parametrize("value", [None, "", "two words", "café", "a\nb"])
def test_a_key_that_cannot_be_sent_is_refused(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(ServerError, match="MY_KEY") as caught:
        Client(request_to("http://127.0.0.1:9", key_variable="MY_KEY"))
    assert value is None or value == "" or value not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://host", "http://", "http://h/?key=1", "http://h:port"]
)
def test_addresses_are_checked(url: str) -> None:
    with pytest.raises(ServerError, match="--server"):
        request_to(url)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ServerError) as caught:
        request_to("https://me:hunter2@example.org")
    assert "hunter2" not in str(caught.value)


def test_requests_go_round_and_a_dead_replica_is_passed_over() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with serving(in_turn(Response({}))) as first, serving(in_turn(Response({}))) as second:
        with Client(request_to(dead, first.url, second.url)) as c:
            for _ in range(9):
                post(c)
        assert min(len(first.posts), len(second.posts)) >= 3


def test_the_rate_limit_spaces_requests() -> None:
    answers = serving(in_turn(Response({})))
    with answers as server, Client(request_to(server.url, requests_per_minute=1200)) as c:
        started = time.monotonic()
        for _ in range(5):
            post(c)
        assert time.monotonic() - started >= 4 * 60 / 1200
