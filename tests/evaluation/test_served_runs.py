"""Reports on served runs: items of one order, items without an answer, rounded probabilities."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from messages import assert_says

from pact_eval import metrics
from pact_eval.calibration.runs import fit_on_run
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.items import read_items
from pact_eval.evaluation.notes import OneOrder, RoundedProbabilities, Unanswered, rounded_scores
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.folder import RunWriter
from pact_eval.runs.predictions import Predictions, with_censored_zeros
from pact_eval.runs.rows import SCHEMA, UNANSWERED

LOGITS = {  # item: kind, orders and logits of two views, canonical
    "a": ("choice", [(0, 1), (1, 0)], [(2.0, 0.0), (0.0, 1.0)]),  # flips
    "b": ("choice", [(0, 1), (1, 0)], [(2.0, 0.0), (2.0, 0.0)]),
    "c": ("boolean", [(0, 1), (0, 1)], [(3.0, 0.0), (3.0, 0.0)]),  # one order
    "d": ("boolean", [(0, 1), (0, 1)], [(0.0, 1.0), (0.0, 1.0)]),
}


def rows(logits: dict[str, Any] = LOGITS, *, without: tuple[str, ...] = ()) -> pl.DataFrame:
    records: list[dict[str, Any]] = []
    for item, (kind, orders, views) in logits.items():
        columns = {
            "id": item, "family": item, "source_family": "s", "domain": "d", "kind": kind,
            "variant": "base", "reference": 0, "n_choices": 2,
        }  # fmt: skip
        if item in without:
            nothing = {"view": 0, "code_order": [], "logits": []}
            records.append(columns | nothing | {"status": "failed", "reason": "no usable answer"})
            continue
        records += [
            columns | {"view": view, "code_order": list(order), "logits": list(z)}
            for view, (order, z) in enumerate(zip(orders, views, strict=True))
        ]
    schema = dict(SCHEMA) | {"logits": pl.List(pl.Float64())} | dict(UNANSWERED)
    return pl.DataFrame(records, schema=schema)


def written(folder: Path, frame: pl.DataFrame, **facts: Any) -> Path:
    settings: dict[str, Any] = {
        "k": frame["view"].n_unique(),
        "data": {"records": frame["id"].n_unique()},
    }
    with RunWriter(folder, settings, {"source": "score"}) as writer:
        writer.write_part(0, frame)
        writer.finish(1.0, facts)
    return folder


def experiment(*folders: Path, **settings: Any) -> Experiment:
    return Experiment.read(folders, Settings(resamples=60, **settings))


def test_view_metrics_are_of_items_that_are_shown_in_two_orders(tmp_path: Path) -> None:
    read = experiment(written(tmp_path / "run", rows()))
    evaluation = read.evaluation(read.runs[0])
    estimates = evaluation.groups[0].estimates
    # By hand: a flips and b does not; c and d say nothing of the order.
    assert (estimates["flip_rate"].value, estimates["flip_rate"].n) == (0.5, 2)
    p, q = 1 / (1 + math.exp(-2)), 1 / (1 + math.exp(1))
    assert estimates["view_tv"].value == pytest.approx((p - q) / 2)
    assert estimates["accuracy"].n == 4
    boolean = next(group for group in evaluation.groups if group.name == "boolean")
    assert math.isnan(boolean.estimates["flip_rate"].value)
    assert OneOrder(2, 2) in evaluation.notes
    # The letter test counts the only order of an item once.
    items = read.runs[0].scored("single")
    assert items.facts.of_item.tolist() == [0, 0, 1, 1, 2, 3]


def test_items_are_chosen_by_their_orders_and_not_by_whether_they_flip(tmp_path: Path) -> None:
    """100 items of one order, of which 10 flip: repeats say nothing of the order."""
    same, flip = [(2.0, 0.0), (2.0, 0.0)], [(2.0, 0.0), (0.0, 1.0)]
    one_order = [(0, 1), (0, 1)]
    logits = {f"r{n}": ("choice", one_order, flip if n < 10 else same) for n in range(100)}
    read = experiment(written(tmp_path / "repeats", rows(logits)))
    group = read.evaluation(read.runs[0]).groups[0]
    for name in ("flip_rate", "view_tv", "ensemble_gain"):
        assert math.isnan(group.estimates[name].value)
    assert_says(group.estimates["flip_rate"].reason, "no item", "two orders")
    # Of 20 more items in two orders, 5 flip.
    two_orders = [(0, 1), (1, 0)]
    more = {f"o{n}": ("choice", two_orders, flip if n < 5 else same) for n in range(20)}
    read = experiment(written(tmp_path / "both", rows(logits | more)))
    flips = read.evaluation(read.runs[0]).groups[0].estimates["flip_rate"]
    assert (flips.value, flips.n) == (0.25, 20)


ORDERS_OF_TWO = [(0, 1), (1, 0), (0, 1), (1, 0)]
ORDERS_OF_THREE = [(0, 1, 2), (2, 0, 1), (1, 2, 0), (0, 2, 1)]


def four_views() -> pl.DataFrame:
    """One item of two answers, whose views repeat, and one of three, whose views do not."""
    logs = {
        "two": [[0.9, 0.1], [0.5, 0.5], [0.9, 0.1], [0.5, 0.5]],
        "three": [[0.6, 0.3, 0.1], [0.4, 0.5, 0.1], [0.6, 0.3, 0.1], [0.6, 0.3, 0.1]],
    }
    items: dict[str, list[Any]] = {"two": [*ORDERS_OF_TWO], "three": [*ORDERS_OF_THREE]}
    records = [
        {
            "id": item, "family": item, "source_family": "s", "domain": "d", "kind": "choice",
            "variant": "base", "reference": 0, "n_choices": len(orders[0]), "view": view,
            "code_order": list(order), "logits": np.log(logs[item][view]).tolist(),
        }
        for item, orders in items.items()
        for view, order in enumerate(orders)
    ]  # fmt: skip
    return pl.DataFrame(records, schema=dict(SCHEMA) | {"logits": pl.List(pl.Float64())})


def test_view_tv_is_over_distinct_orders_wherever_it_is_computed(tmp_path: Path) -> None:
    # By hand. Two answers: one pair of orders, TV 0.4. Three answers: 3 of 6 pairs at TV 0.2.
    expected = [0.4, 0.1]
    folder = written(tmp_path / "run", four_views())
    run = experiment(folder).runs[0]
    assert run.scored().values["view_tv"].tolist() == pytest.approx(expected)
    for letters in (True, False):
        items = read_items(folder / "predictions.parquet", "ensemble", letters=letters)
        assert items.values["view_tv"].tolist() == pytest.approx(expected)
    # K = 2 to 4 show the same two orders of the first item; the others of the second, by hand.
    points = experiment(folder).sweep(run)
    tv = {point.k: point.group.estimates["view_tv"].value for point in points[1:]}
    means = {2: (0.4 + 0.2) / 2, 3: (0.4 + 0.4 / 3) / 2, 4: (0.4 + 0.1) / 2}
    assert tv == pytest.approx(means)


def test_two_runs_are_compared_on_the_items_that_both_show_in_two_orders(tmp_path: Path) -> None:
    local = {name: (kind, [(0, 1), (1, 0)], z) for name, (kind, _, z) in LOGITS.items()}
    local["d"] = ("boolean", [(0, 1), (1, 0)], [(0.0, 1.0), (1.0, 0.0)])  # flips, not compared
    runs = [written(tmp_path / "local", rows(local)), written(tmp_path / "served", rows())]
    read = experiment(*runs)
    flips = read.comparisons.of_first[0].groups[0].metrics["flip_rate"]
    assert (flips.a.value, flips.b.value, flips.difference.value) == (0.5, 0.5, 0.0)
    assert flips.a.n == flips.b.n == 2


def test_coverage_comes_first_and_unanswered_items_are_not_counted(tmp_path: Path) -> None:
    read = experiment(written(tmp_path / "run", rows(without=("b",))))
    evaluation = read.evaluation(read.runs[0])
    assert evaluation.notes[0] == Unanswered(3, {"failed": 1})
    assert evaluation.groups[0].estimates["accuracy"].n == 3


def test_items_that_one_run_left_unanswered_are_left_out_of_a_comparison(tmp_path: Path) -> None:
    runs = [
        written(tmp_path / "local", rows()),
        written(tmp_path / "served", rows(without=("b",))),
        written(tmp_path / "other", rows(without=("a",))),
    ]
    read = experiment(*runs)
    accuracy = read.comparisons.of_first[0].groups[0].metrics["accuracy"]
    assert accuracy.a.n == accuracy.b.n == 2
    assert [run.predictions.ids.tolist() for run in read.runs] == [["c", "d"]] * 3
    assert read.left_out is not None
    assert (read.left_out.items, read.left_out.runs) == (
        2,
        {str(runs[1]): 1, str(runs[2]): 1},
    )
    two = experiment(*runs[:2])
    assert two.left_out is not None
    assert (two.left_out.items, two.left_out.runs) == (1, {str(runs[1]): 1})


def test_nll_of_rounded_probabilities_has_bounds(tmp_path: Path) -> None:
    sent = {
        "a": [(0.97, 0.03)] * 2,
        "b": [(0.5, 0.5)] * 2,
        "c": [(0.0, 1.0)] * 2,
    }
    half = 0.005
    logs = {
        name: ("choice", [(0, 1), (1, 0)], [tuple(math.log(p or half) for p in view) for view in z])
        for name, z in sent.items()
    }
    run = written(tmp_path / "run", rows(logs), rounding={"decimals": 2, "views_with_zeros": 2})
    read = experiment(run)
    evaluation = read.evaluation(read.runs[0])
    (note,) = (note for note in evaluation.notes if isinstance(note, RoundedProbabilities))
    # By hand: the correct answer is the first; 0.97 was at most 0.975, beside at least 0.025.
    low = np.mean([-math.log(0.975), -math.log(0.505), -math.log(0.005)])
    assert list(note.nll) == pytest.approx([low, math.inf])
    assert (note.censored, note.undecided) == (1, 1)
    # The reference of b is either first or not; the wrong c is sure in any case.
    assert list(note.accuracy) == pytest.approx([1 / 3, 2 / 3])
    bounds = [(1 + 1 / 2 + 1 / 3) / 3, (1 + 1 / 2 + 2 / 3) / 3]
    assert list(note.aurc) == pytest.approx(bounds)


RNG = np.random.default_rng(5)


@pytest.mark.parametrize("decoding", ["single", "ensemble"])
@pytest.mark.parametrize("temperature", [None, 0.5])
def test_scores_before_rounding_are_within_their_bounds(
    decoding: Any, temperature: float | None
) -> None:
    """The source of truth is the scores of the probabilities before they were rounded."""
    n, k, width = 60, 2, 4
    exact = RNG.dirichlet(np.full(width, 0.7), (n, k))
    with np.errstate(divide="ignore"):
        sent = np.log(exact.round(2))
    logits = np.array([[with_censored_zeros(view, 2)[0] for view in item] for item in sent])
    views = predictions_of(logits)
    scale = None if temperature is None else np.full(n, temperature)
    bounds = rounded_scores(views, decoding, 2, scale)
    mean = np.log(exact[:, :1] if decoding == "single" else exact).mean(axis=1) / (temperature or 1)
    p = np.exp(mean) / np.exp(mean).sum(axis=1, keepdims=True)
    right = p.argmax(axis=1) == views.reference
    error_of_score = {
        "nll": -np.log(p[np.arange(n), views.reference]).mean(),
        "aurc": metrics.aurc(p.max(axis=1), right),
        "accuracy": right.mean(),
    }
    for name, value in error_of_score.items():
        low, high = getattr(bounds, name)
        assert low - 1e-12 <= value <= high + 1e-12, name
    assert bounds.aurc[1] - bounds.aurc[0] < 0.2


def predictions_of(logits: np.ndarray) -> Predictions:
    n, k, width = logits.shape
    names = np.array([f"i{row}" for row in range(n)], dtype=object)
    texts: dict[str, Any] = dict.fromkeys(
        ("ids", "family", "source_family", "domain", "kind", "variant"), names
    )
    return Predictions(
        **texts,
        n_choices=np.full(n, width),
        logits=logits,
        code_order=np.full((n, k, width), -1),
        prompt_tokens=np.full(n, math.nan),
        answer_mass=np.full((n, k), math.nan),
        references=np.array(RNG.integers(0, 2, n)),
    )


def test_a_comparison_says_which_run_was_rounded(tmp_path: Path) -> None:
    rounding = {"decimals": 2, "views_with_zeros": 0}
    runs = [
        written(tmp_path / "local", rows()),
        written(tmp_path / "served", rows(), rounding=rounding),
    ]
    read = experiment(*runs)
    notes = read.comparisons.of_first[0].notes
    assert [note.run for note in notes if isinstance(note, RoundedProbabilities)] == ["B"]
    effects = fit_on_run(runs[1], mode="scalar", decoding="single").effects
    assert [note.kind for note in effects[runs[1]].notes] == ["RoundedItems"]
    assert str(effects[runs[1]].notes[0]).endswith("no correct answer was rounded to 0")


def test_a_report_leaves_out_no_items_for_the_sake_of_another_run(tmp_path: Path) -> None:
    read = experiment(written(tmp_path / "run", rows(without=("b",))))
    assert read.left_out is None
    assert read.runs[0].predictions.ids.tolist() == ["a", "c", "d"]
