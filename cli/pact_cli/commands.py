"""Commands made of functions: the signature has the options, the docstring says what they mean.

    @command
    def demo(*, limit: Count | None = None) -> None:
        \"\"\"Score the bundled adapters.

        Data:
            --limit: Score only the first N records.
        \"\"\"

Parameters before the `*` are arguments, the others options. A heading of the docstring is one of
`--help`. Options that several commands share are the parameters of a function too: `gathered` adds
them to a command, which gets what the function returns. `--help` shows the options of every day,
`--help-all` also rare ones, and settings: they are no options, but lines of pact.toml.
"""

from __future__ import annotations

import copy
import inspect
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import click
from click.core import ParameterSource

from pact_cli.config import Config, Value, read_config
from pact_cli.console import CI_FORMAT, JSON, QUIET, VERBOSE, announce, warn
from pact_cli.param_types import INTEGER, PATH
from pact_cli.steps import watched_steps
from pact_eval._choices import CiFormat
from pact_eval.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])

Group: TypeAlias = Literal[
    "Data", "Model", "Server", "Views", "Numbers", "Checks", "Speed", "Output", "More", "Settings"
]
"""A group of options in `--help`."""

GROUPS: Final[tuple[Group, ...]] = get_args(Group)
"""The groups, in the order in which `--help` shows them."""

MORE: Final = "More"
"""The group of rare options, which `--help-all` shows."""

SETTING: Final = "Settings"
"""The group of values that the command line does not have: `[options.COMMAND]` of pact.toml."""

HELP_ALL: Final = "pact.help_all"
"""Key in the context of a command: whether its help shows everything."""

CHOSEN: Final = "pact.chosen"
"""Key in the context of a command: what its parameters chose, each with its reason."""

_SECTION: Final = re.compile(rf"^({'|'.join(GROUPS)}):\n", re.MULTILINE)
_ENTRY: Final = re.compile(r"^    (?:(-\w), )?(--[\w-]+)(?: (\S+))?: ", re.MULTILINE)
_HELP: Final = ("-h", "--help", "--help-all")
_TARGETS: Final = ("out", "html", "markdown")
"""Parameters that name a file or folder to write."""


@dataclass(frozen=True)
class Doc:
    """What `--help` says of an option: in a docstring, or in the annotation of a parameter.

    Attributes:
        name: the option, such as `--out`.
        text: its meaning.
        group: its group in `--help`.
        short: its short name, such as `-o`.
        metavar: name of its value; None takes that of the type.
    """

    name: str
    text: str
    group: str = "Output"
    short: str | None = None
    metavar: str | None = None


class Option(click.Option):
    """An option in a group of `--help`; in the group of settings, the command line lacks it."""

    group: str = "Output"

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser accept the option, unless it is a setting."""
        if self.group != SETTING:
            super().add_to_parser(parser, ctx)

    def moved(self, group: Group) -> Option:
        """Return the option in another group."""
        option = copy.copy(self)
        option.group = group
        option.hidden = group == SETTING
        return option


def documented(docstring: str | None) -> tuple[str, dict[str, Doc]]:
    """Return a docstring without its options, and these by their names.

    Example:
        >>> lines = ("Score.", "", "Data:", "    -n, --limit N: The first", "        N.")
        >>> text, options = documented(chr(10).join(lines))
        >>> text, options["--limit"].text
        ('Score.', 'The first N.')
    """
    text, *sections = _SECTION.split(inspect.cleandoc(docstring or ""))
    docs = {}
    for group, section in zip(sections[::2], sections[1::2], strict=True):
        _, *parts = _ENTRY.split(section)
        for short, name, metavar, meaning in zip(*(parts[i::4] for i in range(4)), strict=True):
            docs[name] = Doc(name, " ".join(meaning.split()), group, short, metavar)
    return text.strip(), docs


def parameters_of(
    function: Callable[..., Any], names: Iterable[str] | None = None
) -> list[click.Parameter]:
    """Return the parameters of the command line that a function has.

    Args:
        function: the function; its docstring has the options.
        names: those of its parameters to return; None returns all.
    """
    signature = inspect.signature(function).parameters
    _, docs = documented(function.__doc__)
    hints = get_type_hints(function, include_extras=True)
    wanted = signature if names is None else names
    return [_parameter(signature[name], hints[name], docs) for name in wanted]


def _parameter(parameter: inspect.Parameter, hint: Any, docs: Mapping[str, Doc]) -> click.Parameter:
    """Return the argument or option of one parameter."""
    name = parameter.name
    kind, many = _type_of(hint)
    required = parameter.default is parameter.empty
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    if parameter.kind is not parameter.KEYWORD_ONLY:
        metavar = next((note for note in notes if isinstance(note, str)), None)
        callback = next((note for note in notes if isinstance(note, FunctionType)), None)
        return click.Argument(
            [name],
            type=kind,
            required=required,
            metavar=metavar,
            nargs=-1 if many else 1,
            callback=callback,
        )
    called = "--" + name.strip("_").replace("_", "-")
    negated = called.replace("--", "--no-", 1)
    doc = next((note for note in notes if isinstance(note, Doc)), None)
    doc = doc or docs.get(called) or docs[negated]
    attributes: dict[str, Any] = {"type": kind, "multiple": many}
    if kind is click.BOOL:
        attributes = {"is_flag": True, "flag_value": doc.name != negated}
    if not required and not any(parameter.default is empty for empty in (None, (), False)):
        attributes |= {"default": parameter.default, "show_default": kind is not click.BOOL}
    declarations = [*filter(None, (doc.short,)), doc.name, name]
    made = Option(declarations, help=doc.text, metavar=doc.metavar, required=required, **attributes)
    made.group = doc.group
    return made


def _type_of(hint: Any) -> tuple[click.ParamType[Any], bool]:
    """Return the type of an annotation, and whether it takes several values."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        noted = [note for note in parts[1:] if isinstance(note, click.ParamType)]
        kind, many = (noted[0], get_origin(parts[0]) is tuple) if noted else _type_of(parts[0])
        return kind, many
    if origin in (Union, UnionType):
        parts = tuple(part for part in parts if part is not NoneType)
        if len(parts) == 1:
            return _type_of(parts[0])
        return click.Choice([name for part in parts for name in get_args(part)]), False
    if origin is Literal:
        return click.Choice(parts), False
    if origin is tuple:
        return _type_of(parts[0])[0], True
    return {bool: click.BOOL, int: INTEGER, str: click.STRING, Path: PATH}[hint], False


