"""The training record of any trainer: copy this file, which needs only the standard library.

    write_training_data("adapter", {"steps": 500}, train=["train.jsonl"], selection=["dev.jsonl"])

It writes `training_data.json` next to the weights, which `pact-audit adapter` and `pact-eval score`
read: hashes of what the adapter was trained on, so that a leak is found without the data.
"""

from __future__ import annotations

import base64
import hashlib
import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_training_data(
    adapter: str | Path, training: dict[str, Any] | None = None, **roles: Iterable[str | Path]
) -> None:
    """Write the record of an adapter.

    Args:
        adapter: its folder, with `adapter_model.safetensors`.
        training: facts such as its steps.
        roles: files of records by what they were used for: train, selection or calibration.
    """
    record, schema = Path(adapter, "training_data.json"), Path(adapter, "schema_config.json")
    content = {
        "format": "pact-training-data-v2",
        "weights_sha256": _sha256(Path(adapter, "adapter_model.safetensors")),
        "roles": {name: _role(paths) for name, paths in roles.items()},
        "training": training or {},
    }
    record.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if schema.exists():
        stated = json.loads(schema.read_text("utf-8")) | {"training_data_sha256": _sha256(record)}
        schema.write_text(json.dumps(stated, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _role(paths: Iterable[str | Path]) -> dict[str, Any]:
    files, rows = [], list[dict[str, Any]]()
    for path in map(Path, paths):
        lines = [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]
        manifest = path.with_name("manifest.json")
        about = {"name": path.name, "sha256": _sha256(path), "rows": len(lines)}
        of_manifest = _sha256(manifest) if manifest.exists() else None
        files.append(about | {"manifest_sha256": of_manifest})
        rows += lines
    return {
        "files": files,
        "records": _hashes(rows),
        "contexts": _hashes(row["input"]["state"] for row in rows),
        "families": _hashes(row["family"] for row in rows),
        "source_families": _hashes(row["source_family"] for row in rows),
    }


def _hashes(values: Iterable[Any]) -> str:
    texts = (_normal(_text(value)) for value in values)
    digests = sorted({hashlib.sha256(text.encode()).digest()[:8] for text in texts})
    return base64.b64encode(b"".join(digests)).decode()


def _text(value: Any) -> str:
    if isinstance(value, str) and not value.lstrip().startswith(("{", "[")):
        return value
    try:  # JSON in a text is the same context as the value
        value = json.loads(value) if isinstance(value, str) else value
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    except (ValueError, RecursionError):
        return str(value)


def _normal(text: str) -> str:
    visible = filter(_is_visible, unicodedata.normalize("NFKC", text))
    return " ".join("".join(visible).casefold().split())


def _is_visible(sign: str) -> bool:
    return unicodedata.category(sign) != "Cf" and not "\ufe00" <= sign <= "\ufe0f"
