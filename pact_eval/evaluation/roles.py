"""Roles: what a run is for. Runs for evaluation and runs for calibration are not mixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pact_eval.runs import EVALUATION, RunFolder


@dataclass(frozen=True)
class SkippedRun:
    """A run that was left out, because it has another role than the others.

    Attributes:
        run: the run folder, as given.
        role: its role.
        kept: the role of the runs that were not left out.
    """

    run: str
    role: str
    kept: str


def of_one_role(
    runs: Sequence[RunFolder],
) -> tuple[tuple[RunFolder, ...], tuple[SkippedRun, ...]]:
    """Return the runs for evaluation; without any, those with the role of the first.

    A pattern such as `runs/*` also names the runs of the calibration split. They hold other items,
    so they are neither compared nor counted with the runs for evaluation.

    Args:
        runs: complete runs.

    Returns:
        The runs that are kept, in the same order, and those that are left out.
    """
    roles = [run.role for run in runs]
    kept = EVALUATION if EVALUATION in roles or not roles else roles[0]
    skipped = (SkippedRun(run.place, run.role, kept) for run in runs if run.role != kept)
    return tuple(run for run in runs if run.role == kept), tuple(skipped)
