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
from pact_eval.scoring import cpu
from pact_eval.scoring.engine import NaiveEngine, ScoredView
from pact_eval.scoring.model import LoadedModel, identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.scorer import largest_difference, one_by_one
from scoring.conftest import FIXTURES, HOLDOUT
from scoring.user_precision import user_precision


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
@pytest.mark.parametrize("onednn", [True, False])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_either_kernel_and_any_number_of_threads_stay_within(
    loaded: LoadedModel,
    views: list[EncodedView],
    onednn: bool,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MKL, or oneDNN where the probe allows it; against one plain pass per prompt."""
    ours = one_by_one(loaded.scorer.model, views)
    if not onednn:
        monkeypatch.setattr(cpu, "onednn_stays_float32", lambda: False)
    torch.set_num_threads(count)
    assert largest_difference(ours, loaded.scorer.score(views)) < LOGIT


USERS = ("highest", "high", "medium", "all=tf32", "mkldnn=bf16", "mkldnn.matmul=bf16")


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["this one", "one with AMX"])
@pytest.mark.parametrize("setting", USERS)
def test_a_precision_that_the_user_set_changes_no_logit(
    views: list[EncodedView], setting: str, processor: str, request: pytest.FixtureRequest
) -> None:
    """Of the scorer, of its check of engines, and of the plain pass that it is checked against."""
    if processor == "one with AMX":
        request.getfixturevalue("amx")
    fresh = identify(ModelRequest(FIXTURES / "adapters" / "pact")).load()
    ours = fresh.scorer.score(views)
    again = identify(ModelRequest(FIXTURES / "adapters" / "pact")).load()
    with user_precision(setting):
        theirs = again.scorer.score(views)
        plain = one_by_one(again.scorer.model, views)
    assert largest_difference(ours, theirs) < LOGIT
    assert largest_difference(ours, plain) < LOGIT
    assert again.scorer.facts["check"] == fresh.scorer.facts["check"]
    assert again.scorer.facts["name"] == "fork"


@pytest.mark.slow
@pytest.mark.usefixtures("amx")
def test_products_of_bfloat16_factors_exceed_the_tolerance_tenfold(
    loaded: LoadedModel, views: list[EncodedView]
) -> None:
    """Planted: what a user who sets `medium` on a processor with AMX has in other programs."""
    right = one_by_one(loaded.scorer.model, views)
    wrong: list[ScoredView] = []
    with user_precision("medium"):
        NaiveEngine(loaded.scorer.model).score(views, lambda _numbers, more: wrong.extend(more))
    assert largest_difference(right, wrong) > 10 * LOGIT


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
