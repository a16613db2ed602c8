"""Progress of an experiment: a live table on a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pact_cli.console import announce, quiet
from pact_eval.progress import Step as ProgressStep
from pact_eval.progress import watched

if TYPE_CHECKING:
    from pact_eval.experiments.events import Event
    from pact_eval.experiments.preparing import PreparedExperiment
    from pact_eval.experiments.progress_table import ExperimentProgress


class _Unseen:
    """An observer that shows nothing: the table has the terminal."""

    def started(self, step: ProgressStep, depth: int) -> None:
        """See a step begin."""

    def ended(self, depth: int, *, failed: bool) -> None:
        """See a step end."""

    def wrote(self, path: Path) -> None:
        """See a file."""

    def waits(self, what: str) -> None:
        """See what is waited for."""


@contextmanager
def shown_progress(prepared: PreparedExperiment) -> Iterator[Callable[[Event], None]]:
    """Show the progress of an experiment on stderr during the block.

    Args:
        prepared: the experiment; the block gives its events to the function that it gets.
    """
    from pact_eval.experiments.events import EVENTS
    from pact_eval.experiments.progress_table import ExperimentProgress  # needs polars

    progress = ExperimentProgress(
        prepared.steps, prepared.receipts.start, slots=len(prepared.slots)
    )
    progress.remember(prepared.folder / EVENTS)
    if quiet():
        yield progress.see
        return
    if not sys.stderr.isatty():

        def tell(event: Event) -> None:
            progress.see(event)
            announce(_lines(progress, event))

        yield tell
        return
    from pact_cli.rich_output import live_experiment

    with watched(_Unseen()), live_experiment(progress):
        yield progress.see


def _lines(progress: ExperimentProgress, event: Event) -> Iterator[str]:
    """Yield the line of an event: a step that is over, or a training that starts."""
    step = event.step or ""
    starts = event.name == "started" and step.startswith("train-")
    if not starts and event.name not in ("done", "failed", "interrupted"):
        return
    seconds, why = event.facts.get("seconds"), event.facts.get("why")
    facts = [str(why)] if why else []
    facts += [f"{seconds:.1f} s"] if isinstance(seconds, float | int) else []
    place = f"[{progress.over}/{len(progress.steps)}]"
    yield f"{place} {step}: {event.name}{', ' if facts else ''}{', '.join(facts)}"
