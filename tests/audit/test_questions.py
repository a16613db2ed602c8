"""The lint of questions: planted faults are told, and sound questions are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import record, write_jsonl
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from spoiled_datasets import healthy

from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.audit.questions import CHECK, RULES, check_questions
from pact_eval.data.files import DataFile
from pact_eval.data.index import index_of_records
from pact_eval.data.records import Answer, Field


def decision(kind: str, answers: Any, instructions: str = "Which one fits?") -> dict[str, Any]:
    return {"type": kind, "instructions": instructions, "criteria": answers}


def choice(*answers: str, instructions: str = "Which one fits?") -> dict[str, Any]:
    """Answers without names that say anything, as files of test questions have them."""
    named = {f"option {place + 1} of this": text for place, text in enumerate(answers)}
    return decision("choice", named, instructions)


def checked(path: Path, rows: list[dict[str, Any]]) -> CheckResult:
    write_jsonl(path, rows)
    index = index_of_records([DataFile(path.name, "train", path)])
    return check_questions(index, Collector("questions", 5))


def asking(decisions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns a record for each question, with the first of its choices as the right answer."""
    rows = []
    for number, asked in enumerate(decisions):
        row = record(f"f{number}", decision=asked)
        if asked["type"] == "choice":
            row["reference"] = {"target": next(iter(asked["criteria"]))}
        rows.append(row)
    return rows


FAULTS = [
    ("answers-nearly-alike", choice("Yes, always", "yes always.", "Never")),
    ("answers-nearly-alike", decision("choice", {"a b": None, "A, b": None})),
    ("answers-overlap", choice("0-10 days", "10-20 days", "20-30 days")),
    ("answers-overlap", choice("18 to 25", "24 to 30", "over 30")),
    ("answers-opaque", decision("choice", {"0": None, "1": None, "2": None})),
    ("answers-opaque", decision("choice", {"A": None, "B": None}, "Pick the better text.")),
    ("answers-opaque", decision("choice", {"label_0": None, "label_1": None})),
    ("default-answer", decision("choice", {"billing": None, "none_of_the_above": None})),
    ("default-answer", decision("choice", {"billing": None, "x": "Other."})),
    ("order-in-answer", choice("Rain", "Snow", "Both A and B", "Hail")),
    ("order-in-answer", choice("Rain", "Snow", "All of the above")),
    ("order-in-answer", choice("Rain", "See B", "Snow")),
    ("order-in-answer", choice("A, B and C", "Rain", "Snow", "Hail")),
    ("order-in-answer", choice("Rain", "Snow", "A or B only")),
    ("letter-in-question", choice("Rain", "Snow", instructions="Choose option A or B.")),
    ("negated-question", choice("Rain", "Snow", instructions="Which is not never wet?")),
    ("negated-question", decision("boolean", None, "Isn't the seal intact?")),
    ("rubric-undescribed", decision("score", [None, None, None], "How polite is the text?")),
]


@pytest.mark.parametrize(("code", "asked"), FAULTS)
def test_a_planted_fault_is_told_once_at_the_first_record(
    code: str, asked: dict[str, Any], tmp_path: Path
) -> None:
    """Planted: one fault, in a question that three records ask."""
    result = checked(tmp_path / "x.jsonl", asking([choice("Rain", "Snow"), *[asked] * 3]))
    assert {code: 1} == result.counts
    assert result.findings[0].place.line == 2
    assert result.findings[0].expected
    assert result.scope == "2 questions"


SOUND = [
    choice("1.5", "15", "-15"),
    choice("f(x)", "f'(x)", "f"),
    choice("C", "C++", "C#"),
    choice("[0, 1]", "(0, 1)"),
    choice("5!", "5"),
    choice("0-9 days", "10-19 days", "20-29 days"),
    choice("1939-1945", "1914-1918", "1917-1920"),
    choice("1-2 kg", "2-3 miles", "red"),
    choice("0", "1", "2", instructions="How many are broken?"),
    decision("choice", {"0": None, "1": None}, "Write 1 for spam and 0 for mail."),
    decision("choice", {"0": "mail", "1": "spam"}),
    decision("choice", {"12": None, "15": None}),
    decision("choice", {"none of his friends": None, "his other brother": None}),
    choice("A", "B", "A and B", "neither of these types"),
    choice("Vitamin A", "Vitamin B and iron", "A patient, B cells"),
    choice("Y and Z", "X and Y"),
    choice("A", "B", instructions="Is A or B taller?"),
    choice("Rain", "Snow", instructions="Which is not wet? Do not guess. Never ask."),
    choice("Rain", "Snow", instructions="Is it wet or not, and which has no wind?"),
    choice("Rain", "Snow", instructions="Which has no wind and never any clouds?"),
    decision("boolean", None, "Does the record give the frequency as at no time, or never?"),
    decision("boolean", None, "Is the seal intact? Answer false if it does not say."),
    decision("score", ["Poor.", "Good.", "Excellent."]),
    decision("score", ["always", "often", None, "never"]),
    decision("score", ["good grammar", "poor grammar but good ideas", "poor"]),
    decision("score", [None, None, None], "From not at all to fully: how polite is it?"),
]


def test_sound_questions_are_not_told(tmp_path: Path) -> None:
    result = checked(tmp_path / "x.jsonl", asking(SOUND))
    assert [(finding.code, finding.actual) for finding in result.findings] == []


