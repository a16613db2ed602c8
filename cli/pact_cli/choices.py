"""Defaults of `score`: the dataset, the run folder, and the next command."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pact_cli.commands import config_of
from pact_cli.hub_places import data_file_here

if TYPE_CHECKING:
    from pact_eval.runs.provenance import Provenance, RunLabels
    from pact_eval.scoring.model import ScoringModel
    from pact_eval.scoring.request import ModelRequest
    from pact_eval.scoring.servers.request import ServerRequest

DATA: Final = Path("data")
"""Folder of the dataset if none is given."""

_EVALUATION: Final = (None, "evaluation")


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
    from pact_eval.data.files import MANIFEST_NAME, dataset_file
    from pact_eval.errors import InputError

    if data is None and not DATA.is_dir():
        message = (
            "expected --data FILE: there is no folder `data` here, and no setting `data` "
            "(`pact-eval init` writes settings)"
        )
        raise click.UsageError(message)
    place = data_file_here(DATA if data is None else data)
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


def chosen_run(
    request: ModelRequest | ServerRequest, labels: RunLabels
) -> tuple[Path, tuple[str, ...]]:
    """Return the run folder to write, and what was chosen: `runs/<arm or adapter>-<seed>`.

    Args:
        request: the adapter and the base model, or the model of a server.
        labels: arm, training seed and role of the run.
    """
    from pact_eval.scoring.sources import RUNS, default_folder

    runs = config_of(click.get_current_context()).get("runs", RUNS)
    out = default_folder(request, labels, runs)
    return out, (f"--out {out}",)


def next_command(folder: Path) -> str:
    """Return the command that usually follows the scoring of a run.

    Args:
        folder: the run folder, complete.
    """
    from pact_eval.runs.provenance import read_provenance

    run = read_provenance(folder)
    here = shlex.quote(str(folder))
    others = _same_data(folder, run)
    if run.role == "calibration":
        return f"pact-eval calibrate {here} --holdout RUN"
    if others:
        return f"pact-eval compare {here} {shlex.quote(str(others[0]))} --mcnemar"
    return f"pact-eval report {here} --html report.html --open"


def _same_data(folder: Path, run: Provenance) -> list[Path]:
    """Return the complete runs next to a run that were scored on the same data."""
    from pact_eval.errors import RunError
    from pact_eval.runs.provenance import read_provenance

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


def contract_remarks(model: ScoringModel) -> tuple[str, ...]:
    """Return what to say of the contract of a model: nothing of the usual one that it states."""
    contract, remark = model.contract, model.recorded_contract.remark
    remarks = () if contract.name == "nimble" else (f"Contract: {contract.label}",)
    return remarks if remark is None else (*remarks, f"{contract.name}: {remark}")
