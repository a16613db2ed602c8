"""What every aggregate metric has to keep, over one registry."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pact_eval.metrics import (
    aurc,
    brier,
    confidence,
    confident_errors,
    correct,
    decode_ensemble,
    decode_single,
    ece,
    expected_level_error,
    flipped,
    item_mean,
    level_error,
    log_softmax,
    nll_nats,
    pair_accuracy,
    pair_rows,
    pairwise_tv,
    rps,
    smooth_ece,
)

WIDTH = 4


@dataclass(frozen=True)
class Items:
    logits: npt.NDArray[np.float64]
    n_choices: npt.NDArray[np.int64]
    reference: npt.NDArray[np.int64]
    family: npt.NDArray[np.int64]
    is_base: npt.NDArray[np.bool_]

    def take(self, rows: npt.ArrayLike) -> "Items":
        return Items(*(values[np.asarray(rows, dtype=int)] for values in vars(self).values()))

    def log_probs(self) -> npt.NDArray[np.float64]:
        return decode_single(self.logits, self.n_choices)

    def sure_and_right(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        log_probs = self.log_probs()
        return confidence(log_probs), correct(log_probs, self.reference)


@dataclass(frozen=True)
class Metric:
    """An aggregate, its bounds, and where it is allowed to move or to be undefined."""

    compute: Callable[[Items], float]
    high: float = 1.0
    # What a duplicated file may change: AURC averages over coverages 1/n..1.
    duplication: bool = True
    # Which new names of the answers leave it alone: any, or for levels only the reverse order.
    relabelling: str = "any"
    # Undefined for some data with rows: no pair, no error, one view.
    sometimes_undefined: bool = False


def of_items(metric: Callable[..., npt.NDArray[Any]]) -> Callable[[Items], float]:
    return lambda items: item_mean(metric(items.log_probs(), items.reference))


def of_views(metric: Callable[..., npt.NDArray[Any]]) -> Callable[[Items], float]:
    return lambda items: item_mean(metric(log_softmax(items.logits, items.n_choices)))


def of_confidence(metric: Callable[..., float]) -> Callable[[Items], float]:
    return lambda items: metric(*items.sure_and_right())


def ensemble_accuracy(items: Items) -> float:
    log_probs = decode_ensemble(items.logits, items.n_choices)
    return item_mean(correct(log_probs, items.reference))


def accuracy_of_pairs(items: Items) -> float:
    pairs = pair_rows(items.family, items.is_base)
    return pair_accuracy(pairs, correct(items.log_probs(), items.reference))


METRICS = {
    "accuracy": Metric(of_items(correct)),
    "ensemble_accuracy": Metric(ensemble_accuracy),
    "pair_accuracy": Metric(accuracy_of_pairs, sometimes_undefined=True),
    "mean_confidence": Metric(lambda items: item_mean(items.sure_and_right()[0])),
    "nll_nats": Metric(of_items(nll_nats), high=np.inf),
    "brier": Metric(of_items(brier), high=2.0),
    "ece": Metric(of_confidence(ece)),
    "smooth_ece": Metric(of_confidence(smooth_ece)),
    "aurc": Metric(of_confidence(aurc), duplication=False),
    "confident_errors": Metric(
        of_confidence(partial(confident_errors, threshold=0.6)), sometimes_undefined=True
    ),
    "expected_level_error": Metric(
        of_items(expected_level_error), high=WIDTH - 1, relabelling="reverse"
    ),
    "rps": Metric(of_items(rps), high=WIDTH - 1, relabelling="reverse"),
    "level_error": Metric(of_items(level_error), high=WIDTH - 1, relabelling="reverse"),
    "pairwise_tv": Metric(of_views(pairwise_tv), sometimes_undefined=True),
    "flipped": Metric(of_views(flipped), sometimes_undefined=True),
}


@st.composite
def items(draw: st.DrawFn, least: int = 1, ties: bool = True) -> Items:
    """Draws items of 2 to 4 answers; with ties, coarse logits with imported zeros among them."""
    n, views = draw(st.integers(least, 12)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_choices = rng.integers(2, WIDTH + 1, n)
    logits = 2 * rng.standard_normal((n, views, WIDTH))
    if ties:
        logits = np.round(logits)
        # Answer 0 stays possible in every view, so that the ensemble is defined.
        logits[..., 1:][rng.random((n, views, WIDTH - 1)) < 0.2] = -np.inf
    return Items(
        logits=logits,
        n_choices=n_choices,
        reference=rng.integers(0, n_choices),
        family=rng.integers(0, max(1, n // 2), n),
        is_base=rng.random(n) < 0.5,
    )


def assert_same(name: str, actual: float, expected: float) -> None:
    np.testing.assert_allclose(
        actual, expected, rtol=1e-9, atol=1e-12, equal_nan=True, err_msg=name
    )


@pytest.mark.slow
@given(data=st.data())
def test_row_permutation_changes_nothing(data: st.DataObject) -> None:
    for ties in (True, False):
        sample = data.draw(items(ties=ties))
        shuffled = sample.take(data.draw(st.permutations(range(len(sample.reference)))))
        for name, metric in METRICS.items():
            assert_same(name, metric.compute(shuffled), metric.compute(sample))


@given(sample=items())
def test_duplication_changes_nothing(sample: Items) -> None:
    other_families = replace(sample, family=sample.family + 1000)
    twice = Items(
        *(
            np.concatenate(parts)
            for parts in zip(vars(sample).values(), vars(other_families).values(), strict=True)
        )
    )
    assert len(twice.reference) == 2 * len(sample.reference)
    for name, metric in METRICS.items():
        if metric.duplication:
            assert_same(name, metric.compute(twice), metric.compute(sample))


@pytest.mark.parametrize("relabelling", ["any", "reverse"])
@given(data=st.data())
def test_relabelling_the_answers_changes_nothing(relabelling: str, data: st.DataObject) -> None:
    # Without ties: those go to the lowest index, which is a matter of labels.
    sample = data.draw(items(ties=False))
    relabelled = replace(
        sample, logits=sample.logits.copy(), reference=np.empty_like(sample.reference)
    )
    for item, c in enumerate(sample.n_choices):
        new_index = np.arange(c)[::-1]
        if relabelling == "any":
            new_index = np.array(data.draw(st.permutations(range(c))))
        relabelled.logits[item][:, new_index] = sample.logits[item, :, :c]
        relabelled.reference[item] = new_index[sample.reference[item]]
    for name, metric in METRICS.items():
        if metric.relabelling == relabelling:
            assert_same(name, metric.compute(relabelled), metric.compute(sample))


@given(sample=items())
def test_values_stay_in_bounds(sample: Items) -> None:
    for name, metric in METRICS.items():
        value = metric.compute(sample)
        if np.isnan(value):
            assert metric.sometimes_undefined, name
        else:
            assert 0 <= value <= metric.high * (1 + 1e-12), name


@given(sample=items())
def test_one_row_is_the_value_of_that_row(sample: Items) -> None:
    row = sample.take([0])
    values = {name: metric.compute(row) for name, metric in METRICS.items()}
    for name, value in values.items():
        assert METRICS[name].sometimes_undefined or not np.isnan(value), name
    assert np.isnan(values["pair_accuracy"])
    assert values["aurc"] == 1 - values["accuracy"]


@given(sample=items())
def test_no_rows_are_undefined(sample: Items) -> None:
    for name, metric in METRICS.items():
        assert np.isnan(metric.compute(sample.take([]))), name
