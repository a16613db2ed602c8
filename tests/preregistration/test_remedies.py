"""Hypotheses about remedies on runs with planted letter priors and order effects, by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from messages import assert_says
from preregistration.checks import criteria
from run_frames import frame_of, write_run

from pact_eval.errors import RecordError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.preregistration.criteria import parse_hypotheses
from pact_eval.preregistration.run_scorecard import judge_sources
from pact_eval.preregistration.scorecard import CheckComparison, HypothesisResult
from pact_eval.remedies.decodings import Remedy, cross_fitted, folds_of, remedied_items

SKILL = 1.0
PRIOR = np.array([3.0, 0.0, -3.0])
ORDERS = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
"""Answers at letters A, B and C in the views of every item."""


def planted(
    folder: Path, *, prior: np.ndarray, noise: bool, orders: np.ndarray = ORDERS[:2]
) -> Path:
    """Writes a run of 36 families in 6 source families: three answers, each of them once right.

    Args:
        folder: the run folder.
        prior: (3,) what a letter adds to the logit of the answer next to it.
        orders: the orders of the views.
        noise: whether view 0 lowers the logit of the right answer, by 1.5 or 2.5, and view 1 raises
            it by as much. Right answers are at every letter equally often, in both views, so that
            this has no letter prior.
    """
    columns: dict[str, list[Any]] = {
        name: [] for name in ("id", "family", "source_family", "reference", "view", "logits")
    }
    for family in range(36):
        right, source = family % 3, family // 6
        for view, order in enumerate(orders):
            logits = np.zeros(3)
            logits[right] = SKILL + noise * (1.5 + source % 2) * (2 * view - 1)
            logits[order] += prior
            for name, value in (
                ("id", f"i{family}"),
                ("family", f"f{family}"),
                ("source_family", f"s{source}"),
                ("reference", right),
                ("view", view),
                ("logits", logits.tolist()),
            ):
                columns[name].append(value)
    frame = frame_of(**columns).with_columns(
        code_order=pl.Series([orders[view].tolist() for view in columns["view"]])
    )
    return write_run(folder, frame, arm="a", seed=17)


def nll_of(logits: np.ndarray, right: int) -> float:
    """Returns -log softmax(logits)[right], in nats."""
    return math.log(np.exp(logits).sum()) - float(logits[right])


def result_of(tmp_path: Path, run: Path, text: str) -> HypothesisResult:
    path = tmp_path / "h.toml"
    path.write_text(text)
    return judge_sources(path, [run], Settings(resamples=400, seed=3)).scorecard["H1"]


def lower_nll(decoding: str, than: str) -> str:
    instead = f'{{ decoding = "{than}" }}'
    return criteria("nll_nats", instead, decoding=f'"{decoding}"', relation="lower")


def only(result: HypothesisResult) -> CheckComparison:
    (comparison,) = result.comparisons
    return comparison


def test_a_removed_letter_prior_is_supported_by_hand(tmp_path: Path) -> None:
    """The prior is all there is: without it, every view is softmax of the skill."""
    run = planted(tmp_path / "a", prior=PRIOR, noise=False)
    result = result_of(tmp_path, run, lower_nll("k1_additive", "k2"))
    removed = nll_of(np.array([SKILL, 0, 0]), 0)
    two = []
    for right in range(3):
        logits = np.zeros(3)
        logits[right] = SKILL
        for order in ORDERS[:2]:
            logits[order] += PRIOR / 2
        two.append(nll_of(logits, right))
    comparison = only(result)
    assert comparison.left.value == pytest.approx(removed, abs=1e-7)
    assert comparison.right.value == pytest.approx(np.mean(two), abs=1e-7)
    assert removed < np.mean(two)
    assert (result.verdict, result.shown) == ("SUPPORTED", "supported")
    assert comparison.interval is not None
    assert comparison.interval.high < 0
    assert comparison.interval.clusters == 36


def test_effects_of_single_orders_contradict_it_by_hand(tmp_path: Path) -> None:
    """There is no letter prior to remove, and two views cancel what one has."""
    run = planted(tmp_path / "a", prior=np.zeros(3), noise=True)
    result = result_of(tmp_path, run, lower_nll("k1_additive", "k2"))
    comparison = only(result)
    one = np.mean([nll_of(np.array([SKILL - size, 0, 0]), 0) for size in (1.5, 2.5)])
    assert comparison.left.value == pytest.approx(one, abs=1e-7)
    assert comparison.right.value == pytest.approx(nll_of(np.array([SKILL, 0, 0]), 0), abs=1e-7)
    assert (result.verdict, result.shown) == ("CONTRADICTED", "refuted")
    assert comparison.interval is not None
    assert comparison.interval.low > 0


def test_fits_come_from_other_source_families(tmp_path: Path) -> None:
    folder = planted(tmp_path / "a", prior=PRIOR, noise=True)
    (run,) = Experiment.read([folder]).runs
    folds = folds_of(run.predictions)
    assert (folds.unit, folds.number) == ("source family", 6)
    remedy = Remedy(1, prior="additive")
    expected = cross_fitted(run.predictions, remedy, folds).predictions
    items = remedied_items(run, remedy)
    assert np.array_equal(items.predictions.logits, expected.logits)


@pytest.mark.parametrize(
    ("metric", "decoding", "than", "parts"),
    [
        ("nll_nats", "k2_aditive", "k1", ("k2_aditive", "did you mean k2_additive?")),
        ("nll_nats", "k1", "k9_additive", ("decoding", "k9_additive")),
        ("view_tv", "k2", "k1", ("view_tv", "not of a remedy")),
        ("ablated_gap", "k2", "k1", ("ablated_gap", "references")),
        ("nll_nats", "k2", "k2", ("compares", "with itself")),
    ],
)
def test_what_no_run_can_show_is_refused_when_it_is_read(
    metric: str, decoding: str, than: str, parts: tuple[str, ...]
) -> None:
    instead = f'{{ decoding = "{than}" }}'
    text = criteria(metric, instead, decoding=f'"{decoding}"', relation="lower")
    with pytest.raises(RecordError) as error:
        parse_hypotheses(text, "h.toml")
    assert_says(error.value, *parts)


def test_a_run_of_too_few_views_lacks_data_and_says_why(tmp_path: Path) -> None:
    run = planted(tmp_path / "a", prior=PRIOR, noise=False)
    result = result_of(tmp_path, run, lower_nll("k2_additive", "k4"))
    assert result.verdict == "UNTESTED"
    assert_says(only(result).reason, "k4", "K = 4", "4 views or more, got 2")


@pytest.mark.parametrize(
    ("metric", "decoding", "reason"),
    [
        # The next views of two are the third and the fourth.
        ("flip_rate", "k2", "needs 4 views per item"),
        ("flip_rate", "k2_additive", "needs 4 views per item"),
        ("flip_rate", "k3", "needs 6 views per item"),
        ("pair_accuracy", "k3", "no complete pairs"),
    ],
)
def test_what_a_remedy_cannot_show_has_the_reason_of_its_decoding(
    tmp_path: Path, metric: str, decoding: str, reason: str
) -> None:
    orders = ORDERS[: int(decoding[1])]
    run = planted(tmp_path / "a", prior=PRIOR, noise=False, orders=orders)
    text = criteria(metric, '{ decoding = "k1" }', decoding=f'"{decoding}"', relation="lower")
    assert_says(only(result_of(tmp_path, run, text)).reason, f"({decoding}, all): {reason}")


def test_one_view_flips_between_two_views(tmp_path: Path) -> None:
    run = planted(tmp_path / "a", prior=PRIOR, noise=False, orders=ORDERS[:2])
    text = criteria("flip_rate", '{ decoding = "k2" }', decoding='"k1"', relation="higher")
    # The prior puts the answer at letter A first, another one in each view.
    assert only(result_of(tmp_path, run, text)).left.value == 1
