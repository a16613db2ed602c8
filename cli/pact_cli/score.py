"""`pact-eval score`: score an adapter, or the model of a server, on a dataset."""

from __future__ import annotations

import datetime as dt
import math
import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import click

from pact_cli.commands import Doc, announce_choices, command, config_of
from pact_cli.console import announce, emit
from pact_cli.errors import needs_model_extra, needs_ray_extra
from pact_cli.labelled import announce_labelled, some_reading_options
from pact_cli.model_options import (
    contract_remarks,
    dtype_remarks,
    model_or_server_options,
    with_allowed,
    workers_options,
)
from pact_cli.options import OrderSeed, ScoreAllow, label_options
from pact_cli.param_types import Count, DatasetPath
from pact_cli.places import resolve_data_file
from pact_cli.report import print_reports
from pact_eval._choices import DataAllowance
from pact_eval.data.files import MANIFEST_NAME, dataset_file
from pact_eval.data.labelled.reading import Reading
from pact_eval.errors import GateError, InputError, PactError, RunError, ServerError, server_extra
from pact_eval.plain_text import one_line
from pact_eval.runs.folder import items_written
from pact_eval.runs.places import RUNS
from pact_eval.runs.provenance import Provenance, RunLabels, read_provenance
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.servers.wire import ServerRequest
from pact_eval.scoring.sources import (
    default_folder,
    model_source,
    refuse_workers_of_server,
    score_content_free,
    with_recorded_dtype,
)
from pact_eval.scoring.windows import Backend, Dataset, read_dataset, score_windows
from pact_eval.scoring.workers.cluster import import_ray
from pact_eval.scoring.workers.messages import WorkersRequest
from pact_eval.scoring.workers.pool import PoolProgress
from pact_reports.views.servers import (
    plan_sentence,
    present_server_probe,
    probe_lines,
    progress_sentence,
    thread_remarks,
)

_DATA: Final = Path("data")
"""Folder of the dataset if none is given."""

_EVALUATION: Final = (None, "evaluation")
_TELL_SECONDS: Final = 30.0  # between two lines about the workers


_CONVERT: Final = "pact-audit convert FILE OUT.jsonl"
_ELSEWHERE: Final = {
    "--html": "pact-eval report RUN --html page.html, after the scoring",
    **{
        f"--{name}": f"{_CONVERT} --{name} ..., and --data OUT.jsonl"
        for name in (
            *("shape", "options", "levels", "positions-from", "answers", "question", "questions"),
        )
    },
}


@command(
    announces=True,
    tells_steps=True,
    elsewhere=_ELSEWHERE,
    more=(
        *("content_free", "order_seed", "allow", "arm", "train_seed", "role", "dtype"),
        *("attention", "quantize", "contract", "wire", "api_key_env", "base_name", "local"),
        *("probe", "tokenizer", "workers", "ray"),
    ),
    settings=(
        *("batch_tokens", "engine", "merge", "concurrency", "requests_per_minute", "timeout"),
        *("score_views", "local_base", "local_dtype"),
    ),
)
@some_reading_options("columns")
@label_options
@model_or_server_options
@workers_options
def score(
    *,
    data: DatasetPath | None = None,
    out: Path | None = None,
    k: Count = 4,
    content_free: bool = False,
    limit: Count | None = None,
    only_probe: Annotated[
        bool,
        Doc(
            "--probe",
            "Say what the server of --server is, and score nothing: who answers, what noise alone "
            "moves, whether it sees the order of the answers, and whether the adapter is applied.",
            "Server",
        ),
    ] = False,
    order_seed: OrderSeed = 0,
    allow: ScoreAllow = (),
    reading: Reading,
    labels: RunLabels,
    request: ModelRequest | ServerRequest,
    workers: WorkersRequest | None,
) -> None:
    """Score an adapter on a dataset: write a run and report on it.

    The same command resumes an interrupted run. ADAPTER is a LoRA folder as PEFT writes it, or a
    hub id (organisation/name[@revision]); a local folder wins. Without an adapter, give
    --base-model and --no-adapter. With --server and --model, a server answers instead; torch is not
    needed.

    With --workers or --ray, several copies of the model share the work; any number of them can
    resume a run. A run on ablated contexts shows how confident the model is without the evidence;
    report and scorecard read it.

    --probe asks five frozen items, in 12 to 24 requests, and in five more if the name of the base
    model is known. Exit code 3: the adapter is not applied, or --local or the tokenizer differs.

    Exits with 3 if the adapter was trained or selected on families of the data, and with 5 if the
    data are not those that their manifest names; see --allow.

    Data:
        --data FILE_OR_FOLDER: Dataset file: records with references, labelled data of a known shape
            (JSON lines, CSV, Parquet), or the ablated contexts of `pact-audit ablate`. For a
            folder: the evaluation file that its manifest names. On the Hub:
            hf://datasets/OWNER/NAME[@REVISION][/PATH]. Default: the folder `data`.
        --limit: Score only the first N records.

    Views:
        --k: Views per record: the canonical order of the answers and K - 1 permutations.
        --content-free: Also score each question with the context replaced by N/A, [MASK] and
            nothing, for contextual calibration in `sweep --remedies`. A complete run gets only
            these prompts.

    Output:
        --out: Run folder to write or resume. Default: ADAPTER or --arm in the folder `runs`, with
            --train-seed and a --role.
    """
    request = with_allowed(request, allow)
    of_data: list[DataAllowance] = [name for name in allow if name != "other-contract"]
    if only_probe:
        announce_choices()
        _print_probe(request)
        return
    file, why = chosen_data(data)
    folder = out
    if folder is None:
        runs = config_of(click.get_current_context()).get("runs", RUNS)
        folder = default_folder(request, labels, runs)
        why = (*why, f"--out {folder}")
    announce_choices(why)
    with says_what_is_kept(folder):
        dataset = read_dataset(
            file,
            k=k,
            order_seed=order_seed,
            limit=limit,
            allow=of_data,
            reading=reading,
        )
        announce_labelled([dataset.labelled])
        source = _source(with_recorded_dtype(request, folder), workers, dataset, folder)
        custody = score_windows(source, dataset, folder, labels=labels, allow=of_data)
        remark = read_provenance(folder).dtype_remark
        if content_free:
            announce(["Scoring the content-free prompts."])
            score_content_free(source, dataset, folder, labels=labels, allow=of_data)
        announce([*custody.remarks, *([remark] if remark is not None else [])])
        print_reports([folder])
    announce([f"Next: {next_command(folder)}"])


