"""Small files of other people: labels, levels and options are read right, or asked about."""

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


def say(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def report(run: Path, *words: object) -> dict[str, Any]:
    result = say("report", run, "--json", *words)
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def states(folder: Path, value: float, name: str = "accuracy") -> Callable[[], bool]:
    """Whether the newest run of a folder states this value."""

    def is_right() -> bool:
        stated = getattr(last_run(folder), name)
        return stated is not None and abs(stated - value) < 1e-9

    return is_right


def asks(folder: Path, questions: Sequence[Question]) -> Callable[[], bool]:
    """Whether the newest conversion of a folder has these questions."""
    return lambda: last_questions(folder) == [*questions]


def stars(rng: random.Random, levels: Sequence[int]) -> tuple[list[int], list[list[float]], float]:
    """True stars, of which none is 5; probabilities of five levels; the accuracy."""
    right = [levels[n % len(levels)] for n in range(40)]
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
    for words in (("report", tmp_path / "run-0"), ("report", tmp_path)):
        result = say(*words)
        assert result.exit_code == 0
        assert_says(result.stdout, "25 of 40")


def test_values_between_decimals_are_not_rounded(tmp_path: Path) -> None:
    rows = [
        {"id": f"q{n}", "reference": 1, "probabilities": [1.0, (1e-320, 1e-46)[n % 2], 0.0, 0.0]}
        for n in range(30)
    ]
    result = import_file(tmp_path, write_jsonl(tmp_path / "rows.jsonl", rows))
    assert result.exit_code == 0, result.output
    assert "rounded" not in result.output
    stored = json.loads((tmp_path / "run-0" / "run.json").read_text(encoding="utf-8"))
    assert not stored.get("rounding")
    true = -(math.log(1e-320) + math.log(1e-46)) / 2
    assert last_run(tmp_path).nll == pytest.approx(true, rel=1e-9)


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
    assert_says(result.output, "FOLLOWS THE LETTERS A AND B: chosen 25.0 points", "answers tie")
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


def test_a_bar_inside_an_option_does_not_split_it(tmp_path: Path) -> None:
    rows = [
        {"id": n, "question": f"q{n}", "answer": "zero"}
        | {"options": f"P(A|B)={n} | P(B|A)={n + 1} | zero"}
        for n in range(20)
    ]
    path = write_table(tmp_path, rows, Dialect("csv"))
    expected = [Question((f"P(A|B)={n}", f"P(B|A)={n + 1}", "zero"), "zero") for n in range(20)]
    result = convert(tmp_path, path)
    assert result.exit_code == 0, result.output
    assert asks(tmp_path, expected)()


# shapes


def test_a_run_is_named_after_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"t{n}", "label": "ab"[n % 2], "prediction": "a"} for n in range(30)]
    write_table(tmp_path, rows, Dialect("csv"), "tickets")
    result = say("import", "tickets.csv")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "runs" / "tickets" / "run.json").exists()


# options in columns


def test_options_read_or_named(tmp_path: Path) -> None:
    """Names of options that the reader does not know are not dropped in silence."""
    made = [
        {"question": f"q{n}", "alpha": f"a{n}", "beta": f"b{n}", "answer": f"{'ab'[n % 2]}{n}"}
        for n in range(36)
    ]
    path = write_table(tmp_path, made, Dialect("csv"))
    result = convert(tmp_path, path)
    assert result.exit_code == 2, result.output
    assert "alpha" in result.output
    assert "beta" in result.output
    again = convert(tmp_path, path, "--columns", "options=alpha+beta")
    assert again.exit_code == 0, again.output
    assert [one.options for one in last_questions(tmp_path)] == [
        (f"a{n}", f"b{n}") for n in range(36)
    ]
    assert [one.right for one in last_questions(tmp_path)] == [row["answer"] for row in made]


@pytest.mark.parametrize(
    ("stem", "first"), [("option", 0), ("option", 1), ("answer", 0), ("choice_", 1), ("opt", 0)]
)
def test_no_column_of_options_is_dropped(tmp_path: Path, stem: str, first: int) -> None:
    made = [
        {"question": f"q{n}"}
        | {f"{stem}{k + first}": f"{'wxyz'[k]}{n}" for k in range(4)}
        | {"label": n % 4}
        for n in range(36)
    ]
    result = convert(tmp_path, write_jsonl(tmp_path / "rows.jsonl", made))
    assert result.exit_code == 0, result.output
    assert last_questions(tmp_path) == [
        Question(tuple(f"{x}{n}" for x in "wxyz"), f"{'wxyz'[n % 4]}{n}") for n in range(36)
    ]


def test_numbers_of_columns_do_not_decide_where_positions_start(tmp_path: Path) -> None:
    """Labels 1 and 2 of three options fit the numbers of the columns, and positions from 0."""
    made = [
        {"question": f"q{n}", "option1": f"x{n}", "option2": f"y{n}", "option3": f"z{n}"}
        | {"label": n % 2 + 1}
        for n in range(36)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", made)
    result = convert(tmp_path, path)
    assert result.exit_code == 2, result.output
    for first in (0, 1):
        again = convert(tmp_path, path, "--positions-from", first)
        assert again.exit_code == 0, again.output
        assert [one.right for one in last_questions(tmp_path)] == [
            f"{'xyz'[n % 2 + 1 - first]}{n}" for n in range(36)
        ]


@pytest.mark.parametrize("first", [0, 1])
def test_positions_beside_a_prediction_that_is_a_text_of_digits(tmp_path: Path, first: int) -> None:
    """The form of the prediction is not that of the right answer: options are numbers."""
    rng = random.Random(5)
    options = [rng.sample(["0", "1", "2", "3"], 4) for _ in range(36)]
    right = [rng.randrange(4) for _ in range(36)]
    chosen = [k if rng.random() < 0.6 else rng.randrange(4) for k in right]
    made = [
        {"question": f"q{n}", "choices": options[n], "answer": right[n] + first}
        | {"prediction": options[n][chosen[n]]}
        for n in range(36)
    ]
    result = import_file(tmp_path, write_jsonl(tmp_path / "rows.jsonl", made))
    if result.exit_code == 0:
        true = sum(a == b for a, b in zip(right, chosen, strict=True)) / 36
        assert last_run(tmp_path).accuracy == pytest.approx(true, abs=1e-9)
    else:
        assert result.exit_code == 2, result.output
