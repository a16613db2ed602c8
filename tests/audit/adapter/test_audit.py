"""Audits of adapter folders: the shipped ones are sound, spoilt ones are found out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from adapters import (
    COMMIT,
    MODEL,
    SHIPPED,
    Spoil,
    Tensors,
    both,
    config,
    copied,
    counts,
    errors,
    file,
    key,
    schema,
    tensors,
    texts,
    with_tensor,
    without_base,
)
from safetensors.torch import load_file, save_file

from pact_eval._files import sha256_of_file
from pact_eval.audit.adapter.audit import ADAPTER_CHECKS, audit_adapter
from pact_eval.audit.adapter.compare import compare_adapters
from pact_eval.audit.findings import CODES
from pact_eval.errors import AdapterError, PactError
from pact_eval.prompts.encoding import STATED_PROMPTS


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return copied(tmp_path / "adapter")


@pytest.mark.parametrize(("name", "scale"), [("nimble_recipe", 32 / 16), ("pact", 32 / 16**0.5)])
def test_a_shipped_adapter_is_sound(name: str, scale: float) -> None:
    audit = audit_adapter(SHIPPED / name, keep=20)
    facts = audit.facts
    assert [check.check for check in audit.checks] == list(ADAPTER_CHECKS)
    assert not any(check.counts for check in audit.checks)
    skipped = {check.check: check.skipped for check in audit.checks if check.skipped}
    assert skipped == {"overlap": "no --data given"}
    assert facts.settings is not None
    assert (facts.settings.rank, facts.settings.alpha, facts.scale) == (16, 32, scale)
    assert facts.settings.use_rslora == (name == "pact")
    assert facts.settings.targets == (
        "down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj",
    )  # fmt: skip
    # Six layers of seven projections; width 192, 512 inside the MLP.
    assert (facts.n_modules, facts.n_layers, facts.dtypes) == (42, 6, {"BF16": 84})
    assert facts.n_parameters == 6 * 16 * (4 * (192 + 192) + 3 * (192 + 512))
    assert facts.base_model == "../../model"
    assert facts.max_length_tokens == 2048
    assert facts.weights_sha256 == sha256_of_file(SHIPPED / name / "adapter_model.safetensors")
    assert {item.name: item.size_bytes for item in facts.files} == {
        path.name: path.stat().st_size for path in (SHIPPED / name).iterdir()
    }


def test_the_base_can_be_given(adapter: Path, tmp_path: Path) -> None:
    schema(model="elsewhere/base", revision=COMMIT)(adapter)
    assert set(counts(audit_adapter(adapter, keep=20))) == {"fit-not-checked"}
    audit = audit_adapter(adapter, base_model=MODEL, keep=20)
    assert not counts(audit)
    assert audit.facts.base_folder == MODEL
    with pytest.raises(AdapterError, match="no such (adapter )?folder"):
        audit_adapter(adapter, base_model=tmp_path / "none", keep=20)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("{}")
    for folder in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(AdapterError, match="no such (adapter )?folder"):
            audit_adapter(folder, keep=20)


def test_an_empty_folder_skips_what_there_is_nothing_for(tmp_path: Path) -> None:
    audit = audit_adapter(tmp_path, keep=20)
    assert {check.check: check.skipped for check in audit.checks if check.skipped} == {
        "config": "adapter_config.json is not there",
        "tensors": "adapter_model.safetensors is not there",
        "training": "adapter_model.safetensors is not there",
        "overlap": "no --data given",
    }
    assert counts(audit) == {
        "file-missing": 2, "contract-unknown": 1, "base-unknown": 1, "fit-not-checked": 1,
    }  # fmt: skip
    assert (audit.facts.settings, audit.facts.n_modules, audit.facts.scale) == (None, None, None)


@pytest.mark.posix
def test_a_file_that_cannot_be_opened_skips_its_checks(adapter: Path) -> None:
    both(moved_out("adapter_config.json"), moved_out("adapter_model.safetensors"))(adapter)
    checks = audit_adapter(adapter, keep=20).checks
    assert {check.check: check.skipped for check in checks if check.skipped} == {
        "config": "adapter_config.json cannot be opened",
        "tensors": "adapter_model.safetensors cannot be opened",
        "training": "adapter_model.safetensors cannot be opened",
        "overlap": "no --data given",
    }


@pytest.mark.posix
def test_a_snapshot_in_the_hubs_cache_links_to_its_blobs(adapter: Path, tmp_path: Path) -> None:
    cache = tmp_path / "models--someone--adapter"
    snapshot = cache / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    adapter.rename(cache / "blobs")
    for path in (cache / "blobs").iterdir():
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    assert not counts(audit_adapter(snapshot, keep=20))
    # Elsewhere, or out of that cache, a link leads out.
    (snapshot / "more.json").symlink_to("/etc/hostname")
    assert counts(audit_adapter(snapshot, keep=20)) == {"link-outside": 1}


@pytest.mark.posix
def test_a_link_inside_the_folder_is_none_that_leads_out(adapter: Path) -> None:
    both(file("checkpoint-30/notes.md"), link("last", "checkpoint-30"))(adapter)
    audit = audit_adapter(adapter, keep=20)
    assert not counts(audit)
    assert [item.name for item in audit.facts.files if "notes" in item.name] == [
        "checkpoint-30/notes.md"
    ]


# Spoilt adapters: one at least for every code.

Q0_A, Q0_B = key(0, "self_attn.q_proj", "A"), key(0, "self_attn.q_proj", "B")
Q0_WEIGHT = "model.layers.0.self_attn.q_proj.weight"
LM_HEAD = "base_model.model.lm_head.weight"
SAFE_HEADER = b"\x08\0\0\0\0\0\0\0{}      "
LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 711224\n"


def weights(folder: Path) -> Path:
    return folder / "adapter_model.safetensors"


def without(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def link(name: str, target: str) -> Spoil:
    return lambda folder: (folder / name).symlink_to(target)


def moved_out(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        outside = folder.parent / name
        (folder / name).rename(outside)
        (folder / name).symlink_to(outside)

    return spoil


def renamed(old: str, new: str) -> Spoil:
    def change(loaded: Tensors) -> None:
        for name in [tensor for tensor in loaded if old in tensor]:
            loaded[name.replace(old, new)] = loaded.pop(name)

    return tensors(change)


def lost(*parts: str) -> Spoil:
    def change(loaded: Tensors) -> None:
        for name in [tensor for tensor in loaded if any(part in tensor for part in parts)]:
            del loaded[name]

    return tensors(change)


def zeroed(part: str) -> Spoil:
    return tensors(lambda loaded: [t.zero_() for name, t in loaded.items() if part in name])


def with_damaged_tokenizer(folder: Path) -> None:
    base = folder.parent / "base"
    shutil.copytree(MODEL, base)
    (base / "tokenizer.json").write_text("{")
    schema(model=str(base))(folder)


def with_two(name: str, value: float) -> Spoil:
    return tensors(lambda loaded: loaded[name].view(-1)[3:5].fill_(value))


def endless_base(folder: Path) -> None:
    """Let the adapter name a base whose chat template takes gigabytes."""
    base = folder.parent / "base"
    shutil.copytree(MODEL, base)
    (base / "chat_template.jinja").write_text("{{ 'a' * 10**10 }}")
    schema(model=str(base))(folder)


def base_with(weight: str, *shape: int) -> Spoil:
    """Let the adapter name a base of which one weight has another shape."""

    def spoil(folder: Path) -> None:
        base = folder.parent / "base"
        base.mkdir()
        stored = load_file(MODEL / "model.safetensors") | {weight: torch.zeros(shape)}
        save_file(stored, base / "model.safetensors")
        schema(model="../base", base_weights_sha256=None)(folder)

    return spoil


def stored_as(dtype: torch.dtype, value: float = 1) -> Spoil:
    """Store every factor in another type, filled with one number."""

    def change(loaded: Tensors) -> None:
        loaded.update({name: torch.full(t.shape, value).to(dtype) for name, t in loaded.items()})

    return tensors(change)


def scaled(part: str, by: float) -> Spoil:
    return tensors(lambda loaded: [t.mul_(by) for name, t in loaded.items() if part in name])


def auto_mapping(library: Any, name: str) -> Spoil:
    return config(auto_mapping={"base_model_class": name, "parent_library": library})


def brought_base(revision: str | None) -> Spoil:
    """Let the adapter bring a base along, in a folder named like the hub's id."""

    def spoil(folder: Path) -> None:
        shutil.copytree(MODEL, folder / "Qwen" / "Qwen3-0.6B")
        schema(model="Qwen/Qwen3-0.6B", revision=revision, base_weights_sha256=None)(folder)

    return spoil


