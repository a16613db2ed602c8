"""Are served probabilities raw? A server with the pipeline of transformers, and runs by hand."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from adapters import MODEL, copied
from commands import refuser, runner
from messages import assert_says
from run_frames import edit_run, rows, write_run
from scoring.servers.loopback import Response, Sent, serving

from pact_cli.main import main
from pact_eval.calibration.temperatures import (
    Calibrator,
    Weights,
    inverse_softplus,
    write_calibrator,
)
from pact_eval.runs.rows import SCHEMA

run, refused = runner(main), refuser(main)
HOLDOUT = MODEL.parent / "data" / "holdout.jsonl"
TEMPERATURES = {"choice": 1.5, "boolean": 0.75, "score": 2.0}
FAST = ("--resamples", 200)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A local run, and one of a server that loads our export and its temperatures."""
    transformers = pytest.importorskip("transformers")
    home = tmp_path_factory.mktemp("tempered")
    adapter = copied(home / "adapter")
    bias = tuple(inverse_softplus(number) for number in TEMPERATURES.values())
    write_calibrator(home / "t.json", Calibrator("per-kind", Weights(bias)))  # type: ignore[arg-type]
    run(
        "export",
        adapter,
        "--out",
        home / "model",
        "--layout",
        "with-base",
        "--calibrator",
        home / "t.json",
    )
    data = ("--data", HOLDOUT, "--k", 1, "--limit", 80)
    run("score", adapter, *data, "--out", home / "local")
    decide = transformers.pipeline(
        "decision", model=str(home / "model"), device="cpu", dtype="float32"
    )
    one_at_a_time = threading.Lock()

    def respond(sent: Sent) -> Response:
        with one_at_a_time:
            answers = decide({name: sent.body[name] for name in ("state", "questions")})
        return Response({"model": "served-1", "answers": answers, "usage": {"input_tokens": 9}})

    with serving(respond) as server:
        server_options = ("--server", server.url, "--model", "mine", "--no-probe")
        run("score", *server_options, *data, "--out", home / "served")
    return home / "local", home / "served"


@pytest.mark.slow
def test_the_temperatures_of_a_real_server_are_found(runs: tuple[Path, Path]) -> None:
    local, served = runs
    both = (
        "compare",
        local,
        served,
        *FAST,
        "--allow",
        "other-contract",
        "--allow",
        "other-prompts",
    )
    tempering = json.loads(run(*both, "--json").stdout)["comparisons"][0]["tempering"]
    assert (tempering["local"], tempering["served"]) == (str(local), str(served))
    kinds = {entry["kind"]: entry for entry in tempering["found"]}
    for kind, temperature in TEMPERATURES.items():
        one = kinds[kind]
        assert one["finding"] == "tempered"
        assert one["ratio"]["value"] == pytest.approx(temperature, rel=1e-3)
        assert one["tv_left"] < 1e-4 < one["tv"]
    text = " ".join(run(*both).stdout.split())
    assert_says(text, "probabilities of choice", "tempered", "T = 1.5 [1.5, 1.5]")


def pair(folder: Path, change: Any) -> tuple[Path, Path]:
    """Writes a local run, and a served one with other logits."""
    frame = rows(1, families=40, k=1)
    logits = frame["logits"].to_list()
    other = pl.Series([change(np.array(item_logits)).tolist() for item_logits in logits])
    local = write_run(folder / "local", frame)
    served = write_run(folder / "served", frame.with_columns(logits=other).cast(SCHEMA))
    edit_run(local, source="score")
    edit_run(served, source="score", settings={"server": {"wire": "systemone"}})
    return local, served


@pytest.mark.parametrize(
    ("finding", "words"),
    [("raw", "look raw, divided by T = 1 [1, 1]"), ("other", "differ by more than a temperature")],
)
def test_raw_and_other_distributions(tmp_path: Path, finding: str, words: str) -> None:
    rng = np.random.default_rng(2)

    def change(z: Any) -> Any:
        return z + 5 if finding == "raw" else 0.8 * z + rng.normal(0, 1.0, z.size)

    local, served = pair(tmp_path, change)
    both = (local, served) if finding == "raw" else (served, local)
    assert words in " ".join(run("compare", *both, *FAST).stdout.split())
    (value,) = json.loads(run("compare", *both, *FAST, "--json").stdout)["comparisons"]
    expected = {"raw": "raw", "other": "other distributions"}[finding]
    assert value["tempering"]["found"][0]["finding"] == expected


def test_a_local_run_is_not_judged(tmp_path: Path) -> None:
    local, _ = pair(tmp_path, lambda z: z)
    assert "tempering" not in json.loads(run("compare", local, local, *FAST, "--json").stdout)
