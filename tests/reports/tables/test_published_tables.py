"""Golden tables: the paper's, made anew from what the experiment published."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from published import published_path
from reports.tables.table_runs import cells, marked, run_of, texts

from pact_eval.evaluation import SINGLE, Experiment
from pact_eval.evaluation.arms.ablations import ablations, read_clear_changes
from pact_eval.evaluation.arms.cells import MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.arms.published import read_metric_table
from pact_eval.evaluation.arms.single_runs import calibrated_runs, group_accuracy
from pact_eval.evaluation.arms.source import ArmMetrics
from pact_eval.evaluation.arms.summaries import k_views, main_results
from pact_eval.importing.writing import import_run
from pact_eval.preregistration import judge, read_hypotheses
from pact_fixtures.paper import CLEAR_CHANGES, HYPOTHESES
from pact_reports.tables import TableRequest, build_tables, to_csv
from pact_reports.tables.ablations import ablations_table
from pact_reports.tables.calibration_effects import calibration_table
from pact_reports.tables.cells import items_and_pairs
from pact_reports.tables.group_accuracy import group_table
from pact_reports.tables.k_views import k_views_table
from pact_reports.tables.main_results import means_table
from pact_reports.tables.scorecard import scorecard_table

# As printed, but for AURC of the base model, which the paper leaves out.
MAIN = """
base_model    | 66.4       | 35.8       | 1.094         | 0.549
nimble_recipe | 85.2 ± 2.1 | 71.0 ± 3.9 | 0.449 ± 0.110 | 0.236 ± 0.042
ce_only       | 82.2 ± 6.0 | 70.2 ± 6.2 | 0.760 ± 0.296 | 0.305 ± 0.110
pact_full     | 84.6 ± 2.8 | 73.3 ± 6.2 | 0.560 ± 0.088 | 0.251 ± 0.026
"""
MAIN_CONTINUED = """
base_model    | 24.6       | –          | 21.07       | 0.571
nimble_recipe | 9.5 ± 3.4  | 5.4 ± 0.8  | 3.41 ± 0.55 | 0.311 ± 0.030
ce_only       | 14.3 ± 6.4 | 10.3 ± 4.7 | 4.46 ± 2.94 | 0.322 ± 0.153
pact_full     | 10.8 ± 1.7 | 7.9 ± 1.1  | 3.95 ± 1.03 | 0.232 ± 0.120
"""
# Accuracy, pairs, flips and gain; the paper's ECE and TV are calibrated but for the base model.
VIEWS = """
base_model    | 67.6       | 38.3       | 23.5       | +1.2
nimble_recipe | 85.7 ± 2.6 | 72.4 ± 4.4 | 13.8 ± 1.8 | +0.5
ce_only       | 84.6 ± 4.6 | 73.3 ± 6.8 | 12.1 ± 3.8 | +2.4
pact_full     | 83.8 ± 2.6 | 72.4 ± 5.5 | 9.8 ± 2.1  | −0.7
"""
VIEWS_CALIBRATED = """
base_model    | 21.4 | –         | 12.0 | –
nimble_recipe | –    | 4.7 ± 1.0 | –    | 6.9 ± 0.9
ce_only       | –    | 8.2 ± 3.4 | –    | 7.4 ± 1.6
pact_full     | –    | 8.6 ± 1.6 | –    | 5.6 ± 1.4
"""
ABLATIONS = """
pact_full     | 84.0    | 72.8    | 0.659    | 12.6    | 4.44    | 0.229    | 5.0     | 8.0
no_cf         | 84.3    | 71.6 -  | 0.491 ++ | 11.1 +  | 2.74 ++ | 0.284 -- | 5.3     | 9.6 -
no_pcr        | 87.7 ++ | 79.6 ++ | 0.513 ++ | 7.5 ++  | 2.82 ++ | 0.138 ++ | 4.8     | 9.3 -
no_nr         | 80.9 -- | 64.8 -- | 0.545 ++ | 10.3 ++ | 6.63 -- | 0.344 -- | 11.7 -- | 17.6 --
no_emd        | 84.3    | 70.4 -- | 0.388 ++ | 5.8 ++  | 3.43 ++ | 0.282 -- | 8.9 --  | 15.7 --
no_perm_views | 84.9 +  | 74.1 +  | 0.510 ++ | 8.8 ++  | 3.51 +  | 0.356 -- | 6.6 --  | 13.0 --
ce_only       | 87.3 ++ | 75.9 ++ | 0.454 ++ | 7.6 ++  | 2.66 ++ | 0.182 +  | 9.0 --  | 16.4 --
"""
KINDS = """
base_model    | –  | 59.6 | 84.2 | 50.0 | 0.571
nimble_recipe | 17 | 80.8 | 95.6 | 70.3 | 0.326
nimble_recipe | 18 | 81.5 | 94.7 | 70.3 | 0.331
nimble_recipe | 19 | 84.9 | 97.4 | 76.6 | 0.277
ce_only       | 17 | 78.8 | 97.4 | 89.1 | 0.182
ce_only       | 18 | 68.5 | 94.7 | 57.8 | 0.486
ce_only       | 19 | 78.1 | 94.7 | 76.6 | 0.299
pact_full     | 17 | 77.4 | 94.7 | 79.7 | 0.229
pact_full     | 18 | 78.1 | 90.4 | 76.6 | 0.353
pact_full     | 19 | 80.1 | 94.7 | 92.2 | 0.114
no_cf         | 17 | 79.5 | 95.6 | 75.0 | 0.284
no_pcr        | 17 | 80.1 | 94.7 | 92.2 | 0.138
no_nr         | 17 | 76.7 | 93.9 | 67.2 | 0.344
no_emd        | 17 | 75.3 | 95.6 | 84.4 | 0.282
no_perm_views | 17 | 83.6 | 94.7 | 70.3 | 0.356
"""
# Holdout ECE before and after T(x).
CALIBRATION = """
nimble_recipe | 17 | 13.3 | 5.8
nimble_recipe | 18 | 8.3  | 6.0
nimble_recipe | 19 | 6.8  | 4.5
ce_only       | 17 | 7.6  | 4.9
ce_only       | 18 | 20.4 | 13.0
ce_only       | 19 | 14.7 | 13.0
pact_full     | 17 | 12.6 | 9.1
pact_full     | 18 | 9.2  | 7.7
pact_full     | 19 | 10.5 | 6.9
"""
# Seed, accuracies, difference, b/c, p, interval over items.
PAIRED = """
nimble_recipe | 17 | 84.0 | 84.0 | 0.0   | 19/19 | 1.000  | -3.7 +3.7
nimble_recipe | 18 | 82.1 | 84.0 | −1.9  | 25/31 | 0.504  | -6.5 +2.8
nimble_recipe | 19 | 87.7 | 87.7 | 0.0   | 27/27 | 1.000  | -4.6 +4.3
ce_only       | 17 | 84.0 | 87.3 | −3.4  | 13/24 | 0.099  | -7.1 +0.3
ce_only       | 18 | 82.1 | 75.6 | +6.5  | 39/18 | 0.008  | +1.9 +11.1
ce_only       | 19 | 87.7 | 83.6 | +4.0  | 23/10 | 0.035  | +0.6 +7.4
base          | 17 | 84.0 | 63.9 | +20.1 | 92/27 | <0.001 | +13.9 +26.2
base          | 18 | 82.1 | 63.9 | +18.2 | 86/27 | <0.001 | +12.0 +24.4
base          | 19 | 87.7 | 63.9 | +23.8 | 98/21 | <0.001 | +17.9 +29.9
"""
PAPER = read_clear_changes(CLEAR_CHANGES)
SIGNS = {
    "++": "clearly better",
    "+": "better",
    "-": "worse",
    "--": "clearly worse",
}


def printed(text: str) -> list[list[str]]:
    """Returns a table of the paper, sorted by its rows."""
    return sorted([cell.strip() for cell in line.split("|")] for line in text.strip().splitlines())


@pytest.fixture(scope="module")
def table() -> MetricTable:
    return read_metric_table(published_path("run_metrics.csv"))


def test_main_results_as_printed(table: MetricTable) -> None:
    made = means_table(main_results(ArmMetrics(table)), name="main", title="Main", caption="")
    found = texts(made)
    assert sorted([row[0], *row[2:6]] for row in found) == printed(MAIN)
    assert sorted([row[0], *row[6:]] for row in found) == printed(MAIN_CONTINUED)
    assert {row[0]: row[1] for row in found}["pact_full"] == "3"
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
    assert made.notes == (
        "Left out because trained with one seed only: no_cf, no_emd, no_nr, no_pcr, no_perm_views",
    )


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
    assert by_arm["base_model"]["notes"] == "ECE after T(x): no calibrator"


def test_k_views_as_printed(table: MetricTable) -> None:
    made = k_views_table(k_views(ArmMetrics(table)))
    found = texts(made, "Arm", "Accuracy", "Pair accuracy", "Flips", "Gain")
    assert sorted([*row[:4], row[4].split(" ")[0]] for row in found) == printed(VIEWS)
    found = texts(made, "Arm", "ECE", "ECE after T(x)", "TV", "TV after T(x)")
    assert sorted(found) == printed(VIEWS_CALIBRATED)
    assert marked(made, "TV after T(x)", "best") == ["pact_full"]
    assert marked(made, "Flips", "best") == ["pact_full"]
    assert marked(made, "Pair accuracy", "best") == ["ce_only"]
    # Nobody is better for a larger gain.
    assert marked(made, "Gain", "best") == []


def test_ablations_marked_as_printed(table: MetricTable) -> None:
    made = ablations_table(ablations(ArmMetrics(table), "pact_full", clear=PAPER))
    found = {row[1].text: row[2:] for row in cells(made) if row[0].text == "17"}
    for arm, *wanted in printed(ABLATIONS):
        for cell, text in zip(found[arm], wanted, strict=True):
            value, _, sign = text.partition(" ")
            assert (cell.text, cell.mark) == (value, SIGNS.get(sign)), (arm, text)
    assert [row[0] for row in texts(made)] == ["17"] * 8 + ["18"] * 3 + ["19"] * 3
    assert [row.rule for row in made.rows] == [
        number in (0, 8, 11) for number in range(len(made.rows))
    ]


def test_accuracy_by_kind_as_printed(table: MetricTable) -> None:
    made = group_table(group_accuracy(ArmMetrics(table), "kind", SINGLE))
    assert sorted(texts(made)) == printed(KINDS)
    assert [column.title for column in made.columns[2:5]] == ["Choice", "Boolean", "Score"]
    assert "Items: Choice 146, Boolean 114, Score 64." in made.caption


def test_accuracy_by_domain_as_published() -> None:
    with published_path("run_domain_accuracy.csv").open(encoding="utf-8", newline="") as file:
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
    found = texts(made, "Arm", "Seed", "ECE before", "ECE after")
    arms = {"nimble_recipe", "ce_only", "pact_full"}
    assert sorted(row for row in found if row[0] in arms) == printed(CALIBRATION)
    # "AURC slightly worse (3.95 to 4.21)", in the mean over seeds.
    aurc = [row for row in cells(made, "Arm", "AURC after") if row[0].text == "pact_full"]
    mean = np.mean([row[1].numbers[0] or np.nan for row in aurc])
    assert f"{100 * mean:.2f}" == "4.21"
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
        for row in printed(PAIRED):
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
    wanted = printed(PAIRED)
    assert sorted(texts(made, *heads)) == [row[:7] for row in wanted]
    for found in cells(made, "B", "Seed", "McNemar p", "95% items", "95% families"):
        ends = next(each[7] for each in wanted if each[:2] == [found[0].text, found[1].text])
        low, high, items, clusters = found[3].numbers
        # Both bootstraps are random; neighbouring values are 0.3 points apart.
        assert [100 * (low or 0), 100 * (high or 0)] == pytest.approx(
            [float(end) for end in ends.split()], abs=0.35
        )
        assert (items, clusters) == (324, 324)
        assert found[4].numbers[2:] == (324, 162)
        significant = found[0].text == "base" or (found[0].text, found[1].text) in {
            ("ce_only", "18"),
            ("ce_only", "19"),
        }
        assert (found[2].mark == "significant") == significant
    assert "324 items of 162 families" in made.caption
    assert "(n = 324, clusters = 162)" in made.caption


def test_splits_of_the_published_rows(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The last row of the paper's table of data splits."""
    run = tmp_path_factory.mktemp("rows") / "run"
    import_run(published_path("shipped_holdout_rows.jsonl"), run, {"arm": "pact", "seed": 18})
    built = build_tables(TableRequest(Experiment.read([run])))
    (row,) = texts(built.tables["splits"])
    assert row[2:] == ["6", "324", "162", "162", "146", "114", "64", "1"]
    accuracy = texts(built.tables["main"], "Accuracy", "Pair accuracy", "NLL", "ECE", "AURC")
    assert accuracy == [["82.1", "67.3", "0.528", "9.2", "4.65"]]
    assert built.skipped == {
        "paired": "no other arm has a seed in common with pact",
        "views": "no run has the probabilities of more views than one",
        "order": "no item is shown in two orders (K is 1)",
        "slots": "no item is shown in two orders (K is 1)",
        "ablations": "no other arm has a seed in common with pact",
        "scorecard": "no criteria were given (--criteria HYPOTHESES.toml)",
        "calibration": "no run has a calibrator in its folder",
        "gates": "no thresholds were given (--thresholds FILE)",
        "costs": "no costs were given (--cost-wrong and --cost-review, or --thresholds of costs)",
    }
