"""Candidates of a tuned arm: each combination of the values that its settings may have."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeGuard

from pact_eval._json import Json, finite_number

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.+-]")
_LONGEST_LABEL: Final = 80


@dataclass(frozen=True)
class Candidate:
    """One combination of values.

    Attributes:
        label: its name within the arm, also of folders: the tuned settings and their values.
        settings: all settings of the training.
    """

    label: str
    settings: Mapping[str, Json]


def is_plain(value: object) -> TypeGuard[str | bool | int | float]:
    """Return whether a setting may have a value: text, true/false or a finite number."""
    return isinstance(value, str | bool | int) or finite_number(value) is not None


def tuned_settings(settings: Mapping[str, Json]) -> dict[str, tuple[Json, ...]]:
    """Return the settings that have a list of values, with these values.

    Examples:
        >>> tuned_settings({"rank": [8, 16], "epochs": 2})
        {'rank': (8, 16)}
    """
    return {key: tuple(value) for key, value in settings.items() if isinstance(value, list)}


def candidates_of(settings: Mapping[str, Json]) -> tuple[Candidate, ...]:
    """Return every combination of values, the values of the last list varying fastest.

    A label has letters, digits and `_.+-=,`. Candidates whose labels would be equal or long are
    numbered instead.

    Args:
        settings: settings by name; a list has the values to choose from.

    Examples:
        >>> [one.label for one in candidates_of({"lr": [1e-05, 5e-05], "rank": [8, 16]})]
        ['lr=1e-05,rank=8', 'lr=1e-05,rank=16', 'lr=5e-05,rank=8', 'lr=5e-05,rank=16']
        >>> [one.label for one in candidates_of({"text": ["a b", "a/b"]})]
        ['candidate-1', 'candidate-2']
        >>> candidates_of({"rank": 8})
        (Candidate(label='', settings={'rank': 8}),)
    """
    tuned = tuned_settings(settings)
    combinations = [dict(zip(tuned, values, strict=True)) for values in product(*tuned.values())]
    labels = [
        ",".join(f"{_safe(key)}={_safe(value)}" for key, value in chosen.items())
        for chosen in combinations
    ]
    # Some file systems do not distinguish small and capital letters.
    is_clear = len({label.lower() for label in labels}) == len(labels)
    if not is_clear or max(map(len, labels)) > _LONGEST_LABEL:
        labels = [f"candidate-{number}" for number in range(1, len(labels) + 1)]
    return tuple(
        Candidate(label, {**settings, **chosen})
        for label, chosen in zip(labels, combinations, strict=True)
    )


def _safe(value: Json) -> str:
    """Return a name or a value as a part of the name of a folder."""
    return _UNSAFE.sub("_", value if isinstance(value, str) else json.dumps(value))
