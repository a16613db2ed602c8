"""Check "tensors": missing, non-finite and untrained weights.

If no base model is at hand, the layers are compared with one another. A hybrid model has a kind of
block in some layers only; that is fine as long as every layer with the block adapts the same
modules of it. Blocks of one name that share no module are of two kinds, such as a dense block and
the router of a mixture of experts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pact_eval.audit.adapter.files import ALL_LINEAR, LoraSettings, lora_scale, shown
from pact_eval.audit.findings import Check, CheckResult, Collector
from pact_eval.errors import Place
from pact_eval.models import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    PatternError,
    TensorInfo,
    ending,
    full_matches,
)

if TYPE_CHECKING:
    from pact_eval.audit.adapter.context import AdapterContext


Value = TypeVar("Value")

_PLAIN: Final = re.compile(r"[\w.\-]+")


def targeted(settings: LoraSettings, names: Sequence[str]) -> frozenset[str] | None:
    """Return the modules that PEFT would adapt.

    Args:
        settings: the configuration.
        names: the modules' full names.

    Returns:
        Those that are targeted; None if names alone do not tell (all linear modules, no targets
        at all, or a regular expression for the list of layers).

    Raises:
        PatternError: a regular expression takes too long.

    Examples:
        >>> settings = LoraSettings(targets=("q_proj",), layers=(1,))
        >>> targeted(settings, ["model.layers.0.q_proj", "model.layers.1.q_proj"])
        frozenset({'model.layers.1.q_proj'})
    """
    targets = settings.targets
    if not targets or not all(_PLAIN.fullmatch(pattern) for pattern in settings.layers_patterns):
        return None
    if isinstance(targets, str):
        if targets.lower() == ALL_LINEAR:
            return None
        matching = full_matches([targets], names)[0]
    else:
        layers, whole_names = settings.layers, frozenset(targets)
        matching = frozenset(
            name
            for name in _ending_with(targets, names)
            if layers is None
            or name in whole_names
            or _layer(name, settings.layers_patterns) in layers
        )
    return matching - _excluded_modules(settings, names)


def without_module(settings: LoraSettings, names: Sequence[str]) -> tuple[str, ...]:
    """Return the targets that are neither a name nor the end of one, and are not left out.

    Args:
        settings: the configuration; a regular expression for targets has none to return.
        names: the modules' full names.

    Raises:
        PatternError: a regular expression takes too long.

    Examples:
        >>> settings = LoraSettings(targets=("q_proj", "fc1", "fc2"), excluded=("fc2",))
        >>> without_module(settings, ["model.layers.0.q_proj"])
        ('fc1',)
    """
    if not isinstance(settings.targets, tuple):
        return ()
    ends = _names_by_end(names)
    unused = [target for target in settings.targets if target not in ends]
    left_out = _excluded_modules(settings, unused) if unused else frozenset()
    return tuple(target for target in unused if target not in left_out)


def by_pattern(
    pattern: Mapping[str, Value], names: Sequence[str]
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """Return the value that a rank or alpha pattern gives to each name.

    Args:
        pattern: values by regular expression for the end of a name; the first that matches counts.
        names: the modules' full names.

    Returns:
        The values by name, for names that match one; and the expressions that match none.

    Raises:
        PatternError: the expressions take too long.

    Examples:
        >>> by_pattern({"q_proj": 8, "k_proj": 4}, ["model.layers.0.q_proj", "v_proj"])
        ({'model.layers.0.q_proj': 8}, ('k_proj',))
    """
    # A dot in a plain name matches only itself here; in PEFT it would match any character.
    ends = _names_by_end(names)
    matches: dict[str, Iterable[str]] = {key: ends.get(key, ()) for key in pattern}
    regexes = [key for key in pattern if not _PLAIN.fullmatch(key)]
    if regexes:
        matched = full_matches([ending(key) for key in regexes], names)
        matches.update(zip(regexes, matched, strict=True))
    values: dict[str, Value] = {}
    for key, value in pattern.items():
        for name in matches[key]:
            values.setdefault(name, value)
    return values, tuple(key for key in pattern if not matches[key])


def is_target_parameter(settings: LoraSettings, module: str) -> bool:
    """Say whether an adapted module corresponds to a parameter of `target_parameters`.

    Examples:
        >>> settings = LoraSettings(target_parameters=("mlp.experts.gate_up_proj",))
        >>> is_target_parameter(settings, "model.layers.0.mlp.experts.base_layer")
        True
    """
    # Where a module holds two such parameters, PEFT wraps it twice.
    holder = module.replace(".base_layer", "")
    owners = [name.rpartition(".")[0] for name in settings.target_parameters]
    return any(holder == owner or holder.endswith(f".{owner}") for owner in owners if owner)


def _excluded_modules(settings: LoraSettings, names: Sequence[str]) -> frozenset[str]:
    excluded = settings.excluded
    if isinstance(excluded, str):
        out = full_matches([excluded], names)[0]
    else:
        out = _ending_with(excluded or (), names)
    saved = [f".{name}." for name in settings.modules_to_save]
    return out | frozenset(name for name in names if any(part in f".{name}." for part in saved))


def _names_by_end(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names under themselves and under whatever follows one of their dots."""
    ends: dict[str, list[str]] = {}
    for name in names:
        parts = name.split(".")
        for start in range(len(parts)):
            ends.setdefault(".".join(parts[start:]), []).append(name)
    return ends