def npy_of_objects(folder: Path) -> None:
    np.save(folder / "objects.npy", np.array([{}], dtype=object))


_PEFT = "base_model.model."
SPOILS: list[tuple[str, str, Spoil]] = [
    ("file-missing", "adapter_config.json", without("adapter_config.json")),
    ("file-missing", "adapter_model.safetensors", without("adapter_model.safetensors")),
    (
        "file-missing",
        "2 parts of one",
        both(
            without("adapter_model.safetensors"),
            file("adapter_model-00001-of-00001.safetensors"),
            file("adapter_model.safetensors.index.json"),
        ),
    ),
    ("pickled", "adapter_model.bin", file("adapter_model.bin")),
    ("pickled", "checkpoint-10/rng_state.pth", file("checkpoint-10/rng_state.pth")),
    ("pickled", "notes.txt", file("notes.txt", b"cos\nsystem\n(S'id'\ntR.")),
    ("pickled", "state", lambda folder: torch.save({}, folder / "state")),
    ("pickled", "numpy objects", npy_of_objects),
    ("not-safetensors", "a pickle under", lambda folder: torch.save({}, weights(folder))),
    ("not-safetensors", "Git LFS", file("adapter_model.safetensors", LFS_POINTER)),
    ("link-outside", "adapter_config.json", moved_out("adapter_config.json")),
    ("link-outside", "/etc", link("etc", "/etc")),
    (
        "unreadable",
        "training.json",
        both(without("training.json"), lambda folder: os.mkfifo(folder / "training.json")),
    ),
    ("unreadable", "broken link", link("gone", "nowhere")),
    ("unreadable", "loop", link("loop", "loop")),
    ("code-file", "evil.py", file("evil.py", "print()")),
    ("archive", "more.tgz", file("more.tgz", b"\x1f\x8b\x08")),
    ("not-looked-into", ".git", file(".git/config", "[core]")),
    ("config-unreadable", "duplicate key", file("adapter_config.json", '{"r": 8, "r": 16}')),
    ("config-unreadable", "a JSON object", file("adapter_config.json", "[]")),
    ("config-unreadable", "levels deep", file("adapter_config.json", "[" * 100_000)),
    (
        "config-unreadable",
        "at most",
        lambda folder: os.truncate(folder / "adapter_config.json", (1 << 26) + 1),
    ),
    ("not-lora", "IA3", config(peft_type="IA3")),
    ("value-malformed", "r: an integer above 0, found 0", config(r=0)),
    ("value-malformed", "r: an integer above 0, found 1000", config(r=10**400)),
    ("values-contradict", "no target_modules", config(target_modules=None)),
    ("imports-library", "evil.core", config(megatron_config={}, megatron_core="evil.core")),
    ("imports-library", '"os"', auto_mapping("os", "system")),
    ("imports-library", "transformers_modules", auto_mapping("transformers_modules.x.y", "Z")),
    ("imports-library", "found auto_mapping, with parent_library 1", auto_mapping(1, "Z")),
    ("base-changed", 'init_lora_weights "pissa"', config(init_lora_weights="pissa")),
    ("other-task", "SEQ_CLS", config(task_type="SEQ_CLS")),
    ("lora-variant", "use_qalora", config(use_qalora=True)),
    ("prompts-differ", "another chat template", schema(chat_template_sha256="0" * 64)),
    ("prompts-not-compared", "tokenizer.json: not valid JSON", with_damaged_tokenizer),
    ("prompts-not-stated", "not stated", schema(**dict.fromkeys(STATED_PROMPTS))),
    ("weights-damaged", "cut short", lambda folder: os.truncate(weights(folder), 500_000)),
    ("no-lora", "none of them", renamed("lora_", "l")),
    ("half-pair", "q_proj without B", lost(Q0_B)),
    ("rank-mismatch", "A of 8 rows", config(r=8)),
    ("rank-mismatch", "A of 4 rows", config(rank_pattern={"layers.0.self_attn.q_proj": 4})),
    ("module-off-target", "v_proj", config(target_modules=["q_proj"])),
    ("module-off-target", "layers.0", config(layers_to_transform=[1, 2, 3, 4, 5])),
    ("announced-missing", "lm_head", config(modules_to_save=["lm_head"])),
    ("tensor-unannounced", "lm_head", with_tensor(LM_HEAD, torch.ones(3))),
    ("tensor-unannounced", "lora_A.default", renamed("lora_A.", "lora_A.default.")),
    ("tensor-unannounced", r"\x1b[2J", with_tensor("\x1b[2J" + "x" * 600, torch.ones(1))),
    ("pattern-costly", "they fail", config(rank_pattern={"(?i)q_proj": 8})),
    ("not-finite", f"{Q0_B}: 2 NaN, 0 infinite of 3,072", with_two(Q0_B, float("nan"))),
    ("untrained", "all 42 modules", zeroed("lora_B")),
    ("module-untrained", "layers.0.self_attn.q_proj", zeroed(Q0_B)),
    ("factor-zero", "layers.0.self_attn.q_proj", zeroed(Q0_A)),
    ("target-unused", "fc1", both(without_base, config(target_modules=["fc1"]))),
    ("target-unknown", "fc1", config(target_modules=["q_proj", "fc1"])),
    ("pattern-unused", "fc1", config(rank_pattern={"fc1": 8})),
    (
        "layers-uneven",
        "no model.layers.2.mlp.up_proj",
        both(without_base, lost("layers.2.mlp.up_proj")),
    ),
    ("layers-missing", "no layer 2, 4", both(without_base, lost("layers.2.", "layers.4."))),
    (
        "whole-tensors",
        "lm_head",
        both(config(modules_to_save=["lm_head"]), with_tensor(LM_HEAD, torch.ones(3))),
    ),
    (
        "values-not-checked",
        "1 tensors of I8",
        both(
            config(modules_to_save=["lm_head"]),
            with_tensor(LM_HEAD, torch.ones(3, dtype=torch.int8)),
        ),
    ),
    ("factor-type", "84 tensors of I8", stored_as(torch.int8)),
    ("factor-type", "84 tensors of F8_E4M3", stored_as(torch.float8_e4m3fn)),
    ("update-negligible", "is above", scaled("lora_B", 1e-30)),
    ("contract-unknown", "no such file", without("schema_config.json")),
    ("contract-unreadable", "not valid JSON", file("schema_config.json", "{")),
    ("contract-mismatch", "contract_fingerprint", schema(contract_fingerprint="0" * 64)),
    (
        "template-does-not-end",
        "1 GB",
        both(file("decision_template.jinja", "{{ 'a' * 10**10 }}"), schema(task=None)),
    ),
    ("chat-template-does-not-end", "1 GB", endless_base),
    ("decision-unusable", "noul_options", file("decision.json", '{"noul_options": 1}')),
    ("decision-unusable", "trained decision head", file("head.safetensors", SAFE_HEADER)),
    ("decision-files-ignored", "alone takes the prompt of", file("decision.json", "{}")),
    ("decision-key-ignored", "sort_choices", file("decision.json", '{"sort_choices": true}')),
    ("max-length-malformed", "max_length is text", schema(max_length="2048")),
    ("max-length-differs", "found 512", schema(max_length=512)),
    ("contract-stated", "stated by the user", schema(contract_stated_by="user")),
    ("wrapper-prefix", "_orig_mod. in 42 names", renamed(_PEFT, f"{_PEFT}_orig_mod.")),
    ("layout-reset", "which PEFT resets", config(fan_in_fan_out=True)),
    ("base-unusable", "found an adapter", schema(model=".")),
    ("base-unusable", "expected weights", both(file("base/x"), schema(model="base"))),
    ("base-differs", "SHA-256 " + "0" * 64, schema(base_weights_sha256="0" * 64)),
    ("base-differs", "SHA-256 a list", schema(base_weights_sha256=[])),
    (
        "module-unknown",
        "layers.9.mlp.up_proj",
        with_tensor(key(9, "mlp.up_proj", "A"), torch.ones(16, 192)),
    ),
    ("shape-misfit", "A [16, 192] does not read 64 inputs", base_with(Q0_WEIGHT, 192, 64)),
    ("module-not-adapted", "layers.0.self_attn.q_proj", lost("layers.0.self_attn.q_proj")),
    ("base-unknown", "none", both(schema(model=None), config(base_model_name_or_path=None))),
    ("base-not-found", "/nowhere/base", schema(model="/nowhere/base")),
    ("base-not-found", "aaa", schema(model="a" * 5000)),
    ("base-unpinned", "found no revision", both(without_base, schema(revision=None))),
    ("base-unpinned", "no revision; its folder was taken from inside", brought_base(None)),
    ("fit-not-checked", "commit; its folder was taken from inside", brought_base(COMMIT)),
    ("target-unused", "v_proj", both(brought_base(COMMIT), lost("v_proj"))),
    (
        "base-named-twice",
        "elsewhere/base in schema_config.json, tiny in adapter_config.json",
        both(without_base, config(base_model_name_or_path="tiny")),
    ),
    ("fit-not-checked", "missing later layers", without_base),
    ("fit-not-checked", "names do not show it", config(target_modules="all-linear")),
]


