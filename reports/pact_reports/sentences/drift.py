"""Drift in words: change against the margin, its sources, and tempering by a server."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pact_eval._choices import ClusterUnit
from pact_eval.drift.distances import Distance, JointFloor
from pact_eval.drift.drift import Drift
from pact_eval.drift.prior_removal import PriorRemoval
from pact_eval.drift.quantising import QuantisingCost
from pact_eval.drift.run_comparison import RunComparison
from pact_eval.drift.tempering import ServedTempering, Tempering
from pact_eval.errors import counted
from pact_eval.evaluation.conclusions.data import after_leak
from pact_eval.evaluation.order_effect import NoiseFloor
from pact_eval.numbers import CLUSTERS, UNDEFINED, ends_text, estimate_text, value_text

_OF_RATIO = 3


def drift_answer(drift: Drift) -> str:
    """Write the leak, the equivalence of two runs, and the changes behind it."""
    broken = [gate.after.group for gate in drift.broken_gates]
    parts = []
    if broken:
        parts.append(f"{counted(len(broken), 'gate')} broken on B ({', '.join(broken[:4])})")
    parts += [accuracy_change_text(drift), *_behind(drift)]
    return after_leak(f"{drift.finding.capitalize()}: {'; '.join(parts)}.", drift.data.leak)


def accuracy_change_text(drift: Drift) -> str:
    """Write the change in accuracy next to the margin."""
    test, unit = drift.test, drift.settings.unit
    margin = f"{value_text(test.margin, 'percent').removesuffix('.0')} points"
    if math.isnan(test.change.low):
        return f"no interval for the change in accuracy ({test.change.reason})"
    if not drift.has_references:
        most = value_text(test.change.high, "percent")
        return f"accuracy cannot have changed by more than {most} points, margin {margin}"
    change = f"{value_text(test.change.value, 'points')} points"
    interval = f"95% interval {ends_text(test.change.low, test.change.high, 'points')}"
    match test.finding:
        case "equivalent":
            return f"accuracy {change}, {interval} within the margin of {margin}"
        case "changed":
            return f"accuracy {change}, {interval} beyond the margin of {margin}"
        case "cannot tell":
            measured = f"accuracy {change}, {interval}, margin {margin}"
            return f"{measured}; {_needed(test.needed, test.change.clusters, unit)}"


def _needed(needed: int | None, clusters: int, unit: ClusterUnit) -> str:
    if needed is None:
        return "the change is too close to the margin for any number of families"
    return f"about {needed:,} {CLUSTERS[unit]} are needed, there are {clusters:,}"


def _behind(drift: Drift) -> Iterator[str]:
    """Yield the sources of the change: answers on the same items, its parts on others."""
    if drift.answers:
        all_items = drift.answers[0]
        yield (
            f"{all_items.count:,} of {all_items.items:,} answers changed"
            f"{_directions(all_items.better, all_items.worse, all_items.both_wrong)}"
        )
    if drift.mix is not None:
        mix = drift.mix
        parts = [("other shares of kinds and domains", mix.mix)]
        parts.append(("other accuracy within them", mix.within))
        if not mix.same_domains:
            parts.append(("kinds and domains of one run only", mix.unshared))
        changes = (f"{name} {value_text(part.value, 'points')}" for name, part in parts)
        yield f"of this, {', '.join(changes)}"


def _directions(better: int | None, worse: int | None, both_wrong: int | None) -> str:
    if better is None:
        return ""
    return f" ({better:,} better, {worse:,} worse, {both_wrong:,} wrong before and after)"


def pairing_sentence(drift: Drift) -> str:
    """Write whether the items of two runs are the same, and the number left out."""
    pairing, (first, second) = drift.pairing, drift.pairing.unanswered
    without = ""
    if first or second:
        without = f" Without an answer: {first:,} items in A, {second:,} in B."
    if pairing.paired:
        left = pairing.only_a + pairing.only_b
        dropped = f" {left:,} items that only one run has answered are left out." if left else ""
        return f"The same {pairing.common:,} items.{dropped}{without}"
    sizes = pairing.common + pairing.only_a, pairing.common + pairing.only_b
    return (
        f"Other items: {sizes[0]:,} in A, {sizes[1]:,} in B, {pairing.common:,} in both. Changed "
        f"answers and distances need the same items and are omitted.{without}"
    )


def difference_sentences(drift: Drift) -> Iterator[str]:
    """Yield the different settings of two runs: intended changes, and others."""
    for difference in drift.differences:
        yield f"Another {difference.words}: {difference.before} in A, {difference.after} in B."


def floor_sentence(floor: JointFloor) -> str:
    """Write the effect of noise alone between two runs of one model."""
    if math.isnan(floor.tv):
        if floor.a.is_known and floor.b.is_known:
            return "Noise: not known for probabilities after a temperature."
        if "not in the log" in (floor.a.source, floor.b.source):
            return "Noise: not known; an imported log does not say what repeats would move."
        return "Noise: not measured; a probe with repeats measures it."
    sources = dict.fromkeys(_source(side) for side in (floor.a, floor.b))
    return f"Noise alone ({', '.join(sources)}) moves a TV of at most {_percent(floor.tv)}."


def _source(floor: NoiseFloor) -> str:
    if floor.source == "rounding":
        return f"rounding in {floor.precision}"
    return f"{counted(floor.repeats, 'repeat')} of a probe"


def _percent(rate: float) -> str:
    return f"{100 * rate:.2g}%"


def analysis_sentences(comparison: RunComparison) -> Iterator[str]:
    """Yield what is said of a served run and a local one, and of a quantised base model."""
    if comparison.tempering is not None:
        yield from tempering_sentences(comparison.tempering)
    if comparison.quantising is not None:
        yield from quantising_sentences(comparison.quantising)
    if comparison.prior_removal is not None:
        names = (comparison.runs[0].title, comparison.runs[1].title)
        yield prior_sentence(comparison.prior_removal, names)


def prior_sentence(removal: PriorRemoval, names: tuple[str, str]) -> str:
    """Say which of two runs has a letter prior removed, and what that explains."""
    letter, size = removal.largest
    explained = (
        f"mean TV {_percent(removal.tv)}, {_percent(removal.tv_left)} once it is put back; largest "
        f"at letter {letter}, {size:+.2f} nats"
    )
    if removal.removed_from == "cannot tell":
        return (
            f"A letter prior lies between the runs ({explained}). Which of them has it removed "
            "cannot be told: neither has views in other orders."
        )
    without, other = names if removal.removed_from == "first" else reversed(names)
    return f"{without} has a letter prior removed, {other} has not ({explained})."


def tempering_sentences(tempering: ServedTempering) -> Iterator[str]:
    """Yield whether the probabilities of a served run look raw or tempered, by kind."""
    everything, *kinds = tempering.temperings
    alike = {kind.finding for kind in kinds} == {"raw"}
    for kind in [everything] if alike or not kinds else kinds:
        of_kind = "" if kind.kind == "all" else f" of {kind.kind}"
        yield f"Served probabilities{of_kind} {_looks(kind)}."


def _looks(tempering: Tempering) -> str:
    if math.isnan(tempering.ratio.value):
        return f"may be raw or tempered: no temperature could be fitted ({tempering.ratio.reason})"
    temperatures = f"T fitted on them is {tempering.b.value:.2f}, locally {tempering.a.value:.2f}"
    if not math.isnan(tempering.tv):
        temperatures += (
            f"; mean TV {_percent(tempering.tv)}, {_percent(tempering.tv_left)} once that is undone"
        )
    divided = f"divided by T = {' '.join(part for part in ratio_parts(tempering) if part)}"
    match tempering.finding:
        case "tempered":
            return f"look tempered, {divided}: {temperatures}"
        case "raw":
            return f"look raw, {divided}: {temperatures}"
        case "other distributions":
            return f"differ by more than a temperature: if {divided}, {temperatures}"
        case "cannot tell":
            return f"may be raw or tempered, {divided}: {temperatures}"


def ratio_parts(tempering: Tempering) -> tuple[str, str]:
    """Write a ratio of temperatures, and its interval or nothing.

    Example:
        ("1.62", "[1.58, 1.66]")
    """
    ratio = tempering.ratio
    if math.isnan(ratio.value):
        return UNDEFINED, ""
    value = f"{ratio.value:.{_OF_RATIO}g}"
    if math.isnan(ratio.low):
        return value, ""
    return value, f"[{ratio.low:.{_OF_RATIO}g}, {ratio.high:.{_OF_RATIO}g}]"


def distance_sentence(drift: Drift) -> str | None:
    """Write the distance of probabilities, next to noise; None on other items."""
    return None if drift.distance is None else _moved(drift.distance)


def quantising_sentences(cost: QuantisingCost) -> tuple[str, str]:
    """Write the changes by quantising a base model: answers, then probabilities."""
    changed = cost.answers
    directions = ""
    if changed.worse is not None:
        directions = (
            f": {changed.worse} from right to wrong, {changed.better} from wrong to right, "
            f"{changed.both_wrong} from wrong to wrong"
        )
    return (
        f"Quantising: {changed.count:,} of {changed.items:,} answers differ between {cost.before} "
        f"and {cost.after}, {estimate_text(changed.changed, 'percent')}%{directions}.",
        _moved(cost.distance),
    )


def _moved(moved: Distance) -> str:
    quantiles = ", ".join(
        f"{'the largest' if level == 1 else f'{100 * level:.0f}% of items'} "
        f"{'' if level == 1 else '<= '}{value_text(value, 'percent')}"
        for level, value in moved.quantiles.items()
    )
    beyond = ""
    if not math.isnan(moved.above_floor):
        beyond = f" {value_text(moved.above_floor, 'percent')}% of items moved more."
    return (
        f"Probabilities: mean TV {estimate_text(moved.mean, 'percent')}% ({quantiles}). "
        f"{floor_sentence(moved.floor)}{beyond}"
    )