def gathered(
    name: str, make: Callable[..., object], parameters: Sequence[click.Parameter] | None = None
) -> Callable[[Function], Function]:
    """Add options to a command, which gets `make(**values)` as its argument `name`.

    Args:
        name: the argument.
        make: makes it of the values of the options.
        parameters: the options; None takes all parameters of `make`.
    """
    options = parameters_of(make) if parameters is None else parameters

    def decorate(function: Function) -> Function:
        groups = vars(function).setdefault("__option_groups__", {})
        vars(function)["__option_groups__"] = {name: (make, options), **groups}
        return function

    return decorate


class PactCommand(click.Command):
    """A command with the settings of the project as defaults.

    Args:
        arguments: as for `click.Command`.
        announces: whether the command itself calls `announce_choices`, with more to say.
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
        tells_steps: bool = False,
        reads_settings: bool = True,
        elsewhere: Mapping[str, str] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.announces = announces
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
        config = Config()
        if self.reads_settings:
            try:
                config = read_config().of_command(self, _VERBOSITY)
            except InputError as error:
                completing = bool(extra.get("resilient_parsing"))
                if not completing and not any(name in args for name in _HELP):
                    raise
                if not completing:
                    warn([f"{error}; the defaults below are those without settings"])
        defaults = {name: default.value for name, default in config.defaults.items()}
        return super().make_context(
            info_name, args, parent, default_map=defaults, obj=config, **extra
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; an option that another command has is named with that command."""
        try:
            rest = super().parse_args(ctx, _with_values(self.params, args))
        except click.NoSuchOption as error:
            place = self._place_of(error.option_name)
            if place is None:
                raise
            raise click.UsageError(
                f"{error.option_name} is not an option of {self.name}; use: {place}", ctx
            ) from None
        refuse(
            ctx.meta.get(JSON) and ctx.meta.get(CI_FORMAT),
            "--json and --format both say what stdout has: give one of them",
        )
        return rest

    def _place_of(self, option: str) -> str | None:
        """Return where an option is that is not on the command line; None if it is nowhere."""
        key = option.lstrip("-")
        settings = {name.lstrip("-") for option in _in_group(self, SETTING) for name in option.opts}
        if key in settings:
            return f"{key} = ... below [options.{self.name}] in pact.toml"
        return self.elsewhere.get(option)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, with `-q`, `-v` and `--help` at the end."""
        *own, last = super().get_params(ctx)
        return [*own, *_VERBOSITY, last]

    def invoke(self, ctx: click.Context) -> Any:
        """Say which settings of the project are used, and run the command."""
        if not self.announces:
            announce_choices()
        verbose = ctx.meta.get(VERBOSE, False)
        if verbose:
            announce(_sources(ctx))
        told = verbose or (self.tells_steps and sys.stderr.isatty())
        targets = [ctx.params[name] for name in _TARGETS if ctx.params.get(name)]
        started = time.monotonic()
        try:
            with watched_steps(told=told, targets=targets):
                return super().invoke(ctx)
        finally:
            if verbose:
                announce([f"{ctx.info_name}: {time.monotonic() - started:.1f} s"])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups; one group alone needs no name."""
        everything = ctx.meta.get(HELP_ALL, False)
        shown: tuple[str, ...] = GROUPS if everything else GROUPS[:-2]
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in shown}
        for option in self.get_params(ctx):
            group = getattr(option, "group", "Output")
            if isinstance(option, click.Option) and group in groups:
                record = _help_record(option, ctx)
                if record is not None:
                    groups[group].append(record)
        filled = {name: records for name, records in groups.items() if records}
        for name, records in filled.items():
            heading = f"Settings below [options.{self.name}] in pact.toml"
            with formatter.section(
                heading if name == SETTING else name if len(filled) > 1 else "Options"
            ):
                formatter.write_dl(records)
        left = len([*_in_group(self, MORE), *_in_group(self, SETTING)])
        if left and not everything:
            formatter.write_paragraph()
            formatter.write_text(f"{left} rare options and settings: {ctx.command_path} --help-all")


