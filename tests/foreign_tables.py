"""Tables of other people: written in their containers, imported, converted, and asked again."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
from click.testing import CliRunner, Result

import pact_eval
from pact_cli.audit.main import main as audit
from pact_cli.main import main

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """One record of the full format: its answers in canonical order, and the right one."""

    options: tuple[str, ...]
    right: str
    kind: str = "choice"


@dataclass(frozen=True)
class Numbers:
    """What a report says of a run; None if it is undefined."""

    accuracy: float | None
    nll: float | None
    level_error: float | None
    items: int


def numbers_of(folder: Path) -> Numbers:
    """Read what the report of a run says."""
    group = pact_eval.evaluate(folder, pact_eval.Settings(resamples=2)).groups[0]
    estimates = group.estimates

    def value(name: str) -> float | None:
        estimate = estimates.get(name)
        return None if estimate is None or estimate.value != estimate.value else estimate.value

    accuracy, nll, level_error = map(value, ("accuracy", "nll_nats", "score_level_mae"))
    return Numbers(accuracy, nll, level_error, group.items)


def convert(folder: Path, path: Path, *words: object) -> Result:
    """Run `pact-audit convert` into a new folder."""
    out = folder / f"converted-{len([*folder.glob('converted-*')])}" / "eval.jsonl"
    return CliRunner().invoke(audit, ["convert", str(path), str(out), *map(str, words)])


def import_file(folder: Path, path: Path, *words: object) -> Result:
    """Run `pact-eval import` into a new run folder."""
    out = folder / f"run-{len([*folder.glob('run-*')])}"
    return CliRunner().invoke(main, ["import", str(path), "--out", str(out), *map(str, words)])


def last_run(folder: Path) -> Numbers:
    """What the newest run of a folder says."""
    return numbers_of(max(folder.glob("run-*"), key=lambda run: int(run.name[4:])))


def last_questions(folder: Path) -> list[Question]:
    """The questions of the newest conversion of a folder, in file order."""
    newest = max(folder.glob("converted-*"), key=lambda path: int(path.name[10:]))
    lines = (newest / "eval.jsonl").read_text(encoding="utf-8").splitlines()
    return [_question(json.loads(line)) for line in lines]


def _question(record: Mapping[str, Any]) -> Question:
    (field,) = record["input"]["questions"].values()
    (target,) = record["reference"].values()
    if field["type"] == "score":
        levels = tuple(map(str, field["criteria"]))
        return Question(levels, levels[target], "score")
    if field["type"] in ("noul", "boolean"):
        return Question(("false", "true"), json.dumps(target), "boolean")
    return Question(tuple(field["criteria"]), target)


_OPTION: Final = re.compile(
    r"--(answers|columns|options|positions-from|levels|data|multi)[ =]"
    r"('[^']*'|\"[^\"]*\"|[^\s`;)]+)"
)


def remedies_of(message: str) -> list[tuple[str, ...]]:
    """Return the options that a message gives: those of each alternative, and each alone."""
    groups = [
        [(f"--{name}", _unquoted(value)) for name, value in _OPTION.findall(part)]
        for part in re.split(r"\n|\bor\b|, or\b", message)
    ]
    several = [tuple(word for pair in group for word in pair) for group in groups if len(group) > 1]
    single = [pair for group in groups for pair in group]
    listed = re.search(r"there are (.+?)(?:\. |$)", message, re.MULTILINE)
    columns = [name.strip() for name in listed[1].split(",")] if listed else []
    return list(
        dict.fromkeys(filled for words in [*several, *single] for filled in _filled(words, columns))
    )


def _filled(words: tuple[str, ...], columns: Sequence[str]) -> list[tuple[str, ...]]:
    """The words with each column of the file for NAME, because the user knows which is meant."""
    if not any("NAME" in word for word in words):
        return [words]
    return [tuple(word.replace("NAME", column) for word in words) for column in columns]


def _unquoted(value: str) -> str:
    text = value.rstrip(".,:") if value[0] not in "'\"" else value
    return "".join(shlex.split(text)) if text[0] in "'\"" else text


def read_or_asked(run: Callable[..., Result], is_right: Callable[[], bool]) -> str:
    """Assert that a command gives the right value, or asks and then gives it.

    Args:
        run: runs the command with the options that it gets.
        is_right: whether what was written last is right.

    Returns:
        The message; "" if the command ended with 0.
    """
    result = run()
    if result.exit_code == 0:
        assert is_right(), f"wrong with exit code 0:\n{result.output}"
        return ""
    assert_asks(result)
    assert_answerable(run, is_right, result)
    return result.output


def assert_answerable(
    run: Callable[..., Result], is_right: Callable[[], bool], asked: Result, most: int = 40
) -> None:
    """Assert that the options of a question, and of those that follow, lead to the right value.

    Args:
        run: runs the command with the options that it gets.
        is_right: whether what was written last is right.
        asked: the first question.
        most: how many commands are tried.
    """
    waiting: list[tuple[str, ...]] = [*remedies_of(asked.output)]
    tried: dict[tuple[str, ...], str] = {}
    while waiting and len(tried) < most:
        words = waiting.pop(0)
        if words in tried:
            continue
        again = run(*words)
        tried[words] = again.output
        if again.exit_code == 0 and is_right():
            return
        if again.exit_code == 2 and len(words) < 6:
            waiting += [(*words, *more) for more in remedies_of(again.output)]
    outputs = "\n".join(f"{shlex.join(words)}: {output}" for words, output in tried.items())
    raise AssertionError(f"no remedy gives the right value:\n{asked.output}\n{outputs}")


def assert_asks(result: Result) -> None:
    """Assert that a command ended with exit code 2, and gave at least one way out."""
    assert result.exit_code == 2, f"exit code {result.exit_code}:\n{result.output}"
    assert result.stdout == ""
    assert "Traceback" not in result.output
    assert remedies_of(result.output), f"no remedy:\n{result.output}"


CONTAINERS: Final = ("csv", "semicolon.csv", "tsv", "jsonl", "array.json", "object.json", "parquet")
"""By the ending of the file: what a table is written in."""

COMPRESSIONS: Final = ("", ".gz", ".zst")


@dataclass(frozen=True)
class Dialect:
    """How a table is written.

    Attributes:
        container: one of `CONTAINERS`.
        compression: one of `COMPRESSIONS`.
        encoding: of a text container, such as "utf-8-sig" or "cp1252".
        decimal_comma: whether numbers of a CSV have a comma.
    """

    container: str = "jsonl"
    compression: str = ""
    encoding: str = "utf-8"
    decimal_comma: bool = False


def write_table(folder: Path, rows: Sequence[Row], dialect: Dialect, stem: str = "table") -> Path:
    """Write a table, and return its path."""
    content = _parquet(rows) if dialect.container == "parquet" else _text(rows, dialect)
    path = folder / f"{stem}.{dialect.container}{dialect.compression}"
    path.write_bytes(_compressed(content, dialect.compression))
    return path


def _compressed(content: bytes, compression: str) -> bytes:
    if compression == ".gz":
        return gzip.compress(content, mtime=0)
    if compression == ".zst":
        import zstandard

        return zstandard.compress(content)
    return content


def _parquet(rows: Sequence[Row]) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame([dict(row) for row in rows], infer_schema_length=None).write_parquet(buffer)
    return buffer.getvalue()


def _text(rows: Sequence[Row], dialect: Dialect) -> bytes:
    if dialect.container == "jsonl":
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    elif dialect.container == "array.json":
        text = json.dumps([*rows], ensure_ascii=False, indent=1)
    elif dialect.container == "object.json":
        text = json.dumps({"version": "1.0", "data": [*rows]}, ensure_ascii=False)
    else:
        text = _csv(rows, dialect)
    return text.encode(dialect.encoding)


def _csv(rows: Sequence[Row], dialect: Dialect) -> str:
    delimiter = {"csv": ",", "semicolon.csv": ";", "tsv": "\t"}[dialect.container]
    names = list(dict.fromkeys(name for row in rows for name in row))
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(row.get(name), dialect) for name in names])
    return buffer.getvalue()


def _cell(value: Any, dialect: Dialect) -> Any:
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and dialect.decimal_comma:
        return repr(value).replace(".", ",")
    return value
