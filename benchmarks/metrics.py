"""Metrics and the family bootstrap compared with other libraries, in interleaved blocks.

    python benchmarks/metrics.py [--items 1000000] [--blocks 5]

Prints the machine, the versions and, for each row, our median time, the peer's, and their ratio.
Peers compute the same number. The script checks this before it measures times.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
import torch
from scipy.stats import bootstrap
from sklearn.metrics import brier_score_loss, log_loss
from torchmetrics.functional.classification import binary_calibration_error

from pact_eval import metrics, stats

Timed = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """One comparison: the same number, computed by us and by a peer."""

    name: str
    ours: Timed
    peer_name: str
    peer: Timed
    tolerance: float


def rows(items: int) -> list[Row]:
    """Return the comparisons on random predictions with 2 to 6 answers."""
    rng = np.random.default_rng(0)
    n_choices = rng.integers(2, 7, items)
    log_probs = metrics.log_softmax(rng.normal(0, 2, (items, 6)), n_choices)
    reference = (rng.random(items) * n_choices).astype(np.int64)
    probabilities = np.exp(log_probs)
    confidence = metrics.confidence(log_probs)
    correct = metrics.correct(log_probs, reference)
    as_torch = torch.from_numpy(confidence), torch.from_numpy(correct.astype(np.int64))
    few = min(items, 324)
    hits = correct[:few].astype(np.float64)
    return [
        Row(
            "NLL",
            lambda: metrics.item_mean(metrics.nll_nats(log_probs, reference)),
            "sklearn log_loss",
            lambda: float(log_loss(reference, probabilities, labels=range(6))),
            1e-9,
        ),
        Row(
            "Brier",
            lambda: metrics.item_mean(metrics.brier(log_probs, reference)),
            "sklearn brier_score_loss",
            lambda: float(
                brier_score_loss(reference, probabilities, labels=range(6), scale_by_half=False)
            ),
            1e-9,
        ),
        Row(
            "ECE, 15 bins",
            lambda: metrics.ece(confidence, correct),
            "torchmetrics binary_calibration_error",
            lambda: float(binary_calibration_error(*as_torch, n_bins=15, norm="l1")),
            1e-5,
        ),
        Row(
            f"bootstrap of accuracy, n = {few}, 10,000 resamples: low end",
            lambda: _our_low_end(hits),
            "scipy bootstrap, percentile, batch 1000",
            lambda: float(
                bootstrap(
                    (hits,), np.mean, n_resamples=10_000, method="percentile", batch=1000, rng=1
                ).confidence_interval.low
            ),
            0.02,
        ),
    ]


def main() -> None:
    """Check that peers agree, then time block by block and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--blocks", type=int, default=5)
    arguments = parser.parse_args()
    packages = ("numpy", "scipy", "scikit-learn", "torchmetrics", "torch")
    sys.stdout.write(
        f"{platform.machine()}, {platform.python_implementation()} {platform.python_version()}, "
        f"{torch.get_num_threads()} threads; "
        + ", ".join(f"{name} {version(name)}" for name in packages)
        + f"; {arguments.items:,} items, median of {arguments.blocks} interleaved blocks\n\n"
        "| number | ours, s | peer | peer, s | peer / ours |\n|---|---|---|---|---|\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns that rows sum to 1 only to 1e-16
        for row in rows(arguments.items):
            ours, peer = _timed(row, arguments.blocks)
            sys.stdout.write(
                f"| {row.name} | {ours:.4f} | {row.peer_name} | {peer:.4f} | {peer / ours:.1f} |\n"
            )


def _timed(row: Row, blocks: int) -> tuple[float, float]:
    difference = abs(row.ours() - row.peer())
    if difference > row.tolerance:
        message = f"{row.name}: we differ from {row.peer_name} by {difference}"
        raise SystemExit(message)
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(blocks):
        for name, function in (("ours", row.ours), ("peer", row.peer)):
            started = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - started)
    return statistics.median(seconds["ours"]), statistics.median(seconds["peer"])


def _our_low_end(hits: np.ndarray) -> float:
    statistic = stats.mean_statistic(hits, np.arange(len(hits)), len(hits))
    estimates = stats.bootstrap_intervals(
        {"accuracy": statistic},
        n_clusters=len(hits),
        n=len(hits),
        rng=np.random.default_rng(1),
    )
    return estimates["accuracy"].low


if __name__ == "__main__":
    main()
