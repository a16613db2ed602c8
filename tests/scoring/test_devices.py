"""Scoring on an accelerator that torch offers: a stand-in without float64, in its own process."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import command_line
from tolerances import LOGIT

import pact_eval
from pact_eval.errors import AdapterError
from pact_eval.prompts.encoding import EncodedView
from pact_eval.scoring.model import resolve_device, resolve_dtype
from pact_eval.scoring.scorer import Scorer
from scoring.conftest import HOLDOUT, SMALL, Make, random_model

SCRIPT = Path(__file__).parent.parent / "stand_in_device.py"


@dataclass(frozen=True)
class OnDevice:
    """A run on the device.

    Attributes:
        base: its base.
        adapter: its adapter.
        run: its folder.
        facts: what it recorded.
    """

    base: Path
    adapter: Path
    run: Path
    facts: dict[str, Any]


@pytest.fixture(scope="module")
def on_device(
    qwen3: Path, qwen3_5_shell: Path, make_adapter: Make, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, OnDevice]:
    """A run of an adapter of each base, in one process."""
    out = tmp_path_factory.mktemp("device")
    bases = {"qwen3": qwen3, "qwen3_5_shell": qwen3_5_shell}
    adapters = {name: make_adapter(base) for name, base in bases.items()}
    words = [part for name, base in bases.items() for part in (adapters[name], base, out / name)]
    ran = subprocess.run(
        command_line("python", SCRIPT, HOLDOUT, *words),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    facts = map(json.loads, ran.stdout.splitlines())
    return {
        name: OnDevice(base, adapters[name], out / name, recorded)
        for (name, base), recorded in zip(bases.items(), facts, strict=True)
    }


@pytest.mark.slow
@pytest.mark.parametrize("base", ["qwen3", "qwen3_5_shell"])
def test_auto_takes_the_accelerator_and_its_logits_are_those_of_the_cpu(
    base: str, on_device: dict[str, OnDevice], tmp_path: Path
) -> None:
    device = on_device[base]
    facts = device.facts
    assert (facts["device"], facts["dtype"]) == ("standin", "float32")
    assert facts["engine"] == "fork"
    assert facts["kernel"] is None  # that of the model itself
    assert facts["largest"] < LOGIT
    of_cpu = pact_eval.score(
        HOLDOUT, tmp_path / "cpu", adapter=device.adapter, base_model=str(device.base), k=2,
        limit=8, device="cpu",
    )  # fmt: skip
    theirs = pact_eval.read_run(device.run).predictions.logits
    np.testing.assert_allclose(of_cpu.predictions.logits, theirs, atol=LOGIT, rtol=0)


def test_without_an_accelerator_auto_is_the_cpu() -> None:
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    expected = "cpu" if accelerator is None else accelerator.type
    assert resolve_device("auto").type == expected


def test_bfloat16_is_the_default_of_cuda_alone() -> None:
    dtypes = {name: resolve_dtype("auto", torch.device(name)) for name in ("cpu", "mps", "cuda")}
    assert dtypes == {"cpu": torch.float32, "mps": torch.float32, "cuda": torch.bfloat16}


def test_a_device_that_cannot_run_the_model_is_an_error_with_advice() -> None:
    """The `meta` device has no numbers: no logit can be read there."""
    model = random_model("Qwen3", vocab_size=50, num_hidden_layers=1, **SMALL).to("meta")
    view = EncodedView("a", 0, tuple(range(20)), (1, 2), (0, 1))
    with pytest.raises(AdapterError, match="--device meta: .*give --device cpu"):
        Scorer(model, 4096).score([view])
