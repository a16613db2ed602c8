"""What tools say of seven logs whose truth is planted.

    PACT_PEERS_PYTHON=peers/bin/python python benchmarks/peers.py [--seed 0] [--write FILE.md]

`peers.md` next to this file has the last table, and `peers.toml` how each tool is asked and what
counts as its verdict. `PACT_PEERS_PYTHON` names a Python whose folder has the commands of the
peers; SafeDecide runs in this Python. A peer that is not installed is named as not measured.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from common import NOT_MEASURED, chosen_options, markdown_table, parser, publish
from planted_logs import LOGS, write_log

PYTHON: Final = os.environ.get("PACT_PEERS_PYTHON", "")
HERE: Final = ("pact-eval", "safedecide")
SEES, SILENT, FALSE = "**sees it**", "*silent*", "**FALSE**"
CHECKS: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TRUTHS: Final[Mapping[str, tuple[str, bool]]] = {
    "calibrated": ("calibration", False),
    "over-confident": ("calibration", True),
    "better by 5 points": ("comparison", True),
    "the same in families of four copies": ("comparison", False),
    "order bias": ("order", True),
    "copies of training items": ("copies", True),
    "a swapped model": ("swap", True),
}
"""By log, the kind of check, and whether there is something to find. In families of four copies
there is not: of the 24 families that differ, 16 are better and 8 worse (sign test, p = 0.15)."""
OWN: Final = {
    name: [sys.executable, "-c", f"from pact_cli.start import {function}; {function}()"]
    for name, function in (("pact-eval", "pact_eval"), ("pact-audit", "pact_audit"))
} | {"python": [sys.executable]}
"""Programs that run in this Python; those of the peers are next to `PYTHON`."""


def version_of(tool: str) -> str | None:
    """Return the version of a tool, or None if it is not installed."""
    python = sys.executable if tool in HERE else PYTHON
    code = f"from importlib.metadata import version; print(version({tool!r}))"
    if not python:
        return None
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)  # noqa: S603
    return done.stdout.strip() or None


def printed(command: str, folder: Path) -> str:
    """Run a command in a folder, and return what it prints, with white space as single spaces."""
    program, *arguments = shlex.split(command)
    environment = {**os.environ, "COLUMNS": "300", "NO_COLOR": "1"}
    if program not in OWN:
        environment.pop("PYTHONPATH", None)
    start = OWN.get(program) or [str(Path(PYTHON).parent / program)]
    done = subprocess.run(  # noqa: S603 -- commands of peers.toml
        [*start, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return " ".join((done.stdout + done.stderr).split())


def rounded(text: str) -> str:
    """Return a number with two digits, and other text as it is."""
    if not re.fullmatch(r"-?\d*\.\d+(e-\d+)?", text):
        return text
    return f"{float(text):.2g}" if abs(float(text)) < 0.1 else f"{float(text):.2f}"


def asked(check: Mapping[str, Any], folder: Path, truth: bool) -> tuple[str, str]:
    """Run a check, and return what the tool says, and the verdict on that.

    Raises:
        SystemExit: the tool prints something else than expected, as a new version may.
    """
    output = " ".join(printed(command, folder) for command in check["run"])
    found = re.search(check["cut"].replace("#", r"(-?[\d.]+(?:e-\d+)?)"), output)
    if found is None:
        message = f"{check['run'][-1]}: no {check['cut']} in: {output}"
        raise SystemExit(message)
    quote = check["quote"].format(*map(rounded, found.groups()))
    finds: bool | None = None
    if "p" in check:
        finds = float(found[check["p"] + 1]) < 0.05
    elif "says" in check:
        finds = check["says"] in output
    if finds is None or (not finds and check.get("open")):
        return quote, SILENT
    return quote, SEES if finds == truth else FALSE


def draw(name: str, tools: Sequence[str], seed: int, items: int) -> dict[str, tuple[str, str]]:
    """Draw a log, and return what tools say of it, and the verdicts."""
    kind, truth = TRUTHS[name]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        write_log(Path(place), LOGS[name](random.Random(seed), items))
        return {
            tool: asked(CHECKS[tool][kind], Path(place), truth)
            for tool in tools
            if kind in CHECKS[tool]
        }


def cell(said: Sequence[tuple[str, str]]) -> str:
    """Show what was said of the first draw, and how often which verdict holds."""
    counts = Counter(verdict for _, verdict in said)
    verdicts = ", ".join(
        verdict if len(counts) == 1 else f"{verdict} {count}" for verdict, count in counts.items()
    )
    return f"{said[0][0]}: {verdicts}" if said else SILENT


def main() -> None:
    """Print the table."""
    made = parser(__doc__, blocks=None)
    made.add_argument("--draws", type=int, default=1, help="of each log")
    made.add_argument("--items", type=int, default=640, help="of a log; a multiple of 160")
    made.add_argument("--seed", type=int, default=0, help="of the first draw")
    options = chosen_options(made, draws=1, items=160)
    known = {tool: version_of(tool) for tool in CHECKS}
    tools = [tool for tool in CHECKS if known[tool]]
    rows = []
    for name in TRUTHS:
        seeds = range(options.seed, options.seed + options.draws)
        draws = [draw(name, tools, seed, options.items) for seed in seeds]
        cells = {tool: cell([each[tool] for each in draws if tool in each]) for tool in tools}
        rows.append([name, *(cells.get(tool, NOT_MEASURED) for tool in CHECKS)])
        sys.stderr.write(f"{name}\n")
    heads = ["planted", *(f"{tool} {known[tool] or NOT_MEASURED}" for tool in CHECKS)]
    table = markdown_table(heads, rows)
    publish("peers", f"Draws: {options.draws}, of {options.items} items.\n\n{table}", options.write)


if __name__ == "__main__":
    main()
