"""Precision, recall, F1 and confusion: against scikit-learn on random runs, and by hand."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import question, record, write_jsonl
from commands import runner
from messages import assert_says
from run_frames import frame_of, write_run
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

import pact_eval
from pact_cli.main import main
from pact_eval import import_run
from pact_eval.evaluation import experiment as experiments
from pact_eval.evaluation.experiment import Experiment, RunReport
from pact_eval.evaluation.per_answer import QuestionAnswers, _macro_f1, _rates
from pact_eval.evaluation.settings import Settings
from pact_eval.stats.rates import rate_estimate

run = runner(main)


def report_of(folder: Path, **settings: Any) -> RunReport:
    return Experiment.read([folder], Settings(resamples=100, **settings)).report()


def only_question(folder: Path, **settings: Any) -> QuestionAnswers:
    (answers,) = report_of(folder, **settings).questions
    return answers


def imported(
    folder: Path, names: list[str], right: Iterable[int], given: Iterable[int], sure: float = 0.9
) -> Path:
    """Import a classifier's table with these answers, each given with one probability."""
    path, rest = folder.with_suffix(".csv"), (1 - sure) / (len(names) - 1)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "label", *(f"p_{name}" for name in names)])
        for at, (label, answer) in enumerate(zip(right, given, strict=True)):
            row = [sure if index == answer else rest for index in range(len(names))]
            table.writerow([f"i{at}", names[label], *row])
    import_run(path, folder)
    return folder


@pytest.mark.parametrize(("seed", "classes"), [(0, 2), (1, 3), (2, 10), (3, 26)])
def test_against_scikit_learn(tmp_path: Path, seed: int, classes: int) -> None:
    """Some answers are never right, and others never given."""
    rng = np.random.default_rng(seed)
    right = rng.integers(classes - (classes > 3), size=120)
    given = np.where(rng.random(120) < 0.6, right, rng.integers(1, classes, size=120))
    names = sorted(f"{'abc'[at % 3]} {at:02}" for at in range(classes))
    found = only_question(imported(tmp_path / "run", names, right, given))
    labels = list(range(classes))
    assert [answer.name for answer in found.answers] == names
    assert np.array_equal(found.confusion, confusion_matrix(right, given, labels=labels))
    expected = precision_recall_fscore_support(right, given, labels=labels, zero_division=np.nan)
    for name, values in zip(("precision", "recall", "f1"), expected, strict=False):
        own = [getattr(answer, name).value for answer in found.answers]
        np.testing.assert_allclose(own, values, rtol=1e-12, equal_nan=True)
    assert [answer.right for answer in found.answers] == expected[3].tolist()
    assert found.macro_f1.value == pytest.approx(f1_score(right, given, average="macro"))


def test_by_hand_with_answers_never_right_and_never_given(tmp_path: Path) -> None:
    """a: 6 right, 5 given rightly. b: 4 right, given 4 times, 3 rightly. c is given, d neither."""
    right = [0] * 6 + [1] * 4
    given = [0] * 5 + [1] + [1] * 3 + [2]
    found = only_question(imported(tmp_path / "run", list("abcd"), right, given))
    a, b, c, d = found.answers
    assert (a.right, a.given, a.both, b.right, b.given, b.both) == (6, 5, 5, 4, 4, 3)
    assert (a.precision.value, a.recall.value) == (1.0, 5 / 6)
    assert a.f1.value == pytest.approx(10 / 11)
    assert math.isnan(c.recall.value)
    assert_says(c.recall.reason, "never right")
    assert (c.precision.value, c.f1.value) == (0.0, 0.0)
    assert all(math.isnan(rate.value) for rate in (d.precision, d.recall, d.f1))
    assert_says(d.precision.reason, "never given")
    assert found.macro_f1.value == pytest.approx((10 / 11 + 6 / 8 + 0) / 3), "d does not count"
    assert_says(b.recall.reason, "4 families", "no interval")
    assert math.isnan(b.recall.low)
    words = [mistake.words for mistake in found.mistakes(5)]
    assert words == ["a taken for b: 1 of 6", "b taken for c: 1 of 4"]
    text = run("report", tmp_path / "run", "--full", "--resamples", 100).stdout
    assert_says(text, "Precision, recall and F1", "| c ", "–", "macro F1", "never right", "neither")


@pytest.mark.parametrize(
    ("items", "why"), [(1, "one family"), (2, "2 families"), (4, "4 families")]
)
def test_a_macro_f1_of_few_families_says_how_many(tmp_path: Path, items: int, why: str) -> None:
    answers = [at % 2 for at in range(items)]
    found = only_question(imported(tmp_path / "run", list("ab"), answers, answers))
    assert math.isnan(found.macro_f1.low)
    assert_says(found.macro_f1.reason, why, "no interval")


def test_intervals_are_those_of_rates_over_families(tmp_path: Path) -> None:
    """Members of a family count together, as in `rate_estimate`."""
    rng = np.random.default_rng(4)
    right, wrong = rng.integers(2, size=80), rng.random(80) < 0.3
    given, family = np.where(wrong, 1 - right, right), np.arange(80) // 2
    frame = frame_of(
        id=[f"i{at}" for at in range(80)],
        family=[f"f{at}" for at in family],
        kind=["boolean"] * 80,
        reference=right.tolist(),
        logits=[[2.0 * (answer == 0), 2.0 * (answer == 1)] for answer in given],
    )
    found = only_question(write_run(tmp_path / "run", frame))
    both = (right == 1) & (given == 1)
    for counted, rate in ((right == 1, "recall"), (given == 1, "precision")):
        expected = rate_estimate(np.bincount(family, both), np.bincount(family, counted))
        estimate = getattr(found.answers[1], rate)
        assert (estimate.low, estimate.high) == (expected.low, expected.high)
        assert estimate.clusters == expected.clusters
    assert found.macro_f1.low < found.macro_f1.value < found.macro_f1.high
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "ITEMS_IN_MEMORY", 5)
        large = only_question(tmp_path / "run")
    assert np.array_equal(large.confusion, found.confusion)
    assert large.answers == found.answers


