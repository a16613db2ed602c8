"""Effect of a calibrator on a run: scores before and after, by kind, and those that get worse."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval import metrics
from pact_eval._choices import Decoding
from pact_eval._json import Json
from pact_eval._typing import FloatArray
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.temperatures import (
    KINDS,
    CalibrationNote,
    Calibrator,
    NoteKind,
    TemperatureSummary,
    asked_questions,
)
from pact_eval.numbers import plain_reason
from pact_eval.plain_text import first_of, short_names
from pact_eval.progress import tracked
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.consistency_resampling import calibrated_gaps
from pact_eval.stats.estimate import NO_ROWS, ClusterText, Estimate
from pact_eval.stats.linearised import mean_inference
from pact_eval.stats.multiplicity import shown_increases
from pact_eval.stats.rates import without_interval

ScoreName: TypeAlias = Literal["nll_nats", "brier"]
"""A proper score, by which a calibrator is judged."""

_TITLES: Final[dict[ScoreName, str]] = {"nll_nats": "NLL", "brier": "Brier"}
_SEED: Final = 17
_FLOOR_RESAMPLES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of a group of items; lower is better but for accuracy; NaN without items.

    Attributes:
        nll_nats: mean NLL in nats; infinite if a right answer had probability 0.
        brier: mean Brier score in [0, 2].
        ece: expected calibration error as a fraction.
        aurc: area under the risk-coverage curve as a fraction.
        accuracy: fraction; no calibrator changes it.
        ece_floor: mean ECE of a calibrated model with these confidences and families.
    """

    nll_nats: float
    brier: float
    ece: float
    aurc: float
    accuracy: float
    ece_floor: float

    @classmethod
    def of(cls, log_probs: FloatArray, items: CalibrationItems) -> Scores:
        """Score distributions (n, C) of items."""
        reference = items.reference
        confidence = metrics.confidence(log_probs)
        right, floor = metrics.correct(log_probs, reference), math.nan
        if len(items):
            bins = metrics.bin_index(confidence)
            rng, resamples = np.random.default_rng(_SEED), _FLOOR_RESAMPLES
            drawn = calibrated_gaps(
                *(confidence, right, bins, metrics.BINS, *items.family_codes()),
                rng=rng,
                resamples=resamples,
            )
            weight = np.full(resamples, float(len(items)))
            floor = float(metrics.ece_of_gaps(weight, drawn).mean())
        return cls(
            nll_nats=metrics.item_mean(metrics.nll_nats(log_probs, reference)),
            brier=metrics.item_mean(metrics.brier(log_probs, reference)),
            ece=metrics.ece(confidence, right),
            aurc=metrics.aurc(confidence, right),
            accuracy=metrics.item_mean(right),
            ece_floor=floor,
        )


@dataclass(frozen=True, slots=True)
class GroupEffect:
    """A group of items before and after calibration.

    Attributes:
        name: "all", a kind or a question.
        items: number of items.
        families: number of families.
        temperature: mean and range of the items' temperatures.
        before: uncalibrated.
        after: calibrated.
        changes: by proper score, after minus before with its paired 95% interval over families;
            without one, with a reason, if fewer than five families have an error or a right answer.
        p_values: of no change, by proper score, two-sided; NaN without an interval.
        worse: names of the proper scores that calibration is shown to make worse. ECE and AURC do
            not count. The ECE of a finite sample moves by chance, and no temperature that is the
            same for all items changes an order of confidence.
    """

    name: str
    items: int
    families: int
    temperature: TemperatureSummary
    before: Scores
    after: Scores
    changes: Mapping[ScoreName, Estimate]
    p_values: Mapping[ScoreName, float]
    worse: tuple[ScoreName, ...] = ()


