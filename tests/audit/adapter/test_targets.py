"""Targets of a configuration, on names that are written out; `test_peft.py` has those of PEFT."""

from __future__ import annotations

from typing import Any

import pytest

from pact_eval.audit.adapter.files import LoraSettings
from pact_eval.audit.adapter.tensors import (
    by_pattern,
    is_target_parameter,
    targeted,
    without_module,
)

NAMES = [
    "model.layers.0.self_attn.q_proj",
    "model.layers.1.self_attn.q_proj",
    "model.layers.1.mlp.up_proj",
    "visual.blocks.1.q_proj",
    "lm_head",
]


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({"targets": ("q_proj",)}, {0, 1, 3}),
        ({"targets": ("proj",)}, set()),
        ({"targets": ("self_attn.q_proj", "lm_head")}, {0, 1, 4}),
        ({"targets": (NAMES[2],)}, {2}),
        ({"targets": r".*mlp.*|lm_head"}, {2, 4}),
        ({"targets": "q_proj"}, set()),
        ({"targets": ("q_proj",), "layers": (1,)}, {1, 3}),
        ({"targets": ("q_proj", "lm_head"), "layers": (0,)}, {0, 4}),
        ({"targets": ("q_proj", NAMES[0]), "layers": (1,)}, {0, 1, 3}),
        ({"targets": ("q_proj",), "layers": (1,), "layers_patterns": ("layers",)}, {1}),
        ({"targets": ("q_proj",), "layers": (1,), "layers_patterns": ("h", "blocks")}, {3}),
        ({"targets": ("q_proj",), "excluded": ("blocks.1.q_proj",)}, {0, 1}),
        ({"targets": ("q_proj",), "excluded": "visual.*"}, {0, 1}),
        ({"targets": ("q_proj",), "modules_to_save": ("self_attn",)}, {3}),
        ({"targets": ("q_proj",), "modules_to_save": ("attn",)}, {0, 1, 3}),
    ],
)
def test_targets_by_hand(changes: dict[str, Any], places: set[int]) -> None:
    expected = frozenset(NAMES[place] for place in places)
    assert targeted(LoraSettings(**changes), NAMES) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"targets": None},
        {"targets": ()},
        {"targets": "all-linear"},
        {"targets": "ALL-Linear"},
        {"targets": ("q_proj",), "layers": (1,), "layers_patterns": ("h", "(x|y)")},
    ],
)
def test_names_alone_do_not_tell(changes: dict[str, Any]) -> None:
    assert targeted(LoraSettings(**changes), NAMES) is None


def test_targets_without_module() -> None:
    targets = ("fc1", "fc2", "lm_head", "q_proj", "self_attn")
    assert without_module(LoraSettings(targets=targets), NAMES) == ("fc1", "fc2", "self_attn")
    left_out = LoraSettings(targets=targets, excluded=("fc2",), modules_to_save=("self_attn",))
    assert without_module(left_out, NAMES) == ("fc1",)
    assert without_module(LoraSettings(targets="fc1"), NAMES) == ()
    assert without_module(LoraSettings(), NAMES) == ()


def test_values_of_patterns() -> None:
    values, unused = by_pattern({"1.q_proj": 8, "q_proj": 4, "k_proj": 2}, NAMES)
    assert values == {NAMES[0]: 4, NAMES[1]: 4, NAMES[3]: 8}
    assert unused == ("k_proj",)
    values, unused = by_pattern(
        {"self.attn.q_proj": 1, "(mlp|x).*": 8, "z+": 2, "up_proj": 3}, NAMES
    )
    assert values == {NAMES[2]: 8}
    assert unused == ("self.attn.q_proj", "z+")
    assert by_pattern({}, NAMES) == ({}, ())


@pytest.mark.parametrize(
    ("module", "is_one"),
    [
        ("model.layers.0.mlp.experts", True),
        ("mlp.experts", True),
        ("model.layers.0.mlp.experts.base_layer", True),
        ("model.layers.0.xmlp.experts", False),
        ("model.layers.0.mlp.experts.gate", False),
        ("model", False),
    ],
)
def test_parameters_belong_to_their_module(module: str, is_one: bool) -> None:
    settings = LoraSettings(target_parameters=("weight", "mlp.experts.up_proj"))
    assert is_target_parameter(settings, module) is is_one
