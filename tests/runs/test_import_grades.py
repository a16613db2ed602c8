"""Files of grades: what they were made of, what a report says, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from messages import assert_says
from tool_logs.exchange_logs import GRADED, tickets, write

from pact_cli.main import main
from pact_eval.errors import InputError, RecordError, ShapeError
from pact_eval.importing.import_run import find_source, read_log, start_of
from pact_eval.importing.registry import sources
from pact_eval.importing.source import ImportedRows, import_options


def read(path: Path, **options: Any) -> ImportedRows:
    """Read a file as `import` does."""
    return read_log(find_source(path), path, import_options(options))[0]  # type: ignore[arg-type]


def made(folder: Path, name: str, count: int = 60) -> Path:
    """Write the file of a format."""
    file, write_grades = GRADED[name]
    return write_grades(folder / file, tickets(count))


@pytest.mark.parametrize("name", GRADED)
def test_grades_against_the_hand_count(tmp_path: Path, name: str) -> None:
    path = made(tmp_path, name)
    found = [source.name for source in sources() if source.recognises(start_of(path))]
    assert [each for each in found if each != "rows"] == [name]
    rows = read(path)
    right = [logits[0] == 0 for logits in rows.frame["logits"].to_list()]
    assert right == [ticket.right["topic"] for ticket in tickets(60)]
    assert rows.values == "grades"
    assert rows.frame["family"].n_unique() == (60 if name == "statgate" else 20)
    assert rows.model == (None if name == "statgate" else "m1")


@pytest.mark.parametrize("name", GRADED)
def test_a_report_names_no_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = made(tmp_path, name)
    done = CliRunner().invoke(main, ["report", path.name])
    assert done.exit_code == 0, done.output
    share = sum(ticket.right["topic"] for ticket in tickets(60)) / 60
    assert_says(
        done.output, f"{name} answers {share:.1%} [", "only says whether each answer is right"
    )
    full = CliRunner().invoke(main, ["report", f"runs/{name}", "--full"])
    assert full.exit_code == 0, full.output
    assert_says(full.output, "only says whether each answer is right")
    assert "chosen" not in full.output


def test_runs_of_grades_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = [made(tmp_path, name).name for name in ("errorbars", "evalsig")]
    done = CliRunner().invoke(main, ["report", *names])
    assert done.exit_code == 0, done.output
    assert_says(done.output, "no difference shown", "60 items in 20 groups")
    gated = CliRunner().invoke(main, ["thresholds", "runs/errorbars", "--target-error", "0.05"])
    assert_says(gated.output, "Cannot tell: the run only says whether each answer is right")


@pytest.mark.parametrize(
    ("rows", "error", "parts"),
    [
        ([{"case_id": "a", "score": 0.5}], RecordError, ("g.jsonl:1 (id a)", "got 0.5: a share")),
        ([{"case_id": "a", "score": 2}], RecordError, ("expected 0 or 1, got 2",)),
        (
            [{"case_id": "a", "score": 1, "passed": False}],
            RecordError,
            ("g.jsonl:1 (id a)", "passed and score differ"),
        ),
        (
            [{"case_id": "a", "score": 1}, {"case_id": "a", "score": 1}],
            RecordError,
            ("g.jsonl:2 (id a)", "graded already on line 1"),
        ),
        (
            [{"case_id": "a", "passed": True}, {"case_id": "b"}],
            RecordError,
            ("g.jsonl:2", "neither"),
        ),
        (
            [{"question_id": q, "model": m, "score": 1} for m in "xy" for q in "ab"],
            ShapeError,
            ("x (2 from line 1), y (2 from line 3)", "--filter x or --filter y"),
        ),
    ],
)
def test_bad_grades(
    tmp_path: Path, rows: list[dict[str, Any]], error: type[Exception], parts: tuple[str, ...]
) -> None:
    with pytest.raises(error) as raised:
        read(write(tmp_path / "g.jsonl", rows))
    assert_says(raised.value, *parts)


def test_one_of_several_models(tmp_path: Path) -> None:
    rows = [{"question_id": q, "model": m, "score": int(m == "y")} for m in "xy" for q in "ab"]
    chosen = read(write(tmp_path / "g.jsonl", rows), filter="y")
    assert chosen.model == "y"
    assert [logits[0] for logits in chosen.frame["logits"]] == [0.0, 0.0]


def test_other_files_are_no_grades(tmp_path: Path) -> None:
    grades = {"question_id": "a", "model": "m", "score": 1}
    path = write(tmp_path / "t.jsonl", [grades])
    assert find_source(path).name == "errorbars"
    for name in ("label", "y_true", "prediction", "probs", "correct", "answers"):
        assert find_source(write(path, [{**grades, name: "yes"}])).name == "rows"
    assert find_source(write(path, [{"question_id": "a", "score": 1}])).name == "rows"
    with pytest.raises(InputError):
        read(made(tmp_path, "statgate"), data=path)


def test_items_of_evalsig_are_objects(tmp_path: Path) -> None:
    path = made(tmp_path, "evalsig")
    run = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(run | {"items": [1]}), "utf-8")
    with pytest.raises(InputError) as raised:
        read(path)
    assert_says(raised.value, "items: expected a list of objects")
