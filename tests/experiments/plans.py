"""Plans, data and trainers for the tests of experiments: small, and as a user would write them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pact_fixtures

FIXTURES = Path(pact_fixtures.__file__).parent
TRAINER = Path(__file__).with_name("train.py")
COMMAND = (
    "python train.py --arm {arm} --seed {seed} --base {base} --train {train} --out {adapter} "
    "--settings {settings}"
)

PLAN = """
[data]
folder = "data"
ablated = {ablated}
select = 1
calibrate = 1
[model]
base = "base"
[train]
command = "{command}"
timeout = {timeout}
[arms]
{arms}
[seeds]
main = [17]
[judge]
k = 2
{judge}
"""

HYPOTHESES = """
format = "pact-hypotheses-1"
[[hypothesis]]
id = "H1"
title = "Size"
claim = "The weak arm is less accurate."
[[hypothesis.check]]
says = "accuracy falls"
metric = "accuracy"
arm = "weak"
decoding = "single"
is = "lower"
than = {{ arm = "mine" }}
by_more_than = "{points} points"
judged_on = "matched"
"""


def write_plan(
    folder: Path,
    *,
    arms: Iterable[str] = ("mine = {}",),
    command: str = COMMAND,
    timeout: float = 600,
    hypotheses: bool = False,
    ablated: bool = False,
) -> Path:
    """Write a plan with its data, its base and its trainer into a new folder; return the plan."""
    folder.mkdir(parents=True, exist_ok=True)
    write_data(folder / "data")
    (folder / "base").symlink_to(FIXTURES / "model")
    shutil.copy(TRAINER, folder)
    judge = 'hypotheses = "hypotheses.toml"' if hypotheses else ""
    if hypotheses:
        (folder / "hypotheses.toml").write_text(HYPOTHESES.format(points=2))
    plan = folder / "plan.toml"
    plan.write_text(
        PLAN.format(
            command=command.replace("\\", "\\\\").replace('"', '\\"'),
            timeout=timeout,
            arms="\n".join(arms),
            judge=judge,
            ablated=str(ablated).lower(),
        )
    )
    return plan


def write_whole_plan(folder: Path) -> Path:
    """Write a plan of two arms with everything: hypotheses, ablated contexts, checkpoints."""
    plan = write_plan(
        folder,
        arms=("mine = {}", "weak = { set = { scale = 0.001 } }"),
        command=COMMAND.replace("train.py", "slow_train.py"),
        hypotheses=True,
        ablated=True,
    )
    shutil.copy(TRAINER.with_name("slow_train.py"), folder)
    return plan


def write_data(folder: Path) -> None:
    """Write a few families of the bundled data: four source families to train, two to evaluate."""
    folder.mkdir()
    train = bundled_lines(
        "train.jsonl", ("commerce-01", "education-04", "media-03", "travel-02"), 3
    )
    holdout = bundled_lines("holdout.jsonl", ("supply_chain-03", "healthcare-01"), 6)
    (folder / "train.jsonl").write_bytes(b"".join(train))
    (folder / "holdout.jsonl").write_bytes(b"".join(holdout))


def bundled_lines(file: str, source_families: Iterable[str], families: int) -> list[bytes]:
    """Return lines of the bundled data: the first families of some source families."""
    kept: dict[str, set[str]] = {name: set() for name in source_families}
    lines = []
    for line in (FIXTURES / "data" / file).read_bytes().splitlines(keepends=True):
        record = json.loads(line)
        chosen = kept.get(record["source_family"])
        if chosen is None or (len(chosen) == families and record["family"] not in chosen):
            continue
        chosen.add(record["family"])
        lines.append(line)
    return lines


def started(plan: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start an experiment in a process of its own, and do not wait for it."""
    command = [sys.executable, "-P", "-m", "pact_cli", "experiment", str(plan), *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, at most ten minutes."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.1)
    message = "it never happened"
    raise AssertionError(message)
