"""The texts of a context."""

from __future__ import annotations

from pact_eval._json import Json
from pact_eval.data import context_text, string_leaves


def test_leaves_of_a_text_context_have_the_empty_path() -> None:
    assert list(string_leaves("x")) == [((), "x")]


def test_keys_and_numbers_are_no_text() -> None:
    context: Json = {"turns": [{"text": "a\u2028b", "n": 1}, None, True], "note": "c"}
    assert context_text(context) == "a\u2028b\nc"
