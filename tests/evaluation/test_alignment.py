"""Items of two runs side by side: what has to agree, and rates with unanswered items, by hand."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from messages import assert_says
from run_frames import frame_of

from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics, MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.arms.figure_results import ece_by_kind, main_comparison
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.joins import ItemMismatch, align, mismatch
from pact_eval.evaluation.registry import (
    ENSEMBLE,
    ENSEMBLE_CALIBRATED,
    SINGLE,
    SINGLE_CALIBRATED,
    MetricDecoding,
)
from pact_eval.evaluation.report import DecodedRates, accuracy_of_asked, other_decoding
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.estimate import Estimate


def run(**changes: Any) -> Predictions:
    columns: dict[str, Any] = {
        "id": list("abc"),
        "family": ["f1", "f1", "f2"],
        "reference": [0, 1, 0],
        "logits": [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]],
    }
    return Predictions.from_frame(frame_of(**columns | changes))


def test_items_are_put_in_the_order_of_the_first_run() -> None:
    other = run(
        id=list("cab"),
        family=["f2", "f1", "f1"],
        reference=[0, 0, 1],
        logits=[[3.0, 0.0], [1.0, 0.0], [2.0, 0.0]],
        domain=["x", "y", "z"],
    )
    assert mismatch(run(), other) is None
    aligned = align(run(), other)
    assert aligned.ids.tolist() == ["a", "b", "c"]
    assert aligned.logits[:, 0, 0].tolist() == [1.0, 2.0, 3.0]
    assert aligned.domain.tolist() == ["d"] * 3  # of the first run


@pytest.mark.parametrize(
    ("changes", "column", "differing"),
    [
        ({"reference": [0, 0, 0]}, "reference", ("b",)),
        ({"kind": ["choice", "score", "score"]}, "kind", ("b", "c")),
        ({"family": ["f1", "f1", "f3"]}, "family", ("c",)),
        ({"code_order": [[1, 0], [0, 1], [0, 1]]}, "the letter order of view 0", ("a",)),
        ({"logits": [[1.0, 0.0, 0.5], [2.0, 0.0], [3.0, 0.0]]}, "n_choices", ("a",)),
    ],
)
def test_what_differs_is_named_with_its_items(
    changes: dict[str, Any], column: str, differing: tuple[str, ...]
) -> None:
    different = mismatch(run(), run(**changes), names=("x", "y"))
    assert different == ItemMismatch("x", "y", column=column, differing=differing)
    with pytest.raises(InputError) as refused:
        align(run(), run(**changes), names=("x", "y"))
    assert_says(refused.value, "x and y differ in", column, f"{len(differing)} item", differing[0])


def test_unknown_orders_agree_with_any() -> None:
    assert mismatch(run(), run(code_order=[[], [], []])) is None


def test_other_items_are_counted_on_both_sides() -> None:
    other = run(id=["a", "z", "y"])
    different = mismatch(run(), other)
    assert different is not None
    assert (different.only_first, different.only_other) == (("b", "c"), ("y", "z"))
    assert_says(different, "2 items only in A (b, c), 2 only in B (y, z)")
    more = ItemMismatch("A", "B", only_first=("a",))
    assert_says(more, "1 item only in A (a), 0 only in B (none)")
    many = ItemMismatch("A", "B", only_first=tuple("abcdefgh"))
    assert_says(many, "8 items only in A", "...")


def test_unanswered_items_count_as_wrong() -> None:
    items = ScoredItems.of(run(), "single")  # right, wrong, right
    without = pl.DataFrame({"id": ["d", "e"], "family": ["f2", None]})
    rate = accuracy_of_asked(items, without)
    assert rate is not None
    assert rate.value == pytest.approx(2 / 5)
    assert (rate.n, rate.clusters) == (5, 3)  # f1, f2, and the family that is not known
    partly = without.with_columns(asked=pl.Series([4, 1]), right=pl.Series([3, 0]))
    counted = accuracy_of_asked(items, partly)
    assert counted is not None
    assert counted.value == pytest.approx((2 + 3) / (3 + 5))


def test_rates_name_the_views_that_they_rest_on() -> None:
    one = Estimate(0.5, 0.4, 0.6, 10, 5)
    estimates = {"accuracy": one, "pair_accuracy": one}
    assert DecodedRates.of("single", 4, estimates).k == 1
    together = DecodedRates.of("ensemble", 4, estimates)
    assert (together.k, together.decoding, together.repeats) == (4, "ensemble", 1)
    assert DecodedRates.of("single", 1, estimates, 3).decoding == "repeats"
    assert (other_decoding("single"), other_decoding("ensemble")) == ("ensemble", "single")


def row(
    arm: str,
    value: float,
    metric: str = "accuracy",
    decoding: MetricDecoding = SINGLE,
    group: str = "all",
    n: int | None = 20,
) -> MetricRow:
    return MetricRow(MetricCell(metric, arm, decoding, group), 17, value, n)


def test_published_rates_of_arms() -> None:
    metrics = ArmMetrics(
        MetricTable(
            [
                row("a", 0.8),
                row("b", 0.7, n=18),
                row("a", 0.10, "ece"),
                row("a", 0.05, "ece", SINGLE_CALIBRATED),
                row("b", math.nan, "ece"),
                row("a", 0.02, "view_tv", ENSEMBLE),
                row("b", 0.03, "view_tv", ENSEMBLE_CALIBRATED),
                row("a", 0.20, "ece", group="choice"),
                row("a", 0.9, group="choice", n=12),
                row("b", 0.30, "ece", group="score"),
                row("b", 0.5, group="score", n=8),
                row("a", 0.9, group="travel", n=30),
            ]
        )
    )
    means = {entry.spec.name: entry for entry in main_comparison(metrics)}
    assert set(means) == {"accuracy", "ece", "view_tv"}
    assert (means["accuracy"].items, means["accuracy"].families) == (20, None)
    assert [arm.mean for arm in means["accuracy"].arms] == [0.8, 0.7]
    assert [arm.calibrated for arm in means["accuracy"].arms] == [None, None]
    of_ece = means["ece"].arms[0].calibrated
    assert of_ece is not None
    assert (means["ece"].arms[0].mean, of_ece.mean) == (0.10, 0.05)
    of_tv = [arm.calibrated for arm in means["view_tv"].arms]
    assert of_tv[0] is None
    assert of_tv[1] is not None
    assert of_tv[1].mean == 0.03
    kinds = ece_by_kind(metrics)
    assert {name: items for name, (items, _) in kinds.kinds.items()} == {
        "all": 20,
        "choice": 12,
        "score": 8,
    }
    assert (kinds.items, kinds.families) == (20, None)
    assert kinds.kinds["choice"][1][0].mean == 0.20
    for refuses in (main_comparison, ece_by_kind):
        with pytest.raises(InputError, match="decoding single"):
            refuses(ArmMetrics(MetricTable([row("a", 1.0, "nll_nats")])))


def test_arms_of_a_table_by_hand() -> None:
    metrics = ArmMetrics(MetricTable([row("b", 0.5), row("a", 0.6), row("a", 0.7, group="score")]))
    assert metrics.arms == ("b", "a")
    assert metrics.main_arm() == "b"
    assert metrics.main_arm("a") == "a"
    with pytest.raises(InputError) as refused:
        metrics.main_arm("c")
    assert_says(refused.value, "'c'", "b, a")
    with pytest.raises(InputError, match="none"):
        ArmMetrics(MetricTable([])).main_arm()
    base = MetricRow(MetricCell("accuracy", "base", SINGLE, "all"), None, 0.4)
    unseeded = ArmMetrics(MetricTable([base, row("a", 0.6)]))
    assert unseeded.main_arm() == "a"
    assert unseeded.seeds("base") == (None,)
    assert ArmMetrics(MetricTable([base])).main_arm() == "base"
    assert metrics.known_decodings("accuracy", (SINGLE, ENSEMBLE)) == (SINGLE,)
    cell = MetricCell("accuracy", "a", SINGLE_CALIBRATED, "all")
    assert metrics.row(cell, 17).reason == "no calibrator"
    unknown = metrics.row(MetricCell("ece", "a", SINGLE, "all"), 17)
    assert_says(unknown.reason, "not known", "this decoding")
    gain = ArmMetrics(MetricTable([row("a", 0.6), row("a", 0.65, decoding=ENSEMBLE, n=7)]))
    difference = gain.row(MetricCell("ensemble_gain", "a", ENSEMBLE, "all"), 17)
    assert difference.value == pytest.approx(0.05)
    assert difference.n == 20
    kinds = metrics.by_group("kind").table.rows
    assert len(kinds) == 3
    assert len(metrics.by_group("domain").table.rows) == 2
