"""Requirements of a release: planted outcomes, random ones, and the numbers of the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from messages import assert_says
from run_frames import frame_of, other_items, rows, write_run

from pact_eval._json import Json
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.requirements import (
    Release,
    Requirement,
    judge_release,
    required_names,
)
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.folder import Run
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Provenance, Seal

NOT_WORSE = Requirement.not_worse("2")
Right = npt.NDArray[np.bool_]


def frame(right: Right, *, size: int = 1, copies: int = 1) -> pl.DataFrame:
    """Rows of a run that answers these items right, with a confidence of 80%.

    Args:
        right: of each item.
        size: items of a family.
        copies: how often each item occurs in its family.
    """
    items = np.repeat(np.arange(len(right)), copies)
    logit = np.log(4)
    return frame_of(
        id=[f"i{item:04}-{copy}" for copy, item in enumerate(items)],
        family=[f"f{item // size:04}" for item in items],
        domain=[f"d{item // size % 2}" for item in items],
        reference=[0] * len(items),
        logits=[[logit, 0.0] if right[item] else [0.0, logit] for item in items],
    )


def run_of(rows_of_run: pl.DataFrame, name: str = "new") -> Run:
    """A run in memory, with the seal that runs next to each other need."""
    views = Predictions.from_frame(rows_of_run)
    settings_of: dict[str, Json] = {"k": views.k, "data": {"sha256": "0" * 64}, "adapter": None}
    recorded = Provenance.of({"arm": name, "seed": 1, "settings": settings_of})
    digest = f"{abs(hash((rows_of_run.write_json(), name))):064x}"
    seal = Seal(digest, digest, digest, len(views), len(views) * views.k, views.k)
    return Run(Path(name), msgspec.structs.replace(recorded, seal=seal), views)


def judged(
    *frames: pl.DataFrame,
    require: Sequence[Requirement] = (NOT_WORSE,),
    by: str | None = None,
) -> Release:
    """The release of a new run, and of the one before it if there are two."""
    runs = [
        run_of(rows_of_run, name) for rows_of_run, name in zip(frames, ("new", "old"), strict=False)
    ]
    chosen = Settings(resamples=200, by=by or "kind")
    experiment = Experiment.read(runs, chosen, unique_labels=False)
    return judge_release(experiment, require, grouped=by is not None)


def outcomes(n: int, right: int) -> Right:
    return np.arange(n) < right


def bounds(*texts: str) -> list[Requirement]:
    return [Requirement.parse(text) for text in texts]


def test_a_large_improvement_passes_and_its_loss_fails() -> None:
    """200 items, 60% and 90% right: 30 points, although the margin is 2."""
    low, high = frame(outcomes(200, 120)), frame(outcomes(200, 180))
    better, worse = judged(high, low), judged(low, high)
    assert (better.verdict, worse.verdict) == ("PASS", "FAIL")
    assert better.judged[0].estimate.value == pytest.approx(0.3)
    assert_says(worse.answer, "FAIL", "new", "accuracy", "-30.0", "2 points")
    assert (better.wrong_in_all, worse.wrong_in_all) == (0, 60)
    assert worse.wrong[0].words == "i0120-120: 1 (80%), is 0" or len(worse.wrong) == 3


@pytest.mark.parametrize(("seed", "size"), [(1, 1), (2, 2), (3, 3), (4, 4)])
def test_an_improvement_of_any_items_never_fails(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    old = rng.random(40) < rng.random()
    new = old | (rng.random(40) < rng.random())
    release = judged(frame(new, size=size), frame(old, size=size))
    assert release.verdict != "FAIL"
    assert release.judged[0].estimate.value >= 0


@pytest.mark.parametrize("seed", range(4))
def test_copies_in_a_family_change_nothing(seed: int) -> None:
    """A copy of every item next to it says nothing new, so nothing moves."""
    rng = np.random.default_rng(seed)
    old, new = rng.random((2, 60)) < rng.uniform(0.6, 0.95, (2, 1))
    required = [NOT_WORSE, *bounds("accuracy=75")]
    once = judged(frame(new), frame(old), require=required)
    twice = judged(frame(new, copies=2), frame(old, copies=2), require=required)
    assert once.verdict == twice.verdict
    for one, copied in zip(once.judged, twice.judged, strict=True):
        assert one.test.finding == copied.test.finding
        ends = (copied.estimate.low, copied.estimate.high)
        assert ends == pytest.approx((one.estimate.low, one.estimate.high), abs=1e-9)


def test_a_run_is_not_worse_than_itself_if_there_are_enough_items() -> None:
    """No item differs: the score interval ends at t^2 / (n + t^2), 1.9% of 200 and 3.7% of 100."""
    many, few = frame(outcomes(200, 150)), frame(outcomes(100, 75))
    assert judged(many, many).verdict == "PASS"
    assert judged(few, few).verdict == "CANNOT TELL"


def test_floors_are_judged_by_the_interval_that_the_report_prints() -> None:
    """400 items, 80% right: Wilson's interval is [75.8, 83.6]."""
    run = frame(outcomes(400, 320))
    findings = {75: "PASS", 76: "CANNOT TELL", 83: "CANNOT TELL", 84: "FAIL"}
    verdicts = {
        floor: judged(run, require=bounds(f"accuracy={floor}")).verdict for floor in findings
    }
    assert verdicts == findings
    release = judged(run, require=bounds("accuracy=75", "brier=0.4", "ece=8", "nll=0.6"))
    evaluation = release.experiment.evaluation(release.new)
    for one in release.judged:
        assert one.estimate == evaluation.groups[0].estimates[one.requirement.metric]
        assert one.test.finding == "shown"


