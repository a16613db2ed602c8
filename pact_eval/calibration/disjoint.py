"""Keeping the items that a calibrator was fitted on apart from those it is judged on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pact_eval._json import Json
from pact_eval.calibration.calibrators import Calibrator
from pact_eval.errors import InputError
from pact_eval.runs import ScoredViews

__all__ = ["Members", "check_disjoint"]

_NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Members:
    """Whose items a run or a fit holds.

    Attributes:
        families: names of the families; "" (unknown) is not among them.
        source_families: names of the source families, likewise.
        known: whether every item says its family.
    """

    families: frozenset[str]
    source_families: frozenset[str]
    known: bool = True

    @classmethod
    def of_run(cls, predictions: ScoredViews) -> Members:
        """Return the members of a run."""
        families = set(predictions.family.tolist())
        source_families = set(predictions.source_family.tolist())
        return cls(
            frozenset(families - {""}), frozenset(source_families - {""}), known="" not in families
        )

    @classmethod
    def of_fit(cls, calibrator: Calibrator) -> Members:
        """Return the members that a calibrator's file lists; none are known where it lists none."""
        fit = calibrator.fit or {}
        families, source_families = (
            frozenset(_names(fit.get(name))) for name in ("families", "source_families")
        )
        return cls(families, source_families, known=bool(families))


def check_disjoint(fitted: Members, applied: Members) -> tuple[str, ...]:
    """Refuses to judge a calibrator on families that it was fitted on.

    Families that meet are an error: the same texts, or their counterfactual twins, would be fitted
    and judged. Source families that meet are a warning: other families of one origin are no copies,
    and a temperature has few parameters to remember them by, but such a run shows less of how the
    calibrator does on new sources; and datasets exist that have no others.

    Args:
        fitted: of the run that the calibrator was fitted on, or of its file.
        applied: of the run that it is applied to.

    Returns:
        Warnings, in sentences: source families that meet, or families that are unknown.

    Raises:
        InputError: Families meet.

    Examples:
        >>> from pact_eval.calibration import Members, check_disjoint
        >>> fitted = Members(frozenset({"f1", "f2"}), frozenset({"travel-01"}))
        >>> check_disjoint(fitted, Members(frozenset({"f3"}), frozenset({"travel-02"})))
        ()
    """
    shared = fitted.families & applied.families
    if shared:
        raise InputError(
            f"the calibrator was fitted on {len(shared):,} of the {len(applied.families):,} "
            f"families it is applied to ({_few(shared)}): its scores there would flatter it; fit "
            "it on families of their own, as `pact-audit split` makes them"
        )
    warnings = []
    if not (fitted.known and applied.known):
        warnings.append(
            "not all families are known, so that nothing says whether the calibrator was fitted "
            "on some of these items"
        )
    common = fitted.source_families & applied.source_families
    if common:
        warnings.append(
            f"source families both in the fit and in this run: {len(common):,} ({_few(common)}); "
            "how the calibrator does on new sources is not shown"
        )
    return tuple(warnings)


def _names(value: Json) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _few(names: Iterable[str]) -> str:
    shown = sorted(names)
    more = f" and {len(shown) - _NAMES_SHOWN:,} more" if len(shown) > _NAMES_SHOWN else ""
    return ", ".join(shown[:_NAMES_SHOWN]) + more