def _ending_with(ends: Iterable[str], names: Sequence[str]) -> frozenset[str]:
    by_end = _names_by_end(names)
    return frozenset(name for end in ends for name in by_end.get(end, ()))


def _layer(name: str, patterns: Sequence[str]) -> int | None:
    """Return the number after a list of layers; the first number where no list is named."""
    stacks = [rf"(?:^|.*?\.){pattern}" for pattern in patterns] or [r".*?\.[^.]*"]
    for stack in stacks:
        match = re.match(rf"{stack}\.(?P<index>[0-9]{{1,9}})\.", name)
        if match is not None:
            return int(match["index"])
    return None


Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]


# BF16 is the upper half of a float32.
_READ_AS: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_BLOCK_NUMBERS: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class TensorValues:
    """Summary of the numbers of one tensor.

    Attributes:
        nans: how many are NaN.
        infinities: how many are infinite.
        is_zero: whether all of them are 0; False for a tensor that holds none.
        largest: the largest absolute number, infinite if one is not finite; 0 for none at all.
    """

    nans: int
    infinities: int
    is_zero: bool
    largest: float


def is_readable(tensor: TensorInfo) -> bool:
    """Say whether the numbers of a tensor can be read: floating point of 16 to 64 bits."""
    return tensor.dtype in _READ_AS


def read_values(path: Path, tensor: TensorInfo) -> TensorValues:
    """Read a tensor once, block by block.

    Args:
        path: the safetensors file.
        tensor: one of its tensors, of a dtype that `is_readable` accepts.

    Returns:
        What its numbers are like.

    Raises:
        OSError: the file cannot be read.
        ValueError: it ends before the tensor does.
    """
    nans = infinities = 0
    largest = 0.0
    with path.open("rb") as file:
        for block in _blocks(file, tensor):
            # A NaN makes both of them NaN.
            top = max(abs(float(block.max())), abs(float(block.min())))
            if not math.isfinite(top):
                nans += int(np.isnan(block).sum())
                infinities += int(np.isinf(block).sum())
                top = math.inf
            largest = max(largest, top)
    is_zero = largest == 0 and tensor.size > 0
    return TensorValues(nans, infinities, is_zero=is_zero, largest=largest)


def relative_difference(
    left_path: Path, left: TensorInfo, right_path: Path, right: TensorInfo
) -> float:
    r"""Return how far two tensors are apart, as a fraction of the larger one.

    $$\frac{\lVert L - R \rVert_F}{\max(\lVert L \rVert_F, \lVert R \rVert_F)}$$

    Args:
        left_path: the safetensors file of the first.
        left: the first, of a dtype that `is_readable` accepts.
        right_path: the safetensors file of the second.
        right: the second, of the same shape; its dtype may be another.

    Returns:
        From 0 (equal; also if both are zero) to 2 (opposite); NaN if a number is not finite.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file ends before its tensor does.
    """
    between = of_left = of_right = 0.0
    with left_path.open("rb") as left_file, right_path.open("rb") as right_file:
        blocks = zip(_blocks(left_file, left), _blocks(right_file, right), strict=True)
        for left_block, right_block in blocks:
            # A float64 holds any square of a float32; those of a float64 may overflow.
            with np.errstate(over="ignore", invalid="ignore"):
                a, b = left_block.astype(np.float64), right_block.astype(np.float64)
                between += float(np.square(a - b).sum())
                of_left += float(np.square(a).sum())
                of_right += float(np.square(b).sum())
    larger = max(of_left, of_right)
    if not math.isfinite(between + of_left + of_right):
        return math.nan
    return math.sqrt(between / larger) if larger > 0 else 0.0


