"""Views: the letter orders under which one record is shown.

View 0 shows the answers in canonical order; further views permute which letter is shown next to
which answer. Orders are determined by (seed, record id, view) alone. They do not depend on the
order of the file, on batching, on the number of views, or on the number of scoring processes.

Orders are balanced. The first C orders of a record form a Latin square: over C views, every answer
is at every letter once, and over K < C views no answer is at the same letter twice. The next C
orders form another Latin square, and so on, until all C! orders have been used; then they repeat.
The squares are the cosets of a cyclic group of order C, keyed by the record.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Order = tuple[int, ...]


def code_orders(seed: int, record_id: str, n_choices: int, k: int) -> list[Order]:
    """Return the letter orders of views 0 to k - 1 of a record.

    Args:
        seed: seed of the letter orders, recorded in the run.
        record_id: id of the record.
        n_choices: number of answers C, at least 2.
        k: number of views, at least 1.

    Returns:
        K tuples; entry j of a tuple is the canonical index of the answer shown at letter j. The
        first tuple is the identity. Orders repeat only after all C! orders have been used.

    Raises:
        ValueError: fewer than 2 answers, or fewer than 1 view.

    Examples:
        >>> code_orders(0, "scale-001-base", 3, 4)
        [(0, 1, 2), (2, 0, 1), (1, 2, 0), (0, 2, 1)]
        >>> code_orders(0, "scale-001-base", 2, 4)
        [(0, 1), (1, 0), (0, 1), (1, 0)]
    """
    if n_choices < 2 or k < 1:
        message = f"expected at least 2 answers and 1 view, got {n_choices} and {k}"
        raise ValueError(message)
    n_squares = math.factorial(n_choices - 1)
    squares: list[list[Order]] = []
    for square in range(min(math.ceil(k / n_choices), n_squares)):
        squares.append(_next_square(f"{seed}/{record_id}", square, n_choices, squares))
    orders = [order for square in squares for order in square]
    return [orders[view % len(orders)] for view in range(k)]


def code_order(seed: int, record_id: str, n_choices: int, view: int) -> Order:
    """Return the letter order of one view; see `code_orders`.

    Examples:
        >>> code_order(0, "scale-001-base", 3, 3)
        (0, 2, 1)
    """
    return code_orders(seed, record_id, n_choices, view + 1)[view]


def to_canonical(
    code_values: npt.NDArray[np.floating], code_order: Sequence[int]
) -> npt.NDArray[np.floating]:
    """Scatter values in letter order into canonical order.

    Args:
        code_values: shape (..., C); entry j belongs to the answer at letter j.
        code_order: the canonical index shown at each letter.

    Returns:
        Array of the same shape and dtype; entry i belongs to canonical answer i.

    Raises:
        ValueError: `code_order` is not a permutation of the C positions.

    Examples:
        >>> to_canonical(np.array([0.1, 0.2, 0.7]), (2, 0, 1))
        array([0.2, 0.7, 0.1])
    """
    order = np.asarray(code_order)
    if code_values.shape[-1] != len(order) or sorted(order.tolist()) != list(range(len(order))):
        message = f"expected an order of {code_values.shape[-1]} letters, got {list(code_order)}"
        raise ValueError(message)
    canonical = np.empty_like(code_values)
    canonical[..., order] = code_values
    return canonical


def _next_square(key: str, index: int, n_choices: int, used: list[list[Order]]) -> list[Order]:
    """Return Latin square number `index`: a coset of the record's cyclic group not used yet."""
    sigma = _keyed_permutation(f"{key}/cycle", n_choices)
    position = {answer: place for place, answer in enumerate(sigma)}
    taken = {order for square in used for order in square}
    attempt = 0
    while True:
        first = _keyed_permutation(f"{key}/{index}/{attempt}", n_choices)
        if index == 0:
            first = tuple(range(n_choices))
        if first not in taken:
            break
        attempt += 1
    # Shift 0 comes first and makes view 0 canonical; the other shifts follow in keyed order.
    shifts = [0] + [1 + s for s in _keyed_permutation(f"{key}/{index}/shifts", n_choices - 1)]
    return [
        tuple(sigma[(position[answer] + shift) % n_choices] for answer in first) for shift in shifts
    ]


def _keyed_permutation(key: str, n: int) -> Order:
    # Sorting by digest is a permutation that any language can reproduce from the key alone.
    digests = [hashlib.sha256(f"{key}/{item}".encode()).digest() for item in range(n)]
    return tuple(sorted(range(n), key=digests.__getitem__))
