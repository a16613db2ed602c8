"""Model of a recipe: any causal language model with LoRA, its optimiser, and the saved adapter.

PEFT writes the weights. `schema_config.json` makes the folder a typed-decision adapter: it records
the prompt contract of the training, the hashes of its tokenizer and chat template, the base model
and the hash of its weights, the arm and the seed. `training_data.json` holds hashes of the data
that the adapter was trained, selected and calibrated on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from pact_eval._files import atomic_path, sha256_of_file, write_atomically, writing
from pact_eval._json import Json
from pact_eval._toml import did_you_mean
from pact_eval.custody import (
    TRAINING_RECORD,
    TRAINING_RECORD_KEY,
    TrainingRecord,
    TrainingRole,
    UsedData,
    hash_data,
    write_training_record,
)
from pact_eval.errors import AdapterError, InputError
from pact_eval.models import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    SCHEMA_CONFIG,
    read_adapter_files,
    sha256_of_weights,
)
from pact_eval.prompts.contract import ChatTokenizer, PromptContract
from pact_eval.prompts.encoding import Encoder, TrainingPrompts
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.runs.folder import library_versions
from pact_eval.scoring.contracts import load_tokenizer, longest_prompt
from pact_eval.scoring.model import (
    BaseModel,
    load_base,
    resolve_base,
    resolve_device,
    resolve_dtype,
)
from pact_eval.scoring.quantisation import asked_quantisation, check_kernels, no_code_from_the_hub
from pact_eval.training.recipes import (
    SETTINGS,
    Precision,
    RecipeName,
    Setting,
    TrainingAttention,
    names_of,
    setting_problem,
)
from pact_losses import (
    LEAST_ANSWER_MASS,
    NIMBLE_RECIPE_SETTINGS,
    PACT_SETTINGS,
    AnswerLogits,
    BestCheckpoint,
    PactBatch,
    PactWeights,
    PaperSettings,
    answer_logits,
    language_targets,
    learning_rate_schedule,
    lora_config,
    lora_plus_optimizer,
)
from pact_losses.candidates import CodeLogits

if TYPE_CHECKING:
    from peft import PeftModel


_RECIPES: Final[dict[RecipeName, PaperSettings]] = {
    "pact": PACT_SETTINGS,
    "nimble_recipe": NIMBLE_RECIPE_SETTINGS,
    "cross_entropy": replace(
        PACT_SETTINGS,
        weights=PactWeights(cf=0.0, pc=0.0, nr=0.0, emd=0.0),
        permuted_views=0,
        ablated_view=False,
    ),
}


@dataclass(frozen=True)
class RecipeSettings:
    """All settings of a training with a recipe.

    Attributes:
        paper: the settings that the paper names.
        train_families: number of families to train on, evenly spaced over the file; None for all.
        selection_source_families: those of the selection split that choose the checkpoint; () for
            all. If some are left out, the checkpoint that all of them choose is saved as well.
        least_answer_mass: a checkpoint below it on the selection split is not selected, unless all
            are.
        precision: precision of the products in training; the selection split is measured in that
            of the weights.
        attention: attention of transformers. In bfloat16 on a CPU, its fused one took twenty times
            as long under a padding mask.
        gradient_checkpointing: compute activations twice, to save memory.
        quantize: "nf4" stores the linear layers of the base in four bits; None for none.
        checkpoint_seconds: time between two checkpoints; 0 is after every step.
    """

    paper: PaperSettings
    train_families: int | None = None
    selection_source_families: tuple[str, ...] = ()
    least_answer_mass: float = LEAST_ANSWER_MASS
    precision: Precision = "bfloat16"
    attention: TrainingAttention = "auto"
    gradient_checkpointing: bool = False
    quantize: str | None = None
    checkpoint_seconds: float = 60.0

    def to_json(self) -> dict[str, Json]:
        """Return the settings by the keys of `set`."""
        values = {key: attrgetter(_path(setting))(self) for key, setting in SETTINGS.items()}
        return {
            key: ", ".join(value) if isinstance(value, tuple) else value
            for key, value in values.items()
        }


_OWN: Final = {field.name for field in fields(RecipeSettings)}


def _path(setting: Setting) -> str:
    """Return the field that a setting has in `RecipeSettings`, with dots inside."""
    return setting.field if setting.field in _OWN else f"paper.{setting.field}"


def recipe_settings(recipe: str, values: Mapping[str, object]) -> RecipeSettings:
    """Return the settings of a recipe with those of `set` in place of its own.

    Args:
        recipe: one of `RECIPES`.
        values: keys of `SETTINGS` with their values.

    Raises:
        InputError: the recipe, a key or a value is not valid; one error lists all of them.

    Examples:
        >>> mine = recipe_settings("pact", {"counterfactual": 0.0, "epochs": 1})
        >>> mine.paper.weights, mine.paper.epochs
        (PactWeights(cf=0.0, pc=0.5, nr=0.2, emd=0.3, am=0.0), 1)
    """
    unknown = None if recipe in _RECIPES else f"no recipe {recipe}{did_you_mean(recipe, _RECIPES)}"
    problems = [unknown, *(setting_problem(*entry) for entry in values.items())]
    stated = [problem for problem in problems if problem is not None]
    if stated:
        raise InputError("; ".join(stated))
    name: Any = recipe
    settings = RecipeSettings(_RECIPES[name])
    for key, value in values.items():
        settings = _with_field(settings, _path(SETTINGS[key]), value)
    return settings


def _with_field(settings: Any, path: str, value: object) -> Any:
    """Return settings with another value of a field, which may be inside another one."""
    name, _, inside = path.partition(".")
    if inside:
        value = _with_field(getattr(settings, name), inside, value)
    elif isinstance(getattr(settings, name), tuple):
        value = names_of(value)
    return replace(settings, **{name: value})


def settings_identity(settings: RecipeSettings) -> dict[str, Any]:
    """Return what decides the weights of a training: all settings but the time of checkpoints."""
    values = asdict(settings)
    del values["checkpoint_seconds"]
    return values


with no_code_from_the_hub():
    from peft import get_peft_model, prepare_model_for_kbit_training

# One way of checkpointing works with frozen embeddings and with every attention.
_CHECKPOINTING: Final = {"use_reentrant": False}


@dataclass(frozen=True)
class RecipeBase:
    """A base model that is found, not loaded yet.

    Attributes:
        model: its files.
        device: device that trains.
        dtype: precision of its weights.
        encoder: turns records into token ids.
    """

    model: BaseModel
    device: torch.device
    dtype: torch.dtype
    encoder: Encoder

    @property
    def place(self) -> str | Path:
        """What `save_adapter` takes as its base: the id of a hub model, or the folder."""
        return self.model.folder if self.model.revision is None else self.model.name


def find_base(name: str, device: str, dtype: str, settings: RecipeSettings) -> RecipeBase:
    """Find a base model and its tokenizer.

    Args:
        name: folder, hub id, or hub id with @revision.
        device: one of `DEVICES`.
        dtype: precision of the weights, as `score --dtype` has it.
        settings: the settings of the training.

    Raises:
        AdapterError: there is no such model or device, or the tokenizer cannot be loaded.
        PromptError: the tokenizer cannot render the contract.
    """
    model = resolve_base(name, None)
    here = resolve_device(device)
    precision = resolve_dtype(dtype, here, settings.quantize)
    limit = longest_prompt(model.folder, {}, settings.paper.max_prompt_tokens)
    encoder = Encoder(load_tokenizer(model.folder), NIMBLE, limit)
    return RecipeBase(model, here, precision, encoder)


@dataclass
class LoraTraining:
    """A model with LoRA, and what changes its weights.

    Attributes:
        model: the PEFT model.
        optimizer: AdamW with LoRA+.
        schedule: the learning rate of each step.
        code_logits: the logits of a batch in the precision of the training.
    """

    model: Any
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LambdaLR
    code_logits: CodeLogits

    @property
    def weights(self) -> list[nn.Parameter]:
        """The weights that are trained."""
        return [weight for weight in self.model.parameters() if weight.requires_grad]

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        device: torch.device = self.model.device
        return device


def load_lora_training(
    base: RecipeBase, settings: RecipeSettings, *, seed: int, n_steps: int
) -> LoraTraining:
    """Load a base model, and add new LoRA weights.

    Args:
        base: the base model.
        settings: the settings.
        seed: seed of the weights.
        n_steps: optimiser steps of the training.

    Raises:
        AdapterError: transformers cannot load it, or it has none of the layers that LoRA adapts.
        MissingExtraError: quantising was requested, and bitsandbytes is not installed.
    """
    paper = settings.paper
    model = _load(base, settings)
    torch.manual_seed(seed)
    config = lora_config(
        rank=paper.rank,
        alpha=paper.alpha,
        dropout=paper.dropout,
        rslora=paper.rslora,
        targets=language_targets(model, paper.targets),
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PEFT calls a name of transformers 4
            wrapped: Any = get_peft_model(model, config)
    except ValueError as error:
        layers = ", ".join(paper.targets)
        message = f"{base.model.label}: no LoRA on {layers} ({error}); set targets"
        raise AdapterError(message) from error
    optimizer = lora_plus_optimizer(
        wrapped,
        learning_rate=paper.learning_rate,
        ratio=paper.lora_plus_ratio,
        weight_decay=paper.weight_decay,
    )
    schedule = learning_rate_schedule(
        optimizer, paper.schedule, n_steps=n_steps, warmup=paper.warmup
    )
    wrapped.train()
    return LoraTraining(wrapped, optimizer, schedule, _code_logits(base.device, settings))


def _load(base: RecipeBase, settings: RecipeSettings) -> Any:
    """Load the base in the precision, attention and memory of the settings."""
    dtype = base.dtype if settings.precision == "bfloat16" else torch.float32
    quantisation = asked_quantisation(settings.quantize, base.model.folder, base.device, dtype)
    if settings.quantize is not None:
        _check_quantised_training(base.device)
    model = load_base(base.model, None, base.device, dtype, quantisation)
    attention = settings.attention
    if attention == "auto":
        attention = "eager" if base.device.type == "cpu" else "sdpa"
    model.set_attn_implementation(attention)
    # PEFT copies the name into adapter_config.json, which must not contain local paths.
    hub_id = base.model.name if base.model.revision else None
    model.name_or_path = hub_id or base.model.folder.resolve().name
    if quantisation is not None:
        prepare: Callable[..., Any] = prepare_model_for_kbit_training
        model = prepare(model, use_gradient_checkpointing=False)
    if settings.gradient_checkpointing:
        # transformers 5 has renamed it.
        enable = getattr(model, "activation_checkpointing_enable", None)
        (enable or model.gradient_checkpointing_enable)(_CHECKPOINTING)
    return model


def _check_quantised_training(device: torch.device) -> None:
    """Refuse a CPU, on which the products of bitsandbytes have no gradient.

    Raises:
        AdapterError: the device is a CPU, or bitsandbytes has no kernels for it.
        MissingExtraError: bitsandbytes is not installed.
    """
    if device.type == "cpu":
        message = "quantize: training in four bits needs a GPU; leave it out, or set the device"
        raise AdapterError(message)
    check_kernels(device)


def _code_logits(device: torch.device, settings: RecipeSettings) -> CodeLogits:
    read = partial(answer_logits, train_rest=settings.paper.weights.am > 0)
    if settings.precision == "float32":
        return read

    def in_bfloat16(model: nn.Module, batch: PactBatch) -> AnswerLogits:
        with torch.autocast(device.type, torch.bfloat16):
            return read(model, batch)

    return in_bfloat16


CHECKPOINT: Final = "checkpoint.pt"
"""Name of the file in an adapter folder; a finished training has removed it."""

_FORMAT: Final = "pact-checkpoint-1"


@dataclass
class Progress:
    """State of a training after a step.

    Attributes:
        step: completed optimiser steps.
        seconds: time of all sittings so far.
        log_bytes: length of the log of these steps.
        best: the best checkpoint by the selection split.
    """

    step: int = 0
    seconds: float = 0.0
    log_bytes: int = 0
    best: BestCheckpoint = field(default_factory=BestCheckpoint)


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoint of one training in its adapter folder.

    Attributes:
        folder: the adapter folder.
        identity: SHA-256 of what decides the weights.
    """

    folder: Path
    identity: str

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / CHECKPOINT

    def save(self, training: LoraTraining, progress: Progress) -> None:
        """Write the state of a training between two steps."""
        state = {
            "format": _FORMAT,
            "training": self.identity,
            "step": progress.step,
            "seconds": progress.seconds,
            "log_bytes": progress.log_bytes,
            "best": progress.best.state_dict(),
            "weights": dict(_trained_parameters(training.model)),
            "optimizer": training.optimizer.state_dict(),
            "schedule": training.schedule.state_dict(),
            "random": _random_state(training.device),
        }
        with atomic_path(self.path) as partial:
            torch.save(state, partial)

    def load(self, training: LoraTraining, log: Callable[[str], None]) -> Progress:
        """Restore the last state of a training; without a checkpoint, it begins.

        Args:
            training: as it begins; its weights are replaced.
            log: called with a line of text.

        Raises:
            InputError: the checkpoint is of another training.
        """
        if not self.path.exists():
            return Progress()
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
        except Exception as error:  # noqa: BLE001 - torch raises many types on a damaged file
            log(f"{self.path}: damaged, training from the start ({str(error).splitlines()[0]})")
            return Progress()
        if state.get("format") != _FORMAT or state.get("training") != self.identity:
            raise InputError(
                f"{self.path}: of another training: settings, data, base or versions differ; "
                "remove it, or give another folder"
            )
        _restore(training, state)
        best = BestCheckpoint()
        best.load_state_dict(state["best"])
        log(f"{self.path}: resuming after step {state['step']}")
        return Progress(state["step"], state["seconds"], state["log_bytes"], best)

    def remove(self) -> None:
        """Remove the checkpoint of a training that has ended, and what kills left of writing."""
        self.path.unlink(missing_ok=True)
        for path in [*self.folder.rglob(".*.tmp")]:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _restore(training: LoraTraining, state: Mapping[str, Any]) -> None:
    with torch.no_grad():
        for name, weight in _trained_parameters(training.model):
            weight.copy_(state["weights"][name])
    training.optimizer.load_state_dict(state["optimizer"])
    training.schedule.load_state_dict(state["schedule"])
    torch.set_rng_state(state["random"]["cpu"])
    if "device" in state["random"]:
        torch.get_device_module(training.device).set_rng_state(state["random"]["device"])


