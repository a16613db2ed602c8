"""The page "The paper, item by item": what does each item here, and whether that works.

    PYTHONPATH=tests python docs/paper_items.py [FILE]    # runs every check, and writes the page

`paper_items.toml` has a row per item: its place in the paper, the item, and checks. A check is an
expression of Python with its value, a command of ours with words of its output, or tests. What we
lack is a check too, with its reason: the state of an item is from what ran, and never typed.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from click.testing import CliRunner
from made_experiment import write_experiment
from published import SHARED
from released_results import write_result_folder
from reports.figures.figure_runs import simulated_folders

from pact_cli.audit.main import main as audit
from pact_cli.main import main as evaluation
from pact_fixtures.paper import HYPOTHESES

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "reference" / "paper.md"
ITEMS: Final = Path(__file__).with_suffix(".toml")
PROGRAMS: Final = {"pact-eval": evaluation, "pact-audit": audit}
HEAD: Final = ("", "in the paper", "item", "what runs, and its value", "state")


@dataclass(frozen=True)
class Check:
    """What runs: an expression, a command or tests; and the value or words that it must give."""

    text: str
    expected: str = ""

    @classmethod
    def parse(cls, text: str) -> Check:
        """Read `check` or `check => expected`."""
        check, _, expected = text.partition(" => ")
        return cls(check.strip(), expected.strip())

    @property
    def is_test(self) -> bool:
        """Whether it is a file of tests, or one test."""
        return self.text.startswith("tests/")

    def run(self, names: Mapping[str, Any], passed: Mapping[str, bool]) -> tuple[bool, str]:
        """Return whether it gives what it must, and the value."""
        if self.is_test:
            return passed[self.text], "passes" if passed[self.text] else "does not pass"
        if self.text.partition(" ")[0] in PROGRAMS:
            code, output = _run_command(self.text)
            word = re.fullmatch(r"exit (\d+): (.*)", self.expected)
            wanted, words = (int(word[1]), word[2]) if word else (0, self.expected)
            holds = code == wanted and words in output
            return holds, self.expected or "exit 0" if holds else f"exit {code}: {output[-300:]}"
        value = _value(self.text, names)
        return value == self.expected, value

    def shown(self, value: str) -> str:
        """Lay out the check with its value."""
        return f"`{self.text}`" if self.is_test else f"`{self.text}` → `{value}`"


@dataclass(frozen=True)
class Item:
    """An item of the paper, its checks, and what we lack of it."""

    place: str
    name: str
    checks: Sequence[Check]
    lack: Check | None = None
    reason: str = ""

    def row(self, names: Mapping[str, Any], passed: Mapping[str, bool]) -> tuple[str, str]:
        """Return the cell of what ran, and the state."""
        runs = [(check, *check.run(names, passed)) for check in self.checks]
        state = "works" if all(holds for _, holds, _ in runs) else "**does not work**"
        if self.lack is not None:
            runs.append((self.lack, *self.lack.run(names, passed)))
            if runs[-1][1] and state == "works":
                state = f"**{'partly' if self.checks else 'not'}**: {self.reason}"
        return "<br>".join(check.shown(value) for check, _, value in runs), state


def items() -> list[Item]:
    """Read the items: place | item | checks | what we lack | reason; checks are joined by &&."""
    read = []
    for line in tomllib.loads(ITEMS.read_text("utf-8"))["items"].strip().splitlines():
        place, name, checks, *lack = (cell.strip() for cell in line.split(" | "))
        parsed = [Check.parse(check) for check in checks.split(" && ") if check != "-"]
        read.append(Item(place, name, parsed, *([Check.parse(lack[0]), lack[1]] if lack else [])))
    return read


def _run_command(line: str) -> tuple[int, str]:
    program, *words = shlex.split(line)
    found = [sorted(map(str, Path().glob(word))) if "*" in word else [] for word in words]
    words = [name for word, names in zip(words, found, strict=True) for name in names or [word]]
    environment = {"COLUMNS": "200", "PACT_EVAL_CONFIG": ""}
    done = CliRunner().invoke(PROGRAMS[program], words, env=environment)
    return done.exit_code, " ".join(done.output.split())


def _value(expression: str, names: Mapping[str, Any]) -> str:
    """Return a value as text, with numbers of four decimals; of an error, its name."""
    try:
        return str(_rounded(eval(expression, dict(names))))  # noqa: S307 -- of a file of ours
    except Exception as error:  # noqa: BLE001 -- shown in place of the value
        return type(error).__name__


def _rounded(value: Any) -> Any:
    if hasattr(value, "tolist"):  # an array or a tensor
        return _rounded(value.tolist())
    if isinstance(value, float):
        return round(value, 4) + 0.0
    if isinstance(value, list | tuple):
        return type(value)(map(_rounded, value))
    return value


def run_tests(ids: Sequence[str]) -> dict[str, bool]:
    """Run tests, and return which pass: one of theirs has run, and none fails."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", *ids]
        done = subprocess.run(  # noqa: S603 -- our tests
            [sys.executable, *words], cwd=ROOT, check=False, capture_output=True, text=True
        )
        if done.returncode > 1:  # a test is not there, so none has run
            raise ValueError(done.stdout[-500:] + done.stderr[-500:])
        cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 -- written by pytest
    outcomes: dict[str, list[str]] = {name: [] for name in ids}
    for case in cases:
        file = str(case.get("classname")).replace(".", "/") + ".py"
        test = f"{file}::{str(case.get('name')).partition('[')[0]}"
        for name in {file, test} & outcomes.keys():
            outcomes[name].append(next((child.tag for child in case), "passed"))
    ran = {name: [each for each in tags if each != "skipped"] for name, tags in outcomes.items()}
    return {name: set(tags) == {"passed"} for name, tags in ran.items()}


