"""Dialects of servers: `DIALECTS` has what differs between them, and `Wire` speaks each.

Two dialects send prompts as token ids: vLLM's `/v1/completions` and SGLang's `/generate`. They
return the log-probability of each letter as the next token. The prompt is that of a local run, so
every kind of question has K views, and the probabilities of the letters under the full distribution
sum to the answer mass. All views of an item are one request: they share most of their prompt, which
servers then compute once. A server may be set to return logits in the place of log-probabilities.
Their sum of `exp` has no meaning and is rarely below 1. If one reply shows it, the answer mass of
the whole run is unknown; probabilities of the letters among themselves are the same either way.

Two dialects send questions, and the server makes the prompts: `POST /v1/systemone` and OpenAI's
`POST /v1/decisions`. They return probabilities of the answers. No request has several questions: on
some servers they would see each other.

To add a dialect, add its row, its name to `WireName`, and what a row does not say to `Wire`.
Sending, retrying, counting and writing are the same for all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pact_eval._json import Json, at, describe, dumps
from pact_eval.data.records import Field
from pact_eval.errors import InputError
from pact_eval.prompts.encoding import Encoder
from pact_eval.runs.predictions import log_probabilities_of, rounding_unit
from pact_eval.runs.provenance import Contract
from pact_eval.scoring.servers.wire import (
    AskedItem,
    Call,
    NoAnswer,
    Order,
    ReadReply,
    ViewAnswer,
    shortened,
)

Values = Literal["probabilities", "log-probabilities", "logits"]
"""What a server sends of the answers."""

MOST_PROMPTS: Final = 1024
"""Most prompts of one request: the limit of vLLM."""

_SLACK: Final = 1e-3
_MOST_MASS: Final = 1.001
_MINUS_INFINITY: Final = -9999.0  # how servers write it: JSON cannot
_TOKEN: Final = re.compile(r"token_id:([0-9]{1,9})")


class UnusableReplyError(InputError):
    """A reply that cannot be believed: the message says what was expected and found."""


@dataclass(frozen=True)
class Dialect:
    """What differs between servers in requests and replies.

    Attributes:
        path: where requests are sent.
        parameter: key of the letters in a request of token ids; "" if questions are sent.
        prompts: key of the prompts, likewise.
        settings: what else such a request has: one token, by the distribution of the model.
        values: path of ids and log-probabilities of the first token in the answer to a prompt.
        types: by kind of question, the type that is sent, and others that are read.
        boolean: key of the probability of true.
    """

    path: str
    parameter: str = ""
    prompts: str = ""
    settings: Mapping[str, Json] = field(default_factory=dict)
    values: tuple[str | int, ...] = ()
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    boolean: str = ""


DIALECTS: Final[Mapping[str, Dialect]] = {
    "vllm": Dialect(
        path="/v1/completions",
        parameter="logprob_token_ids",
        prompts="prompt",
        settings={
            "max_tokens": 1,
            "temperature": 0,
            "top_p": 1,
            "top_k": 0,
            "min_p": 0,
            "repetition_penalty": 1,
            "logprobs": 1,
            "return_tokens_as_token_ids": True,
            "add_special_tokens": False,
        },
        values=("logprobs", "top_logprobs", 0),
    ),
    "sglang": Dialect(
        path="/generate",
        parameter="token_ids_logprob",
        prompts="input_ids",
        settings={
            # At temperature 1 the log-probabilities are those of the model.
            "sampling_params": {"max_new_tokens": 1, "temperature": 1},
            "return_logprob": True,
            "logprob_start_len": -1,
        },
        values=("meta_info", "output_token_ids_logprobs", 0),
    ),
    "systemone": Dialect(
        path="/v1/systemone",
        types={"choice": ("choice",), "boolean": ("noul", "boolean"), "score": ("score",)},
        boolean="noul",
    ),
    "openai-decisions": Dialect(
        path="/v1/decisions",
        types={"choice": ("choice",), "boolean": ("predicate",), "score": ("score",)},
        boolean="probability",
    ),
}


class Wire:
    """A dialect, and what its requests need.

    Args:
        name: of the dialect.
        encoder: makes the prompts of a dialect of token ids; None sends questions.
        base_names: names of the model itself on SGLang; any other name is that of an adapter.
        score_views: whether the levels of a score that a server words are asked in other orders.

    Attributes:
        name: recorded in runs.
        path: where requests are sent.
        encoder: makes the prompts; None if the server does.
        views_per_request: most views of an item that one call asks for.
        values: what the server sends; logits as soon as one reply has shown them.
    """

    def __init__(
        self,
        name: str,
        *,
        encoder: Encoder | None = None,
        base_names: Sequence[str] = (),
        score_views: bool = False,
    ) -> None:
        self.name = name
        self.path = DIALECTS[name].path
        self.encoder = encoder
        self.views_per_request = 1 if encoder is None else MOST_PROMPTS
        self.values: Values = "probabilities" if encoder is None else "log-probabilities"
        self._dialect = DIALECTS[name]
        self._base_names = base_names
        self._score_views = score_views

    @property
    def settings(self) -> Mapping[str, Json]:
        """Further settings that determine the numbers; for `run.json`."""
        if self.encoder is None:
            return {"score_views": self._score_views}
        return {"max_prompt_tokens": self.encoder.max_prompt_tokens}

    @property
    def prompts(self) -> Mapping[str, Json]:
        """The prompts, as a local run records them; empty if the server makes them."""
        if self.encoder is None:
            return {}
        contract = self.encoder.contract
        return {
            "prompts_sha256": self.encoder.fingerprint,
            "contract": Contract(contract.name, contract.fingerprint).to_json(),
        }

    def permutes(self, field: Field) -> bool:
        """Return whether another order of the answers is another view of the same question.

        In our own prompts it always is. In those of a server it is for a choice, and for a score on
        request.
        """
        kinds = ("choice", "score") if self._score_views else ("choice",)
        return self.encoder is not None or field.kind in kinds

    def calls(self, model: str, item: AskedItem) -> list[Call]:
        """Return the requests for the views of an item, each order once.

        Raises:
            InputError: the item cannot be asked on this wire; it becomes unsupported.
        """
        size, orders, calls = self.views_per_request, item.distinct_orders, []
        for start in range(0, len(orders), size):
            part = orders[start : start + size]
            body = (
                self._question(model, item, part[0])
                if self.encoder is None
                else self._prompts(self.encoder, model, item, part)
            )
            calls.append(Call(self.path, body, item, part))
        return calls

    def read(self, call: Call, reply: Json) -> ReadReply:
        """Read a reply.

        Raises:
            UnusableReplyError: it is not a reply to this call, or contradicts itself.
        """
        model = at(reply, "model")
        return ReadReply(
            model if isinstance(model, str) and model else None,
            (self._read_question(call.item, call.orders[0], reply),)
            if self.encoder is None
            else self._read_prompts(self.encoder, call, reply),
        )

    def _prompts(
        self, encoder: Encoder, model: str, item: AskedItem, orders: Sequence[Order]
    ) -> Json:
        """Return the request for the letters after the prompts of some orders."""
        encoded = encoder.encode_orders(item.state, item.field, orders)
        letters: list[Json] = [*encoded[0].code_tokens]
        body: dict[str, Json] = {
            self._dialect.prompts: [[*view.token_ids] for view in encoded],
            self._dialect.parameter: letters,
            **self._dialect.settings,
        }
        if self.name == "vllm":
            return body | {"model": model}
        body[self._dialect.parameter] = [letters] * len(encoded)
        return body if model in self._base_names else body | {"lora_path": model}

    def _read_prompts(
        self, encoder: Encoder, call: Call, reply: Json
    ) -> tuple[ViewAnswer | NoAnswer, ...]:
        """Read the answers to the prompts of one item; vLLM lists them in any order."""
        row = self._dialect
        sent = at(call.body, row.prompts)
        lengths = [len(prompt) for prompt in sent]  # type: ignore[union-attr, arg-type] # as made above
        of_vllm = self.name == "vllm"
        choices = at(reply, "choices") if of_vllm else reply
        choices = choices if isinstance(choices, list) else []
        places = [
            _whole(at(choice, "index")) if of_vllm else place
            for place, choice in enumerate(choices)
        ]
        if len(places) != len(lengths) or {*places} != {*range(len(lengths))}:
            got = shown([*places]) if choices else describe(reply)
            raise UnusableReplyError(
                f"expected one answer for each of {len(lengths)} prompts, got {got}"
            )
        choices = [choices[places.index(place)] for place in range(len(lengths))]
        counts = [_whole(at(choice, "meta_info", "prompt_tokens")) for choice in choices]
        if of_vllm:
            counts = [_whole(at(reply, "usage", "prompt_tokens"))]
        read = sum(count or 0 for count in counts)
        if None not in counts and read != sum(lengths):
            raise UnusableReplyError(
                f"the server has read {read:,} tokens of prompts, not the {sum(lengths):,} that "
                "were sent"
            )
        tokens, name = encoder.answer_tokens(call.item.field), ".".join(map(str, row.values[:-1]))
        values = [_read_values(name, at(choice, *row.values), tokens) for choice in choices]
        # Of all ids that came: that of the sampled token shows logits best.
        if any(_sum_of_exp(by_id.values()) > _MOST_MASS for by_id in values):
            self.values = "logits"
        answers = []
        for order, by_id, length in zip(call.orders, values, lengths, strict=True):
            letters = [by_id[token] for token in tokens]
            mass = None if self.values == "logits" else min(_sum_of_exp(letters), 1.0)
            answers.append(ViewAnswer(in_canonical_order(letters, order), mass, length))
        return tuple(answers)

    def _question(self, model: str, item: AskedItem, order: Order) -> Json:
        """Return the request for an answer to the question in some order."""
        if self.name == "systemone":
            # A context is text, an object or a list.
            state = item.state if isinstance(item.state, str | dict | list) else dumps(item.state)
            questions: Json = {item.field.name: systemone_question(item.field, order)}
            return {"model": model, "state": state, "questions": questions}
        question: Json = decision_question(item.field, order)
        return {"model": model, "input": _text(item.state), "questions": [question]}

    def _read_question(self, item: AskedItem, order: Order, reply: Json) -> ViewAnswer | NoAnswer:
        """Read the answer to a question: one of several by name, or the only one of a list."""
        by_name, field = self.name == "systemone", item.field
        answers = at(reply, "answers")
        if not isinstance(answers, dict if by_name else list):
            raise UnusableReplyError(f"expected an object with answers, got {describe(reply)}")
        if not by_name and len(answers) > 1:
            raise UnusableReplyError(f"answers: expected one object, got {len(answers):,} values")
        answer = at(answers, field.name if by_name else 0)
        if answer is None:
            return NoAnswer("missing", "the reply has no answer to it")
        name, kind = at(answer, "name"), at(answer, "type")
        if not by_name and name not in (None, field.name):
            message = f"answers: expected that of {field.name}, got that of {shown(name)}"
            raise UnusableReplyError(message)
        if not by_name and kind == "refusal":
            return NoAnswer("refused", "the model declined to answer it")
        types = self._dialect.types[field.kind]
        if kind not in types:
            raise UnusableReplyError(f"expected an answer of type {types[0]}, got {shown(kind)}")
        if field.kind == "boolean":
            true = number(at(answer, self._dialect.boolean), self._dialect.boolean)
            logits = _logs([1.0 - true, true])
        else:
            logits = self._read_distribution(field, order, answer)
        mass = _answer_mass(reply, answer, field.name) if by_name else None
        tokens = _whole(at(reply, "usage", "input_tokens"))
        usable = tokens is not None and 0 < tokens < 2**31
        return ViewAnswer(logits, mass, tokens if usable else None)

    def _read_distribution(self, field: Field, order: Order, answer: Json) -> tuple[float, ...]:
        """Read the probabilities of answers, by name in an object or one by one in a list.

        Names are compared exactly. On systemone, levels of a score are named by their position.
        """
        by_name, is_choice = self.name == "systemone", field.kind == "choice"
        given, key = at(answer, "probabilities"), "value" if is_choice else "label"
        names = [answer.key for answer in field.answers] if is_choice else _labels(field)
        names = [names[index] for index in order]
        if by_name and not is_choice:
            names = [str(position) for position in range(len(names))]
        listed: dict[str, Json] = {}
        if by_name and isinstance(given, dict):
            listed = given
        elif not by_name and isinstance(given, list):
            listed = {str(at(e, key)): e for e in given if isinstance(at(e, key), str)}
        size = len(given) if isinstance(given, dict | list) else None
        if size != len(names) or listed.keys() != set(names):
            got = describe(given) if size is None else f"{size:,} names"
            other = next((name for name in listed if name not in names), None)
            such = "" if other is None else f", such as {shown(other)}"
            raise UnusableReplyError(
                f"probabilities: expected those of the {len(names)} answers asked, got {got}{such}"
            )
        values = [listed[name] if by_name else at(listed[name], "probability") for name in names]
        p = [
            number(value, f"probabilities.{shortened(name)}")
            for name, value in zip(names, values, strict=True)
        ]
        logits = _logs(p)
        if is_choice:
            check_choice(at(answer, "choice"), names, p)
            return in_canonical_order(logits, order)
        levels: list[Json] = [*range(len(names))]
        if not by_name:
            levels = [at(listed[name], "value") for name in names]
        numbers = [level for value in levels if (level := _whole(value)) is not None]
        if len(numbers) < len(levels) or numbers != sorted(set(numbers)):
            message = f"value: expected increasing numbers of levels, got {shown(levels)}"
            raise UnusableReplyError(message)
        check_score(at(answer, "score"), numbers, p)
        return in_canonical_order(logits, order)


def systemone_question(field: Field, order: Sequence[int]) -> dict[str, Json]:
    """Return a question as a request of `/v1/systemone` has it, with its answers in some order.

    Args:
        field: the question.
        order: the canonical index at each position.

    Examples:
        >>> from pact_eval.data.records import parse_field
        >>> field = parse_field("team", {"type": "choice", "instructions": "Who?",
        ...                              "criteria": {"sales": "Prices", "support": None}})
        >>> systemone_question(field, (1, 0))["criteria"]
        {'support': None, 'sales': 'Prices'}
    """
    answers = [field.answers[index] for index in order]
    body: dict[str, Json] = {
        "type": DIALECTS["systemone"].types[field.kind][0],
        "instructions": field.instructions,
    }
    if field.kind == "choice":
        body["criteria"] = {answer.key: answer.description for answer in answers}
    elif field.kind == "score":
        # A level without a description is refused by servers: its number describes it.
        body["criteria"] = [
            answer.key if answer.description is None else answer.description for answer in answers
        ]
    else:
        described = {a.key: a.description for a in answers if a.description is not None}
        body |= {"criteria": dict(described)} if described else {}
    return body


def decision_question(field: Field, order: Sequence[int]) -> dict[str, Json]:
    """Return a question as a request of `/v1/decisions` has it, with its answers in some order.

    Args:
        field: the question.
        order: the canonical index at each position.

    Examples:
        >>> from pact_eval.data.records import parse_field
        >>> field = parse_field("team", {"type": "choice", "instructions": "Who?",
        ...                              "criteria": {"sales": "Prices", "support": None}})
        >>> decision_question(field, (1, 0))["choices"]
        [{'value': 'support'}, {'value': 'sales', 'description': 'Prices'}]
    """
    body: dict[str, Json] = {
        "type": DIALECTS["openai-decisions"].types[field.kind][0],
        "name": field.name,
        "instructions": _text(field.instructions),
    }
    described = [(answer.key, answer.description) for answer in field.answers]
    if field.kind == "boolean":
        meanings = [f"\n{key}: {text}" for key, text in described if text is not None]
        return body | {"instructions": "".join([_text(field.instructions), *meanings])}
    is_choice = field.kind == "choice"
    names = [key for key, _ in described] if is_choice else _labels(field)
    entries: list[Json] = []
    for index in order:
        name, text = names[index], described[index][1]
        entry: dict[str, Json] = {"value" if is_choice else "label": name}
        same = text is None or (text == name and not is_choice)
        entries.append(entry if same else entry | {"description": text})
    return body | {"choices" if is_choice else "levels": entries}


def _labels(field: Field) -> list[str]:
    """Return the labels of the levels: their descriptions, or their numbers if two are the same."""
    labels = [
        answer.key if answer.description is None else answer.description for answer in field.answers
    ]
    return labels if len(set(labels)) == len(labels) else [answer.key for answer in field.answers]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else dumps(value)


def _read_values(name: str, first: Json, letters: Sequence[int]) -> dict[int, float]:
    """Read the log-probabilities of the first token: `{"token_id:N": value}` or [value, id, text].

    Raises:
        UnusableReplyError: they are not those of the letters, each once.
    """
    pairs: list[tuple[Json, Json]] = []
    if isinstance(first, dict):
        for text, value in first.items():
            match = _TOKEN.fullmatch(text)
            if match is None:
                raise UnusableReplyError(f"{name}: expected token_id:N, got {shown(text)}")
            pairs.append((int(match[1]), value))
    elif isinstance(first, list):
        pairs = [(at(pair, 1), at(pair, 0)) for pair in first]
    else:
        message = f"{name}: expected ids and values for the token, got {describe(first)}"
        raise UnusableReplyError(message)
    values: dict[int, float] = {}
    for given, value in pairs:
        token = _whole(given)
        if token is None or not 0 <= token < 2**31:
            raise UnusableReplyError(f"{name}: expected a token id next to each log-probability")
        if token in values:
            raise UnusableReplyError(f"{name}: expected one for each token id, got two for {token}")
        log_p = number(value, "log-probability")
        values[token] = log_p if log_p > _MINUS_INFINITY else -math.inf
    missing = next((token for token in letters if token not in values), None)
    if missing is not None:
        message = f"{name}: expected one for each letter asked, got none for id {missing}"
        raise UnusableReplyError(message)
    if all(math.isinf(values[token]) for token in letters):
        raise UnusableReplyError("no letter has a probability above 0")
    return values


def _whole(value: Json) -> int | None:
    """Return a whole number; None if a value is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _sum_of_exp(values: Iterable[float]) -> float:
    return math.fsum(math.exp(min(value, 1.0)) for value in values)


def _logs(values: Sequence[float]) -> tuple[float, ...]:
    try:
        return log_probabilities_of(values)
    except ValueError as error:
        raise UnusableReplyError(str(error)) from None


def _answer_mass(reply: Json, answer: Json, name: str) -> float | None:
    """Return the mass on the labels where a server tells it (vLLM, SGLang)."""
    for mass in (at(reply, "diagnostics", name, "label_mass"), at(answer, "x_label_mass")):
        if isinstance(mass, int | float) and not isinstance(mass, bool) and 0 <= mass <= 1 + _SLACK:
            return min(float(mass), 1.0)
    return None


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
