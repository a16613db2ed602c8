"""`pact-eval import`: import logs and predictions as a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pact_cli.commands import LazyChoice, choice, command, option
from pact_cli.console import announce
from pact_cli.hub_places import data_file_here
from pact_cli.labelled import announce_labelled, reading_options
from pact_cli.options import (
    DATASET,
    PATH,
    RUN_OR_LOG,
    gathered,
    json_option,
    label_options,
    path_argument,
)
from pact_cli.report import print_reports
from pact_eval._choices import LogMetric, SeveralRight
from pact_eval.importing.registry import source_names

if TYPE_CHECKING:
    from pact_eval.data.labelled.reading import Reading
    from pact_eval.importing.source import ImportOptions
    from pact_eval.runs.provenance import RunLabels


def _options(pairs: tuple[str, ...], **options: Any) -> ImportOptions:
    from pact_eval.importing.row_reader import parse_mapping
    from pact_eval.importing.source import ImportOptions

    return ImportOptions(mapping=parse_mapping(pairs), **options)


_read = gathered(
    "options",
    _options,
    [
        option(
            "--from",
            "source",
            type=LazyChoice(source_names),
            help="Format of the log. Default: what its content looks like.",
        ),
        option(
            "--map",
            "pairs",
            group="Data",
            multiple=True,
            metavar="COLUMN=NAME",
            help="Name of one of our columns in a file of rows; may be given several times.",
        ),
        option(
            "--data",
            group="Data",
            metavar="FILE",
            type=DATASET,
            help="Dataset file with the references of rows of your own, joined by id: records, or "
            "labelled data of a known shape; also hf://datasets/OWNER/NAME[@REVISION][/PATH].",
        ),
        option(
            "--family-from",
            metavar="COLUMN[~REGEX]",
            help="What names the family: a value of the log, such as doc.article, or the part of "
            "it that a regular expression matches (its first group, if it has one).",
        ),
        option(
            "--domain-from",
            metavar="COLUMN[~REGEX]",
            help="What names the domain, in the same way.",
        ),
        option(
            "--suite",
            "suites",
            multiple=True,
            type=PATH,
            help="Rows of the Decision Index suite, with the references of its results; may be "
            "given several times.",
        ),
        option(
            "--filter",
            help="Filter of lm-evaluation-harness whose answers are read, if there are several; of "
            "HELM, the split or perturbation, such as valid or test/typos.",
        ),
        option(
            "--metric",
            type=choice(LogMetric),
            help="Metric of lm-evaluation-harness by which answers and probabilities are read. "
            "Default: acc, or the first that the log has.",
        ),
        option(
            "--multi",
            type=choice(SeveralRight),
            help="Read questions with several right answers: any of them counts. Default: such "
            "questions are refused.",
        ),
        option(
            "--scorer",
            help="Inspect scorer whose scores are read, and their reducer after a colon, such as "
            "choice:mean. Default: choice, or the only one.",
        ),
    ],
)


@command("import")
@path_argument("log", "LOG", RUN_OR_LOG)
@option(
    "--out",
    type=PATH,
    help="Run folder to write. Default: the name of the log, in runs/.",
)
@_read
@reading_options
@label_options
@json_option
def import_rows(
    log: Path,
    out: Path | None,
    options: ImportOptions,
    reading: Reading,
    labels: RunLabels,
    as_json: bool,
) -> None:
    """Import a log or predictions as a run, and report on it.

    LOG is a file, a folder, or a URL of an object store, such as s3://bucket/rows/*.parquet.

    A table is CSV, JSON or Parquet (a file, or a folder of files). A row has the right answer
    (label, answer, reference, ...), and probabilities, log-probabilities or logits as a list, by
    name, or in one column per answer; or the prediction alone. If two readings fit every row, the
    command names both, and the option that decides.

    Rows of our own format have id, reference (from 0), and probabilities, logits or
    log_probabilities in canonical order; or answer and n_choices. Optional: family, source_family,
    domain, kind, variant, view, code_order, prompt_tokens, answer_mass, status and reason.

    Several views of one order are repeats (epochs, trials): the report gives the mean over them.
    """
    from pact_eval.importing.writing import default_folder, import_run

    out = default_folder(log) if out is None else out
    options = replace(options, reading=reading)
    if options.data is not None:
        options = replace(options, data=data_file_here(options.data))
    rows = import_run(log, out, labels, options)
    announce_labelled([rows.labelled])
    announce(rows.remarks)
    print_reports([out], as_json=as_json)
