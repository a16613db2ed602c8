"""Links to items of a page: fragments that open one item, or that list some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal
from urllib.parse import quote

Outcome = Literal["right", "wrong", "confident", "flips"]
Pair = Literal["pair-right", "pair-one", "pair-wrong", "pair-same"]
Compared = Literal["only-a", "only-b", "both-right", "both-wrong"]

_SAFE: Final = "-._~"


def item_href(item: str, *, a: int | None = None, b: int | None = None) -> str:
    """Return the link that opens an item.

    Args:
        item: its id.
        a: index of run A; None leaves the runs as they are.
        b: index of run B.

    Examples:
        >>> item_href("visa-3/base", a=0, b=2)
        '#item=visa-3%2Fbase&a=1&b=3'
    """
    return f"#item={quote(item, safe=_SAFE)}{_runs(a, b)}"


def items_href(
    a: int,
    *,
    b: int | None = None,
    compared: Compared | None = None,
    outcome: Outcome | None = None,
    pair: Pair | None = None,
    kind: str | None = None,
    domain: str | None = None,
    bin_: int | None = None,
    calibrated: bool = False,
    ids: Sequence[str] = (),
) -> str:
    """Return the link that lists the items for which everything given holds.

    Args:
        a: index of run A, whose answers `outcome`, `pair` and `bin_` are about.
        b: index of run B; None shows no second run.
        compared: which of A and B is right; needs `b`.
        outcome: outcome of A. `confident` are errors with a confidence of 0.9 or more; `flips` are
            answers that change between views.
        pair: outcome of A on both members of the pair. `pair-same` is the same answer to both.
        kind: kind of the field.
        domain: domain.
        bin_: reliability bin of A's confidence, from 0.
        calibrated: the bin is of the confidence after T(x).
        ids: ids of the items.

    Examples:
        >>> items_href(1, outcome="flips")
        '#items&a=2&outcome=flips'
        >>> items_href(0, b=1, compared="only-a", kind="score")
        '#items&a=1&b=2&compare=only-a&kind=score'
        >>> items_href(0, bin_=14, calibrated=True)
        '#items&a=1&bin=15&calibrated=1'
        >>> items_href(0, ids=["a,b", "c"])
        '#items&a=1&ids=a%2Cb,c'
    """
    named = {"compare": compared, "outcome": outcome, "pair": pair, "kind": kind, "domain": domain}
    chosen = [f"&{name}={quote(value, safe=_SAFE)}" for name, value in named.items() if value]
    if bin_ is not None:
        chosen.append(f"&bin={bin_ + 1}{'&calibrated=1' if calibrated else ''}")
    if ids:
        chosen.append(f"&ids={','.join(quote(item, safe=_SAFE) for item in ids)}")
    return f"#items{_runs(a, b)}{''.join(chosen)}"


def _runs(a: int | None, b: int | None) -> str:
    """Write the numbers of runs, which count from 1 on a page."""
    runs = {"a": a, "b": b}
    return "".join(f"&{name}={run + 1}" for name, run in runs.items() if run is not None)
