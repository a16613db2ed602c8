"""The order audit against floors by hand, noise that is drawn, and the numbers of other reports."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from evaluations import evaluate
from run_frames import predictions

from pact_eval._choices import Decoding
from pact_eval.evaluation.conclusions.order import (
    OrderAudit,
    noise_floor,
    order_audit,
    order_effect,
)
from pact_eval.evaluation.items import ScoredItems
from pact_eval.metrics import nll_nats, predicted
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Provenance
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.letter_preference import slot_preferences

DECODINGS: tuple[Decoding, ...] = ("single", "ensemble")
FLOAT32 = Provenance.of({"settings": {"dtype": "float32"}})


def probed(largest_tv: float, **changes: Any) -> Provenance:
    """Returns the provenance of a served run whose probe measured this noise."""
    floor = {"largest_tv": largest_tv, "flips": 1, "repeats": 5}
    probe: dict[str, Any] = {"floor": floor, "order": {"effect": "seen"}, **changes}
    return Provenance.of({"probe": probe})


def audited(views: Predictions, provenance: Provenance) -> OrderAudit:
    rng = np.random.default_rng(0)
    report = evaluate(views, decoding="single", by="kind", rng=rng, resamples=10)
    single, ensemble = (ScoredItems.of(views, how) for how in ("single", "ensemble"))
    effect = order_effect(report, provenance)
    picked = predicted(views.log_probs_by_view)
    slots = slot_preferences(views.code_order, picked, single.cluster, rng=rng)
    return order_audit(effect, slots, single, ensemble, rng=rng, resamples=10)


def with_probabilities(p: list[list[list[float]]]) -> Predictions:
    """Returns items of two answers in two orders, with these probabilities."""
    views = predictions(0, families=len(p) // 2, k=2)
    with np.errstate(divide="ignore"):
        logits = np.log(np.array(p))
    orders = np.broadcast_to([[0, 1], [1, 0]], logits.shape)
    ones = np.ones(len(p), dtype=np.int64)
    return replace(views, logits=logits, code_order=orders, n_choices=2 * ones, references=0 * ones)


def test_floors_by_hand() -> None:
    sure, near, tie = [0.9, 0.1], [0.54, 0.46], [0.5, 0.5]
    views = with_probabilities([[sure, tie], [near, sure], [tie, tie], [sure, sure]])
    audit = audited(views, probed(0.04))
    # 2 * 0.04 reaches the distance of the two best answers of items 1 and 2.
    assert audit.flip_floor == 0.5
    floors = {gain.spec.name: gain.floor for gain in audit.gains}
    assert floors["accuracy"] == 0.5
    assert floors["pair_accuracy"] == 1.0  # each pair has one such member
    p = np.array([0.9, 0.54, 0.5, 0.9])
    assert floors["nll_nats"] == pytest.approx(np.log((p + 0.04) / p).mean() - math.log(0.96))
    # Averages over the two orders, against view 0.
    change = next(gain.difference for gain in audit.gains if gain.spec.name == "nll_nats")
    # sqrt(0.9 * 0.5) / (sqrt(0.9 * 0.5) + sqrt(0.1 * 0.5)) = 3 / (3 + 1)
    mixed = math.sqrt(0.54 * 0.9) / (math.sqrt(0.54 * 0.9) + math.sqrt(0.46 * 0.1))
    expected = np.log([0.75, mixed, 0.5, 0.9]) - np.log(p)
    assert change.value == pytest.approx(-expected.mean())


def test_no_repeats_exceed_the_floors() -> None:
    rng = np.random.default_rng(2)
    t, k = 0.03, 4
    base = rng.dirichlet([1.0, 1.0, 1.0], 400)
    repeats = np.stack([base] + [base.copy() for _ in range(k - 1)], axis=1)
    for view in range(1, k):  # every repeat moves a mass of t at most from one answer to another
        source, target = rng.integers(3, size=(2, 400))
        moved = np.minimum(t, base[np.arange(400), source]) * 0.999 * (source != target)
        repeats[np.arange(400), view, source] -= moved
        repeats[np.arange(400), view, target] += moved
    views = predictions(0, families=200, k=k)
    orders = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1], [1, 0, 2]])
    views = replace(
        views,
        logits=np.log(np.maximum(repeats, 1e-9)),
        code_order=np.broadcast_to(orders, repeats.shape),
        n_choices=np.full(400, 3),
        references=np.zeros(400, dtype=np.int64),
    )
    audit = audited(views, probed(2 * t))  # two repeats differ by 2 t at most
    assert audit.effect.finding == "not shown"
    assert 0 < audit.effect.flip_rate.value <= audit.flip_floor
    for gain in audit.gains:
        assert abs(gain.difference.value) <= gain.floor
        assert not gain.beyond_floor
    assert not audit.flips_beyond_floor
    assert audit.slots.preferred == audit.slots.avoided == ()


def test_numbers_are_those_of_report_and_decodings() -> None:
    views = predictions(3, families=30, k=3)
    audit = audited(views, FLOAT32)
    report = evaluate(
        views, decoding="ensemble", by="kind", rng=np.random.default_rng(0), resamples=10
    )
    estimates = report.groups[0].estimates
    assert audit.effect.view_tv == estimates["view_tv"]
    assert audit.effect.flip_rate == estimates["flip_rate"]
    gains = {gain.spec.name: gain for gain in audit.gains}
    ends = [gains["accuracy"].difference, estimates["ensemble_gain"]]
    assert [ends[0].value, ends[0].low, ends[0].high] == pytest.approx(
        [ends[1].value, ends[1].low, ends[1].high]
    )
    for name, values in {
        "accuracy": [predicted(views.log_probs(how)) == views.reference for how in DECODINGS],
        "nll_nats": [nll_nats(views.log_probs(how), views.reference) for how in DECODINGS],
    }.items():
        single, ensemble = (float(np.mean(losses)) for losses in values)
        assert gains[name].single.value == pytest.approx(single)
        assert gains[name].ensemble.value == pytest.approx(ensemble)
        assert gains[name].difference.value == pytest.approx(ensemble - single)


@pytest.mark.parametrize(
    ("provenance", "tv"),
    [
        (probed(0.02), 0.02),
        (probed(0.02, end_largest_tv=0.05), 0.05),  # asked again at the end
        (probed(0.02, end_largest_tv=0.4, changed=True), 0.02),  # no noise, another model
        (FLOAT32, math.tanh(0.5e-4)),
        (Provenance.of({"probe": {"order": {}}}), math.nan),
    ],
)
def test_where_the_floor_is_from(provenance: Provenance, tv: float) -> None:
    assert noise_floor(provenance).tv == pytest.approx(tv, nan_ok=True)


def test_rounding_of_logits_moves_no_distribution_further_than_the_floor() -> None:
    rng, noise = np.random.default_rng(4), 0.125
    z = rng.normal(0, 2, (20_000, 2))
    z[0] = [noise / 2, -noise / 2]  # the worst case, if both logits move
    shift = noise * rng.choice([-1.0, 1.0], z.shape)
    shift[0] = [-noise, noise]
    p, q = (np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True) for scores in (z, z + shift))
    tv = 0.5 * np.abs(p - q).sum(axis=1)
    floor = noise_floor(Provenance.of({"settings": {"dtype": "bfloat16"}})).tv
    assert tv.max() == pytest.approx(floor)
    assert tv.argmax() == 0


@pytest.mark.parametrize(
    ("view_tv", "provenance", "finding"),
    [
        ((0.05, 0.03, 0.07), probed(0.02), "shown"),
        ((0.05, 0.03, 0.07), probed(0.04), "not shown"),
        ((0.05, math.nan, math.nan), probed(0.02), "shown"),  # all 9 families agree
        ((0.05, 0.03, 0.07), probed(0.0, order={"effect": "not seen"}), "identical"),
        ((0.0, math.nan, math.nan), probed(0.0), "identical"),
        ((0.05, 0.03, 0.07), Provenance.of({}), "no floor"),
        ((math.nan, math.nan, math.nan), probed(0.02), "one order"),
    ],
)
def test_findings_follow_interval_and_floor(
    view_tv: tuple[float, float, float], provenance: Provenance, finding: str
) -> None:
    report = evaluate(
        predictions(0, k=2), decoding="single", by="kind", rng=np.random.default_rng(0), resamples=9
    )
    everything = report.groups[0]
    estimates = {**everything.estimates, "view_tv": Estimate(*view_tv, 18, 9)}
    if math.isnan(view_tv[0]):  # without it, answers alone may still be known to change
        estimates["flip_rate"] = estimates["view_tv"]
    report = replace(report, groups=(replace(everything, estimates=estimates),))
    assert order_effect(report, provenance).finding == finding
    assert order_effect(replace(report, k=1), FLOAT32).finding == "one view"


def test_without_a_floor_nothing_is_beyond_it() -> None:
    audit = audited(predictions(3, families=9, k=2), Provenance.of({}))
    assert math.isnan(audit.flip_floor)
    assert not any(gain.beyond_floor for gain in audit.gains)
    assert not audit.flips_beyond_floor
