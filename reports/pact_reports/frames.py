"""Results as polars data frames: one row per number, finding, gate or item, whatever shows them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import polars as pl

from pact_eval._choices import Decoding
from pact_eval.audit.adapter.audit import AdapterAudit
from pact_eval.audit.dataset import DataAudit
from pact_eval.drift.run_comparison import RunComparison
from pact_eval.evaluation.experiment import RunReport
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.report import Evaluation
from pact_eval.results import Framed
from pact_eval.runs.folder import Run
from pact_eval.runs.provenance import UNNAMED, UNSURE
from pact_eval.stats.estimate import Estimate
from pact_eval.thresholds.choice import Thresholds

Row: TypeAlias = Mapping[str, Any]

_INTERVAL: Final = ("low", "high", "n", "clusters", "method", "reason")
_REPORT: Final = ("group", "metric", "decoding", "value", *_INTERVAL)
_COMPARISON: Final = (
    *("group", "metric", "a", "b", "difference", *_INTERVAL),
    *("p_value", "adjusted_p_value", "marked"),
)
_GATES: Final = (
    *("group", "signal", "decoding", "threshold", "items", "unanswered"),
    *("share", "share_low", "share_high", "error", "error_low", "error_high", "families_needed"),
)
_FINDINGS: Final = ("check", "code", "severity", "file", "line", "id", "expected", "found")
_FLOATS: Final = (
    *("value", "low", "high", "a", "b", "difference", "p_value", "adjusted_p_value", "threshold"),
    *("share", "share_low", "share_high", "error", "error_low", "error_high"),
)
_INTEGERS: Final = ("n", "clusters", "items", "unanswered", "families_needed", "line")


def _frame(rows: Iterable[Row], columns: Sequence[str]) -> pl.DataFrame:
    """Return a frame whose columns have their types even without rows."""
    types: dict[str, Any] = dict.fromkeys(columns, pl.String)
    types |= {name: pl.Float64 for name in columns if name in _FLOATS}
    types |= {name: pl.Int64 for name in columns if name in _INTEGERS}
    types |= {name: pl.Boolean for name in columns if name == "marked"}
    return pl.DataFrame([*rows], schema=types)


def frame_of(result: Framed) -> pl.DataFrame:
    """Return a result of `pact_eval` as a data frame.

    Rates are fractions, and an undefined number is null. Columns by type of result:

    - report (`Evaluation`): group, metric, decoding, value, low, high, n, clusters, method, reason.
      Metrics of views are of all K views, whatever the decoding. The groups of
      precision, recall and f1 are answers; that of macro_f1 is a question, or "all".
    - `RunComparison`: group, metric, a, b, difference (a minus b), low, high, n, clusters, method,
      reason, p_value, adjusted_p_value, marked.
    - `Thresholds`: one row per gate. Its error is that of source families left out when it was
      chosen; the threshold is null if no gate is guaranteed.
    - audits: one row per finding that was kept; the audit's `checks` have the counts of all.

    Raises:
        TypeError: the result has no frame.
    """
    match result:
        case RunReport():
            return frame_of(replace(result.evaluation, questions=result.questions))
        case Evaluation():
            return _frame([*_metrics(result), *_of_answers(result)], _REPORT)
        case RunComparison():
            return _frame(_differences(result), _COMPARISON)
        case Thresholds():
            return _frame(_gates(result), _GATES)
        case DataAudit() | AdapterAudit():
            return _frame(_findings(result), _FINDINGS)
        case _:
            raise TypeError(f"{type(result).__name__} has no frame")


def frame_of_run(run: Run, decoding: Decoding) -> pl.DataFrame:
    """Return one row per item of a run under a decoding, without a temperature.

    Columns: id, family, source_family, domain, kind, variant, n_choices, reference, predicted,
    correct, confidence, nll (nats) and probabilities (a list in canonical order). What is unknown
    is null: the reference, correct and nll of ablated contexts; probabilities of answers only; of
    (confidence, right) pairs, all that names an answer.

    Raises:
        InputError: the run has answers and no probabilities, and the decoding is ensemble.
    """
    views = run.predictions
    if views.repeats and decoding == "single":
        views = views.repeats_as_items()
    items = ScoredItems.of(views, decoding)
    has_references, named = views.references is not None, views.known not in UNNAMED
    probable = views.known == "probabilities"
    columns: dict[str, Any] = {
        "id": views.ids,
        "family": views.family,
        "source_family": views.source_family,
        "domain": views.domain,
        "kind": views.kind,
        "variant": views.variant,
        "n_choices": views.n_choices if named else None,
        "reference": views.references if named else None,
        "predicted": items.predicted if named else None,
        "correct": items.correct if has_references else None,
        "confidence": None if views.known in UNSURE else items.confidence,
        "nll": items.values["nll_nats"] if has_references and probable else None,
        "probabilities": list(_probabilities(items)) if probable else None,
    }
    return pl.DataFrame(columns)


def _probabilities(items: ScoredItems) -> Iterator[list[float]]:
    sizes = items.predictions.n_choices.tolist()
    for logs, size in zip(items.log_probs.tolist(), sizes, strict=True):
        yield [math.exp(value) for value in logs[:size]]


def _metric(evaluation: Evaluation, group: str, metric: str, estimate: Estimate) -> Row:
    calibrated = "" if evaluation.calibration == "raw" else "_calibrated"
    decoding = f"{evaluation.decoding_name}{calibrated}"
    labels = {"group": group, "metric": metric, "decoding": decoding}
    return {**labels, "value": _number(estimate.value), **_interval(estimate)}


def _of_answers(evaluation: Evaluation) -> Iterator[Row]:
    """Yield precision, recall and F1 of every answer, and macro F1 of every question."""
    for question in evaluation.questions:
        where = f"{question.question}: " if question.question else ""
        for answer in question.answers:
            for name in ("precision", "recall", "f1"):
                yield _metric(evaluation, f"{where}{answer.name}", name, getattr(answer, name))
        yield _metric(evaluation, question.question or "all", "macro_f1", question.macro_f1)


def _metrics(evaluation: Evaluation) -> Iterator[Row]:
    for group in evaluation.groups:
        for spec in evaluation.metrics:
            yield _metric(evaluation, group.name, spec.name, group.estimates[spec.name])


def _differences(comparison: RunComparison) -> Iterator[Row]:
    for group in comparison.groups:
        for name, metric in group.metrics.items():
            evidence = metric.evidence
            yield {
                "group": group.name,
                "metric": name,
                "a": _number(metric.a.value),
                "b": _number(metric.b.value),
                "difference": _number(metric.difference.value),
                **_interval(metric.difference),
                "p_value": _number(evidence.p_value),
                "adjusted_p_value": _number(evidence.adjusted_p_value),
                "marked": metric.marked,
            }


def _gates(thresholds: Thresholds) -> Iterator[Row]:
    rule = thresholds.rule
    calibrated = "" if rule.calibration == "raw" else "_calibrated"
    for gate in thresholds.gates:
        share, error = gate.coverage, gate.realised_error
        yield {
            "group": gate.group,
            "signal": rule.signal,
            "decoding": f"{rule.decoding}{calibrated}",
            "threshold": gate.chosen.threshold,
            "items": gate.items,
            "unanswered": gate.unanswered,
            "share": _number(share.value),
            "share_low": _number(share.low),
            "share_high": _number(share.high),
            "error": _number(error.value),
            "error_low": _number(error.low),
            "error_high": _number(error.high),
            "families_needed": gate.needed,
        }


def _findings(audit: DataAudit | AdapterAudit) -> Iterator[Row]:
    for check in audit.checks:
        for finding in check.findings:
            place = finding.place
            yield {
                "check": check.check,
                "code": finding.code,
                "severity": finding.severity,
                "file": place.file,
                "line": place.line,
                "id": place.record_id,
                "expected": finding.expected,
                "found": finding.actual,
            }


def _interval(estimate: Estimate) -> Row:
    return {
        "low": _number(estimate.low),
        "high": _number(estimate.high),
        "n": estimate.n,
        "clusters": estimate.clusters,
        "method": None if estimate.method is None else str(estimate.method),
        "reason": None if estimate.reason is None else str(estimate.reason),
    }


def _number(value: float | None) -> float | None:
    """Return a number, or None for NaN."""
    return None if value is None or math.isnan(value) else value
