"""Tables that contradict themselves, or that are written carelessly: never a wrong number."""

from __future__ import annotations

import gzip
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from builders import write_jsonl
from foreign_tables import (
    Dialect,
    Question,
    convert,
    import_file,
    last_questions,
    last_run,
    write_table,
)

N: Final = 36
NAMES: Final = ("refund", "replace", "reject")


def _drawn() -> tuple[list[int], list[list[float]]]:
    rng = random.Random(11)
    right = [n % 3 for n in range(N)]
    values = []
    for index in right:
        weights = [rng.gammavariate(1, 1) + 1e-3 for _ in NAMES]
        weights[index] += rng.choice([0, 2])
        values.append([weight / sum(weights) for weight in weights])
    return right, values


RIGHT, VALUES = _drawn()
CHOSEN: Final = [max(range(3), key=row.__getitem__) for row in VALUES]
ACCURACY: Final = sum(a == b for a, b in zip(RIGHT, CHOSEN, strict=True)) / N
NLL: Final = -math.fsum(math.log(row[k]) for row, k in zip(VALUES, RIGHT, strict=True)) / N


def names(n: int) -> dict[str, float]:
    return dict(zip(NAMES, VALUES[n], strict=True))


def columns(n: int) -> dict[str, float]:
    return {f"p_{name}": p for name, p in names(n).items()}


Writer = Callable[[Path], Path]


def rows(row: Callable[[int], Mapping[str, Any]]) -> Writer:
    return lambda folder: write_jsonl(folder / "table.jsonl", [row(n) for n in range(N)])


def table(row: Callable[[int], Mapping[str, Any]], **dialect: Any) -> Writer:
    written = Dialect(**{"container": "csv", **dialect})
    return lambda folder: write_table(folder, [row(n) for n in range(N)], written)


def raw(content: bytes, name: str = "table.csv") -> Writer:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


def csv_text(separator: str = ",", end: str = "\n", tail: str = "") -> str:
    head = separator.join(["id", "label", *(f"p_{name}" for name in NAMES)])
    lines = [
        separator.join([f"t{n}", NAMES[RIGHT[n]], *map(repr, VALUES[n])]) + tail for n in range(N)
    ]
    return end.join([head + tail, *lines]) + end


def shuffled_options(n: int) -> dict[str, Any]:
    """The same names in another order in each row, and a list in that order."""
    order = random.Random(n).sample(range(3), 3)
    return {
        "question": f"q{n}",
        "options": [NAMES[k] for k in order],
        "answer": order.index(RIGHT[n]),
        "probabilities": [VALUES[n][k] for k in order],
    }


READ: Final[Mapping[str, Writer]] = {
    "numbers as ids": rows(
        lambda n: {"id": n, "label": NAMES[RIGHT[n]], "probabilities": names(n)}
    ),
    "options in another order in every row": rows(shuffled_options),
    "quoted decimal commas": table(
        lambda n: (
            {"label": NAMES[RIGHT[n]]}
            | {k: repr(p).replace(".", ",") for k, p in columns(n).items()}
        )
    ),
    "tabs": table(lambda n: {"label": NAMES[RIGHT[n]]} | columns(n), container="tsv"),
    "empty lines at the end": raw(csv_text().encode() + b"\n\n\n"),
    "lines of separators at the end": raw(csv_text(";").encode() + b";;;;\r\n;;;;\r\n"),
    "no line feed at the end": raw(csv_text().rstrip("\n").encode()),
    "carriage returns": raw(csv_text(end="\r\n").encode()),
    "a byte order mark": raw(b"\xef\xbb\xbf" + csv_text().encode()),
    "a gzip of two members": raw(
        gzip.compress(csv_text()[:300].encode()) + gzip.compress(csv_text()[300:].encode()),
        "table.csv.gz",
    ),
    "truth in capitals": table(
        lambda n: (
            {"label": NAMES[RIGHT[n]], "correct": str(RIGHT[n] == CHOSEN[n]).upper()} | columns(n)
        )
    ),
    "a column of another model": table(
        lambda n: {"label": NAMES[RIGHT[n]], "confidence_of_gpt": 0.5 + n / 100} | columns(n)
    ),
    "an empty column": rows(
        lambda n: {"label": NAMES[RIGHT[n]], "probabilities": names(n), "note": None}
    ),
    "all that a row may have": rows(
        lambda n: (
            {"id": f"t{n}", "text": "x", "label": RIGHT[n], "prediction": CHOSEN[n]}
            | {"probabilities": VALUES[n], "correct": int(RIGHT[n] == CHOSEN[n])}
        )
    ),
}


