"""The kernels of attention: forced, each against its golden logits, and chosen by a probe.

`python tests/scoring/test_attention_kernels.py` writes the golden logits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
import transformers
from messages import assert_says
from steps import Steps

from pact_eval.data.records import read_records
from pact_eval.errors import RunError
from pact_eval.progress import watched
from pact_eval.prompts.encoding import EncodedView, Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.runs.folder import read_run
from pact_eval.runs.provenance import RecordedEngine, read_provenance
from pact_eval.scoring import cpu
from pact_eval.scoring import score as scoring
from pact_eval.scoring.cpu import (
    HeadShape,
    fastest_kernel,
    least_seconds,
    typical_passes,
)
from pact_eval.scoring.model import ScoringModel, identify
from pact_eval.scoring.request import AttentionName, KernelName, ModelRequest
from pact_eval.scoring.score import score
from pact_eval.scoring.scorer import Scorer, largest_difference, one_by_one
from pact_eval.scoring.shared_prefix_attention import DEFAULT_KERNEL
from pact_eval.scoring.windows import read_dataset
from scoring.conftest import HOLDOUT, MODEL, SMALL, random_model

NAMES = get_args(KernelName)
GOLDEN = Path(__file__).parent / "golden_logits.json"

ROUNDING = 2e-5
"""Largest difference between the logits of two float32 computations of the same model here."""


def _views() -> list[EncodedView]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    return Encoder(tokenizer, NIMBLE).encode(read_records(HOLDOUT)[::40], k=3, seed=1)


def _model() -> Any:
    vocabulary = len(transformers.AutoTokenizer.from_pretrained(MODEL))
    return random_model(
        "Qwen3", vocab_size=vocabulary, num_hidden_layers=3, max_position_embeddings=4096,
        tie_word_embeddings=False, **SMALL,
    )  # fmt: skip


@pytest.fixture(scope="module")
def views() -> list[EncodedView]:
    return _views()


def test_forced_kernels_against_their_golden_logits_and_the_plain_pass(
    views: list[EncodedView],
) -> None:
    model = _model()
    plain, golden = one_by_one(model, views), json.loads(GOLDEN.read_text(encoding="utf-8"))
    of_kernels = []
    for kernel in NAMES:
        scorer = Scorer(model, 4096, "fork", kernel)
        scored = scorer.score(views)
        assert scorer.facts["attention_kernel"] == kernel
        assert largest_difference(scored, plain) < ROUNDING
        for view, logits in zip(scored, golden[kernel], strict=True):
            np.testing.assert_allclose(view.logits, logits, atol=ROUNDING, rtol=0)
        assert np.ptp(np.concatenate(golden[kernel])) > 1  # equal logits would show nothing
        of_kernels.append(scored)
    assert largest_difference(*of_kernels) > 0  # a kernel that rounds as the other was not forced


def test_a_probe_keeps_the_default_unless_the_other_is_clearly_faster(
    views: list[EncodedView], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seconds, chosen in ((0.96, DEFAULT_KERNEL), (0.94, "products")):
        times = {"fused": 1.0, "products": seconds}
        monkeypatch.setattr(cpu, "least_seconds", lambda *_args, times=times: times)
        assert fastest_kernel(HeadShape(2, 2, 16), views[:8]) == chosen


class _Clock:
    """A clock that goes on only while a kernel works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: Sequence[float]) -> Callable[[], None]:
        left = [*seconds]

        def turn() -> None:
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return turn


@pytest.mark.parametrize(
    ("first", "later", "turns"), [(0.02, 0.01, 8), (0.07, 0.01, 6), (0.15, 0.15, 1)]
)
def test_a_probe_ends_in_time(first: float, later: float, turns: int) -> None:
    clock = _Clock()
    work: dict[KernelName, Callable[[], object]] = {
        "fused": clock.work([first, later]),
        "products": clock.work([later]),
    }
    seconds = least_seconds(work, 0.2, clock, clock)
    assert clock.now == pytest.approx(first + later + 2 * (turns - 1) * later)
    assert clock.now <= max(0.2, first + later)
    assert seconds["fused"] == pytest.approx(first if turns == 1 else later)


