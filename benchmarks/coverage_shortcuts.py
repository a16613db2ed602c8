"""False positive rate of the check "shortcuts", by simulation.

    python benchmarks/coverage_shortcuts.py [--sets 200]

Data sets are made of the generator's records, twenty pairs per source family, with references drawn
at random: two different ones per pair, or one record per pair. No text tells them, so every finding
is false. The first share is that of probes whose 95% interval of the gain lies above 0,
whatever the size of the gain.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from common import chosen_options, markdown_table

from pact_eval.audit.findings import Collector
from pact_eval.audit.shortcuts import Shortcuts, check_shortcuts
from pact_eval.data.files import DataFile
from pact_eval.data.index import index_of_records
from pact_fixtures.generator.dataset import generate_dataset

Row = dict[str, Any]
Pair = tuple[Row, Row]

SOURCES: Final = (4, 6, 9, 18)
PAIRS: Final = 20


def pairs_by_source() -> dict[str, list[Pair]]:
    """Return pairs of the generator's records by source family."""
    dataset = generate_dataset("small", seed=17)
    rows: list[Row] = json.loads(json.dumps(dataset.train + dataset.holdout))
    by_source: dict[str, list[Pair]] = {}
    for pair in zip(rows[::2], rows[1::2], strict=True):
        by_source.setdefault(pair[0]["source_family"], []).append(pair)
    return by_source


def with_reference(row: Row, place: int) -> Row:
    """Return a record whose reference is the answer at a place."""
    question = row["input"]["questions"]["decision"]
    target: Any = place
    if question["type"] == "noul":
        target = bool(place)
    elif question["type"] == "choice":
        target = list(question["criteria"])[place]
    return row | {"reference": row["reference"] | {"target": target}}


def answers(row: Row) -> int:
    """Return the number of answers."""
    question = row["input"]["questions"]["decision"]
    return 2 if question["type"] == "noul" else len(question["criteria"])


def shuffled(
    by_source: dict[str, list[Pair]], rng: np.random.Generator, sources: int, *, paired: bool
) -> list[Row]:
    """Return records of some source families with references drawn at random."""
    rows: list[Row] = []
    for name in rng.choice(sorted(by_source), sources, replace=False):
        for pair in by_source[name][:PAIRS]:
            places = rng.permutation(answers(pair[0]))[:2]
            both = [with_reference(row, int(at)) for row, at in zip(pair, places, strict=True)]
            rows += both if paired else both[:1]
    return rows


def count(rows: Sequence[Row], folder: Path, seed: int) -> Counter[str]:
    """Return the findings of the check, and the intervals above 0."""
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    index = index_of_records([DataFile(path.name, "train", path)])
    result = check_shortcuts(index, Collector("shortcuts", 5), rng=np.random.default_rng(seed))
    counts: Counter[str] = Counter(result.counts)
    measured = result.measured
    assert isinstance(measured, Shortcuts)  # noqa: S101 -- for mypy
    counts["above"] = sum(probe.gain.low > 0 for probe in measured.probes[:2])
    return counts


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sets", type=int, default=200, help="data sets of each row")
    sets: int = chosen_options(arguments, sets=1).sets
    by_source = pairs_by_source()
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for paired in (True, False):
            for sources in SOURCES:
                total: Counter[str] = Counter()
                for seed in range(sets):
                    rng = np.random.default_rng([sources, paired, seed])
                    rows = shuffled(by_source, rng, sources, paired=paired)
                    total += count(rows, Path(folder), seed)
                errors = total["question-shortcut"] + total["ablated-shortcut"]
                shares = [
                    f"{100 * n / (2 * sets):.1f}"
                    for n in (total["above"], total["shortcut-suspected"], errors)
                ]
                table.append([str(sources), "pairs" if paired else "single records", *shares])
    columns = ["source families", "records", "interval above 0", "warnings", "errors"]
    sys.stdout.write(
        f"Shuffled references: no text tells them ({sets} data sets each, two probes of each; all "
        "numbers in % of probes). An interval above 0 should be found in at most 2.5%.\n\n"
        f"{markdown_table(columns, table)}\n"
    )


if __name__ == "__main__":
    main()