def _trained_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name, weight) for name, weight in model.named_parameters() if weight.requires_grad)


def _random_state(device: torch.device) -> dict[str, torch.Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        state["device"] = torch.get_device_module(device).get_rng_state()
    return state


@contextmanager
def interruptions() -> Iterator[Callable[[], int | None]]:
    """Hold SIGTERM and Ctrl-C back inside the block, so that a step ends first.

    Yields:
        A function that returns the number of the signal that came, or None. A second signal acts
        at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: received[0] if received else None
    finally:
        restore()


_CLEAR: Final = Path("/proc/self/clear_refs")
_RESET_PEAK: Final = "5"
_STATUS: Final = Path("/proc/self/status")


def reset_peak_memory(device: torch.device) -> None:
    """Start to measure anew: of several trainings in one process, each has its own peak.

    On systems without `/proc`, the peak of the process is since its start.

    Args:
        device: device of the model.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):
        _CLEAR.write_text(_RESET_PEAK)


def peak_memory_bytes(device: torch.device) -> int | None:
    """Return the most memory that a GPU has held, or else this process; None if not known.

    Args:
        device: device of the model.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with contextlib.suppress(OSError, IndexError):
        # `getrusage` never returns less than the peak of the process that started this one.
        _, _, after = _STATUS.read_text().partition("VmHWM:")
        return int(after.split()[0]) * 1024
    try:
        import resource  # POSIX only
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def save_adapter(
    model: PeftModel,
    folder: Path,
    *,
    base: str | Path,
    arm: str | None = None,
    seed: int | None = None,
    tokenizer: ChatTokenizer | None = None,
    contract: PromptContract = NIMBLE,
    max_prompt_tokens: int | None = None,
    revision: str | None = None,
    dtype: torch.dtype = torch.bfloat16,
    facts: Mapping[str, Json] | None = None,
    data: Mapping[TrainingRole, Sequence[UsedData]] | None = None,
    training: Mapping[str, Json] | None = None,
) -> None:
    """Save a LoRA adapter in PEFT's format with its `schema_config.json` and training record.

    Args:
        model: the trained model.
        folder: destination; the files of an existing adapter are replaced once all new ones are
            written.
        base: hub id of the base model, or its folder. As in transformers, a string that names an
            existing folder is a folder. It is written as a path relative to `folder`, with the hash
            of its weights.
        arm: the recipe, for reports.
        seed: training seed.
        tokenizer: tokenizer of the training; None takes the one in the folder `base`. Its hashes
            and those of its chat template are stored, and `pact-eval score` refuses others. With a
            hub id and no tokenizer, they are not stated.
        contract: prompt contract of the training.
        max_prompt_tokens: limit on the length of prompts; the contract's by default.
        revision: revision of a hub model.
        dtype: dtype of the saved weights.
        facts: further keys of `schema_config.json`, none of the above.
        data: what the adapter was trained on, by role: the files, or some of their records. Their
            hashes become `training_data.json`. None writes no such record; outputs then name the
            training data "not stated".
        training: further facts for that record, such as steps and wall_seconds. Recipe, seed, base,
            versions, device and peak memory are added.

    Raises:
        InputError: a file cannot be written, or a data file cannot be read.
        RecordError: a line of a data file is not a record.
        AdapterError: the base folder has no weights, the model has no LoRA layers, it trains other
            weights, which would be lost, or a weight is not a finite number.
        PromptError: the tokenizer cannot render the contract.
        ValueError: `facts` names a reserved key.

    Examples:
        >>> import pact_eval, pact_losses, peft
        >>> from transformers import AutoModelForCausalLM
        >>> base = AutoModelForCausalLM.from_pretrained("model", dtype=torch.float32)
        >>> model = peft.get_peft_model(base, pact_losses.lora_config())
        >>> save_adapter(model, Path("new"), base="model", arm="mine", seed=17)
        >>> pact_eval.audit_adapter("new").checks[0].findings
        ()
    """
    base = Path(base) if Path(base).is_dir() else base
    schema = schema_config(
        base, folder, contract, max_prompt_tokens=max_prompt_tokens,
        base_sha256=sha256_of_base(base), revision=revision,
    )  # fmt: skip
    tokenizer = _tokenizer_of(base) if tokenizer is None else tokenizer
    if tokenizer is not None:
        schema |= TrainingPrompts.of(Encoder(tokenizer, contract)).to_json()
    schema |= {"arm": arm, "seed": seed}
    taken = sorted(set(schema) & set(facts or {}))
    if taken:
        raise ValueError(f"facts: these keys are reserved: {', '.join(taken)}")
    state = _lora_weights(model, dtype)
    used = None if data is None else {role: hash_data(files) for role, files in data.items()}
    folder.mkdir(parents=True, exist_ok=True)
    with writing(folder), TemporaryDirectory(dir=folder, prefix=".", suffix=".tmp") as temporary:
        partial = Path(temporary)
        _save_with_peft(model, partial, state)
        if used is not None:
            stated = training_facts(model, schema) | dict(training or {})
            weights = sha256_of_file(partial / ADAPTER_WEIGHTS)
            record = TrainingRecord(weights, used, stated)
            schema[TRAINING_RECORD_KEY] = write_training_record(partial, record)
        write_json(partial / SCHEMA_CONFIG, schema | dict(facts or {}))
        further = contract.adapter_files()
        for name, text in further.items():
            write_atomically(partial / name, text)
        # Last: `score` refuses a folder without it, so files of two adapters are never mixed.
        (folder / SCHEMA_CONFIG).unlink(missing_ok=True)
        (folder / TRAINING_RECORD).unlink(missing_ok=True)
        recorded = () if used is None else (TRAINING_RECORD,)
        for name in (ADAPTER_WEIGHTS, ADAPTER_CONFIG, *further, *recorded, SCHEMA_CONFIG):
            (partial / name).replace(folder / name)
    contract.check_adapter(read_adapter_files(folder).schema_config or {})


def training_facts(model: Any, schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return what the training record says of a training that has just ended in this process.

    Args:
        model: the trained model.
        schema: the content of its `schema_config.json`.
    """
    device = next(model.parameters()).device
    return {
        "recipe": schema["arm"],
        "seed": schema["seed"],
        "base_sha256": schema["base_weights_sha256"],
        "versions": library_versions(),
        "device": device.type,
        "peak_memory_bytes": peak_memory_bytes(device),
    }


