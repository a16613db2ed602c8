"""Commands: options in groups, settings of the project as defaults, `-q` and `-v`.

Every command is a `PactCommand`, which the group runs with the settings of `config.py`.
"""

from __future__ import annotations

import copy
import math
import pkgutil
import sys
import time
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, get_args

import click
from click.core import ParameterSource

from pact_cli.console import QUIET, VERBOSE, announce, warn
from pact_cli.steps import load, watched_steps
from pact_eval.errors import InputError

if TYPE_CHECKING:
    from pact_cli.config import Config, Value


Command = TypeVar("Command", bound=Callable[..., Any])

Group: TypeAlias = Literal[
    "Data", "Model", "Server", "Views", "Numbers", "Sets", "Checks", "Speed", "Output"
]
"""A group of options in `--help`."""

GROUPS: Final[tuple[Group, ...]] = get_args(Group)
"""The groups, in the order in which `--help` shows them."""


class PactOption(click.Option):
    """An option in a group of `--help`.

    Args:
        declarations: the names, as for `click.option`.
        group: its group in `--help`.
        alone: value of the option if no value follows it; None if one must follow.
        accepts: whether a word after the option is its value, for an option with `alone`.
        attributes: as for `click.option`.
    """

    def __init__(
        self,
        declarations: Sequence[str],
        *,
        group: Group = "Output",
        alone: str | None = None,
        accepts: Callable[[str], bool] = bool,
        **attributes: Any,
    ) -> None:
        super().__init__(declarations, **attributes)
        self.group = group
        self.alone = alone
        self.accepts = accepts


def option(*names: str, group: Group = "Output", **attributes: Any) -> Callable[[Command], Command]:
    """Return a decorator that adds a `PactOption`, as `click.option` does."""
    return click.option(*names, cls=PactOption, group=group, **attributes)


class LazyChoice(click.Choice[str]):
    """A choice whose names are read when they are needed: to show them, or to check a value.

    Args:
        names: returns them.

    Example:
        >>> kind = LazyChoice(lambda: ("rows", "helm"))
        >>> kind.convert("rows", None, None)
        'rows'
    """

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        self._names = names
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override] # click sets it once
        """The names."""
        return tuple(self._names())


def choice(names: object, *more: str) -> click.Choice[str]:
    """Return the choice of a closed list: one of the names of a `Literal`.

    Args:
        names: the `Literal`.
        more: names that come first.

    Example:
        >>> choice(Literal["scalar", "contextual"], "auto").choices
        ('auto', 'scalar', 'contextual')
    """
    return click.Choice([*more, *get_args(names)])


_HELP: Final = ("-h", "--help")
CHOSEN: Final = "pact.chosen"
"""Key in the context of a command: what its parameters chose, each with its reason."""

_TARGETS: Final = ("out", "html", "markdown")
"""Parameters that name a file or folder to write."""


class PactCommand(click.Command):
    """A command with the settings of the project as defaults.

    Args:
        arguments: as for `click.Command`.
        announces: whether the command itself calls `announce_choices`, with more to say.
        loads: modules that it needs and that take long to import; the terminal says so meanwhile.
        one_thread: whether numpy gets one thread of BLAS if `loads` import it.
        tells_steps: whether each step stays on the terminal, with its time, when it is over; with
            `-v`, all commands do.
        reads_settings: whether the settings of the project have defaults of its options.
        elsewhere: by option that users look for here, the command that has it.
        attributes: as for `click.Command`.
    """

    def __init__(
        self,
        *arguments: Any,
        announces: bool = False,
        loads: Sequence[str] = (),
        one_thread: bool = False,
        tells_steps: bool = False,
        reads_settings: bool = True,
        elsewhere: Mapping[str, str] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.announces = announces
        self.loads = loads
        self.one_thread = one_thread
        self.tells_steps = tells_steps
        self.reads_settings = reads_settings
        self.elsewhere = elsewhere or {}

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse the command line, with the settings of the project as defaults.

        Raises:
            InputError: the settings cannot be used; help is shown without them.
        """
        from pact_cli.config import Config, read_config

        config = Config()
        if self.reads_settings:
            try:
                config = self._with_options(read_config())
            except InputError as error:
                completing = bool(extra.get("resilient_parsing"))
                if not completing and not any(name in args for name in _HELP):
                    raise
                if not completing:
                    warn([f"{error}; the defaults below are those without settings"])
        defaults = {
            name: default.value for name, default in config.defaults(self.name or "").items()
        }
        return super().make_context(
            info_name, args, parent, default_map=defaults, obj=config, **extra
        )

    def _with_options(self, config: Config) -> Config:
        """Add the options that the settings have for this command alone."""
        if self.name not in config.options:
            return config
        from pact_cli.config import option_values

        return replace(config, of_command=option_values(self, _VERBOSITY, config))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; an option that another command has is named with that command."""
        try:
            return super().parse_args(ctx, _with_values(self.params, args))
        except click.NoSuchOption as error:
            place = self.elsewhere.get(error.option_name)
            if place is None:
                raise
            message = f"{error.option_name} is not an option of {self.name}; use: {place}"
            raise click.UsageError(message, ctx) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, with `-q`, `-v` and `--help` at the end."""
        *own, last = super().get_params(ctx)
        return [*own, *_VERBOSITY, last]

    def invoke(self, ctx: click.Context) -> Any:
        """Say which settings of the project are used, and run the command."""
        if not self.announces:
            announce_choices()
        verbose = ctx.meta.get(VERBOSE, False)
        told = verbose or (self.tells_steps and sys.stderr.isatty())
        targets = [ctx.params[name] for name in _TARGETS if ctx.params.get(name)]
        if not verbose:
            with watched_steps(told=told, targets=targets):
                load(*self.loads, one_thread=self.one_thread)
                return super().invoke(ctx)
        announce(_sources(ctx))
        started = time.monotonic()
        try:
            with watched_steps(told=told, targets=targets):
                load(*self.loads, one_thread=self.one_thread)
                return super().invoke(ctx)
        finally:
            announce([f"{ctx.info_name}: {time.monotonic() - started:.1f} s"])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups; one group alone needs no name."""
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in GROUPS}
        for option in self.get_params(ctx):
            if isinstance(option, click.Option):
                record = _with_source(option, ctx).get_help_record(ctx)
                if record is not None:
                    groups[getattr(option, "group", "Output")].append(record)
        filled = {name: records for name, records in groups.items() if records}
        for name, records in filled.items():
            with formatter.section(name if len(filled) > 1 else "Options"):
                formatter.write_dl(records)


