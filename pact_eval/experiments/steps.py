"""Steps of a checked plan: an ordered list of commands, what of it is done, what became of each.

    audit -> split, ablate -> register -> base: score holdout, ablated
                                       -> each training: train, check, score holdout, ablated and
                                          calibration, calibrate
          -> scorecard, page, paper

Every step is a command that a user could type, in a process of its own. So devices, threads, time
limits and logs are those of one process, and models that need torch are loaded there alone.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pact_eval._choices import ExperimentStage
from pact_eval._toml import did_you_mean
from pact_eval.data.files import MANIFEST_NAME
from pact_eval.errors import InputError, PlanError, Problem
from pact_eval.experiments.plan import (
    BASE_RUN,
    SCRIPTS,
    Plan,
    PlanFiles,
    Training,
    check_files,
    check_plan,
    fill,
    gpus_here,
    job_environments,
)
from pact_eval.models import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from pact_eval.preregistration.registration import lock_path
from pact_eval.results import Result
from pact_eval.training.recipes import CARD, as_words

_PLACES: Final = {"holdout": "runs", "ablated": "ablated", "calibration": "calibration"}
_ADAPTER_FILES: Final = (ADAPTER_CONFIG, ADAPTER_WEIGHTS)
_RUN_FILES: Final = ("run.json", "predictions.parquet")
_CALIBRATOR: Final = "calibration.json"
_RECIPE: Final = ("python", "-P", "-m", "pact_eval.training")


@dataclass(frozen=True)
class Step:
    """One step. Paths start from the folder of the plan, which is where its command runs.

    Attributes:
        name: its name, also of its log.
        stage: what it is for.
        words: the command.
        needs: names of the steps that must be done before.
        inputs: files that it reads.
        outputs: files that it must have written at its end. Without any, it always runs.
        stdout: file for the standard output; None for the log.
        is_sealed: whether its outputs exist only when they are complete, also after a kill.
        is_repeated: whether it is done again if its command or an input changes. Other steps keep
            their outputs until somebody removes them.
        model: the training whose adapter it makes or reads, or "base"; None if it has none.
        arm: the arm of that model.
        part: the part of the data that it scores; None if it is not a scoring.
    """

    name: str
    stage: ExperimentStage
    words: tuple[str, ...]
    needs: tuple[str, ...] = ()
    inputs: tuple[Path, ...] = ()
    outputs: tuple[Path, ...] = ()
    stdout: Path | None = None
    is_sealed: bool = False
    is_repeated: bool = False
    model: str | None = None
    arm: str | None = None
    part: str | None = None

    @property
    def place(self) -> Path:
        """What to remove so that it runs again: the folder of an adapter or a run, or a file."""
        folder = self.stage in ("split", "train", "score", "paper")
        return self.outputs[0].parent if folder else self.outputs[0]

    def shell_lines(self) -> Iterator[str]:
        """Yield the lines of a shell that run it in the folder of the plan."""
        line = shlex.join(self.words)
        if self.stdout is None:
            yield line
            return
        out, part = (shlex.quote(f"{self.stdout}{end}") for end in ("", ".part"))
        yield f"{line} > {part}"
        yield f"mv {part} {out}"


def planned_steps(plan: Plan, files: PlanFiles, folder: Path) -> tuple[Step, ...]:
    """Return all steps of a plan, in an order in which they can run one by one.

    Args:
        plan: the plan.
        files: its files.
        folder: folder of the experiment, from the folder of the plan.
    """
    planner = _Planner(plan, files, folder)
    steps = [*planner.preparation(), *planner.scorings(None)]
    for training in plan.trainings():
        steps += planner.training_steps(training)
    return (*steps, *planner.conclusions(steps))


def chosen_steps(
    steps: Sequence[Step], *, arm: str | None = None, stage: ExperimentStage | None = None
) -> tuple[Step, ...]:
    """Return the steps of an arm or of a stage, and those that they need.

    Args:
        steps: all steps, each after those that it needs.
        arm: name of an arm, or "base"; None for all.
        stage: a stage; None for all.

    Raises:
        InputError: there is no such step.
    """
    needed = {
        step.name
        for step in steps
        if (arm is None or step.arm == arm) and (stage is None or step.stage == stage)
    }
    if not needed:
        selected = " of ".join(word for word in (stage and f"stage {stage}", arm) if word)
        arms = dict.fromkeys(step.arm for step in steps if step.arm is not None)
        message = f"the plan has no step of {selected}{did_you_mean(arm, arms) if arm else ''}"
        raise InputError(message)
    for step in reversed(steps):
        if step.name in needed:
            needed.update(step.needs)
    return tuple(step for step in steps if step.name in needed)


@dataclass(frozen=True)
class _Planner:
    """Maker of the steps of one plan; see `planned_steps`."""

    plan: Plan
    files: PlanFiles
    folder: Path

    @property
    def ablated(self) -> Path:
        return self.folder / "ablated.jsonl"

    @property
    def parts(self) -> Mapping[str, Path]:
        """The files to train on, select on and calibrate on."""
        files = self.files
        if files.selection is not None and files.calibration is not None:
            return {
                "train": files.train,
                "selection": files.selection,
                "calibration": files.calibration,
            }
        roles = ("train", "selection", "calibration")
        return {role: self.folder / "parts" / f"{role}.jsonl" for role in roles}

    @property
    def data_files(self) -> tuple[Path, ...]:
        """The files of the dataset."""
        files = self.files
        named = (files.train, files.holdout, files.selection, files.calibration)
        return tuple(path for path in named if path is not None)

    @property
    def prepared(self) -> tuple[str, ...]:
        """What must be done before the first model is trained or scored."""
        return tuple(step.name for step in self.preparation())

    def preparation(self) -> list[Step]:
        """Return the steps before the first model."""
        data, hypotheses, holdout = self.plan.data, self.plan.judge.hypotheses, self.files.holdout
        out, parts, needs = self.folder / "audit.txt", self.folder / "parts", ("audit",)
        words = _flat("pact-audit", "data", data.folder, (("--only", name) for name in data.checks))
        audit = Step("audit", "audit", words, (), self.data_files, (out,), out, is_repeated=True)
        steps = [audit]
        if self.files.selection is None or self.files.calibration is None:
            numbers = ("--select", data.select, "--calibrate", data.calibrate, "--seed", data.seed)
            words = _flat("pact-audit", "split", self.files.train, "--out", parts, numbers)
            outputs = (parts / MANIFEST_NAME, *self.parts.values())
            read = (self.files.train,)
            steps.append(Step("split", "split", words, needs, read, outputs, is_sealed=True))
        if data.ablates:
            words = _flat("pact-audit", "ablate", holdout, "--out", self.ablated)
            outputs = (self.ablated,)
            steps.append(
                Step("ablate", "ablate", words, needs, (holdout,), outputs, is_sealed=True)
            )
        if hypotheses is not None:
            judged = (holdout, self.ablated) if data.ablates else (holdout,)
            words = _flat(
                "pact-eval", "register", hypotheses, (("--data", file) for file in judged)
            )
            # Without outputs: an existing lock is compared with the hypotheses and the data.
            names = tuple(step.name for step in steps)
            steps.append(Step("register", "register", words, names, (hypotheses, *judged)))
        return steps

    def training_steps(self, training: Training) -> list[Step]:
        """Return the steps of an arm and a seed."""
        return [
            *(self._train(training), self._check(training)),
            *self.scorings(training),
            self._calibrate(training),
        ]

    def _adapter(self, training: Training) -> Path:
        return self.folder / "adapters" / training.name

    def _train(self, training: Training) -> Step:
        adapter, name = self._adapter(training), training.name
        read: tuple[Path, ...] = (self.parts["train"], self.parts["selection"])
        files: tuple[str, ...] = _ADAPTER_FILES
        if training.arm.recipe is None:
            words = self._trainer_words(training)
            read += tuple(Path(word) for word in words if word.endswith(SCRIPTS))
        else:
            words, files = self._recipe_words(training), (CARD, *_ADAPTER_FILES)
        return Step(
            *(f"train-{name}", "train", words, self.prepared, read),
            outputs=tuple(adapter / file for file in files),
            is_sealed=training.arm.recipe is not None,
            model=name,
            arm=training.arm.name,
        )

    def _trainer_words(self, training: Training) -> tuple[str, ...]:
        """Return the command of the plan's trainer."""
        values = {
            "arm": training.arm.name,
            "seed": str(training.seed),
            "base": self.plan.model.base,
            "data": str(self.plan.data.folder),
            "train": str(self.parts["train"]),
            "selection": str(self.parts["selection"]),
            "adapter": str(self._adapter(training)),
            "settings": json.dumps(training.arm.settings, sort_keys=True, allow_nan=False),
        }
        return fill(self.plan.train.words, values)

    def _recipe_words(self, training: Training) -> tuple[str, ...]:
        """Return the command of a training with a built-in recipe."""
        model, data = self.plan.model, self.plan.data
        options = {
            "--arm": training.arm.name,
            "--seed": training.seed,
            "--base-model": model.base,
            **{f"--{role}": path for role, path in self.parts.items()},
            "--unpaired": data.unpaired,
            "--dtype": None if model.dtype == "auto" else model.dtype,
            "--device": None if model.device == "auto" else model.device,
            "--out": self._adapter(training),
        }
        settings = as_words(dict(sorted(training.arm.settings.items())))
        return _flat(_RECIPE, training.arm.recipe, _option_words(options), settings)

    def _check(self, training: Training) -> Step:
        """Return the audit of an adapter: is it whole, and was it trained on what evaluates it?"""
        adapter, data, name = self._adapter(training), self.plan.data.folder, training.name
        out = self.folder / "checks" / f"{name}.txt"
        options = {"--base-model": self.files.base, "--data": data}
        return Step(
            f"check-{name}",
            "check",
            _flat("pact-audit", "adapter", adapter, _option_words(options)),
            (f"train-{name}",),
            (*self.data_files, *(adapter / file for file in _ADAPTER_FILES)),
            *((out,), out),
            is_repeated=True,
            model=name,
            arm=training.arm.name,
        )

    def scorings(self, training: Training | None) -> list[Step]:
        """Return the scorings of a model; None for the base."""
        parts = ["holdout", *(["ablated"] if self.plan.data.ablates else [])]
        parts += [] if training is None else ["calibration"]
        return [self._score(training, part) for part in parts]

    def _score(self, training: Training | None, part: str) -> Step:
        name = BASE_RUN if training is None else training.name
        file = {"holdout": self.files.holdout, "ablated": self.ablated, **self.parts}[part]
        model, judge, run = self.plan.model, self.plan.judge, self.folder / _PLACES[part] / name
        adapter = None if training is None else self._adapter(training)
        options = {
            "--base-model": model.base,
            "--dtype": None if model.dtype == "auto" else model.dtype,
            "--device": None if model.device == "auto" else model.device,
            "--attention": None if model.attention == "auto" else model.attention,
            "--arm": BASE_RUN if training is None else training.arm.name,
            "--train-seed": None if training is None else training.seed,
            "--data": file,
            # An ablated record has no reference: one view shows how confident the model is.
            "--k": 1 if part == "ablated" else judge.k,
            "--order-seed": judge.order_seed,
            "--out": run,
            "--role": part if part == "calibration" else None,
        }
        which = "--no-adapter" if adapter is None else adapter
        weights = [] if adapter is None else [adapter / name for name in _ADAPTER_FILES]
        return Step(
            f"score-{name}-{part}",
            "score",
            _flat("pact-eval", "score", which, _option_words(options)),
            (*self.prepared, *(() if training is None else (f"check-{name}",))),
            (file, *weights),
            tuple(run / name for name in _RUN_FILES),
            is_sealed=True,
            model=name,
            arm=BASE_RUN if training is None else training.arm.name,
            part=part,
        )

    def _calibrate(self, training: Training) -> Step:
        name = training.name
        fitted, holdout = self.folder / "calibration" / name, self.folder / "runs" / name
        # Hypotheses on calibrated runs need a file, also where it does not help.
        how = ("--mode", self.plan.judge.calibrator, "--force", "--holdout", holdout)
        return Step(
            f"calibrate-{name}",
            "calibrate",
            _flat("pact-eval", "calibrate", fitted, how),
            (f"score-{name}-holdout", f"score-{name}-calibration"),
            tuple(run / file for run in (fitted, holdout) for file in _RUN_FILES),
            (fitted / _CALIBRATOR, holdout / _CALIBRATOR),
            is_repeated=True,
            model=name,
            arm=training.arm.name,
        )

    def conclusions(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Yield the steps after the last model.

        Args:
            steps: all steps before.
        """
        judge, method = self.plan.judge, self.plan.judge.method or self.plan.arms[0].name
        judged = [step for part in ("holdout", "ablated") for step in steps if step.part == part]
        runs = tuple(step.place for step in judged)
        fits = [step for step in steps if step.stage == "calibrate"]
        needs = tuple(step.name for step in (*judged, *fits))
        read = [file for step in judged for file in step.outputs]
        read += [step.outputs[1] for step in fits]
        page, paper = self._out("page.html"), self._out("paper")
        data = ("--data", self.plan.data.folder)
        # The arm of the first run is the one that the others are compared with.
        first = [step.place for step in judged if step.arm == method]
        of_page = (*first, *(run for run in runs if run not in first))
        words_of_page = _flat("pact-eval", "report", of_page, "--html", page, data)
        how: tuple[object, ...] = (*data, "--method", method)
        if judge.hypotheses is not None:
            read += [judge.hypotheses, lock_path(judge.hypotheses)]
            words, out = (
                _flat("pact-eval", "scorecard", judge.hypotheses, runs, "--full"),
                self._out("scorecard.txt"),
            )
            yield Step(
                "scorecard", "scorecard", words, needs, tuple(read), (out,), out, is_repeated=True
            )
            how = (*how, "--criteria", judge.hypotheses)
            words_of_page = _flat(
                "pact-eval", "scorecard", judge.hypotheses, of_page, "--html", page, data
            )
        read += self.data_files
        yield Step("page", "page", words_of_page, needs, tuple(read), (page,), is_repeated=True)
        words, outputs = (
            _flat("pact-eval", "paper", runs, "--out", paper, how),
            (paper / "report.md",),
        )
        yield Step("paper", "paper", words, needs, tuple(read), outputs, is_repeated=True)

    def _out(self, name: str) -> Path:
        return self.folder / name


def _option_words(options: Mapping[str, object]) -> tuple[object, ...]:
    """Return the words of options that have a value."""
    return tuple((name, value) for name, value in options.items() if value is not None)


def _flat(*words: object) -> tuple[str, ...]:
    """Return words as text, those of inner iterables in their place."""
    flat: list[str] = []
    for word in words:
        flat += (
            _flat(*word)
            if isinstance(word, Iterable) and not isinstance(word, str)
            else [str(word)]
        )
    return tuple(flat)


StepState = Literal["to do", "up to date", "done", "failed", "not run"]
"""What becomes of a step. To do: of a dry run."""


@dataclass(frozen=True)
class StepOutcome:
    """Outcome of a step.

    Attributes:
        step: the step.
        state: what became of it.
        why: why it runs, has failed or was not run, or what to know; "" if nothing.
        exit_code: what the experiment exits with because of it; 0 if it did not fail.
        seconds: time that it took; None if it did not run.
        log: file of its log, if it failed.
        log_lines: the last lines of its log, if it failed.
    """

    step: Step
    state: StepState
    why: str = ""
    exit_code: int = 0
    seconds: float | None = None
    log: Path | None = None
    log_lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedExperiment:
    """An experiment that is ready to run.

    Attributes:
        plan: the plan.
        folder: folder of the experiment.
        steps: the chosen steps in order.
        environments: the environment of each process at a time; on a cluster, that of a step here.
        ray: address of the Ray cluster; None for this machine.
        most: tasks at a time on the cluster; None for as many as have room.
    """

    plan: Plan
    folder: Path
    steps: tuple[Step, ...]
    environments: tuple[Mapping[str, str], ...]
    ray: str | None = None
    most: int | None = None

    def log(self, step: Step) -> Path:
        """Return the log of a step that is done; until then, it has the ending `.part`."""
        return self.folder / "logs" / f"{step.name}.txt"

    def running_log(self, step: Step) -> Path:
        """Return the log of a step that has begun and is not done."""
        return self.log(step).with_suffix(".part")

    def standing(self, step: Step) -> StepOutcome:
        """Return whether a step is to do, and why.

        A step is done if its outputs are there. If they may be incomplete, its log must not end in
        `.part` either. What a step keeps is never removed or replaced: if another command made it,
        the step has failed.
        """
        outputs = [self.plan.folder / path for path in step.outputs]
        has_begun, is_other = self.running_log(step).exists(), self.is_other_command(step)
        is_there = bool(outputs) and all(path.exists() for path in outputs)
        if is_other and not step.is_repeated and outputs and self._place(step).exists():
            why = f"{self._place(step)}: made by another command; remove it, or give another --out"
            return StepOutcome(step, "failed", why, InputError.exit_code)
        if not is_there or (has_begun and not step.is_sealed):
            return StepOutcome(step, "to do", "not finished" if has_begun else "new")
        newer = [path for path in step.inputs if self._is_newer(path, outputs)]
        changed = ["its command changed"] * is_other + [f"older than {path}" for path in newer]
        state: StepState = "to do" if step.is_repeated and changed else "up to date"
        return StepOutcome(step, state, "; ".join(changed[:1]))

    def is_other_command(self, step: Step) -> bool:
        """Return whether the log of a step is there and begins with another command."""
        has_begun = self.running_log(step).exists()
        log = self.running_log(step) if has_begun else self.log(step)
        if not step.outputs or not log.exists():
            return False
        command = f"$ {shlex.join(step.words)}\n".encode()  # a word may have several lines
        with log.open("rb") as file:
            return file.read(len(command)) != command

    def _place(self, step: Step) -> Path:
        return self.plan.folder / step.place

    def _is_newer(self, path: Path, outputs: Iterable[Path]) -> bool:
        file, oldest = self.plan.folder / path, min(out.stat().st_mtime_ns for out in outputs)
        return file.exists() and file.stat().st_mtime_ns > oldest

    def outcome(self, steps: Iterable[StepOutcome], *, is_dry: bool = False) -> ExperimentOutcome:
        """Return an outcome of this experiment."""
        return ExperimentOutcome(
            *(self.plan.path, self.folder, tuple(steps), is_dry, len(self.environments), self.ray)
        )

    def dry_run(self) -> ExperimentOutcome:
        """Return what would run, and why; nothing is started or written."""
        return self.outcome(map(self.standing, self.steps), is_dry=True)

    def shell_script(self) -> Iterator[str]:
        """Yield the lines of a shell script that runs the steps to do, one after the other."""
        yield "#!/bin/sh -e"
        yield f"cd {shlex.quote(str(self.plan.folder.absolute()))}"
        yield "export PACT_EVAL_CONFIG="  # the plan has all settings
        steps = [step for step in self.steps if self.standing(step).state == "to do"]
        makers = [step for step in steps if step.stage == "train" or step.stdout is not None]
        folders = dict.fromkeys(str(step.place.parent) for step in makers)
        if folders:
            yield f"mkdir -p {shlex.join(folders)}"
        for step in steps:
            yield f"# {step.name}{', after ' if step.needs else ''}{', '.join(step.needs)}"
            yield from step.shell_lines()


@dataclass(frozen=True, repr=False)
class ExperimentOutcome(Result):
    """Outcome of an experiment.

    Attributes:
        plan: file of the plan.
        folder: folder of the experiment.
        steps: its steps in order.
        is_dry: whether nothing was started.
        jobs: processes at a time; 1 on a cluster.
        ray: address of the Ray cluster; None for this machine.
    """

    plan: Path
    folder: Path
    steps: tuple[StepOutcome, ...]
    is_dry: bool
    jobs: int = 1
    ray: str | None = None

    @property
    def exit_code(self) -> int:
        """The gravest exit code of its steps: 5 before 3, 3 before 1, 0 if none failed."""
        return max((outcome.exit_code for outcome in self.steps), default=0)

    def of_state(self, *states: StepState) -> tuple[StepOutcome, ...]:
        """Return the steps with one of these states."""
        return tuple(outcome for outcome in self.steps if outcome.state in states)

    def count(self, *stages: ExperimentStage) -> int:
        """Return the number of steps of some stages, whatever became of them."""
        return sum(outcome.step.stage in stages for outcome in self.steps)

    def repeat_command(self, step: Step) -> str:
        """Return the line for a shell that repeats the command of one step.

        Examples:
            >>> step = Step("audit", "audit", ("pact-audit", "data", "my data"))
            >>> outcome = ExperimentOutcome(Path("exp/plan.toml"), Path("exp/plan"), (), False)
            >>> outcome.repeat_command(step)
            "cd exp && pact-audit data 'my data'"
        """
        line, folder = shlex.join(step.words), self.plan.parent
        return line if folder == Path() else f"cd {shlex.quote(str(folder))} && {line}"


def open_experiment(
    path: Path,
    *,
    folder: Path | None = None,
    arm: str | None = None,
    stage: ExperimentStage | None = None,
    jobs: int | None = None,
    ray: str | None = None,
) -> PlannedExperiment:
    """Read a plan and check all of it; nothing is started.

    Args:
        path: the plan.
        folder: folder of the experiment; None takes the name of the plan, next to it.
        arm: only the steps of this arm, or of "base", and what they need; None for all.
        stage: only the steps of this stage, and what they need; None for all.
        jobs: processes at a time, at least 1; None for 1, or on a cluster as many as have room.
        ray: address of a Ray cluster instead, as host:port, or "auto"; None for this machine.

    Raises:
        PlanError: the plan cannot be used, has no such arm or stage, or there are more jobs than
            GPUs.
        InputError: the plan cannot be read, or the folder cannot be one.
        TamperedError: the hypotheses, their lock or the holdout were changed after they were
            registered.
    """
    plan, problems = check_plan(path)
    files = check_files(plan, problems)
    folder = path.with_suffix("") if folder is None else folder
    taken = [plan.folder / place for place in (plan.data.folder, plan.model.base)]
    if folder.is_file() or folder.resolve() in [place.resolve() for place in taken]:
        raise InputError(f"{folder}: expected a folder of its own; give another one with --out")
    steps = planned_steps(plan, files, Path(os.path.relpath(folder, plan.folder)))
    stated = [plan.reserved(stage, has_gpus=True).gpus or 0 for stage in ("train", "score")]
    try:
        chosen = chosen_steps(steps, arm=arm, stage=stage)
        here = job_environments(1 if ray else jobs or 1, gpus_here(), max(1, *stated))
    except InputError as error:
        raise PlanError(str(path), [Problem(None, None, str(error))]) from None
    return PlannedExperiment(plan, folder, chosen, here, ray, jobs if ray else None)
