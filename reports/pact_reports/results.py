"""Results as tables: HTML for notebooks, and text for `print`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from pact_eval.drift.run_comparison import RunComparison
from pact_eval.evaluation.arms.comparison import ArmsComparison
from pact_eval.evaluation.comparison import Comparison
from pact_eval.evaluation.conclusions.data import DataLeak
from pact_eval.results import Result
from pact_reports.markup import Html, data_text, element, joined
from pact_reports.presenters.registry import presenter_of
from pact_reports.sentences.conclusions import beside_leak, better_words
from pact_reports.sentences.data import leak_lines
from pact_reports.sentences.drift import analysis_sentences
from pact_reports.sentences.notes import warning_sentence
from pact_reports.table import Legend, Line, Part, Table
from pact_reports.tables.comparison import arms_parts, comparison_parts
from pact_reports.writers import terminal
from pact_reports.writers.html import legend_html, table_html

_COLUMNS: Final = 92

_Warned: TypeAlias = Comparison


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
        case Comparison():
            return (*_warnings(result), *comparison_parts(result), *_after_comparison(result))
        case ArmsComparison():
            return arms_parts(result, show_items=False)
    return presenter_of(result).parts()


def _after_comparison(result: Comparison) -> Iterable[Line]:
    """Yield the analyses and the answer of two runs; none if items alone were compared."""
    if isinstance(result, RunComparison):
        yield from map(Line, analysis_sentences(result))
        yield _answer(str(beside_leak(better_words(result.conclusion), result.data.leak)))


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
