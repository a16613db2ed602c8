"""Drift: has a model, a server or its input changed between two runs, and by more than a margin?"""

from pact_eval.drift.distances import Distance, JointFloor
from pact_eval.drift.drift import (
    AccuracyChange,
    AnswerChanges,
    Drift,
    GateChange,
    MetricChange,
    measure_drift,
)
from pact_eval.drift.mix import DomainShift, Mix
from pact_eval.drift.pairing import PairedRuns, Pairing
from pact_eval.drift.quantising import QuantisingCost, quantising_cost
from pact_eval.drift.tempering import ServedTempering, Tempering, TemperingFinding, served_tempering

__all__ = [
    "AccuracyChange",
    "AnswerChanges",
    "Distance",
    "DomainShift",
    "Drift",
    "GateChange",
    "JointFloor",
    "MetricChange",
    "Mix",
    "PairedRuns",
    "Pairing",
    "QuantisingCost",
    "ServedTempering",
    "Tempering",
    "TemperingFinding",
    "measure_drift",
    "quantising_cost",
    "served_tempering",
]