@dataclass(frozen=True, slots=True)
class CalibrationEffect:
    """A run before and after calibration.

    Attributes:
        decoding: how the distributions were made; None if unknown.
        groups: all items first, then each kind that there is; of a per-question calibrator, each
            question with a temperature of its own, and the others together.
        notes: how the calibrator is used outside the data of its fit.
    """

    decoding: Decoding | None
    groups: tuple[GroupEffect, ...]
    notes: tuple[CalibrationNote, ...]

    @property
    def text(self) -> str:
        """What gets better on all items, and what worse.

        The word is that of the paired interval of NLL, and holds for "the probabilities" only if
        the Brier score and the ECE do not go the other way.
        """
        group = self.groups[0]
        before, after, change = group.before, group.after, group.changes["nll_nats"]
        ends = "" if change.reason is None else f" ({plain_reason(change)})"
        if not math.isnan(change.low):
            ends = f" [{change.low:+.3f}, {change.high:+.3f}]"
        nll = f"{change.value:+.3f}{ends}"
        moves = {  # as printed
            f"Brier {before.brier:.3f} to {after.brier:.3f}": round(after.brier, 3)
            - round(before.brier, 3),
            f"ECE {100 * before.ece:.1f} to {100 * after.ece:.1f}%": round(after.ece, 3)
            - round(before.ece, 3),
        }
        word, other = ("better", "worse") if change.value < 0 else ("worse", "better")
        against = [text for text, move in moves.items() if move * change.value < 0]
        along = [text for text in moves if text not in against]
        if not change.excludes_zero:
            return f"no effect on the probabilities shown: NLL {nll}; {', '.join(moves)}"
        if not against:
            return f"the probabilities get {word}: NLL {nll}; {', '.join(along)}"
        return "; ".join([f"NLL gets {word}, {nll}, but {' and '.join(against)} {other}", *along])

    @property
    def warnings(self) -> tuple[CalibrationNote, ...]:
        """Every proper score that is shown to be worse, on all items or on a kind."""
        notes = []
        for group in self.groups:
            where = "all items" if group.name == "all" else f"{group.name} items"
            for score in group.worse:
                before, after = (
                    float(getattr(scores, score)) for scores in (group.before, group.after)
                )
                low, high = group.changes[score].low, group.changes[score].high
                unit = " nats" if score == "nll_nats" else ""
                text = (
                    f"{_TITLES[score]} of {where} got worse: {before:.4f} to {after:.4f}{unit}; "
                    f"change [{low:.4f}, {high:.4f}]"
                )
                numbers: dict[str, Json] = {"group": group.name, "score": score}
                numbers |= {"before": before, "after": after, "low": low, "high": high}
                notes.append(CalibrationNote("WorseScore", text, numbers))
        return tuple(notes)


