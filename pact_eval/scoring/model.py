"""Find, check, identify and load the model that is scored.

The base model comes from a folder, or from the hub if an id was given. A language model inside a
multimodal shell is loaded without the shell if transformers can do that, and with the shell if the
adapter was trained on the shell. Every tensor of the adapter must fit: a key that is missing,
unexpected or of another shape is an error.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers.utils import logging as transformers_logging

from pact_eval._files import sha256_of_file
from pact_eval._json import Json
from pact_eval.custody import TRAINING_RECORD, read_training_record
from pact_eval.data.files import is_file
from pact_eval.errors import AdapterError, ContractMismatchError
from pact_eval.hub import model_name
from pact_eval.models import (
    GGUF_REMEDY,
    AdapterFiles,
    base_folders,
    check_quantisation,
    find_base_folder,
    model_folder,
    read_adapter_files,
    read_json_object,
    refuse_costly_patterns,
    refuse_unsafe_settings,
    safetensors_header,
    sha256_of_weights,
    weight_files,
)
from pact_eval.prompts.contract import PromptContract
from pact_eval.prompts.encoding import STATED_PROMPTS, Encoder, TrainingPrompts
from pact_eval.runs.provenance import Contract, RecordedBase, RecordedWeights
from pact_eval.scoring.contracts import find_contract, load_tokenizer, longest_prompt, reason
from pact_eval.scoring.cpu import keep_freed_memory
from pact_eval.scoring.quantisation import (
    Quantisation,
    asked_quantisation,
    check_kernels,
    check_layers,
    no_code_from_the_hub,
)
from pact_eval.scoring.request import AttentionName, EngineName, ModelRequest
from pact_eval.scoring.scorer import Scorer
from pact_eval.scoring.shared_prefix_attention import DEFAULT_KERNEL
from pact_eval.templates.files import (
    check_statement,
    is_decision_model,
    mismatch_remedy,
    read_decision_files,
)

with no_code_from_the_hub():
    from peft import LoraConfig, PeftModel, get_peft_model_state_dict, set_peft_model_state_dict

# Larger batches are not faster on a CPU; they are on a GPU.
_CPU_BATCH_TOKENS: Final = 4096
_BATCH_TOKENS: Final = 32768


@dataclass(frozen=True)
class ScoringModel:
    """A model identified by its hashes, not loaded yet.

    Attributes:
        adapter: the adapter's files, or None.
        base: the base model on disk.
        contract: the prompt contract used for scoring.
        contract_mismatch: how the prompts of the training differ, if that was allowed.
        contract_stated_by: "user" if the adapter's own files state no contract; else None.
        device: device that runs the model.
        dtype: precision of weights and computation.
        batch_tokens: tokens per pass, padding included.
        encoder: turns records into token ids.
        engine: name of the requested engine.
        attention: name of the requested kernel of attention.
        merge: whether the adapter is added to the weights before scoring.
        quantisation: how the weights of the base are stored; None for full precision.
        why_dtype: why auto took the precision; None if nothing was chosen.
    """

    adapter: AdapterFiles | None
    base: BaseModel
    contract: PromptContract
    contract_mismatch: str | None
    contract_stated_by: str | None
    device: torch.device
    dtype: torch.dtype
    batch_tokens: int
    encoder: Encoder
    engine: EngineName = "auto"
    attention: AttentionName = "auto"
    merge: bool = False
    quantisation: Quantisation | None = None
    why_dtype: str | None = None

    @property
    def recorded_contract(self) -> Contract:
        """The contract, and what to say of it, as `run.json` records them."""
        contract = self.contract
        return Contract(
            contract.name,
            contract.fingerprint,
            self.contract_mismatch,
            self.contract_stated_by,
            contract.temperatures,
        )

    @property
    def settings(self) -> Mapping[str, Json]:
        """The settings that identify the model in `run.json`."""
        adapter, base = self.adapter, self.base
        config_sha256 = sha256_of_file(base.folder / "config.json")
        return {
            "adapter": None
            if adapter is None
            else RecordedWeights(adapter.sha256, adapter.config_sha256).to_json(),
            "base": RecordedBase(base.sha256, config_sha256, base.revision).to_json(),
            "prompts_sha256": self.encoder.fingerprint,
            "contract": self.recorded_contract.to_json(),
            "device": self.device.type,
            "dtype": str(self.dtype).removeprefix("torch."),
            "batch_tokens": self.batch_tokens,
            # Only if requested: a run with defaults can resume with any engine.
            **({} if self.engine == "auto" else {"engine": self.engine}),
            **({} if self.attention == "auto" else {"attention": self.attention}),
            **({"merge": True} if self.merge else {}),
            **({"quantisation": self.quantisation.settings} if self.quantisation else {}),
        }

    def load(self) -> LoadedModel:
        """Load the weights; on a CPU, also let the process keep freed memory for the next pass.

        Raises:
            AdapterError: the base or the adapter cannot be loaded, or they do not fit.
        """
        if self.device.type == "cpu":
            keep_freed_memory()
        model = load_base(self.base, self.adapter, self.device, self.dtype, self.quantisation)
        if self.adapter is not None:
            model = attach_adapter(model, self.adapter)
        kernel = DEFAULT_KERNEL if self.attention == "auto" else self.attention
        return LoadedModel(self, model, Scorer(model, self.batch_tokens, self.engine, kernel))


@dataclass(frozen=True)
class LoadedModel:
    """A model with its weights in memory.

    Attributes:
        source: the identified model.
        model: the transformers or PEFT model.
        scorer: scores encoded views with it.
    """

    source: ScoringModel
    model: Any
    scorer: Scorer

    @property
    def attention(self) -> str:
        """The attention implementation that transformers chose."""
        return str(getattr(self.model.config, "_attn_implementation", "unknown"))


def identify(
    request: ModelRequest, *, elsewhere: bool = False, may_differ: bool = True
) -> ScoringModel:
    """Find a model and check everything that does not need its weights in memory.

    Args:
        request: the model and the settings that the user requested.
        elsewhere: other machines load it, so this one needs no such device.
        may_differ: whether the caller lets users allow another contract: a message names the
            option.

    Returns:
        The model, not loaded yet.

    Raises:
        AdapterError: a folder is missing or cannot be used, or no base model is known.
        ContractMismatchError: the adapter was trained on another prompt contract, tokenizer or chat
            template.
        PromptError: the tokenizer cannot render the contract.
        MissingExtraError: quantising was requested, and bitsandbytes is not installed.
    """
    if request.quantize is not None:
        check_quantisation(request.quantize)
        _refuse_merged(request)
    request = _with_parts(request)
    files = read_adapter_files(request.adapter) if request.adapter is not None else None
    if files is not None and request.apply_adapter:
        refuse_unsafe_settings(files)
    base = _base_of(request, files)
    if files is not None and request.apply_adapter:
        _refuse_other_base(files, base)
    contract = find_contract(request.contract, files, base.folder)
    stated = files.schema_config if files is not None else None
    limit = longest_prompt(base.folder, stated or {}, contract.max_prompt_tokens)
    encoder = Encoder(load_tokenizer(base.folder), contract, limit)
    mismatch = stated_by = None
    if files is not None and request.apply_adapter:
        statement = check_statement(files, contract, named=request.contract is not None)
        stated_by, difference = statement.stated_by, statement.difference
        differences = _prompt_differences(stated or {}, encoder, base.label)
        differences = differences if difference is None else (difference,)
        mismatch = "; ".join(differences) or None
        if mismatch is not None and not request.allow_contract_mismatch:
            remedy = mismatch_remedy(files, statement, may_differ=may_differ)
            raise ContractMismatchError(f"{files.folder}: {mismatch}; {remedy}")
    device = torch.device(request.device) if elsewhere else resolve_device(request.device)
    dtype, why_dtype = resolve_dtype(request.dtype, device, request.quantize), None
    if not elsewhere:
        dtype, why_dtype = choose_dtype(request, device, base.folder)
    quantisation = asked_quantisation(request.quantize, base.folder, device, dtype)
    if request.quantize is not None and not elsewhere:
        check_kernels(device)
    return ScoringModel(
        adapter=files if request.apply_adapter else None,
        base=base,
        contract=contract,
        contract_mismatch=mismatch,
        contract_stated_by=stated_by,
        device=device,
        dtype=dtype,
        batch_tokens=request.batch_tokens
        or (_CPU_BATCH_TOKENS if device.type == "cpu" else _BATCH_TOKENS),
        encoder=encoder,
        engine=request.engine,
        attention=request.attention,
        merge=request.merge and files is not None and request.apply_adapter,
        quantisation=quantisation,
        why_dtype=why_dtype,
    )


def _refuse_merged(request: ModelRequest) -> None:
    """Refuse to quantise weights that an adapter is added to."""
    if request.merge:
        raise AdapterError(
            "merge with --quantize: four-bit weights cannot hold the adapter, they would be "
            "rounded again; leave out merge"
        )
    folder = request.adapter
    decides = folder is not None and is_decision_model(folder)
    if folder is not None and decides and read_decision_files(folder).adapter is None:
        raise AdapterError(
            f"{folder}: the adapter is merged into this model, and quantising would round both "
            "together; give the adapter folder and --base-model"
        )


def _with_parts(request: ModelRequest) -> ModelRequest:
    """Return the request with base and LoRA of a full decision model, if its folder was given."""
    folder = request.adapter
    if folder is None or not is_decision_model(folder):
        return request
    if request.base_model is not None:
        raise AdapterError(
            f"{folder}: a full decision model (config.json); it cannot be scored with another base "
            f"model, {request.base_model}"
        )
    inside = read_decision_files(folder).adapter
    adapter = None if inside is None else folder / inside
    return replace(
        request,
        adapter=adapter,
        base_model=str(folder),
        apply_adapter=request.apply_adapter and adapter is not None,
    )


def _base_of(request: ModelRequest, files: AdapterFiles | None) -> BaseModel:
    name = request.base_model or (files.base_model if files is not None else None)
    if name is None:
        message = "no base model: neither --base-model nor the adapter names one; give --base-model"
        raise AdapterError(message)
    # A revision belongs to the base that the adapter names, not to one given instead.
    named = files is not None and name == files.base_model
    revision = files.base_revision if files is not None and named else None
    if request.base_model is not None or files is None:
        return resolve_base(name, revision)
    return _base_of_adapter(name, files.folder, revision)


def _base_of_adapter(name: str, adapter: Path, revision: str | None) -> BaseModel:
    """Find the base that an adapter names: in folders first, then on the Hub."""
    folder = find_base_folder(name, adapter)
    if folder is not None:
        return resolve_base(str(folder), None)
    try:
        return resolve_base(name, revision)
    except AdapterError as error:
        places = ", ".join(map(os.path.normpath, base_folders(name, adapter))) or "no folder"
        on_hub = " and on the Hub" if model_name(name) is not None else ""
        raise AdapterError(
            f"{adapter}: its base model {name!r} was not found: looked in {places}{on_hub}; give "
            f"--base-model FOLDER, or base-model in pact.toml ({error})"
        ) from error


def _prompt_differences(stated: Mapping[str, Json], encoder: Encoder, base: str) -> tuple[str, ...]:
    """Return how tokenizer and chat template of the training differ from those of the base."""
    if all(stated.get(name) is None for name in STATED_PROMPTS):
        return ()
    return TrainingPrompts.of(encoder).differences(stated, base)


def _refuse_other_base(files: AdapterFiles, base: BaseModel) -> None:
    record = read_training_record(files.folder)
    named = {
        "schema_config.json": (files.schema_config or {}).get("base_weights_sha256"),
        TRAINING_RECORD: None if record is None else record.base_sha256,
    }
    for file, sha256 in named.items():
        if sha256 is not None and sha256 != base.sha256:
            raise AdapterError(
                f"{files.folder}: trained on another base model: expected weights with SHA-256 "
                f"{sha256} (from {file}), {base.folder} has {base.sha256}"
            )


DTYPES: Final = {
    "fp32": torch.float32,
    "float32": torch.float32,
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "fp16": torch.float16,
    "float16": torch.float16,
}
"""Names that `--dtype` accepts in addition to "auto"."""

_BASE_FILES: Final = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model")
_SHELL_KEY = ".language_model."
_KEYS_SHOWN = 8


@dataclass(frozen=True)
class BaseModel:
    """A base model on disk.

    Attributes:
        name: name as given by the user or the adapter.
        folder: folder of its files.
        revision: the commit, if it came from the hub; otherwise None.
        sha256: hash of its weights; see `pact_eval.models.sha256_of_weights`.
    """

    name: str
    folder: Path
    revision: str | None
    sha256: str

    @property
    def label(self) -> str:
        """The hub id with its revision, or the folder."""
        if self.revision is not None:
            return f"{self.name} ({self.revision})"
        return os.path.normpath(self.folder)


def resolve_base(name: str, revision: str | None) -> BaseModel:
    """Find a base model: a folder, or a hub id.

    Args:
        name: path from the working folder, or `organisation/name` of a hub model, with `@revision`
            after it or not.
        revision: revision to request from the hub if the name has none.

    Returns:
        The model on disk.

    Raises:
        AdapterError: the name is neither a folder nor a hub id, the hub cannot provide it, or the
            folder has no safetensors.
    """
    folder = Path(name)
    if os.path.isdir(folder):  # noqa: PTH112 -- False, not an error, for a name that is too long
        return BaseModel(name, folder, None, sha256_of_weights(folder))
    if folder.suffix.lower() == ".gguf" and is_file(folder):
        message = f"{folder}: expected a folder with safetensors, got a GGUF; {GGUF_REMEDY}"
        raise AdapterError(message)
    hub_name = model_name(name)
    if hub_name is None:
        raise AdapterError(
            f"base model {name!r}: expected a folder or a hub id (organisation/name), found "
            "neither; give --base-model"
        )
    folder = model_folder(hub_name.at(hub_name.revision or revision), _BASE_FILES)
    return BaseModel(hub_name.repository, folder, folder.name, sha256_of_weights(folder))


def resolve_device(name: str) -> torch.device:
    """Turn the name of a device into the device.

    Args:
        name: auto, or a type of device such as cpu, cuda or mps. auto is the accelerator that torch
            offers here, or else the CPU.

    Raises:
        AdapterError: torch cannot use such a device here.
    """
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    here = "cpu" if accelerator is None else accelerator.type
    device = torch.device(here if name == "auto" else name)
    if device.type not in ("cpu", here):
        raise AdapterError(
            f"--device {name}: this machine has no {device.type.upper()} device that torch can use"
        )
    return device


def stored_dtype(folder: Path) -> torch.dtype:
    """Return the precision of a model's stored weights, in which others load them by default.

    Args:
        folder: with a `config.json`.

    Raises:
        AdapterError: the file cannot be read.
    """
    config = read_json_object(folder / "config.json")
    text = config.get("text_config")
    places = [place for place in (config, text) if isinstance(place, dict)]
    names = [place.get(key) for place in places for key in ("dtype", "torch_dtype")]
    return next((DTYPES[name] for name in names if name in DTYPES), torch.float32)


def resolve_dtype(name: str, device: torch.device, quantize: str | None = None) -> torch.dtype:
    """Turn a dtype's name into a dtype.

    Auto is bfloat16 on CUDA and for a base that is quantised. It is float32 on a CPU, and on other
    accelerators, because not all of them compute bfloat16.
    """
    if name == "auto":
        half = device.type == "cuda" or quantize is not None
        return torch.bfloat16 if half else torch.float32
    return DTYPES[name]


LARGE_PARAMETERS: Final = 100_000_000
"""Parameters from which a base may be computed in bfloat16 on a CPU without being asked."""

_BFLOAT16_INSTRUCTIONS: Final = ("amx_bf16", "avx512_bf16")


def choose_dtype(
    request: ModelRequest, device: torch.device, base: Path
) -> tuple[torch.dtype, str | None]:
    """Return the precision of a model, and why auto takes it.

    The processor decides and not its load, so that all runs of an experiment are alike.

    Args:
        request: its dtype, and whether it quantises.
        device: device that runs the model.
        base: folder of the base.

    Returns:
        The dtype, and the reason; None if the user named it, or if nothing was chosen: for a small
        base on a CPU, a quantised base, and devices other than CPU and CUDA.
    """
    dtype = resolve_dtype(request.dtype, device, request.quantize)
    if request.dtype != "auto" or request.quantize is not None:
        return dtype, None
    if device.type == "cuda" and torch.cuda.is_available():
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return torch.bfloat16, "this GPU computes bfloat16"
        return torch.float32, "this GPU does not compute bfloat16"
    if device.type != "cpu" or _count_parameters(base) < LARGE_PARAMETERS:
        return dtype, None
    offered: Mapping[str, Any] = getattr(
        torch.cpu, "get_capabilities", dict
    )()  # torch before 2.11 lacks it
    for name in _BFLOAT16_INSTRUCTIONS:
        if offered.get(name):
            return torch.bfloat16, f"this processor has {name}"
    return dtype, f"this processor has neither {' nor '.join(_BFLOAT16_INSTRUCTIONS)}"


def _count_parameters(base: Path) -> int:
    files = weight_files(base)
    return sum(math.prod(tensor.shape) for file in files for tensor in safetensors_header(file))


def load_base(
    base: BaseModel,
    adapter: AdapterFiles | None,
    device: torch.device,
    dtype: torch.dtype,
    quantisation: Quantisation | None = None,
) -> Any:
    """Load the base model in evaluation mode.

    Args:
        base: the model on disk.
        adapter: determines whether a multimodal shell is needed; None for the base alone.
        device: device that runs the model.
        dtype: precision of weights and computation.
        quantisation: how its weights are stored; None for full precision.

    Returns:
        A causal language model, or the multimodal shell around one.

    Raises:
        AdapterError: transformers cannot load it, weights are missing, or bitsandbytes cannot
            compute its layers.
    """
    needs_shell = adapter is not None and any(_SHELL_KEY in t.name for t in adapter.tensors)
    classes = [transformers.AutoModelForCausalLM, transformers.AutoModelForImageTextToText]
    failure: Exception | None = None
    for auto_class in reversed(classes) if needs_shell else classes:
        try:
            with quiet_loading():
                model, report = auto_class.from_pretrained(
                    base.folder,
                    dtype=dtype,
                    use_safetensors=True,
                    trust_remote_code=False,
                    output_loading_info=True,
                    **_placement(quantisation, device),
                )
        except Exception as error:  # noqa: BLE001 - whatever a malformed config.json leads to
            failure = failure or error
            continue
        _refuse_incomplete(base, report)
        if quantisation is None:
            return model.to(device).eval()
        check_layers(model, device)
        return model.eval()
    message = f"{base.folder}: the base model cannot be loaded ({reason(failure)})"
    raise AdapterError(message) from failure


def _placement(quantisation: Quantisation | None, device: torch.device) -> dict[str, Any]:
    """Return the options that load quantised layers onto their device, which never move."""
    if quantisation is None:
        return {}
    options: dict[str, Any] = {"device_map": {"": device}}
    if quantisation.config is not None:
        options["quantization_config"] = quantisation.config
    return options


def attach_adapter(model: Any, adapter: AdapterFiles) -> Any:
    """Put a LoRA adapter on a loaded base model.

    Args:
        model: the base model.
        adapter: the adapter's files.

    Returns:
        The PEFT model, in evaluation mode.

    Raises:
        AdapterError: a tensor is missing, unexpected or of the wrong shape (the message names
            them), or a regular expression takes too long.
    """
    refuse_costly_patterns(adapter, [name for name, _ in model.named_modules() if name])
    with warnings.catch_warnings():
        # PEFT only warns about keys that do not match; `_refuse_misfit` below raises an error.
        warnings.simplefilter("ignore")
        try:
            config = LoraConfig.from_pretrained(str(adapter.folder))
            config.inference_mode = True
            wrapped = PeftModel(model, config)
        except Exception as error:  # PEFT fails in many ways on a malformed configuration
            message = f"{adapter.folder}: does not fit this base model ({reason(error)})"
            raise AdapterError(message) from error
        # With "auto", PEFT asks the hub for the configuration of the base model named there.
        expected = get_peft_model_state_dict(wrapped, save_embedding_layers=False)
        stored = {tensor.name for tensor in adapter.tensors}
        embeddings = _adapted_embeddings(wrapped)
        expected |= {name: embeddings[name] for name in stored & embeddings.keys()}
        _refuse_misfit(adapter, expected)
        try:
            set_peft_model_state_dict(wrapped, load_file(adapter.weights))
        except SafetensorError as error:
            raise AdapterError(f"{adapter.weights}: cannot be read ({reason(error)})") from error
    return wrapped.eval()


def _adapted_embeddings(wrapped: Any) -> dict[str, torch.Tensor]:
    """Return the weights of adapted embeddings, which PEFT stores in full next to the factors."""
    layers = (wrapped.get_input_embeddings(), wrapped.get_output_embeddings())
    return {
        f"{name}.base_layer.weight": module.base_layer.weight
        for name, module in wrapped.named_modules()
        if any(module is layer for layer in layers) and hasattr(module, "base_layer")
    }


def _refuse_misfit(adapter: AdapterFiles, expected: dict[str, torch.Tensor]) -> None:
    adapter_shapes = {tensor.name: tensor.shape for tensor in adapter.tensors}
    shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
    faults = {
        "missing in the adapter": sorted(set(shapes) - set(adapter_shapes)),
        "unexpected in the adapter": sorted(set(adapter_shapes) - set(shapes)),
        "of the wrong shape": [
            f"{name}: expected {list(shapes[name])}, found {list(adapter_shapes[name])}"
            for name in sorted(set(adapter_shapes) & set(shapes))
            if adapter_shapes[name] != shapes[name]
        ],
    }
    lines = [f"  {len(names)} {fault}: {_some(names)}" for fault, names in faults.items() if names]
    if lines:
        raise AdapterError(
            f"{adapter.folder}: the adapter does not fit this base model; it may need another:\n"
            + "\n".join(lines)
        )


def _refuse_incomplete(base: BaseModel, report: Any) -> None:
    missing = sorted(report["missing_keys"])
    if missing:
        are = "tensor is" if len(missing) == 1 else "tensors are"
        tied = "; if it equals the embeddings, set tie_word_embeddings to true in config.json"
        raise AdapterError(
            f"{base.folder}: {len(missing)} {are} missing in the weights: {_some(missing)}"
            f"{tied if missing == ['lm_head.weight'] else ''}"
        )


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Silence progress bars and warnings of loading; missing weights are checked afterwards."""
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        transformers_logging.set_verbosity(before)
        transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _some(names: list[str]) -> str:
    more = f", ... ({len(names)} in total)" if len(names) > _KEYS_SHOWN else ""
    return ", ".join(names[:_KEYS_SHOWN]) + more
