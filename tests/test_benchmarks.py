"""Every benchmark runs at its smallest size, and names the processor beside its ratios.

A new script in `benchmarks/` is tested without further changes: it needs `--smallest`. The scripts
run in processes forked from one that has imported the large libraries.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.posix]

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.py"))}
# One is started by shapes.py, in a Python with vLLM; the other counts the lines of this tree.
NO_BENCHMARKS = ("vllm_worker.py", "size.py")
SCRIPTS = [name for name, text in TEXTS.items() if "__main__" in text and name not in NO_BENCHMARKS]
# Simulations, what peers say, and the table of the records measure no times.
UNTIMED = re.compile(r"claim_rates|coverage_thresholds|peers|records")
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
    output = tmp_path / "output"
    process = FORKS.Process(target=run, args=(name, ["--smallest"], output))
    process.start()
    process.join(300)
    process.kill()
    text = output.read_text(encoding="utf-8")
    assert process.exitcode == 0, text
    assert "Traceback" not in text
    if name in ("scoring.py", "shapes.py", "real.py"):
        assert find_spec("lm_eval") or "not measured" in text
    if not UNTIMED.fullmatch(name.removesuffix(".py")):
        processor = re.search(r".+, \d+ cores, (.+)", text)
        assert processor, text
        assert re.fullmatch(r"\w+, \w+ \d+\.\d+\.\d+.*", processor[1]), text
