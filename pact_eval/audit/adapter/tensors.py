"""The tensors of an adapter: are they all there, do they fit together, are they trained?"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval.audit.adapter.config import LoraSettings, lora_scale
from pact_eval.audit.adapter.files import shown
from pact_eval.audit.adapter.layers import check_layers
from pact_eval.audit.adapter.targets import (
    PatternError,
    by_pattern,
    is_target_parameter,
    targeted,
    without_module,
)
from pact_eval.audit.adapter.values import TensorValues, is_readable, read_values
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.errors import Place
from pact_eval.models import ADAPTER_CONFIG, ADAPTER_WEIGHTS, TensorInfo

__all__ = ["LoraModule", "LoraTensors", "check_tensors", "group_tensors"]

_WEIGHTS: Final = Place(ADAPTER_WEIGHTS)
_CONFIG: Final = Place(ADAPTER_CONFIG)
_PREFIX: Final = "base_model.model."
_KEY: Final = re.compile(
    r"base_model\.model\.(?P<module>.+)\.lora_"
    r"(?P<part>A\.weight|B\.weight|B\.bias|embedding_A|embedding_B|magnitude_vector)"
)
# No module is named so; longer keys would make the patterns slow.
_LONGEST_KEY: Final = 500
# Weights are some 0.01 to 0.1 in size: bfloat16 keeps them to 0.00003 or so, and even the largest
# update of one step at a learning rate of 0.0001 is above this.
_NEGLIGIBLE: Final = 1e-6


@dataclass(frozen=True)
class LoraModule:
    """The tensors of one adapted module.

    Attributes:
        name: the module's name in the base model, such as "model.layers.0.self_attn.q_proj".
        parts: its tensors by the end of their keys: "A.weight", "B.weight", "embedding_A", ...
    """

    name: str
    parts: Mapping[str, TensorInfo]

    @property
    def a(self) -> TensorInfo | None:
        """The factor that reads the input, of shape (rank, in)."""
        return self.parts.get("A.weight", self.parts.get("embedding_A"))

    @property
    def b(self) -> TensorInfo | None:
        """The factor that writes the output, of shape (out, rank)."""
        return self.parts.get("B.weight", self.parts.get("embedding_B"))

    @property
    def is_embedding(self) -> bool:
        """Whether it adapts an embedding, whose A starts at zero instead of B."""
        return "embedding_A" in self.parts or "embedding_B" in self.parts


@dataclass(frozen=True)
class LoraTensors:
    """The tensors of an adapter, by module.

    Attributes:
        modules: the adapted modules by name.
        others: tensors that belong to no LoRA module.
    """

    modules: Mapping[str, LoraModule]
    others: tuple[TensorInfo, ...]


def group_tensors(tensors: Iterable[TensorInfo]) -> LoraTensors:
    """Sort the tensors of an adapter by the module that they adapt.

    Example:
        >>> key = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
        >>> list(group_tensors([TensorInfo(key, "F32", (4, 64), 0, 1024)]).modules)
        ['model.layers.0.self_attn.q_proj']
    """
    parts: dict[str, dict[str, TensorInfo]] = {}
    others = []
    for tensor in tensors:
        key = _KEY.fullmatch(tensor.name) if len(tensor.name) <= _LONGEST_KEY else None
        if key is None:
            others.append(tensor)
        else:
            parts.setdefault(key["module"], {})[key["part"]] = tensor
    modules = {name: LoraModule(name, found) for name, found in parts.items()}
    return LoraTensors(modules, tuple(others))


def check_tensors(
    path: Path,
    lora: LoraTensors,
    settings: LoraSettings | None,
    *,
    compare_layers: bool,
    keep: int,
) -> CheckResult:
    """Are all weights there, finite, and trained?

    Args:
        path: the safetensors file.
        lora: its tensors.
        settings: the configuration; without one, ranks and targets are not checked.
        compare_layers: hold the targets against the modules, and the layers against one another;
            not needed where the base model is at hand, which tells exactly what is missing.
        keep: findings kept whole of each code.

    Returns:
        What was found.
    """
    collector = Collector("tensors", keep)
    if not lora.modules:
        found = f"{len(lora.others)} tensors, none of them a LoRA factor"
        collector.add("no-lora", _WEIGHTS, f"{_PREFIX}(module).lora_A.weight, ...", found)
    scales: Mapping[str, float] = {}
    try:
        ranks, scales = _ranks_and_scales(lora, settings or LoraSettings(), collector)
        _check_pairs(lora, settings or LoraSettings(), ranks, collector)
        if settings is not None:
            _check_targets(lora, settings, collector, compare_layers=compare_layers)
    except PatternError as error:
        collector.add("pattern-costly", _CONFIG, "regular expressions that end", str(error))
    if settings is not None:
        _check_announced(lora, settings, collector)
    if compare_layers:
        check_layers(list(lora.modules), settings, collector)
    tensors = [part for module in lora.modules.values() for part in module.parts.values()]
    tensors += lora.others
    _check_types(lora, collector)
    values = _check_values(path, tensors, collector)
    if values is not None:
        _check_trained(lora, values, scales, collector)
    n_numbers = sum(tensor.size for tensor in tensors)
    scope = f"{len(tensors):,} tensors, {len(lora.modules):,} modules, {n_numbers:,} numbers"
    return collector.result(scope)


def _ranks_and_scales(
    lora: LoraTensors, settings: LoraSettings, collector: Collector
) -> tuple[dict[str, int], dict[str, float]]:
    """Return every module's rank and scale by name, patterns and all; none where unknown."""
    names = list(lora.modules)
    ranks, unused = by_pattern(settings.rank_pattern, names)
    alphas, more_unused = by_pattern(settings.alpha_pattern, names)
    for key in unused + more_unused:
        found = f"none for {shown(key)}"
        collector.add("pattern-unused", _CONFIG, "a module for every pattern", found)
    if settings.rank is not None:
        ranks = dict.fromkeys(names, settings.rank) | ranks
    if settings.alpha is not None:
        alphas = dict.fromkeys(names, settings.alpha) | alphas
    return ranks, {
        name: lora_scale(alphas[name], ranks[name], rslora=settings.use_rslora)
        for name in names
        if name in alphas and name in ranks
    }


