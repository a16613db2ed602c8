"""Check "base": fit of the adapter to the base model that it names.

Nothing is fetched: a base that is not a folder here is not checked, and a note says so. Of the
base's weights only the headers are read, which name every tensor and its shape; the bytes are
hashed only if the adapter names the hash that they must have.

A module's name in memory is not always its tensor's name on disk: a checkpoint of a multimodal
shell can be loaded as the shell or as the language model alone, and older checkpoints are stored
under older names. Every such reading is tried; the one that knows most of the wanted modules is
used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pact_eval._json import Json, describe
from pact_eval.audit.adapter.files import LoraSettings, shown
from pact_eval.audit.adapter.tensors import (
    PREFIX,
    LoraModule,
    LoraTensors,
    is_announced,
    is_target_parameter,
    targeted,
    without_module,
)
from pact_eval.audit.findings import Check, CheckResult, Collector
from pact_eval.errors import AdapterError, Place
from pact_eval.hub import is_hub_id
from pact_eval.models import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    SCHEMA_CONFIG,
    PatternError,
    TensorInfo,
    find_base_folder,
    named_base_model,
    named_base_revision,
    read_json_object,
    safetensors_header,
    sha256_of_weights,
    weight_files,
)

if TYPE_CHECKING:
    from pact_eval.audit.adapter.context import AdapterContext

_CONFIG: Final = Place(ADAPTER_CONFIG)
_WEIGHTS: Final = Place(ADAPTER_WEIGHTS)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
# A weight whose stored shape is that of the matrix; integers hold several packed numbers.
_UNPACKED: Final = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")
_EXPERT: Final = re.compile(r"\.experts\.[0-9]+\.")
_INDEX: Final = "model.safetensors.index.json"
_SUFFIXES: Final = (".weight", ".qweight", ".weight_packed")
# Models with layers of `Conv1D`.
_CONV1D: Final = ("gpt2", "openai-gpt", "decision_transformer")
_PARTS_OF_SHELLS: Final = (
    "text_config", "vision_config", "audio_config", "llm_config", "language_config",
    "thinker_config",
)  # fmt: skip
# Heads for speculative decoding, which transformers does not load.
_NOT_LOADED: Final = ("mtp.", "model.mtp.")
_SHELL: Final = "model.language_model."
# What the beginnings of stored names become in memory, the first that fits; other names are left
# out. As stored; the language model of a shell, alone; a shell whose checkpoint has the older
# names; and a checkpoint of GPT-2's time, which leaves the first part of the names out.
_READINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "stored": {"": ""},
    "language model": {
        _SHELL: "model.",
        "language_model.model.": "model.",
        "language_model.lm_head": "lm_head",
        "lm_head": "lm_head",
    },
    "shell": {
        _SHELL: _SHELL,
        "language_model.model.": _SHELL,
        "language_model.lm_head": "lm_head",
        "lm_head": "lm_head",
        "model.": _SHELL,
        "": "model.",
    },
    "GPT-2": {"": "transformer."},
}


@dataclass(frozen=True)
class NamedBase:
    """The base model as an adapter names it.

    Attributes:
        model: path or hub id, or None.
        file: the configuration that names it.
        revision: of the hub's repository, or None.
        weights_sha256: the hash that its weights must have, from `schema_config.json`; None if it
            gives none.
        others: other bases that the two configurations name, by file.
        folder: its folder on this machine, or None.
        is_brought: whether the name reads like a hub id (organisation/name), and a folder of that
            name is inside the adapter: whoever made the adapter put it there.
    """

    model: str | None = None
    file: str = ADAPTER_CONFIG
    revision: str | None = None
    weights_sha256: Json = None
    others: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    is_brought: bool = False


def named_base(
    adapter: Path, config: Mapping[str, Json] | None, schema_config: Mapping[str, Json] | None
) -> NamedBase:
    """Find out which base model an adapter names, and whether it is at hand.

    Args:
        adapter: the adapter folder, where a relative path starts.
        config: the parsed `adapter_config.json`, or None if it cannot be read.
        schema_config: the parsed `schema_config.json`, or None.
    """
    model = named_base_model(config, schema_config)
    other = named_base_model(config, None)
    folder = None if model is None else find_base_folder(model, adapter)
    last_parts = {
        re.split(r"[/\\]", name.rstrip("/\\"))[-1].casefold() for name in (model, other) if name
    }
    return NamedBase(
        model=model,
        file=SCHEMA_CONFIG if named_base_model(None, schema_config) else ADAPTER_CONFIG,
        revision=named_base_revision(config, schema_config),
        weights_sha256=(schema_config or {}).get("base_weights_sha256"),
        others={SCHEMA_CONFIG: model or "", ADAPTER_CONFIG: other or ""}
        if len(last_parts) > 1
        else {},
        folder=folder,
        is_brought=is_hub_id(model or "") and folder == adapter / str(model),
    )


def check_base(context: AdapterContext, collector: Collector) -> CheckResult:
    """Check that the base is identified, and that the adapter's modules and shapes fit it."""
    base, named_folder, lora = context.base, context.base_model, context.lora
    _check_name(base, named_folder, collector)
    folder = context.base_folder
    scope, has_named_hash, weights = "the base's name", False, None
    if folder is not None:
        scope = shown(os.path.normpath(folder))
        try:
            weights = _read_base_weights(folder)
            has_named_hash = _has_named_hash(base, folder, collector)
        except (AdapterError, OSError) as error:
            expected = "a base model's safetensors"
            collector.add("base-unusable", Place(scope), expected, shown(str(error)))
            return collector.result(scope)
    if base.others and not has_named_hash:
        names = ", ".join(f"{shown(name)} in {file}" for file, name in base.others.items())
        collector.add("base-named-twice", Place(SCHEMA_CONFIG), "one base model", names)
    if folder is None or weights is None:
        return collector.result(scope)
    if lora is None:
        _note_unchecked("the adapter's tensors cannot be read", collector)
        return collector.result(f"{len(weights):,} weights of {scope}")
    is_shell, has_conv1d = _model_kind(folder)
    loaded = _as_loaded(weights, lora.modules, shell=is_shell is not False)
    _check_fit(lora, context.settings or LoraSettings(), loaded, has_conv1d, collector)
    return collector.result(
        f"{len(lora.modules):,} modules against {len(weights):,} weights of {scope}"
    )


