"""Settings of a recipe: those of the paper, and those of the machine and the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from pact_eval._json import Json
from pact_eval._toml import did_you_mean
from pact_eval.errors import InputError
from pact_eval.training.recipes import (
    SETTINGS,
    Precision,
    RecipeName,
    TrainingAttention,
    names_of,
    setting_problem,
)
from pact_losses import NIMBLE_RECIPE_SETTINGS, PACT_SETTINGS, PactWeights, PaperSettings

_WEIGHTS: Final = "weights."
_PAPER: Final = {field.name for field in fields(PaperSettings)}

_RECIPES: Final[dict[RecipeName, PaperSettings]] = {
    "pact": PACT_SETTINGS,
    "nimble_recipe": NIMBLE_RECIPE_SETTINGS,
    "cross_entropy": replace(
        PACT_SETTINGS,
        weights=PactWeights(cf=0.0, pc=0.0, nr=0.0, emd=0.0),
        permuted_views=0,
        ablated_view=False,
    ),
}


@dataclass(frozen=True)
class RecipeSettings:
    """All settings of a training with a recipe.

    Attributes:
        paper: the settings that the paper names.
        train_families: number of families to train on, evenly spaced over the file; None for all.
        selection_source_families: those of the selection split that choose the checkpoint; () for
            all. If some are left out, the checkpoint that all of them choose is saved as well.
        precision: precision of the products in training; the selection split is measured in that
            of the weights.
        attention: attention of transformers. In bfloat16 on a CPU, its fused one took twenty times
            as long under a padding mask.
        gradient_checkpointing: compute activations twice, to save memory.
        quantize: "nf4" stores the linear layers of the base in four bits; None for none.
        checkpoint_seconds: time between two checkpoints; 0 is after every step.
    """

    paper: PaperSettings
    train_families: int | None = None
    selection_source_families: tuple[str, ...] = ()
    precision: Precision = "bfloat16"
    attention: TrainingAttention = "auto"
    gradient_checkpointing: bool = False
    quantize: str | None = None
    checkpoint_seconds: float = 60.0

    def to_json(self) -> dict[str, Json]:
        """Return the settings by the keys of `set`."""
        values: dict[str, Json] = {}
        for key, setting in SETTINGS.items():
            owner, name = self._place(setting.field)
            value = getattr(owner, name)
            values[key] = ", ".join(value) if isinstance(value, tuple) else value
        return values

    def _place(self, field: str) -> tuple[object, str]:
        """Return the object that has a field of a setting, and its name there."""
        if field.startswith(_WEIGHTS):
            return self.paper.weights, field.removeprefix(_WEIGHTS)
        return (self.paper if field in _PAPER else self), field


def recipe_settings(recipe: str, values: Mapping[str, object]) -> RecipeSettings:
    """Return the settings of a recipe with those of `set` in place of its own.

    Args:
        recipe: one of `RECIPES`.
        values: keys of `SETTINGS` with their values.

    Raises:
        InputError: the recipe, a key or a value is not valid; one error lists all of them.

    Examples:
        >>> mine = recipe_settings("pact", {"counterfactual": 0.0, "epochs": 1})
        >>> mine.paper.weights, mine.paper.epochs
        (PactWeights(cf=0.0, pc=0.5, nr=0.2, emd=0.3), 1)
    """
    unknown = None if recipe in _RECIPES else f"no recipe {recipe}{did_you_mean(recipe, _RECIPES)}"
    problems = [unknown, *(setting_problem(*entry) for entry in values.items())]
    stated = [problem for problem in problems if problem is not None]
    if stated:
        raise InputError("; ".join(stated))
    name: Any = recipe
    paper: dict[str, Any] = {}
    weights: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, value in values.items():
        place = SETTINGS[key].field
        if place.startswith(_WEIGHTS):
            weights[place.removeprefix(_WEIGHTS)] = value
        else:
            (paper if place in _PAPER else own)[place] = _as_field(place, value)
    settings = replace(_RECIPES[name], **paper)
    settings = replace(settings, weights=replace(settings.weights, **weights))
    return RecipeSettings(settings, **own)


def _as_field(name: str, value: object) -> Any:
    if name in ("targets", "selection_source_families"):
        return names_of(value)
    return value


def settings_identity(settings: RecipeSettings) -> dict[str, Any]:
    """Return what decides the weights of a training: all settings but the time of checkpoints."""
    values = asdict(settings)
    del values["checkpoint_seconds"]
    return values
