"""Requests and decisions: a context, several questions, and the answers to them.

Typed-decision models are served through this interface. A dataset record is a request with one
question and a known answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pact_eval._files import read_json, read_text
from pact_eval._json import Json, describe
from pact_eval.data.records import Field, parse_field
from pact_eval.errors import InputError, RequestError

# One word with a slash or an extension is probably meant as a file name.
_FILE_NAME = re.compile(r"\S*/\S*|\S+\.[A-Za-z0-9]{1,5}")


@dataclass(frozen=True)
class Decision:
    """The answer to one field.

    Attributes:
        field: the question.
        probabilities: probability of each answer over the K views, canonical order.
        answer_mass: mean probability on the answer letters; None if a server does not tell it.
        views_agree: whether all views have the same most probable answer; None for one view
            or one order.
    """

    field: Field
    probabilities: tuple[float, ...]
    answer_mass: float | None
    views_agree: bool | None

    @property
    def answer(self) -> str:
        """Key of the most probable answer; ties go to the first in canonical order."""
        return self.field.answers[int(np.argmax(self.probabilities))].key

    @property
    def expected_level(self) -> float | None:
        """The expected level of a score field, sum_j j p_j; None for other kinds."""
        if self.field.kind != "score":
            return None
        return float(np.dot(np.arange(len(self.probabilities)), self.probabilities))


def parse_schema(value: Json) -> tuple[Field, ...]:
    """Read a schema: `{name: question}`, alone or under the key `questions`.

    Raises:
        RequestError: it is not an object, is empty, or a question is malformed.

    Examples:
        >>> [field.name for field in parse_schema(
        ...     {"questions": {"refund": {"type": "noul", "instructions": "A refund?"}}})]
        ['refund']
    """
    if isinstance(value, dict) and isinstance(value.get("questions"), dict):
        value = value["questions"]
    if not isinstance(value, dict) or not value:
        raise RequestError(f"expected an object of questions by field name, got {describe(value)}")
    try:
        return tuple(parse_field(name, question) for name, question in value.items())
    except ValueError as error:
        raise RequestError(str(error)) from None


def read_schema(path: Path) -> tuple[Field, ...]:
    """Read a schema file; see `parse_schema`.

    Raises:
        RequestError: the file is missing, is not strict JSON, or is not a schema.
    """
    try:
        value = read_json(path)
    except InputError as error:
        raise RequestError(str(error)) from None
    try:
        return parse_schema(value)
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from None


def read_context(file_or_text: str) -> Json:
    """Read a context: a file if one has that name, otherwise the text itself.

    A file that ends in `.json` is read as JSON, any other as text.

    Raises:
        RequestError: the file cannot be read, or a `.json` file is not strict JSON.

    Examples:
        >>> read_context("The gate is open.")
        'The gate is open.'
    """
    path = Path(file_or_text)
    if not _is_file(path):
        if _FILE_NAME.fullmatch(file_or_text):
            message = f"--context {file_or_text}: no such file (a text must contain a space)"
            raise RequestError(message)
        return file_or_text
    try:
        return read_json(path) if path.suffix == ".json" else read_text(path)
    except InputError as error:
        raise RequestError(str(error)) from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a long text is not a file name
        return False
