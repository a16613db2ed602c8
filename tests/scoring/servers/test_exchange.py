"""One request and its reply, and waits, against real servers on the loopback interface."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from commands import command_line, runner
from hostile.servers import KEY, MODES, Mode, Turn, hostile_server
from messages import assert_says
from steps import Steps

from pact_cli.main import main
from pact_eval.errors import ServerError
from pact_eval.progress import watched
from pact_eval.scoring.servers import client as client_module
from pact_eval.scoring.servers.client import Client, NoUsableReplyError, bounds_of_answer
from pact_eval.scoring.servers.wire import ServerRequest
from scoring.servers.loopback import Response, serving

BODY: Any = {"model": "m", "state": "a", "questions": {}}
CERTIFICATE = Path(__file__).parents[2] / "hostile" / "self_signed.pem"
needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a process")


@pytest.fixture(autouse=True)
def _one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "TRIES", 1)


def posted(c: Client, state: str = "a") -> Any:
    body = json.dumps(BODY | {"state": state}).encode()
    return c.wait_for(lambda: c.post("/v1/systemone", body, lambda value: value))


@contextmanager
def client_of(mode: Mode, **options: Any) -> Iterator[Client]:
    with hostile_server() as server:
        server.mode = mode
        with Client(ServerRequest((server.url,), "m", **options)) as c:
            yield c


@pytest.mark.parametrize(
    "name",
    [
        *("drips-headers", "drips-body", "silent"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (
                *("drips-status", "drips-one-header", "drips-chunks", "drips-chunk-extensions"),
                *("drips-trailers", "drips-1xx", "endless-1xx", "drips-body-without-length"),
                "half-a-body",
            )
        ),
    ],
)
def test_the_deadline_holds_for_every_part_of_a_reply(name: str) -> None:
    with client_of(MODES[name], timeout_seconds=0.06) as c:
        started = time.monotonic()
        with pytest.raises(NoUsableReplyError, match=r"not complete after 0\.3 s"):
            posted(c)
        assert 0.3 <= time.monotonic() - started < 5


def by_state(turn: Turn) -> bytes:
    return json.dumps({"state": turn.sent.body["state"]}).encode()


@pytest.mark.parametrize("pause", [0.0, 0.03])
def test_a_reply_that_is_sent_twice_is_not_the_answer_to_the_next_request(pause: float) -> None:
    def twice(turn: Turn) -> None:
        turn.reply(by_state(turn))
        time.sleep(pause)
        turn.reply(by_state(turn))

    with client_of(Mode(twice)) as c:
        for number in range(20):
            assert posted(c, str(number)) == {"state": str(number)}


@pytest.mark.parametrize("place", ["header", "body"])
def test_a_reply_with_the_identity_of_another_request_is_not_used(place: str) -> None:
    def behind(turn: Turn) -> None:
        identity = turn.previous_identity or turn.sent.headers["x-request-id"]
        headers = {"x-request-id": identity} if place == "header" else {}
        turn.reply(json.dumps({"id": f"cmpl-{identity}"}).encode(), headers=headers)

    with client_of(Mode(behind)) as c:
        posted(c)
        with pytest.raises(NoUsableReplyError, match="to another request"):
            posted(c)


@pytest.mark.parametrize("count", [10_000, 100_000, 5_000_000])
def test_a_reply_with_too_many_values_is_refused_before_it_is_parsed(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(client_module, "loads", parsed.append)
    content = b"[" + b"{}," * count + b"{}]"
    with (
        client_of(Mode(lambda turn: turn.reply(content))) as c,
        pytest.raises(NoUsableReplyError, match=r"more than 4,1|is longer than 262,"),
    ):
        posted(c)
    assert not parsed


def test_the_bounds_admit_the_longest_answer_that_can_be_asked_for() -> None:
    """255 options with names of 60 characters, with every value and name that a wire has."""
    names = [f"{number:03} {'é, [{' * 11}" for number in range(255)]
    longest = {"questions": [{"choices": [{"value": name} for name in names]}]}
    answer = {"choice": names[0], "probabilities": [
        {"value": name, "label": name, "probability": 0.00392156862745098} for name in names
    ]}  # fmt: skip
    content = json.dumps({"answers": [answer]}).encode()
    bounds = bounds_of_answer(json.dumps(longest, ensure_ascii=False).encode())
    bounds.check(content)
    assert len(content) < bounds.most_bytes


def test_what_is_waited_for_is_told_with_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_TOLD_SECONDS", 0.1)
    steps = Steps()
    with (
        watched(steps),
        client_of(MODES["silent"], timeout_seconds=0.2) as c,
        pytest.raises(NoUsableReplyError),
    ):
        posted(c)
    assert steps.waited
    assert all("/v1/systemone" in text and "at most until" in text for text in steps.waited)


@contextmanager
def tls_server(answer: Callable[[ssl.SSLSocket], object]) -> Iterator[tuple[str, list[int]]]:
    """A server with a certificate that nobody trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    tries: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                tries.append(1)
                with (
                    connection,
                    suppress(OSError),
                    context.wrap_socket(connection, server_side=True) as secure,
                ):
                    answer(secure)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"https://127.0.0.1:{listener.getsockname()[1]}", tries
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def answer_all(secure: ssl.SSLSocket) -> None:
    while not secure.recv(65536).endswith(b"}"):
        pass
    secure.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")


