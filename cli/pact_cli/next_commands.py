"""Commands to paste after a log was refused: what was typed, with what the message offers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import click

from pact_cli.commands import given
from pact_eval.data.labelled.reading import parse_columns, roles_option
from pact_eval.errors import PactError, ShapeError

_COLUMNS: Final = "--columns"
OF_REPORT: Final = (_COLUMNS, "--answers", "--positions-from", "--options", "--data")
"""Options on how a table is read that `report` and `compare` have; `import` has all of them."""

_OF_READING: Final = (
    *(*OF_REPORT, "--below", "--levels", "--multi", "--metric", "--filter", "--scorer"),
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
def remedies_of(
    path: Path, words: str | None = None, having: Collection[str] = _OF_READING
) -> Iterator[None]:
    """Add the commands that decide to the message of an error of the block.

    Args:
        path: the log.
        words: the command before its options; None takes `report` or `import` of the log.
        having: the options of that command; `import` takes others.

    Raises:
        PactError: that of the block.
    """
    try:
        yield
    except PactError as error:
        for command in _remedies(str(error), path, _given_options(), words, having):
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
    message: str,
    path: Path,
    given: Sequence[tuple[str, str]] = (),
    words: str | None = None,
    having: Collection[str] = _OF_READING,
) -> list[str]:
    """Return the commands with the options that a message offers; those with blanks come last.

    What is offered replaces what was given, if both say the same. A command that was just typed is
    left out.

    Args:
        message: why a log was refused.
        path: the log.
        given: names and values of the options that were given.
        words: the command before its options; None takes `report` or `import` of the log.
        having: the options of that command.

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
    command = partial(_command, path, words=words, having=having)
    typed = command(given)
    commands = dict.fromkeys(command(_combined(given, offer)) for offer in offers)
    listed = [each for each in commands if each.split(" ")[2:] != typed.split(" ")[2:]]
    return sorted(listed, key=lambda each: bool(_TO_FILL_IN.search(each)))


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


def _command(
    path: Path, options: Sequence[tuple[str, str]], words: str | None, having: Collection[str]
) -> str:
    """Return the command that reads a log with options."""
    names = {name for name, _ in options}
    program = words if words and names <= {*having} else None
    program = program or (
        f"pact-eval {'report' if names <= {*OF_REPORT} else 'import'} {shlex.quote(str(path))}"
    )
    named = [
        f"{name}={shlex.quote(value)}" if value.startswith("-") else f"{name} {shlex.quote(value)}"
        for name, value in options
    ]
    return " ".join([program, *named])
