"""Tokens by number of views, against distinct prefixes counted one by one, and in real runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pact_eval.runs.folder import read_run
from pact_eval.scoring.model import ScoringModel, identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.score import score
from pact_eval.scoring.windows import WINDOW_RECORDS, ViewTokenCounter, read_dataset
from scoring.conftest import HOLDOUT, Make

_PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=12)


@given(_PROMPTS, st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_counts_against_the_distinct_prefixes_of_the_first_views(
    prompts: list[list[int]], k: int
) -> None:
    prompts = prompts[: len(prompts) // k * k]
    counter = ViewTokenCounter(k)
    counter.add(prompts)
    for views in range(1, k + 1):
        first = [tuple(ids) for row, ids in enumerate(prompts) if row % k < views]
        distinct = {ids[:end] for ids in first for end in range(1, len(ids) + 1)}
        assert counter.counts.prompts[views - 1] == sum(map(len, first))
        assert counter.counts.shared[views - 1] == len(distinct)


def test_windows_share_nothing() -> None:
    counter = ViewTokenCounter(1)
    counter.add([[1, 2, 3]] * (WINDOW_RECORDS + 1))
    assert counter.counts.shared == (6,)


@pytest.mark.slow
def test_all_views_of_a_run_cost_what_its_engine_counted(
    qwen3: Path, make_adapter: Make, tmp_path: Path
) -> None:
    model: ScoringModel = identify(ModelRequest(make_adapter(qwen3), str(qwen3), attention="fused"))
    score(model, read_dataset(HOLDOUT, k=3, limit=70), tmp_path / "run", labels={})
    provenance = read_run(tmp_path / "run").provenance
    tokens = provenance.view_tokens
    assert tokens is not None
    assert len(tokens.shared) == len(tokens.prompts) == 3
    assert tokens.shared[-1] == provenance.engine.tokens["floor"]
    assert tokens.prompts[-1] == provenance.engine.tokens["prompts"]
    assert list(tokens.shared) == sorted(tokens.shared)
