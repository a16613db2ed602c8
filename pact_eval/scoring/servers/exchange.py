"""One request and its reply: on a connection of their own, within one deadline and a size.

A connection that is used again may hold bytes that nobody has read: a server or proxy that sends a
reply twice would answer the next request with it. No check before the next request finds a copy
that is still on its way, so every request has a new connection. That costs 0.2 ms of CPU time, and
on TLS two round trips.

The deadline holds from the connection to the last byte, whatever comes before it: a watchdog shuts
the socket down, so that headers, chunk extensions, trailers and replies 1xx that drip cannot
extend it.

Every request has an identity, in the header `x-request-id`. Servers that repeat it (vLLM in `id`,
others in a header) must repeat that of the request.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2

from pact_eval.errors import ServerError
from pact_eval.scoring.servers.replies import NoUsableReplyError, Reply
from pact_eval.scoring.servers.request import ServerRequest, is_loopback

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
            reply = self._exchanged(ask, attempt, identity)
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

    def _exchanged(self, ask: Ask, attempt: _Attempt, identity: str) -> Reply:
        content = bytearray()
        with closing(self._http.send(self._built(ask, attempt, identity), stream=True)) as response:
            headers = {name.lower(): text for name, text in response.headers.items()}
            if headers.get("content-encoding", "identity") != "identity":
                message = f"{ask.url}{ask.path}: the reply is compressed, which was not asked for"
                raise NoUsableReplyError(message)
            for part in response.iter_raw():
                content += part
                if len(content) > ask.most_bytes:
                    message = f"the reply is longer than {ask.most_bytes:,} bytes"
                    raise NoUsableReplyError(message)
        for text in (headers.get(_IDENTITY, "").encode(), content):
            if self._prefix.encode() in text and identity.encode() not in text:
                raise httpx2.RemoteProtocolError("the reply is to another request")
        return Reply(response.status_code, headers, bytes(content))

    def _built(self, ask: Ask, attempt: _Attempt, identity: str) -> httpx2.Request:
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
            message = f"the reply was not complete after {ask.seconds:,.3g} s"
            raise httpx2.ReadTimeout(message)

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
            message = (
                f"{url}: the TLS certificate of the server is not trusted "
                f"({error.verify_message.rstrip('.')}); if it is the right server, name the "
                "certificate of its authority in the environment variable SSL_CERT_FILE"
            )
            raise ServerError(message) from None
        if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
            message = f"{url}: the server does not speak TLS there; is its address http://...?"
            raise ServerError(message) from None
        error = error.__cause__ or error.__context__


_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
