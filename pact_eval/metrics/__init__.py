"""Metrics: arrays in, numbers out. Per item first, reduced last, in float64.

An item has C answers. `log_probs` is (n, C_max), normalised, in canonical order, with -inf in
unused slots; `reference` is (n,) canonical indices; `logits` is (n, K, C_max). Aggregates over no
rows are NaN.
"""

from pact_eval.metrics._arrays import TIE as TIE
from pact_eval.metrics._arrays import check_log_probs as check_log_probs
from pact_eval.metrics._arrays import check_reference as check_reference
from pact_eval.metrics._arrays import check_whole as check_whole
from pact_eval.metrics._arrays import item_mean as item_mean
from pact_eval.metrics._arrays import mean_answer_mass as mean_answer_mass
from pact_eval.metrics._arrays import rows_of as rows_of
from pact_eval.metrics.blocks import ItemBlock as ItemBlock
from pact_eval.metrics.blocks import item_blocks as item_blocks
from pact_eval.metrics.calibration_error import BINS as BINS
from pact_eval.metrics.calibration_error import Reliability as Reliability
from pact_eval.metrics.calibration_error import bin_index as bin_index
from pact_eval.metrics.calibration_error import confident_errors as confident_errors
from pact_eval.metrics.calibration_error import ece as ece
from pact_eval.metrics.calibration_error import ece_of_gaps as ece_of_gaps
from pact_eval.metrics.calibration_error import is_confident as is_confident
from pact_eval.metrics.calibration_error import reliability as reliability
from pact_eval.metrics.calibration_error import smooth_ece as smooth_ece
from pact_eval.metrics.calibration_error import smooth_ece_samples as smooth_ece_samples
from pact_eval.metrics.decoding import confidence as confidence
from pact_eval.metrics.decoding import correct as correct
from pact_eval.metrics.decoding import decode_ensemble as decode_ensemble
from pact_eval.metrics.decoding import decode_single as decode_single
from pact_eval.metrics.decoding import flipped as flipped
from pact_eval.metrics.decoding import log_softmax as log_softmax
from pact_eval.metrics.decoding import pairwise_tv as pairwise_tv
from pact_eval.metrics.decoding import predicted as predicted
from pact_eval.metrics.likelihood import NllSummary as NllSummary
from pact_eval.metrics.likelihood import RiskCoverage as RiskCoverage
from pact_eval.metrics.likelihood import answer_gap_nats as answer_gap_nats
from pact_eval.metrics.likelihood import aurc as aurc
from pact_eval.metrics.likelihood import aurc_bounds as aurc_bounds
from pact_eval.metrics.likelihood import aurc_influence as aurc_influence
from pact_eval.metrics.likelihood import brier as brier
from pact_eval.metrics.likelihood import expected_level_error as expected_level_error
from pact_eval.metrics.likelihood import level_error as level_error
from pact_eval.metrics.likelihood import nll_nats as nll_nats
from pact_eval.metrics.likelihood import nll_summary as nll_summary
from pact_eval.metrics.likelihood import oracle_error_rate as oracle_error_rate
from pact_eval.metrics.likelihood import risk_coverage as risk_coverage
from pact_eval.metrics.likelihood import rps as rps
from pact_eval.metrics.pairs import PairIndex as PairIndex
from pact_eval.metrics.pairs import PairOutcomes as PairOutcomes
from pact_eval.metrics.pairs import lead_nats as lead_nats
from pact_eval.metrics.pairs import pair_accuracy as pair_accuracy
from pact_eval.metrics.pairs import pair_correct as pair_correct
from pact_eval.metrics.pairs import pair_margin_nats as pair_margin_nats
from pact_eval.metrics.pairs import pair_outcomes as pair_outcomes
from pact_eval.metrics.pairs import pair_rows as pair_rows
from pact_eval.metrics.pairs import pairs_of_codes as pairs_of_codes
from pact_eval.metrics.recalibration import AnswerScores as AnswerScores
from pact_eval.metrics.recalibration import Recalibration as Recalibration
from pact_eval.metrics.recalibration import ResampledRecalibration as ResampledRecalibration
from pact_eval.metrics.recalibration import ScoreDecomposition as ScoreDecomposition
from pact_eval.metrics.recalibration import answer_scores as answer_scores
from pact_eval.metrics.recalibration import isotonic_pools as isotonic_pools
from pact_eval.metrics.recalibration import miscalibration_samples as miscalibration_samples
from pact_eval.metrics.recalibration import recalibrate as recalibrate
from pact_eval.metrics.recalibration import recalibrate_samples as recalibrate_samples
