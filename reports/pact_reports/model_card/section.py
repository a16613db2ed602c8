"""The section of a model card on the results of a run: Markdown, between two comments.

The comments name the data. A card has one section per dataset, and writing it again replaces it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import RunReport
from pact_eval.numbers import sample_text
from pact_eval.runs.seal import seal_digest
from pact_reports.model_card.front_matter import line_end
from pact_reports.model_card.results import CardDataset, card_metrics
from pact_reports.tables.cells import leak_lines
from pact_reports.views.brief import not_known_text, report_line
from pact_reports.views.report import decoding_text, metrics_table
from pact_reports.writers.markdown import markdown_text, to_markdown

_FOLDERS: Final = re.compile(r"(?<![\w.:/\\])(?:[A-Za-z]:[\\/]|[/~])(?:[^\s\\/,;()]*[\\/])*")


def section_of(report: RunReport, dataset: CardDataset) -> str:
    """Write what a run is worth: the answer, the conclusions, the metrics, and where they are from.

    A leak comes first, in a paragraph of its own, and the answer begins with it. Runs and files
    are called by their names, so the card has no path of this machine.

    Args:
        report: on a run on full contexts.
        dataset: its data.
    """
    evaluation, leak = report.evaluation, report.experiment.data.leak
    paragraphs = [f"## Evaluation on {markdown_text(dataset.name)}"]
    paragraphs += [f"**{_markdown(line.text)}**" for line in leak_lines(leak)]
    paragraphs.append(f"**{_markdown(report_line(evaluation, leak))}**")
    paragraphs.append("\n".join(f"- {_markdown(line)}" for line in _lines(report)))
    specs = card_metrics(report)
    table = metrics_table(evaluation.groups[:1], specs, evaluation.unit)
    table = replace(table, title="Metrics", caption=" ".join(decoding_text(evaluation).split()))
    paragraphs.append(to_markdown(table).rstrip("\n"))
    paragraphs.append("\n".join(f"- {line}" for line in _sources(report, dataset)))
    return "\n\n".join(paragraphs)


def _lines(report: RunReport) -> Iterator[str]:
    """Yield conclusions, open questions, warnings and notes."""
    yield from (conclusion.sentence for conclusion in report.conclusions)
    if unknown := not_known_text(report.conclusions):
        yield f"Not known: {unknown}."
    names = {run.place: run.name for run in report.experiment.all_runs}
    warnings = (_by_name(warning, names) for warning in report.warnings)
    yield from (f"Warning: {warning!s}" for warning in warnings)
    yield from (f"Note: {note!s}" for note in report.evaluation.notes)


def _by_name(warning: Any, names: Mapping[str, str]) -> Any:
    """Return a warning with the names of runs in place of their folders."""

    def name(place: str) -> str:
        return names.get(place, Path(place).name)

    folders = {field: getattr(warning, field, None) for field in ("run", "first", "other")}
    named: dict[str, Any] = {
        field: name(place) for field, place in folders.items() if isinstance(place, str)
    }
    counts = getattr(warning, "runs", None)
    if isinstance(counts, Mapping):
        named["runs"] = {name(place): count for place, count in counts.items()}
    return replace(warning, **named)


def _markdown(text: str) -> str:
    r"""Return text as Markdown; of an absolute path, its last part.

    Examples:
        >>> _markdown("not the one of /home/me/data/manifest.json; 1/2")
        'not the one of manifest.json; 1/2'
    """
    return markdown_text(_FOLDERS.sub("", text))


def _sources(report: RunReport, dataset: CardDataset) -> Iterator[str]:
    """Yield the data, the seal of the run, and the digest of the report."""
    seal = report.run.provenance.seal
    yield f"Data: {markdown_text(dataset.name)}, revision `{dataset.revision}`."
    if seal is not None:
        everything = report.evaluation.groups[0]
        sample = sample_text(everything.items, everything.clusters, report.evaluation.unit)
        yield f"Run: {markdown_text(report.run.label)}, {sample}, seal `{seal_digest(seal)}`."
    version = metadata.version("pact-eval")
    yield f"Report: pact-eval {version}, digest `{report.digest.sha256}`."


def with_section(text: str, section: str, dataset: CardDataset, place: Path) -> str:
    r"""Return a card with a section; the one on the same data is replaced.

    Args:
        text: the card, or its part below the front matter.
        section: Markdown.
        dataset: the data of the section.
        place: the file, for messages.

    Raises:
        InputError: the comment before or after the section is missing, or occurs twice.

    Examples:
        >>> data = CardDataset("holdout", "holdout.jsonl", "0" * 64)
        >>> once = with_section("# A model\n", "## New", data, Path("README.md"))
        >>> print(once, end="")
        # A model
        <BLANKLINE>
        <!-- pact-eval results 97e53feac9ef -->
        ## New
        <!-- end of pact-eval results 97e53feac9ef -->
        >>> with_section(once, "## New", data, Path("README.md")) == once
        True
    """
    first = f"<!-- pact-eval results {dataset.key} -->"
    last = f"<!-- end of pact-eval results {dataset.key} -->"
    end = line_end(text)
    written = "\n".join((first, section, last)).replace("\n", end)
    start, stop = text.find(first), text.find(last)
    if (text.count(first), text.count(last)) == (0, 0):
        gap = "" if not text or text.endswith(2 * end) else end
        newline = "" if not text or text.endswith(end) else end
        return f"{text}{newline}{gap}{written}{end}"
    if (text.count(first), text.count(last)) != (1, 1) or stop < start:
        at = start if start >= 0 else stop
        message = (
            f"{place}:{text.count(chr(10), 0, at) + 1}: expected one comment {first!r} and one "
            f"{last!r} after it; remove both, and the section is written at the end"
        )
        raise InputError(message)
    return f"{text[:start]}{written}{text[stop + len(last) :]}"
