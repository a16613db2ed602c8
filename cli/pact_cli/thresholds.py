"""`pact-eval thresholds`: choose gates or answer sets, and check them on other runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from pact_cli.commands import command, refuse, refuse_given
from pact_cli.console import emit
from pact_cli.exits import exit_as
from pact_cli.options import RUN, settings_options
from pact_cli.param_types import Positive, Rate
from pact_eval._choices import CONFIDENCE, COVERAGE, Counting, GateGroups, Signal
from pact_eval.evaluation.settings import Settings
from pact_eval.thresholds.answer_sets import choose_answer_sets
from pact_eval.thresholds.checking import check_answer_sets, check_thresholds
from pact_eval.thresholds.choice import choose_thresholds
from pact_eval.thresholds.conclusion import acting_without_probabilities
from pact_eval.thresholds.files import is_answer_sets, write_choice
from pact_eval.thresholds.gates import Target
from pact_reports.views.thresholds import (
    present_acting,
    present_answer_sets,
    present_answer_sets_check,
    present_thresholds,
    present_thresholds_check,
)

_OF_CHOICE: Final = (
    *("gate", "gates_by", "together", "coverage", "confidence", "counting", "out", "decoding"),
    "unit",
)
_OF_GATES: Final = ("gate", "together")


@command(
    elsewhere={"--target-accuracy": "--target-error 0.05, for an accuracy of 95%"},
    for_ci=True,
    more=("gate", "together", "confidence", "coverage", "counting", "unit", "allow"),
    settings=("ties_seed", "resamples", "bootstrap_seed"),
)
@settings_options("decoding", "calibration", "unit", "allow", "resamples", "bootstrap_seed")
def thresholds(
    run: Annotated[Path, RUN, "RUN"],
    *,
    target_error: Rate | None = None,
    target_escalation: Rate | None = None,
    cost_wrong: Positive | None = None,
    gate: Signal = "top",
    gates_by: GateGroups = "all",
    together: bool = False,
    sets: bool = False,
    coverage: Rate | None = None,
    ties_seed: int | None = None,
    confidence: Rate | None = None,
    counting: Counting = "families",
    out: Path | None = None,
    check: Path | None = None,
    full: bool = False,
    settings: Settings,
) -> None:
    """Choose which decisions of RUN need no review.

    A gate accepts an answer if the model is sure enough of it; a person decides the rest. The gate
    is chosen so that the error among the accepted items of new families is at most the target, with
    the confidence given. --check tests a file of thresholds on other families, such as next
    month's: 0 holds, 4 cannot tell, 3 broken. RUN must not have been used to fit anything.

    The tests are exact binomial tests of one item per family, in a fixed order of gates. Items
    without an answer are escalated. If no gate can be guaranteed, the output says how many families
    would be needed, if that can be known. Several gates are adjusted together (Holm).

    --sets: answer sets that contain the right answer, and intervals of levels for Score. The
    guarantee is for each kind and for new families, by split-conformal prediction with one item of
    each family. If the families are too few for sets smaller than all answers, the output says how
    many would do.

    Numbers:
        --target-error: Largest error among accepted items, such as 0.05.
        --target-escalation: Largest share of escalated items; the strictest gate that keeps it is
            chosen.
        --cost-wrong: Cost of a wrong decision; the review of a person costs 1.
        --gate: What the gate is on: top probability, its distance to the second, entropy, or the
            mean TV between the K views.
        --gates-by: One gate for all items, or one for every kind, domain or question, or for every
            answer that the model gives. With --sets: question chooses sets for every question, in
            place of every kind.
        --together: The confidence holds for all gates together (Bonferroni).
        --confidence: Confidence of the guarantee, of each gate alone. Default: 0.95. With --sets:
            keep the coverage with this confidence in this choice. Default: keep it on average over
            choices, and print what this choice keeps with 95%.
        --counting: What counts the same in the guarantee. families: every family gives a tested
            item. items: large families count more, and a small one may give no tested item.

    Numbers:
        --sets: Choose answer sets instead, if one answer is not enough: the most probable answers
            of each item, as many as contain the right one in 90% of new items.
        --coverage: As --sets, with another share of new items whose set contains the right answer.
        --ties-seed SEED: Break ties between probabilities at random in answer sets, with this seed.
            Makes sets of probabilities with few decimals smaller; equal probabilities may then have
            different sets. Default: keep all tied answers.

    Data:
        --check FILE: Check the thresholds or answer sets of FILE on RUN instead. Exits with 3 if
            one is broken, and with 4 if the run cannot tell.

    Output:
        -o, --out: File for the result, such as thresholds.json.
        --full: Print every table below the answer.
    """
    numbers = (target_error, target_escalation, cost_wrong)
    is_target = any(number is not None for number in numbers)
    sets = sets or coverage is not None or (check is not None and is_answer_sets(check))
    _check_usage(sets=sets, check=check, target=is_target)
    refuse(
        sets and gates_by not in ("all", "kind", "question"),
        f"--gates-by {gates_by} is for gates; answer sets are of kinds, or of questions",
    )
    emit_result = partial(emit, full=full)
    if check is not None and sets:
        checked_sets = check_answer_sets(check, run, settings=settings)
        emit_result(present_answer_sets_check(checked_sets))
        exit_as(checked_sets.verdict)
    if check is not None:
        checked = check_thresholds(check, run, settings=settings)
        emit_result(present_thresholds_check(checked))
        exit_as(checked.verdict)
    files = [] if out is None else [out]
    if sets:
        chosen_sets = choose_answer_sets(
            run,
            coverage or COVERAGE,
            by="question" if gates_by == "question" else "kind",
            confidence=confidence,
            counting=counting,
            ties_seed=ties_seed,
            settings=settings,
        )
        for file in files:
            write_choice(file, chosen_sets)
        emit_result(present_answer_sets(chosen_sets), files=files)
        return
    target = _target(*numbers)
    acting = None if out else acting_without_probabilities(run, target, confidence or CONFIDENCE)
    if acting is not None:
        emit(present_acting(acting))
        return
    chosen = choose_thresholds(
        run,
        target,
        signal=gate,
        by=gates_by,
        confidence=confidence or CONFIDENCE,
        together=together,
        counting=counting,
        settings=settings,
    )
    for file in files:
        write_choice(file, chosen)
    emit_result(present_thresholds(chosen), files=files)


def _target(error: float | None, escalation: float | None, wrong: float | None) -> Target:
    """Return the one target.

    Raises:
        click.UsageError: there is none, or more than one.
    """
    rates = {Target.of_error: error, Target.of_escalation: escalation}
    targets = [make(rate) for make, rate in rates.items() if rate is not None]
    if wrong is not None:
        targets.append(Target.of_costs(wrong=wrong, review=1.0))
    refuse(
        len(targets) != 1,
        "give one of --target-error, --target-escalation, --cost-wrong",
    )
    return targets[0]


def _check_usage(*, sets: bool, check: Path | None, target: bool) -> None:
    """Refuse options that would change nothing.

    Raises:
        click.UsageError: there is one; the message says what it is for.
    """
    if check is not None:
        what, how = ("sets", "are made") if sets else ("thresholds", "decide")
        _refuse_choice(
            _OF_CHOICE,
            f"{{}} is for choosing {what}; with --check, the file says how they {how}. Choose "
            "others without --check",
            target=target,
        )
    elif sets:
        message = "{} is for gates; answer sets have a --coverage. Leave out --sets or --coverage"
        _refuse_choice(_OF_GATES, message, target=target)


def _refuse_choice(names: Sequence[str], message: str, *, target: bool) -> None:
    refuse(target, message.replace("{}", "a target"))
    refuse_given(names, message)
