"""An observer of progress that remembers what it saw."""

from __future__ import annotations

from pathlib import Path

from pact_eval.progress import Step


class Steps:
    """Remembers steps and files.

    Args:
        stop_after: name of a file after which it interrupts, as Ctrl-C does.

    Attributes:
        all: every step, in the order of their starts.
        outer: those that are not inside another.
        failed: those that an exception has ended, the innermost first.
        files: the files that were written.
        waited: what was waited for.
    """

    def __init__(self, stop_after: str | None = None) -> None:
        self.all: list[Step] = []
        self.outer: list[Step] = []
        self.failed: list[Step] = []
        self.files: list[Path] = []
        self.waited: list[str] = []
        self._open: list[Step] = []
        self._stop_after = stop_after

    def started(self, step: Step, depth: int) -> None:
        self.all.append(step)
        self._open[depth:] = [step]
        if depth == 0:
            self.outer.append(step)

    def ended(self, depth: int, *, failed: bool) -> None:
        if failed:
            self.failed.append(self._open[depth])

    def wrote(self, path: Path) -> None:
        self.files.append(path)
        if path.name == self._stop_after:
            raise KeyboardInterrupt

    def waits(self, what: str) -> None:
        self.waited.append(what)
