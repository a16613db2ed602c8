"""Ids and texts of tables: rows in any order are matched by id, and copies belong together."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import polars as pl
import pytest
from builders import write_jsonl
from messages import assert_says

import pact_eval
from logs import read_rows
from pact_eval.data.labelled.reader import read_labelled
from pact_eval.errors import InputError, ShapeError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.importing.source import LogOptions, import_options
from pact_eval.importing.stored import how_read

Row = Mapping[str, Any]
NAMES: Final = (
    *("question_id", "questionId", "Ticket ID", "doc-id", "ID", "_id", "uuid", "GUID", "qid"),
    *("item", "key", "idx", "index", "row", "row_id", "nr", "No.", "number", "Unnamed: 0", ""),
)
NO_NAMES: Final = ("paid", "Android", "identity", "item price", "month", "ids", "covid", "id type")


def write_csv(path: Path, rows: Sequence[Row]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return path


def answered(n: int, rng: np.random.Generator, name: str = "question_id") -> list[Row]:
    """Rows with an id that does not count them, and an answer that is right in three of four."""
    ids = rng.choice(10 * n, n, replace=False)
    labels = rng.choice(["no", "yes"], n)
    wrong = {"no": "yes", "yes": "no"}
    answers = [wrong[label] if rng.random() < 0.25 else label for label in labels]
    return [
        {name: str(key), "label": label, "prediction": answer}
        for key, label, answer in zip(ids, labels, answers, strict=True)
    ]


def frame_of(path: Path, **options: Any) -> pl.DataFrame:
    return read_rows(path, import_options(cast("LogOptions", options))).frame


def ids_of(path: Path) -> list[str]:
    return frame_of(path)["id"].to_list()


@pytest.mark.parametrize("name", NAMES)
def test_a_column_of_ids_is_read_as_if_it_were_stated(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(len(name))
    rows = answered(30, rng, name)
    path = write_csv(tmp_path / "t.csv", rows)
    read = frame_of(path)
    assert read["id"].to_list() == [row[name] for row in rows]
    if name:  # no option can name a column without a name
        assert read.equals(frame_of(path, columns={"id": name}))


@pytest.mark.parametrize("name", NO_NAMES)
def test_other_names_are_further_columns(tmp_path: Path, name: str) -> None:
    path = write_csv(tmp_path / "t.csv", answered(5, np.random.default_rng(0), name))
    assert ids_of(path) == ["2", "3", "4", "5", "6"]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_shuffled_rows_are_the_same_items(tmp_path: Path, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    names = rng.choice([name for name in NAMES if name], 3, replace=False)
    rows = answered(40, rng, str(names[0]))
    further = {str(name): rng.permutation(40) for name in names[1:]}  # they count the rows
    rows = [
        {**row, **{name: int(own[n]) for name, own in further.items()}}
        for n, row in enumerate(rows)
    ]
    frames = []
    for stem, order in (("a", range(40)), ("b", rng.permutation(40))):
        path, shuffled = tmp_path / f"{stem}.{kind}", [rows[int(n)] for n in order]
        if kind == "csv":
            write_csv(path, shuffled)
        elif kind == "jsonl":
            write_jsonl(path, shuffled)
        else:
            pl.DataFrame(shuffled).write_parquet(path)
        frames.append(frame_of(path).sort("id"))
    assert frames[0].equals(frames[1])


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"idx": ["5", "6", "7"], "doc_id": ["b", "a", "c"]}, "doc_id"),
        ({"question_id": ["1", "2", "3"], "doc_id": ["b", "a", "c"]}, "doc_id"),
        ({"key": ["x", "y", "z"], "ticket_id": ["b", "a", "c"]}, "ticket_id"),
        ({"ticket_id": ["b", "a", "c"], "user_id": ["x", "y", "z"]}, "ticket_id"),
        ({"user_id": ["u", "u", "v"], "row": ["2", "0", "1"]}, "row"),
        ({"Unnamed: 0": ["0", "1", "2"], "item": ["k", "l", "m"]}, "item"),
        ({"doc_id": ["b", " b ", "c"], "idx": ["0", "1", "2"]}, "idx"),
        ({"doc_id": ["b", "", "c"], "idx": ["0", "1", "2"]}, "idx"),
        ({"doc_id": ["b", "a", "c"], "id": ["9", "8", "7"]}, "id"),
        ({"number": ["0.5", "1.5", "2.5"], "row": ["0", "1", "2"]}, "row"),
    ],
)
def test_the_best_of_several_columns_is_the_id(
    tmp_path: Path, columns: Mapping[str, Sequence[str]], expected: str
) -> None:
    answers = {"label": ["a", "b", "a"], "prediction": ["a", "b", "b"]}
    table = {**columns, **answers}
    rows = [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]
    assert ids_of(write_csv(tmp_path / "t.csv", rows)) == [row[expected] for row in rows]


def test_a_column_with_another_role_is_not_the_id(tmp_path: Path) -> None:
    rows = [{"question_id": f"q{n}", "label": "ab"[n % 2], "said": f"{n}"} for n in range(2)]
    rows = [{**row, "prediction": row["label"]} for row in rows]
    path = write_csv(tmp_path / "t.csv", rows)
    frame = frame_of(path, columns={"ignored": "question_id"})
    assert frame["id"].to_list() == ["2", "3"]


def test_an_id_has_a_row_in_every_view(tmp_path: Path) -> None:
    rows = [
        {"question_id": f"q{n}", "row_id": f"r{n}-{view}", "view": view}
        | {"label": "yes", "prediction": "yes" if n else "no"}
        for view in range(2)
        for n in range(4)
    ]
    frame = frame_of(write_csv(tmp_path / "t.csv", rows))
    assert sorted({*frame["id"]}) == ["q0", "q1", "q2", "q3"]


def test_data_are_joined_by_ids_of_one_name(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = answered(20, rng, "Ticket ID")
    data = [{"Ticket ID": row["Ticket ID"], "text": "t", "label": row["label"]} for row in rows]
    said = [{"Ticket ID": row["Ticket ID"], "prediction": row["prediction"]} for row in rows]
    write_csv(tmp_path / "data.csv", data)
    path = write_csv(tmp_path / "said.csv", [said[int(n)] for n in rng.permutation(20)])
    frame = frame_of(path, data=tmp_path / "data.csv")
    right = dict(zip(frame["id"], frame["reference"], strict=True))
    assert right == {row["Ticket ID"]: int(row["label"] == "yes") for row in rows}


def test_a_stated_id_is_that_of_both_sides(tmp_path: Path) -> None:
    data = [{"ticket": f"t{n}", "text": "t", "label": "yes" if n % 2 else "no"} for n in range(6)]
    said = [{"ticket": f"t{n}", "prediction": "yes"} for n in range(5, -1, -1)]
    write_csv(tmp_path / "data.csv", data)
    path = write_csv(tmp_path / "said.csv", said)
    frame = frame_of(path, data=tmp_path / "data.csv", columns={"id": "ticket"})
    assert frame["reference"].to_list() == [1, 0, 1, 0, 1, 0]


def test_labelled_data_have_no_ids_that_count_rows(tmp_path: Path) -> None:
    """Files for training and tests both count from 0: equal numbers are not equal items."""
    rows = [{"idx": n, "text": f"text {n}", "label": "ab"[n % 2]} for n in range(4)]
    ids = [record.id for record in read_labelled(write_csv(tmp_path / "a.csv", rows)).records]
    assert not {*ids} & {"0", "1", "2", "3"}
    named = [{"doc_id": f"d{row['idx']}", **row} for row in rows]
    read = read_labelled(write_csv(tmp_path / "b.csv", named))
    assert [record.id for record in read.records] == ["d0", "d1", "d2", "d3"]


# Matched by line


def stored(tmp_path: Path, **files: Sequence[Row]) -> list[Path]:
    runs = []
    for name, rows in files.items():
        pact_eval.import_run(write_csv(tmp_path / f"{name}.csv", rows), tmp_path / name)
        runs.append(tmp_path / name)
    return runs


def test_runs_without_ids_are_compared_by_line_and_say_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = answered(30, rng)
    other = [{**row, "prediction": "yes"} for row in rows]
    bare = [
        [{"label": r["label"], "prediction": r["prediction"]} for r in x] for x in (rows, other)
    ]
    numbered = [[{"idx": n, **row} for n, row in enumerate(x)] for x in bare]
    for runs in (
        stored(tmp_path, a=bare[0], b=bare[1]),
        stored(tmp_path, c=numbered[0], d=numbered[1]),
    ):
        (note,) = Experiment.read(runs).notices
        assert_says(str(note), "line", "--columns id=NAME")


def test_runs_with_ids_are_not_compared_by_line(tmp_path: Path) -> None:
    rows = answered(30, np.random.default_rng(1))
    runs = stored(tmp_path, a=rows, b=[{**row, "prediction": "yes"} for row in rows])
    assert Experiment.read(runs).notices == ()


def test_lines_with_other_right_answers_name_the_remedy(tmp_path: Path) -> None:
    rows = [{"label": "ab"[n % 2], "prediction": "a"} for n in range(10)]
    runs = stored(tmp_path, a=rows, b=rows[1:] + rows[:1])
    with pytest.raises(InputError) as raised:
        Experiment.read(runs).require_same_items()
    assert_says(raised.value, "reference", "line", "--columns id=NAME")


# Texts


def texts_and_rows(seed: int) -> tuple[list[str], list[Row]]:
    """Rows with texts that repeat, in any white space, with one right answer each."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(["no", "yes"], 25)
    numbers = rng.integers(0, 25, 40)
    texts = [f"Question {n} on sport?" for n in numbers]
    spaced = [text.replace(" ", str(rng.choice([" ", "  ", "\n"]))) for text in texts]
    rows: list[Row] = [
        {"question": text, "label": str(labels[n]), "prediction": row["prediction"]}
        for text, n, row in zip(spaced, numbers, answered(40, rng), strict=True)
    ]
    return texts, rows


