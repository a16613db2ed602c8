"""Notes of a report on its numbers, as typed values.

`evaluate` and `compare_arms` return notes; `pact_reports.sentences.notes` makes sentences of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from pact_eval._choices import ClusterUnit
from pact_eval.runs.provenance import Provenance
from pact_eval.stats.clusters import concentration
from pact_eval.stats.estimate import FEW_CLUSTERS, ClusterText

if TYPE_CHECKING:
    from pact_eval.evaluation.items import ScoredItems

NOISE: Final[Mapping[str, float]] = {"float32": 1e-4, "float16": 0.016, "bfloat16": 0.125}
"""Smallest rounding error of a logit that is assumed, by the precision of the run.

It is one unit in the last place of a logit near 16; for float32, the effect of another summation
order.
"""


@dataclass(frozen=True)
class RoundedProbabilities:
    """Probabilities that are known up to an interval: what NLL, AURC and accuracy can have been.

    Attributes:
        decimals: to how many decimals a server has rounded them; None if the log lists only the
            most probable tokens.
        nll: least and largest NLL in nats; the largest is infinite if the probability of a
            reference can have been 0.
        aurc: least and largest AURC, fractions.
        accuracy: least and largest accuracy, fractions.
        censored: items whose reference was rounded to 0, or not listed, in a view.
        undecided: items whose most probable answer is not known.
        run: which of several runs; "" if there is one.
    """

    decimals: int | None
    nll: tuple[float, float]
    aurc: tuple[float, float]
    accuracy: tuple[float, float]
    censored: int
    undecided: int
    run: str = ""

    @property
    def matters(self) -> bool:
        """Whether the ends of a score differ in print: NLL in 0.001 nats, rates in 0.1 points.

        Examples:
            >>> ends = RoundedProbabilities(6, (0.70701, 0.70703), (0.2, 0.2), (0.8, 0.8), 0, 0)
            >>> ends.matters
            False
        """
        scores = ((self.nll, 1, 3), (self.aurc, 100, 1), (self.accuracy, 100, 1))
        return any(
            f"{round(scale * low, 9):.{digits}f}" != f"{round(scale * high, 9):.{digits}f}"
            for (low, high), scale, digits in scores
        )


@dataclass(frozen=True)
class InfiniteNll:
    """The NLL is infinite because references have probability 0.

    Attributes:
        infinite_items: items whose reference has probability 0.
        items: all items.
        smallest_probability: smallest probability above 0 in the run.
        lower_bound: NLL in nats if each of those items had that probability.
    """

    infinite_items: int
    items: int
    smallest_probability: float
    lower_bound: float


@dataclass(frozen=True)
class Unanswered:
    """Items without an answer, which no number of the report counts.

    Attributes:
        answered: number of items with an answer.
        by_status: number of items without one, by status.
    """

    answered: int
    by_status: Mapping[str, int]

    @property
    def items(self) -> int:
        """Number of items that were asked."""
        return self.answered + sum(self.by_status.values())

    @property
    def coverage(self) -> float:
        """Share of the items that were answered."""
        return self.answered / self.items


@dataclass(frozen=True)
class Incomplete:
    """The run has some of the items of its source.

    Attributes:
        read: number of items that it has.
        of: number of items of the source.
    """

    read: int
    of: int


@dataclass(frozen=True)
class Unverified:
    """Answers of an import that nothing in its source checks.

    Attributes:
        answers: number of such answers.
        of: number of answers of the run.
    """

    answers: int
    of: int


@dataclass(frozen=True)
class AnswersOnly:
    """The run has answers and no probabilities, so metrics of probabilities are undefined."""


@dataclass(frozen=True)
class ConfidencesOnly:
    """The run knows the probability of the chosen answer, and of no other one.

    Attributes:
        named: whether it also knows which answer that is, and not only whether it is right.
    """

    named: bool


@dataclass(frozen=True)
class SeveralRight:
    """Items with several right answers: an answer counts if it is one of them.

    The reference of such an item is the most probable right answer. So NLL and Brier are of that
    answer alone, and a confidence is shared between right answers.

    Attributes:
        items: number of such items.
        nll_of_any: NLL in nats of "one of the right answers", over all items; NaN if only answers
            are known.
        run: which of several runs; "" if there is one.
    """

    items: int
    nll_of_any: float
    run: str = ""


@dataclass(frozen=True)
class RepeatedPrompts:
    """The views of a run are repeats, such as the epochs or trials of a log.

    Attributes:
        repeats: how many times a question was asked.
        changed: share of items whose answer is not the same in all repeats; NaN if the repeats
            are decoded together.
        shuffled: whether the repeats show the answers in other orders; otherwise in one.
    """

    repeats: int
    changed: float
    shuffled: bool = False

    @classmethod
    def of(cls, items: ScoredItems) -> tuple[RepeatedPrompts, ...]:
        """Return the note for the items of a run; none if their views are not repeats."""
        if items.repeats == 1:
            return ()
        changed = math.nan
        if items.repeat is not None:
            answers = items.predicted.reshape(-1, items.repeats)
            changed = float((answers != answers[:, :1]).any(axis=1).mean())
        return (cls(items.repeats, changed),)


@dataclass(frozen=True)
class ChangedModel:
    """The model of a server has changed during the run.

    Attributes:
        largest_tv: largest total variation distance of the answers to the probe, at the start and
            at the end of the run.
        least_change: the smallest one that is not put down to noise.
    """

    largest_tv: float
    least_change: float


@dataclass(frozen=True)
class LowAnswerMass:
    """Part of the next-token probability is not on the letters.

    Attributes:
        share: mean share of the next-token distribution on the letters, below `LOW_ANSWER_MASS`.
    """

    share: float

    @classmethod
    def of(cls, share: float) -> LowAnswerMass | None:
        """Return the note for a mean share; None if it is high enough, or NaN.

        >>> LowAnswerMass.of(0.4), LowAnswerMass.of(0.9)
        (LowAnswerMass(share=0.4), None)
        """
        return cls(share) if share < LOW_ANSWER_MASS - _SINGLE_PRECISION else None


@dataclass(frozen=True)
class IncompletePairs:
    """Families that are left out of pair accuracy.

    Attributes:
        families: number of families that are not exactly one base and one counterfactual.
    """

    families: int


@dataclass(frozen=True)
class PairsWithoutMargin:
    """Complete pairs that are left out of the pair margin.

    Attributes:
        alike: pairs whose members have the same right answer, so nothing is contrasted.
        unknown: other pairs: one of the two right answers has probability 0 or is not offered, or
            the members are far apart in a file that is read in slices.
    """

    alike: int
    unknown: int

    @classmethod
    def of(cls, items: ScoredItems) -> tuple[PairsWithoutMargin, ...]:
        """Return the note for the items of a run; none if every pair has a margin."""
        if items.known != "probabilities" or items.reference is None:
            return ()
        pairs, has_margin = items.pairs, items.pair_margins.is_finite
        if has_margin is None:
            return ()
        reference = items.reference
        alike = reference[pairs.base] == reference[pairs.counterfactual]
        return (cls(int(alike.sum()), int((~has_margin & ~alike).sum())),)


@dataclass(frozen=True)
class OneOrder:
    """Items whose views show their answers in one order, as a server does with booleans.

    Attributes:
        items: number of such items, which view TV, flip rate and ensemble gain leave out.
        others: number of the other items.
    """

    items: int
    others: int


@dataclass(frozen=True)
class NearTies:
    """Answers that rounding could have changed.

    Two engines, batch sizes or machines give logits that differ in the last digits. If the two best
    answers are closer than that, their order says nothing about the model.

    Attributes:
        items: number of items whose two best logits of view 0 differ by twice the noise or less.
        noise: possible rounding error of a logit.
    """

    items: int
    noise: float


@dataclass(frozen=True)
class UnmatchedSeeds:
    """Seeds of two arms that cannot be compared.

    Attributes:
        a: the first arm.
        b: the second arm.
        only_a: seeds that only the first arm has.
        only_b: seeds that only the second arm has.
        shared: number of seeds that both arms have.
    """

    a: str
    b: str
    only_a: tuple[int | None, ...]
    only_b: tuple[int | None, ...]
    shared: int


@dataclass(frozen=True)
class DifferentViews:
    """Runs with different views, which are compared on the letter orders that all of them have.

    Attributes:
        ks: number of views by name of the run.
        common: the number of views that all runs have.
        ensembles: whether the distributions are ensembles, so that every metric depends on K.
        unlike: number of items of which the runs have different orders.
    """

    ks: Mapping[str, int]
    common: int
    ensembles: bool
    unlike: int = 0


@dataclass(frozen=True)
class SmallGroup:
    """A group of items of few families.

    Attributes:
        name: "all", or the kind, domain or source family.
        clusters: number of its families, or source families.
    """

    name: str
    clusters: int


@dataclass(frozen=True)
class SmallGroups:
    """Groups with fewer families than `FEW_CLUSTERS`, whose intervals are rough.

    Attributes:
        groups: the groups, in the order of the report; a group of one family has no interval.
        unit: what is counted: families, or source families.
    """

    groups: tuple[SmallGroup, ...]
    unit: ClusterUnit


@dataclass(frozen=True)
class LargeFamilies:
    """Few families have more than a quarter of the items, so much rests on them.

    Attributes:
        text: how many families have which share.
        unit: what is counted.
    """

    text: ClusterText
    unit: ClusterUnit

    @classmethod
    def of(cls, items: ScoredItems) -> tuple[LargeFamilies, ...]:
        """Return the note on these items; none if no few families are large."""
        text = concentration(np.bincount(items.cluster).astype(np.float64))
        return () if text is None else (cls(text, items.unit),)


Note = (
    Incomplete
    | Unverified
    | Unanswered
    | AnswersOnly
    | ConfidencesOnly
    | SeveralRight
    | RepeatedPrompts
    | ChangedModel
    | RoundedProbabilities
    | InfiniteNll
    | LowAnswerMass
    | IncompletePairs
    | PairsWithoutMargin
    | OneOrder
    | NearTies
    | UnmatchedSeeds
    | DifferentViews
    | LargeFamilies
    | SmallGroups
)

_SINGLE_PRECISION: Final = 1e-6  # of an answer mass in a file

LOW_ANSWER_MASS: Final = 0.9
"""Below this mean answer mass, a run has a note and a diagnostic."""

VERY_LOW_ANSWER_MASS: Final = 0.5
"""Below this, the model rarely answers with a letter, and the diagnostic is critical."""


def numeric_noise(provenance: Provenance) -> float | None:
    """Return the possible rounding error of a logit of a run.

        This is the difference from one plain pass per prompt that the run measured, but at least
        `NOISE`. It is None if the precision is unknown.

    Args:
        provenance: provenance of the run.

    Examples:
        >>> from pact_eval.runs.provenance import Provenance
        >>> numeric_noise(Provenance.of({"settings": {"dtype": "bfloat16"}}))
        0.125
    """
    least = NOISE.get(provenance.dtype or "")
    if least is None:
        return None
    return max(least, provenance.engine.largest_logit_difference or 0.0)


def gap_notes(provenance: Provenance) -> tuple[Incomplete | Unverified, ...]:
    """Return what an import lacks of its source.

    Examples:
        >>> from pact_eval.runs.provenance import Provenance
        >>> log = {"incomplete": {"read": 8, "of": 100}, "unverified": 3}
        >>> gap_notes(Provenance.of({"log": log, "counts": {"items": 8, "views": 8}}))
        (Incomplete(read=8, of=100), Unverified(answers=3, of=8))
    """
    gaps, views = provenance.gaps, provenance.counts.views or 0
    notes: list[Incomplete | Unverified] = []
    if gaps.read is not None and gaps.of is not None and gaps.read < gaps.of:
        notes.append(Incomplete(gaps.read, gaps.of))
    if gaps.unverified:
        notes.append(Unverified(gaps.unverified, max(views, gaps.unverified)))
    return tuple(notes)


def run_notes(provenance: Provenance) -> tuple[Note, ...]:
    """Return notes on what a run records about its items.

    Examples:
        >>> from pact_eval.runs.provenance import Provenance
        >>> counts = {"items": 3, "unanswered": {"refused": 1}}
        >>> run_notes(Provenance.of({"counts": counts}))
        (Unanswered(answered=3, by_status={'refused': 1}),)
    """
    counts, probe = provenance.counts, provenance.probe
    notes: list[Note] = [*gap_notes(provenance)]
    if counts.unanswered:
        notes.append(Unanswered(counts.items or 0, counts.unanswered))
    if provenance.known == "answers":
        notes.append(AnswersOnly())
    elif provenance.known != "probabilities":
        notes.append(ConfidencesOnly(provenance.known == "confidences"))
    if probe is not None and probe.changed and probe.end_largest_tv is not None:
        notes.append(ChangedModel(probe.end_largest_tv, probe.least_change or 0.0))
    return tuple(notes)


def several_right(items: ScoredItems) -> tuple[SeveralRight, ...]:
    """Return a note on items with several right answers; none if there are no such items.

    Args:
        items: scored items with their views in memory.
    """
    accepted = items.predictions.accepted
    if accepted is None:
        return ()
    nll = math.nan
    if items.known == "probabilities":
        any_of_them = np.where(accepted, np.exp(items.log_probs), 0.0).sum(axis=1)
        with np.errstate(divide="ignore"):
            nll = float(-np.log(np.minimum(any_of_them, 1.0)).mean())
    rows = int((accepted.sum(axis=1) > 1).sum())
    return (SeveralRight(rows * items.n_items // len(items), nll),)


def one_order(items: ScoredItems) -> tuple[OneOrder, ...]:
    """Return a note on items that are shown in one order; none if there are no such items."""
    if items.reordered is None:
        return ()
    others = int(items.reordered.sum())
    return (OneOrder(len(items) - others, others),)


def small_groups(clusters: Mapping[str, int], unit: ClusterUnit) -> tuple[SmallGroups, ...]:
    """Return a note on the groups of few families; none if there is no such group.

    Args:
        clusters: by name of a group, number of its families, or source families.
        unit: what is counted.

    Examples:
        >>> (note,) = small_groups({"all": 162, "tax": 12, "law": 1}, "family")
        >>> note.groups
        (SmallGroup(name='tax', clusters=12),)
    """
    few = tuple(
        SmallGroup(name, number) for name, number in clusters.items() if 1 < number < FEW_CLUSTERS
    )
    return (SmallGroups(few, unit),) if few else ()


def near_ties(logit_gap: npt.NDArray[np.float64], noise: float) -> NearTies:
    """Count items whose two best logits of view 0 differ by twice the noise or less.

    Args:
        logit_gap: (n,) distance of the two best logits.
        noise: possible rounding error of a logit.

    Examples:
        >>> near_ties(np.array([0.1, 3.0]), 0.125)
        NearTies(items=1, noise=0.125)
    """
    return NearTies(int((logit_gap <= 2 * noise).sum()), noise)
