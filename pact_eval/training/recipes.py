"""The built-in recipes by name, and the settings that `set` may change; without torch.

A recipe is a set of values of `pact_losses.PaperSettings`. `set` has flat keys: `counterfactual` is
the weight of the pair margin, `learning_rate` is what it says. `RecipeSettings` holds the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pact_eval._json import Json, dumps, finite_number, loads
from pact_eval._toml import did_you_mean, value_in_words

RecipeName = Literal["pact", "nimble_recipe", "cross_entropy"]
"""Names of recipes: all four terms; the published optimiser; PACT's optimiser with CE alone."""

CARD: Final = "training.json"
"""Name of the file with the settings and measurements of a training."""

RECIPES: Final[tuple[RecipeName, ...]] = get_args(RecipeName)

Precision = Literal["bfloat16", "float32"]
"""Precision of the products in training."""

TrainingAttention = Literal["auto", "eager", "sdpa"]
"""Attention of transformers in training; auto is eager on a CPU, and sdpa elsewhere."""


@dataclass(frozen=True)
class Setting:
    """One key of `set`.

    Attributes:
        key: the key.
        field: the field that it sets: of `PaperSettings`, or "weights." and one of `PactWeights`,
            or else of `RecipeSettings`.
        expected: valid values in words.
        accepts: whether a value is valid.
        meaning: what it decides, in a few words.
    """

    key: str
    field: str
    expected: str
    accepts: Callable[[object], bool]
    meaning: str


def _is_integer(value: object, least: int) -> bool:
    return type(value) is int and value >= least


def _is_number(value: object, most: float) -> bool:
    number = None if isinstance(value, bool) else finite_number(value)
    return number is not None and 0 <= number <= most


def _number(key: str, meaning: str, *, field: str = "", most: float | None = None) -> Setting:
    expected = "a number of 0 or more" if most is None else f"a number from 0 to {most:g}"
    bound = float("inf") if most is None else most
    return Setting(key, field or key, expected, lambda value: _is_number(value, bound), meaning)


def _integer(key: str, meaning: str, *, field: str = "", least: int = 1) -> Setting:
    expected = f"an integer of at least {least}"
    return Setting(key, field or key, expected, lambda value: _is_integer(value, least), meaning)


def _flag(key: str, meaning: str) -> Setting:
    return Setting(key, key, "true or false", lambda value: isinstance(value, bool), meaning)


def _choice(key: str, meaning: str, *allowed: str) -> Setting:
    return Setting(
        key, key, f"one of {', '.join(allowed)}", lambda value: value in allowed, meaning
    )


def names_of(value: object) -> tuple[str, ...]:
    """Return the names of a setting that has names with commas between them.

    Examples:
        >>> names_of("q_proj, v_proj")
        ('q_proj', 'v_proj')
    """
    return tuple(name.strip() for name in str(value).split(","))


def _names(key: str, meaning: str) -> Setting:
    def accepts(value: object) -> bool:
        return isinstance(value, str) and all(names_of(value))

    return Setting(key, key, "names with commas between them", accepts, meaning)


