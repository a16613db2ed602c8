"""Probabilities against correctness: reliability, and the confidence of right and wrong answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.arms.released_results import (
    released_figures,
    released_reliability,
    released_temperature_by_choices,
    released_temperature_by_length,
)
from pact_eval.evaluation.arms.released_training import ReleasedTraining
from pact_eval.evaluation.curves.probabilities import (
    ReliabilityCurve,
    RunConfidence,
    RunReliability,
    TemperatureByChoices,
    TemperatureByLength,
    answer_confidence,
    reliability,
    temperature_by_choices,
    temperature_by_length,
)
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.registry import CONFIDENT
from pact_eval.numbers import has_width
from pact_eval.stats.estimate import Estimate
from pact_reports.figures.axes import (
    arms_and_seeds,
    band_mark,
    counts_text,
    dot_mark,
    fill_band,
    headed,
    line_mark,
    with_legend,
    with_whiskers,
)
from pact_reports.figures.figure import Built, FigureFile, Panel, each_run, run_stem, uncalibrated
from pact_reports.figures.style import INK, MUTED, PAPER, RIGHT, WRONG, ArmStyle, Looks, shown
from pact_reports.request import Request
from pact_reports.tables.cells import CALIBRATION_ERROR

if TYPE_CHECKING:
    from matplotlib.axes import Axes


CONSISTENCY: Final = (
    "Lines need no bins: isotonic regression pools items until accuracy rises with confidence "
    "(CORP). 95% of such lines of a calibrated model with the same confidences and families lie in "
    "the band around the diagonal, point by point. ECE is that of the bins with markers."
)
"""Shown next to the figure of reliability."""

_MOST_RUNS = 4
_LONGEST_TITLE = 18
"""Of a panel that is half a column wide."""
_STRIP = 0.16
_LARGEST_AREA = 26.0
_SMALLEST_AREA = 3.0
_MEDIAN_ROOM = 0.09
"""Of both histograms: the room for a median outside of them."""


def draw_reliability(
    runs: Sequence[RunReliability],
    ax: Axes,
    looks: Looks,
    *,
    calibrated: bool = False,
    title: str = "",
    number: int = 0,
) -> Axes:
    """Draw accuracy against confidence in a square, with a strip of counts above.

    A run has a line by isotonic regression (CORP), its 95% consistency band around the diagonal,
    and a hollow marker per bin, whose area grows with its items. Several runs have lines only:
    their bands and markers would hide each other. In SVG, the markers are the group "bins-NUMBER"
    ("bins-after-NUMBER" after T(x)), in the order of the bins that hold items.

    Args:
        runs: one or more; their arms differ.
        ax: the panel; the strip becomes an inset above it.
        looks: of the arms.
        calibrated: draw the curves after T(x), of the runs that have them.
        title: names the only run of the panel, with its ECE; without one, the legend does.
        number: of the panel in its file, for the group of markers.
    """
    ax.plot([0, 100], [0, 100], color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)), zorder=2)
    strip = ax.inset_axes((0.0, 1.03, 1.0, _STRIP), sharex=ax)
    curves = [
        (run, curve) for run in runs for curve in run.curves if curve.calibrated == calibrated
    ]
    isotonic, alone = any(curve.isotonic for _, curve in curves), len(curves) == 1
    entries: dict[str, Any] = {}
    for run, curve in curves:
        style, bins = looks.arms[run.arm], curve.bins
        if curve.isotonic is not None:
            pools = curve.isotonic.pools
            ends = 100 * np.ravel([pools.lowest, pools.highest], order="F")
            look: dict[str, Any] = {"color": style.colour, "marker": "", "zorder": 4}
            (line,) = ax.plot(ends, 100 * np.repeat(pools.accuracy, 2), **look)
            # Named with its ECE, before and after T(x): the same label in both panels.
            named = {True: "after T(x)", False: shown(looks.names.run(run.run), 22)}
            label = "\n".join(f"{named[each.calibrated]}: {_ece(each)}" for each in run.curves)
            entries |= {} if title else {label: line}
        if alone:
            _draw_bins(ax, curve, style, f"{'bins-after-' if calibrated else 'bins-'}{number}")
        edges = 100 * np.linspace(0, 1, len(bins.count) + 1)
        strip.stairs(bins.count, edges, color=style.colour, linewidth=1.0)
    entries |= {"isotonic (CORP)": line_mark(ax)} if isotonic else {}
    if alone:
        entries[f"{len(curves[0][1].bins.count)} bins, area: items"] = dot_mark(ax, hollow=True)
        entries |= {"95% if calibrated": band_mark(ax)} if isotonic else {}
    ax.set_box_aspect(1)
    ticks = range(0, 101, 20)
    ax.set(xlim=(0, 100), xticks=ticks, xlabel="Confidence (%)")
    ax.set(ylim=(0, 100), yticks=ticks, ylabel="Accuracy (%)")
    most = max(int(curve.bins.count.max()) for _, curve in curves)
    strip.set(ylim=(0, 1.05 * most), yticks=[most], ylabel="Items")
    strip.tick_params(axis="x", labelbottom=False)
    same = {(run.items, run.families) for run, _ in curves}
    below = f"{'T(x): ' if calibrated else ''}{_ece(curves[-1][1])}"
    if not title and isotonic:
        below = counts_text(*same.pop()) if len(same) == 1 else ""
    when = "After T(x)" if calibrated else "Before T(x)" if _both(runs) else ""
    headed(strip, title or when, below)
    return with_legend(ax, entries)


def _ece(curve: ReliabilityCurve) -> str:
    return f"ECE {_percent_with_interval(curve.ece)}"


def _both(runs: Sequence[RunReliability]) -> bool:
    return any(curve.calibrated for run in runs for curve in run.curves)


def _draw_bins(ax: Axes, curve: ReliabilityCurve, style: ArmStyle, name: str) -> None:
    """Draw the band and the bins of the only curve of a panel."""
    if curve.isotonic is not None:
        x = 100 * curve.isotonic.confidence
        fill_band(ax, x, curve.isotonic.band, style.colour, 0.14, zorder=1)
    bins = curve.bins
    filled = bins.count > 0
    look: dict[str, Any] = {"marker": style.marker, "linewidths": 0.8, "zorder": 3, "gid": name}
    look |= {"facecolors": PAPER, "edgecolors": style.colour}
    ax.scatter(
        100 * bins.mean_confidence[filled],
        100 * bins.accuracy[filled],
        s=_SMALLEST_AREA + _LARGEST_AREA * bins.count[filled] / bins.count.max(),
        clip_on=False,  # accuracies of 0% and 100% are common in small bins
        **look,
    )


def draw_confidence(result: RunConfidence, ax: Axes, names: ArmNames = KEYS) -> Axes:
    """Draw right answers upwards and wrong ones downwards, and their medians outside of them."""
    up, down = (max(int(answers.count.max()), 1) for answers in (result.right, result.wrong))
    room = _MEDIAN_ROOM * (up + down)
    entries: dict[str, Any] = {}
    for name, answers, sign, colour, marker, height in (
        ("right", result.right, 1, RIGHT, "o", up + room),
        ("wrong", result.wrong, -1, WRONG, "X", -down - room),
    ):
        counts, edges = sign * answers.count, 100 * result.edges
        stairs = ax.stairs(counts, edges, color=colour, alpha=0.75, linewidth=0.8, fill=True)
        if not math.isnan(answers.median):
            median = (100 * answers.median, 100 * answers.low, 100 * answers.high)
            with_whiskers(ax, median, height, colour, marker=marker, capsize=2, elinewidth=1)
        # An interval of no width does not mean certainty.
        known = not math.isnan(answers.low) and answers.low != answers.high
        interval = f" [{100 * answers.low:.1f}, {100 * answers.high:.1f}]" if known else ""
        median_text = f"{_percent(answers.median)}{interval}"
        entries[f"{name} ({answers.items:,}): median {median_text}"] = stairs
    ax.axvline(100 * CONFIDENT, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)), zorder=0)
    filled = np.flatnonzero(result.right.count + result.wrong.count)
    ax.set(
        xlim=(100 * result.edges[filled[0]] - 1 if filled.size else 0, 101),
        ylim=(-down - 2 * room, up + 2 * room),
        xlabel="Confidence: probability of the answer given (%)",
        ylabel="Items per 5 points\n↓ wrong, right ↑",
    )
    ax.axhline(0, color=INK, linewidth=0.6)
    ax.locator_params(axis="y", integer=True)
    ax.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    below = f"{counts_text(result.items, result.families)}; whiskers: 95% over families"
    headed(ax, shown(names.run(result.run)), below)
    share = _percent_with_interval(result.confident_errors)
    of_errors = "" if math.isnan(result.confident_errors.value) else " of errors"
    (blank,) = ax.plot([], [], color=INK, linestyle="none")
    return with_legend(ax, entries | {f"errors at 90% or more: {share}{of_errors}": blank})


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f}%"


def _percent_with_interval(estimate: Estimate) -> str:
    value = _percent(estimate.value)
    if math.isnan(estimate.value) or not has_width(estimate):
        return value
    return f"{value} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def build_reliability(request: Request) -> Built:
    """Build one file per seed with the runs of all arms; a run without a seed is in each.

    Published metrics have one file per run of which a released folder has the bins, without lines
    and bands.
    """
    looks, missing = request.looks, uncalibrated(request)
    groups: list[tuple[str, list[RunReliability]]] = []
    if request.published is not None:
        groups = [
            (run_stem("reliability", *data.run), [released_reliability(data)])
            for data in released_figures(request.published)
        ]
    else:
        experiment, results = request.experiment, {}

        def gather(run: ExperimentRun, _name: str) -> FigureFile:
            results[run.label] = reliability(experiment, run)
            return FigureFile("reliability", "", ())

        missing = (*each_run(request, experiment.runs, gather).missing, *missing)
        for name, runs in compared_runs(experiment):
            known = [results[run.label] for run in runs if run.label in results]
            groups += [(name, known)] if known else []
    files = (_reliability_file(name, runs, looks) for name, runs in groups)
    return Built(tuple(files), missing)


def _reliability_file(name: str, runs: Sequence[RunReliability], looks: Looks) -> FigureFile:
    alone = len(runs) == 1
    panels: list[Panel] = []
    for number, run in enumerate(runs):
        title = "" if alone else shown(looks.names.run(run.run), _LONGEST_TITLE)
        panel = partial(draw_reliability, [run], looks=looks, title=title, number=number)
        panels += [panel, partial(panel, calibrated=True)] if _both([run]) else [panel]
    named = ", ".join(looks.names.run(run.run) for run in runs)
    return FigureFile(
        name,
        f"Reliability of {named}",
        tuple(panels),
        shows="accuracy against confidence",
        square=True,
        panel_inches=2.5 if alone else 1.5,
        note="" if alone else counts_text(runs[0].items, runs[0].families),
        caption="" if runs[0].families is None else f"{CALIBRATION_ERROR} {CONSISTENCY}",
    )


def compared_runs(experiment: Experiment) -> list[tuple[str, list[ExperimentRun]]]:
    """Return the runs that share a file, at most four, and its name.

    These are the runs of each seed, and the runs without a seed with each of them. If no two arms
    share a seed and every arm has one run, all runs share a file.
    """
    ordered = [run for runs in experiment.arms.values() for run in runs]
    seeds = dict.fromkeys(run.seed for run in experiment.runs if run.seed is not None)
    groups = [
        (f"seed {seed}", [run for run in ordered if run.seed in (seed, None)]) for seed in seeds
    ]
    if not seeds or (
        all(len(runs) == 1 for _, runs in groups)
        and all(len(runs) == 1 for runs in experiment.arms.values())
    ):
        groups = [("", ordered)]
    files = []
    for name, runs in groups:
        parts = [runs[at : at + _MOST_RUNS] for at in range(0, len(runs), _MOST_RUNS)]
        for number, part in enumerate(parts, start=1):
            alone = run_stem("reliability", part[0].arm, part[0].seed)
            several = run_stem("reliability", name, number if len(parts) > 1 else None)
            files.append((alone if len(part) == 1 else several, part))
    return files


def build_confidence(request: Request) -> Built:
    """Build one file per run."""

    def file(run: ExperimentRun, name: str) -> FigureFile:
        result = answer_confidence(request.experiment, run)
        panel = partial(draw_confidence, result, names=request.names)
        title = f"Confidence of right and wrong answers of {name}, uncalibrated"
        return FigureFile("confidence", title, (panel,))

    return each_run(request, request.experiment.runs, file)


_RAMP = ("#00204C", "#31446B", "#575C6D", "#7C7B78", "#A69C6B", "#C9B252")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")


def draw_length(result: TemperatureByLength, ax: Axes, names: ArmNames = KEYS) -> Axes:
    """Draw T(x) against the prompt length: thick where 90% of the items lie, thin beyond."""
    entries: dict[str, Any] = {}
    for number, curve in enumerate(result.curves):
        place = number * (len(_RAMP) - 1) / max(1, len(result.curves) - 1)
        colour = _RAMP[round(place)]
        low, high = curve.middle or (curve.tokens[0], curve.tokens[-1])
        inside = (curve.tokens >= low) & (curve.tokens <= high)
        ax.plot(curve.tokens, curve.temperature, color=colour, linewidth=0.6)
        look: dict[str, Any] = {"color": colour, "marker": _MARKERS[number % len(_MARKERS)]}
        look |= {"linewidth": 1.6, "markevery": max(1, int(inside.sum()) // 4)}
        (thick,) = ax.plot(curve.tokens[inside], curve.temperature[inside], **look)
        entries[f"C = {curve.n_choices} ({curve.items:,})"] = thick
    _neutral(ax)
    ax.set(xlabel="Prompt length L (tokens)", ylabel="Temperature T(x) (no unit)")
    known = all(curve.middle is not None for curve in result.curves)
    lengths = "thick: middle 90% of lengths" if known else "lengths not published"
    below = f"n = {result.items:,} items; {lengths}"
    headed(ax, shown(names.run(result.run)), below)
    unknown = "; slope on L not identified" if result.identified is False else ""
    return with_legend(ax, entries, title=f"allowed answers C (items){unknown}")


def draw_choices(result: TemperatureByChoices, ax: Axes, looks: Looks) -> Axes:
    """Draw T against C for every run; hollow markers where the slope on C is not identified."""
    for run in result.runs:
        style = looks.arms[run.arm]
        face = PAPER if run.identified is False else style.colour
        look: dict[str, Any] = {"color": style.colour, "marker": style.marker}
        look |= {"linestyle": looks.dash(run.seed), "markerfacecolor": face}
        ax.plot(run.n_choices, run.temperature, **look)
    _neutral(ax)
    length = "" if math.isnan(result.tokens) else f" at L = {result.tokens:,.0f} tokens"
    ax.set(
        xticks=sorted({int(c) for run in result.runs for c in run.n_choices}),
        xlabel="Allowed answers C",
        ylabel="Temperature T (no unit)",
    )
    below = f"n = {len(result.runs)} run{'s' if len(result.runs) > 1 else ''}{length}"
    if any(run.identified is False for run in result.runs):
        below += "; hollow: slope not identified"
    headed(ax, "", below)
    return with_legend(ax, arms_and_seeds(ax, [(run.arm, run.seed) for run in result.runs], looks))


def _neutral(ax: Axes) -> None:
    ax.axhline(1.0, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)), zorder=0)


def build_length(request: Request) -> Built:
    """Build one file per run with a calibrator that depends on the length."""
    metrics = request.published

    def file(name: str, result: TemperatureByLength) -> FigureFile:
        panel = partial(draw_length, result, names=request.names)
        title = f"Temperature T(x) of {name} against prompt length, for each number of answers"
        return FigureFile("temperature-length", title, (panel,))

    if metrics is None:
        runs = request.experiment.runs
        return each_run(request, runs, lambda run, name: file(name, temperature_by_length(run)))
    if not metrics.trainings:
        raise InputError("no calibrator is released: expected a folder with calibration.json files")

    def released_file(run: ReleasedTraining, name: str) -> FigureFile:
        return file(name, released_temperature_by_length(metrics, run))

    return each_run(request, metrics.trainings, released_file)


def build_choices(request: Request) -> Built:
    """Build the file of T against C."""
    if request.published is None:
        result = temperature_by_choices(request.experiment)
    else:
        result = released_temperature_by_choices(request.published)
    panel = partial(draw_choices, result, looks=request.looks)
    title = "Temperature T against the number of allowed answers C, for every run"
    file = FigureFile("temperature-choices", title, (panel,))
    return Built((file,), uncalibrated(request, "no calibrator"))
