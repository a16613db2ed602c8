"""`pact-eval paper`: figures and tables of runs, or of published metrics, for a paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pact_cli.commands import command, refuse
from pact_cli.console import announce, as_json, emit, verbose, warn
from pact_cli.exits import exit_on_leak
from pact_cli.options import (
    Runs,
    left_out_files,
    named_data,
    names_in,
    output_options,
    settings_options,
)
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.published_paths import is_published
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.plain_text import one_line
from pact_reports.files import write_report
from pact_reports.results import Outputs
from pact_reports.tables.registry import TABLES
from pact_reports.views.report import present_run_report
from pact_reports.views.written_report import present_written_report, skipped_lines
from pact_reports.writers.files import FORMATS as TABLE_FORMATS

_ALL: Final = "all"
_ELSEWHERE: Final = {
    "--latex": "pact-eval paper RUN... --tables all --format latex",
    "--markdown": "pact-eval paper RUN... --tables all --format markdown",
    "--html": "pact-eval report RUN... --html page.html",
}


@command(
    elsewhere=_ELSEWHERE,
    more=(
        *("width", "thresholds", "clear_changes", "allow", "audit"),
        *("resamples", "bootstrap_seed"),
    ),
    settings=("palette",),
)
@output_options(*("style", "width", "palette", "data", "criteria", "clear_changes", "thresholds"))
@settings_options(
    *("method", "decoding", "allow", "resamples", "bootstrap_seed", "audit", "without_leaks")
)
def paper(
    runs: Runs,
    *,
    figures: str | None = None,
    tables: str | None = None,
    model_card: Path | None = None,
    out: Path = Path("paper"),
    format_: str | None = None,
    outputs: Outputs,
    settings: Settings,
) -> None:
    """Write figures and tables of RUNs, or of published metrics.

    Without --figures, --tables and --model-card: all that the runs have data for. What lacks data
    is left out, with the reason. Published metrics are a .csv table, or a released folder with
    results.json files. They have no intervals and tests but those that were published.

    Figures have the width of a printed column: 3.5 inches, or that of a LaTeX template with
    --style. Of published metrics, the figures main, ece-kind and differences show the values; a
    released folder also has selection, training, views, reliability, risk-coverage and both of
    T(x). Tables are LaTeX (booktabs), Markdown and CSV.

    Exits with 3 if items are also in a file that the model is made from (see --without-leaks), and
    with 5 if the criteria differ from the registered ones, or were registered after a run began.

    Output:
        --figures NAME,...: Figures to draw, such as reliability,risk-coverage, or all. Alone: no
            tables.
        --tables NAME,...: Tables to make, such as main,paired, or all. Alone: no figures.
        --model-card FILE: Write the results of one RUN into the metadata and the text of FILE, the
            model card (README.md) of its model. All else in it stays; results on the same data are
            replaced. Alone: no figures and tables.
        -o, --out: Folder to write to; existing files are replaced.
        --format FORMAT,...: Formats of figures (svg, pdf, png) and of tables (latex, markdown,
            csv); markdown also writes report.md with all tables. Default: svg, or pdf with a
            --style for LaTeX; all three of tables.
    """
    settings = replace(settings, data=named_data(outputs.data))
    if model_card is not None:
        _write_card(runs, model_card, settings)
        if figures is None and tables is None:
            return
    chosen = _chosen(outputs, out, figures=figures, tables=tables, formats=format_)
    experiment, chosen, warned = _read(runs, settings, chosen)
    written = write_report(experiment, chosen)
    if written.paths or as_json():
        reasons = verbose() or not (figures is None and tables is None)
        presenter = present_written_report(written, left_out=left_out_files(), reasons=reasons)
        emit(presenter, warned=warned)
    if not written.paths:
        _refuse_nothing(chosen, skipped_lines(written))
    written.check_registration()
    exit_on_leak([written.data])


def _write_card(runs: Sequence[Path], card: Path, settings: Settings) -> None:
    """Write the results of the run into a model card, and print them.

    Raises:
        click.UsageError: there are several runs.
    """
    refuse(len(runs) != 1, f"--model-card: expected one RUN, got {len(runs):,}")
    from pact_reports.model_card import ModelCard  # its libraries may be missing

    experiments, skipped = Experiment.read_each(runs, settings)
    warn(map(str, skipped))
    report = experiments[0].report()
    card_of_run = ModelCard.of(report)
    files = [card] if card_of_run.write(card) else []
    if not files:
        announce([f"{card}: unchanged; it has these results"])
    emit(present_run_report(report, full=False), files=files, full=False)
    exit_on_leak([experiments[0].data])


def _chosen(
    outputs: Outputs, out: Path, *, figures: str | None, tables: str | None, formats: str | None
) -> Outputs:
    """Return the outputs with the figures, tables and formats to write.

    Raises:
        click.UsageError: a name is not known, or a format is of what is not written.
    """
    from pact_reports.figures.files import FORMATS as FIGURE_FORMATS  # it loads Matplotlib
    from pact_reports.figures.registry import FIGURES

    both = figures is None and tables is None
    draws, makes = both or figures is not None, both or tables is not None
    choices = [*(FIGURE_FORMATS if draws else ()), *(TABLE_FORMATS if makes else ())]
    names = [] if formats is None else names_in("--format", formats, choices)
    figure_formats = tuple(name for name in names if name in FIGURE_FORMATS)
    table_formats = tuple(name for name in names if name in TABLE_FORMATS)
    return replace(
        outputs,
        figures=out if draws else None,
        figure_names=_names("--figures", figures, FIGURES),
        figure_formats=figure_formats or None,
        tables=out if makes else None,
        table_names=_names("--tables", tables, TABLES),
        table_formats=table_formats or TABLE_FORMATS,
    )


def _names(option_name: str, text: str | None, choices: Iterable[str]) -> tuple[str, ...]:
    if text is None or text.strip() == _ALL:
        return tuple(choices)
    return tuple(names_in(option_name, text, tuple(choices)))


def _refuse_nothing(outputs: Outputs, reasons: Sequence[str]) -> None:
    """Say why nothing was written.

    Raises:
        InputError: the message has the reasons.
    """
    kinds = {"figure": outputs.figures, "table": outputs.tables}
    names = " and no ".join(kind for kind, folder in kinds.items() if folder is not None)
    raise InputError("\n".join([f"no {names} could be made", *map(one_line, reasons)]))


def _read(
    runs: tuple[Path, ...], settings: Settings, outputs: Outputs
) -> tuple[Experiment, Outputs, tuple[str, ...]]:
    """Read runs, or published metrics if the first path has some, and print warnings.

    Returns:
        The runs, the outputs with the published metrics, and the warnings.
    """
    if not is_published(runs[0]):
        experiment = Experiment.read(runs, settings)
        return experiment, outputs, warn(map(str, experiment.warnings))
    others = [str(path) for path in runs if not is_published(path)]
    if others:
        raise InputError(
            f"expected published metrics alone, or runs alone; got {runs[0]}, {others[0]}"
        )
    outputs = replace(outputs, published=runs)
    warned = warn(metrics.published_text for metrics in [outputs.metrics] if metrics)
    return Experiment((), settings=settings), outputs, warned
