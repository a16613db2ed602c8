"""The interface of a wire: requests for views, and the reading of replies.

To add a wire, write a class with the members of `Wire` in `find_wire.py`, add its name to
`WireName` and construct it in `find_wire`. A wire makes calls and reads replies; sending, retrying,
counting and writing are the same for all.

No wire puts several questions into one prompt: on some servers they would see each other. A wire
that did would have to show first that an answer alone and an answer in company differ by noise.

A server as the user named it: address, model, wire, and limits of the requests.

Meaning of a reply: an answer, a wait, a request that the server cannot take, or the end.

Servers agree on HTTP status codes more than on the form of their errors: `error_text` reads all
forms that are in use.
"""

from __future__ import annotations

import email.utils
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

import numpy as np

from pact_eval._json import Json, describe, dumps
from pact_eval.data.records import Field
from pact_eval.errors import InputError, ServerError
from pact_eval.runs.predictions import log_probabilities_of, rounding_unit
from pact_eval.runs.rows import Status

Values = Literal["probabilities", "log-probabilities", "logits"]
"""What a server sends of the answers."""


class UnusableReplyError(InputError):
    """A reply that cannot be believed: the message says what was expected and found."""


@dataclass(frozen=True)
class AskedView:
    """One view of one item.

    Attributes:
        record_id: id of the item.
        state: the context.
        field: the question.
        order: the canonical index shown at each position.
    """

    record_id: str
    state: Json
    field: Field
    order: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """One request.

    Attributes:
        path: such as `/v1/systemone`.
        body: the JSON to send.
        views: the views that it asks for, all of one item.
    """

    path: str
    body: Json
    views: tuple[AskedView, ...]


@dataclass(frozen=True)
class ViewAnswer:
    """The answer to a view.

    Attributes:
        logits: (C,) logits or log-probabilities, canonical order; -inf for a probability of 0.
        answer_mass: probability on the answers under the full next-token distribution, if known.
        prompt_tokens: length of the prompt, if known.
    """

    logits: tuple[float, ...]
    answer_mass: float | None = None
    prompt_tokens: int | None = None


@dataclass(frozen=True)
class NoAnswer:
    """A view without an answer.

    Attributes:
        status: why.
        reason: more about it, one line.
    """

    status: Status
    reason: str


@dataclass(frozen=True)
class ReadReply:
    """A reply, read.

    Attributes:
        model: the name of the model that the server says has answered; None if it does not say.
        answers: one per view of the call.
    """

    model: str | None
    answers: tuple[ViewAnswer | NoAnswer, ...]


class Wire(Protocol):
    """A format of requests and answers.

    Attributes:
        name: recorded in runs.
        path: where requests are sent.
        views_per_request: most views of an item that one call asks for.
        values: what the server sends of the answers.
    """

    name: str
    path: str
    views_per_request: int

    @property
    def values(self) -> Values: ...  # noqa: D102 -- see the class

    @property
    def settings(self) -> Mapping[str, Json]:
        """Further settings that determine the numbers; for `run.json`."""

    @property
    def prompts(self) -> Mapping[str, Json]:
        """The prompts, as a local run records them; empty if the server makes them."""

    def permutes(self, field: Field) -> bool:
        """Return whether another order of the answers is another view of the same question."""

    def calls(self, model: str, views: Sequence[AskedView]) -> list[Call]:
        """Return the requests for some views of one item.

        Raises:
            InputError: the item cannot be asked on this wire; it becomes unsupported.
        """

    def read(self, call: Call, reply: Json) -> ReadReply:
        """Read a reply.

        Raises:
            UnusableReplyError: it is not a reply to this call, or contradicts itself.
        """


def checked_log_probabilities(values: Sequence[float]) -> tuple[float, ...]:
    """Return the logs of probabilities, after checking that they are a distribution.

    Args:
        values: (C,) probabilities.

    Raises:
        UnusableReplyError: a value is not in [0, 1], or the sum is not 1 within rounding.

    Examples:
        >>> checked_log_probabilities([1.0, 0.0])
        (0.0, -inf)
    """
    try:
        return log_probabilities_of(values)
    except ValueError as error:
        raise UnusableReplyError(str(error)) from None


def total_variation(p: Sequence[float], q: Sequence[float]) -> float:
    """Return half the L1 distance of two distributions.

    Examples:
        >>> total_variation([1.0, 0.0], [0.75, 0.25])
        0.25
    """
    return 0.5 * math.fsum(abs(a - b) for a, b in zip(p, q, strict=True))


