"""`pact-eval export`: write an adapter as a decision model of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pact_cli.commands import command
from pact_cli.console import emit
from pact_cli.errors import needs_model_extra
from pact_cli.exits import exit_on_leak
from pact_cli.options import RunFolder
from pact_cli.param_types import ADAPTER
from pact_cli.places import resolve_adapter
from pact_eval._choices import ExportLayout
from pact_eval.data.records import Record, read_records
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.letter_priors import shipped_prior
from pact_eval.models import read_adapter_files
from pact_reports.views.export import present_export

if TYPE_CHECKING:  # they load torch, or libraries that may be missing
    from pact_eval.export import PriorOf
    from pact_reports.model_card import ModelCard

_SAMPLE: Final = 64


@command()
def export(
    adapter: Annotated[Path, ADAPTER, "ADAPTER"],
    *,
    out: Path,
    layout: ExportLayout = "adapter",
    calibrator: Path | None = None,
    letter_prior: RunFolder | None = None,
    data: Path | None = None,
    base_model: str | None = None,
    contract: str | None = None,
    results: RunFolder | None = None,
) -> None:
    """Write ADAPTER as a decision model of transformers.

    `pipeline("decision")` loads the folder. It has the LoRA, decision.json, decision_template.jinja
    and a README with the lines that load it. The export verifies itself: token ids must be those of
    our prompts, and answers those of our scoring. If they are not, nothing is written.

    With --results, it exits with 3 if items of RUN are also in a file that the model is made from.

    --letter-prior ships a letter prior next to them. transformers does not read it: the README of
    the folder has the function that removes it. Exits with 3 if RUN has items of --data, or ones
    that belong to them.

    Data:
        --data: Dataset file: compare prompts and answers on a sample of its records too.
        --results RUN: Run of ADAPTER: write its evaluation results into the README, as a model
            card.

    Model:
        --base-model PATH_OR_ID: Folder or hub id of the base model. Default: the one that the
            adapter names.
        --contract NAME_OR_PATH: Prompt contract, as for `score`. Default: the one that the adapter
            states.

    Output:
        --out: Folder to write; a new one.
        --layout: What the folder has: the LoRA alone; with-base, the full base model too, with the
            LoRA in the subfolder `adapter`; or merged, the base model with the LoRA in its weights.
        --calibrator: Calibrator whose temperatures are shipped, one per kind. Default: none.
        --letter-prior RUN: Run of ADAPTER on other items, of two orders or more, whose letter
            prior is fitted and shipped as letter_prior.json.
    """
    with needs_model_extra():
        from pact_eval.export import README, export_adapter
    folder = resolve_adapter(adapter).folder
    card = None if results is None else _card_of(results, folder)
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
    emit(present_export(exported_model))
    if card is not None:
        exit_on_leak([card.data])


def _card_of(run: Path, adapter: Path) -> ModelCard:
    """Return the model card of a run of an adapter.

    Raises:
        InputError: the run is not of this adapter.
    """
    from pact_reports.model_card import ModelCard  # its libraries may be missing

    report = Experiment.read([run]).report()
    scored, sha256 = report.run.provenance.adapter, read_adapter_files(adapter).sha256
    if scored is None or scored.sha256 != sha256:
        of_run = "no adapter" if scored is None else f"the adapter {str(scored.sha256)[:12]}"
        raise InputError(
            f"--results: expected a run of {adapter} ({sha256[:12]}), {run} is of {of_run}"
        )
    return ModelCard.of(report)


def _prior_of(run: Path, data: Path | None) -> PriorOf:
    """Return what makes the content of the letter prior for an adapter."""
    records = () if data is None else read_records(data)
    return lambda adapter_sha256: shipped_prior(run, adapter_sha256, records)


def _sample(data: Path) -> list[Record]:
    """Return records from all over a file."""
    records = read_records(data)
    return records[:: max(1, len(records) // _SAMPLE)][:_SAMPLE]
