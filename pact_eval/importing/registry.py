"""The registry of import formats: the modules of `formats`, found by their files.

The name of a format is that of its module: `lm_eval.py` is lm-eval. So the names are known before
any format is imported. To add one, write a module there with `SOURCE`, an instance of a subclass of
`Source` (`source.py`). `--from`, the detection by content, the messages and the table of the docs
then have it.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

from pact_eval.errors import InputError
from pact_eval.importing import formats

if TYPE_CHECKING:  # the names do not wait for polars
    from pact_eval.importing.source import Source


def source_names() -> tuple[str, ...]:
    """Return the names of the formats, for `--from`.

    Example:
        >>> source_names()[:3]
        ('chat', 'decguard', 'decision-index')
    """
    modules = pkgutil.iter_modules(formats.__path__)
    return tuple(sorted(module.name.replace("_", "-") for module in modules))


def source_of(name: str) -> Source:
    """Return the format of a name.

    Raises:
        InputError: there is no such format; the message lists the names.
    """
    if name not in source_names():
        raise InputError(f"--from {name}: expected one of {', '.join(source_names())}")
    source: Source = import_module(f"{formats.__name__}.{name.replace('-', '_')}").SOURCE
    return source


def sources() -> tuple[Source, ...]:
    """Return every format, in the order in which they are tried: rows of our own come last."""
    return tuple(sorted(map(source_of, source_names()), key=lambda source: source.own))
