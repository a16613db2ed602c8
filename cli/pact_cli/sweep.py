"""`pact-eval sweep`: a run at every number of views, or with what removes order effects.

Commands to paste after a log was refused: what was typed, with what the message offers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import click

from pact_cli.commands import command, given
from pact_cli.console import emit, exit_on_leak, warn
from pact_cli.options import RUN, named_data, settings_options
from pact_eval.data.labelled.reading import parse_columns, roles_option
from pact_eval.errors import PactError, ShapeError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.remedies import remedies_of_run
from pact_eval.runs.places import run_folder
from pact_reports.views.sweep import present_remedy_comparison, present_sweep

_OF_VIEWS: Final = ("views", "calibration")


class ViewNumbers(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4
    """The type of numbers of views: one, or FROM..TO.

    Examples:
        >>> ViewNumbers().convert("2..4", None, None), ViewNumbers().convert("3", None, None)
        (range(2, 5), range(3, 4))
    """

    name = "FROM..TO"
    _RANGE: Final = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the numbers."""
        match = self._RANGE.fullmatch(value)
        if match is None:
            self.fail(f"expected a number or FROM..TO, got {value!r}", param, ctx)
        return range(int(match[1]), int(match[2] or match[1]) + 1)


Views: TypeAlias = Annotated[range, ViewNumbers()]


@command(
    elsewhere={"--k": "pact-eval sweep RUN --views 1..4"},
    more=("unit", "allow", "audit", "resamples", "bootstrap_seed"),
)
@settings_options(
    *("calibration", "unit", "without_leaks", "allow", "audit"),
    *("resamples", "bootstrap_seed"),
)
def sweep(
    run: Annotated[Path, RUN, "RUN"],
    *,
    views: Views | None = None,
    remedies: bool = False,
    data: tuple[Path, ...] = (),
    full: bool = False,
    settings: Settings,
) -> None:
    """Show a run at every number of orders, or with what removes order effects.

    Accuracy, NLL, ECE, how far probabilities move and how many answers change, for every number of
    orders, and with --full their intervals. Orders are added as they were asked; 1 is the order of
    the data alone.

    --remedies compares what removes order effects, by its price in prompts: several orders, letter
    priors fitted on other items, and batch calibration. --full prints pairs, ECE, flips and costs
    too.

    Exits with 3 if items of RUN are also in a file that the model is made from (see
    --without-leaks).

    Views:
        --views: Show only these numbers of orders, such as 1..4.
        --remedies: Compare what removes order effects: more orders, letter priors, batch
            calibration.

    Data:
        --data FILE_OR_FOLDER: Dataset of the run, which is audited. Default: the file that run.json
            names, if it is unchanged. May be given several times.

    Output:
        --full: Print every table.
    """
    settings = replace(settings, data=named_data(data))
    of_views = not remedies or bool(given(_OF_VIEWS))
    scored = replace(settings, calibrated=False, calibration=None, shipped=False)
    asked = replace(settings, decoding="ensemble") if of_views else scored
    experiment = Experiment.read([run_folder(run)], asked)
    (read,) = experiment.all_runs
    warned = warn(map(str, experiment.applied_warnings))
    presenters = []
    if of_views:
        presenters += [present_sweep(experiment, read, experiment.sweep(read, views))]
    if remedies:
        experiment = Experiment.read([run_folder(run)], scored)
        comparison = remedies_of_run(experiment, experiment.all_runs[0])
        presenters += [present_remedy_comparison(comparison)]
    presenter, *others = presenters
    for below in others:
        presenter = presenter.with_below("sweep", below, full=full)
    emit(presenter, warned=warned, full=full)
    exit_on_leak([experiment.data])


_COLUMNS: Final = "--columns"
_OF_REPORT: Final = (_COLUMNS, "--answers", "--positions-from", "--options", "--data")
"""Options on how a table is read that `report` has; `import` has all of them."""

_OF_READING: Final = (
    *(*_OF_REPORT, "--below", "--levels", "--multi", "--metric", "--filter", "--scorer"),
    *("--suite", "--map", "--from", "--family-from", "--domain-from"),
)
_ONE_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "--answers": ("--positions-from",),
    "--positions-from": ("--answers",),
    "--options": ("--levels",),
    "--levels": ("--options",),
}
"""Options that say the same: one replaces the other."""

_TOGETHER: Final = "--suite"
"""An option of which a message offers several values that belong together."""

_TO_FILL_IN: Final = re.compile(r"\b(NAME|FILE)\b")

_VALUE: Final = r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+"
_OPTION: Final = re.compile(
    r"(--columns(?=[ =](?:\w+=|['\"]))|--(?:answers|positions-from|options|levels|multi|metric|"
    rf"filter|scorer|suite|map|from|family-from|domain-from|data))[ =]({_VALUE})"
)
"""An option of `import` with its value, as messages offer it."""

