"""Drift without right answers: counts by hand, intervals by statsmodels, planted changes."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from messages import assert_says

from pact_eval.drift.unlabelled import Shift, UnlabelledDrift, compare_logs
from pact_eval.errors import InputError


def log_of(
    answers: Any,
    *,
    ids: Any = None,
    family: Any = None,
    question: Any = "next?",
    confidence: Any = 0.8,
) -> pl.DataFrame:
    """Return a log of some answers; one item and one family each, unless they are given."""
    n = len(answers)
    names = [f"i{at:04}" for at in range(n)] if ids is None else list(ids)
    return pl.DataFrame(
        {
            "id": names,
            "family": names if family is None else [f"f{code}" for code in family],
            "question": [question] * n if isinstance(question, str) else list(question),
            "answer": list(answers),
            "confidence": np.broadcast_to(confidence, n).astype(float),
        }
    )


def shift_of(drift: UnlabelledDrift, what: str, name: str = "", question: str = "") -> Shift:
    (found,) = (
        shift
        for shift in drift.shifts
        if (shift.what, shift.name, shift.question) == (what, name, question)
    )
    return found


def test_shares_and_confidences_by_hand() -> None:
    before = log_of(list("a" * 30 + "b" * 20 + "c" * 10), confidence=[0.9] * 30 + [0.6] * 30)
    after = log_of(
        list("a" * 15 + "b" * 20 + "c" * 15),
        ids=[f"new{at}" for at in range(50)],
        confidence=[0.9] * 10 + [0.6] * 40,
    )
    drift = compare_logs(before, after, below=0.7)
    assert (drift.items, drift.families, drift.same) == ((60, 50), (60, 50), None)
    for name, counts in {"a": (30, 15), "b": (20, 20), "c": (10, 15)}.items():
        shift = shift_of(drift, "answer", name)
        assert (shift.before, shift.after) == pytest.approx((counts[0] / 60, counts[1] / 50))
        assert shift.change.value == pytest.approx(shift.after - shift.before)
    sure = shift_of(drift, "confidence")
    assert (sure.before, sure.after) == pytest.approx((0.75, 0.66))
    assert (shift_of(drift, "below").before, shift_of(drift, "below").after) == (0.5, 0.8)
    assert len(drift.shifts) == 5


def test_intervals_against_least_squares_with_clustered_errors() -> None:
    """Of the mean of two logs that share families: statsmodels' CR1, without its factor for k."""
    rng = np.random.default_rng(0)
    family = [rng.integers(0, 40, 90), rng.integers(20, 60, 70)]
    sure = [rng.uniform(0.5, 1, 90), rng.uniform(0.4, 1, 70)]
    logs = [
        log_of(["a"] * len(code), ids=[f"{name}{at}" for at in range(len(code))], family=code,
               confidence=values)
        for name, code, values in zip("xy", family, sure, strict=True)
    ]  # fmt: skip
    change = shift_of(compare_logs(*logs), "confidence").change
    y, codes = np.concatenate(sure), np.concatenate(family)
    _, groups = np.unique(codes, return_inverse=True)
    design = sm.add_constant((np.arange(160) >= 90).astype(float))
    fit = sm.OLS(y, design).fit(
        cov_type="cluster",
        cov_kwds={"groups": groups, "use_correction": True, "df_correction": True},
        use_t=True,
    )
    # Its factor is F / (F - 1) * (n - 1) / (n - 2).
    error = fit.bse[1] / math.sqrt(159 / 158)
    t = (fit.conf_int()[1, 1] - fit.params[1]) / fit.bse[1]
    assert change.value == pytest.approx(fit.params[1])
    assert change.high - change.value == pytest.approx(t * error, rel=1e-6)
    assert change.clusters == groups.max() + 1