def _check_name(base: NamedBase, named_folder: Path | None, collector: Collector) -> None:
    place, model = Place(base.file), base.model
    is_brought = base.is_brought and named_folder is None
    brought = "; its folder was taken from inside the adapter" if is_brought else ""
    if model is None:
        if base.folder is None:  # otherwise the adapter is a subfolder of its base
            collector.add("base-unknown", place, "the id or path of the base model", "none")
    elif is_hub_id(model) and (base.folder is None or base.is_brought):
        pinned = base.revision is not None and _COMMIT.fullmatch(base.revision)
        if not pinned and base.weights_sha256 is None:
            expected = f"the commit of {shown(model)}, or the SHA-256 of its weights"
            revision = f"the revision {shown(base.revision)}" if base.revision else "no revision"
            collector.add("base-unpinned", place, expected, revision + brought)
        elif brought and base.weights_sha256 is None:
            _note_unchecked(f"the named commit{brought}", collector)
    elif base.folder is None and named_folder is None:
        expected = "a folder from the adapter or the working folder, or a hub id"
        collector.add("base-not-found", place, expected, shown(model))
    if base.folder is None and named_folder is None:
        why = "the base model is not at hand: neither shapes nor missing later layers"
        _note_unchecked(f"{why} can be checked; --base-model names its folder", collector)


def _note_unchecked(why: str, collector: Collector) -> None:
    collector.add("fit-not-checked", _WEIGHTS, "factors compared with the base's weights", why)


def _has_named_hash(base: NamedBase, folder: Path, collector: Collector) -> bool:
    """Return whether the base's weights have the hash that the adapter names."""
    named = base.weights_sha256
    if named is None:
        return False
    digest = sha256_of_weights(folder)
    if digest != named:
        stated = shown(named) if isinstance(named, str) else describe(named)
        actual = f"{digest} in {shown(str(folder))}"
        expected = f"weights with SHA-256 {stated}"
        collector.add("base-differs", Place(SCHEMA_CONFIG), expected, actual)
    return digest == named


