"""Results as JSON values: what JSON cannot say (NaN, infinity) is null, and arrays are lists."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from pact_eval._json import Json

__all__ = ["to_json"]


def to_json(value: Any) -> Json:
    """Turn frozen objects, mappings, sequences and arrays into JSON; NaN, infinities become null.

    Example:
        >>> to_json({"gain": float("nan"), "words": ("a", 1)})
        {'gain': None, 'words': ['a', 1]}
        >>> to_json(np.array([0.5, np.nan]))
        [0.5, None]
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return to_json(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
