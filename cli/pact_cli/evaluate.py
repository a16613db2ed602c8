"""`pact-eval`: score adapters, read runs, decide single requests."""

from __future__ import annotations

import click

from pact_cli.calibrate import calibrate
from pact_cli.compare import compare
from pact_cli.decide import decide
from pact_cli.figures import figures
from pact_cli.group import PactGroup
from pact_cli.hypotheses import register, scorecard
from pact_cli.import_rows import import_rows
from pact_cli.report import report
from pact_cli.score import score
from pact_cli.sweep import sweep
from pact_cli.tables import tables

__all__ = ["main"]


@click.group(
    cls=PactGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="pact-eval")
def main() -> None:
    """Evaluate single-token typed-decision models.

    score turns an adapter and a dataset into a run folder, import makes one of predictions made
    elsewhere; report, calibrate, compare and sweep read them, figures and tables write what goes
    into a paper. register freezes hypotheses before the runs, scorecard judges them after. Only
    score and decide need torch and a model.

    Exit codes: 0 fine, 1 could not do its work, 2 usage, 3 contradicted and 4 no clear verdict
    where one was demanded, 5 a registration does not match.
    """


for command in (
    score,
    report,
    calibrate,
    compare,
    sweep,
    figures,
    tables,
    register,
    scorecard,
    decide,
    import_rows,
):
    main.add_command(command)
