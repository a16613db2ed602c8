"""The first section of a page: answers, cards, paired differences, verdicts, diagnostics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pact_eval.errors import InputError, RecordError
from pact_eval.evaluation.conclusions.better import BetterConclusion, BetterStatus
from pact_eval.evaluation.conclusions.data import leak_prefix, with_leak_warning
from pact_eval.evaluation.conclusions.experiment_conclusions import conclude, conclude_runs
from pact_eval.evaluation.diagnostics import (
    Diagnostic,
    diagnose,
    matched_runs,
    on_data,
    on_other_data,
)
from pact_eval.evaluation.registry import MetricDecoding
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_eval.preregistration.scorecard import on_registration, on_verdicts
from pact_reports.figures.figure import reason
from pact_reports.page.cards import acting_card, make_cards, verdicts
from pact_reports.page.comparisons import MATRIX_RUNS, forest_plot, run_matrix
from pact_reports.page.diagnostics import audit_findings, diagnostics_by_run
from pact_reports.page.html import table_formats
from pact_reports.page.request import PageRequest
from pact_reports.page.tables import answer_table
from pact_reports.tables.cells import decoding_words, leak_lines
from pact_reports.views.brief import mass_lines


def summarise(request: PageRequest) -> dict[str, Any]:
    """Return what the templates of the first section write, by the names that they use."""
    judged = _judge(request)
    diagnostics = _diagnostics(request, judged)
    labels = [run.label for run in request.experiment.runs]
    return {
        "summary": {
            "leak": [line.text for line in leak_lines(request.audit.leak)],
            **_answer(request),
            "low_mass": _low_mass(request),
            **_questions(request),
            "criteria": judged
            if judged is None or isinstance(judged, str)
            else verdicts(judged, request.names),
            "tests": _paired_tests(request),
        },
        "diagnostics": diagnostics_by_run(diagnostics, labels, request.names),
        "audit": audit_findings(request.audit, _ids(request)),
    }


def _ids(request: PageRequest) -> frozenset[str]:
    """Return the ids of the items of the page, if findings of an audit may name them."""
    if not request.audit.checks:
        return frozenset()
    runs = request.experiment.runs[:1] if request.experiment.same_items else request.experiment.runs
    return frozenset(item for run in runs for item in run.predictions.ids.tolist())


def _questions(request: PageRequest) -> dict[str, Any]:
    """Return what is concluded: cards with the differences of arms; of many runs, a matrix."""
    experiment, names = request.experiment, request.names
    runs = conclude_runs(experiment, request.audit)
    if len(experiment.runs) < MATRIX_RUNS:
        conclusions = conclude(experiment, request.audit)
        forest = _forest(request) if conclusions.better else None
        cards = make_cards(conclusions, names, request.acting, forest, runs)
        return {"matrix": None, "cards": cards}
    return {
        "matrix": run_matrix(request, runs),
        "cards": [] if request.acting is None else [acting_card(request.acting, names)],
        "forest": None if len(experiment.arms) < 2 else _forest(request),
        "several_seeds": any(len(runs) > 1 for runs in experiment.arms.values()),
    }


def _forest(request: PageRequest) -> dict[str, Any] | str:
    method = request.experiment.main_arm
    try:
        conclusions = list(request.experiment.comparisons.better_than(method).values())
    except InputError as error:
        return reason(error)
    return forest_plot(conclusions, method, request.names)


def _answer(request: PageRequest) -> dict[str, Any]:
    """Return the conclusion on the method and the other arms: the first line of the page."""
    experiment, names, leak = request.experiment, request.names, request.audit.leak
    method = experiment.main_arm
    if not experiment.same_items:
        return {"sentences": []}
    conclusions = list(experiment.comparisons.better_than(method).values())
    sentences = [
        with_leak_warning(conclusion.named(names).words, leak) for conclusion in conclusions
    ]
    if not sentences:
        return {"sentences": []}
    finding = sentences[0].finding
    if len(sentences) > 1:
        finding = f"{leak_prefix(leak)}{_finding(conclusions, names.arm(method))}"
    table = answer_table(conclusions, names)
    return {
        "finding": finding,
        "sentences": sentences,
        "copies": {"sentence": "\n".join(map(str, sentences)), **table_formats(table)},
    }


_COUNTED: Final[Mapping[BetterStatus, str]] = {
    "better": "more accurate than {:,}",
    "worse": "less accurate than {:,}",
    "equivalent": "as accurate as {:,} within the margin",
    "not shown": "no accuracy difference shown for {:,}",
    "cannot be compared": "{:,} cannot be compared",
}


def _finding(conclusions: Sequence[BetterConclusion], method: str) -> str:
    """Count the other arms by status.

    Examples:
        >>> from pact_eval.evaluation.conclusions.better import not_comparable
        >>> _finding([not_comparable(("a", arm), "other items") for arm in "bc"], "a")
        'a against 2 other arms: 2 cannot be compared'
    """
    statuses = Counter(conclusion.status for conclusion in conclusions)
    counted = (text.format(statuses[key]) for key, text in _COUNTED.items() if statuses[key])
    return f"{method} against {len(conclusions):,} other arms: {', '.join(counted)}"


def _low_mass(request: PageRequest) -> list[str]:
    """Return the answer masses of the runs if one of them is low."""
    masses = {
        request.names.run(run.label): request.experiment.evaluation(
            run, calibrated=False
        ).mean_answer_mass
        for run in request.experiment.runs
    }
    return [line.text for line in mass_lines(masses)]


def _judge(request: PageRequest) -> JudgedHypotheses | str | None:
    """Judge the criteria, or return the reason that prevents it; None without criteria."""
    if request.criteria is None:
        return None
    try:
        return request.for_tables.judged
    except RecordError:
        # The user named this file, so an error in it must stop the command.
        raise
    except InputError as error:
        return reason(error)


def _diagnostics(request: PageRequest, judged: JudgedHypotheses | str | None) -> list[Diagnostic]:
    diagnostics = [
        *on_data(request.audit, request.experiment),
        *diagnose(request.experiment, request.names),
    ]
    if request.records is not None:
        diagnostics += map(on_other_data, request.records.different)
    if judged is not None and not isinstance(judged, str):
        diagnostics += on_registration(judged.registration)
        diagnostics += on_verdicts(judged.scorecard)
    return diagnostics


def _paired_tests(request: PageRequest) -> dict[str, Any] | str:
    """Return the paired tests of the method, or why there are none."""
    experiment, names = request.experiment, request.names
    method = experiment.main_arm
    try:
        matched = matched_runs(experiment.comparisons.at_common_views, method)
    except InputError as error:
        return reason(error)
    everything = matched[0].result
    basis = (
        decoding_words(MetricDecoding(experiment.settings.decoding)),
        f"{everything.items:,} items, {everything.families:,} families",
        f"{len(matched):,} pairs of runs" if len(matched) > 1 else "1 pair of runs",
    )
    return {
        "method": names.arm(method),
        "basis": f" ({'; '.join(basis)}); 95% intervals over families, each alone:",
        "pairs": [
            {
                "method": names.arm(pair.method),
                "control": names.arm(pair.control),
                "seed": "" if pair.seed is None else f" at seed {pair.seed}",
                "difference": pair.result.metrics["accuracy"].difference,
                "counts": pair.result.accuracy.items,
            }
            for pair in matched
        ],
    }
