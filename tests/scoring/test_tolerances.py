"""The tolerances of the tests: what follows from that of a logit, and faults that exceed them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from tolerances import LOGIT, NLL, PROBABILITY

from pact_eval.data.records import read_records
from pact_eval.prompts.encoding import EncodedView
from pact_eval.scoring.model import LoadedModel, identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.scorer import largest_difference, one_by_one
from scoring.conftest import FIXTURES, HOLDOUT


@pytest.mark.parametrize("answers", [2, 5, 26])
@pytest.mark.parametrize("seed", range(5))
def test_probabilities_and_nll_move_by_no_more_than_their_bounds(answers: int, seed: int) -> None:
    """By theory: the bounds hold for any logits, and two answers reach the first."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, answers)
    for signs in rng.choice([-1.0, 1.0], (200, answers)):
        before, after = (np.exp(z) / np.exp(z).sum() for z in (logits, logits + LOGIT * signs))
        assert np.abs(after - before).max() <= PROBABILITY * (1 + 1e-9)
        assert np.abs(np.log(after) - np.log(before)).max() <= NLL * (1 + 1e-9)
    low, high = (1 / (1 + math.exp(-odds)) for odds in (-LOGIT, LOGIT))
    assert high - low == pytest.approx(PROBABILITY)


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return identify(ModelRequest(FIXTURES / "adapters" / "pact")).load()


@pytest.fixture(scope="module")
def views(loaded: LoadedModel) -> list[EncodedView]:
    return list(loaded.source.encoder.encode(read_records(HOLDOUT)[:6], 4, 0))


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("precision", ["highest", "medium"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_either_kernel_and_any_number_of_threads_stay_within(
    loaded: LoadedModel, views: list[EncodedView], precision: str, count: int
) -> None:
    """MKL and oneDNN; against the scorer's own choice."""
    ours = loaded.scorer.score(views)
    torch.set_num_threads(count)
    torch.set_float32_matmul_precision(precision)
    try:
        theirs = one_by_one(loaded.scorer.model, views)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert largest_difference(ours, theirs) < LOGIT


@pytest.mark.slow
def test_small_faults_exceed_the_tolerance_tenfold(
    loaded: LoadedModel, views: list[EncodedView]
) -> None:
    """Planted: a token twice, the first token lost, and the letters in reverse order."""
    model = loaded.scorer.model
    right = one_by_one(model, views)
    faults = (
        [replace(view, token_ids=view.token_ids[:9] + view.token_ids[8:]) for view in views],
        [replace(view, token_ids=view.token_ids[1:]) for view in views],
        [replace(view, code_tokens=view.code_tokens[::-1]) for view in views],
    )
    for fault in faults:
        wrong = one_by_one(model, fault)
        for ours, theirs in zip(right, wrong, strict=True):
            assert np.abs(ours.logits - theirs.logits).max() > 10 * LOGIT
