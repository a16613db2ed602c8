"""Exported folders load in transformers, by its pipeline and its server, and answer as we do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import transformers
from adapters import MODEL, copied
from commands import command_line, refuser, runner, with_settings
from decision_models import TEMPLATES, write_decision_folder
from messages import assert_says
from run_frames import edit_run, rows, write_run
from tolerances import MERGED_PROBABILITY, PROBABILITY
from transformers_server import serving

from pact_cli.main import main
from pact_eval._json import Json
from pact_eval.calibration.temperatures import (
    Calibrator,
    Weights,
    inverse_softplus,
    write_calibrator,
)
from pact_eval.data.records import Record, read_records
from pact_eval.errors import PromptError
from pact_eval.export import answered
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.templates.contract import DecisionTemplate
from pact_eval.templates.files import nimble_template, read_decision_files

run, refused = runner(main), refuser(main)
HOLDOUT = MODEL.parent / "data" / "holdout.jsonl"
LAYOUTS = {
    "A": (),
    "B": (
        "--layout",
        "with-base",
    ),
    "D": (
        "--layout",
        "merged",
    ),
}
TEMPERATURES = {"choice": 1.5, "noul": 0.75, "score": 2.0}


def tolerance(layout: str) -> float:
    return MERGED_PROBABILITY if layout == "D" else PROBABILITY


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter that names its base, a calibrator, and the three exports of it."""
    folder = tmp_path_factory.mktemp("exports")
    copied(folder / "adapter")
    bias = tuple(inverse_softplus(number) for number in TEMPERATURES.values())
    write_calibrator(folder / "t.json", Calibrator("per-kind", Weights(bias)))  # type: ignore[arg-type]
    for name, options in LAYOUTS.items():
        export = ("export", folder / "adapter", "--out", folder / name, *options)
        exported = json.loads(
            run(*export, "--calibrator", folder / "t.json", "--data", HOLDOUT, "--json").stdout
        )
        assert exported["prompts_compared"] > 200
        assert exported["temperatures"] == pytest.approx(TEMPERATURES)
        assert exported["largest_difference"] < tolerance(name)
        assert exported["stored_precision"] == "bfloat16"
        assert 1e-4 < exported["stored_difference"] < 0.05
        assert "stored in bfloat16" in (folder / name / "README.md").read_text("utf-8")
    return folder


@pytest.fixture(scope="module")
def expected(home: Path) -> list[tuple[Record, list[float]]]:
    """Our probabilities of view 0 at the temperatures, for a few records of every kind."""
    records = [
        [one for one in read_records(HOLDOUT) if one.field.kind == kind][n]
        for kind in ("choice", "boolean", "score")
        for n in range(3)
    ]
    model = identify(ModelRequest(home / "adapter")).load()
    scored = model.scorer.score(model.source.encoder.encode(records, 1, 0))
    shipped = {"choice": 1.5, "boolean": 0.75, "score": 2.0}
    pairs = []
    for one, view in zip(records, scored, strict=True):
        odds = np.exp((view.logits - view.logits.max()) / shipped[one.field.kind])
        pairs.append((one, (odds / odds.sum()).tolist()))
    return pairs


def request(record: Record) -> dict[str, Any]:
    lines = [json.loads(line) for line in HOLDOUT.read_bytes().strip().split(b"\n")]
    request_input: dict[str, Any] = next(line["input"] for line in lines if line["id"] == record.id)
    return request_input


def largest_difference(ask: Any, expected: list[tuple[Record, list[float]]]) -> float:
    largest = 0.0
    for record, probabilities in expected:
        answer = ask(request(record))["decision"]
        shares = [1 - answer["noul"], answer["noul"]] if answer["type"] == "noul" else None
        if shares is None:
            shares = [answer["probabilities"][option.key] for option in record.field.answers]
        largest = max(largest, float(np.abs(np.array(shares) - probabilities).max()))
    return largest


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_pipeline_answers_as_we_do(layout: str, home: Path, expected: Any) -> None:
    folder = str(home / layout)
    more: dict[str, Any] = {"decision_config": folder} if layout == "A" else {}
    decide: Any = transformers.pipeline(
        "decision", model=folder, device="cpu", dtype="float32", **more
    )
    assert largest_difference(decide, expected) < tolerance(layout)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["B", "D"])
def test_transformers_serve_answers_as_we_do(layout: str, home: Path, expected: Any) -> None:
    with serving(home / layout) as url:

        def ask(request_body: dict[str, Any]) -> Any:
            body = {"model": str(home / layout), **request_body}
            reply = httpx2.post(f"{url}/v1/systemone", json=body, timeout=120, trust_env=False)
            assert reply.status_code == 200, reply.text
            return reply.json()["answers"]

        assert largest_difference(ask, expected) < tolerance(layout)


