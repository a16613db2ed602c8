"""A model that answers with a space before the letter: the run says how much, and so do reports."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from tolerances import PROBABILITY

import pact_eval
from pact_eval.data.records import read_records
from pact_eval.evaluation.settings import Settings
from scoring.conftest import HOLDOUT, MODEL

FIRST = 4  # records with which an engine is checked


@pytest.mark.slow
def test_the_form_with_the_higher_mass_is_named(tmp_path: Path) -> None:
    # The rows of "A" and " A" change places, so " A" gets exactly what "A" had.
    swapped = tmp_path / "swapped"
    shutil.copytree(MODEL, swapped)
    vocabulary = json.loads((MODEL / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    tensors = load_file(swapped / "model.safetensors")
    output = tensors["lm_head.weight"]
    for letter in "AB":
        pair = [vocabulary[letter], vocabulary[f"Ġ{letter}"]]
        output[pair] = output[pair[::-1]].clone()
    save_file(tensors, swapped / "model.safetensors", metadata={"format": "pt"})
    data = tmp_path / "booleans.jsonl"
    booleans = [one.line - 1 for one in read_records(HOLDOUT) if one.field.kind == "boolean"]
    lines = HOLDOUT.read_text("utf-8").split("\n")
    data.write_text("".join(f"{lines[at]}\n" for at in booleans[:FIRST]), "utf-8")
    runs = [
        pact_eval.score(
            data,
            tmp_path / "runs" / base.name,
            base_model=str(base),
            no_adapter=True,
            k=2,
            attention="fused",
        )
        for base in (MODEL, swapped)
    ]
    expected = float(runs[0].predictions.answer_mass[:, 0].mean())
    assert expected > 0.9
    named = runs[1].provenance.other_letters
    assert named is not None
    assert named.first == " A"
    assert named.mass == pytest.approx(expected, abs=PROBABILITY)
    assert runs[0].provenance.other_letters is None
    settings = Settings(resamples=100)
    texts = [str(pact_eval.evaluate(run.folder, settings)) for run in runs]
    assert ['letters such as " A"' in " ".join(text.split()) for text in texts] == [False, True]
