"""Cost of the checks of a run: its hash, and the values of its rows, in CPU time of reading it.

    python benchmarks/seal.py [--items 1000000] [--views 1 4] [--blocks 5] [--write FILE]

The items are random (2 to 6 answers, families of two) and written as a complete run. Every turn
reads the run again: with no check, with the hash of the seal, and with the hash and the values.
The ratios are of CPU times, because the hash can run beside the rest.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

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
from random_runs import write_rows

from pact_eval.evaluation.items import read_items
from pact_eval.evaluation.resampled_groups import group_statistics, point_values
from pact_eval.runs import seal
from pact_eval.runs.folder import open_run, read_run
from pact_eval.runs.provenance import FORMAT_VERSION, write_provenance

GOAL = 1.10
VALUES = ("pact_eval.evaluation.items.check_values", "pact_eval.runs.predictions.check_values")


def make_run(folder: Path, items: int, views: int) -> Path:
    """Write a complete run with its seal."""
    folder.mkdir()
    path = write_rows(folder, items, views)
    frame = pl.read_parquet(path, columns=["id", "reference"])
    recorded = {"format_version": FORMAT_VERSION, "status": "complete", "settings": {"k": views}}
    write_provenance(folder, seal.sealed(recorded, seal.seal_of_rows(path, frame)))
    return folder


@contextmanager
def checks(*, sealed: bool, values: bool) -> Iterator[None]:
    """Make only these checks in the block; a process hashes a file once, so forget its hash."""
    seal._hashed.cache_clear()
    off = [] if values else [patch(name) for name in VALUES]
    off += [] if sealed else [patch("pact_eval.runs.folder.check_seal")]
    with ExitStack() as stack:
        for context in off:
            stack.enter_context(context)
        yield


def turn(read: Callable[[Path], object], run: Path, *, sealed: bool, values: bool) -> Timed:
    """Read a run once, and return the CPU time."""
    with checks(sealed=sealed, values=values):
        started = time.process_time()
        read(run)
        return Timed(time.process_time() - started)


def metrics_of(run: Path) -> None:
    """Read a run as the report of a large run does, up to its point metrics."""
    point_values(group_statistics(read_items(open_run(run).predictions_file, "single")))


WAYS = {"read_run": read_run, "read in slices, and point metrics": metrics_of}


def main() -> None:
    """Write the runs, time, and print the section."""
    options = parser(__doc__)
    options.add_argument("--items", type=int, default=1_000_000)
    options.add_argument("--views", type=int, nargs="+", default=[1, 4])
    arguments = chosen_options(options, blocks=1, items=1_000, views=[2])
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        for views in arguments.views:
            run = make_run(Path(temporary) / f"k{views}", arguments.items, views)
            size = (run / seal.PREDICTIONS).stat().st_size / 1e6
            for name, read in WAYS.items():
                contest = Contest(
                    {
                        "none": partial(turn, read, run, sealed=False, values=False),
                        "hash": partial(turn, read, run, sealed=True, values=False),
                        "all": partial(turn, read, run, sealed=True, values=True),
                    }
                )
                contest.run(arguments.blocks)
                ratios = [f"{contest.ratio(variant, 'none'):.3f}" for variant in ("hash", "all")]
                seconds = f"{contest.seconds('none'):.2f}"
                lines.append([f"{name}, K = {views} ({size:,.0f} MB)", seconds, *ratios])
    table = markdown_table(
        [
            "reading",
            "without checks, CPU s",
            "with the seal / without",
            "with seal and values / without",
        ],
        lines,
    )
    text = (
        f"{machine()}; {versions('polars', 'numpy')}; {arguments.items:,} items, medians of "
        f"{arguments.blocks} interleaved blocks. The goal for the seal is {GOAL:.2f}.\n\n"
        f"{table}\n\n"
        "`python benchmarks/seal.py`"
    )
    publish("seal", text, arguments.write)


if __name__ == "__main__":
    main()
