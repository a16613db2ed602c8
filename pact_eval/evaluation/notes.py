"""Notes of a report on its numbers, each with its sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval._choices import ClusterUnit, Decoding
from pact_eval._typing import FloatArray
from pact_eval.errors import NO_PROBABILITIES, counted
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import PAIR_MARGIN, find_metric, pair_margins
from pact_eval.numbers import CLUSTERS, Unit, reason_text, small_text, value_text
from pact_eval.plain_text import first_of, lower_first, upper_first
from pact_eval.results import Note
from pact_eval.runs.predictions import Predictions, censored_references, recorded_bounds
from pact_eval.runs.provenance import UNSURE, Known, Provenance
from pact_eval.stats.clusters import concentration
from pact_eval.stats.estimate import FEW_CLUSTERS, ClusterText

if TYPE_CHECKING:  # they import this module
    from pact_eval.evaluation.experiment import Experiment


NOISE: Final[Mapping[str, float]] = {"float32": 1e-4, "float16": 0.016, "bfloat16": 0.125}
"""Smallest rounding error of a logit that is assumed, by the precision of the run.

It is one unit in the last place of a logit near 16; for float32, the effect of another summation
order.
"""

_SINGLE_PRECISION: Final = 1e-6  # of an answer mass in a file

LOW_ANSWER_MASS: Final = 0.9
"""Below this mean answer mass, a run has a note and a diagnostic."""

VERY_LOW_ANSWER_MASS: Final = 0.5
"""Below this, the model rarely answers with a letter, and the diagnostic is critical."""

# Groups that a sentence names; JSON has all.
_MOST_NAMED: Final = 8

ViewsUse = Literal["always", "ensembles", "never"]
"""When the numbers of a table or figure depend on K: always, or only if they are of ensembles."""


class Worded(Note):
    """A note whose sentence is a pattern, with the names of its fields."""

    text: ClassVar[str]

    def __str__(self) -> str:
        return self.text.format(**vars(self))


class ShownFirst(Note):
    """A note that the first screen shows as it is."""

    @property
    def short(self) -> str:
        """The whole note."""
        return str(self)


@dataclass(frozen=True)
class RoundedProbabilities(Note):
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
    def ends(self) -> dict[str, str]:
        """The scores whose ends differ in print, and both ends: what rounding moves.

        Examples:
            >>> RoundedProbabilities(6, (0.70701, 0.70703), (0.2, 0.2), (0.7, 0.8), 0, 3).ends
            {'accuracy': 'between 70.0 and 80.0%'}
        """
        scores: dict[str, tuple[tuple[float, float], Unit, str]] = {
            "NLL": (self.nll, "nats", " nats"),
            "AURC": (self.aurc, "percent", "%"),
            "accuracy": (self.accuracy, "percent", "%"),
        }
        texts = {}
        for name, (both, unit, word) in scores.items():
            low, high = (value_text(end, unit) for end in both)
            if low != high:
                texts[name] = f"between {low} and {high}{word}"
        return texts

    @property
    def short(self) -> str:
        """The whole note, if it moves the accuracy."""
        return str(self) if "accuracy" in self.ends else ""

    def __str__(self) -> str:
        if self.decimals is None:
            why, hides = "the log lists only the most probable tokens", "the log"
            unknown = "is not listed; it counts as the least probable listed token"
        else:
            why, hides = f"probabilities are rounded to {self.decimals} decimals", "rounding"
            unknown = f"was rounded to 0, which counts as {0.5 * 10**-self.decimals:g} or less"
        ends = self.ends
        if math.isinf(self.nll[1]):
            items = f"{_items(self.censored)} a correct answer that {unknown}"
            least = value_text(self.nll[0], "nats")
            ends["NLL"] = f"at least {least} nats, without an upper bound ({items})"
        if "accuracy" in ends:
            items = counted(self.undecided, "item")
            ends["accuracy"] += f": {hides} hides the most probable answer of {items}"
        text = f"{why}: {', '.join(f'{name} is {end}' for name, end in ends.items())}."
        return f"{self.run}: {text}" if self.run else upper_first(text)


@dataclass(frozen=True)
class InfiniteNll(Worded):
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
    text = (
        "NLL is infinite: {infinite_items:,} of {items:,} items give the correct answer "
        "probability 0. If each of them had the smallest probability above 0 in this run "
        "({smallest_probability:.3g}), NLL would be at least {lower_bound:.4f}."
    )


@dataclass(frozen=True)
class Unanswered(ShownFirst):
    """Items without an answer, which no number of the report counts.

    Attributes:
        answered: number of items with an answer.
        by_status: number of items without one, by status.
    """

    answered: int
    by_status: Mapping[str, int]

    def __str__(self) -> str:
        items = self.answered + sum(self.by_status.values())
        listed = ", ".join(f"{number:,} {status}" for status, number in self.by_status.items())
        return (
            f"{self.answered:,} of {items:,} items are answered (coverage "
            f"{100 * self.answered / items:.1f}%; {listed}). Numbers are of these items, unless "
            "they say otherwise."
        )


@dataclass(frozen=True)
class Incomplete(Worded):
    """The run has some of the items of its source.

    Attributes:
        read: number of items that it has.
        of: number of items of the source.
    """

    read: int
    of: int
    text = "Incomplete: {read:,} of {of:,} items."


@dataclass(frozen=True)
class Unverified(Worded):
    """Answers of an import that nothing in its source checks.

    Attributes:
        answers: number of such answers.
        of: number of answers of the run.
    """

    answers: int
    of: int
    text = "Unverified: no check in the log for {answers:,} of {of:,} answers."


def gap_words(gaps: Sequence[Incomplete | Unverified]) -> str:
    """Write what an import lacks, in a few words; "" if nothing.

    Examples:
        >>> gap_words([Incomplete(8, 100), Unverified(1, 8)])
        'incomplete: 8 of 100 items; unverified: no check in the log for 1 of 8 answers'
    """
    return "; ".join(lower_first(str(gap).removesuffix(".")) for gap in gaps)


@dataclass(frozen=True)
class PartlyKnown(Note):
    """The run does not know all probabilities, so metrics that need them are undefined.

    Attributes:
        known: what it knows of every item.
    """

    known: Known

    def __str__(self) -> str:
        right = ", and whether it is right" if self.known == "outcomes" else ""
        undefined = "ECE, AURC" if self.known in UNSURE else "pair margin"
        return (
            f"{upper_first(NO_PROBABILITIES[self.known])}{right}: NLL, Brier, {undefined} and view "
            "TV are not defined."
        )


@dataclass(frozen=True)
class SeveralRight(ShownFirst):
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

    def __str__(self) -> str:
        counts = f"{self.run}: {self.items:,}" if self.run else f"{self.items:,}"
        counts += " items have several right answers: an answer counts if it is one of them."
        if math.isnan(self.nll_of_any):
            return counts
        return (
            f"{counts} NLL and Brier are of the most probable right answer; the NLL of any "
            f"right answer is {self.nll_of_any:.4f} nats. Right answers share the probability, so "
            "ECE overstates underconfidence."
        )


@dataclass(frozen=True)
class RepeatedPrompts(ShownFirst):
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
    def of(cls, items: ScoredItems, *, shuffled: bool) -> tuple[RepeatedPrompts, ...]:
        """Return the note for the items of a run; none if their views are not repeats."""
        if items.repeats == 1:
            return ()
        changed = math.nan
        if items.asked > 1:
            answers = items.predicted.reshape(-1, items.asked)
            changed = float((answers != answers[:, :1]).any(axis=1).mean())
        return (cls(items.repeats, changed, shuffled),)

    def __str__(self) -> str:
        orders = "in one order, so its effect is not known"
        if self.shuffled:
            orders = "in other orders; answers may change with the order or by chance"
        repeats = f"Every question was asked {self.repeats} times {orders}"
        if math.isnan(self.changed):
            return f"{repeats}; the repeats are decoded together."
        changed = value_text(self.changed, "percent")
        return (
            f"{repeats}. Numbers are means over the repeats; in {changed}% of the items the answer "
            "is not the same in all of them."
        )


@dataclass(frozen=True)
class ChangedModel(ShownFirst, Worded):
    """The model of a server has changed during the run.

    Attributes:
        largest_tv: largest total variation distance of the answers to the probe, at the start and
            at the end of the run.
        least_change: the smallest one that is not put down to noise.
    """

    largest_tv: float
    least_change: float
    text = (
        "The model of the server has changed during the run: answers to the same requests at the "
        "start and at the end differ by a TV of {largest_tv:.2g} (noise and rounding: below "
        "{least_change:.2g}). The run is of two models."
    )


@dataclass(frozen=True)
class LowAnswerMass(ShownFirst):
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

    @property
    def remark(self) -> str:
        """What it means, or how much is expected."""
        if self.share < VERY_LOW_ANSWER_MASS:
            return "the model rarely answers with one of the letters"
        return f"{LOW_ANSWER_MASS:.0%} or more is expected"

    def __str__(self) -> str:
        share = small_text(self.share, "percent")
        mark = ":" if self.share < VERY_LOW_ANSWER_MASS else ";"
        about = "of the next-token probability is on the answer letters"
        return f"Only {share}% {about}{mark} {self.remark}."


@dataclass(frozen=True)
class IncompletePairs(ShownFirst, Worded):
    """Families that are left out of pair accuracy.

    Attributes:
        families: number of families that are not exactly one base and one counterfactual.
    """

    families: int
    text = "Pair accuracy leaves out incomplete pairs: {families:,}."


@dataclass(frozen=True)
class PairsWithoutMargin(Note):
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
        if items.reference is None or not find_metric(PAIR_MARGIN).defined_for(items.known):
            return ()
        pairs, reference = items.pairs, items.reference
        has_margin = np.isfinite(pair_margins(items))
        if has_margin.all():
            return ()
        alike = reference[pairs.base] == reference[pairs.counterfactual]
        return (cls(int(alike.sum()), int((~has_margin & ~alike).sum())),)

    def __str__(self) -> str:
        counts = []
        if self.alike:
            counts.append(f"{self.alike:,} whose members have the same right answer")
        if self.unknown:
            counts.append(f"{self.unknown:,} with a right answer of unknown probability or 0")
        return f"The pair margin leaves out pairs: {', '.join(counts)}."


@dataclass(frozen=True)
class OneOrder(Note):
    """Items whose views show their answers in one order, as a server does with booleans.

    Attributes:
        items: number of such items, which view TV, flip rate and ensemble gain leave out.
        others: number of the other items.
    """

    items: int
    others: int

    def __str__(self) -> str:
        items = f"{_items(self.items)} their answers in one order only"
        if not self.others:
            return f"{items}: nothing is known of the effect of the order."
        return f"{items}: view TV, flip rate and ensemble gain are of the other {self.others:,}."


@dataclass(frozen=True)
class NearTies(Note):
    """Answers that rounding could have changed.

    Two engines, batch sizes or machines give logits that differ in the last digits. If the two best
    answers are closer than that, their order says nothing about the model.

    Attributes:
        items: number of items whose two best logits of view 0 differ by twice the noise or less.
        noise: possible rounding error of a logit.
    """

    items: int
    noise: float

    def __str__(self) -> str:
        items = counted(self.items, "item")
        return (
            f"The two best answers of {items} have logits that differ by {2 * self.noise:.2g} or "
            "less (view 0): rounding could change which comes first."
        )


@dataclass(frozen=True)
class UnmatchedSeeds(ShownFirst):
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

    def __str__(self) -> str:
        parts = []
        if not self.shared:
            parts.append(
                f"{self.a} and {self.b} have no seed in common: nothing is compared by seed."
            )
        for name, other, seeds in ((self.a, self.b, self.only_a), (self.b, self.a, self.only_b)):
            if seeds:
                listed = ", ".join(map(str, seeds))
                parts.append(f"{name} has seeds that {other} lacks: {listed}.")
        return " ".join(parts)


@dataclass(frozen=True)
class DifferentViews(Note):
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

    def __str__(self) -> str:
        by_k: dict[int, list[str]] = {}
        for name, k in self.ks.items():
            by_k.setdefault(k, []).append(name)
        listed = "; ".join(f"{k}: {', '.join(names)}" for k, names in sorted(by_k.items()))
        differ = "have different numbers of orders"
        orders = "first order" if self.common == 1 else f"first {self.common} orders"
        shared = f"the {orders} of every item"
        if self.unlike:
            differ = f"show {counted(self.unlike, 'item')} in different letter orders"
            shared = "the orders that all runs have"
        what = "Ensembles, view TV" if self.ensembles else "View TV"
        return (
            f"The runs {differ} ({listed}). {what}, flip rate and ensemble gain are compared on "
            f"{shared}."
        )

    @property
    def short(self) -> str:
        """All of it, if answers are means over orders."""
        return str(self) if self.ensembles else ""


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
class SmallGroups(Note):
    """Groups with fewer families than `FEW_CLUSTERS`, whose intervals are rough.

    Attributes:
        groups: the groups, in the order of the report; a group of one family has no interval.
        unit: what is counted: families, or source families.
    """

    groups: tuple[SmallGroup, ...]
    unit: ClusterUnit

    def __str__(self) -> str:
        listed = [f"{group.name} ({group.clusters:,})" for group in self.groups]
        few = f"Fewer than {FEW_CLUSTERS} {CLUSTERS[self.unit]} in"
        return f"{few}: {first_of(listed, _MOST_NAMED)}. Intervals are rough."

    @property
    def short(self) -> str:
        """That of all items."""
        first = self.groups[0]
        if first.name != "all":
            return ""
        return f"Intervals are rough: few items that are independent ({first.clusters:,})."


@dataclass(frozen=True)
class LargeFamilies(ShownFirst):
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

    def __str__(self) -> str:
        few = reason_text(self.text, self.unit)
        return f"{few}: intervals allow for it, and equivalence is not shown."

    @property
    def short(self) -> str:
        """The same in plain words: a first screen does not speak of families."""
        if self.unit != "family":
            return str(self)
        return (
            "Few groups that belong together have more than a quarter of the items: intervals "
            "allow for it, and equality within a margin is not shown."
        )


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
    log, views = provenance.log, provenance.counts.views or 0
    read, of = log.incomplete.read, log.incomplete.of
    notes: list[Incomplete | Unverified] = []
    if read is not None and of is not None and read < of:
        notes.append(Incomplete(read, of))
    if log.unverified:
        notes.append(Unverified(log.unverified, max(views, log.unverified)))
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
    if provenance.known != "probabilities":
        notes.append(PartlyKnown(provenance.known))
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
    if not np.isnan(items.values["nll_nats"]).any():
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


def named(note: Note, names: ArmNames) -> Note:
    """Return a note with the display names of its arms and runs."""
    match note:
        case UnmatchedSeeds():
            return replace(note, a=names.arm(note.a), b=names.arm(note.b))
        case DifferentViews():
            return replace(note, ks={names.run(label): k for label, k in note.ks.items()})
        case RoundedProbabilities() | SeveralRight():
            return replace(note, run=names.run(note.run))
        case _:
            return note


def views_notes(experiment: Experiment, views: ViewsUse, names: ArmNames = KEYS) -> tuple[str, ...]:
    """Return the note on different numbers of views, if numbers of a table or figure depend on K.

    Args:
        experiment: the runs that are shown next to each other.
        views: when the numbers depend on K.
        names: display names of arms.
    """
    of_ensembles = (views, experiment.settings.decoding) == ("ensembles", "ensemble")
    note = experiment.comparisons.views_note if views == "always" or of_ensembles else None
    return () if note is None else (str(named(note, names)),)


def _items(number: int) -> str:
    return f"{counted(number, 'item')} {'has' if number == 1 else 'have'}"


def rounded_scores(
    predictions: Predictions,
    decoding: Decoding,
    decimals: int | None,
    temperature: FloatArray | None = None,
) -> RoundedProbabilities:
    """Return the bounds of NLL, AURC and accuracy.

    Args:
        predictions: the views, with references; logits are logs of the recorded probabilities.
        decoding: single or ensemble.
        decimals: to how many decimals they were rounded; None if they were not.
        temperature: (n,) of a calibrator; None if there is none.
    """
    low, high = recorded_bounds(predictions, decoding, decimals)
    power = np.ones(len(predictions)) if temperature is None else 1 / temperature
    least, most = _decode(low, power), _decode(high, power)
    p_least = _share(least, most)
    p_most = _share(most, least)
    if decimals is not None and decoding == "single" and temperature is None:
        p_least, p_most = np.maximum(p_least, low[:, 0]), np.minimum(p_most, high[:, 0])
    rows, reference = np.arange(len(predictions)), predictions.reference
    others = np.arange(low.shape[2]) != reference[:, None]
    can_be_right = most[rows, reference] >= np.where(others, least, 0.0).max(axis=1)
    can_be_wrong = np.where(others, most, 0.0).max(axis=1) >= least[rows, reference]
    with np.errstate(divide="ignore"):
        nll = [-np.log(p[rows, reference]).mean() for p in (p_most, p_least)]
    return RoundedProbabilities(
        decimals=decimals,
        nll=(float(nll[0]), float(nll[1])),
        aurc=metrics.aurc_bounds(
            p_least.max(axis=1), p_most.max(axis=1), can_be_right, can_be_wrong
        ),
        accuracy=(1 - float(can_be_wrong.mean()), float(can_be_right.mean())),
        censored=censored_references(predictions, decoding, decimals),
        undecided=int((can_be_right & can_be_wrong).sum()),
    )


def _decode(probabilities: FloatArray, power: FloatArray) -> FloatArray:
    """Return (n, C) geometric means over the views, to a power."""
    with np.errstate(divide="ignore"):
        mean = np.log(probabilities).mean(axis=1)
    return np.asarray(np.exp(mean * power[:, None]))


def _share(own: FloatArray, others: FloatArray) -> FloatArray:
    """Return (n, C) the share of each answer if it has one weight and the others another."""
    rest = np.maximum(others.sum(axis=1, keepdims=True) - others, 0.0)
    with np.errstate(invalid="ignore"):
        return np.where(own > 0, own / (own + rest), 0.0)