@pytest.mark.parametrize("seed", range(8))
def test_families_are_the_unique_texts_of_numpy(tmp_path: Path, seed: int) -> None:
    texts, rows = texts_and_rows(seed)
    for path in (write_csv(tmp_path / "t.csv", rows), write_jsonl(tmp_path / "t.jsonl", rows)):
        family = frame_of(path)["family"].to_numpy()
        numbers = np.unique(texts, return_inverse=True)[1]
        assert len(np.unique(family)) == len({*texts})
        assert len({*zip(family, numbers, strict=True)}) == len({*texts})


def test_the_reading_counts_the_texts(tmp_path: Path) -> None:
    texts, rows = texts_and_rows(2)
    (run,) = stored(tmp_path, a=rows)
    assert_says(how_read(run), "text", "together", str(len({*texts})))


@pytest.mark.parametrize(
    "change",
    [
        {"question": "Is it spam?"},  # one question for all says nothing
        {"columns": {"family": "row_id"}},
        {"columns": {"source_family": "row_id"}},
        {"family_from": "row_id"},
    ],
)
def test_rows_are_independent_if_texts_say_nothing(tmp_path: Path, change: dict[str, Any]) -> None:
    _, rows = texts_and_rows(3)
    options = {name: value for name, value in change.items() if name != "question"}
    asked = {name: value for name, value in change.items() if name == "question"}
    rows = [{**row, **asked, "row_id": f"r{n}"} for n, row in enumerate(rows)]
    frame = frame_of(write_csv(tmp_path / "t.csv", rows), **options)
    assert frame["id"].to_list() == [row["row_id"] for row in rows]
    assert frame["family"].n_unique() == len(rows)


