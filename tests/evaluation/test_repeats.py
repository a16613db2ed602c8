"""Repeats of one order: means over them, against each repeat as a run of its own."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from builders import write_jsonl
from messages import assert_says

from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import item_outcomes
from pact_eval.evaluation.items import ScoredItems, read_items
from pact_eval.evaluation.registry import REPEATS_NOT_VIEWS, REPEATS_OF_ONE_ORDER
from pact_eval.evaluation.settings import Settings
from pact_eval.importing.import_run import import_run
from pact_eval.runs.folder import read_run
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.estimate import ClusterText
from pact_reports.tables.order_runs import noise_note

FAMILIES, REPEATS, ANSWERS = 24, 3, 4
SETTINGS = Settings(resamples=60, seed=5)


def rows(seed: int, repeats: int = REPEATS, *, orders: bool = False) -> list[dict[str, Any]]:
    """Return rows of pairs; with `orders`, views after the first show other orders."""
    draw = np.random.default_rng(seed)
    records = []
    for item in range(2 * FAMILIES):
        for view in range(repeats):
            reference = item % ANSWERS
            weights = draw.random(ANSWERS) + np.eye(ANSWERS)[reference] * draw.random()
            order = draw.permutation(ANSWERS) if orders and view else np.arange(ANSWERS)
            records.append(
                {
                    "id": f"q{item:02}",
                    "family": f"f{item // 2:02}",
                    "variant": "counterfactual" if item % 2 else "base",
                    "reference": reference,
                    "probabilities": (weights / weights.sum()).tolist(),
                    "view": view,
                    "code_order": order.tolist(),
                }
            )
    return records


def imported(folder: Path, name: str, entries: list[dict[str, Any]], seed: int = 1) -> Path:
    path = write_jsonl(folder / f"{name}.jsonl", entries)
    import_run(path, folder / name, {"arm": name, "seed": seed})
    return folder / name


def one_repeat(entries: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    return [entry | {"view": 0} for entry in entries if entry["view"] == number]


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Return a run of repeats, and each repeat as a run of its own."""
    entries = rows(1)
    names = [f"repeat{number}" for number in range(REPEATS)]
    return [
        imported(tmp_path, "all", entries),
        *(imported(tmp_path, name, one_repeat(entries, at)) for at, name in enumerate(names)),
    ]


def estimates(folder: Path) -> dict[str, float]:
    experiment = Experiment.read([folder], SETTINGS)
    group = experiment.evaluation(experiment.runs[0]).groups[0]
    return {name: estimate.value for name, estimate in group.estimates.items()}


@pytest.mark.parametrize("metric", ["accuracy", "pair_accuracy", "nll_nats", "brier"])
def test_a_metric_is_the_mean_over_repeats(folders: list[Path], metric: str) -> None:
    together, *separate = (estimates(folder)[metric] for folder in folders)
    assert together == pytest.approx(np.mean(separate), abs=1e-12)
    assert len(set(separate)) > 1


def test_families_stay_the_unit(folders: list[Path]) -> None:
    experiment = Experiment.read([folders[0]], SETTINGS)
    evaluation = experiment.evaluation(experiment.runs[0])
    group = evaluation.groups[0]
    assert (group.items, group.answers, group.families) == (48, 144, FAMILIES)
    assert group.estimates["accuracy"].clusters == FAMILIES
    assert (evaluation.decoding_name, evaluation.repeats, evaluation.k) == ("repeats", 3, 3)
    assert [
        (rates_of_views.decoding, rates_of_views.k)
        for rates_of_views in experiment.rates(experiment.runs[0])
    ] == [
        ("repeats", 1),
        ("repeats_together", 3),
    ]


def test_repeats_say_nothing_about_orders(folders: list[Path]) -> None:
    experiment = Experiment.read([folders[0]], SETTINGS)
    run = experiment.runs[0]
    assert run.provenance.repeats
    for decoding in ("single", "ensemble"):
        estimates_of_repeats = experiment.evaluation(run, decoding).groups[0].estimates
        for name in ("view_tv", "flip_rate", "ensemble_gain"):
            assert np.isnan(estimates_of_repeats[name].value)
            assert estimates_of_repeats[name].reason == ClusterText(REPEATS_NOT_VIEWS)
    assert (experiment.order_effect(run).finding, experiment.order_audit(run).items) == (
        "one order",
        0,
    )
    conclusion = experiment.order(run)
    assert (conclusion.status, conclusion.reason) == ("cannot tell", REPEATS_OF_ONE_ORDER)
    assert conclusion.unchecked == ()


