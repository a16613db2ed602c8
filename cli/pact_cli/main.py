"""`pact-eval`: score adapters, evaluate runs, decide single requests."""

from __future__ import annotations

from typing import Final

import click

from pact_cli.errors import PactGroup
from pact_cli.lazy_commands import LazyCommands

COMMANDS: Final = LazyCommands(
    {  # in the order of work, which `--help` shows
        "demo": "pact_cli.demo:demo",
        "init": "pact_cli.init:init",
        "register": "pact_cli.preregistration:register",
        "probe": "pact_cli.probe:probe",
        "score": "pact_cli.score:score",
        "import": "pact_cli.import_rows:import_rows",
        "runs": "pact_cli.runs:runs",
        "report": "pact_cli.report:report",
        "calibrate": "pact_cli.calibrate:calibrate",
        "compare": "pact_cli.compare:compare",
        "sweep": "pact_cli.sweep:sweep",
        "thresholds": "pact_cli.thresholds:thresholds",
        "sets": "pact_cli.sets:sets",
        "scorecard": "pact_cli.preregistration:scorecard",
        "figures": "pact_cli.figures_and_tables:figures",
        "tables": "pact_cli.figures_and_tables:tables",
        "verify": "pact_cli.verify:verify",
        "decide": "pact_cli.decide:decide",
        "export": "pact_cli.export:export",
    }
)


@click.group(
    cls=PactGroup,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="pact-eval")
def main() -> None:
    """Evaluate single-token typed-decision models.

    init writes the settings of a project. score writes a run folder for an adapter, or for the
    model of a server, and a dataset; import writes one for existing predictions; probe says what a
    server is. runs, report, calibrate, compare and sweep read run folders.
    thresholds says which decisions need no review, and sets makes answer sets, with a guarantee.
    figures and tables write files for a paper. register freezes hypotheses before the runs;
    scorecard judges them afterwards. verify compares runs and their files with recorded hashes.
    export writes an adapter as a decision model of transformers. Only score, decide, demo and
    export need torch and a model; with --server, score and decide need neither.

    Exit codes: 0 success, 1 failure, 2 usage, 3 contradicted and 4 no clear verdict (both only if a
    verdict is required, or with --check), 5 a hash or a registration does not match.
    """
