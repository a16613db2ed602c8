"""Golden tables: the paper's, made anew from made metrics and from those that were published."""

from __future__ import annotations

import numpy as np
import pytest
from published import printed
from reports.tables.table_runs import cells, run_of, texts

from pact_eval.evaluation.experiment import Experiment
from pact_reports.request import Request
from pact_reports.writers.files import build_tables


@pytest.mark.slow
def test_paired_tests_as_printed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Runs made to differ in as many items as the paper says give its tests and intervals."""
    tmp = tmp_path_factory.mktemp("paired")
    n, right_by_base = 324, 207
    folders = []
    for seed, b, c in ((17, 92, 27), (18, 86, 27), (19, 98, 21)):
        method = np.zeros(n, dtype=bool)
        method[c : right_by_base + b] = True
        folders.append(run_of(tmp / f"pact-{seed}", method.tolist(), arm="pact", seed=seed))
        for row in printed("paired"):
            if row[0] != "base" and row[1] == str(seed):
                control = method.copy()
                only_method, only_control = map(int, row[5].split("/"))
                control[np.flatnonzero(method)[:only_method]] = False
                control[np.flatnonzero(~method)[:only_control]] = True
                folder = tmp / f"{row[0]}-{seed}"
                folders.append(run_of(folder, control.tolist(), arm=row[0], seed=seed))
    base = (np.arange(n) < right_by_base).tolist()
    folders.append(run_of(tmp / "base", base, arm="base", seed=None))
    made = build_tables(Request(Experiment.read(folders)), ["paired", "mcnemar"]).tables
    of_tests, made_families = made["mcnemar"], made["paired"]
    rows_of_paper = printed("paired")
    accuracies = texts(made_families, "B", "Seed", "Acc. A", "Acc. B", "A - B")
    assert sorted(accuracies) == [row[:5] for row in rows_of_paper]
    heads = ("B", "Seed", "A - B", "Only A/B", "McNemar p")
    assert sorted(texts(of_tests, *heads)) == [[*row[:2], *row[4:7]] for row in rows_of_paper]
    columns = ("B", "Seed", "McNemar p", "95% items")
    both = zip(cells(of_tests, *columns), cells(made_families, "95% families"), strict=True)
    for (arm, at_seed, p_value, of_items), (of_families,) in both:
        test = (arm.text, at_seed.text)
        ends = next(row[7] for row in rows_of_paper if tuple(row[:2]) == test)
        low, high, items, clusters = of_items.numbers
        # Both bootstraps are random; neighbouring values are 0.3 points apart.
        assert [100 * (low or 0), 100 * (high or 0)] == pytest.approx(
            [float(end) for end in ends.split()], abs=0.35
        )
        assert (items, clusters) == (324, 324)
        assert of_families.numbers[2:] == (324, 162)
        significant = arm.text == "base" or test in {("ce_only", "18"), ("ce_only", "19")}
        assert (p_value.mark == "significant") == significant
    assert "324 items of 162 families" in of_tests.caption
    assert "(n = 324, clusters = 162)" in made_families.caption
