"""Helpers for trainers: training views of records, a cache of them, and saving adapters."""

from pact_eval.training.adapters import save_adapter
from pact_eval.training.cache import cache_key, cached_training_views
from pact_eval.training.data import training_data
from pact_eval.training.views import DEFAULT_PLAN, ViewPlan, training_views

__all__ = [
    "DEFAULT_PLAN",
    "ViewPlan",
    "cache_key",
    "cached_training_views",
    "save_adapter",
    "training_data",
    "training_views",
]