def _blocks(file: BinaryIO, tensor: TensorInfo) -> Iterator[Floats]:
    """Yield the numbers of a tensor in order, some at a time."""
    dtype, kind = tensor.dtype, np.dtype(_READ_AS[tensor.dtype])
    file.seek(tensor.offset_bytes)
    left = tensor.size_bytes
    while left > 0:
        raw = file.read(min(left, _BLOCK_NUMBERS * kind.itemsize))
        if not raw or len(raw) % kind.itemsize:
            raise ValueError(f"the file ends inside the tensor {tensor.name}")
        left -= len(raw)
        numbers = np.frombuffer(raw, dtype=kind)
        with np.errstate(invalid="ignore"):
            if dtype == "BF16":
                halves: npt.NDArray[np.uint32] = numbers.astype(np.uint32)
                yield (halves << 16).view(np.float32)
            elif dtype == "F64":
                yield numbers.astype(np.float64)
            else:
                yield numbers.astype(np.float32)


_WEIGHTS: Final = Place(ADAPTER_WEIGHTS)
_CONFIG: Final = Place(ADAPTER_CONFIG)
PREFIX: Final = "base_model.model."
"""What PEFT writes before the name of a module."""
# Other wrappers write these before or within a name; no module of transformers is named so.
_WRAPPERS: Final = ("base_model.model.", "_orig_mod.", "module.", "_fsdp_wrapped_module.")
_KEY: Final = re.compile(
    r"base_model\.model\.(?P<module>.+)\.lora_"
    r"(?P<part>A\.weight|B\.weight|B\.bias|embedding_A|embedding_B|magnitude_vector)"
)
# No module is named so; longer keys would make the patterns slow.
_LONGEST_KEY: Final = 500
# Weights are some 0.01 to 0.1 in size: bfloat16 keeps them to 0.00003 or so, and even the largest
# update of one step at a learning rate of 0.0001 is above this.
_NEGLIGIBLE: Final = 1e-6
_LAYERS_SHOWN: Final = 20


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
        others: tensors that do not belong to a LoRA module.
    """

    modules: Mapping[str, LoraModule]
    others: tuple[TensorInfo, ...]

    @property
    def tensors(self) -> list[TensorInfo]:
        """All tensors: the factors by module, then the others."""
        modules = self.modules.values()
        return [*(part for module in modules for part in module.parts.values()), *self.others]


def group_tensors(tensors: Iterable[TensorInfo]) -> LoraTensors:
    """Sort the tensors of an adapter by the module that they adapt.

    Examples:
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
    modules = {name: LoraModule(name, factors) for name, factors in parts.items()}
    return LoraTensors(modules, tuple(others))


def check_tensors(context: AdapterContext, collector: Collector) -> CheckResult:
    """Check the pairs of factors, their targets and their numbers.

    Without a configuration, ranks and targets are not checked. If the base model is at hand, it
    shows exactly what is missing; otherwise targets are compared with modules, and layers with one
    another.
    """
    lora, settings, base = context.lora, context.settings, context.base
    if lora is None:
        return context.failed_to_read(collector, "weights-damaged", ADAPTER_WEIGHTS)
    compare_layers = context.base_model is None and (base.folder is None or base.is_brought)
    # Other wrappers of a model leave names in the keys: no base has such modules.
    keys = [tensor.name.removeprefix(PREFIX) for tensor in lora.others] + [*lora.modules]
    for wrapper in _WRAPPERS:
        wrapped = [key for key in keys if f".{wrapper}" in f".{key}"[:_LONGEST_KEY]]
        if wrapped:
            expected = "keys of the model itself, saved without its wrapper"
            actual = f"{wrapper} in {len(wrapped):,} names, such as {shown(wrapped[0])}"
            collector.add("wrapper-prefix", _WEIGHTS, expected, actual)
    if not lora.modules:
        actual = f"{len(lora.others)} tensors, none of them a LoRA factor"
        collector.add("no-lora", _WEIGHTS, f"{PREFIX}(module).lora_A.weight, ...", actual)
    scales: Mapping[str, float] = {}
    try:
        scales = _check_pairs(lora, settings or LoraSettings(), collector)
        if settings is not None:
            _check_targets(lora, settings, collector, compare_layers=compare_layers)
    except PatternError as error:
        collector.add("pattern-costly", _CONFIG, "regular expressions that end", str(error))
    if settings is not None:
        _check_announced(lora, settings, collector)
    if compare_layers and settings is not None and not _picks_layers(settings):
        _check_layers([*lora.modules], collector)
    _check_numbers(context.folder / ADAPTER_WEIGHTS, lora, scales, collector)
    n_tensors, n_numbers = len(lora.tensors), sum(tensor.size for tensor in lora.tensors)
    scope = f"{n_tensors:,} tensors, {len(lora.modules):,} modules, {n_numbers:,} numbers"
    return collector.result(scope)


