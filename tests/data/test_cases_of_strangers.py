"""Small files of other people, each by its right value: it is read right, or asked about."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from builders import write_jsonl
from click.testing import CliRunner, Result
from foreign_tables import (
    Dialect,
    Question,
    assert_asks,
    convert,
    import_file,
    last_questions,
    last_run,
    read_or_asked,
    remedies_of,
    write_table,
)
from messages import assert_says

from pact_cli.main import main

LETTERS = "ABCDEFGH"
DECISIONS = ("refund", "replace", "reject")


def say(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def report(run: Path, *words: object) -> dict[str, Any]:
    result = say("report", run, "--json", *words)
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def drawn(rng: random.Random, n: int) -> list[float]:
    weights = [rng.gammavariate(1, 1) for _ in range(n)]
    return [weight / sum(weights) for weight in weights]


def tickets(seed: int = 1, n: int = 60) -> list[tuple[str, list[float]]]:
    """The right decision of each ticket, and the probabilities in the order of DECISIONS.

    Most often, the right one is also the most probable, and many others are not.
    """
    rng = random.Random(seed)
    made = []
    for _ in range(n):
        probabilities = drawn(rng, 3)
        right = max(range(3), key=probabilities.__getitem__)
        if rng.random() < 0.25:
            right = rng.randrange(3)
        made.append((DECISIONS[right], probabilities))
    return made


def accuracy(made: Sequence[tuple[str, list[float]]], names: Sequence[str] = DECISIONS) -> float:
    hits = [names[max(range(len(p)), key=p.__getitem__)] == right for right, p in made]
    return sum(hits) / len(hits)


def nll(made: Sequence[tuple[str, list[float]]], names: Sequence[str] = DECISIONS) -> float:
    return -sum(math.log(p[names.index(right)]) for right, p in made) / len(made)


def states(folder: Path, value: float, name: str = "accuracy") -> Callable[[], bool]:
    """Whether the newest run of a folder states this value."""

    def is_right() -> bool:
        stated = getattr(last_run(folder), name)
        return stated is not None and abs(stated - value) < 1e-9

    return is_right


def asks(folder: Path, questions: Sequence[Question]) -> Callable[[], bool]:
    """Whether the newest conversion of a folder has these questions."""
    return lambda: last_questions(folder) == [*questions]


# rows


@pytest.mark.parametrize("with_data", [False, True], ids=["alone", "also as --data"])
def test_answer_beside_log_probabilities_is_the_right_answer(
    tmp_path: Path, with_data: bool
) -> None:
    made = tickets()
    rows = [
        {"id": f"t{n}", "text": f"ticket {n}", "answer": right}
        | {"logprobs": {name: math.log(p) for name, p in zip(DECISIONS, values, strict=True)}}
        for n, (right, values) in enumerate(made)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    data = ("--data", path) if with_data else ()
    result = import_file(tmp_path, path, *data)
    assert result.exit_code == 0, result.output
    assert states(tmp_path, accuracy(made))()
    assert states(tmp_path, nll(made), "nll")()


@pytest.mark.parametrize("with_data", [False, True], ids=["alone", "also as --data"])
@pytest.mark.parametrize("names", [DECISIONS, ("replace", "reject", "refund")])
def test_a_prediction_in_every_row_says_the_order_of_a_list(
    tmp_path: Path, names: tuple[str, ...], with_data: bool
) -> None:
    """The second order is neither that of the alphabet nor of the first occurrence."""
    made = tickets(seed=3)
    rows = [
        {"id": f"t{n}", "text": f"ticket {n}", "label": right, "probabilities": values}
        | {"prediction": names[max(range(3), key=values.__getitem__)]}
        for n, (right, values) in enumerate(made)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    result = import_file(tmp_path, path, *(("--data", path) if with_data else ()))
    assert result.exit_code == 0, result.output
    assert states(tmp_path, accuracy(made, names))()
    assert states(tmp_path, nll(made, names), "nll")()


def test_a_prediction_that_contradicts_every_order_is_refused(tmp_path: Path) -> None:
    made = tickets(seed=5)
    rows = [
        {"id": f"t{n}", "label": right, "probabilities": values}
        | {"prediction": DECISIONS[max(range(3), key=values.__getitem__)]}
        for n, (right, values) in enumerate(made)
    ]
    rows[7]["prediction"] = DECISIONS[min(range(3), key=made[7][1].__getitem__)]
    result = import_file(tmp_path, write_jsonl(tmp_path / "rows.jsonl", rows))
    assert result.exit_code in (1, 2), result.output
    assert_says(result.output, "t7")


def test_a_list_with_text_labels_has_no_known_order(tmp_path: Path) -> None:
    made = tickets(seed=6)
    rows = [
        {"id": f"t{n}", "label": right, "probabilities": values}
        for n, (right, values) in enumerate(made)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    result = import_file(tmp_path, path)
    assert result.exit_code == 2, result.output
    assert_says(result.output, "--options")
    again = import_file(tmp_path, path, "--options", ",".join(DECISIONS))
    assert again.exit_code == 0, again.output
    assert states(tmp_path, accuracy(made))()
    assert states(tmp_path, nll(made), "nll")()


def stars(rng: random.Random, levels: Sequence[int]) -> tuple[list[int], list[list[float]], float]:
    """True stars, of which none is 5; probabilities of five levels; the accuracy."""
    right = [levels[n % len(levels)] for n in range(80)]
    said = [star if rng.random() < 0.8 else rng.randint(1, 5) for star in right]
    values = [[0.84 if level == star else 0.04 for level in range(1, 6)] for star in said]
    hits = [star == answer for star, answer in zip(right, said, strict=True)]
    return right, values, sum(hits) / len(hits)


def test_a_rubric_in_which_no_five_occurs_counts_from_one(tmp_path: Path) -> None:
    right, values, true = stars(random.Random(1), (1, 2, 3, 4))
    criteria = [f"{n} star{'s' if n > 1 else ''}" for n in range(1, 6)]
    question = {"type": "score", "instructions": "How many stars?", "criteria": criteria}
    data = write_jsonl(
        tmp_path / "data.jsonl",
        [
            {"id": f"r{n}", "state": f"review {n}", "questions": {"stars": question}}
            | {"expected": {"stars": star}}
            for n, star in enumerate(right)
        ],
    )
    rows = [{"id": f"r{n}", "probabilities": p} for n, p in enumerate(values)]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    read_or_asked(
        lambda *words: import_file(tmp_path, path, "--data", data, *words), states(tmp_path, true)
    )


@pytest.mark.parametrize("words", [("--levels", "1..5"), ("--positions-from", "1")])
def test_levels_of_a_rubric_can_be_stated(tmp_path: Path, words: tuple[str, ...]) -> None:
    right, values, true = stars(random.Random(2), (1, 2, 3, 4))
    rows = [
        {"id": f"r{n}", "stars": star, "type": "score", "probabilities": p}
        for n, (star, p) in enumerate(zip(right, values, strict=True))
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    columns = ("--columns", "reference=stars,type=type,probabilities=probabilities")
    first = import_file(tmp_path, path, *columns)
    assert first.exit_code == 2, first.output
    assert_asks(first)
    again = import_file(tmp_path, path, *columns, *words)
    assert again.exit_code == 0, again.output
    assert states(tmp_path, true)()


def test_two_references_that_differ_are_refused(tmp_path: Path) -> None:
    names = ("neg", "neu", "pos")
    data = [{"id": str(n), "text": f"review {n}", "label": names[n % 3]} for n in range(30)]
    data_path = write_table(tmp_path, data, Dialect("csv"), "data")
    rows = [
        {"id": str(n), "reference": 0}
        | {"probabilities": {name: 0.8 if name == names[n % 3] else 0.1 for name in names}}
        for n in range(30)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    result = import_file(tmp_path, path, "--data", data_path)
    assert result.exit_code in (1, 2), result.output
    assert_says(result.output, "reference")
    assert "data.csv" in result.output


def test_reference_and_gold_that_differ_are_refused_and_either_can_be_chosen(
    tmp_path: Path,
) -> None:
    rng = random.Random(7)
    made = [(rng.randrange(4), rng.randrange(4), drawn(rng, 4)) for _ in range(40)]
    rows = [
        {"id": f"q{n}", "reference": reference, "probabilities": values, "gold": gold}
        for n, (reference, gold, values) in enumerate(made)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    result = import_file(tmp_path, path)
    assert_asks(result)
    assert "reference" in result.output
    assert "gold" in result.output
    for place, name in enumerate(("reference", "gold")):
        true = sum(row[place] == max(range(4), key=row[2].__getitem__) for row in made) / 40
        chosen = f"reference={name}"
        assert any(chosen in words[-1] for words in remedies_of(result.output))
        again = import_file(tmp_path, path, "--columns", chosen)
        assert again.exit_code == 0, again.output
        assert states(tmp_path, true)()


def test_reference_and_gold_that_agree_are_one(tmp_path: Path) -> None:
    rng = random.Random(8)
    rows: list[dict[str, Any]] = [
        {"id": f"q{n}", "reference": n % 4, "probabilities": drawn(rng, 4), "gold": n % 4}
        for n in range(40)
    ]
    result = import_file(tmp_path, write_jsonl(tmp_path / "rows.jsonl", rows))
    assert result.exit_code == 0, result.output
    hits = [row["gold"] == max(range(4), key=row["probabilities"].__getitem__) for row in rows]
    assert states(tmp_path, sum(hits) / 40)()


def test_an_incomplete_run_says_so(tmp_path: Path) -> None:
    names = ("neg", "neu", "pos")
    data = [{"id": str(n), "text": f"review {n}", "label": names[n % 3]} for n in range(40)]
    rows = [
        {"id": str(n)}
        | {"probabilities": {name: 0.8 if name == names[n % 3] else 0.1 for name in names}}
        for n in range(25)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    result = import_file(tmp_path, path, "--data", write_table(tmp_path, data, Dialect("csv")))
    assert result.exit_code == 0, result.output
    for words in (("report", tmp_path / "run-0"), ("runs", tmp_path)):
        result = say(*words)
        assert result.exit_code == 0
        assert_says(result.stdout, "25 of 40")


def views(probabilities_of: Callable[[list[int]], list[float]]) -> list[dict[str, Any]]:
    orders = [[(place + view) % 4 for place in range(4)] for view in range(4)]
    return [
        {"id": f"q{n}", "reference": n % 4, "view": view, "code_order": order}
        | {"probabilities": probabilities_of(order)}
        for n in range(60)
        for view, order in enumerate(orders)
    ]


def test_views_that_are_all_ties_say_nothing_about_the_order(tmp_path: Path) -> None:
    rows = views(lambda _: [0.25] * 4)
    result = import_file(tmp_path, write_jsonl(tmp_path / "rows.jsonl", rows))
    assert result.exit_code == 0, result.output
    order = report(tmp_path / "run-0")["answer"]["order"]
    assert order["status"] == "cannot tell"
    assert "stable" not in result.output


def test_a_tie_counts_half_for_each_letter(tmp_path: Path) -> None:
    """The answers at letters A and B tie in every view: each letter is chosen half of the time."""
    rows = views(lambda order: [0.4 if order.index(answer) < 2 else 0.1 for answer in range(4)])
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    result = import_file(tmp_path, path)
    assert result.exit_code == 0, result.output
    assert_says(result.output, "FOLLOWS THE LETTERS A AND B: chosen 25.0 points", "views tie")
    stated = report(tmp_path / "run-0")["letters"]
    shares = [count / stated["item_views"] for count in stated["picked"]]
    assert shares == pytest.approx([0.5, 0.5, 0, 0])


@pytest.mark.parametrize(
    ("names", "families"),
    [
        ([""] * 60, 60),
        ([None] * 60, 60),
        ([f"f{n // 2}" if n % 4 < 2 else "" for n in range(60)], 45),
        ([f"f{n // 2}" if n % 4 < 2 else "  " for n in range(60)], 45),
    ],
    ids=["empty", "null", "half of them", "half of them spaces"],
)
def test_an_empty_family_is_no_family(
    tmp_path: Path, names: list[str | None], families: int
) -> None:
    rows = [
        {"id": f"q{n}", "reference": n % 2, "probabilities": [0.7, 0.2, 0.1], "family": name}
        for n, name in enumerate(names)
    ]
    result = import_file(tmp_path, write_jsonl(tmp_path / "rows.jsonl", rows))
    assert result.exit_code == 0, result.output
    assert report(tmp_path / "run-0")["groups"][0]["families"] == families


# levels


@pytest.mark.parametrize(
    ("said", "true", "error"),
    [
        ({"low": "low", "medium": "medium", "high": "high"}, 1.0, 0.0),
        ({"low": "high", "medium": "low", "high": "high"}, 1 / 3, 1.0),
    ],
    ids=["perfect", "one step off"],
)
def test_words_of_a_rubric_have_no_order_until_one_is_given(
    tmp_path: Path, said: dict[str, str], true: float, error: float
) -> None:
    scale = ("low", "medium", "high")
    data = write_jsonl(
        tmp_path / "data.jsonl",
        [
            {"text": f"t{n}", "label": scale[n % 3], "type": "score", "id": f"t{n}"}
            for n in range(60)
        ],
    )
    rows = [
        {"id": f"t{n}"}
        | {"probabilities": [0.9 if level == said[scale[n % 3]] else 0.05 for level in scale]}
        for n in range(60)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    result = import_file(tmp_path, path, "--data", data)
    assert result.exit_code == 2, result.output
    assert_says(result.output, "--options")
    again = import_file(tmp_path, path, "--data", data, "--options", "low,medium,high")
    assert again.exit_code == 0, again.output
    assert states(tmp_path, true)()
    assert states(tmp_path, error, "level_error")()


# labelled


@pytest.mark.parametrize(
    ("labels", "no_label"),
    [
        ([0, 1, 2], -1),
        (["0", "1", "2"], "-1"),
        (["entailment", "neutral", "contradiction"], "-"),
        (["entailment", "neutral", "contradiction"], ""),
        (["entailment", "neutral", "contradiction"], None),
        (["entailment", "neutral", "contradiction"], "  "),
        (["entailment", "neutral", "contradiction"], -1),
    ],
)
def test_a_missing_label_is_not_a_class(tmp_path: Path, labels: list[Any], no_label: Any) -> None:
    rows = [{"text": f"premise {n}", "label": [*labels, no_label][n % 4]} for n in range(28)]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    result = convert(tmp_path, path)
    assert result.exit_code == 0, result.output
    asked = last_questions(tmp_path)
    assert len(asked) == 21
    assert {*asked[0].options} == {str(label) for label in labels}
    assert [question.right for question in asked] == [str(labels[n % 3]) for n in range(21)]
    assert "7" in result.output  # how many have none


def options_of(count: int) -> tuple[str, ...]:
    return tuple(f"{letter}{count}" for letter in "abcd")


def test_positions_that_never_reach_the_end_are_asked_about(tmp_path: Path) -> None:
    rows = [
        {"question": f"q{n}", "options": [*options_of(n)], "answer": n % 3 + 1} for n in range(12)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    result = convert(tmp_path, path)
    assert_asks(result)
    for first in (0, 1):
        expected = [Question(options_of(n), options_of(n)[n % 3 + 1 - first]) for n in range(12)]
        again = convert(tmp_path, path, "--positions-from", first)
        assert again.exit_code == 0, again.output
        assert asks(tmp_path, expected)()


def test_names_in_a_blank_that_are_all_the_first_are_asked_about(tmp_path: Path) -> None:
    """WinoGrande's columns count from 1, so nothing else fits; here only "1" occurs."""
    rows = [
        {"sentence": f"s{n} _", "option1": f"x{n}", "option2": f"y{n}", "answer": "1"}
        for n in range(12)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    expected = [Question((f"x{n}", f"y{n}"), f"x{n}") for n in range(12)]
    read_or_asked(lambda *words: convert(tmp_path, path, *words), asks(tmp_path, expected))


DIGITS = [random.Random(n).sample(["0", "1", "2", "3"], 4) for n in range(20)]


@pytest.mark.parametrize("mixed", [False, True])
def test_digits_among_options_are_texts_or_positions(tmp_path: Path, mixed: bool) -> None:
    lists = [
        [f"{letter}{n}" for letter in "wxyz"] if mixed and n % 3 == 0 else digits
        for n, digits in enumerate(DIGITS)
    ]
    rows = [
        {"question": f"Q{n}", "options": options, "answer": n % 4}
        for n, options in enumerate(lists)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    result = convert(tmp_path, path)
    by_position = [Question(tuple(listed), listed[n % 4]) for n, listed in enumerate(lists)]
    if mixed:  # texts do not fit every row: "0" is none of w0, x0, y0, z0
        read_or_asked(lambda *words: convert(tmp_path, path, *words), asks(tmp_path, by_position))
        return
    assert_asks(result)
    read_or_asked(lambda *words: convert(tmp_path, path, *words), asks(tmp_path, by_position))
    by_text = [Question(tuple(listed), str(n % 4)) for n, listed in enumerate(lists)]
    read_or_asked(lambda *words: convert(tmp_path, path, *words), asks(tmp_path, by_text))


def test_letters_among_options_are_texts_or_letters(tmp_path: Path) -> None:
    options = ("D", "C", "B", "A")
    rows = [
        {"question": f"q{n}", "options": [*options], "answer": "ABCD"[n % 4]} for n in range(20)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    assert_asks(convert(tmp_path, path))
    for right in ([options[n % 4] for n in range(20)], ["ABCD"[n % 4] for n in range(20)]):
        expected = [Question(options, text) for text in right]
        read_or_asked(lambda *words: convert(tmp_path, path, *words), asks(tmp_path, expected))


@pytest.mark.parametrize("levels", [[-2, -1, 0, 1, 2], [*map(str, range(12))]])
def test_levels_are_in_order_of_value(tmp_path: Path, levels: list[Any]) -> None:
    rows = [
        {"text": f"t{n}", "label": label, "type": "score"} for n, label in enumerate(levels * 3)
    ]
    result = convert(tmp_path, write_jsonl(tmp_path / "rows.jsonl", rows))
    assert result.exit_code == 0, result.output
    names = tuple(map(str, levels))
    assert asks(tmp_path, [Question(names, name, "score") for name in names * 3])()


@pytest.mark.parametrize(
    ("variants", "classes"),
    [
        ([["caf\u00e9", "cafe\u0301"], ["th\u00e9"]], 2),
        ([[1.0, 1, "1", "1.0"], [0.0, 0, "0"]], 2),
        ([["yes", "Yes", " yes"], ["no", "NO "]], 2),
        ([[True, "true", "True", 1], [0, False]], 2),
        ([["3", 3], ["4", 4], ["5"]], 3),
    ],
    ids=["NFC", "floats", "case and spaces", "truth", "digits"],
)
def test_variants_of_a_label_are_one_label_or_asked_about(
    tmp_path: Path, variants: list[list[Any]], classes: int
) -> None:
    written = [(group, label) for group, labels in enumerate(variants) for label in labels] * 3
    rows = [{"text": f"t{n}", "label": label} for n, (_, label) in enumerate(written)]
    result = convert(tmp_path, write_jsonl(tmp_path / "rows.jsonl", rows))
    if result.exit_code == 2:
        assert len(remedies_of(result.output)) >= 1, result.output
        return
    assert result.exit_code == 0, result.output
    asked = last_questions(tmp_path)
    assert all(len(question.options) == classes for question in asked)
    right = [question.right for question in asked]
    for group in range(classes):
        assert len({text for text, row in zip(right, written, strict=True) if row[0] == group}) == 1
    assert len({*right}) == classes


# shapes


def test_a_run_is_named_after_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = tickets(seed=10, n=30)
    rows = [
        {"id": f"t{n}", "label": right}
        | {f"p_{name}": value for name, value in zip(DECISIONS, values, strict=True)}
        for n, (right, values) in enumerate(made)
    ]
    write_table(tmp_path, rows, Dialect("csv"), "tickets")
    result = say("import", "tickets.csv")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "runs" / "tickets" / "run.json").exists()
