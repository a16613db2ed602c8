"""Checks of gates on another run: one exact test per gate and direction.

One item of each family is drawn (`gate_items.py`), so that n accepted items are independent.
A gate *holds* if the drawn items show an error below the target: P(Bin(n, target) <= wrong) is at
most the level. It is *broken* if they show one above it: P(Bin(n, target) >= wrong) is at most the
level. Otherwise these data *cannot tell*. The level is 1 - confidence of the gate: a gate that
keeps its target is called broken in at most that share of checks, and one that misses it is said to
hold in at most that share. The p-values of gates that are checked together are adjusted together
(Holm), in each direction, so both shares are those of checks with any such gate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from pact_eval._typing import TextArray
from pact_eval.calibration.temperatures import calibrator_sha256
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.settings import Settings
from pact_eval.results import Result
from pact_eval.runs.folder import RunSource
from pact_eval.runs.identity import Difference, RunIdentity
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.multiplicity import holm
from pact_eval.stats.proportions import p_value_above, trials_needed
from pact_eval.thresholds.choice import (
    gate_items,
    group_rows,
    rate_over_units,
    run_with_answers,
)
from pact_eval.thresholds.files import PromiseFile, ThresholdsFile, read_thresholds
from pact_eval.thresholds.gate_items import GateItems, gate_test
from pact_eval.thresholds.targets import Target

GateVerdict: TypeAlias = Literal["holds", "cannot tell", "broken"]
"""What a check says of a gate."""

_NAMES_SHOWN = 3


@dataclass(frozen=True)
class CheckedGate:
    """A gate on another run.

    Attributes:
        group: all, or the kind or domain.
        threshold: the gate; None accepts nothing.
        verdict: holds, cannot tell or broken. A gate that accepts nothing holds: it guarantees
            nothing.
        drawn: independent items that count: accepted ones, or all of them for an escalation target.
        wrong: those of them that are wrong, or escalated.
        p_holds: p-value of "the target is exceeded"; a small one shows that the gate holds. Both
            are adjusted for the gates that are checked together.
        p_broken: p-value of "the target is kept"; a small one shows that the gate is broken.
        coverage: share of the items that are accepted.
        error: error among all accepted items of the run.
        needed: families with which a verdict is likely, if the rate is as here; None if there is a
            verdict, or if a million drawn items would not do.
        units: families of the group.
        tested: families that gave a tested item.
    """

    group: str
    threshold: float | None
    verdict: GateVerdict
    drawn: int
    wrong: int
    p_holds: float
    p_broken: float
    coverage: Estimate
    error: Estimate
    needed: int | None
    units: int
    tested: int


@dataclass(frozen=True, repr=False)
class ThresholdsCheck(Result):
    """A check of thresholds on a run.

    Attributes:
        run: the run.
        file: the thresholds.
        gates: one result per gate.
        differences: how the model and the prompts differ from those that the gates belong to.
        model_known: whether both models are known.
        without_gate: items of groups that have no gate; they are escalated.
    """

    run: ExperimentRun
    file: ThresholdsFile
    gates: tuple[CheckedGate, ...]
    differences: tuple[Difference, ...]
    model_known: bool
    without_gate: int

    @property
    def verdict(self) -> GateVerdict:
        """Broken if a gate is; otherwise cannot tell if one cannot; otherwise holds.

        Without a gate that accepts anything there is nothing to hold: cannot tell.
        """
        return worst_verdict(self.gates)


def worst_verdict(gates: Iterable[CheckedGate]) -> GateVerdict:
    """Return the worst verdict of gates; those that accept nothing guarantee nothing."""
    verdicts = {gate.verdict for gate in gates if gate.threshold is not None}
    if "broken" in verdicts:
        return "broken"
    return "holds" if verdicts == {"holds"} else "cannot tell"


def check_thresholds(
    path: Path, source: RunSource, *, settings: Settings | None = None
) -> ThresholdsCheck:
    """Check the gates of a file on a run of other families.

    Args:
        path: file of thresholds.
        source: a complete run with references.
        settings: the calibrator, if it is not in the run folder.

    Returns:
        One result per gate. Other models and prompts are reported, not refused.

    Raises:
        RunError: the folder is not a complete run with references.
        InputError: the file cannot be read; the run lacks the decoding of the gates (its views, or
            their calibrator); or the gates were chosen on families of the run.
        TamperedError: the file has changed since it was written.
    """
    file = read_thresholds(path)
    run = run_to_check(file, source, settings or Settings())
    items, columns = gate_items(run, file.rule)
    refuse_own_families(file, columns["family"], run.place)
    groups = group_rows(columns, file.rule.by)
    nothing = np.zeros(len(items), dtype=np.bool_)
    gates = checked_gates(
        {name: items.taken(groups.get(name, nothing)) for name in file.gates},
        file.gates,
        target=file.target,
        level=1 - file.confidence.each,
    )
    here = RunIdentity.of(run.provenance)
    return ThresholdsCheck(
        run=run,
        file=file,
        gates=gates,
        differences=file.model.differences(here),
        model_known=file.model.names_model and here.names_model,
        without_gate=sum(
            int(rows.sum()) for name, rows in groups.items() if name not in file.gates
        ),
    )


def run_to_check(file: PromiseFile, source: RunSource, settings: Settings) -> ExperimentRun:
    """Return a run with the views and the calibrator that a file demands.

    Raises:
        RunError: the folder is not a complete run with references.
        InputError: it cannot be decoded as the file demands.
    """
    rule = file.rule
    if rule.calibration == "as shipped":
        settings = replace(settings, calibrated=True, shipped=True)
    elif rule.calibration == "raw" and settings.calibrated:
        message = f"{file.path}: made for raw probabilities; leave out --calibration"
        raise InputError(message)
    run = run_with_answers(source, replace(settings, decoding=rule.decoding))
    k = run.predictions.k
    if k < rule.k:
        message = f"{file.path}: made for {rule.k} views per item, {run.place} has {k}"
        raise InputError(message)
    if rule.calibration != "raw":
        calibrator = run.applied(rule.decoding, calibrated=True)
        if calibrator is not None and calibrator_sha256(calibrator) != file.calibrator_sha256:
            message = (
                f"{file.path}: made for probabilities of another calibrator than that of "
                f"{run.place}; give theirs with --calibration, or choose again for this one"
            )
            raise InputError(message)
    return run.with_views(rule.k) if rule.k > 1 else run


def refuse_own_families(file: PromiseFile, families: TextArray, place: str) -> None:
    """Refuse a check on the families of the choice.

    Raises:
        InputError: some families are the same.
    """
    shared = sorted(file.families & set(families.tolist()) - {""})
    if not shared:
        return
    named = ", ".join(shared[:_NAMES_SHOWN])
    message = (
        f"{file.path}: chosen on {len(shared):,} of the families of {place} "
        f"({named}{', ...' if len(shared) > _NAMES_SHOWN else ''}), so a check there would "
        "flatter the choice; check it on a run of other families"
    )
    raise InputError(message)


def checked_gates(
    items: Mapping[str, GateItems],
    thresholds: Mapping[str, float | None],
    *,
    target: Target,
    level: float,
) -> tuple[CheckedGate, ...]:
    """Check gates together.

    Args:
        items: those of each group.
        thresholds: the gate of each group; None accepts nothing.
        target: what each gate must keep.
        level: of the exact tests, 1 - confidence, for all gates together.
    """
    alone = [
        _test_gate(group, items[group], least, target, level) for group, least in thresholds.items()
    ]
    guarantees = [gate.threshold is not None for gate in alone]
    holds, broken = (
        holm(np.where(guarantees, p_values, np.nan)).adjusted.tolist()
        for p_values in ([gate.p_holds for gate in alone], [gate.p_broken for gate in alone])
    )
    return tuple(
        _judge(gate, level, p_holds, p_broken) if gate.threshold is not None else gate
        for gate, p_holds, p_broken in zip(alone, holds, broken, strict=True)
    )


def _judge(gate: CheckedGate, level: float, p_holds: float, p_broken: float) -> CheckedGate:
    """Return a gate with its verdict, from p-values that are adjusted for all gates."""
    verdict: GateVerdict = "cannot tell"
    if p_holds <= level:
        verdict = "holds"
    elif p_broken <= level:
        verdict = "broken"
    needed = gate.needed if verdict == "cannot tell" else None
    return replace(gate, verdict=verdict, p_holds=p_holds, p_broken=p_broken, needed=needed)


def _test_gate(
    group: str, items: GateItems, threshold: float | None, target: Target, level: float
) -> CheckedGate:
    """Return a gate with its p-values alone; a gate that accepts nothing holds."""
    accepted = items.accepted(threshold)
    every = np.ones(len(items), dtype=np.bool_)
    drawn = items.taken(items.draw.one)
    test = gate_test(drawn, np.inf if threshold is None else threshold, target, level)
    return CheckedGate(
        group=group,
        threshold=threshold,
        verdict="holds",
        drawn=test.accepted,
        wrong=test.wrong,
        p_holds=test.p_value,
        p_broken=float(p_value_above(test.wrong, test.accepted, target.rate)),
        coverage=rate_over_units(items, accepted, every),
        error=rate_over_units(items, items.wrong, accepted),
        needed=None if threshold is None else _families_needed(items, threshold, target, level),
        units=len(items.units),
        tested=len(drawn),
    )


def _families_needed(
    items: GateItems, threshold: float, target: Target, level: float
) -> int | None:
    """Return the families with which the test is likely to give a verdict at the rate seen here."""
    accepted, chance = items.accepted(threshold), items.draw.chance
    if target.limits_error:
        seen, wrong = chance[accepted].sum(), chance[accepted & items.wrong].sum()
    else:
        seen, wrong = chance.sum(), chance[~accepted].sum()
    trials = trials_needed(float((wrong + 0.5) / (seen + 1)), target.rate, level) if seen else None
    return None if trials is None else int(np.ceil(trials * len(items.units) / seen))
