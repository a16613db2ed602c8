"""The LoRA configuration with types: what PEFT writes is read, and what it does not is told."""

from __future__ import annotations

from typing import Any

import pytest

from pact_eval.audit.adapter.files import LoraSettings, check_config, lora_scale, read_settings
from pact_eval.audit.findings import CheckResult, Collector

SOUND = {"peft_type": "LORA", "r": 16, "lora_alpha": 32, "target_modules": ["q_proj"]}


def read(**changes: Any) -> tuple[LoraSettings, CheckResult]:
    config = {**SOUND, **changes}
    collector = Collector("config", 50)
    settings = read_settings(config, collector)
    return settings, check_config(config, settings, collector)


def findings_of(result: CheckResult) -> list[tuple[str, str]]:
    return [(finding.code, finding.actual) for finding in result.findings]


def test_defaults_are_those_of_peft() -> None:
    settings, result = read()
    assert settings == LoraSettings(rank=16, alpha=32, targets=("q_proj",))
    assert (findings_of(result), result.scope) == ([], "4 keys of adapter_config.json")
    assert LoraSettings().scale is None
    assert LoraSettings(rank=2).scale is None
    assert LoraSettings(alpha=2).scale is None
    assert (LoraSettings(rank=4, alpha=2).scale, lora_scale(2, 4, rslora=True)) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("key", "value", "attribute", "expected"),
    [
        ("r", 1, "rank", 1),
        ("r", 2**31 - 1, "rank", 2**31 - 1),
        ("lora_alpha", 0.5, "alpha", 0.5),
        ("lora_alpha", 1, "alpha", 1),
        ("rank_pattern", {"q_proj": 8, ".*k": 4}, "rank_pattern", {"q_proj": 8, ".*k": 4}),
        ("alpha_pattern", {"q_proj": 0.5}, "alpha_pattern", {"q_proj": 0.5}),
        ("rank_pattern", None, "rank_pattern", {}),
        ("use_rslora", True, "use_rslora", True),
        ("use_dora", True, "use_dora", True),
        ("lora_bias", True, "lora_bias", True),
        ("fan_in_fan_out", True, "fan_in_fan_out", True),
        ("use_rslora", None, "use_rslora", False),
        ("target_modules", ["v", "q", "v"], "targets", ("q", "v")),
        ("target_modules", "all-linear", "targets", "all-linear"),
        ("target_parameters", ["b", "a"], "target_parameters", ("a", "b")),
        ("exclude_modules", "lm_head", "excluded", "lm_head"),
        ("exclude_modules", ["b", "a"], "excluded", ("a", "b")),
        ("exclude_modules", None, "excluded", None),
        ("layers_to_transform", [3, 0, 3], "layers", (0, 3)),
        ("layers_to_transform", 2, "layers", (2,)),
        ("layers_to_transform", [], "layers", None),
        ("modules_to_save", ["lm_head"], "modules_to_save", ("lm_head",)),
        ("bias", "lora_only", "bias", "lora_only"),
        ("bias", None, "bias", "none"),
        ("trainable_token_indices", [1], "trains_tokens", True),
        ("trainable_token_indices", [], "trains_tokens", False),
        ("trainable_token_indices", {}, "trains_tokens", False),
        ("use_qalora", False, "variants", ()),
        ("task_type", "CAUSAL_LM", "task_type", "CAUSAL_LM"),
        ("peft_version", "0.18", "peft_version", "0.18"),
    ],
)
def test_values_that_peft_writes(key: str, value: Any, attribute: str, expected: Any) -> None:
    settings, result = read(**{key: value})
    assert findings_of(result) == []
    assert getattr(settings, attribute) == expected
    assert type(getattr(settings, attribute)) is type(expected)