def _save_with_peft(model: PeftModel, folder: Path, state: Mapping[str, torch.Tensor]) -> None:
    """Let PEFT write weights and configuration, and make the configuration the same every time."""
    # By default, PEFT asks the hub for the base's configuration by name.
    model.save_pretrained(str(folder), state_dict=state, save_embedding_layers=False)
    config = json.loads((folder / ADAPTER_CONFIG).read_text("utf-8"))
    if isinstance(config.get("target_modules"), list):
        config["target_modules"].sort()  # a set in memory: its order would vary
    config["base_model_name_or_path"] = _public_name(config.get("base_model_name_or_path"))
    write_json(folder / ADAPTER_CONFIG, config)
    (folder / ADAPTER_WEIGHTS).chmod(0o644)


def schema_config(
    base: str | Path,
    folder: Path,
    contract: PromptContract,
    *,
    max_prompt_tokens: int | None,
    base_sha256: str | None,
    revision: str | None = None,
) -> dict[str, Json]:
    """Return the content of `schema_config.json`, apart from tokenizer, arm and seed.

    Args:
        base: hub id of the base model, or its folder.
        folder: folder of the adapter.
        contract: prompt contract of the training.
        max_prompt_tokens: limit on the length of prompts; the contract's if None.
        base_sha256: hash of the base's weights; None for a hub id.
        revision: revision of a hub model.
    """
    return contract.schema_config() | {
        "model": os.path.relpath(base, folder) if isinstance(base, Path) else base,
        "revision": revision,
        "base_weights_sha256": base_sha256,
        "max_length": max_prompt_tokens or contract.max_prompt_tokens,
    }