def _check_fit(
    lora: LoraTensors,
    settings: LoraSettings,
    weights: Mapping[str, TensorInfo],
    has_conv1d: bool | None,
    collector: Collector,
) -> None:
    """Compare the modules and their shapes with the base's."""
    modules = lora.modules.items()
    plain = {name: part for name, part in modules if not is_target_parameter(settings, name)}
    if len(plain) < len(modules):
        _note_unchecked("target_parameters: their shapes are not compared", collector)
    # PEFT corrects a configuration that says otherwise than the base.
    turned = settings.fan_in_fan_out if has_conv1d is None else has_conv1d
    if settings.fan_in_fan_out and not turned:
        expected = "fan_in_fan_out false: the base has linear layers"
        collector.add("layout-reset", _CONFIG, expected, "true, which PEFT resets with a warning")
    unchecked = 0
    for name, module in plain.items():
        weight = weights.get(name)
        if weight is None:
            collector.add("module-unknown", _WEIGHTS, "modules of the base", shown(name))
        elif (
            len(weight.shape) != 2
            or weight.dtype not in _UNPACKED
            or "use_qalora" in settings.variants
        ):
            unchecked += 1
        elif (misfit := _misfit(module, weight, turned)) is not None:
            expected = f"factors for a weight of {list(weight.shape)}"
            collector.add("shape-misfit", _WEIGHTS, expected, f"{shown(name)}: {misfit}")
    if unchecked:
        _note_unchecked(f"{unchecked:,} modules: quantised, or not plain matrices", collector)
    full = [tensor for tensor in lora.others if is_announced(tensor, lora, settings)]
    _check_full_tensors(full, weights, collector)
    _check_complete(plain, settings, weights, collector)


def _check_full_tensors(
    tensors: Iterable[TensorInfo], weights: Mapping[str, TensorInfo], collector: Collector
) -> None:
    """Compare weights that the adapter stores in full, of `modules_to_save`, with the base's."""
    for tensor in tensors:
        name = tensor.name.removeprefix(PREFIX).removesuffix(".weight").removesuffix(".base_layer")
        weight = weights.get(name)
        if len(tensor.shape) < 2:
            continue
        if weight is None and ".token_adapter." not in tensor.name:
            collector.add("module-unknown", _WEIGHTS, "modules of the base", shown(name))
        elif weight is not None and weight.shape != tensor.shape:
            actual = f"{shown(name)}: {shown(str([*tensor.shape]))}"
            expected = f"a weight of {list(weight.shape)}"
            collector.add("shape-misfit", _WEIGHTS, expected, actual)


def _check_complete(
    adapted: Mapping[str, LoraModule],
    settings: LoraSettings,
    weights: Mapping[str, TensorInfo],
    collector: Collector,
) -> None:
    """Find modules of the base that are targets and are not adapted."""
    why = "names do not show it"
    try:
        expected = targeted(settings, list(weights))
    except PatternError as error:
        expected, why = None, str(error)
    if expected is None or "layer_replication" in settings.variants:
        _note_unchecked(f"which modules are targets: {why}", collector)
        return
    for target in without_module(settings, list(weights)):
        collector.add("target-unknown", _CONFIG, "targets that the base has", shown(target))
    missing = sorted(expected - set(adapted))
    experts = [name for name in missing if _EXPERT.search(name)]
    if experts and not any(_EXPERT.search(name) for name in adapted):
        # Newer transformers versions hold the experts in one parameter, which is not a module.
        _note_unchecked(f"{len(experts):,} experts, which may not be modules", collector)
        missing = [name for name in missing if not _EXPERT.search(name)]
    for name in missing:
        collector.add("module-not-adapted", _WEIGHTS, "factors for every target", shown(name))


def _misfit(module: LoraModule, weight: TensorInfo, turned: bool) -> str | None:
    """Say how the factors' shapes differ from what the weight needs; None if they fit.

    Args:
        module: with its factors.
        weight: of the base.
        turned: whether the base stores weights as (in, out).
    """
    rows, columns = weight.shape
    # An embedding is stored as (entries, width): its input is the entry.
    n_in, n_out = (rows, columns) if module.is_embedding or turned else (columns, rows)
    a, b = module.a, module.b
    if a is not None and a.shape[1:] != (n_in,):
        return f"A {shown(str([*a.shape]))} does not read {n_in:,} inputs"
    if b is not None and b.shape[:1] != (n_out,):
        return f"B {shown(str([*b.shape]))} does not write {n_out:,} outputs"
    for part in ("magnitude_vector", "B.bias"):
        vector = module.parts.get(part)
        if vector is not None and vector.shape[-1:] != (columns if module.is_embedding else n_out,):
            return f"{part} {shown(str([*vector.shape]))} is not one number per output"
    return None


