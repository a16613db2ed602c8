"""Statistics: intervals and tests that respect the family as the unit of sampling.

The names here are for users. A module is loaded when a name of it is first used, so code that
imports from one module does not load all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pact_eval._hints import names_at_use

if TYPE_CHECKING:
    from pact_eval.stats._quantiles import t_quantile
    from pact_eval.stats.bootstrap import (
        InfluenceStatistic,
        LazyRowSums,
        Resampled,
        ResampledInference,
        RowSums,
        Statistic,
        TotalsStatistic,
        bootstrap_intervals,
        cluster_sums,
        expanded_tail,
        inverted_p_value,
        least_p_value,
        mean_statistic,
        percentile_estimate,
        ratio_statistic,
        resample,
    )
    from pact_eval.stats.consistency_resampling import (
        calibrated_gaps,
        calibrated_outcomes,
        centred_sums,
        shared_draw_rate,
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
    from pact_eval.stats.linearised import (
        LinearInference,
        Linearisation,
        linear_inference,
        linearised_ratio,
    )
    from pact_eval.stats.multiplicity import HolmAdjustment, holm, shown_increases
    from pact_eval.stats.one_thread import one_blas_thread
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
        distinct_orders,
        slot_preferences,
    )
    from pact_eval.stats.proportions import (
        critical_count,
        effective_rows,
        few_clusters,
        few_outcomes,
        lowest_share,
        p_value_above,
        p_value_below,
        rate_estimate,
        rate_limit,
        trials_needed,
        wilson_interval,
        without_interval,
    )
    from pact_eval.stats.rate_decomposition import GroupedOutcomes, GroupShift, MixShift, mix_shift
    from pact_eval.stats.rate_differences import PairedRates, paired_rates
    from pact_eval.stats.seeds import (
        FEWEST_SEEDS,
        CrossedDifference,
        SeedSummary,
        SignAgreement,
        crossed_difference,
        same_sign,
        seed_summary,
    )
    from pact_eval.stats.summed_intervals import SummedInterval, summed_interval

__all__ = [
    "FEWEST_SEEDS",
    "LEVEL",
    "ClusterText",
    "CrossedDifference",
    "EquivalenceVerdict",
    "Estimate",
    "GroupPreference",
    "GroupShift",
    "GroupedOutcomes",
    "HolmAdjustment",
    "InfluenceStatistic",
    "LazyRowSums",
    "LinearInference",
    "Linearisation",
    "MarginFinding",
    "MarginTest",
    "McNemarTest",
    "Method",
    "MixShift",
    "PairedRates",
    "Resampled",
    "ResampledInference",
    "RowSums",
    "SeedSummary",
    "SignAgreement",
    "SignFlipTest",
    "SlotHomogeneity",
    "SlotPreference",
    "SlotPreferences",
    "Statistic",
    "SummedInterval",
    "TotalsStatistic",
    "bootstrap_intervals",
    "calibrated_gaps",
    "calibrated_outcomes",
    "centred_sums",
    "cluster_sums",
    "critical_count",
    "crossed_difference",
    "detectable_difference",
    "distinct_orders",
    "effective_rows",
    "equivalence_verdict",
    "expanded_tail",
    "few_clusters",
    "few_outcomes",
    "holm",
    "inverted_p_value",
    "item_accuracy_difference",
    "least_p_value",
    "linear_inference",
    "linearised_ratio",
    "lowest_share",
    "margin_test",
    "mcnemar",
    "mcnemar_from_counts",
    "mean_statistic",
    "mix_shift",
    "one_blas_thread",
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
    "shared_draw_rate",
    "shown_increases",
    "sign_flip_test",
    "slot_homogeneity",
    "slot_preferences",
    "summed_interval",
    "t_quantile",
    "trials_needed",
    "wilson_interval",
    "without_interval",
]

_HOMES: Final = (
    "_quantiles",
    "bootstrap",
    "consistency_resampling",
    "equivalence",
    "estimate",
    "homogeneity",
    "linearised",
    "multiplicity",
    "one_thread",
    "paired_tests",
    "permuted_slots",
    "proportions",
    "rate_decomposition",
    "rate_differences",
    "seeds",
    "summed_intervals",
)
"""The modules that have the names."""

__getattr__ = names_at_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