def _in_group(command: click.Command, group: Group) -> list[Option]:
    """Return the options of a command in a group."""
    options = (each for each in command.params if isinstance(each, Option))
    return [option for option in options if option.group == group]


def _help_record(option: click.Option, ctx: click.Context) -> tuple[str, str] | None:
    """Return the name and the help of an option, or of a setting."""
    shown = copy.copy(_with_source(option, ctx))
    is_setting = getattr(option, "group", None) == SETTING
    shown.hidden = shown.hidden and not is_setting
    record = shown.get_help_record(ctx)
    return (record[0].removeprefix("--"), record[1]) if record and is_setting else record


def command(
    name: str | None = None,
    *,
    more: Sequence[str] = (),
    settings: Sequence[str] = (),
    for_ci: bool = False,
    for_json: bool = True,
    **attributes: Any,
) -> Callable[[Callable[..., Any]], PactCommand]:
    """Return a decorator that makes a command of a function.

    Args:
        name: of the command; None takes that of the function.
        more: parameters that `--help-all` alone shows.
        settings: parameters that are not on the command line, but in pact.toml.
        for_ci: whether it has --format, which `emit` obeys.
        for_json: whether it has --json, which `emit` obeys.
        attributes: as for `PactCommand`.
    """
    moved: dict[str | None, Group] = {**dict.fromkeys(more, "More")}
    moved |= dict.fromkeys(settings, "Settings")

    def decorate(function: Callable[..., Any]) -> PactCommand:
        groups: dict[str, Any] = getattr(function, "__option_groups__", {})

        def run(**values: Any) -> Any:
            for group, (make, parameters) in groups.items():
                values[group] = make(**{each.name: values.pop(each.name) for each in parameters})
            return function(**values)

        names = [*inspect.signature(function).parameters]
        own = parameters_of(function, [each for each in names if each not in groups])
        by_name = {each.name: [each] for each in own}
        lists = [groups[each][1] if each in groups else by_name[each] for each in names]
        lists += [[_for_ci()]] if for_ci else []
        lists += [[_for_json()]] if for_json else []
        parameters = [
            parameter.moved(moved[parameter.name])
            if isinstance(parameter, Option) and parameter.name in moved
            else parameter
            for each in lists
            for parameter in each
        ]
        called = name or function.__name__.replace("_", "-")
        text, _ = documented(function.__doc__)
        return PactCommand(called, callback=run, params=parameters, help=text, **attributes)

    return decorate


