"""Python does what the command line does: the JSON of both ways, and the files that they write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import runner
from run_frames import edit_run, rows, write_run

import pact_eval
from pact_cli.main import main
from pact_reports.writers.json import comparisons_json

run = runner(main)
SETTINGS = pact_eval.Settings(resamples=200)
OF_A_MODEL: dict[str, Any] = {
    "adapter": {"sha256": "a" * 64, "config_sha256": "c" * 64},
    "base": {"sha256": "b" * 64, "config_sha256": "c" * 64},
    "dtype": "bfloat16",
}
NF4 = {"quantisation": {"method": "nf4", "double": True, "compute": "bfloat16"}}


def printed(*words: object) -> Any:
    """Returns the JSON that a command prints."""
    return json.loads(run(*words, "--json").stdout)


@pytest.mark.parametrize(
    ("second_settings", "analyses"),
    [
        (OF_A_MODEL, ()),
        ({"server": {"wire": "systemone"}}, ("tempering",)),
        (OF_A_MODEL | NF4, ("quantising",)),
    ],
)
def test_a_comparison(
    tmp_path: Path, second_settings: dict[str, Any], analyses: tuple[str, ...]
) -> None:
    first, second = (write_run(tmp_path / name, rows(seed)) for seed, name in enumerate("ab"))
    edit_run(first, source="score", settings=OF_A_MODEL)
    edit_run(second, source="score", settings=second_settings)
    settings = pact_eval.Settings(resamples=200, holm=True, margin=0.05)
    comparison = pact_eval.compare(first, second, settings)
    command = printed("compare", first, second, "--resamples", 200, "--holm", "--margin", 0.05)
    assert comparisons_json([comparison]) == command
    assert {"tempering", "quantising"} & set(command["comparisons"][0]) == set(analyses)
    text = str(comparison)
    assert ("Served probabilities" in text, "Quantising: " in text) == (
        "tempering" in analyses,
        "quantising" in analyses,
    )
