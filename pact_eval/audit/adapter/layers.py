"""Layers of an adapter held against one another, where there is no base model to hold them against.

A hybrid model has a kind of block in some layers only; that is fine as long as every layer that has
the block adapts the same modules of it. Blocks of one name that share no module are of two kinds,
such as a dense block and the router of a mixture of experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

from pact_eval.audit.adapter.config import LoraSettings
from pact_eval.audit.adapter.files import shown
from pact_eval.audit.findings import Collector
from pact_eval.errors import Place
from pact_eval.models import ADAPTER_WEIGHTS

__all__ = ["LayerModule", "check_layers", "layer_module"]

_WEIGHTS: Final = Place(ADAPTER_WEIGHTS)
_LAYERS_SHOWN: Final = 20


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
    """Take a module's name apart at its first number; None where it is in no layer.

    Example:
        >>> layer_module("model.layers.3.self_attn.q_proj")
        LayerModule(stack='model.layers', layer=3, block='self_attn', leaf='q_proj')
        >>> layer_module("lm_head") is None
        True
    """
    parts = name.split(".")
    for index in range(1, len(parts) - 1):
        number = parts[index]
        if number.isascii() and number.isdigit() and len(number) < 10:
            block = ".".join(parts[index + 1 : -1])
            return LayerModule(".".join(parts[:index]), int(number), block, parts[-1])
    return None


def check_layers(names: Sequence[str], settings: LoraSettings | None, collector: Collector) -> None:
    """Add a finding for every layer that adapts less than its like.

    Nothing is said where the configuration picks layers itself: by number, by a regular
    expression, or by whole names.

    Args:
        names: the adapted modules.
        settings: the configuration.
        collector: of the check "tensors".
    """
    if settings is None or _picks_layers(settings):
        return
    modules = [module for module in map(layer_module, names) if module is not None]
    blocks: dict[tuple[str, str], dict[int, set[str]]] = {}
    for module in modules:
        layers = blocks.setdefault((module.stack, module.block), {})
        layers.setdefault(module.layer, set()).add(module.leaf)
    for (stack, block), layers in blocks.items():
        for layer, leaves in sorted(layers.items()):
            alike = [other for other in layers.values() if other & leaves]
            for leaf in sorted(set().union(*alike) - leaves):
                name = ".".join(part for part in (stack, str(layer), block, leaf) if part)
                expected = f"{shown(leaf)}, as in other layers (--base-model tells for sure)"
                collector.add("layers-uneven", _WEIGHTS, expected, f"no {shown(name)}")
    stacks: dict[str, set[int]] = {}
    for module in modules:
        stacks.setdefault(module.stack, set()).add(module.layer)
    for stack, numbers in stacks.items():
        missing = _missing(numbers)
        if missing:
            expected = f"{shown(stack)} from 0 to {max(numbers)}, or evenly spaced"
            found = f"no layer {', '.join(map(str, missing))}"
            collector.add("layers-missing", _WEIGHTS, expected, found)


def _picks_layers(settings: LoraSettings) -> bool:
    if isinstance(settings.targets, str) or settings.layers is not None or settings.excluded:
        return True
    if "layer_replication" in settings.variants:
        return True
    return any(_has_number(target) for target in settings.targets or ())


def _has_number(name: str) -> bool:
    return any(part.isdigit() for part in name.split("."))


def _missing(numbers: set[int]) -> list[int]:
    """Return the first layers that are missing; none where the numbers are evenly spaced.

    Example:
        >>> _missing({0, 1, 3}), _missing({1, 2}), _missing({3, 7, 11})
        ([2], [0], [])
    """
    present = sorted(numbers)
    steps = {after - before for before, after in pairwise(present)}
    if not steps or (len(steps) == 1 and present[0] < min(steps)):
        return []
    absent = (number for number in range(present[-1]) if number not in numbers)
    return list(islice(absent, _LAYERS_SHOWN))