def _check_pairs(
    lora: LoraTensors, settings: LoraSettings, ranks: Mapping[str, int], collector: Collector
) -> None:
    for name, module in lora.modules.items():
        a, b = module.a, module.b
        if a is None or b is None:
            lacking = "A" if a is None else "B"
            collector.add("half-pair", _WEIGHTS, "both factors", f"{shown(name)} without {lacking}")
            continue
        rank = ranks.get(name)
        experts = is_target_parameter(settings, name)
        if not _fits_rank(a, b, rank, several=experts):
            expected = f"A of {rank or 'r'} rows and B of {rank or 'r'} columns"
            found = f"{shown(name)}: A {shown(str([*a.shape]))}, B {shown(str([*b.shape]))}"
            collector.add("rank-mismatch", _WEIGHTS, expected, found)


def _fits_rank(a: TensorInfo, b: TensorInfo, rank: int | None, *, several: bool) -> bool:
    """Whether A (rank, in, ...) and B (out, rank, ...) share the rank; `several` for experts."""
    if min(len(a.shape), len(b.shape)) < 2 or 0 in a.shape + b.shape or a.shape[0] != b.shape[1]:
        return False
    return rank is None or a.shape[0] == rank or (several and a.shape[0] % rank == 0)


def _check_targets(
    lora: LoraTensors, settings: LoraSettings, collector: Collector, *, compare_layers: bool
) -> None:
    names = list(lora.modules)
    found = targeted(settings, names)
    if found is None:
        return
    for name in names:
        if name not in found and not is_target_parameter(settings, name):
            collector.add("module-off-target", _WEIGHTS, "modules that are targets", shown(name))
    if compare_layers:
        for target in without_module(settings, names):
            expected = "a module for every target (--base-model tells whether the base has one)"
            collector.add("target-unused", _WEIGHTS, expected, f"none for {shown(target)}")


def _check_announced(lora: LoraTensors, settings: LoraSettings, collector: Collector) -> None:
    announced = [tensor for tensor in lora.others if _is_announced(tensor, lora, settings)]
    if announced:
        found = f"{len(announced)} tensors, such as {shown(announced[0].name)}"
        collector.add("whole-tensors", _WEIGHTS, "LoRA factors", found)
    known = {tensor.name for tensor in announced}
    strangers = [tensor.name for tensor in lora.others if tensor.name not in known]
    for option, part, used in (
        ("use_dora", "magnitude_vector", settings.use_dora),
        ("lora_bias", "B.bias", settings.lora_bias),
    ):
        for name, module in lora.modules.items():
            if used and part not in module.parts and not (module.is_embedding and part == "B.bias"):
                found = f"none for {shown(name)}"
                collector.add("announced-missing", _WEIGHTS, f"lora_{part} for {option}", found)
            if not used and part in module.parts:
                strangers.append(module.parts[part].name)
    for stranger in strangers:
        expected = "tensors that the configuration announces"
        collector.add("tensor-unannounced", _WEIGHTS, expected, shown(stranger))
    for saved in settings.modules_to_save:
        if not any(_is_part_of(tensor, saved) for tensor in lora.others):
            expected = f"weights for modules_to_save {shown(saved)}"
            collector.add("announced-missing", _WEIGHTS, expected, "none")


