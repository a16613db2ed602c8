"""Point metrics of ten million items, full reports, an import, many runs; with other libraries.

    python benchmarks/metrics_at_scale.py [--items 10000000] [--blocks 5] [--write FILE]

The items are random (2 to 6 answers, families of two, one view) and first written as a run. The
peers of point metrics get the same items as probabilities in memory: they read and decode nothing.
The peer of the bootstrap draws all items in memory: it gets a share of them, and its time is
divided by that share. The script checks that both compute the same number before it measures times.
The command `import` and the report of many runs are measured from their start to their end. The
peer of the import reads the same CSV, and writes it as Parquet: it checks and decides nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from common import (
    Peer,
    Row,
    chosen_options,
    machine,
    parser,
    peak_memory,
    publish,
    rows_table,
    versions,
)
from random_runs import WIDTH, write_rows
from scipy.stats import bootstrap
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss
from startup import ITEMS, VIEWS, command, run, write_run
from torch import from_numpy
from torchmetrics.functional.classification import binary_calibration_error

from pact_eval import metrics
from pact_eval.evaluation.items import read_items
from pact_eval.evaluation.report import evaluate_items
from pact_eval.evaluation.resampled_groups import point_estimates
from pact_eval.importing.import_run import import_run
from pact_eval.stats.paired_tests import item_accuracy_difference

RESAMPLES = 10_000


def padded(path: Path, items: int) -> tuple[Any, Any]:
    """Return references and probabilities (n, 6) of the first items, as peers expect them."""
    frame = pl.read_parquet(path, n_rows=items)
    n_choices = frame["n_choices"].to_numpy()
    logits = np.full((len(frame), WIDTH), -np.inf)
    logits[np.arange(WIDTH) < n_choices[:, None]] = frame["logits"].explode().to_numpy()
    return frame["reference"].to_numpy(), np.exp(metrics.log_softmax(logits, n_choices))


def peer_metrics(reference: Any, probabilities: Any) -> list[float]:
    """Accuracy, NLL and Brier by scikit-learn, ECE by torchmetrics."""
    predicted = probabilities.argmax(axis=1)
    sure = from_numpy(probabilities.max(axis=1))
    right = from_numpy((predicted == reference).astype(np.int64))
    return [
        float(accuracy_score(reference, predicted)),
        float(log_loss(reference, probabilities, labels=range(WIDTH))),
        float(brier_score_loss(reference, probabilities, labels=range(WIDTH), scale_by_half=False)),
        float(binary_calibration_error(sure, right, n_bins=15, norm="l1")),
    ]


def our_metrics(path: Path) -> list[float]:
    """All metrics of the report on all items: the peers' four, AURC, pair accuracy and more."""
    items = read_items(path, "single", letters=False)
    estimates = point_estimates(items)["all"]
    names = ("accuracy", "nll_nats", "brier", "ece", "aurc", "pair_accuracy")
    return [estimates[name].value for name in names]


def report(path: Path) -> float:
    """The full report with intervals, as `pact-eval report` computes it; returns the accuracy."""
    items = read_items(path, "ensemble")
    evaluation = evaluate_items(items, by="kind", rng=np.random.default_rng(0))
    return evaluation.groups[0].estimates["accuracy"].low


def peer_bootstrap(values: npt.NDArray[np.float64]) -> float:
    """Return the low end of scipy's percentile bootstrap."""
    result = bootstrap(
        (values,), np.mean, n_resamples=RESAMPLES, method="percentile", batch=100, rng=1
    )
    return float(result.confidence_interval.low)


def report_rows(folder: Path, items: int) -> list[Row]:
    """Return the rows of full reports: a million items with four views, and a holdout of 324."""
    million, few = min(items, 1_000_000), min(items, 10_000)
    rows = []
    for number, limit in ((million, 5.0), (324, 0.5)):
        place = folder / str(number)
        place.mkdir()
        path = write_rows(place, number, views=4)
        rows.append(
            Row(
                f"full report with intervals, {number:,} items, K = 4",
                partial(report, path),
                limit,
                [],
            )
        )
    rng = np.random.default_rng(0)
    right = rng.random((2, few)) < np.array([[0.75], [0.72]])
    lead = right[0].astype(np.float64) - right[1]
    only_a, only_b = int(items * 0.12), int(items * 0.09)
    name = f"scipy.stats.bootstrap, percentile, {few:,} items"
    rows.append(
        Row(
            f"bootstrap of an accuracy difference over items, {items:,} items",
            lambda: item_accuracy_difference(only_a, only_b, items, rng=np.random.default_rng(1)),
            0.02,
            [Peer(name, partial(peer_bootstrap, lead), few / items)],
        )
    )
    return rows