def test_changed_answers_and_noise_by_counting_pairs() -> None:
    """Items with one, two and three repeats; every pair is counted."""
    before = {"x": "aab", "y": "b", "z": "cc", "only": "a"}
    after = {"x": "ab", "y": "a", "z": "ccc", "other": "b"}
    logs = [
        log_of([*"".join(log.values())], ids=[name for name in log for _ in log[name]])
        for log in (before, after)
    ]
    same = compare_logs(*logs).same
    assert same is not None

    def different(first: str, second: str) -> float:
        return float(np.mean([one != two for one, two in product(first, second)]))

    def by_asking_again(answers: str) -> float:
        pairs = [(i, j) for i, j in product(range(len(answers)), repeat=2) if i != j]
        return float(np.mean([answers[i] != answers[j] for i, j in pairs]))

    changed = [different(before[name], after[name]) for name in "xyz"]
    x, z = (np.mean([by_asking_again(log[name]) for log in (before, after)]) for name in ("x", "z"))
    assert same.items == 3
    assert same.changed.value == pytest.approx(np.mean(changed))
    assert same.noise == pytest.approx((x + z) / 2)
    assert same.beyond.value == pytest.approx((changed[0] - x + changed[2] - z) / 2)
    assert same.ids == ("y",)  # of the pairs of x, half differ


@pytest.mark.parametrize(("noisy", "moved", "finding"), [
    (0.0, 0.0, "no change shown"),
    (0.15, 0.0, "no change shown"),
    (0.15, 0.25, "changed"),
    (0.0, 0.05, "changed"),
])  # fmt: skip
def test_more_changes_than_by_asking_again_are_a_change(
    noisy: float, moved: float, finding: str
) -> None:
    """Items asked twice in each log. Answers move to any other, so that their shares stay."""
    rng = np.random.default_rng(4)
    n = 250
    ids = [f"i{at // 2}" for at in range(2 * n)]
    base = np.repeat(rng.integers(0, 4, n), 2)
    other = np.repeat(np.where(rng.random(n) < moved, rng.integers(1, 4, n), 0), 2)

    def asked(answers: Any) -> pl.DataFrame:
        luck = np.where(rng.random(2 * n) < noisy, rng.integers(1, 4, 2 * n), 0)
        return log_of([f"a{code}" for code in (answers + luck) % 4], ids=ids)

    drift = compare_logs(asked(base), asked(base + other))
    assert drift.same is not None
    assert drift.finding == finding
    assert drift.same.shown == (moved > 0)
    assert not drift.shown


def test_without_repeats_only_many_changes_are_a_change() -> None:
    few, many = (log_of(["b" if at < changed else "a" for at in range(100)]) for changed in (4, 40))
    base = log_of(["a"] * 100)
    one = compare_logs(base, few)
    assert one.same is not None
    assert math.isnan(one.same.noise)
    assert (one.same.changed.value, one.same.shown, one.same.ids[:2]) == (
        0.04,
        False,
        ("i0000", "i0001"),
    )
    other = compare_logs(base, many).same
    assert other is not None
    assert other.shown


@pytest.mark.parametrize("change", ["questions", "confidence", "answer"])
def test_a_swap_of_questions_or_of_the_model_is_found(change: str) -> None:
    """A tenth of the questions, confidences that rise by 5 points, a question answered by yes."""
    rng = np.random.default_rng(2)
    n = 420
    questions = np.array(["refund?", "urgent?", "spam?"])
    asked = questions[np.arange(n) % 3]
    swapped = np.where(rng.random(n) < 0.1, "angry?", asked)
    answers = np.where(rng.random(n) < 0.6, "yes", "no")
    before = log_of(answers, question=asked, confidence=rng.uniform(0.5, 1, n))
    names = [f"n{at}" for at in range(n)]
    again = np.where(rng.random(n) < 0.6, "yes", "no")
    if change == "questions":
        asked = swapped
    elif change == "answer":
        again = np.where(asked == "spam?", "yes", again)
    least = 0.6 if change == "confidence" else 0.5
    sure = rng.uniform(least, 1, n)
    (found, *_) = compare_logs(
        before, log_of(again, ids=names, question=asked, confidence=sure)
    ).shown
    expected = {"questions": "question", "confidence": "confidence", "answer": "answer"}
    assert found.what == expected[change]
    assert (found.name, found.question) in {("angry?", ""), ("", ""), ("yes", "spam?")}


