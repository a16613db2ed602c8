"""`pact-eval thresholds`: choose gates or answer sets, and check them on other runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pact_cli.commands import INTEGER, POSITIVE, RATE, choice, command, option
from pact_cli.console import emit
from pact_cli.options import (
    PATH,
    RUN,
    ci_option,
    gathered,
    json_option,
    path_argument,
    settings_options,
)
from pact_eval._choices import CONFIDENCE, COVERAGE, CiFormat, Counting, GateGroups, Signal
from pact_eval.errors import GateError, InconclusiveError

if TYPE_CHECKING:
    from pact_eval.evaluation.settings import Settings
    from pact_eval.thresholds.checking import GateVerdict
    from pact_eval.thresholds.targets import Target
    from pact_reports.views.presenter import Presenter

_OF_CHOICE: Final = (
    *("signal", "groups", "together", "coverage", "ties_seed", "confidence", "counting", "out"),
    *("decoding", "unit"),
)
_OF_GATES: Final = ("signal", "groups", "together")
_OF_SETS: Final = ("coverage", "ties_seed", "resamples", "seed")


@dataclass(frozen=True)
class _TargetOptions:
    """Target that the user asked for; None if there is none."""

    error: float | None
    accuracy: float | None
    escalation: float | None
    wrong: float | None
    review: float | None

    @property
    def any(self) -> bool:
        """Whether a target was given."""
        return any(number is not None for number in vars(self).values())

    def target(self) -> Target:
        """Return the one target.

        Raises:
            click.UsageError: there is none, or more than one, or only one of the two costs.
        """
        from pact_eval.thresholds.targets import Target

        if (self.wrong is None) != (self.review is None):
            raise click.UsageError("--cost-wrong and --cost-review belong together")
        rates = {
            Target.of_error: self.error,
            Target.of_accuracy: self.accuracy,
            Target.of_escalation: self.escalation,
        }
        targets = [make(rate) for make, rate in rates.items() if rate is not None]
        if self.wrong is not None and self.review is not None:
            targets.append(Target.of_costs(wrong=self.wrong, review=self.review))
        if len(targets) != 1:
            message = (
                "give one of --target-error, --target-accuracy, --target-escalation, or both "
                "--cost-wrong and --cost-review"
            )
            raise click.UsageError(message)
        return targets[0]


_TARGETS: Final = [
    option(
        "--target-error",
        "error",
        group="Numbers",
        type=RATE,
        help="Largest error among accepted items, such as 0.05.",
    ),
    option(
        "--target-accuracy",
        "accuracy",
        group="Numbers",
        type=RATE,
        help="Least accuracy among accepted items, such as 0.95.",
    ),
    option(
        "--target-escalation",
        "escalation",
        group="Numbers",
        type=RATE,
        help="Largest share of escalated items; the strictest gate that keeps it is chosen.",
    ),
    option(
        "--cost-wrong",
        "wrong",
        group="Numbers",
        type=POSITIVE,
        help="Cost of a wrong decision.",
    ),
    option(
        "--cost-review",
        "review",
        group="Numbers",
        type=POSITIVE,
        help="Cost of a review by a person; with --cost-wrong.",
    ),
]


_GATES: Final = [
    option(
        "--gate",
        "signal",
        group="Numbers",
        type=choice(Signal),
        default="top",
        show_default=True,
        help="What the gate is on: top probability, its distance to the second, entropy, or the "
        "mean TV between the K views.",
    ),
    option(
        "--gates-by",
        "groups",
        group="Numbers",
        type=choice(GateGroups),
        default="all",
        show_default=True,
        help="One gate for all items, or one for every kind or domain.",
    ),
    option(
        "--together",
        group="Numbers",
        is_flag=True,
        help="The confidence holds for all gates together (Bonferroni).",
    ),
]

_SETS: Final = [
    option(
        "--sets",
        group="Sets",
        is_flag=True,
        help="Choose answer sets instead, if one answer is not enough: the most probable answers "
        "of each item, as many as are needed for the coverage.",
    ),
    option(
        "--coverage",
        group="Sets",
        type=RATE,
        default=COVERAGE,
        show_default=True,
        help="With --sets: share of new items whose set contains the right answer.",
    ),
    option(
        "--ties-seed",
        group="Sets",
        type=INTEGER,
        metavar="SEED",
        help="With --sets: break ties between probabilities at random, with this seed. Makes sets "
        "of probabilities with few decimals smaller; equal probabilities may then have different "
        "sets. Default: keep all tied answers.",
    ),
]


@dataclass(frozen=True)
class _GateOptions:
    """Options of gates."""

    signal: Signal
    groups: GateGroups
    together: bool


@dataclass(frozen=True)
class _SetOptions:
    """Options of answer sets."""

    sets: bool
    coverage: float
    ties_seed: int | None


@command()
@path_argument("run", "RUN", RUN)
@gathered("target_options", _TargetOptions, _TARGETS)
@gathered("gates", _GateOptions, _GATES)
@gathered("set_options", _SetOptions, _SETS)
@option(
    "--confidence",
    group="Numbers",
    type=RATE,
    help="Confidence of the guarantee, of each gate alone. Default: 0.95. With --sets: keep the "
    "coverage with this confidence in this choice. Default: keep it on average over choices, and "
    "print what this choice keeps with 95%.",
)
@option(
    "--counting",
    group="Numbers",
    type=choice(Counting),
    default="families",
    show_default=True,
    help="What counts the same in the guarantee. families: every family gives a tested item. "
    "items: large families count more, and a small one may give no tested item.",
)
@option("-o", "--out", type=PATH, help="File for the result, such as thresholds.json.")
@option(
    "--check",
    group="Data",
    metavar="FILE",
    type=PATH,
    help="Check the thresholds (or, with --sets, the answer sets) of FILE on RUN instead. Exits "
    "with 3 if one is broken, and with 4 if the run cannot tell.",
)
@option("--brief", is_flag=True, help="Print the answer alone, in one line.")
@settings_options("decoding", "calibration", "unit", "allow", "resamples", "seed")
@ci_option
@json_option
def thresholds(
    run: Path,
    target_options: _TargetOptions,
    gates: _GateOptions,
    set_options: _SetOptions,
    confidence: float | None,
    counting: Counting,
    out: Path | None,
    check: Path | None,
    brief: bool,
    settings: Settings,
    ci_format: CiFormat | None,
    as_json: bool,
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
    """
    _check_usage(target_options, sets=set_options.sets, check=check)
    if ci_format is not None and check is None:
        raise click.UsageError("--format is for --check, which fails or passes: add --check FILE")
    if check is not None:
        emit_check = partial(emit, brief=brief, ci_format=ci_format, as_json=as_json)
        verdict = _print_check(check, run, settings, sets=set_options.sets, emit_check=emit_check)
        click.get_current_context().exit(_exit_code(verdict))
    if set_options.sets:
        presenter = _chosen_sets(run, set_options, confidence, counting, out, settings)
    else:
        target = target_options.target()
        untestable = None if out else _untestable(run, target, confidence)
        if untestable is not None:
            emit(untestable, brief=True, as_json=as_json)
            return
        presenter = _chosen_gates(run, target, gates, confidence, counting, out, settings)
    emit(presenter, files=[out] if out else [], brief=brief, as_json=as_json)


