"""Settings of a project: `pact.toml`, or `[tool.pact-eval]` in pyproject.toml, and `PACT_EVAL_*`.

The nearest file is used, searched upwards from the current folder. Paths in it start from its
folder. The command line comes first, then the environment, the file, and the option's default.

    data = "data"                                  eval = "holdout.jsonl"
    base-model = "models/base"                     runs = "runs"
    k = 4                                          decoding = "single"
    [arms.pact]                                    name = "PACT (ours)"
    [options.score]                                device = "cuda"

`SETTINGS` lists every setting and the options that it is the default of. Every other option of a
command has its default in the table `options.COMMAND` (`option_settings.py`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import click

from pact_cli.commands import COUNT, INTEGER, NATURAL, choice
from pact_eval._choices import Decoding
from pact_eval._files import is_url, read_text, read_toml
from pact_eval.errors import InputError

NAME: Final = "pact.toml"
"""The file of settings; `[tool.pact-eval]` in pyproject.toml holds the same."""

PREFIX: Final = "PACT_EVAL_"
"""Of environment variables: `PACT_EVAL_K` is `k`."""

CONFIG_VARIABLE: Final = "PACT_EVAL_CONFIG"
"""Path of the file to use instead of the nearest one; empty for none."""

_PROJECT = "pyproject.toml"
_TOOL = "pact-eval"
_TABLES = ("arms", "options")
_ARM_KEYS = ("colour", "marker", "name")


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        name: its key in the file.
        type: of its value.
        meaning: what it is, in a sentence.
        kind: "path" starts from the folder of the file; "model" is a path, or the id of a hub.
        options: by command, the parameter that it is the default of.
    """

    name: str
    type: click.ParamType[Any]
    meaning: str
    kind: Literal["value", "path", "model"] = "value"
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def variable(self) -> str:
        """The environment variable with the same meaning.

        Example:
            >>> Setting("base-model", click.STRING, "").variable
            'PACT_EVAL_BASE_MODEL'
        """
        return PREFIX + self.name.upper().replace("-", "_")


def _each(parameter: str, *commands: str) -> dict[str, str]:
    return dict.fromkeys(commands, parameter)


_RESAMPLING = ("report", "compare", "paper", "thresholds", "scorecard", "data")

SETTINGS: Final = {
    setting.name: setting
    for setting in (
        Setting(
            "data",
            click.STRING,
            "Folder of the dataset, with its manifest.json.",
            "path",
            _each("data", "score", "report", "compare", "paper") | {"data": "folder"},
        ),
        Setting("eval", click.STRING, "Evaluation file in the folder of the dataset."),
        Setting(
            "base-model",
            click.STRING,
            "Folder or hub id of the base model.",
            "model",
            _each("base_model", "score", "decide", "export"),
        ),
        Setting("runs", click.STRING, "Folder of runs.", "path", {"runs": "folders"}),
        Setting(
            "k",
            COUNT,
            "Views per record.",
            options=_each("k", "score", "data"),
        ),
        Setting(
            "train-seed",
            INTEGER,
            "Seed that adapters were trained with.",
            options=_each("seed", "score", "import"),
        ),
        Setting(
            "order-seed",
            INTEGER,
            "Seed of the letter orders.",
            options=_each("order_seed", "score", "decide"),
        ),
        Setting(
            "bootstrap-seed",
            NATURAL,
            "Seed of the bootstrap.",
            options=_each("seed", *_RESAMPLING),
        ),
        Setting(
            "decoding",
            choice(Decoding),
            "View 0 alone, or the mean over all K views.",
            options=_each("decoding", "report", "compare", "calibrate", "paper"),
        ),
        Setting(
            "method",
            click.STRING,
            "Arm that the others are compared with.",
            options=_each("method", "report", "paper"),
        ),
        Setting(
            "criteria",
            click.STRING,
            "Hypotheses to judge.",
            "path",
            _each("criteria", "report", "paper", "verify"),
        ),
    )
}  # fmt: skip
"""Every setting by its name; `arms` is a table besides them."""

