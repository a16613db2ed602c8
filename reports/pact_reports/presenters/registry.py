"""The registry of presenters: the modules of this package, found by the type of a result.

The module of a type has its name, or that of a base: `AnswerSets` is in `answer_sets.py`. Its
function `present` takes the result, and keywords with defaults for what only a command knows. What
no function of the API returns has a module with the name of its command.
"""

from __future__ import annotations

import re
from importlib import import_module

from pact_reports.presenters.presenter import Presenter

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


def presenter_of(result: object) -> Presenter:
    """Return the presenter of a result.

    Args:
        result: what a function of `pact_eval` returned.

    Raises:
        TypeError: no module has the name of its type.

    Example:
        >>> presenter_of("text")
        Traceback (most recent call last):
            ...
        TypeError: no presenter of results of type str
    """
    for kind in type(result).__mro__:
        module_name = f"{__package__}.{_WORD.sub('_', kind.__name__).lower()}"
        try:
            presenter: Presenter = import_module(module_name).present(result)
        except ModuleNotFoundError as error:
            if error.name != module_name:
                raise
        else:
            return presenter
    message = f"no presenter of results of type {type(result).__name__}"
    raise TypeError(message)
