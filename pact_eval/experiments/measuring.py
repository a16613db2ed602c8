"""Measured times: ten steps of one training, and one window of scoring, for each arm.

A training is started as the experiment would start it, in a folder of its own. Its `log.jsonl` says
when a step is done, and in `steps`, how many the training has. After ten steps it is ended. So a
trainer must write a line per step, or every few steps, at once. One that ends earlier by itself is
measured from start to end.

A window of scoring is the first 64 records of the training file: the holdout is not looked at. It
uses the adapter of the arm if there is one, and the base model otherwise.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pact_eval._files import read_lines, write_atomically
from pact_eval._json import Json, dumps_indented, finite_number, loads
from pact_eval.experiments.costs import MEASURED, Measured, arm_facts, plan_facts
from pact_eval.experiments.devices import gpus_here
from pact_eval.experiments.executor import StepOrder
from pact_eval.experiments.outcome import ExperimentOutcome
from pact_eval.experiments.plan import BASE_RUN
from pact_eval.experiments.preparing import PreparedExperiment, dry_run
from pact_eval.experiments.processes import StepProcess, start
from pact_eval.experiments.receipts import installed_version
from pact_eval.experiments.running import locked, run
from pact_eval.experiments.selection import ADAPTER_FILES
from pact_eval.experiments.steps import (
    MODEL_LIBRARIES,
    PLACES,
    RUN_FILES,
    Step,
    planned_steps,
)
from pact_eval.runs.provenance import read_provenance
from pact_eval.runs.training_log import LOG_NAME

STEPS: Final = 10
"""Training steps that are timed."""

WINDOW: Final = 64
"""Records that are scored."""

_LONGEST_SECONDS: Final = 900.0
_POLL_SECONDS: Final = 0.02
_PREPARATION: Final = ("audit", "split", "ablate")
_PLACE: Final = "measuring"


def measure(
    experiment: PreparedExperiment,
    say: Callable[[str], None] = lambda _line: None,
    longest_seconds: float = _LONGEST_SECONDS,
) -> ExperimentOutcome:
    """Measure the times of an experiment, write `measured.json`, and return what would run.

    The data are audited and split first, as in the experiment. A failure there is the outcome.

    Args:
        experiment: the experiment.
        say: gets a line before each measurement.
        longest_seconds: how long ten steps of a training may take, and a window of scoring.

    Raises:
        PlanError: files are missing.
        RunError: another process works in the folder.
    """
    start_folder = experiment.receipts.start
    folder = Path(os.path.relpath(experiment.folder, start_folder))
    steps = planned_steps(experiment.plan, experiment.files, folder)
    first = [step for step in steps if step.stage in _PREPARATION]
    prepared = run(replace(experiment, steps=tuple(first)))
    if prepared.exit_code:
        return prepared
    meter = _Meter(experiment, steps, folder, longest_seconds, say)
    with locked(experiment.folder):
        try:
            measured = meter.measured()
        finally:
            shutil.rmtree(start_folder / folder / _PLACE, ignore_errors=True)
        write_atomically(experiment.folder / MEASURED, dumps_indented(measured.to_json()))
    return dry_run(experiment)


@dataclass(frozen=True)
class _Meter:
    """Meter of one experiment; paths start from the folder of the plan."""

    experiment: PreparedExperiment
    steps: Sequence[Step]
    folder: Path
    longest_seconds: float
    say: Callable[[str], None]
    windows: dict[tuple[Path | None, str], Json] = field(default_factory=dict)

    def measured(self) -> Measured:
        shutil.rmtree(self._at(_PLACE), ignore_errors=True)  # of a measurement that was killed
        self._at(_PLACE).mkdir(parents=True)
        self._write_window()
        arms: dict[str, dict[str, Json]] = {}
        for arm in self.experiment.plan.arms:
            training = self._training(self._first_step("train", arm.name))
            arms[arm.name] = {
                "arm": arm_facts(arm),
                "training": training,
                "scoring": self._scoring(arm.name),
            }
        arms[BASE_RUN] = {"arm": None, "scoring": self._scoring(BASE_RUN)}
        return Measured(
            _processor(),
            {name: installed_version(name) for name in ("pact-eval", *MODEL_LIBRARIES)},
            plan_facts(self.experiment.plan),
            self._records(),
            arms,
        )

    def _at(self, name: str) -> Path:
        return self.experiment.receipts.start / self.folder / name

    def _first_step(self, stage: str, arm: str) -> Step:
        """Return the first step of a stage and an arm; the base model has no training."""
        return next(
            step
            for step in self.steps
            if step.stage == stage
            and (BASE_RUN if step.training is None else step.training.arm.name) == arm
        )

    def _training(self, step: Step) -> Json:
        """Return the times of a training, or why there are none."""
        adapter = self.folder / _PLACE / "adapters" / step.name
        replaced = str(step.outputs[0].parent)
        words = tuple(word.replace(replaced, str(adapter)) for word in step.words)
        outputs = tuple(adapter / path.name for path in step.outputs)
        step = replace(step, words=words, outputs=outputs)
        process = self._started(step)
        place = self.experiment.receipts.start / adapter
        try:
            times = _training_times(process, place / LOG_NAME, self.longest_seconds)
        finally:
            process.stop()
            process.join()
        ending = process.poll()
        if ending is None or ending.why:
            shutil.rmtree(place, ignore_errors=True)  # no whole adapter
        return times

    def _scoring(self, arm: str) -> Json:
        """Return the times of scoring by number of views, or why there are none."""
        step = self._first_step("score", arm)
        views = sorted({_after(one.words, "--k") for one in self.steps if one.stage == "score"})
        adapter = None if arm == BASE_RUN else self._adapter(arm)
        if adapter is None:
            step = self._first_step("score", BASE_RUN)
        times: dict[str, Json] = {}
        for k in views:
            window = self.windows.get((adapter, k))
            if window is None:  # arms without an adapter share that of the base
                window = self.windows[adapter, k] = self._window_time(step, adapter, k)
            if isinstance(window, str):
                return window
            times[k] = window
        return times

    def _adapter(self, arm: str) -> Path | None:
        """Return an adapter of an arm: of a training that was measured to its end, or a former."""
        step = self._first_step("train", arm)
        places = (self.folder / _PLACE / "adapters" / step.name, step.outputs[0].parent)
        for place in places:
            if all((self.experiment.receipts.start / place / f).is_file() for f in ADAPTER_FILES):
                return place
        return None

    def _window_time(self, step: Step, adapter: Path | None, k: str) -> Json:
        out = self.folder / _PLACE / f"run-{step.model}-{k}"
        shutil.rmtree(self.experiment.receipts.start / out, ignore_errors=True)
        window = self.folder / _PLACE / "window.jsonl"
        changes = {"--data": str(window), "--out": str(out), "--k": k}
        words = _changed(step.words, changes)
        if adapter is not None:
            words = (*words[:2], str(adapter), *words[3:])
        outputs = tuple(out / name for name in RUN_FILES)
        process = self._started(replace(step, words=words, outputs=outputs))
        try:
            while (ending := process.poll()) is None:
                time.sleep(_POLL_SECONDS)
        finally:
            process.stop()
            process.join()
        if process.timed_out:
            return (
                f"scoring {WINDOW} records took over {self.longest_seconds:g} s; see {process.log}"
            )
        if ending.why:
            return f"scoring a window: {ending.why}; see {process.log}"
        scored = read_provenance(self.experiment.receipts.start / out)
        seconds = scored.wall_seconds or 0.0
        return {
            "start_seconds": round(max(0.0, process.seconds - seconds), 3),
            "seconds_per_record": round(seconds / max(1, scored.data.records or 0), 6),
        }

    def _started(self, step: Step) -> StepProcess:
        views = f" with {_after(step.words, '--k')} views" if step.stage == "score" else ""
        self.say(f"measuring {step.name}{views}")
        measured = replace(step, name=f"measure-{step.name}")
        folder, places = self.experiment.receipts.start, self.experiment.folder
        order = StepOrder(measured, folder, places, self.longest_seconds)
        return start(order, self.experiment.slots[0], {})

    def _records(self) -> dict[str, int]:
        """Return the number of records of each part of the data that a step scores."""
        files = {step.part: step.inputs[0] for step in self.steps if step.part is not None}
        return {
            part: sum(1 for _ in read_lines(self.experiment.receipts.start / files[part]))
            for part in PLACES
            if part in files
        }

    def _write_window(self) -> None:
        """Write the first records that a trainer trains on."""
        train = next(step for step in self.steps if step.stage == "train").inputs[0]
        lines = []
        for _, line in read_lines(self.experiment.receipts.start / train):
            lines.append(line)
            if len(lines) == WINDOW:
                break
        (self._at(_PLACE) / "window.jsonl").write_bytes(b"\n".join(lines) + b"\n")


def _training_times(process: StepProcess, log: Path, longest_seconds: float) -> Json:
    """Watch a training until ten steps are done; return its times, or why there are none."""
    arrivals: list[tuple[int, float]] = []
    total: float | None = None
    while True:
        ending, seconds = process.poll(), process.seconds
        last = 0
        for step, stated in _logged(log):
            total = stated if stated is not None else total
            last = max(last, step)
        if last and (not arrivals or last > arrivals[-1][0]):
            arrivals.append((last, seconds))
        if ending is not None or (arrivals and arrivals[-1][0] - arrivals[0][0] >= STEPS):
            break
        time.sleep(_POLL_SECONDS)
    if ending is not None and not ending.why:
        return {"start_seconds": round(seconds, 3), "seconds_per_step": 0.0, "further_steps": 0}
    if process.timed_out and len(arrivals) < 2:
        return f"the trainer wrote no two steps to {LOG_NAME} within {longest_seconds:g} s"
    if ending is not None and not process.timed_out:
        return f"the trainer: {ending.why}; see {process.log}"
    if total is None:
        return f"no line of {LOG_NAME} states steps, the number of steps of the training"
    (first, began), (last, ended) = arrivals[0], arrivals[-1]
    return {
        "start_seconds": round(began, 3),
        "seconds_per_step": round((ended - began) / (last - first), 6),
        "further_steps": max(0, int(total) - first),
    }


def _logged(log: Path) -> Iterator[tuple[int, float | None]]:
    """Yield the number of each logged step, and the number of all steps if it is stated."""
    try:
        lines = log.read_bytes().split(b"\n")[:-1]  # the last line is not complete
    except OSError:
        return
    for line in lines:
        try:
            value = loads(line.decode())
        except ValueError:
            continue
        step = finite_number(value.get("step")) if isinstance(value, dict) else None
        if isinstance(value, dict) and step is not None:
            yield int(step), finite_number(value.get("steps"))


def _after(words: Sequence[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def _changed(words: Sequence[str], changes: Mapping[str, str]) -> tuple[str, ...]:
    """Return words with other values after some options."""
    return tuple(
        changes.get(words[number - 1], word) if number else word
        for number, word in enumerate(words)
    )


def _processor() -> str:
    """Return the name of the GPU, or of the processor without one."""
    if gpus_here():
        with suppress(OSError, subprocess.SubprocessError):
            return subprocess.run(
                ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],  # noqa: S607
                capture_output=True,
                text=True,
                check=True,
            ).stdout.splitlines()[0]
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
