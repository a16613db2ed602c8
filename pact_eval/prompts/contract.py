"""The interface of a prompt contract: what turns a context, a question and an order into token ids.

Scoring, training and auditing know a contract only through `PromptContract`. `bind` gives it a
tokenizer; the `BoundContract` then makes the token ids of prompts, names the tokens that answer
them, and says in which orders a question can be shown. `fingerprint` identifies the contract
without a tokenizer, that of the `BoundContract` with one. `schema_config` and `check_adapter` write
and read the keys that say which contract an adapter was trained on.

There are two kinds. A `ChatContract` renders chat messages, which the tokenizer's chat template
turns into text; its fingerprint is `contract_fingerprint(self)`, the hash of
the renderings of a frozen set of probes: it depends on behaviour, not on source files, so a
refactoring keeps it and one changed space breaks it. `nimble.py` has the published one. A decision
template of transformers (`pact_eval.templates`) renders the whole prompt itself.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypedDict

import numpy as np
import numpy.typing as npt

from pact_eval._json import Json
from pact_eval.data.records import LETTERS, Field, parse_field

STATED_BY: Final = "contract_stated_by"
"""Key of `schema_config.json`: "user" if the user, and not the training, wrote the contract."""

CONTRACT_KEYS: Final = ("task", "system_prompt", "prompt_code_sha256", "contract_fingerprint")
"""Keys of `schema_config.json` that state a contract."""


class Message(TypedDict):
    """One chat message, in the form that chat templates take."""

    role: str
    content: str


class ChatTokenizer(Protocol):
    """The part of a Hugging Face tokenizer that prompts need."""

    @property
    def all_special_ids(self) -> list[int]:
        """Ids of tokens that are not ordinary text."""

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any:
        """Render messages with the tokenizer's chat template."""

    def __call__(self, text: Any, **kwargs: Any) -> Mapping[str, Any]:
        """Tokenise a list of texts; `input_ids` holds a list of ids for each."""


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """One prompt to be made.

    Attributes:
        state: the context: text, or any JSON value.
        fields: all fields of the schema, in schema order.
        requested: name of the requested field.
        order: the canonical index shown at each letter of the requested field; the other fields
            are in canonical order.
        where: what messages call it, such as "line 3 (id a-base)".
    """

    state: Json
    fields: tuple[Field, ...]
    requested: str
    order: tuple[int, ...]
    where: str = "the request"

    @property
    def field(self) -> Field | None:
        """The requested field; None if the schema has none of this name."""
        return next((field for field in self.fields if field.name == self.requested), None)


class BoundContract(Protocol):
    """A contract with a tokenizer: it makes prompts, and names the tokens that answer them."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of a probe's prompt, token ids and answer tokens, as 64 hex digits."""

    def orders(self, field: Field, key: str, *, k: int, seed: int) -> list[tuple[int, ...]]:
        """Return the orders of views 0 to k - 1 of a question.

        Args:
            field: the question.
            key: id of the record, or name of the field; it keys the orders.
            k: number of views, at least 1.
            seed: seed of the letter orders.

        Returns:
            K orders, each the canonical index of the answer shown at each position. A question
            that may not be permuted has K times the same order.
        """

    def most_answers(self, field: Field) -> int:
        """Return the most answers that a question of this kind can have."""

    def answer_tokens(self, field: Field) -> tuple[int, ...]:
        """Return the token of the answer at each position, C of them.

        Raises:
            PromptError: the contract has no distinct single token for each.
        """

    def text(self, request: PromptRequest) -> str:
        """Return the text of a prompt, without tokenising it.

        Raises:
            RequestError: the request does not fit the contract.
            PromptError: the prompt cannot be rendered.
        """

    def token_ids(self, requests: Sequence[PromptRequest]) -> list[list[int]]:
        """Return the token ids of prompts, up to the position where the answer is read.

        Raises:
            RequestError: a request does not fit the contract.
            PromptError: a prompt cannot be rendered.
        """


