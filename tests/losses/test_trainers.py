"""Every trainer makes the steps of a loop by hand: after 20 steps, a resume, in two processes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from losses import trainers
from losses.trainers import STEPS, TRAINERS, Setting, Weights, plain
from safetensors.torch import load_file

RELATIVE = 1e-6
"""Of the norm of all weights: how far two trainers may differ in float32."""

BFLOAT16_LOSS = 0.03
"""Of a loss in nats: how far two trainers may differ in bfloat16."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of transformers, TRL and Lightning, about other things
]


@pytest.fixture(scope="module")
def by_hand() -> tuple[list[float], Weights]:
    setting = Setting()
    return plain(setting), setting.weights()


def difference(weights: Weights, expected: Weights) -> float:
    """Norm of the difference over the norm."""
    assert weights.keys() == expected.keys()
    squares = [((weights[name] - expected[name]).square().sum()) for name in expected]
    whole = [weight.square().sum() for weight in expected.values()]
    return math.sqrt(float(sum(squares)) / float(sum(whole)))


@pytest.mark.parametrize("name", TRAINERS)
def test_weights_and_losses_after_20_steps_against_a_loop_by_hand(
    name: str, by_hand: tuple[list[float], Weights], tmp_path: Path
) -> None:
    setting = Setting()
    losses = TRAINERS[name](setting, tmp_path)
    assert losses == pytest.approx(by_hand[0], rel=1e-5)
    assert len(losses) == STEPS
    assert difference(setting.weights(), by_hand[1]) < RELATIVE


@pytest.mark.parametrize("name", TRAINERS)
def test_a_resume_at_step_10_leads_to_the_same_weights(
    name: str, by_hand: tuple[list[float], Weights], tmp_path: Path
) -> None:
    """The checkpoint is within an epoch: its second step."""
    TRAINERS[name](Setting(), tmp_path, 10)
    setting = Setting()
    losses = TRAINERS[name](setting, tmp_path, resume=True)
    assert losses[-10:] == pytest.approx(by_hand[0][-10:], rel=1e-5)
    assert difference(setting.weights(), by_hand[1]) < RELATIVE


@pytest.mark.parametrize("name", TRAINERS)
def test_two_processes_make_the_steps_of_one(name: str, tmp_path: Path) -> None:
    expected = Setting(families=6)
    losses = plain(expected)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    subprocess.run(
        [sys.executable, *torchrun, trainers.__file__, name, str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        timeout=600,
    )
    found = [float(line) for line in (tmp_path / "losses.txt").read_text("utf-8").split()]
    assert found == pytest.approx(losses, rel=1e-5)
    weights = load_file(tmp_path / "weights.safetensors")
    assert difference(weights, expected.weights()) < RELATIVE
