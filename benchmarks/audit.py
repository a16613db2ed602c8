"""Time and memory of `pact-audit data`, check by check, on many records.

    python benchmarks/audit.py                   300,000 generated records, a tenth for evaluation
    python benchmarks/audit.py --records 30000

The records come from the generator of the fixtures (six pairs per source family). Time is wall time
of one run. The peak is the resident memory of the process, libraries included.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import resource
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from pact_eval.audit import DataAuditSettings, DatasetSource, audit_data
from pact_eval.progress import Step, watched
from pact_fixtures.generator import FULL, generate_base_records

PAIRS_A_SOURCE_FAMILY = 6


def print_line(line: str) -> None:
    """Write one line of the table."""
    sys.stdout.write(f"{line}\n")


def write_dataset(folder: Path, n_records: int) -> None:
    """Write train.jsonl and eval.jsonl; no source family is in both."""
    family = 2 * PAIRS_A_SOURCE_FAMILY
    n_train = int(0.9 * n_records) // family * family
    records = itertools.islice(generate_base_records(5, FULL), n_records)
    with (folder / "train.jsonl").open("w") as train, (folder / "eval.jsonl").open("w") as held:
        for number, record in enumerate(records):
            split, file = ("train", train) if number < n_train else ("validation", held)
            file.write(json.dumps(record | {"split": split}, ensure_ascii=False) + "\n")


class Times:
    """Observes an audit: seconds by check, and of all of it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._started: dict[int, tuple[str, float]] = {}

    def started(self, step: Step, depth: int) -> None:
        """Note the time."""
        self._started[depth] = (step.name, time.perf_counter())

    def ended(self, depth: int, *, failed: bool) -> None:
        """Note the time that it took."""
        del failed
        if depth <= 1:
            name, start = self._started[depth]
            self.seconds[name] = time.perf_counter() - start

    def wrote(self, path: Path) -> None:
        """Ignore files."""


def main() -> None:
    """Make the dataset, audit it, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=300_000)
    n_records = parser.parse_args().records
    print_line(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print_line(", ".join(f"{name} {version(name)}" for name in ("numpy", "polars", "scikit-learn")))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_dataset(folder, n_records)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print_line(f"{n_records:,} records, {size / 1e6:,.0f} MB")
        times = Times()
        with watched(times):
            audit = audit_data(DatasetSource.of_folder(folder), DataAuditSettings())
    for name, seconds in times.seconds.items():
        print_line(f"{name:<13}{seconds:8.1f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mega = peak / 1e6 if sys.platform == "darwin" else peak / 1e3
    print_line(f"{'peak':<13}{mega:8,.0f} MB")
    print_line(
        str({code: n for check in audit.checks for code, n in check.counts.items()} or "no finding")
    )


if __name__ == "__main__":
    main()
