"""`run.json` keeps its bytes: new runs against files that an earlier version has written.

`python tests/runs/test_recorded_files.py` writes the files anew, after a change of the format, but
for `local.json`: that is the `run.json` of an adapter of the fixtures, whose bits depend on the
machine.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from builders import question, record, write_jsonl
from scoring.servers.loopback import serving, systemone

from pact_eval.importing.source import ImportOptions
from pact_eval.importing.writing import import_run
from pact_eval.runs.provenance import Provenance, RunLabels
from pact_eval.scoring.servers.request import ServerRequest
from pact_eval.scoring.servers.source import server_source
from pact_eval.scoring.windows import read_dataset, score_windows

RECORDED: Final = Path(__file__).parent / "recorded"
LABELS: Final[RunLabels] = {
    "arm": "theirs",
    "seed": 3,
    "role": "calibration",
    "command_line": ["pact-eval"],
}
# What differs from process to process, and what depends on the machine.
OF_A_PROCESS: Final = (
    (r'"(created|finished)": "[^"]*"', r'"\1": "time"'),
    (r'"(wall_seconds|largest_tv|least_change|end_largest_tv)": [0-9.e+-]+', r'"\1": 0.5'),
    (r'"versions": \{[^}]*\}', '"versions": {}'),
    (r"Python/[0-9.]+", "Python/3"),
    (r'"(predictions_sha256|provenance_sha256|unanswered_sha256)": "[^"]*"', r'"\1": "sha256"'),
    (r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:8000"),
)


def imported(folder: Path) -> None:
    """An import of rounded probabilities, with an item that has no answer."""
    rows = [
        {"id": f"i{n}", "gold": n % 3, "probabilities": [0.25, 0.0, 0.75], "topic": "law"}
        for n in range(5)
    ]
    without = {"n_choices": 3, "status": "refused", "reason": "no", "topic": "law"}
    rows.append({"id": "last", "gold": 1, **without})
    options = ImportOptions(domain_from="topic")
    import_run(write_jsonl(folder / "rows.jsonl", rows), folder / "run", LABELS, options)


def served(folder: Path) -> None:
    """A run of a server that is probed first."""
    data = write_jsonl(
        folder / "holdout.jsonl",
        [record(f"f{n}", decision=question(n=3), state=f"Clerk {n}.") for n in range(3)],
    )
    with serving(systemone) as server:
        source = server_source(ServerRequest(urls=(server.url,), model="mine", concurrency=1))
        score_windows(source, read_dataset(data, k=2), folder / "run", labels=LABELS)


MAKERS: Final[dict[str, Callable[[Path], None]]] = {"imported": imported, "served": served}


def without_process(text: str, folder: Path) -> str:
    """Returns the text of a `run.json` without what differs between two processes."""
    text = text.replace(str(folder), "folder")
    for pattern, instead in OF_A_PROCESS:
        text = re.sub(pattern, instead, text)
    return text


def made(name: str, folder: Path) -> str:
    MAKERS[name](folder)
    return without_process((folder / "run" / "run.json").read_text(), folder)


@pytest.mark.parametrize("name", MAKERS)
def test_new_runs_have_the_bytes_of_recorded_ones(name: str, tmp_path: Path) -> None:
    assert made(name, tmp_path) == (RECORDED / f"{name}.json").read_text()


@pytest.mark.parametrize("name", ["imported", "served", "local"])
def test_sections_are_written_as_they_are_read(name: str) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    run = Provenance.of(recorded)
    sections: dict[str, Any] = {"counts": run.counts, "seal": run.seal}
    if name == "imported":
        sections |= {"rounding": run.rounding}
    elif name == "served":
        sections |= {"server": run.server, "probe": run.probe}
    else:
        sections |= {"engine": run.engine}
    of_settings: dict[str, Any] = {"data": run.data}
    if name == "local":
        of_settings |= {"adapter": run.adapter, "base": run.base, "contract": run.contract}
    for values, typed in ((recorded, sections), (recorded["settings"], of_settings)):
        for key, section in typed.items():
            order = sorted if key == "seal" else list
            assert order(section.to_json().items()) == order(values[key].items()), key


if __name__ == "__main__":
    import tempfile

    for maker in MAKERS:
        with tempfile.TemporaryDirectory() as home:
            RECORDED.mkdir(exist_ok=True)
            (RECORDED / f"{maker}.json").write_text(made(maker, Path(home)))
    sys.exit()
