"""`pact-eval thresholds`: choose gates with a guarantee, and check them on other runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pact_cli.commands import command
from pact_cli.console import emit
from pact_cli.options import (
    PATH,
    RUN,
    gathered,
    json_option,
    number,
    path_argument,
    settings_options,
)
from pact_cli.parameters import choice, option
from pact_eval._choices import CONFIDENCE, Counting, GateGroups, Signal
from pact_eval.errors import GateError, InconclusiveError

if TYPE_CHECKING:
    from pact_eval.evaluation.settings import Settings
    from pact_eval.thresholds.checking import GateVerdict
    from pact_eval.thresholds.targets import Target

RATE: Final = click.FloatRange(min=0, max=1, min_open=True, max_open=True)
"""A share above 0 and below 1."""

_COST: Final = click.FloatRange(min=0, min_open=True)
_OF_CHOICE: Final = (
    *("signal", "groups", "confidence", "together", "counting", "out", "decoding", "unit"),
)

counting_option: Final = option(
    "--counting",
    type=choice(Counting),
    default="families",
    show_default=True,
    help="What counts the same in the guarantee. families: every family gives a tested item. "
    "items: large families count more, and a small one may give no tested item.",
)
"""What counts the same: families or items."""


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
        callback=number,
        help="Largest error among accepted items, such as 0.05.",
    ),
    option(
        "--target-accuracy",
        "accuracy",
        group="Numbers",
        type=RATE,
        callback=number,
        help="Least accuracy among accepted items, such as 0.95.",
    ),
    option(
        "--target-escalation",
        "escalation",
        group="Numbers",
        type=RATE,
        callback=number,
        help="Largest share of escalated items; the strictest gate that keeps it is chosen.",
    ),
    option(
        "--cost-wrong",
        "wrong",
        group="Numbers",
        type=_COST,
        callback=number,
        help="Cost of a wrong decision.",
    ),
    option(
        "--cost-review",
        "review",
        group="Numbers",
        type=_COST,
        callback=number,
        help="Cost of a review by a person; with --cost-wrong.",
    ),
]


@command()
@path_argument("run", "RUN", RUN)
@gathered("target_options", _TargetOptions, _TARGETS)
@option(
    "--gate",
    "signal",
    group="Numbers",
    type=choice(Signal),
    default="top",
    show_default=True,
    help="What the gate is on: top probability, its distance to the second, entropy, or the mean "
    "TV between the K views.",
)
@option(
    "--gates-by",
    "groups",
    group="Numbers",
    type=choice(GateGroups),
    default="all",
    show_default=True,
    help="One gate for all items, or one for every kind or domain.",
)
@option(
    "--confidence",
    group="Numbers",
    type=RATE,
    callback=number,
    default=CONFIDENCE,
    show_default=True,
    help="Confidence of the guarantee, of each gate alone.",
)
@option(
    "--together",
    group="Numbers",
    is_flag=True,
    help="The confidence holds for all gates together (Bonferroni).",
)
@counting_option
@option("-o", "--out", type=PATH, help="File for the thresholds, such as thresholds.json.")
@option(
    "--check",
    group="Data",
    metavar="FILE",
    type=PATH,
    help="Check the thresholds of FILE on RUN instead. Exits with 3 if a gate is broken, and with "
    "4 if the run cannot tell.",
)
@option("--brief", is_flag=True, help="Print the answer alone, in one line.")
@settings_options("decoding", "calibration", "unit", "allow")
@json_option
def thresholds(
    run: Path,
    target_options: _TargetOptions,
    signal: Signal,
    groups: GateGroups,
    confidence: float,
    together: bool,
    counting: Counting,
    out: Path | None,
    check: Path | None,
    brief: bool,
    settings: Settings,
    as_json: bool,
) -> None:
    """Choose which decisions of RUN need no review.

    A gate accepts an answer if the model is sure enough of it; a person decides the rest. The gate
    is chosen so that the error among the accepted items of new families is at most the target, with
    the confidence given: exact binomial tests of one item per family, in a fixed order of gates.
    Items without an answer are escalated. If no gate can be guaranteed, the output says how many
    families would be needed, if that can be known.

    RUN must not have been used to fit anything. --check tests a file of thresholds on other
    families, such as next month's: 0 holds, 4 cannot tell, 3 broken. Several gates are adjusted
    together (Holm).
    """
    if check is not None:
        refuse_options_of_choice(_OF_CHOICE, "thresholds", "decide", target=target_options.any)
        _check(check, run, settings, brief=brief, as_json=as_json)
        return
    from pact_eval.thresholds.choice import choose_thresholds
    from pact_eval.thresholds.conclusion import acting_without_probabilities
    from pact_eval.thresholds.files import write_thresholds
    from pact_reports.presenters.acting import present as present_acting
    from pact_reports.presenters.thresholds import present

    target = target_options.target()
    untestable = None if out else acting_without_probabilities(run, target, confidence)
    if untestable is not None:
        emit(present_acting(untestable), brief=True, as_json=as_json)
        return
    chosen = choose_thresholds(
        run,
        target,
        signal=signal,
        by=groups,
        confidence=confidence,
        together=together,
        counting=counting,
        settings=settings,
    )
    if out is not None:
        write_thresholds(out, chosen)
    emit(present(chosen), files=[out] if out else [], brief=brief, as_json=as_json)


def _check(file: Path, run: Path, settings: Settings, *, brief: bool, as_json: bool) -> None:
    from pact_eval.thresholds.checking import check_thresholds
    from pact_reports.presenters.thresholds_check import present

    check = check_thresholds(file, run, settings=settings)
    emit(present(check), brief=brief, as_json=as_json)
    click.get_current_context().exit(exit_code(check.verdict))


def exit_code(verdict: GateVerdict) -> int:
    """Return the exit code of a check."""
    codes = {"holds": 0, "cannot tell": InconclusiveError.exit_code, "broken": GateError.exit_code}
    return codes[verdict]


def refuse_options_of_choice(
    of_choice: Sequence[str], what: str, how: str, *, target: bool = False
) -> None:
    """Refuse options that would not change a check: the file says how it was chosen.

    Args:
        of_choice: names of the parameters of a choice.
        what: what the file holds, in the plural.
        how: what the file says of it.
        target: whether a target was given.
    """
    context = click.get_current_context()
    refused: list[Any] = [
        parameter.opts[0] if len(parameter.opts) == 1 else parameter.opts[-1]
        for parameter in context.command.params
        if parameter.name in of_choice
        and context.get_parameter_source(parameter.name) == click.core.ParameterSource.COMMANDLINE
    ]
    if target:
        refused.insert(0, "a target")
    if refused:
        message = (
            f"{refused[0]} is for choosing {what}; with --check, the file says how they {how}. "
            "Choose others without --check"
        )
        raise click.UsageError(message)
