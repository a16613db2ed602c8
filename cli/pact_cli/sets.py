"""`pact-eval sets`: choose answer sets with a guarantee, and check them on other runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pact_cli.commands import command
from pact_cli.console import emit
from pact_cli.options import PATH, RUN, json_option, number, path_argument, settings_options
from pact_cli.parameters import option
from pact_cli.thresholds import (
    RATE,
    counting_option,
    exit_code,
    refuse_options_of_choice,
)
from pact_eval._choices import COVERAGE, Counting

if TYPE_CHECKING:
    from pact_eval.evaluation.settings import Settings

_OF_CHOICE: Final = (
    *("coverage", "confidence", "counting", "ties_seed", "out", "decoding", "unit"),
)


@command()
@path_argument("run", "RUN", RUN)
@option(
    "--coverage",
    type=RATE,
    callback=number,
    default=COVERAGE,
    show_default=True,
    help="Share of new items whose set contains the right answer.",
)
@option(
    "--confidence",
    group="Numbers",
    type=RATE,
    callback=number,
    help="Keep the coverage with this confidence in this choice, such as 0.95. Default: keep it on "
    "average over choices, and print what this choice keeps with 95%.",
)
@counting_option
@option(
    "--ties-seed",
    type=int,
    metavar="SEED",
    help="Break ties between probabilities at random, with this seed. Makes sets of probabilities "
    "with few decimals smaller; equal probabilities may then have different sets. Default: keep "
    "all tied answers.",
)
@option("-o", "--out", type=PATH, help="File for the sets, such as sets.json.")
@option(
    "--check",
    group="Data",
    metavar="FILE",
    type=PATH,
    help="Check the sets of FILE on RUN instead. Exits with 3 if those of a kind are broken, and "
    "with 4 if the run cannot tell.",
)
@option("--brief", is_flag=True, help="Print the answer alone, in one line.")
@settings_options("decoding", "calibration", "unit", "allow", "resamples", "seed")
@json_option
def sets(
    run: Path,
    coverage: float,
    confidence: float | None,
    counting: Counting,
    ties_seed: int | None,
    out: Path | None,
    check: Path | None,
    brief: bool,
    settings: Settings,
    as_json: bool,
) -> None:
    """Choose answer sets of RUN that contain the right answer.

    If one answer is not enough: the most probable answers of each item, as many as are needed for
    the coverage, and intervals of levels for Score. The guarantee is for each kind and for new
    families, by split-conformal prediction with one item of each family. If the families are too
    few for sets smaller than all answers, the output says how many would do.

    RUN must not have been used to fit anything. --check tests on other families, such as next
    month's, whether the sets of a file have their coverage: 0 holds, 4 cannot tell, 3 broken. Kinds
    are adjusted together (Holm).
    """
    if check is not None:
        refuse_options_of_choice(_OF_CHOICE, "sets", "are made")
        _check(check, run, settings, brief=brief, as_json=as_json)
        return
    from pact_eval.thresholds.answer_sets import choose_answer_sets
    from pact_eval.thresholds.set_files import write_answer_sets
    from pact_reports.presenters.answer_sets import present

    chosen = choose_answer_sets(
        run,
        coverage,
        confidence=confidence,
        counting=counting,
        ties_seed=ties_seed,
        settings=settings,
    )
    if out is not None:
        write_answer_sets(out, chosen)
    emit(present(chosen), files=[out] if out else [], brief=brief, as_json=as_json)


def _check(file: Path, run: Path, settings: Settings, *, brief: bool, as_json: bool) -> None:
    from pact_eval.thresholds.set_checking import check_answer_sets
    from pact_reports.presenters.answer_sets_check import present

    check = check_answer_sets(file, run, settings=settings)
    emit(present(check), brief=brief, as_json=as_json)
    click.get_current_context().exit(exit_code(check.verdict))