def probabilities_of(view: ViewAnswer) -> tuple[float, ...]:
    """Return the probabilities of a view: its logits, renormalised."""
    logits = np.array(view.logits)
    p = np.exp(logits - logits.max())
    return tuple((p / p.sum()).tolist())


class QuestionWire(ABC):
    """A wire that sends questions; see `Wire`. The server makes the prompts, in its own contract.

    Args:
        score_views: whether the levels of a score are asked in other orders too.
    """

    path: str
    views_per_request = 1
    values: Values = "probabilities"

    def __init__(self, *, score_views: bool = False) -> None:
        self._score_views = score_views

    @property
    def settings(self) -> Mapping[str, Json]:
        """Whether scores have views."""
        return {"score_views": self._score_views}

    @property
    def prompts(self) -> Mapping[str, Json]:
        """Nothing: the server makes the prompts."""
        return {}

    def permutes(self, field: Field) -> bool:
        """Return whether another order is another view: of a choice; of a score on request."""
        return field.kind == "choice" or (field.kind == "score" and self._score_views)

    def calls(self, model: str, views: Sequence[AskedView]) -> list[Call]:
        """Return one request per view."""
        return [
            Call(self.path, {"model": model, **self.request_fields(view)}, (view,))
            for view in views
        ]

    @abstractmethod
    def request_fields(self, view: AskedView) -> dict[str, Json]:
        """Return the context and the question of a request, as this wire has them."""


WireName = Literal["auto", "vllm", "sglang", "systemone", "openai-decisions"]
"""Names of wires: formats of requests and answers. `auto` asks the server which one it speaks."""

MOST_CONCURRENT: Final = 256
"""The most requests that may be under way at the same time."""

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class ServerRequest:
    """Server to ask, model, and settings of the requests.

    Attributes:
        urls: base addresses of replicas of one server, at least one, without `/v1/...`.
        model: name of the model, as the server knows it.
        wire: format of requests and answers; auto asks the server.
        key_variable: environment variable with the API key; None sends no key.
        concurrency: requests under way at the same time.
        requests_per_minute: limit on the rate of requests, retries included; None for no limit.
        timeout_seconds: most time for one try, from the connection to the last byte received.
        score_views: whether the levels of a score are shown in other orders too.
        base_name: name of the base model on the server, to check that an adapter is applied.
        local: adapter folder to compare the server with; None compares with nothing.
        local_base: its base model: a folder or a hub id; None takes the one that it names.
        local_dtype: precision of the server, a name that `--dtype` takes; auto tries float32, then
            that of the stored weights.
        tokenizer: the base model's tokenizer, for wires that send token ids: a folder or a hub id;
            None takes that of `local`, or of the folder that a server on this machine has loaded.
        probe: whether the server is probed before a run.

    Raises:
        ServerError: there is no address, one is not an address, or a number is out of its range.
    """

    urls: tuple[str, ...]
    model: str
    wire: WireName = "auto"
    key_variable: str | None = None
    concurrency: int = 8
    requests_per_minute: float | None = None
    timeout_seconds: float = 120.0
    score_views: bool = False
    base_name: str | None = None
    local: Path | None = None
    local_base: str | None = None
    local_dtype: str = "auto"
    tokenizer: str | None = None
    probe: bool = True

    def __post_init__(self) -> None:
        if not self.urls:
            raise ServerError("expected the address of a server, got none")
        if not 1 <= self.concurrency <= MOST_CONCURRENT:
            message = f"--concurrency: expected 1 to {MOST_CONCURRENT}, got {self.concurrency}"
            raise ServerError(message)
        for option, number in (
            ("--requests-per-minute", self.requests_per_minute),
            ("--timeout", self.timeout_seconds),
        ):
            if number is not None and not number > 0:
                raise ServerError(f"{option}: expected a number above 0, got {number}")
        object.__setattr__(self, "urls", tuple(base_url(url) for url in self.urls))

    def key(self) -> str | None:
        """Read the API key from its environment variable.

        Raises:
            ServerError: the variable is not set, or its value cannot be sent as a header.
        """
        if self.key_variable is None:
            return None
        key = os.environ.get(self.key_variable, "")
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            fault = "is not set" if not key else "has a value that is not an API key"
            message = f"--api-key-env {self.key_variable}: the environment variable {fault}"
            raise ServerError(message)
        return key


