"""Options of one command in the settings: the table `[options.COMMAND]` of `pact.toml`.

[options.score]
device = "cuda"                                # a value
merge = true                                   # an option without a value
allow = ["trained-on", "other-data"]           # one that may be given several times
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pact_cli.config import Config, Value, placed, refuse_unknown, shown_path
from pact_eval.errors import InputError


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
