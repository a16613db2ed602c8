"""A hostile server on all wires: every mode breaks the replies of a healthy one in its own way.

A mode gets a `Turn`: the request, the socket, and the reply that a healthy server would send. It
acts on questions, or on pages (`/v1/models`, `/version`).
"""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from scoring.servers import loopback, token_servers

KEY = "s3cret/key-123456"
ESCAPED = "".join(f"\\u{ord(sign):04x}" for sign in KEY)
SLASHED = KEY.replace("/", "\\/")
QUOTED = urllib.parse.quote(KEY, safe="").replace("-", "%2D")
PATHS = {
    "/v1/completions": "vllm",
    "/generate": "sglang",
    "/v1/systemone": "systemone",
    "/v1/decisions": "openai-decisions",
}
WIRES = tuple(PATHS.values())
_LONGEST = 60.0


def healthy_answer(wire: str, sent: loopback.Sent) -> Any:
    """The JSON of a healthy reply, which depends on the item alone."""
    if wire == "vllm":
        return token_servers.vllm(sent).value
    if wire == "sglang":
        return token_servers.sglang(sent).value
    if wire == "systemone":
        return loopback.systemone(sent).value
    (question,) = sent.body["questions"]
    return {"model": "served-1", "answers": [_openai_answer(question, sent.body["input"])]}


def _openai_answer(question: dict[str, Any], context: str) -> dict[str, Any]:
    answer = {"type": question["type"], "name": question["name"]}
    if question["type"] == "predicate":
        return answer | {"probability": loopback.softmax_of_names(["yes", "no"], context)[0]}
    key, listed = ("value", "choices") if question["type"] == "choice" else ("label", "levels")
    names = sorted(entry[key] for entry in question[listed])
    by_name = dict(zip(names, loopback.softmax_of_names(names, context), strict=True))
    values = [
        {"value": level, key: entry[key], "probability": by_name[entry[key]]}
        for level, entry in enumerate(question[listed])
    ]
    score = sum(level * entry["probability"] for level, entry in enumerate(values))
    best = max(names, key=by_name.__getitem__)
    return answer | {"choice": best, "score": score, "probabilities": values}


@dataclass
class Turn:
    """One request, and the means to answer it."""

    socket: socket.socket
    sent: loopback.Sent
    answer: Any
    number: int
    previous: bytes | None = None
    previous_identity: str = ""

    @property
    def body(self) -> bytes:
        return json.dumps(self.answer).encode()

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.socket.sendall(part)

    def reply(
        self,
        body: bytes | None = None,
        status: str = "200 OK",
        headers: Mapping[str, str] | None = None,
        *,
        length: bool = True,
    ) -> None:
        content = self.body if body is None else body
        self.send(head(status, headers, len(content) if length else None), content)

    def drip(self, part: bytes, seconds: float = 0.01) -> None:
        """Sends a part again and again until the client has had enough."""
        end = time.monotonic() + _LONGEST
        while time.monotonic() < end:
            self.send(part)
            time.sleep(seconds)

    def model(self, name: Any) -> bytes:
        """The healthy body with another name of the model."""
        answer = self.answer if isinstance(self.answer, dict) else {"answers": self.answer}
        return json.dumps(answer | {"model": name}).encode()


