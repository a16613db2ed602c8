"""The report on a run, and those on several."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

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
from pact_eval.evaluation.per_answer import AnswerRates, QuestionAnswers
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
from pact_reports.table import Cell, Column, Line, Part, Table, make_table, table_row
from pact_reports.tables.cells import estimate_cell
from pact_reports.tables.item_lists import item_parts
from pact_reports.tables.order_runs import noise_note, order_parts, slots_sentence
from pact_reports.tables.per_answer import answers_parts
from pact_reports.tables.runs import answer_scores_table
from pact_reports.views.brief import brief_report, report_line
from pact_reports.views.presenter import Presenter, answer_lines
from pact_reports.writers.json import (
    COUNTS,
    answer_json,
    attributes,
    estimate_json,
    members,
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

    def tables() -> Iterator[Part]:
        yield from run_parts(report, names)
        yield from [Line(one_line(f"Read: {read}."))] * bool(read)

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
    """Return the report as JSON values, with the audit of the order slot by slot and questions."""
    run, spent = report.run, report.spent
    return {
        "run": dict(run.provenance.recorded),
        **evaluation_json(report.evaluation),
        "arm_name": names.arm(run.arm),
        "rates": to_json(report.rates),
        "answer": answer_json(report.conclusions),
        **_wrong_json(report.wrong),
        **({} if spent is None else {"requests": to_json(spent)}),
        "order": _order_json(report.order, report.order_audit if audit else None),
        **(_questions_json(report.questions) if audit else {}),
        "digest": report.digest.json,
    }


def _questions_json(questions: Sequence[QuestionAnswers]) -> dict[str, Json]:
    """Return precision, recall and F1 of every answer as JSON values; nothing without questions."""

    def answer(rates: AnswerRates, unit: ClusterUnit) -> Json:
        estimates = {name: getattr(rates, name) for name in ("precision", "recall", "f1")}
        return attributes(rates, "name", "right", "given") | {
            name: estimate_json(estimate, unit) for name, estimate in estimates.items()
        }

    values: list[Json] = [
        {
            **attributes(question, "question", "kind"),
            "answers": [answer(rates, question.unit) for rates in question.answers],
            "confusion": to_json(question.confusion),
            "macro_f1": estimate_json(question.macro_f1, question.unit),
        }
        for question in questions
    ]
    return {"questions": values} if values else {}


def _wrong_json(wrong: WrongItems | None) -> dict[str, Json]:
    """Return the surest wrong answers of a run as JSON values; nothing for ablated contexts."""
    if wrong is None:
        return {}
    return {"wrong": {"text": wrong.words, **members(wrong)}}


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
        numbers |= members(audit)
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
    leak = next((one for one in evaluation.warnings if isinstance(one, DataLeak)), None)
    return Presenter(
        tables=partial(evaluation_parts, evaluation),
        to_json=lambda: {
            **evaluation_json(evaluation),
            "answer": answer_json(evaluation.conclusions),
            **_wrong_json(evaluation.wrong),
            **_questions_json(evaluation.questions),
        },
        answers=lambda: [conclusion.sentence for conclusion in evaluation.conclusions],
        warnings=[str(one) for one in evaluation.warnings if not isinstance(one, DataLeak)],
        leak=lambda: leak,
        headline=lambda: [report_line(evaluation, leak)],
    )


def evaluation_json(evaluation: Evaluation) -> dict[str, Json]:
    """Turn the numbers of an evaluation into JSON values.

    Returns:
        Rates and probabilities are fractions, not percent. What JSON cannot say (NaN, infinity) is
        null next to a `reason`; what ablated contexts do not have is null.
    """
    unit, smallest = evaluation.unit, evaluation.smallest_probability
    ties = evaluation.near_ties
    return {
        "contexts": evaluation.contexts,
        "decoding": {"views": evaluation.decoding_name, "calibration": evaluation.calibration},
        **attributes(evaluation, "k", "repeats", "by", "unit"),
        "intervals": GENERALISATION[unit],
        "metrics": [
            attributes(spec, "name", "title", "unit", "better") for spec in evaluation.metrics
        ],
        "groups": [_group(group, smallest, unit) for group in evaluation.groups],
        "letters": None if evaluation.letters is None else _letters(evaluation.letters, unit),
        **attributes(evaluation, "view_tv", "mean_answer_mass", "smallest_probability"),
        "near_ties": None if ties is None else members(ties),
        **attributes(evaluation, "notes"),
        "warnings": warnings_json(evaluation.warnings),
    }


def _group(group: Group, smallest_probability: float, unit: ClusterUnit) -> Json:
    nll = group.nll
    if nll is not None:
        bound = {"lower_bound": to_json(nll.lower_bound(smallest_probability))}
    return {
        **attributes(group, "name", "items", "families", **{COUNTS[unit]: "clusters"}),
        "metrics": {name: estimate_json(one, unit) for name, one in group.estimates.items()},
        "nll": None if nll is None else attributes(nll, "infinite_items", "finite_mean") | bound,
        **attributes(group, "pairs", "answer_scores", answer_scores_by_chance="chance"),
    }


def _letters(letters: SlotHomogeneity, unit: ClusterUnit) -> Json:
    counts = {COUNTS[unit]: "clusters", f"discordant_{COUNTS[unit]}": "discordant_clusters"}
    slots = {"favoured": letters.favoured, "avoided": letters.avoided}
    return {
        "codes": [position_name(slot) for slot in range(len(letters.observed))],
        **attributes(letters, "chi2", "dof", "p_value", picked="observed", right_answer="expected"),
        **attributes(letters, "letter_p_values", item_views="units", detectable_shift="detectable"),
        **attributes(letters, **counts),
        **{name: [position_name(slot) for slot in of_name] for name, of_name in slots.items()},
        "reason": reason_text(letters.reason, unit),
    }


def has_row(spec: MetricSpec, values: Iterable[float]) -> bool:
    """Return whether a metric has a row: answer mass has none if no run records it."""
    return spec.name != ANSWER_MASS or not all(map(math.isnan, values))


def run_facts(provenance: Provenance, names: ArmNames = KEYS) -> dict[str, object]:
    """Return what identifies a run, by label, without what is not recorded."""
    custody = provenance.custody
    facts = {
        "arm": None if provenance.arm is None else names.arm(provenance.named(provenance.arm)),
        "seed": provenance.seed,
        "adapter": provenance.adapter_name,
        "base model": provenance.base_model,
        "data": provenance.data_name,
        "trained on": None if custody.training is None else custody.training_text,
        "contract": provenance.contract.remark,
        "quantised": provenance.quantisation,
    }
    return {label: value for label, value in facts.items() if value is not None}


def run_parts(report: RunReport, names: ArmNames = KEYS) -> Iterator[Part]:
    """Lay out the report on a run: what it is, its order audit, and its conclusions."""
    yield Line(one_line(report.run.title), "strong")
    for label, value in run_facts(report.run.provenance, names).items():
        yield Line(one_line(f"  {label + ':':<12}{value}"))
    yield from evaluation_parts(report.evaluation, report.order_audit)
    yield from answers_parts(report.questions)
    if report.spent is not None:
        yield Line(f"Requests: {report.spent.words}.")
    yield from answer_lines(conclusion.sentence for conclusion in report.conclusions)


def evaluation_parts(evaluation: Evaluation, audit: OrderAudit | None = None) -> Iterator[Part]:
    """Lay out the evaluation of a run: metrics, pairs, letters, order audit, then the notes."""
    groups, unit = evaluation.groups, evaluation.unit
    letters, tv = evaluation.letters, evaluation.view_tv
    yield Line(decoding_text(evaluation))
    yield metrics_table(groups, evaluation.metrics, unit)
    if groups[0].top_answers is not None:
        yield calibration_error_table(groups)
    if any(group.pairs is not None and group.pairs.total for group in groups):
        yield _pairs_table(groups)
    if groups[0].top_answers is not None:
        yield answer_scores_table(groups)
    if letters is not None and letters.units:
        yield _letters_table(letters, unit)
    if tv is not None:
        median, p90, largest = (f"{100 * value:.1f}%" for value in (tv.median, tv.p90, tv.largest))
        small = count_and_share(round(tv.share_below_small * tv.items), tv.items)
        source = ", as the log states it" if tv.recorded else ""
        yield Line(
            f"View TV of {tv.items:,} items{source}: median {median}, 90% at most {p90}, largest "
            f"{largest}; {small} below {100 * SMALL_VIEW_TV:g}%."
        )
    if audit is not None:
        yield from order_parts(audit, unit)
    yield from (Line(f"Note: {note!s}", "caution") for note in evaluation.notes)


def metrics_table(
    groups: Sequence[Group], specs: Sequence[MetricSpec], unit: ClusterUnit = "family"
) -> Table:
    """Lay out one row per metric and one column per group.

    Args:
        groups: with an estimate of every metric.
        specs: the metrics.
        unit: units of the intervals.
    """

    def cell(spec: MetricSpec, group: Group) -> Cell:
        estimate = group.estimates[spec.name]
        below = ""
        if estimate.n and estimate.n not in (group.items, group.answers):
            counted = find_metric(spec.name).counts
            below = f"of {estimate.n:,} {counted}{'s' if estimate.n > 1 else ''}"
            if estimate.clusters != estimate.n:
                below = f"of {estimate.n:,} ({estimate.clusters:,} {short_clusters(unit)})"
        # The table of calibration below has the p-values.
        made = estimate_cell(estimate, spec.unit, below=below, test=False)
        return replace(made, reason=reason_text(made.reason, unit))

    shown = [
        spec
        for spec in specs
        if has_row(spec, [group.estimates[spec.name].value for group in groups])
    ]
    return make_table(
        "metrics",
        shown,
        (Column("", "left"), titled),
        *((group_column(group, unit), partial(cell, group=group)) for group in groups),
        keys=1,
    )


def group_column(group: Group | GroupComparison, unit: ClusterUnit) -> Column:
    """Return the column of a group, with its numbers of items and families, or source families."""
    sizes = f"{group.items:,} items, {group.clusters:,} {short_clusters(unit)}"
    return Column(group.name, "left", below=sizes)


def calibration_error_table(groups: Sequence[Group]) -> Table:
    """Lay out ECE, in bins and without, next to that of a calibrated model: one row per group."""
    estimates = [(group, group.estimates["ece"]) for group in groups]
    known = [
        (group, ece)
        for group, ece in estimates
        if isinstance(ece, CalibrationError) and not math.isnan(ece.value)
    ]
    bins = known[-1][1].bins if known else CalibrationError.bins

    def smooth(group: Group, name: Literal["answer_scores", "chance"]) -> str:
        scores = getattr(group, name)
        return UNDEFINED if scores is None else value_text(scores.smooth_ece, "percent")

    return make_table(
        "calibration-error",
        known,
        (Column("", "left"), lambda row: row[0].name),
        ("ECE", lambda row: value_text(row[1].value, "percent")),
        ("noise floor", lambda row: value_text(row[1].floor, "percent")),
        ("95% below", lambda row: value_text(row[1].floor_high, "percent")),
        ("p if calibrated", lambda row: p_value_number(row[1].p_value)),
        (
            "true error, debiased",
            lambda row: Cell(
                estimate_text(replace(row[1], value=row[1].debiased), "percent"),
                reason=row[1].reason,
            ),
        ),
        ("smooth ECE", lambda row: smooth(row[0], "answer_scores")),
        ("noise floor", lambda row: smooth(row[0], "chance")),
        title=f"Calibration: ECE in {bins} bins against that of a calibrated model with these "
        "confidences (%)",
    )


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


def _pairs_table(groups: Sequence[Group]) -> Table:
    def share(row: tuple[Group, PairOutcomes], name: str) -> str:
        count: int | None = getattr(row[1], name)
        return UNDEFINED if count is None else count_and_share(count, row[1].total)

    titles = {
        "both_right": "both correct",
        "only_base": "only base",
        "only_counterfactual": "only counterf.",
        "neither": "neither",
        "same_answer": "same answer to both",
    }
    return make_table(
        "pairs",
        [(group, group.pairs) for group in groups if group.pairs is not None],
        (Column("", "left"), lambda row: row[0].name),
        ("pairs", lambda row: row[1].total),
        *((title, partial(share, name=name)) for name, title in titles.items()),
        title="Pairs: which of the two members are answered correctly",
    )


def _letters_table(letters: SlotHomogeneity, unit: ClusterUnit) -> Table:
    """Lay out how often letters are chosen and correct; ties may split a count: 60, or 33.3."""
    names = [position_name(slot) for slot in range(len(letters.observed))]
    lines = [("letter", *names)]
    for name, counts in (("chosen", letters.observed), ("correct", letters.expected)):
        lines.append((name, *(f"{round(float(count), 1):,.15g}" for count in counts)))
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
