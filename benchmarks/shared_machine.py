"""Scoring on a shared machine: what `OMP_WAIT_POLICY=PASSIVE` costs, and what it gains.

    python benchmarks/shared_machine.py [--blocks 3] [--records 324] [--write FILE]

`pact-eval score` sets the variable unless the user has set it. Here it scores the demo's first
adapter with it and with the default of the OpenMP runtime, whose idle threads spin: alone, twice at
once, and next to one process per two cores that is busy without OpenMP. Each turn starts new
processes and ends when all scorings have ended; start-up and imports count. The benchmark fails if
the two settings give different logits.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import polars as pl
from common import Contest, machine, markdown_table, parser, publish, versions

import pact_fixtures

FIXTURES = Path(pact_fixtures.__file__).parent
DEFAULT, PASSIVE = "default", "PASSIVE"

# Busy until it is killed, or until the benchmark ends.
BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(1_000_000))
"""

# The package sets the variable when it is imported, and torch reads it later. In between, the
# default is restored.
SCORE = """
import os, runpy, sys
import pact_eval.scoring
if sys.argv.pop(1) == "default":
    del os.environ["OMP_WAIT_POLICY"]
runpy.run_module("pact_cli", run_name="__main__", alter_sys=True)
"""

ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
}


def score(folder: Path, numbers: Iterator[int], records: int, policy: str, scorings: int) -> None:
    """Start scorings at once, each into a new run folder, and wait for all of them."""
    data = FIXTURES / "data" / "holdout.jsonl"
    command = [sys.executable, "-c", SCORE, policy, "score", str(FIXTURES / "adapters" / "pact")]
    command += ["--data", str(data), "--k", "4", "--limit", str(records), "--json"]
    started = [
        subprocess.Popen(  # noqa: S603 -- our own command
            [*command, "--out", str(folder / f"{policy}-{next(numbers)}")],
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(scorings)
    ]
    codes = [process.wait() for process in started]
    if any(codes):
        message = f"scoring failed: {' '.join(command)}"
        raise SystemExit(message)


@contextmanager
def busy_processes() -> Iterator[None]:
    """Keep half of the cores busy, at least one, without OpenMP."""
    processes = [
        subprocess.Popen([sys.executable, "-c", BUSY])  # noqa: S603 -- our own program
        for _ in range(max(1, len(os.sched_getaffinity(0)) // 2))
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def check_same_logits(folder: Path) -> None:
    """Raise unless all runs have the same logits."""
    runs = [pl.read_parquet(path) for path in sorted(folder.glob("*/predictions.parquet"))]
    if any(not run.equals(runs[0]) for run in runs):
        message = "expected the same logits from every scoring, got different ones"
        raise SystemExit(message)


def situations(folder: Path, records: int) -> dict[str, Callable[[str], None]]:
    """Name the situations, each with the work of one turn under a policy."""
    numbers = count()

    def alone(policy: str) -> None:
        score(folder, numbers, records, policy, 1)

    def two_at_once(policy: str) -> None:
        score(folder, numbers, records, policy, 2)

    def next_to_busy(policy: str) -> None:
        with busy_processes():
            alone(policy)

    return {
        "one scoring, quiet machine": alone,
        "two scorings at once": two_at_once,
        "one scoring next to a busy process": next_to_busy,
    }


def main() -> None:
    """Time both settings in three situations, and print the section."""
    options = parser(__doc__)
    options.set_defaults(blocks=3)
    options.add_argument("--records", type=int, default=324, help="records that a run scores")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        works = situations(Path(temporary), chosen.records)
        contest = Contest(
            {
                f"{name}: {policy}": partial(work, policy)
                for name, work in works.items()
                for policy in (DEFAULT, PASSIVE)
            }
        )
        contest.run(chosen.blocks)
        check_same_logits(Path(temporary))
    rows = []
    for name in works:
        default, passive = f"{name}: {DEFAULT}", f"{name}: {PASSIVE}"
        seconds = [f"{contest.seconds(default):.1f}", f"{contest.seconds(passive):.1f}"]
        rows.append([name, *seconds, f"{contest.ratio(default, passive):.2f}"])
    head = ["measured", "default, s", "PASSIVE, s", "default / PASSIVE"]
    text = (
        f"{machine()}; {versions('torch')}; {chosen.records} records, K = 4; medians of "
        f"{chosen.blocks} interleaved blocks, new processes each.\n\n"
        f"{markdown_table(head, rows)}\n\n"
        "All scorings gave the same logits. Times include start-up and imports.\n\n"
        "`python benchmarks/shared_machine.py`"
    )
    publish("shared-machine", text, chosen.write)


if __name__ == "__main__":
    main()