def head(
    status: str = "200 OK", headers: Mapping[str, str] | None = None, length: int | None = None
) -> bytes:
    lines = [f"HTTP/1.1 {status}", "content-type: application/json"]
    lines += [f"{name}: {text}" for name, text in (headers or {}).items()]
    lines += [] if length is None else [f"content-length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


CHUNKED = {"transfer-encoding": "chunked"}


@dataclass(frozen=True)
class Mode:
    """A way to break a reply.

    Attributes:
        act: answers a turn.
        pages: whether pages are answered so, and not questions.
        probe: whether the run probes the server, and so stores what it says of itself.
        timeout: seconds of one try.
        answered: whether every item must be answered, and rightly.
    """

    act: Callable[[Turn], object]
    pages: bool = False
    probe: bool = False
    timeout: float = 0.2
    answered: bool = False


def status(code: int, text: str = "no", **headers: str) -> Mode:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Mode(lambda turn: turn.reply(json.dumps({"error": text}).encode(), f"{code} x", names))


def body(content: bytes | Callable[[Turn], bytes], **options: Any) -> Mode:
    return Mode(lambda t: t.reply(content(t) if callable(content) else content), **options)


def raw(content: bytes) -> Mode:
    return Mode(lambda turn: turn.send(content))


def then_drip(before: bytes, part: bytes) -> Mode:
    def act(turn: Turn) -> None:
        turn.send(before)
        turn.drip(part)

    return Mode(act)


def silence(turn: Turn, before: bytes = b"") -> None:
    turn.send(before)
    turn.socket.settimeout(_LONGEST)
    turn.socket.recv(1)


def twice(turn: Turn, pause: float) -> None:
    """Sends the reply a second time, perhaps after the next request."""
    turn.reply()
    time.sleep(pause)
    turn.reply()


def after_an_interim_reply(turn: Turn) -> None:
    turn.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    turn.reply()


def echo_of_the_previous(turn: Turn) -> None:
    """Sends the previous reply with its identity: what a proxy does that is one reply behind."""
    if turn.previous is None:
        turn.reply(headers={"x-request-id": turn.sent.headers["x-request-id"]})
    else:
        turn.reply(turn.previous, headers={"x-request-id": turn.previous_identity})


def reset(turn: Turn) -> None:
    """Has the connection reset when it is closed."""
    turn.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def endless(turn: Turn, part: bytes) -> None:
    turn.send(head(length=None))
    while True:
        turn.send(part)


def now_and_then(turn: Turn) -> None:
    """Breaks two requests of three."""
    if turn.number % 3:
        reset(turn)
    else:
        turn.reply()


def two_models(turn: Turn) -> None:
    turn.reply(turn.model(f"served-{turn.number % 2}"))


def page(value: Any) -> Mode:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return body(content, pages=True, probe=True)


BIG = 15 * 2**20
OBJECTS = b"[" + b"{}," * (BIG // 3) + b"{}]"
BOMB = gzip.compress(b" " * BIG)
MODES: dict[str, Mode] = {
    "healthy": Mode(Turn.reply, probe=True, timeout=20, answered=True),
    # Statuses.
    "redirect": status(302, location="http://127.0.0.1:9/"),
    "redirect-with-the-key": status(301, location=f"http://127.0.0.1:9/?key={KEY}"),
    "redirect-with-the-quoted-key": status(307, location=f"http://127.0.0.1:9/?key={QUOTED}"),
    "redirect-without-a-place": status(308),
    "401-with-the-key": status(401, f"bad key {KEY}"),
    "403-with-the-escaped-key": Mode(
        lambda t: t.reply(f'{{"error": "{ESCAPED}"}}'.encode(), "403 x")
    ),
    "403-with-the-escaped-key-in-no-json": Mode(
        lambda t: t.reply(f"<p>{ESCAPED} {SLASHED} {QUOTED}".encode(), "403 x")
    ),
    "404": status(404),
    "405": status(405),
    "408": status(408),
    "413": status(413, "too long"),
    "422-of-a-megabyte": status(422, "no " * 350_000),
    "422-with-the-key-at-the-cut": status(422, "x" * 290 + KEY),
    "429": status(429, retry_after="0"),
    "429-for-a-day": status(429, retry_after="86400"),
    "429-with-a-senseless-wait": status(429, retry_after="NaN"),
    "500": status(500, f"oh {KEY}"),
    "500-with-many-objects": Mode(lambda t: t.reply(OBJECTS, "500 x")),
    "501": status(501),
    "503": status(503, retry_after="Thu, 01 Jan 1970 00:00:00 GMT"),
    "529": status(529),
    "204": Mode(lambda t: t.send(b"HTTP/1.1 204 No\r\n\r\n")),
    "206": status(206),
    "999": status(999),
    "status-of-letters": raw(b"HTTP/1.1 abc OK\r\n\r\n"),
    # Time.
    "silent": Mode(silence),
    "half-a-status": Mode(lambda t: silence(t, b"HTTP/1.1 20")),
    "half-a-body": Mode(lambda t: silence(t, head(length=100) + b'{"a": ')),
    "drips-status": then_drip(b"HTTP/1.1 200 ", b"O"),
    "drips-headers": then_drip(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
    "drips-one-header": then_drip(b"HTTP/1.1 200 OK\r\nx: ", b"y"),
    "drips-body": then_drip(head(length=10**6), b" "),
    "drips-body-without-length": then_drip(head(), b" "),
    "drips-chunks": then_drip(head(headers=CHUNKED), b"1\r\n \r\n"),
    "drips-chunk-extensions": then_drip(head(headers=CHUNKED) + b"1;", b"a=b;"),
    "drips-trailers": then_drip(head(headers=CHUNKED) + b"2\r\n{}\r\n0\r\n", b"x: y\r\n"),
    "drips-1xx": then_drip(b"", b"HTTP/1.1 103 x\r\n\r\n"),
    "endless-1xx": Mode(lambda t: t.drip(b"HTTP/1.1 103 x\r\n\r\n" * 100, 0)),
    "one-1xx": Mode(after_an_interim_reply, timeout=20, answered=True),
    "ends-after-a-while": Mode(lambda _turn: time.sleep(0.3)),
    # Connections and framing.
    "reset": Mode(reset),
    "hangs-up": Mode(lambda _t: None),
    "hangs-up-in-headers": raw(b"HTTP/1.1 200 OK\r\ncontent-le"),
    "hangs-up-in-the-body": raw(head(length=1000) + b'{"model": '),
    "hangs-up-in-chunks": raw(head(headers=CHUNKED) + b"5\r\n{}"),
    "breaks-two-of-three": Mode(now_and_then, timeout=20),
    "twice": Mode(lambda t: twice(t, 0), timeout=20, answered=True),
    "twice-late": Mode(lambda t: twice(t, 0.05), timeout=20, answered=True),
    "more-than-its-length": Mode(
        lambda t: t.send(head(length=len(t.body)), t.body, t.body), timeout=20, answered=True
    ),
    "less-than-its-length": Mode(lambda t: t.send(head(length=len(t.body) - 5), t.body)),
    "one-reply-behind": Mode(echo_of_the_previous, timeout=20),
    "two-lengths": Mode(
        lambda t: t.reply(headers={"Content-Length": "2", "content-length": "3"}, length=False)
    ),
    "length-and-chunks": Mode(lambda t: t.reply(headers=CHUNKED)),
    "negative-length": raw(b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n{}"),
    "huge-length": raw(head(headers={"content-length": "9" * 30}) + b"{}"),
    "folded-header": raw(b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 2\r\n\r\n{}"),
    "illegal-header-with-the-key": raw(f"HTTP/1.1 200 OK\r\n{KEY}\x00: {KEY}\r\n\r\n".encode()),
    "header-of-a-megabyte": raw(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 2**20),
    "ten-thousand-headers": raw(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 10_000 + b"\r\n{}"),
    "http-0.9": raw(b'{"model": "a"}'),
    "http-1.0": Mode(
        lambda t: t.send(b"HTTP/1.0 200 OK\r\n\r\n", t.body), timeout=20, answered=True
    ),
    "http-2": raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "upgrade": raw(b"HTTP/1.1 101 x\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n{}"),
    "gzip": Mode(lambda t: t.reply(gzip.compress(t.body), headers={"content-encoding": "gzip"})),
    "gzip-unsaid": body(lambda t: gzip.compress(t.body)),
    "gzip-bomb": Mode(lambda t: t.reply(BOMB, headers={"content-encoding": "br"})),
    "chunks-of-letters": raw(head(headers=CHUNKED) + b"zz\r\n{}\r\n0\r\n\r\n"),
    "huge-chunk": raw(head(headers=CHUNKED) + b"f" * 18 + b"\r\n{}"),
    "tiny-chunks": Mode(
        lambda t: t.send(head(headers=CHUNKED), b"1\r\n[\r\n" * 10**6), timeout=0.5
    ),
    # Bodies.
    "endless-body": Mode(lambda t: endless(t, b" " * 65536), timeout=20),
    "endless-values": Mode(lambda t: endless(t, b"{}," * 20_000), timeout=20),
    "many-objects": body(OBJECTS, timeout=20),
    "many-objects-in-bounds": body(b"[" + b"{}," * 80_000 + b"{}]", timeout=20),
    "deep": body(b"[" * 4_000, timeout=20),
    "many-strings": body(b"[" + b'"a",' * (BIG // 4) + b'"a"]', timeout=20),
    "one-long-text": body(b'"' + b"x" * BIG + b'"', timeout=20),
    "wide-text-in-bounds": body(b'"' + "😀".encode() * 60_000 + b'"', timeout=20),
    "long-integer": body(b"9" * 200_000, timeout=20),
    "infinity": body(b'{"a": 1e999}'),
    "nan": body(b'{"a": NaN}'),
    "duplicate-keys": body(lambda t: t.body[:-1] + b", " + t.body[1:]),
    "duplicate-escaped-keys": body(f'{{"{ESCAPED}": 1, "{SLASHED}": 2}}'.encode()),
    "byte-order-mark": body(lambda t: b"\xef\xbb\xbf" + t.body),
    "utf-16": body(lambda t: t.body.decode().encode("utf-16")),
    "not-utf-8": body(b'{"model": "\xff\xfe"}'),
    "half-a-surrogate": body(b'{"model": "\\ud800", "answers": {}}'),
    "empty": body(b""),
    "null": body(b"null"),
    "text": body(json.dumps(f"no, {KEY}").encode()),
    "wrong-container": body(lambda t: json.dumps([t.answer, t.answer]).encode()),
    "html": body(f"<html>{KEY}</html>".encode()),
    "truncated": body(lambda t: t.body[:-10]),
    "trailing": body(lambda t: t.body + b"x"),
    "values-are-texts": body(lambda t: json.dumps(changed(t.answer, str)).encode()),
    "values-are-huge": body(lambda t: json.dumps(changed(t.answer, lambda _x: 1e305)).encode()),
    "values-are-null": body(lambda t: json.dumps(changed(t.answer, lambda _x: None)).encode()),
    "texts-are-the-key": body(
        lambda t: json.dumps(with_texts(t.answer)).replace("/", "\\/").encode()
    ),
    # What a run keeps.
    "model-is-the-key": body(lambda t: t.model(KEY), probe=True, timeout=20),
    "model-is-the-escaped-key": body(
        lambda t: t.model("KEY").replace(b"KEY", ESCAPED.encode()), probe=True, timeout=20
    ),
    "model-is-a-megabyte": body(lambda t: t.model("x" * 200_000), timeout=20),
    "model-has-control-characters": body(lambda t: t.model("a\x1b[2J\x00\u202e"), timeout=20),
    "two-models": Mode(two_models, timeout=20),
    "key-in-headers": Mode(
        lambda t: t.reply(headers={"server": KEY, "x-key": QUOTED}), probe=True, timeout=20
    ),
    "pages-have-the-key": page({"data": [{"id": "n", "root": KEY, KEY: KEY}]}),
    "pages-have-the-escaped-key": page(
        f'{{"data": [{{"id": "n", "root": "{ESCAPED}"}}]}}'.encode()
    ),
    "pages-are-many-objects": page(OBJECTS),
    "pages-are-endless": Mode(lambda t: endless(t, b" " * 65536), pages=True, timeout=2),
    "pages-are-silent": Mode(silence, pages=True),
    "pages-drip": Mode(lambda t: t.drip(b"HTTP/1.1 103 x\r\n\r\n"), pages=True),
    "pages-are-of-wrong-types": page({"data": [{"id": 1, "parent": [], "root": {}}, 3]}),
}


def changed(value: Any, change: Callable[[float], Any]) -> Any:
    """A value with other numbers."""
    if isinstance(value, dict):
        return {name: changed(item, change) for name, item in value.items()}
    if isinstance(value, list):
        return [changed(item, change) for item in value]
    return change(value) if isinstance(value, float) else value


def with_texts(value: Any) -> Any:
    """A value with the key in every text, at the place where messages are cut."""
    if isinstance(value, dict):
        return {name: with_texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [with_texts(item) for item in value]
    return "x" * 50 + KEY if isinstance(value, str) else value


@dataclass
class HostileServer:
    """A running server; its mode can be changed."""

    url: str
    mode: Mode = MODES["healthy"]
    turns: int = 0
    previous: tuple[bytes, str] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, connection: socket.socket) -> None:
        """Answers the requests of one connection."""
        with connection, suppress(OSError, ValueError), connection.makefile("rb") as reader:
            while (line := reader.readline()) and line.strip():
                method, path, _ = line.decode().split(" ", 2)
                headers = {}
                while (text := reader.readline().decode().strip()) != "":
                    name, _, rest = text.partition(":")
                    headers[name.lower()] = rest.strip()
                content = reader.read(int(headers.get("content-length", 0)))
                if method == "POST" and not content:  # the client has been cut
                    return
                received = json.loads(content) if content else None
                self.turn(connection, loopback.Sent(method, path, headers, received))
                if headers.get("connection") == "close":
                    return

    def turn(self, connection: socket.socket, sent: loopback.Sent) -> None:
        is_page = sent.method == "GET" or sent.path not in PATHS
        answer = {"detail": "no"} if is_page else healthy_answer(PATHS[sent.path], sent)
        with self.lock:
            self.turns += 1
            previous = self.previous or (None, "")
            self.previous = json.dumps(answer).encode(), sent.headers.get("x-request-id", "")
            turn = Turn(connection, sent, answer, self.turns, *previous)
        if is_page and not self.mode.pages:
            turn.reply(status="404 x")
        elif is_page == self.mode.pages:
            self.mode.act(turn)
        else:
            turn.reply()


@contextmanager
def hostile_server() -> Iterator[HostileServer]:
    """A server on a free port of the loopback interface."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        server = HostileServer(f"http://127.0.0.1:{listener.getsockname()[1]}")
        ended = threading.Event()

        def accept() -> None:
            while not ended.is_set():
                with suppress(OSError):
                    connection, _ = listener.accept()
                    threading.Thread(target=server.serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server
        finally:
            ended.set()