@pytest.mark.parametrize(
    ("key", "value", "attribute", "text"),
    [
        ("r", 0, "rank", "0"),
        ("r", -1, "rank", "-1"),
        ("r", 2**31, "rank", "2147483648"),
        ("r", True, "rank", "true"),
        ("r", 8.0, "rank", "8.0"),
        ("r", "8", "rank", '"8"'),
        ("r", None, "rank", "nothing"),
        ("lora_alpha", 0.0, "alpha", "0.0"),
        ("lora_alpha", False, "alpha", "false"),
        ("rank_pattern", {"q": 8, "k": 2.0}, "rank_pattern", '{"k":2.0}'),
        ("rank_pattern", {"q": 8, "(": 2}, "rank_pattern", '{"(":2}'),
        ("alpha_pattern", {"q": 8.0, "k": 0}, "alpha_pattern", '{"k":0}'),
        ("use_rslora", 1, "use_rslora", "1"),
        ("use_rslora", "true", "use_rslora", '"true"'),
        ("bias", "some", "bias", '"some"'),
        ("task_type", 3, "task_type", "3"),
        ("modules_to_save", ["a", 1], "modules_to_save", '["a",1]'),
        ("modules_to_save", {"a": 1}, "modules_to_save", '{"a":1}'),
        ("exclude_modules", "(", "excluded", '"("'),
        ("layers_to_transform", [0, -1], "layers", "[0,-1]"),
        ("layers_to_transform", [0, True], "layers", "[0,true]"),
        ("layers_to_transform", "1", "layers", '"1"'),
    ],
)
def test_values_of_another_type_count_as_absent(
    key: str, value: Any, attribute: str, text: str
) -> None:
    settings, result = read(**{key: value})
    (finding,) = result.findings
    assert finding.code == "value-malformed"
    assert finding.actual.replace(" ", "") == text
    assert finding.expected.startswith(f"{key}: ")
    kept = {"rank_pattern": {"q": 8}, "alpha_pattern": {"q": 8.0}}
    default = getattr(LoraSettings(), attribute)
    assert getattr(settings, attribute) == kept.get(attribute, default)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"target_modules": "q.*", "layers_to_transform": [0]}, "regular expression for targets"),
        ({"target_modules": "q.*"}, None),
        ({"layers_to_transform": [0]}, None),
        ({"layers_pattern": "layers"}, "layers_pattern without layers_to_transform"),
        ({"layers_pattern": "layers", "layers_to_transform": [0]}, None),
        ({"lora_bias": True, "use_dora": True}, "lora_bias with use_dora"),
        ({"lora_bias": True}, None),
        ({"use_dora": True}, None),
        ({"target_modules": None}, "no target_modules and no target_parameters"),
        ({"target_modules": []}, "no target_modules and no target_parameters"),
        ({"target_modules": ""}, "no target_modules and no target_parameters"),
        ({"target_modules": None, "target_parameters": ["mlp.up"]}, None),
    ],
)
def test_values_that_contradict_one_another(changes: dict[str, Any], fault: str | None) -> None:
    _, result = read(**changes)
    assert [code for code, _ in findings_of(result)] == (["values-contradict"] if fault else [])
    assert not fault or fault in result.findings[0].actual


def test_a_malformed_target_is_one_fault() -> None:
    _, result = read(target_modules="(")
    assert [code for code, _ in findings_of(result)] == ["value-malformed"]


@pytest.mark.parametrize(
    ("changes", "findings"),
    [
        ({"peft_type": None}, [("not-lora", "nothing")]),
        ({"peft_type": "lora"}, [("not-lora", '"lora"')]),
        ({"task_type": "SEQ_CLS"}, [("other-task", "SEQ_CLS")]),
        ({"use_qalora": True, "arrow_config": {"a": 1}},
         [("lora-variant", "arrow_config, use_qalora")]),
        ({"layer_replication": [], "arrow_config": {}}, []),
        ({"auto_mapping": {}}, []),
        ({"auto_mapping": [1]}, [("value-malformed", "[1]")]),
    ],
)  # fmt: skip
def test_what_is_no_plain_lora(changes: dict[str, Any], findings: list[tuple[str, str]]) -> None:
    _, result = read(**changes)
    assert findings_of(result) == findings