def _print_probe(request: ModelRequest | ServerRequest) -> None:
    """Print what a server is.

    Raises:
        click.UsageError: there is no server.
        GateError: the server does not have the model that it should.
    """
    if not isinstance(request, ServerRequest):
        raise click.UsageError("--probe asks a server: give --server URL and --model NAME")
    with server_extra():
        from pact_eval.scoring.servers.source import probe

    probed = probe(request)
    emit(present_server_probe(probed))
    if probed.faults:
        raise GateError("; ".join(probed.faults))


def _source(
    request: ModelRequest | ServerRequest,
    workers: WorkersRequest | None,
    dataset: Dataset,
    folder: Path,
) -> Backend:
    """Return what scores the records; say what it is, or what will be asked of a server."""
    try:
        refuse_workers_of_server(request, workers)
    except ServerError as error:
        raise click.UsageError(str(error)) from None
    if isinstance(request, ServerRequest):
        return _server_source(request, dataset, folder)
    return _model_source(request, workers)


def _server_source(server: ServerRequest, dataset: Dataset, folder: Path) -> Backend:
    with server_extra():
        from pact_eval.scoring.servers.source import server_source

    source = server_source(server, lambda probe: announce(line.text for line in probe_lines(probe)))
    if not _is_complete(folder):
        plan = source.plan(dataset, _items_written(folder))
        announce([plan_sentence(plan)])
    return source


def _model_source(model: ModelRequest, workers: WorkersRequest | None) -> Backend:
    with needs_model_extra():
        from pact_eval.scoring.quantisation import quantisation_remarks
        from pact_eval.scoring.workers.source import WorkerSource

    if workers is not None:
        with needs_ray_extra():
            import_ray(workers)
    source = model_source(model, workers, _progress_teller())
    far = workers is not None and workers.address is not None
    announce(contract_remarks(source.model))
    announce(dtype_remarks(source.model))
    announce(quantisation_remarks(source.model.quantisation, elsewhere=far))
    if isinstance(source, WorkerSource) and not far and source.model.device.type == "cpu":
        count = source.workers.count or 1
        announce(thread_remarks(count, source.threads, os.cpu_count() or 1))
    return source


def _progress_teller() -> Callable[[PoolProgress], None]:
    """Return what says now and then how far workers are."""
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
        raise KeyboardInterrupt(_say_kept(folder)) from None


def _say_kept(folder: Path) -> str:
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
    try:
        return items_written(folder)
    except PactError:
        return 0


def chosen_data(data: Path | None) -> tuple[Path, tuple[str, ...]]:
    """Return the dataset file to score, and what was chosen.

    Args:
        data: a file, a place on the Hub, or a folder whose manifest names one evaluation file, or
            that has one dataset file and no manifest; None is the folder `data`.

    Raises:
        click.UsageError: nothing was given, and there is no folder `data`; or the folder has no
            manifest, and not one dataset file.
        InputError: the manifest does not name exactly one evaluation file.
    """
    if data is None and not _DATA.is_dir():
        raise click.UsageError(
            "expected --data FILE: there is no folder `data` here, and no setting `data` in "
            "pact.toml"
        )
    place = resolve_data_file(_DATA if data is None else data)
    has_manifest = (place / MANIFEST_NAME).exists()
    try:
        file = dataset_file(place)
    except InputError as error:
        if has_manifest or not place.is_dir():
            raise
        raise click.UsageError(str(error)) from None
    if file == place:
        return file, ()
    if not has_manifest:
        return file, (f"--data {file} (the only dataset file of {place}, without a manifest)",)
    return file, (f"--data {file} (evaluation file of {place / MANIFEST_NAME})",)


def next_command(folder: Path) -> str:
    """Return the command that usually follows the scoring of a run.

    Args:
        folder: the run folder, complete.
    """
    run = read_provenance(folder)
    here = shlex.quote(str(folder))
    others = _same_data(folder, run)
    if run.role == "calibration":
        return f"pact-eval calibrate {here} --holdout RUN"
    if others:
        return f"pact-eval compare {here} {shlex.quote(str(others[0]))} --items 20"
    return f"pact-eval report {here} --html report.html --open"


def _same_data(folder: Path, run: Provenance) -> list[Path]:
    """Return the complete runs next to a run that were scored on the same data."""
    runs = []
    for other in sorted(path for path in folder.parent.iterdir() if path.is_dir()):
        if other.name == folder.name or not (other / "predictions.parquet").exists():
            continue
        try:
            theirs = read_provenance(other)
        except RunError:
            continue
        if theirs.data == run.data and theirs.role in _EVALUATION:
            runs.append(other)
    return runs
