"""Mutation tests by package: `make mutants PACKAGE=metrics`.

    PYTHONPATH=tests .venv/bin/python -m mutants metrics stats --size 55 --seed 36
    PYTHONPATH=tests .venv/bin/python -m mutants metrics --again   # only those that survived before

Draws a seeded sample of mutants of each package, and runs each of them in a copy of the tree. It
runs only the fast tests of the package itself that run the changed line: coverage.py says which. A
mutant that these do not notice has survived, unless `equivalent.toml` says why nobody could.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# As tests/conftest.py does, before anything imports numpy: mutants run in forks of this process.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}

from mutants.drawing import Mutant, drawn
from mutants.reach import tests_of
from mutants.trial import TrialError, copied, outcome, reached

ROOT: Final = Path(__file__).resolve().parents[2]
EQUIVALENT: Final = Path(__file__).with_name("equivalent.toml")
STATE: Final = ROOT / "runs" / "mutants"
PACKAGES: Final = {
    "metrics": ("pact_eval/metrics", "tests/metrics"),
    "stats": ("pact_eval/stats", "tests/stats"),
    "evaluation": ("pact_eval/evaluation", "tests/evaluation", "tests/conclusions"),
    "thresholds": ("pact_eval/thresholds", "tests/thresholds"),
    "calibration": ("pact_eval/calibration", "tests/calibration"),
    "prompts": ("pact_eval/prompts", "tests/prompts"),
    "audit": ("pact_eval/audit", "tests/audit"),
    "pact_losses": ("pact_losses", "tests/losses"),
}
"""The folder of each package, which also has doctests, and the folders of its tests."""

_Key = tuple[str, str, str]


@dataclass
class Results:
    """The mutants of one package by what became of them."""

    killed: list[Mutant] = field(default_factory=list)
    survived: list[Mutant] = field(default_factory=list)
    equivalent: list[Mutant] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, vars(self).values()))

    def row(self, package: str) -> str:
        changing = len(self.killed) + len(self.survived)
        counts = (len(self), len(self.killed), len(self.equivalent), len(self.survived))
        cells = (f"`{package}`", *counts, f"{len(self.killed) / max(changing, 1):.0%}")
        return f"| {' | '.join(map(str, cells))} |"

    def as_json(self) -> str:
        keys = {name: [_key(mutant) for mutant in mutants] for name, mutants in vars(self).items()}
        return json.dumps(keys, indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="*", help=f"of {', '.join(PACKAGES)}; all by default")
    parser.add_argument("--size", type=int, default=55, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=36)
    parser.add_argument("--again", action="store_true", help="only those that survived before")
    arguments = parser.parse_args()
    rows = ["| package | mutants | killed | equivalent | survived | killed of those that change |"]
    rows += ["|---|---|---|---|---|---|"]
    for package in arguments.packages or PACKAGES:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            copy = copied(ROOT, Path(folder) / "repository")
            try:
                results = _tried(copy, package, arguments)
            except TrialError as error:
                sys.exit(str(error))
        rows.append(results.row(package))
    _say("\n".join(rows))


def _tried(copy: Path, package: str, arguments: argparse.Namespace) -> Results:
    folder, *tests = PACKAGES[package]
    state = STATE / f"{package}-{arguments.seed}.json"
    before = json.loads(state.read_text("utf-8")) if arguments.again else {"killed": []}
    killed_before = {tuple(key) for key in before["killed"]}
    results, equivalent = Results(), _equivalent(folder)
    reach = reached(copy, folder, tuple(tests))
    for mutant in drawn(copy, folder, arguments.seed):
        if len(results) == arguments.size:
            break
        if _key(mutant) in equivalent:
            results.equivalent.append(mutant)
        elif _key(mutant) in killed_before:
            results.killed.append(mutant)
        else:
            _try(copy, mutant, tests_of(reach.get(str(copy / mutant.path), {}), mutant), results)
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text(results.as_json(), "utf-8")
    return results


def _try(copy: Path, mutant: Mutant, tests: list[str], results: Results) -> None:
    started = time.monotonic()
    ended = outcome(copy, mutant, tests)
    if ended == "survived":  # what a test caches, another one in its file may look at
        ended = outcome(copy, mutant, sorted({test.partition("::")[0] for test in tests}))
    if ended == "not importable":
        return
    (results.survived if ended == "survived" else results.killed).append(mutant)
    _say(f"{ended}: {len(tests)} tests, {time.monotonic() - started:.1f} s\n  {mutant}")


def _equivalent(folder: str) -> set[_Key]:
    """Return the mutants of a package that change nothing; say which entries are stale."""
    entries = tomllib.loads(EQUIVALENT.read_text("utf-8"))["mutant"]
    keys = {(entry["path"], entry["before"], entry["after"]) for entry in entries}
    keys = {key for key in keys if key[0].startswith(f"{folder}/")}
    for path, before, _ in sorted(keys):
        if not (ROOT / path).exists() or before not in " ".join((ROOT / path).read_text().split()):
            _say(f"{EQUIVALENT.name}: {path} no longer has the line {before}")
    return keys


def _key(mutant: Mutant) -> _Key:
    return mutant.path, mutant.before, mutant.after


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
