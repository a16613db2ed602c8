"""The HTTP client: bounded in time, memory, rate and tries, and never redirected.

    try         at most `timeout_seconds` from the connection to the last byte (five times as long
                until the first reply: a server may load its model first), and as many bytes and
                values as an answer can have (`exchange.py`, `replies.py`)
    request     up to `TRIES` tries, on the next replica each, with growing pauses or as long as the
                server asks; only statuses that may pass are tried again (`replies.py`)
    run         ends after `MOST_FAILURES` requests in a row without a usable answer

One reply is parsed and read at a time, so that memory does not grow with the requests under way.
Replies are not compressed: their length is bounded before they are unpacked. The key is in one
header and nowhere else; it is hidden in every reply as soon as it is parsed (`hiding.py`).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import httpx2

from pact_eval._json import Json, dumps, loads
from pact_eval.errors import ServerError
from pact_eval.scoring.servers.exchange import Ask, Exchanges
from pact_eval.scoring.servers.hiding import KeyFilter
from pact_eval.scoring.servers.replies import (
    Bounds,
    NoUsableReplyError,
    RefusedRequestError,
    Reply,
    asked_wait,
    bounds_of_answer,
    error_text,
    is_capacity,
    meaning,
    shortened,
)
from pact_eval.scoring.servers.request import ServerRequest
from pact_eval.scoring.servers.waits import ThreadPool, Waits

Read = TypeVar("Read")

TRIES: Final = 6
"""Most tries of one request."""

MOST_FAILURES: Final = 5
"""Requests in a row without a usable answer that end a run."""

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 16.0
_LONGEST_WAIT: Final = 120.0
_FIRST_REPLY: Final = 5.0
_MOST_HEADERS: Final = 12
_MOST_CHARACTERS: Final = 2**16  # of a reply that is not JSON


@dataclass(frozen=True)
class Look:
    """Reply of a server to one try of one request.

    Attributes:
        status: HTTP status code; None without an answer.
        value: the JSON of the answer; None if it is not JSON.
        problem: why there is no answer; "" if there is one.
    """

    status: int | None = None
    value: Json = None
    problem: str = ""


class Client:
    """Sends requests to the replicas of one server, from any number of threads.

    Args:
        request: the server, and how hard to press it.

    Attributes:
        requests: number of requests sent, retries included.
        retries: number of retries.
        pool: the threads that send requests.
        waits: what they wait for.

    Raises:
        ServerError: the environment variable of the key cannot be used.
    """

    def __init__(self, request: ServerRequest) -> None:
        self._request = request
        key = request.key()
        self._key_filter = KeyFilter(key)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._parsing = threading.Lock()
        self._next_start = 0.0
        self._not_before = dict.fromkeys(request.urls, 0.0)
        self._turn = 0
        self._failures = 0
        self._replied = False
        self._described: dict[str, str] = {}
        self.requests = 0
        self.retries = 0
        self.waits = Waits()
        self.pool = ThreadPool(request.concurrency)
        self._exchanges = Exchanges(request, key)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()
        self._exchanges.close()

    def stop(self) -> None:
        """End all pauses and requests under way, and start no further one."""
        self._stopped.set()
        self._exchanges.stop()
        self.pool.close()

    def post(self, path: str, body: bytes, read: Callable[[Json], Read]) -> Read:
        """Send a request until it is answered.

        Args:
            path: such as `/v1/systemone`.
            body: JSON.
            read: reads the JSON of the reply.

        Returns:
            What `read` returns; what it raises is raised.

        Raises:
            RefusedRequestError: the server cannot serve this request.
            NoUsableReplyError: no try was answered, or the answer is too long or not strict JSON.
            ServerError: no request can be served: no server listens, the key, the route or the
                model is wrong, the server redirects, or it asks to wait for long.
        """
        problem, reached = "", True
        bounds = bounds_of_answer(body)
        for number in range(TRIES):
            url = self._next_replica()
            if number:
                self.retries += 1
                pause = min(_FIRST_PAUSE * 2 ** (number - 1), _LONGEST_PAUSE)
                self._sleep(
                    pause * random.uniform(0.75, 1.0),
                    f"the pause before try {number + 1} of {TRIES} at {url} ({problem})",
                )
            try:
                reply = self._tried("POST", url, path, body, bounds, number + 1)
            except (httpx2.HTTPError, OSError) as error:
                problem = self._problem(error)
                reached = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                continue
            answer = self._judged(reply, url, path, body, read)
            if not isinstance(answer, str):
                return answer.value
            problem = answer
        if not reached and not self._replied:
            message = f"{url}: no connection in {TRIES} tries ({problem}); is the server running?"
            raise ServerError(message)
        message = f"{TRIES} tries failed; the last: {problem}"
        raise NoUsableReplyError(message)

    @property
    def described(self) -> dict[str, str]:
        """Headers of the first answer that describe the server: `server` and `x-...`."""
        return dict(self._described)

    def get(self, path: str) -> Json:
        """Return the JSON of a page of the first replica; None if it has none."""
        look = self.look(path)
        return look.value if look.status in range(200, 300) else None

    def look(self, path: str, body: Json = None) -> Look:
        """Ask the first replica once, whatever it answers.

        Args:
            path: such as `/v1/models`.
            body: JSON to post; None gets the page.
        """
        (looked,) = self.waits.finished([self.pool.submit(lambda: self._look(path, body))])
        return looked.result()

    def _look(self, path: str, body: Json) -> Look:
        sent = None if body is None else dumps(body).encode()
        method, bounds = "GET" if body is None else "POST", Bounds()
        try:
            reply = self._tried(method, self._request.urls[0], path, sent, bounds)
            bounds.check(reply.body)
        except (httpx2.HTTPError, OSError, NoUsableReplyError) as error:
            return Look(problem=self._problem(error))
        try:
            return Look(reply.status, self._key_filter.value(loads(reply.body.decode())))
        except ValueError:
            return Look(reply.status)

    def succeeded(self) -> None:
        """Note that a request got a usable answer."""
        with self._lock:
            self._failures = 0

    def failed(self, reason: str) -> None:
        """Note that a request got no usable answer.

        Raises:
            ServerError: too many requests in a row have failed.
        """
        with self._lock:
            self._failures += 1
            failures = self._failures
        if failures >= MOST_FAILURES:
            message = (
                f"{', '.join(self._request.urls)}: {failures} requests in a row without a usable "
                f"answer; the last: {reason}"
            )
            raise ServerError(message)

    def hidden(self, text: str) -> str:
        """Return a text of the server without the key."""
        return self._key_filter.text(text)

    def _problem(self, error: Exception) -> str:
        return self._shown(f"{type(error).__name__}: {error}".rstrip(": "))

    def _shown(self, text: str) -> str:
        return shortened(self.hidden(text))

    def _judged(
        self, reply: Reply, url: str, path: str, body: bytes, read: Callable[[Json], Read]
    ) -> _Answer[Read] | str:
        """Return what an answer says, or why to try again."""
        what = meaning(reply.status)
        if what == "answer":
            self._describe(reply)
            with self._parsing:
                return _Answer(read(self._value(reply, body)))
        try:
            Bounds().check(reply.body)
            value = self._key_filter.value(loads(reply.body.decode()))
        except (ValueError, NoUsableReplyError):
            value = reply.body[:_MOST_CHARACTERS].decode("utf-8", errors="replace")
        problem = f"status {reply.status}: {self._shown(error_text(value))}".rstrip(": ")
        if what == "refuse":
            raise RefusedRequestError(problem, capacity=is_capacity(problem) or reply.status == 413)
        if what == "stop":
            raise ServerError(f"{url}{path}: {problem}{self._advice(reply)}")
        wait = asked_wait(reply.headers) or 0.0
        if wait > _LONGEST_WAIT:
            message = f"{url}: asks to wait {wait:,.0f} s ({problem}); repeat the command later"
            raise ServerError(message)
        with self._lock:
            self._not_before[url] = max(self._not_before[url], time.monotonic() + wait)
        return problem

    def _value(self, reply: Reply, body: bytes) -> Json:
        """Return the JSON of an answer without the key.

        A key that the request holds too, as data, stays: answers are found by their names.
        """
        bounds_of_answer(body).check(reply.body)
        try:
            value = loads(reply.body.decode("utf-8", errors="replace"))
        except ValueError as error:
            message = f"the reply is not strict JSON: {self._shown(str(error))}"
            raise NoUsableReplyError(message) from None
        is_data = self._key_filter.is_in(body.decode())
        return value if is_data else self._key_filter.value(value)

    def _describe(self, reply: Reply) -> None:
        """Keep the headers of the first answer that may say what the server is."""
        if not self._described:
            headers = {
                name: self._shown(text)
                for name, text in reply.headers.items()
                if name == "server" or (name.startswith("x-") and not name.endswith("request-id"))
            }
            self._described = dict([*headers.items()][:_MOST_HEADERS])

    def _tried(
        self, method: str, url: str, path: str, body: bytes | None, bounds: Bounds, number: int = 0
    ) -> Reply:
        """Send one request and read the reply, both within their bounds."""
        self._wait_for_turn(url)
        seconds = self._request.timeout_seconds * (1.0 if self._replied else _FIRST_REPLY)
        what = f"a complete reply from {url}{path}"
        what += f" (try {number} of {TRIES})" if number else ""
        with self.waits.waiting(what, time.monotonic() + seconds):
            ask = Ask(method, url, path, body, seconds, bounds.most_bytes)
            reply = self._exchanges.reply(ask)
        self._replied = True
        return reply

    def _next_replica(self) -> str:
        with self._lock:
            self._turn += 1
            return self._request.urls[self._turn % len(self._request.urls)]

    def _wait_for_turn(self, url: str) -> None:
        """Wait until the rate limit and the replica allow another request."""
        with self._lock:
            now = time.monotonic()
            start = max(now, self._not_before[url])
            if self._request.requests_per_minute is not None:
                start = max(start, self._next_start)
                self._next_start = start + 60.0 / self._request.requests_per_minute
            self.requests += 1
        self._sleep(start - now, f"the next request to {url}")

    def _sleep(self, seconds: float, what: str) -> None:
        with self.waits.waiting(what, time.monotonic() + seconds):
            if self._stopped.wait(max(seconds, 0.0)):
                raise NoUsableReplyError("stopped")

    def _advice(self, reply: Reply) -> str:
        if 300 <= reply.status < 400:
            return (
                f" redirects to {self._shown(reply.headers.get('location', 'nowhere'))}, which is "
                "not followed; if that is the server, give its address"
            )
        if reply.status in (401, 403):
            key_variable = self._request.key_variable
            return (
                "; give the key by --api-key-env"
                if key_variable is None
                else f" (key from {key_variable})"
            )
        return f" (model {self._request.model})"


@dataclass(frozen=True)
class _Answer(Generic[Read]):
    """Content of a reply; a class, because it may be text."""

    value: Read
