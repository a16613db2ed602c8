"""The first screen of the page: every number with its interval, its n and what it rests on."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner
from messages import assert_says
from reports.figures.figure_runs import rows, write_calibrator
from reports.tables.table_runs import run_of, share
from run_frames import ablated_rows, write_run

from pact_cli.main import main
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_reports.numbers import estimate_text
from pact_reports.page.assembly import make_page
from pact_reports.page.diagnostics import EXPLANATIONS
from pact_reports.page.matrix import NUMBERS
from pact_reports.page.request import PageRequest
from pact_reports.tables.request import TableRequest
from pact_reports.writers.files import build_tables
from pact_reports.writers.latex import to_latex
from pact_reports.writers.markdown import to_markdown

CRITERIA = """
format = "pact-hypotheses-1"
[[hypothesis]]
id = "H1"
title = "Better"
claim = "a is better than b."
[[hypothesis.check]]
says = "accuracy is higher"
metric = "accuracy"
arm = "a"
decoding = "single"
than = { arm = "b" }
is = "higher"
judged_on = "matched"
[[hypothesis.beside]]
says = "AURC is lower"
metric = "aurc"
arm = "a"
decoding = "single"
than = { arm = "b" }
is = "lower"
judged_on = "matched"
"""


SETTINGS = ("resamples", "decoding", "method")


def page_of(folders: list[Path], **changes: object) -> str:
    settings = {"resamples": 200} | {k: v for k, v in changes.items() if k in SETTINGS}
    chosen: dict[str, object] = {"figures": (), "tables": ("main",)}
    chosen |= {k: v for k, v in changes.items() if k not in SETTINGS}
    experiment = Experiment.read(folders, Settings(**settings))  # type: ignore[arg-type]
    return unescape(make_page(PageRequest(experiment, **chosen)))  # type: ignore[arg-type]


def words(html: str) -> str:
    """Returns the text of HTML, blanks joined."""
    apart = re.sub(r"</(?:td|th|li|p|h3)>", " ", html)
    return " ".join(re.sub(r"<[^>]*>", "", apart).split())


def section(html: str, start: str, end: str) -> str:
    return words(html[html.index(start) : html.index(end, html.index(start))])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two arms of one run: 41 and 40 of 60 right."""
    folder = tmp_path_factory.mktemp("arms")
    right = {"a": share(41, 60), "b": [*share(38, 58), True, True]}
    return [run_of(folder / arm, right[arm], arm=arm, seed=17, k=2) for arm in right]


@pytest.fixture
def criteria(tmp_path: Path) -> Path:
    path = tmp_path / "h.toml"
    path.write_text(CRITERIA)
    return path


def test_verdicts_stand_with_difference_interval_seed_and_n(
    folders: list[Path], criteria: Path
) -> None:
    page = page_of(folders, criteria=criteria)
    verdicts = section(page, 'class="verdicts"', "Paired tests of")
    assert_says(verdicts, "SUPPORTED", "by value only", "H1: a is better", "1 check, 1 holds")
    assert_says(verdicts, "accuracy is higher", "holds", "by value only", "a, single vs b +1.7 [−")
    assert re.search(r"b \+1\.7 \[−\d+\.\d, \+\d+\.\d\] at seed 17", verdicts)
    assert_says(verdicts, "at seed 17, single", "points", "60 items", "30 families")
    assert_says(verdicts, "not decisive", "AURC is lower")
    assert_says(verdicts, "95% interval over families", "score (differences of rates)")


def test_a_supported_claim_that_is_not_shown_is_a_diagnostic(
    folders: list[Path], criteria: Path
) -> None:
    page = page_of(folders, criteria=criteria)
    diagnostic = section(page, 'data-diagnostic="verdict"', "</li></ul></li>")
    assert_says(diagnostic, "H1 is SUPPORTED", "by value only", "1 of the 1")
    assert_says(diagnostic, "rests on seed 17 alone")


@pytest.mark.slow
def test_intervals_beside_verdicts_are_those_of_the_scorecard(
    folders: list[Path], criteria: Path
) -> None:
    arguments = ["scorecard", str(criteria), *map(str, folders)]
    printed = CliRunner().invoke(main, arguments).stdout
    (interval,) = re.findall(r"\+1\.7 \[-(\d+\.\d), \+(\d+\.\d)\]", " ".join(printed.split()))
    page = page_of(folders, criteria=criteria, resamples=None)
    assert f"+1.7 [−{interval[0]}, +{interval[1]}] at seed 17, single" in page


def test_a_registration_that_does_not_hold_comes_first_and_mutes(
    folders: list[Path], criteria: Path
) -> None:
    assert CliRunner().invoke(main, ["register", str(criteria)]).exit_code == 0
    criteria.write_text(CRITERIA.replace('is = "higher"', 'is = "not lower"'))
    page = page_of(folders, criteria=criteria)
    assert page.index("Registration: ") < page.index('class="verdicts"')
    assert '<span class="verdict bad">TAMPERED</span>' in page
    assert "verdicts below prove nothing" in page
    assert '<span class="verdict muted">SUPPORTED</span>' in page
    assert "verdict good" not in page