_SETTINGS: Final = (
    _number("counterfactual", "weight of the pair margin", field="weights.cf"),
    _number("permutation", "weight of permutation consistency", field="weights.pc"),
    _number("necessity", "weight of evidence necessity", field="weights.nr"),
    _number("ordinal", "weight of ordinal transport", field="weights.emd"),
    _number("answer_mass", "weight of the answer mass, which the paper lacks", field="weights.am"),
    _number("margin", "margin that a pair must reach, nats"),
    _number("epsilon", "gap that an ablated context may have, nats"),
    _number("ramp", "share of the steps over which the weights rise", most=1),
    _integer("permuted_views", "permuted views of each member of a pair", least=0),
    _flag("ablated_view", "whether a pair has an ablated view"),
    _choice("pair_views", "views that the margin links", "all", "primary"),
    _integer("epochs", "passes over the families"),
    _integer("train_families", "families to train on, evenly spaced; all without this key"),
    _integer("pairs_per_batch", "families of a forward pass"),
    _integer("accumulation", "forward passes of an optimiser step"),
    _number("learning_rate", "peak rate of the A matrices"),
    _number("lora_plus_ratio", "rate of the B matrices over that of the A matrices"),
    _choice("schedule", "decay of the rate", "cosine", "linear"),
    _number("warmup", "share of the steps in which the rate rises", most=1),
    _number("weight_decay", "weight decay of AdamW"),
    _number("max_gradient_norm", "norm that gradients are clipped to"),
    _integer("rank", "rank of LoRA"),
    _integer("alpha", "alpha of LoRA"),
    _flag("rslora", "whether LoRA is scaled by alpha/sqrt(rank)"),
    _number("dropout", "dropout of the LoRA input", most=1),
    _names("targets", "linear layers with LoRA, by the last part of their names"),
    _number("unpaired_weight", "weight of the views of unpaired records"),
    _integer("unpaired_permuted_views", "permuted views of an unpaired record", least=0),
    _number("select_share", "share of the steps between two selection measurements", most=1),
    _number("least_answer_mass", "answer mass that a checkpoint needs to be selected", most=1),
    _names(
        "selection_source_families",
        "source families that choose the checkpoint; all of the selection split without this key",
    ),
    _integer("max_prompt_tokens", "longest prompt; a longer one is an error"),
    _choice("precision", "precision of the products", *get_args(Precision)),
    _choice("attention", "attention of transformers", *get_args(TrainingAttention)),
    _flag("gradient_checkpointing", "compute activations twice, to save memory"),
    _choice("quantize", "store the linear layers of the base in four bits", "nf4"),
    _number("checkpoint_seconds", "time between two checkpoints; 0 is after every step"),
)

SETTINGS: Final[Mapping[str, Setting]] = {setting.key: setting for setting in _SETTINGS}
"""All settings by their key."""


def setting_problem(key: str, value: object) -> str | None:
    """Return what is wrong with an entry of `set`; None if it is valid.

    Args:
        key: its key.
        value: its value.

    Examples:
        >>> setting_problem("epoch", 1)
        'unknown setting epoch; did you mean epochs?'
        >>> setting_problem("epochs", 0.5)
        'expected epochs as an integer of at least 1, got 0.5'
        >>> setting_problem("epochs", 1)
    """
    setting = SETTINGS.get(key)
    if setting is None:
        return f"unknown setting {key}{did_you_mean(key, SETTINGS)}"
    if setting.accepts(value):
        return None
    return f"expected {key} as {setting.expected}, got {value_in_words(value)}"


def as_words(settings: Mapping[str, Json]) -> tuple[str, ...]:
    """Return settings as the words `--set KEY=VALUE` of a command, in their order.

    Examples:
        >>> as_words({"quantize": "nf4", "rank": [8, 16], "note": "16"})
        ('--set', 'quantize=nf4', '--set', 'rank=[8, 16]', '--set', 'note="16"')
    """
    return tuple(
        word for key, value in settings.items() for word in ("--set", f"{key}={_word(value)}")
    )


def _word(value: Json) -> str:
    """Return a value as `parse_words` reads it: text as it is, if it does not look like JSON."""
    is_plain = isinstance(value, str) and _value(value) == value
    return str(value) if is_plain else dumps(value)


def parse_words(words: Iterable[str]) -> dict[str, Json]:
    """Read KEY=VALUE words: numbers, true, false and lists as in JSON, all else is text.

    Raises:
        ValueError: a word has no "=", or a key appears twice.

    Examples:
        >>> parse_words(["learning_rate=5e-5", "ablated_view=false", "rank=[8, 16]"])
        {'learning_rate': 5e-05, 'ablated_view': False, 'rank': [8, 16]}
    """
    settings: dict[str, Json] = {}
    for word in words:
        key, separator, text = word.partition("=")
        if not separator:
            raise ValueError(f"expected KEY=VALUE, such as epochs=1, got {word}")
        if key in settings:
            raise ValueError(f"expected {key} once, got it twice")
        settings[key] = _value(text)
    return settings


def _value(text: str) -> Json:
    try:
        return loads(text)
    except ValueError:
        return text
