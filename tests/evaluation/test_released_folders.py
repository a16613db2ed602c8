"""Files of a released folder about several runs: against facts, theory and hand, and bad ones."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from released_results import FACTS, facts, write_result_folder
from scipy.stats import binomtest

from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.arms.published import read_published
from pact_eval.evaluation.arms.released_folder import ReleasedComparison, read_released_folder
from pact_eval.evaluation.arms.released_results import (
    published_tests,
    released_curves,
    released_figures,
    released_reliability,
    released_risk_coverage,
    released_settings,
    released_splits,
    released_sweep,
    released_temperature_by_choices,
    released_temperature_by_length,
)
from pact_eval.schema import convert

Edit = Callable[[Any], None]


@pytest.fixture(scope="module")
def released(made_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_result_folder(made_files, tmp_path_factory.mktemp("released") / "results")


@pytest.fixture
def results(made_files: Path, tmp_path: Path) -> Path:
    return write_result_folder(made_files, tmp_path / "results")


@pytest.fixture(scope="module")
def metrics(released: Path) -> ArmMetrics:
    return read_published([released])


def edit(path: Path, change: Edit) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def with_value(keys: str, new: Any) -> Edit:
    """Return an edit of the value at a path of keys and places in lists."""

    def change(value: Any) -> None:
        *above, last = (int(key) if key.isdecimal() else key for key in keys.split("/"))
        for key in above:
            value = value[key]
        value[last] = new

    return change


def test_p_values_and_intervals_against_the_released_ones(metrics: ArmMetrics) -> None:
    result = published_tests(metrics, "pact_full")
    assert len(result.tests) == len(facts("comparisons")) == 9
    for test, fact in zip(result.tests, facts("comparisons"), strict=True):
        assert (test.control, test.seed) == (fact["run_b"], int(fact["seed"]))
        assert test.test.p_value == pytest.approx(float(fact["exact_p"]), rel=1e-9)
        ends = [round(324 * end) for end in (test.interval.low, test.interval.high)]
        assert ends == [int(fact["low"]), int(fact["high"])]
    again, other, errors = result.notes
    assert "9 of 9 published intervals" in again
    assert other == (
        "base_model is another run than in its results: 63.9% correct here, 66.4% there."
    )
    assert errors == ("base_model: 56 of 117 errors (48%) have a confidence of 0.901 or more.")


def comparison(right_a: Any, right_b: Any) -> dict[str, Any]:
    """Return two runs as they are published, with the p-value of scipy."""
    n, b, c = len(right_a), int((right_a & ~right_b).sum()), int((~right_a & right_b).sum())
    p = binomtest(b, b + c).pvalue if b + c else 1.0
    a_mean, b_mean = float(right_a.mean()), float(right_b.mean())
    group = {"n": n, "a_acc": a_mean, "b_acc": b_mean}
    return {
        "run_a": "a",
        "run_b": "b",
        "seed": None,
        "n": n,
        "accuracy_a": a_mean,
        "accuracy_b": b_mean,
        "mcnemar": {"b": b, "c": c, "exact_p": float(p)},
        "bootstrap": {"point": a_mean - b_mean, "ci95": [-1.0, 1.0]},
        "by_kind": {"choice": group},
    }


def test_random_runs_are_read_and_any_other_count_is_refused() -> None:
    """Property: two runs agree with themselves, and with no other b, c, accuracy or p."""
    rng = np.random.default_rng(59)
    for _ in range(60):
        n = int(rng.integers(1, 400))
        right_a, right_b = (rng.random(n) < rng.random() for _ in range(2))
        value = comparison(right_a, right_b)
        read = convert(value, ReleasedComparison)
        assert (read.test.both, read.test.neither) == (
            (right_a & right_b).sum(),
            (~right_a & ~right_b).sum(),
        )
        b, c, p = value["mcnemar"].values()
        for keys, new in (
            ("mcnemar/b", b + 1),
            ("mcnemar/c", c + 1),
            ("mcnemar/exact_p", p / 2),
            ("accuracy_a", value["accuracy_a"] / 2 + 0.3),
            ("bootstrap/point", value["bootstrap"]["point"] + 0.5 / n),
            ("by_kind/choice/n", n + 1),
            ("n", n + 1),
        ):
            other = json.loads(json.dumps(value))
            with_value(keys, new)(other)
            with pytest.raises(ValueError, match="expected"):
                convert(other, ReleasedComparison)


def test_confident_errors_of_another_run_are_not_counted(results: Path) -> None:
    """More wrong answers than errors, and a control without an error."""
    perfect = comparison(np.array([True, False]), np.array([True, True])) | {"run_a": "pact_full"}

    def change(value: Any) -> None:
        value["comparisons"].append(perfect)
        wrong = value["confidently_wrong"]
        wrong |= {"b": wrong["base_model"][:1], "base_model": wrong["base_model"] * 3}

    edit(results / "significance.json", change)
    result = published_tests(read_published([results]), "pact_full")
    assert result.tests[-1].control == "b"
    assert not [note for note in result.notes if "errors" in note]


def test_a_group_with_another_accuracy_is_another_run(results: Path) -> None:
    """Two kinds that change places in one run, by hand: the mean of all items stays."""

    def swap(value: Any) -> None:
        kinds = value["comparisons"][3]["by_kind"]
        moved = 2 / kinds["choice"]["n"], 2 / kinds["noul"]["n"]
        kinds["choice"]["b_acc"] += moved[0]
        kinds["noul"]["b_acc"] -= moved[1]

    edit(results / "significance.json", swap)
    notes = published_tests(read_published([results]), "pact_full").notes
    assert "ce_only has other accuracies by group here than in its results." in notes


def test_temperatures_against_the_paper_and_the_formula(results: Path) -> None:
    fact = FACTS["shipped_calibrator"]
    weights = {name: fact[name] for name in ("log_choices", "log_tokens")}
    weights["bias"] = [fact["bias"], 0.5413248538970947, 0.5413248538970947]
    calibrator = results / "runs" / "pact_full" / "seed-18" / "calibration.json"
    calibrator.write_text(json.dumps({"mode": "contextual", "weights": weights}))
    rows = [{"probabilities": [1 / c] * c} for c in (4, 2, 3, 6, 5, 2)]
    (results / "holdout_rows.json").write_text(json.dumps({"rows": rows}))
    published = read_published([results])
    runs = released_temperature_by_choices(published).runs
    (shipped,) = (run for run in runs if (run.arm, run.seed) == ("pact_full", 18))
    values = dict(
        zip(shipped.n_choices.tolist(), shipped.temperature.round(2).tolist(), strict=True)
    )
    assert values == {int(c): value for c, value in fact["temperatures"].items()}
    (training,) = (run for run in published.trainings if run.label == "pact_full, seed 18")
    by_length = released_temperature_by_length(published, training)
    for curve in by_length.curves:
        slopes = fact["log_choices"] * math.log(curve.n_choices)
        slopes += fact["log_tokens"] * np.log(curve.tokens / 1000)
        assert curve.temperature == pytest.approx(np.logaddexp(0, fact["bias"] + slopes))
        assert curve.tokens[-1] == FACTS["views"]["max_tokens"]
    assert [(curve.n_choices, curve.items) for curve in by_length.curves] == [
        *((2, 2), (3, 1), (4, 1), (5, 1), (6, 1))
    ]


def test_ece_of_released_bins_against_that_of_the_results(results: Path) -> None:
    fact = FACTS["calibrated_bins"]
    bins = [{"count": 0}] * fact["empty"] + [
        {
            "count": int(row["count"]),
            **{name: float(row[name]) for name in ("confidence", "accuracy")},
        }
        for row in facts("calibrated_bins")
    ]
    file = results / "figures" / "figure_data.json"
    edit(file, lambda value: value.update(reliability_calibrated=bins))
    (data,) = released_figures(read_published([results]))
    raw, calibrated = released_reliability(data).curves
    assert (raw.calibrated, calibrated.calibrated) == (False, True)
    assert calibrated.ece.value == pytest.approx(fact["ece"], abs=1e-12)
    assert calibrated.ece.n == 324


def test_curves_by_hand(results: Path) -> None:
    curve = {"aurc": 0.25, "curve": [{"coverage": 0.5, "risk": 0.0}, {"coverage": 1, "risk": 0.2}]}
    log = [{"step": 1, "cf_delta": 1.0}, {"step": 3, "cf_delta": 3.0, "pcr": 0.5}]
    file = results / "figures" / "figure_data.json"
    edit(file, lambda value: value.update(risk_coverage_calibrated=curve, train_log=log))
    published = read_published([results])
    (data,) = released_figures(published)
    _, after = released_risk_coverage(published, data)
    assert after.x.tolist() == [0.5, 1.0]
    assert after.arms[0].mean.tolist() == [0.0, 0.2]
    assert after.arms[0].mean_summary == 0.25
    rows = json.loads((results / "holdout_rows.json").read_text())["rows"]
    assert after.guessing == pytest.approx(
        1 - np.mean([1 / len(row["probabilities"]) for row in rows])
    )
    curves = released_curves(data)
    assert curves.terms.keys() == {"pc"}
    assert curves.distances["pair_margin"].steps.tolist() == [1, 3]
    assert curves.distances["pair_margin"].average[-1] == pytest.approx((0.9 * 1 + 3) / 1.9)


def test_the_sweep_against_the_released_numbers(metrics: ArmMetrics) -> None:
    result = released_sweep(metrics)
    accuracy, tv = result.sweeps
    for fact in facts("sweep"):
        k = int(fact["k"])
        for sweep, value in (
            (accuracy, int(fact["right"]) / 324),
            (tv, float(fact["permutation_tv"])),
        ):
            (arm,) = (arm for arm in sweep.arms if arm.arm == fact["name"])
            if k in arm.views:
                assert arm.means[arm.views.index(k)].mean == value
    assert [arm.views for arm in tv.arms] == [(2, 3, 4)] * 2
    assert [note.split(" is ")[0] for note in result.notes] == ["pact_full seed 18", "base_model"]


def test_splits_by_hand(results: Path) -> None:
    splits = {split.name: split for split in released_splits(read_published([results]))}
    counts = {
        name: (split.source_families, split.records, split.pairs, split.kinds)
        for name, split in splits.items()
    }
    assert counts == {
        "train": (30, 2334, 1167, (766, 796, 772)),
        "dev_select": (None, 116, 58, (26, 32, 58)),
        "dev_calib": (None, 226, 113, (64, 60, 102)),
        "train.jsonl": (34, 2676, 1338, (856, 888, 932)),
        "eval.jsonl": (6, 324, 162, (146, 114, 64)),
    }
    preflight = results / "preflight.json"
    edit(preflight, with_value("dataset/family_sizes", {"1": 2, "2": 1337}))
    edit(preflight, with_value("dataset/train_families", 1339))
    splits = {split.name: split for split in released_splits(read_published([results]))}
    assert splits["train"].families is None
    edit(preflight, with_value("dataset/family_sizes", {"1": 3, "2": 1337}))
    edit(preflight, with_value("dataset/train_families", 1340))
    edit(preflight, with_value("dataset/train_rows", 2677))
    with pytest.raises(InputError, match=r"train_rows: expected 2,676, .* got 2,677"):
        released_splits(read_published([results]))
    edit(preflight, with_value("dataset/train_rows", 2676))
    edit(preflight, with_value("dataset/family_sizes", {"2": 1338}))
    edit(preflight, with_value("dataset/train_families", 1338))
    edit(preflight, with_value("dataset/eval_rows", 325))
    with pytest.raises(InputError, match=r"eval_rows: expected 324, .* got 325"):
        released_splits(read_published([results]))
    preflight.unlink()
    splits = {split.name: split for split in released_splits(read_published([results]))}
    assert splits.keys() == {"train", "dev_select", "dev_calib", "holdout"}
    assert splits["train"].source_families is None


def test_settings_by_hand(metrics: ArmMetrics) -> None:
    settings = {setting.key: setting for setting in released_settings(metrics, "pact_full")}
    assert (settings["optim.epochs"].value, settings["optim.epochs"].others) == (
        "2.0",
        {"nimble_recipe": "1.0"},
    )
    assert settings["optim.seed"].value == "17; 18; 19"
    assert settings["optim.seed"].others == {}
    assert settings["data.necessity_views"].others.keys() == {"nimble_recipe", "ce_only", "no_nr"}
    assert settings["data.public_mix"].value == "–"
    assert not any(key.startswith(("runs", "output_dir", "seeds")) for key in settings)


MISSING: Mapping[str, Callable[[ArmMetrics], object]] = {
    "significance.json": lambda metrics: published_tests(metrics, "pact_full"),
    "ensemble_sweep.json": released_sweep,
    "holdout_rows.json": released_temperature_by_choices,
    "figures/figure_data.json": released_figures,
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_file_is_named_by_what_needs_it(results: Path, name: str) -> None:
    (results / name).unlink()
    with pytest.raises(InputError, match=Path(name).name):
        MISSING[name](read_published([results]))


@pytest.mark.parametrize("name", [*MISSING, "preflight.json"])
@pytest.mark.parametrize("text", ["", "[1", "{}}", '{"a": 1, "a": 2}', "\x00"])
def test_a_cut_file_is_refused(released: Path, tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    with pytest.raises(InputError, match=Path(name).name):
        read_released_folder(tmp_path)


FIGURES = "figures/figure_data.json"


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("significance.json", with_value("comparisons", {}), "comparisons: expected a list, got"),
        (
            "significance.json",
            with_value("comparisons/4/mcnemar/exact_p", 0.02),
            "mcnemar: exact_p: expected 0.00750818, from the other numbers, got 0.02",
        ),
        (
            "significance.json",
            with_value("comparisons/0/mcnemar/b", 300),
            "comparisons[0]: mcnemar: expected counts of 324 items, 0.8395 and 0.8395 correct, "
            "got b = 300 and c = 19",
        ),
        (
            "significance.json",
            with_value("comparisons/1/bootstrap/ci95", [0.1]),
            "comparisons[1]: bootstrap: ci95: expected a list of 2 values, got 1 values",
        ),
        (
            "significance.json",
            lambda value: value["comparisons"][2].pop("n"),
            "comparisons[2]: expected n, found none",
        ),
        (
            "ensemble_sweep.json",
            with_value("base_model/1/k", 1),
            "base_model: k: expected ascending whole numbers above 0",
        ),
        (
            "ensemble_sweep.json",
            with_value("base_model/2/permutation_tv", 17.0),
            "permutation_tv: expected a fraction in 0 to 1, got 17",
        ),
        (
            "preflight.json",
            with_value("dataset/train_rows", "2,676"),
            "dataset: train_rows: expected an integer, got text",
        ),
        (
            "preflight.json",
            with_value("dataset/train_rows", 2_675),
            "dataset: train_rows: expected 2676, from the other numbers, got 2675",
        ),
        (
            "preflight.json",
            with_value("contrastive_pairs", 1_339),
            "contrastive_pairs: expected 0 to 1,338, got 1,339",
        ),
        (
            "holdout_rows.json",
            with_value("rows/7/probabilities", []),
            "rows[7]: probabilities: expected one number per allowed answer, got none",
        ),
        (FIGURES, with_value("run_dir", "pact"), "run_dir: expected a path to ARM/seed-NUMBER"),
        (FIGURES, with_value("train_log/3/step", 1), "train_log: step: expected ascending"),
        (
            FIGURES,
            with_value("reliability_uncalibrated/14", {"count": 3}),
            "reliability_uncalibrated[14]: confidence: expected a fraction in 0 to 1, got nan",
        ),
        (
            FIGURES,
            with_value("risk_coverage_uncalibrated/curve/0/risk", -0.1),
            "risk: expected a fraction in 0 to 1, got -0.1",
        ),
    ],
)
def test_a_strange_file_is_refused_with_place_expectation_and_remedy(
    results: Path, name: str, change: Edit, expected: str
) -> None:
    edit(results / name, change)
    with pytest.raises(InputError) as refused:
        read_published([results])
    message = str(refused.value)
    assert message.startswith(f"{results / name}: ")
    assert expected in message
    assert message.endswith("; take the file from its release again, or remove it")


def test_figures_of_a_run_without_results_are_refused(results: Path) -> None:
    edit(results / FIGURES, with_value("run_dir", "runs/pact_full/seed-20"))
    with pytest.raises(InputError, match="run_dir: no results of pact_full, seed 20"):
        released_figures(read_published([results]))


def test_records_by_kind_that_do_not_add_up_are_refused(results: Path) -> None:
    path = results / "runs" / "no_nr" / "seed-17" / "results.json"
    edit(path, lambda value: value["views"]["primary_kinds"].update({"train/score": 771}))
    with pytest.raises(InputError, match=r"views: views: train/primary: expected 2,333"):
        read_published([results])
