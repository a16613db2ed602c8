"""Brent's method against scipy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy.optimize import brentq

from pact_eval.stats._root import brent_root


def _power(x: float, root: float, steep: float) -> float:
    return float(x**steep - root**steep)


def _bend(x: float, root: float, steep: float) -> float:
    return math.tanh(steep * (x - root))


def _steps(x: float, root: float, steep: float) -> float:
    return math.floor(steep * (x - root)) + 0.5


@pytest.mark.parametrize("function", [_power, _bend, _steps])
@pytest.mark.parametrize("xtol", [1e-12, 1e-9, 1e-3])
def test_root_against_scipy_to_the_last_bit(xtol: float, function: Callable[..., float]) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        root, steep = rng.random(), 10 ** rng.uniform(-0.5, 2)
        curve = partial(function, root=root, steep=steep)
        if curve(0.0) * curve(1.0) < 0:
            assert brent_root(curve, 0.0, 1.0, xtol=xtol) == brentq(curve, 0.0, 1.0, xtol=xtol)


def test_root_at_an_end() -> None:
    assert brent_root(lambda x: x, 0.0, 1.0, xtol=1e-9) == 0.0
    assert brent_root(lambda x: x - 1, 0.0, 1.0, xtol=1e-9) == 1.0


def test_ends_of_one_sign_have_no_root() -> None:
    with pytest.raises(ValueError, match="different signs at 0.0 and 1.0"):
        brent_root(lambda x: x + 1, 0.0, 1.0, xtol=1e-9)
