"""Quantised bases. Source of truth: how transformers loads them, with bitsandbytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from commands import command_line, refuser, runner
from messages import assert_says

from pact_cli.main import main
from pact_eval.errors import AdapterError, RunSettingsError
from pact_eval.export import export_adapter
from pact_eval.runs.folder import read_run
from pact_eval.scoring.model import ScoringModel, identify
from pact_eval.scoring.quantisation import quantisation_remarks
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.score import score
from pact_eval.scoring.scorer import TOLERANCE, one_by_one
from pact_eval.scoring.windows import read_dataset
from scoring.conftest import FIXTURES, HOLDOUT, MODEL

ADAPTER = FIXTURES / "adapters" / "pact"
NF4 = transformers.BitsAndBytesConfig(
    load_in_4bit=True,
    bnb_4bit_quant_type="nf4",
    bnb_4bit_use_double_quant=True,
    bnb_4bit_compute_dtype=torch.bfloat16,
)
run = runner(main)
refused = refuser(main)
pytestmark = pytest.mark.slow


def request(**options: Any) -> ModelRequest:
    # Without a probe: two runs are compared bit for bit.
    fixed: dict[str, Any] = {"quantize": "nf4", "attention": "fused"}
    return ModelRequest(ADAPTER, str(MODEL), **(fixed | options))


@pytest.fixture(scope="module")
def model() -> ScoringModel:
    return identify(request())


@pytest.fixture(scope="module")
def views(model: ScoringModel) -> Any:
    dataset = read_dataset(HOLDOUT, k=2, limit=3)
    return model.encoder.encode(dataset.records, 2, 0)


def theirs() -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(
        MODEL, dtype=torch.bfloat16, quantization_config=NF4, device_map={"": "cpu"}
    ).eval()


def test_a_base_alone_against_transformers(views: Any) -> None:
    ours = identify(request(apply_adapter=False)).load().model
    plain = identify(request(apply_adapter=False, quantize=None, dtype="bf16")).load().model
    reference, moved = theirs(), 0.0
    with torch.no_grad():
        for view in views:
            ids = torch.tensor([view.token_ids])
            logits = reference(ids).logits[0, -1, list(view.code_tokens)]
            assert torch.equal(ours(ids).logits[0, -1, list(view.code_tokens)], logits)
            full = plain(ids).logits[0, -1, list(view.code_tokens)]
            moved = max(moved, float((full - logits).abs().max()))
    assert moved > 0.05  # four bits are not full precision under another name


def test_engines_are_checked_against_the_plain_pass_of_the_quantised_model(
    model: ScoringModel, views: Any
) -> None:
    loaded = model.load()
    scored = loaded.scorer.score(views)
    facts = loaded.scorer.facts
    check: Any = facts["check"]
    assert facts["name"] == "fork"
    assert loaded.scorer.dtype == torch.bfloat16
    assert 0 < check["largest_logit_difference"] <= TOLERANCE[torch.bfloat16]
    oracle = one_by_one(loaded.model, views)
    full = one_by_one(identify(request(quantize=None, dtype="bf16")).load().model, views)
    gap = max(np.abs(a.logits - b.logits).max() for a, b in zip(scored, oracle, strict=True))
    other = max(np.abs(a.logits - b.logits).max() for a, b in zip(scored, full, strict=True))
    assert gap < other / 2


def test_the_run_records_it_is_repeatable_and_resumes_with_nothing_else(
    model: ScoringModel, tmp_path: Path
) -> None:
    dataset = read_dataset(HOLDOUT, k=1, limit=2)
    score(model, dataset, tmp_path / "run", labels={"arm": "pact", "seed": 17})
    recorded = read_run(tmp_path / "run")
    settings = recorded.settings
    assert settings["quantisation"] == {"method": "nf4", "double": True, "compute": "bfloat16"}
    assert (settings["dtype"], recorded.provenance.quantisation) == ("bfloat16", "nf4")
    assert "bitsandbytes" in recorded.provenance.versions
    assert (recorded.arm, recorded.title) == ("pact (nf4)", f"{tmp_path / 'run'} (nf4)")
    score(model, dataset, tmp_path / "again", labels={"arm": "pact", "seed": 17})
    files = [(tmp_path / name / "predictions.parquet").read_bytes() for name in ("run", "again")]
    assert files[0] == files[1]  # bit for bit
    full = identify(request(quantize=None, dtype="bf16"))
    with pytest.raises(RunSettingsError, match=r'quantisation.method: .*"nf4"'):
        score(full, dataset, tmp_path / "run", labels={"arm": "pact", "seed": 17})
    score(full, dataset, tmp_path / "full", labels={"arm": "pact", "seed": 17})
    assert "quantisation" not in read_run(tmp_path / "full").settings
    with pytest.raises(RunSettingsError, match='this command "nf4"'):
        score(model, dataset, tmp_path / "full", labels={"arm": "pact", "seed": 17})


@pytest.mark.parametrize("name", ["INT8", "llm.int8()"])
def test_int8_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(AdapterError, match="flipped 12 answers in 80"):
        identify(request(quantize=name))
    message = refused("score", ADAPTER, "--quantize", name, code=2)
    assert "flipped 12 answers in 80" in message


def test_other_methods_and_precisions_are_refused() -> None:
    with pytest.raises(AdapterError, match="expected nf4, got 'fp4'"):
        identify(request(quantize="fp4"))
    for dtype in ("fp32", "fp16"):
        with pytest.raises(AdapterError, match="computes in bf16"):
            identify(request(dtype=dtype))
    assert identify(request(dtype="bf16")).dtype == torch.bfloat16


def test_layers_that_bitsandbytes_cannot_compute_are_named(qwen3: Path) -> None:
    """The first forward pass ended in a traceback, of a shape that nobody had asked for."""
    identified = identify(ModelRequest(None, str(qwen3), quantize="nf4"))
    with pytest.raises(AdapterError, match=r"down_proj has 96 .*multiple of 64"):
        identified.load()


def test_merged_adapters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="leave out merge"):
        identify(request(merge=True))
    export_adapter(ADAPTER, tmp_path / "merged", layout="merged", base_model=str(MODEL))
    with pytest.raises(AdapterError, match="merged into this model"):
        identify(ModelRequest(tmp_path / "merged", quantize="nf4"))
    export_adapter(ADAPTER, tmp_path / "with-base", layout="with-base", base_model=str(MODEL))
    kept = identify(ModelRequest(tmp_path / "with-base", quantize="nf4"))
    assert kept.adapter is not None


def test_a_base_that_is_stored_quantised(tmp_path: Path, views: Any) -> None:
    stored = tmp_path / "stored"
    shutil.copytree(MODEL, stored)
    (stored / "model.safetensors").unlink()
    theirs().save_pretrained(stored)
    with pytest.raises(AdapterError, match=r"already quantised \(nf4\)"):
        identify(ModelRequest(None, str(stored), quantize="nf4"))
    identified = identify(ModelRequest(None, str(stored), dtype="bf16"))
    assert identified.settings["quantisation"] == {"method": "nf4", "stored": True}
    ours = one_by_one(identified.load().model, views)
    expected = one_by_one(theirs(), views)
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(one.logits, other.logits)
    config = stored / "config.json"
    config.write_text(config.read_text().replace('"load_in_8bit": false', '"load_in_8bit": true'))
    with pytest.raises(AdapterError, match="stored in int8.*refused"):
        identify(ModelRequest(None, str(stored)))


def _python(code: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    search_path = os.pathsep.join([*map(str, paths), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": search_path, "HF_HUB_OFFLINE": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip


def test_no_code_is_loaded_from_the_hub_and_no_compiler(tmp_path: Path) -> None:
    """A package `kernels` that tells when bitsandbytes asks it for code."""
    (tmp_path / "kernels.py").write_text(
        "__version__ = '0.12.0'\n\ndef get_kernel(*name, **options):\n    print('ASKED', name)\n"
    )
    if "ASKED" not in _python("import bitsandbytes", tmp_path).stdout:
        pytest.skip("bitsandbytes asks for no code on this processor")
    done = _python(
        "import sys, pact_eval.scoring.model, bitsandbytes, kernels; print(kernels); "
        "print('compiler:', 'torch._inductor.compile_fx' in sys.modules)",
        tmp_path,
    )
    assert "ASKED" not in done.stdout
    assert "kernels.py" in done.stdout  # others find the package as before
    assert "kernels" not in done.stderr
    assert "compiler: False" in done.stdout


def test_missing_kernels_are_named_and_products_are_the_same(
    views: Any, model: ScoringModel, tmp_path: Path
) -> None:
    """bitsandbytes without its compiled libraries: its own plain torch."""
    origin = Path(str(getattr(find_spec("bitsandbytes"), "origin", None))).parent
    shutil.copytree(origin, tmp_path / "bitsandbytes", ignore=shutil.ignore_patterns("*.so"))
    code = f"""