def calibration_effect(items: CalibrationItems, calibrator: Calibrator) -> CalibrationEffect:
    """Compare a run with itself under a calibrator.

    Args:
        items: a run under a decoding: the one that the calibrator was fitted on, or another that
            shares no family with it (see `check_disjoint`).
        calibrator: what to apply.

    Returns:
        NLL, Brier, ECE, AURC and accuracy before and after, for all items and by kind, and the
        change of NLL and Brier with its paired interval.

    Raises:
        InputError: A prompt length is needed and unknown.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.calibration.likelihood import CalibrationItems
        >>> from pact_eval.calibration.temperatures import Calibrator, Weights
        >>> from pact_eval.calibration.effect import calibration_effect
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
    temperature = calibrator.temperatures(items)
    after = calibrator.apply(items.log_probs, items)
    rows, own = {"all": np.arange(len(items))}, calibrator.weights.questions
    if own is None:
        rows |= {str(kind): np.flatnonzero(items.kind == kind) for kind in KINDS}
    else:
        asked = items.rows_by_question()
        rows |= {f"question {name}": at for name, at in asked.items() if name in own}
        others = [at for name, at in asked.items() if name not in own]
        rows["other questions"] = np.sort(np.concatenate([np.arange(0), *others]))
    groups = {name: at for name, at in rows.items() if at.size or name == "all"}
    effects = _with_alarms(
        [
            _group_effect(name, items.take(at), after[at], temperature[at])
            for name, at in tracked(groups.items(), "Computing the effect", "groups")
        ]
    )
    notes = calibration_notes(calibrator, items, items.decoding)
    return CalibrationEffect(items.decoding, effects, notes)


def _group_effect(
    name: str, items: CalibrationItems, after: FloatArray, temperature: FloatArray
) -> GroupEffect:
    """Compare a group with itself, by paired changes with their intervals over families.

    Items of unknown family count as families of their own.
    """
    few, (family, families) = items.too_few(), items.family_codes()
    changes: dict[ScoreName, Estimate] = {}
    p_values: dict[ScoreName, float] = {}
    for score in _TITLES:
        losses = getattr(metrics, score)
        with np.errstate(invalid="ignore"):  # an infinite NLL minus another
            change = losses(after, items.reference) - losses(items.log_probs, items.reference)
        mean = metrics.item_mean(change)
        if math.isfinite(mean):
            inference = mean_inference(change, family, families, outer=True)
            changes[score] = without_interval(inference.estimate(), few)
            p_values[score] = math.nan if few else inference.p_value()
        else:  # NLL is infinite before and after
            nothing = ClusterText("undefined on these rows") if len(items) else NO_ROWS
            changes[score] = Estimate(mean, math.nan, math.nan, len(items), families, None, nothing)
            p_values[score] = math.nan
    return GroupEffect(
        name=name,
        items=len(items),
        families=families,
        temperature=TemperatureSummary.of(temperature),
        before=Scores.of(items.log_probs, items),
        after=Scores.of(after, items),
        changes=changes,
        p_values=p_values,
    )


def _with_alarms(groups: Sequence[GroupEffect]) -> tuple[GroupEffect, ...]:
    """Say which scores are worse: the interval is above 0, also after adjusting for all tests.

    The groups and scores of one calibration are adjusted together, by Holm. A single kind is all
    items once more, and no further test.
    """
    tested = groups[:1] if len(groups) == 2 else groups
    changes = {
        (group.name, name): change for group in tested for name, change in group.changes.items()
    }
    p_values = {(group.name, name): p for group in tested for name, p in group.p_values.items()}
    shown = shown_increases(changes, p_values)
    return tuple(
        replace(
            group,
            worse=tuple(
                name
                for name in group.changes
                if (group.name if len(tested) > 1 else "all", name) in shown
            ),
        )
        for group in groups
    )


def calibration_notes(
    calibrator: Calibrator, items: CalibrationItems | Predictions, decoding: Decoding | None
) -> tuple[CalibrationNote, ...]:
    """Return how a calibrator is used outside the data of its fit, as far as its file records them.

    Args:
        calibrator: what is applied.
        items: what it is applied to: their kinds, numbers of answers and prompt lengths.
        decoding: how the distributions were made; None if unknown.

    Returns:
        Another decoding, kinds or questions without items in the fit, answers or lengths beyond
        its range.
    """
    notes: list[CalibrationNote] = []

    def note(kind: NoteKind, text: str, **numbers: Json) -> None:
        notes.append(CalibrationNote(kind, text, numbers))

    if calibrator.is_neutral:
        note("NeutralTemperatures", "every temperature is 1: this calibrator changes nothing")
    fit = calibrator.fit or {}
    fitted, kinds, questions = fit.get("decoding"), fit.get("kinds"), fit.get("questions")
    if isinstance(fitted, str) and fitted and decoding and fitted != decoding:
        text = f"fitted on the {fitted} decoding, applied to the {decoding} one"
        note("DifferentDecoding", text, fitted=fitted, applied=decoding)
    if calibrator.mode == "per-kind" and isinstance(kinds, dict):
        for kind in np.unique(items.kind).tolist():
            if not kinds.get(kind):
                text = f"fitted without items of kind {kind}: T = 1 there"
                note("UnseenKind", text, field_kind=kind)
    if items.question is not None and isinstance(questions, dict):
        asked = asked_questions(items)
        new = [name for name in asked if name not in questions]
        names = sorted(set(new))
        if new:
            text = (
                f"{len(new):,} of {len(asked):,} items are of questions that are not in the fit "
                f"({first_of(short_names(names))}): their T is that of all its items"
            )
            note("UnseenQuestion", text, items=len(new), questions=len(names))
    if calibrator.mode == "contextual":
        notes += _outside("answers", items.n_choices.astype(np.float64), fit.get("n_choices"))
        notes += _outside("prompt tokens", items.prompt_tokens, fit.get("prompt_tokens"))
    return tuple(notes)


def _outside(
    quantity: Literal["answers", "prompt tokens"], values: FloatArray, seen: Json
) -> list[CalibrationNote]:
    """Return a note on items beyond the range of the fit; none if there are none."""
    match seen:
        case [int() | float() as low, int() | float() as high]:
            outside, items = int(((values < low) | (values > high)).sum()), len(values)
            if outside:
                text = (
                    f"{outside:,} of {items:,} items have {quantity} outside the {low:,} to "
                    f"{high:,} of the fit: their temperatures are extrapolated"
                )
                numbers: dict[str, Json] = {"quantity": quantity, "outside": outside}
                numbers |= {"items": items, "low": low, "high": high}
                return [CalibrationNote("OutsideFit", text, numbers)]
    return []
