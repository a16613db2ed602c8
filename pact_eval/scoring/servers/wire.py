"""The interface of a wire: requests for views, and the reading of replies.

To add a wire, write a class with the members of `Wire` in a file of its own, add its name to
`WireName` (`request.py`) and construct it in `find_wire` (`find_wire.py`). A wire makes calls and
reads replies; sending, retrying, counting and writing are the same for all.

No wire puts several questions into one prompt: on some servers they would see each other. A wire
that did would have to show first that an answer alone and an answer in company differ by noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from pact_eval._json import Json
from pact_eval.data.records import Field
from pact_eval.errors import InputError
from pact_eval.runs.predictions import log_probabilities_of
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
