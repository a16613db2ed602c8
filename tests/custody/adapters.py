"""Adapters with a training record, as another trainer writes it: by the function of `examples/`."""

from __future__ import annotations

import re
import runpy
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pact_eval._json import Json

ROOT: Final = Path(__file__).parents[2]
FIXTURES: Final = ROOT / "fixtures" / "pact_fixtures"
HOLDOUT: Final = FIXTURES / "data" / "holdout.jsonl"
EXAMPLE: Final = ROOT / "examples" / "training_record.py"


def adapter_trained_on(
    folder: Path,
    training: Mapping[str, Json] | None = None,
    *,
    arm: object = "pact",
    **roles: object,
) -> Path:
    """Copy a bundled adapter, and let the function of `examples/` write what it was trained on.

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
        runpy.run_path(str(EXAMPLE))["write_training_data"](folder, training, **roles)
    return folder
