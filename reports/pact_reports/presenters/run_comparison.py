"""The comparison of two runs, or of a run with each of several others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from pact_eval._json import Json
from pact_eval.data.records import Record
from pact_eval.drift.run_comparison import RunComparison
from pact_eval.evaluation.comparison import Comparison
from pact_eval.evaluation.conclusions.better import several_line
from pact_eval.evaluation.conclusions.data import beside_leak
from pact_reports.presenters.comparison import experiment_json, heading
from pact_reports.presenters.drift import tempering_json
from pact_reports.presenters.presenter import Presenter, answer_lines
from pact_reports.sentences.brief import mass_lines
from pact_reports.sentences.drift import analysis_sentences
from pact_reports.table import Line, Part
from pact_reports.tables.brief_comparison import (
    answer_masses,
    brief_comparison,
    brief_comparisons,
)
from pact_reports.tables.cells import leak_lines
from pact_reports.tables.comparison import comparison_parts
from pact_reports.tables.differing_items import differing_json, differing_parts
from pact_reports.writers.json import answer_json, to_json


def present(
    *comparisons: RunComparison,
    full: bool = True,
    show_items: bool = False,
    records: Mapping[str, Record] | None = None,
) -> Presenter:
    """Present the comparison of the first run with each of the others.

    Args:
        comparisons: one for each of the others, from one experiment.
        full: show every table below the answer; otherwise at most twelve lines.
        show_items: show the items that only one of two runs answers correctly.
        records: their questions and answers; None if these are not known.
    """
    experiment = comparisons[0].experiment

    def blocks() -> Iterable[Iterable[Part]]:
        if full:
            return (_block(pair, records, show_items=show_items) for pair in comparisons)
        return (_brief(comparisons, records, show_items=show_items),)

    def as_json() -> dict[str, Json]:
        better = [comparison.conclusion for comparison in comparisons]
        items = [
            {"items": differing_json(comparison, records)} if show_items else {}
            for comparison in comparisons
        ]
        return {
            "answer": answer_json([experiment.data], better),
            **experiment_json(experiment),
            "comparisons": [
                _pair_json(comparison, only_one)
                for comparison, only_one in zip(comparisons, items, strict=True)
            ],
        }

    return Presenter(
        tables=lambda: (
            part
            for comparison in comparisons
            for part in (
                *comparison_parts(comparison),
                *map(Line, analysis_sentences(comparison)),
            )
        ),
        to_json=as_json,
        warnings=[*map(str, experiment.applied_warnings)],
        answers=lambda: map(_answer, comparisons),
        leak=lambda: experiment.data.leak,
        headline=lambda: [
            several_line([pair.conclusion for pair in comparisons], experiment.data.leak)
        ],
        blocks=blocks,
    )


def _block(
    comparison: RunComparison, records: Mapping[str, Record] | None, *, show_items: bool
) -> Iterable[Part]:
    """Lay out every table of a comparison, between its answer in short and in full."""
    first, second = comparison.runs
    return (
        *leak_lines(comparison.data.leak),
        *answer_lines([_headline(comparison)]),
        *mass_lines(answer_masses([comparison])),
        *heading(comparison.experiment),
        *comparison_parts(comparison, names=(first.title, second.title)),
        *(_differing(comparison, records) if show_items else ()),
        *map(Line, analysis_sentences(comparison)),
        *answer_lines([_answer(comparison)]),
    )


def _brief(
    comparisons: Sequence[RunComparison], records: Mapping[str, Record] | None, *, show_items: bool
) -> Iterable[Part]:
    """Lay out the answer in at most twelve lines, and the items if they are shown."""
    analysed = [Line(text) for pair in comparisons for text in analysis_sentences(pair)]
    if len(comparisons) > 1:
        parts = brief_comparisons(comparisons, analysed, items=show_items)
    else:
        parts = brief_comparison(comparisons[0], analysed, items=show_items)
    shown = comparisons if show_items else ()
    return (*parts, *(part for pair in shown for part in _differing(pair, records)))


def _differing(comparison: RunComparison, records: Mapping[str, Record] | None) -> tuple[Part, ...]:
    conclusion = comparison.conclusion
    return differing_parts(comparison, records, (conclusion.left, conclusion.right))


def _headline(comparison: RunComparison) -> str:
    return several_line([comparison.conclusion], comparison.data.leak)


def _answer(comparison: RunComparison) -> str:
    return str(beside_leak(comparison.conclusion.words, comparison.data.leak))


def _pair_json(comparison: RunComparison, items: Mapping[str, Json]) -> Json:
    a, b = (run.place for run in comparison.runs)
    numbers = {field.name: to_json(getattr(comparison, field.name)) for field in fields(Comparison)}
    # Warnings and conclusions of all comparisons are next to them.
    numbers |= {"warnings": [], "conclusion": None}
    tempering = comparison.tempering
    analyses = {
        "tempering": None if tempering is None else tempering_json(tempering),
        "quantising": comparison.quantising,
        "prior_removal": comparison.prior_removal,
    }
    shown = {name: to_json(analysis) for name, analysis in analyses.items() if analysis is not None}
    return {"a": a, "b": b, "comparison": numbers, **items, **shown}
