"""Quantised runs on every output. Source of truth: what `run.json` records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import runner
from messages import assert_says
from run_frames import edit_run, other_items, rows, write_run

from pact_cli.main import main
from pact_eval.runs.folder import read_run

run = runner(main)
SETTINGS: dict[str, Any] = {
    "adapter": {"sha256": "a" * 64, "config_sha256": "c" * 64},
    "base": {"sha256": "b" * 64, "config_sha256": "c" * 64},
    "dtype": "bfloat16",
}
NF4 = {"quantisation": {"method": "nf4", "double": True, "compute": "bfloat16"}}
FAST = ("--resamples", 100)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two runs of one arm and seed, in full precision and in four bits."""
    monkeypatch.chdir(tmp_path)
    for name, seed, more in (("full", 1, {}), ("packed", 2, NF4)):
        write_run(Path("runs", name), rows(seed, families=12, k=3), arm="pact", seed=17)
        edit_run(Path("runs", name), source="score", settings=SETTINGS | more)
    return Path("runs/full"), Path("runs/packed")


def test_compare_says_what_quantising_cost(pair: tuple[Path, Path]) -> None:
    (comparison,) = json.loads(run("compare", *pair, *FAST, "--json").stdout)["comparisons"]
    a, b = (read_run(folder).predictions.logits[:, 0] for folder in pair)
    answers = [np.nanargmax(np.where(z > -1e9, z, np.nan), axis=1) for z in (a, b)]
    cost = comparison["quantising"]
    assert cost["answers"]["changed"]["value"] == pytest.approx((answers[0] != answers[1]).mean())
    assert (cost["before"], cost["after"]) == ("bfloat16", "bfloat16 (nf4)")
    p, q = (np.exp(z - np.nanmax(z, axis=1, keepdims=True)) for z in (a, b))
    p, q = (np.nan_to_num(odds) / np.nansum(odds, axis=1, keepdims=True) for odds in (p, q))
    tv = np.abs(p - q).sum(axis=1) / 2
    assert cost["distance"]["mean"]["value"] == pytest.approx(tv.mean())
    # In the other order, the cost is the same: quantising has one direction.
    (other,) = json.loads(run("compare", *pair[::-1], *FAST, "--json").stdout)["comparisons"]
    assert other["quantising"] == cost


def test_two_runs_of_one_quantisation_have_no_cost(pair: tuple[Path, Path]) -> None:
    edit_run(pair[0], settings=SETTINGS | NF4)
    (comparison,) = json.loads(run("compare", *pair, *FAST, "--json").stdout)["comparisons"]
    assert "quantising" not in comparison


def test_the_arm_of_a_quantised_run_is_another_one(pair: tuple[Path, Path]) -> None:
    # Also if one name is given to both: no mean is over runs of two quantisations.
    assert "x (nf4)" in run("compare", "x=runs/full", "x=runs/packed", *FAST).stdout


def test_a_calibrator_belongs_to_one_quantisation(pair: tuple[Path, Path]) -> None:
    write_run(Path("runs/other"), other_items(rows(3, families=12, k=3)), arm="pact", seed=18)
    edit_run(Path("runs/other"), source="score", settings=SETTINGS)
    words = ("calibrate", "--force", pair[1], "--holdout", "runs/other")
    message = run(*words, code=1).stderr
    assert_says(message, "quantisation of the base model", "fitted on nf4", "applied to none")
    assert "as allowed" in run(*words, "--allow", "other-quantisation").stderr
    run("calibrate", "--force", pair[0], "--holdout", "runs/other", "--overwrite")
    assert "quantisation" not in Path(pair[0], "calibration.json").read_text()


def test_another_adapter_and_another_quantisation_are_two_causes(pair: tuple[Path, Path]) -> None:
    edit_run(pair[1], arm="ce", settings=SETTINGS | NF4 | {"adapter": {"sha256": "9" * 64}})
    message = run("compare", *pair, *FAST, code=1).stderr
    assert_says(message, "quantisation of the base model", "none and nf4")
    assert "--allow other-quantisation" in message
    text = run("compare", *pair, *FAST, "--allow", "other-quantisation").stdout
    assert "differ in their quantisation" in text
    assert "Quantising:" not in text
