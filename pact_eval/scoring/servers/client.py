"""The HTTP client: bounded in time, memory, rate and tries, and never redirected.

    try         at most `timeout_seconds` from the connection to the last byte (five times as long
                until the first reply: a server may load its model first), and as many bytes and
                values as an answer can have (`Exchanges`, `wire.py`)
    request     up to `TRIES` tries, on the next replica each, with growing pauses or as long as the
                server asks; only statuses that may pass are tried again (`wire.py`)
    run         ends after `MOST_FAILURES` requests in a row without a usable answer

One reply is parsed and read at a time, so that memory does not grow with the requests under way.
Replies are not compressed: their length is bounded before they are unpacked. The key is in one
header and nowhere else; it is hidden in every reply as soon as it is parsed (`KeyFilter`).
"""

from __future__ import annotations

import datetime as dt
import queue
import random
import re
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import httpx2

from pact_eval._json import Json, dumps, loads
from pact_eval.errors import ServerError
from pact_eval.progress import waiting
from pact_eval.scoring.servers.wire import (
    Bounds,
    NoUsableReplyError,
    RefusedRequestError,
    Reply,
    ServerRequest,
    asked_wait,
    bounds_of_answer,
    error_text,
    is_capacity,
    is_loopback,
    meaning,
    shortened,
)

_CONNECT_SECONDS: Final = 10.0
_WATCH_SECONDS: Final = 0.05
_IDENTITY: Final = "x-request-id"


@dataclass(frozen=True)
class Ask:
    """A request.

    Attributes:
        method: GET or POST.
        url: base address.
        path: such as `/v1/models`.
        body: JSON; None sends none.
        seconds: most time, from the connection to the last byte.
        most_bytes: longest reply.
    """

    method: str
    url: str
    path: str
    body: bytes | None
    seconds: float
    most_bytes: int


class Exchanges:
    """Exchanges requests for replies, from any number of threads.

    Args:
        request: the server.
        key: API key, sent in one header; None sends none.
    """

    def __init__(self, request: ServerRequest, key: str | None) -> None:
        secure = any(url.startswith("https:") for url in request.urls)
        self._http = httpx2.Client(
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
        self._addresses: dict[str, httpx2.URL] = {}
        self._prefix, self._count = f"pact-{secrets.token_hex(4)}-", 0
        self._open: set[_Attempt] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """End all exchanges under way."""
        self._stopped.set()
        with self._lock:
            attempts = [*self._open]
        for attempt in attempts:
            attempt.cut()

    def close(self) -> None:
        """End all exchanges, and give up the connections."""
        self.stop()
        self._http.close()

    def reply(self, ask: Ask) -> Reply:
        """Send a request and read its reply.

        Raises:
            NoUsableReplyError: the reply is too long, compressed or to another request.
            ServerError: the certificate of the server is not trusted, or it does not speak TLS.
            httpx2.HTTPError: no complete reply came in time.
            OSError: as `httpx2.HTTPError`.
        """
        attempt = _Attempt(time.monotonic() + ask.seconds)
        with self._lock:
            self._open.add(attempt)
            self._count += 1
            identity = f"{self._prefix}{self._count:09}"
        try:
            reply = self._exchange(ask, attempt, identity)
        except (httpx2.HTTPError, OSError) as error:
            self._refuse_over(ask, attempt)
            _refuse_tls(ask.url, error)
            raise
        finally:
            with self._lock:
                self._open.discard(attempt)
            attempt.close()
        self._refuse_over(ask, attempt)  # shut down, a reply without a length seems complete
        return reply

    def _exchange(self, ask: Ask, attempt: _Attempt, identity: str) -> Reply:
        content = bytearray()
        with closing(
            self._http.send(self._build_request(ask, attempt, identity), stream=True)
        ) as response:
            headers = {name.lower(): text for name, text in response.headers.items()}
            if headers.get("content-encoding", "identity") != "identity":
                message = f"{ask.url}{ask.path}: the reply is compressed, which was not asked for"
                raise NoUsableReplyError(message)
            for part in response.iter_raw():
                content += part
                if len(content) > ask.most_bytes:
                    raise NoUsableReplyError(f"the reply is longer than {ask.most_bytes:,} bytes")
        for text in (headers.get(_IDENTITY, "").encode(), content):
            if self._prefix.encode() in text and identity.encode() not in text:
                raise httpx2.RemoteProtocolError("the reply is to another request")
        return Reply(response.status_code, headers, bytes(content))

    def _build_request(self, ask: Ask, attempt: _Attempt, identity: str) -> httpx2.Request:
        # Addresses are parsed once: it takes as long as sending does.
        address = self._addresses.get(ask.url + ask.path)
        if address is None:
            address = self._addresses[ask.url + ask.path] = httpx2.URL(ask.url + ask.path)
        more = [(_IDENTITY, identity)]
        if ask.body is not None:
            more.append(("content-type", "application/json"))
        # The watchdog is earlier than the timeout of one read, and counts all of them.
        timeout = httpx2.Timeout(ask.seconds + 1, connect=min(ask.seconds, _CONNECT_SECONDS))
        return httpx2.Request(
            ask.method,
            address,
            headers=[*self._http.headers.items(), *more],
            content=ask.body,
            extensions={"timeout": timeout.as_dict(), "trace": attempt.trace},
        )

    def _refuse_over(self, ask: Ask, attempt: _Attempt) -> None:
        """Say so if an exchange was cut."""
        if self._stopped.is_set():
            raise NoUsableReplyError("stopped")
        if attempt.over:
            raise httpx2.ReadTimeout(f"the reply was not complete after {ask.seconds:,.3g} s")

    def _watch(self) -> None:
        """Cut exchanges at their deadlines."""
        while not self._stopped.wait(_WATCH_SECONDS):
            now = time.monotonic()
            with self._lock:
                late = [attempt for attempt in self._open if attempt.deadline < now]
            for attempt in late:
                attempt.cut()


@dataclass(eq=False)
class _Attempt:
    """The socket of an exchange, which another thread may shut down."""

    deadline: float
    over: bool = False
    _socket: socket.socket | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def trace(self, name: str, info: dict[str, Any]) -> None:
        """Take the socket as soon as it is connected: a second descriptor, which TLS leaves."""
        if name.endswith("connect_tcp.complete"):
            with self._lock:
                self._socket = info["return_value"].get_extra_info("socket").dup()
            if self.over or time.monotonic() > self.deadline:
                self.cut()

    def cut(self) -> None:
        """Shut the connection down: whoever reads or writes gets an end or an error."""
        with self._lock:
            self.over = True
            if self._socket is not None:
                with suppress(OSError):  # the server was faster
                    self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the second descriptor back."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None


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


Result = TypeVar("Result")

_PATIENCE_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.2
_TOLD_SECONDS: Final = 5.0


class ThreadPool:
    """Runs functions in a few daemon threads.

    Args:
        threads: number of threads.

    Examples:
        >>> pool = ThreadPool(2)
        >>> [future.result() for future in [pool.submit(lambda: 1), pool.submit(lambda: 2)]]
        [1, 2]
        >>> pool.close()
    """

    def __init__(self, threads: int) -> None:
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._closed = threading.Event()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[[], Result]) -> Future[Result]:
        """Run a function in a thread, in the order of the calls."""
        future: Future[Result] = Future()
        if self._closed.is_set():
            future.set_exception(RuntimeError("the threads have ended"))
        else:
            self._waiting.put((future, function))
        return future

    def close(self) -> None:
        """Start no further function; wait for those under way, but not for long."""
        if self._closed.is_set():
            return
        self._closed.set()
        for _ in self._threads:
            self._waiting.put(None)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            future, function = item
            if self._closed.is_set() or not future.set_running_or_notify_cancel():
                future.cancel()
                continue
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 -- whoever asks for the result gets it
                future.set_exception(error)


