"""Check "config": the LoRA configuration of the adapter.

The meaning of every key is PEFT's: an absent key has PEFT's default, except the rank, the alpha and
the targets, which every saved adapter states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeGuard

from pact_eval._json import Json, dumps
from pact_eval.audit.adapter.files import shown
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.audit.registry import Check
from pact_eval.errors import Place
from pact_eval.models.folders import ADAPTER_CONFIG
from pact_eval.models.lora_safety import unsafe_settings
from pact_eval.models.patterns import is_regex

if TYPE_CHECKING:
    from pact_eval.audit.adapter.context import AdapterContext

ALL_LINEAR: Final = "all-linear"
"""PEFT's word for every linear module but the output layer."""

_PLACE: Final = Place(ADAPTER_CONFIG)
_TOO_LARGE: Final = 2**31
_BIASES: Final = ("none", "all", "lora_only")

# Options that change what the tensors mean, or add tensors that we do not know.
_VARIANTS: Final = (
    "alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication",
    "monteclora_config", "use_bdlora", "use_qalora", "velora_config",
)  # fmt: skip


@dataclass(frozen=True)
class LoraSettings:
    """A LoRA adapter as its configuration describes it.

    Attributes:
        rank: r, or None if it is not known.
        alpha: lora_alpha, or None if it is not known.
        rank_pattern: other ranks, by a regular expression for the end of a module's name.
        alpha_pattern: other alphas, likewise.
        use_rslora: whether the scale is alpha/sqrt(r).
        use_dora: whether magnitudes were trained too.
        targets: the modules' names or ends of names, sorted; or one regular expression; or None.
        target_parameters: parameters that are adapted without a module of their own.
        excluded: modules that are left out, as `targets`.
        layers: numbers of the only layers that are adapted; None for all of them.
        layers_patterns: names of the list of layers that `layers` counts in.
        modules_to_save: modules that were trained in full.
        bias: "none", "all" or "lora_only".
        lora_bias: whether the B factors have a bias.
        fan_in_fan_out: whether the base stores weights as (in, out).
        trains_tokens: whether single embedding rows were trained.
        variants: options in use that this audit does not know.
        task_type: as PEFT spells it: "CAUSAL_LM", ...
        peft_version: that wrote the file.
    """

    rank: int | None = None
    alpha: float | None = None
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)
    use_rslora: bool = False
    use_dora: bool = False
    targets: tuple[str, ...] | str | None = None
    target_parameters: tuple[str, ...] = ()
    excluded: tuple[str, ...] | str | None = None
    layers: tuple[int, ...] | None = None
    layers_patterns: tuple[str, ...] = ()
    modules_to_save: tuple[str, ...] = ()
    bias: str = "none"
    lora_bias: bool = False
    fan_in_fan_out: bool = False
    trains_tokens: bool = False
    variants: tuple[str, ...] = ()
    task_type: str | None = None
    peft_version: str | None = None

    @property
    def scale(self) -> float | None:
        """The factor of the update, unless a pattern gives another."""
        if self.rank is None or self.alpha is None:
            return None
        return lora_scale(self.alpha, self.rank, rslora=self.use_rslora)


def lora_scale(alpha: float, rank: int, *, rslora: bool) -> float:
    """Return alpha/r, or alpha/sqrt(r) for rank-stabilised LoRA (Kalajdzievski 2023).

    Examples:
        >>> lora_scale(32, 16, rslora=False), lora_scale(32, 16, rslora=True)
        (2.0, 8.0)
    """
    return alpha / (math.sqrt(rank) if rslora else rank)


def read_settings(config: Mapping[str, Json], collector: Collector) -> LoraSettings:
    """Read a configuration with types; a malformed value is a finding and counts as absent.

    Args:
        config: the parsed `adapter_config.json`.
        collector: of the check "config".

    Examples:
        >>> config = {"peft_type": "LORA", "r": 16, "lora_alpha": 32, "target_modules": ["q_proj"]}
        >>> read_settings(config, Collector("config", keep=5)).scale
        2.0
    """
    return _settings(_Reader(config, collector))