_NO_BASE = {"fit-not-checked": 1}
# What a fault leads to besides one finding of its code: how many of its code, and which others.
EFFECTS: dict[tuple[str, str], tuple[int, dict[str, int]]] = {
    ("file-missing", "adapter_config.json"): (1, _NO_BASE),
    ("file-missing", "adapter_model.safetensors"): (1, _NO_BASE),
    ("file-missing", "2 parts of one"): (2, _NO_BASE),
    ("not-safetensors", "a pickle under"): (1, _NO_BASE | {"weights-damaged": 1}),
    ("not-safetensors", "Git LFS"): (1, _NO_BASE | {"weights-damaged": 1}),
    ("link-outside", "adapter_config.json"): (1, _NO_BASE),
    ("config-unreadable", "duplicate key"): (1, _NO_BASE),
    ("config-unreadable", "a JSON object"): (1, _NO_BASE),
    ("config-unreadable", "levels deep"): (1, _NO_BASE),
    ("config-unreadable", "at most"): (1, _NO_BASE),
    ("values-contradict", "no target_modules"): (1, _NO_BASE),
    ("lora-variant", "use_qalora"): (1, _NO_BASE),
    ("weights-damaged", "cut short"): (1, _NO_BASE),
    ("no-lora", "none of them"): (1, {"tensor-unannounced": 84, "module-not-adapted": 42}),
    ("rank-mismatch", "A of 8 rows"): (42, {}),
    ("module-off-target", "v_proj"): (36, {}),
    ("module-off-target", "layers.0"): (7, {}),
    ("tensor-unannounced", "lora_A.default"): (42, {"half-pair": 42}),
    ("target-unused", "fc1"): (1, _NO_BASE | {"module-off-target": 42}),
    ("target-unused", "v_proj"): (1, _NO_BASE | {"module-not-adapted": 6}),
    ("target-unknown", "fc1"): (1, {"module-off-target": 36}),
    ("layers-uneven", "no model.layers.2.mlp.up_proj"): (1, _NO_BASE),
    ("layers-missing", "no layer 2, 4"): (1, _NO_BASE),
    ("values-not-checked", "1 tensors of I8"): (1, {"whole-tensors": 1}),
    ("not-finite", f"{Q0_A}: 3,072 NaN, 0 inf"): (84, {}),
    ("contract-unknown", "no such file"): (1, _NO_BASE | {"base-unknown": 1}),
    ("contract-unreadable", "not valid JSON"): (1, _NO_BASE | {"base-unknown": 1}),
    ("chat-template-does-not-end", "1 GB"): (1, {"prompts-differ": 1}),
    ("template-does-not-end", "1 GB"): (1, {"decision-files-ignored": 1, "contract-mismatch": 1}),
    ("decision-key-ignored", "sort_choices"): (1, {"decision-files-ignored": 1}),
    ("module-unknown", "layers.9.mlp.up_proj"): (1, {"half-pair": 1}),
    ("wrapper-prefix", "_orig_mod. in 42 names"): (
        1,
        {"module-unknown": 42, "module-not-adapted": 42},
    ),
    ("base-unknown", "none"): (1, _NO_BASE),
    ("base-not-found", "/nowhere/base"): (1, _NO_BASE),
    ("base-not-found", "aaa"): (1, _NO_BASE),
    ("base-unpinned", "found no revision"): (1, _NO_BASE),
    ("base-named-twice", "elsewhere/base in schema_config.json, tiny in adapter_config.json"): (
        1,
        _NO_BASE,
    ),
}


