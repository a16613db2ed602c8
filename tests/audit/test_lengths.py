"""Lengths of prompts, against the tokenizer and numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from adapters import MODEL
from builders import record, write_jsonl
from transformers import AutoTokenizer

from pact_eval.audit.context import DataAuditSettings, DatasetSource, NamedTokenizer
from pact_eval.audit.dataset import audit_data
from pact_eval.audit.lengths import Lengths
from pact_eval.data.records import read_records
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE


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
