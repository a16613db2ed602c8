"""Settings of a project: `pact.toml`, or `[tool.pact-eval]` in pyproject.toml, and `PACT_EVAL_*`.

The nearest file is used, searched upwards from the current folder. Paths in it start from its
folder. The command line comes first, then the environment, the file, and the option's default.

    data = "data"                                  eval = "holdout.jsonl"
    base-model = "models/base"                     runs = "runs"
    k = 4                                          decoding = "single"
    [arms.pact]                                    name = "PACT (ours)"
    [options.score]                                device = "cuda"

`SETTINGS` lists every setting and the commands whose default it is. Every other option of a command
has its default in the table `options.COMMAND`. Commands get all of them as click's `default_map`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import click

from pact_cli.param_types import COUNT, INTEGER, NATURAL, choice
from pact_eval._choices import Decoding
from pact_eval._files import is_url, read_text, read_toml
from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import read_names

NAME: Final = "pact.toml"
"""The file of settings; `[tool.pact-eval]` in pyproject.toml holds the same."""

PREFIX: Final = "PACT_EVAL_"
"""Of environment variables: `PACT_EVAL_BASE_MODEL` is `base-model`."""

CONFIG_VARIABLE: Final = "PACT_EVAL_CONFIG"
"""Path of the file to use instead of the nearest one; empty for none."""

_PROJECT = "pyproject.toml"
_TOOL = "pact-eval"
_ARM_KEYS = ("colour", "marker", "name")


@dataclass(frozen=True)
class Setting:
    """One setting, the default of options with its name.

    Attributes:
        type: of its value.
        commands: those whose option it is the default of.
        place: "path" starts from the folder of the file; "model" is a path, or the id of a hub.
        arguments: by command, another parameter that it is the default of.
    """

    type: click.ParamType[Any]
    commands: tuple[str, ...] = ()
    place: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)


_TEXT: Final = click.STRING
SETTINGS: Final = {
    "data": Setting(
        _TEXT, ("score", "report", "compare", "paper"), "path", arguments={"data": "folder"}
    ),
    "eval": Setting(_TEXT),  # a file in the folder of `data`
    "base-model": Setting(_TEXT, ("score", "decide", "export"), "model"),
    "runs": Setting(_TEXT, place="path"),
    "k": Setting(COUNT, ("score", "data")),
    "train-seed": Setting(INTEGER, ("score", "import")),
    "order-seed": Setting(INTEGER, ("score", "decide")),
    "bootstrap-seed": Setting(
        NATURAL, ("report", "compare", "paper", "thresholds", "scorecard", "data")
    ),
    "decoding": Setting(choice(Decoding), ("report", "compare", "calibrate", "paper")),
    "method": Setting(_TEXT, ("report", "paper", "scorecard")),
    "criteria": Setting(_TEXT, ("report", "paper", "verify"), "path"),
    "palette": Setting(_TEXT, ("report", "paper", "scorecard"), "path"),
}
"""Every setting by its name; `arms` and `options` are tables besides them."""

_VARIABLES: Final = {PREFIX + name.upper().replace("-", "_"): name for name in SETTINGS}


@dataclass(frozen=True)
class Value:
    """The value of a setting.

    Attributes:
        value: the value; a path starts from the current folder.
        source: where it is from: a file, or an environment variable.
    """

    value: Any
    source: str


@dataclass(frozen=True)
class Config:
    """The settings of a project.

    Attributes:
        path: the file, or None.
        values: by name, those that are set.
        arms: by arm, its colour, marker and display name.
        options: by command, the values of its options as the file has them.
        defaults: by the name of its parameter, the defaults of the command that runs.
    """

    path: Path | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    arms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    defaults: Mapping[str, Value] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """The display names of arms, by key."""
        return {arm: look["name"] for arm, look in self.arms.items() if "name" in look}

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a setting, or a default."""
        value = self.values.get(name)
        return default if value is None else value.value

    def of_command(self, command: click.Command, more: Sequence[click.Parameter] = ()) -> Config:
        """Return the settings with the defaults of the parameters of a command.

        Args:
            command: the command.
            more: options that every command has.

        Raises:
            InputError: its table has an unknown option, or a value of the wrong type.
        """
        called = command.name or ""
        parameters = {each.name: each for each in command.params}
        defaults: dict[str, Value] = {}
        for name, value in self.values.items():
            setting = SETTINGS[name]
            own = name.replace("-", "_") if called in setting.commands else None
            target = setting.arguments.get(called, own)
            if target in parameters:
                parameter = parameters[target]
                many = parameter.nargs == -1 or getattr(parameter, "multiple", False)
                defaults[target] = replace(value, value=(value.value,)) if many else value
        if called == "score" and "eval" in self.values:
            evaluation = self.values["eval"]
            place = str(Path(self.get("data", "data")) / evaluation.value)
            defaults["data"] = Value(place, evaluation.source)
        environment = {
            name: value for name, value in defaults.items() if value.source.startswith(PREFIX)
        }
        return replace(self, defaults=defaults | self._table_values(command, more) | environment)

    def _table_values(
        self, command: click.Command, more: Sequence[click.Parameter]
    ) -> dict[str, Value]:
        """Return the values of the table `options` of a command."""
        table = self.options.get(command.name or "", {})
        shown = shown_path(self.path or Path())
        by_key = {
            name.lstrip("-"): parameter
            for parameter in (*command.params, *more)
            if isinstance(parameter, click.Option)
            for name in parameter.opts
            if name.startswith("--")
        }
        where = f"{shown}: options.{command.name}"
        refuse_unknown(where, table, tuple(by_key))
        return {
            str(by_key[key].name): Value(
                _option_value(f"{where}: {key}", by_key[key], value, shown.parent), str(shown)
            )
            for key, value in table.items()
        }