def write_csv(path: Path, items: int) -> None:
    """Write items with four probabilities of six decimals, a right answer and a region."""
    rng, names = np.random.default_rng(0), np.array(["refund", "replace", "reject", "escalate"])
    p = rng.dirichlet(np.ones(len(names)), items).round(6)
    columns = {f"p_{name}": p[:, at] for at, name in enumerate(names)}
    frame = pl.DataFrame(
        {
            "id": [f"item-{number}" for number in range(items)],
            "label": names[rng.integers(0, len(names), items)],
            **columns,
            "region": np.array(["north", "south", "east"])[rng.integers(0, 3, items)],
        }
    )
    frame.write_csv(path)


def import_csv(path: Path) -> int:
    """Import a CSV file as a run; returns the number of its rows."""
    with tempfile.TemporaryDirectory() as folder:
        return len(import_run(path, Path(folder) / "run", {}).frame)


def import_command(path: Path) -> str:
    """Import a CSV file as a run, and report on it; returns what is printed."""
    with tempfile.TemporaryDirectory() as folder:
        return run(*command("import", str(path), "--out", f"{folder}/run"))


def import_rows(folder: Path, items: int) -> list[Row]:
    """Return the rows of an import, and of the command, which also prints a first screen."""
    path = folder / "answers.csv"
    write_csv(path, items)
    peer = Peer(
        "polars, read_csv and write_parquet",
        lambda: pl.read_csv(path).write_parquet(folder / "answers.parquet"),
    )
    what = f"import of {items:,} rows of CSV"
    return [
        Row(what, partial(import_csv, path), 10.0, [peer]),
        Row(f"{what}, as a command with its report", partial(import_command, path), None, []),
    ]


def runs_row(folder: Path, runs: int) -> Row:
    """Return the row of the report of many runs."""
    folders = [str(write_run(folder / f"run-{number}", number)) for number in range(runs)]
    return Row(
        f"`report` of {runs:,} runs of {ITEMS} items, K = {VIEWS}",
        lambda: run(*command("report", *folders)),
        60.0,
        [],
    )


def check(path: Path, items: int) -> None:
    """Check that our numbers agree with the peers' on the same items."""
    with tempfile.TemporaryDirectory() as temporary:
        small = Path(temporary) / "predictions.parquet"
        pl.read_parquet(path, n_rows=items).write_parquet(small)
        ours, peer = our_metrics(small), peer_metrics(*padded(small, items))
    # torchmetrics computes its bins in float32.
    for one, other, tolerance in zip(ours, peer, (1e-12, 1e-9, 1e-9, 1e-5), strict=False):
        if abs(one - other) > tolerance:
            message = f"expected the numbers of the peers, {peer}, got {ours}"
            raise SystemExit(message)


def peak_of(path: Path) -> float:
    """Return the peak memory of a process that only computes point metrics, or imports, in MB."""
    made = subprocess.run(  # noqa: S603 -- this script
        [sys.executable, __file__, "--peak", str(path)], capture_output=True, text=True, check=True
    )
    return float(made.stdout)


def main() -> None:
    """Write the run, check that peers agree, time, and print the section."""
    options = parser(__doc__)
    options.add_argument("--items", type=int, default=10_000_000)
    options.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    arguments = chosen_options(options, blocks=1, items=1_000)
    if arguments.peak:
        (import_csv if arguments.peak.suffix == ".csv" else our_metrics)(arguments.peak)
        sys.stdout.write(str(peak_memory()))
        return
    items = arguments.items
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns that rows sum to 1 only to 1e-16
        path = write_rows(Path(temporary), items)
        size = path.stat().st_size / 1e6
        check(path, min(items, 500_000))
        reference, probabilities = padded(path, items)
        peer = Peer(
            "scikit-learn and torchmetrics (accuracy, NLL, Brier, ECE), the same items in memory",
            lambda: peer_metrics(reference, probabilities),
            1.0,
        )
        one_pass = Row(
            f"point metrics, {items:,} items from Parquet",
            lambda: our_metrics(path),
            3.0,
            [peer],
        )
        imported = min(items, 1_000_000)
        rows = [one_pass, *report_rows(Path(temporary), items)]
        rows += import_rows(Path(temporary), imported)
        rows.append(runs_row(Path(temporary), min(500, items // 100)))
        lines, ratios = rows_table(rows, arguments.blocks)
        peak, peak_of_import = peak_of(path), peak_of(Path(temporary) / "answers.csv")
    packages = versions("numpy", "scipy", "polars", "scikit-learn", "torchmetrics")
    text = (
        f"{machine()}; {packages}. Medians of {arguments.blocks} interleaved blocks, "
        f"default resamples of the report. The file has {size:,.0f} MB. The peak memory of point "
        f"metrics in their own process is {peak:,.0f} MB, libraries included, and that of the "
        f"import {peak_of_import:,.0f} MB.\n\n{lines}\n\n"
        "If a peer gets a share of the items, its time is divided by that share.\n\n"
        "`python benchmarks/metrics_at_scale.py`"
    )
    publish("metrics-at-scale", text, arguments.write, ratios)


if __name__ == "__main__":
    main()
