"""The texts of a context."""

from __future__ import annotations

from pact_eval._json import Json
from pact_eval.data.records import context_text


def test_keys_and_numbers_are_no_text() -> None:
    context: Json = {"turns": [{"text": "a\u2028b", "n": 1}, None, True], "note": "c"}
    assert context_text(context) == "a\u2028b\nc"
