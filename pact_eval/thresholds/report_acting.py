"""Conclusion on acting alone for the runs of a report, if the settings name a target.

The gate is the one that `choose_thresholds` would choose for all items. Nothing is planned and
nothing cross-validated, so a report does not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pact_eval._choices import CONFIDENCE
from pact_eval.errors import NO_PROBABILITIES
from pact_eval.evaluation.conclusions.conclusion import Unchecked
from pact_eval.evaluation.experiment import Experiment, RunReport
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.thresholds.choice import gate_items, rate_over_units, rule_of
from pact_eval.thresholds.conclusion import Acting, ActingGate, acting_of_gates
from pact_eval.thresholds.sequence import choose_gate
from pact_eval.thresholds.targets import Target


def with_acting(report: RunReport) -> RunReport:
    """Return a report that also concludes whether its run may act alone.

    Args:
        report: of a run; its settings name the target error. Without one, or for ablated contexts,
            nothing is concluded.
    """
    return replace(report, acting=acting_of_run(report.experiment, report.run))


def acting_of_arm(experiment: Experiment) -> Acting | None:
    """Conclude whether the main arm may act alone: its run with the worst status.

    Args:
        experiment: runs on full contexts.

    Returns:
        Of equal statuses, that with the smallest share; None if the settings name no target error.
    """
    runs = experiment.arms[experiment.main_arm]
    conclusions = [acting_of_run(experiment, run) for run in runs]
    return worst_acting([conclusion for conclusion in conclusions if conclusion is not None])


def worst_acting(conclusions: Sequence[Acting]) -> Acting | None:
    """Return the worst of several conclusions; None without any."""

    def badness(conclusion: Acting) -> tuple[bool, float]:
        share = 0.0 if conclusion.share is None else conclusion.share.value
        return conclusion.tone == "good", share

    return min(conclusions, key=badness, default=None)


def acting_of_run(experiment: Experiment, run: ExperimentRun) -> Acting | None:
    """Conclude whether a run may act alone under the decoding of the settings; computed once.

    Args:
        experiment: the runs, with the settings.
        run: one of them.

    Returns:
        "cannot tell" if only answers are known, or if items of the run leak: the model has seen
        them, so they say nothing of new families. None if the settings name no target error, and
        for ablated contexts, which have no right answers.

    Raises:
        InputError: the target is not in (0, 1), or the run lacks the decoding or its calibrator.
    """
    settings = experiment.settings
    if settings.target_error is None or run.ablated:
        return None
    target = Target.of_error(settings.target_error)
    reason = _unknown(experiment, run)
    if reason is not None:
        unchecked = (Unchecked("gates", reason),)
        return Acting(
            status="cannot tell",
            run=run.label,
            target=target,
            confidence=CONFIDENCE,
            unchecked=unchecked,
        )
    return run.once(("acting", settings), lambda: _acting(experiment, run, target))


def _unknown(experiment: Experiment, run: ExperimentRun) -> str | None:
    """Return why nothing can be told of a run; None if something can."""
    if run.provenance.known == "answers":
        return NO_PROBABILITIES["answers"]
    leak = experiment.data.leak
    if leak is None or leak.left_out:
        return None
    return f"{len(leak.items):,} items leak; --without-leaks leaves their families out"


def _acting(experiment: Experiment, run: ExperimentRun, target: Target) -> Acting:
    rule = rule_of(run, "top", "all", experiment.settings)
    items, _ = gate_items(run, rule)
    chosen = choose_gate(items, target, CONFIDENCE)
    accepted = items.accepted(chosen.threshold)
    share = rate_over_units(items, accepted, np.ones(len(items), dtype=np.bool_))
    gate = ActingGate.of_chosen("all", chosen, items, share)
    conclusion = acting_of_gates([gate], rule, target, CONFIDENCE)
    return replace(conclusion, run=run.label, planned=False)
