"""Statistics: intervals and tests that respect the family as the unit of sampling.

The names here are for users; what only this package calls is in the modules.
"""

from pact_eval.stats._quantiles import t_quantile as t_quantile
from pact_eval.stats.bootstrap import Resampled as Resampled
from pact_eval.stats.bootstrap import mean_statistic as mean_statistic
from pact_eval.stats.bootstrap import percentile_estimate as percentile_estimate
from pact_eval.stats.bootstrap import ratio_statistic as ratio_statistic
from pact_eval.stats.bootstrap import resample as resample
from pact_eval.stats.estimate import LEVEL as LEVEL
from pact_eval.stats.estimate import ClusterText as ClusterText
from pact_eval.stats.estimate import Estimate as Estimate
from pact_eval.stats.estimate import Method as Method
from pact_eval.stats.homogeneity import SlotHomogeneity as SlotHomogeneity
from pact_eval.stats.homogeneity import slot_homogeneity as slot_homogeneity
from pact_eval.stats.letter_preference import GroupPreference as GroupPreference
from pact_eval.stats.letter_preference import SlotPreference as SlotPreference
from pact_eval.stats.letter_preference import SlotPreferences as SlotPreferences
from pact_eval.stats.letter_preference import slot_preferences as slot_preferences
from pact_eval.stats.multiplicity import holm as holm
from pact_eval.stats.paired_tests import McNemarTest as McNemarTest
from pact_eval.stats.paired_tests import SignFlipTest as SignFlipTest
from pact_eval.stats.paired_tests import item_accuracy_difference as item_accuracy_difference
from pact_eval.stats.paired_tests import mcnemar as mcnemar
from pact_eval.stats.paired_tests import mcnemar_from_counts as mcnemar_from_counts
from pact_eval.stats.paired_tests import sign_flip_test as sign_flip_test
from pact_eval.stats.power import EquivalenceVerdict as EquivalenceVerdict
from pact_eval.stats.power import MarginFinding as MarginFinding
from pact_eval.stats.power import MarginTest as MarginTest
from pact_eval.stats.power import detectable_difference as detectable_difference
from pact_eval.stats.power import equivalence_verdict as equivalence_verdict
from pact_eval.stats.power import margin_test as margin_test
from pact_eval.stats.rate_differences import GroupedOutcomes as GroupedOutcomes
from pact_eval.stats.rate_differences import GroupShift as GroupShift
from pact_eval.stats.rate_differences import MixShift as MixShift
from pact_eval.stats.rate_differences import PairedRates as PairedRates
from pact_eval.stats.rate_differences import mix_shift as mix_shift
from pact_eval.stats.rate_differences import paired_rates as paired_rates
from pact_eval.stats.rates import p_value_above as p_value_above
from pact_eval.stats.rates import p_value_below as p_value_below
from pact_eval.stats.rates import rate_estimate as rate_estimate
from pact_eval.stats.rates import rate_limit as rate_limit
from pact_eval.stats.rates import trials_needed as trials_needed
from pact_eval.stats.rates import wilson_interval as wilson_interval
from pact_eval.stats.seeds import CrossedDifference as CrossedDifference
from pact_eval.stats.seeds import SeedSummary as SeedSummary
from pact_eval.stats.seeds import SignAgreement as SignAgreement
from pact_eval.stats.seeds import crossed_difference as crossed_difference
from pact_eval.stats.seeds import same_sign as same_sign
from pact_eval.stats.seeds import seed_summary as seed_summary
