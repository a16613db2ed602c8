"""Unsafe settings of a LoRA configuration: imports of a library, and changes of the base model.

Auditing reports these settings, and scoring refuses them before PEFT sees the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pact_eval._json import Json, dumps
from pact_eval.errors import AdapterError
from pact_eval.models.folders import ADAPTER_CONFIG, AdapterFiles

SAFE_INITIALISATIONS: Final = ("gaussian", "orthogonal", "eva", "mica")
"""Names of `init_lora_weights` that leave the base as it is, in training and on loading.

`pissa`, `olora`, `corda` and `loftq` write other weights into the base, and so does `lora_ga` in
training. The base that is then scored is not the one whose hash the adapter and the run name.
"""

_CONVERT: Final = (
    "save it as a plain LoRA, with PEFT's "
    "save_pretrained(..., path_initial_model_for_weight_conversion=...)"
)


@dataclass(frozen=True, slots=True)
class UnsafeSetting:
    """A setting that is refused.

    Attributes:
        kind: whether PEFT would import a library, or change the base model.
        expected: what is allowed.
        actual: the setting, as JSON.
    """

    kind: Literal["imports-library", "base-changed"]
    expected: str
    actual: str


def unsafe_settings(config: Mapping[str, Json]) -> tuple[UnsafeSetting, ...]:
    """Return the settings of a LoRA configuration that are refused.

    Args:
        config: the parsed `adapter_config.json`.

    Examples:
        >>> [setting] = unsafe_settings({"peft_type": "LORA", "init_lora_weights": "pissa"})
        >>> setting.kind, setting.actual
        ('base-changed', 'init_lora_weights "pissa"')
    """
    return (*_imports(config), *_base_changes(config))


def refuse_unsafe_settings(adapter: AdapterFiles) -> None:
    """Refuse an adapter whose configuration names a library to import, or changes the base.

    Raises:
        AdapterError: with every such setting, and what to do.
    """
    unsafe = unsafe_settings(adapter.config)
    if not unsafe:
        return
    lines = [f"  {setting.actual} (expected {setting.expected})" for setting in unsafe]
    advice = {
        "imports-library": "remove these keys if you trust the adapter",
        "base-changed": _CONVERT,
    }
    kinds = dict.fromkeys(setting.kind for setting in unsafe)
    message = (
        f"{adapter.folder / ADAPTER_CONFIG}: settings that run code or change the base model are "
        "refused:\n" + "\n".join([*lines, *(f"  {advice[kind]}" for kind in kinds)])
    )
    raise AdapterError(message)


def _imports(config: Mapping[str, Json]) -> list[UnsafeSetting]:
    """Find libraries that PEFT would import by the names given here."""
    imports: list[UnsafeSetting] = []
    if config.get("megatron_config") is not None:
        setting = f"megatron_config, with megatron_core {_text(config.get('megatron_core'))}"
        imports.append(UnsafeSetting("imports-library", "no library to import", setting))
    mapping = config.get("auto_mapping")
    if not isinstance(mapping, dict):
        return imports
    library = mapping.get("parent_library")
    # Not transformers_modules: code from the hub, which transformers keeps under that name.
    is_known = isinstance(library, str) and f"{library}.".startswith("transformers.")
    if library is not None and not is_known:
        setting = f"auto_mapping, with parent_library {_text(library)}"
        expected = "transformers, or no library to import"
        imports.append(UnsafeSetting("imports-library", expected, setting))
    return imports


def _base_changes(config: Mapping[str, Json]) -> list[UnsafeSetting]:
    value = config.get("init_lora_weights")
    is_safe = isinstance(value, str) and value.lower() in SAFE_INITIALISATIONS
    if value is None or isinstance(value, bool) or is_safe:
        return []
    expected = f"true, false, {', '.join(SAFE_INITIALISATIONS)}"
    return [UnsafeSetting("base-changed", expected, f"init_lora_weights {_text(value)}")]


def _text(value: Json) -> str:
    try:
        return "nothing" if value is None else dumps(value)
    except RecursionError:
        return "a value that is nested too deeply"
