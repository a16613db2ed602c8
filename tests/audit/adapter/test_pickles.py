"""Pickles told by their opcodes, beside `pickle` itself and beside texts that begin like one."""

from __future__ import annotations

import pickle
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pact_eval.audit.adapter.files import HEAD_BYTES, is_pickle

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@pytest.mark.slow
@given(value=VALUES, protocol=st.integers(0, 5))
def test_every_pickle_is_told(value: Any, protocol: int) -> None:
    assert is_pickle(pickle.dumps(value, protocol=protocol))


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", [print, Path("x"), OrderedDict(a=1), {"a": [1] * 100_000}, 3.5])
def test_objects_and_long_pickles_are_told(value: Any, protocol: int) -> None:
    raw = pickle.dumps(value, protocol=protocol)
    assert is_pickle(raw[:HEAD_BYTES])


@pytest.mark.parametrize(
    "raw",
    [
        b"cos\nsystem\n(S'id'\ntR.",
        b"(S'id'\nios\nsystem\n.",
        b"(cos\nsystem\nS'id'\no.",
        b"N0N0cos\nsystem\n(S'id'\ntR and then a text that is no pickle",
        b"N(1NNcos\nsystem\n.left on the stack, and text behind the end",
        b"X\x01\x00\x00\x00aX\x01\x00\x00\x00b\x93.no mark of its protocol",
    ],
)
def test_hostile_pickles_are_told(raw: bytes) -> None:
    assert is_pickle(raw)


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", "{}", "[]", "# Notes\n", "---\nbase_model: x\n---\n", "N", "None.",
        "Git v2.31.7 Release Notes\n",
        "CTEST_TRIGGER_SITE\n---\n\n.. versionadded:: 3.1\n\nNot used.\n",
        "cat\ndog\nbird\nox\n", "contents\nintroduction\nindex\nR.\n", "c1,c2\nc3,c4\n.5,.6\n",
        "Version 1.0\nPart one.\nVery good.\n", "(c) 2026\n", "It is what it is.\n", "0.5\n0.25\n",
    ],
)  # fmt: skip
def test_texts_are_none(text: str) -> None:
    assert not is_pickle(text.encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_taken(raw: bytes) -> None:
    is_pickle(raw)


@pytest.mark.parametrize("raw", [b"(", b"N0", b"(1", b"N2", b"L1\n"], ids=repr)
def test_hostile_opcodes_take_no_time(raw: bytes) -> None:
    start = time.process_time()
    is_pickle(raw * (HEAD_BYTES // len(raw)))
    assert time.process_time() - start < 2
