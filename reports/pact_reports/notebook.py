"""Results as HTML tables, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from pact_eval.audit import AdapterAudit, DataAudit
from pact_eval.evaluation import ArmsComparison, Comparison, Evaluation
from pact_reports.markup import Html, data_text, element, joined
from pact_reports.sentences import warning_sentence
from pact_reports.table import Legend, Line, Part, Table
from pact_reports.tables.adapter import adapter_parts
from pact_reports.tables.audit import data_audit_parts
from pact_reports.tables.comparison import arms_parts, comparison_parts
from pact_reports.tables.report import evaluation_parts
from pact_reports.writers.html import legend_html, table_html

Result: TypeAlias = Evaluation | Comparison | ArmsComparison | DataAudit | AdapterAudit
"""What a notebook shows as tables."""


def to_html(result: Result) -> str:
    """Lay out a result as HTML that needs no style sheet and runs no script.

    Args:
        result: of `pact_eval.evaluate`, `compare`, `audit_dataset` or `audit_adapter`.

    Returns:
        HTML; all text from data is escaped.
    """
    return joined(_part(part) for part in parts_of(result)).text


def parts_of(result: Result) -> Iterable[Part]:
    """Return the tables and lines of a result, in the order of the terminal report."""
    match result:
        case Evaluation():
            return (*_warnings(result), *evaluation_parts(result))
        case Comparison():
            return (*_warnings(result), *comparison_parts(result, names=("A", "B")))
        case ArmsComparison():
            return arms_parts(result, show_items=False)
        case DataAudit():
            return data_audit_parts(result, fail_on="error")
        case AdapterAudit():
            return adapter_parts([result], None, fail_on="error")


def _warnings(result: Evaluation | Comparison) -> tuple[Line, ...]:
    return tuple(Line(f"Warning: {warning_sentence(each)}", "caution") for each in result.warnings)


def _part(part: Part) -> Html:
    match part:
        case Line():
            return element("pre", data_text(part.text))
        case Legend():
            return legend_html(part)
        case Table():
            return table_html(part)