def read_config(environment: Mapping[str, str] = os.environ) -> Config:
    """Read the settings of the project around the current folder, and of the environment.

    Args:
        environment: the environment variables.

    Raises:
        InputError: a file cannot be read, two files could be meant, or a key or a value is wrong.

    Example:
        >>> read_config({"PACT_EVAL_CONFIG": "", "PACT_EVAL_K": "2"}).get("k")
        2
    """
    named = environment.get(CONFIG_VARIABLE)
    path = Path(named) if named else None
    if named is None:
        path = find_config(Path.cwd())
    config = Config() if path is None else _from_file(path, shown_path(path))
    variables = {name: text for name, text in environment.items() if name.startswith(PREFIX)}
    refuse_unknown("environment", variables, (*_VARIABLES, CONFIG_VARIABLE))
    values = {
        _VARIABLES[name]: Value(_convert(name, SETTINGS[_VARIABLES[name]].type, text), name)
        for name, text in variables.items()
        if name in _VARIABLES and text
    }
    return replace(config, values={**config.values, **values})


def shown_path(path: Path) -> Path:
    """Return the path of a file of settings as messages call it: from the current folder."""
    return Path(os.path.relpath(path))


def find_config(start: Path) -> Path | None:
    """Return the nearest file of settings, in a folder or in one above it; None if there is none.

    Raises:
        InputError: one folder has two.
    """
    for folder in (start, *start.parents):
        paths = [path for path in (folder / NAME, folder / _PROJECT) if _has_settings(path)]
        if len(paths) > 1:
            raise InputError(
                f"{folder}: two files of settings: {NAME}, and [tool.{_TOOL}] in {_PROJECT}; "
                "keep one of them"
            )
        if paths:
            return paths[0]
    return None


def _has_settings(path: Path) -> bool:
    return path.is_file() and (path.name == NAME or isinstance(_tool_table(path), dict))


def _tool_table(path: Path) -> object:
    """Return `[tool.pact-eval]`; None if a file does not have it, even if it is not valid TOML."""
    text = read_text(path)
    if _TOOL not in text:
        return None
    try:
        tool = read_toml(path).get("tool")
    except InputError:
        if f"[tool.{_TOOL}" in text:
            raise
        return None
    return tool.get(_TOOL) if isinstance(tool, dict) else None


