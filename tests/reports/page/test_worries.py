"""Worries against computations by hand, raised and not raised."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reports.figures.figure_runs import rows as simulated
from reports.figures.figure_runs import write_calibrator
from reports.tables.table_runs import frame_of, run_of, share
from run_frames import write_run

from pact_eval import metrics
from pact_eval.evaluation import collect_runs, evaluate
from pact_eval.preregistration import Registration
from pact_eval.stats import Estimate
from pact_reports.page import PageRequest
from pact_reports.page.diagnostics import GRAVITIES, WORRIES, Worry, WorryContext, all_worries
from pact_reports.page.diagnostics.gathering import pairs_alike
from pact_reports.page.diagnostics.of_comparisons import (
    Difference,
    registration_worries,
    seed_worries,
    undecided_worries,
    warning_worries,
)
from pact_reports.page.diagnostics.of_provenance import (
    contract_worries,
    missing_worries,
    setting_worries,
    version_worries,
)
from pact_reports.page.diagnostics.of_runs import (
    answer_mass_worries,
    calibration_worries,
    chance_worries,
    confident_error_worries,
    few_families_worries,
    flip_worries,
    same_answer_worries,
)
from pact_reports.page.item_columns import decoded
from pact_reports.tables.run_reports import EceChange, ece_change

NAN = math.nan


def estimate(value: float, low: float, high: float, n: int = 324, clusters: int = 162) -> Estimate:
    return Estimate(value, low, high, n, clusters, "bootstrap")


def raised(found: tuple[Worry, ...]) -> list[tuple[str, str]]:
    return [(each.kind, each.gravity) for each in found]


@pytest.mark.parametrize(
    ("mass", "gravity"),
    [([0.96, 0.86], None), ([0.9, 0.88], "serious"), ([0.5, 0.4], "grave"), ([NAN, NAN], None)],
)
def test_answer_mass(mass: list[float], gravity: str | None) -> None:
    found = answer_mass_worries("pact", np.array(mass))
    assert raised(found) == ([] if gravity is None else [("answer-mass", gravity)])


def test_answer_mass_says_number_and_threshold() -> None:
    (found,) = answer_mass_worries("pact", np.array([0.3, NAN, 0.5]))
    assert found.says.startswith("40.0% of the next-token probability falls on the answer codes")
    assert "90% or more is expected" in found.says
    assert found.run == "pact"


@pytest.mark.parametrize(
    ("flips", "of", "kind"), [(9, 100, None), (10, 100, "flips"), (0, 3, None), (1, 3, "flips")]
)
def test_flips(flips: int, of: int, kind: str | None) -> None:
    rate = estimate(flips / of, 0.01, 0.42, of, of // 2)
    found = flip_worries("pact", np.array([1.0] * flips + [0.0] * (of - flips)), rate)
    assert [each.kind for each in found] == ([] if kind is None else [kind])
    if found:
        said = f"{flips} of {of} items of {of // 2} families: {100 * flips / of:.1f} [1.0, 42.0] %"
        assert f"{said} (95% interval over families)" in found[0].says


def test_one_view_cannot_tell() -> None:
    found = flip_worries("pact", np.array([NAN, NAN]), estimate(NAN, NAN, NAN))
    assert raised(found) == [("one-view", "minor")]


def test_confident_errors() -> None:
    confidence = np.array([0.95] * 20 + [0.6] * 5)
    right = np.array([True] * 20 + [False] * 5)
    assert confident_error_worries("pact", confidence, right) == ()
    right[:2] = False
    (found,) = confident_error_worries("pact", confidence, right)
    assert found.gravity == "minor"
    assert (
        "2 of the 20 answers given with 90% or more are wrong (10.0%; 25 answers in all)"
        in found.says
    )
    right[:3] = False
    assert raised(confident_error_worries("pact", confidence, right)) == [
        ("confident-errors", "grave")
    ]


def test_chance() -> None:
    accuracy = {"choice": estimate(0.4, 0.31, 0.5), "boolean": estimate(0.55, 0.5, 0.6)}
    found = chance_worries("pact", accuracy, {"choice": 0.3, "boolean": 0.5})
    assert raised(found) == [("chance", "serious")]
    said = "accuracy on boolean (324 items, 162 families) is 55.0 [50.0, 60.0] % (95% interval"
    assert said in found[0].says
    assert "a guess among the answers has 50.0%, which the interval must lie above" in found[0].says
    (below,) = chance_worries("pact", {"score": estimate(0.1, 0.05, 0.19)}, {"score": 0.2})
    assert "has 20.0%, which lies wholly above that: worse than guessing" in below.says
    assert "must lie above" not in below.says
    agreed = replace(estimate(0.0, 0.0, 0.0, 6, 3), reason="every resample agrees")
    (sure,) = chance_worries("pact", {"score": agreed}, {"score": 0.2})
    assert "is 0.0 % (no interval: every resample agrees); a guess" in sure.says
    alone = {"score": estimate(0.2, NAN, NAN, 1, 1)}
    assert chance_worries("pact", alone, {"score": 0.3}) == ()


@pytest.mark.parametrize(
    ("same", "pairs", "is_raised"), [(24, 100, False), (25, 100, True), (0, 0, False)]
)
def test_same_answer(same: int, pairs: int, is_raised: bool) -> None:
    assert bool(same_answer_worries("pact", same, pairs)) == is_raised


def test_pairs_alike_against_hand_count(tmp_path: Path) -> None:
    # Of five pairs, two are right in both members; in three the second member is wrong, so that
    # both members get the answer that the first one's reference is.
    folder = run_of(tmp_path / "r", [True] * 4 + [True, False] * 3, arm="a", seed=1)
    (run,) = collect_runs([folder]).runs
    assert pairs_alike(run.scored()) == (3, 5)


@pytest.mark.parametrize(
    ("value", "low", "high", "gravity"),
    [
        (-0.01, -0.02, -0.001, None),
        (-0.01, -0.02, 0.01, None),
        (0.02, 0.01, 0.03, "serious"),
        (0.02, -0.01, 0.03, "minor"),
        (0.0, 0.0, 0.0, "minor"),
        (0.02, NAN, NAN, "minor"),
    ],
)
def test_calibration_goes_by_the_interval(
    value: float, low: float, high: float, gravity: str | None
) -> None:
    change = EceChange(0.05, estimate(0.05 + value, 0.0, 0.2), estimate(value, low, high))
    found = calibration_worries("pact", {"all": change})
    assert raised(found) == ([] if gravity is None else [("calibration", gravity)])
    for each in found:
        assert "ECE of all items (324 items, 162 families) is 5.0% before T(x)" in each.says
        assert f"and {5 + 100 * value:.1f}% after" in each.says
    if gravity == "serious":
        assert "+2.0 [+1.0, +3.0] points" in found[0].says


def test_a_kind_that_calibration_hurts_is_told() -> None:
    """As it was missed: all items gain, booleans go from 3.4% to 11.6%."""
    better = EceChange(0.072, estimate(0.071, 0.05, 0.12), estimate(-0.001, -0.02, 0.02))
    worse = EceChange(0.034, estimate(0.116, 0.06, 0.2), estimate(0.082, 0.02, 0.13, 114, 57))
    changes = {"all": better, "choice": better, "boolean": worse}
    (found,) = calibration_worries("pact", changes)
    assert found.gravity == "serious"
    said = "ECE of boolean items (114 items, 57 families) is 3.4% before T(x) and 11.6% after: +8.2"
    assert found.says.startswith(said)
    # One kind alone is all items, and is told once.
    assert len(calibration_worries("pact", {"all": worse, "boolean": worse})) == 1


def test_changes_of_ece_against_numpy(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", simulated(3, families=30), arm="a", seed=1)
    write_calibrator(folder)
    (run,) = collect_runs([folder]).runs
    before, after = run.scored(), run.scored(calibrated=True)
    rng = np.random.default_rng(5)
    change = ece_change(before, after, rng, 300)
    family = np.unique(before.predictions.family, return_inverse=True)[1]
    drawn = np.random.default_rng(5).integers(0, 30, (300, 30))
    found = []
    for sample in drawn:
        rows = np.concatenate([np.flatnonzero(family == each) for each in sample])
        ece = [metrics.ece(each.confidence[rows], each.correct[rows]) for each in (before, after)]
        found.append(ece[1] - ece[0])
    assert change.before == pytest.approx(metrics.ece(before.confidence, before.correct))
    assert [change.difference.low, change.difference.high] == pytest.approx(
        np.percentile(found, [2.5, 97.5])
    )


def test_intervals_are_those_of_the_report(tmp_path: Path) -> None:
    """With the resamples and the seed that were asked for, raw and calibrated."""
    folder = write_run(tmp_path / "a", simulated(3, families=30), arm="a", seed=1)
    write_calibrator(folder)
    collection = collect_runs([folder])
    request = PageRequest(collection, resamples=150, bootstrap_seed=4)
    (report,) = request.reports
    how = {"decoding": "single", "by": "kind", "resamples": 150}
    (run,) = collection.runs
    for calibrator in (None, run.calibrator):
        rng = np.random.default_rng(4)
        expected = evaluate(run.predictions, rng=rng, calibrator=calibrator, **how)  # type: ignore[arg-type]
        for group in expected.groups:
            if calibrator is None:
                assert group in report.evaluation.groups
            else:
                assert report.ece[group.name].after == group.estimates["ece"]
    worries = all_worries(WorryContext(collection, request.decoded, request.reports))
    (few,) = (each for each in worries if each.kind == "few-families")
    accuracy = report.estimates["accuracy"]
    assert f"to {100 * accuracy.low:.1f} to {100 * accuracy.high:.1f} %" in few.says


def test_letters_that_are_favoured_and_notes(tmp_path: Path) -> None:
    leaning = write_run(tmp_path / "a", simulated(1, arm="base", families=60), arm="a", seed=1)
    other = write_run(tmp_path / "b", simulated(2, arm="base", families=60), arm="b", seed=1)
    request = PageRequest(collect_runs([leaning, other]), resamples=100)
    worries = all_worries(WorryContext(request.collection, request.decoded, request.reports))
    p_values = [report.evaluation.letters.p_value for report in request.reports]
    told = [each.run for each in worries if each.kind == "letters"]
    labels = [run.label for run in request.collection.runs]
    assert told == [
        label for label, p_value in zip(labels, p_values, strict=True) if p_value < 0.05
    ]
    # Both runs hold the same items, of which some have two answers and four views.
    (note,) = (each for each in worries if "fewer code orders than views" in each.says)
    assert (note.run, note.gravity) == (None, "minor")
    assert note.says.startswith("every run: ")


def test_few_families() -> None:
    assert few_families_worries("pact", estimate(0.8, 0.7, 0.9, 200, 100)) == ()
    (found,) = few_families_worries("pact", estimate(0.8, 0.7, 0.9, 198, 99))
    assert found.says.startswith("198 items of 99 families, so that accuracy is known to 70.0 to ")
    (alone,) = few_families_worries("pact", estimate(1.0, NAN, NAN, 2, 1))
    assert alone.says.startswith("2 items of 1 family;")


def test_one_seed() -> None:
    assert seed_worries({"pact": [17, 18], "base": [None]}) == ()
    assert raised(seed_worries({"pact": [17]})) == [("one-seed", "serious")]


def test_differences_that_cover_zero() -> None:
    def found(low: float, high: float) -> tuple[Worry, ...]:
        return undecided_worries([Difference("pact", "ce", 17, estimate(0.02, low, high))])

    assert found(0.001, 0.04) == ()
    assert raised(found(-0.04, -0.001)) == [("worse", "serious")]
    assert "+2.0 [-4.0, -0.1] points of accuracy" in found(-0.04, -0.001)[0].says
    assert (
        "no interval: every resample agrees"
        in undecided_worries(
            [
                Difference(
                    "pact", "ce", 17, replace(estimate(0, 0, 0), reason="every resample agrees")
                )
            ]
        )[0].says
    )
    assert raised(found(-0.01, 0.05)) == raised(found(0.0, 0.04)) == [("undecided", "serious")]
    assert "pact against ce at seed 17: +2.0 [-1.0, +5.0] points" in found(-0.01, 0.05)[0].says
    assert "no interval" in found(NAN, NAN)[0].says


@pytest.mark.parametrize(
    ("status", "gravity"),
    [
        ("REGISTERED BEFORE THE RUNS", None),
        ("NOT REGISTERED", "serious"),
        ("NOT VERIFIABLE", "serious"),
        ("TAMPERED", "grave"),
        ("REGISTERED AFTER THE RUNS", "grave"),
    ],
)
def test_registration(status: Any, gravity: str | None) -> None:
    found = registration_worries(Registration(status, ("a claim differs",)))
    assert raised(found) == ([] if gravity is None else [("registration", gravity)])
    assert all("a claim differs" in each.says for each in found)


def test_warnings_of_a_collection() -> None:
    assert warning_worries((), (), same_items=True) == ()
    items = "item sets differ: 1 items only in A (x), 0 only in B (none)"
    found = warning_worries((items, "run: source families meet"), ("other",), same_items=False)
    assert raised(found) == [
        ("other-items", "grave"),
        ("other-data", "grave"),
        ("calibrator", "serious"),
    ]


WHOLE: dict[str, Any] = {
    "arm": "pact",
    "seed": 17,
    "source": "score",
    "settings": {
        "adapter": {"sha256": "ab"},
        "base": {"sha256": "cd"},
        "contract": {"fingerprint": "ef", "mismatch": None},
        "k": 4,
        "dtype": "float32",
        "order_seed": 0,
    },
    "versions": {"torch": "2.13.0", "numpy": "2.4"},
}


def changed(**settings: Any) -> dict[str, Any]:
    return WHOLE | {"settings": WHOLE["settings"] | settings}


def test_missing_provenance() -> None:
    assert missing_worries("pact", WHOLE) == ()
    assert missing_worries("base", changed(adapter=None) | {"seed": None}) == ()
    (found,) = missing_worries("x", changed(adapter={}) | {"arm": None, "seed": None})
    assert found.says == "run.json has no arm, no seed, no SHA-256 of the adapter"
    (found,) = missing_worries("x", WHOLE | {"source": "import"})
    assert "predictions were imported" in found.says


def test_contract_mismatch() -> None:
    assert contract_worries("pact", WHOLE) == ()
    found = contract_worries("pact", changed(contract={"mismatch": "another prompt"}))
    assert raised(found) == [("contract", "grave")]
    assert found[0].says.endswith("another prompt")


def test_settings_and_versions_that_differ() -> None:
    assert setting_worries({"a": WHOLE, "b": WHOLE}) == ()
    (found,) = setting_worries({"a": WHOLE, "b": changed(k=8)})
    assert found.says == "k differs between runs: 4 (a); 8 (b)"
    assert version_worries({"a": WHOLE, "b": WHOLE}) == ()
    newer = WHOLE | {"versions": {"torch": "2.14.0", "numpy": "2.4"}}
    (found,) = version_worries({"a": WHOLE, "b": newer, "c": WHOLE})
    assert found.says == "torch differs between runs: 2.13.0 (a; c); 2.14.0 (b)"
    (found,) = version_worries({"a": WHOLE | {"resumed_with_versions": {"torch": "3"}}})
    assert found.run == "a"


def test_all_worries_of_runs_gravest_first(tmp_path: Path) -> None:
    right = share(70, 80)
    a = run_of(tmp_path / "a", right, arm="a", seed=17, k=2, sure=4.0)
    frame = frame_of(right, k=2).with_columns(answer_mass=0.1)
    b = write_run(tmp_path / "b", frame, arm="b", seed=17)
    write_calibrator(a)
    collection = collect_runs([a, b])
    runs = [decoded(run, "single") for run in collection.runs]
    reports = PageRequest(collection, resamples=100).reports
    found = all_worries(WorryContext(collection, runs, reports))
    places = [(GRAVITIES.index(each.gravity), [*WORRIES].index(each.kind)) for each in found]
    assert places == sorted(places)
    kinds = {(each.kind, each.run) for each in found}
    assert ("answer-mass", "b, seed 17") in kinds
    assert ("answer-mass", "a, seed 17") not in kinds
    # 10 errors with confidence 0.98 among 80 answers: 12.5% of the confident ones are wrong.
    assert ("confident-errors", "a, seed 17") in kinds
    assert {each.kind for each in found} >= {"one-seed", "few-families"}


def test_every_worry_and_threshold_is_documented() -> None:
    root = Path(__file__).resolve().parents[3]
    text = (root / "docs" / "page.md").read_text(encoding="utf-8")
    for name, kind in WORRIES.items():
        assert f"| {kind.title} |" in text, name