def test_texts_of_data_group_rows_that_are_joined(tmp_path: Path) -> None:
    texts, rows = texts_and_rows(4)
    data = [
        {"id": f"r{n}", "text": row["question"], "label": row["label"]}
        for n, row in enumerate(rows)
    ]
    said = [{"id": f"r{n}", "prediction": row["prediction"]} for n, row in enumerate(rows)]
    path = write_csv(tmp_path / "said.csv", said)
    frame = frame_of(path, data=write_csv(tmp_path / "data.csv", data))
    assert frame["family"].n_unique() == frame["source_family"].n_unique() == len({*texts})


@pytest.mark.parametrize("seed", range(3))
def test_copies_do_not_narrow_an_interval(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    once = [
        {"question": f"Question {n}?", "label": row["label"], "prediction": row["prediction"]}
        for n, row in enumerate(answered(40, rng))
    ]
    copied = [row for row in once for _ in range(6)]
    runs = stored(tmp_path, once=once, copied=copied)
    settings = pact_eval.Settings(resamples=2)
    estimates = [pact_eval.evaluate(run, settings).groups[0].estimates["accuracy"] for run in runs]
    widths = [estimate.high - estimate.low for estimate in estimates]
    assert widths[1] == pytest.approx(widths[0], rel=0.1)


def test_a_wrong_family_column_is_still_named(tmp_path: Path) -> None:
    _, rows = texts_and_rows(5)
    with pytest.raises(ShapeError) as raised:
        frame_of(write_csv(tmp_path / "t.csv", rows), columns={"family": "nobody"})
    assert_says(raised.value, "nobody")


@pytest.mark.parametrize("seed", range(4))
def test_an_id_of_several_questions_is_a_request(tmp_path: Path, seed: int) -> None:
    """Its items have both names and belong together; a shuffle changes nothing."""
    rng = np.random.default_rng(seed)
    asked = [(f"t{n}", question) for n in range(30) for question in ("spam", "urgent", "topic")]
    asked = [pair for pair in asked if rng.random() < 0.8]
    rows = [
        {"id": request, "question": question, **row}
        for (request, question), row in zip(asked, answered(len(asked), rng, ""), strict=True)
    ]
    rows = [{name: value for name, value in row.items() if name} for row in rows]
    path = write_csv(tmp_path / "a.csv", rows)
    read, further = frame_of(path), read_rows(path).metadata
    found = list(read.select("id", "family").iter_rows())
    assert found == [(f"{one}/{two}", one) for one, two in asked]
    assert further is not None
    assert further["metadata.question"].to_list() == [question for _, question in asked]
    rng.shuffle(rows)
    again = frame_of(write_csv(tmp_path / "b.csv", rows))
    assert again.sort("id").equals(read.sort("id"))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("key", ["image_id", "id", None])
def test_a_question_of_different_right_answers_asks_what_belongs_together(
    tmp_path: Path, seed: int, key: str | None
) -> None:
    """Every option that it offers is read, and groups rows by the column that it names."""
    rng = np.random.default_rng(seed)
    asked = [(f"i{n}", f"Is it {word}?") for n in range(20) for word in ("round", "red", "big")]
    rows = [
        {"question": question, "label": row["label"], "prediction": row["prediction"]}
        for (_, question), row in zip(asked, answered(60, rng), strict=True)
    ]
    images = [image for image, _ in asked]
    names = images if key == "image_id" else [f"r{n}" for n in range(60)]
    rows = [row | ({key: name} if key else {}) for row, name in zip(rows, names, strict=True)]
    path = write_csv(tmp_path / "a.csv", rows)
    with pytest.raises(ShapeError) as raised:
        frame_of(path)
    offered = re.findall(r"--columns (\w+)=(\w+)", str(raised.value))
    alone = ("family", "id") if key == "id" else ("ignored", "question")
    expected = {("family", "question"): 3, alone: 60}
    expected |= {("family", "image_id"): 20} if key == "image_id" else {}
    found = {each: frame_of(path, columns=dict([each]))["family"].n_unique() for each in offered}
    assert found == expected
    _, with_one_answer = texts_and_rows(seed)
    assert frame_of(write_csv(tmp_path / "b.csv", with_one_answer))["family"].n_unique() < 40


@pytest.mark.parametrize("seed", range(4))
def test_rows_without_an_id_are_requests_of_their_own(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    blank = {*map(int, rng.choice(30, 4, replace=False))}
    rows = [
        {
            "id": "" if n // 2 in blank else f"t{n // 2}",
            "question": ("spam", "urgent")[n % 2],
            **row,
        }
        for n, row in enumerate(answered(60, rng, "n"))
    ]
    frame = frame_of(write_csv(tmp_path / "a.csv", rows))
    assert frame["id"].n_unique() == 60
    assert frame["family"].n_unique() == 26 + 2 * 4


def test_an_answer_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    row = {"id": "t1", "question": "spam", "label": "no", "prediction": "no"}
    rows = [row, {**row, "question": "urgent"}, {**row, "prediction": "yes"}]
    with pytest.raises(InputError, match="already occur"):
        frame_of(write_csv(tmp_path / "a.csv", [*rows, {**row, "id": "t2", "label": "yes"}]))