CARELESS: Final[Mapping[str, Writer]] = {
    "a label beside the answer of a model": rows(
        lambda n: (
            {"id": f"t{n}", "label": NAMES[RIGHT[n]], "answer": NAMES[CHOSEN[n]]}
            | {"probabilities": names(n)}
        )
    ),
    "a file that is not what it is called": raw(csv_text().encode(), "table.parquet"),
    "percent signs": table(
        lambda n: {"label": NAMES[RIGHT[n]]} | {k: f"{100 * p!r}%" for k, p in columns(n).items()}
    ),
    "a separator at the end of each line": raw(csv_text(tail=",").encode()),
    "spaces after separators": raw(csv_text(", ").encode()),
}


@pytest.mark.parametrize("name", READ)
def test_a_careless_table_is_read(tmp_path: Path, name: str) -> None:
    result = import_file(tmp_path, READ[name](tmp_path))
    assert result.exit_code == 0, result.output
    numbers = last_run(tmp_path)
    assert numbers.items == N
    assert numbers.accuracy == pytest.approx(ACCURACY, abs=1e-9)
    assert numbers.nll == pytest.approx(NLL, abs=1e-9)


@pytest.mark.parametrize("name", CARELESS)
def test_a_very_careless_table_is_read_right_or_refused(tmp_path: Path, name: str) -> None:
    result = import_file(tmp_path, CARELESS[name](tmp_path))
    assert result.exit_code in (0, 1, 2), result.output
    assert "Traceback" not in result.output
    if result.exit_code == 0:
        assert last_run(tmp_path).accuracy == pytest.approx(ACCURACY, abs=1e-9)
        assert last_run(tmp_path).nll == pytest.approx(NLL, abs=1e-9)


@dataclass(frozen=True)
class Refused:
    """A table that no reading fits, or several.

    Attributes:
        write: writes it into a folder, and returns its path.
        says: parts of the message, in any order.
        options: what the user gives.
    """

    write: Writer
    says: tuple[str, ...]
    options: Sequence[str] = ()


def two_models(n: int) -> dict[str, Any]:
    return {"id": f"t{n}", "label": RIGHT[n], "probabilities": VALUES[n], "probs": VALUES[n][::-1]}


