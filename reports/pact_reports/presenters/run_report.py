"""The report on a run, and those on several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING

from pact_eval._json import Json
from pact_eval.data.records import position_name
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.conclusions.data import DataLeak
from pact_eval.evaluation.experiment import RunReport
from pact_eval.evaluation.joins import SkippedRun
from pact_eval.evaluation.order_effect import OrderEffect
from pact_reports.presenters.presenter import Presenter
from pact_reports.table import Line, Part

if TYPE_CHECKING:
    from pact_eval.drift.tempering import ServedTempering
    from pact_eval.evaluation.order_audit import OrderAudit


def present(
    report: RunReport,
    names: ArmNames = KEYS,
    *,
    full: bool = True,
    tempering: ServedTempering | None = None,
) -> Presenter:
    """Present the report on a run. Its conclusions are among its tables.

    Twelve lines, all tables, and JSON each load what they alone need.

    Args:
        report: the report.
        names: display names of arms.
        full: show every table, and the audit of the order slot by slot; otherwise at most twelve
            lines.
        tempering: the temperatures of a served run, compared with those of a local one.
    """

    def tables() -> Iterable[Part]:
        lines = [] if tempering is None else [*_tempering_lines(tempering)]
        if full:
            from pact_reports.tables.report import run_parts

            return (*run_parts(report, names), *lines)
        if report.run.ablated:
            from pact_reports.tables.brief_ablated import brief_ablated

            return brief_ablated(report, names, lines)
        from pact_reports.tables.brief_report import brief_report

        return brief_report(report, names, lines)

    def headline() -> Iterable[str]:
        from pact_reports.sentences.brief import answer_line

        return [answer_line(report.evaluation, leak())]

    def leak() -> DataLeak | None:
        return report.experiment.data.leak

    def as_json() -> dict[str, Json]:
        from pact_reports.presenters.drift import tempering_json

        values = _json(report, names, audit=full)
        return values if tempering is None else values | {"tempering": tempering_json(tempering)}

    return Presenter(
        tables=tables,
        to_json=as_json,
        warnings=[*map(str, report.warnings)],
        leak=leak,
        headline=headline,
        headed=not full,
    )


def present_reports(
    reports: Sequence[tuple[RunReport, Presenter]],
    skipped: Sequence[SkippedRun],
    left_out: Sequence[Json],
) -> Presenter:
    """Present the reports on all runs of a command, as one object.

    Args:
        reports: each with its presenter.
        skipped: runs that were skipped.
        left_out: warnings on files that are not runs, as JSON values.
    """
    return Presenter(
        tables=lambda: (part for _, presenter in reports for part in presenter.tables()),
        to_json=partial(_reports_json, reports, skipped, left_out),
        warnings=[sentence for _, presenter in reports for sentence in presenter.warnings],
        blocks=lambda: (block for _, presenter in reports for block in presenter.printed()),
    )


def _tempering_lines(tempering: ServedTempering) -> Iterable[Line]:
    from pact_reports.sentences.drift import tempering_sentences

    return map(Line, tempering_sentences(tempering))


def _json(report: RunReport, names: ArmNames, *, audit: bool) -> dict[str, Json]:
    from pact_reports.presenters.evaluation import evaluation_json
    from pact_reports.writers.json import answer_json, to_json

    run = report.run
    return {
        "run": dict(run.provenance.recorded),
        **evaluation_json(report.evaluation),
        "arm_name": names.arm(run.arm),
        "rates": to_json(report.rates),
        "answer": answer_json(report.conclusions),
        "order": _order_json(report.order, report.order_audit if audit else None),
        "digest": report.digest.json,
    }


def _order_json(effect: OrderEffect, audit: OrderAudit | None) -> dict[str, Json]:
    """Turn what the order of the answers does into JSON values, as fractions, with its sentences.

    Args:
        effect: of a run.
        audit: its gains, with NLL in nats, and its slots; None leaves them out.
    """
    from pact_reports.tables.order_audit import order_sentence, slots_sentence
    from pact_reports.writers.json import to_json

    sentences = [order_sentence(effect)]
    numbers: dict[str, Json] = {"effect": to_json(effect)}
    if audit is not None:
        slots = audit.slots
        sentences += [slots_sentence(slots)] if audit.items else []
        numbers |= {field.name: to_json(getattr(audit, field.name)) for field in fields(audit)}
        numbers["preferred"] = [position_name(slot) for slot in slots.preferred]
        numbers["avoided"] = [position_name(slot) for slot in slots.avoided]
    return numbers | {"text": [sentence for sentence in sentences if sentence is not None]}


def _reports_json(
    reports: Sequence[tuple[RunReport, Presenter]],
    skipped: Sequence[SkippedRun],
    left_out: Sequence[Json],
) -> dict[str, Json]:
    """Return the JSON of the one report, or of all by folder."""
    from pact_reports.writers.json import warnings_json

    if len(reports) == 1 and not skipped:
        (report, presenter) = reports[0]
        warnings = [*left_out, *warnings_json(report.warnings)]
        return presenter.json() | {"warnings": warnings}
    return {
        "runs": [{"folder": report.run.place, **presenter.json()} for report, presenter in reports],
        "warnings": [*left_out, *warnings_json(skipped)],
    }