command: Final = partial(click.command, cls=PactCommand)
"""Decorator: a function is a command."""


def config_of(ctx: click.Context) -> Config:
    """Return the settings that a command was started with."""
    from pact_cli.config import Config

    return ctx.obj if isinstance(ctx.obj, Config) else Config()


def from_settings(name: str | None) -> bool:
    """Return whether a parameter of the current command has its value from the settings."""
    source = click.get_current_context().get_parameter_source(name or "")
    return source is ParameterSource.DEFAULT_MAP


def grouped() -> bool:
    """Return whether the current command was given --by: only the full tables have groups."""
    source = click.get_current_context().get_parameter_source("by")
    return source is ParameterSource.COMMANDLINE


def announce_choices(more: Sequence[str] = ()) -> None:
    """Say on stderr, in one line, what was not given on the command line but chosen.

    Args:
        more: choices of the command itself, each with its reason.
    """
    ctx = click.get_current_context()
    named = {parameter.name: parameter for parameter in ctx.command.params}
    more = (*ctx.meta.get(CHOSEN, ()), *more)
    chosen = [
        f"{_called(named[name])} {_text(default)} ({default.source})"
        for name, default in config_of(ctx).defaults(ctx.command.name or "").items()
        if name in named and from_settings(name)
    ]
    if chosen or more:
        announce([f"Using {', '.join((*more, *chosen))}"])