def _for_ci() -> Option:
    def note(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
        ctx.meta[CI_FORMAT] = value

    return Option(
        ["--format", "ci_format"],
        type=click.Choice(get_args(CiFormat)),
        expose_value=False,
        callback=note,
        help="Print the result for CI: SARIF 2.1.0, JUnit XML, or annotations of GitHub Actions, "
        "which also get a summary in $GITHUB_STEP_SUMMARY. Exit codes stay the same.",
    )


def _for_json() -> Option:
    """Return `--json`, whose value `emit` finds in the context."""

    def note(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        ctx.meta[JSON] = value

    return Option(
        ["--json", "as_json"],
        is_flag=True,
        expose_value=False,
        callback=note,
        help="Print one JSON object and nothing else to stdout.",
    )


def config_of(ctx: click.Context) -> Config:
    """Return the settings that a command was started with."""
    return ctx.obj if isinstance(ctx.obj, Config) else Config()


def from_settings(name: str | None) -> bool:
    """Return whether a parameter of the current command has its value from the settings."""
    source = click.get_current_context().get_parameter_source(name or "")
    return source is ParameterSource.DEFAULT_MAP


def given(names: Iterable[str]) -> list[str]:
    """Return those of some parameters that are on the command line, as it calls them."""
    context, names = click.get_current_context(), [*names]
    return [
        max(parameter.opts, key=len) if isinstance(parameter, click.Option) else called(parameter)
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    ]


def refuse(problem: object, message: str) -> None:
    """Refuse the command line if there is a problem.

    Raises:
        click.UsageError: there is one.
    """
    if problem:
        raise click.UsageError(message)


def refuse_given(names: Iterable[str], message: str) -> None:
    """Refuse parameters on the command line; `{}` in the message stands for the first of them.

    Raises:
        click.UsageError: one of them is given.
    """
    for called in given(names):
        raise click.UsageError(message.replace("{}", called))


def announce_choices(more: Sequence[str] = ()) -> None:
    """Say on stderr, in one line, what was not given on the command line but chosen.

    Args:
        more: choices of the command itself, each with its reason.
    """
    ctx = click.get_current_context()
    named = {parameter.name: parameter for parameter in ctx.command.params}
    more = (*ctx.meta.get(CHOSEN, ()), *more)
    chosen = [
        f"{called(named[name])} {_text(default)} ({default.source})"
        for name, default in config_of(ctx).defaults.items()
        if name in named and from_settings(name)
    ]
    if chosen or more:
        announce([f"Using {', '.join((*more, *chosen))}"])


def called(parameter: click.Parameter) -> str:
    """Return what users call a parameter."""
    if isinstance(parameter, click.Option):
        return parameter.opts[0]
    return parameter.make_metavar(click.get_current_context()).strip("[]").rstrip(".")


def _text(default: Value) -> str:
    values = default.value if isinstance(default.value, tuple) else (default.value,)
    return " ".join(map(str, values))


def _sources(ctx: click.Context) -> Iterable[str]:
    """Return a line for each option that has a value: the value, and where it is from."""
    configured = config_of(ctx).defaults
    for parameter in ctx.command.params:
        name = str(parameter.name)
        value, source = ctx.params.get(name), ctx.get_parameter_source(name)
        if value in (None, (), False) or not parameter.expose_value:
            continue
        where = "command line" if source is ParameterSource.COMMANDLINE else "default"
        if source is ParameterSource.DEFAULT_MAP and name in configured:
            where = configured[name].source
        shown = " ".join(map(str, value)) if isinstance(value, tuple) else value
        yield f"  {called(parameter)} {shown} ({where})"


def _with_source(parameter: click.Option, ctx: click.Context) -> click.Option:
    """Let the help of an option say that its default is from the settings of the project."""
    configured = config_of(ctx).defaults.get(str(parameter.name))
    if configured is None:
        return parameter
    shown = copy.copy(parameter)
    shown.show_default = False
    kept = shown.help or ""
    shown.help = f"{kept}  [default: {_text(configured)}, from {configured.source}]"
    return shown


def _with_values(parameters: Sequence[click.Parameter], words: Sequence[str]) -> list[str]:
    """Give an option that may be alone its value, if the next word is not one.

    The type of such an option has a value `alone`, and a function `accepts` of the next word.
    """
    optional = {
        name: parameter.type
        for parameter in parameters
        if hasattr(parameter.type, "alone")
        for name in parameter.opts
    }
    complete = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        kind: Any = optional.get(word)
        alone = kind is not None and not kind.accepts(following)
        complete.append(f"{word}={kind.alone}" if alone else word)
    return complete


def _flag(names: Sequence[str], key: str, text: str) -> click.Option:
    def note(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        ctx.meta[key] = ctx.meta.get(key, False) or value

    return click.Option(names, is_flag=True, expose_value=False, callback=note, help=text)


def _show_everything(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[HELP_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_VERBOSITY: Final[list[click.Parameter]] = [
    _flag(["-q", "--quiet"], QUIET, "Show no progress and no remarks; warnings and errors stay."),
    _flag(
        ["-v", "--verbose"],
        VERBOSE,
        "Show every option with where its value is from, the time of each step, and reasons for "
        "files that were not made.",
    ),
    click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_everything,
        hidden=True,
        help="Show rare options and settings too.",
    ),
]