_OFFER: Final = re.compile(rf"{_COLUMNS} {_VALUE} --options[ =]{_VALUE}|{_OPTION.pattern}")
"""Options that decide: one, or the columns of numbers with the order of the answers."""


@contextmanager
def remedies_of(path: Path, words: str | None = None) -> Iterator[None]:
    """Add the commands that decide to the message of an error of the block.

    Args:
        path: the log.
        words: the command before its options; None takes `report` or `import` of the log.

    Raises:
        PactError: that of the block.
    """
    try:
        yield
    except PactError as error:
        for command in _remedies(str(error), path, _given_options(), words):
            error.add_note(f"  {command}")
        raise


def _given_options() -> list[tuple[str, str]]:
    """Return the options that were given of those that decide how a log is read."""
    context = click.get_current_context()
    options: list[tuple[str, str]] = []
    for option in context.command.params:
        called = max(option.opts, key=len)
        if called in _OF_READING and given([str(option.name)]):
            values = context.params[str(option.name)]
            values = values if isinstance(values, tuple) else (values,)
            options += [(called, str(value)) for value in values]
    return options


def _remedies(
    message: str, path: Path, given: Sequence[tuple[str, str]] = (), words: str | None = None
) -> list[str]:
    """Return the commands with the options that a message offers; those with blanks come last.

    What is offered replaces what was given, if both say the same. A command that was just typed is
    left out.

    Args:
        message: why a log was refused.
        path: the log.
        given: names and values of the options that were given.
        words: the command before its options; None takes `report` or `import` of the log.

    Examples:
        >>> _remedies("read as --answers letters, or --answers texts.", Path("a.csv"))
        ['pact-eval report a.csv --answers letters', 'pact-eval report a.csv --answers texts']
        >>> _remedies("expected one right answer: give --multi any", Path("a.csv"))
        ['pact-eval import a.csv --multi any']
        >>> _remedies("give --columns ignored=p", Path("a.csv"), [("--columns", "probabilities=p")])
        ['pact-eval report a.csv --columns ignored=p']
    """
    offers = [_options_of(match[0]) for match in _OFFER.finditer(message)]
    several = [value for offer in offers for name, value in offer if name == _TOGETHER]
    offers = [offer for offer in offers if _TOGETHER not in dict(offer)]
    offers += [[(_TOGETHER, value) for value in several]] if several else []
    typed = _command(path, given, words)
    commands = dict.fromkeys(_command(path, _combined(given, offer), words) for offer in offers)
    listed = [command for command in commands if command.split(" ")[2:] != typed.split(" ")[2:]]
    return sorted(listed, key=lambda command: bool(_TO_FILL_IN.search(command)))


def _options_of(text: str) -> list[tuple[str, str]]:
    """Return the options in a part of a message, without the marks of its sentence."""
    pairs = [(match[1], match[2].rstrip(".,;:)")) for match in _OPTION.finditer(text)]
    return [(name, " ".join(shlex.split(value))) for name, value in pairs]


def _combined(
    given: Sequence[tuple[str, str]], offer: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return options that were given, as far as those of an offer do not replace them."""
    offered = {name for name, _ in offer}
    replaced = offered | {other for name in offered for other in _ONE_OF.get(name, ())}
    kept = [(name, value) for name, value in given if name not in replaced or name == _COLUMNS]
    texts = [[value for name, value in each if name == _COLUMNS] for each in (kept, offer)]
    others = [option for option in (*kept, *offer) if option[0] != _COLUMNS]
    if not all(texts):
        return [*[(_COLUMNS, text) for each in texts for text in each], *others]
    return [(_COLUMNS, _merged(*texts)), *others]


def _merged(given: Sequence[str], offered: Sequence[str]) -> str:
    """Return one value of `--columns`: a role or column of an offer replaces that which was given.

    Examples:
        >>> _merged(["probabilities=a+b,reference=y"], ["ignored=a+b"])
        'reference=y,ignored=a+b'
    """
    try:
        roles, new = parse_columns(given), parse_columns(offered)
    except ShapeError:
        return ",".join(offered)
    taken = {name for names in new.values() for name in names}
    kept = {
        role: tuple(name for name in names if name not in taken) for role, names in roles.items()
    }
    ignored = (*kept.get("ignored", ()), *new.get("ignored", ()))
    merged = {role: names for role, names in (kept | new).items() if names and role != "ignored"}
    merged |= {"ignored": ignored} if ignored else {}
    return shlex.split(roles_option(merged))[1]


def _command(path: Path, options: Sequence[tuple[str, str]], words: str | None = None) -> str:
    """Return the command that reads a log with options."""
    own = all(name in _OF_REPORT for name, _ in options)
    program = words or f"pact-eval {'report' if own else 'import'} {shlex.quote(str(path))}"
    named = [
        f"{name}={shlex.quote(value)}" if value.startswith("-") else f"{name} {shlex.quote(value)}"
        for name, value in options
    ]
    return " ".join([program, *named])
