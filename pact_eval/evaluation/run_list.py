"""List of the runs in a folder: identity, conclusions, completeness and seal."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from pact_eval.errors import InputError, RunError, TamperedError
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.notes import Incomplete, Unverified, gap_notes
from pact_eval.evaluation.report import COMPARED
from pact_eval.evaluation.settings import Settings
from pact_eval.evaluation.spending import Spent, spent
from pact_eval.progress import tracked
from pact_eval.runs.folder import RunFolder, open_run, views_written
from pact_eval.runs.provenance import EVALUATION, NAME, read_provenance
from pact_eval.runs.seal import PREDICTIONS, seal_digest
from pact_eval.stats.estimate import ClusterText, Estimate

RunState = Literal["complete", "resumable", "tampered", "unreadable"]
"""Whether a run can be read: complete, or waiting for its command to be repeated, or neither."""

_NO_REFERENCES: Final = ClusterText("ablated contexts have no references")


@dataclass(frozen=True)
class ListedRun:
    """One run of a list; a value that is not known is None.

    Attributes:
        folder: the run folder.
        state: see `RunState`.
        reason: why it is tampered or unreadable.
        arm: the recorded recipe, or else the name of the folder.
        seed: training seed.
        role: what the run is for.
        items: number of items.
        k: views per item.
        views: number of views that are scored.
        views_wanted: number of views of the complete run.
        accuracy: share of correct answers; NaN with a reason on ablated contexts.
        pair_accuracy: share of pairs with two correct answers, likewise.
        answer_mass: mean share of the next-token probability on the letters, likewise.
        order: whether it follows the order of the answers.
        probabilities: whether its probabilities are right.
        data: whether its data is sound.
        spent: what its requests cost, and how long they took.
        data_sha256: SHA-256 of the scored file.
        digest: SHA-256 that identifies the sealed run.
        created: when the run was begun.
        gaps: what an import lacks of its source.
    """

    folder: Path
    state: RunState
    reason: str | None = None
    arm: str | None = None
    seed: int | None = None
    role: str | None = None
    items: int | None = None
    k: int | None = None
    views: int | None = None
    views_wanted: int | None = None
    accuracy: Estimate | None = None
    pair_accuracy: Estimate | None = None
    answer_mass: Estimate | None = None
    order: OrderConclusion | None = None
    probabilities: ProbabilitiesConclusion | None = None
    data: DataConclusion | None = None
    spent: Spent | None = None
    data_sha256: str | None = None
    digest: str | None = None
    created: dt.datetime | None = None
    gaps: tuple[Incomplete | Unverified, ...] = ()


def list_runs(folders: Sequence[Path], settings: Settings | None = None) -> tuple[ListedRun, ...]:
    """Return the runs in folders, with the seal of each checked.

    Args:
        folders: run folders, and folders that hold run folders.
        settings: decoding, calibration and bootstrap; None takes the defaults.

    Returns:
        The runs, by name within each folder. A run that cannot be read, or was changed, is an entry
        with the reason.

    Raises:
        InputError: a folder does not exist, or is a file.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     list_runs([Path(folder)])
        ()
    """
    run_folders = [run for folder in folders for run in _run_folders(folder)]
    settings = settings or Settings()
    return tuple(
        _read_listed(run, settings) for run in tracked(run_folders, "Reading runs", "runs")
    )


def is_folder_of_runs(folder: Path) -> bool:
    """Return whether a folder is not a run itself and holds some."""
    return folder.is_dir() and not _looks_like_a_run(folder) and bool(_run_folders(folder))


def _run_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        what = "expected a folder, got a file" if folder.exists() else "no such folder"
        message = f"{folder}: {what}; expected a folder of runs, as `pact-eval score` writes them"
        raise InputError(message)
    if _looks_like_a_run(folder):
        return [folder]
    return sorted(path for path in folder.iterdir() if path.is_dir() and _looks_like_a_run(path))


def _looks_like_a_run(folder: Path) -> bool:
    return (folder / NAME).exists() or (folder / PREDICTIONS).exists()


def _read_listed(folder: Path, settings: Settings) -> ListedRun:
    try:
        recorded = read_provenance(folder)
        listed = ListedRun(
            folder=folder,
            state="resumable",
            arm=recorded.named(recorded.arm or folder.resolve().name),
            seed=recorded.seed,
            role=recorded.role or EVALUATION,
            items=recorded.data.records,
            k=recorded.k,
            data_sha256=recorded.data.sha256,
            created=recorded.created,
        )
        if (folder / PREDICTIONS).exists():
            return _complete(listed, open_run(folder), settings)
        items, k = listed.items, listed.k
        wanted = None if items is None or k is None else items * k
        return replace(listed, views=views_written(folder), views_wanted=wanted)
    except TamperedError as error:
        return ListedRun(folder, "tampered", str(error))
    except (RunError, OSError) as error:
        return ListedRun(folder, "unreadable", str(error))


def _complete(listed: ListedRun, run: RunFolder, settings: Settings) -> ListedRun:
    """Add what `pact-eval report` says of a run on full contexts, as far as it can be computed."""
    seal, concluded = run.seal, dict[str, Any]()
    if run.ablated:
        concluded["accuracy"] = Estimate.point(math.nan, reason=_NO_REFERENCES)
    else:
        try:
            experiment = Experiment.read([run], settings)
            (only,) = experiment.runs
            estimates = experiment.evaluation(only).groups[0].estimates
            concluded = {
                **{name: estimates[name] for name in COMPARED},
                "order": experiment.order(only),
                "probabilities": experiment.probabilities(only),
                "data": experiment.data,
                "spent": spent(only),
            }
        except InputError as error:  # such as of a run without a letter
            concluded = {"reason": str(error)}
    return replace(
        listed,
        state="complete",
        items=seal.items,
        k=seal.k,
        views=seal.views,
        views_wanted=seal.views,
        digest=seal_digest(seal),
        gaps=gap_notes(run.provenance),
        **concluded,
    )
