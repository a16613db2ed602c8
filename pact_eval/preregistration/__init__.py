"""Registered hypotheses: criteria written down first, frozen in a lock, and judged on numbers.

`read_hypotheses` reads the criteria (`pact_hypotheses` those of the PACT paper), `register` freezes
them; `read_metric_table`, `rows_from_evaluation`, `rows_from_ablated` and `rows_from_items` bring
the numbers; `judge` gives a scorecard of verdicts with their evidence, and `check_lock` says what
the lock proves.
"""

from pact_eval.preregistration.canonical import (
    canonical_criteria,
    criteria_changes,
    criteria_sha256,
)
from pact_eval.preregistration.criteria import (
    FORMAT,
    Cell,
    Check,
    Hypotheses,
    Hypothesis,
    Instead,
    Quantity,
    Question,
    describe_check,
)
from pact_eval.preregistration.judging import DifferenceInterval, holds, judge
from pact_eval.preregistration.locking import (
    LOCK_FORMAT,
    DataHash,
    Lock,
    lock_path,
    read_lock,
    register,
)
from pact_eval.preregistration.parsing import pact_hypotheses, parse_hypotheses, read_hypotheses
from pact_eval.preregistration.published_table import read_metric_table
from pact_eval.preregistration.registration import (
    Registration,
    RegistrationStatus,
    RunFacts,
    check_lock,
    run_facts,
)
from pact_eval.preregistration.run_rows import (
    ABLATED_ROWS,
    decoding_name,
    rows_from_ablated,
    rows_from_evaluation,
    rows_from_items,
)
from pact_eval.preregistration.run_scorecard import (
    JudgedHypotheses,
    judge_experiment,
    judge_sources,
)
from pact_eval.preregistration.scorecard import (
    CheckResult,
    Comparison,
    HypothesisResult,
    Reading,
    Scorecard,
    WeightedRow,
)
from pact_eval.preregistration.table import MetricRow, MetricTable
from pact_eval.preregistration.verdicts import OUTCOMES, VERDICTS, Outcome, Verdict
from pact_eval.preregistration.vocabulary import (
    ABLATED_CONFIDENCE,
    ABLATED_GAP,
    DECODINGS,
    MEAN_CONFIDENCE,
    METRIC_SPECS,
    RELATIONS,
    TEMPERATURE_FREE,
    VIEW_METRICS,
    DecodingName,
    JudgedOn,
    Margin,
    Relation,
    margin_unit,
)

__all__ = [
    "ABLATED_CONFIDENCE",
    "ABLATED_GAP",
    "ABLATED_ROWS",
    "DECODINGS",
    "FORMAT",
    "LOCK_FORMAT",
    "MEAN_CONFIDENCE",
    "METRIC_SPECS",
    "OUTCOMES",
    "RELATIONS",
    "TEMPERATURE_FREE",
    "VERDICTS",
    "VIEW_METRICS",
    "Cell",
    "Check",
    "CheckResult",
    "Comparison",
    "DataHash",
    "DecodingName",
    "DifferenceInterval",
    "Hypotheses",
    "Hypothesis",
    "HypothesisResult",
    "Instead",
    "JudgedHypotheses",
    "JudgedOn",
    "Lock",
    "Margin",
    "MetricRow",
    "MetricTable",
    "Outcome",
    "Quantity",
    "Question",
    "Reading",
    "Registration",
    "RegistrationStatus",
    "Relation",
    "RunFacts",
    "Scorecard",
    "Verdict",
    "WeightedRow",
    "canonical_criteria",
    "check_lock",
    "criteria_changes",
    "criteria_sha256",
    "decoding_name",
    "describe_check",
    "holds",
    "judge",
    "judge_experiment",
    "judge_sources",
    "lock_path",
    "margin_unit",
    "pact_hypotheses",
    "parse_hypotheses",
    "read_hypotheses",
    "read_lock",
    "read_metric_table",
    "register",
    "rows_from_ablated",
    "rows_from_evaluation",
    "rows_from_items",
    "run_facts",
]
