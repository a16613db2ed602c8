"""`pact-eval`: score adapters, evaluate runs, decide single requests."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from pact_cli.commands import LazyCommands
from pact_cli.errors import PactGroup

_SECTIONS: Final = {  # in the order of work, which `--help` shows
    "Start": {
        "demo": "pact_cli.demo:demo",
        "init": "pact_cli.init:init",
    },
    "Score": {
        "score": "pact_cli.score:score",
        "import": "pact_cli.import_rows:import_rows",
        "probe": "pact_cli.probe:probe",
        "experiment": "pact_cli.experiment:experiment",
    },
    "Look": {
        "runs": "pact_cli.runs:runs",
        "report": "pact_cli.report:report",
        "compare": "pact_cli.compare:compare",
    },
    "Decide": {
        "calibrate": "pact_cli.calibrate:calibrate",
        "thresholds": "pact_cli.thresholds:thresholds",
        "decide": "pact_cli.decide:decide",
    },
    "Publish": {
        "paper": "pact_cli.paper:paper",
        "export": "pact_cli.export:export",
    },
    "Trust": {
        "register": "pact_cli.preregistration:register",
        "scorecard": "pact_cli.preregistration:scorecard",
        "verify": "pact_cli.verify:verify",
    },
}

COMMANDS: Final = LazyCommands(
    {name: place for section in _SECTIONS.values() for name, place in section.items()},
    folder=Path(__file__).parent,
)


@click.group(
    cls=PactGroup,
    commands=COMMANDS,
    sections=_SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="pact-eval")
def main() -> None:
    """Evaluate single-token typed-decision models.

    Only score, decide, demo, export and experiment need torch; with --server, score and decide do
    not. Exit codes: 0 success, 1 failure, 2 usage, 3 a gate failed, 4 no clear verdict, 5 tampered.
    """