def _from_file(path: Path, shown: Path) -> Config:
    """Read the settings of a file; messages call it `shown`."""
    table: Any = _tool_table(path) if path.name == _PROJECT else read_toml(path)
    if not isinstance(table, dict):
        raise InputError(f"{shown}: expected a table [tool.{_TOOL}]")
    where = str(shown) if path.name != _PROJECT else f"{shown}: [tool.{_TOOL}]"
    refuse_unknown(where, table, (*SETTINGS, "arms", "options"))
    values = {}
    for name, setting in SETTINGS.items():
        if name in table:
            value = _check(f"{where}: {name}", setting.type, table[name])
            value = placed(setting.place, value, shown.parent) if setting.place else value
            values[name] = Value(value, str(shown))
    arms, options = _arms(where, table.get("arms", {})), _options(where, table.get("options", {}))
    return Config(path, values, arms, options)


def placed(place: str, value: str, folder: Path) -> str:
    """Let a path start from the current folder.

    Args:
        place: "path"; or "model", which may be the id of a hub too, unless there is such a path. A
            URL stays as it is.
        value: the path, from the folder of the file of settings.
        folder: that folder.
    """
    if is_url(value):
        return value
    path = folder / Path(value).expanduser()
    if place == "path" or path.exists() or str(value).startswith((".", "/", "~")):
        return str(path)
    return value


def _check(place: str, kind: click.ParamType[Any], value: object) -> Any:
    """Return a value of a file.

    Raises:
        InputError: it has the wrong type, or is out of range.
    """
    expected_type: Any = str
    word = "text in quotes"
    if isinstance(kind, click.types.IntParamType):
        expected_type, word = int, "an integer"
    elif isinstance(kind, click.types.FloatParamType):
        expected_type, word = (int, float), "a number"
    if not isinstance(value, expected_type) or isinstance(value, bool):
        raise InputError(f"{place}: expected {word}, got {value!r:.60}")
    _convert(place, kind, value)
    return value


def _convert(place: str, kind: click.ParamType[Any], value: object) -> Any:
    if isinstance(kind, click.Path):
        return value
    try:
        return kind.convert(value, None, None)
    except click.BadParameter as error:
        raise InputError(f"{place}: {error.message}") from None


def _option_value(place: str, option: click.Option, value: object, folder: Path) -> Any:
    """Return the value of an option in a file.

    Raises:
        InputError: it has the wrong type, or is out of range.
    """
    if option.is_flag:
        if not isinstance(value, bool):
            raise InputError(f"{place}: expected true or false, got {value!r:.60}")
        return value if option.flag_value is not False else not value  # such as --no-probe
    values = value if option.multiple and isinstance(value, list) else [value]
    where = "path" if isinstance(option.type, click.Path) else "model"
    is_place = where == "path" or "PATH" in (option.metavar or "")
    checked = [_check(place, option.type, item) for item in values]
    checked = [placed(where, item, folder) for item in checked] if is_place else checked
    return tuple(checked) if option.multiple else checked[0]


def _arms(where: str, value: object) -> Mapping[str, Mapping[str, str]]:
    arms = _table(f"{where}: arms", value)
    for name, look in arms.items():
        place = f"{where}: arms.{name:.60}"
        refuse_unknown(place, _table(place, look), _ARM_KEYS)
        for key, text in look.items():
            _check(f"{place}: {key}", _TEXT, text)
    read_names(where, arms)
    return arms


def _options(where: str, value: object) -> Mapping[str, Mapping[str, object]]:
    options = _table(f"{where}: options", value)
    if options:  # imported here: the programs import this module
        from pact_cli.audit.main import main as audit
        from pact_cli.main import main

        refuse_unknown(f"{where}: options", options, (*main.commands, *audit.commands))
    return {name: _table(f"{where}: options.{name}", table) for name, table in options.items()}


def _table(place: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{place}: expected a table, got {value!r:.60}")
    return value


def refuse_unknown(where: str, settings: Mapping[str, object], allowed: Sequence[str]) -> None:
    """Refuse names that are not allowed.

    Raises:
        InputError: there is one; the message has the nearest name that is allowed.
    """
    unknown = [name for name in settings if name not in allowed]
    if unknown:
        name = f"{unknown[0]:.60}"
        near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(allowed)}"
        raise InputError(f"{where}: unknown setting {name!r}; {hint}")