def write_inputs(home: Path) -> None:
    """Write what the commands read: data, model, adapters, simulated runs, published numbers."""
    for name in ("data", "model", "adapters"):
        (home / name).symlink_to(ROOT / "fixtures" / "pact_fixtures" / name)
    (home / "hypotheses.toml").write_bytes(HYPOTHESES.read_bytes())
    (home / "miniature.toml").write_bytes(HYPOTHESES.with_name("miniature.toml").read_bytes())
    (home / "runs").mkdir()
    simulated_folders(home / "runs", arms=("pact", "ce_only"), families=40)
    if (SHARED / "published").is_dir():
        (home / "published").symlink_to(SHARED / "published")
    else:
        (home / "published").mkdir()
        write_experiment(home / "published")
    write_result_folder(home / "published", home / "results")


def rows(chosen: Sequence[Item]) -> Iterator[tuple[str, ...]]:
    """Run the checks, and yield the rows of the page."""
    every = [check for item in chosen for check in (*item.checks, item.lack) if check]
    passed = run_tests(sorted({check.text for check in every if check.is_test}))
    names: dict[str, Any] = {}
    exec(tomllib.loads(ITEMS.read_text("utf-8"))["names"], names)  # noqa: S102 -- imports of ours
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        write_inputs(Path(folder))
        for number, item in enumerate(chosen, 1):
            sys.stderr.write(f"{number}: {item.name}\n")
            yield str(number), item.place, item.name, *item.row(names, passed)


def page() -> str:
    """Return the page."""
    content = tomllib.loads(ITEMS.read_text("utf-8"))
    made = list(rows(items()))
    states = Counter(state.partition(":")[0].strip("*") for *_, state in made)
    work, in_part, lacking = (states.pop(name) for name in ("works", "partly", "not"))
    total = f"{work} work, {in_part} in part, {lacking} do not"
    total += "".join(f"; {count} {state} as they should" for state, count in states.items())
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in (HEAD, ["---"] * len(HEAD), *made))
    return (
        f"# The paper, item by item\n\n{content['intro'].strip()}\n\n"
        f"```python\n{content['names'].strip()}\n```\n\nOf {len(made)} items, {total}.\n\n{table}\n"
    )


if __name__ == "__main__":
    # Before torch is imported: idle threads must not spin. See pact_eval/scoring/__init__.py.
    os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"}
    file = Path(sys.argv[1]) if sys.argv[1:] else PAGE
    file.write_text(page(), encoding="utf-8")