def test_copies_in_families_are_no_evidence() -> None:
    """Ten families of 20 copies each: 60% against 40% is four families against six."""
    family = np.repeat(np.arange(10), 20)
    before = log_of(np.where(family < 4, "a", "b"), family=family)
    ids = [f"n{at}" for at in range(200)]
    after = log_of(np.where(family < 6, "a", "b"), ids=ids, family=family + 10)
    assert compare_logs(before, after).finding == "no change shown"
    singles = compare_logs(before, log_of(np.where(family < 6, "a", "b"), ids=ids))
    assert shift_of(singles, "answer", "a").change.low < 0


def test_holm_over_all_tests_and_few_families() -> None:
    before = log_of(list("a" * 50 + "b" * 30 + "c" * 20))
    after = log_of(list("a" * 30 + "b" * 50 + "c" * 20), ids=[f"n{at}" for at in range(100)])
    drift = compare_logs(before, after)
    assert len(drift.shifts) == 4
    assert [shift.p for shift in drift.shown] == sorted(shift.p for shift in drift.shown)
    assert shift_of(drift, "answer", "c").p == 1
    few = compare_logs(
        before, log_of(["c"] * 40, ids=[f"n{at}" for at in range(40)], family=np.arange(40) % 4)
    )
    assert few.finding == "too few to tell"


def test_logs_of_other_items_under_one_id_are_refused() -> None:
    log = log_of(["a", "b"])
    with pytest.raises(InputError) as refused:
        compare_logs(log, log_of(["a", "b"], question="other?"), names=("old", "new"))
    assert_says(str(refused.value), "i0000", "question", "next?", "old", "other?", "new")
    with pytest.raises(InputError) as refused:
        compare_logs(log.drop("answer"), log)
    assert_says(str(refused.value), "before", "columns", "answer")
    with pytest.raises(InputError):
        compare_logs(log, log.head(0))


def test_words_have_the_numbers_of_the_change_and_what_is_not_known() -> None:
    before = log_of(["a"] * 60 + ["b"] * 40, confidence=0.9)
    after = log_of(["b"] * 30 + ["a"] * 30 + ["b"] * 40, confidence=0.5)
    printed = str(compare_logs(before, after, below=0.8))
    assert_says(
        printed.partition("\n\n")[0],
        *("CHANGED: 30.0 [", "]% of answers to the same items are others", "100 items in both"),
        *("answer b: 40.0% to 70.0% (p < 0.001)", "answers below 80%: 0.0% to 100.0%"),
        *("moved by at most 30.0 points", "right answers of the 30 items"),
    )
    same = compare_logs(before, before)
    assert same.to_json()["headline"] == "NO CHANGE SHOWN between before and after."
    other = before.with_columns(id=pl.lit("new") + pl.col("id"))
    assert_says(compare_logs(before, other), "right answers of 1,570 items of each log", "5 points")
    few = compare_logs(before.head(4), other)
    assert_says(few, "TOO FEW TO TELL: 4 independent items")


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3])
def test_of_400_pairs_of_logs_of_one_model_at_most_5_percent_are_loud(size: int) -> None:
    """Other items of three questions, and items of families that share their answer."""
    loud = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)

        def drawn(name: str, rng: np.random.Generator = rng) -> pl.DataFrame:
            families = 120
            family = np.repeat(np.arange(families), size)
            asked = np.array(["x?", "y?", "z?"])[family % 3]
            answer = rng.integers(0, 4, families)[family]
            sure = np.clip(rng.normal(0.8, 0.1, families)[family], 0.3, 1)
            ids = [f"{name}{at}" for at in range(family.size)]
            codes = family if name == "a" else family + families
            return log_of(
                [f"o{code}" for code in answer], ids=ids, family=codes, question=asked,
                confidence=sure,
            )  # fmt: skip

        loud += compare_logs(drawn("a"), drawn("b"), below=0.7, seed=seed).finding == "changed"
    assert loud <= 20
