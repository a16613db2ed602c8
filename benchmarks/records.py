"""The record of ratios: what each benchmark measured, by processor, commit and date.

    python benchmarks/records.py

A benchmark that writes its section (`--write`) also adds its ratios to `records.json`. It prints
the change since the last record of the same processor, and marks losses of more than 10%. Ratios
of times are kept, and no seconds: they are of two programs in one run, so a busy moment affects
both. This script lays out the last two records of every benchmark and processor.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

RECORDS: Final = Path(__file__).with_name("records.json")
LOSS: Final = 0.1
"""A ratio that gets worse by more than this share is marked."""

SHOWN: Final = 2
"""So many records of a benchmark and processor are in the table."""

LOWER_IS_BETTER: Final = "`pact-eval report` / its imports"
"""A ratio of two times of ours. In all others the first time is the peer's: higher is better."""


@dataclass(frozen=True)
class Record:
    """The ratios of one run of a benchmark.

    Attributes:
        benchmark: name of its section.
        processor: processor and number of cores.
        commit: short hash of the commit that was measured, with a `+` if files had changed.
        date: day, as YYYY-MM-DD.
        ratios: ratio by name.
    """

    benchmark: str
    processor: str
    commit: str
    date: str
    ratios: dict[str, float]


def read_records(path: Path = RECORDS) -> list[Record]:
    """Read the records, oldest first."""
    return [Record(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def add_record(benchmark: str, processor: str, ratios: Mapping[str, float], path: Path) -> str:
    """Add the ratios of a run that has just ended, and return what has changed.

    Args:
        benchmark: name of its section.
        processor: processor and number of cores.
        ratios: ratio by name.
        path: the file of records.
    """
    records = read_records(path)
    date = dt.datetime.now(dt.UTC).date().isoformat()
    rounded = {name: round(ratio, 3) for name, ratio in ratios.items()}
    record = Record(benchmark, processor, commit(path.parent), date, rounded)
    lines = [json.dumps(asdict(entry), ensure_ascii=False) for entry in [*records, record]]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    return "\n".join(changes(records, record))


def commit(folder: Path) -> str:
    """Return the short hash of the commit of a checkout, with a `+` if tracked files differ."""
    words = ["git", "-C", str(folder), "describe", "--always", "--exclude=*", "--dirty=+"]
    made = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 -- git
    return made.stdout.strip() or "unknown"


def changes(earlier: Sequence[Record], record: Record) -> Iterator[str]:
    """Compare each ratio of a record with the last one of the same processor.

    Args:
        earlier: records before it, oldest first.
        record: the new one.

    Yields:
        A line per ratio.
    """
    alike = [
        other
        for other in earlier
        if (other.benchmark, other.processor) == (record.benchmark, record.processor)
    ]
    for name, ratio in record.ratios.items():
        last = next((other for other in reversed(alike) if name in other.ratios), None)
        if last is None:
            yield f"{name}: {ratio:.2f}, the first record on {record.processor}"
            continue
        before = last.ratios[name]
        better = before / ratio if name == LOWER_IS_BETTER else ratio / before
        mark = f" LOSS of more than {LOSS:.0%}" if better < 1 - LOSS else ""
        change = f"{100 * (ratio / before - 1):+.0f}%"
        yield f"{name}: {ratio:.2f}, was {before:.2f} ({last.commit}, {last.date}): {change}{mark}"


def records_table(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of a table: the last records of every ratio by processor."""
    processors = sorted({record.processor for record in records})
    measured: dict[tuple[str, str], dict[str, list[str]]] = {}
    for record in records:
        for name, ratio in record.ratios.items():
            cells = measured.setdefault((record.benchmark, name), {})
            cells.setdefault(record.processor, []).append(f"{ratio:.2f} ({record.commit})")
    rows = [
        [*names, *(", ".join(cells.get(processor, [])[-SHOWN:]) for processor in processors)]
        for names, cells in sorted(measured.items())
    ]
    return ["benchmark", "ratio of times", *processors], rows


def main() -> None:
    """Lay out the table."""
    from common import chosen_options, markdown_table, parser, publish

    chosen = chosen_options(parser(__doc__, blocks=None))
    text = (
        f"In brackets: the commit. Lower is better for {LOWER_IS_BETTER}.\n\n"
        f"{markdown_table(*records_table(read_records()))}\n\n`python benchmarks/records.py`"
    )
    publish("records", text, chosen.write)


if __name__ == "__main__":
    main()
