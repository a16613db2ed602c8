"""Do the tests of a package notice its mutants? `make mutants PACKAGE=metrics`.

cosmic-ray makes all mutants of the package. A seeded sample of them, at most one of each place, is
tried in a copy of the tree, by the settings in `cosmic-ray.toml`: it meets the tests that reach its
line, by coverage.py. A mutant that survives is printed, unless `equivalent.toml` says why nobody
could notice it.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from cosmic_ray.commands import init
from cosmic_ray.config import load_config
from cosmic_ray.modules import find_modules
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import use_db
from coverage import CoverageData

HERE = Path(__file__).parent
TIMES_UNCHANGED = 5


def sample(items: list[Any], settings: dict[str, str], size: int, seed: int) -> list[Any]:
    """Draw mutants: places first, then one operator for each place."""
    draw = random.Random(seed)
    places: dict[tuple[str, tuple[int, int]], list[Any]] = {}
    for item in items:
        (mutation,) = item.mutations
        line = mutation.module_path.read_text("utf-8").splitlines()[mutation.start_pos[0] - 1]
        if not re.fullmatch(
            settings["without-operators"], mutation.operator_name
        ) and not re.search(settings["without-lines"], line):
            places.setdefault((str(mutation.module_path), mutation.start_pos), []).append(item)
    drawn = draw.sample(sorted(places), min(size, len(places)))
    return [draw.choice(sorted(places[place], key=_operator)) for place in drawn]


def _operator(item: Any) -> tuple[str, int]:
    return item.mutations[0].operator_name, item.mutations[0].occurrence


def changed_lines(diff: str) -> tuple[str, ...]:
    """Return the lines before and after a change, without indentation."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    return tuple(
        " ".join(" ".join(line[1:] for line in lines if line.startswith(sign)).split())
        for sign in "-+"
    )


def tests_of(mutation: Any, reached: CoverageData) -> list[str] | None:
    """Return the tests that reach the lines of a mutation in a function; None for other lines."""
    first, last = mutation.start_pos[0], mutation.end_pos[0]
    tree = ast.parse(mutation.module_path.read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    if not any(f.body[0].lineno <= first <= (f.end_lineno or 0) for f in functions):
        return None  # it runs when the module is imported, whichever test does that
    contexts = reached.contexts_by_lineno(str(mutation.module_path.resolve()))
    tests = {context for line in range(first, last + 1) for context in contexts.get(line, ())}
    return sorted({test.partition("|")[0] for test in tests} - {""})


def main() -> None:
    settings = tomllib.loads((HERE / "cosmic-ray.toml").read_text("utf-8"))
    parser = argparse.ArgumentParser()
    parser.add_argument("package", choices=settings["tests"])
    parser.add_argument("--size", type=int, default=55)
    parser.add_argument("--seed", type=int, default=36)
    options = parser.parse_args()
    known = tomllib.loads((HERE / "equivalent.toml").read_text("utf-8"))["mutant"]
    equivalent = {(each["path"], each["before"], each["after"]) for each in known}
    with tempfile.TemporaryDirectory() as folder:
        for name in subprocess.check_output(["git", "ls-files"], text=True).splitlines():
            if Path(name).is_file():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(name, Path(folder) / name)
        os.chdir(folder)
        parents = (".", "cli", "reports", "fixtures")
        os.environ["PYTHONPATH"] = os.pathsep.join(f"{folder}/{name}" for name in parents)
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # or a mutant of the same second may be missed
        config = load_config(str(HERE / "cosmic-ray.toml"))
        package, *_ = folders = settings["tests"][options.package]
        start = time.monotonic()
        measured = f"{config.test_command} --cov={package} --cov-context=test --cov-report="
        subprocess.run([*shlex.split(measured), *folders], check=True)
        # The machine may be busier later: a slow test is not a dead mutant.
        timeout = max(config.timeout, TIMES_UNCHANGED * (time.monotonic() - start))
        reached = CoverageData(".coverage")
        reached.read()
        outcomes: Counter[str] = Counter()
        with use_db(f"{folder}/mutants.sqlite") as database:
            init(find_modules([Path(package)]), database, {})
            drawn = sample(list(database.work_items), settings["draw"], options.size, options.seed)
        for item in drawn:
            (mutation,) = item.mutations
            tests = tests_of(mutation, reached)
            Path("tests.txt").write_text("\n".join(folders if tests is None else tests), "utf-8")
            command = "true" if tests == [] else f"{config.test_command} @tests.txt"
            result = mutate_and_test(item.mutations, command, timeout)
            before, after = changed_lines(result.diff or "")
            outcome = str(result.test_outcome.value)
            if (mutation.module_path.as_posix(), before, after) in equivalent:
                outcome = "equivalent"
            elif outcome == "survived":
                place = f"{mutation.module_path}:{mutation.start_pos[0]}"
                sys.stdout.write(f"{place}\n    - {before}\n    + {after}\n")
            outcomes[outcome] += 1
    counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
    sys.stdout.write(f"{options.package}: {counts}\n")


if __name__ == "__main__":
    main()
