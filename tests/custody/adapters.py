"""Adapters with a training record, as another trainer writes it: by the function of the docs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pact_eval._json import Json

ROOT: Final = Path(__file__).parents[2]
FIXTURES: Final = ROOT / "fixtures" / "pact_fixtures"
HOLDOUT: Final = FIXTURES / "data" / "holdout.jsonl"

_BLOCK: Final = re.compile(r"```python\n(import base64.*?)```", re.DOTALL)


def documented_function() -> Callable[..., None]:
    """Return `write_training_data` of docs/training.md."""
    block = _BLOCK.search((ROOT / "docs" / "training.md").read_text("utf-8"))
    assert block is not None
    names: dict[str, Any] = {}
    exec(compile(block[1], "docs/training.md", "exec"), names)  # noqa: S102 - our own docs
    function: Callable[..., None] = names["write_training_data"]
    return function


def adapter_trained_on(
    folder: Path,
    training: Mapping[str, Json] | None = None,
    *,
    arm: object = "pact",
    **roles: object,
) -> Path:
    """Copy a bundled adapter, and let the function of the docs write what it was trained on.

    Args:
        folder: the adapter's new folder.
        training: facts of the training.
        arm: which bundled adapter.
        roles: the files by role; none writes no record.
    """
    shutil.copytree(FIXTURES / "adapters" / str(arm), folder)
    (folder / "training_data.json").unlink()
    schema = folder / "schema_config.json"
    text = schema.read_text("utf-8").replace('"../../model"', f'"{FIXTURES / "model"}"')
    schema.write_text(re.sub(r',\s*"training_data_sha256": "\w+"', "", text), "utf-8")
    if roles:
        documented_function()(folder, training, **roles)
    return folder
