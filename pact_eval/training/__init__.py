"""Helpers for trainers: training views of records, a cache of them, saving adapters, recipes.

Names are loaded when they are first used: reading the names of recipes needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pact_eval.scoring  # noqa: F401 -- it sets how OpenMP waits, before torch is loaded

if TYPE_CHECKING:
    from pact_eval.training.adapters import save_adapter
    from pact_eval.training.recipe import RecipeTraining, train_recipe
    from pact_eval.training.recipe_data import cache_key, cached_training_views, training_data
    from pact_eval.training.views import DEFAULT_PLAN, ViewPlan, training_views

__all__ = [
    "DEFAULT_PLAN",
    "RecipeTraining",
    "ViewPlan",
    "cache_key",
    "cached_training_views",
    "save_adapter",
    "train_recipe",
    "training_data",
    "training_views",
]

_HOME: Final = {
    "DEFAULT_PLAN": "views",
    "RecipeTraining": "recipe",
    "ViewPlan": "views",
    "cache_key": "recipe_data",
    "cached_training_views": "recipe_data",
    "save_adapter": "adapters",
    "train_recipe": "recipe",
    "training_data": "recipe_data",
    "training_views": "views",
}
"""The module of each name."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
