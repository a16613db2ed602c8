"""Start-up times of commands: `--help`, and a small report with the share of its imports.

    python benchmarks/startup.py [--blocks 7] [--write FILE]

Each turn is a new process. The imports of a report are measured in a process that only imports the
same modules. Both times include the start of the interpreter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from common import Contest, chosen_options, machine, markdown_table, parser, publish, versions
from random_runs import part

from pact_eval.runs.folder import RunWriter
from pact_eval.runs.rows import SCHEMA

ITEMS = 324
VIEWS = 4
HELP_GOAL, REPORT_GOAL = 0.15, 1.5

# Keep compiled modules, as installed packages do, even if the environment disables them.
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}

PEERS = {
    "python": ("`python -c pass`", "pass"),
    "polars": ("`import polars`", "import polars"),
    "scipy": ("`import scipy.stats`", "import scipy.stats"),
    "scikit-learn": ("`import sklearn.metrics`", "import sklearn.metrics"),
    "torchmetrics": ("`import torchmetrics`", "import torchmetrics"),
}


def write_run(folder: Path, seed: int = 0) -> Path:
    """Write a run of 324 items and 4 views; runs of all seeds have the same items."""
    frame = part(0, ITEMS).select(list(SCHEMA))
    rng = np.random.default_rng(seed)
    views = []
    for view in range(VIEWS):
        noise = pl.Series(rng.normal(0, 0.5, len(frame)).astype(np.float32))
        logits = pl.concat_list(
            pl.col("logits").list.first() + noise, pl.col("logits").list.slice(1)
        )
        views.append(frame.with_columns(view=pl.lit(view, dtype=pl.Int16), logits=logits))
    frame = pl.concat(views).sort("id", "view")
    with RunWriter(folder, {"k": VIEWS}, {}) as writer:
        writer.write_part(0, frame)
        writer.finish(0.0, {})
    return folder


def run(*arguments: str) -> str:
    """Run Python with arguments, and return what it printed."""
    made = subprocess.run(  # noqa: S603 -- our own commands
        [sys.executable, *arguments], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return made.stdout


def command(*arguments: str) -> tuple[str, ...]:
    """Return the arguments that start `pact-eval` as its script does."""
    start = "import sys; from pact_cli.main import main; sys.argv[0] = 'pact-eval'; main()"
    return ("-c", start, *arguments)


def modules_of(*arguments: str) -> list[str]:
    """Return the modules that a command has imported when it ends."""
    code = (
        "import sys, atexit, json; from pact_cli.main import main; sys.argv[0] = 'pact-eval'\n"
        "atexit.register(lambda: sys.stderr.write('\\n' + json.dumps(list(sys.modules))))\nmain()"
    )
    made = subprocess.run(  # noqa: S603 -- our own commands
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    modules: list[str] = json.loads(made.stderr.splitlines()[-1])
    return modules


def main() -> None:
    """Time the commands and the peers, and print the section."""
    options = parser(__doc__)
    options.add_argument("--peers", choices=PEERS, nargs="*", default=PEERS)
    arguments = chosen_options(options, blocks=1, peers=["python", "polars"])
    peers = dict(PEERS[name] for name in arguments.peers)
    with tempfile.TemporaryDirectory() as temporary:
        folder = str(write_run(Path(temporary)))
        modules = [
            name
            for name in modules_of("report", folder)
            if name.partition(".")[0] not in ("__main__", "sitecustomize")
        ]
        imports = (
            "import importlib, sys\nfor name in sys.argv[1].split(','):\n"
            " try: importlib.import_module(name)\n except ImportError: pass"
        )
        contest = Contest(
            {
                "help": partial(run, *command("--help")),
                "report": partial(run, *command("report", folder)),
                "imports": partial(run, "-c", imports, ",".join(modules)),
            }
            | {name: partial(run, "-c", code) for name, code in peers.items()}
        )
        contest.run(arguments.blocks)
    share = 1 / contest.ratio("report", "imports")
    lines = [
        ["`pact-eval --help`", f"{contest.seconds('help'):.2f}", f"{HELP_GOAL}", ""],
        [
            f"`pact-eval report`, {ITEMS} items x {VIEWS} views",
            f"{contest.seconds('report'):.2f}",
            f"{REPORT_GOAL}",
            "",
        ],
        ["its imports", f"{contest.seconds('imports'):.2f}", "", f"{100 * share:.0f}% of it"],
        *(
            [name, f"{contest.seconds(name):.2f}", "", f"{contest.ratio(name, 'help'):.2f} x help"]
            for name in peers
        ),
    ]
    packages = versions("click", "rich", "numpy", "scipy", "polars", "scikit-learn", "torchmetrics")
    text = (
        f"{machine()}; {packages}. Medians of {arguments.blocks} interleaved blocks, one process "
        f"each.\n\n{markdown_table(['started', 'seconds', 'goal', 'share'], lines)}\n\n"
        "`python benchmarks/startup.py`"
    )
    ratios = {"`pact-eval report` / its imports": contest.ratio("report", "imports")}
    publish("startup", text, arguments.write, ratios)


if __name__ == "__main__":
    main()
