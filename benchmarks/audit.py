"""Time and memory of `pact-audit data`, check by check, on many records.

    python benchmarks/audit.py                   300,000 generated records, a tenth for evaluation
    python benchmarks/audit.py --records 30000 100000

The records come from the generator of the fixtures (six pairs per source family). Each size is
audited with one core and with all cores, in a process of its own, and the results must be equal.
CPU times include the processes that an audit starts. The peak is the resident memory of the main
process, libraries included. That of the shortcuts has about 0.9 GB, each other one 0.3 GB. With
several cores, the time of the shortcuts is what is left of it when the other checks are done.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import (
    chosen_options,
    machine,
    markdown_table,
    parser,
    peak_memory,
    publish,
    versions,
)

from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.data.processes import usable_cores
from pact_eval.progress import Step, watched
from pact_fixtures.generator.dataset import generate_base_records
from pact_fixtures.generator.source_families import FULL

PAIRS_A_SOURCE_FAMILY = 6
STEPS = ("reading", "families", "certificates", "separation", "shortcuts")
HEAD = ("records", "cores", *(f"{name}, s" for name in STEPS), "all, s", "CPU s", "peak, MB")


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
    """Audit datasets of each size with one core and with all, and publish the table."""
    options = parser(__doc__, blocks=None)
    options.add_argument("--records", type=int, nargs="+", default=[300_000])
    options.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = chosen_options(options, records=[240])
    if arguments.folder:
        sys.stdout.write(json.dumps(measured(Path(arguments.folder))))
        return
    rows = []
    for n_records in arguments.records:
        with tempfile.TemporaryDirectory() as folder:
            write_dataset(Path(folder), n_records)
            measurements = [in_a_process(folder, cores) for cores in ({0}, None)]
        if measurements[0]["results"] != measurements[1]["results"]:
            raise SystemExit("the results depend on the number of cores")
        rows += [row_of(n_records, measurement) for measurement in measurements]
    packages = versions("numpy", "scipy", "polars", "joblib")
    load = f"load before the last run {os.getloadavg()[0]:.1f}"
    text = f"{machine()}; {packages}. One run each; {load}.\n\n{markdown_table(HEAD, rows)}"
    publish("audit", f"{text}\n\n`python benchmarks/audit.py`", arguments.write)


def in_a_process(folder: str, cores: set[int] | None) -> dict[str, Any]:
    """Audit a dataset in a process that may use some cores, or all; return what it measured."""

    def limit() -> None:
        if cores is not None:
            os.sched_setaffinity(0, cores)

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, __file__, "--folder", folder]
    made = subprocess.run(command, check=True, capture_output=True, preexec_fn=limit)  # noqa: S603 -- this script
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    measurement: dict[str, Any] = json.loads(made.stdout)
    return measurement | {"cpu": cpu}


def measured(folder: Path) -> dict[str, Any]:
    """Audit a dataset; return seconds by step, the peak in MB and a hash of the results."""
    times = Times()
    with watched(times):
        audit = audit_data(DatasetSource.of_folder(folder), DataAuditSettings())
    return {
        "cores": usable_cores(),
        "seconds": times.seconds,
        "peak": peak_memory(),
        "results": hashlib.sha256(repr((audit.facts, audit.checks)).encode()).hexdigest(),
    }


def row_of(n_records: int, measurement: dict[str, Any]) -> list[str]:
    """Lay out a row of the table."""
    seconds = [measurement["seconds"].get(name, 0.0) for name in (*STEPS, "Auditing")]
    numbers = [*seconds, measurement["cpu"], measurement["peak"]]
    return [f"{n_records:,}", str(measurement["cores"]), *(f"{number:,.0f}" for number in numbers)]


if __name__ == "__main__":
    main()
