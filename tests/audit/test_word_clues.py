"""Clues of records that are written out: each candidate's, by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import question, record, write_jsonl

from pact_eval.audit.shortcuts import (
    View,
    WordItem,
    _quoted,
    _widespread,
    candidate_clues,
    read_words,
)
from pact_eval.data.files import DataFile
from pact_eval.data.index import index_of_records


def items_of(folder: Path, *rows: Any) -> tuple[list[WordItem], list[str]]:
    index = index_of_records([DataFile("x", "train", write_jsonl(folder / "x", rows))])
    return read_words(index, range(len(index)))


def clues_of(folder: Path, *rows: Any, view: View = "question") -> list[list[str]]:
    """Return the names of each candidate's clues, sorted."""
    items, words = items_of(folder, *rows)
    clues = candidate_clues(items, words, view)
    starts = clues.matrix.indptr
    return [
        sorted(clues.names[column] for column in clues.matrix.indices[start:stop])
        for start, stop in pairwise(starts)
    ]


def briefly(names: list[str]) -> list[str]:
    """Return the words that tell clues apart, sorted: the names without the words between them."""
    between = {"a", "the", "of", "in", "with", "often", "than", "others"}
    return sorted(" ".join(word for word in name.split() if word not in between) for name in names)


def choice(criteria: dict[str, str | None], instructions: Any = "?", **changes: Any) -> Any:
    decision = question(criteria=criteria, instructions=instructions)
    target = changes.pop("target", next(iter(criteria)))
    return record(decision=decision, reference={"target": target}, **changes)


def test_words_of_answers_and_of_the_question(tmp_path: Path) -> None:
    criteria = {"red": "a long text", "blue": "short", "green": None}
    names = clues_of(tmp_path, choice(criteria, "Pick BLUE or short."))
    assert [briefly(of) for of in names] == [
        ['"a" answer', '"long" answer', '"red" answer', '"text" answer', "longest answer",
         "position 1"],
        ['"blue" answer', '"blue" answer and question', '"short" answer',
         '"short" answer and question', "answer's description more question",
         "answer's description question", "answer's key more question", "answer's key question",
         "most words shared question", "position 2", "word answer's description question",
         "word answer's key question"],
        ['"green" answer', "position 3"],
    ]  # fmt: skip


def test_words_that_all_answers_have_are_none_of_their_own(tmp_path: Path) -> None:
    names = clues_of(tmp_path, choice({"the red": None, "the blues": None}, "The red one"))
    first, second = map(briefly, names)
    assert not any('"the"' in name for name in first + second)
    assert {"shortest answer", '"red" answer and question'} <= {*first}
    assert {"longest answer", '"blues" answer'} <= {*second}
    assert "shortest answer" not in second


def test_answers_of_one_length_are_neither_longest_nor_shortest(tmp_path: Path) -> None:
    names = clues_of(tmp_path, choice({"red": "abc", "blue": "xyz", "x": "defgh"}))
    assert [[name for name in of if name.endswith("st answer")] for of in names] == [
        [], [], ["the longest answer"]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "more_often"),
    [("north", False), ("north gate", False), ("north north gate gate", True)],
)
def test_a_key_occurs_as_often_as_its_rarest_word(
    tmp_path: Path, text: str, more_often: bool
) -> None:
    """The other key, "south door", occurs once."""
    criteria: dict[str, str | None] = {"north gate": None, "south door": None}
    first, second = map(briefly, clues_of(tmp_path, choice(criteria, f"{text} south door")))
    clue = "answer's key more question"
    assert (clue in first) is more_often
    assert (clue in second) is (text == "north")
    assert "word answer's key question" in first
    assert ("answer's key question" in first) is (text != "north")


@pytest.mark.parametrize(
    ("text", "most"),
    [("", []), ("red", [0]), ("red blue", [0]), ("blue", [1]), ("red pale blue", [])],
)
def test_the_largest_share_of_words_is_one_answers(
    tmp_path: Path, text: str, most: list[int]
) -> None:
    """Of "red" one word of one, of "pale blue" up to two of two: an even share is nobody's."""
    names = clues_of(tmp_path, choice({"red": None, "pale blue": None}, text))
    clue = "the most words shared with the question"
    assert [place for place, of in enumerate(names) if clue in of] == most


def rows_of(texts: list[str], families: str, kind: str = "noul") -> list[Any]:
    return [
        record(
            f"r{n}-base",
            source_family=family,
            decision=question(kind, 2, instructions=text),
            reference={"target": True if kind == "noul" else "answer_0"},
        )
        for n, (text, family) in enumerate(zip(texts, families, strict=True))
    ]


