"""`pact-eval score`: the one step that needs torch and a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pact_cli.console import progress_bar
from pact_cli.options import json_option, label_options, run_labels, subject_options
from pact_cli.reporting import ReportRequest, print_report
from pact_cli.subject import needs_model_extra, subject_request

__all__ = ["score"]


@click.command()
@click.argument("adapter", type=click.Path(path_type=Path), required=False)
@click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    help="Dataset file, JSON lines: records with references, or the ablated contexts of "
    "`pact-audit ablate`.",
)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Run folder to write, or to go on with.",
)
@click.option(
    "--k",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Views a record: the canonical code order and K - 1 permuted ones.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Score only the first so many records.")
@click.option(
    "--order-seed", type=int, default=0, show_default=True, help="Seed of the code orders."
)
@label_options
@subject_options
@json_option
def score(
    data: Path,
    out: Path,
    k: int,
    limit: int | None,
    order_seed: int,
    arm: str | None,
    seed: int | None,
    as_json: bool,
    **subject: Any,
) -> None:
    """Score an adapter on a dataset into a run folder, and report.

    The same command goes on where a killed one stopped. ADAPTER is a LoRA folder as PEFT writes it;
    without it, give --base-model and --no-adapter. A run on ablated contexts says how sure the
    model is without the evidence: report and scorecard read it.
    """
    request = subject_request(**subject)
    with needs_model_extra():
        from pact_eval.scoring.model import identify
        from pact_eval.scoring.score import read_dataset
        from pact_eval.scoring.score import score as score_dataset
    dataset = read_dataset(data, k=k, order_seed=order_seed, limit=limit)
    labels = run_labels(arm, seed)
    with progress_bar("Scoring") as progress:
        score_dataset(identify(request), dataset, out, labels=labels, progress=progress)
    print_report(out, ReportRequest(as_json=as_json))