def _check_pairs(
    lora: LoraTensors, settings: LoraSettings, collector: Collector
) -> dict[str, float]:
    """Compare each pair with its rank, and return the scale of each module that has one."""
    names = list(lora.modules)
    ranks, unused = by_pattern(settings.rank_pattern, names)
    alphas, more_unused = by_pattern(settings.alpha_pattern, names)
    for key in unused + more_unused:
        actual = f"none for {shown(key)}"
        collector.add("pattern-unused", _CONFIG, "a module for every pattern", actual)
    scales = {}
    for name, module in lora.modules.items():
        a, b, rank = module.a, module.b, ranks.get(name, settings.rank)
        alpha = alphas.get(name, settings.alpha)
        if alpha is not None and rank is not None:
            scales[name] = lora_scale(alpha, rank, rslora=settings.use_rslora)
        if a is None or b is None:
            half = f"{shown(name)} without {'A' if a is None else 'B'}"
            collector.add("half-pair", _WEIGHTS, "both factors", half)
            continue
        # A is (rank, in, ...) and B is (out, rank, ...); a parameter may hold several experts.
        is_pair = min(len(a.shape), len(b.shape)) > 1 and 0 not in a.shape + b.shape
        is_pair = is_pair and a.shape[0] == b.shape[1]
        several = rank is not None and is_target_parameter(settings, name)
        if not is_pair or not (
            rank in (None, a.shape[0]) or (several and rank and a.shape[0] % rank == 0)
        ):
            expected = f"A of {rank or 'r'} rows and B of {rank or 'r'} columns"
            shapes = f"{shown(name)}: A {shown(str([*a.shape]))}, B {shown(str([*b.shape]))}"
            collector.add("rank-mismatch", _WEIGHTS, expected, shapes)
    return scales


def _check_targets(
    lora: LoraTensors, settings: LoraSettings, collector: Collector, *, compare_layers: bool
) -> None:
    names = list(lora.modules)
    targeted_names = targeted(settings, names)
    if targeted_names is None:
        return
    for name in names:
        if name not in targeted_names and not is_target_parameter(settings, name):
            collector.add("module-off-target", _WEIGHTS, "modules that are targets", shown(name))
    for target in without_module(settings, names) if compare_layers else ():
        expected = "a module for every target (--base-model shows whether the base has one)"
        collector.add("target-unused", _WEIGHTS, expected, f"none for {shown(target)}")


def _check_announced(lora: LoraTensors, settings: LoraSettings, collector: Collector) -> None:
    announced = [tensor.name for tensor in lora.others if is_announced(tensor, lora, settings)]
    if announced:
        actual = f"{len(announced)} tensors, such as {shown(announced[0])}"
        collector.add("whole-tensors", _WEIGHTS, "LoRA factors", actual)
    known = frozenset(announced)
    unannounced = [tensor.name for tensor in lora.others if tensor.name not in known]
    for option, part, used in (
        ("use_dora", "magnitude_vector", settings.use_dora),
        ("lora_bias", "B.bias", settings.lora_bias),
    ):
        for name, module in lora.modules.items():
            if used and part not in module.parts and not (module.is_embedding and part == "B.bias"):
                actual = f"none for {shown(name)}"
                collector.add("announced-missing", _WEIGHTS, f"lora_{part} for {option}", actual)
            if not used and part in module.parts:
                unannounced.append(module.parts[part].name)
    for name in unannounced:
        expected = "tensors that the configuration announces"
        collector.add("tensor-unannounced", _WEIGHTS, expected, shown(name))
    for saved in settings.modules_to_save:
        if not any(f".{saved}." in tensor.name for tensor in lora.others):
            expected = f"weights for modules_to_save {shown(saved)}"
            collector.add("announced-missing", _WEIGHTS, expected, "none")


