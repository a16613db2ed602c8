"""Thresholds: gates and answer sets with a guarantee for new families, and their checks."""

from pact_eval._choices import Counting, GateGroups, Signal
from pact_eval.thresholds.accept import accept
from pact_eval.thresholds.answer_set import answer_set
from pact_eval.thresholds.answer_sets import (
    AnswerSets,
    GroupSets,
    KindSets,
    OtherSets,
    choose_answer_sets,
)
from pact_eval.thresholds.checking import (
    CheckedGate,
    GateVerdict,
    ThresholdsCheck,
    check_thresholds,
)
from pact_eval.thresholds.choice import Alternative, Gate, Rule, Thresholds, choose_thresholds
from pact_eval.thresholds.conclusion import (
    Acting,
    ActingGate,
    ActingStatus,
    acting,
    acting_without_probabilities,
)
from pact_eval.thresholds.decision_curves import (
    CostCurve,
    Decisions,
    GateMark,
    GateMarks,
    GateNote,
    cost_curve,
    gate_marks,
)
from pact_eval.thresholds.files import (
    EVERY_ANSWER,
    ThresholdsFile,
    guarantee,
    read_thresholds,
    thresholds_json,
    write_thresholds,
)
from pact_eval.thresholds.gate_items import GateItems
from pact_eval.thresholds.plans import families_needed
from pact_eval.thresholds.report_acting import acting_of_arm, with_acting
from pact_eval.thresholds.sequence import ChosenGate, GateTest, choose_gate
from pact_eval.thresholds.set_checking import AnswerSetsCheck, CheckedSets, check_answer_sets
from pact_eval.thresholds.set_files import (
    AnswerSetsFile,
    answer_sets_json,
    read_answer_sets,
    sets_guarantee,
    write_answer_sets,
)
from pact_eval.thresholds.set_levels import SetLevel, answer_sureness, choose_level
from pact_eval.thresholds.signals import LOW_IS_SURE, SIGNALS
from pact_eval.thresholds.targets import Target, TargetKind

__all__ = [
    "EVERY_ANSWER",
    "LOW_IS_SURE",
    "SIGNALS",
    "Acting",
    "ActingGate",
    "ActingStatus",
    "Alternative",
    "AnswerSets",
    "AnswerSetsCheck",
    "AnswerSetsFile",
    "CheckedGate",
    "CheckedSets",
    "ChosenGate",
    "CostCurve",
    "Counting",
    "Decisions",
    "Gate",
    "GateGroups",
    "GateItems",
    "GateMark",
    "GateMarks",
    "GateNote",
    "GateTest",
    "GateVerdict",
    "GroupSets",
    "KindSets",
    "OtherSets",
    "Rule",
    "SetLevel",
    "Signal",
    "Target",
    "TargetKind",
    "Thresholds",
    "ThresholdsCheck",
    "ThresholdsFile",
    "accept",
    "acting",
    "acting_of_arm",
    "acting_without_probabilities",
    "answer_set",
    "answer_sets_json",
    "answer_sureness",
    "check_answer_sets",
    "check_thresholds",
    "choose_answer_sets",
    "choose_gate",
    "choose_level",
    "choose_thresholds",
    "cost_curve",
    "families_needed",
    "gate_marks",
    "guarantee",
    "read_answer_sets",
    "read_thresholds",
    "sets_guarantee",
    "thresholds_json",
    "with_acting",
    "write_answer_sets",
    "write_thresholds",
]
