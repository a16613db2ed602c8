"""The plan of an experiment: a TOML file, read strictly, with all of its problems together.

    [data]
    folder = "data"            # with the manifest; checks, unpaired; select, calibrate, seed
    [model]
    base = "models/base"       # or organisation/name@revision; dtype, device, attention, cpus, gpus
    [train]                    # for arms without a recipe
    command = "python train.py --arm {arm} --seed {seed} --data {train} --out {adapter}"
    timeout = 7200             # seconds of each training; cpus, gpus
    [arms]
    mine = {}
    pact = { recipe = "pact" }
    no_cf = { recipe = "pact", set = { counterfactual = 0.0 }, ablation = true }
    [seeds]
    main = [17, 18, 19]
    ablations = [17]
    [judge]
    hypotheses = "hypotheses.toml"
    k = 4                      # views; order_seed, calibrator, method

Paths start from the folder of the plan. What is not known is refused, and never ignored: also keys
of `set` in an arm with a recipe. The plan also gives each step its environment: its program path,
GPUs and threads.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Formatter
from typing import Annotated, Final, Literal

from pact_eval._choices import DATA_CHECK_NAMES, ExperimentStage, Mode
from pact_eval._files import TomlError, parse_toml, read_text, sha256_of_file
from pact_eval._json import Json
from pact_eval._toml import UNSTATED, Key, TomlTable, did_you_mean, value_in_words
from pact_eval.data.files import MANIFEST_NAME, DataFile, Role, dataset_files, read_manifest
from pact_eval.data.processes import usable_cores
from pact_eval.errors import InputError, PlanError, Problem, RecordError, TamperedError, counted
from pact_eval.hub import is_hub_id
from pact_eval.preregistration.criteria import read_hypotheses
from pact_eval.preregistration.registration import check_lock, lock_path, read_lock
from pact_eval.scoring.request import DEVICES, AttentionName, DtypeName
from pact_eval.training.recipes import RecipeName, setting_problem

_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_THREADS: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
_SECONDS: Final = 20.0


def search_path() -> str:
    """Return the PATH of commands: the programs next to this Python come first.

    So `python train.py` runs the Python that pact-eval runs in, also if its environment is not
    activated.
    """
    here = str(Path(sys.executable).parent)
    return os.pathsep.join([here, os.environ.get("PATH", os.defpath)])


def step_environment(*, threads: int | None = None, gpus: str | None = None) -> dict[str, str]:
    """Return the environment of a step: that of this process.

    Settings of a project (`pact.toml`) do not apply: the plan has all settings.

    Args:
        threads: threads of libraries, unless the user has set them; None leaves them alone.
        gpus: GPUs, as `CUDA_VISIBLE_DEVICES` names them; None leaves them alone.
    """
    shared = {k: value for k, value in os.environ.items() if not k.startswith("PACT_EVAL_")}
    shared |= {"PATH": search_path(), "PACT_EVAL_CONFIG": "", "PYTHONUNBUFFERED": "1"}
    shared |= {"COLUMNS": "120", "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")}
    shared |= {} if gpus is None else {_VISIBLE: gpus}
    return ({} if threads is None else dict.fromkeys(_THREADS, str(threads))) | shared


def job_environments(
    jobs: int, devices: tuple[str, ...], gpus: int = 1
) -> tuple[dict[str, str], ...]:
    """Return the environment of each of several processes at a time.

    Each has its own GPUs. Without GPUs, it has its share of the cores as threads.

    Args:
        jobs: number of processes, at least 1.
        devices: the GPUs of this machine.
        gpus: GPUs of each process, at least 1; a single process has all.

    Raises:
        InputError: there are GPUs, but too few.

    Examples:
        >>> [job["CUDA_VISIBLE_DEVICES"] for job in job_environments(2, ("0", "1", "2"))]
        ['0', '1']
    """
    most = len(devices) // gpus
    if devices and jobs > most:
        raise InputError(
            f"--jobs {jobs}: each has {counted(gpus, 'GPU')}, and this machine has "
            f"{len(devices)}; expected at most {most}"
        )
    if jobs == 1:
        return (step_environment(),)
    if not devices:
        return (step_environment(threads=max(1, usable_cores() // jobs)),) * jobs
    parts = (devices[gpus * job : gpus * (job + 1)] for job in range(jobs))
    return tuple(step_environment(gpus=",".join(part)) for part in parts)


def gpus_here(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the GPUs of this machine, without loading torch.

    Args:
        environment: its `CUDA_VISIBLE_DEVICES` says which GPUs may be used.

    Examples:
        >>> gpus_here({"CUDA_VISIBLE_DEVICES": "2,3"}), gpus_here({"CUDA_VISIBLE_DEVICES": ""})
        (('2', '3'), ())
    """
    named, program = environment.get(_VISIBLE), shutil.which("nvidia-smi")
    if named is None and program is not None:
        command = [program, "--query-gpu=index", "--format=csv,noheader"]
        try:
            listed = subprocess.run(  # noqa: S603 -- a program of the system, with our words
                command, capture_output=True, text=True, timeout=_SECONDS, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return ()
        named = listed.stdout.replace("\n", ",")
    names = (named or "").split(",")
    return tuple(name.strip() for name in names if name.strip() not in ("", "-1"))


BASE_RUN: Final = "base"
"""Name of the runs of the untrained base model; no arm may have it."""

PLACEHOLDERS: Final = ("arm", "seed", "base", "data", "train", "selection", "adapter", "settings")
"""Names in braces in the command of a trainer."""

MOST_COMMAND: Final = 1 << 15
"""Longest command of a trainer, in characters: `shlex` takes the square of a word's length."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TABLES: Final = ("data", "model", "train", "arms", "seeds", "judge")
_SEEDS: Final = Key("a list of integers, such as [17, 18, 19]")


@dataclass(frozen=True)
class DataPlan:
    """The data of an experiment.

    Attributes:
        folder: folder of the dataset, with its manifest, from the folder of the plan.
        ablates: whether the models are also scored on ablated contexts.
        checks: the checks of the audit; empty for all.
        select: source families of the selection split, if the experiment makes the splits.
        calibrate: source families of the calibration split, likewise.
        seed: seed of the split.
        unpaired: labelled records without a pair that recipes train on too; None for none.
    """

    folder: Annotated[Path, Key('a path such as "data"')]
    ablates: Annotated[bool, Key(name="ablated")] = True
    checks: Annotated[tuple[str, ...], Key(allowed=DATA_CHECK_NAMES)] = ()
    select: Annotated[int, Key(least=1)] = 2
    calibrate: Annotated[int, Key(least=1)] = 2
    seed: int = 17
    unpaired: Annotated[Path | None, Key('a path such as "mix.jsonl"')] = None


@dataclass(frozen=True)
class Reserved:
    """Resources of one step on a Ray cluster.

    Attributes:
        cpus: CPUs, at least 1; the step has as many threads.
        gpus: GPUs; None takes one if there are any.
    """

    cpus: Annotated[int, Key(least=1)] = 1
    gpus: Annotated[int | None, Key(least=0)] = None


@dataclass(frozen=True, kw_only=True)
class ModelPlan(Reserved):
    """The base model, and what each scoring has for itself.

    Attributes:
        base: folder from the folder of the plan, or hub id, or hub id with @revision.
        dtype: its precision in scoring.
        device: device of scoring, as `score --device` has it; "auto" leaves the choice to `score`.
        attention: kernel of attention of scoring on a CPU. With "auto", a probe of the time chooses
            for each run, and bytes may differ between runs.
    """

    base: Annotated[str, Key('a folder, or a hub id such as "organisation/name@revision"')]
    dtype: DtypeName = "auto"
    device: Annotated[str, Key(allowed=DEVICES)] = "auto"
    attention: AttentionName = "fused"


@dataclass(frozen=True)
class Arm:
    """One recipe.

    Attributes:
        name: its name, also of folders.
        settings: `set` of the plan: text, numbers and true/false. The trainer gets it as JSON.
        is_ablation: whether it is trained with the seeds of ablations.
        recipe: name of the built-in recipe; None for the trainer of the plan.
    """

    name: str
    settings: Annotated[Mapping[str, Json], Key("such as { counterfactual = 0.0 }", name="set")] = (
        field(default_factory=dict)
    )
    is_ablation: Annotated[bool, Key(name="ablation")] = False
    recipe: RecipeName | None = None


@dataclass(frozen=True)
class Training:
    """One training: an arm and a seed."""

    arm: Arm
    seed: int

    @property
    def name(self) -> str:
        """Name of its folders.

        Examples:
            >>> Training(Arm("pact"), 17).name
            'pact-17'
        """
        return f"{self.arm.name}-{self.seed}"


@dataclass(frozen=True)
class TrainPlan(Reserved):
    """The trainer of arms without a recipe, and what each training has for itself.

    Attributes:
        command: the program and its arguments as in a shell, with placeholders in braces; None if
            every arm has a recipe.
        timeout_seconds: longest time of a training; None for no limit.
    """

    command: Annotated[str | None, Key('such as "python train.py --out {adapter}"')] = None
    timeout_seconds: Annotated[float | None, Key(name="timeout")] = None

    @property
    def words(self) -> tuple[str, ...]:
        """The command in words, divided as a shell does; nothing else of a shell has a meaning."""
        return tuple(shlex.split(self.command or ""))


@dataclass(frozen=True)
class JudgePlan:
    """Settings for judging the models.

    Attributes:
        hypotheses: file of hypotheses, from the folder of the plan; None for none.
        k: views per record.
        order_seed: seed of the letter orders.
        calibrator: form of the temperatures, as `calibrate --mode` has it.
        method: arm that others are compared with; None takes the first one.
    """

    hypotheses: Annotated[Path | None, Key('a path such as "hypotheses.toml"')] = None
    k: Annotated[int, Key(least=1)] = 4
    order_seed: int = 0
    calibrator: Literal["auto", Mode] = "auto"
    method: Annotated[str | None, Key("the name of an arm")] = None


@dataclass(frozen=True)
class _Seeds:
    """The table of seeds."""

    main: Annotated[tuple[int, ...], _SEEDS]
    ablations: Annotated[tuple[int, ...] | None, _SEEDS] = None


@dataclass(frozen=True)
class Plan:
    """An experiment as its file describes it.

    Attributes:
        path: the file.
        data: the data.
        model: the base model.
        train: the trainer.
        arms: the arms, in their order.
        seeds: seeds of arms that are not ablations.
        ablation_seeds: seeds of ablations.
        judge: how the models are judged.
    """

    path: Path
    data: DataPlan
    model: ModelPlan
    train: TrainPlan
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    ablation_seeds: tuple[int, ...]
    judge: JudgePlan

    @property
    def folder(self) -> Path:
        """The folder that paths of the plan start from."""
        return self.path.parent

    def seeds_of(self, arm: Arm) -> tuple[int, ...]:
        """Return the seeds of an arm."""
        return self.ablation_seeds if arm.is_ablation else self.seeds

    def trainings(self) -> Iterator[Training]:
        """Yield the trainings of every arm."""
        for arm in self.arms:
            for seed in self.seeds_of(arm):
                yield Training(arm, seed)

    def reserved(self, stage: ExperimentStage, *, has_gpus: bool) -> Reserved:
        """Return what a step of a stage has for itself: a training or scoring what the plan says.

        Args:
            stage: the stage; others than train and score have one CPU and no GPU.
            has_gpus: whether there are GPUs; then one is the default.
        """
        if stage not in ("train", "score"):
            return Reserved(1, 0)
        stated = self.train if stage == "train" else self.model
        uses_gpu = has_gpus and not (stage == "score" and self.model.device == "cpu")
        return Reserved(stated.cpus, int(uses_gpu) if stated.gpus is None else stated.gpus)


def check_plan(path: Path) -> tuple[Plan, list[Problem]]:
    """Read a plan, and return it with its problems; what is not valid has a default.

    The files that it names are not opened; see `plan_files`.

    Args:
        path: a TOML file.

    Raises:
        InputError: it is missing or cannot be read.
        PlanError: it is not TOML.
    """
    return parse_plan(read_text(path, missing="no such plan"), path)


def parse_plan(text: str, path: Path) -> tuple[Plan, list[Problem]]:
    """Parse the text of a plan; as `check_plan`.

    Args:
        text: TOML.
        path: its file, for messages, and where its paths start.

    Raises:
        PlanError: it is not TOML.

    Examples:
        >>> plan, problems = parse_plan("judge = { k = 0 }", Path("plan.toml"))
        >>> print(problems[-1])
        judge: expected k as an integer of at least 1, got 0
    """
    try:
        values = parse_toml(text)
    except TomlError as error:
        raise PlanError(str(path), [Problem(error.line, None, str(error))]) from None
    problems: list[Problem] = []
    table = TomlTable(values, problems)
    table.refuse_unknown(_TABLES, "the plan")
    data = table.table("data", 'such as folder = "data"').read(DataPlan, "data")
    model = table.table("model", 'such as base = "models/base"').read(ModelPlan, "model")
    arm_table = table.table("arms", "such as mine = {}")
    train = _train(table.table("train", 'such as command = "python train.py ..."'), arm_table)
    arms = _arms(arm_table)
    seeds = table.table("seeds", "such as main = [17, 18, 19]").read(_Seeds, "seeds")
    judge = _judge(table.table("judge", "such as k = 4"), arms)
    ablation_seeds = seeds.ablations or seeds.main[:1]
    plan = Plan(path, data, model, train, arms, seeds.main, ablation_seeds, judge)
    return plan, [*problems, *_same_names(plan), *_unread_settings(plan)]


def _same_names(plan: Plan) -> Iterator[Problem]:
    """Yield a problem for each name that trainings of several arms have."""
    arms: dict[str, list[str]] = {}
    for training in plan.trainings():
        arms.setdefault(training.name, []).append(training.arm.name)
    for name, named in arms.items():
        if len(named) > 1:
            message = f"arms: trainings of {', '.join(named)} are both named {name}; rename an arm"
            yield Problem(None, None, message)


def _unread_settings(plan: Plan) -> Iterator[Problem]:
    """Yield a problem for each arm whose settings the trainer would never get."""
    if plan.train.command is None or "{settings}" in plan.train.command:
        return
    for arm in plan.arms:
        if arm.settings and arm.recipe is None:
            message = (
                f"arms: {arm.name}: the trainer does not get set; expected the placeholder "
                "{settings} in the command of train"
            )
            yield Problem(None, None, message)


def _train(table: TomlTable, arms: TomlTable) -> TrainPlan:
    train = table.read(TrainPlan, "train")
    if table.values.get("command") is None:
        without = [
            name
            for name, arm in arms.values.items()
            if not isinstance(arm, dict) or "recipe" not in arm
        ]
        if without or not arms.values:
            names = ", ".join(without) or "every arm"
            table.problem(f"expected command, or a recipe: {names} has no trainer")
    return train if _check_command(train, table) else replace(train, command=None)


def _check_command(train: TrainPlan, table: TomlTable) -> bool:
    """Add the problems of a command, and return whether it can be divided into words."""
    if train.command is not None and len(train.command) > MOST_COMMAND:
        table.problem(
            f"command: expected at most {MOST_COMMAND:,} characters, got {len(train.command):,}; "
            "write a script"
        )
        return False
    try:
        words = train.words
        parts = [part for word in words for part in Formatter().parse(word) if part[1] is not None]
    except ValueError as error:
        table.problem(f"command: {error}")
        return False
    for _, name, form, conversion in parts:
        if name not in PLACEHOLDERS:
            near = did_you_mean(f"{{{name}}}", [f"{{{known}}}" for known in PLACEHOLDERS])
            table.problem(f"command: unknown placeholder {{{name}}}{near}")
        elif form or conversion:
            table.problem(f"command: expected {{{name}}} without a format")
    if words and "adapter" not in [name for _, name, _, _ in parts]:
        table.problem("command: expected the placeholder {adapter}, the folder to write")
    return bool(words)


def fill(words: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words of a command with values in place of the placeholders.

    A value is never divided into words.

    Args:
        words: the program and its arguments; `{{` is a brace.
        values: one for each placeholder.

    Examples:
        >>> fill(("train", "--arm={arm}"), {"arm": "no cf"})
        ('train', '--arm=no cf')
    """
    return tuple(word.format_map(values) for word in words)


def _arms(table: TomlTable) -> tuple[Arm, ...]:
    if not table.values:
        table.problem("expected at least one arm, such as mine = {}")
    arms = []
    for name, values in table.values.items():
        if not _NAME.fullmatch(name) or name == BASE_RUN:
            reserved = f"; {BASE_RUN} is the untrained model" if name == BASE_RUN else ""
            table.problem(
                f"expected letters, digits, _, . or - as the name of an arm, "
                f"got {value_in_words(name)}{reserved}"
            )
        if not isinstance(values, dict):
            table.problem(f"expected {name} as a table, such as {{}}, got {value_in_words(values)}")
            continue
        arms.append(_arm(name, table.inside(values, f"{name}: ")))
    return tuple(arms)


def _arm(name: str, table: TomlTable) -> Arm:
    arm = table.read(Arm, "an arm", name=name)
    values = table.inside(arm.settings, "set: ")
    settings = {
        key: value for key, value in arm.settings.items() if _is_setting(key, value, values)
    }
    for key, value in settings.items() if arm.recipe is not None else ():
        if (problem := setting_problem(key, value)) is not None:
            values.problem(problem)
    return replace(arm, settings=settings)


def _is_setting(key: str, value: object, table: TomlTable) -> bool:
    """Return whether a value of `set` is one; if not, this is a problem."""
    if "=" in key:  # of the words KEY=VALUE
        table.problem(f"expected a key without =, got {key}")
    if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return True
    table.problem(
        f"expected {key} as text, a finite number or true/false, got {value_in_words(value)}"
    )
    return False


def _judge(table: TomlTable, arms: tuple[Arm, ...]) -> JudgePlan:
    judge, names = table.read(JudgePlan, "judge"), [arm.name for arm in arms]
    if judge.method is not None and judge.method not in names:
        near = did_you_mean(judge.method, names)
        table.problem(f"method: no arm is called {judge.method}{near}")
    return judge


SCRIPTS: Final = (".py", ".sh")
"""Ends of words of a command that are files of the user."""


@dataclass(frozen=True)
class PlanFiles:
    """Files that an experiment starts from. Paths start from the folder of the plan.

    Attributes:
        train: the training file; before the split, if the experiment makes the splits.
        holdout: the file to evaluate on.
        selection: the selection split; None if the experiment makes the splits.
        calibration: the calibration split, likewise.
        base: folder of the base model; None for a hub id.
    """

    train: Path
    holdout: Path
    selection: Path | None
    calibration: Path | None
    base: Path | None


def check_files(plan: Plan, problems: list[Problem]) -> PlanFiles:
    """Find the files of a plan.

    Args:
        plan: the plan.
        problems: its problems; those of its files are added.

    Raises:
        PlanError: there are problems.
        TamperedError: the hypotheses, their lock or the holdout have changed since they were
            registered.
    """
    by_role: dict[Role, Path] = {}
    if (plan.folder / plan.data.folder).is_dir():
        try:
            files = _data_files(plan)
            problems += _role_problems(plan, files)
            by_role = {file.role: plan.data.folder / file.name for file in files}
        except InputError as error:
            problems.append(_problem(f"data: folder: {error}"))
    problems += [*_hypotheses_problems(plan), *_missing(plan)]
    if problems:
        raise PlanError(str(plan.path), problems)
    base = Path(plan.model.base)
    holdout = by_role.get("eval", plan.data.folder / "holdout.jsonl")
    _check_registered(plan, holdout)
    return PlanFiles(
        train=by_role.get("train", plan.data.folder / "train.jsonl"),
        holdout=holdout,
        selection=by_role.get("selection"),
        calibration=by_role.get("calibration"),
        base=base if (plan.folder / base).is_dir() else None,
    )


def _problem(message: str) -> Problem:
    return Problem(None, None, message)


def _missing(plan: Plan) -> Iterator[Problem]:
    """Yield a problem for each file or program that does not exist."""
    data, base, hypotheses = plan.data.folder, plan.model.base, plan.judge.hypotheses
    if str(data) != UNSTATED and not (plan.folder / data).is_dir():
        yield _problem(f"data: folder: no such folder: {data}")
    if hypotheses is not None and not (plan.folder / hypotheses).is_file():
        yield _problem(f"judge: hypotheses: no such file: {hypotheses}")
    if base != UNSTATED and not (plan.folder / base).is_dir() and not is_hub_id(base):
        yield _problem(f"model: base: neither a folder nor a hub id: {base}")
    unpaired = plan.data.unpaired
    if unpaired is not None and not (plan.folder / unpaired).is_file():
        yield _problem(f"data: unpaired: no such file: {unpaired}")
    program, *words = plan.train.words or (sys.executable,)
    for word in words:
        is_script = word.endswith(SCRIPTS) and not word.startswith("-") and "{" not in word
        if is_script and not (plan.folder / word).is_file():
            yield _problem(f"train: command: no such file: {word}")
    # A program with a folder in its name starts from the folder of the plan.
    place = str(plan.folder / program) if "/" in program else program
    if shutil.which(place, path=search_path()) is None:
        yield _problem(f"train: command: no such program: {program}")


def _data_files(plan: Plan) -> tuple[DataFile, ...]:
    folder = plan.folder / plan.data.folder
    manifest = folder / MANIFEST_NAME
    return dataset_files(folder, read_manifest(manifest).value if manifest.is_file() else None)


def _role_problems(plan: Plan, files: tuple[DataFile, ...]) -> Iterator[Problem]:
    """Yield a problem for each role that no file has, or several."""
    names: dict[Role, list[str]] = {}
    for file in files:
        names.setdefault(file.role, []).append(file.name)
    for role in ("train", "eval"):
        if role not in names:
            yield _problem(f"data: expected a file with the role {role} in {plan.data.folder}")
    if ("selection" in names) != ("calibration" in names):
        yield _problem(
            "data: expected files for selection and for calibration, or neither, which are then "
            f"split from the training file; got {', '.join(file.name for file in files)}"
        )
    for role, named in names.items():
        if len(named) > 1:
            yield _problem(f"data: expected one file with the role {role}, got {', '.join(named)}")


def _hypotheses_problems(plan: Plan) -> Iterator[Problem]:
    if plan.judge.hypotheses is None or not (plan.folder / plan.judge.hypotheses).is_file():
        return
    try:
        read_hypotheses(plan.folder / plan.judge.hypotheses)
    except RecordError as error:
        yield from (_problem(f"judge: hypotheses: {problem}") for problem in error.problems)
    except InputError as error:
        yield _problem(f"judge: hypotheses: {error}")


def _check_registered(plan: Plan, holdout: Path) -> None:
    """Refuse hypotheses or a holdout that are not those that were registered.

    A holdout that was not registered at all is left to the step `register`, which says so.

    Raises:
        TamperedError: they were changed, or the lock was.
    """
    if plan.judge.hypotheses is None:
        return
    path, data = plan.folder / plan.judge.hypotheses, plan.folder / holdout
    place = lock_path(path)
    if not path.is_file() or not place.exists():
        return
    lock = read_lock(place)
    registration = check_lock(read_hypotheses(path), lock, [])
    if registration.status == "TAMPERED":
        changes = "\n".join(f"  {reason}" for reason in registration.reasons)
        raise TamperedError(
            f"{path}: not the registered hypotheses ({place}); register new ones as a file of "
            f"another name:\n{changes}"
        )
    registered = [file.sha256 for file in lock.data if file.name == data.name]
    if registered and data.is_file() and sha256_of_file(data) not in registered:
        message = f"{data}: changed since it was registered ({place}); restore it from a copy"
        raise TamperedError(message)
