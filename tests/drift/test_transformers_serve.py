"""A local run against the same adapter through `transformers serve`, in float32: no difference.

The local run has several orders of booleans and scores. The server lays them out itself, in one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapters import MODEL, copied
from commands import runner
from messages import assert_says
from tolerances import NLL, PROBABILITY
from transformers_server import serving

from pact_cli.main import main
from pact_eval.runs.folder import read_run

pytestmark = pytest.mark.slow

run = runner(main)
HOLDOUT = MODEL.parent / "data" / "holdout.jsonl"
ITEMS = 80
ALLOWED = ("--allow", "other-contract", "--allow", "other-prompts")
FAST = ("--resamples", 200)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The local run and the served one, of four views each."""
    home = tmp_path_factory.mktemp("served")
    adapter = copied(home / "adapter")
    run("export", adapter, "--out", home / "model", "--layout", "with-base")
    data = ("--data", HOLDOUT, "--k", 4, "--limit", ITEMS)
    run("score", adapter, *data, "--dtype", "float32", "--out", home / "local")
    with serving(home / "model") as url:
        server_options = ("--server", url, "--model", home / "model", "--no-probe")
        run("score", *server_options, *data, "--out", home / "served")
    return home / "local", home / "served"


@pytest.fixture(scope="module", params=["single", "ensemble"])
def decoding(request: pytest.FixtureRequest) -> Any:
    return request.param


def unlike(runs: tuple[Path, Path]) -> Any:
    """Says which items the runs show in different orders."""
    local, served = (read_run(folder).predictions.code_order for folder in runs)
    return (local != served).any(axis=(1, 2))


def test_the_runs_agree_at_view_0_and_have_unlike_views(runs: tuple[Path, Path]) -> None:
    local, served = (read_run(folder).predictions for folder in runs)
    assert local.ids.tolist() == served.ids.tolist()
    p, q = (np.exp(views.log_probs("single")) for views in (local, served))
    assert np.abs(p - q).max() < PROBABILITY
    choice = local.kind == "choice"
    assert 10 < choice.sum() < ITEMS - 10
    assert unlike(runs).tolist() == (~choice).tolist()


def test_compare_shows_no_difference(runs: tuple[Path, Path], decoding: Any) -> None:
    both = ("compare", *runs, *FAST, *ALLOWED, "--decoding", decoding)
    value = json.loads(run(*both, "--json").stdout)
    (pair,), (answer,) = value["comparisons"], value["answer"]["better"]
    comparison = pair["comparison"]
    assert comparison["differing"] == []
    for group in comparison["groups"]:
        for name, metric in group["metrics"].items():
            difference = metric["difference"]["value"]
            assert difference is None or abs(difference) < NLL, (group["name"], name)
            assert not metric["evidence"]["marked"], (group["name"], name)
    (note,) = (note_of_run for note_of_run in comparison["notes"] if "unlike" in note_of_run)
    assert note["unlike"] == unlike(runs).sum()
    accuracies = [claim for claim in answer["claims"] if claim["metric"] == "accuracy"]
    assert sorted(claim["k"] for claim in accuracies) == [1, 4]
    for claim in accuracies:
        assert (claim["status"], claim["difference"]["value"]) == ("not shown", 0)
    assert {entry["finding"] for entry in pair["tempering"]["found"]} == {"raw"}
    assert all(entry["tv"] < PROBABILITY for entry in pair["tempering"]["found"])
    text = " ".join(run(*both).stdout.split())
    assert "more than a temperature" not in text
    assert_says(text, "look raw", "T = 1 [1, 1]")
