"""Arms that do not differ: runs of one model, judged by the criteria of the paper.

Data sets have 162 families of two, kinds 73:57:32, 2 to 6 answers and 4 views in the letter orders
of scoring. Runs share the difficulty of families and items. They differ by noise alone, so whatever
a scorecard shows of them is wrong. A view that repeats an order repeats its logits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from pact_eval.calibration.temperatures import neutral_calibrator
from pact_eval.evaluation.arms.arm_metrics import MetricRow, MetricTable, rows_from_items
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import ENSEMBLE, ENSEMBLE_CALIBRATED, SINGLE, MetricDecoding
from pact_eval.preregistration.criteria import Hypotheses, read_hypotheses
from pact_eval.preregistration.run_scorecard import RunDifferences, judge, with_calibrated_tv
from pact_eval.preregistration.scorecard import Scorecard
from pact_eval.prompts.contract import code_orders
from pact_eval.runs.predictions import Predictions
from pact_fixtures.paper import HYPOTHESES

ARMS: Final = {"pact_full": (17, 18, 19), "ce_only": (17, 18, 19), "no_cf": (17,), "no_emd": (17,)}
_KINDS: Final = (("choice", 73), ("boolean", 57), ("score", 32))
_VIEWS: Final = 4
_WIDTH: Final = 6
_ITEM_SPREAD: Final = 1.5
_RUN_NOISE: Final = 0.7
_VIEW_NOISE: Final = 0.5
_METRICS: Final = {
    SINGLE: ("accuracy", "pair_accuracy", "score_mae", "nll_nats", "ece"),
    ENSEMBLE: ("accuracy", "pair_accuracy", "flip_rate"),
    ENSEMBLE_CALIBRATED: ("view_tv",),
}


def null_hypotheses(*ids: str) -> Hypotheses:
    """Returns hypotheses of the paper, without the rows that decide nothing."""
    hypotheses = read_hypotheses(HYPOTHESES).hypotheses
    return Hypotheses(tuple(replace(row, beside=()) for row in hypotheses if row.id in ids))


def null_runs(rng: np.random.Generator, runs: int) -> list[Predictions]:
    """Draws runs of equal quality on one data set; references follow the shared probabilities."""
    kind = np.repeat([name for name, _ in _KINDS], [2 * families for _, families in _KINDS])
    n = len(kind)
    n_choices = np.where(kind == "boolean", 2, rng.integers(2, _WIDTH + 1, n))
    used = np.arange(_WIDTH) < n_choices[:, None]
    of_family = np.repeat(rng.normal(0, 1, (n // 2, _WIDTH)), 2, axis=0)
    shared = of_family + rng.normal(0, _ITEM_SPREAD, (n, _WIDTH))
    weights = np.where(used, np.exp(shared), 0.0)
    drawn = rng.random(n)[:, None] * weights.sum(axis=1, keepdims=True)
    family = np.arange(n) // 2
    ids = np.char.add("i", np.arange(n).astype(str))
    orders, source_view = _letter_orders(ids, n_choices)
    first = Predictions(
        ids=ids,
        family=np.char.add("f", family.astype(str)),
        source_family=np.char.add("s", (family % 18).astype(str)),
        domain=np.char.add("d", (family % 6).astype(str)),
        kind=kind,
        variant=np.tile(["base", "counterfactual"], n // 2),
        n_choices=n_choices,
        logits=np.zeros((n, _VIEWS, _WIDTH)),
        code_order=orders,
        prompt_tokens=np.full(n, 300.0),
        answer_mass=np.ones((n, _VIEWS)),
        references=(np.cumsum(weights, axis=1) < drawn).sum(axis=1),
    )

    def logits() -> np.ndarray:
        of_run = rng.normal(0, _RUN_NOISE, shared.shape)[:, None]
        views = rng.normal(0, _VIEW_NOISE, (n, _VIEWS, _WIDTH))
        of_orders = np.take_along_axis(views, source_view[:, :, None], axis=1)
        return np.where(used[:, None], shared[:, None] + of_run + of_orders, -np.inf)

    return [replace(first, logits=logits()) for _ in range(runs)]


def _letter_orders(ids: np.ndarray, n_choices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, K, C) letter orders, padded with -1, and the (n, K) first view of each order."""
    padded = np.full((len(ids), _VIEWS, _WIDTH), -1)
    first_view = np.zeros((len(ids), _VIEWS), dtype=np.int64)
    for row, (name, answers) in enumerate(zip(ids, n_choices, strict=True)):
        orders = code_orders(0, str(name), int(answers), _VIEWS)
        padded[row, :, :answers] = orders
        first_view[row] = [orders.index(order) for order in orders]
    return padded, first_view


def null_scorecard(seed: int, hypotheses: Hypotheses, resamples: int) -> Scorecard:
    """Judges hypotheses on one data set with arms that do not differ."""
    keys = [(arm, run_seed) for arm, seeds in ARMS.items() for run_seed in seeds]
    runs = null_runs(np.random.default_rng([15, seed]), len(keys))
    differences = RunDifferences(lambda: np.random.default_rng(seed), resamples)
    rows: list[MetricRow] = []
    for (arm, run_seed), views in zip(keys, runs, strict=True):
        ensemble = ScoredItems.of(views, "ensemble", neutral_calibrator("scalar"))
        for items in (
            ScoredItems.of(views, "single"),
            ScoredItems.of(views, "ensemble"),
            with_calibrated_tv(ensemble),
        ):
            decoding = MetricDecoding(items.decoding, items.calibrator is not None)
            differences.add(arm, run_seed, decoding, items)
            rows += rows_from_items(arm, run_seed, items, _METRICS[decoding])
    return judge(hypotheses, MetricTable(rows), differences=differences)