@pytest.mark.slow
def test_a_server_in_the_stored_precision_is_held_to_what_it_moves(
    home: Path, tmp_path: Path
) -> None:
    """An adapter that is not applied moves these answers by 0.7."""
    run("export", home / "adapter", "--out", tmp_path / "raw", "--layout", "with-base")
    words = ("--local", home / "adapter", "--wire", "systemone", "--json")
    with serving(tmp_path / "raw", "--dtype", "auto") as url:
        probe = ("score", "--probe", "--server", url, "--model", tmp_path / "raw", *words)
        parity = json.loads(run(*probe).stdout)["probe"]["parity"]
        json.loads(
            run(*probe, code=3, **with_settings(tmp_path, "score", local_dtype="fp32")).stdout
        )
    assert parity["precision"] == "bfloat16"
    assert 1e-3 < parity["largest_difference"] < parity["tolerance"] < 0.2
    assert 0 < parity["rounding"] < 0.1


@pytest.mark.slow
def test_the_three_lines_of_the_readme_load_the_folder(home: Path) -> None:
    (lines,) = re.findall(r"```python\n(.*?)```", (home / "A" / "README.md").read_text(), re.DOTALL)
    done = subprocess.run(
        command_line("python", "-c", lines.replace("decide({", "print(decide({", 1).rstrip() + ")"),
        cwd=home, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "'noul'" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_export_can_be_scored_again(layout: str, home: Path) -> None:
    model = identify(ModelRequest(home / layout))
    one = read_records(HOLDOUT)[:3]
    ours = identify(ModelRequest(home / "adapter")).encoder.encode(one, 3, 0)
    assert model.encoder.encode(one, 3, 0) == ours
    assert (model.contract is NIMBLE) == (layout == "A")  # its schema_config.json states it


@pytest.mark.slow
def test_calibrators_that_decision_json_cannot_express_are_refused(
    home: Path, tmp_path: Path
) -> None:
    def refusal(calibrator: Calibrator) -> str:
        write_calibrator(tmp_path / "t.json", calibrator)
        export = ("export", home / "adapter", "--out", tmp_path / "out")
        message = refused(*export, "--calibrator", tmp_path / "t.json")
        assert not (tmp_path / "out").exists()
        return message

    slope = Calibrator("contextual", Weights((1.0, 1.0, 1.0), log_choices=0.5))
    assert_says(refusal(slope), "depends", "number of answers")
    scalar = Weights((1.0, 1.0, 1.0))
    other: dict[str, Json] = {"run": {"adapter_sha256": "0" * 64}, "decoding": "single"}
    assert "fitted on another adapter" in refusal(Calibrator("scalar", scalar, other))
    assert "ensemble" in refusal(Calibrator("scalar", scalar, {"decoding": "ensemble"}))


@pytest.mark.slow
def test_an_export_that_would_differ_is_not_written(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    template = nimble_template(identify(ModelRequest(home / "adapter")).encoder.tokenizer)
    assert template.template is not None
    spoilt = template.template.replace("Requested field", "Requested  field")
    with monkeypatch.context() as patched:
        patched.setattr(
            "pact_eval.export.nimble_template",
            lambda _: type(template)(**{**vars(template), "template": spoilt}),
        )
        assert_says(refused("export", home / "adapter", "--out", out), "not give", "token ids")
    with monkeypatch.context() as patched:
        patched.setattr("pact_eval.export.TOLERANCE", {"float32": 0.0})
        patched.setattr("pact_eval.export.TOLERANCE", {"float32": -1.0})
        assert_says(refused("export", home / "adapter", "--out", out), "does not answer")
    assert not out.exists()
    assert not list(tmp_path.iterdir())
    assert "already exists" in refused("export", home / "adapter", "--out", home / "A")


def test_a_tokenizer_whose_control_tokens_can_be_written_is_refused() -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    tokenizer.add_special_tokens({"additional_special_tokens": ["[INST]"]})
    with pytest.raises(PromptError, match=r"control tokens \[INST\]: .*angle bracket"):
        nimble_template(tokenizer)


@pytest.mark.slow
def test_an_adapter_of_another_template_is_exported_with_it(home: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    shutil.copytree(home / "adapter", adapter)
    (adapter / "schema_config.json").unlink()
    write_decision_folder(adapter, TEMPLATES["read at a mark"] | {"temperature": {"noul": 3}})
    out = tmp_path / "out"
    run("export", adapter, "--out", out, "--base-model", MODEL, "--layout", "with-base")
    files = read_decision_files(out)
    assert files.fingerprint == read_decision_files(adapter).fingerprint
    assert (files.adapter, files.temperature) == ("adapter", {"noul": 3.0})


def test_prompts_of_the_template_are_those_of_the_contract() -> None:
    """And an export compares questions with 2 to 26 answers, and without texts."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    records = read_records(HOLDOUT)[::9]
    compared = {record.id: record.field for record in answered([]) if "contract" in record.id}
    assert [len(field.answers) for field in compared.values()] == [2, 2, 3, 26]
    assert {field.kind for field in compared.values()} == {"boolean", "choice", "score"}
    exported = Encoder(tokenizer, DecisionTemplate(nimble_template(tokenizer)))
    ours = Encoder(tokenizer, NIMBLE)
    assert exported.encode(records, 3, 0) == ours.encode(records, 3, 0)


@pytest.mark.slow
def test_results_of_another_adapter_are_not_exported(home: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", rows(1))
    edit_run(other, settings={"adapter": {"sha256": "a" * 64}})
    export = ("export", home / "adapter", "--out", tmp_path / "out")
    assert_says(refused(*export, "--results", other), "--results", str(other), "a" * 12)
    assert not (tmp_path / "out").exists()
