"""Worries about claims that compare: arms, seeds, paired tests, the registration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pact_eval.hypotheses import Registration
from pact_eval.stats import Estimate
from pact_reports.numbers import estimate_text
from pact_reports.page.worries.model import Worry

__all__ = [
    "Difference",
    "registration_worries",
    "seed_worries",
    "undecided_worries",
    "warning_worries",
]


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference in accuracy between two arms.

    Attributes:
        method: the first arm.
        control: the second.
        seed: that they share, or None.
        accuracy: first minus second, a fraction, with its interval over families.
    """

    method: str
    control: str
    seed: int | None
    accuracy: Estimate

    @property
    def where(self) -> str:
        """Which two runs, in words."""
        seed = "" if self.seed is None else f" at seed {self.seed}"
        return f"{self.method} against {self.control}{seed}"


def seed_worries(arms: Mapping[str, Sequence[int | None]]) -> tuple[Worry, ...]:
    """Worry about arms that were trained at one seed.

    Args:
        arms: seeds of each arm; an arm without any (a base model) is none to worry about.

    Example:
        >>> [worry.says for worry in seed_worries({"pact": [17], "base": [None], "ce": [17, 18]})]
        ['pact was trained at seed 17 only; two seeds or more give a spread']
    """
    return tuple(
        Worry(
            "one-seed",
            "serious",
            f"{arm} was trained at seed {seeds[0]} only; two seeds or more give a spread",
        )
        for arm, seeds in arms.items()
        if len(seeds) == 1 and seeds[0] is not None
    )


def undecided_worries(differences: Sequence[Difference]) -> tuple[Worry, ...]:
    """Worry about differences whose interval over families covers 0."""
    found = []
    for each in differences:
        estimate = each.accuracy
        if np.isnan(estimate.low):
            says = f"{each.where}: the difference has no interval ({estimate.reason})"
        elif estimate.low <= 0 <= estimate.high:
            says = (
                f"{each.where}: {estimate_text(estimate, 'points')} points of accuracy (95% "
                "interval over families); it must not cover 0"
            )
        else:
            continue
        found.append(Worry("undecided", "serious", says))
    return tuple(found)


def registration_worries(registration: Registration) -> tuple[Worry, ...]:
    """Worry about criteria that were changed, registered too late, or never registered."""
    status = registration.status
    if status == "REGISTERED BEFORE THE RUNS":
        return ()
    reasons = "; ".join(registration.reasons)
    says = f"the registration says {status}{f': {reasons}' if reasons else ''}"
    grave = status in ("TAMPERED", "REGISTERED AFTER THE RUNS")
    return (Worry("registration", "grave" if grave else "serious", says),)


def warning_worries(
    warnings: Sequence[str], data_warnings: Sequence[str], *, same_items: bool
) -> tuple[Worry, ...]:
    """Turn the warnings of a collection and of its dataset into worries.

    Args:
        warnings: of the calibrators, and of runs that hold other items.
        data_warnings: of files that are not those that were scored.
        same_items: whether all runs hold the same items.
    """
    other = () if same_items else tuple(each for each in warnings if _of_items(each))
    found = [Worry("other-items", "grave", each) for each in other]
    found += [Worry("other-data", "grave", each) for each in data_warnings]
    found += [Worry("calibrator", "serious", each) for each in warnings if each not in other]
    return tuple(found)


def _of_items(warning: str) -> bool:
    return warning.startswith(("the runs hold other items", "the runs differ in"))
