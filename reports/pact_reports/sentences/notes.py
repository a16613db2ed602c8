"""Notes and warnings of a report as sentences."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from pact_eval.evaluation.alignment import ItemMismatch, LeftOutItems
from pact_eval.evaluation.conclusions.data import DataLeak
from pact_eval.evaluation.joins import (
    ContractNotice,
    Notice,
    OtherTraining,
    SameRun,
    SameWeights,
    SkippedRun,
    UnlikeRuns,
    UnsealedFiles,
)
from pact_eval.evaluation.metric_specs import Unit
from pact_eval.evaluation.notes import (
    LOW_ANSWER_MASS,
    VERY_LOW_ANSWER_MASS,
    AnswersOnly,
    ChangedModel,
    ConfidencesOnly,
    DifferentViews,
    Incomplete,
    IncompletePairs,
    InfiniteNll,
    LargeFamilies,
    LowAnswerMass,
    NearTies,
    Note,
    OneOrder,
    PairsWithoutMargin,
    RepeatedPrompts,
    RoundedProbabilities,
    SeveralRight,
    SmallGroups,
    Unanswered,
    UnmatchedSeeds,
    Unverified,
)
from pact_eval.runs.custody import TrainedOnRun
from pact_eval.stats.estimate import FEW_CLUSTERS
from pact_reports.arm_names import KEYS, ArmNames
from pact_reports.numbers import CLUSTERS, reason_text, small_text, value_text
from pact_reports.sentences.custody import trained_on_text
from pact_reports.sentences.data import leak_sentence

# Groups that a sentence names; JSON has all.
_MOST_NAMED: Final = 8

if TYPE_CHECKING:
    from pact_eval.calibration.notes import CalibrationWarning
    from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
    from pact_eval.evaluation.experiment import Experiment

ViewsUse = Literal["always", "ensembles", "never"]
"""When the numbers of a table or figure depend on K: always, or only if they are of ensembles."""


def note_sentence(note: Note, names: ArmNames = KEYS) -> str:
    """Explain a note in one or two sentences.

    Args:
        note: the note.
        names: display names of arms.

    Example:
        >>> note_sentence(NearTies(3, 0.125))[:42]
        'The two best answers of 3 items have logit'
    """
    note = named_note(note, names)
    match note:
        case UnmatchedSeeds():
            return _unmatched(note)
        case DifferentViews():
            return _different_views(note)
        case SmallGroups() | LargeFamilies():
            return _about_families(note)
        case AnswersOnly() | ConfidencesOnly():
            return _without_probabilities(note)
        case RepeatedPrompts():
            return _repeated(note)
        case ChangedModel() | RoundedProbabilities():
            return _about_server(note)
        case SeveralRight():
            return _several_right(note)
        case IncompletePairs() | PairsWithoutMargin():
            return _about_pairs(note)
        case _:
            return _about_items(note)


def gap_words(note: Incomplete | Unverified) -> str:
    """Name what an import lacks of its source.

    Examples:
        >>> gap_words(Incomplete(8, 100))
        'incomplete: 8 of 100 items'
    """
    if isinstance(note, Incomplete):
        return f"incomplete: {note.read:,} of {note.of:,} items"
    verb = "has" if note.answers == 1 else "have"
    return f"unverified: {note.answers:,} of {note.of:,} answers {verb} no check in the log"


def named_note(note: Note, names: ArmNames) -> Note:
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


def _without_probabilities(note: AnswersOnly | ConfidencesOnly) -> str:
    if isinstance(note, AnswersOnly):
        return (
            "The run has answers and no probabilities: NLL, Brier, ECE, AURC and view TV are not "
            "defined."
        )
    if note.named:
        known = "Only the confidence of the answer is known"
    else:
        known = "Only the confidence of the answer is known, and whether it is right"
    return f"{known}: NLL, Brier, pair margin and view TV are not defined."


def _about_pairs(note: IncompletePairs | PairsWithoutMargin) -> str:
    if isinstance(note, IncompletePairs):
        return f"Pair accuracy leaves out families that are not a complete pair: {note.families:,}."
    counts = []
    if note.alike:
        counts.append(f"{note.alike:,} whose members have the same right answer")
    if note.unknown:
        counts.append(f"{note.unknown:,} with a right answer of unknown probability or 0")
    return f"The pair margin leaves out pairs: {', '.join(counts)}."


def _about_items(
    note: Incomplete | Unverified | Unanswered | InfiniteNll | LowAnswerMass | OneOrder | NearTies,
) -> str:
    match note:
        case Incomplete() | Unverified():
            words = gap_words(note)
            return f"{words[0].upper()}{words[1:]}."
        case Unanswered():
            listed = ", ".join(f"{number:,} {status}" for status, number in note.by_status.items())
            return (
                f"{note.answered:,} of {note.items:,} items are answered (coverage "
                f"{100 * note.coverage:.1f}%; {listed}). Numbers are of these items, unless they "
                "say otherwise."
            )
        case InfiniteNll():
            return (
                f"NLL is infinite: {note.infinite_items:,} of {note.items:,} items give the "
                "correct answer probability 0. If each of them had the smallest probability above "
                f"0 in this run ({note.smallest_probability:.3g}), NLL would be at least "
                f"{note.lower_bound:.4f}."
            )
        case LowAnswerMass():
            rarely = ": the model rarely answers with one of the letters"
            if note.share >= VERY_LOW_ANSWER_MASS:
                rarely = f"; {LOW_ANSWER_MASS:.0%} or more is expected"
            share = small_text(note.share, "percent")
            return f"Only {share}% of the next-token probability is on the answer letters{rarely}."
        case OneOrder():
            items = f"{_items(note.items)} their answers in one order only"
            if not note.others:
                return f"{items}: nothing is known of the effect of the order."
            return (
                f"{items}: view TV, flip rate and ensemble gain are of the other {note.others:,}."
            )
        case NearTies():
            counted = "1 item" if note.items == 1 else f"{note.items:,} items"
            return (
                f"The two best answers of {counted} have logits that differ by "
                f"{2 * note.noise:.2g} or less (view 0): rounding could change which comes first."
            )


def views_notes(experiment: Experiment, views: ViewsUse, names: ArmNames = KEYS) -> tuple[str, ...]:
    """Return the note on different numbers of views, if numbers of a table or figure depend on K.

    Args:
        experiment: the runs that are shown next to each other.
        views: when the numbers depend on K.
        names: display names of arms.
    """
    depends = views == "always" or (views, experiment.settings.decoding) == (
        "ensembles",
        "ensemble",
    )
    note = experiment.comparisons.views_note if depends else None
    return () if note is None else (note_sentence(note, names),)


def unlike_sentence(unlike: UnlikeRuns) -> str:
    """Name the differences of two runs that are compared nevertheless.

    Example:
        >>> from pact_eval.runs.identity import Difference
        >>> unlike_sentence(UnlikeRuns("a", "b", (Difference("data", "4def", "77aa"),)))
        'a and b differ in their dataset (4def and 77aa), as allowed'
    """
    named = [
        f"{difference.words} ({difference.before} and {difference.after})"
        for difference in unlike.differences
    ]
    return f"{unlike.first} and {unlike.other} differ in their {', '.join(named)}, as allowed"


def other_training_sentence(other: OtherTraining) -> str:
    """Name the different training data of two adapters.

    Examples:
        >>> from pact_eval.runs.custody import TrainedRole
        >>> roles = TrainedRole(("a.jsonl",), 20, 10, "1f"), None
        >>> other_training_sentence(OtherTraining("runs/a", "runs/b", ("train",), roles))
        'runs/a and runs/b were trained on different data: a.jsonl (10 families) and no file'
    """
    used = [
        "no file" if role is None else f"{', '.join(role.files)} ({role.families:,} families)"
        for role in other.trained
    ]
    what = "" if "train" in other.roles else f" ({' and '.join(other.roles)} differ)"
    runs = f"{other.first} and {other.other} were trained on different data"
    return f"{runs}{what}: {used[0]} and {used[1]}"


def same_weights_sentence(same: SameWeights) -> str:
    """Name the runs that record different seeds for the same weights.

    Example:
        >>> same_weights_sentence(SameWeights("a", "b", (17, 18), "4def"))
        'a and b record the training seeds 17 and 18, but their adapters are the same (4def)'
    """
    first, other = same.seeds
    return (
        f"{same.first} and {same.other} record the training seeds {first} and {other}, but their "
        f"adapters are the same ({same.sha256[:12]})"
    )


NEEDS_RUNS: Final = "needs runs: published metrics have no items"
"""Why a table or figure cannot be made from published metrics."""


def published_sentence(metrics: ArmMetrics) -> str:
    """Name the files of published numbers, and the information that they lack."""
    files = ", ".join(path.name for path in metrics.files)
    return f"Published metrics ({files}): values without intervals, no difference is tested."


_SAYS_ITSELF: Final = (ContractNotice, ItemMismatch, LeftOutItems, SameRun, UnsealedFiles)


def warning_sentence(
    warning: CalibrationWarning | ItemMismatch | Notice,
) -> str:
    """Explain a warning, and name its run.

    Example:
        >>> warning_sentence(SkippedRun("runs/cal", "calibration", "evaluation"))[:33]
        'runs/cal: left out: its role is c'
    """
    if isinstance(warning, SkippedRun):
        return (
            f"{warning.run}: left out: its role is {warning.role}, and the other runs are for "
            f"{warning.kept}"
        )
    if isinstance(warning, DataLeak):
        return leak_sentence(warning)
    if isinstance(warning, OtherTraining):
        return other_training_sentence(warning)
    if isinstance(warning, TrainedOnRun):
        return f"{warning.run}: {trained_on_text(warning.trained_on)}, as allowed"
    if isinstance(warning, UnlikeRuns):
        return unlike_sentence(warning)
    if isinstance(warning, SameWeights):
        return same_weights_sentence(warning)
    if isinstance(warning, _SAYS_ITSELF):
        return str(warning)
    # A report without a calibrator does not wait for what fits them.
    from pact_reports.sentences.calibration import calibration_sentence

    return f"{warning.run}: {calibration_sentence(warning.note)}"


def _about_server(note: ChangedModel | RoundedProbabilities) -> str:
    match note:
        case ChangedModel():
            return (
                "The model of the server has changed during the run: answers to the same requests "
                f"at the start and at the end differ by a TV of {note.largest_tv:.2g} (noise and "
                f"rounding: below {note.least_change:.2g}). The run is of two models."
            )
        case RoundedProbabilities():
            return _rounded(note)


def _several_right(note: SeveralRight) -> str:
    counts = f"{note.run}: {note.items:,}" if note.run else f"{note.items:,}"
    counts += " items have several right answers: an answer counts if it is one of them"
    if math.isnan(note.nll_of_any):
        return f"{counts}."
    return (
        f"{counts}. NLL and Brier are of the most probable right answer; the NLL of any right "
        f"answer is {note.nll_of_any:.4f} nats. Right answers share the probability, so ECE "
        "overstates underconfidence."
    )


def _rounded(note: RoundedProbabilities) -> str:
    """Write the ends that differ in print: a score that rounding does not move is not named."""
    if note.decimals is None:
        why, verb, hides = "the log lists only the most probable tokens:", "is", "the log"
        unknown = "is not listed; it counts as the least probable listed token"
    else:
        why = f"probabilities are rounded to {note.decimals} decimals: before rounding,"
        verb, hides = "was", "rounding"
        unknown = f"was rounded to 0, which counts as {0.5 * 10**-note.decimals:g} or less"
    nll = _between(note.nll, "nats", " nats")
    if math.isinf(note.nll[1]):
        items = f"{_items(note.censored)} a correct answer that {unknown}"
        least = value_text(note.nll[0], "nats")
        nll = f"at least {least} nats, without an upper bound ({items})"
    accuracy = _between(note.accuracy, "percent", "%")
    if accuracy:
        items = f"{note.undecided:,} item{'' if note.undecided == 1 else 's'}"
        accuracy += f": {hides} hides the most probable answer of {items}"
    ends = {"NLL": nll, "AURC": _between(note.aurc, "percent", "%"), "accuracy": accuracy}
    scores = ", ".join(f"{name} {text}" for name, text in ends.items() if text)
    text = f"{why} {scores.replace(' ', f' {verb} ', 1)}."
    return f"{note.run}: {text}" if note.run else f"{text[0].upper()}{text[1:]}"


def _between(ends: tuple[float, float], unit: Unit, word: str) -> str:
    """Write both ends of a score; "" if they are the same in print."""
    low, high = (value_text(end, unit) for end in ends)
    return "" if low == high else f"between {low} and {high}{word}"


def _about_families(note: SmallGroups | LargeFamilies) -> str:
    if isinstance(note, LargeFamilies):
        few = reason_text(note.text, note.unit)
        return f"{few}: intervals allow for it, and equivalence is not shown."
    named = [f"{group.name} ({group.clusters:,})" for group in note.groups]
    listed = ", ".join(named[:_MOST_NAMED])
    if len(named) > _MOST_NAMED:
        listed += f" and {len(named) - _MOST_NAMED:,} more"
    few = f"Fewer than {FEW_CLUSTERS} {CLUSTERS[note.unit]} in"
    rough = "Their intervals are rough" if len(named) > 1 else "Its intervals are rough"
    return f"{few}: {listed}. {rough}."


def _items(number: int) -> str:
    return "1 item has" if number == 1 else f"{number:,} items have"


def _unmatched(note: UnmatchedSeeds) -> str:
    parts = []
    if not note.shared:
        parts.append(f"{note.a} and {note.b} have no seed in common: nothing is compared by seed.")
    for name, other, seeds in ((note.a, note.b, note.only_a), (note.b, note.a, note.only_b)):
        if seeds:
            listed = ", ".join(map(str, seeds))
            parts.append(f"{name} has seeds that {other} lacks: {listed}.")
    return " ".join(parts)


def _repeated(note: RepeatedPrompts) -> str:
    """Explain that views are repeats, and their effect."""
    orders = "in one order, so its effect is not known"
    if note.shuffled:
        orders = "in other orders; answers may change with the order or by chance"
    repeats = f"Every question was asked {note.repeats} times {orders}"
    if math.isnan(note.changed):
        return f"{repeats}; the repeats are decoded together."
    changed = value_text(note.changed, "percent")
    return (
        f"{repeats}. Numbers are means over the repeats; in {changed}% of the items the answer is "
        "not the same in all of them."
    )


def _different_views(note: DifferentViews) -> str:
    by_k: dict[int, list[str]] = {}
    for name, k in note.ks.items():
        by_k.setdefault(k, []).append(name)
    listed = "; ".join(f"K = {k}: {', '.join(names)}" for k, names in sorted(by_k.items()))
    what = "View TV, flip rate and ensemble gain"
    if note.ensembles:
        what = "Ensembles, view TV, flip rate and ensemble gain"
    if note.unlike:
        count = "1 item" if note.unlike == 1 else f"{note.unlike:,} items"
        return (
            f"The runs show {count} in different letter orders ({listed}). {what} are compared on "
            "the orders that all runs have."
        )
    views = "view" if note.common == 1 else f"{note.common} views"
    return (
        f"The runs have different numbers of views ({listed}). {what} are compared on the first "
        f"{views} of every item."
    )