@pytest.mark.parametrize(
    ("code", "text", "spoil"), SPOILS, ids=[f"{code}:{text[:40]}" for code, text, _ in SPOILS]
)
@pytest.mark.posix
def test_a_spoilt_adapter_is_found_out(code: str, text: str, spoil: Spoil, adapter: Path) -> None:
    spoil(adapter)
    audit = audit_adapter(adapter, keep=200)
    messages = texts(audit, code)
    assert any(text in message for message in messages), (messages, counts(audit))
    n_findings, others = EFFECTS.get((code, text), (1, {}))
    assert counts(audit) == {code: n_findings} | others
    assert [check.check for check in audit.checks] == list(ADAPTER_CHECKS)
    findings = [finding for check in audit.checks for finding in check.findings]
    assert all(finding.actual.isprintable() and len(finding.actual) < 500 for finding in findings)
    compare_adapters(audit, audit)


def test_every_code_is_reached() -> None:
    assert {code for code, _, _ in SPOILS} == {
        code
        for code, meaning in CODES.items()
        if meaning.check in ADAPTER_CHECKS and meaning.check not in ("training", "overlap")
    }  # those two: test_training.py and test_overlap.py


@pytest.mark.parametrize(
    "library", ["transformers", "transformers.models.qwen3.modeling_qwen3", None]
)
def test_transformers_may_be_imported(library: str | None, adapter: Path) -> None:
    auto_mapping(library, "Qwen3ForCausalLM")(adapter)
    assert not counts(audit_adapter(adapter, keep=5))