class PromptContract(Protocol):
    """Format of the prompt of a request, whose next token is the letter of an answer."""

    @property
    def name(self) -> str:
        """Short name, recorded in runs."""

    @property
    def label(self) -> str:
        """Its name in messages."""

    @property
    def max_prompt_tokens(self) -> int | None:
        """Longest prompt that may be scored, in tokens; None if only the model has a limit."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what the contract renders, as 64 hex digits."""

    @property
    def temperatures(self) -> Mapping[str, float]:
        """The temperatures that it ships, by field kind; empty if it ships none."""

    @property
    def place(self) -> str | None:
        """The folder or file of a template, as given; None without files."""

    def bind(self, tokenizer: ChatTokenizer) -> BoundContract:
        """Return the contract with a tokenizer.

        Raises:
            PromptError: the tokenizer cannot render the contract.
        """

    def schema_config(self) -> dict[str, Json]:
        """Return the keys of an adapter's `schema_config.json` that identify this contract."""

    def adapter_files(self) -> Mapping[str, str]:
        """Return further files that an adapter's folder needs to be scored on it, by name."""

    def check_adapter(self, config: Mapping[str, Json]) -> None:
        """Check that an adapter's `schema_config.json` identifies this contract.

        Raises:
            ContractMismatchError: with the key that differs, what was expected and what was found.
        """


class ChatContract(PromptContract, Protocol):
    """A contract that renders chat messages."""

    def messages(
        self, state: Json, fields: Sequence[Field], requested: str, code_order: Sequence[int]
    ) -> list[Message]:
        """Render one request as chat messages.

        Args:
            state: the context: text, or any JSON value.
            fields: all fields of the schema, in schema order.
            requested: name of the requested field.
            code_order: the canonical index shown at each letter of the requested field; the
                other fields are in canonical order.

        Raises:
            RequestError: the requested field is not in the schema, a name occurs twice, a field has
                more answers than letters, or `code_order` is not a permutation of the answers.
        """


def canonical_code_order(field: Field) -> tuple[int, ...]:
    """Return the identity: answer i has letter i."""
    return tuple(range(len(field.answers)))


def contract_fingerprint(contract: ChatContract) -> str:
    """Return the SHA-256 of a contract's renderings of the frozen probes, as 64 hex digits."""
    digest = hashlib.sha256()
    for state, questions in _PROBES:
        fields = [parse_field(name, question) for name, question in questions.items()]
        for field in fields:
            for order in (canonical_code_order(field), canonical_code_order(field)[::-1]):
                messages = contract.messages(state, fields, field.name, order)
                digest.update(json.dumps(messages, ensure_ascii=False).encode("utf-8"))
                digest.update(b"\n")
    return digest.hexdigest()


def contract_probes() -> list[tuple[Json, dict[str, Json]]]:
    """Return the frozen probes of the fingerprint as (state, question), one question each."""
    return [
        (state, question)
        for state, questions in _PROBES
        for question in questions.values()
        if isinstance(question, dict)
    ]


# The probes are frozen: a change here changes every fingerprint ever recorded.
_PROBES: Final[tuple[tuple[Json, dict[str, Json]], ...]] = (
    (
        "I was charged twice. Please refund the duplicate.",
        {
            "refund": {"type": "noul", "instructions": "Does the user request a refund?"},
            "department": {
                "type": "choice",
                "instructions": "Which department should handle this?",
                "criteria": {"billing": "Payments and refunds", "technical": None},
            },
            "urgency": {
                "type": "score",
                "instructions": "How urgent is this?",
                "criteria": ["Routine", "Urgent", "Emergency"],
            },
        },
    ),
    (
        {
            "turns": [{"speaker": "Zoë", "text": 'a "quoted" <b>line</b>\nand \\ 漢字\u2028 😀'}],
            "n": 1.5,
        },
        {
            "decision": {
                "type": "noul",
                "instructions": {"ask": "Is 1 < 2?", "of": ["é", None, True]},
                "criteria": {"false": "not so", "true": "it <is> so"},
            }
        },
    ),
    (
        [],
        {
            "decision": {
                "type": "choice",
                "instructions": "Pick.",
                "criteria": {f"answer {index}": None for index in range(len(LETTERS))},
            }
        },
    ),
    ("", {"décision": {"type": "score", "instructions": "", "criteria": [None, "µ", None]}}),
)