def test_other_orders_are_no_repeats(tmp_path: Path) -> None:
    """Nobody can ask the model of a log again, so no probe is named."""
    experiment = Experiment.read([imported(tmp_path, "orders", rows(2, orders=True))], SETTINGS)
    effect = experiment.order_effect(experiment.runs[0])
    assert (effect.finding, effect.floor.source) == ("no floor", "not in the log")
    (unchecked,) = experiment.order(experiment.runs[0]).unchecked
    assert unchecked.name == "repeats"
    assert_says(unchecked.reason, "no repeats", "one order")
    note = noise_note(effect)
    assert note is not None
    assert "probe" not in note
    assert not re.search(r"\d", note)  # the numbers are those of the conclusion and of the table
    run = read_run(experiment.runs[0].folder)
    assert not run.provenance.repeats
    assert not run.predictions.repeats
    one_in_other_order = rows(3)
    one_in_other_order[1]["code_order"] = [1, 0, 2, 3]
    run = read_run(imported(tmp_path, "nearly", one_in_other_order))
    assert not run.predictions.repeats


@pytest.mark.parametrize("decoding", ["single", "ensemble"])
def test_a_file_that_is_read_in_slices_has_the_same_numbers(
    folders: list[Path], decoding: Any
) -> None:
    run = read_run(folders[0])
    memory = ScoredItems.of(run.predictions, decoding)
    file = read_items(run.predictions_file, decoding, repeats=True)
    assert (memory.repeats, memory.n_items) == (file.repeats, file.n_items) == (3, 48)
    for name in ("accuracy", "nll_nats", "brier"):
        assert np.array_equal(memory.values[name], file.values[name])
    assert np.array_equal(memory.cluster, file.cluster)
    assert memory.asked == file.asked
    assert len(memory.pairs) == len(file.pairs) == FAMILIES * (3 if decoding == "single" else 1)


@pytest.mark.parametrize(("repeats", "orders"), [(1, False), (2, False), (3, False), (4, True)])
def test_differences_are_those_of_the_means(
    folders: list[Path], tmp_path: Path, repeats: int, orders: bool
) -> None:
    other = imported(tmp_path, "other", rows(7, repeats, orders=orders))
    experiment = Experiment.read([folders[0], other], SETTINGS)
    comparison = experiment.comparisons.of_first[0].groups[0]
    expected = [estimates(folder) for folder in (folders[0], other)]
    for name in ("accuracy", "pair_accuracy", "nll_nats"):
        comparison_of_metric = comparison.metrics[name]
        a, b = (expected_of_run[name] for expected_of_run in expected)
        assert comparison_of_metric.a.value == pytest.approx(a, abs=1e-12)
        assert comparison_of_metric.b.value == pytest.approx(b, abs=1e-12)
        assert comparison_of_metric.difference.value == pytest.approx(a - b, abs=1e-12)
        assert comparison_of_metric.difference.clusters == FAMILIES
    first, *others = experiment.comparisons.better_runs[0].of("accuracy")
    assert first.decoding == "repeats"
    assert bool(others) == (repeats in {2, 3} and not orders)


def test_numbers_of_views_are_those_of_a_run_next_to_repeats(
    folders: list[Path], tmp_path: Path
) -> None:
    """A run of orders has its flips, whether it is next to a run of repeats or alone."""
    orders = imported(tmp_path, "orders", rows(8, 4, orders=True))
    together = ArmMetrics.of_runs(Experiment.read([folders[0], orders], SETTINGS)).table.rows
    alone = ArmMetrics.of_runs(Experiment.read([orders], SETTINGS)).table.rows
    assert [repr(row) for row in together if row.cell.arm == "orders"] == [*map(repr, alone)]
    flips = [row.value for row in alone if row.cell.metric == "flip_rate"]
    assert flips
    assert min(flips) > 0


@pytest.mark.parametrize("decoding", ["single", "ensemble"])
def test_claims_name_the_repeats_that_both_runs_have(
    folders: list[Path], tmp_path: Path, decoding: Any
) -> None:
    """Of other runs, only view 0 is common: repeats do not count as views of several orders."""
    settings = replace(SETTINGS, decoding=decoding)

    def claims(other: Path) -> set[tuple[str, int, int]]:
        experiment = Experiment.read([folders[0], other], settings)
        conclusion = experiment.comparisons.better_runs[0]
        return {(claim.decoding, claim.k, claim.repeats) for claim in conclusion.claims}

    twice = imported(tmp_path, "twice", rows(7, 2))
    assert claims(twice) == {("repeats", 1, 3), ("repeats_together", 2, 2)}
    mean_or_view = {"single": ("repeats", 1, 3), "ensemble": ("ensemble", 1, 1)}[decoding]
    assert claims(imported(tmp_path, "orders", rows(8, 4, orders=True))) == {mean_or_view}
    assert claims(imported(tmp_path, "once", rows(9, 1))) == {mean_or_view}


def test_identical_repeats_do_not_narrow_an_interval(tmp_path: Path) -> None:
    """Three times the same answers are worth one: by families, nothing is added."""
    once = rows(9, 1)
    thrice = [entry | {"view": view} for entry in once for view in range(3)]
    experiments = [
        Experiment.read([imported(tmp_path, name, entries)], SETTINGS)
        for name, entries in (("once", once), ("thrice", thrice))
    ]
    reports = [
        experiment.evaluation(experiment.runs[0]).groups[0].estimates for experiment in experiments
    ]
    for name in ("nll_nats", "brier"):
        one, three = (estimates_of_run[name] for estimates_of_run in reports)
        assert (three.value, three.low, three.high) == pytest.approx((one.value, one.low, one.high))
    one, three = (estimates_of_run["accuracy"] for estimates_of_run in reports)
    assert three.high - three.low > 0.9 * (one.high - one.low)


