"""The choice among the candidates of an arm."""

from __future__ import annotations

from pact_eval.errors import counted
from pact_eval.experiments.selection import ArmSelection
from pact_eval.plain_text import one_line
from pact_reports.presenters.presenter import Presenter
from pact_reports.table import Cell, Column, Row, Table


def present(selection: ArmSelection) -> Presenter:
    """Present a choice; JSON is the content of its file.

    Args:
        selection: the choice.
    """
    chosen, split = selection.chosen, one_line(selection.split)
    return Presenter(
        tables=lambda: (_table(selection),),
        to_json=selection.to_json,
        answers=lambda: [
            f"Chosen: {one_line(chosen.label)}, mean NLL {chosen.mean_nll_nats:.4f} nats over "
            f"{counted(len(selection.seeds), 'seed')} and {counted(selection.items, 'item')} of "
            f"{split}."
        ],
    )


def _table(selection: ArmSelection) -> Table:
    seeds = selection.seeds
    columns = (
        Column("candidate", "left"),
        Column("mean NLL"),
        *(Column(f"seed {seed}") for seed in seeds),
    )
    rows = [
        Row(
            (
                Cell(one_line(candidate.label)),
                Cell(
                    f"{candidate.mean_nll_nats:.4f}",
                    tone="good" if candidate is selection.chosen else None,
                ),
                *(Cell(f"{candidate.nll_nats[seed]:.4f}") for seed in seeds),
            )
        )
        for candidate in selection.candidates
    ]
    title = f"Candidates of {one_line(selection.arm)}: NLL in nats on the selection split"
    return Table("candidates", title, "", columns, tuple(rows))
