"""Lengths of prompts, against the tokenizer and numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from adapters import MODEL
from builders import question, record, write_jsonl
from messages import assert_says
from transformers import AutoTokenizer

from pact_eval.audit import lengths as lengths_check
from pact_eval.audit.context import DataAuditSettings, DatasetSource, NamedTokenizer
from pact_eval.audit.dataset import audit_data
from pact_eval.audit.findings import CheckResult
from pact_eval.audit.lengths import Lengths
from pact_eval.data.records import read_records
from pact_eval.errors import PromptError
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE, ChatPrompts


def test_lengths_against_the_prompts_themselves(tmp_path: Path) -> None:
    states = ["The gate is open. " * (1 + number**2) for number in range(11)]
    rows = [record(f"f{number}-base", state=state) for number, state in enumerate(states)]
    path = write_jsonl(tmp_path / "train.jsonl", rows)
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    settings = DataAuditSettings(only=("lengths",), tokenizer=NamedTokenizer("tiny", tokenizer))
    (check,) = audit_data(DatasetSource.of_folder(tmp_path), settings).checks
    views = Encoder(tokenizer, NIMBLE, max_prompt_tokens=10_000).encode(read_records(path), 1, 0)
    tokens = [len(view.token_ids) for view in views]
    lengths: Lengths = check.measured
    assert (lengths.minimum, lengths.maximum) == (min(tokens), max(tokens))
    assert lengths.median == np.median(tokens)
    assert lengths.p99 == np.quantile(tokens, 0.99)
    too_long = [number for number, n in enumerate(tokens, start=1) if n > lengths.limit]
    assert [finding.place.line for finding in check.findings] == too_long


def checked(folder: Path, states: list[str]) -> CheckResult:
    rows = [record(f"f{number}-base", state=state) for number, state in enumerate(states)]
    path = write_jsonl(folder / "train.jsonl", rows)
    tokenizer = NamedTokenizer("tiny", AutoTokenizer.from_pretrained(MODEL))
    settings = DataAuditSettings(only=("lengths",), tokenizer=tokenizer)
    (check,) = audit_data(DatasetSource.of_paths([path]), settings).checks
    return check


def findings_of(result: CheckResult) -> list[tuple[str, int | None, str]]:
    return [(finding.code, finding.place.line, finding.actual) for finding in result.findings]


def test_a_prompt_of_the_limit_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is set to the tokens of the second of three prompts; windows of two records."""
    monkeypatch.setattr(lengths_check, "_WINDOW", 2)
    states = ["Open.", "The gate is open.", "The gate of the house is open."]
    free = checked(tmp_path, states)
    assert (findings_of(free), free.scope) == ([], "3 records at K = 1")
    tokens = [checked(tmp_path, [state]).measured.maximum for state in states]
    assert tokens == sorted(set(tokens))
    limit = tokens[1]
    monkeypatch.setattr(type(NIMBLE), "max_prompt_tokens", limit)
    result = checked(tmp_path, states)
    assert findings_of(result) == [("prompt-too-long", 3, f"{tokens[2]:,}")]
    assert result.findings[0].expected == f"a prompt of {limit:,} tokens at most"
    p99 = float(np.percentile(tokens, 99))
    assert result.measured == Lengths(tokens[0], tokens[1], p99, tokens[2], limit, k=1)


def test_prompts_that_bytes_alone_show_to_be_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A context of 10 MB took 7 to 10 GB before it was refused for its length."""
    tokenised: list[int] = []
    tokenise = ChatPrompts._tokenise

    def watched(self: ChatPrompts, texts: list[str]) -> list[list[int]]:
        tokenised.extend(map(len, texts))
        return tokenise(self, texts)

    monkeypatch.setattr(ChatPrompts, "_tokenise", watched)
    states = ["Open.", "The gate is open. " * 20_000, "Shut."]
    result = checked(tmp_path, states)
    assert 0 < max(tokenised) < 100_000
    ((code, line, text),) = findings_of(result)
    assert (code, line) == ("prompt-too-long", 2)
    assert text.endswith("bytes, not tokenised")
    measured, too_long = result.scope.split("; ")
    assert (measured, too_long.split()[0]) == ("2 records at K = 1", "1")
    assert_says(too_long, "more", "too long", "bytes alone")
    nothing = checked(tmp_path, states[1:2])
    assert (nothing.measured, nothing.counts) == (None, {"prompt-too-long": 1})


def test_more_answers_than_letters_are_left_out(tmp_path: Path) -> None:
    rows = []
    for n_answers in (26, 27):
        criteria = {f"answer_{n}": None for n in range(n_answers)}
        rows.append(record(f"f{n_answers}-base", decision=question(criteria=criteria)))
    write_jsonl(tmp_path / "train.jsonl", rows)
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    settings = DataAuditSettings(
        only=("lengths",), tokenizer=NamedTokenizer("tiny", tokenizer), k=3
    )
    (check,) = audit_data(DatasetSource.of_folder(tmp_path), settings).checks
    assert findings_of(check) == [("more-answers-than-letters", 2, "27")]
    assert "at most 26 answers" in check.findings[0].expected
    assert (check.scope, check.measured.k) == ("1 record at K = 3", 3)


def test_letters_of_several_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = "the letter A is no token"

    def refuse(*_: object) -> None:
        raise PromptError(message)

    monkeypatch.setattr(type(NIMBLE), "bind", refuse)
    result = checked(tmp_path, ["Open."])
    assert findings_of(result) == [("codes-not-single", None, message)]
    assert result.scope == "no prompt"
    assert str(result.findings[0].place) == "tiny"
