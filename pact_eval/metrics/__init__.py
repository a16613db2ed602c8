"""Metrics: arrays in, numbers out. Per item first, reduced last, in float64.

An item has C answers. `log_probs` is (n, C_max), normalised, in canonical order, with -inf in
unused slots; `reference` is (n,) canonical indices; `logits` is (n, K, C_max). Aggregates over no
rows are NaN.
"""

from pact_eval.metrics._arrays import (
    TIE,
    check_log_probs,
    check_reference,
    check_whole,
    item_mean,
    mean_answer_mass,
    rows_of,
)
from pact_eval.metrics.blocks import ItemBlock, item_blocks
from pact_eval.metrics.calibration_error import (
    BINS,
    Reliability,
    bin_index,
    confident_errors,
    ece,
    ece_of_gaps,
    is_confident,
    reliability,
    smooth_ece,
    smooth_ece_samples,
)
from pact_eval.metrics.consistency import flipped, pairwise_tv
from pact_eval.metrics.decisions import confidence, correct, predicted
from pact_eval.metrics.decoding import decode_ensemble, decode_single, log_softmax
from pact_eval.metrics.likelihood import (
    NllSummary,
    answer_gap_nats,
    brier,
    expected_level_error,
    level_error,
    nll_nats,
    nll_summary,
    rps,
)
from pact_eval.metrics.pairs import (
    PairIndex,
    PairOutcomes,
    lead_nats,
    pair_accuracy,
    pair_correct,
    pair_margin_nats,
    pair_outcomes,
    pair_rows,
    pairs_of_codes,
)
from pact_eval.metrics.recalibration import (
    AnswerScores,
    Recalibration,
    ScoreDecomposition,
    answer_scores,
    isotonic_pools,
    recalibrate,
)
from pact_eval.metrics.resampled_recalibration import (
    ResampledRecalibration,
    miscalibration_samples,
    recalibrate_samples,
)
from pact_eval.metrics.selective import (
    RiskCoverage,
    aurc,
    aurc_bounds,
    aurc_in_row_order,
    aurc_influence,
    oracle_error_rate,
    risk_coverage,
)

__all__ = [
    "BINS",
    "TIE",
    "AnswerScores",
    "ItemBlock",
    "NllSummary",
    "PairIndex",
    "PairOutcomes",
    "Recalibration",
    "Reliability",
    "ResampledRecalibration",
    "RiskCoverage",
    "ScoreDecomposition",
    "answer_gap_nats",
    "answer_scores",
    "aurc",
    "aurc_bounds",
    "aurc_in_row_order",
    "aurc_influence",
    "bin_index",
    "brier",
    "check_log_probs",
    "check_reference",
    "check_whole",
    "confidence",
    "confident_errors",
    "correct",
    "decode_ensemble",
    "decode_single",
    "ece",
    "ece_of_gaps",
    "expected_level_error",
    "flipped",
    "is_confident",
    "isotonic_pools",
    "item_blocks",
    "item_mean",
    "lead_nats",
    "level_error",
    "log_softmax",
    "mean_answer_mass",
    "miscalibration_samples",
    "nll_nats",
    "nll_summary",
    "oracle_error_rate",
    "pair_accuracy",
    "pair_correct",
    "pair_margin_nats",
    "pair_outcomes",
    "pair_rows",
    "pairs_of_codes",
    "pairwise_tv",
    "predicted",
    "recalibrate",
    "recalibrate_samples",
    "reliability",
    "risk_coverage",
    "rows_of",
    "rps",
    "smooth_ece",
    "smooth_ece_samples",
]