def test_the_fixture_data_has_no_finding(tmp_path: Path) -> None:
    folder = healthy(families=6).write(tmp_path)
    index = index_of_records([DataFile("train.jsonl", "train", folder / "train.jsonl")])
    assert check_questions(index, Collector("questions", 5)).counts == {}


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (["Which is not never wet?"], {"negated-question": 1}),
        ("How many are there? 0, 1 or 2?", {}),
        ("It is not never wet. It rains.", {"answers-opaque": 1}),
    ],
)
def test_a_context_that_is_a_question_belongs_to_it(
    state: Any, told: dict[str, int], tmp_path: Path
) -> None:
    """Rows of a table with a question and options have the question as their context."""
    names = ["wet", "dry"] if "negated-question" in told else ["0", "1", "2"]
    rows = asking([decision("choice", dict.fromkeys(names))])
    rows[0]["input"]["state"] = state
    assert checked(tmp_path / "x.jsonl", rows).counts == told


def of_lengths(path: Path, longest: int, n: int, *, last: str = "d") -> CheckResult:
    """Four answers, of which the first is the longest, and right in `longest` of n questions."""
    rows = []
    for number in range(n):
        texts = (f"the longest {number:03}", f"b {number}", f"c {number}", f"{last} {number}")
        right = {"target": f"option {1 if number < longest else 3} of this"}
        rows.append(record(f"f{number}", decision=choice(*texts), reference=right))
    return checked(path, rows)


@pytest.mark.parametrize("n", [20, 60])
def test_lengths_that_tell_the_answer_against_binomtest(n: int, tmp_path: Path) -> None:
    """A named library: the exact test at 0.1%."""
    p_values = [binomtest(k, n, 0.25, alternative="greater").pvalue for k in range(n + 1)]
    least = next(k for k, p_value in enumerate(p_values) if p_value < 0.001)
    assert of_lengths(tmp_path / "a.jsonl", least - 1, n).counts == {}
    result = of_lengths(tmp_path / "b.jsonl", least, n)
    assert result.counts == {"length-favoured": 1}
    assert result.findings[0].actual == f"{least}"


def test_both_ends_are_tested_together(tmp_path: Path) -> None:
    """Hand computation: P(X >= 12) of 20 is 0.00094, above half of 0.1%; P(X >= 13) is 0.00018."""
    for longest, last, told in ((12, "d", 1), (12, "ddd", 1), (12, "", 0), (13, "", 1)):
        result = of_lengths(tmp_path / f"{longest}{last}.jsonl", longest, 20, last=last)
        assert sum(result.counts.values()) == told, (longest, last)


def test_a_small_surplus_of_many_questions_is_not_told(tmp_path: Path) -> None:
    """355 of 1,200 is significant (p = 0.0002), and less than a fifth above 300."""
    assert of_lengths(tmp_path / "x.jsonl", 355, 1_200).counts == {}


def test_fixed_labels_and_families_count_once(tmp_path: Path) -> None:
    """A long label that is right in most records is a frequent label, and tells nothing."""
    fixed = asking([choice("a long label", "short")] * 60)
    assert checked(tmp_path / "x.jsonl", fixed).counts == {}
    rows = asking([choice(f"a long label {number}", f"{number}") for number in range(60)])
    assert checked(tmp_path / "y.jsonl", rows).counts == {"length-favoured": 1}
    family = [row | {"family": "one"} for row in rows]
    assert checked(tmp_path / "z.jsonl", family).counts == {}


TEXTS = st.text(max_size=30) | st.sampled_from(
    ["see B", "A and (C)", "1-2", "2 to 3.5 km", "none", "never", "is it not, no?", " ", "\u2028?"]
)


@given(answers=st.lists(TEXTS, min_size=2, max_size=6), question=TEXTS, kind=st.integers(0, 2))
def test_any_text_can_be_read(answers: list[str], question: str, kind: int) -> None:
    """Property: no text makes a rule fail; findings have a code of the check and short texts."""
    named = (f"{place}{text}" if kind else f"{place}" for place, text in enumerate(answers))
    described = tuple(map(Answer, named, answers))
    asked = Field("decision", ("choice", "boolean", "score")[kind], question, described)
    for rule in RULES:
        for code, expected, actual in rule(asked):
            assert code in CHECK.codes
            assert expected
            assert len(actual) <= 200


def test_long_texts_are_read_in_linear_time() -> None:
    """Hostile: no rule goes back to the start of a text for each of its letters."""
    for part in ("a ", "1", "not ", "(A", "- ", "A,"):
        text = part * 20_000
        answers = (Answer("a", text), Answer("b", f"{text}B"))
        asked = Field("decision", "choice", text, answers)
        assert all(code in CHECK.codes for rule in RULES for code, *_ in rule(asked))


@pytest.mark.slow
def test_random_texts_are_seldom_told(tmp_path: Path) -> None:
    """Null: random words as answers and questions; 40 files of 100 questions."""
    rng = np.random.default_rng(57)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))

    def words(most: int) -> str:
        sizes = rng.integers(2, 9, int(rng.integers(1, most)))
        return " ".join("".join(rng.choice(letters, size)) for size in sizes)

    told = 0
    for number in range(40):
        decisions = [
            choice(*(words(6) for _ in range(4)), instructions=f"{words(12)}?") for _ in range(100)
        ]
        told += bool(checked(tmp_path / f"{number}.jsonl", asking(decisions)).counts)
    assert told <= 1
