"""What a page says of 1, 2 and 6 runs, against the conclusions of the library; no browser."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import polars as pl
import pytest
from messages import assert_says
from reports.page.page_runs import experiment_of, records_of
from run_frames import edit_run, frame_of, rows, write_run

from pact_eval.data.records import parse_record
from pact_eval.evaluation.conclusions.better import BetterConclusion, Claim
from pact_eval.evaluation.conclusions.headline import conclude_runs, difference_words, headline
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import ItemRecords
from pact_eval.evaluation.resampled_groups import Evidence
from pact_eval.evaluation.settings import Settings
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.power import equivalence_verdict
from pact_reports.page.assembly import make_page
from pact_reports.request import Request
from pact_reports.views.brief import report_line

SKILLS = {"pact": 2.4, "base": 0.4, "ce": 2.0, "d": 1.6, "e": 1.2, "f": 0.8}
HOSTILE = "<script>x</script>\u202e\"'&"


@dataclass(frozen=True)
class Made:
    """A page, and what it was made of."""

    experiment: Experiment
    source: str

    @property
    def body(self) -> str:
        """The HTML that a reader sees, without scripts and drawings."""
        body = self.source[self.source.index("<body") :]
        return re.sub(r"<(svg|script)\b.*?</\1>", "", body, flags=re.DOTALL)

    @property
    def text(self) -> str:
        """The text of the page on one line."""
        return " ".join(html.unescape(re.sub(r"<[^>]*>", "", self.body)).split())

    @property
    def headline(self) -> str:
        (text,) = re.findall(r'<h1 class="answer">(.*?)</h1>', self.source)
        return html.unescape(re.sub("<.*?>", "", text))


def made_of(home: Path, arms: Mapping[str, float], *, families: int = 12, **request: Any) -> Made:
    frames = [
        (arm, rows(n, k=2, families=families, skill=skill))
        for n, (arm, skill) in enumerate(arms.items())
    ]
    folders = [
        write_run(home / f"{n}", frame, arm=arm, seed=17) for n, (arm, frame) in enumerate(frames)
    ]
    experiment = experiment_of(folders, Settings(resamples=100))
    asked = {"figures": (), "tables": ("main", "kinds")} | request
    if asked.pop("texts", None):
        parsed = [parse_record(record) for record in records_of(frames[0][1])]
        asked["records"] = ItemRecords({record.id: record for record in parsed})
    return Made(experiment, make_page(Request(experiment, **asked)))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Made]:
    """Make the page of the first runs, once."""
    home = tmp_path_factory.mktemp("questions")

    @cache
    def page(runs: int) -> Made:
        arms, families = dict([*SKILLS.items()][:runs]), 8 if runs == 6 else 12
        tables = ("splits",) if runs == 6 else ("main", "kinds")
        asked = {"texts": runs == 2, "tables": tables}
        return made_of(home / f"{runs}", arms, families=families, **asked)

    return page


def accuracies(experiment: Experiment) -> list[float]:
    return [float(run.scored().correct.mean()) for run in experiment.runs]


def test_the_headline_of_one_run_is_that_of_the_terminal(pages: Callable[[int], Made]) -> None:
    made = pages(1)
    evaluation = made.experiment.report(made.experiment.runs[0]).evaluation
    assert made.headline == report_line(evaluation)


def test_the_headline_of_two_runs_has_both_accuracies_and_their_difference(
    pages: Callable[[int], Made],
) -> None:
    made = pages(2)
    a, b = accuracies(made.experiment)
    (conclusion,) = made.experiment.comparisons.better_than("pact").values()
    assert conclusion.status == "better"
    assert made.headline.startswith(f"pact {100 * a:.1f}%, base {100 * b:.1f}%: pact is more")
    assert f"by {100 * (a - b):.1f} points [" in made.headline


def test_the_headline_of_six_runs_has_the_best_the_worst_and_the_first(
    pages: Callable[[int], Made],
) -> None:
    made = pages(6)
    rates = dict(zip(SKILLS, accuracies(made.experiment), strict=True))
    best, worst = max(rates, key=rates.__getitem__), min(rates, key=rates.__getitem__)
    start = f"6 runs: {best} {100 * rates[best]:.1f}% to {worst} {100 * rates[worst]:.1f}%. "
    assert made.headline.startswith(start)
    shown = [
        arm
        for arm, conclusion in made.experiment.comparisons.better_than("pact").items()
        if conclusion.status == "better"
    ]
    for arm in shown:
        assert arm in made.headline.partition("is more accurate than")[2].partition(";")[0]


@pytest.mark.parametrize("runs", [1, 2, 6])
def test_every_finding_is_said_once(pages: Callable[[int], Made], runs: int) -> None:
    made = pages(runs)
    data = made.experiment.data
    for run in conclude_runs(made.experiment, data):
        for conclusion in (run.order, run.probabilities):
            words = conclusion.words
            assert made.text.count(words.numbers.removesuffix(".")) == 1, words
    assert made.text.count(data.unchecked[0].reason) == 1


@pytest.mark.parametrize("runs", [1, 2, 6])
def test_no_section_and_no_column_is_empty(pages: Callable[[int], Made], runs: int) -> None:
    made = pages(runs)
    tables = re.findall(r"<table.*?</table>", made.body, re.DOTALL)
    assert tables
    for table in tables:
        lines = [
            [re.sub(r"<.*?>", "", cell).strip() for cell in re.findall(r"<t[dh].*?</t[dh]>", line)]
            for line in re.findall(r"<tr.*?</tr>", table.partition("<tbody")[2], re.DOTALL)
        ]
        widest = max(map(len, lines), default=0)
        full = [line for line in lines if len(line) == widest]
        for column in range(1, widest):
            assert {line[column] for line in full} != {"–"}, table[:200]
    topics = re.compile(r'<section id="[a-z-]+" class="topic".*?</section>', re.DOTALL)
    for section in topics.findall(made.body):
        assert re.search(r"<(li|table|figure|details)\b", section), section
    for furniture in ("Nothing to compare", "Verdicts", "No paired test", "No criteria"):
        assert furniture not in made.text


def one_group(home: Path, **request: Any) -> str:
    """The page of two runs on items of one kind and no domain, with the tables of any page."""
    same = (pl.col("kind") == "choice", pl.lit("").alias("domain"))
    folders = [
        write_run(
            home / arm,
            rows(seed, k=1, families=40, skill=skill).filter(same[0]).with_columns(same[1]),
            arm=arm,
            seed=17,
        )
        for seed, (arm, skill) in enumerate({"a": 0.3, "b": 3.0}.items())
    ]
    return make_page(Request(experiment_of(folders), **request))


def test_neither_one_group_nor_a_second_p_value_is_furniture(tmp_path: Path) -> None:
    page = one_group(tmp_path, figures=())
    assert 'id="table-paired"' in page, "the page has tables"
    assert 'id="table-kinds"' not in page
    assert 'id="table-domains"' not in page
    assert "McNemar" not in page
    assert " not made" not in page
    named = one_group(tmp_path / "named", figures=(), tables=("kinds",))
    assert 'id="table-kinds"' in named


@pytest.mark.slow
def test_figures_of_one_group_are_not_drawn(tmp_path: Path) -> None:
    page = one_group(tmp_path)
    assert 'id="figure-main' in page
    assert 'id="figure-ece-kind' not in page
    assert 'id="figure-differences' not in page


def hrefs(made: Made) -> list[str]:
    start = made.source.index('class="examples"')
    return re.findall(r'<li><a href="#item=([^"]*)"', made.source[start:])


def test_the_items_of_one_run_are_its_surest_errors(pages: Callable[[int], Made]) -> None:
    made = pages(1)
    (run,) = made.experiment.runs
    items = run.scored()
    wrong = np.flatnonzero(~items.correct)
    order = wrong[np.argsort(-items.confidence[wrong], kind="stable")][:3]
    expected = run.predictions.ids[order].tolist()
    assert [unquote(href.partition("&")[0]) for href in hrefs(made)] == expected


def test_the_items_of_two_runs_are_right_in_one_and_have_their_texts(
    pages: Callable[[int], Made],
) -> None:
    made = pages(2)
    a, b = (run.scored() for run in made.experiment.runs)
    wrong = np.where(a.correct, b.confidence, a.confidence)
    differ = np.flatnonzero(a.correct != b.correct)
    order = differ[np.argsort(-wrong[differ], kind="stable")][:3]
    ids = made.experiment.runs[0].predictions.ids[order].tolist()
    assert [unquote(href.partition("&")[0]) for href in hrefs(made)] == ids
    assert all(href.endswith("&amp;a=1&amp;b=2") for href in hrefs(made))
    only = int((a.correct & ~b.correct).sum()), int((~a.correct & b.correct).sum())
    assert_says(made.text, f"only pact: {only[0]}", f"only base: {only[1]}")


def test_runs_that_are_right_in_the_same_items_show_errors(tmp_path: Path) -> None:
    frame = rows(1, k=2, families=12)
    folders = [write_run(tmp_path / arm, frame, arm=arm, seed=17) for arm in "ab"]
    made = make_page(Request(experiment_of(folders), figures=(), tables=("splits",)))
    assert "Surest wrong answers of" in made


def test_one_run_that_makes_no_error_has_no_items(tmp_path: Path) -> None:
    made = made_of(tmp_path, {"a": 50.0})
    assert 'class="examples"' not in made.source


def shown_items(page: str) -> str:
    """The text of the items of the first screen."""
    examples = page[page.index('class="examples"') :]
    return html.unescape(re.sub("<.*?>", "", examples[: examples.index("</ol>")]))


def test_equally_sure_items_are_in_the_order_of_the_terminal(tmp_path: Path) -> None:
    """The ids descend, all answers of a are wrong by 0.9999, and those of b are right."""
    ids, sure = ["d", "c", "b", "a"], [0.0, 9.21]
    frames = {
        arm: frame_of(id=ids, logits=[logits] * 4, reference=[0] * 4)
        for arm, logits in (("x", sure), ("y", sure[::-1]))
    }
    folders = [write_run(tmp_path / arm, frame, arm=arm) for arm, frame in frames.items()]
    for runs in (folders[:1], folders):
        experiment = experiment_of(runs)
        shown = shown_items(make_page(Request(experiment, figures=(), tables=("splits",))))
        assert_says(
            shown, *(part for item in "abc" for part in (f"{item} ", "B, wrong (>99% sure)"))
        )
    wrong = experiment_of(folders[:1]).report().wrong
    assert wrong is not None
    assert [item.id for item in wrong.items] == ["a", "b", "c"]


def test_the_answers_of_an_import_have_their_names(tmp_path: Path) -> None:
    frame = frame_of(id=["a", "b"], logits=[[0.0, 2.0, 1.0]] * 2, reference=[0, 1])
    folder = edit_run(
        write_run(tmp_path / "run", frame), log={"options": ["refund", "replace", "<reject>"]}
    )
    made = make_page(Request(experiment_of([folder]), figures=(), tables=("splits",)))
    assert_says(shown_items(made), "a", "replace, wrong", "right answer", "refund")


def test_a_run_without_probabilities_has_neither_sureness_nor_diagrams(tmp_path: Path) -> None:
    frame = frame_of(id=["a", "b"], logits=[[0.0, 2.0, 1.0]] * 2, reference=[0, 1])
    folder = edit_run(write_run(tmp_path / "run", frame), settings={"values": "answers"})
    page = make_page(Request(experiment_of([folder]), figures=(), tables=("splits",)))
    assert "Reliability of" not in page
    assert " sure)" not in page
    assert "Surest" not in page


def test_seeds_have_the_p_value_of_every_difference_that_no_sentence_is_about(
    tmp_path: Path,
) -> None:
    folders = [
        write_run(tmp_path / f"{n}", rows(n, k=2, families=10, skill=n / 2), arm=arm, seed=n % 2)
        for n, arm in enumerate(["a", "a", "b", "b", "c", "c"])
    ]
    page = make_page(Request(experiment_of(folders), figures=(), tables=("splits",)))
    table = page[page.index('<section id="runs"') :]
    cells = re.findall(r'data-label="Difference".*?</td>', table, re.DOTALL)
    assert len(cells) == 6
    for cell in cells:
        for text in re.findall(r"<a .*?</a>", cell):
            assert ("p-value" in text) == ("not shown" in text)


def test_hostile_names_are_escaped_everywhere(tmp_path: Path) -> None:
    made = made_of(tmp_path, {HOSTILE: 2.0, "<b>": 0.5, "c&amp;": 1.0})
    assert "<script>x" not in made.source
    assert "\u202e" not in made.source
    assert "<b>" not in made.source.replace("<body>", "")
    assert "c&amp;amp;" in made.body


def estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high, 324, 162)


@pytest.mark.parametrize(
    ("status", "difference", "expected"),
    [
        ("not shown", (0.012, -0.030, 0.055), "no difference shown (±4 points)"),
        ("not shown", (0.001, -0.003, 0.006), "no difference shown (±0.5 points)"),
        ("not shown", (0.0, 0.0, 0.0), "no difference shown"),
        (
            *("better", (0.051, 0.020, 0.083)),
            "a is more accurate, by 5.1 points [2.0, 8.3] (p = 0.010)",
        ),
        (
            *("worse", (-0.051, -0.083, -0.020)),
            "b is more accurate, by 5.1 points [2.0, 8.3] (p = 0.010)",
        ),
        ("equivalent", (0.001, -0.003, 0.006), "as accurate, within the margin of 2.0 points"),
    ],
)
def test_difference_against_hand_words(
    status: Any, difference: tuple[float, float, float], expected: str
) -> None:
    test = Evidence("interval", 0.01, marked=status in ("better", "worse"))
    ends = estimate(*difference)
    verdict = equivalence_verdict(ends, 0.02) if status == "equivalent" else None
    claim = Claim("accuracy", "single", 1, 1, ends, test, verdict)
    conclusion = BetterConclusion(left="a", right="b", claims=(claim,))
    assert conclusion.status == status
    assert difference_words(conclusion, "a", "b") == expected


def test_runs_of_other_items_are_not_compared(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / arm, rows(1, k=2, families=families), arm=arm, seed=17)
        for arm, families in (("a", 9), ("b", 12))
    ]
    experiment = experiment_of(folders)
    assert_says(headline(experiment), "a ", "b ", "not compared")
    page = make_page(Request(experiment, figures=(), tables=("splits",)))
    assert "cannot be compared" in page


def test_runs_matched_by_their_line_say_so_once(tmp_path: Path) -> None:
    """Tables without ids: the page has the caution of the terminal, next to the difference."""
    folders = [
        edit_run(
            write_run(tmp_path / arm, rows(seed, k=1, families=12), arm=arm, seed=17),
            log={"columns": {}},
        )
        for seed, arm in enumerate("ab")
    ]
    experiment = experiment_of(folders)
    (caution,) = map(str, experiment.matched_by_line)
    page = make_page(Request(experiment, figures=(), tables=("splits",)))
    better = page[page.index('<section id="better"') :]
    assert caution in html.unescape(better[: better.index("</section>")])
    assert html.unescape(page).count(caution) == 1


def test_seeds_of_one_arm_have_a_headline(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / f"{seed}", rows(seed, k=2, families=12), arm="a", seed=seed)
        for seed in (1, 2, 3)
    ]
    experiment = experiment_of(folders)
    rates = [f"{100 * rate:.1f}%" for rate in sorted(accuracies(experiment))]
    assert_says(headline(experiment), "3 runs", "a, seed", rates[-1], "a, seed", rates[0])
