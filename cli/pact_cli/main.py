"""`pact-eval`: score adapters, evaluate runs, decide single requests."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from pact_cli.commands import PactCommand
from pact_cli.errors import PactGroup

_ORDER: Final = (
    *("demo", "init", "register", "probe", "score", "import", "runs", "report", "calibrate"),
    *("compare", "sweep", "thresholds", "sets", "scorecard", "figures", "tables", "verify"),
    *("decide", "export"),
)
"""The order of work, in which `--help` shows the commands; further ones come last."""


@click.group(
    cls=PactGroup,
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


def _commands() -> Iterator[click.Command]:
    """Yield the commands of the modules next to this one."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.ispkg or module.name.startswith("_") or module.name == "main":
            continue
        members = vars(import_module(f"pact_cli.{module.name}")).values()
        yield from (member for member in members if isinstance(member, PactCommand))


def _place(command: click.Command) -> int:
    return _ORDER.index(command.name) if command.name in _ORDER else len(_ORDER)


for command in sorted(_commands(), key=_place):
    main.add_command(command)