def test_the_change_is_that_of_the_comparison() -> None:
    rng = np.random.default_rng(3)
    new, old = (frame(rng.random(90) < 0.8, size=3) for _ in range(2))
    release = judged(new, old)
    comparison = release.experiment.comparisons.of_first[0]
    assert release.judged[0].estimate == comparison.groups[0].metrics["accuracy"].difference


def test_lower_is_better_for_losses() -> None:
    """A confidence of 80% where 80% are right: Brier is 0.32, and ECE 0."""
    run = frame(outcomes(400, 320))
    assert judged(run, require=bounds("brier=0.4")).verdict == "PASS"
    assert judged(run, require=bounds("brier=0.2")).verdict == "FAIL"
    over = frame(outcomes(400, 200))  # 80% sure, 50% right
    assert judged(over, require=bounds("ece=20")).verdict == "FAIL"
    assert judged(over, require=bounds("ece=40")).verdict == "PASS"
    assert_says(judged(over, require=bounds("ece=20")).answer, "ECE", "%", "at most 20%")


def test_flips_need_several_orders() -> None:
    assert judged(rows(1, families=60, skill=9.0), require=bounds("flips=10")).verdict == "PASS"
    assert judged(rows(1, families=60, skill=0.5), require=bounds("flips=10")).verdict == "FAIL"
    one = judged(frame(outcomes(200, 150)), require=bounds("flips=10"))
    assert one.verdict == "CANNOT TELL"
    assert_says(one.judged[0].value, "one view only")


def test_one_contradiction_fails_and_the_first_line_names_it() -> None:
    release = judged(frame(outcomes(400, 320)), require=bounds("accuracy=70", "ece=8", "brier=0.1"))
    assert release.verdict == "FAIL"
    assert [one.test.finding for one in release.judged] == ["contradicted", "shown", "shown"]
    assert_says(release.answer, "FAIL", "Brier", "at most 0.1")


def test_groups_are_required_one_by_one() -> None:
    """Domains d0 and d1 take turns: 95% and 70% right, 82.5% together."""
    at = np.arange(400)
    right = np.where(at % 2 == 0, at % 40 != 0, at % 20 > 5)
    run = frame(right)
    assert judged(run, require=bounds("accuracy=78")).verdict == "PASS"
    release = judged(run, require=bounds("accuracy=78"), by="domain")
    assert release.verdict == "FAIL"
    assert [one.group for one in release.judged] == ["d1", "d0"]
    assert [one.estimate.value for one in release.judged] == pytest.approx([0.7, 0.95])
    assert_says(release.answer, "d1", "70.0")
    good = judged(run, require=bounds("accuracy=60"), by="domain")
    assert_says(good.answer, "PASS", "accuracy at least 60%", "2 groups", "domain")
    both = judged(run, frame(right), require=[Requirement.not_worse("4")], by="domain")
    assert {one.group for one in both.judged} == {"d0", "d1"}
    assert both.verdict == "PASS"


