"""Every benchmark runs at its smallest size, and names the processor beside its ratios.

A new script in `benchmarks/` is tested without further changes: it needs `--smallest`. The scripts
run in processes forked from one that has imported the large libraries.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from messages import assert_says

pytestmark = [pytest.mark.slow, pytest.mark.posix]

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.py"))}
WORKER = "vllm_worker.py"  # started by shapes.py, in a Python with vLLM
SCRIPTS = [name for name, text in TEXTS.items() if "__main__" in text and name != WORKER]
# Simulations, comparisons of runs, and the table of the records measure no times.
UNTIMED = re.compile(r"claim_rates|coverage\w*|known_orders|plans|records|trained_or_removed")
LARGE = ("torch", "transformers.models.qwen3.modeling_qwen3", "peft", "torchmetrics")

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([*LARGE])


def run(name: str, arguments: list[str], output: Path) -> None:
    """Run a benchmark in this process, with its output in a file."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(file, stream)
    sys.argv = [str(FOLDER / name), *arguments]
    sys.path.insert(0, str(FOLDER))
    runpy.run_path(sys.argv[0], run_name="__main__")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_runs_at_its_smallest_size(name: str, tmp_path: Path) -> None:
    arguments = ["--smallest"]
    if name == "known_orders.py":
        arguments += ["--out", str(tmp_path / "models")]
    output = tmp_path / "output"
    process = FORKS.Process(target=run, args=(name, arguments, output))
    process.start()
    process.join(300)
    process.kill()
    text = output.read_text(encoding="utf-8")
    assert process.exitcode == 0, text
    assert "Traceback" not in text
    if name in ("scoring.py", "shapes.py"):
        assert find_spec("lm_eval") or "not measured" in text
    if not UNTIMED.fullmatch(name.removesuffix(".py")):
        processor = re.search(r".+, \d+ cores, (.+)", text)
        assert processor, text
        assert re.fullmatch(r"\w+, \w+ \d+\.\d+\.\d+.*", processor[1]), text


def test_a_peer_that_is_not_installed_is_named() -> None:
    command = [sys.executable, str(FOLDER / WORKER), "folder"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert_says(done.stderr, "expected", "Python with vLLM")


def test_modules_without_a_main_are_parts_of_benchmarks() -> None:
    modules = {name.removesuffix(".py") for name in TEXTS if name not in (*SCRIPTS, WORKER)}
    imported = re.findall(r"^from (\w+) import", "\n".join(TEXTS.values()), re.MULTILINE)
    assert modules <= {*imported}


def test_make_bench_names_benchmarks() -> None:
    makefile = (FOLDER.parent / "Makefile").read_text(encoding="utf-8")
    assert {*re.findall(r"benchmarks/(\w+\.py)", makefile)} <= {*SCRIPTS}
