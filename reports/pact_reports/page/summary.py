"""The first section of a page: answers, cards, paired differences, verdicts, diagnostics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pact_eval.errors import InputError, RecordError
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.conclusions.better import BetterConclusion, BetterStatus
from pact_eval.evaluation.conclusions.conclusion import Said
from pact_eval.evaluation.conclusions.data import DataConclusion, beside_leak, leak_prefix
from pact_eval.evaluation.conclusions.experiment_conclusions import conclude, conclude_runs
from pact_eval.evaluation.diagnostics import (
    Diagnostic,
    MatchedRuns,
    diagnose,
    matched_runs,
    on_data,
    on_other_data,
)
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.registry import MetricDecoding
from pact_eval.numbers import interval_text
from pact_eval.preregistration.scorecard import on_registration, on_verdicts
from pact_reports.figures.figure import reason
from pact_reports.markup import Html, data_text, element, joined
from pact_reports.page.cards import acting_html, cards_html, criteria_html
from pact_reports.page.data_audit import data_audit_html
from pact_reports.page.forest import forest_html
from pact_reports.page.matrix import diagnostics_html, matrix_html
from pact_reports.page.request import PageRequest
from pact_reports.page.run_matrix import MATRIX_RUNS, answer_table, run_matrix_html
from pact_reports.page.runs_table import ablated_table, runs_table
from pact_reports.page.sections import (
    copies_html,
    copyable_table,
    formats_of,
    sentences_text,
)
from pact_reports.tables.cells import decoding_words, leak_lines
from pact_reports.views.brief import mass_lines
from pact_reports.writers.files import BuiltTables

if TYPE_CHECKING:  # without criteria, nothing is judged
    from pact_eval.preregistration.run_scorecard import JudgedHypotheses


def summary_html(request: PageRequest) -> Html:
    """Write the first section: answers, cards, paired differences, verdicts, diagnostics."""
    experiment = request.experiment
    method = experiment.main_arm
    judged = _judged(request)
    matched: tuple[MatchedRuns, ...] | str
    try:
        matched = matched_runs(experiment.comparisons.at_common_views, method)
    except InputError as error:
        matched = reason(error)
    diagnostics = _diagnostics(request, judged)
    labels = [run.label for run in experiment.runs]
    return joined(
        [
            *_leak(request.audit),
            *_answers(request, method),
            *_low_mass(request),
            *_questions(request, method),
            matrix_html(diagnostics, labels, request.names),
            element(
                "section",
                element("h3", "Verdicts"),
                criteria_html(
                    judged if isinstance(judged, str) else judged.scorecard,
                    None if isinstance(judged, str) else judged.registration,
                    request.names,
                ),
                _tests(matched, method, request.names, decoding_words(_decoding(experiment))),
                id="verdicts",
            ),
            diagnostics_html(diagnostics, labels, request.names),
            data_audit_html(request.audit, _ids(request)),
        ]
    )


def _ids(request: PageRequest) -> frozenset[str]:
    """Return the ids of the items of the page, if findings of an audit may name them."""
    if not request.audit.checks:
        return frozenset()
    runs = request.experiment.runs[:1] if request.experiment.same_items else request.experiment.runs
    return frozenset(item for run in runs for item in run.predictions.ids.tolist())


def headline_html(request: PageRequest, built: BuiltTables) -> Html:
    """Write the tables of every run, and of runs on ablated contexts."""
    return joined(
        [
            None if "main" in built.tables else _no_main(built),
            copyable_table(runs_table(request.experiment, request.names)),
            _ablated(request),
        ]
    )


def _decoding(experiment: Experiment) -> MetricDecoding:
    return MetricDecoding(experiment.settings.decoding)


def _questions(request: PageRequest, method: str) -> list[Html]:
    """Write what is concluded: cards with the differences of arms; of many runs, a matrix."""
    experiment, names = request.experiment, request.names
    if len(experiment.runs) < MATRIX_RUNS:
        conclusions = conclude(experiment, request.audit)
        plot = _forest(request, method) if conclusions.better else None
        runs = conclude_runs(experiment, request.audit)
        return [cards_html(conclusions, names, request.acting, plot, runs)]
    parts = [run_matrix_html(request, conclude_runs(experiment, request.audit))]
    if request.acting is not None:
        parts.append(element("div", acting_html(request.acting, names), class_="cards alone"))
    if len(experiment.arms) < 2:
        return parts
    heading = "Differences between arms: accuracy and pair accuracy"
    several_seeds = any(len(runs) > 1 for runs in experiment.arms.values())
    forest = _forest(request, method)
    if several_seeds:
        parts.append(element("section", element("h3", heading), forest, id="comparison"))
    else:
        # Every arm is a run, and the matrix has its difference already.
        fold = element("details", element("summary", heading), forest)
        parts.append(element("section", fold, id="comparison"))
    return parts


def _forest(request: PageRequest, method: str) -> Html:
    try:
        conclusions = list(request.experiment.comparisons.better_than(method).values())
    except InputError as error:
        return element("p", "Nothing to compare: ", data_text(reason(error)), ".")
    if not any(conclusion.claims for conclusion in conclusions):
        why = dict.fromkeys(str(conclusion.reason) for conclusion in conclusions)
        return element("p", "Nothing to compare: ", data_text("; ".join(why)), ".")
    return forest_html(conclusions, method, request.names)


def _answers(request: PageRequest, method: str) -> list[Html]:
    """Write the conclusion on the method and the other arms: the first line of the page."""
    experiment, names, leak = request.experiment, request.names, request.audit.leak
    if not experiment.same_items:
        return []
    conclusions = list(experiment.comparisons.better_than(method).values())
    sentences = [beside_leak(conclusion.named(names).words, leak) for conclusion in conclusions]
    if not sentences:
        return []
    finding = sentences[0].finding
    if len(sentences) > 1:
        finding = f"{leak_prefix(leak)}{_finding(conclusions, names.arm(method))}"
    full = element("ul", *(element("li", _sentence(words)) for words in sentences))
    copies = {
        "sentence": sentences_text(sentences),
        **formats_of(answer_table(conclusions, names)),
    }
    return [
        element(
            "div",
            element("p", element("strong", data_text(finding)), class_="answer"),
            copies_html("answer", copies),
            id="answer",
        ),
        element("details", element("summary", "With all numbers"), full, class_="in-full"),
    ]


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


def _leak(conclusion: DataConclusion) -> list[Html]:
    """Write the first line of a page on runs whose data leaks, or leaked."""
    return [
        element("p", element("strong", data_text(line.text)), class_="answer")
        for line in leak_lines(conclusion.leak)
    ]


def _low_mass(request: PageRequest) -> list[Html]:
    """Write the answer masses of the runs if one of them is low."""
    masses = {
        request.names.run(run.label): request.experiment.evaluation(
            run, calibrated=False
        ).mean_answer_mass
        for run in request.experiment.runs
    }
    return [element("p", data_text(line.text), class_="answer") for line in mass_lines(masses)]


def _sentence(words: Said) -> Html:
    return joined([element("strong", data_text(words.finding)), ": ", data_text(words.numbers)])


def _judged(request: PageRequest) -> JudgedHypotheses | str:
    """Judge the criteria, or return the reason that prevents it ("" without criteria)."""
    if request.criteria is None:
        return ""
    try:
        return request.for_tables.judged
    except RecordError:
        # The user named this file, so an error in it must stop the command.
        raise
    except InputError as error:
        return reason(error)


def _diagnostics(request: PageRequest, judged: JudgedHypotheses | str) -> list[Diagnostic]:
    diagnostics = [
        *on_data(request.audit, request.experiment),
        *diagnose(request.experiment, request.names),
    ]
    if request.records is not None:
        diagnostics += map(on_other_data, request.records.different)
    if not isinstance(judged, str):
        diagnostics += on_registration(judged.registration)
        diagnostics += on_verdicts(judged.scorecard)
    return diagnostics


def _tests(
    matched: Sequence[MatchedRuns] | str, method: str, names: ArmNames, decoding: str
) -> Html:
    if isinstance(matched, str):
        return element("p", "No paired test: ", data_text(matched), ".")
    everything = matched[0].result
    scope = f"{everything.items:,} items, {everything.families:,} families"
    many = f"{len(matched):,} pairs of runs" if len(matched) > 1 else "1 pair of runs"
    basis = f" ({decoding}; {scope}; {many}); 95% intervals over families, each alone:"
    return joined(
        [
            element("p", "Paired tests of ", data_text(names.arm(method)), basis),
            element("ul", *(_test(pair, names) for pair in matched), class_="tests"),
        ]
    )


def _test(pair: MatchedRuns, names: ArmNames) -> Html:
    method, control = names.arm(pair.method), names.arm(pair.control)
    tests = pair.result.accuracy
    seed = "" if pair.seed is None else f" at seed {pair.seed}"
    difference = pair.result.metrics["accuracy"].difference
    return element(
        "li",
        data_text(method),
        " against ",
        data_text(control),
        f"{seed}: ",
        element("strong", interval_text(difference, "points", " points")),
        f" of accuracy; only {method} is right on {tests.items.b:,} items, only "
        f"{control} on {tests.items.c:,}",
    )


def _no_main(built: BuiltTables) -> Html:
    why = built.skipped.get("main", "it was not requested")
    return element("p", "No table of main results: ", data_text(why), ".")


def _ablated(request: PageRequest) -> Html | None:
    if not request.experiment.ablated:
        return None
    try:
        return copyable_table(ablated_table(request.experiment, request.names))
    except InputError as error:
        return element("p", "No table of runs on ablated contexts: ", data_text(reason(error)), ".")