REFUSED: Final[Mapping[str, Refused]] = {
    "one column for two roles": Refused(
        rows(lambda n: {"id": f"t{n}", "label": NAMES[RIGHT[n]], "pred": NAMES[CHOSEN[n]]}),
        ("label",),
        ("--columns", "reference=label,prediction=label"),
    ),
    "probabilities of two models": Refused(rows(two_models), ("probabilities", "probs")),
    "predictions of two models": Refused(
        table(
            lambda n: (
                {"label": NAMES[RIGHT[n]], "prediction": NAMES[CHOSEN[n]]}
                | {"pred": NAMES[(CHOSEN[n] + 1) % 3]}
            )
        ),
        ("prediction", "pred"),
    ),
    "labels and predictions of other words": Refused(
        table(
            lambda n: (
                {"id": f"t{n}", "label": RIGHT[n]}
                | {"prediction": ("neg", "neu", "pos")[CHOSEN[n]]}
            )
        ),
        ("label", "prediction"),
    ),
    "letters and texts without options": Refused(
        table(lambda n: {"id": f"t{n}", "answer": "ABC"[RIGHT[n]], "pred": NAMES[CHOSEN[n]]}),
        ("answer", "pred"),
    ),
    "an outcome that contradicts": Refused(
        rows(
            lambda n: (
                {"id": f"t{n}", "label": NAMES[RIGHT[n]], "probabilities": names(n)}
                | {"correct": (RIGHT[n] == CHOSEN[n]) != (n == 9)}
            )
        ),
        ("t9", "correct"),
    ),
    "a prediction that contradicts": Refused(
        rows(
            lambda n: (
                {"id": f"t{n}", "label": NAMES[RIGHT[n]], "probabilities": names(n)}
                | {"prediction": NAMES[(CHOSEN[n] + (n == 9)) % 3]}
            )
        ),
        ("t9", "prediction"),
    ),
    "log-probabilities above 0": Refused(
        rows(
            lambda n: (
                {"id": f"t{n}", "label": NAMES[RIGHT[n]]}
                | {"logprobs": {k: -math.log(p) for k, p in names(n).items()}}
            )
        ),
        ("logprobs",),
    ),
    "probabilities of percent": Refused(
        rows(
            lambda n: {"id": f"t{n}", "label": RIGHT[n], "probabilities": [90 - n, n, 10 + n % 2]}
        ),
        ("probabilities",),
    ),
    "no right answer": Refused(
        rows(lambda n: {"id": f"t{n}", "prediction": NAMES[CHOSEN[n]], "probabilities": names(n)}),
        ("reference",),
    ),
    "nothing of a model": Refused(
        rows(lambda n: {"id": f"t{n}", "text": f"ticket {n}", "label": NAMES[RIGHT[n]]}),
        ("--columns",),
    ),
    "a label that is no answer": Refused(
        rows(
            lambda n: (
                {"id": f"t{n}", "label": "return" if n == 9 else NAMES[RIGHT[n]]}
                | {"probabilities": names(n)}
            )
        ),
        ("return",),
    ),
    "lists of two lengths": Refused(
        rows(
            lambda n: (
                {"id": f"t{n}", "label": RIGHT[n] % 2, "prediction": 0}
                | {"probabilities": [0.6, 0.4] if n % 2 else [0.5, 0.3, 0.2]}
                | {"options": [*NAMES]}
            )
        ),
        ("options",),
    ),
    "options that were not read": Refused(
        table(
            lambda n: (
                {"question": f"q{n}", "thing1": f"a{n}", "thing2": f"b{n}", "thing3": f"c{n}"}
                | {"label": f"{'abc'[RIGHT[n]]}{n}", "prediction": f"{'abc'[CHOSEN[n]]}{n}"}
            )
        ),
        ("thing1",),
    ),
    "options of a name that does not exist": Refused(
        table(lambda n: {"label": NAMES[RIGHT[n]], "pred": NAMES[CHOSEN[n]]}),
        ("gold",),
        ("--columns", "reference=gold"),
    ),
    "fewer options than answers": Refused(
        table(lambda n: {"label": NAMES[RIGHT[n]]} | columns(n)),
        ("reject",),
        ("--options", "refund,replace"),
    ),
    "a file that is cut short": Refused(
        raw(gzip.compress(csv_text().encode())[:-40], "table.csv.gz"), ("table.csv.gz",)
    ),
    "one object": Refused(raw(json.dumps({"a": 1, "b": [1]}).encode(), "t.json"), ("t.json",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_contradiction_is_refused(tmp_path: Path, name: str) -> None:
    refused = REFUSED[name]
    path = refused.write(tmp_path)
    result = import_file(tmp_path, path, *refused.options)
    assert result.exit_code in (1, 2), result.output
    assert "Traceback" not in result.output
    for part in refused.says:
        assert part in result.output, result.output
    assert len(result.output.splitlines()) <= 16, result.output
    assert not (tmp_path / "run-0").exists()


def test_options_read_or_named(tmp_path: Path) -> None:
    """Names of options that the reader does not know are not dropped in silence."""
    made = [
        {"question": f"q{n}", "alpha": f"a{n}", "beta": f"b{n}", "answer": f"{'ab'[n % 2]}{n}"}
        for n in range(N)
    ]
    path = write_table(tmp_path, made, Dialect("csv"))
    result = convert(tmp_path, path)
    assert result.exit_code == 2, result.output
    assert "alpha" in result.output
    assert "beta" in result.output
    again = convert(tmp_path, path, "--columns", "options=alpha+beta")
    assert again.exit_code == 0, again.output
    assert [one.options for one in last_questions(tmp_path)] == [
        (f"a{n}", f"b{n}") for n in range(N)
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
        for n in range(N)
    ]
    result = convert(tmp_path, write_jsonl(tmp_path / "rows.jsonl", made))
    assert result.exit_code == 0, result.output
    assert last_questions(tmp_path) == [
        Question(tuple(f"{x}{n}" for x in "wxyz"), f"{'wxyz'[n % 4]}{n}") for n in range(N)
    ]


def test_numbers_of_columns_do_not_decide_where_positions_start(tmp_path: Path) -> None:
    """Labels 1 and 2 of three options fit the numbers of the columns, and positions from 0."""
    made = [
        {"question": f"q{n}", "option1": f"x{n}", "option2": f"y{n}", "option3": f"z{n}"}
        | {"label": n % 2 + 1}
        for n in range(N)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", made)
    result = convert(tmp_path, path)
    assert result.exit_code == 2, result.output
    for first in (0, 1):
        again = convert(tmp_path, path, "--positions-from", first)
        assert again.exit_code == 0, again.output
        assert [one.right for one in last_questions(tmp_path)] == [
            f"{'xyz'[n % 2 + 1 - first]}{n}" for n in range(N)
        ]


@pytest.mark.parametrize("first", [0, 1])
def test_positions_beside_a_prediction_that_is_a_text_of_digits(tmp_path: Path, first: int) -> None:
    """The form of the prediction is not that of the right answer: options are numbers."""
    rng = random.Random(5)
    options = [rng.sample(["0", "1", "2", "3"], 4) for _ in range(N)]
    right = [rng.randrange(4) for _ in range(N)]
    chosen = [k if rng.random() < 0.6 else rng.randrange(4) for k in right]
    made = [
        {"question": f"q{n}", "choices": options[n], "answer": right[n] + first}
        | {"prediction": options[n][chosen[n]]}
        for n in range(N)
    ]
    result = import_file(tmp_path, write_jsonl(tmp_path / "rows.jsonl", made))
    if result.exit_code == 0:
        true = sum(a == b for a, b in zip(right, chosen, strict=True)) / N
        assert last_run(tmp_path).accuracy == pytest.approx(true, abs=1e-9)
    else:
        assert result.exit_code == 2, result.output


@pytest.mark.parametrize("form", ["list", "prediction as position"])
def test_names_of_the_data_give_no_order_to_a_list(tmp_path: Path, form: str) -> None:
    """The data has texts as labels; what the rows number is not known."""
    data = [{"id": f"t{n}", "text": f"t{n}", "label": NAMES[RIGHT[n]]} for n in range(N)]
    data_path = write_table(tmp_path, data, Dialect("csv"), "data")
    made = [
        {"id": f"t{n}"}
        | ({"probabilities": VALUES[n]} if form == "list" else {"prediction": CHOSEN[n]})
        for n in range(N)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", made)
    result = import_file(tmp_path, path, "--data", data_path)
    assert result.exit_code == 2, result.output
    again = import_file(tmp_path, path, "--data", data_path, "--options", ",".join(NAMES))
    assert again.exit_code == 0, again.output
    assert last_run(tmp_path).accuracy == pytest.approx(ACCURACY, abs=1e-9)