def _untestable(run: Path, target: Target, confidence: float | None) -> Presenter | None:
    """Present what is known of a run without probabilities; None if it has some."""
    from pact_eval.thresholds.conclusion import acting_without_probabilities
    from pact_reports.views.thresholds import present_acting

    acting = acting_without_probabilities(run, target, confidence or CONFIDENCE)
    return None if acting is None else present_acting(acting)


def _chosen_gates(
    run: Path,
    target: Target,
    gates: _GateOptions,
    confidence: float | None,
    counting: Counting,
    out: Path | None,
    settings: Settings,
) -> Presenter:
    """Choose gates, write their file and present them."""
    from pact_eval.thresholds.choice import choose_thresholds
    from pact_eval.thresholds.files import write_thresholds
    from pact_reports.views.thresholds import present_thresholds

    chosen = choose_thresholds(
        run,
        target,
        signal=gates.signal,
        by=gates.groups,
        confidence=confidence or CONFIDENCE,
        together=gates.together,
        counting=counting,
        settings=settings,
    )
    if out is not None:
        write_thresholds(out, chosen)
    return present_thresholds(chosen)


def _chosen_sets(
    run: Path,
    options: _SetOptions,
    confidence: float | None,
    counting: Counting,
    out: Path | None,
    settings: Settings,
) -> Presenter:
    """Choose answer sets, write their file and present them."""
    from pact_eval.thresholds.answer_sets import choose_answer_sets
    from pact_eval.thresholds.set_checking import write_answer_sets
    from pact_reports.views.thresholds import present_answer_sets

    chosen = choose_answer_sets(
        run,
        options.coverage,
        confidence=confidence,
        counting=counting,
        ties_seed=options.ties_seed,
        settings=settings,
    )
    if out is not None:
        write_answer_sets(out, chosen)
    return present_answer_sets(chosen)


def _print_check(
    file: Path,
    run: Path,
    settings: Settings,
    *,
    sets: bool,
    emit_check: Callable[[Presenter], None],
) -> GateVerdict:
    """Print the check of a file on a run, and return its verdict."""
    if sets:
        from pact_eval.thresholds.set_checking import check_answer_sets
        from pact_reports.views.thresholds import present_answer_sets_check as present_sets

        checked_sets = check_answer_sets(file, run, settings=settings)
        emit_check(present_sets(checked_sets))
        return checked_sets.verdict
    from pact_eval.thresholds.checking import check_thresholds
    from pact_reports.views.thresholds import present_thresholds_check

    checked = check_thresholds(file, run, settings=settings)
    emit_check(present_thresholds_check(checked))
    return checked.verdict


def _exit_code(verdict: GateVerdict) -> int:
    codes = {"holds": 0, "cannot tell": InconclusiveError.exit_code, "broken": GateError.exit_code}
    return codes[verdict]


def _check_usage(target: _TargetOptions, *, sets: bool, check: Path | None) -> None:
    """Refuse options that would change nothing.

    Raises:
        click.UsageError: there is one; the message says what it is for.
    """
    message = None
    if check is not None and (target.any or _on_command_line(_OF_CHOICE)):
        what, how = ("sets", "are made") if sets else ("thresholds", "decide")
        option_name = "a target" if target.any else _on_command_line(_OF_CHOICE)[0]
        message = (
            f"{option_name} is for choosing {what}; with --check, the file says how they {how}. "
            "Choose others without --check"
        )
    elif sets and (target.any or _on_command_line(_OF_GATES)):
        option_name = "a target" if target.any else _on_command_line(_OF_GATES)[0]
        message = f"{option_name} is for gates; answer sets have a --coverage. Leave out --sets"
    elif not sets and _on_command_line(_OF_SETS):
        message = f"{_on_command_line(_OF_SETS)[0]} is for answer sets: add --sets"
    if message is not None:
        raise click.UsageError(message)


def _on_command_line(names: Sequence[str]) -> list[str]:
    """Return those of some parameters that are on the command line, as options are called."""
    context = click.get_current_context()
    return [
        parameter.opts[0] if len(parameter.opts) == 1 else max(parameter.opts[:2], key=len)
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(parameter.name) == click.core.ParameterSource.COMMANDLINE
    ]
