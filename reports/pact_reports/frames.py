"""Results as polars data frames: one row per number, finding, gate or item, whatever shows them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
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

Row: TypeAlias = tuple[Any, ...]

_INTERVAL: Final = {
    **dict.fromkeys(("low", "high"), pl.Float64),
    **dict.fromkeys(("n", "clusters"), pl.Int64),
    **dict.fromkeys(("method", "reason"), pl.String),
}
_REPORT: Final = {
    **dict.fromkeys(("group", "metric", "decoding"), pl.String),
    "value": pl.Float64,
    **_INTERVAL,
}
_COMPARISON: Final = {
    **dict.fromkeys(("group", "metric"), pl.String),
    **dict.fromkeys(("a", "b", "difference"), pl.Float64),
    **_INTERVAL,
    **dict.fromkeys(("p_value", "adjusted_p_value"), pl.Float64),
    "marked": pl.Boolean,
}
_GATES: Final = {
    **dict.fromkeys(("group", "signal", "decoding"), pl.String),
    "threshold": pl.Float64,
    "items": pl.Int64,
    "unanswered": pl.Int64,
    **dict.fromkeys(("share", "share_low", "share_high"), pl.Float64),
    **dict.fromkeys(("error", "error_low", "error_high"), pl.Float64),
    "families_needed": pl.Int64,
}
_FINDINGS: Final = dict.fromkeys(
    ("check", "code", "severity", "file", "line", "id", "expected", "found"), pl.String
) | {"line": pl.Int64}


def _frame(rows: Iterable[Row], columns: Mapping[str, Any]) -> pl.DataFrame:
    """Return a frame whose columns have their types even without rows; NaN becomes null."""
    frame = pl.DataFrame([*rows], schema=dict(columns), orient="row")
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None))


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
    return (group, metric, decoding, estimate.value, *_interval(estimate))


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
            values = (metric.a.value, metric.b.value, metric.difference.value)
            p_values = (metric.evidence.p_value, metric.evidence.adjusted_p_value)
            interval = _interval(metric.difference)
            yield (group.name, name, *values, *interval, *p_values, metric.marked)


def _gates(thresholds: Thresholds) -> Iterator[Row]:
    rule = thresholds.rule
    decoding = f"{rule.decoding}{'' if rule.calibration == 'raw' else '_calibrated'}"
    for gate in thresholds.gates:
        rates = (
            end
            for rate in (gate.coverage, gate.realised_error)
            for end in (rate.value, rate.low, rate.high)
        )
        counts = (gate.chosen.threshold, gate.items, gate.unanswered)
        yield (gate.group, rule.signal, decoding, *counts, *rates, gate.needed)


def _findings(audit: DataAudit | AdapterAudit) -> Iterator[Row]:
    for check in audit.checks:
        for finding in check.findings:
            place = (finding.place.file, finding.place.line, finding.place.record_id)
            code = (check.check, finding.code, finding.severity)
            yield (*code, *place, finding.expected, finding.actual)


def _interval(estimate: Estimate) -> Row:
    words = (None if text is None else str(text) for text in (estimate.method, estimate.reason))
    return (estimate.low, estimate.high, estimate.n, estimate.clusters, *words)
