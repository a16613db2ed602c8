"""Diagnostics against computations by hand, raised and not raised."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from messages import assert_says
from reports.figures.figure_runs import rows as simulated
from reports.figures.figure_runs import write_calibrator
from reports.tables.table_runs import frame_of, run_of, share
from run_frames import write_run
from scipy import stats

from pact_eval import metrics
from pact_eval.evaluation import diagnostics as d
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.evaluation.conclusions.conclusion import Severity
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import Labels
from pact_eval.evaluation.notes import SmallGroups
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.provenance import Provenance
from pact_eval.stats.estimate import Estimate

NAN = math.nan


def estimate(value: float, low: float, high: float, n: int = 324, clusters: int = 162) -> Estimate:
    return Estimate(value, low, high, n, clusters)


def severities(diagnostics: Sequence[d.Diagnostic]) -> list[tuple[str, str]]:
    return [(diagnostic.kind, diagnostic.severity) for diagnostic in diagnostics]


@pytest.mark.parametrize(
    ("mean", "n", "severity"),
    [
        (0.91, 400, None),
        (0.9, 400, None),
        (0.89, 400, "info"),
        (0.8, 400, "warning"),
        (0.48, 400, "warning"),
        (0.4, 400, "critical"),
        (0.4, 3, "info"),
        (NAN, 400, None),
    ],
)
def test_answer_mass_is_judged_by_its_interval(mean: float, n: int, severity: str | None) -> None:
    """Families alike are worth one row each: 1.97 sqrt(0.4 * 0.6 / 400) is 4.8 points."""
    diagnostics = [*d.on_answer_mass("pact", np.full(n, mean), np.arange(n))]
    assert severities(diagnostics) == ([] if severity is None else [("answer-mass", severity)])
    assert all(
        diagnostic.numbers["mass"].value == pytest.approx(mean) for diagnostic in diagnostics
    )


def answers(confidence: Sequence[float], right: Sequence[bool], repeats: int = 1) -> ScoredItems:
    """Scored items of a family each, without views."""
    family = np.arange(len(right)) // repeats
    return ScoredItems(
        decoding="single",
        calibrator=None,
        k=1,
        families=Labels(family, pl.Series(np.unique(family).astype(str))),
        labels={},
        is_base=np.ones(len(right), dtype=bool),
        reference=np.ones(len(right), dtype=np.int64),
        predicted=np.array(right, dtype=np.int64),
        confidence=np.array(confidence),
        repeats=repeats,
    )


@pytest.mark.parametrize(
    ("wrong", "tests", "severity"),
    [(0, 1, None), (10, 1, "info"), (15, 1, "info"), (18, 1, "critical"), (18, 10, "info")],
)
def test_confident_errors_are_critical_by_wilsons_interval(
    wrong: int, tests: int, severity: Severity | None
) -> None:
    """18% of 100 answers less 6.4 points is above 10%; not so as one of 10 runs."""
    items = answers(
        [0.95] * 100 + [0.6] * 5, [False] * wrong + [True] * (100 - wrong) + [False] * 5
    )
    diagnostics = [*d.on_confident_errors("pact", items, tests)]
    assert severities(diagnostics) == ([] if severity is None else [("confident-errors", severity)])
    for diagnostic in diagnostics:
        numbers = diagnostic.numbers
        assert (numbers["wrong"], numbers["confident"], numbers["items"]) == (wrong, 100, 105)
        p, t = wrong / 100, stats.t.ppf(1 - 0.025 / tests, 99)
        low = p + t**2 / 200 - t * math.sqrt(p * (1 - p) / 100 + t**2 / 40_000)
        assert numbers["rate"].low == pytest.approx(low / (1 + t**2 / 100), abs=0.007)
        assert f"({100 - 5 / tests:g}% interval over families)" in diagnostic.text


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, 10])
def test_pages_of_calibrated_runs_are_rarely_critical(runs: int) -> None:
    """At the edge: all confidences are 0.9, and one answer in ten is wrong; 5%, less noise."""
    rng = np.random.default_rng(runs)
    critical = 0
    for _ in range(150):
        raised: list[d.Diagnostic] = []
        for _ in range(runs):
            items = answers([0.9] * 400, (rng.random(400) < 0.9).tolist())
            raised += d.on_confident_errors("a", items, runs)
        critical += any(diagnostic.severity == "critical" for diagnostic in raised)
    assert critical <= 0.07 * 150
    assert len(raised) == runs


def test_confident_errors_of_repeats_count_items() -> None:
    """Four items of three repeats: nine confident answers, two of them wrong, of one item."""
    confidence = [0.95, 0.95, 0.95, 0.95, 0.95, 0.6, 0.95, 0.95, 0.95, 0.95, 0.6, 0.6]
    right = [bool(flag) for flag in (1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 0)]
    (diagnostic,) = d.on_confident_errors("pact", answers(confidence, right, 3))
    numbers = diagnostic.numbers
    assert (numbers["wrong"], numbers["confident"], numbers["items"]) == (1, 4, 4)
    assert numbers["rate"].value == pytest.approx(2 / 9)
    assert numbers["rate"].clusters == 4
    assert diagnostic.severity == "info"
    text = diagnostic.text
    assert_says(text, "4 of 4 items", "confidence of 90%", "in 1 of them")
    assert "of these answers, 22.2 [" in text


@pytest.mark.parametrize(
    ("low", "high", "severity"),
    [
        (0.31, 0.5, None),
        (0.3, 0.5, "info"),
        (0.31, 0.39, "warning"),
        (0.28, 0.41, "info"),
        (0.05, 0.19, "warning"),
        (NAN, NAN, None),
    ],
)
def test_chance(low: float, high: float, severity: str | None) -> None:
    """A warning if all of the interval is less than 10 points above chance, here 30%."""
    diagnostics = [*d.on_chance("pact", "choice", estimate(0.35, low, high), 0.3)]
    assert severities(diagnostics) == ([] if severity is None else [("chance", severity)])


def test_pairs_with_the_same_answer_against_hand_count(tmp_path: Path) -> None:
    # Of five pairs, two are right in both members; in three the second member is wrong and gets
    # the answer of the first.
    folder = run_of(tmp_path / "r", [True] * 4 + [True, False] * 3, arm="a", seed=1)
    (run,) = Experiment.read([folder]).runs
    (few,) = d.on_same_answer("a", run.scored())
    numbers = few.numbers
    assert (few.severity, numbers["same"], numbers["pairs"]) == ("info", 3, 5)
    assert numbers["rate"].value == 0.6
    # 30 of 50: Wilson's lower end is 46%, above 25%; as one of 1,000 runs as well.
    folder = run_of(tmp_path / "s", [True] * 40 + [True, False] * 30, arm="a", seed=1)
    (run,) = Experiment.read([folder]).runs
    for tests in (1, 1000):
        (many,) = d.on_same_answer("a", run.scored(), tests)
        numbers = many.numbers
        assert (many.severity, numbers["same"], numbers["pairs"]) == ("warning", 30, 50)


def change_of(*groups: tuple[str, Estimate, float], brier: float = 1.0) -> Any:
    """A comparison of scores after and before T(x) that holds only what the rule reads."""

    def score(difference: Estimate, p: float) -> Any:
        side = estimate(0.1, 0, 0.2)
        return SimpleNamespace(
            a=side, b=side, difference=difference, evidence=SimpleNamespace(p_value=p)
        )

    return SimpleNamespace(
        groups=[
            SimpleNamespace(
                name=name,
                metrics={
                    "nll_nats": score(difference, p),
                    "brier": score(estimate(0.01, 0.001 if brier < 1 else -0.01, 0.02), brier),
                },
            )
            for name, difference, p in groups
        ]
    )


@pytest.mark.parametrize(
    ("value", "low", "high", "p", "severity"),
    [
        (-0.01, -0.02, -0.001, 0.01, None),
        (-0.01, -0.02, 0.01, 0.3, "info"),
        (0.02, 0.01, 0.03, 0.001, "warning"),
        (0.02, -0.01, 0.03, 0.3, "info"),
        (0.0, 0.0, 0.0, NAN, "info"),
        (0.02, NAN, NAN, NAN, "info"),
    ],
)
def test_calibration_is_judged_by_its_interval(
    value: float, low: float, high: float, p: float, severity: str | None
) -> None:
    diagnostics = [*d.on_calibration("pact", change_of(("all", estimate(value, low, high), p)))]
    assert severities(diagnostics) == ([] if severity is None else [("calibration", severity)])


def test_an_alarm_of_a_temperature_counts_all_its_tests_against_hand_adjustment() -> None:
    """Six tests: after two smaller p-values, Holm asks of the third one to be below 5% / 4."""
    better, worse = estimate(-0.04, -0.06, -0.02), estimate(0.082, 0.001, 0.13)
    rest = (("all", better, 0.001), ("choice", better, 0.001))
    assert [*d.on_calibration("pact", change_of(*rest, ("boolean", worse, 0.0126)))] == []
    (diagnostic,) = d.on_calibration("pact", change_of(*rest, ("boolean", worse, 0.0124)))
    assert (diagnostic.numbers["score"], diagnostic.severity) == ("nll_nats", "warning")


def test_a_worse_brier_score_is_an_alarm_too() -> None:
    change = change_of(("all", estimate(-0.04, -0.06, -0.02), 0.001), brier=0.02)
    (diagnostic,) = d.on_calibration("pact", change)
    assert (diagnostic.numbers["score"], diagnostic.severity) == ("brier", "warning")


def test_change_of_ece_against_numpy(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", simulated(3, families=30), arm="a", seed=1)
    write_calibrator(folder)
    experiment = Experiment.read([folder], Settings(resamples=300, seed=5))
    (run,) = experiment.runs
    before, after = run.scored(), run.scored(calibrated=True)
    change = d.calibration_change(experiment, run)
    assert change is not None
    ece = change.groups[0].metrics["ece"]
    family = np.unique(before.predictions.family, return_inverse=True)[1]
    drawn = np.random.default_rng(5).integers(0, 30, (300, 30))
    errors = []
    for sample in drawn:
        rows = np.concatenate([np.flatnonzero(family == name) for name in sample])
        errors.append(
            [
                metrics.ece(scores.confidence[rows], scores.correct[rows])
                for scores in (after, before)
            ]
        )
    assert ece.b.value == pytest.approx(metrics.ece(before.confidence, before.correct))
    gaps = [np.bincount(family, scores.confidence - scores.correct) for scores in (after, before)]
    signs = [np.sign(gap.sum()) for gap in gaps]
    of_gaps = signs[0] * signs[1] * stats.pearsonr(*gaps)[0]
    r = min(stats.pearsonr(*np.transpose(errors))[0], of_gaps)
    a, b = ece.a, ece.b
    assert isinstance(a, CalibrationError)
    assert isinstance(b, CalibrationError)
    ends = []
    for sign in (-1, 1):
        one, other = (a, b) if sign > 0 else (b, a)
        up, down = (
            one.high - one.debiased,
            max(other.debiased - other.low, other.high - other.debiased),
        )
        ends.append(a.debiased - b.debiased + sign * math.sqrt(up**2 + down**2 - 2 * r * up * down))
    possible = (min(a.low - b.high, 0.0), max(a.high - b.low, 0.0))
    expected = np.clip(ends, *possible).tolist()
    assert [ece.difference.low, ece.difference.high] == pytest.approx(expected)
    calibrated = experiment.evaluation(run, calibrated=True).groups[0].estimates["ece"]
    assert (ece.a.value, ece.a.low) == pytest.approx((calibrated.value, calibrated.low))


RECORDED: dict[str, Any] = {
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
COMPLETE = Provenance.of(RECORDED)


def changed(settings: dict[str, Any] | None = None, **recorded: Any) -> Provenance:
    return Provenance.of(
        RECORDED | {"settings": RECORDED["settings"] | (settings or {})} | recorded
    )


def test_contract_mismatch() -> None:
    assert [*d.on_provenance("pact", COMPLETE)] == []
    diagnostics = [*d.on_provenance("pact", changed({"contract": {"mismatch": "another prompt"}}))]
    assert severities(diagnostics) == [("contract", "critical")]
    assert_says(diagnostics[0].text, "another prompt")


def test_settings_and_versions_that_differ() -> None:
    assert [*d.on_settings({"a": COMPLETE, "b": COMPLETE})] == []
    (diagnostic,) = d.on_settings({"a": COMPLETE, "b": changed({"k": 8})})
    assert diagnostic.numbers == {"name": "k", "values": {"4": ["a"], "8": ["b"]}}
    newer = changed(versions={"torch": "2.14.0", "numpy": "2.4"})
    (different,) = d.on_settings({"a": COMPLETE, "b": newer, "c": COMPLETE})
    assert different.numbers["values"] == {"2.13.0": ["a", "c"], "2.14.0": ["b"]}
    (resumed,) = d.on_provenance("a", changed(resumed_with_versions={"torch": "3"}))
    assert_says(resumed.text, "resumed")


def test_diagnose_applies_every_rule(tmp_path: Path) -> None:
    right = share(70, 80)
    a = run_of(tmp_path / "a", right, arm="a", seed=17, k=2, sure=4.0)
    frame = frame_of(right, k=2).with_columns(answer_mass=0.1)
    b = write_run(tmp_path / "b", frame, arm="b", seed=17)
    write_calibrator(a)
    experiment = Experiment.read([a, b], Settings(resamples=100))
    diagnostics = d.diagnose(experiment)
    kinds = {(diagnostic.kind, diagnostic.run) for diagnostic in diagnostics}
    assert ("answer-mass", "b, seed 17") in kinds
    assert ("answer-mass", "a, seed 17") not in kinds
    # 10 errors with confidence 0.98 among 80 answers: 12.5%, and an interval that covers 10%.
    (confident,) = (one for one in diagnostics if one.kind == "confident-errors")
    assert (confident.severity, confident.run) == ("info", "a, seed 17")
    numbers = confident.numbers
    assert (numbers["wrong"], numbers["confident"], numbers["rate"].value) == (10, 80, 0.125)
    counts = Counter(diagnostic.kind for diagnostic in diagnostics)
    assert counts["one-seed"] == 2


@pytest.mark.parametrize(
    ("recorded", "missing"),
    [
        ({"seed": None}, ("seed",)),
        ({"arm": None}, ("arm",)),
        ({"seed": 0}, ()),
        ({"source": None}, ()),
        ({"source": "import"}, ("adapter, base model or contract",)),
    ],
)
def test_what_a_run_lacks_is_named(recorded: dict[str, Any], missing: tuple[str, ...]) -> None:
    diagnostics = [*d.on_provenance("x", changed(**recorded))]
    assert len(diagnostics) == bool(missing)
    for diagnostic in diagnostics:
        assert len(diagnostic.numbers["missing"]) == len(missing)
        assert_says(diagnostic.text, missing[0])
    # Neither an adapter nor a base is recorded: then a seed is missing too.
    nothing = Provenance.of({"arm": "x"})
    assert next(d.on_provenance("x", nothing)).text == "run.json has no seed"
    base = Provenance.of({"arm": "x", "base_model": "tiny"})
    assert [*d.on_provenance("x", base)] == []


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"k": 8}, "k"),
        ({"dtype": "bfloat16"}, "dtype"),
        ({"base": {"sha256": "other"}}, "base.sha256"),
        ({"contract": {"fingerprint": "other"}}, "contract.fingerprint"),
    ],
)
def test_every_setting_is_compared(settings: dict[str, Any], name: str) -> None:
    (diagnostic,) = d.on_settings({"a": COMPLETE, "b": changed(settings), "c": COMPLETE})
    assert diagnostic.numbers["name"] == name
    assert sorted(map(len, diagnostic.numbers["values"].values())) == [1, 2]
    # A run that does not record a setting differs from none.
    assert [*d.on_settings({"a": COMPLETE, "b": Provenance.of({})})] == []


def test_calibration_can_hurt_one_kind_only() -> None:
    better, worse = estimate(-0.04, -0.06, -0.02), estimate(0.082, 0.02, 0.13)
    rest = (("all", better, 0.001), ("choice", better, 0.001))
    (diagnostic,) = d.on_calibration("pact", change_of(*rest, ("boolean", worse, 0.001)))
    assert diagnostic.severity == "warning"
    assert diagnostic.numbers == {"group": "boolean", "score": "nll_nats", "difference": worse}
    # A single kind is all items, and is reported once.
    both = change_of(("all", worse, 0.001), ("boolean", worse, 0.001))
    assert len([*d.on_calibration("pact", both)]) == 1


def test_a_note_of_all_runs_is_told_once(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / arm, simulated(seed, arm="base", families=60), arm=arm, seed=1)
        for seed, arm in ((1, "a"), (2, "b"))
    ]
    diagnostics = d.diagnose(Experiment.read(folders, Settings(resamples=100)))
    notes = [diagnostic for diagnostic in diagnostics if diagnostic.kind == "notes"]
    assert [diagnostic.run for diagnostic in notes] == [None] * len(notes)
    assert {type(diagnostic.numbers["note"]) for diagnostic in notes} == {SmallGroups}


def test_runs_on_different_items(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / arm, simulated(1, families=families), arm=arm, seed=1)
        for arm, families in (("a", 6), ("b", 9))
    ]
    diagnostics = d.diagnose(Experiment.read(folders, Settings(resamples=100)))
    (different,) = (diagnostic for diagnostic in diagnostics if diagnostic.kind == "other-items")
    assert different.severity == "critical"