@pytest.mark.parametrize(("times", "is_negligible"), [(0.99, True), (1.01, False)])
@pytest.mark.parametrize("rslora", [True, False])
def test_the_bound_of_a_negligible_update(
    times: float, is_negligible: bool, rslora: bool, adapter: Path
) -> None:
    """One module has another alpha and rank, and the only update that counts."""

    def change(loaded: Tensors) -> None:
        for name in loaded:
            loaded[name] = torch.full(loaded[name].shape, 1e-9)
        bound = 1e-6 * times / (8 * (5 / 8**0.5 if rslora else 5 / 8))
        loaded[Q0_A] = torch.full((8, 192), -0.5)
        loaded[Q0_B] = torch.full((192, 8), 2 * bound)

    one = "layers.0.self_attn.q_proj"
    both(
        tensors(change),
        config(rank_pattern={one: 8}, alpha_pattern={one: 5}, use_rslora=rslora),
    )(adapter)
    expected = {"update-negligible": 1} if is_negligible else {}
    assert counts(audit_adapter(adapter, keep=5)) == expected


def test_what_no_base_can_complete_is_an_error(adapter: Path) -> None:
    without_base(adapter)
    for code, spoil in (
        ("layers-uneven", lost("layers.3.self_attn.q_proj")),
        ("target-unused", lost("v_proj")),
    ):
        spoil(adapter)
        assert code in errors(audit_adapter(adapter, keep=5))


