"""Helpers for trainers: training views of records, saving adapters, recipes.

Names are loaded when they are first used: reading the names of recipes needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pact_eval.scoring  # noqa: F401 -- it sets how OpenMP waits, before torch is loaded

if TYPE_CHECKING:
    from pact_eval.training.recipe import RecipeTraining, train_recipe
    from pact_eval.training.recipe_data import (
        DEFAULT_PLAN,
        ViewPlan,
        training_data,
        training_views,
        views_sha256,
    )
    from pact_eval.training.recipe_model import save_adapter

__all__ = [
    "DEFAULT_PLAN",
    "RecipeTraining",
    "ViewPlan",
    "save_adapter",
    "train_recipe",
    "training_data",
    "training_views",
    "views_sha256",
]

_HOME: Final = {
    "DEFAULT_PLAN": "recipe_data",
    "RecipeTraining": "recipe",
    "ViewPlan": "recipe_data",
    "save_adapter": "recipe_model",
    "train_recipe": "recipe",
    "training_data": "recipe_data",
    "training_views": "recipe_data",
    "views_sha256": "recipe_data",
}
"""The module of each name."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