def test_questions_of_a_dataset(tmp_path: Path) -> None:
    """One question of 30 items whose answers have two orders; 5 others are too few."""
    fixed = {"refund": "Money back.", "replace": "A new one."}
    turned = dict(reversed(fixed.items()))
    records = []
    for at in range(35):
        asked = question(instructions="Which remedy?", criteria=turned if at % 2 else fixed)
        if at >= 30:
            asked = question(n=2, instructions=f"Question {at}?")
        target = "answer_0" if at >= 30 else "refund"
        records.append(record(f"r{at}", decision=asked, reference={"target": target}))
    data = write_jsonl(tmp_path / "data.jsonl", records)
    # The run always gives "refund", but for the first three items.
    places = [at % 2 if at < 30 else 0 for at in range(35)]
    given = [1 - place if at < 3 else place for at, place in enumerate(places)]
    frame = frame_of(
        id=[f"r{at}" for at in range(35)],
        reference=places,
        logits=[[2.0 * (place == 0), 2.0 * (place == 1)] for place in given],
        variant=["base"] * 35,
    )
    folder = write_run(tmp_path / "run", frame)
    assert report_of(folder).questions == (), "without its data, a choice has no names"
    found = only_question(folder, data=(data,))
    assert (found.question, [answer.name for answer in found.answers]) == (
        *("Which remedy?", ["refund", "replace"]),
    )
    assert found.confusion.tolist() == [[27, 3], [0, 0]]


def test_runs_without_answers_have_none(tmp_path: Path) -> None:
    ablated = frame_of(
        id=["a"], variant=["ablated"], answers=[[0, 1]], logits=[[0.0, 1.0]], kind=["boolean"]
    )
    assert report_of(write_run(tmp_path / "ablated", ablated)).questions == ()
    path = tmp_path / "o.csv"
    path.write_text("id,confidence,correct\nx,0.9,false\ny,0.8,true\n")
    import_run(path, tmp_path / "o")
    assert report_of(tmp_path / "o").questions == ()


def test_json_frame_and_tables_have_the_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    names = ["a\nline", "b \x1b[31m\u202e", "אב", "long " * 30]
    right = rng.integers(4, size=90)
    given = np.where(rng.random(90) < 0.7, right, rng.integers(4, size=90))
    folder = imported(tmp_path / "run", sorted(names), right, given)
    found = only_question(folder)
    (value,) = json.loads(run("report", folder, "--full", "--json").stdout)["questions"]
    assert value["confusion"] == found.confusion.tolist()
    assert value["answers"][1]["recall"]["value"] == found.answers[1].recall.value
    evaluation = pact_eval.evaluate(folder, Settings(resamples=100))
    frame = evaluation.frame()
    recalls = frame.filter(frame["metric"] == "recall")["value"].to_list()
    assert recalls == [answer.recall.value for answer in found.answers]
    assert frame.filter(frame["metric"] == "macro_f1")["low"].to_list() == [found.macro_f1.low]
    text = run("report", folder, "--full", "--resamples", 100).stdout
    assert "\x1b" not in text
    assert "\u202e" not in text
    out = tmp_path / "paper"
    run("paper", folder, "--tables", "answers,confusion", "--out", out)
    with (out / "confusion.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert [[float(cell) for cell in row[-4:]] for row in rows[1:]] == found.confusion.tolist()


def test_many_answers_have_a_list_of_mistakes(tmp_path: Path) -> None:
    right = np.repeat(np.arange(13), 3)
    given = np.where(np.arange(39) % 3 == 0, (right + 1) % 13, right)
    folder = imported(tmp_path / "run", [f"n{at:02}" for at in range(13)], right, given)
    text = run("report", folder, "--full", "--resamples", 100).stdout
    rows = [line.strip("| ").split() for line in text.splitlines() if line.startswith("| n")]
    assert ["n00", "|", "n01", "|", "1", "|", "3"] in rows


def coverage_of_macro_f1(seed: int, draws: int) -> float:
    """Return how often the interval holds macro F1 of ten answers, of which some are rare."""
    rng = np.random.default_rng(seed)
    prior = np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.03, 0.02])

    def draw(families: int) -> tuple[Any, Any, Any]:
        cluster = np.repeat(np.arange(families), 2)
        right = rng.choice(10, size=2 * families, p=prior)
        chance = 1 / (1 + np.exp(-1.5 - rng.normal(size=families)[cluster]))
        other = (right + rng.choice([1, 1, 2], size=2 * families)) % 10
        return right, np.where(rng.random(2 * families) < chance, right, other), cluster

    truth_right, truth_given, _ = draw(400_000)
    truth = f1_score(truth_right, truth_given, average="macro")
    held = 0
    for _ in range(draws):
        right, given, cluster = draw(150)
        answers = [_rates("", right == at, given == at, cluster) for at in range(10)]
        macro = _macro_f1(answers, right, given, cluster)
        held += macro.low <= truth <= macro.high
    return held / draws


@pytest.mark.slow
def test_macro_f1_is_covered() -> None:
    assert 0.92 <= coverage_of_macro_f1(1, 250) <= 0.99
