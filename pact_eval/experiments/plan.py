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
of `set` in an arm with a recipe.
"""

from __future__ import annotations

import math
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Final, get_args

from pact_eval._choices import DATA_CHECK_NAMES, ExperimentStage, Mode
from pact_eval._files import TomlError, parse_toml, read_text, sha256_of_file
from pact_eval._json import Json
from pact_eval._toml import TomlTable, did_you_mean, value_in_words
from pact_eval.data.files import MANIFEST_NAME, DataFile, Role, dataset_files, read_manifest
from pact_eval.errors import InputError, PlanError, Problem, RecordError, TamperedError
from pact_eval.experiments.devices import search_path
from pact_eval.hub.names import is_hub_id
from pact_eval.preregistration.criteria import read_hypotheses
from pact_eval.preregistration.registration import check_lock, lock_path, read_lock
from pact_eval.scoring.request import DEVICES, AttentionName, DtypeName
from pact_eval.training.recipes import RECIPES, setting_problem

BASE_RUN: Final = "base"
"""Name of the runs of the untrained base model; no arm may have it."""

UNSTATED: Final = "?"
"""Stands for a path or a command that a plan lacks; such a plan has a problem already."""

PLACEHOLDERS: Final = ("arm", "seed", "base", "data", "train", "selection", "adapter", "settings")
"""Names in braces in the command of a trainer."""

_CALIBRATORS: Final[tuple[str, ...]] = ("auto", *get_args(Mode))
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TABLES: Final = ("data", "model", "train", "arms", "seeds", "judge")
_DATA_KEYS: Final = ("folder", "ablated", "checks", "select", "calibrate", "seed", "unpaired")
_MODEL_KEYS: Final = ("base", "dtype", "device", "attention", "cpus", "gpus")
_TRAIN_KEYS: Final = ("command", "timeout", "cpus", "gpus")
_ARM_KEYS: Final = ("recipe", "set", "ablation")
_SEED_KEYS: Final = ("main", "ablations")
_JUDGE_KEYS: Final = ("hypotheses", "k", "order_seed", "calibrator", "method")
_SEEDS_EXAMPLE: Final = "a list of integers, such as [17, 18, 19]"


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

    folder: Path
    ablates: bool
    checks: tuple[str, ...]
    select: int
    calibrate: int
    seed: int
    unpaired: Path | None = None


@dataclass(frozen=True)
class Reserved:
    """Resources of one step on a Ray cluster.

    Attributes:
        cpus: CPUs, at least 1; the step has as many threads.
        gpus: GPUs; None takes one if there are any.
    """

    cpus: int = 1
    gpus: int | None = None


@dataclass(frozen=True)
class ModelPlan:
    """The base model.

    Attributes:
        base: folder from the folder of the plan, or hub id, or hub id with @revision.
        dtype: its precision in scoring.
        device: device of scoring, as `score --device` has it; "auto" leaves the choice to `score`.
        attention: kernel of attention of scoring on a CPU. With "auto", a probe of the time chooses
            for each run, and bytes may differ between runs.
        reserved: what each scoring has for itself.
    """

    base: str
    dtype: DtypeName
    device: str
    attention: AttentionName
    reserved: Reserved = Reserved()


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
    settings: Mapping[str, Json]
    is_ablation: bool
    recipe: str | None = None


@dataclass(frozen=True)
class Training:
    """One training: an arm and a seed."""

    arm: Arm
    seed: int

    @property
    def name(self) -> str:
        """Name of its folders.

        Examples:
            >>> Training(Arm("pact", {}, False), 17).name
            'pact-17'
        """
        return f"{self.arm.name}-{self.seed}"


@dataclass(frozen=True)
class TrainPlan:
    """The trainer of arms without a recipe.

    Attributes:
        command: the program and its arguments, with placeholders in braces; None if every arm has a
            recipe.
        timeout_seconds: longest time of a training; None for no limit.
        reserved: what each training has for itself.
    """

    command: tuple[str, ...] | None
    timeout_seconds: float | None
    reserved: Reserved = Reserved()


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

    hypotheses: Path | None
    k: int
    order_seed: int
    calibrator: str
    method: str | None


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
        stated = self.train.reserved if stage == "train" else self.model.reserved
        if stated.gpus is not None:
            return stated
        uses_gpu = has_gpus and not (stage == "score" and self.model.device == "cpu")
        return Reserved(stated.cpus, int(uses_gpu))


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
    data = _data(table.table("data", 'such as folder = "data"'))
    model = _model(table.table("model", 'such as base = "models/base"'))
    arm_table = table.table("arms", "such as mine = {}")
    train = _train(table.table("train", 'such as command = "python train.py ..."'), arm_table)
    arms = _arms(arm_table)
    seeds, ablation_seeds = _seeds(table.table("seeds", "such as main = [17, 18, 19]"))
    judge = _judge(table.table("judge", "such as k = 4"), arms)
    plan = Plan(path, data, model, train, arms, seeds, ablation_seeds, judge)
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
    command = plan.train.command
    if command is None or command == (UNSTATED,) or any("{settings}" in word for word in command):
        return
    for arm in plan.arms:
        if arm.settings and arm.recipe is None:
            message = (
                f"arms: {arm.name}: the trainer does not get set; expected the placeholder "
                "{settings} in the command of train"
            )
            yield Problem(None, None, message)


def _data(table: TomlTable) -> DataPlan:
    table.refuse_unknown(_DATA_KEYS, "data")
    ablates = table.flag("ablated") if "ablated" in table.values else True
    return DataPlan(
        folder=Path(table.text("folder", 'a path such as "data"') or UNSTATED),
        ablates=ablates,
        checks=table.several_of("checks", DATA_CHECK_NAMES) if "checks" in table.values else (),
        select=table.whole_number("select", default=2, least=1),
        calibrate=table.whole_number("calibrate", default=2, least=1),
        seed=table.whole_number("seed", default=17),
        unpaired=_path(table, "unpaired", "mix.jsonl"),
    )


def _path(table: TomlTable, key: str, example: str) -> Path | None:
    text = table.text(key, f'a path such as "{example}"', default="")
    return Path(text) if text else None


def _model(table: TomlTable) -> ModelPlan:
    table.refuse_unknown(_MODEL_KEYS, "model")
    return ModelPlan(
        base=table.text("base", 'a folder, or a hub id such as "organisation/name@revision"')
        or UNSTATED,
        dtype=table.chosen("dtype", get_args(DtypeName), default="auto"),
        device=table.chosen("device", DEVICES, default="auto"),
        attention=table.chosen("attention", get_args(AttentionName), default="fused"),
        reserved=_reservation(table),
    )


def _train(table: TomlTable, arms: TomlTable) -> TrainPlan:
    table.refuse_unknown(_TRAIN_KEYS, "train")
    if table.values.get("command") is None:
        without = [name for name, arm in arms.values.items() if not _names_a_recipe(arm)]
        if without or not arms.values:
            names = ", ".join(without) or "every arm"
            table.problem(f"expected command, or a recipe: {names} has no trainer")
        return TrainPlan(None, table.positive("timeout"), _reservation(table))
    text = table.text("command", 'such as "python train.py --out {adapter}"')
    return TrainPlan(_command(text, table), table.positive("timeout"), _reservation(table))


def _command(text: str, table: TomlTable) -> tuple[str, ...]:
    """Divide a command into words, as a shell does; nothing else of a shell has a meaning."""
    try:
        words = tuple(shlex.split(text))
        parts = [part for word in words for part in Formatter().parse(word) if part[1] is not None]
    except ValueError as error:
        table.problem(f"command: {error}")
        return (UNSTATED,)
    for _, name, form, conversion in parts:
        if name not in PLACEHOLDERS:
            near = did_you_mean(f"{{{name}}}", [f"{{{known}}}" for known in PLACEHOLDERS])
            table.problem(f"command: unknown placeholder {{{name}}}{near}")
        elif form or conversion:
            table.problem(f"command: expected {{{name}}} without a format")
    if words and "adapter" not in [name for _, name, _, _ in parts]:
        table.problem("command: expected the placeholder {adapter}, the folder to write")
    return words or (UNSTATED,)


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


def _reservation(table: TomlTable) -> Reserved:
    cpus = table.whole_number("cpus", default=1, least=1)
    gpus = table.whole_number("gpus", default=1, least=0) if "gpus" in table.values else None
    return Reserved(cpus, gpus)


def _names_a_recipe(arm: object) -> bool:
    return isinstance(arm, dict) and "recipe" in arm


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
    table.refuse_unknown(_ARM_KEYS, "an arm")
    values = table.table("set", "such as { counterfactual = 0.0 }")
    settings = {key: _setting(key, value, values) for key, value in values.values.items()}
    plain = {key: value for key, value in settings.items() if value is not None}
    recipe = table.chosen("recipe", RECIPES) if "recipe" in table.values else None
    if recipe is not None:
        _check_recipe_settings(plain, values)
    return Arm(name, plain, table.flag("ablation"), recipe)


def _check_recipe_settings(settings: Mapping[str, Json], table: TomlTable) -> None:
    """Add a problem for each value that a recipe does not take."""
    for key, value in settings.items():
        problem = setting_problem(key, value)
        if problem is not None:
            table.problem(problem)


def _setting(key: str, value: object, table: TomlTable) -> Json:
    """Return a value of `set`; None for a problem."""
    if "=" in key:  # of the words KEY=VALUE
        table.problem(f"expected a key without =, got {key}")
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    table.problem(
        f"expected {key} as text, a finite number or true/false, got {value_in_words(value)}"
    )
    return None


def _seeds(table: TomlTable) -> tuple[tuple[int, ...], tuple[int, ...]]:
    table.refuse_unknown(_SEED_KEYS, "seeds")
    main = table.whole_numbers("main", _SEEDS_EXAMPLE)
    if "main" not in table.values:
        table.problem(f"expected main, {_SEEDS_EXAMPLE}, got nothing")
    ablations = table.whole_numbers("ablations", _SEEDS_EXAMPLE)
    return main or (), ablations or (main or ())[:1]


def _judge(table: TomlTable, arms: tuple[Arm, ...]) -> JudgePlan:
    table.refuse_unknown(_JUDGE_KEYS, "judge")
    hypotheses = _path(table, "hypotheses", "hypotheses.toml")
    method = table.text("method", "the name of an arm", default="")
    names = [arm.name for arm in arms]
    if method and method not in names:
        table.problem(f"method: no arm is called {method}{did_you_mean(method, names)}")
    return JudgePlan(
        hypotheses=hypotheses,
        k=table.whole_number("k", default=4, least=1),
        order_seed=table.whole_number("order_seed", default=0),
        calibrator=table.chosen("calibrator", _CALIBRATORS, default="auto"),
        method=method or None,
    )


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
    program, *words = plan.train.command or (sys.executable,)
    for word in words:
        is_script = word.endswith(SCRIPTS) and not word.startswith("-") and "{" not in word
        if is_script and not (plan.folder / word).is_file():
            yield _problem(f"train: command: no such file: {word}")
    # A program with a folder in its name starts from the folder of the plan.
    place = str(plan.folder / program) if "/" in program else program
    if program != UNSTATED and shutil.which(place, path=search_path()) is None:
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
        message = (
            f"{path}: not the registered hypotheses ({place}); register new ones as a file of "
            f"another name:\n{changes}"
        )
        raise TamperedError(message)
    registered = [file.sha256 for file in lock.data if file.name == data.name]
    if registered and data.is_file() and sha256_of_file(data) not in registered:
        message = f"{data}: changed since it was registered ({place}); restore it from a copy"
        raise TamperedError(message)
