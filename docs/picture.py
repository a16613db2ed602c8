"""The picture of README and home: a page of two made runs, one of which follows the letter A.

    python docs/picture.py FOLDER            # writes FOLDER/picture.html and FOLDER/picture.png
    python docs/picture.py FOLDER letters    # compared with the other run first

Both runs answer the questions of the demo, whose texts are in the page. `reads` is calibrated: its
answer is drawn from its probabilities. `letters` is less accurate, prefers the letter A and is too
sure. The demo's own runs differ in nothing that 324 items can show.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

import pact_eval
from pact_cli.main import main as evaluation
from pact_eval.data.records import Record
from pact_eval.prompts.contract import code_orders

DATA: Final = (
    Path(__file__).resolve().parents[1] / "fixtures" / "pact_fixtures" / "data" / "holdout.jsonl"
)
VIEWS: Final = 4
SIZE: Final = (1180, 1080)
"""Of the picture, in pixels."""


def write_rows(
    path: Path, records: list[Record], *, spread: float, letter_a: float, sharpness: float
) -> None:
    """Write one row per record and view.

    Args:
        path: the file.
        records: the questions.
        spread: of the logits of the answers, in nats: more means more accurate.
        letter_a: what the letter A adds to the logit of its answer.
        sharpness: factor of the logits; above 1, the run is too sure.
    """
    rng = np.random.default_rng(17)
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            n_answers = len(record.field.answers)
            logits = rng.normal(scale=spread, size=n_answers)
            drawn = rng.choice(n_answers, p=_softmax(logits))
            reference = record.reference or 0  # the demo's records all have one
            logits[[drawn, reference]] = logits[[reference, drawn]]
            orders = code_orders(17, record.id, n_answers, VIEWS)
            for view, order in enumerate(orders):
                noisy = logits + rng.normal(scale=0.1, size=n_answers)
                noisy[order[0]] += letter_a
                row = {
                    "id": record.id,
                    "view": view,
                    "code_order": list(order),
                    "family": record.family,
                    "source_family": record.source_family,
                    "kind": record.field.kind,
                    "domain": record.domain,
                    "variant": record.variant,
                    "reference": record.reference,
                    "probabilities": _softmax(sharpness * noisy).tolist(),
                }
                file.write(json.dumps(row) + "\n")


def write_page(folder: Path, method: str) -> Path:
    """Write the runs and their page, with one of them first; return its path."""
    records = pact_eval.read_records(DATA)
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "reads.jsonl", records, spread=3.5, letter_a=0.0, sharpness=1.0)
    write_rows(folder / "letters.jsonl", records, spread=2.0, letter_a=1.5, sharpness=1.5)
    runs = [folder / name for name in ("reads", "letters")]
    for run in runs:
        pact_eval.import_run(run.with_suffix(".jsonl"), run, arm=run.name)
    page = folder / "picture.html"
    arguments = ["report", *map(str, runs), "--html", str(page), "--method", method]
    evaluation([*arguments, "--data", str(DATA)], standalone_mode=False)
    return page


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())


def _photograph(page: Path, picture: Path) -> None:
    """Take a picture of the first screen with the system's Chromium."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("expected chromium or google-chrome on the path")
    size = f"--window-size={SIZE[0]},{SIZE[1]}"
    flags = ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=10000")
    command = [browser, *flags, size, f"--screenshot={picture}", page.resolve().as_uri()]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - a fixed command


if __name__ == "__main__":
    written = write_page(Path(sys.argv[1]), (*sys.argv[2:], "reads")[0])
    _photograph(written, written.with_suffix(".png"))
