"""Letter priors as JSON.

    {"method": "additive" | "batch",
     "log_prior": {C: [log-preference of letter A, B, ... in nats, mean 0]},
     "items": {C: number of items of the fit}, "views": {C: views of each of them}}

C, the number of answers, is text: keys of JSON objects are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import numpy as np

from pact_eval._json import Json, finite_number
from pact_eval._typing import FloatArray
from pact_eval.errors import InputError
from pact_eval.remedies.letter_priors import LetterPrior, PriorMethod


def prior_to_json(prior: LetterPrior) -> dict[str, Json]:
    """Return the JSON object of a letter prior."""
    return {
        "method": prior.method,
        "log_prior": {str(count): [*map(float, row)] for count, row in prior.log_prior.items()},
        "items": {str(count): items for count, items in prior.items.items()},
        "views": {str(count): views for count, views in prior.views.items()},
    }


def prior_from_json(value: Json, where: str) -> LetterPrior:
    """Read what `prior_to_json` returned, strictly.

    Args:
        value: the parsed JSON.
        where: its place, for messages.

    Raises:
        InputError: something is missing or of the wrong type.
    """
    if not isinstance(value, dict) or value.get("method") not in get_args(PriorMethod):
        methods = ", ".join(get_args(PriorMethod))
        raise InputError(f"{where}: expected an object with a method ({methods})")
    method: PriorMethod = value["method"]  # type: ignore[assignment]  # checked above
    rows = _by_count(value.get("log_prior"), f"{where}: log_prior")
    log_prior = {count: _row(row, count, f"{where}: log_prior") for count, row in rows.items()}
    items = _wholes(value.get("items"), f"{where}: items")
    views = _wholes(value.get("views"), f"{where}: views")
    if not log_prior or not log_prior.keys() == items.keys() == views.keys():
        raise InputError(f"{where}: expected items and views of each number of answers")
    return LetterPrior(method, log_prior, items, views)


def _by_count(value: Json, where: str) -> dict[int, Json]:
    keys: Mapping[str, Json] = value if isinstance(value, dict) else {"": None}
    if not all(key.isascii() and key.isdigit() and int(key) > 1 for key in keys):
        raise InputError(f"{where}: expected an object by number of answers, from 2")
    return {int(key): row for key, row in keys.items()}


def _row(value: Json, count: int, where: str) -> FloatArray:
    numbers = [finite_number(number) for number in value] if isinstance(value, list) else []
    if len(numbers) != count or None in numbers:
        raise InputError(f"{where}: {count}: expected {count} finite numbers")
    return np.array(numbers, dtype=np.float64)


def _wholes(value: Json, where: str) -> dict[int, int]:
    wholes: dict[int, int] = {}
    for count, number in _by_count(value, where).items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise InputError(f"{where}: {count}: expected a whole number from 1")
        wholes[count] = number
    return wholes