def is_announced(tensor: TensorInfo, lora: LoraTensors, settings: LoraSettings) -> bool:
    """Return whether the configuration announces a tensor that is not a LoRA factor."""
    name = tensor.name
    if not name.startswith(PREFIX) or len(name) > _LONGEST_KEY or "lora_" in name:
        return False
    if any(f".{saved}." in name for saved in settings.modules_to_save):
        return True
    if name.endswith(".base_layer.weight"):
        # PEFT saves an adapted embedding or output layer in full next to its factors.
        return name[len(PREFIX) : -len(".base_layer.weight")] in lora.modules
    if ".token_adapter." in name:
        return settings.trains_tokens
    return name.endswith(".bias") and settings.bias != "none"


def _check_numbers(
    path: Path, lora: LoraTensors, scales: Mapping[str, float], collector: Collector
) -> None:
    """Read all numbers: find those that are not finite, and factors that were not trained."""
    factors = [part for module in lora.modules.values() for part in module.parts.values()]
    for code, tensors in (("factor-type", factors), ("values-not-checked", lora.others)):
        unread = Counter(tensor.dtype for tensor in tensors if not is_readable(tensor))
        for dtype, count in unread.items():
            expected = "floating point of 16 to 64 bits, whose numbers can be checked"
            collector.add(code, _WEIGHTS, expected, f"{count:,} tensors of {dtype}")
    values: dict[str, TensorValues] = {}
    readable = [tensor for tensor in lora.tensors if is_readable(tensor)]
    try:
        for tensor in readable:
            values[tensor.name] = read_values(path, tensor)
    except (OSError, ValueError) as error:
        collector.add("weights-damaged", _WEIGHTS, "numbers that can be read", shown(str(error)))
        return
    for tensor in readable:
        nans, infinities = values[tensor.name].nans, values[tensor.name].infinities
        if nans + infinities:
            parts = f"{nans:,} NaN, {infinities:,} infinite of {tensor.size:,}"
            actual = f"{shown(tensor.name)}: {parts}"
            collector.add("not-finite", _WEIGHTS, "finite numbers", actual)
    _check_trained(lora, values, scales, collector)


def _check_trained(
    lora: LoraTensors,
    values: Mapping[str, TensorValues],
    scales: Mapping[str, float],
    collector: Collector,
) -> None:
    """Find factors that are all zero: such a module is as if it were not adapted."""
    zero = {name for name, statistics in values.items() if statistics.is_zero}
    pairs = [(module, module.a, module.b) for module in lora.modules.values()]
    full = [(module, a, b) for module, a, b in pairs if a is not None and b is not None]
    if full and all(a.name in zero or b.name in zero for _, a, b in full):
        actual = f"all {len(full):,} modules have a factor of zeros, and change nothing"
        collector.add("untrained", _WEIGHTS, "trained factors", actual)
        return
    largest = -math.inf if full else math.inf
    for module, a, b in full:
        bound = math.inf  # of every number of the module's update
        if {a.name, b.name} <= values.keys() and a.shape:
            # Python's floats: numbers that are not finite give infinity or NaN, and no warning.
            bound = scales.get(module.name, math.inf) * a.shape[0]
            bound *= values[a.name].largest * values[b.name].largest
        largest = max(largest, math.inf if math.isnan(bound) else bound)
    if largest < _NEGLIGIBLE:
        expected = f"an update of {_NEGLIGIBLE:g} or more in some module"
        actual = f"no number of scale * B A is above {largest:.2g}"
        collector.add("update-negligible", _WEIGHTS, expected, actual)
    for module, a, b in full:
        starts_zero, other = (a, b) if module.is_embedding else (b, a)
        if starts_zero.name in zero:
            collector.add("module-untrained", _WEIGHTS, "trained factors", shown(module.name))
        if other.name in zero:
            collector.add("factor-zero", _WEIGHTS, "a factor with numbers", shown(module.name))


_PLACE_IN_LAYER: Final = re.compile(
    r"(?s)(?P<stack>.*?)\.(?P<layer>[0-9]{1,9})\.(?:(?P<block>.*)\.)?(?P<leaf>[^.]*)"
)


class LayerModule(NamedTuple):
    """A module's place in a stack of layers.

    Attributes:
        stack: the list of layers: "model.layers".
        layer: its number.
        block: the part of the layer that holds the module: "self_attn"; empty for the layer itself.
        leaf: the module's own name: "q_proj".
    """

    stack: str
    layer: int
    block: str
    leaf: str


