"""Made rows of a holdout whose metrics follow from their design, in closed form.

Every item has `answers` answers. Its logits are `lead` for the answer that the model picks and 0
for all others: one number per item, a multiple of 1/64 as in the published rows. Every metric of
such an item is a formula of three numbers. The counts are those that the paper prints of the
shipped model: its right answers by kind, how its 162 pairs fail, its confident errors, and the
medians of its confidence. None of the functions here uses a metric of the library.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, repeat
from pathlib import Path
from statistics import fmean
from typing import Any, Final

# Pairs by kind and outcome: both right, only the base, only the counterfactual, none. Then those
# of the half-right pairs, and of the pairs without a right answer, that get one answer twice.
PAIRS: Final = {
    "choice": (46, 14, 8, 5, 22, 2),
    "noul": (46, 11, 0, 0, 11, 0),
    "score": (17, 10, 5, 0, 4, 0),
}
ANSWERS: Final = {"choice": (3, 4, 6, 4, 3), "noul": (2,), "score": (3, 4)}
DOMAINS: Final = ("commerce", "education", "media", "public_services", "supply_chain", "travel")

# How many right and wrong answers have a confidence near this one.
RIGHT: Final = {0.9995: 93, 0.995: 61, 0.9582: 57, 0.8454: 12, 0.7357: 19, 0.5543: 24}
WRONG: Final = {0.99: 7, 0.93: 9, 0.79: 9, 0.74: 7, 0.58: 14, 0.45: 12}

# View TV by rank: from, to, first rank, and the rank after the last.
VIEW_TV: Final = (
    (0.0, 0.01, 0, 101),
    (0.01, 0.019, 101, 162),
    (0.019, 0.3, 162, 300),
    (0.3, 0.5, 300, 324),
)

BINS: Final = 15


@dataclass(frozen=True)
class MadeItem:
    """An item: `lead` is the logit of the answer that is picked; all others have 0."""

    family: int
    member: int
    kind: str
    answers: int
    reference: int
    picked: int
    lead: float

    @property
    def right(self) -> bool:
        return self.picked == self.reference

    @property
    def domain(self) -> str:
        return DOMAINS[self.family % len(DOMAINS)]

    def at(self, temperature: float) -> MadeItem:
        """Return the item with its logits divided by a temperature."""
        return MadeItem(
            *(self.family, self.member, self.kind, self.answers, self.reference, self.picked),
            lead=self.lead / temperature,
        )

    @property
    def confidence(self) -> float:
        return 1 / (1 + (self.answers - 1) * math.exp(-self.lead))

    @property
    def others(self) -> float:
        """Return the probability of each answer that is not picked."""
        return self.confidence * math.exp(-self.lead)

    @property
    def nll(self) -> float:
        return -math.log(self.confidence if self.right else self.others)

    @property
    def brier(self) -> float:
        if self.right:
            return (1 - self.confidence) ** 2 + (self.answers - 1) * self.others**2
        wrong = (self.answers - 2) * self.others**2
        return self.confidence**2 + (1 - self.others) ** 2 + wrong

    @property
    def expected_level_error(self) -> float:
        levels = range(self.answers)
        rest = sum(levels) - self.picked
        return abs(self.confidence * self.picked + self.others * rest - self.reference)

    @property
    def view_tv(self) -> float:
        """Return a view TV: 101 of 324 are below 1%, half are below 1.9%, and 24 are above 30%."""
        at = (2 * self.family + self.member) * 5 % 324
        low, high, first, last = next(part for part in VIEW_TV if at < part[3])
        return low + (high - low) * (at - first) / (last - first)

    def row(self) -> dict[str, Any]:
        """Return the item in the published layout."""
        variant = ("base", "counterfactual")[self.member]
        probabilities = [self.others] * self.answers
        probabilities[self.picked] = self.confidence
        return {
            "id": f"made-{self.family:03d}-{variant}",
            "family": f"made-{self.family:03d}",
            "source_family": f"{self.domain}-made",
            "domain": self.domain,
            "kind": self.kind,
            "variant": variant,
            "gold": self.reference,
            "probabilities": probabilities,
            "permutation_tv": self.view_tv,
        }


def made_items() -> list[MadeItem]:
    """Return the 324 items, pair by pair."""
    right, wrong = _dealt(RIGHT), _dealt(WRONG)
    items = []
    for family, (kind, outcome, same) in enumerate(_outcomes()):
        answers = ANSWERS[kind][family % len(ANSWERS[kind])]
        references = (family % answers, (family + 1) % answers)
        third = (family + 2) % answers
        picks = list(references)
        for member, is_right in enumerate(outcome):
            if not is_right:
                picks[member] = references[1 - member] if same == any(outcome) else third
        for member, (reference, picked) in enumerate(zip(references, picks, strict=True)):
            target = next(right if picked == reference else wrong)
            steps = round(64 * math.log((answers - 1) * target / (1 - target)))
            lead = max(steps, 8) / 64  # a pick of two answers has more than a half
            items.append(MadeItem(family, member, kind, answers, reference, picked, lead))
    return items


def _outcomes() -> Iterator[tuple[str, tuple[bool, bool], bool]]:
    """Yield the kind of each pair, which members are right, and whether both get one answer."""
    for kind, (both, base, counterfactual, none, same_half, same_none) in PAIRS.items():
        half = [(True, False)] * base + [(False, True)] * counterfactual
        yield from repeat((kind, (True, True), False), both)
        yield from ((kind, outcome, at < same_half) for at, outcome in enumerate(half))
        yield from ((kind, (False, False), at < same_none) for at in range(none))


def _dealt(counts: dict[float, int]) -> Iterator[float]:
    """Yield every value as often as counted, mixed: steps of 17 through the sorted values."""
    values = list(chain.from_iterable(repeat(value, count) for value, count in counts.items()))
    assert math.gcd(17, len(values)) == 1
    return (values[17 * at % len(values)] for at in range(len(values)))


def made_summary(items: Sequence[MadeItem]) -> dict[str, Any]:
    """Return the metrics of the items in the published layout, all in closed form."""
    groups = {"all": items} | {
        kind: [item for item in items if item.kind == kind] for kind in PAIRS
    }
    domains = {name: [item for item in items if item.domain == name] for name in DOMAINS}
    return {name: metrics(group) for name, group in groups.items()} | {
        "by_domain": {
            name: {"count": len(group), "accuracy": _rate(group)} for name, group in domains.items()
        }
    }


def metrics(items: Sequence[MadeItem]) -> dict[str, float]:
    """Return the metrics of complete pairs of items under their published names."""
    pairs = list(zip(items[::2], items[1::2], strict=True))
    scores = [item for item in items if item.kind == "score"]
    levels = (
        {
            "expected_score_mae": fmean(item.expected_level_error for item in scores),
            "level_mae": fmean(abs(item.picked - item.reference) for item in scores),
        }
        if scores
        else {}
    )
    return levels | {
        "count": len(items),
        "correct": sum(item.right for item in items),
        "accuracy": _rate(items),
        "nll": fmean(item.nll for item in items),
        "brier": fmean(item.brier for item in items),
        "ece": _ece(items),
        "mean_confidence": fmean(item.confidence for item in items),
        "pair_accuracy": fmean(a.right and b.right for a, b in pairs),
        "pairs": len(pairs),
        "aurc": aurc_in_file_order(items),
    }


def _rate(items: Iterable[MadeItem]) -> float:
    return fmean(item.right for item in items)


def _ece(items: Sequence[MadeItem]) -> float:
    """Return |sum of confidence - sum of right| over bins of equal width, closed above."""
    gaps = [0.0] * BINS
    for item in items:
        gaps[math.ceil(BINS * item.confidence) - 1] += item.confidence - item.right
    return sum(map(abs, gaps)) / len(items)


def aurc_in_file_order(items: Sequence[MadeItem]) -> float:
    """Return the area under risk and coverage; equal confidences keep the order of the file."""
    errors, total = 0, 0.0
    for kept, item in enumerate(sorted(items, key=_sureness), start=1):
        errors += not item.right
        total += errors / kept
    return total / len(items)


def aurc_in_expected_order(items: Sequence[MadeItem]) -> float:
    """Return the same for a random order within equal confidences: errors come evenly."""
    kept, errors, total = 0, 0.0, 0.0
    for _, tied in groupby(sorted(items, key=_sureness), key=_sureness):
        members = list(tied)
        rate = sum(not item.right for item in members) / len(members)
        for _ in members:
            kept, errors = kept + 1, errors + rate
            total += errors / kept
    return total / len(items)


def _sureness(item: MadeItem) -> float:
    return -item.confidence


def write_rows(path: Path, items: Iterable[MadeItem]) -> None:
    """Write the items as lines of JSON."""
    path.write_text("".join(f"{json.dumps(item.row())}\n" for item in items), encoding="utf-8")
