"""Criteria: hypotheses as checks that a machine can decide, and the words they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pact_eval.evaluation.arms.cells import MetricCell
from pact_eval.evaluation.arms.margins import NO_MARGIN, Margin
from pact_eval.evaluation.decoding import MetricDecoding

Relation = Literal["higher", "lower", "not higher", "not lower", "similar"]
"""The relation of the first quantity of a check to the second."""

RELATIONS: Final[tuple[Relation, ...]] = get_args(Relation)

JudgedOn = Literal["matched", "means"]
"""Seed by seed, or on the means over seeds."""

JUDGED_ON: Final[tuple[JudgedOn, ...]] = get_args(JudgedOn)


FORMAT: Final = "pact-hypotheses-1"


@dataclass(frozen=True, slots=True)
class Instead:
    """The difference between two cells: the given parts replace those of the other cell.

    Attributes:
        metric, arm, decoding, group: parts of a `MetricCell`; None keeps that of the other.

    Examples:
        >>> ece = MetricCell("ece", "pact_full", MetricDecoding("single"), "all")
        >>> print(Instead(arm="ce_only").of(ece))
        ece of ce_only (single, all)
    """

    metric: str | None = None
    arm: str | None = None
    decoding: MetricDecoding | None = None
    group: str | None = None

    def of(self, cell: MetricCell) -> MetricCell:
        """Return the cell with the given parts replaced."""
        return MetricCell(
            metric=self.metric or cell.metric,
            arm=self.arm or cell.arm,
            decoding=self.decoding or cell.decoding,
            group=self.group or cell.group,
        )

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """The given parts by name."""
        named = (
            ("metric", self.metric),
            ("arm", self.arm),
            ("decoding", None if self.decoding is None else str(self.decoding)),
            ("group", self.group),
        )
        return tuple((name, value) for name, value in named if value is not None)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A cell, or a cell minus another.

    Examples:
        >>> ensemble = MetricCell("accuracy", "pact_full", MetricDecoding("ensemble"), "all")
        >>> print(Quantity(ensemble, Instead(decoding=MetricDecoding("single")).of(ensemble)))
        accuracy of pact_full (ensemble, all) minus accuracy of pact_full (single, all)
    """

    cell: MetricCell
    minus: MetricCell | None = None

    @property
    def cells(self) -> tuple[MetricCell, ...]:
        """The cell, and the one that is subtracted."""
        return (self.cell,) if self.minus is None else (self.cell, self.minus)

    def __str__(self) -> str:
        return " minus ".join(map(str, self.cells))


@dataclass(frozen=True, slots=True)
class Question:
    """The two quantities of a check, for one of its arms, decodings and groups."""

    left: Quantity
    right: Quantity

    @property
    def cells(self) -> tuple[MetricCell, ...]:
        """The cells of both."""
        return self.left.cells + self.right.cells


@dataclass(frozen=True, slots=True)
class Check:
    """A comparison that a machine can decide.

    Attributes:
        says: the check in a few words; its name within the hypothesis.
        metric: metric of the first quantity.
        arms, decodings, groups: the check applies to each of them.
        minus: subtracted from both quantities; None if nothing is subtracted.
        relation: relation of the first quantity to the second.
        than: difference of the second quantity from the first.
        margin: for similar: the largest difference; for the others: how far beyond the second
            quantity counts.
        judged_on: "matched" compares seed by seed, "means" the means over seeds.
        seeds: the seeds that it needs; None takes all that its arms share.
        needs: what it takes to test it, for readers of a scorecard that lacks the data.
    """

    says: str
    metric: str
    arms: tuple[str, ...]
    decodings: tuple[MetricDecoding, ...]
    groups: tuple[str, ...]
    relation: Relation
    than: Instead
    judged_on: JudgedOn
    minus: Instead | None = None
    margin: Margin = NO_MARGIN
    seeds: tuple[int, ...] | None = None
    needs: str | None = None

    def questions(self) -> Iterator[Question]:
        """Yield what is asked: one question for each arm, decoding and group."""
        for decoding in self.decodings:
            for arm in self.arms:
                for group in self.groups:
                    left = MetricCell(self.metric, arm, decoding, group)
                    right = self.than.of(left)
                    yield Question(self._quantity(left), self._quantity(right))

    def _quantity(self, cell: MetricCell) -> Quantity:
        return Quantity(cell, None if self.minus is None else self.minus.of(cell))


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A claim, the checks that decide it, and rows that are shown with its verdict.

    Attributes:
        id: short name, such as "H1".
        title: a few words.
        claim: the claim in words.
        checks: all of them must hold for the claim.
        beside: comparisons that readers must see and that decide nothing.
    """

    id: str
    title: str
    claim: str
    checks: tuple[Check, ...]
    beside: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """The hypotheses of one file, in its order."""

    hypotheses: tuple[Hypothesis, ...]


def describe_check(check: Check) -> str:
    """Say what a check decides, from its parts alone: its own words may say something else.

    Examples:
        >>> describe_check(Check(
        ...     says="TV falls", metric="view_tv", arms=("pact",), groups=("all",),
        ...     decodings=(MetricDecoding("ensemble"),), relation="lower",
        ...     than=Instead(arm="ce"), judged_on="means"))
        'view_tv (arm pact; ensemble; all) is lower than with arm ce, on means over shared seeds'
    """
    arms = "; ".join(
        ", ".join(map(str, values)) for values in (check.arms, check.decodings, check.groups)
    )
    minus = "" if check.minus is None else f" minus the same with {_parts(check.minus)}"
    if check.relation == "similar":
        relation = f"within {check.margin} of that"
    else:
        by = f" by more than {check.margin}" if check.margin.amount else ""
        relation = f"{check.relation}{by} than"
    over = "seed by seed" if check.judged_on == "matched" else "on means over"
    seeds = "shared seeds"
    if check.seeds is not None:
        seeds = f"{'seed' if len(check.seeds) == 1 else 'seeds'} {', '.join(map(str, check.seeds))}"
    where = f"{over}, {seeds}" if check.judged_on == "matched" else f"{over} {seeds}"
    return f"{check.metric} (arm {arms}){minus} is {relation} with {_parts(check.than)}, {where}"


def _parts(instead: Instead) -> str:
    return " and ".join(f"{name} {value}" for name, value in instead.parts)
