"""Adapters that are damaged, huge or hostile: every one gets findings, none stops the audit."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from adapters import SHIPPED, config, copied, counts, file, key, schema
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from pact_eval import models as patterns
from pact_eval._json import Json
from pact_eval.audit.adapter.audit import audit_adapter
from pact_eval.audit.adapter.compare import compare_adapters


@pytest.mark.slow
def test_a_large_file_is_read_in_little_memory(tmp_path: Path) -> None:
    adapter = copied(tmp_path / "adapter")
    path = adapter / "adapter_model.safetensors"
    n = 50_000_000  # numbers; 200 MB of zeros, which take no place on the disk
    header = {
        key(0, "mlp.up_proj", "B"): {"dtype": "F32", "shape": [n], "data_offsets": [0, 4 * n]}
    }
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw)
    with path.open("r+b") as sparse:
        sparse.truncate(path.stat().st_size + 4 * n)
    tracemalloc.start()
    audit = audit_adapter(adapter, keep=5)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts(audit)["half-pair"] == 1
    assert audit.facts.n_parameters == n
    assert peak_bytes < 20_000_000


@pytest.mark.slow
def test_a_regular_expression_that_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = copied(tmp_path / "adapter")
    monkeypatch.setattr(patterns, "_SECONDS", 0.5)
    config(target_modules=r"(.*.*)*\d[a-z.0-9_]+!")(adapter)
    audit = audit_adapter(adapter, keep=5)
    assert set(counts(audit)) == {"pattern-costly", "fit-not-checked"}


def test_safetensors_whose_header_is_as_long_as_a_pickles_magic(tmp_path: Path) -> None:
    adapter = copied(tmp_path / "adapter")
    for length in (0x0280, 0x0480, 0x5A4D, 0x2123, 0x4B50 + (0x0403 << 16), 0x8B1F):
        file("more.safetensors", struct.pack("<Q", length) + b'{"a')(adapter)
        assert not counts(audit_adapter(adapter, keep=5)), hex(length)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter whose weights have no free metadata, in which a flip would mean nothing."""
    adapter = copied(tmp_path_factory.mktemp("plain") / "adapter")
    path = adapter / "adapter_model.safetensors"
    save_file(load_file(path), path)
    return adapter


@pytest.mark.slow
@given(data=st.data())
def test_damage_to_the_header_is_always_found(plain: Path, data: st.DataObject) -> None:
    path = plain / "adapter_model.safetensors"
    sound = path.read_bytes()
    n_header = 8 + struct.unpack("<Q", sound[:8])[0]
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, n_header - 1))
        flipped = sound[place] ^ (1 << data.draw(st.integers(0, 7)))
        damaged = sound[:place] + bytes([flipped]) + sound[place + 1 :]
    else:
        damaged = sound[: data.draw(st.integers(0, len(sound) - 1))]
    path.write_bytes(damaged)
    try:
        assert counts(audit_adapter(plain, keep=3))
    finally:
        path.write_bytes(sound)


@given(name=st.sampled_from(["adapter_config.json", "schema_config.json"]), data=st.data())
def test_damage_to_a_configuration_never_stops_the_audit(
    plain: Path, name: str, data: st.DataObject
) -> None:
    path = plain / name
    sound = path.read_bytes()
    place = data.draw(st.integers(0, len(sound) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(sound[:place] + data.draw(st.binary(max_size=4)) + sound[place + 1 :])
        must_be_noticed = False
    else:
        path.write_bytes(sound[:place])
        must_be_noticed = True
    try:
        audit = audit_adapter(plain, keep=3)
        compare_adapters(audit, audit)
        assert not must_be_noticed or counts(audit)
    finally:
        path.write_bytes(sound)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8) | st.sampled_from([10**400, "q_proj", "(", ".*", "all-linear", ""]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
CONFIG_KEYS = sorted(json.loads((SHIPPED / "nimble_recipe" / "adapter_config.json").read_text()))
SCHEMA_KEYS = sorted(json.loads((SHIPPED / "nimble_recipe" / "schema_config.json").read_text()))


@pytest.mark.slow
@example(in_config={}, in_schema={"model": "\x00"})
@example(in_config={"base_model_name_or_path": "\ud800"}, in_schema={"model": ""})
@given(
    in_config=st.dictionaries(st.sampled_from(CONFIG_KEYS), JSON, max_size=4),
    in_schema=st.dictionaries(st.sampled_from(SCHEMA_KEYS), JSON, max_size=3),
)
def test_any_json_in_a_configuration_is_taken(
    plain: Path, in_config: dict[str, Json], in_schema: dict[str, Json]
) -> None:
    names = ("adapter_config.json", "schema_config.json")
    sound = {name: (plain / name).read_bytes() for name in names}
    try:
        config(**in_config)(plain)
        schema(**in_schema)(plain)
        audit = audit_adapter(plain, keep=3)
        compare_adapters(audit, audit_adapter(SHIPPED / "pact", keep=3))
    finally:
        for name, content in sound.items():
            (plain / name).write_bytes(content)


BLOCKED = """
import socket, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "transformers", "peft", "tokenizers",
                                  "huggingface_hub"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocker())
def refuse(*_, **__): raise OSError("no network")
socket.socket.connect = socket.getaddrinfo = refuse
from pathlib import Path
from pact_eval.audit.adapter.audit import audit_adapter
from pact_eval.audit.adapter.compare import compare_adapters
left, right = (audit_adapter(Path(folder), keep=5) for folder in sys.argv[1:])
print([check.skipped or dict(check.counts) for check in left.checks])
print(compare_adapters(left, right).weights.different)
"""


@pytest.mark.slow
def test_neither_torch_nor_the_network_is_needed() -> None:
    folders = [str(SHIPPED / name) for name in ("nimble_recipe", "pact")]
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *folders], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["[{}, {}, {}, {}, {}, {}, {}, 'no --data given']", "84"], (
        done.stderr
    )
