"""Golden tables: the paper's, made anew from made metrics and from those that were published."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from messages import assert_says
from published import printed, printed_cells
from reports.tables.table_runs import cells, marked, run_of, texts

from pact_eval.evaluation.arms.ablations import ablations, read_clear_changes
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.arms.cells import MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.arms.main_results import k_views, main_results
from pact_eval.evaluation.arms.published import read_metric_table
from pact_eval.evaluation.arms.single_runs import calibrated_runs, group_accuracy
from pact_eval.evaluation.decoding import SINGLE
from pact_eval.evaluation.experiment import Experiment
from pact_eval.importing.writing import import_run
from pact_eval.preregistration.judging import judge
from pact_eval.preregistration.parsing import read_hypotheses
from pact_fixtures.paper import CLEAR_CHANGES, HYPOTHESES
from pact_reports.tables.ablations import ablations_table
from pact_reports.tables.arm_cells import items_and_pairs
from pact_reports.tables.calibration_effects import calibration_table
from pact_reports.tables.group_accuracy import group_table
from pact_reports.tables.k_views import k_views_table
from pact_reports.tables.main_results import means_table
from pact_reports.tables.request import TableRequest
from pact_reports.tables.scorecard import scorecard_table
from pact_reports.writers.csv import to_csv
from pact_reports.writers.files import build_tables

PAPER = read_clear_changes(CLEAR_CHANGES)
SIGNS = {
    "++": "clearly better",
    "+": "better",
    "-": "worse",
    "--": "clearly worse",
}


@pytest.fixture(scope="module")
def table(experiment_files: Path) -> MetricTable:
    return read_metric_table(experiment_files / "run_metrics.csv")


def test_main_results_as_printed(table: MetricTable) -> None:
    made = means_table(main_results(ArmMetrics(table)), name="main", title="Main", caption="")
    rows = texts(made)
    base = next(row for row in rows if row[0] == "base_model")
    assert base[8] == "21.07"
    base[8] = "–"  # the paper leaves out the AURC of the base model
    assert sorted([row[0], *row[2:]] for row in rows) == printed("main")
    assert {row[0]: row[1] for row in rows}["pact_full"] == "3"
    best = {column.title: marked(made, column.title, "best") for column in made.columns[2:]}
    assert best == {
        "Accuracy": ["nimble_recipe"],
        "Pair accuracy": ["pact_full"],
        "NLL": ["nimble_recipe"],
        "Brier": ["nimble_recipe"],
        "ECE": ["nimble_recipe"],
        "ECE after T(x)": ["nimble_recipe"],
        "AURC": ["nimble_recipe"],
        "Score MAE": ["pact_full"],
    }
    assert "324 items, 162 pairs, 64 Score items" in made.caption
    assert made.reasons == ("no calibrator",)
    (note,) = made.notes
    assert_says(note, "Left out", "one seed", "no_cf, no_emd, no_nr, no_pcr, no_perm_views")


def test_main_results_in_full_in_csv(table: MetricTable) -> None:
    text = to_csv(
        means_table(main_results(ArmMetrics(table)), name="main", title="Main", caption="")
    )
    by_arm = {row["Arm"]: row for row in csv.DictReader(text.splitlines())}
    values = [
        table.row(MetricCell("accuracy", "pact_full", SINGLE, "all"), seed).value
        for seed in (17, 18, 19)
    ]
    pact = by_arm["pact_full"]
    assert float(pact["Accuracy mean (fraction, single)"]) == np.mean(values)
    assert float(pact["Accuracy deviation (fraction, single)"]) == np.std(values, ddof=1)
    assert by_arm["base_model"]["Accuracy deviation (fraction, single)"] == ""
    assert_says(by_arm["base_model"]["notes"], "ECE after T(x): ", "no calibrator")


def test_k_views_as_printed(table: MetricTable) -> None:
    made = k_views_table(k_views(ArmMetrics(table)))
    rows = texts(made, "Arm", "Accuracy", "Pair accuracy", "Flips", "Gain")
    assert sorted([*row[:4], row[4].split(" ")[0]] for row in rows) == printed(
        "k_views", "arm", "accuracy", "pair_accuracy", "flips", "gain"
    )
    rows = texts(made, "Arm", "ECE", "ECE after T(x)", "TV", "TV after T(x)")
    assert sorted(rows) == [
        [arm, ece, "–", tv, "–"] if arm == "base_model" else [arm, "–", ece, "–", tv]
        for arm, ece, tv in printed("k_views", "arm", "ece", "tv")
    ]
    assert marked(made, "TV after T(x)", "best") == ["pact_full"]
    assert marked(made, "Flips", "best") == ["pact_full"]
    assert marked(made, "Pair accuracy", "best") == ["ce_only"]
    # Nobody is better for a larger gain.
    assert marked(made, "Gain", "best") == []


def test_ablations_marked_as_printed(table: MetricTable) -> None:
    made = ablations_table(ablations(ArmMetrics(table), "pact_full", clear=PAPER))
    rows_by_arm = {row[1].text: row[2:] for row in cells(made) if row[0].text == "17"}
    for arm, *cells_of_paper in printed("ablations"):
        for cell, text in zip(rows_by_arm[arm], cells_of_paper, strict=True):
            value, _, sign = text.partition(" ")
            assert (cell.text, cell.mark) == (value, SIGNS.get(sign)), (arm, text)
    assert [row[0] for row in texts(made)] == ["17"] * 8 + ["18"] * 3 + ["19"] * 3
    assert [row.rule for row in made.rows] == [
        number in (0, 8, 11) for number in range(len(made.rows))
    ]


def test_accuracy_by_kind_as_printed(table: MetricTable) -> None:
    made = group_table(group_accuracy(ArmMetrics(table), "kind", SINGLE))
    assert sorted(texts(made)) == printed("kinds")
    assert [column.title for column in made.columns[2:5]] == ["Choice", "Boolean", "Score"]
    assert "Items: Choice 146, Boolean 114, Score 64." in made.caption


def test_accuracy_by_domain_as_published(experiment_files: Path) -> None:
    path = experiment_files / "run_domain_accuracy.csv"
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    rows = [
        MetricRow(
            MetricCell("accuracy", line["run"], SINGLE, line["domain"]),
            int(line["seed"]) if line["seed"] else None,
            float(line["accuracy"]),
            int(line["count"]),
        )
        for line in lines
    ]
    made = group_table(group_accuracy(ArmMetrics(MetricTable(rows)), "domain", SINGLE))
    assert len(made.rows) == len({(line["run"], line["seed"]) for line in lines})
    at = {column.title: number for number, column in enumerate(made.columns)}
    for line in lines:
        row = next(
            row for row in texts(made) if (row[0], row[1]) == (line["run"], line["seed"] or "–")
        )
        assert row[at[line["domain"]]] == f"{100 * float(line['accuracy']):.1f}"


def test_calibration_as_printed(table: MetricTable) -> None:
    metrics = ArmMetrics(table)
    made = calibration_table(calibrated_runs(metrics), "single", items_and_pairs(metrics.sizes))
    rows = texts(made, "Arm", "Seed", "ECE before", "ECE after")
    arms = {"nimble_recipe", "ce_only", "pact_full"}
    assert sorted(row for row in rows if row[0] in arms) == printed(
        "calibration", "arm", "seed", "ece", "ece_after"
    )
    # "AURC slightly worse (3.95 to 4.21)", in the mean over seeds.
    aurc = [row for row in cells(made, "Arm", "AURC after") if row[0].text == "pact_full"]
    mean = np.mean([row[1].numbers[0] or np.nan for row in aurc])
    assert f"{100 * mean:.2f}" == printed_cells("aurc_after")[0]["aurc"]
    assert any(row[1].mark == "worse" for row in aurc)


def test_scorecard_as_published(table: MetricTable) -> None:
    made = scorecard_table(judge(read_hypotheses(HYPOTHESES), table))
    verdicts = {row[0]: row[3] for row in texts(made)}
    assert verdicts == {
        "H1": "INCONCLUSIVE",
        "H2": "SUPPORTED",
        "H3": "PARTLY TESTED",
        "H4": "PARTLY SUPPORTED",
        "H5": "SUPPORTED",
    }
    evidence = {row[0]: row[2] for row in texts(made)}
    assert "−1.2 at seed 17, single" in evidence["H1"]
    assert "+0.052 at seed 17, single" in evidence["H4"]


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
    made = build_tables(TableRequest(Experiment.read(folders)), ["paired"]).tables["paired"]
    heads = ("B", "Seed", "Acc. A", "Acc. B", "A - B", "Only A/B", "McNemar p")
    rows_of_paper = printed("paired")
    assert sorted(texts(made, *heads)) == [row[:7] for row in rows_of_paper]
    columns = ("B", "Seed", "McNemar p", "95% items", "95% families")
    for arm, at_seed, p_value, of_items, of_families in cells(made, *columns):
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
    assert "324 items of 162 families" in made.caption
    assert "(n = 324, clusters = 162)" in made.caption


def test_splits_of_the_published_rows(
    experiment_files: Path, aurc_of_ties: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The last row of the paper's table of data splits."""
    run = tmp_path_factory.mktemp("rows") / "run"
    import_run(experiment_files / "shipped_holdout_rows.jsonl", run, {"arm": "pact", "seed": 18})
    built = build_tables(TableRequest(Experiment.read([run])))
    (row,) = texts(built.tables["splits"])
    ((families, records, pairs, *kinds),) = printed("splits")
    assert row[2:] == [families, records, pairs, pairs, *kinds, "1"]
    summary = json.loads((experiment_files / "shipped_summary.json").read_text())["all"]
    nll, ece = f"{summary['nll']:.3f}", f"{100 * summary['ece']:.1f}"
    accuracy = texts(built.tables["main"], "Accuracy", "Pair accuracy", "NLL", "ECE", "AURC")
    assert accuracy == [["82.1", "67.3", nll, ece, f"{100 * aurc_of_ties:.2f}"]]
    needs = {
        "paired": ("other arm", "seed in common with pact"),
        "views": ("no run", "more views than one"),
        "order": ("two orders", "K is 1"),
        "slots": ("two orders", "K is 1"),
        "ablations": ("other arm", "seed in common with pact"),
        "scorecard": ("no criteria", "--criteria HYPOTHESES.toml"),
        "calibration": ("no run", "calibrator in its folder"),
        "gates": ("no thresholds", "--thresholds FILE"),
        "costs": ("no costs", "--cost-wrong and --cost-review", "--thresholds"),
        "selection": ("run.json", "no adapter folder"),
        "tuning": ("no selection", "--selected FILE"),
    }
    assert built.skipped.keys() == needs.keys()
    for name, parts in needs.items():
        assert_says(built.skipped[name], *parts)