_MULTIPLE = {("report", "data"), ("compare", "data"), ("paper", "data"), ("runs", "folders")}


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
        of_command: those of the command that runs, checked, by the name of the parameter.
    """

    path: Path | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    arms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    of_command: Mapping[str, Value] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """The display names of arms, by key."""
        return {
            arm: attributes["name"] for arm, attributes in self.arms.items() if "name" in attributes
        }

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a setting, or a default."""
        value = self.values.get(name)
        return default if value is None else value.value

    def defaults(self, command: str) -> dict[str, Value]:
        """Return the default values of a command's parameters, by the name of the parameter.

        Example:
            >>> Config(values={"k": Value(2, "pact.toml")}).defaults("score")
            {'k': Value(value=2, source='pact.toml')}
        """
        defaults = {}
        for name, value in self._of_options().items():
            parameter = SETTINGS[name].options.get(command)
            if parameter is not None:
                many = (command, parameter) in _MULTIPLE
                defaults[parameter] = Value((value.value,) if many else value.value, value.source)
        evaluation = self.evaluation_file
        if command == "score" and evaluation is not None:
            defaults["data"] = evaluation
        from_environment = {
            name: value for name, value in defaults.items() if value.source.startswith(PREFIX)
        }
        return defaults | {**self.of_command} | from_environment

    def _of_options(self) -> dict[str, Value]:
        return {name: value for name, value in self.values.items() if name in SETTINGS}

    @property
    def evaluation_file(self) -> Value | None:
        """The evaluation file, if it is set."""
        evaluation = self.values.get("eval")
        if evaluation is None:
            return None
        return Value(str(Path(self.get("data", "data")) / evaluation.value), evaluation.source)


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
    return replace(config, values={**config.values} | _from_environment(environment))


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
            message = (
                f"{folder}: two files of settings: {NAME}, and [tool.{_TOOL}] in {_PROJECT}; "
                "keep one of them"
            )
            raise InputError(message)
        if paths:
            return paths[0]
    return None


def _has_settings(path: Path) -> bool:
    if not path.is_file():
        return False
    return path.name == NAME or isinstance(_tool_table(path), dict)


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
        message = f"{shown}: expected a table [tool.{_TOOL}]"
        raise InputError(message)
    where = str(shown) if path.name != _PROJECT else f"{shown}: [tool.{_TOOL}]"
    refuse_unknown(where, table, (*SETTINGS, *_TABLES))
    values = {
        name: Value(_placed(SETTINGS[name], _checked(where, name, value), shown.parent), str(shown))
        for name, value in table.items()
        if name not in _TABLES
    }
    arms, options = _arms(where, table.get("arms", {})), _options(where, table.get("options", {}))
    return Config(path, values, arms, options)


def _placed(setting: Setting, value: Any, folder: Path) -> Any:
    return value if setting.kind == "value" else placed(setting.kind, value, folder)


def placed(kind: Literal["path", "model"], value: str, folder: Path) -> str:
    """Let a path start from the current folder.

    Args:
        kind: "model" may be the id of a hub too, unless there is such a path. A URL stays as it is.
        value: the path, from the folder of the file of settings.
        folder: that folder.
    """
    if is_url(value):
        return value
    path = folder / Path(value).expanduser()
    if kind == "path" or path.exists() or str(value).startswith((".", "/", "~")):
        return str(path)
    return value


def _checked(where: str, name: str, value: object) -> Any:
    """Check the value of a setting in a file.

    Raises:
        InputError: it has the wrong type, or is out of range.
    """
    kind = SETTINGS[name].type
    expected_type = int if isinstance(kind, click.types.IntParamType) else str
    if not isinstance(value, expected_type) or isinstance(value, bool):
        word = "an integer" if expected_type is int else "text in quotes"
        message = f"{where}: {name}: expected {word}, got {value!r:.60}"
        raise InputError(message)
    return _converted(f"{where}: {name}", kind, value)