def _is_announced(tensor: TensorInfo, lora: LoraTensors, settings: LoraSettings) -> bool:
    name = tensor.name
    if not name.startswith(_PREFIX) or len(name) > _LONGEST_KEY or "lora_" in name:
        return False
    if any(_is_part_of(tensor, saved) for saved in settings.modules_to_save):
        return True
    if name.endswith(".base_layer.weight"):
        # PEFT saves an adapted embedding or output layer whole beside its factors.
        return name[len(_PREFIX) : -len(".base_layer.weight")] in lora.modules
    if ".token_adapter." in name:
        return settings.trains_tokens
    return name.endswith(".bias") and settings.bias != "none"


def _is_part_of(tensor: TensorInfo, module: str) -> bool:
    return f".{module}." in tensor.name


def _check_types(lora: LoraTensors, collector: Collector) -> None:
    factors = [part for module in lora.modules.values() for part in module.parts.values()]
    for code, tensors in (("factor-type", factors), ("values-not-checked", lora.others)):
        unread = Counter(tensor.dtype for tensor in tensors if not is_readable(tensor))
        for dtype, count in unread.items():
            expected = "floating point of 8 to 64 bits, whose numbers can be checked"
            collector.add(code, _WEIGHTS, expected, f"{count:,} tensors of {dtype}")


def _check_values(
    path: Path, tensors: Sequence[TensorInfo], collector: Collector
) -> dict[str, TensorValues] | None:
    """Return what the numbers of each tensor are like; None where the file cannot be read."""
    values: dict[str, TensorValues] = {}
    try:
        for tensor in filter(is_readable, tensors):
            values[tensor.name] = read_values(path, tensor)
    except (OSError, ValueError) as error:
        collector.add("weights-damaged", _WEIGHTS, "numbers that can be read", shown(str(error)))
        return None
    for tensor in tensors:
        found = values.get(tensor.name)
        if found is not None and found.nans + found.infinities:
            parts = f"{found.nans:,} NaN, {found.infinities:,} infinite of {tensor.size:,}"
            collector.add(
                "not-finite", _WEIGHTS, "finite numbers", f"{shown(tensor.name)}: {parts}"
            )
    return values


def _check_trained(
    lora: LoraTensors,
    values: Mapping[str, TensorValues],
    scales: Mapping[str, float],
    collector: Collector,
) -> None:
    """Find factors that are all zero: their product is, and the module is as if not adapted."""
    zero = {name for name, found in values.items() if found.is_zero}
    pairs = [m for m in lora.modules.values() if m.a and m.b]
    factors = [(m, m.a.name in zero, m.b.name in zero) for m in pairs if m.a and m.b]
    dead = sum(a_zero or b_zero for _, a_zero, b_zero in factors)
    if factors and dead == len(factors):
        found = f"all {dead:,} modules have a factor of zeros, and so change nothing"
        collector.add("untrained", _WEIGHTS, "trained factors", found)
        return
    largest = max((_bound(module, values, scales) for module in pairs), default=math.inf)
    if largest < _NEGLIGIBLE:
        expected = f"an update of {_NEGLIGIBLE:g} or more in some module"
        found = f"no number of scale * B A is above {largest:.2g}"
        collector.add("update-negligible", _WEIGHTS, expected, found)
    for module, a_zero, b_zero in factors:
        starts_zero, other_zero = (a_zero, b_zero) if module.is_embedding else (b_zero, a_zero)
        if starts_zero:
            collector.add("module-untrained", _WEIGHTS, "trained factors", shown(module.name))
        if other_zero:
            collector.add("factor-zero", _WEIGHTS, "a factor with numbers", shown(module.name))


def _bound(
    module: LoraModule, values: Mapping[str, TensorValues], scales: Mapping[str, float]
) -> float:
    """Return what no number of a module's update exceeds; infinity where that cannot be told."""
    a, b = module.a, module.b
    if a is None or b is None or not {a.name, b.name} <= values.keys() or not a.shape:
        return math.inf
    bound = scales.get(module.name, math.inf) * a.shape[0]
    # Python's floats: numbers that are not finite give infinity or NaN, and no warning.
    bound *= values[a.name].largest * values[b.name].largest
    return math.inf if math.isnan(bound) else bound
