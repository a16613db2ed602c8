"""The precision that `--dtype auto` takes, what it says of it, and that a run keeps it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import runner
from messages import assert_says
from needs import needs
from run_frames import edit_run, rows, write_run
from steps import Steps

import pact_eval
from pact_cli.main import main
from pact_eval.errors import RunSettingsError
from pact_eval.progress import watched
from pact_eval.runs.folder import read_run
from pact_eval.scoring import model as models
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.windows import WINDOW_RECORDS
from scoring.conftest import FIXTURES, HOLDOUT

ADAPTER, BASE = FIXTURES / "adapters" / "pact", FIXTURES / "model"
CPU = torch.device("cpu")
MORE = WINDOW_RECORDS + 6


def plant(monkeypatch: pytest.MonkeyPatch, *instructions: str) -> None:
    """A processor with these instructions, for which the shipped base is large."""
    monkeypatch.setattr(models, "LARGE_PARAMETERS", 1_000_000)
    offered = dict.fromkeys(instructions, True)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: offered)


def scored(out: Path, **options: Any) -> dict[str, Any]:
    """The `run.json` of a run of the shipped adapter."""
    options = {"k": 1, "limit": 4, "device": "cpu", "attention": "fused", **options}
    pact_eval.score(HOLDOUT, out, adapter=ADAPTER, base_model=str(BASE), **options)
    content: dict[str, Any] = json.loads((out / "run.json").read_bytes())
    return content


def log_probabilities(out: Path) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Those of view 0 of every item; NaN where it has fewer answers."""
    logits = read_run(out).predictions.logits[:, 0].astype(np.float64)
    odds = np.exp(np.where(np.isfinite(logits), logits, -np.inf))
    return np.where(np.isfinite(logits), logits - np.log(odds.sum(axis=1, keepdims=True)), np.nan)


@pytest.mark.parametrize(
    ("instructions", "least", "expected", "why"),
    [
        (("avx512_bf16",), 1_000_000, torch.bfloat16, "avx512_bf16"),
        (("amx_bf16", "avx512_bf16"), 1_000_000, torch.bfloat16, "amx_bf16"),
        (("avx512_f",), 1_000_000, torch.float32, "neither amx_bf16 nor avx512_bf16"),
        (("amx_bf16",), 100_000_000, torch.float32, None),  # the shipped base is small
    ],
)
def test_the_processor_and_the_size_of_the_base_decide(
    monkeypatch: pytest.MonkeyPatch,
    instructions: tuple[str, ...],
    least: int,
    expected: torch.dtype,
    why: str | None,
) -> None:
    plant(monkeypatch, *instructions)
    monkeypatch.setattr(models, "LARGE_PARAMETERS", least)
    dtype, reason = models.choose_dtype(ModelRequest(None), CPU, BASE)
    assert dtype == expected
    assert (reason is None) == (why is None)
    assert why is None or why in str(reason)
    assert models.choose_dtype(ModelRequest(None, dtype="bf16"), CPU, BASE)[1] is None


def test_a_gpu_that_is_not_there_is_not_asked() -> None:
    """The message of a missing device is that of loading; the precision is CUDA's default."""
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    dtype = models.resolve_dtype("auto", torch.device("cuda"))
    assert models.choose_dtype(ModelRequest(None), torch.device("cuda"), BASE) == (dtype, None)


@needs("a CUDA device", present=torch.cuda.is_available())
def test_a_gpu_computes_bfloat16_from_compute_capability_8_0() -> None:
    """NVIDIA's table of arithmetic: from Ampere (8.0) on; before, torch would emulate it."""
    computes = torch.cuda.get_device_capability() >= (8, 0)
    dtype, reason = models.choose_dtype(ModelRequest(None), torch.device("cuda"), BASE)
    assert dtype == (torch.bfloat16 if computes else torch.float32)
    assert ("does not" not in str(reason)) == computes


@pytest.mark.slow
def test_the_run_says_what_it_changes_as_two_runs_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored(tmp_path / "fp32", dtype="fp32", engine="naive")
    scored(tmp_path / "bf16", dtype="bf16", engine="naive")
    exact, rounded = (log_probabilities(tmp_path / name) for name in ("fp32", "bf16"))
    plant(monkeypatch, "avx512_bf16")
    content = scored(tmp_path / "auto", engine="naive")
    chosen = content["auto_dtype"]
    assert content["settings"]["dtype"] == "bfloat16"
    assert chosen["views"] == 4
    difference = np.nanmax(np.abs(rounded - exact))
    assert chosen["largest_log_probability_difference"] == pytest.approx(difference, abs=1e-4)
    flips = (np.nanargmax(rounded, axis=1) != np.nanargmax(exact, axis=1)).sum()
    assert chosen.get("flips", 0) == flips
    words = ("score", ADAPTER, "--data", HOLDOUT, "--limit", 4, "--k", 1, "--device", "cpu")
    shown = runner(main)(*words, "--out", tmp_path / "shown")
    assert_says(shown.stderr, "bfloat16", "avx512_bf16", "4 checked views", "--dtype fp32")


def test_answers_that_the_precision_changes_are_a_warning(tmp_path: Path) -> None:
    for flips in (0, 2):
        run = write_run(tmp_path / str(flips), rows(1, families=9))
        chosen = {"why": "fast", "views": 6, "largest_log_probability_difference": 0.1}
        edit_run(run, settings={"dtype": "bfloat16"}, auto_dtype=chosen | {"flips": flips})
        shown = runner(main)("report", run, "--resamples", 100)
        assert ("2 answers change" in shown.stderr) == (flips == 2)


def test_runs_of_different_precisions_are_not_compared_in_silence(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, rows(1, families=9)) for name in ("a", "b", "c")]
    for run, dtype in zip(runs, ("float32", "bfloat16", None), strict=True):
        edit_run(run, settings={"dtype": dtype})
    for other, is_said in ((1, True), (2, False)):
        shown = runner(main)("compare", runs[0], runs[other], "--resamples", 100)
        assert ("computed in bfloat16" in shown.stderr) == is_said


@pytest.mark.slow
def test_a_resumed_run_keeps_its_precision_on_another_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "avx512_bf16")
    scored(tmp_path / "whole", limit=MORE)
    with pytest.raises(KeyboardInterrupt), watched(Steps(stop_after="part-000000.parquet")):
        scored(tmp_path / "run", limit=MORE)
    before = json.loads((tmp_path / "run/run.json").read_bytes())["auto_dtype"]
    plant(monkeypatch)  # the other processor would take float32
    with pytest.raises(RunSettingsError, match="dtype"):
        scored(tmp_path / "run", limit=MORE, dtype="fp32")
    content = scored(tmp_path / "run", limit=MORE)
    assert (content["settings"]["dtype"], content["auto_dtype"]) == ("bfloat16", before)
    rows = [(tmp_path / name / "predictions.parquet").read_bytes() for name in ("run", "whole")]
    assert rows[0] == rows[1]
    assert scored(tmp_path / "run", limit=MORE) == content  # complete: nothing is scored again


@pytest.mark.slow
def test_float32_is_taken_and_recorded_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    content = scored(tmp_path / "run")
    assert content["settings"]["dtype"] == "float32"
    assert content["auto_dtype"].keys() == {"why"}
    assert "auto_dtype" not in scored(tmp_path / "named", dtype="fp32")
