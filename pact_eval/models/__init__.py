"""Model folders on disk: adapters and base models, their configuration and hashes. No torch."""

from pact_eval.models.folders import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    PICKLED_SUFFIXES,
    SCHEMA_CONFIG,
    AdapterFiles,
    TensorInfo,
    named_base_model,
    named_base_revision,
    read_adapter_files,
    read_json_object,
    require_adapter_folder,
    safetensors_header,
    sha256_of_weights,
    weight_files,
)
from pact_eval.models.lora_safety import (
    SAFE_INITIALISATIONS,
    UnsafeSetting,
    refuse_unsafe_settings,
    unsafe_settings,
)
from pact_eval.models.patterns import (
    PatternError,
    ending,
    full_matches,
    is_regex,
    refuse_costly_patterns,
)
from pact_eval.models.quantisation import check_quantisation, stored_quantisation

__all__ = [
    "ADAPTER_CONFIG",
    "ADAPTER_WEIGHTS",
    "PICKLED_SUFFIXES",
    "SAFE_INITIALISATIONS",
    "SCHEMA_CONFIG",
    "AdapterFiles",
    "PatternError",
    "TensorInfo",
    "UnsafeSetting",
    "check_quantisation",
    "ending",
    "full_matches",
    "is_regex",
    "named_base_model",
    "named_base_revision",
    "read_adapter_files",
    "read_json_object",
    "refuse_costly_patterns",
    "refuse_unsafe_settings",
    "require_adapter_folder",
    "safetensors_header",
    "sha256_of_weights",
    "stored_quantisation",
    "unsafe_settings",
    "weight_files",
]