def test_a_certificate_that_is_not_trusted_ends_the_first_try_with_its_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "TRIES", 6)
    with tls_server(answer_all) as (url, tries):
        with Client(ServerRequest((url,), "m")) as c, pytest.raises(ServerError) as caught:
            posted(c)
        assert_says(caught.value, "certificate", "not trusted", "self-signed")
        refused = runner(main, "score", "--probe")("--server", url, "--model", "m", code=1).stderr
        assert_says(refused, "certificate", "not trusted")
        assert len(tries) == 2
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        with Client(ServerRequest((url,), "m")) as c:
            assert posted(c) == {}


def test_https_to_a_server_without_tls_names_the_cause() -> None:
    with serving(lambda _sent: Response({})) as server:
        request = ServerRequest((server.url.replace("http:", "https:"),), "m")
        with Client(request) as c, pytest.raises(ServerError, match="does not speak TLS"):
            posted(c)


@needs_signals
@pytest.mark.slow
@pytest.mark.parametrize("command", ["score --probe", "decide", "score"])
def test_ctrl_c_ends_a_command_while_the_server_is_silent(command: str, tmp_path: Path) -> None:
    """polars' handler lets the main thread sleep on in a lock."""
    root = Path(__file__).parents[3]
    example = root / "docs" / "example"
    data = root / "fixtures" / "pact_fixtures" / "data" / "holdout.jsonl"
    more: dict[str, tuple[object, ...]] = {
        "score --probe": (),
        "decide": ("--context", "Open.", "--schema", example / "schema.json"),
        "score": ("--data", data, "--out", tmp_path / "run"),
    }
    request_arrived = threading.Event()

    def silent(turn: Turn) -> None:
        request_arrived.set()
        MODES["silent"].act(turn)

    with hostile_server() as server:
        server.mode = Mode(silent)
        words = [*command.split(), "--server", server.url, "--model", "m", "--wire", "systemone"]
        process = subprocess.Popen(
            command_line("pact-eval", *words, *more[command]),
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            assert request_arrived.wait(120)
            time.sleep(0.5)
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert time.monotonic() - started < 5
    last = {"score": "no item was scored yet; the same command starts again"}
    last_line = last.get(command, "nothing was written")
    assert errors.endswith(f"Error: interrupted; {last_line}\n")
    assert process.returncode == 1


@pytest.mark.parametrize(
    "name",
    [
        *("redirect-with-the-key", "redirect-with-the-quoted-key", "403-with-the-escaped-key"),
        *("403-with-the-escaped-key-in-no-json", "422-with-the-key-at-the-cut"),
        *("illegal-header-with-the-key", "duplicate-escaped-keys"),
    ],
)
def test_no_message_has_the_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACT_KEY", KEY)
    with client_of(MODES[name], key_variable="PACT_KEY") as c, pytest.raises(ServerError) as caught:
        posted(c)
    assert "[key]" in str(caught.value)
    assert "s3cret" not in str(caught.value).lower()