def check_config(
    config: Mapping[str, Json], settings: LoraSettings, collector: Collector
) -> CheckResult:
    """Check that the configuration describes a LoRA adapter consistently.

    Args:
        config: the parsed `adapter_config.json`.
        settings: the same with types.
        collector: holds the findings of `read_settings`.
    """
    if config.get("peft_type") != "LORA":
        collector.add("not-lora", _PLACE, "peft_type LORA", _text(config.get("peft_type")))
    _check_together(settings, config, collector)
    _check_safety(config, collector)
    if settings.task_type not in (None, "CAUSAL_LM"):
        collector.add("other-task", _PLACE, "task_type CAUSAL_LM", shown(settings.task_type))
    if settings.variants:
        variants = ", ".join(settings.variants)
        collector.add("lora-variant", _PLACE, "LoRA, DoRA or rsLoRA", variants)
    return collector.result(f"{len(config)} keys of {ADAPTER_CONFIG}")


class _Reader:
    """Reads values of a configuration; a malformed value is a finding and counts as absent."""

    def __init__(self, config: Mapping[str, Json], collector: Collector) -> None:
        self._config = config
        self._collector = collector

    def number(self, key: str, *, whole: bool) -> float | None:
        """Return a number above 0, which is required."""
        value = self._config.get(key)
        if _is_number(value, whole=whole):
            return value
        self._refuse(key, f"{'an integer' if whole else 'a number'} above 0", value)
        return None

    def pattern(self, key: str, *, whole: bool) -> dict[str, float]:
        """Return numbers above 0 by regular expression; none if the key is absent."""
        value = self._config.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._refuse(key, "an object of numbers", value)
            return {}
        read: dict[str, float] = {}
        for name, number in value.items():
            if not is_regex(name) or not _is_number(number, whole=whole):
                expected = (
                    f"a regular expression and {'an integer' if whole else 'a number'} above 0"
                )
                self._refuse(key, expected, {name: number})
                continue
            read[name] = number
        return read

    def flag(self, key: str) -> bool:
        """Return true or false; absent is false."""
        value = self._config.get(key)
        if value is not None and not isinstance(value, bool):
            self._refuse(key, "true or false", value)
        return value is True

    def text(self, key: str, allowed: tuple[str, ...] = ()) -> str | None:
        """Return a text, or None if the key is absent."""
        value = self._config.get(key)
        if value is None or (isinstance(value, str) and (not allowed or value in allowed)):
            return value
        self._refuse(key, f"one of {', '.join(allowed)}" if allowed else "text", value)
        return None

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, sorted; one text is a list of one; absent is none."""
        value = self._config.get(key)
        value = [value] if isinstance(value, str) else value
        names = [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
        if value is not None and (not isinstance(value, list) or len(names) < len(value)):
            self._refuse(key, "a list of names", value)
        return tuple(sorted(set(names)))

    def names_or_regex(self, key: str) -> tuple[str, ...] | str | None:
        """Return names, sorted; one regular expression; or None if the key is absent."""
        value = self._config.get(key)
        if isinstance(value, str):
            if is_regex(value):
                return value
            self._refuse(key, "a regular expression that can be read", value)
            return None
        return None if value is None else self.names(key)

    def layers(self, key: str) -> tuple[int, ...] | None:
        """Return layer numbers, sorted; None for all layers."""
        value = self._config.get(key)
        numbers = value if isinstance(value, list) else [value]
        layers = [n for n in numbers if isinstance(n, int) and not isinstance(n, bool) and n >= 0]
        if value is None or not numbers:
            return None
        if len(layers) < len(numbers):
            self._refuse(key, "layer numbers", value)
            return None
        return tuple(sorted(set(layers)))

    def in_use(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of the keys that are set to something."""
        return tuple(key for key in keys if self._config.get(key) not in (None, False, [], {}))

    def _refuse(self, key: str, expected: str, value: Json) -> None:
        self._collector.add("value-malformed", _PLACE, f"{key}: {expected}", _text(value))


