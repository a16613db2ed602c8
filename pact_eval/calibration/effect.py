"""What a calibrator does to a run: the scores before and after, by kind, and where it hurts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval._json import Json
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.temperatures import KINDS, Calibrator, TemperatureSummary
from pact_eval.runs import Decoding

__all__ = [
    "CalibrationEffect",
    "GroupEffect",
    "Scores",
    "calibration_effect",
    "calibration_notes",
]

FloatArray: TypeAlias = npt.NDArray[np.float64]

# Differences below this are rounding.
_ROUNDING: Final = 1e-9
_TITLES: Final = {"nll_nats": "NLL", "brier": "Brier", "ece": "ECE", "aurc": "AURC"}
_IN_PERCENT: Final = ("ece", "aurc")


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of a group of items; lower is better but for accuracy; NaN without items.

    Attributes:
        nll_nats: mean NLL in nats; infinite if a right answer had probability 0.
        brier: mean Brier score in [0, 2].
        ece: expected calibration error as a fraction.
        aurc: area under the risk-coverage curve as a fraction.
        accuracy: fraction; no calibrator changes it.
    """

    nll_nats: float
    brier: float
    ece: float
    aurc: float
    accuracy: float

    @classmethod
    def of(cls, log_probs: FloatArray, reference: npt.NDArray[np.int64]) -> Scores:
        """Score distributions (n, C) against references (n,)."""
        confidence = metrics.confidence(log_probs)
        right = metrics.correct(log_probs, reference)
        return cls(
            nll_nats=metrics.item_mean(metrics.nll_nats(log_probs, reference)),
            brier=metrics.item_mean(metrics.brier(log_probs, reference)),
            ece=metrics.ece(confidence, right),
            aurc=metrics.aurc(confidence, right),
            accuracy=metrics.item_mean(right),
        )


@dataclass(frozen=True, slots=True)
class GroupEffect:
    """A group of items before and after calibration.

    Attributes:
        name: "all", or a kind.
        items: number of items.
        families: number of families.
        temperature: mean and range of the items' temperatures.
        before: uncalibrated.
        after: calibrated.
    """

    name: str
    items: int
    families: int
    temperature: TemperatureSummary
    before: Scores
    after: Scores

    @property
    def worse(self) -> tuple[str, ...]:
        """Names of the scores that calibration made worse, by any amount beyond rounding."""
        before, after = asdict(self.before), asdict(self.after)
        return tuple(name for name in _TITLES if after[name] > before[name] + _ROUNDING)


