"""Libraries of model cards: huggingface_hub, of the extra `remote`, and PyYAML, which it needs."""

from __future__ import annotations

from pact_eval.errors import missing_extra

try:
    import yaml
    from huggingface_hub import EvalResult, ModelCardData
except ModuleNotFoundError as error:
    raise missing_extra("a model card", "huggingface_hub", "remote") from error

__all__ = ["EvalResult", "ModelCardData", "yaml"]
