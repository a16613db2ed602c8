"""The HTTP client: bounded in time, memory, rate and tries, and never redirected.

    try         at most `timeout_seconds` from the connection to the last byte (five times as long
                until the first reply: a server may load its model first), and as many bytes and
                values as an answer can have (`Bounds`)
    request     up to `TRIES` tries, on the next replica each, with growing pauses or as long as the
                server asks; only statuses that may pass are tried again (`meaning`)
    run         ends after `MOST_FAILURES` requests in a row without a usable answer

Requests run in the event loop of one thread, which alone changes the state of a client. It parses
and reads one reply at a time, so that memory does not grow with the requests under way. Replies are
not compressed: their length is bounded before they are unpacked. The key is in one header and
nowhere else; it is hidden in every reply as soon as it is parsed (`KeyFilter`).

Servers agree on HTTP status codes more than on the form of their errors: `error_text` reads all
forms that are in use.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import email.utils
import math
import queue
import random
import re
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, Literal, TypeVar

import httpx2

from pact_eval._json import Json, dumps, loads
from pact_eval.errors import ServerError
from pact_eval.progress import waiting
from pact_eval.scoring.servers.wire import ServerRequest, is_loopback, shortened

Meaning = Literal["answer", "retry", "refuse", "stop"]
"""An answer; try again; this request cannot be served; no request can be served."""

_REFUSED: Final = (400, 413, 414, 422)
_RETRIED: Final = (408, 425, 429)
_NOT_IMPLEMENTED: Final = 501
_CAPACITY: Final = (
    *("context length", "context window", "too long", "too many", "too large", "at most"),
    *("maximum", "limit", "exceed", "not supported", "unsupported", "options per choice"),
)
_MOST_BYTES: Final = 2**22
_MOST_VALUES: Final = 2**18


class RefusedRequestError(ServerError):
    """The server cannot serve this request, and would not if it were repeated.

    Attributes:
        capacity: whether it says that the request is beyond what it can take.
    """

    def __init__(self, message: str, *, capacity: bool) -> None:
        super().__init__(message)
        self.capacity = capacity


class NoUsableReplyError(ServerError):
    """No usable reply to this request came."""


@dataclass(frozen=True)
class Bounds:
    """Limits of the length of a reply, and of the number of values of its JSON.

    A megabyte of `[{},{},...]` is 40 MB of Python objects, so values are counted before they exist.

    Attributes:
        most_bytes: length in bytes.
        most_values: commas, brackets and braces, those in texts included.
    """

    most_bytes: int = _MOST_BYTES
    most_values: int = _MOST_VALUES

    def check(self, body: bytes) -> None:
        """Refuse a reply with too many values.

        Raises:
            NoUsableReplyError: it has.
        """
        values = _count_values(body)
        if values > self.most_values:
            raise NoUsableReplyError(
                f"the reply has about {values:,} values, more than {self.most_values:,}: no answer "
                "to the request has so many"
            )


def bounds_of_answer(request: bytes) -> Bounds:
    """Return the bounds of an answer to a request, which repeats its names, escaped.

    Args:
        request: JSON.

    Examples:
        >>> bounds_of_answer(b'{"questions": {}}')
        Bounds(most_bytes=262246, most_values=4104)
    """
    return Bounds(
        min(2**18 + 6 * len(request), _MOST_BYTES),
        min(2**12 + 4 * _count_values(request), _MOST_VALUES),
    )


def _count_values(text: bytes) -> int:
    return text.count(b",") + text.count(b"{") + text.count(b"[")


@dataclass(frozen=True)
class Reply:
    """A reply of a server.

    Attributes:
        status: HTTP status code.
        headers: by lower-case name.
        body: the bytes, at most as many as the client accepts.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


def meaning(status: int) -> Meaning:
    """Return what to do with a reply of a status code.

    Examples:
        >>> [meaning(status) for status in (200, 302, 401, 422, 429, 501, 529)]
        ['answer', 'stop', 'stop', 'refuse', 'retry', 'stop', 'retry']
    """
    if 200 <= status < 300:
        return "answer"
    if status in _REFUSED:
        return "refuse"
    if status in _RETRIED or (status >= 500 and status != _NOT_IMPLEMENTED):
        return "retry"
    return "stop"


