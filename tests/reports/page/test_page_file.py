"""The page as a file: its bytes, its policy, what it says; no browser is needed."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from builders import write_jsonl
from hypothesis import given
from hypothesis import strategies as st
from reports.figures.figure_runs import rows
from reports.page.page_runs import experiment_of, record_of, records_of, two_runs
from run_frames import ablated_rows, edit_run, write_run

from pact_eval.data.records import parse_record
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import read_item_records
from pact_eval.prompts.nimble import NIMBLE
from pact_reports.page.assembly import make_page
from pact_reports.page.html import csp_hash
from pact_reports.page.item_blocks import (
    bytes_of,
    marked,
    to_permille,
    to_steps,
    user_message,
    view_changes,
)
from pact_reports.request import Request


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folders = two_runs(tmp_path_factory.mktemp("runs"), families=12)[0]
    for folder in folders:
        edit_run(folder, data="data/eval.jsonl")
    return folders


@pytest.fixture(scope="module")
def experiment(folders: list[Path]) -> Experiment:
    return experiment_of(folders)


@pytest.fixture(scope="module")
def text(experiment: Experiment, folders: list[Path]) -> str:
    records = read_item_records([folders[0].parent / "eval.jsonl"], experiment)
    command = ("pact-eval", "report", "a b", "--html", "page.html")
    return make_page(request_of(experiment, records=records, command=command))


def request_of(experiment: Experiment, **changes: object) -> Request:
    chosen = {"figures": (), "tables": ("cost",)}
    return Request(experiment, **(chosen | changes))  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_same_runs_give_the_same_bytes(experiment: Experiment, folders: list[Path]) -> None:
    again = experiment_of(folders)
    assert make_page(request_of(experiment)) == make_page(request_of(again))


def test_the_policy_names_the_style_and_the_script_by_hash(text: str) -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src {csp_hash(script)};" in policy
    assert f"style-src {csp_hash(style)};" in policy
    nothing = ("connect-src 'none'", "base-uri 'none'", "form-action 'none'")
    for directive in (*nothing, "img-src data:"):
        assert directive in policy
    assert "unsafe" not in policy


def test_nothing_is_named_that_would_be_fetched(text: str) -> None:
    body = text.replace('xmlns:xlink="http://www.w3.org/1999/xlink"', "").replace(
        'xmlns="http://www.w3.org/2000/svg"', ""
    )
    assert not re.findall(r'(?:src|href)="(?!#|data:,")[^"]*"', body)
    assert " style=" not in body
    assert not re.findall(r"url\((?!#)", body)


def test_what_is_packed_comes_out(text: str, experiment: Experiment) -> None:
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    elements = re.findall(r'id="blocks-\d+">(.*?)</script>', text, re.DOTALL)
    blocks = []
    for element, lengths in zip(elements, data["blocks"], strict=True):
        ends = np.cumsum(lengths).tolist()
        blocks += [element[end - n : end] for end, n in zip(ends, lengths, strict=True)]

    def unpacked(number: int) -> bytes:
        return zlib.decompress(base64.b64decode(blocks[number]))

    views = experiment.runs[0].predictions
    assert json.loads(unpacked(data["items"][0]["ids"]["blocks"][0])) == views.ids.tolist()
    number, dtype = data["runs"][1]["columns"]["confidence"]
    raw = np.frombuffer(unpacked(number), np.uint8).reshape(2, -1).T
    steps = np.ascontiguousarray(raw).view("<u2").ravel()
    assert dtype == "u2"
    np.testing.assert_array_equal(steps, to_steps(experiment.runs[1].scored().confidence))
    # Both runs were shown the same orders of the letters, which stand once.
    assert data["runs"][0]["orders"] == data["runs"][1]["orders"]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_steps_round_like_python_and_keep_the_order(values: list[float]) -> None:
    array = np.array(values)
    steps = to_steps(array)
    np.testing.assert_allclose(to_permille(array), 1000 * array, atol=0.5 + 1e-9)
    np.testing.assert_array_equal(steps // 64, to_permille(array))
    assert (np.diff(steps[np.argsort(array)].astype(int)) >= 0).all()


@given(st.lists(st.integers(0, 65_535), max_size=30))
def test_bytes_come_back(values: list[int]) -> None:
    raw = bytes_of(np.array(values, dtype=np.int64), "u2")
    n = len(values)
    assert [raw[at] + 256 * raw[n + at] for at in range(n)] == values


@given(st.text("ab. \n\u200b", max_size=30), st.text("ab. \n\u200b", max_size=30))
def test_marked_parts_join_to_both_texts(mine: str, other: str) -> None:
    parts = marked(mine, other)
    sides = [(part, part) if isinstance(part, str) else part for part in parts]
    assert "".join(side[0] for side in sides) == mine
    assert "".join(side[1] for side in sides) == other


def test_changes_of_a_view_count_as_a_browser_does() -> None:
    frame = rows(1, families=1)
    row = frame.row(0, named=True)
    record = parse_record(record_of(row, state="\U0001f600 seen <b>"))
    order = list(range(record.n_choices))[::-1]
    before = user_message(NIMBLE, record, order[::-1]).encode("utf-16-le")
    same, change = cast(
        "list[list[int | str] | None]", view_changes(NIMBLE, record, [order[::-1], order])
    )
    assert same is None
    assert change is not None
    start, end, text = change
    after = before[: 2 * int(start)] + str(text).encode("utf-16-le") + before[2 * int(end) :]
    assert after.decode("utf-16-le") == user_message(NIMBLE, record, order)


def test_a_run_on_ablated_contexts_alone_makes_no_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "ablated", ablated_rows(1), arm="a", seed=1)
    with pytest.raises(
        InputError, match="expected a run on full contexts, found only 1 on ablated"
    ):
        make_page(Request(experiment_of([folder])))


def records(tmp_path: Path, families: int, **changes: object) -> Path:
    made = records_of(rows(17, families=families))
    return write_jsonl(tmp_path / "eval.jsonl", [record | changes for record in made])


def test_records_that_are_missing_are_named(tmp_path: Path, experiment: Experiment) -> None:
    path = records(tmp_path, 10)
    with pytest.raises(InputError, match=r"24 items of .*, 4 are missing \(f10-base, f10-counterf"):
        read_item_records([path], experiment)


def test_records_of_another_question_are_refused(tmp_path: Path, experiment: Experiment) -> None:
    made = records_of(rows(17, families=12))
    made[0]["reference"] = {"target": f"answer_{1 - int(made[0]['reference']['target'][-1])}"}
    path = write_jsonl(tmp_path / "eval.jsonl", made)
    with pytest.raises(InputError, match="1 item has another kind, number of answers or refer"):
        read_item_records([path], experiment)


def test_a_file_with_another_hash_is_told(tmp_path: Path, experiment: Experiment) -> None:
    item_records = read_item_records([records(tmp_path, 12)], experiment)
    assert len(item_records.records) == 24
    assert len(item_records.different) == 2
    assert item_records.different[0].sha256 == "0" * 64
    page = make_page(request_of(experiment, records=item_records))
    assert "dataset that was scored" in page
