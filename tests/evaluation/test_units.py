"""Families or source families as the units of intervals and exact tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from messages import assert_says
from run_frames import predictions, rows

from pact_eval._choices import ClusterUnit
from pact_eval.evaluation.comparison import Comparison, compare
from pact_eval.evaluation.items import ScoredItems, read_items
from pact_eval.evaluation.notes import SmallGroups
from pact_eval.evaluation.report import Evaluation, evaluate_items
from pact_eval.evaluation.settings import Settings
from pact_eval.metrics import pair_correct
from pact_eval.stats.paired_tests import sign_flip_test
from pact_eval.stats.rates import rate_estimate


def items(seed: int, unit: ClusterUnit = "source_family") -> ScoredItems:
    return ScoredItems.of(predictions(seed), "single").over(unit)


def evaluated(scored: ScoredItems) -> Evaluation:
    return evaluate_items(scored, by="kind", rng=np.random.default_rng(3), resamples=60)


def compared(unit: ClusterUnit, margin: float | None = None) -> Comparison:
    settings = Settings(seed=3, resamples=60, margin=margin)
    return compare(items(1, unit), items(2, unit), settings)


@pytest.mark.parametrize(
    "metric", ["accuracy", "nll_nats", "brier", "aurc", "confident_errors", "flip_rate"]
)
def test_source_families_against_items_whose_families_they_are(metric: str) -> None:
    """An item-level metric cannot tell source families from large families."""
    views = predictions(1)
    renamed = replace(views, family=views.source_family)
    expected = evaluated(ScoredItems.of(renamed, "single"))
    report = evaluated(items(1))
    for ours, theirs in zip(report.groups, expected.groups, strict=True):
        assert ours.estimates[metric] == theirs.estimates[metric]
        assert ours.clusters == theirs.families
    assert [group.families for group in report.groups] == [30, 10, 10, 10]


def test_pair_accuracy_stays_over_pairs() -> None:
    scored = items(1)
    estimate = evaluated(scored).groups[0].estimates["pair_accuracy"]
    right = pair_correct(scored.pairs, scored.correct)
    source = scored.predictions.source_family[scored.pairs.base]
    names = sorted(set(source.tolist()))
    counts = [[right[source == name].sum(), (source == name).sum()] for name in names]
    expected = rate_estimate(*np.array(counts).T)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx(
        (expected.value, expected.low, expected.high)
    )
    assert (estimate.n, estimate.clusters) == (30, 6)


def test_the_sign_flip_is_over_source_families() -> None:
    a, b = items(1), items(2)
    comparison = compared("source_family", margin=0.5)
    expected = sign_flip_test(a.correct, b.correct, a.predictions.source_family)
    assert comparison.groups[0].accuracy.families == expected
    assert comparison.groups[0].accuracy.families.clusters == 6
    assert comparison.groups[0].metrics["accuracy"].difference.clusters == 6
    assert comparison.unit == "source_family"
    by_source, by_family = comparison.groups[0], compared("family").groups[0]
    of_families = by_family.accuracy
    assert of_families.families.clusters == 30
    assert of_families.items == comparison.groups[0].accuracy.items, "McNemar is over items"
    # Pairs of one source family are not independent: the test is reported, but does not decide.
    assert by_source.accuracy.pairs == by_family.accuracy.pairs is not None


def test_groups_of_few_families_are_named_once() -> None:
    (note,) = (
        note for note in evaluated(items(1, "family")).notes if isinstance(note, SmallGroups)
    )
    assert [(group.name, group.clusters) for group in note.groups] == [
        ("choice", 10),
        ("boolean", 10),
        ("score", 10),
    ]
    (note,) = (note for note in compared("source_family").notes if isinstance(note, SmallGroups))
    sentence = str(note)
    assert_says(sentence, "Fewer than 30", "source families", "all (6)", "choice (2)")


def test_a_group_of_one_family_has_no_interval_and_no_note() -> None:
    views = predictions(1, families=90)
    kind = np.where(views.family == "f0", "score", "choice")
    notes = evaluated(ScoredItems.of(replace(views, kind=kind), "single")).notes
    assert not any(isinstance(note, SmallGroups) for note in notes)


def test_items_read_in_slices_have_the_same_units(tmp_path: Path) -> None:
    path = tmp_path / "predictions.parquet"
    rows(1).write_parquet(path)
    group = evaluated(read_items(path, "single", unit="source_family")).groups[0]
    assert group.estimates["nll_nats"] == evaluated(items(1)).groups[0].estimates["nll_nats"]
