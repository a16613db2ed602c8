"""Sections of `run.json`, against files that an earlier version has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from pact_eval.runs.provenance import Provenance

RECORDED: Final = Path(__file__).parent / "recorded"


@pytest.mark.parametrize("name", ["imported", "served", "local"])
def test_sections_are_written_as_they_are_read(name: str) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    run = Provenance.of(recorded)
    sections: dict[str, Any] = {"counts": run.counts, "seal": run.seal}
    if name == "imported":
        sections |= {"rounding": run.rounding}
    elif name == "served":
        sections |= {"server": run.server}
    else:
        sections |= {"engine": run.engine}
    of_settings: dict[str, Any] = {"data": run.data}
    if name == "local":
        of_settings |= {"adapter": run.adapter, "base": run.base, "contract": run.contract}
    for values, typed in ((recorded, sections), (recorded["settings"], of_settings)):
        for key, section in typed.items():
            order = sorted if key == "seal" else list
            assert order(section.to_json().items()) == order(values[key].items()), key