def is_capacity(text: str) -> bool:
    """Return whether an error says that the request is beyond what the server can take.

    Examples:
        >>> is_capacity("choice takes at most 26 options"), is_capacity("field required")
        (True, False)
    """
    return any(word in text.lower() for word in _CAPACITY)


def error_text(value: Json) -> str:
    """Return the message in the JSON of an error, in any of the forms in use; "" without one.

    Examples:
        >>> error_text({"detail": [{"loc": ["body", "state"], "msg": "field required"}]})
        'body.state: field required'
        >>> error_text({"error": {"message": "unknown model"}})
        'unknown model'
    """
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, list):
        return shortened("; ".join(filter(None, map(_one_error, value))))
    if isinstance(value, dict):
        for key in ("error", "message", "detail", "msg"):
            if value.get(key):
                return error_text(value[key])
    return ""


def _one_error(value: Json) -> str:
    text = error_text(value)
    place = value.get("loc") if isinstance(value, dict) else None
    return f"{'.'.join(map(str, place))}: {text}" if isinstance(place, list) and text else text


def asked_wait(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds that a server asks to wait; None if it does not say.

    Args:
        headers: by lower-case name.
        now: time of the reply, in seconds since the epoch; None is the present.

    Examples:
        >>> asked_wait({"retry-after": "2"}), asked_wait({"retry-after-ms": "250"}), asked_wait({})
        (2.0, 0.25, None)
        >>> asked_wait({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, now=50.0)
        10.0
    """
    for name, factor in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * factor
        except ValueError:
            continue
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(date.timestamp() - (time.time() if now is None else now), 0.0)


_HIDDEN: Final = "[key]"


class KeyFilter:
    r"""Filter that replaces a key in texts and JSON values, however it is escaped.

    Args:
        key: printable ASCII; None replaces nothing.

    Examples:
        >>> hidden = KeyFilter("sk-1/2")
        >>> hidden.text("Bearer sk-1/2"), hidden.text(r"\u0073k-1\/2"), hidden.text("?k=SK-1%2F2")
        ('Bearer [key]', '[key]', '?k=[key]')
        >>> hidden.value({"model": ["x sk-1/2"], "sk-1/2": 1})
        {'model': ['x [key]'], '[key]': 1}
    """

    def __init__(self, key: str | None) -> None:
        self._key = None if key is None else key.lower()
        self._spellings = re.compile("".join(map(_spellings, key or "")), re.IGNORECASE)

    def text(self, text: str) -> str:
        """Return a text without the key."""
        if self._key is None:
            return text
        # To look for the key or an escape is much faster than the pattern.
        may_hold = "\\" in text or "%" in text or self._key in text.lower()
        return self._spellings.sub(_HIDDEN, text) if may_hold else text

    def value(self, value: Json) -> Json:
        """Return a JSON value without the key, in texts, names and numbers."""
        if self._key is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(item) for name, item in value.items()}
        return _HIDDEN if str(value) == self._key else value

    def is_in(self, text: str) -> bool:
        """Return whether a text holds the key."""
        return self._key is not None and self.text(text) != text


def _spellings(character: str) -> str:
    """Return the pattern of a character: as it is, or as JSON, Python and addresses escape it."""
    code = f"{ord(character):02x}"
    return rf"(?:\\*{re.escape(character)}|\\+(?:u00|x){code}|%{code})"


Result = TypeVar("Result")
Read = TypeVar("Read")

TRIES: Final = 6
"""Most tries of one request."""

MOST_FAILURES: Final = 5
"""Requests in a row without a usable answer that end a run."""

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 16.0
_LONGEST_WAIT: Final = 120.0
_FIRST_REPLY: Final = 5.0
_CONNECT_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.2
_TOLD_SECONDS: Final = 5.0
_MOST_HEADERS: Final = 12
_MOST_CHARACTERS: Final = 2**16  # of a reply that is not JSON
_IDENTITY: Final = "x-request-id"


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
    """Sends requests to the replicas of one server.

    Args:
        request: the server, and how hard to press it.

    Attributes:
        requests: number of requests sent, retries included.
        retries: number of retries.
        described: headers of the first answer that describe the server: `server` and `x-...`.

    Raises:
        ServerError: the environment variable of the key cannot be used.
    """

    def __init__(self, request: ServerRequest) -> None:
        key = request.key()
        self._request = request
        self._key_filter = KeyFilter(key)
        secure = any(url.startswith("https:") for url in request.urls)
        self._http = httpx2.AsyncClient(
            headers={
                "accept": "application/json",
                "accept-encoding": "identity",
                "connection": "close",
                **({} if key is None else {"authorization": f"Bearer {key}"}),
            },
            follow_redirects=False,
            # A proxy for the outside is not for this machine.
            trust_env=not any(map(is_loopback, request.urls)),
            # Reading the certificates takes a quarter of a second; plain http has none to verify.
            verify=httpx2.create_ssl_context() if secure else False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )
        self._prefix, self._count = f"pact-{secrets.token_hex(4)}-", 0
        self._next_start = 0.0
        self._not_before = dict.fromkeys(request.urls, 0.0)
        self._turn = 0
        self._failures = 0
        self._replied = False
        self._waits: dict[object, tuple[float, float, str]] = {}
        self.described: dict[str, str] = {}
        self.requests = 0
        self.retries = 0
        self._tasks: set[asyncio.Task[Any] | None] = set()
        self._slots = asyncio.Semaphore(request.concurrency)
        self._loop = asyncio.new_event_loop()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End all pauses and requests under way, and the thread; do not wait for it for long."""
        if not self._stopped:
            self._stopped = True
            asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        self._thread.join(_PATIENCE_SECONDS)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    async def _end(self) -> None:
        tasks = [task for task in self._tasks if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._http.aclose()
        self._loop.stop()

    def submit(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Future[Result]:
        """Start work that sends requests, in the order of the calls, as soon as there is room."""

        async def in_turn() -> Result:
            task = asyncio.current_task()
            self._tasks.add(task)
            try:
                async with self._slots:
                    return await work()
            finally:
                self._tasks.discard(task)

        return asyncio.run_coroutine_threadsafe(in_turn(), self._loop)

    def finished(self, futures: Collection[Future[Result]]) -> Iterator[Future[Result]]:
        """Yield futures as they finish; tell who watches the progress of waits that take long."""
        done: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
        for future in futures:
            future.add_done_callback(done.put)
        left = len(futures)
        while left:
            try:
                yield done.get(timeout=_POLL_SECONDS)
                left -= 1
            except queue.Empty:
                since, until, what = min([*self._waits.values()], default=(math.inf, 0.0, ""))
                now = time.monotonic()
                if now - since >= _TOLD_SECONDS:
                    end = dt.datetime.now().astimezone() + dt.timedelta(seconds=until - now)
                    waiting(f"{what}: {now - since:.0f} s so far, at most until {end:%H:%M:%S}")

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return the result of work that sends requests."""
        (future,) = self.finished([self.submit(work)])
        return future.result()

    async def post(self, path: str, body: bytes, read: Callable[[Json], Read]) -> Read:
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
        problem, reached, url = "", True, ""
        for number in range(1, TRIES + 1):
            self._turn += 1
            url = self._request.urls[self._turn % len(self._request.urls)]
            if number > 1:
                self.retries += 1
                pause = min(_FIRST_PAUSE * 2 ** (number - 2), _LONGEST_PAUSE)
                what = f"the pause before try {number} of {TRIES} at {url} ({problem})"
                await self._sleep(pause * random.uniform(0.75, 1.0), what)
            what = f"a complete reply from {url}{path} (try {number} of {TRIES})"
            try:
                reply = await self._exchange("POST", url, path, body, bounds_of_answer(body), what)
            except (httpx2.HTTPError, OSError) as error:
                problem = self._problem(error)
                reached = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                continue
            answered = meaning(reply.status)
            if answered == "answer":
                return read(self._value(reply, body))
            problem = self._status(reply)
            if answered == "refuse":
                capacity = is_capacity(problem) or reply.status == 413
                raise RefusedRequestError(problem, capacity=capacity)
            if answered == "stop":
                raise ServerError(f"{url}{path}: {problem}{self._advice(reply)}")
            wait = asked_wait(reply.headers) or 0.0
            if wait > _LONGEST_WAIT:
                message = f"{url}: asks to wait {wait:,.0f} s ({problem}); repeat the command later"
                raise ServerError(message)
            self._not_before[url] = max(self._not_before[url], time.monotonic() + wait)
        if not reached and not self._replied:
            message = f"{url}: no connection in {TRIES} tries ({problem}); is the server running?"
            raise ServerError(message)
        raise NoUsableReplyError(f"{TRIES} tries failed; the last: {problem}")

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
        return self.wait_for(partial(self._look, path, body))

    async def _look(self, path: str, body: Json) -> Look:
        sent = None if body is None else dumps(body).encode()
        method, bounds, url = "GET" if body is None else "POST", Bounds(), self._request.urls[0]
        what = f"a complete reply from {url}{path}"
        try:
            reply = await self._exchange(method, url, path, sent, bounds, what)
            bounds.check(reply.body)
        except (httpx2.HTTPError, OSError, NoUsableReplyError) as error:
            return Look(problem=self._problem(error))
        try:
            return Look(reply.status, self._key_filter.value(loads(reply.body.decode())))
        except ValueError:
            return Look(reply.status)

    def succeeded(self) -> None:
        """Note that a request got a usable answer."""
        self._failures = 0

    def failed(self, reason: str) -> None:
        """Note that a request got no usable answer.

        Raises:
            ServerError: too many requests in a row have failed.
        """
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            raise ServerError(
                f"{', '.join(self._request.urls)}: {self._failures} requests in a row without a "
                f"usable answer; the last: {reason}"
            )

    def hidden(self, text: str) -> str:
        """Return a text of the server without the key."""
        return self._key_filter.text(text)

    def _problem(self, error: Exception) -> str:
        return shortened(self.hidden(f"{type(error).__name__}: {error}".rstrip(": ")))

    def _status(self, reply: Reply) -> str:
        """Return the status and the message of a reply that is not an answer."""
        try:
            Bounds().check(reply.body)
            value = self._key_filter.value(loads(reply.body.decode()))
        except (ValueError, NoUsableReplyError):
            value = reply.body[:_MOST_CHARACTERS].decode("utf-8", errors="replace")
        return f"status {reply.status}: {shortened(self.hidden(error_text(value)))}".rstrip(": ")

    def _value(self, reply: Reply, body: bytes) -> Json:
        """Return the JSON of an answer without the key; keep what the first says of the server.

        A key that the request holds too, as data, stays: answers are found by their names.
        """
        if not self.described:
            headers = {
                name: shortened(self.hidden(text))
                for name, text in reply.headers.items()
                if name == "server" or (name.startswith("x-") and not name.endswith("request-id"))
            }
            self.described = dict([*headers.items()][:_MOST_HEADERS])
        bounds_of_answer(body).check(reply.body)
        try:
            value = loads(reply.body.decode("utf-8", errors="replace"))
        except ValueError as error:
            message = f"the reply is not strict JSON: {shortened(self.hidden(str(error)))}"
            raise NoUsableReplyError(message) from None
        is_data = self._key_filter.is_in(body.decode())
        return value if is_data else self._key_filter.value(value)

    def _advice(self, reply: Reply) -> str:
        if 300 <= reply.status < 400:
            place = shortened(self.hidden(reply.headers.get("location", "nowhere")))
            end = "which is not followed; if that is the server, give its address"
            return f" redirects to {place}, {end}"
        variable = self._request.key_variable
        if reply.status in (401, 403):
            return f" (key from {variable})" if variable else "; give the key by --api-key-env"
        return f" (model {self._request.model})"

    async def _exchange(
        self, method: str, url: str, path: str, body: bytes | None, bounds: Bounds, what: str
    ) -> Reply:
        """Send one request as soon as the rate limit and the replica allow, and read the reply.

        Raises:
            NoUsableReplyError: the reply is too long or compressed.
            ServerError: the certificate of the server is not trusted, or it does not speak TLS.
            httpx2.HTTPError: no complete reply came in time, or it is to another request.
            OSError: as `httpx2.HTTPError`.
        """
        now = time.monotonic()
        start = max(now, self._not_before[url])
        if self._request.requests_per_minute is not None:
            start = max(start, self._next_start)
            self._next_start = start + 60.0 / self._request.requests_per_minute
        self.requests += 1
        await self._sleep(start - now, f"the next request to {url}")
        self._count += 1
        identity = f"{self._prefix}{self._count:09}"
        headers = [*self._http.headers.raw, (_IDENTITY.encode(), identity.encode())]
        headers += [] if body is None else [(b"content-type", b"application/json")]
        extensions = {"timeout": httpx2.Timeout(None, connect=_CONNECT_SECONDS).as_dict()}
        request = httpx2.Request(
            method, _address(url + path), headers=headers, content=body, extensions=extensions
        )
        seconds = self._request.timeout_seconds * (1.0 if self._replied else _FIRST_REPLY)
        try:
            with self._waiting(what, seconds):
                async with asyncio.timeout(seconds):
                    reply = await self._reply(request, bounds)
        except TimeoutError:
            message = f"the reply was not complete after {seconds:,.3g} s"
            raise httpx2.ReadTimeout(message) from None
        except (httpx2.HTTPError, OSError) as error:
            _refuse_tls(url, error)
            raise
        for text in (reply.headers.get(_IDENTITY, "").encode(), reply.body):
            if self._prefix.encode() in text and identity.encode() not in text:
                raise httpx2.RemoteProtocolError("the reply is to another request")
        self._replied = True
        return reply

    async def _reply(self, request: httpx2.Request, bounds: Bounds) -> Reply:
        content = bytearray()
        response = await self._http.send(request, stream=True)
        async with aclosing(response):
            headers = {
                name.decode("latin-1").lower(): text.decode("latin-1")
                for name, text in response.headers.raw
            }
            if headers.get("content-encoding", "identity") != "identity":
                message = f"{request.url}: the reply is compressed, which was not asked for"
                raise NoUsableReplyError(message)
            async for part in response.aiter_raw():
                content += part
                if len(content) > bounds.most_bytes:
                    message = f"the reply is longer than {bounds.most_bytes:,} bytes"
                    raise NoUsableReplyError(message)
        return Reply(response.status_code, headers, bytes(content))

    async def _sleep(self, seconds: float, what: str) -> None:
        if seconds > 0:
            with self._waiting(what, seconds):
                await asyncio.sleep(seconds)

    @contextmanager
    def _waiting(self, what: str, seconds: float) -> Iterator[None]:
        """Be waiting during the block: `finished` tells it."""
        opened, now = object(), time.monotonic()
        self._waits[opened] = now, now + seconds, what
        try:
            yield
        finally:
            del self._waits[opened]


@cache  # parsing takes as long as sending does
def _address(url: str) -> httpx2.URL:
    return httpx2.URL(url)


def _refuse_tls(url: str, error: BaseException | None) -> None:
    """Refuse what no further try cures: a certificate that is not trusted, or no TLS.

    Raises:
        ServerError: with the cause.
    """
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            raise ServerError(
                f"{url}: the TLS certificate of the server is not trusted "
                f"({error.verify_message.rstrip('.')}); if it is the right server, name the "
                "certificate of its authority in the environment variable SSL_CERT_FILE"
            ) from None
        if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
            message = f"{url}: the server does not speak TLS there; is its address http://...?"
            raise ServerError(message) from None
        error = error.__cause__ or error.__context__


_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
