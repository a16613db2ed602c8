"""Modules that a configuration targets, and their ranks: PEFT's rules, on names alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from pact_eval.audit.adapter.config import ALL_LINEAR, LoraSettings
from pact_eval.models.patterns import ending, full_matches

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
    return matching - _left_out(settings, names)


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
    left_out = _left_out(settings, unused) if unused else frozenset()
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
    plain = [key for key in pattern if _PLAIN.fullmatch(key)]
    regexes = [key for key in pattern if not _PLAIN.fullmatch(key)]
    ends = _names_by_end(names)
    matches: dict[str, Iterable[str]] = {key: ends.get(key, ()) for key in plain}
    matched = full_matches([ending(key) for key in regexes], names) if regexes else []
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


def _left_out(settings: LoraSettings, names: Sequence[str]) -> frozenset[str]:
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
