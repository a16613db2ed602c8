"""The surest wrong answers, and answers that change, against lists by hand and by sorting."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from builders import question, record, write_jsonl
from commands import runner
from messages import assert_says
from run_frames import edit_run, frame_of, rows, write_run

from pact_cli.main import main
from pact_eval import import_run
from pact_eval.evaluation import experiment as experiments
from pact_eval.evaluation.experiment import Experiment, RunReport
from pact_eval.evaluation.settings import Settings
from pact_eval.evaluation.wrong_items import WrongItems, _surest
from pact_eval.runs.provenance import REPEATS

run = runner(main)


def report_of(folder: Path, **settings: object) -> RunReport:
    return Experiment.read([folder], Settings(resamples=200, **settings)).report()  # type: ignore[arg-type]


def wrong_of(report: RunReport, most: int = 3) -> WrongItems:
    wrong = report.item_lists(most).wrong
    assert wrong is not None
    return wrong


def sure(p: float, n: int = 2) -> list[float]:
    """Return logits of which the first answer has the probability p."""
    return [math.log(p), *[math.log((1 - p) / (n - 1))] * (n - 1)]


def test_surest_first_and_ties_by_id(tmp_path: Path) -> None:
    """Wrong are c, a, b and d; a and b tie, and e is the surest but right."""
    frame = frame_of(
        id=["d", "b", "a", "c", "e"],
        reference=[1, 1, 1, 1, 0],
        logits=[sure(p) for p in (0.6, 0.8, 0.8, 0.9, 0.99)],
    )
    report = report_of(write_run(tmp_path / "run", frame))
    wrong = wrong_of(report)
    assert (wrong.wrong, wrong.answered) == (4, 5)
    assert [item.id for item in wrong.items] == ["c", "a", "b"]
    assert [item.confidence for item in wrong.items] == pytest.approx([0.9, 0.8, 0.8], abs=1e-6)
    assert report.wrong == wrong, "the line of the report has the same three"
    assert wrong.words == "3 surest of 4: c: A (90%), is B; a: A (80%), is B; b: A (80%), is B"
    assert [item.id for item in wrong_of(report, 9).items] == ["c", "a", "b", "d"]
    assert wrong_of(report, 0).items == ()


def test_nothing_wrong_and_ablated_contexts(tmp_path: Path) -> None:
    frame = frame_of(id=["a", "b"], reference=[0, 0], logits=[sure(0.6)] * 2)
    wrong = report_of(write_run(tmp_path / "right", frame)).wrong
    assert wrong is not None
    assert wrong.words == "none of 2 answers"
    ablated = frame_of(id=["a"], variant=["ablated"], answers=[[0, 1]], logits=[sure(0.6)])
    report = report_of(write_run(tmp_path / "ablated", ablated))
    assert report.wrong is None
    assert report.item_lists(3).wrong is None
    assert "wrong" not in report.to_json()


@pytest.mark.parametrize("seed", range(4))
def test_random_runs_against_sorted_items(tmp_path: Path, seed: int) -> None:
    """The same items in memory and read from a file in slices, against a sort of all of them."""
    frame = rows(seed, k=2, skill=0.5)
    folder = write_run(tmp_path / "run", frame)
    report = report_of(folder)
    first = frame.filter(pl.col("view") == 0)
    expected = []
    for row in first.iter_rows(named=True):
        p = np.exp(row["logits"]) / np.exp(row["logits"]).sum()
        if p.argmax() != row["reference"]:
            expected.append((-round(p.max(), 12), row["id"], p.argmax(), row["reference"]))
    expected.sort()
    wrong = wrong_of(report, 10)
    assert wrong.wrong == len(expected)
    assert [item.id for item in wrong.items] == [item for _, item, _, _ in expected[:10]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "ITEMS_IN_MEMORY", 5)
        assert report_of(folder).wrong == report.wrong


def test_changed_answers_by_hand(tmp_path: Path) -> None:
    """Answers of a: A, B, B, B; of b: A, B, A, C; of c: always A."""
    answers = {"a": [0, 1, 1, 1], "b": [0, 1, 0, 2], "c": [0, 0, 0, 0]}
    frame = frame_of(
        id=[item for item in answers for _ in range(4)],
        view=[0, 1, 2, 3] * 3,
        reference=[1] * 12,
        logits=[
            [2.0 * (answer == index) for index in range(3)]
            for given in answers.values()
            for answer in given
        ],
    )
    changed = report_of(write_run(tmp_path / "run", frame)).item_lists(5).changed
    assert changed is not None
    assert (changed.changed, changed.tested) == (2, 3)
    assert [(item.id, dict(item.given)) for item in changed.items] == [
        ("b", {"A": 2, "B": 1, "C": 1}),
        ("a", {"B": 3, "A": 1}),
    ]
    assert changed.items[0].right == ("B",)


def test_repeats_count_by_the_answer_of_most(tmp_path: Path) -> None:
    """a is wrong in two of three repeats, b in one: the mean confidence of a is 0.7."""
    given = {"a": [(0, 0.9), (0, 0.6), (1, 0.6)], "b": [(0, 0.9), (1, 0.6), (1, 0.9)]}
    logits = [
        sure(p) if answer == 0 else sure(p)[::-1] for item in given.values() for answer, p in item
    ]
    frame = frame_of(
        id=[item for item in given for _ in range(3)],
        view=[0, 1, 2] * 2,
        reference=[1] * 6,
        code_order=[[0, 1]] * 6,
        logits=logits,
    )
    folder = edit_run(write_run(tmp_path / "run", frame), log={"views": REPEATS})
    wrong = wrong_of(report_of(folder))
    assert [(item.id, item.given) for item in wrong.items] == [("a", "A")]
    assert wrong.items[0].confidence == pytest.approx(0.7, abs=1e-6)


def table(path: Path, head: list[str], lines: list[list[object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *lines])
    return path


def test_an_imported_table_has_its_texts_and_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        ["7", "It broke.\nAgain.", "refund", 0.1, 0.9],
        ["8", "Wrong size.", "replace", 0.2, 0.8],
    ]
    file = table(Path("t.csv"), ["id", "text", "label", "p_refund", "p_replace"], [*lines])
    import_run(file, "run")
    (item,) = wrong_of(report_of(Path("run"))).items
    assert (item.id, item.text, item.right, item.given) == (
        *("7", "It broke. Again.", ("refund",), "replace"),
    )
    file.write_text("changed since")
    (item,) = wrong_of(report_of(Path("run"))).items
    assert (item.text, item.right) == (None, ("refund",)), "the run names its answers"


QUIZ: list[dict[str, object]] = [
    {"question": f"What is {n} + 1?", "choices": [f"{n}", f"{n + 1}"], "topic": "sums"}
    for n in range(9)
]
FORMS = ("text", "letters", "counted from 1")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("suffix", ["json", "jsonl", "parquet"])
def test_items_of_a_quiz_have_the_texts_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, form: str
) -> None:
    """The second question is answered wrong, by hand; ids are those of the run."""
    monkeypatch.chdir(tmp_path)
    answers: Callable[[int, int], object] = {
        "text": lambda n, k: f"{n + k}",
        "letters": lambda _, k: "AB"[k],
        "counted from 1": lambda _, k: k + 1,
    }[form]
    lines = [
        {**quiz, "answer": answers(n, 1), "prediction": answers(n, int(n != 1))}
        for n, quiz in enumerate(QUIZ)
    ]
    file = Path(f"quiz.{suffix}")
    if suffix == "parquet":
        pl.DataFrame(lines).write_parquet(file)
    else:
        text = "\n".join(map(json.dumps, lines)) if suffix == "jsonl" else json.dumps(lines)
        file.write_text(text)
    import_run(file, "run", columns={"prediction": "prediction"})
    for data in ((), (file,)):
        (item,) = wrong_of(report_of(Path("run"), data=data)).items
        assert (item.text, item.right, item.given) == ("What is 1 + 1?", ("2",), "1")
        assert item.id in pl.read_parquet("run/predictions.parquet")["id"]
    page = run("report", "run", "--data", file, "--html", "p.html")
    assert page.exit_code == 0


def test_answers_without_confidence_and_outcomes_without_answers(tmp_path: Path) -> None:
    head = ["id", "label", "prediction"]
    answers = table(tmp_path / "a.csv", head, [["x", "no", "yes"], ["w", "yes", "no"]])
    import_run(answers, tmp_path / "a")
    wrong = report_of(tmp_path / "a").wrong
    assert wrong is not None
    assert wrong.words == "all 2: w: no, is yes; x: yes, is no"
    rows_ = [["x", 0.9, "false"], ["y", 0.7, "true"]]
    outcomes = table(tmp_path / "o.csv", ["id", "confidence", "correct"], rows_)
    import_run(outcomes, tmp_path / "o")
    wrong = report_of(tmp_path / "o").wrong
    assert wrong is not None
    assert wrong.words == "1: x (90%)"


def test_several_right_answers_are_all_named(tmp_path: Path) -> None:
    frame = frame_of(id=["a"], reference=[1], logits=[sure(0.6, 3)])
    frame = frame.with_columns(accepted=pl.Series([[1, 2]]))
    (item,) = wrong_of(report_of(write_run(tmp_path / "run", frame))).items
    assert item.right == ("B", "C")


def test_records_name_answers_and_texts_on_one_line(tmp_path: Path) -> None:
    """Control characters are escaped, line breaks are blanks, and a long text is cut."""
    states = [f"Clerk {at}:\nthe seal\x1b[2J is \u202eintact. " + "x" * 300 for at in range(2)]
    records = [
        record(f"r{at}", state=state, decision=question(instructions="Which one?"))
        for at, state in enumerate(states)
    ]
    data = write_jsonl(tmp_path / "data.jsonl", records)
    frame = frame_of(
        id=["r0", "r1"], reference=[1, 1], logits=[sure(0.8, 3), sure(0.7, 3)], variant=["base"] * 2
    )
    folder = write_run(tmp_path / "run", frame)
    items = wrong_of(report_of(folder, data=(data,))).items
    assert [(item.given, item.right) for item in items] == [("answer_0", ("answer_1",))] * 2
    assert items[0].text is not None
    assert items[0].text.startswith("Clerk 0: the seal")
    assert len(items[0].text) == 200
    words = ["report", folder, "--items", 2, "--data", data, "--resamples", 100]
    text = run(*words).stdout
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert_says(text, "wrong", "all 2: r0: answer_0 (80%), is answer_1")
    assert_says(text, "Wrong answers, surest first: 2 of 2", "r0", "80%", "answer_0", "answer_1")
    lists = json.loads(run(*words, "--json").stdout)["items"]
    assert [item["id"] for item in lists["wrong"]["items"]] == ["r0", "r1"]
    assert lists["changed"] is None


def test_items_that_one_of_two_runs_gets_right_by_hand(tmp_path: Path) -> None:
    """B alone is wrong on y (90%), x and w (60%), A alone on z; v is wrong in both."""
    ids = ["v", "w", "x", "y", "z"]
    given = {"a": [0.9, 0.1, 0.1, 0.1, 0.7], "b": [0.9, 0.6, 0.6, 0.9, 0.2]}
    runs = []
    for name, first in given.items():
        logits = [[math.log(p), math.log(1 - p)] for p in first]
        frame = frame_of(id=ids, reference=[1] * 5, logits=logits)
        runs.append(write_run(tmp_path / name, frame, arm=name))
    words = ("compare", *runs, "--resamples", 100, "--items")
    (pair,) = json.loads(run(*words, 2, "--json").stdout)["comparisons"]
    listed = [(item["correct"], item["id"], item["given"]) for item in pair["items"]]
    assert listed == [("a", "y", "A"), ("a", "w", "A"), ("b", "z", "A")]
    assert pair["items"][0]["confidence"] == pytest.approx(0.9, abs=1e-6)
    text = run(*words, 2).stdout
    assert_says(text, "Only a right", "2 of 3", "y", "90%", "w", "60%", "Only b right", "z", "70%")
    assert_says(run(*words, 1, "--full").stdout, "McNemar", "Only a right", "1 of 3")
    arms = (f"a={runs[0]}", f"b={runs[1]}")
    for folder in runs:
        edit_run(folder, seed=1)
    assert_says(run("compare", *arms, "--resamples", 100, "--items", 9).stdout, "3 of 3")


@pytest.mark.parametrize("seed", range(20))
def test_ties_against_a_sort_of_everything(seed: int) -> None:
    """Few different confidences, so that most items tie, and ids that look like numbers."""
    rng = np.random.default_rng(seed)
    n, most = int(rng.integers(1, 40)), int(rng.integers(1, 9))
    confidence = rng.choice([0.5, 0.7, 0.7 + 1e-15, 0.9], size=n)
    wrong, ids = rng.random(n) < 0.6, rng.permutation(n).astype(str)
    rows = _surest(confidence, wrong, lambda chosen: ids[chosen].tolist(), most)
    every = sorted(
        np.flatnonzero(wrong), key=lambda at: (-round(float(confidence[at]), 12), ids[at])
    )
    assert rows.tolist() == every[:most]