@dataclass(frozen=True, slots=True)
class CalibrationEffect:
    """A run before and after calibration.

    Attributes:
        decoding: how the distributions were made; None if unknown.
        groups: all items first, then each kind that there is.
        notes: sentences to print below the table.
    """

    decoding: Decoding | None
    groups: tuple[GroupEffect, ...]
    notes: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for every score that got worse, on all items or on a kind."""
        return tuple(_warning(group, name) for group in self.groups for name in group.worse)


def calibration_effect(items: CalibrationItems, calibrator: Calibrator) -> CalibrationEffect:
    """Compares a run with itself under a calibrator.

    Args:
        items: a run under a decoding: the one that the calibrator was fitted on, or another that
            shares no family with it (see `check_disjoint`).
        calibrator: what to apply.

    Returns:
        NLL, Brier, ECE, AURC and accuracy before and after, for all items and by kind.

    Raises:
        InputError: A prompt length is needed and unknown.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.calibration import CalibrationItems, Calibrator, Weights
        >>> from pact_eval.calibration import calibration_effect
        >>> names = np.array(["f1", "f1", "f2", "f2"])
        >>> items = CalibrationItems(
        ...     np.log(np.tile([0.9, 0.1], (4, 1))), np.array([0, 0, 0, 1]),
        ...     np.full(4, "boolean"), np.full(4, 2), np.full(4, 300.0), names, names)
        >>> effect = calibration_effect(items, Calibrator("scalar", Weights((1.8545865, 0, 0))))
        >>> round(effect.groups[0].before.ece, 3), round(effect.groups[0].after.ece, 3)
        (0.15, 0.0)
        >>> effect.warnings
        ()
    """
    temperature = calibrator.temperatures(items.kind, items.n_choices, items.prompt_tokens)
    after = calibrator.apply(
        items.log_probs,
        kind=items.kind,
        n_choices=items.n_choices,
        prompt_tokens=items.prompt_tokens,
    )
    masks = {"all": np.ones(len(items), dtype=np.bool_)}
    masks |= {kind: items.kind == kind for kind in KINDS if (items.kind == kind).any()}
    groups = tuple(
        GroupEffect(
            name=name,
            items=int(mask.sum()),
            families=len(np.unique(items.family[mask])),
            temperature=TemperatureSummary.of(temperature[mask]),
            before=Scores.of(items.log_probs[mask], items.reference[mask]),
            after=Scores.of(after[mask], items.reference[mask]),
        )
        for name, mask in masks.items()
    )
    notes = calibration_notes(
        calibrator,
        kind=items.kind,
        n_choices=items.n_choices,
        prompt_tokens=items.prompt_tokens,
        decoding=items.decoding,
    )
    return CalibrationEffect(items.decoding, groups, notes)


def _warning(group: GroupEffect, name: str) -> str:
    before, after = asdict(group.before)[name], asdict(group.after)[name]
    where = "all items" if group.name == "all" else f"{group.name} items"
    if name in _IN_PERCENT:
        change = f"{before:.2%} to {after:.2%}"
    else:
        change = f"{before:.4f} to {after:.4f}{' nats' if name == 'nll_nats' else ''}"
    return f"{_TITLES[name]} of {where} got worse: {change}"


def calibration_notes(
    calibrator: Calibrator,
    *,
    kind: npt.NDArray[np.str_],
    n_choices: npt.NDArray[np.int64],
    prompt_tokens: FloatArray,
    decoding: Decoding | None,
) -> tuple[str, ...]:
    """Say where a calibrator is used outside what it was fitted on, as far as its file tells.

    Args:
        calibrator: what is applied.
        kind: (n,) "choice", "boolean" or "score", of the items that it is applied to.
        n_choices: (n,) number of answers.
        prompt_tokens: (n,) tokens of view 0, NaN if unknown.
        decoding: how the distributions were made; None if unknown.

    Returns:
        Sentences: another decoding, kinds that it never saw, answers or lengths beyond its range.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.calibration import calibration_notes, neutral_calibrator
        >>> calibration_notes(
        ...     neutral_calibrator().with_provenance(decoding="single"), kind=np.array(["score"]),
        ...     n_choices=np.array([5]), prompt_tokens=np.array([300.0]), decoding="ensemble")[1]
        'fitted on the single decoding, applied to the ensemble one'
    """
    notes = []
    if calibrator.is_neutral:
        notes.append("every temperature is 1: this calibrator changes nothing")
    fit = calibrator.fit or {}
    fitted_on = fit.get("decoding")
    if fitted_on and decoding and fitted_on != decoding:
        notes.append(f"fitted on the {fitted_on} decoding, applied to the {decoding} one")
    kinds = fit.get("kinds")
    if calibrator.mode == "per-kind" and isinstance(kinds, dict):
        unseen = [name for name in np.unique(kind).tolist() if not kinds.get(name)]
        notes += [f"fitted without items of kind {name}: T = 1 there" for name in unseen]
    if calibrator.mode == "contextual":
        notes += _outside("answers", n_choices.astype(np.float64), fit.get("n_choices"))
        notes += _outside("prompt tokens", prompt_tokens, fit.get("prompt_tokens"))
    return tuple(notes)


def _outside(what: str, values: FloatArray, seen: Json) -> list[str]:
    match seen:
        case [int() | float() as low, int() | float() as high]:
            outside = int(((values < low) | (values > high)).sum())
            if outside:
                return [
                    f"{outside:,} of {len(values):,} items have {what} outside the {low:,} to "
                    f"{high:,} of the fit: their temperatures are extrapolated"
                ]
    return []