def test_the_passes_of_a_probe_have_the_lengths_of_the_data(views: list[EncodedView]) -> None:
    (_, branch), (ahead, leaves) = typical_passes(views)
    prompts = [len(view.token_ids) for view in views]
    assert max(branch) < max(prompts)
    assert ahead + max(leaves) in prompts
    assert 1 < len(leaves) <= len(views)
    assert typical_passes(views[:1]) == [(0, [prompts[0] - 1]), (prompts[0] - 1, [1])] or (
        typical_passes(views[:1]) == [(0, [prompts[0]])]
    )


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"num_attention_heads": 10**12, "head_dim": 10**12},
        {"num_attention_heads": -1, "num_key_value_heads": "2", "hidden_size": 1.5},
        {"text_config": {"num_attention_heads": 3, "num_key_value_heads": 7}},
        {"text_config": []},
    ],
)
def test_any_configuration_gives_heads_that_can_be_probed(
    config: dict[str, Any], views: list[EncodedView]
) -> None:
    assert fastest_kernel(HeadShape.of(config), views[:2]) in NAMES


def _identified(attention: AttentionName) -> ScoringModel:
    adapter = MODEL.parent / "adapters" / "pact"
    return identify(ModelRequest(adapter, str(MODEL), attention=attention))


def _forced_probe(monkeypatch: pytest.MonkeyPatch, kernel: KernelName) -> None:
    monkeypatch.setattr(scoring, "fastest_kernel", lambda *_args: kernel)


def _engine(run: Path) -> RecordedEngine:
    return read_provenance(run).engine


@pytest.mark.slow
@pytest.mark.parametrize("chosen", NAMES)
def test_a_resumed_run_keeps_the_kernel_that_it_recorded(
    chosen: KernelName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are those of a run with this kernel, whatever a probe says on resuming."""
    other = NAMES[1 - NAMES.index(chosen)]
    dataset, model = read_dataset(HOLDOUT, k=1, limit=66), _identified("auto")
    _forced_probe(monkeypatch, chosen)
    with pytest.raises(KeyboardInterrupt), watched(Steps(stop_after="part-000000.parquet")):
        score(model, dataset, tmp_path / "run", labels={})
    assert _engine(tmp_path / "run") == RecordedEngine(attention_kernel=chosen)
    _forced_probe(monkeypatch, other)
    score(model, dataset, tmp_path / "run", labels={})
    assert _engine(tmp_path / "run").attention_kernel == chosen
    score(_identified(chosen), dataset, tmp_path / "forced", labels={})
    rows = [(tmp_path / name / "predictions.parquet").read_bytes() for name in ("run", "forced")]
    assert rows[0] == rows[1]
    assert "attention" not in read_run(tmp_path / "run").settings
    assert read_run(tmp_path / "forced").settings["attention"] == chosen


@pytest.mark.slow
@pytest.mark.parametrize("recorded", [None, "slow"])
def test_a_run_without_a_kernel_of_ours_resumes_with_the_default_or_not_at_all(
    recorded: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions recorded none, and used the fused one; a name that is none is refused."""
    dataset, model = read_dataset(HOLDOUT, k=1, limit=66), _identified("auto")
    _forced_probe(monkeypatch, "fused")
    with pytest.raises(KeyboardInterrupt), watched(Steps(stop_after="part-000000.parquet")):
        score(model, dataset, tmp_path / "run", labels={})
    path = tmp_path / "run" / "run.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    if recorded is None:
        del value["engine"]
    else:
        value["engine"]["attention_kernel"] = recorded
    path.write_text(json.dumps(value), encoding="utf-8")
    _forced_probe(monkeypatch, "products")
    if recorded is None:
        score(model, dataset, tmp_path / "run", labels={})
        assert _engine(tmp_path / "run").attention_kernel == "fused"
        return
    with pytest.raises(RunError) as caught:
        score(model, dataset, tmp_path / "run", labels={})
    assert_says(str(caught.value), "attention_kernel", "expected fused or products", "'slow'")


def test_other_engines_record_no_kernel(views: list[EncodedView]) -> None:
    scorer = Scorer(_model(), 4096, "batched")
    scorer.score(views[:2])
    assert "attention_kernel" not in scorer.facts


def _write_golden() -> None:
    model, views = _model(), _views()
    with torch.inference_mode():
        golden = {
            kernel: [
                [round(float(logit), 6) for logit in view.logits]
                for view in Scorer(model, 4096, "fork", kernel).score(views)
            ]
            for kernel in NAMES
        }
    GOLDEN.write_text(json.dumps(golden) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write_golden()
