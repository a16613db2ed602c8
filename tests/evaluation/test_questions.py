"""Whether the items of a run are of several questions, and releases that are judged so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from evaluation.test_requirements import bounds, frame, run_of
from messages import assert_says
from run_frames import write_run

from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import has_several_questions
from pact_eval.evaluation.requirements import Release, Requirement, judge_release
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.folder import open_run
from pact_eval.runs.identity import several_questions


def families(n: int) -> npt.NDArray[np.object_]:
    return np.array([f"f{at}" for at in range(n)], dtype=object)


def several(*questions: str, sizes: tuple[int, ...]) -> bool:
    names = np.repeat(np.array(questions, dtype=object), sizes)
    return several_questions(names, families(names.size))


def test_questions_are_several_if_two_are_asked_again_and_again() -> None:
    """Ten families each, and half of the items between them."""
    assert several("spam", "refund", sizes=(10, 10))
    assert not several("spam", "refund", sizes=(10, 9))
    assert not several("spam", sizes=(500,))
    assert several("spam", "refund", "rare", sizes=(400, 10, 1))
    own = [f"Who was {at}?" for at in range(400)]
    assert not several(*own, sizes=(1,) * 400)
    assert not several("spam", "refund", *own, sizes=(10, 10, *(1,) * 400))


def test_items_of_one_family_are_one_time_of_asking() -> None:
    names = np.array(["spam", "refund"] * 50, dtype=object)
    assert several_questions(names, families(100))
    assert not several_questions(names, families(5).repeat(20))


@pytest.mark.parametrize("seed", range(5))
def test_neither_the_order_nor_the_names_decide(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = rng.choice(["a", "b", "c", "d"], p=rng.dirichlet([0.3] * 4), size=60).astype(object)
    family = families(60)[rng.integers(60, size=60)]
    order = rng.permutation(60)
    said = several_questions(names, family)
    assert said == several_questions(names[order], family[order])
    assert said == several_questions(np.array([f"Is it {name}?" for name in names]), family)


def asked(spam: int, refund: int, n: int = 200) -> pl.DataFrame:
    """Rows of n items of each question, with so many right answers."""
    right = np.r_[np.arange(n) < spam, np.arange(n) < refund]
    column = pl.Series("metadata.question", ["spam"] * n + ["refund"] * n)
    return frame(right).with_columns(column)


def release(*rows: pl.DataFrame, required: list[Requirement], by: str | None = None) -> Release:
    runs = [run_of(table, name) for table, name in zip(rows, ("new", "old"), strict=False)]
    settings = Settings(resamples=100, by=by or "kind")
    experiment = Experiment.read(runs, settings, unique_labels=False)
    return judge_release(experiment, required, grouped=None if by is None else True)


def test_a_release_names_the_question_that_fails() -> None:
    """Together 80%, above 75%; of spam 65%, which is below."""
    rows = asked(spam=130, refund=190)
    judged = release(rows, required=bounds("accuracy=75"))
    assert judged.verdict == "FAIL"
    assert_says(judged.answer, "FAIL: new", "accuracy (spam) is 65.0", "75%")
    assert [one.group for one in judged.judged] == ["spam", "refund"]
    together = release(rows, required=bounds("accuracy=75"), by="all")
    assert together.verdict == "PASS"
    assert {one.group for one in together.judged} == {"all"}
    assert together.judged[0].estimate.value == pytest.approx(0.8)
    by_name = release(rows, required=bounds("accuracy=75"), by="question")
    assert by_name.judged == judged.judged


def test_one_question_that_gets_worse_is_not_hidden_by_another_that_gets_better() -> None:
    """+20 and -10 points: +5 together."""
    new, old = asked(spam=160, refund=170), asked(spam=120, refund=190)
    required = [Requirement.not_worse("2")]
    judged = release(new, old, required=required)
    assert judged.verdict == "FAIL"
    assert_says(judged.answer, "accuracy (refund) changed by", "-10.0")
    assert release(new, old, required=required, by="all").verdict == "PASS"


def test_items_with_a_question_each_are_judged_together() -> None:
    column = pl.Series("metadata.question", [f"Who was {at}?" for at in range(400)])
    rows = frame(np.arange(400) < 380).with_columns(column)
    judged = release(rows, required=bounds("accuracy=90"))
    assert (judged.verdict, judged.by, len(judged.judged)) == ("PASS", "", 1)


def test_a_run_says_so_whether_its_rows_are_read_or_not(tmp_path: Path) -> None:
    for name, rows in {"several": asked(150, 150), "one": frame(np.arange(60) < 50)}.items():
        folder = write_run(tmp_path / name, rows)
        said = {
            has_several_questions(Experiment.read([source]).runs[0])
            for source in (open_run(folder), run_of(rows))
        }
        assert said == {name == "several"}
