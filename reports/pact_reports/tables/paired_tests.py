"""Paired tests: one arm against each of the others, seed by seed, on the same items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pact_eval.errors import InputError
from pact_eval.evaluation import (
    Estimate,
    GroupComparison,
    McNemarTest,
    SignFlipTest,
    metric_spec,
)
from pact_eval.preregistration import DecodingName, decoding_name
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import (
    DIFFERENCE,
    interval_cell,
    interval_column,
    metric_column,
    p_value_cell,
    text_cell,
    unit_of,
    value_cell,
)
from pact_reports.tables.metric_values import DECODING_WORDS
from pact_reports.tables.request import TableRequest

_ACCURACY: Final = metric_spec("accuracy")


@dataclass(frozen=True)
class SeedTest:
    """Two runs on the same items.

    Attributes:
        control: arm of the second run.
        seed: of the first run; the second has it too, or has none.
        accuracy: of the first run, a fraction.
        control_accuracy: of the second.
        items: McNemar over items.
        families: sign flip over families.
        item_interval: of the difference, resampling items.
        family_interval: of the difference, resampling families.
    """

    control: str
    seed: int | None
    accuracy: float
    control_accuracy: float
    items: McNemarTest
    families: SignFlipTest
    item_interval: Estimate
    family_interval: Estimate


def paired_tests(request: TableRequest) -> tuple[SeedTest, ...]:
    """Test the method against every other arm at every seed that they share.

    An arm without seeds (a base model) is compared with every seed. The numbers are those that
    `pact-eval compare` shows.

    Raises:
        InputError: the runs do not compare or lack the decoding, or no other arm shares a seed
            with the method.
    """
    _ = request.comparable
    method = request.main_arm
    found = []
    for arm in request.collection.arms:
        if arm == method or not request.shares_a_seed(method, arm):
            continue
        pair = request.experiment.seeds(method, arm)
        found += [_seed_test(arm, seed, each.groups[0]) for seed, each in pair.seeds.items()]
    if not found:
        message = f"no other arm shares a seed with {method}"
        raise InputError(message)
    return tuple(found)


def _seed_test(control: str, seed: int | None, group: GroupComparison) -> SeedTest:
    accuracy, tests = group.metrics["accuracy"], group.accuracy
    return SeedTest(
        control=control,
        seed=seed,
        accuracy=accuracy.a.value,
        control_accuracy=accuracy.b.value,
        items=tests.items,
        families=tests.families,
        item_interval=tests.item_interval,
        family_interval=accuracy.difference,
    )


def build_paired(request: TableRequest) -> Table:
    """Make the table of paired tests of runs.

    Raises:
        InputError: as `paired_tests`.
    """
    decoding = decoding_name(request.decoding, "raw")
    return paired_table(paired_tests(request), request.main_arm, decoding)


def paired_table(tests: tuple[SeedTest, ...], method: str, decoding: DecodingName) -> Table:
    """Lay out paired tests: a row a seed, the others in blocks.

    Args:
        tests: one or more, those of an arm together.
        method: the arm that is tested against the others.
        decoding: what accuracies rest on.
    """
    first, unit = tests[0], unit_of(DIFFERENCE, decoding)
    intervals = f"{first.item_interval.method}, and over families beside it"
    rows, before = [], None
    for test in tests:
        rows.append(Row(_cells(test), rule=test.control != before))
        before = test.control
    return Table(
        name="paired",
        title=f"Paired tests of {method}",
        caption=(
            f"Accuracy (%) of A = {method} and of the other arm B on the same {first.items.n:,} "
            f"items of {first.families.clusters:,} families; decoding: {DECODING_WORDS[decoding]}. "
            "Only A, only B: items that one alone gets right. McNemar: exact, two-sided, takes "
            "items for independent, as papers do; sign flip: exact, over families, the one to "
            f"believe where families are larger than one. Intervals of A - B in points: {intervals}"
            f" (n = {first.family_interval.n:,}, clusters = {first.family_interval.clusters:,}). "
            "No p-value is adjusted for the number of tests."
        ),
        columns=(
            Column("B", "left"),
            Column("Seed"),
            metric_column(_ACCURACY, decoding, "Acc. A"),
            metric_column(_ACCURACY, decoding, "Acc. B"),
            metric_column(DIFFERENCE, decoding, "A - B"),
            Column("Only A/B", numbers=("only A right (items)", "only B right (items)")),
            Column("McNemar p", numbers=("McNemar p",)),
            interval_column("95% items", unit),
            interval_column("95% families", unit),
            Column("Sign flip p", numbers=("sign flip p",)),
        ),
        rows=tuple(rows),
        legend=(("significant", "p below 0.05"),),
    )


def _cells(test: SeedTest) -> tuple[Cell, ...]:
    items, families = test.items, test.families
    return (
        text_cell(test.control),
        text_cell("–" if test.seed is None else str(test.seed)),
        value_cell(test.accuracy, _ACCURACY),
        value_cell(test.control_accuracy, _ACCURACY),
        value_cell(items.difference, DIFFERENCE),
        Cell(f"{items.b:,}/{items.c:,}", (items.b, items.c)),
        p_value_cell(items.p_value, items.reason),
        interval_cell(test.item_interval, DIFFERENCE),
        interval_cell(test.family_interval, DIFFERENCE),
        p_value_cell(families.p_value, _of_families(families.reason)),
    )


def _of_families(reason: str | None) -> str | None:
    """Families are what clusters are here."""
    if reason is None:
        return None
    return reason.replace("clusters", "families").replace("cluster", "family")
