"""Results as JSON values: NaN and infinities become null, arrays become lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from pact_eval._choices import ClusterUnit
from pact_eval._json import Json
from pact_eval.evaluation.alignment import ItemMismatch
from pact_eval.evaluation.arms.comparison import Arm, ArmsComparison
from pact_eval.evaluation.conclusions.better import BetterConclusion
from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.decoding import MetricDecoding
from pact_eval.evaluation.ece_results import CalibrationError
from pact_eval.evaluation.experiment import RunReport
from pact_eval.evaluation.joins import Notice
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.evaluation.notes import Note
from pact_eval.evaluation.order_audit import OrderAudit, OrderEffect
from pact_eval.evaluation.registry import find_metric
from pact_eval.evaluation.report import Evaluation, Group
from pact_eval.evaluation.run_list import ListedRun
from pact_eval.prompts.contract import position_name
from pact_eval.runs.remote.urls import shown
from pact_eval.stats.estimate import Method
from pact_reports.arm_names import KEYS, ArmNames
from pact_reports.numbers import CLUSTERS, GENERALISATION, reason_text
from pact_reports.sentences.notes import note_sentence, warning_sentence

_MOST_IDS: Final = 20

if TYPE_CHECKING:  # a report does not wait for what audits, fits and scorecards need
    from pact_eval._choices import Severity
    from pact_eval.audit.adapter.audit import AdapterAudit
    from pact_eval.audit.adapter.compare import AdapterComparison
    from pact_eval.audit.context import DataAuditSettings
    from pact_eval.audit.dataset import DataAudit
    from pact_eval.audit.findings import CheckResult, Finding
    from pact_eval.calibration.notes import CalibrationNote, CalibrationWarning
    from pact_eval.calibration.runs import FittedRun
    from pact_eval.data.files import DataFile, FileFacts, Manifest
    from pact_eval.data.manifest import WrittenManifest
    from pact_eval.drift.drift import Drift
    from pact_eval.preregistration.run_scorecard import JudgedHypotheses
    from pact_eval.preregistration.scorecard import JudgedCheck
    from pact_eval.prompts.requests import Decision
    from pact_eval.stats.estimate import Estimate
    from pact_eval.stats.homogeneity import SlotHomogeneity


_COUNTS: Final[dict[ClusterUnit, str]] = {
    "family": "families",
    "source_family": "source_families",
}


def to_json(value: Any) -> Json:
    """Turn frozen objects, mappings, sequences and arrays into JSON; NaN, infinities become null.

    Example:
        >>> to_json({"gain": float("nan"), "words": ("a", 1)})
        {'gain': None, 'words': ['a', 1]}
        >>> to_json(np.array([0.5, np.nan]))
        [0.5, None]
    """
    if isinstance(value, Method | MetricDecoding):
        return str(value)
    if isinstance(value, Note):
        return _typed(value, note_sentence(value))
    if isinstance(value, ItemMismatch | Notice):
        return _typed(value, warning_sentence(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return to_json(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return shown(value) if isinstance(value, Path) else str(value)


def drift_json(drift: Drift) -> dict[str, Json]:
    """Turn the drift between two runs into JSON values.

    Args:
        drift: of both runs; the parts without a counterpart are null or empty.
    """
    first, second = (run.place for run in drift.runs)
    parts = ("pairing", "differences", "accuracy", "metrics", "answers", "distance")
    return {
        "a": first,
        "b": second,
        "finding": drift.finding,
        "decoding": {**drift.settings.label},
        "views": drift.views,
        "intervals": GENERALISATION[drift.settings.unit],
        **{name: to_json(getattr(drift, name)) for name in parts},
        "temperatures": to_json(drift.temperings),
        "gates": to_json(drift.gates),
        "mix": to_json(drift.mix),
        "warnings": warnings_json(drift.warnings),
    }


def run_list_json(runs: Sequence[ListedRun], names: ArmNames = KEYS) -> dict[str, Json]:
    """Turn a list of runs into JSON values: accuracies as fractions, times in ISO 8601.

    Args:
        runs: the runs.
        names: display names of arms: `arm_name`, next to the key `arm`.
    """
    return {
        "runs": [
            {
                **{each.name: to_json(getattr(run, each.name)) for each in fields(run)},
                "arm_name": None if run.arm is None else names.arm(run.arm),
                "accuracy": None if run.accuracy is None else estimate_json(run.accuracy),
                "created": None if run.created is None else run.created.isoformat(),
            }
            for run in runs
        ]
    }


def arms_json(comparison: ArmsComparison, names: ArmNames = KEYS) -> Json:
    """Turn a comparison of arms into JSON values.

    Args:
        comparison: the arms.
        names: display names of arms: `arm_name`, next to the key `name`.
    """
    return cast("dict[str, Json]", to_json(comparison)) | {
        "arms": [_arm_json(arm, names) for arm in comparison.arms],
        "standings": to_json(comparison.standings),
    }


def _arm_json(arm: Arm, names: ArmNames) -> Json:
    return {
        "name": arm.name,
        "arm_name": names.arm(arm.name),
        "seeds": [*arm.seeds],
        "summaries": {
            group: {
                metric: {
                    "mean": to_json(summary.mean),
                    "deviation": to_json(summary.deviation),
                    "n": len(summary.runs),
                    "reason": summary.reason,
                }
                for metric, summary in summaries.items()
            }
            for group, summaries in arm.summaries.items()
        },
        "chance": {
            group: {
                metric: to_json(summary.chance)
                for metric, summary in summaries.items()
                if find_metric(metric).noise_floor
            }
            for group, summaries in arm.summaries.items()
        },
    }


def estimate_json(estimate: Estimate, unit: ClusterUnit = "family") -> Json:
    """Turn an estimate into JSON values: rates as fractions, null if there is no finite number.

    Example:
        >>> from pact_eval.stats.estimate import Estimate
        >>> value = estimate_json(Estimate(0.5, 0.25, float("nan"), 2, 1))
        >>> value["value"], value["high"], value["families"]
        (0.5, None, 1)
    """
    found: dict[str, Json] = {
        "value": to_json(estimate.value),
        "infinite": math.isinf(estimate.value),
        "low": to_json(estimate.low),
        "high": to_json(estimate.high),
        "n": estimate.n,
        _COUNTS[unit]: estimate.clusters,
        "method": "none" if estimate.method is None else estimate.method.over(CLUSTERS[unit]),
        "reason": reason_text(estimate.reason, unit),
    }
    if isinstance(estimate, CalibrationError):
        found |= {
            "noise_floor": to_json(estimate.floor),
            "noise_floor_95": to_json(estimate.floor_high),
            "p_calibrated": to_json(estimate.p_value),
            "debiased": to_json(estimate.debiased),
        }
    return found


def evaluation_json(evaluation: Evaluation, provenance: Mapping[str, Json]) -> dict[str, Json]:
    """Turn an evaluation into JSON values.

    Args:
        evaluation: the numbers.
        provenance: the run's `run.json`, passed on in full.

    Returns:
        Rates and probabilities are fractions, not percent. What JSON cannot say (NaN, infinity) is
        null next to a `reason`; what ablated contexts do not have is null.
    """
    ties = evaluation.near_ties
    smallest = evaluation.smallest_probability
    return {
        "run": dict(provenance),
        "contexts": evaluation.contexts,
        "decoding": {"views": evaluation.decoding_name, "calibration": evaluation.calibration},
        "k": evaluation.k,
        "repeats": evaluation.repeats,
        "by": evaluation.by,
        "unit": evaluation.unit,
        "intervals": GENERALISATION[evaluation.unit],
        "metrics": _metrics(evaluation.metrics),
        "groups": [_group(group, smallest, evaluation.unit) for group in evaluation.groups],
        "letters": _letters(evaluation.letters, evaluation.unit),
        "mean_answer_mass": to_json(evaluation.mean_answer_mass),
        "smallest_probability": to_json(smallest),
        "near_ties": None if ties is None else asdict(ties),
        "notes": [to_json(note) for note in evaluation.notes],
        "warnings": warnings_json(evaluation.warnings),
    }


def report_json(
    report: RunReport, names: ArmNames = KEYS, *, audit: bool = False
) -> dict[str, Json]:
    """Turn what `pact-eval report` shows of a run into JSON values.

    Args:
        report: of the run.
        names: display names of arms.
        audit: also the audit of the order, slot by slot.
    """
    run = report.run
    return evaluation_json(report.evaluation, run.provenance) | {
        "arm_name": names.arm(run.arm),
        "rates": to_json(report.rates),
        "answer": answer_json(report.conclusions),
        "order": order_json(report.order, report.order_audit if audit else None),
        "digest": report.digest.json,
    }


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
        conclusion.question: data_json(conclusion)
        if isinstance(conclusion, DataConclusion)
        else conclusion_json(conclusion)
        for conclusion in conclusions
    }
    return answers if better is None else answers | {"better": [*map(conclusion_json, better)]}


def conclusion_json(conclusion: Conclusion) -> dict[str, Json]:
    """Turn a conclusion into JSON values: its question, status, numbers and sentence.

    Returns:
        Shares and differences are fractions. `items` is the number of items behind the status, and
        `ids` has the first of them.
    """
    from pact_reports.sentences.conclusions import conclusion_words

    numbers = {each.name: to_json(getattr(conclusion, each.name)) for each in fields(conclusion)}
    behind: dict[str, Json] = {
        "items": len(conclusion.items),
        "ids": [*conclusion.items[:_MOST_IDS]],
        "text": str(conclusion_words(conclusion)),
    }
    return {"question": conclusion.question, **numbers, **behind}


def data_json(conclusion: DataConclusion) -> dict[str, Json]:
    """Turn the conclusion on the data of runs into JSON values; accuracies are fractions."""
    leak = conclusion.leak
    return {
        "question": conclusion.question,
        "status": conclusion.status,
        "errors": conclusion.errors,
        "warnings": conclusion.warnings,
        "leak": None
        if leak is None
        else {
            "items": list(leak.items),
            "families": list(leak.families),
            "files": list(leak.files),
            "left_out": leak.left_out,
            "accuracy": to_json(leak.accuracy),
            "accuracy_without": to_json(leak.accuracy_without),
            "judged": leak.judged,
        },
        "changed": [*conclusion.changed],
        "unchecked": [to_json(each) for each in conclusion.unchecked],
    }


def _letters(letters: SlotHomogeneity | None, unit: ClusterUnit) -> Json:
    if letters is None:
        return None
    return {
        "codes": [position_name(slot) for slot in range(len(letters.observed))],
        "picked": letters.observed.tolist(),
        "right_answer": letters.expected.tolist(),
        "chi2": to_json(letters.chi2),
        "dof": letters.dof,
        "p_value": to_json(letters.p_value),
        "item_views": letters.units,
        _COUNTS[unit]: letters.clusters,
        f"discordant_{_COUNTS[unit]}": letters.discordant_clusters,
        "letter_p_values": to_json(letters.letter_p_values),
        "favoured": [position_name(slot) for slot in letters.favoured],
        "avoided": [position_name(slot) for slot in letters.avoided],
        "detectable_shift": to_json(letters.detectable),
        "reason": reason_text(letters.reason, unit),
    }


def order_json(effect: OrderEffect, audit: OrderAudit | None) -> dict[str, Json]:
    """Turn what the order of the answers does into JSON values, as fractions, with its sentences.

    Args:
        effect: of a run.
        audit: its gains, with NLL in nats, and its slots; None leaves them out.
    """
    from pact_reports.tables.order_audit import order_sentence, slots_sentence

    said = [order_sentence(effect)]
    found: dict[str, Json] = {"effect": to_json(effect)}
    if audit is not None:
        slots = audit.slots
        said += [slots_sentence(slots)] if audit.items else []
        found |= {each.name: to_json(getattr(audit, each.name)) for each in fields(audit)}
        found["preferred"] = [position_name(slot) for slot in slots.preferred]
        found["avoided"] = [position_name(slot) for slot in slots.avoided]
    return found | {"text": [each for each in said if each is not None]}


def _typed(note: Note | CalibrationNote | ItemMismatch | Notice, text: str) -> dict[str, Json]:
    """Turn a note into JSON values: its kind, its numbers and its sentence."""
    numbers = {each.name: to_json(getattr(note, each.name)) for each in fields(note)}
    return {"kind": type(note).__name__, **numbers, "text": text}


def warnings_json(warnings: Iterable[CalibrationWarning | ItemMismatch | Notice]) -> list[Json]:
    """Turn warnings into JSON values: the kind of each, its values, and its sentence (`text`).

    Example:
        >>> from pact_eval.evaluation.joins import SkippedRun
        >>> warnings_json([SkippedRun("runs/cal", "calibration", "evaluation")])[0]["role"]
        'calibration'
    """
    return [_warning(each) for each in warnings]


def _warning(warning: CalibrationWarning | ItemMismatch | Notice) -> Json:
    if isinstance(warning, ItemMismatch | Notice):
        return to_json(warning)
    return {"run": warning.run, **_typed(warning.note, warning_sentence(warning))}


def _metrics(specs: Sequence[MetricSpec]) -> Json:
    return [
        {"name": spec.name, "title": spec.title, "unit": spec.unit, "better": spec.better}
        for spec in specs
    ]


def _group(group: Group, smallest_probability: float, unit: ClusterUnit) -> Json:
    return {
        "name": group.name,
        "items": group.items,
        "families": group.families,
        _COUNTS[unit]: group.clusters,
        "metrics": {
            name: estimate_json(estimate, unit) for name, estimate in group.estimates.items()
        },
        "pairs": None if group.pairs is None else asdict(group.pairs),
        "nll": None
        if group.nll is None
        else {
            "infinite_items": group.nll.infinite_items,
            "finite_mean": to_json(group.nll.finite_mean),
            "lower_bound": to_json(group.nll.lower_bound(smallest_probability)),
        },
        "answer_scores": to_json(group.answer_scores),
        "answer_scores_by_chance": to_json(group.chance),
    }


def calibration_json(fitted: FittedRun) -> dict[str, Json]:
    """Turn a fit on a run into JSON values: the fit, its reasons, and its effect on runs.

    Args:
        fitted: the fit.

    Returns:
        Rates as fractions, NLL in nats. The scores of every run come with its `warnings`, one for
        every score that got worse on all items or on a kind.
    """
    from pact_reports.sentences.calibration import calibration_sentence

    return {
        "folder": shown(fitted.folder),
        "calibrator": to_json(fitted.calibrator),
        "choice": to_json(fitted.choice),
        "fit": to_json(fitted.fit),
        "effects": {
            shown(name): {
                "decoding": effect.decoding,
                "groups": to_json(effect.groups),
                "warnings": [_typed(note, calibration_sentence(note)) for note in effect.warnings],
                "notes": [_typed(note, calibration_sentence(note)) for note in effect.notes],
            }
            for name, effect in fitted.effects.items()
        },
        "warnings": warnings_json(fitted.warnings),
    }


def decisions_json(decisions: Sequence[Decision]) -> dict[str, Json]:
    """Turn decisions into `{"answers": {field: ...}}`."""
    return {
        "answers": {
            decision.field.name: {
                "type": decision.field.kind,
                "answer": decision.answer,
                "probabilities": {
                    answer.key: probability
                    for answer, probability in zip(
                        decision.field.answers, decision.probabilities, strict=True
                    )
                },
                "expected_level": decision.expected_level,
                "answer_mass": decision.answer_mass,
                "views_agree": decision.views_agree,
            }
            for decision in decisions
        }
    }


def scorecard_json(judged: JudgedHypotheses) -> dict[str, Json]:
    """Turn a scorecard into JSON values: verdicts, evidence, registration."""
    registration = judged.registration
    registered_at = registration.registered_at
    return {
        "hypotheses": [
            {
                "id": result.hypothesis.id,
                "title": result.hypothesis.title,
                "claim": result.hypothesis.claim,
                "verdict": result.verdict,
                "shown": result.shown,
                "conclusion": result.conclusion,
                "refuted_by": [str(each) for each in result.refuted_by],
                "because": result.because,
                "checks": [_judged_check(check) for check in result.checks],
                "beside": [_judged_check(check) for check in result.beside],
            }
            for result in judged.scorecard.results
        ],
        "registration": {
            "status": registration.status,
            "reasons": list(registration.reasons),
            "registered_at": None if registered_at is None else registered_at.isoformat(),
        },
        "warnings": warnings_json(judged.warnings),
    }


def _judged_check(result: JudgedCheck) -> Json:
    from pact_eval.preregistration.criteria import describe_check

    return {
        "says": result.check.says,
        "decides": describe_check(result.check),
        "summary": result.summary,
        "shown": result.shown,
        "needs": result.check.needs,
        "comparisons": [to_json(each) for each in result.comparisons],
    }


def data_audit_json(
    audit: DataAudit,
    *,
    settings: DataAuditSettings,
    manifest: Manifest | None,
    fail_on: Severity,
) -> dict[str, Json]:
    """Turn the audit of a dataset into JSON values.

    Args:
        audit: what was found.
        settings: what the checks allowed.
        manifest: what the files were compared with.
        fail_on: the severity that fails.

    Returns:
        `settings`, `manifest`, `files`, `checks`, counts by severity, and the verdict. What is
        undefined is null.
    """
    return {
        "settings": {
            "only": None if settings.only is None else list(settings.only),
            "max_edit_words": settings.max_edit_words,
            "near_duplicate": settings.near_duplicate,
            "keep": settings.keep,
            "k": settings.k,
            "seed": settings.seed,
            "tokenizer": None if settings.tokenizer is None else settings.tokenizer.name,
        },
        "manifest": None if manifest is None else manifest.name,
        "files": [
            _file(file, facts) | {"families": families}
            for file, facts, families in zip(audit.files, audit.facts, audit.families, strict=True)
        ],
        **_checks(audit.checks, fail_on),
        "conclusion": data_json(DataConclusion.of_audit(audit)),
        "leaks": to_json(audit.leaks),
        "fail_on": fail_on,
        "tampered": audit.tampered,
    }


def adapters_json(
    audits: Sequence[AdapterAudit],
    comparison: AdapterComparison | None,
    *,
    fail_on: Severity,
) -> dict[str, Json]:
    """Turn the audit of one adapter or of two into JSON values."""
    from pact_reports.tables.adapter import adapter_tampered

    return {
        "adapters": [
            {
                "folder": str(audit.folder),
                "facts": to_json(audit.facts),
                "scale": audit.facts.scale,
                **_checks(audit.checks, fail_on),
                "tampered": adapter_tampered(audit),
                "leaks": to_json(audit.leaks),
            }
            for audit in audits
        ],
        "fail_on": fail_on,
        "comparison": to_json(comparison),
    }


def manifest_json(written: WrittenManifest) -> dict[str, Json]:
    """Turn a written manifest into JSON values: its path, and the files' facts."""
    return {
        "manifest": str(written.path),
        "changed": written.changed,
        "files": [
            _file(file, facts) for file, facts in zip(written.files, written.facts, strict=True)
        ],
    }


