"""The first sentence on several runs, of terminal, JSON and page, against their numbers."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from messages import assert_says
from reports.page.page_runs import experiment_of
from run_frames import edit_rows, frame_of, rows, write_run

from pact_eval.drift.run_comparison import compare_runs
from pact_eval.evaluation.arm_names import KEYS
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.run_list import list_runs
from pact_eval.evaluation.settings import Settings
from pact_reports.page.assembly import make_page
from pact_reports.request import Request
from pact_reports.views.arms import present_arms
from pact_reports.views.brief import brief_report
from pact_reports.views.comparison import present_run_comparison
from pact_reports.views.presenter import Presenter
from pact_reports.views.run_list import run_list_parts
from pact_reports.writers.terminal import to_text


def said(experiment: Experiment, *, arms: bool = False) -> str:
    """The first sentence, which is the same on the three surfaces."""

    presenter = (
        present_arms(experiment, KEYS)
        if arms
        else present_run_comparison(*compare_runs(experiment))
    )
    page = make_page(Request(experiment, figures=(), tables=("splits",)))
    (headline,) = re.findall(r'<h1 class="answer">(.*?)</h1>', page)
    line = html.unescape(re.sub("<.*?>", "", headline))
    printed = [
        to_text(*(part for block in presenter.printed(full=full) for part in block), width=5_000)
        for full in (False, True)
    ]
    first = [text.splitlines()[0] for text in (*printed, to_text(*presenter.parts(), width=5_000))]
    assert [line] * 4 == [*first, presenter.json()["headline"]]
    return line


def first_screen(presenter: Presenter) -> str:
    return to_text(*(part for block in presenter.printed(full=False) for part in block), width=200)


def three(home: Path, *seeds: int) -> Experiment:
    """Runs of the arms a, b and c on the same items, c by far the worst; one for each seed."""
    folders = [
        write_run(
            home / (f"{arm}-{seed}" if len(seeds) > 1 else arm),
            rows(3 * seed + at, k=1, families=60, skill=skill),
            arm=arm,
            seed=seed,
        )
        for at, (arm, skill) in enumerate({"a": 2.5, "b": 2.4, "c": 0.1}.items())
        for seed in seeds
    ]
    return experiment_of(folders, Settings(resamples=200))


def with_masses(experiment: Experiment, masses: Sequence[float]) -> Experiment:
    """The same runs, each with an answer mass."""
    folders = [run.folder for run in experiment.runs]
    for folder, mass in zip(folders, masses, strict=True):
        edit_rows(folder, pl.lit(mass, dtype=pl.Float32).alias("answer_mass"))
    return experiment_of(folders, experiment.settings)


def with_varied_masses(experiment: Experiment, masses: Sequence[float]) -> Experiment:
    """The same, a little lower at some items, so that differences have an interval."""
    folders = [run.folder for run in experiment.runs]
    for folder, mass in zip(folders, masses, strict=True):
        value = pl.lit(mass) * (1 - 0.01 * (pl.int_range(pl.len()) % 7) / 7)
        edit_rows(folder, value.cast(pl.Float32).alias("answer_mass"))
    return experiment_of(folders, experiment.settings)


def rate(run: ExperimentRun) -> float:
    return 100 * float(run.scored().correct.mean())


def test_three_runs_have_the_ends_and_the_first_is_compared_with_the_others(
    tmp_path: Path,
) -> None:
    experiment = three(tmp_path, 1)
    rates = dict(zip("abc", map(rate, experiment.runs), strict=True))
    best = max(rates, key=rates.__getitem__)
    shown = {one.right: one.status for one in experiment.comparisons.better_runs}
    assert shown == {"b": "not shown", "c": "better"}
    ends = f"3 runs: {best} {rates[best]:.1f}% to c {rates['c']:.1f}%. a is more"
    assert_says(said(experiment), ends, "accurate than c", "not shown", "from b")


def test_arms_have_their_mean_accuracies_and_count_bad_news_by_run(tmp_path: Path) -> None:
    experiment = with_masses(three(tmp_path, 1, 2), [0.5] * 3 + [0.98] * 3)
    means = {arm: sum(map(rate, runs)) / len(runs) for arm, runs in experiment.arms.items()}
    best = max(means, key=means.__getitem__)
    line = said(experiment, arms=True)
    assert_says(line, "6 runs: ", f"{best} {means[best]:.1f}%", f"c {means['c']:.1f}%", "means")
    assert_says(line, "a is more accurate than c", "not shown", "from b")
    sure = [experiment.probabilities(run).status for run in experiment.runs]
    counts = (sure.count("under-confident"), sure.count("over-confident"))
    assert counts == (4, 2)
    assert_says(line, "nder-confident: 4 of 6", "low answer mass: 3 of 6")
    assert_says(line, "over-confident: c, seed 1 and c, seed 2")


def test_two_arms_have_their_difference(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / f"{arm}-{seed}", rows(seed, k=1, skill=skill), arm=arm, seed=seed)
        for arm, skill in (("a", 0.2), ("b", 3.0))
        for seed in (1, 2)
    ]
    experiment = experiment_of(folders, Settings(resamples=200))
    a, b = (sum(map(rate, runs)) / 2 for runs in experiment.arms.values())
    line = said(experiment, arms=True)
    assert_says(line, f"a {a:.1f}%, b {b:.1f}%", "b is more accurate, by", f"{b - a:.1f} points [")


def test_runs_of_one_arm_are_compared(tmp_path: Path) -> None:
    frame = rows(1, k=1, families=20)
    folders = [
        write_run(tmp_path / f"a, seed {seed}", frame, arm="a", seed=seed) for seed in (1, 2, 3)
    ]
    assert_says(said(experiment_of(folders)), "a, seed 1", "not shown", "a, seed 2 and a, seed 3")


def two(home: Path, skills: tuple[float, float], **settings: object) -> Experiment:
    """Two runs of the arms a and b on the same items."""
    folders = [
        write_run(home / arm, rows(seed, k=1, families=60, skill=skill), arm=arm, seed=None)
        for seed, (arm, skill) in enumerate(zip("ab", skills, strict=True))
    ]
    return experiment_of(folders, Settings(resamples=200, **settings))  # type: ignore[arg-type]


def test_a_difference_has_its_accuracies_points_and_p_value(tmp_path: Path) -> None:
    experiment = two(tmp_path, (0.3, 3.0))
    (comparison,) = compare_runs(experiment)
    metric = comparison.groups[0].metrics["accuracy"]
    lead = 100 * (metric.b.value - metric.a.value)
    accuracies = (f"a {100 * metric.a.value:.1f}%, b {100 * metric.b.value:.1f}%: ",)
    points = f"b is more accurate, by {lead:.1f} points ["
    assert_says(said(experiment), *accuracies, points, "(p < 0.001)")


def test_a_margin_makes_runs_equivalent(tmp_path: Path) -> None:
    experiment = two(tmp_path, (2.0, 2.0), margin=0.3)
    assert_says(said(experiment), ": as accurate, within the margin of 30.0 points.")


def test_a_difference_that_is_not_shown_has_its_half_width(tmp_path: Path) -> None:
    experiment = two(tmp_path, (2.0, 2.0))
    (comparison,) = compare_runs(experiment)
    ends = comparison.groups[0].metrics["accuracy"].difference
    side = 100 * max(ends.value - ends.low, ends.high - ends.value)
    assert_says(said(experiment), f": no difference shown (±{side:.0f} points).")


@pytest.mark.parametrize("low", [(0.5, 0.98), (0.98, 0.5), (0.5, 0.5)])
def test_a_low_answer_mass_is_in_the_headline(tmp_path: Path, low: tuple[float, float]) -> None:
    frames = [
        frame_of(
            id=list("abcd"), logits=[[0.0, 1.0]] * 4, reference=[0, 1] * 2, answer_mass=[m] * 4
        )
        for m in low
    ]
    folders = [
        write_run(tmp_path / arm, frame, arm=arm) for arm, frame in zip("ab", frames, strict=True)
    ]
    line = said(experiment_of(folders))
    if low[0] == low[1]:
        assert_says(line, "Both", "have an ANSWER MASS OF 50.0%")
    else:
        name = "a" if low[0] < low[1] else "b"
        assert_says(line, f"{name} ", "has an ANSWER MASS OF 50.0%")
        assert line.count("ANSWER MASS") == 1


def test_low_answer_masses_of_three_runs_have_names_and_numbers(tmp_path: Path) -> None:
    line = said(with_masses(three(tmp_path, 1), [0.5, 0.00008, 0.98]))
    assert_says(line, "low answer mass", "a (50.0%) and b (0.008%)")


@pytest.mark.parametrize(
    ("masses", "large"),
    [((0.00008, 0.988), True), ((0.99, 0.88), True), ((0.99, 0.93), False), ((0.5, 0.5), False)],
)
def test_a_large_loss_of_answer_mass_is_on_every_first_screen_of_two_runs(
    tmp_path: Path, masses: tuple[float, float], large: bool
) -> None:
    """With items of few families, many notes and a margin, a full screen drops what is spare."""
    experiment = with_varied_masses(two(tmp_path, (1.6, 1.5), margin=0.02), masses)
    comparison = compare_runs(experiment)[0]
    presenter = present_run_comparison(comparison)
    first = to_text(
        *(part for block in presenter.printed(full=False) for part in block), width=5_000
    )
    lines = [line.split() for line in first.splitlines() if "answer mass  " in line]
    difference = comparison.groups[0].metrics["answer_mass"].difference
    points = f"{100 * difference.value:+.1f}"
    if large:
        assert [line[2:4] for line in lines] == [[points, "points"]]
    else:
        assert all("points" not in line for line in lines)


def test_of_several_runs_a_large_loss_of_answer_mass_is_a_column(tmp_path: Path) -> None:
    """The first minus each other, marked as adjusted for two tests."""
    experiment = with_varied_masses(three(tmp_path, 1), [0.988, 0.00008, 0.95])
    text = first_screen(present_run_comparison(*compare_runs(experiment)))
    header, *body = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()[1:5]]
    column = header.index("mass")
    cells = {row[0]: " ".join(row[1:]) for row in body}
    assert column == 3
    assert "+98.4 *" in cells["b"]
    assert "+3.8 *" in cells["c"]
    assert "of mass, for 2" in text
    alike = with_varied_masses(three(tmp_path / "alike", 1), [0.988, 0.95, 0.95])
    assert "mass" not in first_screen(present_run_comparison(*compare_runs(alike)))


def test_the_arms_of_a_plan_have_the_same_column(tmp_path: Path) -> None:
    experiment = with_varied_masses(three(tmp_path, 1, 2), [0.988] * 2 + [0.00008] * 2 + [0.95] * 2)
    text = first_screen(present_arms(experiment, KEYS))
    assert_says(text, "mass", "+98.4 *", "+3.8 *")


def test_a_low_answer_mass_has_its_interval_in_lists_and_on_the_first_screen(
    tmp_path: Path,
) -> None:
    """Only then: a list of runs at 98% has no intervals, which its columns have no room for."""
    experiment = two(tmp_path, (1.6, 1.5))
    folders = [run.folder for run in experiment.runs]
    value = pl.lit(0.4) + 0.2 * (pl.col("prompt_tokens") % 2)
    edit_rows(folders[0], value.cast(pl.Float32).alias("answer_mass"))
    edit_rows(folders[1], pl.lit(0.98, dtype=pl.Float32).alias("answer_mass"))
    report = experiment_of(folders, experiment.settings).report()
    estimate = report.evaluation.groups[0].estimates["answer_mass"]
    interval = f"{100 * estimate.value:.1f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
    listed = to_text(*run_list_parts(list_runs(folders)), width=200)
    assert interval in listed
    screen = to_text(*brief_report(report).everything, width=200)
    assert interval.replace(" [", "% [") in screen
    alone = to_text(*run_list_parts(list_runs(folders[1:])), width=200)
    assert re.search(r"98\.0 +\|", alone)
