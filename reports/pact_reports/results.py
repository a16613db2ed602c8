"""Results as tables: HTML for notebooks, and text for `print`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from pact_eval.audit.adapter.audit import AdapterAudit
from pact_eval.audit.dataset import DataAudit
from pact_eval.calibration.runs import FittedRun
from pact_eval.drift.drift import Drift
from pact_eval.drift.run_comparison import RunComparison
from pact_eval.evaluation.arms.comparison import ArmsComparison
from pact_eval.evaluation.comparison import Comparison
from pact_eval.evaluation.conclusions.data import DataLeak
from pact_eval.evaluation.experiment import RunReport
from pact_eval.evaluation.report import Evaluation
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_eval.results import Result
from pact_eval.thresholds.answer_sets import AnswerSets
from pact_eval.thresholds.checking import ThresholdsCheck
from pact_eval.thresholds.choice import Thresholds
from pact_eval.thresholds.set_checking import AnswerSetsCheck
from pact_reports.markup import Html, data_text, element, joined
from pact_reports.presenters.decisions import (
    present_answer_sets,
    present_answer_sets_check,
    present_thresholds,
    present_thresholds_check,
)
from pact_reports.sentences.answers import scorecard_answer
from pact_reports.sentences.conclusions import beside_leak, better_words, conclusion_line
from pact_reports.sentences.data import leak_lines
from pact_reports.sentences.drift import analysis_sentences, drift_answer
from pact_reports.sentences.notes import warning_sentence
from pact_reports.table import Legend, Line, Part, Table
from pact_reports.tables.adapter import adapter_parts
from pact_reports.tables.audit import data_audit_parts
from pact_reports.tables.comparison import arms_parts, comparison_parts
from pact_reports.tables.drift import drift_parts
from pact_reports.tables.fit import fitted_parts
from pact_reports.tables.report import evaluation_parts, run_parts
from pact_reports.tables.scorecard import scorecard_parts
from pact_reports.writers import terminal
from pact_reports.writers.html import legend_html, table_html

_COLUMNS: Final = 92

_Warned: TypeAlias = RunReport | Evaluation | Comparison | FittedRun | Drift | JudgedHypotheses


def to_html(result: Result) -> str:
    """Lay out a result as HTML that needs no style sheet and runs no script.

    Args:
        result: what a function of `pact_eval` returned.

    Returns:
        HTML; all text from data is escaped.
    """
    return joined(_part(part) for part in parts_of(result)).text


def to_text(result: Result) -> str:
    """Lay out a result as text of at most 92 columns, with ASCII borders.

    Args:
        result: what a function of `pact_eval` returned.
    """
    return terminal.to_text(*parts_of(result), width=_COLUMNS).rstrip("\n")


def parts_of(result: Result) -> Iterable[Part]:
    """Return the tables and lines of a result, in the order of the terminal."""
    match result:
        case RunReport():
            leaks = leak_lines(result.experiment.data.leak)
            return (*leaks, *_warnings(result), *run_parts(result))
        case Evaluation():
            lines = map(_answer, map(conclusion_line, result.conclusions))
            return (*_warnings(result), *evaluation_parts(result), *lines)
        case Comparison():
            return (*_warnings(result), *comparison_parts(result), *_after_comparison(result))
        case ArmsComparison():
            return arms_parts(result, show_items=False)
        case DataAudit():
            return data_audit_parts(result, fail_on="error")
        case AdapterAudit():
            return adapter_parts([result], None, fail_on="error")
        case FittedRun():
            return (*_warnings(result), *fitted_parts(result, result.folder))
        case Drift():
            leaks = leak_lines(result.data.leak)
            parts = *leaks, *_warnings(result), *drift_parts(result)
            return (*parts, _answer(drift_answer(result)))
        case JudgedHypotheses():
            parts, answer = scorecard_parts(result), scorecard_answer(result)
            return (*_warnings(result), *parts, _answer(answer))
    return _of_decisions(result)


def _after_comparison(result: Comparison) -> Iterable[Line]:
    """Yield the analyses and the answer of two runs; none if items alone were compared."""
    if isinstance(result, RunComparison):
        yield from map(Line, analysis_sentences(result))
        yield _answer(str(beside_leak(better_words(result.conclusion), result.data.leak)))


def _of_decisions(result: Result) -> Iterable[Part]:
    match result:
        case Thresholds():
            return present_thresholds(result).parts()
        case ThresholdsCheck():
            return present_thresholds_check(result).parts()
        case AnswerSets():
            return present_answer_sets(result).parts()
        case AnswerSetsCheck():
            return present_answer_sets_check(result).parts()
    message = f"no tables for a result of type {type(result).__name__}"
    raise TypeError(message)


def _answer(text: str) -> Line:
    return Line(text, "strong")


def _warnings(result: _Warned) -> Iterable[Line]:
    for warning in result.warnings:
        if isinstance(warning, DataLeak):
            yield from leak_lines(warning)
        else:
            yield _warning(warning_sentence(warning))


def _warning(sentence: str) -> Line:
    return Line(f"Warning: {sentence}", "caution")


def _part(part: Part) -> Html:
    match part:
        case Line():
            return element("pre", data_text(part.text))
        case Legend():
            return legend_html(part)
        case Table():
            return table_html(part)
