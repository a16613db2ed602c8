"""`pact-eval`: score adapters, evaluate runs, decide single requests."""

from __future__ import annotations

from typing import Final

import click

from pact_cli.errors import PactGroup, Sections

_SECTIONS: Final[Sections] = {  # in the order of work
    "Start": {
        "demo": ("pact_cli.demo:demo", "Score two bundled adapters and put them on one page."),
        "init": ("pact_cli.init:init", "Write a pact.toml from what is in this folder."),
    },
    "Score": {
        "score": (
            "pact_cli.score:score",
            "Score an adapter on a dataset: write a run and report on it.",
        ),
        "import": (
            "pact_cli.import_rows:import_rows",
            "Import a log or predictions as a run, and report on it.",
        ),
        "probe": (
            "pact_cli.decide:probe",
            "Say what a server is: its model, noise, orders, adapter.",
        ),
        "experiment": (
            "pact_cli.experiment:experiment",
            "Train, score and judge what PLAN.toml describes.",
        ),
    },
    "Look": {
        "runs": ("pact_cli.runs:runs", "Show the runs in a folder as a leaderboard."),
        "report": (
            "pact_cli.report:report",
            "Show what RUN is worth, in twelve lines; --full shows all.",
        ),
        "compare": (
            "pact_cli.compare:compare",
            "Compare A with B (and with C, ...), item by item.",
        ),
    },
    "Decide": {
        "calibrate": (
            "pact_cli.calibrate:calibrate",
            "Fit a temperature on a run of the calibration split.",
        ),
        "thresholds": (
            "pact_cli.thresholds:thresholds",
            "Choose which decisions of RUN need no review.",
        ),
        "decide": ("pact_cli.decide:decide", "Answer every field of one request."),
    },
    "Publish": {
        "paper": (
            "pact_cli.paper:paper",
            "Write figures and tables of RUNs, or of published metrics.",
        ),
        "export": (
            "pact_cli.export:export",
            "Write ADAPTER as a decision model of transformers.",
        ),
    },
    "Trust": {
        "register": ("pact_cli.preregistration:register", "Freeze criteria before the runs."),
        "scorecard": (
            "pact_cli.preregistration:scorecard",
            "Judge hypotheses on run folders, or on a .csv of metrics.",
        ),
        "verify": (
            "pact_cli.verify:verify",
            "Check each RUN against the hashes in its run.json.",
        ),
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

    Only score, decide, demo, export and experiment need torch; with --server, score and decide do
    not. Exit codes: 0 success, 1 failure, 2 usage, 3 a gate failed, 4 no clear verdict, 5 tampered.
    """