def _settings(read: _Reader) -> LoraSettings:
    rank = read.number("r", whole=True)
    return LoraSettings(
        rank=None if rank is None else int(rank),
        alpha=read.number("lora_alpha", whole=False),
        rank_pattern={name: int(n) for name, n in read.pattern("rank_pattern", whole=True).items()},
        alpha_pattern=read.pattern("alpha_pattern", whole=False),
        use_rslora=read.flag("use_rslora"),
        use_dora=read.flag("use_dora"),
        targets=read.names_or_regex("target_modules"),
        target_parameters=read.names("target_parameters"),
        excluded=read.names_or_regex("exclude_modules"),
        layers=read.layers("layers_to_transform"),
        layers_patterns=read.names("layers_pattern"),
        modules_to_save=read.names("modules_to_save"),
        bias=read.text("bias", _BIASES) or "none",
        lora_bias=read.flag("lora_bias"),
        fan_in_fan_out=read.flag("fan_in_fan_out"),
        trains_tokens=bool(read.in_use(("trainable_token_indices",))),
        variants=read.in_use(_VARIANTS),
        task_type=read.text("task_type"),
        peft_version=read.text("peft_version"),
    )


def _check_together(
    settings: LoraSettings, config: Mapping[str, Json], collector: Collector
) -> None:
    """Find values that contradict one another; PEFT refuses such a file."""
    by_regex = isinstance(settings.targets, str)
    faults = {
        "layers_to_transform with a regular expression for targets": (
            by_regex and settings.layers is not None
        ),
        "layers_pattern without layers_to_transform": (
            bool(settings.layers_patterns) and settings.layers is None
        ),
        "lora_bias with use_dora": settings.lora_bias and settings.use_dora,
        "no target_modules and no target_parameters": (
            not settings.targets
            and not settings.target_parameters
            and config.get("target_modules") in (None, [], "")
        ),
    }
    for fault, there in faults.items():
        if there:
            collector.add("values-contradict", _PLACE, "settings that go together", fault)


def _check_safety(config: Mapping[str, Json], collector: Collector) -> None:
    """Find what scoring refuses before PEFT sees the configuration."""
    for setting in unsafe_settings(config):
        collector.add(setting.kind, _PLACE, setting.expected, shown(setting.actual))
    mapping = config.get("auto_mapping")
    if mapping is not None and not isinstance(mapping, dict):
        expected = "auto_mapping: an object, or nothing"
        collector.add("value-malformed", _PLACE, expected, _text(mapping))


def _is_number(value: Json, *, whole: bool) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 < value < _TOO_LARGE and (isinstance(value, int) or not whole)


def _text(value: Json) -> str:
    if value is None:
        return "nothing"
    try:
        return shown(dumps(value))
    except RecursionError:
        return "a value that is nested too deeply"


def _run(context: AdapterContext) -> CheckResult:
    if context.config is None or context.settings is None:
        return context.failed_to_read("config", "config-unreadable", ADAPTER_CONFIG)
    return check_config(context.config, context.settings, context.collector("config"))


CONFIG: Final[Check[AdapterContext]] = Check(
    name="config",
    question="Is it a LoRA adapter whose configuration makes sense?",
    run=_run,
    needs=(ADAPTER_CONFIG,),
    codes={
        "config-unreadable": ("error", "adapter_config.json is not an object of strict JSON."),
        "not-lora": ("error", "The adapter is not a LoRA."),
        "value-malformed": ("error", "A value is missing, or of another type than PEFT writes."),
        "values-contradict": ("error", "Two values contradict one another."),
        "imports-library": ("error", "The configuration names a library that PEFT would import."),
        "base-changed": (
            "error",
            "The initialisation changes the base when the adapter is loaded.",
        ),
        "other-task": ("warning", "The adapter was trained for another task than text generation."),
        "lora-variant": ("note", "A variant of LoRA is in use whose tensors are not checked."),
    },
)
