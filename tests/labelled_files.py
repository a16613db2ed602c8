"""Labelled files of different origin and shape, made from public descriptions; none is a copy."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
from builders import question, write_jsonl
from decision_index import ROWS as SUITE

TOPIC: Final = question(criteria={"billing": None, "delivery": "Where is it?", "other": None})
URGENT: Final = question("noul")
HARM: Final = question("score", 4)
ASKED: Final = {"topic": TOPIC, "urgent": URGENT, "harm": HARM}


@dataclass(frozen=True)
class LabelledFile:
    """One file.

    Attributes:
        write: writes it into a folder, and returns its path.
        shape: the shape that it has.
        references: the right answers as canonical indices, in file order.
        options: what a user gives to read it.
        metadata: the columns that stay with its records.
    """

    write: Callable[[Path], Path]
    shape: str
    references: tuple[int, ...]
    options: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()


def _state(number: int) -> str:
    return f"Ticket {number}: my parcel has not come, and it was paid {number} days ago."


def questions(folder: Path) -> Path:
    answers = {"topic": "delivery", "urgent": True, "harm": 2}
    rows = [
        {"state": {"text": _state(n)}, "questions": ASKED, "expected": answers, "shop": "abc"[n]}
        for n in range(3)
    ]
    return write_jsonl(folder / "questions.jsonl", rows)


def labels(folder: Path) -> Path:
    (folder / "items.questions.json").write_text(json.dumps(ASKED))
    rows = [{"state": _state(n), "labels": {"urgent": n == 1, "harm": n}} for n in range(2)]
    return write_jsonl(folder / "items.jsonl", rows)


def requests(folder: Path) -> Path:
    request = {"model": "jev-1.13.0", "state": _state(0), "questions": {"urgent": URGENT}}
    bare = request | {"state": _state(1), "expected": {"urgent": True}}
    return write_jsonl(
        folder / "requests.jsonl", [{"request": request, "expected": {"urgent": False}}, bare]
    )


def suite(folder: Path) -> Path:
    path = folder / "selected-rows.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in SUITE)
    return path


def jevbench(folder: Path) -> Path:
    task = {"family": "intent", "split": "public", "group": None, "provenance": {"source": "own"}}
    instructions = {"instructions": "What does the customer want?"}
    rows = [
        task
        | {"id": "easy-1", "state": _state(1), "group": "g1", "expected": "track"}
        | {"question": {"type": "choice", **instructions}, "labels": ["refund", "track"]},
        task
        | {"id": "easy-2", "state": _state(2), "group": "g1", "expected": "track"}
        | {"question": {"type": "choice", **instructions}, "labels": ["track", "refund"]},
        task
        | {"id": "easy-3", "state": _state(3), "expected": "yes"}
        | {"question": {"type": "noul", **instructions}, "labels": ["no", "yes"]},
        task
        | {"id": "easy-4", "state": _state(4), "expected": 2}
        | {"question": {"type": "score", **instructions}, "labels": ["0", "1", "2"]},
    ]
    return write_jsonl(folder / "easy.jsonl", rows)


def typed_decisions(folder: Path) -> Path:
    gold = {
        "topic": {"label": "other", "probabilities": {"other": 0.7, "billing": 0.3}},
        "urgent": {"label": "false", "noul": 0.2},
        "harm": {"label": "3", "score": 2.7},
    }
    frame = pl.DataFrame(
        [
            {
                "id": f"case-{n}",
                "workflow": "customer_service",
                "state": json.dumps({"ticket": _state(n)}),
                "questions": json.dumps(ASKED),
                "gold": json.dumps(gold),
            }
            for n in range(2)
        ]
    )
    frame.write_parquet(folder / "test-00000-of-00001.parquet")
    return folder / "test-00000-of-00001.parquet"


def exam(folder: Path) -> Path:
    """A subject exam of the kind of MMLU: a list of choices, and the position of the answer."""
    frame = pl.DataFrame(
        {
            "question": [f"How much is {n} + {n}?" for n in range(3)],
            "subject": ["arithmetic"] * 3,
            "choices": [[str(2 * n), "1", "7", "9"] for n in range(3)],
            "answer": [0, 0, 0],
        }
    )
    frame.write_parquet(folder / "exam.parquet")
    return folder / "exam.parquet"


def science(folder: Path) -> Path:
    """Questions of the kind of ARC: texts and labels of choices, and a label as key."""
    rows = [
        {"id": f"q{n}", "question": f"What boils at {n} degrees?", "answerKey": "BC"[n]}
        | {"choices": {"text": ["salt", "water", "iron"], "label": ["A", "B", "C"]}}
        for n in range(2)
    ]
    return write_jsonl(folder / "science.jsonl", rows)


def news(folder: Path) -> Path:
    """Texts with integer labels, whose names the file keeps as `datasets` writes them."""
    features = {"label": {"names": ["world", "sports", "business"], "_type": "ClassLabel"}}
    frame = pl.DataFrame({"text": ["The match ended 2:1.", "Shares fell."], "label": [1, 2]})
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    frame.write_parquet(folder / "news.parquet", metadata=metadata)
    return folder / "news.parquet"


def table(folder: Path) -> Path:
    path = folder / "reviews.csv"
    path.write_text('text,label,stars\n"Good, really",pos,5\nBad,neg,1\n"Two\nlines",pos,4\n')
    return path


def spreadsheet(folder: Path) -> Path:
    """A table as Excel saves it: semicolons, a byte order mark, one column per option."""
    path = folder / "quiz.csv"
    text = "Nr;Frage;A;B;C;Loesung\n1;Was ist rot?;Gras;Blut;;B\n2;Was ist kalt?;Eis;Glut;Sand;A\n"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    return path


def intents(folder: Path) -> Path:
    """Texts of 77 intents, as BANKING77 has them: more answers than there are letters."""
    path = folder / "intents.csv"
    lines = [f"I want {n},intent_{n:02}" for n in range(77)]
    path.write_text("\n".join(["text,category", *lines]) + "\n")
    return path


FILES: Final[Mapping[str, LabelledFile]] = {
    "questions": LabelledFile(questions, "questions", (1, 1, 2) * 3, metadata=("shop", "question")),
    "labels": LabelledFile(labels, "labels", (0, 0, 1, 1), metadata=("question",)),
    "requests": LabelledFile(requests, "systemone", (0, 1), metadata=("question",)),
    "suite": LabelledFile(
        suite, "decision-index", (1, 1, 1, 1, 2, 1, 1), metadata=("shop", "question")
    ),
    "jevbench": LabelledFile(jevbench, "jevbench", (1, 0, 1, 2), metadata=("split",)),
    "typed-decisions": LabelledFile(
        typed_decisions, "typed-decisions", (2, 0, 3) * 2, metadata=("question",)
    ),
    "exam": LabelledFile(exam, "columns", (0, 0, 0), metadata=("subject",)),
    "science": LabelledFile(science, "columns", (1, 2)),
    "news": LabelledFile(news, "columns", (1, 2)),
    "table": LabelledFile(table, "columns", (1, 0, 1), metadata=("stars",)),
    "spreadsheet": LabelledFile(
        spreadsheet,
        "columns",
        (1, 0),
        ("--columns", "id=Nr,question=Frage,options=A+B+C", "--columns", "reference=Loesung"),
    ),
    "intents": LabelledFile(
        intents, "columns", tuple(range(77)), ("--columns", "state=text,answer=category")
    ),
}
"""By name, the files and what they mean."""


@dataclass(frozen=True)
class BrokenFile:
    """One file that cannot be read.

    Attributes:
        write: writes it into a folder, and returns its path.
        lines: the line of every problem; None for a problem of the file.
        says: parts of the message, in their order.
        code: the exit code.
    """

    write: Callable[[Path], Path]
    lines: tuple[int | None, ...]
    says: tuple[str, ...]
    code: int = 1


def _lines(name: str, *rows: Any) -> Callable[[Path], Path]:
    return lambda folder: write_jsonl(folder / name, rows)


def _bytes(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


def _cut(folder: Path) -> Path:
    path = exam(folder)
    path.write_bytes(path.read_bytes()[:-20])
    return path


ONE: Final = {"state": "s", "questions": {"urgent": URGENT}, "expected": {"urgent": True}}
ITEM: Final = {"state": "s", "labels": {"urgent": True}}

BROKEN: Final[Mapping[str, BrokenFile]] = {
    "mixed shapes": BrokenFile(
        _lines("a.jsonl", ONE, ONE, ITEM, {"text": "t", "label": "l"}, {"foo": 1}),
        (3, 4, 5),
        ('"questions"', "separate files", "2 more", "lines 4, 5"),
    ),
    "two shapes": BrokenFile(
        _lines("a.jsonl", ONE | ITEM), (), ('"questions"', '"labels"', "--shape"), 2
    ),
    "a letter without a column": BrokenFile(
        _bytes("a.csv", b"question,A,B,answer\nq,s,t,A\nr,s,t,B\np,s,t,Z\n"),
        (4,),
        ('expected one of "s", "t", got "Z"', "correct the answer"),
    ),
    "two columns for one role": BrokenFile(
        _lines(
            "a.jsonl",
            {"text": "t", "label": "l", "gold": "l"},
            {"text": "u", "label": "m", "gold": "m"},
        ),
        (),
        ("label and gold", "--columns reference=label or --columns reference=gold"),
        2,
    ),
    "answers outside the options": BrokenFile(
        _lines(
            "a.jsonl",
            ONE | {"expected": {"urgent": "perhaps"}},
            ONE | {"questions": {"urgent": TOPIC}, "expected": {"urgent": "refund"}},
            ONE | {"questions": {"urgent": HARM}, "expected": {"urgent": 4}},
            ONE,
        ),
        (1, 2, 3),
        ("true or false", '"billing"', '"refund"', "0 to 3"),
    ),
    "repeated ids": BrokenFile(
        _lines("a.jsonl", *[ONE | {"id": name} for name in "aba"], ONE | {"id": [1]}),
        (3, 4),
        ("(id a)", "line 1", "id: expected text"),
    ),
    "wrong encoding": BrokenFile(
        _bytes("a.csv", b"text,label\nh\x81bsch,gut\nok,gut\n\x8dde,schlecht\n"),
        (2, 4),
        ("UTF-8", "0x81", "UTF-8", "0x8d"),
    ),
    "UTF-16": BrokenFile(
        _bytes("a.jsonl", '{"text": "t"}\n'.encode("utf-16")), (1,), ("UTF-8", "UTF-16", "iconv")
    ),
    "empty": BrokenFile(_bytes("a.csv", b""), (None,), ("at least one", "empty")),
    "header only": BrokenFile(_bytes("a.csv", b"text,label\n"), (None,), ("at least one",)),
    "unnamed columns": BrokenFile(
        _bytes("a.csv", b"text,,label,label\na,b,c,d\n"), (1, 1), ("column 2", "two of label")
    ),
    "no header": BrokenFile(
        _bytes("a.csv", b"a good film,1\na bad film,0\n"), (), ("a good film", "--columns"), 2
    ),
    "unknown shape": BrokenFile(_lines("a.jsonl", {"foo": 1}), (), ("foo", "--columns"), 2),
    "ragged rows": BrokenFile(
        _bytes("a.csv", b"text,label\na,b\na,b,c\nd,e\nf\n"), (3, 5), ("2 cells, got 3", "got 1")
    ),
    "questions and answers": BrokenFile(
        _lines(
            "a.jsonl",
            ONE | {"expected": {}},
            ONE | {"expected": {"urgent": True, "topic": "billing"}},
            ONE | {"questions": {"urgent": {"type": "box"}}},
            ONE | {"questions": {"urgent": {"type": "choice", "criteria": ["a", "a"]}}},
            ONE | {"questions": {"urgent": None}},
        ),
        (1, 2, 3, 4, 5),
        ("urgent", "topic", "box", "different options", "an object"),
    ),
    "no file of questions": BrokenFile(
        _lines("a.jsonl", ITEM), (), (".questions.json", "--questions")
    ),
    "cut short": BrokenFile(_cut, (), ("cut short",)),
    "options that cannot be read": BrokenFile(
        _lines(
            "a.jsonl",
            {"question": "q", "options": ["a", "b"], "answer": "a"},
            {"question": "q", "options": ["a"], "answer": "a"},
            {"question": "q", "options": ["a", "a"], "answer": "a"},
            {"question": "q", "answer": "a"},
            {"question": "q", "options": "a|b", "answer": "c"},
        ),
        (2, 3, 4, 5),
        ("two or more", "twice", "a list of texts", '"c"'),
    ),
}
"""By name, the files and what is wrong with them."""