import json, sys
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.quantisation import quantisation_remarks
from pact_eval.scoring.windows import read_dataset
import pathlib
model = identify(ModelRequest(pathlib.Path({str(ADAPTER)!r}), {str(MODEL)!r}, quantize="nf4"))
print(*quantisation_remarks(model.quantisation), sep="\\n", file=sys.stderr)
records = read_dataset(pathlib.Path({str(HOLDOUT)!r}), k=1, limit=1).records
scored = model.load().scorer.score(model.encoder.encode(records, 1, 0))
print(json.dumps([each.logits.tolist() for each in scored]))
"""
    plain = _python(code, tmp_path)
    assert_says(plain.stderr, "no compiled kernels")
    assert not any("no compiled" in remark for remark in quantisation_remarks(model.quantisation))
    compiled = model.load().scorer.score(views[:1])
    for plain_logits, view in zip(json.loads(plain.stdout), compiled, strict=True):
        assert np.abs(np.array(plain_logits) - view.logits).max() < TOLERANCE[torch.bfloat16] / 2


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    code = f"""
import pathlib, sys
sys.modules["bitsandbytes"] = None
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "bitsandbytes" else real(name, *rest)
from pact_eval.errors import MissingExtraError
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
try:
    identify(ModelRequest(pathlib.Path({str(ADAPTER)!r}), {str(MODEL)!r}, quantize="nf4"))
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run(
        command_line("python", "-c", code), capture_output=True, text=True, check=True
    )
    assert_says(done.stdout, "pip install", "constraints.txt", ".[model,quantize]")