def test_the_farthest_from_being_met_comes_first() -> None:
    """80% of 400: 79% and 75% are kept by the value, 82% is not; no pair is known."""
    texts = bounds("brier=0.33", "accuracy=82", "pairs=50")
    release = judged(frame(outcomes(400, 320)), require=[*texts, *bounds("ece=60")])
    names = [one.requirement.metric for one in release.judged]
    assert names == ["pair_accuracy", "accuracy", "brier", "ece"]
    assert release.verdict == "CANNOT TELL"
    assert_says(release.answer, "pair accuracy is not known", "2 more are not shown")


def test_few_families_cannot_tell() -> None:
    release = judged(frame(outcomes(400, 390), size=100), require=bounds("accuracy=50"))
    assert release.verdict == "CANNOT TELL"
    assert_says(release.judged[0].value, "4", "no interval")


def test_what_would_do_is_counted_in_what_is_independent() -> None:
    """85 of 100, at least 80%: the standard error must fall to 5 points / (1.96 + 0.84)."""
    items = judged(frame(outcomes(100, 85)), require=bounds("accuracy=80")).judged[0]
    assert items.test.needed is not None
    reach = 0.85 - items.estimate.low  # t of 99 degrees is 1.984
    assert items.test.needed == pytest.approx(100 * (2.8016 * reach / 1.9842 / 0.05) ** 2, abs=1)
    assert_says(items.result, "not shown", "about", "items")
    pairs = judged(frame(outcomes(100, 85), size=2), require=bounds("accuracy=80")).judged[0]
    assert_says(pairs.result, "not shown", "about", "groups")


@pytest.mark.parametrize(
    ("text", "metric", "bound"),
    [
        ("accuracy=85", "accuracy", 0.85),
        ("accuracy = 85 %", "accuracy", 0.85),
        ("flips=0.5%", "flip_rate", 0.005),
        ("flip_rate=1", "flip_rate", 0.01),
        ("nll=0.5", "nll_nats", 0.5),
        ("brier=.2", "brier", 0.2),
        ("pairs=70.5", "pair_accuracy", 0.705),
    ],
)
def test_bounds_are_read(text: str, metric: str, bound: float) -> None:
    requirement = Requirement.parse(text)
    assert (requirement.metric, requirement.than_before) == (metric, False)
    assert requirement.bound == pytest.approx(bound)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("accuracy=0.85", ("0.85%", "85%", "accuracy=0.85%", "accuracy=85")),
        ("accuracy", ("METRIC=VALUE", "accuracy", "ece", "flips")),
        ("acuracy=85", ("METRIC=VALUE", "acuracy=85")),
        ("ensemble_gain=1", ("METRIC=VALUE",)),  # neither direction is good
        ("accuracy=high", ("percentage", "high")),
        ("accuracy=0", ("above 0", "below 100")),
        ("accuracy=100", ("above 0", "below 100")),
        ("nll=50%", ("number", "nats")),
        ("nll=nan", ("number", "nan")),
    ],
)
def test_what_is_no_bound_is_refused(text: str, parts: Sequence[str]) -> None:
    with pytest.raises(InputError) as caught:
        Requirement.parse(text)
    assert_says(caught.value, *parts)


def test_points_of_a_margin() -> None:
    assert Requirement.not_worse("0.5 points").bound == pytest.approx(0.005)
    with pytest.raises(InputError) as caught:
        Requirement.not_worse("0.02")
    assert_says(caught.value, "0.02", "2", "write")
    for name in required_names():
        assert Requirement.parse(f"{name}=3").metric in required_names().values()


def test_what_cannot_be_judged_is_refused(tmp_path: Path) -> None:
    run = frame(outcomes(30, 20))
    with pytest.raises(InputError) as caught:
        judged(run)
    assert_says(caught.value, "the one before", "1")
    for twice in ([], bounds("ece=8", "ece=9")):
        with pytest.raises(InputError, match="each metric once"):
            judged(run, require=twice)
    others = [write_run(tmp_path / "a", rows(1)), write_run(tmp_path / "b", other_items(rows(2)))]
    experiment = Experiment.read(others, unique_labels=False)
    with pytest.raises(InputError, match="item"):
        judge_release(experiment, [NOT_WORSE])
    three = Experiment.read([run_of(run)] * 3, unique_labels=False)
    with pytest.raises(InputError, match="got 3"):
        judge_release(three, bounds("ece=8"))