def _converted(place: str, kind: click.ParamType[Any], value: object) -> Any:
    try:
        return kind.convert(value, None, None)
    except click.BadParameter as error:
        message = f"{place}: {error.message}"
        raise InputError(message) from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, Value]:
    by_variable = {setting.variable: setting for setting in SETTINGS.values()}
    variables = {name: text for name, text in environment.items() if name.startswith(PREFIX)}
    refuse_unknown("environment", variables, (*by_variable, CONFIG_VARIABLE))
    return {
        by_variable[name].name: Value(_converted(name, by_variable[name].type, text), name)
        for name, text in variables.items()
        if name in by_variable and text
    }


def _arms(where: str, value: object) -> Mapping[str, Mapping[str, str]]:
    arms = _table(f"{where}: arms", value)
    for name, look in arms.items():
        place = f"{where}: arms.{name:.60}"
        refuse_unknown(place, _table(place, look), _ARM_KEYS)
        for key, text in look.items():
            if not isinstance(text, str):
                message = f"{place}: {key}: expected text in quotes, got {text!r:.60}"
                raise InputError(message)
    if arms:
        from pact_eval.evaluation.arm_names import read_names

        read_names(where, arms)
    return arms


def _options(where: str, value: object) -> Mapping[str, Mapping[str, object]]:
    options = _table(f"{where}: options", value)
    if options:
        from pact_cli.audit.main import COMMANDS as AUDITS
        from pact_cli.main import COMMANDS

        refuse_unknown(f"{where}: options", options, (*COMMANDS.data, *AUDITS.data))
    return {name: _table(f"{where}: options.{name}", table) for name, table in options.items()}


def _table(place: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        message = f"{place}: expected a table, got {value!r:.60}"
        raise InputError(message)
    return value


def refuse_unknown(where: str, settings: Mapping[str, object], allowed: Sequence[str]) -> None:
    """Refuse names that are not allowed.

    Raises:
        InputError: there is one; the message has the nearest name that is allowed.
    """
    unknown = [name for name in settings if name not in allowed]
    if not unknown:
        return
    import difflib

    name = f"{unknown[0]:.60}"
    near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(allowed)}"
    message = f"{where}: unknown setting {name!r}; {hint}"
    raise InputError(message)


def option_values(
    command: click.Command, more: Sequence[click.Parameter], config: Config
) -> dict[str, Value]:
    """Return the values that the settings have for the options of a command.

    Args:
        command: the command.
        more: options that every command has.
        config: the settings; paths in them start from the folder of their file.

    Returns:
        By the name of the parameter, its value, to be converted as one of the command line.

    Raises:
        InputError: an option is not known, or a value has the wrong type.
    """
    shown = shown_path(config.path or Path())
    table = config.options[command.name or ""]
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
            _value(f"{where}: {key}", by_key[key], value, shown.parent), str(shown)
        )
        for key, value in table.items()
    }


def _value(place: str, option: click.Option, value: object, folder: Path) -> Any:
    """Return the value of an option, checked.

    Raises:
        InputError: it has the wrong type, or is out of range.
    """
    if option.is_flag:
        if not isinstance(value, bool):
            message = f"{place}: expected true or false, got {value!r:.60}"
            raise InputError(message)
        return value if option.flag_value is not False else not value  # such as --no-probe
    if option.multiple:
        values = value if isinstance(value, list) else [value]
        return tuple(_single(place, option, item, folder) for item in values)
    return _single(place, option, value, folder)


def _single(place: str, option: click.Option, value: object, folder: Path) -> Any:
    numbers = (click.types.IntParamType, click.types.FloatParamType)
    expected_type = (int, float) if isinstance(option.type, numbers) else str
    if not isinstance(value, expected_type) or isinstance(value, bool):
        word = "a number" if isinstance(option.type, numbers) else "text in quotes"
        message = f"{place}: expected {word}, got {value!r:.60}"
        raise InputError(message)
    if isinstance(value, str) and isinstance(option.type, click.Path):
        return placed("path", value, folder)
    if isinstance(value, str) and "PATH" in (option.metavar or ""):
        return placed("model", value, folder)
    try:
        option.type.convert(value, None, None)
    except click.BadParameter as error:
        message = f"{place}: {error.message}"
        raise InputError(message) from None
    return value