Order = tuple[int, ...]


def code_orders(seed: int, record_id: str, n_choices: int, k: int) -> list[Order]:
    """Return the letter orders of views 0 to k - 1 of a record.

    Args:
        seed: seed of the letter orders, recorded in the run.
        record_id: id of the record.
        n_choices: number of answers C, at least 2.
        k: number of views, at least 1.

    Returns:
        K tuples; entry j of a tuple is the canonical index of the answer shown at letter j. The
        first tuple is the identity. Orders repeat only after all C! orders have been used.

    Raises:
        ValueError: fewer than 2 answers, or fewer than 1 view.

    Examples:
        >>> code_orders(0, "scale-001-base", 3, 4)
        [(0, 1, 2), (2, 0, 1), (1, 2, 0), (0, 2, 1)]
        >>> code_orders(0, "scale-001-base", 2, 4)
        [(0, 1), (1, 0), (0, 1), (1, 0)]
    """
    if n_choices < 2 or k < 1:
        raise ValueError(f"expected at least 2 answers and 1 view, got {n_choices} and {k}")
    n_squares = math.factorial(n_choices - 1)
    squares: list[list[Order]] = []
    for square in range(min(math.ceil(k / n_choices), n_squares)):
        squares.append(_next_square(f"{seed}/{record_id}", square, n_choices, squares))
    orders = [order for square in squares for order in square]
    return [orders[view % len(orders)] for view in range(k)]


def code_order(seed: int, record_id: str, n_choices: int, view: int) -> Order:
    """Return the letter order of one view; see `code_orders`.

    Examples:
        >>> code_order(0, "scale-001-base", 3, 3)
        (0, 2, 1)
    """
    return code_orders(seed, record_id, n_choices, view + 1)[view]


def to_canonical(
    code_values: npt.NDArray[np.floating], code_order: Sequence[int]
) -> npt.NDArray[np.floating]:
    """Scatter values in letter order into canonical order.

    Args:
        code_values: shape (..., C); entry j belongs to the answer at letter j.
        code_order: the canonical index shown at each letter.

    Returns:
        Array of the same shape and dtype; entry i belongs to canonical answer i.

    Raises:
        ValueError: `code_order` is not a permutation of the C positions.

    Examples:
        >>> to_canonical(np.array([0.1, 0.2, 0.7]), (2, 0, 1))
        array([0.2, 0.7, 0.1])
    """
    order = np.asarray(code_order)
    if code_values.shape[-1] != len(order) or sorted(order.tolist()) != list(range(len(order))):
        message = f"expected an order of {code_values.shape[-1]} letters, got {list(code_order)}"
        raise ValueError(message)
    canonical = np.empty_like(code_values)
    canonical[..., order] = code_values
    return canonical


def _next_square(key: str, index: int, n_choices: int, used: list[list[Order]]) -> list[Order]:
    """Return Latin square number `index`: a coset of the record's cyclic group not used yet."""
    sigma = _permutation_of_key(f"{key}/cycle", n_choices)
    position = {answer: place for place, answer in enumerate(sigma)}
    taken = {order for square in used for order in square}
    attempt = 0
    while True:
        first = _permutation_of_key(f"{key}/{index}/{attempt}", n_choices)
        if index == 0:
            first = tuple(range(n_choices))
        if first not in taken:
            break
        attempt += 1
    # Shift 0 comes first and makes view 0 canonical; the other shifts follow in keyed order.
    shifts = [0] + [1 + s for s in _permutation_of_key(f"{key}/{index}/shifts", n_choices - 1)]
    return [
        tuple(sigma[(position[answer] + shift) % n_choices] for answer in first) for shift in shifts
    ]


def _permutation_of_key(key: str, n: int) -> Order:
    # Sorting by digest is a permutation that any language can reproduce from the key alone.
    digests = [hashlib.sha256(f"{key}/{item}".encode()).digest() for item in range(n)]
    return tuple(sorted(range(n), key=digests.__getitem__))
