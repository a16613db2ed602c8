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
from pact_eval.evaluation import diagnostics as d
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.notes import DifferentViews
from pact_eval.evaluation.settings import Settings
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
    run("export", adapter, "--out", home / "model", "--with-base")
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
    assert (comparison["only_a"], comparison["only_b"]) == ([], [])
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


def test_the_gate_finds_no_change(runs: tuple[Path, Path], decoding: Any) -> None:
    both = ("compare", *runs, *FAST, *ALLOWED, "--decoding", decoding, "--margin", 0.1, "--gate")
    done = run(*both, "--json")
    value = json.loads(done.stdout)
    changed = value["answers"][0]["changed"]
    assert (changed["value"], value["distance"]["mean"]["value"]) == (
        0,
        pytest.approx(0, abs=PROBABILITY),
    )
    assert all(
        metric["change"]["value"] == pytest.approx(0, abs=NLL) for metric in value["metrics"]
    )
    assert {temperature["finding"] for temperature in value["temperatures"]} == {"raw"}
    assert f"0 of {ITEMS} answers changed" in " ".join(run(*both).stdout.split())


def test_the_page_has_no_difference_among_its_diagnostics(
    runs: tuple[Path, Path], decoding: Any
) -> None:
    settings = Settings(decoding=decoding, resamples=200, allow=("other-contract", "other-prompts"))
    experiment = Experiment.read(runs, settings, unique_labels=False)
    assert experiment.same_items
    diagnostics = d.diagnose(experiment)
    assert not [
        diagnostic for diagnostic in diagnostics if isinstance(diagnostic, d.DifferentItems)
    ]
    answer = experiment.comparisons.answer(*experiment.runs)
    for views in answer.by_views:
        assert views.accuracy.difference.value == views.pair_accuracy.difference.value == 0
        assert not views.accuracy.marked
    note = experiment.comparisons.views_note
    assert isinstance(note, DifferentViews)
    assert (note.common, note.unlike) == (4, unlike(runs).sum())
    a, b = (run.scored(decoding) for run in experiment.comparisons.at_common_views.runs)
    assert a.predicted.tolist() == b.predicted.tolist()
    np.testing.assert_allclose(a.confidence, b.confidence, rtol=0, atol=PROBABILITY)
    np.testing.assert_array_equal(a.flipped, b.flipped)
    # Both distributions of a pair of views move.
    np.testing.assert_allclose(a.view_tv, b.view_tv, rtol=0, atol=2 * PROBABILITY)
    assert np.isnan(a.view_tv).tolist() == unlike(runs).tolist()