def layer_module(name: str) -> LayerModule | None:
    """Split a module's name at its first number; None if it is not in a layer.

    Examples:
        >>> layer_module("model.layers.3.self_attn.q_proj")
        LayerModule(stack='model.layers', layer=3, block='self_attn', leaf='q_proj')
        >>> layer_module("lm_head") is None
        True
    """
    place = _PLACE_IN_LAYER.fullmatch(name)
    if place is None:
        return None
    return LayerModule(place["stack"], int(place["layer"]), place["block"] or "", place["leaf"])


def _check_layers(names: Sequence[str], collector: Collector) -> None:
    """Add a finding for every layer that adapts fewer modules than similar layers."""
    blocks: dict[tuple[str, str], dict[int, set[str]]] = {}
    stacks: dict[str, set[int]] = {}
    for module in filter(None, map(layer_module, names)):
        layers = blocks.setdefault((module.stack, module.block), {})
        layers.setdefault(module.layer, set()).add(module.leaf)
        stacks.setdefault(module.stack, set()).add(module.layer)
    for (stack, block), layers in blocks.items():
        for layer, leaves in sorted(layers.items()):
            alike = [other for other in layers.values() if other & leaves]
            for leaf in sorted(set().union(*alike) - leaves):
                name = ".".join(part for part in (stack, str(layer), block, leaf) if part)
                expected = f"{shown(leaf)}, as in other layers (--base-model makes sure)"
                collector.add("layers-uneven", _WEIGHTS, expected, f"no {shown(name)}")
    for stack, numbers in stacks.items():
        present = sorted(numbers)
        steps = {after - before for before, after in pairwise(present)}
        if not steps or (len(steps) == 1 and present[0] < min(steps)):
            continue  # one layer, or evenly spaced ones
        absent = (number for number in range(present[-1]) if number not in numbers)
        expected = f"{shown(stack)} from 0 to {present[-1]}, or evenly spaced"
        actual = f"no layer {', '.join(map(str, islice(absent, _LAYERS_SHOWN)))}"
        collector.add("layers-missing", _WEIGHTS, expected, actual)


def _picks_layers(settings: LoraSettings) -> bool:
    """Return whether a configuration picks layers: by number, expression, or full names."""
    if isinstance(settings.targets, str) or settings.layers is not None or settings.excluded:
        return True
    parts = {part for target in settings.targets or () for part in target.split(".")}
    return "layer_replication" in settings.variants or any(map(str.isdigit, parts))


TENSORS: Final[Check[AdapterContext]] = Check(
    name="tensors",
    question="Are all weights there, finite, and trained?",
    run=check_tensors,
    needs=(ADAPTER_WEIGHTS,),
    codes={
        "weights-damaged": ("error", "The safetensors file is damaged or cut short."),
        "wrapper-prefix": ("error", "Keys have a prefix of another wrapper of the model."),
        "no-lora": ("error", "The file holds no LoRA factor."),
        "half-pair": ("error", "A module has only one factor of its pair."),
        "rank-mismatch": ("error", "A pair's shapes do not have the rank of the configuration."),
        "module-off-target": ("error", "An adapted module is not a target."),
        "announced-missing": ("error", "Tensors that the configuration announces are missing."),
        "tensor-unannounced": ("error", "A tensor is not a LoRA factor and is not announced."),
        "pattern-costly": ("error", "Regular expressions of the configuration take too long."),
        "factor-type": ("error", "A factor is not floating point of 16 to 64 bits."),
        "not-finite": ("error", "A tensor holds NaN or infinities."),
        "untrained": ("error", "Every module has a factor of zeros: the adapter changes nothing."),
        "target-unused": ("error", "A target names no adapted module, and no base explains it."),
        "layers-uneven": ("error", "A layer lacks a module that similar layers adapt."),
        "update-negligible": ("warning", "The update of every module is next to nothing."),
        "module-untrained": ("warning", "A module still has the zeros that it started with."),
        "factor-zero": ("warning", "The factor that starts at random is all zeros."),
        "pattern-unused": ("warning", "A rank or alpha pattern matches no adapted module."),
        "layers-missing": ("warning", "Layers between others are not adapted at all."),
        "whole-tensors": ("note", "Full weights are stored next to the LoRA factors."),
        "values-not-checked": ("note", "The tensor has a type that pact-audit does not read."),
    },
)