class Waits:
    """What the threads of a client wait for, since when and until when, by a monotonic clock."""

    def __init__(self) -> None:
        self._open: dict[object, tuple[float, float, str]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def waiting(self, what: str, until: float) -> Iterator[None]:
        """Be waiting during the block."""
        opened = object()
        with self._lock:
            self._open[opened] = time.monotonic(), until, what
        try:
            yield
        finally:
            with self._lock:
                del self._open[opened]

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
                self._tell()

    def _tell(self) -> None:
        """Say of the longest wait since when it is, and until what time of the day."""
        with self._lock:
            oldest = min(self._open.values(), default=None)
        if oldest is None:
            return
        since, until, what = oldest
        now = time.monotonic()
        if now - since >= _TOLD_SECONDS:
            end = dt.datetime.now().astimezone() + dt.timedelta(seconds=until - now)
            waiting(f"{what}: {now - since:.0f} s so far, at most until {end:%H:%M:%S}")


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
            with self._lock:
                self._turn += 1
                url = self._request.urls[self._turn % len(self._request.urls)]
            if number:
                self.retries += 1
                pause = min(_FIRST_PAUSE * 2 ** (number - 1), _LONGEST_PAUSE)
                self._sleep(
                    pause * random.uniform(0.75, 1.0),
                    f"the pause before try {number + 1} of {TRIES} at {url} ({problem})",
                )
            try:
                reply = self._try_once("POST", url, path, body, bounds, number + 1)
            except (httpx2.HTTPError, OSError) as error:
                problem = self._problem(error)
                reached = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                continue
            answer = self._judge(reply, url, path, body, read)
            if not isinstance(answer, str):
                return answer.value
            problem = answer
        if not reached and not self._replied:
            message = f"{url}: no connection in {TRIES} tries ({problem}); is the server running?"
            raise ServerError(message)
        raise NoUsableReplyError(f"{TRIES} tries failed; the last: {problem}")

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
            reply = self._try_once(method, self._request.urls[0], path, sent, bounds)
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
            raise ServerError(
                f"{', '.join(self._request.urls)}: {failures} requests in a row without a usable "
                f"answer; the last: {reason}"
            )

    def hidden(self, text: str) -> str:
        """Return a text of the server without the key."""
        return self._key_filter.text(text)

    def _problem(self, error: Exception) -> str:
        return self._clean(f"{type(error).__name__}: {error}".rstrip(": "))

    def _clean(self, text: str) -> str:
        return shortened(self.hidden(text))

    def _judge(
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
        problem = f"status {reply.status}: {self._clean(error_text(value))}".rstrip(": ")
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
            message = f"the reply is not strict JSON: {self._clean(str(error))}"
            raise NoUsableReplyError(message) from None
        is_data = self._key_filter.is_in(body.decode())
        return value if is_data else self._key_filter.value(value)

    def _describe(self, reply: Reply) -> None:
        """Keep the headers of the first answer that may say what the server is."""
        if not self._described:
            headers = {
                name: self._clean(text)
                for name, text in reply.headers.items()
                if name == "server" or (name.startswith("x-") and not name.endswith("request-id"))
            }
            self._described = dict([*headers.items()][:_MOST_HEADERS])

    def _try_once(
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
                f" redirects to {self._clean(reply.headers.get('location', 'nowhere'))}, which is "
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
