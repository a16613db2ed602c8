"""`pact-eval`: score adapters, evaluate runs, decide single requests."""

from __future__ import annotations

from typing import Final

import click

from pact_cli.errors import PactGroup, Sections

_SECTIONS: Final[Sections] = {  # in the order of work
    "Start": {
        "demo": ("demo:demo", "Show what pact-eval finds, in seconds and without a model."),
        "init": ("init:init", "Write a pact.toml from what is in this folder."),
    },
    "Score": {
        "score": ("score:score", "Score an adapter on a dataset: write a run and report on it."),
        "import": (
            "import_rows:import_rows",
            "Import a log or predictions as a run, and report on it.",
        ),
        "probe": ("decide:probe", "Say what a server is: its model, noise, orders, adapter."),
        "experiment": ("experiment:experiment", "Train, score and judge what PLAN.toml describes."),
    },
    "Look": {
        "runs": ("runs:runs", "Show the runs in a folder as a leaderboard."),
        "report": ("report:report", "Show what RUN is worth, in twelve lines; --full shows all."),
        "compare": ("compare:compare", "Compare A with B (and with C, ...), item by item."),
    },
    "Decide": {
        "calibrate": (
            "calibrate:calibrate",
            "Fit a temperature on a run of the calibration split.",
        ),
        "thresholds": ("thresholds:thresholds", "Choose which decisions of RUN need no review."),
        "decide": ("decide:decide", "Answer every field of one request."),
    },
    "Publish": {
        "paper": ("paper:paper", "Write figures and tables of RUNs, or of published metrics."),
        "export": ("export:export", "Write ADAPTER as a decision model of transformers."),
    },
    "Trust": {
        "register": ("preregistration:register", "Freeze criteria before the runs."),
        "scorecard": (
            "preregistration:scorecard",
            "Judge hypotheses on run folders, or on a .csv of metrics.",
        ),
        "verify": ("verify:verify", "Check each RUN against the hashes in its run.json."),
    },
}


@click.group(
    cls=PactGroup,
    sections=_SECTIONS,
    one_thread=("report", "compare", "paper"),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="pact-eval")
def main() -> None:
    """Evaluate single-token typed-decision models.

    Only score, decide, export, experiment and demo --score need torch; with --server, score and
    decide do not. Exit codes: 0 success, 1 failure, 2 usage, 3 a gate failed, 4 no clear verdict,
    5 tampered.
    """
