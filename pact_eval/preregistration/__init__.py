"""Registered hypotheses: criteria written down first, frozen in a lock, and judged on numbers.

`read_hypotheses` reads the criteria, `register` freezes them. `judge` gives a scorecard of verdicts
with their evidence, from the numbers in `pact_eval.evaluation.arms`, and `check_lock` says what the
lock proves.
"""

from pact_eval.preregistration.criteria import (
    FORMAT,
    RELATIONS,
    Check,
    Hypotheses,
    Hypothesis,
    Instead,
    JudgedOn,
    Quantity,
    Question,
    Relation,
    describe_check,
)
from pact_eval.preregistration.diagnostics import (
    RegistrationProblem,
    WeakVerdict,
    on_registration,
    on_verdicts,
)
from pact_eval.preregistration.differences import RunDifferences, with_calibrated_tv
from pact_eval.preregistration.evidence import ShownBy, ShownMethod
from pact_eval.preregistration.judging import Differences, holds, judge
from pact_eval.preregistration.parsing import (
    parse_hypotheses,
    read_hypotheses,
    write_example,
)
from pact_eval.preregistration.registration import (
    LOCK_FORMAT,
    DataHash,
    Lock,
    Registration,
    RegistrationStatus,
    RunFacts,
    canonical_criteria,
    check_lock,
    criteria_changes,
    criteria_sha256,
    lock_path,
    read_lock,
    register,
    run_facts,
)
from pact_eval.preregistration.run_scorecard import (
    JudgedHypotheses,
    judge_experiment,
    judge_sources,
)
from pact_eval.preregistration.scorecard import (
    OUTCOMES,
    VERDICTS,
    CheckComparison,
    HypothesisResult,
    JudgedCheck,
    Outcome,
    Reading,
    Scorecard,
    Shown,
    Verdict,
    WeightedRow,
)
from pact_eval.stats import LEVEL

__all__ = [
    "FORMAT",
    "LEVEL",
    "LOCK_FORMAT",
    "OUTCOMES",
    "RELATIONS",
    "VERDICTS",
    "Check",
    "CheckComparison",
    "DataHash",
    "Differences",
    "Hypotheses",
    "Hypothesis",
    "HypothesisResult",
    "Instead",
    "JudgedCheck",
    "JudgedHypotheses",
    "JudgedOn",
    "Lock",
    "Outcome",
    "Quantity",
    "Question",
    "Reading",
    "Registration",
    "RegistrationProblem",
    "RegistrationStatus",
    "Relation",
    "RunDifferences",
    "RunFacts",
    "Scorecard",
    "Shown",
    "ShownBy",
    "ShownMethod",
    "Verdict",
    "WeakVerdict",
    "WeightedRow",
    "canonical_criteria",
    "check_lock",
    "criteria_changes",
    "criteria_sha256",
    "describe_check",
    "holds",
    "judge",
    "judge_experiment",
    "judge_sources",
    "lock_path",
    "on_registration",
    "on_verdicts",
    "parse_hypotheses",
    "read_hypotheses",
    "read_lock",
    "register",
    "run_facts",
    "with_calibrated_tv",
    "write_example",
]
