"""The terminal report of one run: rich renderables made from an `Evaluation`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from rich.box import ASCII2, SIMPLE_HEAD, Box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pact_eval._json import Json
from pact_eval.evaluation import CONFIDENT, METRICS, Evaluation, Group, MetricSpec
from pact_eval.prompts import CODES
from pact_eval.stats import Estimate
from pact_reports.numbers import UNDEFINED, count_and_share, estimate_text, p_value_text
from pact_reports.plain_text import cell, lines, one_line, visible

__all__ = [
    "EstimatedGroup",
    "evaluation_report",
    "heading",
    "letter_verdict",
    "metric_tables",
]

_LABEL_WIDTH = 19
_GROUP_WIDTH = 21
_ARROW = {1: " ↑", -1: " ↓", 0: ""}
_SIGNIFICANT = 0.05


class EstimatedGroup(Protocol):
    """A group of items with estimates by metric name."""

    @property
    def name(self) -> str:
        """What its items have in common, or "all"."""

    @property
    def items(self) -> int:
        """Number of items."""

    @property
    def families(self) -> int:
        """Number of families, the clusters of the intervals."""

    @property
    def estimates(self) -> Mapping[str, Estimate]:
        """By metric name."""


def heading(title: str, provenance: Mapping[str, Json]) -> RenderableType:
    """Say which run this is: its folder, arm, seed, adapter, base and data."""
    told = [cell(title, style="bold")]
    for label, key in (
        ("arm", "arm"),
        ("seed", "seed"),
        ("adapter", "adapter"),
        ("base model", "base_model"),
        ("data", "data"),
    ):
        value = provenance.get(key)
        if value is not None:
            told.append(cell(f"  {label + ':':<12}{value}"))
    return Text("\n").join(told)


def evaluation_report(
    evaluation: Evaluation, *, width: int, plain: bool
) -> Iterator[RenderableType]:
    """Lay out the whole report.

    Args:
        evaluation: the numbers.
        width: columns of the terminal; groups that do not fit beside each other go below.
        plain: ASCII rules instead of lines, for output that is piped.

    Yields:
        Renderables in reading order.
    """
    box = ASCII2 if plain else SIMPLE_HEAD
    yield Text(_decoding_line(evaluation))
    yield from metric_tables(evaluation.groups, METRICS, width=width, plain=plain)
    if any(_n_pairs(group) for group in evaluation.groups):
        yield Text("\nHow the pairs come out", style="bold")
        yield _pair_table(evaluation.groups, box)
    yield Text("\nLetters: how often each was picked, and held the right answer", style="bold")
    yield _letter_table(evaluation, box)
    yield Text(letter_verdict(evaluation))
    for note in evaluation.notes:
        yield Text(f"\nNote: {visible(note)}", style="yellow")


def metric_tables(
    groups: Sequence[EstimatedGroup], specs: Sequence[MetricSpec], *, width: int, plain: bool
) -> Iterator[RenderableType]:
    """Lay out one row a metric and one column a group, and why numbers are undefined.

    Args:
        groups: with an estimate of every metric.
        specs: the metrics.
        width: columns of the terminal; groups that do not fit beside each other go below.
        plain: ASCII rules.

    Yields:
        Tables, then lines with reasons.
    """
    box = ASCII2 if plain else SIMPLE_HEAD
    per_table = max(1, (width - _LABEL_WIDTH - 2) // (_GROUP_WIDTH + 3))
    for start in range(0, len(groups), per_table):
        yield _metric_table(groups[start : start + per_table], specs, box)
    yield from _reason_lines(groups, specs)


def _decoding_line(evaluation: Evaluation) -> str:
    how = (
        "view 0 alone"
        if evaluation.decoding == "single"
        else f"{evaluation.k} views, mean canonical log-probability"
    )
    mass = evaluation.mean_answer_mass
    codes = "" if math.isnan(mass) else f"  Answer mass {100 * mass:.1f}% over all views."
    everything = evaluation.groups[0]
    method = next(iter(everything.estimates.values())).method.replace("clusters", "families")
    made = f"{evaluation.decoding}, {evaluation.calibration} ({how}); K = {evaluation.k}"
    return (
        f"Decoding: {made}.{codes}\n"
        f"Rates in %, gain in points, NLL in nats; in brackets the {method}.\n"
        "Score MAE: error of the expected level, and of the top level; confident errors: share of "
        f"errors made with confidence {CONFIDENT} or more."
    )


def _metric_table(groups: Sequence[EstimatedGroup], specs: Sequence[MetricSpec], box: Box) -> Table:
    table = Table(box=box, pad_edge=False, header_style="bold")
    table.add_column("", max_width=_LABEL_WIDTH)
    for group in groups:
        title = lines([group.name, f"{group.items:,} items, {group.families:,} fam."])
        table.add_column(title, max_width=_GROUP_WIDTH)
    for spec in specs:
        label = spec.title + _ARROW[spec.better]
        table.add_row(label, *(_cell(group, spec) for group in groups))
    return table


def _cell(group: EstimatedGroup, spec: MetricSpec) -> Text:
    estimate = group.estimates[spec.name]
    text = Text(estimate_text(estimate, spec.unit))
    if estimate.n and estimate.n != group.items:
        unit = {"pair_accuracy": "pair", "confident_errors": "error"}.get(spec.name, "item")
        basis = f"{estimate.n:,} {unit}{'s' if estimate.n > 1 else ''}"
        if estimate.clusters != estimate.n:
            basis = f"{estimate.n:,} ({estimate.clusters:,} fam.)"
        text.append(f"\nof {basis}", style="dim")
    return text


def _reason_lines(
    groups: Sequence[EstimatedGroup], specs: Sequence[MetricSpec]
) -> Iterator[RenderableType]:
    """Say, once a reason, which numbers of which groups are undefined or qualified."""
    metrics: dict[tuple[str, str], list[str]] = {}
    for spec in specs:
        reasons: dict[str, list[str]] = {}
        for group in groups:
            reason = group.estimates[spec.name].reason
            if reason is not None:
                reasons.setdefault(reason, []).append(group.name)
        for reason, names in reasons.items():
            where = "" if len(names) == len(groups) else f" ({', '.join(names)})"
            metrics.setdefault((reason, where), []).append(spec.title)
    for (reason, where), titles in metrics.items():
        yield Text(f"{UNDEFINED} {', '.join(titles)}{one_line(where)}: {reason}", style="dim")


def _n_pairs(group: Group) -> int:
    pairs = group.pairs
    return pairs.both_right + pairs.only_base + pairs.only_counterfactual + pairs.neither


def _pair_table(groups: Sequence[Group], box: Box) -> Table:
    table = Table(box=box, pad_edge=False, header_style="bold")
    table.add_column("")
    for title in (
        "pairs",
        "both right",
        "only base",
        "only counterf.",
        "neither",
        "same answer to both",
    ):
        table.add_column(title, justify="right")
    for group in groups:
        total, pairs = _n_pairs(group), group.pairs
        counts = (
            pairs.both_right,
            pairs.only_base,
            pairs.only_counterfactual,
            pairs.neither,
            pairs.same_answer,
        )
        table.add_row(
            cell(group.name), f"{total:,}", *(count_and_share(count, total) for count in counts)
        )
    return table


def _letter_table(evaluation: Evaluation, box: Box) -> Table:
    letters = evaluation.letters
    table = Table(box=box, pad_edge=False, header_style="bold")
    table.add_column("letter")
    for code in CODES[: len(letters.observed)]:
        table.add_column(code, justify="right")
    table.add_row("picked", *(f"{count:,}" for count in letters.observed))
    table.add_row("right answer", *(f"{count:,}" for count in letters.expected))
    return table


def letter_verdict(evaluation: Evaluation) -> str:
    """Say whether letters are picked as often as the right answer stands behind them."""
    letters = evaluation.letters
    basis = f"{letters.units:,} item views, {letters.clusters:,} families"
    if letters.reason is not None:
        return f"Letter preference: no test ({letters.reason})."
    excess = [int(a) - int(b) for a, b in zip(letters.observed, letters.expected, strict=True)]
    favourite = CODES[max(range(len(excess)), key=excess.__getitem__)]
    test = (
        f"chi-squared {letters.chi2:.2f} on {letters.dof}, {p_value_text(letters.p_value)}; "
        f"Stuart-Maxwell over slots, by family; {basis}"
    )
    if letters.p_value >= _SIGNIFICANT:
        return f"No letter stands out from its share ({test})."
    return f"Letters are not picked as they are right: {favourite} is favoured ({test})."