def test_a_target_that_is_left_out_needs_no_module(adapter: Path) -> None:
    both(without_base, lost("v_proj"), config(exclude_modules=["v_proj"]))(adapter)
    assert set(counts(audit_adapter(adapter, keep=5))) == {"fit-not-checked"}


def test_blocks_of_two_kinds_share_a_name(adapter: Path) -> None:
    """A mixture of experts with a first dense layer, as Llama 4 names its parts."""

    def change(loaded: Tensors) -> None:
        for factor, shape in (("A", (16, 192)), ("B", (4, 16))):
            for layer in range(1, 6):
                loaded[key(layer, "mlp.router", factor)] = torch.ones(shape)

    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    dense = [f"layers.{layer}.mlp" for layer in range(1, 6)]
    both(without_base, lost(*dense), tensors(change))(adapter)
    config(target_modules=[*targets, "router"])(adapter)
    assert set(counts(audit_adapter(adapter, keep=5))) == {"fit-not-checked"}


def test_a_base_at_a_path_inside_the_adapter_is_the_one_it_names(adapter: Path) -> None:
    shutil.copytree(MODEL, adapter / "base" / "model")
    schema(model="./base/model", base_weights_sha256=None)(adapter)
    assert not counts(audit_adapter(adapter, keep=5))


# Scoring refuses what these find; the audit calls it an error.
REFUSED = {
    "file-missing", "config-unreadable", "not-lora", "weights-damaged", "no-lora", "half-pair",
    "rank-mismatch", "module-off-target", "announced-missing", "tensor-unannounced",
    "contract-unknown", "contract-unreadable", "contract-mismatch", "base-unusable",
    "base-differs", "module-unknown", "shape-misfit", "module-not-adapted",
    "wrapper-prefix",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("code", sorted(REFUSED))
def test_the_audit_against_scoring(code: str, adapter: Path) -> None:
    from pact_eval.scoring.model import identify  # loads PEFT: seconds
    from pact_eval.scoring.request import ModelRequest

    spoil = next(spoil for spoilt_code, _, spoil in SPOILS if spoilt_code == code)
    spoil(adapter)
    assert CODES[code].severity == "error"
    with pytest.raises(PactError):
        identify(ModelRequest(adapter, device="cpu")).load()
