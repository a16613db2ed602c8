"""`pact-eval score`: score an adapter, or the model of a server, on a dataset."""

from __future__ import annotations

import datetime as dt
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pact_cli.choices import chosen_data, chosen_run, contract_remarks, next_command
from pact_cli.commands import COUNT, announce_choices, command, option
from pact_cli.console import announce
from pact_cli.errors import needs_model_extra, needs_ray_extra
from pact_cli.labelled import announce_labelled, reading_options
from pact_cli.model_options import model_or_server_options, workers_options
from pact_cli.options import (
    DATASET,
    PATH,
    data_allowances,
    json_option,
    label_options,
    order_seed_option,
)
from pact_cli.report import print_reports
from pact_eval.errors import ServerError
from pact_eval.plain_text import one_line
from pact_eval.scoring.servers.request import ServerRequest
from pact_eval.scoring.sources import refuse_workers_of_server, row_source

if TYPE_CHECKING:
    from pact_eval._choices import Allowance
    from pact_eval.data.labelled.reading import Reading
    from pact_eval.runs.provenance import RunLabels
    from pact_eval.scoring.request import ModelRequest
    from pact_eval.scoring.windows import Dataset, RowSource
    from pact_eval.scoring.workers.messages import WorkersRequest
    from pact_eval.scoring.workers.pool import PoolProgress

_TELL_SECONDS: Final = 30.0  # between two lines about the workers


@command(
    announces=True,
    loads=("pact_eval.scoring.windows",),
    tells_steps=True,
    elsewhere={"--html": "pact-eval report RUN --html page.html, after the scoring"},
)
@option(
    "--data",
    group="Data",
    metavar="FILE_OR_FOLDER",
    type=DATASET,
    help="Dataset file: records with references, labelled data of a known shape (JSON lines, CSV, "
    "Parquet), or the ablated contexts of `pact-audit ablate`. For a folder: the evaluation file "
    "that its manifest names. On the Hub: hf://datasets/OWNER/NAME[@REVISION][/PATH]. Default: the "
    "folder `data`.",
)
@option(
    "--out",
    type=PATH,
    help="Run folder to write or resume. Default: ADAPTER or --arm in the folder `runs`, with "
    "--train-seed and a --role.",
)
@option(
    "--k",
    group="Views",
    type=COUNT,
    default=4,
    show_default=True,
    help="Views per record: the canonical order of the answers and K - 1 permutations.",
)
@option(
    "--content-free",
    group="Views",
    is_flag=True,
    help="Also score each question with the context replaced by N/A, [MASK] and nothing, for "
    "contextual calibration in `report --remedies`. A complete run gets only these prompts.",
)
@option("--limit", group="Data", type=COUNT, help="Score only the first N records.")
@order_seed_option
@data_allowances
@reading_options
@label_options
@model_or_server_options
@workers_options
@json_option
def score(
    data: Path | None,
    out: Path | None,
    k: int,
    content_free: bool,
    limit: int | None,
    order_seed: int,
    allow: tuple[Allowance, ...],
    reading: Reading,
    labels: RunLabels,
    request: ModelRequest | ServerRequest,
    workers: WorkersRequest | None,
    as_json: bool,
) -> None:
    """Score an adapter on a dataset: write a run and report on it.

    The same command resumes an interrupted run. ADAPTER is a LoRA folder as PEFT writes it, or a
    hub id (organisation/name[@revision]); a local folder wins. Without an adapter, give
    --base-model and --no-adapter. With --server and --model, a server answers instead; torch is not
    needed.

    With --workers or --ray, several copies of the model share the work; any number of them can
    resume a run. A run on ablated contexts shows how confident the model is without the evidence;
    report and scorecard read it.

    Exits with 3 if the adapter was trained or selected on families of the data, and with 5 if the
    data are not those that their manifest names; see --allow.
    """
    from pact_eval.scoring.content_free import score_content_free
    from pact_eval.scoring.windows import read_dataset, score_windows

    file, why = chosen_data(data)
    folder, why_there = (out, ()) if out is not None else chosen_run(request, labels)
    announce_choices([*why, *why_there])
    with says_what_is_kept(folder):
        dataset = read_dataset(
            file,
            k=k,
            order_seed=order_seed,
            limit=limit,
            allow=allow,
            reading=reading,
        )
        announce_labelled([dataset.labelled])
        source = _source(request, workers, dataset, folder)
        custody = score_windows(source, dataset, folder, labels=labels, allow=allow)
        if content_free:
            announce(["Scoring the content-free prompts."])
            score_content_free(source, dataset, folder, labels=labels, allow=allow)
        announce(custody.remarks)
        print_reports([folder], as_json=as_json)
    announce([f"Next: {next_command(folder)}"])


