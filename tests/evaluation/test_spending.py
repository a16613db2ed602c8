"""Price and latency of requests: by hand, by scipy, and how often a null difference is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from commands import runner
from evaluation.test_requirements import frame, run_of
from messages import assert_says
from scipy import stats

from pact_cli.main import main
from pact_eval.api import import_run
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.requirements import Requirement, judge_release
from pact_eval.evaluation.settings import Settings
from pact_eval.evaluation.spending import Spending, compare_spending, spent

Numbers = npt.NDArray[np.float64]
run = runner(main)


def log(
    path: Path, price: Numbers, latency: Numbers, right: int = 10**9, failed: tuple[int, ...] = ()
) -> Path:
    """A log of two questions per request, with the right answers to the first ones."""
    lines: list[dict[str, Any]] = []
    for at, (cost, time) in enumerate(zip(price.tolist(), latency.tolist(), strict=True)):
        p = 0.9 if at < right else 0.1
        questions = {name: {"type": "noul", "instructions": f"{name}?"} for name in ("a", "b")}
        line: dict[str, Any] = {
            "id": f"t{at}",
            "label": {"a": True, "b": True},
            "price": cost,
            "latency_ms": time,
            "request": {"state": f"mail {at}", "questions": questions},
            "response": {"answers": {"a": {"noul": p}, "b": {"noul": p}}},
        }
        if at in failed:
            line |= {"response": None, "error": "timeout"}
        lines.append(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return import_run(path, path.with_suffix("")).folder


def compared(new: Path, old: Path, margin: float | None = None) -> Spending:
    experiment = Experiment.read([new, old], Settings(resamples=100, margin=margin))
    found = compare_spending(experiment, *experiment.runs)
    assert found is not None
    return found


def test_requests_count_once_and_failed_ones_too(tmp_path: Path) -> None:
    """21 requests of two questions: the median is the 11th latency, 95% are within the 20th."""
    latency = np.arange(1.0, 22.0)
    folder = log(tmp_path / "log.jsonl", latency / 100, latency, failed=(20,))
    (of_run,) = Experiment.read([folder]).runs
    found = spent(of_run)
    assert found is not None
    assert (found.requests, found.latency, found.latency_95) == (21, 11.0, 20.0)
    assert found.price == pytest.approx(0.11)


def test_changes_are_those_of_students_t_over_requests(tmp_path: Path) -> None:
    """Symmetric differences: the skewness is small, so that the interval is about that of t."""
    rng = np.random.default_rng(1)
    old_price, old_time = rng.uniform(1, 2, 60), rng.lognormal(5, 0.5, 60)
    noise = rng.permutation(np.r_[np.linspace(-1, 1, 30), np.linspace(-1, 1, 30)])
    new_price, new_time = old_price - 0.3 + 0.2 * noise, old_time * np.exp(-0.4 + 0.3 * noise)
    new = log(tmp_path / "new.jsonl", new_price, new_time)
    price, latency = compared(new, log(tmp_path / "old.jsonl", old_price, old_time)).changes
    for change, values in ((price, new_price - old_price), (latency, np.log(new_time / old_time))):
        low, high = stats.t.interval(0.95, 59, values.mean(), stats.sem(values))
        said = (change.change.value, change.change.low, change.change.high)
        said = said if change is price else tuple(np.log(said).tolist())
        assert said == pytest.approx((values.mean(), low, high), abs=0.01)
        assert change.finding == "less"
    assert (price.a, price.b) == pytest.approx((new_price.mean(), old_price.mean()))
    assert (latency.a, latency.b) == pytest.approx((np.median(new_time), np.median(old_time)))


def test_a_fixed_discount_is_shown_by_the_sign_test(tmp_path: Path) -> None:
    """All of n requests are 1 cheaper: p = 2^(1 - n), twice by Holm with a latency."""
    for n, finding in ((5, "not shown"), (8, "less")):
        prices, times = np.full(n, 3.0), np.full(n, 9.0)
        new = log(tmp_path / f"new{n}.jsonl", prices - 1, times)
        old = log(tmp_path / f"old{n}.jsonl", prices, times)
        price, latency = compared(new, old).changes
        assert price.p_value == pytest.approx(2 * 2.0 ** (1 - n))
        assert (price.finding, latency.finding) == (finding, "not shown")


def test_cheaper_and_not_worse_needs_both(tmp_path: Path) -> None:
    """300 requests: 0 or 30 answers fewer right, at half the price or the same."""
    price, time = np.random.default_rng(2).uniform(1, 2, (2, 300))
    old = log(tmp_path / "old.jsonl", price, time)
    good = log(tmp_path / "good.jsonl", price / 2, time)
    bad = log(tmp_path / "bad.jsonl", price / 2, time, right=270)
    assert compared(good, old, 0.02).finding == "cheaper and not worse (margin 2 points)"
    assert compared(bad, old, 0.02).finding == "cheaper"
    assert compared(bad, old, 0.2).finding == "cheaper and not worse (margin 20 points)"
    assert compared(good, old).finding == "cheaper", "no margin, and no run is better"
    assert compared(good, bad).finding == "no difference shown"
    assert compared(old, bad, 0.02).finding == "dearer"
    experiment = Experiment.read([good, old], Settings(resamples=100))
    release = judge_release(experiment, [Requirement.not_worse("2")])
    assert release.spending is not None
    assert release.verdict == "PASS"
    assert release.spending.finding == "cheaper and not worse (margin 2 points)"


@pytest.fixture
def half_the_price(tmp_path: Path) -> tuple[Path, Path]:
    price, time = np.random.default_rng(3).uniform(1, 2, (2, 100))
    old = log(tmp_path / "old.jsonl", price, time)
    return log(tmp_path / "new.jsonl", price / 2, time), old


def test_a_comparison_says_it(half_the_price: tuple[Path, Path]) -> None:
    new, old = half_the_price
    words = "new is cheaper and not worse (margin 5 points)"
    screen = run("compare", new, old, "--margin", 0.05)
    assert_says(" ".join(screen.stdout.split()), words)
    values = json.loads(run("compare", new, old, "--margin", 0.05, "--json").stdout)
    assert values["comparisons"][0]["spending"]["finding"] in words


def test_a_release_and_a_report_say_it(half_the_price: tuple[Path, Path]) -> None:
    new, old = half_the_price
    released = run("compare", new, old, "--not-worse", 5)
    assert_says(" ".join(released.stdout.split()), "new is cheaper and not worse (margin 5 points)")
    assert "100, price" in run("report", new).stdout


def test_nothing_is_said_of_what_is_not_known(tmp_path: Path) -> None:
    """A column `price` of a table may be a fact about its items."""
    rows = frame(np.arange(40) < 30)
    with_price = rows.with_columns(pl.Series("metadata.price", np.linspace(1, 2, 40)))
    runs = [run_of(with_price, name) for name in ("new", "old")]
    experiment = Experiment.read(runs, Settings(resamples=100), unique_labels=False)
    assert spent(experiment.runs[0]) is None
    assert compare_spending(experiment, *experiment.runs) is None
    timed = rows.with_columns(pl.Series("metadata.latency_ms", np.linspace(1, 2, 40)))
    alone = Experiment.read([run_of(timed)]).runs[0]
    assert spent(alone) is not None


def null_pairs(draws: int, families: int) -> int:
    """How often a difference in price or latency is shown between runs that do not differ.

    Families of 1 to 3 requests have a common part; prices and latencies have long tails.
    """
    rng, shown = np.random.default_rng(4), 0
    for _ in range(draws):
        unit = np.arange(families).repeat(rng.integers(1, 4, families))
        tables = []
        for _ in range(2):
            common, own = rng.normal(size=(2, families))[:, unit], rng.normal(size=(2, unit.size))
            price, latency = np.exp(0.5 * (common + own))
            tables.append(
                frame(np.ones(unit.size, dtype=bool)).with_columns(
                    pl.Series("family", [f"f{at:04}" for at in unit.tolist()]),
                    pl.Series("metadata.price", price),
                    pl.Series("metadata.latency_ms", latency),
                )
            )
        runs = [run_of(table, name) for table, name in zip(tables, ("new", "old"), strict=True)]
        for one in runs:
            one.provenance.recorded["log"] = {"requests": unit.size}  # type: ignore[index]
        experiment = Experiment.read(runs, Settings(resamples=10), unique_labels=False)
        found = compare_spending(experiment, *experiment.runs)
        assert found is not None
        assert len(found.changes) == 2
        shown += any(change.finding != "not shown" for change in found.changes)
    return shown


def test_a_null_difference_is_rarely_shown() -> None:
    assert null_pairs(20, 40) <= stats.binom.ppf(0.999, 20, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("families", [15, 60])
def test_a_null_difference_is_shown_in_five_percent(families: int) -> None:
    assert null_pairs(500, families) <= stats.binom.ppf(0.999, 500, 0.05)