def test_the_reference_of_several_right_answers_is_that_of_each_repeat() -> None:
    """By hand: 0 and 2 are right; repeat 1 prefers answer 0, repeat 2 answer 2."""
    frame = pl.DataFrame(
        {
            "id": ["a", "a"],
            "family": "f",
            "source_family": "s",
            "domain": "d",
            "kind": "choice",
            "variant": "base",
            "reference": 0,
            "accepted": [[0, 2], [0, 2]],
            "n_choices": 3,
            "view": [0, 1],
            "code_order": [[0, 1, 2]] * 2,
            "logits": [[3.0, 0.0, 1.0], [1.0, 0.0, 2.0]],
            "prompt_tokens": 9,
            "answer_mass": 1.0,
        }
    )
    rows_of_repeats = Predictions.from_frame(frame).repeats_as_items()
    assert rows_of_repeats.reference.tolist() == [0, 2]
    assert rows_of_repeats.logits.shape == (2, 1, 3)


def test_partly_answered_items_count_with_their_answers(tmp_path: Path) -> None:
    """By hand: q0 is right twice; q1 once of two, without an answer in the other repeat."""

    def row(name: str, view: int, probabilities: list[float] | None) -> dict[str, Any]:
        answer_columns = {"probabilities": probabilities, "code_order": [0, 1]}
        missing = {"status": "refused", "n_choices": 2}
        return {
            "id": name,
            "reference": 0,
            "view": view,
            **(answer_columns if probabilities else missing),
        }

    right, wrong = [0.9, 0.1], [0.2, 0.8]
    entries = [
        *(row("q0", 0, right), row("q0", 1, right), row("q1", 0, right), row("q1", 1, None)),
        *(row("q2", 0, wrong), row("q2", 1, right)),
    ]
    experiment = Experiment.read([imported(tmp_path, "run", entries)], SETTINGS)
    rates = experiment.rates(experiment.runs[0])[0]
    assert rates.accuracy.value == pytest.approx(3 / 4)
    assert rates.accuracy_of_asked is not None
    accuracy = rates.accuracy_of_asked
    assert accuracy.value == pytest.approx(4 / 6)
    assert (accuracy.n, accuracy.clusters) == (6, 3)


def test_the_items_of_a_page_are_over_all_repeats(folders: list[Path]) -> None:
    """By hand, from the rows: the answer of most repeats, how many are right, mean confidence."""
    experiment = Experiment.read([folders[0]], SETTINGS)
    (run,) = experiment.runs
    outcomes = item_outcomes(experiment, run)
    assert outcomes.right_repeats is not None
    views = run.predictions
    for item in range(len(views)):
        p = np.exp(views.log_probs_by_view[item])
        answers = p.argmax(axis=1).tolist()
        reference = views.reference[item]
        most = max(sorted(set(answers)), key=answers.count)
        assert outcomes.predicted[item] == most
        assert outcomes.correct[item] == (most == reference)
        assert outcomes.right_repeats[item] == answers.count(reference)
        assert outcomes.raw.confidence[item] == pytest.approx(p.max(axis=1).mean())
        assert outcomes.of_reference[item] == pytest.approx(p[:, reference].mean())
        sure = p.max(axis=1) >= 0.9
        assert outcomes.confident_error[item] == any(
            s and answer != reference for s, answer in zip(sure, answers, strict=True)
        )
    accuracy = experiment.evaluation(run).groups[0].estimates["accuracy"].value
    assert outcomes.right_repeats.sum() / (3 * len(views)) == pytest.approx(accuracy)


def test_letters_are_tested_on_items_next_to_a_run_of_repeats(
    folders: list[Path], tmp_path: Path
) -> None:
    """The rows of the other run are repeated for the comparison, not for its own numbers."""
    other = imported(tmp_path, "orders", rows(8, 4, orders=True))
    alone, beside = Experiment.read([other], SETTINGS), Experiment.read([folders[0], other])
    a, b = alone.order(alone.runs[0]), beside.order(beside.runs[1])
    assert (a.status, a.items) == (b.status, b.items)
    assert len(set(b.items)) == len(b.items) > 0
    own, same = (
        experiment.evaluation(experiment.runs[-1]).groups[0].estimates
        for experiment in (alone, beside)
    )
    for name in ("accuracy", "pair_accuracy", "flip_rate"):
        assert own[name].n == same[name].n
        assert own[name].low == pytest.approx(same[name].low)
    names = [beside.evaluation(run).decoding_name for run in beside.runs]
    assert names == ["repeats", "single"]