def _source(
    request: ModelRequest | ServerRequest,
    workers: WorkersRequest | None,
    dataset: Dataset,
    folder: Path,
) -> RowSource:
    """Return what scores the records; say what it is, or what will be asked of a server."""
    try:
        refuse_workers_of_server(request, workers)
    except ServerError as error:
        raise click.UsageError(str(error)) from None
    if isinstance(request, ServerRequest):
        return _server_source(request, dataset, folder)
    return _model_source(request, workers)


def _server_source(server: ServerRequest, dataset: Dataset, folder: Path) -> RowSource:
    from pact_reports.views.servers import plan_sentence, probe_lines

    source = row_source(
        server, on_probe=lambda probe: announce(line.text for line in probe_lines(probe))
    )
    if not _is_complete(folder):
        plan = source.plan(dataset, _items_written(folder))
        announce([plan_sentence(plan)])
    return source


def _model_source(model: ModelRequest, workers: WorkersRequest | None) -> RowSource:
    with needs_model_extra():
        from pact_eval.scoring.quantisation import quantisation_remarks
        from pact_eval.scoring.workers.cluster import import_ray
        from pact_eval.scoring.workers.pool import WorkerSource
    from pact_reports.views.servers import thread_remarks

    if workers is not None:
        with needs_ray_extra():
            import_ray(workers)
    source = row_source(model, workers, on_progress=_progress_teller())
    far = workers is not None and workers.address is not None
    announce(contract_remarks(source.model))
    announce(quantisation_remarks(source.model.quantisation, elsewhere=far))
    if isinstance(source, WorkerSource) and not far and source.model.device.type == "cpu":
        count = source.workers.count or 1
        announce(thread_remarks(count, source.threads, os.cpu_count() or 1))
    return source


def _progress_teller() -> Callable[[PoolProgress], None]:
    """Return what says now and then how far workers are."""
    from pact_reports.views.servers import progress_sentence

    told = -math.inf

    def tell(progress: PoolProgress) -> None:
        nonlocal told
        if time.monotonic() - told >= _TELL_SECONDS or not progress.windows_left:
            told = time.monotonic()
            announce([progress_sentence(progress, dt.datetime.now().astimezone())])

    return tell


@contextmanager
def says_what_is_kept(folder: Path) -> Iterator[None]:
    """Say, if the block is interrupted, which items of a run are kept.

    Args:
        folder: the run folder that the block writes.

    Raises:
        KeyboardInterrupt: with the message.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_kept(folder)) from None


def _kept(folder: Path) -> str:
    where, items = one_line(str(folder)), _items_written(folder)
    if _is_complete(folder):
        return f"the run in {where} is complete"
    if not items:
        return "no item was scored yet; the same command starts again"
    noun = "item is" if items == 1 else "items are"
    return f"{items:,} scored {noun} kept in {where}; the same command resumes the run"


def _is_complete(folder: Path) -> bool:
    return (folder / "predictions.parquet").exists()


def _items_written(folder: Path) -> int:
    """Return the number of items that an earlier process has written; 0 if that is not known."""
    from pact_eval.errors import PactError
    from pact_eval.runs.folder import items_written

    try:
        return items_written(folder)
    except PactError:
        return 0