def test_words_are_crossed_with_positions(tmp_path: Path) -> None:
    """ "alpha" is in three rows of each position, "beta" in two, "gamma" in one source family."""
    texts = ["alpha gamma", "alpha beta", "alpha beta gamma"]
    names = clues_of(tmp_path, *rows_of(texts, "ABA"))
    crossed = [[name for name in of if name.endswith("in the question")] for of in names]
    assert crossed == [['"alpha" in the question']] * 6
    alone = clues_of(tmp_path, *rows_of(texts, "AAA"))
    assert not any(name.endswith("in the question") for of in alone for name in of)


def test_words_are_crossed_with_keys_too(tmp_path: Path) -> None:
    names = clues_of(tmp_path, *rows_of(["alpha"] * 3, "ABA", "choice"))
    crossed = [[name for name in of if name.endswith("in the question")] for of in names]
    assert crossed == [['"alpha" in the question'] * 2] * 6


def test_crossed_clues_weigh_half(tmp_path: Path) -> None:
    items, words = items_of(tmp_path, *rows_of(["alpha"] * 3, "ABA"))
    clues = candidate_clues(items, words, "question")
    assert clues.matrix.shape == (6, len(clues.names))
    weights = {
        clues.names[column]: float(value)
        for column, value in zip(clues.matrix.indices, clues.matrix.data, strict=True)
    }
    assert weights['"alpha" in the question'] == 0.5
    assert {value for name, value in weights.items() if "question" not in name} == {1.0}
    columns = [n for n, name in enumerate(clues.names) if name == '"alpha" in the question']
    assert len(columns) == 2  # one a position
    dense = clues.matrix.toarray()[:, columns]
    assert dense.tolist() == [[0.5, 0.0], [0.0, 0.5]] * 3


def test_a_context_is_read_beside_the_question(tmp_path: Path) -> None:
    criteria: dict[str, str | None] = {"red": None, "blue": None}
    row = choice(criteria, "Is it red?", state=["Blue.", {"n": [7, None]}])
    first, second = map(briefly, clues_of(tmp_path, row, view="full context"))
    assert '"red" answer and question' in first
    assert '"blue" answer and full context' in second
    assert "full context" not in " ".join(first)
    items, words = items_of(tmp_path, row)
    read = {view: [words[n] for n in numbers[0]] for view, numbers in items[0].words.items()}
    assert sorted(read["full context"]) == ["7", "blue", "n"]
    assert "ablated context" not in read


def test_items_against_hand_computation(tmp_path: Path) -> None:
    criteria = {"a b": "b c", "d": None}
    rows = [
        choice(criteria, "to be or not to be", target="d", source_family="A", state="x"),
        choice(criteria, "to be or not to be", source_family="B", state="y") | {"id": "r2"},
        choice(criteria, "to be, or not to be", source_family="A", state="x") | {"id": "r3"},
    ]
    items, words = items_of(tmp_path, *rows)
    assert [(item.kind, item.source_family, item.reference) for item in items] == [
        ("choice", 0, 1), ("choice", 1, 0), ("choice", 0, 0)
    ]  # fmt: skip
    assert (items[0].keys, items[0].lengths) == (("a b", "d"), (3, 1))
    spelt = [{part: {words[n] for n in of} for part, of in answer.items()}
             for answer in items[0].words_of]  # fmt: skip
    assert spelt == [{"key": {"a", "b"}, "description": {"b", "c"}},
                     {"key": {"d"}, "description": set()}]  # fmt: skip
    numbers, counts = items[0].words["question"].tolist()
    assert {words[n]: count for n, count in zip(numbers, counts, strict=True)} == {
        "to": 2, "be": 2, "or": 1, "not": 1
    }  # fmt: skip
    assert numbers == sorted(numbers)
    assert items[0].texts["question"] == items[1].texts["question"] != items[2].texts["question"]
    assert items[0].texts["full context"] != items[1].texts["full context"]


def test_names_of_the_most_source_families() -> None:
    pairs = [(0, "c"), (0, "c"), (0, "b"), (1, "b"), (0, "a"), (1, "a"), (2, "a")]
    assert _widespread(pairs, 9) == {"a": 0, "b": 1}
    assert _widespread(pairs, 1) == {"a": 0}


def test_long_words_are_cut() -> None:
    assert _quoted("x" * 40) == f'"{"x" * 40}"'
    assert _quoted("x" * 41) == f'"{"x" * 37}..."'


def test_no_words_are_no_numbers(tmp_path: Path) -> None:
    items, _ = items_of(tmp_path, choice({"a": None, "b": None}, "?!"))
    assert items[0].words["question"].shape == (2, 0)
    assert items[0].words["question"].dtype == np.int64
