"""`pact-eval`: score adapters, evaluate runs, decide single requests."""

from __future__ import annotations

from typing import Final

import click

from pact_cli.errors import PactGroup, Sections

_SECTIONS: Final[Sections] = {  # in the order of work
    "Start": {
        "demo": ("demo", "Show what pact-eval finds, in seconds and without a model."),
        "plan": ("plan", "Say how many items are needed, before anything is run."),
    },
    "Score": {
        "score": ("score", "Score an adapter on a dataset: write a run and report on it."),
        "import": (
            "import_rows:import_rows",
            "Import a log or predictions as a run, and report on it.",
        ),
        "experiment": ("experiment", "Train, score and judge what PLAN.toml describes."),
    },
    "Look": {
        "report": ("report", "Show what runs, logs or predictions are worth."),
        "compare": ("compare", "Compare A with B (and with C, ...), item by item."),
        "drift": ("drift", "Say whether answers changed between two logs without right answers."),
        "sweep": (
            "sweep",
            "Show a run at every number of orders, or with what removes order effects.",
        ),
    },
    "Decide": {
        "calibrate": ("calibrate", "Fit a temperature on a run of the calibration split."),
        "thresholds": ("thresholds", "Choose which decisions of RUN need no review."),
        "decide": ("decide", "Answer every field of one request."),
    },
    "Publish": {
        "paper": ("paper", "Write figures and tables of RUNs, or of published metrics."),
        "export": ("export", "Write ADAPTER as a decision model of transformers."),
    },
    "Trust": {
        "register": ("preregistration", "Freeze criteria before the runs."),
        "scorecard": (
            "preregistration",
            "Judge hypotheses on run folders, or on a .csv of metrics.",
        ),
        "verify": ("verify", "Check each RUN against the hashes in its run.json."),
    },
}

_REPORT: Final = "pact-eval report FILE, for a run, a folder of runs, or a file of predictions"
_LIST: Final = "pact-eval report runs/"
_AUDIT: Final = "pact-audit data DIR"
_GATE: Final = "pact-eval compare OLD NEW --gate --margin 0.02"
_WORDS: Final = {
    **dict.fromkeys(
        ("eval", "evaluate", "show", "view", "open", "see", "analyse", "analyze"), _REPORT
    ),
    **dict.fromkeys(("ls", "list", "runs", "leaderboard", "log", "history"), _LIST),
    **dict.fromkeys(("audit", "lint", "check", "data", "validate", "leaks"), _AUDIT),
    "gate": _GATE,
    **dict.fromkeys(("monitor", "shift", "watch"), "pact-eval drift BEFORE AFTER"),
    **dict.fromkeys(("diff", "vs", "test"), "pact-eval compare A B"),
    **dict.fromkeys(("probe", "ping"), "pact-eval score --server URL --model NAME --probe"),
    **dict.fromkeys(("run", "predict", "infer"), "pact-eval score ADAPTER --data FILE"),
    **dict.fromkeys(("html", "page", "dashboard", "ui"), "pact-eval report RUN --html page.html"),
    **dict.fromkeys(("plot", "figures", "tables", "latex"), "pact-eval paper RUN..."),
    **dict.fromkeys(
        ("power", "sample-size", "samplesize", "samples", "size"),
        "pact-eval plan --difference 2 --accuracy 85",
    ),
    "views": "pact-eval sweep RUN --views 1..4",
    "remedies": "pact-eval sweep RUN --remedies",
    "adapter": "pact-audit adapter ADAPTER",
    "convert": "pact-audit convert IN OUT.jsonl",
    "split": "pact-audit split TRAIN.jsonl --out DIR",
    "temperature": "pact-eval calibrate CALIB_RUN --holdout RUN",
    "threshold": "pact-eval thresholds RUN --target-error 0.05",
    "train": "pact-eval experiment PLAN.toml",
    "init": "no command: pact.toml is written by hand, see docs/settings.md",
    "help": "pact-eval --help",
    "version": "pact-eval --version",
}
"""By word that people type, the command that does it."""


@click.group(
    cls=PactGroup,
    sections=_SECTIONS,
    words=_WORDS,
    of_file="pact-eval report {}",
    one_thread=("report", "compare", "drift", "sweep", "paper"),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="pact-eval")
def main() -> None:
    """Evaluate single-token typed-decision models: `pact-eval report FILE` reads their predictions.

    Only score, decide, export, experiment and demo --score need torch; with --server, score and
    decide do not. Exit codes: 0 success, 1 failure, 2 usage, 3 a gate failed, 4 no clear verdict,
    5 tampered.
    """
