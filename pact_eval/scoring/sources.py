"""Sources of scores: a local model, several workers with that model, or a server.

The request decides; no library of a model is imported until then. The content-free prompts of a
dataset are its records with a context that says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, get_args

from pact_eval.errors import InputError, ServerError, model_extra, ray_extra, server_extra
from pact_eval.hub import model_name
from pact_eval.models import label_of
from pact_eval.runs.folder import CONTENTS, MOST_VIEWS, content_free_id
from pact_eval.runs.places import RUNS
from pact_eval.runs.provenance import NAME as PROVENANCE_NAME
from pact_eval.runs.provenance import RunLabels, read_provenance
from pact_eval.runs.seal import CONTENT_FREE
from pact_eval.scoring.request import DtypeName, ModelRequest
from pact_eval.scoring.servers.wire import ServerRequest
from pact_eval.scoring.windows import Backend, Dataset, score_windows
from pact_eval.scoring.workers.cluster import import_ray
from pact_eval.scoring.workers.messages import WorkersRequest

if TYPE_CHECKING:
    from pact_eval.scoring.score import LocalSource
    from pact_eval.scoring.workers.pool import PoolProgress
    from pact_eval.scoring.workers.source import WorkerSource


_EVALUATION: Final = (None, "evaluation")


def row_source(
    request: ModelRequest | ServerRequest, workers: WorkersRequest | None = None
) -> Backend:
    """Return what scores a run, identified and not loaded yet.

    Args:
        request: a model here, or the model of a server.
        workers: the workers that share the work; None scores in this process.

    Raises:
        AdapterError: the model cannot be used.
        ServerError: the server cannot be used, or workers are requested of it.
        WorkerError: the cluster cannot be reached.
        MissingExtraError: a library is not installed.
    """
    refuse_workers_of_server(request, workers)
    if not isinstance(request, ServerRequest):
        return model_source(request, workers)
    with server_extra():
        from pact_eval.scoring.servers.source import server_source
    return server_source(request)


def model_source(
    request: ModelRequest,
    workers: WorkersRequest | None = None,
    on_progress: Callable[[PoolProgress], None] = lambda _progress: None,
) -> LocalSource | WorkerSource:
    """Return a model, here or of workers, as what scores a run; see `row_source`.

    Args:
        request: the model.
        workers: the workers that share the work; None scores in this process.
        on_progress: called when a window of the workers is done.
    """
    with model_extra():
        from pact_eval.scoring.model import identify
        from pact_eval.scoring.score import LocalSource
    if workers is None:
        return LocalSource(identify(request))
    from pact_eval.scoring.workers.source import worker_source

    with ray_extra():
        import_ray(workers)
    return worker_source(request, workers, on_progress)


def with_recorded_dtype(
    request: ModelRequest | ServerRequest, folder: Path
) -> ModelRequest | ServerRequest:
    """Return the request to resume a run: auto takes the precision that the run was scored with.

    A run without rows and without a choice has none yet.

    Args:
        request: the request.
        folder: the run folder, which need not exist.
    """
    if isinstance(request, ServerRequest) or request.dtype != "auto":
        return request
    if not (folder / PROVENANCE_NAME).exists():
        return request
    run = read_provenance(folder)
    dtype, is_begun = run.dtype, bool(run.auto_dtype or run.parts or run.seal)
    if not is_begun or dtype not in get_args(DtypeName):
        return request
    return replace(request, dtype=cast("DtypeName", dtype))


def refuse_workers_of_server(
    request: ModelRequest | ServerRequest, workers: WorkersRequest | None
) -> None:
    """Refuse workers that would share a server.

    Raises:
        ServerError: both are requested.
    """
    if isinstance(request, ServerRequest) and workers is not None:
        message = "--workers, --ray: cannot be used with --server (give --server several times)"
        raise ServerError(message)


def default_folder(
    request: ModelRequest | ServerRequest,
    labels: RunLabels,
    runs: Path | str = RUNS,
) -> Path:
    """Return the folder of a run that gets none: `runs/<arm or adapter>-<seed>`.

    Args:
        request: the adapter and the base model, or the model of a server.
        labels: `arm`, training `seed` and `role` of the run; the role of an evaluation has no name.
        runs: the folder of the runs.

    Examples:
        >>> request = ServerRequest(("http://127.0.0.1:8000",), "lab/pact-4b")
        >>> default_folder(request, {"seed": 17, "role": "calibration"}).as_posix()
        'runs/pact-4b-17-calibration'
    """
    seed, role = labels.get("seed"), labels.get("role")
    quantize = None if isinstance(request, ServerRequest) else request.quantize
    parts = [
        labels.get("arm") or _name_of(request),
        *([] if seed is None else [str(seed)]),
        *([] if role is None or role in _EVALUATION else [role]),
        *([] if quantize is None else [quantize]),
    ]
    return Path(runs) / "-".join(parts).replace("/", "_")


def _name_of(request: ModelRequest | ServerRequest) -> str:
    """Return the label of an adapter, or the last part of a path or Hub id without the revision."""
    if isinstance(request, ServerRequest):
        return Path(request.model).name
    if request.adapter is not None and request.apply_adapter:
        return label_of(request.adapter)
    base = request.base_model or "base"
    hub_name = None if Path(base).exists() else model_name(base)
    name = Path(base if hub_name is None else hub_name.repository).name
    return name if request.adapter is None else f"{name}-without-{label_of(request.adapter)}"


def content_free_dataset(dataset: Dataset) -> Dataset:
    """Return a dataset with each context replaced by "N/A", "[MASK]" and the empty string.

    Questions and letter orders stay, and views are two at most.

    Raises:
        InputError: the dataset has ablated contexts.
    """
    if any(record.ablation is not None for record in dataset.records):
        message = f"--content-free: expected records with references, {dataset.path} has none"
        raise InputError(message)
    records = [
        replace(
            record,
            id=content_free_id(record.id, number),
            state=content,
            order_key=record.order_key or record.id,
        )
        for record in dataset.records
        for number, content in enumerate(CONTENTS)
    ]
    return replace(dataset, records=records, k=min(dataset.k, MOST_VIEWS), content_free=True)


def score_content_free(
    source: Backend,
    dataset: Dataset,
    out: Path,
    *,
    labels: RunLabels,
    allow: Collection[str] = (),
) -> None:
    """Score the content-free prompts of a complete run into its folder, or resume that.

    Nothing else in the folder of the run changes.

    Args:
        source: what has scored the run.
        dataset: the dataset of the run.
        out: the run folder.
        labels: those of the run.
        allow: as for `score_windows`.

    Raises:
        PactError: as for `score_windows`.
    """
    content_free = content_free_dataset(dataset)
    score_windows(source, content_free, out / CONTENT_FREE, labels=labels, allow=allow)
