"""The golden record: what every command says and writes, before and after a change.

    make golden                      compare everything with the record; ends with 1 if it differs
    make golden-accept               write the new record, and print what has changed
    PYTHONPATH=tests python -m golden [--accept] [--all] [--jobs N] [CASE ...]

There is one file per case in `record/`, and the stored inputs are in `inputs/`. Accept a change
together with the change that made it, and say in its message why each group of differences is
right. To add a case, add it to `cases.toml`, with a builder in `inputs.py` if it needs new files;
delete its file in `inputs/` to make them anew. If exit codes differ, the output is not compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from golden.cases import every_case
from golden.compare import Difference, shown
from golden.record import Case
from golden.store import RECORD, compared, write_record


def main() -> None:
    """Compare the record with what the commands say now, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names of cases; default: all")
    parser.add_argument("--accept", action="store_true", help="write the new record")
    parser.add_argument("--all", action="store_true", help="show every place of every difference")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    cases = [case for case in every_case() if case.name in options.cases or not options.cases]
    if unknown := {*options.cases} - {case.name for case in cases}:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    if options.accept:
        from golden.inputs import store

        for case in cases:
            store(case)
    found: list[Difference] = []
    for case, (of_case, record) in zip(cases, _all_compared(cases, options.jobs), strict=True):
        found += of_case
        crashes = [words for words, kept in record.items() if '"crash": "' in json.dumps(kept)]
        for words in crashes:
            sys.stdout.write(f"{case.name}: {words}: crashed\n")
        if options.accept and of_case and not crashes:
            write_record(case.name, record)
    if not options.cases:
        found += _left_over(cases, remove=options.accept)
    for line in shown(found, everything=options.all):
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{len(cases)} cases, {sum(len(case.commands) for case in cases)} commands\n")
    sys.exit(bool(found) and not options.accept)


def _all_compared(
    cases: Sequence[Case], jobs: int
) -> Iterator[tuple[list[Difference], dict[str, Any]]]:
    if jobs == 1:
        yield from map(compared, cases)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(compared, cases)


def _left_over(cases: Sequence[Case], *, remove: bool) -> Iterator[Difference]:
    names = {f"{case.name}.json.xz" for case in cases}
    for path in sorted(RECORD.glob("*.xz")):
        if path.name not in names:
            yield Difference(path.name, "", "", "", "recorded", "no such case")
            if remove:
                path.unlink()


if __name__ == "__main__":
    main()
