"""The page as a file: its bytes, its policy, what it says; no browser is needed."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html import unescape
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from builders import write_jsonl
from hypothesis import given
from hypothesis import strategies as st
from messages import assert_says
from reports.figures.figure_runs import rows
from reports.page.page_runs import experiment_of, page_of, record_of, records_of, two_runs
from run_frames import ablated_rows, edit_run, write_run

from pact_eval.data.records import parse_record
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import read_item_records
from pact_eval.prompts.nimble import NIMBLE
from pact_reports.markup import csp_hash
from pact_reports.page.assembly import make_page
from pact_reports.page.item_texts import marked, user_message, view_changes
from pact_reports.page.packing import BlockStore, bytes_of, to_permille, to_steps
from pact_reports.page.request import PageRequest


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


def request_of(experiment: Experiment, **changes: object) -> PageRequest:
    chosen = {"figures": ("confidence",), "tables": ("main", "cost")}
    return PageRequest(experiment, **(chosen | changes))  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_same_runs_give_the_same_bytes(experiment: Experiment, folders: list[Path]) -> None:
    again = experiment_of(folders)
    assert make_page(request_of(experiment)) == make_page(request_of(again))


def test_sections_stand_in_order(text: str) -> None:
    names = ("summary", "items", "calibration", "figures", "tables", "provenance")
    places = [text.index(f'<section id="{name}"') for name in names]
    assert places == sorted(places)
    assert text.index('class="cards"') < text.index('class="forest"') < text.index("Verdicts")
    assert text.index("Verdicts") < text.index("Main results")
    for words in ("No criteria were given", "pact</bdi> against <bdi>other</bdi> at seed 17"):
        assert words in text
    assert_says(text, "pact-eval report", "&#x27;a b&#x27;", "--html page.html")


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


def test_the_title_has_dataset_items_k_seeds_and_the_day_of_the_runs(
    text: str, experiment: Experiment
) -> None:
    scored = experiment.runs[0].provenance.created
    assert scored is not None
    facts = f"24 items, K = 4, seed 17, {scored.date()}"
    assert f"<title>pact, other on eval.jsonl: {facts}</title>" in text
    heading = re.search(r"<h1>(.*?)</h1>", text, re.DOTALL)[1]  # type: ignore[index]
    assert re.sub("<[^>]+>", "", heading) == f"pact, other on eval.jsonl {facts}"


def test_provenance_by_keys_and_in_full(text: str, folders: list[Path]) -> None:
    for folder in folders:
        assert str(folder) in unescape(text)
    assert text.count("settings.data.sha256") == 2
    table = re.search(r'id="table-provenance".*?</section>', text, re.DOTALL)[0]  # type: ignore[index]
    runs = re.findall(r'scope="row"[^>]*><bdi>([^<]*)', table)
    assert runs == ["pact, seed 17", "other, seed 17"]
    heads = re.findall(r'scope="col"[^>]*><bdi>([^<]*)', table)
    assert "Seal" in heads
    assert "Data SHA-256" not in heads
    assert "<dt><bdi>Data SHA-256</bdi></dt>" in text


def test_times_are_columns_when_all_runs_took_equally_long(tmp_path: Path) -> None:
    """Bug: the layout then depended on chance, so two pages of one experiment could differ."""
    folders, _ = two_runs(tmp_path, families=4)
    times: dict[str, Any] = {"created": "2026-11-26T21:55:00+00:00", "wall_seconds": 8.1}
    for folder in folders:
        edit_run(folder, **times)
    request = PageRequest(experiment_of(folders), figures=("confidence",), tables=("splits",))
    page = make_page(request)
    table = re.search(r'id="table-provenance".*?</section>', page, re.DOTALL)[0]  # type: ignore[index]
    heads = re.findall(r'scope="col"[^>]*><bdi>([^<]*)', table)
    assert {"Scored", "Seconds"} <= set(heads)
    assert "<dt><bdi>Seconds</bdi></dt>" not in page


def test_figures_have_no_background_and_colours_of_both_themes(text: str) -> None:
    figure = re.search(r'<figure id="figure-confidence-pact-17".*?</figure>', text, re.DOTALL)[0]  # type: ignore[index]
    assert "<strong><bdi>Confidence of right" in figure
    assert not re.findall(r'(?:fill|stroke)="#', figure)
    # A path that is filled with paper and has no line would be a background.
    assert not re.findall(r'<path d="[^"]*" fill="var\(--paper\)"/>', figure)
    used = set(re.findall(r"var\(--(c-[0-9a-f]{6})\)", figure))
    assert used
    for name in used:
        # Light; dark by the system; dark by choice.
        assert len(re.findall(rf"--{name}:#[0-9a-f]{{6}};", text)) == 3


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


def test_equal_blocks_stand_once() -> None:
    store = BlockStore()
    assert [store.add_json([*letters]) for letters in ("ab", "b", "ab")] == [0, 1, 0]
    assert store.html.text.count("<script") == 1


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
        make_page(PageRequest(experiment_of([folder])))


def test_runs_on_other_items_each_have_their_own(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", rows(1, families=6), arm="a", seed=1)
    b = write_run(tmp_path / "b", rows(1, families=9), arm="b", seed=1)
    page = make_page(request_of(experiment_of([a, b])))
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert [items["n"] for items in data["items"]] == [12, 18]
    assert [run["items"] for run in data["runs"]] == [0, 1]
    assert "Runs on different items" in page
    assert "Every run" in page


def test_one_view_without_calibrator_pairs_or_code_order(tmp_path: Path) -> None:
    frame = rows(1, families=6, k=1)
    frame = frame.with_columns(
        variant=None,
        answer_mass=None,
        prompt_tokens=None,
        code_order=frame["code_order"].list.head(0),
    )
    frame = frame.cast({"variant": str, "answer_mass": float, "prompt_tokens": int})
    page = page_of(tmp_path, frame, None).read_text(encoding="utf-8")
    assert "Order not checked" in page


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


def test_a_folder_of_data_is_searched(tmp_path: Path, experiment: Experiment) -> None:
    records(tmp_path, 12)
    assert len(read_item_records([tmp_path], experiment).records) == 24
    with pytest.raises(InputError, match="file or folder of records not found"):
        read_item_records([tmp_path / "nowhere"], experiment)
