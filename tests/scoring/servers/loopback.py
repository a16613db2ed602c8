"""Servers on the loopback interface: real sockets, with the answers that a test gives them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pact_eval.scoring.servers.source import server_source
from pact_eval.scoring.servers.wire import ServerRequest
from pact_eval.scoring.windows import read_dataset, score_windows


@dataclass
class Sent:
    """One request as the server got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Response:
    """What the server sends: JSON, or bytes as they are, or a function that writes by itself."""

    value: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    write: Callable[[Any], None] | None = None


Respond = Callable[[Sent], Response]


@dataclass
class Loopback:
    """A running server."""

    url: str
    sent: list[Sent]

    @property
    def posts(self) -> list[Sent]:
        """Requests with a question; others ask which routes there are."""
        return [
            request
            for request in self.sent
            if request.method == "POST" and not asks_for_route(request)
        ]


def asks_for_route(sent: Sent) -> bool:
    return isinstance(sent.body, dict) and sent.body.keys() == {"model"}


def _write(handler: BaseHTTPRequestHandler, response: Response) -> None:
    """Sends a response, or the pieces that it writes itself before the connection ends."""
    handler.send_response(response.status)
    for name, text in response.headers.items():
        handler.send_header(name, text)
    if response.write is not None:
        handler.send_header("connection", "close")
        handler.end_headers()
        handler.close_connection = True
        with suppress(OSError):  # the client has had enough
            response.write(handler.wfile)
        return
    content = response.raw if response.raw is not None else json.dumps(response.value).encode()
    handler.send_header("content-length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


@contextmanager
def serving(
    respond: Respond,
    pages: Mapping[str, Any] | None = None,
    routes: Sequence[str] = ("/v1/systemone",),
) -> Iterator[Loopback]:
    """Serves on a free port until the end of the block: requests, and pages by their path.

    Of the routes, a request without a question is refused as incomplete, as real servers do.
    """
    sent: list[Sent] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # headers and body are two packets

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- its name there
            pass

        def _respond(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            headers = {name.lower(): text for name, text in self.headers.items()}
            request = Sent(self.command, self.path, headers, body)
            sent.append(request)
            page = (pages or {}).get(self.path)
            missing = Response({"detail": "Not Found"}, 404) if page is None else Response(page)
            if self.command == "GET":
                response = missing
            elif asks_for_route(request):
                unknown = Response({"detail": "Not Found"}, 404)
                response = Response("incomplete", 422) if self.path in routes else unknown
            else:
                response = respond(request)
            _write(self, response)

        do_GET = do_POST = _respond  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # clients may hang up
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield Loopback(f"http://127.0.0.1:{server.server_address[1]}", sent)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def score_served(server: Loopback, data: Path, out: Path, *, k: int = 4, **options: Any) -> Path:
    """Scores a file through a server, without a probe unless it is asked for; returns the run."""
    settings: dict[str, Any] = {"model": "mine", "probe": False} | options
    source = server_source(ServerRequest(urls=(server.url,), **settings))
    score_windows(source, read_dataset(data, k=k), out, labels={})
    return out


def softmax_of_names(names: list[str], seed: str = "") -> list[float]:
    """Probabilities that depend on the names alone, not on their order."""
    weights = [1 + sum((seed + name).encode()) % 97 for name in names]
    return [weight / sum(weights) for weight in weights]


def systemone_answer(question: dict[str, Any], seed: str = "") -> dict[str, Any]:
    """A healthy answer to a question, which depends on its names and not on their order."""
    if question["type"] == "noul":
        return {"type": "noul", "noul": softmax_of_names(["yes", "no"], seed)[0]}
    if question["type"] == "choice":
        names = list(question["criteria"])
        p = softmax_of_names(names, seed)
        by_name = dict(zip(names, p, strict=True))
        return {
            "type": "choice",
            "choice": max(names, key=by_name.__getitem__),
            "probabilities": by_name,
        }
    levels = [str(level) for level in range(len(question["criteria"]))]
    p = softmax_of_names(question["criteria"], seed)
    expected = sum(level * share for level, share in enumerate(p))
    return {"type": "score", "score": expected, "probabilities": dict(zip(levels, p, strict=True))}


def systemone(sent: Sent, **changes: Any) -> Response:
    """Answers a request of `/v1/systemone` as a healthy server does."""
    answers = {
        name: systemone_answer(question, json.dumps(sent.body["state"]))
        for name, question in sent.body["questions"].items()
    }
    usage = {"input_tokens": 50, "output_tokens": 0}
    return Response({"model": "served-1", "answers": answers, "usage": usage} | changes)
