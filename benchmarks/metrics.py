"""Metrics and the family bootstrap compared with other libraries, in interleaved blocks.

    python benchmarks/metrics.py [--items 1000000] [--blocks 5]

Prints the machine, the versions and, for each row, our median time, the peer's, and their ratio.
Peers compute the same number. The script checks this before it measures times.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from common import Contest, chosen_options, machine, markdown_table, parser, publish, versions
from scipy.stats import bootstrap
from sklearn.metrics import brier_score_loss, log_loss
from torchmetrics.functional.classification import binary_calibration_error

from pact_eval import metrics, stats

Work = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """One comparison: the same number, computed by us and by a peer."""

    name: str
    ours: Work
    peer_name: str
    peer: Work
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
    options = parser(__doc__)
    options.add_argument("--items", type=int, default=1_000_000)
    arguments = chosen_options(options, blocks=1, items=1_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns that rows sum to 1 only to 1e-16
        lines = [_line(row, arguments.blocks) for row in rows(arguments.items)]
    packages = versions("numpy", "scipy", "scikit-learn", "torchmetrics", "torch")
    table = markdown_table(["number", "ours, s", "peer", "peer, s", "peer / ours"], lines)
    text = (
        f"{machine()}, {torch.get_num_threads()} threads; {packages}; {arguments.items:,} items, "
        f"medians of {arguments.blocks} interleaved blocks\n\n{table}"
    )
    publish("metrics", text, arguments.write)


def _line(row: Row, blocks: int) -> list[str]:
    difference = abs(row.ours() - row.peer())
    if difference > row.tolerance:
        message = f"{row.name}: we differ from {row.peer_name} by {difference}"
        raise SystemExit(message)
    contest = Contest({"ours": row.ours, "peer": row.peer})
    contest.run(blocks, warm_up=False)  # both have run once
    ours, peer = (f"{contest.seconds(name):.4f}" for name in ("ours", "peer"))
    return [row.name, ours, row.peer_name, peer, f"{contest.ratio('peer', 'ours'):.1f}"]


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
