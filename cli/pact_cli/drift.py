"""`pact-eval drift`: two logs or runs, compared without right answers."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

from pact_cli.commands import command, gathered, parameters_of, refuse
from pact_cli.console import announce, emit
from pact_cli.exits import exit_as
from pact_cli.import_rows import make_import
from pact_cli.labelled import some_reading_options
from pact_cli.next_commands import remedies_of
from pact_cli.options import RUN
from pact_cli.param_types import Rate
from pact_eval.data.labelled.reading import Reading
from pact_eval.drift.unlabelled import compare_answers, read_place
from pact_eval.importing.source import ImportOptions
from pact_reports.views.drift import present_unlabelled_drift

_GATE: Final = "pact-eval compare BEFORE AFTER --gate --margin 0.02"
_RELEASE: Final = "pact-eval compare AFTER BEFORE --not-worse 2"
_ELSEWHERE: Final = {
    **dict.fromkeys(("--margin", "--gate"), _GATE),
    **dict.fromkeys(("--not-worse", "--require"), _RELEASE),
    "--data": f"{_RELEASE} --data FILE, with right answers",
    "--html": "pact-eval report BEFORE AFTER --html page.html",
}


@command(
    elsewhere=_ELSEWHERE,
    for_ci=True,
    more=("source", "family_from", "suites", "metric", "scorer", "multi"),
)
@gathered(
    "options",
    make_import,
    parameters_of(make_import, ("source", "family_from", "suites", "metric", "scorer", "multi")),
)
@some_reading_options("columns", "option_texts", "answers", "positions_from", "levels")
def drift(
    before: Annotated[Path, RUN, "BEFORE"],
    after: Annotated[Path, RUN, "AFTER"],
    *,
    below: Rate | None = None,
    filter: tuple[str, ...] = (),  # noqa: A002 -- the name of the option
    options: ImportOptions,
    reading: Reading,
    full: bool = False,
) -> None:
    """Say whether answers changed between two logs without right answers.

    BEFORE and AFTER are logs or tables of predictions, as `report` reads them, or runs, on the same
    items, on others, or on both. Right answers are not needed, and not used.

    Which answers to the same items changed is set against those that asking again changes, if a log
    has items several times. How often each answer and question occurs, how sure answers are, and
    how many replies have none, is tested by permutations over items that belong together, adjusted
    for all tests. Nothing here says whether answers are right.

    Exits with 0 if no change is shown, with 3 if answers changed, and with 4 if a log has fewer
    than five independent items. An answer of another model in one log exits with 2.

    Numbers:
        --below X: Also compare the share of answers with a confidence below this, such as 0.8.

    Data:
        --filter: Model whose answers are read of a log of several, with its version if there are
            several, such as m@2; a log of one is read as it is. Filter of lm-evaluation-harness,
            and split of HELM. Given twice: of BEFORE, then of AFTER.

    Output:
        --full: Print the table of all that was compared, and the items that changed.
    """
    refuse(
        len(filter) > 2, f"--filter: expected one, or those of BEFORE and AFTER, got {len(filter)}"
    )
    words = shlex.join(["pact-eval", "drift", str(before), str(after)])
    options = replace(options, reading=reading)
    filters = filter * 2 if len(filter) == 1 else filter or (None, None)
    sides = []
    for place, chosen in zip((before, after), filters, strict=True):
        with remedies_of(place, words):
            sides.append(read_place(place, replace(options, filter=chosen)))
        announce(f"{side.place}: {remark}" for side in sides[-1:] for remark in side.remarks)
    result = compare_answers(*sides, below=below)
    presenter = present_unlabelled_drift(result)
    emit(presenter, full=full)
    exit_as(result.finding)