def base_url(url: str) -> str:
    """Return the base address of a server, without `/v1` and what follows.

    Raises:
        ServerError: it is not an http or https address of a host, or it holds a password.

    Examples:
        >>> base_url("http://127.0.0.1:8000/v1/systemone")
        'http://127.0.0.1:8000'
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ServerError(f"--server: not an address ({error})") from None
    if parts.username is not None or parts.password is not None:
        # The address is not repeated: run folders and terminals must not hold a password.
        raise ServerError("--server: the address holds a user name; give the key by --api-key-env")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ServerError(f"--server {url}: expected an address such as http://127.0.0.1:8000")
    path = parts.path.partition("/v1")[0] if f"{parts.path}/".find("/v1/") >= 0 else parts.path
    return f"{parts.scheme}://{parts.netloc}{path.rstrip('/')}"


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine.

    Examples:
        >>> is_loopback("http://127.0.0.1:8000"), is_loopback("https://api.example.org")
        (True, False)
    """
    return urlsplit(url).hostname in _LOOPBACK


Meaning = Literal["answer", "retry", "refuse", "stop"]
"""An answer; try again; this request cannot be served; no request can be served."""

_REFUSED: Final = (400, 413, 414, 422)
_RETRIED: Final = (408, 425, 429)
_NOT_IMPLEMENTED: Final = 501
_CAPACITY: Final = (
    *("context length", "context window", "too long", "too many", "too large", "at most"),
    *("maximum", "limit", "exceed", "not supported", "unsupported", "options per choice"),
)
_MOST_CHARACTERS: Final = 300


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


def shortened(text: str) -> str:
    """Return a server's text as one line of at most 300 characters.

    Examples:
        >>> shortened("busy,   try later")
        'busy, try later'
    """
    line = " ".join(text[: 4 * _MOST_CHARACTERS].split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 3]}..."


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


_SLACK: Final = 1e-3


def number(value: Json, name: str) -> float:
    """Return a finite number.

    Raises:
        UnusableReplyError: it is not one; the message has its name.

    Examples:
        >>> number(1, "score")
        1.0
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        return float(value)
    raise UnusableReplyError(f"{name}: expected a number, got {describe(value)}")


def shown(value: Json) -> str:
    """Return a value of a reply for a message: one line of at most 60 characters."""
    return shortened(dumps(value))[:60]


def prompt_tokens(reply: Mapping[str, Json]) -> int | None:
    """Return the length of the prompt in tokens, if the usage of a reply says it.

    Examples:
        >>> prompt_tokens({"usage": {"input_tokens": 90}}), prompt_tokens({})
        (90, None)
    """
    usage = reply.get("usage")
    tokens = usage.get("input_tokens") if isinstance(usage, dict) else None
    usable = isinstance(tokens, int) and not isinstance(tokens, bool) and 0 < tokens < 2**31
    return tokens if usable and isinstance(tokens, int) else None


def check_choice(chosen: Json, names: Sequence[str], probabilities: Sequence[float]) -> None:
    """Check that a chosen answer is the most probable one, within rounding.

    Args:
        chosen: the answer that the server names.
        names: of all answers, in any order.
        probabilities: in the same order.

    Raises:
        UnusableReplyError: it is not.
    """
    if chosen not in names:
        raise UnusableReplyError(f"choice: expected one of the answers asked, got {shown(chosen)}")
    most = max(probabilities)
    if probabilities[names.index(str(chosen))] < most - rounding_unit(probabilities) - 1e-6:
        best = names[probabilities.index(most)]
        raise UnusableReplyError(f"choice is {shown(chosen)}, but {shown(best)} is more probable")


def check_score(value: Json, levels: Sequence[int], probabilities: Sequence[float]) -> None:
    """Check that a score is the expected level, within rounding.

    Args:
        value: the score that the server names.
        levels: the value of each level.
        probabilities: in the same order.

    Raises:
        UnusableReplyError: it is not.
    """
    score = number(value, "score")
    expected = math.fsum(level * p for level, p in zip(levels, probabilities, strict=True))
    rounding = 0.5 * rounding_unit(probabilities) * (1 + sum(levels))
    if abs(score - expected) > rounding + _SLACK * len(probabilities):
        raise UnusableReplyError(
            f"score is {score:.6g}, but the expected level of its probabilities {expected:.6g}"
        )


def in_canonical_order(values: Sequence[float], order: Sequence[int]) -> tuple[float, ...]:
    """Return values by position as values by canonical index.

    Examples:
        >>> in_canonical_order([0.5, 0.3, 0.2], (2, 0, 1))
        (0.3, 0.2, 0.5)
    """
    canonical = [0.0] * len(values)
    for position, index in enumerate(order):
        canonical[index] = values[position]
    return tuple(canonical)
