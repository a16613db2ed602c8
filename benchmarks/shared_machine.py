"""Scoring on a shared machine: how long idle OpenMP threads should spin before they sleep.

    python benchmarks/shared_machine.py [--blocks 3] [--records 96] [--limit 60] [--write FILE]

`pact-eval score` lets them spin for a short time, or not at all if other processes are busy when it
starts, unless the user has decided. Here it scores the
demo's first adapter so, with threads that sleep at once, and with the default of the OpenMP
runtime, which spins a hundred times longer: alone, twice at once, and next to one process per two
cores that is busy without OpenMP. Each turn starts new processes, and takes as long as the slower
of its runs records in `run.json`: loading the model and scoring, without start-up and imports. A
turn is stopped after `--limit` seconds and counts as that long, so all turns on two slow cores take
about seven minutes. The benchmark fails if the settings give different logits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

import polars as pl
from common import (
    Contest,
    Timed,
    chosen_options,
    machine,
    markdown_table,
    parser,
    publish,
    versions,
)

import pact_fixtures

FIXTURES = Path(pact_fixtures.__file__).parent
DEFAULT, SLEEP, OURS = "default", "sleep", "ours"
ALONE = "one scoring, quiet machine"
TWO = "two scorings at once"
SITUATIONS = ("quiet", "two", "busy")

# Busy until it is killed, or until the benchmark ends.
BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(1_000_000))
"""

# The package sets the variables when it is imported, and torch reads them later. In between, they
# are changed.
SCORE = """
import os, runpy, sys
import pact_eval.scoring
setting = sys.argv.pop(1)
if setting != "ours":
    del os.environ["GOMP_SPINCOUNT"]
if setting == "default":
    del os.environ["OMP_WAIT_POLICY"]
runpy.run_module("pact_cli", run_name="__main__", alter_sys=True)
"""

ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
}


@dataclass(frozen=True)
class Turns:
    """Settings of turns.

    Attributes:
        folder: where the runs are written.
        records: records that a run scores.
        limit: seconds after which a turn is stopped.
    """

    folder: Path
    records: int
    limit: float
    numbers: Iterator[int] = field(default_factory=count)

    def score(self, setting: str, scorings: int) -> Timed:
        """Start scorings at once, wait for all of them, and return the time of the slowest."""
        data = FIXTURES / "data" / "holdout.jsonl"
        command = [sys.executable, "-c", SCORE, setting, "score", str(FIXTURES / "adapters/pact")]
        command += ["--data", str(data), "--k", "4", "--limit", str(self.records), "--json"]
        command += ["--attention", "fused"]  # all scorings shall have the same logits
        runs = [self.folder / f"{setting}-{next(self.numbers)}" for _ in range(scorings)]
        started = [
            subprocess.Popen(  # noqa: S603 -- our own command
                [*command, "--out", str(run)],
                env=ENVIRONMENT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for run in runs
        ]
        deadline = time.monotonic() + self.limit
        try:
            codes = [process.wait(max(0.0, deadline - time.monotonic())) for process in started]
        except subprocess.TimeoutExpired:
            return Timed(self.limit)
        finally:
            for process in started:
                process.kill()
                process.wait()
        if any(codes):
            message = f"scoring failed: {' '.join(command)}"
            raise SystemExit(message)
        return Timed(max(_wall_seconds(run) for run in runs))


def _wall_seconds(run: Path) -> float:
    return float(json.loads((run / "run.json").read_text())["wall_seconds"])


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


def situations(turns: Turns, names: Sequence[str]) -> dict[str, Callable[[str], Timed]]:
    """Return the work of one turn under a setting in each of some situations, by their titles."""

    def next_to_busy(setting: str) -> Timed:
        with busy_processes():
            return turns.score(setting, 1)

    works: dict[str, tuple[str, Callable[[str], Timed]]] = {
        "quiet": (ALONE, lambda setting: turns.score(setting, 1)),
        "two": (TWO, lambda setting: turns.score(setting, 2)),
        "busy": ("one scoring next to a busy process", next_to_busy),
    }
    return dict(works[name] for name in names)


def result(contest: Contest, name: str, limit: float) -> list[str]:
    """Return the row of a situation. Stopped turns bound the times and the ratio from below."""
    contestants = [f"{name}: {setting}" for setting in (DEFAULT, SLEEP, OURS)]
    seconds = [contest.seconds(contestant) for contestant in contestants]
    at_least = [">" if value >= limit else "" for value in seconds]
    shown = [f"{mark}{value:.1f}" for mark, value in zip(at_least, seconds, strict=True)]
    ratio = contest.ratio(contestants[0], contestants[-1])
    return [name, *shown, "" if at_least[-1] else f"{at_least[0]}{ratio:.2f}"]


def main() -> None:
    """Time the settings in three situations, and print the section."""
    options = parser(__doc__, blocks=3)
    options.add_argument("--records", type=int, default=96, help="records that a run scores")
    options.add_argument("--limit", type=float, default=60.0, help="seconds of a turn, at most")
    options.add_argument("--situations", choices=SITUATIONS, nargs="+", default=SITUATIONS)
    chosen = chosen_options(options, blocks=1, records=2, situations=["quiet"])
    with tempfile.TemporaryDirectory() as temporary:
        turns = Turns(Path(temporary), chosen.records, chosen.limit)
        works = situations(turns, chosen.situations)
        contest = Contest(
            {
                f"{name}: {setting}": partial(work, setting)
                for name, work in works.items()
                for setting in (DEFAULT, SLEEP, OURS)
            }
        )
        if chosen.blocks > 1:
            turns.score(OURS, 1)  # reads the files of the packages and of the model
        contest.run(chosen.blocks, warm_up=False)
        check_same_logits(Path(temporary))
    rows = [result(contest, name, chosen.limit) for name in works]
    head = ["measured", "default, s", "no spin, s", "ours, s", "default / ours"]
    text = (
        f"{machine()}; {versions('torch')}; {chosen.records} records, K = 4; medians of "
        f"{chosen.blocks} interleaved blocks, new processes each.\n\n"
        f"{markdown_table(head, rows)}\n\n"
        "All scorings gave the same logits. Times are of loading the model and scoring, without "
        f"start-up and imports; a turn is stopped after {chosen.limit:g} s and counts as that "
        "long.\n\n`python benchmarks/shared_machine.py`"
    )
    ratios = {}
    if {ALONE, TWO} <= {*works}:
        ratio = contest.ratio(f"{TWO}: {OURS}", f"{ALONE}: {OURS}")
        ratios = {"two scorings at once / one scoring": ratio}
    publish("shared-machine", text, chosen.write, ratios)


if __name__ == "__main__":
    main()
