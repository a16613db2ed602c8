"""Training logs: read whole, or refused with the lines that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from reports.figures.figure_runs import name_adapter, rows, write_log
from run_frames import edit_run, write_run

from pact_eval.errors import InputError, RecordError
from pact_eval.runs.folder import read_run
from pact_eval.runs.training_log import read_training_log, training_log_of_run


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_numbers_that_a_step_lacks_are_nan(tmp_path: Path) -> None:
    log = read_training_log(
        written(tmp_path, '{"step": 1, "ce": 2.0}', "", '{"step": 4, "ce": 1, "nr": 0.5}')
    )
    assert len(log) == 2
    assert log.steps.tolist() == [1, 4]
    assert log.columns["ce"].tolist() == [2.0, 1.0]
    np.testing.assert_array_equal(log.columns["nr"], [np.nan, 0.5])
    steps, values = log.logged("nr")
    assert (steps.tolist(), values.tolist()) == ([4], [0.5])
    assert log.missing(["ce", "emd", "pc"]) == ("emd", "pc")


def test_the_selected_step_is_the_first_of_the_lowest(tmp_path: Path) -> None:
    nll = {10: 0.5, 20: 0.3, 30: 0.3, 40: 0.4}
    lines = [json.dumps({"step": s, "selection_nll_nats": v}) for s, v in nll.items()]
    assert read_training_log(written(tmp_path, *lines)).selected == (20, 0.3)


def test_the_selected_step_is_what_the_training_says(tmp_path: Path) -> None:
    """Step 30 has the lowest NLL, but too little answer mass."""
    nll = {10: (0.5, 10), 20: (0.3, 20), 30: (0.1, 20)}
    lines = [
        json.dumps({"step": step, "selection_nll_nats": value, "selected_step": best})
        for step, (value, best) in nll.items()
    ]
    assert read_training_log(written(tmp_path, *lines)).selected == (20, 0.3)
    lines.append('{"step": 40, "selected_step": 39.5}')
    with pytest.raises(InputError, match=r"selected_step: .* not evaluated at 39\.5"):
        _ = read_training_log(written(tmp_path, *lines)).selected


def test_a_whole_step_written_with_a_point_is_a_step(tmp_path: Path) -> None:
    """Our own trainer wrote 1.0, 2.0, ...: every line of its logs was refused."""
    log = read_training_log(written(tmp_path, '{"step": 1.0, "ce": 2.0}', '{"step": 2.0, "ce": 1}'))
    assert log.steps.tolist() == [1, 2]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    log = read_training_log(written(tmp_path, '{"step": 1, "ce": 2.0}'))
    with pytest.raises(InputError, match="lacks selection_nll_nats; .* ce"):
        _ = log.selected


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("[1]", "2: expected an object, got a list"),
        ('{"ce": 1}', "2: step: expected an integer, got null"),
        ('{"step": 2.5}', "2: step: expected an integer, got a number"),
        ('{"step": 1}', "2: step: expected more than 1, got 1"),
        ('{"step": 2, "ce": "x"}', "2: ce: expected a number, got text"),
        ('{"step": 2, "ce": true}', "2: ce: expected a number, got true/false"),
        (f'{{"step": 2, "ce": {10**400}}}', "2: ce: expected a number that fits a float, got"),
        ('{"step": 2, "ce": NaN}', "2: expected a finite number, got NaN"),
        ('{"step": 2, "ce": 1, "ce": 2}', 'duplicate key "ce"'),
        ('{"step": 2, "ce"', "2: not valid JSON"),
    ],
)
def test_lines_that_are_wrong_are_named(tmp_path: Path, line: str, fault: str) -> None:
    with pytest.raises(RecordError) as caught:
        read_training_log(written(tmp_path, '{"step": 1}', line, "{"))
    assert fault in str(caught.value)
    assert "log.jsonl:3: not valid JSON" in str(caught.value)


def test_an_empty_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="per training step, got none"):
        read_training_log(written(tmp_path))
    with pytest.raises(InputError, match="no such file"):
        read_training_log(tmp_path / "nothing")


def test_the_log_of_a_run_is_found_beside_its_adapter(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "run", rows(1, families=3), arm="pact", seed=1)
    with pytest.raises(InputError, match=r"run\.json .*adapter folder"):
        training_log_of_run(read_run(run))
    name_adapter(run, Path("adapters/pact"))
    with pytest.raises(InputError, match="adapters/pact does not exist"):
        training_log_of_run(read_run(run))
    adapter = tmp_path / "adapters" / "pact"
    adapter.mkdir(parents=True)
    with pytest.raises(InputError, match=r"has no log\.jsonl"):
        training_log_of_run(read_run(run))
    write_log(adapter, steps=5)
    assert len(training_log_of_run(read_run(run))) == 5


def test_a_log_beside_other_weights_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows(1, families=3), arm="pact", seed=1)
    name_adapter(run, tmp_path / "adapter")
    write_log(tmp_path / "adapter", steps=5)
    (tmp_path / "adapter" / "adapter_model.safetensors").write_bytes(b"other")
    edit_run(run, settings={"adapter": {"sha256": "0" * 64}})
    with pytest.raises(InputError, match="not the one that was scored"):
        training_log_of_run(read_run(run))
