"""Results of the Decision Index, in the format that its docs/format.md gives, against its rules.

Its suite cannot be redistributed and its runner is not a package, so results are written here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import write_jsonl
from decision_index import RIGHT, ROWS, result, suite_row, written
from messages import assert_says

from logs import read_rows
from pact_eval.errors import InputError, RecordError
from pact_eval.importing.import_run import import_run
from pact_eval.importing.source import ImportOptions
from pact_eval.runs.folder import read_run, unanswered_ids


def test_results_are_joined_with_their_suite(tmp_path: Path) -> None:
    error = {"status": "error", "error": "CUDA out of memory", "response": {}}
    results = [
        result(ROWS[0], [0.2, 0.7, 0.1], 0.8, **error),
        result(ROWS[0], [0.2, 0.7, 0.1], 0.8),  # the last line of a request counts
        result(ROWS[1], [0.4, 0.4, 0.2], 0.5) | {},
        result(ROWS[2], [0.3, 0.3, 0.4], 0.1),
        result(ROWS[3], [0.3, 0.3, 0.4], 0.1),
        result(ROWS[4], [1, 0, 0], 1, **(error | {"status": "abstained"})),
    ]
    results[2]["response"]["answers"]["action"]["choice"] = "repair"  # of two equal ones
    path, options = written(tmp_path, results)
    imported = import_run(path, tmp_path / "run", {}, options)
    first, second = sorted(set(imported.remarks))
    assert_says(first, "1 questions", "without a reference")
    assert_says(second, "2 questions", "routing_outcome")
    run = read_run(tmp_path / "run")
    views = run.predictions
    assert views.ids.tolist() == ["a1/action", "a1/angry", "a2/action", "a2/angry", "b1/action"]
    assert views.kind.tolist() == ["choice", "boolean", "choice", "boolean", "choice"]
    assert views.reference.tolist() == [1, 1, 1, 1, 2]
    assert views.log_probs("single").argmax(axis=1).tolist() == [1, 1, 1, 1, 2]
    assert np.exp(views.logits[0, 0]) == pytest.approx([0.2, 0.7, 0.1])
    assert views.family.tolist() == ["case-a"] * 4 + ["case-b"]
    assert set(views.source_family) == {"support"}
    assert set(views.domain) == {"Tickets"}
    assert unanswered_ids(run) == {"c1/action", "c1/angry"}
    assert run.provenance.counts.unanswered == {"refused": 2}
    assert run.provenance.rounded_to == 2
    assert run.provenance.base_model == "jev-1.13.0"
    by_shop = ImportOptions(suites=options.suites, family_from="metadata.shop")
    assert read_rows(path, by_shop).frame["family"].unique().sort().to_list() == ["a", "b", "c"]


def test_an_answer_that_contradicts_its_probabilities_is_not_believed(tmp_path: Path) -> None:
    wrong, fine = result(ROWS[0], [0.2, 0.7, 0.1], 0.8), result(ROWS[1], [0.2, 0.7, 0.1], 0.8)
    wrong["response"]["answers"]["action"]["choice"] = "refuse"
    del fine["response"]["answers"]["angry"]
    frame = read_rows(*written(tmp_path, [wrong, fine])).frame
    statuses = frame.filter(frame["status"].is_not_null()).select("id", "status", "reason").rows()
    reasons = [reason for *_, reason in statuses]
    assert [row[:2] for row in statuses] == [("a1/action", "failed"), ("a2/angry", "missing")]
    assert_says(reasons[0], "choice", "most probable")
    assert_says(reasons[1], "no answer")


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    other = result(ROWS[0], [0.2, 0.7, 0.1], 0.8, payload_sha256="0" * 64)
    unknown = result(ROWS[1], [0.2, 0.7, 0.1], 0.8, run_id="z")
    sums = result(ROWS[2], [0.3, 0.5, 0.4], 0.1)
    path, options = written(tmp_path, [other, unknown, sums])
    with pytest.raises(RecordError) as error:
        import_run(path, tmp_path / "run", {}, options)
    message = str(error.value)
    assert_says(message, ":1 (id a1): payload_sha256: ", "another state")
    assert_says(message, ":2 (id z): ", "row of the suite", "found none")
    assert_says(message, ":3 (id b1/action): probabilities: ", "sum of 1, got 1.2")
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="no references: .*rows of the suite"):
        read_rows(path)


BOARD: list[tuple[str, dict[str, Any]]] = [
    (
        "benchmark-summary.json",
        {"benchmarks": [{"catalog_id": 7, "detail": {"field_accuracy": 0}}]},
    ),
    ("scores.json", {"benchmarks": {"7": {"metric": "accuracy", "score": 0}}}),
]


def written_board(folder: Path, name: str, content: dict[str, Any], accuracy: float) -> None:
    text = json.dumps(content).replace(": 0}", f": {accuracy}}}")
    (folder / name).write_text(text, "utf-8")


@pytest.mark.parametrize(("name", "content"), BOARD, ids=[name for name, _ in BOARD])
def test_accuracies_are_those_of_the_board(
    tmp_path: Path, name: str, content: dict[str, Any]
) -> None:
    """The board scores groups whose requests were all answered: here case-a alone, 3 of 4."""
    rows = [
        ROWS[0],
        ROWS[1],
        suite_row("b1", RIGHT),
        suite_row("b2", RIGHT),
        suite_row("c1", RIGHT),
    ]
    results = [
        result(rows[0], [0.2, 0.7, 0.1], 0.8),
        result(rows[1], [0.2, 0.7, 0.1], 0.3),
        result(rows[2], [0.2, 0.7, 0.1], 0.8),
        result(rows[3], [0.2, 0.7, 0.1], 0.8, status="error", response={}),
    ]
    path = write_jsonl(tmp_path / "results.jsonl", results)
    options = ImportOptions(suites=(write_jsonl(tmp_path / "suite.jsonl", rows),))
    written_board(tmp_path, name, content, 0.75)
    assert read_rows(path, options).facts.log["benchmarks_compared"] == 1
    written_board(tmp_path, name, content, 0.7502)
    with pytest.raises(RecordError, match=f"accuracy is 0.750000, that of {name} 0.7502"):
        read_rows(path, options)


def test_rows_that_the_board_excludes_are_left_out(tmp_path: Path) -> None:
    results = [result(ROWS[at], [0.2, 0.7, 0.1], 0.8) for at in (0, 1)]
    path, options = written(tmp_path, results)
    (tmp_path / "excluded-questions.json").write_text('{"rows": {"a1": {}}}', "utf-8")
    imported = read_rows(path, options)
    assert imported.frame["id"].to_list() == ["a2/action", "a2/angry"]
    assert_says(" ".join(imported.remarks), "2 questions", "board excludes")
