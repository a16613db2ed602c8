"""`pact-eval import`: import logs and predictions as a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import click

from pact_cli.commands import Doc, command, config_of, gathered
from pact_cli.console import announce
from pact_cli.labelled import announce_labelled, some_reading_options
from pact_cli.next_commands import remedies_of
from pact_cli.options import DATASET, RUN_OR_LOG, label_options
from pact_cli.param_types import LazyChoice
from pact_cli.places import resolve_dataset
from pact_cli.report import print_reports
from pact_eval._choices import LogMetric, SeveralRight
from pact_eval.data.labelled.reading import Reading
from pact_eval.importing.import_run import import_run
from pact_eval.importing.registry import source_names
from pact_eval.importing.row_reader import parse_mapping
from pact_eval.importing.source import ImportOptions
from pact_eval.importing.stored import StoredRun, store_run
from pact_eval.runs.places import RUNS
from pact_eval.runs.provenance import RunLabels


def make_import(
    *,
    source: Annotated[
        str | None,
        LazyChoice(source_names),
        Doc("--from", "Format of the log. Default: what its content looks like."),
    ] = None,
    mapping: Annotated[
        tuple[str, ...],
        Doc(
            "--map",
            "Name of one of our columns in a file of rows; may be given several times.",
            "Data",
            metavar="COLUMN=NAME",
        ),
    ] = (),
    data: Annotated[Path | None, DATASET] = None,
    family_from: str | None = None,
    domain_from: str | None = None,
    suites: Annotated[
        tuple[Path, ...],
        Doc(
            "--suite",
            "Rows of the Decision Index suite, with the references of its results; may be given "
            "several times.",
        ),
    ] = (),
    filter: str | None = None,  # noqa: A002 -- the name of the option
    metric: LogMetric | None = None,
    multi: SeveralRight | None = None,
    scorer: str | None = None,
) -> ImportOptions:
    """Return how a log is read.

    Data:
        --data FILE: Dataset file with the references of rows of your own, joined by id: records, or
            labelled data of a known shape; also hf://datasets/OWNER/NAME[@REVISION][/PATH]. Of
            requests and replies: a table of id, question and label.

    Output:
        --family-from COLUMN[~REGEX]: What names the family: a value of the log, such as
            doc.article, or the part of it that a regular expression matches (its first group, if it
            has one).
        --domain-from COLUMN[~REGEX]: What names the domain, in the same way.
        --filter: Filter of lm-evaluation-harness whose answers are read, if there are several; of
            HELM, the split or perturbation, such as valid or test/typos; of requests and replies,
            the model.
        --metric: Metric of lm-evaluation-harness by which answers and probabilities are read.
            Default: acc, or the first that the log has.
        --multi: Read questions with several right answers: any of them counts. Default: such
            questions are refused.
        --scorer: Inspect scorer whose scores are read, and their reducer after a colon, such as
            choice:mean. Default: choice, or the only one.
    """
    return ImportOptions(
        source=source,
        mapping=parse_mapping(mapping),
        data=data,
        family_from=family_from,
        domain_from=domain_from,
        suites=suites,
        filter=filter,
        metric=metric,
        multi=multi,
        scorer=scorer,
    )


_ELSEWHERE: Final = {
    f"--{name}": f"pact-audit convert DATA OUT.jsonl --{name} ..., and --data OUT.jsonl"
    for name in ("shape", "question", "questions")
}


@command(
    "import",
    elsewhere=_ELSEWHERE,
    more=(
        *("mapping", "family_from", "domain_from", "suites", "filter", "metric", "scorer"),
        "role",
    ),
)
@gathered("options", make_import)
@some_reading_options("columns", "option_texts", "answers", "positions_from", "levels")
@label_options
def import_rows(
    log: Annotated[Path, RUN_OR_LOG, "LOG"],
    *,
    out: Path | None = None,
    options: ImportOptions,
    reading: Reading,
    labels: RunLabels,
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

    Output:
        --out: Run folder to write. Default: the name of the log, in the folder of runs (`runs`); a
            number follows it if that is another run.
    """
    options = replace(options, reading=reading)
    if options.data is not None:
        options = replace(options, data=resolve_dataset(options.data, one_file=True))
    with remedies_of(log):
        if out is None:
            runs = config_of(click.get_current_context()).get("runs", RUNS)
            stored = store_run(log, runs, labels, options)
        else:
            rows = import_run(log, out, labels, options)
            stored = StoredRun(out, rows.remarks, labelled=rows.labelled)
    announce_labelled([stored.labelled])
    announce(stored.remarks)
    print_reports([stored.folder])
