"""Statistics: intervals and tests that respect the family as the unit of sampling.

The names here are for users; what only this package calls is in the modules.
"""

from pact_eval.stats._quantiles import t_quantile
from pact_eval.stats.bootstrap import (
    Resampled,
    mean_statistic,
    percentile_estimate,
    ratio_statistic,
    resample,
)
from pact_eval.stats.equivalence import (
    EquivalenceVerdict,
    MarginFinding,
    MarginTest,
    detectable_difference,
    equivalence_verdict,
    margin_test,
)
from pact_eval.stats.estimate import LEVEL, ClusterText, Estimate, Method
from pact_eval.stats.homogeneity import SlotHomogeneity, slot_homogeneity
from pact_eval.stats.multiplicity import holm
from pact_eval.stats.paired_tests import (
    McNemarTest,
    SignFlipTest,
    item_accuracy_difference,
    mcnemar,
    mcnemar_from_counts,
    sign_flip_test,
)
from pact_eval.stats.permuted_slots import (
    GroupPreference,
    SlotPreference,
    SlotPreferences,
    slot_preferences,
)
from pact_eval.stats.proportions import (
    p_value_above,
    p_value_below,
    rate_estimate,
    rate_limit,
    trials_needed,
    wilson_interval,
)
from pact_eval.stats.rate_decomposition import GroupedOutcomes, GroupShift, MixShift, mix_shift
from pact_eval.stats.rate_differences import PairedRates, paired_rates
from pact_eval.stats.seeds import (
    CrossedDifference,
    SeedSummary,
    SignAgreement,
    crossed_difference,
    same_sign,
    seed_summary,
)

__all__ = [
    "LEVEL",
    "ClusterText",
    "CrossedDifference",
    "EquivalenceVerdict",
    "Estimate",
    "GroupPreference",
    "GroupShift",
    "GroupedOutcomes",
    "MarginFinding",
    "MarginTest",
    "McNemarTest",
    "Method",
    "MixShift",
    "PairedRates",
    "Resampled",
    "SeedSummary",
    "SignAgreement",
    "SignFlipTest",
    "SlotHomogeneity",
    "SlotPreference",
    "SlotPreferences",
    "crossed_difference",
    "detectable_difference",
    "equivalence_verdict",
    "holm",
    "item_accuracy_difference",
    "margin_test",
    "mcnemar",
    "mcnemar_from_counts",
    "mean_statistic",
    "mix_shift",
    "p_value_above",
    "p_value_below",
    "paired_rates",
    "percentile_estimate",
    "rate_estimate",
    "rate_limit",
    "ratio_statistic",
    "resample",
    "same_sign",
    "seed_summary",
    "sign_flip_test",
    "slot_homogeneity",
    "slot_preferences",
    "t_quantile",
    "trials_needed",
    "wilson_interval",
]
