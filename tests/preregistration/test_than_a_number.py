"""Checks against a number: `than = 0.85`, judged as `--require accuracy=85` is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from commands import runner
from messages import assert_says
from preregistration.checks import BASE, criteria, judged, row
from run_frames import rows, write_run

from pact_cli.main import main
from pact_eval.errors import RecordError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.requirements import Requirement, judge_release
from pact_eval.evaluation.settings import Settings
from pact_eval.preregistration.criteria import (
    Hypotheses,
    Hypothesis,
    parse_hypotheses,
)
from pact_eval.preregistration.registration import canonical_criteria, criteria_sha256
from pact_eval.preregistration.run_scorecard import judge_sources

FLOOR = replace(BASE, relation="not lower", than=0.85)


def of(text: str) -> Hypotheses:
    return parse_hypotheses(text, "mine.toml")


def test_a_number_is_read() -> None:
    (hypothesis,) = of(criteria(than="0.85", relation="not lower")).hypotheses
    assert hypothesis.checks[0].than == 0.85
    (difference,) = of(criteria(than="-0.02", more='minus = { arm = "b" }')).hypotheses
    assert difference.checks[0].than == -0.02


@pytest.mark.parametrize(
    ("than", "parts"),
    [
        ("85", ("than", "0 to 1", "85")),
        ("-0.02", ("than", "0 to 1", "-0.02")),
        ("true", ("than", "arm", "true")),
        ("nan", ("than", "0 to 1")),
        ('"0.85"', ("than", "0.85")),
    ],
)
def test_another_value_is_refused(than: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(RecordError) as caught:
        of(criteria(than=than))
    assert_says(caught.value, *parts)


def test_the_registered_criteria_have_the_number() -> None:
    one, other = (
        Hypotheses((Hypothesis("H", "t", "c", (replace(FLOOR, than=than),)),))
        for than in (0.85, 0.86)
    )
    assert '"than": 0.85' in str(canonical_criteria(one)).replace("'", '"')
    assert criteria_sha256(one) != criteria_sha256(other)


@pytest.mark.parametrize(
    ("value", "half", "conclusion"),
    [
        (0.90, 0.04, "SUPPORTED, shown"),
        (0.90, 0.06, "SUPPORTED, by value only"),
        (0.80, 0.06, "CONTRADICTED, by value only"),
        (0.80, 0.04, "CONTRADICTED, shown"),
    ],
)
def test_a_floor_by_hand(value: float, half: float, conclusion: str) -> None:
    result = judged(FLOOR, rows=[row("a", value)], half=half)
    assert result.conclusion == conclusion
    (comparison,) = result.comparisons
    assert comparison.difference == pytest.approx(value - 0.85)
    assert comparison.interval is not None
    assert comparison.interval.low == pytest.approx(value - 0.85 - half)


def test_the_second_of_two_failures_needs_a_wider_interval() -> None:
    """Two checks: each failure is judged at 2.5%, where the made-up half width is twice as wide."""
    other = replace(FLOOR, says="other", than=0.2, relation="higher")
    result = judged(FLOOR, other, rows=[row("a", 0.80)], half=0.04)
    assert result.shown != "refuted"
    assert judged(FLOOR, other, rows=[row("a", 0.75)], half=0.04).shown == "refuted"


def test_runs_are_judged_as_they_are_by_a_requirement(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", rows(1, families=60, skill=1.5), arm="a", seed=17)
    chosen = Settings(resamples=300)
    for floor in (40, 50, 60, 70, 80):
        path = tmp_path / "h.toml"
        path.write_text(criteria(than=str(floor / 100), relation="not lower"))
        (result,) = judge_sources(path, [folder], chosen).scorecard.results
        experiment = Experiment.read([folder], chosen)
        release = judge_release(experiment, [Requirement.parse(f"accuracy={floor}")])
        finding = {"PASS": "supported", "FAIL": "refuted", "CANNOT TELL": None}
        assert result.shown == finding[release.verdict]
        (comparison,) = result.comparisons
        (judged_one,) = release.judged
        assert comparison.interval is not None
        ends = (judged_one.estimate.low - floor / 100, judged_one.estimate.high - floor / 100)
        assert (comparison.interval.low, comparison.interval.high) == pytest.approx(ends)
    printed = runner(main)("scorecard", path, folder, "--resamples", 300, "--full").stdout
    assert_says(printed, "vs 80.0")
