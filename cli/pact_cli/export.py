"""`pact-eval export`: write an adapter as a decision model of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pact_cli.commands import command, option
from pact_cli.console import emit
from pact_cli.errors import exit_on_leak, needs_model_extra
from pact_cli.hub_places import adapter_here
from pact_cli.options import ADAPTER, PATH, RUN, json_option, path_argument
from pact_eval.errors import InputError

if TYPE_CHECKING:
    from pact_eval.data.records import Record
    from pact_eval.export.export import PriorOf
    from pact_eval.export.layouts import Layout
    from pact_reports.model_card.card import ModelCard

_SAMPLE: Final = 64


@command()
@path_argument("adapter", "ADAPTER", ADAPTER)
@option("--out", required=True, type=PATH, help="Folder to write; a new one.")
@option(
    "--with-base",
    is_flag=True,
    help="Write the full base model too, with the LoRA in the subfolder `adapter`.",
)
@option(
    "--merged",
    is_flag=True,
    help="Write the base model with the LoRA in its weights.",
)
@option(
    "--calibrator",
    type=PATH,
    help="Calibrator whose temperatures are shipped, one per kind. Default: none.",
)
@option(
    "--letter-prior",
    metavar="REMEDY",
    type=PATH,
    help="File of `pact-eval calibrate --remedy` whose letter prior is shipped as "
    "letter_prior.json.",
)
@option(
    "--data",
    group="Data",
    type=PATH,
    help="Dataset file: compare prompts and answers on a sample of its records too.",
)
@option(
    "--base-model",
    group="Model",
    metavar="PATH_OR_ID",
    help="Folder or hub id of the base model. Default: the one that the adapter names.",
)
@option(
    "--contract",
    group="Model",
    metavar="NAME_OR_PATH",
    help="Prompt contract, as for `score`. Default: the one that the adapter states.",
)
@option(
    "--results",
    group="Data",
    metavar="RUN",
    type=RUN,
    help="Run of ADAPTER: write its evaluation results into the README, as a model card.",
)
@json_option
def export(
    adapter: Path,
    out: Path,
    with_base: bool,
    merged: bool,
    calibrator: Path | None,
    letter_prior: Path | None,
    data: Path | None,
    base_model: str | None,
    contract: str | None,
    results: Path | None,
    as_json: bool,
) -> None:
    """Write ADAPTER as a decision model of transformers.

    `pipeline("decision")` loads the folder. It has the LoRA, decision.json, decision_template.jinja
    and a README with the lines that load it. The export verifies itself: token ids must be those of
    our contract, and answers those of our scoring. If they are not, nothing is written.

    With --results, it exits with 3 if items of RUN are also in a file that the model is made from.

    --letter-prior ships a fitted letter prior next to them. transformers does not read it: the
    README of the folder has the function that removes it. Exits with 3 if it was fitted on families
    of --data.
    """
    if with_base and merged:
        message = "--with-base and --merged are two layouts: give one of them"
        raise click.UsageError(message)
    with needs_model_extra():
        from pact_eval.export.export import README, export_adapter
    from pact_reports.views.export import present_export

    folder = adapter_here(adapter).folder
    card = None if results is None else _card_of(results, folder)
    layout: Layout = "with-base" if with_base else "merged" if merged else "adapter"
    exported_model = export_adapter(
        folder,
        out,
        layout=layout,
        base_model=base_model,
        contract=contract,
        calibrator=calibrator,
        letter_prior=None if letter_prior is None else _prior_of(letter_prior, data),
        sample=() if data is None else _sample(data),
    )
    if card is not None:
        card.write(out / README)
    emit(present_export(exported_model), as_json=as_json)
    if card is not None:
        exit_on_leak([card.data])


def _card_of(run: Path, adapter: Path) -> ModelCard:
    """Return the model card of a run of an adapter.

    Raises:
        InputError: the run is not of this adapter.
    """
    from pact_eval.evaluation.experiment import Experiment
    from pact_eval.models.folders import read_adapter_files
    from pact_reports.model_card.card import ModelCard

    report = Experiment.read([run]).report()
    scored, sha256 = report.run.provenance.adapter, read_adapter_files(adapter).sha256
    if scored is None or scored.sha256 != sha256:
        of_run = "no adapter" if scored is None else f"the adapter {str(scored.sha256)[:12]}"
        message = f"--results: expected a run of {adapter} ({sha256[:12]}), {run} is of {of_run}"
        raise InputError(message)
    return ModelCard.of(report)


def _prior_of(remedy: Path, data: Path | None) -> PriorOf:
    """Return what makes the content of the letter prior for an adapter."""
    from pact_eval.data.records import read_records
    from pact_eval.remedies.fitting import exported_prior

    records = () if data is None else read_records(data)
    return lambda adapter_sha256: exported_prior(remedy, adapter_sha256, records)


def _sample(data: Path) -> list[Record]:
    """Return records from all over a file."""
    from pact_eval.data.records import read_records

    records = read_records(data)
    return records[:: max(1, len(records) // _SAMPLE)][:_SAMPLE]