def _file(file: DataFile, facts: FileFacts) -> dict[str, Json]:
    return {
        "name": file.name,
        "role": file.role,
        "sha256": facts.sha256,
        "rows": facts.rows,
        "record_fingerprint": facts.fingerprint,
    }


def _checks(checks: Sequence[CheckResult], fail_on: Severity) -> dict[str, Json]:
    """Turn checks into JSON values, with counts by severity and whether all passed."""
    from pact_eval.audit.findings import SEVERITIES, count, failed

    return {
        "checks": [_check(check) for check in checks],
        "counts": {severity: count(checks, severity) for severity in SEVERITIES},
        "passed": not failed(checks, fail_on),
    }


def _check(check: CheckResult) -> Json:
    """Turn one check into JSON values: its scope, counts by code, findings and numbers."""
    from pact_eval.audit.registry import CODES

    return {
        "check": check.check,
        "skipped": check.skipped,
        "scope": check.scope,
        "codes": {
            code: {"severity": CODES[code].severity, "count": n} for code, n in check.counts.items()
        },
        "findings": [_finding(finding) for finding in check.findings],
        "measured": to_json(check.measured),
    }


def _finding(finding: Finding) -> Json:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "file": finding.place.file,
        "line": finding.place.line,
        "id": finding.place.record_id,
        "expected": finding.expected,
        "found": finding.found,
        "comparison": to_json(finding.comparison),
    }
