"""The report on a run, and those on several."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields, replace
from functools import partial

from pact_eval._choices import ClusterUnit
from pact_eval._json import Json
from pact_eval.data.records import LETTERS, position_name
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.evaluation.comparison import GroupComparison
from pact_eval.evaluation.conclusions.data import DataLeak
from pact_eval.evaluation.conclusions.order import OrderAudit, OrderEffect
from pact_eval.evaluation.experiment import RunEvaluation, RunReport
from pact_eval.evaluation.joins import SkippedRun
from pact_eval.evaluation.per_answer import QuestionAnswers
from pact_eval.evaluation.registry import ANSWER_MASS, CONFIDENT, MetricSpec, find_metric
from pact_eval.evaluation.report import SMALL_VIEW_TV, Evaluation, Group
from pact_eval.evaluation.wrong_items import WrongItems
from pact_eval.metrics.pairs import PairOutcomes
from pact_eval.numbers import (
    CLUSTER,
    CLUSTERS,
    GENERALISATION,
    UNDEFINED,
    count_and_share,
    estimate_text,
    generalisation_text,
    methods_text,
    p_value_number,
    p_value_text,
    reason_text,
    short_clusters,
    small_text,
    value_text,
)
from pact_eval.plain_text import one_line
from pact_eval.runs.provenance import Provenance
from pact_eval.stats.estimate import LEVEL
from pact_eval.stats.homogeneity import SlotHomogeneity
from pact_reports.cases import CiReport
from pact_reports.table import Cell, Column, Line, Part, Table, right_columns, table_row
from pact_reports.tables.answer_scores import groups_table
from pact_reports.tables.cells import estimate_cell
from pact_reports.tables.item_lists import item_parts
from pact_reports.tables.order_runs import noise_note, order_parts, slots_sentence
from pact_reports.tables.per_answer import answers_parts
from pact_reports.views.brief import brief_report, report_line
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import (
    COUNTS,
    answer_json,
    attributes,
    estimate_json,
    to_json,
    warnings_json,
)


def present_run_report(
    report: RunReport,
    names: ArmNames = KEYS,
    *,
    full: bool = True,
    items: int | None = None,
    read: str = "",
) -> Presenter:
    """Present the report on a run. Its conclusions are among its tables.

    The first screen, all tables, and JSON each load what they alone need.

    Args:
        report: the report.
        names: display names of arms.
        full: let JSON have the audit of the order slot by slot.
        items: number of wrong answers, and of answers that change with the order, to list below;
            None lists none.
        read: how the log of the run was read, if it was read now.
    """

    def tables() -> Iterable[Part]:
        lines = [Line(one_line(f"Read: {read}."))] if read else []
        return (*run_parts(report, names), *lines)

    def as_json() -> dict[str, Json]:
        values = _json(report, names, audit=full)
        if items is not None:
            values["items"] = to_json(report.item_lists(items))
        return values | {"read": one_line(read)} if read else values

    return Presenter(
        tables=tables,
        to_json=as_json,
        warnings=[*map(str, report.warnings)],
        leak=lambda: report.experiment.data.leak,
        headline=lambda: [report_line(report.evaluation, report.experiment.data.leak)],
        first=partial(brief_report, report, names, read),
        retold=True,
        listed=lambda: () if items is None else item_parts(report.item_lists(items)),
    )


def present_whole_report(report: RunReport) -> Presenter:
    """Present the report on a run, with the JSON of the command."""
    presenter = present_run_report(report)
    return replace(presenter, to_json=partial(_reports_json, [(report, presenter)], (), ()))


def present_run_evaluation(evaluation: RunEvaluation) -> Presenter:
    """Present an evaluation as the report that it is from."""
    return present_whole_report(evaluation.report)


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
        ci=lambda: CiReport(
            "pact-eval report",
            "; ".join(sentence for _, presenter in reports for sentence in presenter.headline()),
            tuple(
                replace(case, name=report.run.place)
                for report, presenter in reports
                for case in presenter.cases("").cases
            ),
            {},
        ),
        blocks=lambda full: (
            block for _, presenter in reports for block in presenter.printed(full=full)
        ),
    )


def _json(report: RunReport, names: ArmNames, *, audit: bool) -> dict[str, Json]:
    run = report.run
    return {
        "run": dict(run.provenance.recorded),
        **evaluation_json(report.evaluation),
        "arm_name": names.arm(run.arm),
        "rates": to_json(report.rates),
        "answer": answer_json(report.conclusions),
        **_wrong_json(report.wrong),
        **({} if report.spent is None else {"requests": to_json(report.spent)}),
        "order": _order_json(report.order, report.order_audit if audit else None),
        **(_questions_json(report.questions) if audit else {}),
        "digest": report.digest.json,
    }


def _questions_json(questions: Sequence[QuestionAnswers]) -> dict[str, Json]:
    """Return precision, recall and F1 of every answer as JSON values; nothing without questions."""
    if not questions:
        return {}
    rates = ("precision", "recall", "f1")
    return {
        "questions": [
            {
                "question": question.question,
                "kind": question.kind,
                "answers": [
                    {
                        **attributes(answer, "name", "right", "given"),
                        **{
                            name: estimate_json(getattr(answer, name), question.unit)
                            for name in rates
                        },
                    }
                    for answer in question.answers
                ],
                "confusion": to_json(question.confusion),
                "macro_f1": estimate_json(question.macro_f1, question.unit),
            }
            for question in questions
        ]
    }


def _wrong_json(wrong: WrongItems | None) -> dict[str, Json]:
    """Return the surest wrong answers of a run as JSON values; nothing for ablated contexts."""
    if wrong is None:
        return {}
    return {"wrong": {"text": wrong.words, **{name: to_json(v) for name, v in vars(wrong).items()}}}


def _order_json(effect: OrderEffect, audit: OrderAudit | None) -> dict[str, Json]:
    """Turn what the order of the answers does into JSON values, as fractions, with its sentences.

    Args:
        effect: of a run.
        audit: its gains, with NLL in nats, and its slots; None leaves them out.
    """
    sentences = [noise_note(effect)]
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
    if len(reports) == 1 and not skipped:
        (report, presenter) = reports[0]
        warnings = [*left_out, *warnings_json(report.warnings)]
        return presenter.json() | {"warnings": warnings}
    return {
        "runs": [{"folder": report.run.place, **presenter.json()} for report, presenter in reports],
        "warnings": [*left_out, *warnings_json(skipped)],
    }


def present_evaluation(evaluation: Evaluation) -> Presenter:
    """Present an evaluation. JSON does not load what lays out tables."""
    leaks = [warning for warning in evaluation.warnings if isinstance(warning, DataLeak)]
    others = [warning for warning in evaluation.warnings if not isinstance(warning, DataLeak)]

    leak = next(iter(leaks), None)
    return Presenter(
        tables=partial(evaluation_parts, evaluation),
        to_json=lambda: {
            **evaluation_json(evaluation),
            "answer": answer_json(evaluation.conclusions),
            **_wrong_json(evaluation.wrong),
            **_questions_json(evaluation.questions),
        },
        answers=lambda: [conclusion.sentence for conclusion in evaluation.conclusions],
        warnings=[*map(str, others)],
        leak=lambda: leak,
        headline=lambda: [report_line(evaluation, leak)],
    )


def evaluation_json(evaluation: Evaluation) -> dict[str, Json]:
    """Turn the numbers of an evaluation into JSON values.

    Returns:
        Rates and probabilities are fractions, not percent. What JSON cannot say (NaN, infinity) is
        null next to a `reason`; what ablated contexts do not have is null.
    """
    ties = evaluation.near_ties
    smallest = evaluation.smallest_probability
    return {
        "contexts": evaluation.contexts,
        "decoding": {"views": evaluation.decoding_name, "calibration": evaluation.calibration},
        **attributes(evaluation, "k", "repeats", "by", "unit"),
        "intervals": GENERALISATION[evaluation.unit],
        "metrics": [
            attributes(spec, "name", "title", "unit", "better") for spec in evaluation.metrics
        ],
        "groups": [_group(group, smallest, evaluation.unit) for group in evaluation.groups],
        "letters": _letters(evaluation.letters, evaluation.unit),
        **attributes(evaluation, "view_tv", "mean_answer_mass", "smallest_probability"),
        "near_ties": None if ties is None else asdict(ties),
        "notes": [to_json(note) for note in evaluation.notes],
        "warnings": warnings_json(evaluation.warnings),
    }


def _group(group: Group, smallest_probability: float, unit: ClusterUnit) -> Json:
    return {
        **attributes(group, "name", "items", "families"),
        COUNTS[unit]: group.clusters,
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


def _letters(letters: SlotHomogeneity | None, unit: ClusterUnit) -> Json:
    if letters is None:
        return None
    return {
        "codes": [position_name(slot) for slot in range(len(letters.observed))],
        "picked": letters.observed.tolist(),
        "right_answer": letters.expected.tolist(),
        **attributes(letters, "chi2", "dof", "p_value"),
        "item_views": letters.units,
        COUNTS[unit]: letters.clusters,
        f"discordant_{COUNTS[unit]}": letters.discordant_clusters,
        "letter_p_values": to_json(letters.letter_p_values),
        "favoured": [position_name(slot) for slot in letters.favoured],
        "avoided": [position_name(slot) for slot in letters.avoided],
        "detectable_shift": to_json(letters.detectable),
        "reason": reason_text(letters.reason, unit),
    }


def has_row(spec: MetricSpec, values: Iterable[float]) -> bool:
    """Return whether a metric has a row: answer mass has none if no run records it."""
    return spec.name != ANSWER_MASS or not all(map(math.isnan, values))


def run_heading(title: str, provenance: Provenance, names: ArmNames = KEYS) -> tuple[Line, ...]:
    """Identify a run: folder, arm, seed, adapter, base model and data."""
    lines = [Line(one_line(title), "strong")]
    for label, value in run_facts(provenance, names).items():
        lines.append(Line(one_line(f"  {label + ':':<12}{value}")))
    return tuple(lines)


def run_facts(provenance: Provenance, names: ArmNames = KEYS) -> dict[str, object]:
    """Return what identifies a run, by label, without what is not recorded."""
    facts = {
        "arm": None if provenance.arm is None else names.arm(provenance.named(provenance.arm)),
        "seed": provenance.seed,
        "adapter": provenance.adapter_name,
        "base model": provenance.base_model,
        "data": provenance.data_name,
        "trained on": None
        if provenance.custody.training is None
        else provenance.custody.training_text,
        "contract": provenance.contract.remark,
        "quantised": provenance.quantisation,
    }
    return {label: value for label, value in facts.items() if value is not None}


def run_parts(report: RunReport, names: ArmNames = KEYS) -> tuple[Part, ...]:
    """Lay out the report on a run, its order audit, and its conclusions."""
    heading = run_heading(report.run.title, report.run.provenance, names)
    parts = evaluation_parts(report.evaluation, report.order_audit)
    answers = (Line(conclusion.sentence, "strong") for conclusion in report.conclusions)
    spent = () if report.spent is None else (Line(f"Requests: {report.spent.words}."),)
    return (*heading, *parts, *answers_parts(report.questions), *spent, *answers)


def evaluation_parts(evaluation: Evaluation, audit: OrderAudit | None = None) -> tuple[Part, ...]:
    """Lay out the evaluation of a run: metrics, pairs, letters, order audit, then the notes."""
    parts: list[Part] = [
        Line(decoding_text(evaluation)),
        metrics_table(evaluation.groups, evaluation.metrics, evaluation.unit),
    ]
    probabilities = evaluation.groups[0].top_answers is not None
    if probabilities:
        parts.append(calibration_error_table(evaluation.groups))
    if any(_n_pairs(group.pairs) for group in evaluation.groups):
        parts.append(_pairs_table(evaluation.groups))
    if probabilities:
        parts.append(groups_table(evaluation.groups))
    if evaluation.letters is not None and evaluation.letters.units:
        parts.append(_letters_table(evaluation.letters, evaluation.unit))
    parts += _view_tv(evaluation)
    parts += () if audit is None else order_parts(audit, evaluation.unit)
    return (*parts, *(Line(f"Note: {note!s}", "caution") for note in evaluation.notes))


def _view_tv(evaluation: Evaluation) -> tuple[Line, ...]:
    """Say how view TV is distributed over the items, if any item is shown in several orders."""
    tv = evaluation.view_tv
    if tv is None:
        return ()
    median, p90, largest = (f"{100 * value:.1f}%" for value in (tv.median, tv.p90, tv.largest))
    small = count_and_share(round(tv.share_below_small * tv.items), tv.items)
    source = ", as the log states it" if tv.recorded else ""
    return (
        Line(
            f"View TV of {tv.items:,} items{source}: median {median}, 90% at most {p90}, largest "
            f"{largest}; {small} below {100 * SMALL_VIEW_TV:g}%."
        ),
    )


def metrics_table(
    groups: Sequence[Group], specs: Sequence[MetricSpec], unit: ClusterUnit = "family"
) -> Table:
    """Lay out one row per metric and one column per group.

    Args:
        groups: with an estimate of every metric.
        specs: the metrics.
        unit: units of the intervals.
    """
    columns = [Column("", "left")]
    columns += [Column(group.name, "left", below=items_and_units(group, unit)) for group in groups]
    return Table(
        name="metrics",
        columns=tuple(columns),
        rows=tuple(
            table_row(titled(spec), *(_metric_cell(group, spec, unit) for group in groups))
            for spec in specs
            if has_row(spec, [group.estimates[spec.name].value for group in groups])
        ),
        keys=1,
    )


def calibration_error_table(groups: Sequence[Group]) -> Table:
    """Lay out ECE, in bins and without, next to that of a calibrated model: one row per group."""
    rows, bins = [], CalibrationError.bins
    for group in groups:
        ece = group.estimates["ece"]
        if not isinstance(ece, CalibrationError) or math.isnan(ece.value):
            continue
        numbers = (ece.value, ece.floor, ece.floor_high)
        error, bins = replace(ece, value=ece.debiased), ece.bins
        scores, chance = group.answer_scores, group.chance
        smooth = (
            math.nan if scores is None else scores.smooth_ece,
            math.nan if chance is None else chance.smooth_ece,
        )
        rows.append(
            table_row(
                group.name,
                *(value_text(number, "percent") for number in numbers),
                p_value_number(ece.p_value),
                Cell(estimate_text(error, "percent"), reason=ece.reason),
                *(value_text(number, "percent") for number in smooth),
            )
        )
    return Table(
        name="calibration-error",
        title=f"Calibration: ECE in {bins} bins against that of a calibrated model with these "
        "confidences (%)",
        columns=(
            Column("", "left"),
            *right_columns(
                "ECE",
                "noise floor",
                "95% below",
                "p if calibrated",
                "true error, debiased",
                "smooth ECE",
                "noise floor",
            ),
        ),
        rows=tuple(rows),
    )


def items_and_units(group: Group | GroupComparison, unit: ClusterUnit) -> str:
    """Write the numbers of items and families, or source families, of a group."""
    return f"{group.items:,} items, {group.clusters:,} {short_clusters(unit)}"


def titled(spec: MetricSpec) -> str:
    """Return the title of a metric with an arrow in the better direction."""
    return spec.title + {1: " ↑", -1: " ↓", 0: ""}[spec.better]


def letter_counts(letters: SlotHomogeneity, unit: ClusterUnit = "family") -> str:
    """Compare how often letters are chosen and correct.

    A preference for an answer counts here too, so this says nothing of the order of the answers.

    Args:
        letters: the test over all item views.
        unit: what its clusters are.
    """
    if letters.reason is not None:
        return f"No test of these counts: {reason_text(letters.reason, unit)}."
    differ = "differ" if letters.p_value < LEVEL else "are not shown to differ"
    power = ""
    if not math.isnan(letters.detectable):
        shift = value_text(letters.detectable, "percent")
        power = f"; a shift of one letter by {shift}% of the views is shown with 80% power"
    views = f"{letters.units:,} item views, {letters.clusters:,} {CLUSTERS[unit]}"
    return (
        f"The two rows {differ} (chi-squared {letters.chi2:.2f} on {letters.dof}, "
        f"{p_value_text(letters.p_value)}; Stuart-Maxwell, by {CLUSTER[unit]}; {views}{power}). "
        "A preference for an answer counts here too: only the slots test the order."
    )


def decoding_text(evaluation: Evaluation) -> str:
    """Say how the numbers of a run were made: its decoding, its intervals, and terms of a table."""
    method = methods_text(evaluation.groups[0].estimates.values(), evaluation.unit)
    if evaluation.contexts == "ablated":
        return (
            "Ablated contexts: without the evidence no answer is correct, and a model that relies "
            "on it is uncertain.\n"
            f"Decoding: {evaluation.decoding}, {evaluation.calibration}; K = {evaluation.k}. Rates "
            f"in %; in brackets the {method}.\n{generalisation_text(evaluation.unit)}\n"
            "Answer gap: |z_a - z_b| in nats of the two answers that the ablated context cannot "
            "distinguish."
        )
    how = {
        "single": "view 0 alone",
        "ensemble": f"{evaluation.k} views, mean canonical log-probability",
        "repeats": f"the mean over {evaluation.repeats} repeats",
        "repeats_together": f"{evaluation.k} repeats, mean log-probability",
    }[evaluation.decoding_name]
    mass = evaluation.mean_answer_mass
    codes = (
        "" if math.isnan(mass) else f"  Answer mass {small_text(mass, 'percent')}% over all views."
    )
    made = f"{evaluation.decoding_name}, {evaluation.calibration} ({how}); K = {evaluation.k}"
    return (
        f"Decoding: {made}.{codes}\n"
        f"Rates in %, gain in points, NLL in nats; in brackets the {method}. "
        f"{generalisation_text(evaluation.unit)}\n"
        "Score MAE: error of the expected level, and of the top level; Score RPS: ranked "
        "probability score, which is proper.\n"
        f"Confident errors: share of errors made with confidence {CONFIDENT} or more. Pair margin: "
        "how far the edited fact moves the log-odds of the two right answers of a pair."
    )


def _metric_cell(group: Group, spec: MetricSpec, unit: ClusterUnit) -> Cell:
    estimate = group.estimates[spec.name]
    below = ""
    if estimate.n and estimate.n not in (group.items, group.answers):
        counted = find_metric(spec.name).counts
        below = f"of {estimate.n:,} {counted}{'s' if estimate.n > 1 else ''}"
        if estimate.clusters != estimate.n:
            below = f"of {estimate.n:,} ({estimate.clusters:,} {short_clusters(unit)})"
    # The table of calibration below has the p-values.
    cell = estimate_cell(estimate, spec.unit, below=below, test=False)
    return replace(cell, reason=reason_text(cell.reason, unit))


def _n_pairs(pairs: PairOutcomes | None) -> int:
    if pairs is None:
        return 0
    return pairs.both_right + pairs.only_base + pairs.only_counterfactual + pairs.neither


def _pairs_table(groups: Sequence[Group]) -> Table:
    titles = ("both correct", "only base", "only counterf.", "neither", "same answer to both")
    rows = []
    for group in groups:
        total, pairs = _n_pairs(group.pairs), group.pairs
        if pairs is None:
            continue
        counts = (
            pairs.both_right,
            pairs.only_base,
            pairs.only_counterfactual,
            pairs.neither,
            pairs.same_answer,
        )
        shares = (
            Cell(UNDEFINED if count is None else count_and_share(count, total)) for count in counts
        )
        rows.append(table_row(group.name, f"{total:,}", *shares))
    return Table(
        name="pairs",
        title="Pairs: which of the two members are answered correctly",
        columns=(Column("", "left"), Column("pairs"), *map(Column, titles)),
        rows=tuple(rows),
    )


def _count_text(count: float) -> str:
    """Write a count, which ties may split: 60, or 33.3."""
    return f"{round(float(count), 1):,.15g}"


def _letters_table(letters: SlotHomogeneity, unit: ClusterUnit) -> Table:
    names = [position_name(slot) for slot in range(len(letters.observed))]
    lines = [
        ("letter", *names),
        ("chosen", *map(_count_text, letters.observed)),
        ("correct", *map(_count_text, letters.expected)),
    ]
    if len(names) > len(LETTERS):  # one row per position, as no page is that wide
        lines = [*zip(*lines, strict=True)]
    head, *body = lines
    return Table(
        name="letters",
        title="Letters: how often each was chosen, and how often it was correct",
        columns=(Column(head[0], "left"), *map(Column, head[1:])),
        rows=tuple(table_row(*line) for line in body),
        notes=(letter_counts(letters, unit),),
    )