def sha256_of_base(base: str | Path) -> str | None:
    """Return the hash of the weights in a base's folder; None for a hub id."""
    return sha256_of_weights(base) if isinstance(base, Path) else None


def _tokenizer_of(base: str | Path) -> ChatTokenizer | None:
    """Load the tokenizer of a base folder; None for a hub id, or a folder without one."""
    if not isinstance(base, Path) or not (base / "tokenizer_config.json").exists():
        return None
    from transformers import AutoTokenizer

    tokenizer: ChatTokenizer = AutoTokenizer.from_pretrained(base, trust_remote_code=False)
    return tokenizer


def _lora_weights(model: Any, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    state = {
        name: weight.detach().to(dtype)
        for name, weight in model.state_dict().items()
        if "lora_" in name
    }
    if not state:
        raise AdapterError("expected a model with LoRA layers, found none")
    lost = [
        name
        for name, weight in model.named_parameters()
        if weight.requires_grad and "lora_" not in name
    ]
    if lost:
        raise AdapterError(
            f"{len(lost)} trained weights are not LoRA weights and would be lost; first: {lost[0]}"
        )
    broken = [name for name, weight in state.items() if not bool(torch.isfinite(weight).all())]
    if broken:
        raise AdapterError(f"{len(broken)} weights are not finite in {dtype}; first: {broken[0]}")
    return state


def _public_name(name: Json) -> Json:
    """Return the name of the base model without local folders."""
    return Path(name).name if isinstance(name, str) and Path(name).exists() else name


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file of an adapter's folder."""
    write_atomically(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