def _called(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        return parameter.opts[0]
    return parameter.make_metavar(click.get_current_context()).strip("[]").rstrip(".")


def _text(default: Value) -> str:
    values = default.value if isinstance(default.value, tuple) else (default.value,)
    return " ".join(map(str, values))


def _sources(ctx: click.Context) -> Iterable[str]:
    """Return a line for each option that has a value: the value, and where it is from."""
    configured = config_of(ctx).defaults(ctx.command.name or "")
    for parameter in ctx.command.params:
        name = str(parameter.name)
        value, source = ctx.params.get(name), ctx.get_parameter_source(name)
        if value in (None, (), False) or not parameter.expose_value:
            continue
        where = {ParameterSource.COMMANDLINE: "command line"}.get(source, "default")  # type: ignore[arg-type] # None is not a key
        if source is ParameterSource.DEFAULT_MAP and name in configured:
            where = configured[name].source
        shown = " ".join(map(str, value)) if isinstance(value, tuple) else value
        yield f"  {_called(parameter)} {shown} ({where})"


def _with_source(parameter: click.Option, ctx: click.Context) -> click.Option:
    """Let the help of an option say that its default is from the settings of the project."""
    configured = config_of(ctx).defaults(ctx.command.name or "").get(str(parameter.name))
    if configured is None:
        return parameter
    shown = copy.copy(parameter)
    shown.show_default = False
    kept = shown.help or ""
    shown.help = f"{kept}  [default: {_text(configured)}, from {configured.source}]"
    return shown


def _with_values(parameters: Sequence[click.Parameter], words: Sequence[str]) -> list[str]:
    """Give an option that may be alone its value, if the next word is not one.

    Example:
        >>> views = PactOption(["--views"], alone="all", accepts=str.isdigit)
        >>> _with_values([views], ["--views", "runs/a"])
        ['--views=all', 'runs/a']
    """
    optional = {
        name: parameter
        for parameter in parameters
        if isinstance(parameter, PactOption) and parameter.alone is not None
        for name in parameter.opts
    }
    complete = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        parameter = optional.get(word)
        has_value = parameter is None or parameter.accepts(following)
        complete.append(word if has_value or parameter is None else f"{word}={parameter.alone}")
    return complete


def _set_quiet(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    ctx.meta[QUIET] = ctx.meta.get(QUIET, False) or value


def _set_verbose(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    ctx.meta[VERBOSE] = value


_VERBOSITY: Final[list[click.Parameter]] = [
    click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=_set_quiet,
        help="Show no progress and no remarks; warnings and errors stay.",
    ),
    click.Option(
        ["-v", "--verbose"],
        is_flag=True,
        expose_value=False,
        callback=_set_verbose,
        help="Show every option with where its value is from, the time of each step, and reasons "
        "for files that were not made.",
    ),
]


class WholeNumber(click.IntRange):
    """A whole number in a range.

    Example:
        >>> WholeNumber(min=1).expected
        'a whole number from 1'
    """

    name = "N"

    @property
    def expected(self) -> str:
        """The numbers that are expected, in words."""
        return f"a whole number{_range(self)}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; refuse another value with the numbers that are expected."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"expected {self.expected}, got {value!r:.60}", param, ctx)

    def _describe_range(self) -> str:
        return _range(self).strip(", ")


class Number(click.FloatRange):
    """A number in a range; not nan, which no range has.

    Example:
        >>> Number(min=0, max=1, min_open=True).expected
        'a number above 0, at most 1'
    """

    name = "X"

    @property
    def expected(self) -> str:
        """The numbers that are expected, in words."""
        return f"a number{_range(self)}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; refuse another value with the numbers that are expected."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        if isinstance(number, float) and math.isnan(number):
            self.fail(f"expected {self.expected}, got {value!r:.60}", param, ctx)
        return number

    def _describe_range(self) -> str:
        return _range(self).strip(", ")


def _range(kind: WholeNumber | Number) -> str:
    """Return a range in words that follow "number"."""
    if isinstance(kind, WholeNumber):
        least = "" if kind.min is None else f" from {kind.min}"
        return least if kind.max is None else f"{least} to {kind.max}"
    least = "" if kind.min is None else f" above {kind.min:g}"
    if kind.max is None:
        return least
    return f"{least} and below {kind.max:g}" if kind.max_open else f"{least}, at most {kind.max:g}"


INTEGER: Final = WholeNumber()
"""Any whole number, such as a seed."""

COUNT: Final = WholeNumber(min=1)
"""A whole number from 1."""

NATURAL: Final = WholeNumber(min=0)
"""A whole number from 0."""

RESAMPLES: Final = WholeNumber(min=100)
"""A number of resamples that gives an interval."""

POSITIVE: Final = Number(min=0, min_open=True)
"""A number above 0."""

SHARE: Final = Number(min=0, max=1, min_open=True)
"""A share above 0, at most 1."""

RATE: Final = Number(min=0, max=1, min_open=True, max_open=True)
"""A share above 0 and below 1."""


class LazyCommands(UserDict[str, Any]):
    """Commands by name; `report` does not wait for the modules of `score`.

    Args:
        places: by name, in the order of `--help`, the module and the command in it.
        folder: folder of the modules of the group; a command of a module that is not named in
            `places` is found when it is asked for, and comes last.

    Examples:
        >>> commands = LazyCommands({"paper": "pact_cli.paper:paper"})
        >>> commands["paper"].name
        'paper'
    """

    def __init__(self, places: Mapping[str, str], folder: Path | None = None) -> None:
        super().__init__(places)
        modules = [] if folder is None else pkgutil.iter_modules([str(folder)])
        named = {place.partition(":")[0] for place in places.values()}
        self._others = [
            f"pact_cli.{module.name}"
            for module in modules
            if f"pact_cli.{module.name}" not in {*named, "pact_cli.main", "pact_cli.__main__"}
        ]

    def __getitem__(self, name: str) -> click.Command:
        if name not in self.data:
            self._find()
        entry = self.data[name]
        if isinstance(entry, click.Command):
            return entry
        module, _, attribute = entry.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        self.data[name] = command
        return command

    def __contains__(self, name: object) -> bool:
        if name not in self.data:
            self._find()
        return name in self.data

    def __iter__(self) -> Iterator[str]:
        self._find()
        return iter(self.data)

    def _find(self) -> None:
        """Import the modules that are not named, and add their commands."""
        while self._others:
            for member in vars(import_module(self._others.pop(0))).values():
                if isinstance(member, PactCommand) and member.name is not None:
                    self.data.setdefault(member.name, member)
