"""A server as the user named it, what is asked of it, and what is read of its replies."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import numpy as np

from pact_eval._json import Json
from pact_eval.data.records import Field
from pact_eval.errors import ServerError
from pact_eval.runs.rows import Status

Order = tuple[int, ...]
"""The canonical index shown at each position."""


@dataclass(frozen=True)
class AskedItem:
    """An item with the orders of its K views.

    Attributes:
        record_id: id of the item.
        state: the context.
        field: the question.
        orders: the order of each view.
    """

    record_id: str
    state: Json
    field: Field
    orders: tuple[Order, ...]

    @property
    def distinct_orders(self) -> tuple[Order, ...]:
        """The orders without repetitions; view 0 comes first."""
        return tuple(dict.fromkeys(self.orders))


@dataclass(frozen=True)
class Call:
    """One request.

    Attributes:
        path: such as `/v1/systemone`.
        body: the JSON to send.
        item: what it asks for.
        orders: in which orders of its answers.
    """

    path: str
    body: Json
    item: AskedItem
    orders: tuple[Order, ...]


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

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The probabilities of the answers among themselves, canonical order."""
        logits = np.array(self.logits)
        p = np.exp(logits - logits.max())
        return tuple((p / p.sum()).tolist())


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
        answers: one per order of the call.
    """

    model: str | None
    answers: tuple[ViewAnswer | NoAnswer, ...]


def total_variation(p: Sequence[float], q: Sequence[float]) -> float:
    """Return half the L1 distance of two distributions.

    Examples:
        >>> total_variation([1.0, 0.0], [0.75, 0.25])
        0.25
    """
    return 0.5 * math.fsum(abs(a - b) for a, b in zip(p, q, strict=True))


@dataclass(frozen=True)
class Spread:
    """Differences of several answers to one question.

    Attributes:
        answers: number of answers.
        largest_tv: largest total variation distance of two of them, in [0, 1].
        flips: answers whose most probable answer is not that of the first.
    """

    answers: int
    largest_tv: float
    flips: int


def spread_of(answers: Sequence[Sequence[float]]) -> Spread:
    """Return how much probability distributions differ; by 0 if there is one.

    Examples:
        >>> spread_of([(0.75, 0.25), (0.5, 0.5), (0.25, 0.75)])
        Spread(answers=3, largest_tv=0.5, flips=1)
    """
    first = int(np.argmax(answers[0]))
    distances = (total_variation(p, q) for p, q in combinations(answers, 2))
    flips = sum(int(np.argmax(p)) != first for p in answers)
    return Spread(len(answers), max(distances, default=0.0), flips)


WireName = Literal["auto", "vllm", "sglang", "systemone", "openai-decisions"]
"""Names of wires: formats of requests and answers. `auto` asks the server which one it speaks."""

MOST_CONCURRENT: Final = 256
"""The most requests that may be under way at the same time."""

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_MOST_CHARACTERS: Final = 300


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


def shortened(text: str) -> str:
    """Return a server's text as one line of at most 300 characters.

    Examples:
        >>> shortened("busy,   try later")
        'busy, try later'
    """
    line = " ".join(text[: 4 * _MOST_CHARACTERS].split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 3]}..."