@pytest.mark.slow
def test_paired_tests_name_decoding_and_n_and_leave_p_to_the_answer(
    folders: list[Path], tmp_path: Path
) -> None:
    third = run_of(tmp_path / "c", share(20, 60), arm="c", seed=17, k=2)
    page = words(page_of([*folders, third], method="a"))
    paired = page[page.index("Paired tests of a ") :]
    assert_says(paired, "single pass (view 0), raw", "60 items", "30 families", "2 pairs")
    assert_says(paired, "95% intervals", "families", "each alone")
    assert "sign flip" not in paired
    together = words(page_of(folders, decoding="ensemble"))
    paired = together[together.index("Paired tests of a ") :]
    assert_says(paired, "K views together, raw", "60 items", "30 families", "1 pair of runs)")
    assert "confidence: K views together" in together


def test_every_type_of_diagnostic_has_words_and_a_number() -> None:
    assert list(NUMBERS) == list(EXPLANATIONS)
    kinds = [explanation.kind for explanation in EXPLANATIONS]
    assert len(set(kinds)) == len(kinds)


def test_a_method_that_is_worse_is_a_diagnostic(tmp_path: Path) -> None:
    folders = [
        run_of(tmp_path / arm, share(right, 60), arm=arm, seed=17)
        for arm, right in (("a", 20), ("b", 50))
    ]
    diagnostic = section(page_of(folders), 'data-diagnostic="worse"', "</li></ul></li>")
    assert "The method is worse" in diagnostic
    assert "a is less accurate" in diagnostic


def test_headline_tables_have_the_intervals_of_the_report(folders: list[Path]) -> None:
    experiment = Experiment.read(folders, Settings(resamples=200))
    request = TableRequest(experiment)
    estimates = experiment.evaluation(experiment.runs[0]).groups[0].estimates
    accuracy = estimate_text(estimates["accuracy"], "percent")
    page = words(page_of(folders))
    assert page.count(accuracy) >= 2, "every run, and the main results"
    assert "of 30 pairs" in page
    table = build_tables(request, ["main"]).tables["main"]
    escaped = accuracy.replace("[", "\\[").replace("]", "\\]")
    assert escaped.split(" ", 1)[1] in to_markdown(table)
    assert "arms with one run" in to_markdown(table)
    assert "arms with one run" in to_latex(table)
    assert f"{100 * estimates['accuracy'].low:.1f}" in to_latex(table)


def test_a_rate_of_1_has_an_interval_and_a_constant_has_the_reason_for_none(
    tmp_path: Path,
) -> None:
    folder = run_of(tmp_path / "a", [True] * 60, arm="a", seed=1)
    page = words(page_of([folder], figures=("confidence",)))
    assert "100.0 [87.8, 100.0]" in page
    assert "[0.00, 0.00]" not in page
    assert "does not mean certainty" in page


@pytest.mark.slow
def test_runs_on_ablated_contexts_have_a_table(folders: list[Path], tmp_path: Path) -> None:
    folder = write_run(tmp_path / "ablated", ablated_rows(1), arm="a", seed=17)
    page = page_of([*folders, folder])
    experiment = Experiment.read([folder], Settings(resamples=200))
    evaluation = experiment.evaluation(experiment.ablated[0])
    confidence = evaluation.groups[0].estimates["ablated_confidence"]
    table = section(page, 'id="table-ablated-runs"', "</section>")
    assert f"a, seed 17 {confidence.n} of {confidence.clusters} families" in table
    assert estimate_text(confidence, "percent") in table
    assert "no answer is right" in table
    assert "Runs on ablated contexts" not in page_of(folders)


@pytest.mark.slow
def test_figures_that_are_drawn_are_not_called_not_drawn(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / f"{seed}", rows(seed, families=6), arm="a", seed=seed)
        for seed in range(1, 6)
    ]
    write_calibrator(folders[0])
    page = page_of(folders, figures=("reliability", "training"))
    assert page.count('id="figure-reliability') == 5
    left_out = section(page, 'id="figures"', 'id="tables"')
    assert "Not drawn: 1" in left_out
    assert "Not drawn: training" in left_out
    in_calibration = section(page, 'id="calibration"', 'id="order-of-answers"')
    assert "Drawn in part: 1" in in_calibration
    assert_says(in_calibration, "Drawn in part", "reliability", "a, seed 2")
    assert "Not drawn: reliability" not in in_calibration
    assert re.search(r"<details><summary>[^<]*: 5 figures</summary>", page)
    assert "sample is biased upwards" in section(page, "How to read it", "</details>")
