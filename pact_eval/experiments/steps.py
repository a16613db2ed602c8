"""Steps of an experiment as data: commands with their inputs and outputs.

    audit -> split, ablate -> register -> base: score holdout, ablated
                                       -> each training: train, score holdout, ablated and
                                          calibration, calibrate
          -> scorecard, page, paper

Of a tuned arm, every candidate is trained and scored on the selection split. The step `select` then
chooses one, and copies its adapters, which are scored like others.

Every step is a command that a user could type, in a process of its own. So devices, threads, time
limits and logs are those of one process, a kill loses one step, and the message of a failed step
ends with the line that repeats it. Models that need torch are loaded in these processes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

from pact_eval._choices import ExperimentStage
from pact_eval._toml import did_you_mean
from pact_eval.data.files import MANIFEST_NAME
from pact_eval.errors import InputError
from pact_eval.experiments.base_commit import can_move
from pact_eval.experiments.plan import BASE_RUN, UNSTATED, Arm, Plan, Training
from pact_eval.experiments.plan_files import PlanFiles
from pact_eval.experiments.selection import ADAPTER_FILES, COPIED_FILES, FURTHER_ADAPTER_FILES
from pact_eval.preregistration.registration import lock_path
from pact_eval.runs.training_log import LOG_NAME
from pact_eval.training.recipes import CARD, WIDE, as_words

PLACES: Final = {
    "holdout": "runs",
    "ablated": "ablated",
    "calibration": "calibration",
    "selection": "selection",
}
"""Folders of runs by what they are scored on."""

SELECTED: Final = "selected"
"""Folder of the choices among candidates, and of the chosen adapters."""

_JUDGED: Final = ("holdout", "ablated")
_ROLES: Final = ("calibration", "selection")
_ONE_VIEW: Final = ("ablated", "selection")
RUN_FILES: Final = ("run.json", "predictions.parquet")
_CALIBRATOR: Final = "calibration.json"
MODEL_LIBRARIES: Final = ("peft", "tokenizers", "torch", "transformers")
_CHOOSE: Final = ("python", "-P", "-m", "pact_eval.experiments")
_RECIPE: Final = ("python", "-P", "-m", "pact_eval.training")
_RECIPE_FILES: Final = (LOG_NAME, CARD)
_TOOL: Final = "pact-eval"


@dataclass(frozen=True)
class Step:
    """One step. Paths start from the folder of the plan, which is where its command runs.

    Attributes:
        name: its name, also of its receipt and its log.
        stage: what it is for.
        words: the command.
        needs: names of the steps that must be done before.
        inputs: files and folders that it reads.
        outputs: files and folders that it must have written at its end.
        extras: files that it may have written too.
        removes: what is removed before it starts afresh: what an earlier start left behind.
        resumes: whether the command itself continues what an earlier start left behind.
        versions: distributions whose other version makes the step run again.
        commits: commit of what is read from the Hub, by its name. None if the Hub cannot be asked:
            then that of the receipt is taken.
        stdout: file for the standard output; None for the log.
        training: the training that it is, or whose adapter it reads.
        model: name of the model: that of its training, or "base"; None if it has none.
        judged_with: files that the adapter of a training is checked with. If one changes, it is
            checked again, and not trained again.
        part: the part of the data that it scores, a key of `PLACES`; None if it is not a scoring.
    """

    name: str
    stage: ExperimentStage
    words: tuple[str, ...]
    needs: tuple[str, ...]
    inputs: tuple[Path, ...]
    outputs: tuple[Path, ...]
    extras: tuple[Path, ...] = ()
    removes: tuple[Path, ...] = ()
    resumes: bool = False
    versions: tuple[str, ...] = (_TOOL,)
    commits: Mapping[str, str | None] = field(default_factory=dict)
    stdout: Path | None = None
    training: Training | None = None
    model: str | None = None
    part: str | None = None
    judged_with: tuple[Path, ...] = ()

    @property
    def adapter(self) -> Path | None:
        """The adapter folder that it writes; None if it is not a training."""
        return self.outputs[0].parent if self.stage == "train" else None

    @property
    def places(self) -> tuple[Path, ...]:
        """What must not exist before it starts afresh; a lock may, and is never replaced."""
        return self.removes or (() if self.resumes else self.outputs)


def planned_steps(plan: Plan, files: PlanFiles, folder: Path) -> tuple[Step, ...]:
    """Return all steps of a plan, in an order in which they can run one by one.

    Args:
        plan: the plan.
        files: its files.
        folder: folder of the experiment, from the folder of the plan.
    """
    planner = _Planner(plan, files, folder)
    models = [step for arm in plan.arms for step in planner.arm_steps(arm)]
    steps = [*planner.preparation(), *planner.base_steps(), *models]
    return (*steps, *planner.conclusions(steps))


def graph_of(steps: Iterable[Step]) -> TopologicalSorter[str]:
    """Return the graph of steps by name; each comes after those that it needs."""
    graph = TopologicalSorter({step.name: step.needs for step in steps})
    graph.prepare()
    return graph


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
    targets = [
        step
        for step in steps
        if (arm is None or _is_of(step, arm)) and (stage is None or step.stage == stage)
    ]
    if not targets:
        selected = " of ".join(word for word in (stage and f"stage {stage}", arm) if word)
        names = [step.training.arm.name for step in steps if step.training is not None]
        hint = did_you_mean(arm, dict.fromkeys([BASE_RUN, *names])) if arm else ""
        message = f"the plan has no step of {selected}{hint}"
        raise InputError(message)
    needed = {step.name for step in targets}
    for step in reversed(steps):
        if step.name in needed:
            needed.update(step.needs)
    return tuple(step for step in steps if step.name in needed)


def _is_of(step: Step, arm: str) -> bool:
    name = step.model if step.training is None else step.training.arm.name  # select has its arm
    return name == arm


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
    def lock(self) -> Path | None:
        hypotheses = self.plan.judge.hypotheses
        return None if hypotheses is None else lock_path(hypotheses)

    @property
    def parts(self) -> Mapping[str, Path]:
        """Return the files to train on, select on and calibrate on."""
        files = self.files
        if files.selection is not None and files.calibration is not None:
            return {
                "train": files.train,
                "selection": files.selection,
                "calibration": files.calibration,
            }
        return {
            role: self.folder / "parts" / f"{role}.jsonl"
            for role in ("train", "selection", "calibration")
        }

    @property
    def prepared(self) -> tuple[str, ...]:
        """Return what must be done before the first model is trained or scored."""
        split = () if self.files.has_splits else ("split",)
        ablate = ("ablate",) if self.plan.data.ablates else ()
        register = () if self.lock is None else ("register",)
        return ("audit", *split, *ablate, *register)

    def preparation(self) -> list[Step]:
        """Return the steps before the first model."""
        data, out = self.plan.data, self.folder / "audit.txt"
        only = (("--only", check) for check in data.checks)
        words = _flat(("pact-audit", "data", data.folder, *only))
        steps = [Step("audit", "audit", words, (), self.files.data, (out,), stdout=out)]
        if not self.files.has_splits:
            steps.append(self._split())
        if data.ablates:
            words = _flat(("pact-audit", "ablate", self.files.holdout, "--out", self.ablated))
            read, written = (self.files.holdout,), (self.ablated,)
            steps.append(Step("ablate", "ablate", words, ("audit",), read, written))
        if self.plan.judge.hypotheses is not None and self.lock is not None:
            steps.append(self._register(self.plan.judge.hypotheses, self.lock))
        return steps

    def _split(self) -> Step:
        data, parts = self.plan.data, self.folder / "parts"
        numbers = ("--select", data.select, "--calibrate", data.calibrate, "--seed", data.seed)
        words = ("pact-audit", "split", self.files.train, "--out", parts, *numbers)
        written = (*self.parts.values(), parts / MANIFEST_NAME)
        return Step(
            "split",
            "split",
            _flat(words),
            ("audit",),
            (self.files.train,),
            written,
            removes=(parts,),
        )

    def _register(self, hypotheses: Path, lock: Path) -> Step:
        judged = (self.files.holdout, *((self.ablated,) if self.plan.data.ablates else ()))
        words = ("pact-eval", "register", hypotheses, *(("--data", file) for file in judged))
        needs = tuple(name for name in self.prepared if name != "register")
        # A lock is never removed, and a new version writes no other one.
        return Step(
            "register",
            "register",
            _flat(words),
            needs,
            (hypotheses, *judged),
            (lock,),
            resumes=True,
            versions=(),
        )

    def base_steps(self) -> list[Step]:
        """Return the steps of the untrained base model."""
        return [self._score(None, "holdout"), *self._ablated_steps(None)]

    def arm_steps(self, arm: Arm) -> list[Step]:
        """Return the steps of an arm: those of a seed together, after a choice among candidates."""
        trainings, models = self.plan.trainings_of(arm), self.plan.models_of(arm)
        if not arm.is_tuned:
            return [
                step
                for training in trainings
                for step in (self._train(training), *self._model_steps(training))
            ]
        tried = [
            step
            for training in trainings
            for step in (self._train(training), self._score(training, "selection"))
        ]
        judged = [step for model in models for step in self._model_steps(model)]
        return [*tried, self._select(arm, trainings), *judged]

    def _model_steps(self, model: Training) -> list[Step]:
        """Return the steps of the model of an arm and a seed, after its training."""
        return [
            self._score(model, "holdout"),
            *self._ablated_steps(model),
            self._score(model, "calibration"),
            self._calibrate(model),
        ]

    def _adapter(self, training: Training) -> Path:
        """Return the adapter folder of a training, or of the chosen one of a tuned arm."""
        return self.folder / (SELECTED if training.is_chosen else "adapters") / training.name

    def _select(self, arm: Arm, trainings: Sequence[Training]) -> Step:
        folder, chosen = self.folder / SELECTED, self.plan.models_of(arm)
        runs = [self.folder / PLACES["selection"] / training.name for training in trainings]
        out = folder / f"{arm.name}.json"
        words = (*_CHOOSE, *runs, "--arm", arm.name, *as_words(arm.settings))
        adapters = [self._adapter(model) for model in chosen]
        weights = [self._adapter(training) for training in trainings]
        return Step(
            f"select-{arm.name}",
            "select",
            _flat((*words, "--out", out, "--adapters", folder)),
            tuple(f"score-{training.name}-selection" for training in trainings),
            (
                *(run / file for run in runs for file in RUN_FILES),
                *(adapter / file for adapter in weights for file in ADAPTER_FILES),
            ),
            (out, *(adapter / file for adapter in adapters for file in ADAPTER_FILES)),
            extras=tuple(
                adapter / file
                for adapter in adapters
                for file in COPIED_FILES
                if file not in ADAPTER_FILES
            ),
            removes=(out, *adapters),
            model=arm.name,
        )

    def _ablated_steps(self, training: Training | None) -> list[Step]:
        return [self._score(training, "ablated")] if self.plan.data.ablates else []

    def _train(self, training: Training) -> Step:
        adapter = self._adapter(training)
        further = [adapter / name for name in FURTHER_ADAPTER_FILES]
        if training.arm.recipe is None:
            words, read = self._trainer_words(training, adapter), self._trainer_reads
            versions: tuple[str, ...] = ()  # the trainer has an environment of its own
        else:
            words, read = self._recipe_words(training, adapter), self._recipe_reads
            versions = (_TOOL, *MODEL_LIBRARIES)
            wide = (*ADAPTER_FILES, *FURTHER_ADAPTER_FILES)
            further += [adapter / name for name in _RECIPE_FILES]
            further += [adapter / WIDE / name for name in wide]
        return Step(
            f"train-{training.name}",
            "train",
            words,
            self.prepared,
            (*read, *self._base_files),
            tuple(adapter / name for name in ADAPTER_FILES),
            extras=tuple(further),
            removes=(adapter,),
            resumes=True,
            versions=versions,
            commits=self._commits,
            training=training,
            model=training.name,
            judged_with=self.files.data,
        )

    def _trainer_words(self, training: Training, adapter: Path) -> tuple[str, ...]:
        """Return the command of the plan's trainer."""
        if self.plan.train.command is None:  # a problem of the plan
            return (UNSTATED,)
        parts = self.parts
        values = {
            "arm": training.arm.name,
            "seed": str(training.seed),
            "base": self.plan.model.base,
            "data": str(self.plan.data.folder),
            "train": str(parts["train"]),
            "selection": str(parts["selection"]),
            "adapter": str(adapter),
            "settings": training.settings_json,
        }
        return self.plan.train.command.filled(values)

    @property
    def _trainer_reads(self) -> tuple[Path, ...]:
        """Return the data and scripts that the plan's trainer gets."""
        command = self.plan.train.command
        gets_folder = command is not None and "data" in command.placeholders
        dataset = self.files.data if gets_folder else ()
        read = (self.parts["train"], self.parts["selection"], *dataset)
        return (*dict.fromkeys(read), *self.files.scripts)

    def _recipe_words(self, training: Training, adapter: Path) -> tuple[str, ...]:
        """Return the command of a training with a built-in recipe."""
        model, unpaired = self.plan.model, self.plan.data.unpaired
        how: list[tuple[str, object]] = [(f"--{role}", path) for role, path in self.parts.items()]
        how += [] if unpaired is None else [("--unpaired", unpaired)]
        for name, value in (("dtype", model.dtype), ("device", model.device)):
            how += [] if value == "auto" else [(f"--{name}", value)]
        words = (*_RECIPE, training.arm.recipe, "--arm", training.arm.name)
        places = ("--cache", self.folder / "views", "--out", adapter)
        settings = dict(sorted(training.settings.items()))  # their order repeats no training
        seed_and_base = ("--seed", training.seed, "--base-model", model.base)
        return _flat((*words, *seed_and_base, *how, *places, as_words(settings)))

    @property
    def _recipe_reads(self) -> tuple[Path, ...]:
        """Return the data that a recipe reads."""
        unpaired = self.plan.data.unpaired
        return (*self.parts.values(), *(() if unpaired is None else (unpaired,)))

    @property
    def _base_files(self) -> tuple[Path, ...]:
        return () if self.files.base is None else (self.files.base,)

    @property
    def _commits(self) -> dict[str, str | None]:
        base = self.plan.model.base
        return {base: self.files.base_commit} if self.files.base is None and can_move(base) else {}

    def _score(self, training: Training | None, part: str) -> Step:
        name = BASE_RUN if training is None else training.name
        data = {"holdout": self.files.holdout, "ablated": self.ablated, **self.parts}
        file, run = data[part], self.folder / PLACES[part] / name
        judge, adapter = self.plan.judge, Path() if training is None else self._adapter(training)
        # An ablated record has no reference: one view shows how confident the model is.
        k = 1 if part in _ONE_VIEW else judge.k
        views = ("--k", k, "--order-seed", judge.order_seed)
        words = ("pact-eval", "score", *self._scored(training, adapter), "--data", file, *views)
        role = ("--role", part) if part in _ROLES else ()
        files = (*ADAPTER_FILES, *FURTHER_ADAPTER_FILES)
        weights = () if training is None else tuple(adapter / name for name in files)
        return Step(
            f"score-{name}-{part}",
            "score",
            _flat((*words, "--out", run, *role)),
            self.prepared if training is None else (*self.prepared, _made_by(training)),
            (file, *weights, *self._base_files),
            tuple(run / name for name in RUN_FILES),
            removes=(run,),
            resumes=True,
            versions=(_TOOL, *MODEL_LIBRARIES),
            commits=self._commits,
            training=training,
            model=name,
            part=part,
        )

    def _scored(self, training: Training | None, adapter: Path) -> tuple[object, ...]:
        """Return the words of `score` that name the model and its labels."""
        model = self.plan.model
        how: tuple[object, ...] = ("--base-model", model.base)
        how += () if model.dtype == "auto" else ("--dtype", model.dtype)
        for name, value in (("device", model.device), ("attention", model.attention)):
            how += () if value == "auto" else (f"--{name}", value)
        if training is None:
            return (*how, "--no-adapter", "--arm", BASE_RUN)
        return (adapter, *how, "--arm", training.label, "--train-seed", training.seed)

    def _calibrate(self, training: Training) -> Step:
        name = training.name
        fitted, holdout = self.folder / "calibration" / name, self.folder / "runs" / name
        # Hypotheses on calibrated runs need a file, also where it does not help.
        words = ("pact-eval", "calibrate", fitted, "--mode", self.plan.judge.calibrator, "--force")
        written = (fitted / _CALIBRATOR, holdout / _CALIBRATOR)
        return Step(
            f"calibrate-{name}",
            "calibrate",
            _flat((*words, "--holdout", holdout)),
            (f"score-{name}-holdout", f"score-{name}-calibration"),
            tuple(run / file for run in (fitted, holdout) for file in RUN_FILES),
            written,
            removes=written,
            training=training,
            model=name,
        )

    def conclusions(self, steps: Sequence[Step]) -> list[Step]:
        """Return the steps after the last model.

        Args:
            steps: all steps before.
        """
        judged = [step for part in _JUDGED for step in steps if step.part == part]
        runs = [step.outputs[0].parent for step in judged]
        needs = tuple(step.name for step in (*judged, *_of_stage(steps, "calibrate")))
        written = [file for step in _of_stage(steps, "calibrate") for file in step.outputs[1:]]
        read = (*(file for step in judged for file in step.outputs), *written)
        choices = tuple(step.outputs[0] for step in _of_stage(steps, "select"))
        return [*self._scorecard(runs, needs, read), *self._pages(runs, needs, read, choices)]

    def _scorecard(
        self, runs: Sequence[Path], needs: tuple[str, ...], read: tuple[Path, ...]
    ) -> list[Step]:
        hypotheses = self.plan.judge.hypotheses
        if hypotheses is None or self.lock is None:
            return []
        out = self.folder / "scorecard.txt"
        words, read = ("pact-eval", "scorecard", hypotheses, *runs), (hypotheses, self.lock, *read)
        return [Step("scorecard", "scorecard", _flat(words), needs, read, (out,), stdout=out)]

    def _pages(
        self,
        runs: Sequence[Path],
        needs: tuple[str, ...],
        read: tuple[Path, ...],
        choices: tuple[Path, ...],
    ) -> list[Step]:
        judge, page, paper = self.plan.judge, self.folder / "page.html", self.folder / "paper"
        how: tuple[object, ...] = ("--data", self.plan.data.folder)
        how += ("--method", judge.method or self.plan.arms[0].name)
        how += tuple(word for choice in choices for word in ("--selected", choice))
        read = (*self.files.data, *choices, *read)
        if judge.hypotheses is not None and self.lock is not None:
            how, read = (*how, "--criteria", judge.hypotheses), (*read, judge.hypotheses, self.lock)
        as_page = ("pact-eval", "report", *runs, "--html", page, *how)
        as_files = ("pact-eval", "paper", *runs, "--out", paper, *how)
        return [
            Step("page", "page", _flat(as_page), needs, read, (page,)),
            Step("paper", "paper", _flat(as_files), needs, read, (paper,), removes=(paper,)),
        ]


def _of_stage(steps: Iterable[Step], stage: ExperimentStage) -> list[Step]:
    return [step for step in steps if step.stage == stage]


def _made_by(training: Training) -> str:
    """Return the name of the step that makes the adapter of a training or of a chosen one."""
    return f"select-{training.arm.name}" if training.is_chosen else f"train-{training.name}"


def _flat(words: Iterable[object]) -> tuple[str, ...]:
    """Return words as text, those of inner tuples in their place."""
    flat: list[str] = []
    for word in words:
        flat += map(str, word) if isinstance(word, tuple) else [str(word)]
    return tuple(flat)
