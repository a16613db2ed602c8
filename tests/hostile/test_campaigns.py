"""Seeded campaigns over every reader: each input ends in one message, or in a normal result.

Every input is a file of a healthy folder with one mutation. The command must end with an exit code
of its own, with at most one error message and without a traceback, within 20 s and 1 GB; and no
number of a run may change unless the command says so.

`make test` runs 300 inputs, `make fuzz` 5,000. A failure names its seed: set PACT_FUZZ_SEED to it
to repeat it alone.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import resource
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from builders import record, write_jsonl
from click.testing import CliRunner, Result
from mutations import BYTES, JSON, TEXT, Mutation
from run_frames import forge_seal, rows, write_run

from pact_cli.audit.main import main as pact_audit
from pact_cli.main import main as pact_eval
from pact_eval.calibration import Calibrator, Weights, write_calibrator
from pact_eval.data import write_manifest
from pact_eval.preregistration import register

INPUTS = int(os.environ.get("PACT_FUZZ", "300"))
SEED = os.environ.get("PACT_FUZZ_SEED")
SECONDS, BYTES_MORE = 20.0, 1 << 30
EXIT_CODES = {0, 1, 2, 3, 4, 5}
ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures" / "pact_fixtures"


@dataclass(frozen=True)
class Campaign:
    """One reader.

    Attributes:
        file: the file that is mutated, in the healthy folder.
        mutations: what may be done to it.
        command: the command that reads it.
        numbers: whether the output has the numbers of the healthy run.
        forged: the run is sealed again after the mutation, so that its content is read.
        then: a command that reads what the first one wrote, if that succeeded.
    """

    file: str
    mutations: tuple[Mutation, ...]
    command: tuple[str, ...]
    numbers: bool = False
    forged: bool = False
    then: tuple[str, ...] = ()


REPORT = ("report", "run", "--json", "--resamples", "100")
ADAPTER = ("audit", "adapter", "adapter")
CAMPAIGNS = {
    "records": Campaign("data/holdout.jsonl", JSON, ("audit", "data", "data")),
    "manifest": Campaign("data/manifest.json", JSON, ("audit", "data", "data")),
    "adapter_config": Campaign(
        "adapter/adapter_config.json", JSON, ("audit", "adapter", "adapter")
    ),
    "schema_config": Campaign("adapter/schema_config.json", JSON, ADAPTER),
    "weights": Campaign(
        "adapter/adapter_model.safetensors", BYTES, ("audit", "adapter", "adapter")
    ),
    "base config": Campaign("model/config.json", JSON, (*ADAPTER, "--base-model", "model")),
    "run.json": Campaign("run/run.json", JSON, REPORT, numbers=True),
    "rows": Campaign("run/predictions.parquet", BYTES, REPORT, numbers=True),
    "forged rows": Campaign("run/predictions.parquet", BYTES, REPORT, forged=True),
    "forged run.json": Campaign("run/run.json", JSON, REPORT, forged=True),
    "calibrator": Campaign(
        "calibration.json", JSON, (*REPORT, "--calibration", "calibration.json"), numbers=True
    ),
    "hypotheses": Campaign("h.toml", TEXT, ("scorecard", "h.toml", "run", "--resamples", "100")),
    "lock": Campaign("h.lock", JSON, ("scorecard", "h.toml", "run", "--resamples", "100")),
    "table of metrics": Campaign("metrics.csv", TEXT, ("scorecard", "h.toml", "metrics.csv")),
    "imported rows": Campaign(
        "rows.jsonl",
        JSON,
        ("import", "rows.jsonl", "--out", "imported"),
        then=("report", "imported", "--resamples", "100"),
    ),
    "palette": Campaign(
        "palette.toml",
        TEXT,
        (
            "figures",
            "run",
            "--out",
            "figures",
            "--palette",
            "palette.toml",
            "--only",
            "reliability",
            "--resamples",
            "100",
        ),
    ),
    "texts of a page": Campaign(
        "data/holdout.jsonl",
        JSON,
        (
            "report",
            "run",
            "--html",
            "page.html",
            "--data",
            "data/holdout.jsonl",
            "--resamples",
            "100",
        ),
    ),
}
# A page takes a second; most inputs go to readers that are fast.
RARE = {"texts of a page": 0.1, "palette": 0.3, "hypotheses": 0.5, "lock": 0.5, "calibrator": 0.5}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("healthy")
    pairs = [
        f"f{number}-{variant}" for number in range(6) for variant in ("base", "counterfactual")
    ]
    (home / "data").mkdir()
    write_jsonl(home / "data" / "holdout.jsonl", [record(name) for name in pairs])
    write_manifest(home / "data")
    for name in ("adapter", "model"):
        source = FIXTURES / ("adapters/pact" if name == "adapter" else "model")
        shutil.copytree(source, home / name)
    write_run(home / "run", rows(1, families=6, k=2), arm="method", seed=1)
    weights = Weights((1.0, 1.0, 1.0), 0.0, 0.0)
    write_calibrator(home / "calibration.json", Calibrator("scalar", weights, None))
    example = ROOT / "pact_eval" / "preregistration" / "example.toml"
    shutil.copy(example, home / "h.toml")
    register(home / "h.toml", now=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    (home / "metrics.csv").write_text(
        "run,seed,decoding,group,count,pairs,accuracy,pair_accuracy\n"
        "method,1,single,all,12,6,0.75,0.5\nbaseline,1,single,all,12,6,0.5,0.5\n"
    )
    write_jsonl(
        home / "rows.jsonl",
        [{"id": name, "reference": 1, "probabilities": [0.25, 0.75]} for name in pairs],
    )
    shutil.copy(FIXTURES / "paper_palette.toml", home / "palette.toml")
    return home


def run(command: tuple[str, ...]) -> Result:
    program, words = (pact_audit, command[1:]) if command[0] == "audit" else (pact_eval, command)
    return CliRunner().invoke(program, list(words))


def numbers_of(result: Result) -> Any:
    """Return the numbers of a report, without names and provenance."""
    groups = json.loads(result.stdout)["groups"]
    return json.dumps([{key: group[key] for key in ("items", "metrics")} for group in groups])


def drawn(number: int) -> tuple[str, Campaign, random.Random, int]:
    seed = number if SEED is None else int(SEED)
    draw = random.Random(seed)
    names = list(CAMPAIGNS)
    name = draw.choices(names, weights=[RARE.get(each, 1.0) for each in names])[0]
    return name, CAMPAIGNS[name], draw, seed


def checked(name: str, result: Result, seconds: float) -> None:
    """Assert what must hold of every end of a command."""
    said = f"{name}: exit code {result.exit_code}\n{result.output[-2_000:]}"
    assert result.exit_code in EXIT_CODES, said
    assert result.exception is None or isinstance(result.exception, SystemExit), said
    assert "Traceback" not in result.output, said
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) <= 1, said
    if result.exit_code == 1:
        assert errors, said
    assert len(result.output) < 200_000, said
    assert seconds < SECONDS, said


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_hostile_inputs(
    healthy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.chdir(healthy)
    expected = numbers_of(run(REPORT))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(part, 1 if SEED else INPUTS, 4):
        name, campaign, draw, seed = drawn(number)
        home = Path(shutil.copytree(healthy, tmp_path / str(number)))
        monkeypatch.chdir(home)
        path = home / campaign.file
        path.write_bytes(draw.choice(campaign.mutations)(draw, path.read_bytes()))
        if campaign.forged:
            forge_seal(home / "run")
        started = time.monotonic()
        result = run(campaign.command)
        seconds = time.monotonic() - started
        checked(f"{name}, PACT_FUZZ_SEED={seed}", result, seconds)
        if campaign.then and result.exit_code == 0:
            checked(f"{name}, later, PACT_FUZZ_SEED={seed}", run(campaign.then), 0.0)
        if campaign.numbers and result.exit_code == 0 and not result.stderr.strip():
            assert numbers_of(result) == expected, f"{name}, PACT_FUZZ_SEED={seed}"
        shutil.rmtree(home)
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert more < BYTES_MORE
