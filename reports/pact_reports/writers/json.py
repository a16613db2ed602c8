"""Results as JSON values, with null for NaN and infinities, and lists for arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from pact_eval._choices import ClusterUnit, Severity
from pact_eval._json import Json
from pact_eval.audit.findings import CODES, SEVERITIES, CheckResult, Finding, count, failed
from pact_eval.calibration.temperatures import CalibrationNote, CalibrationWarning, Weights
from pact_eval.data.files import DataFile, FileFacts
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.evaluation.conclusions.better import BetterConclusion
from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.registry import MetricDecoding
from pact_eval.evaluation.spending import Spending
from pact_eval.hub import hub_json
from pact_eval.numbers import CLUSTERS, reason_text
from pact_eval.results import Note
from pact_eval.runs.places import shown
from pact_eval.schema import Section
from pact_eval.stats.estimate import Estimate, Method

_MOST_IDS: Final = 20


COUNTS: Final[dict[ClusterUnit, str]] = {
    "family": "families",
    "source_family": "source_families",
}


def to_json(value: Any) -> Json:
    """Turn frozen objects, mappings, sequences and arrays into JSON; NaN, infinities become null.

    Fields that the `repr` of an object leaves out, such as the runs behind a result, are left out.

    Example:
        >>> to_json({"gain": float("nan"), "words": ("a", 1)})
        {'gain': None, 'words': ['a', 1]}
        >>> to_json(np.array([0.5, np.nan]))
        [0.5, None]
    """
    if isinstance(value, Method | MetricDecoding):
        return str(value)
    if isinstance(value, Note):
        return note_json(value)
    if is_dataclass(value) and not isinstance(value, type | Weights):
        shown_fields = (field for field in fields(value) if field.repr)
        return {field.name: to_json(getattr(value, field.name)) for field in shown_fields}
    if isinstance(value, Mapping | Section | Weights):
        members = value if isinstance(value, Mapping) else value.to_json()
        return {str(key): to_json(item) for key, item in members.items()}
    if isinstance(value, np.ndarray | np.generic):
        return to_json(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return shown(value) if isinstance(value, Path) else str(value)


def note_json(note: Note) -> dict[str, Json]:
    """Turn a note into JSON values: its kind, its numbers and its sentence."""
    if isinstance(note, CalibrationNote):
        numbers = {name: to_json(value) for name, value in note.numbers.items()}
        return {"kind": note.kind, **numbers, "text": note.sentence}
    return {"kind": type(note).__name__, **members(note), "text": str(note)}


def members(value: Any) -> dict[str, Json]:
    """Turn all fields of a frozen object into JSON values, by their names."""
    return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}


def attributes(value: object, *names: str, **renamed: str) -> dict[str, Json]:
    """Turn some attributes of an object into JSON values, by their names, or by other keys.

    Example:
        >>> attributes(complex(1, 2), "real", imaginary="imag")
        {'real': 1.0, 'imaginary': 2.0}
    """
    keys = {**dict(zip(names, names, strict=True)), **renamed}
    return {key: to_json(getattr(value, name)) for key, name in keys.items()}


def estimate_json(estimate: Estimate, unit: ClusterUnit = "family") -> Json:
    """Turn an estimate into JSON values: rates as fractions, null if there is no finite number.

    Example:
        >>> from pact_eval.stats.estimate import Estimate
        >>> value = estimate_json(Estimate(0.5, 0.25, float("nan"), 2, 1))
        >>> value["value"], value["high"], value["families"]
        (0.5, None, 1)
    """
    values: dict[str, Json] = {
        "value": to_json(estimate.value),
        "infinite": math.isinf(estimate.value),
        "low": to_json(estimate.low),
        "high": to_json(estimate.high),
        "n": estimate.n,
        COUNTS[unit]: estimate.clusters,
        "method": "none" if estimate.method is None else estimate.method.over(CLUSTERS[unit]),
        "reason": reason_text(estimate.reason, unit),
    }
    if isinstance(estimate, CalibrationError):
        values |= {
            "noise_floor": to_json(estimate.floor),
            "noise_floor_95": to_json(estimate.floor_high),
            "p_calibrated": to_json(estimate.p_value),
            "debiased": to_json(estimate.debiased),
            "bins": estimate.bins,
        }
    return values


def answer_json(
    conclusions: Iterable[Conclusion], better: Sequence[BetterConclusion] | None = None
) -> dict[str, Json]:
    """Turn conclusions into JSON values by their question: `answer` in every command.

    Args:
        conclusions: one per question.
        better: the first run, or arm, compared with each of the others; None if nothing is
            compared.
    """
    answers: dict[str, Json] = {
        conclusion.question: conclusion_json(conclusion) for conclusion in conclusions
    }
    if better is None:
        return answers

    return answers | {"better": [conclusion_json(conclusion) for conclusion in better]}


def conclusion_json(conclusion: Conclusion) -> dict[str, Json]:
    """Turn a conclusion on one run into JSON values: its question, status, numbers and sentence.

    Returns:
        Shares and differences are fractions. `items` is the number of items behind the status, and
        `ids` has the first of them. A conclusion on data has its own values.
    """
    if isinstance(conclusion, DataConclusion):
        return _data_json(conclusion)
    behind: dict[str, Json] = {
        "items": len(conclusion.items),
        "ids": [*conclusion.items[:_MOST_IDS]],
        "text": str(conclusion.words),
    }
    return {"question": conclusion.question, **members(conclusion), **behind}


def spending_json(spending: Spending) -> Json:
    """Turn price and latency of two runs into JSON values, with what is shown."""
    changes: list[Json] = [{"finding": one.finding, **members(one)} for one in spending.changes]
    return {"finding": spending.finding, **members(spending), "changes": changes}


def _data_json(conclusion: DataConclusion) -> dict[str, Json]:
    """Turn the conclusion on the data of runs into JSON values; accuracies are fractions."""
    leak = conclusion.leak
    of_leak = ("items", "families", "files", "left_out", "accuracy", "accuracy_without", "judged")
    return {
        **attributes(conclusion, "question", "status", "errors", "warnings"),
        "leak": None if leak is None else attributes(leak, *of_leak),
        **attributes(conclusion, "changed", "unchecked"),
    }


def warnings_json(warnings: Iterable[CalibrationWarning | Note]) -> list[Json]:
    """Turn warnings into JSON values: the kind of each, its values, and its sentence (`text`).

    Example:
        >>> from pact_eval.evaluation.joins import SkippedRun
        >>> warnings_json([SkippedRun("runs/cal", "calibration", "evaluation")])[0]["role"]
        'calibration'
    """
    return [_warning(warning) for warning in warnings]


def _warning(warning: CalibrationWarning | Note) -> Json:
    if isinstance(warning, Note):
        return note_json(warning)
    return {"run": warning.run, **note_json(warning.note), "text": str(warning)}


def file_json(file: DataFile, facts: FileFacts) -> dict[str, Json]:
    """Turn a file of a dataset into JSON values."""
    return {
        **attributes(file, "name", "role"),
        "sha256": facts.sha256,
        "rows": facts.rows,
        "record_fingerprint": facts.fingerprint,
        **hub_json(file.source),
    }


def checks_json(checks: Sequence[CheckResult], fail_on: Severity) -> dict[str, Json]:
    """Turn checks into JSON values, with counts by severity and whether all passed."""
    return {
        "checks": [_check(check) for check in checks],
        "counts": {severity: count(checks, severity) for severity in SEVERITIES},
        "passed": not failed(checks, fail_on),
    }


def _check(check: CheckResult) -> Json:
    """Turn one check into JSON values: its scope, counts by code, findings and numbers."""
    return {
        **attributes(check, "check", "skipped", "scope"),
        "codes": {
            code: {"severity": CODES[code].severity, "count": n} for code, n in check.counts.items()
        },
        "findings": [_finding(finding) for finding in check.findings],
        "measured": to_json(check.measured),
    }


def _finding(finding: Finding) -> Json:
    return {
        **attributes(finding, "code", "severity"),
        **attributes(finding.place, "file", "line"),
        "id": finding.place.record_id,
        "expected": finding.expected,
        "found": finding.actual,
        "comparison": to_json(finding.comparison),
    }