def _read_base_weights(folder: Path) -> dict[str, TensorInfo]:
    """Return the matrices of a base model by the stored name of the module that has them.

    Args:
        folder: of the model; one safetensors file or several, of which transformers would load
            those of the index, if there is one.

    Returns:
        Weights of two and more dimensions.

    Raises:
        AdapterError: there are none, one of the files is missing or damaged, or the folder holds
            an adapter.
    """
    files = {file.name: file for file in weight_files(folder)}
    index = folder / _INDEX
    names = ["model.safetensors"] if "model.safetensors" in files else [*files]
    if "model.safetensors" not in files and index.exists():
        by_tensor = read_json_object(index).get("weight_map")
        parts = by_tensor.values() if isinstance(by_tensor, dict) else ()
        names = sorted({part for part in parts if isinstance(part, str)})
        missing = ", ".join([name for name in names if name not in files][:5])
        if missing or not names:
            expected = "expected the parts of a model, lacks"
            raise AdapterError(f"{index}: {expected} {missing or 'all'}")
    weights: dict[str, TensorInfo] = {}
    for tensor in (tensor for name in names for tensor in safetensors_header(files[name])):
        suffix = next((end for end in _SUFFIXES if tensor.name.endswith(end)), None)
        if suffix is not None and len(tensor.shape) > 1:
            weights[tensor.name.removesuffix(suffix)] = tensor
    return weights


def _as_loaded(
    stored: Mapping[str, TensorInfo], module_names: Iterable[str], *, shell: bool = True
) -> dict[str, TensorInfo]:
    """Return weights under the names that their modules have once the model is loaded.

    Args:
        stored: weights by the stored names of their modules.
        module_names: names of modules in memory, by which the reading is chosen.
        shell: whether the model can be loaded as a multimodal shell.

    Returns:
        The weights by module; a part that this reading does not load is left out.

    Examples:
        >>> weight = TensorInfo("model.language_model.layers.0.q.weight", "F32", (4, 4), 0, 64)
        >>> stored = {"model.language_model.layers.0.q": weight}
        >>> list(_as_loaded(stored, ["model.layers.0.q"]))
        ['model.layers.0.q']
    """
    readings = []
    for title, beginnings in _READINGS.items():
        reading: dict[str, TensorInfo] = {}
        for name, tensor in stored.items() if shell or title != "shell" else ():
            begins = next((old for old in beginnings if name.startswith(old)), None)
            if begins is not None and not name.startswith(_NOT_LOADED):
                reading[beginnings[begins] + name.removeprefix(begins)] = tensor
        embedding = next((name for name in reading if name.endswith("embed_tokens")), None)
        if embedding is not None:
            # Tied to the embedding, the output layer is a module without its own tensor.
            reading.setdefault("lm_head", reading[embedding])
        readings.append(reading)
    loaded_names = frozenset(module_names)
    return max(readings, key=lambda reading: len(loaded_names & reading.keys()))


def _model_kind(folder: Path) -> tuple[bool | None, bool | None]:
    """Return what the `config.json` of a base says of its modules; None if it does not say.

    Returns:
        Whether the language model is a part of a multimodal shell; and whether weights are stored
        as (in, out), as in GPT-2.
    """
    try:
        config = read_json_object(folder / "config.json")
    except AdapterError:
        return None, None
    parts = {name for name, value in config.items() if isinstance(value, dict)}
    return not parts.isdisjoint(_PARTS_OF_SHELLS), config.get("model_type") in _CONV1D


BASE: Final[Check[AdapterContext]] = Check(
    name="base",
    question="Does it fit the base model that it names?",
    run=check_base,
    codes={
        "base-unusable": ("error", "The base model's folder has no weights that can be read."),
        "base-differs": ("error", "The base's weights do not have the hash that is named."),
        "module-unknown": ("error", "A module is adapted that the base does not have."),
        "shape-misfit": ("error", "A pair's shapes do not fit the base's weight."),
        "module-not-adapted": ("error", "A module of the base is a target and is not adapted."),
        "target-unknown": ("warning", "A target names no module of the base."),
        "layout-reset": ("note", "PEFT corrects fan_in_fan_out, with a warning."),
        "base-unknown": ("warning", "The adapter names no base model."),
        "base-not-found": ("warning", "The base is named by a path that does not exist here."),
        "base-unpinned": ("warning", "The base is named by a hub id without a commit."),
        "base-named-twice": ("note", "The two configurations name different bases."),
        "fit-not-checked": ("note", "Something was not compared with the base's weights."),
    },
)
