"""Scoring on a device: our engines and lm-evaluation-harness' HFLM, and what their precision costs.

    python benchmarks/scoring_device.py --device cuda --shape 8b --write benchmarks/performance.md

The model is a randomly initialised Qwen3 of the requested shape and precision, with the prompts of
`scoring.py` at K = 1 and K = 4. Contestants take turns, block after block. Before, each scores some
views, which are compared with one plain pass per prompt of the same weights in float32: two engines
whose answers differ in bfloat16 may both be as near to it. `--shape small` tests the script on any
machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

import numpy as np
import torch
import transformers
from common import (
    NOT_MEASURED,
    Contest,
    chosen_options,
    installed,
    machine,
    markdown_table,
    parser,
    publish,
    versions,
)
from scipy.special import log_softmax
from scoring import FIXTURES, PROMPT_TOKENS, SEED, harness, make_items, ours

from pact_eval.prompts.encoding import EncodedView, Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.cpu import float32_products, keep_freed_memory
from pact_eval.scoring.scorer import one_by_one

SHAPES: Final[dict[str, dict[str, int]]] = {
    "small": {
        "vocab_size": 4096,
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
    },
    "8b": {
        "vocab_size": 151_936,
        "hidden_size": 4096,
        "intermediate_size": 12_288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
}
"""Qwen3-8B as published, and a small one."""

LogProbs = list["np.ndarray[Any, np.dtype[np.float64]]"]
"""The log-probabilities of each view's letters, over its letters, in the order shown."""


def check_device(device: str) -> None:
    """Check that this machine has the device.

    Raises:
        SystemExit: it is a GPU, and torch sees none.
    """
    if device != "cpu" and not torch.cuda.is_available():
        message = f"--device {device}: expected a GPU that torch can use, found none; use cpu"
        raise SystemExit(message)


def make_model(shape: str, device: str, dtype: str) -> Any:
    """Return a random Qwen3, made on the device."""
    config = transformers.Qwen3Config(
        **SHAPES[shape], max_position_embeddings=40_960, tie_word_embeddings=False
    )
    torch.manual_seed(SEED)
    with torch.device(device):
        model: Any = transformers.AutoModelForCausalLM.from_config(
            config, dtype=getattr(torch, dtype)
        )
    return model.eval()


def peak_memory(work: Any, device: str) -> str:
    """Run once and return the peak of allocated memory, in GiB; a dash without CUDA."""
    if not device.startswith("cuda"):
        return "–"
    torch.cuda.reset_peak_memory_stats()
    work()
    return f"{torch.cuda.max_memory_allocated() / 2**30:.1f}"


def of_ours(views: Sequence[EncodedView], scored: Any) -> LogProbs:
    """Return the log-probabilities of our scores, which have the canonical order."""
    return [
        log_softmax(score.logits.astype(float))[[*view.code_order]]
        for view, score in zip(views, scored, strict=True)
    ]


def of_harness(views: Sequence[EncodedView], replies: Any) -> LogProbs:
    """Return the log-probabilities of HFLM's replies: over its letters, not over all tokens."""
    values = iter(reply[0] for reply in replies)
    return [log_softmax([next(values) for _ in view.code_order]) for view in views]


def precision_rows(exact: LogProbs, scored: Mapping[str, LogProbs]) -> list[list[str]]:
    """Compare scores with those of float32.

    Returns:
        For each name: the mean and the largest difference of a log-probability, the number of other
        answers, and the largest lead that the answer of float32 had where another one was given.
    """
    rows = []
    for name, views in scored.items():
        off = np.concatenate([np.abs(a - b) for a, b in zip(views, exact, strict=True)])
        leads = [
            float(b.max() - b[a.argmax()])
            for a, b in zip(views, exact, strict=True)
            if a.argmax() != b.argmax()
        ]
        flips = f"{len(leads)} of {len(exact)}"
        rows.append(
            [name, f"{off.mean():.1e}", f"{off.max():.1e}", flips, f"{max(leads, default=0):.1e}"]
        )
    return rows


def compare_precision(
    model: Any, tokenizer: Any, views: Sequence[EncodedView], batch_tokens: int, size: int
) -> list[list[str]]:
    """Return the rows of `precision_rows` for our engines and HFLM."""
    device = next(model.parameters()).device
    with float32_products(device, torch.float32):
        exact = of_ours(views, one_by_one(deepcopy(model).float(), views))
    scored = {
        "one plain pass per prompt": of_ours(views, one_by_one(model, views)),
        "fork": of_ours(views, ours(model, views, "fork", batch_tokens)()),
        "batched": of_ours(views, ours(model, views, "batched", batch_tokens)()),
    }
    if installed("lm-eval"):
        for batch in (1, size):
            replies = harness(model, tokenizer, views, batch)()
            scored[f"HFLM, batches of {batch}"] = of_harness(views, replies)
    return precision_rows(exact, scored)


def speed_rows(
    model: Any,
    tokenizer: Any,
    views: Mapping[int, Sequence[EncodedView]],
    chosen: argparse.Namespace,
) -> list[list[str]]:
    """Time our engines and HFLM in turns.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        views: those of all records, by K.
        chosen: options of the command.

    Returns:
        For each contestant: items per second, its time over that of fork at K = 4, and its peak of
        memory.
    """
    contestants: dict[str, Callable[[], object]] = {
        f"{engine}, K = {k}": ours(model, of_k, engine, chosen.batch_tokens)
        for k, of_k in views.items()
        for engine in ("fork", "batched")
    }
    contestants |= {
        f"HFLM in batches of {size}, K = {k}": harness(model, tokenizer, of_k, size)
        for k, of_k in views.items()
        for size in ((1, chosen.batch) if installed("lm-eval") else ())
    }
    contest = Contest(contestants)
    contest.run(chosen.blocks)
    items = len(views[1])
    return [
        [
            name,
            f"{items / contest.seconds(name):.2f}",
            f"{contest.ratio(name, 'fork, K = 4'):.2f}",
            peak_memory(work, chosen.device),
        ]
        for name, work in contestants.items()
    ]


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__)
    options.add_argument("--device", default="cpu", help="cpu or cuda")
    options.add_argument("--shape", choices=list(SHAPES), default="small")
    options.add_argument("--dtype", default="bfloat16", help="dtype of the weights")
    options.add_argument("--pairs", type=int, default=32, help="pairs to score")
    options.add_argument("--compared", type=int, default=64, help="views to compare with float32")
    options.add_argument("--batch-tokens", type=int, default=32_768, help="tokens per pass")
    options.add_argument("--batch", type=int, default=16, help="prompts of a batch of HFLM")
    options.add_argument("--tokens", type=int, default=PROMPT_TOKENS, help="of a prompt, at least")
    chosen = chosen_options(options, blocks=1, pairs=1, tokens=1)
    check_device(chosen.device)
    transformers.utils.logging.set_verbosity_error()
    if chosen.device == "cpu":
        keep_freed_memory()  # for all engines
    tokenizer = transformers.AutoTokenizer.from_pretrained(FIXTURES / "model")
    encoder = Encoder(tokenizer, NIMBLE)
    items = make_items(encoder, chosen.pairs, chosen.tokens).pairs
    model = make_model(chosen.shape, chosen.device, chosen.dtype)
    views = {k: encoder.encode(items, k, SEED) for k in (1, 4)}
    compared = views[4][: chosen.compared]
    precision = compare_precision(model, tokenizer, compared, chosen.batch_tokens, chosen.batch)
    rows = speed_rows(model, tokenizer, views, chosen)
    lacking = "" if installed("lm-eval") else f" HFLM: {NOT_MEASURED}, lm-eval is not installed."
    heads = ["engine", "mean difference", "largest", "other answers", "their largest lead"]
    parts = [
        f"{machine(chosen.device)}; {versions('torch', 'transformers', 'lm-eval')}; "
        f"{chosen.blocks} blocks. A random Qwen3 of shape {chosen.shape} in {chosen.dtype}, "
        f"{len(items)} records in pairs, "
        f"{np.mean([len(view.token_ids) for view in views[4]]):.0f} tokens per prompt.{lacking}",
        markdown_table(
            ["engine", "items per second", "time / fork K = 4", "peak memory, GiB"], rows
        ),
        f"Log-probabilities of {len(compared)} views against one pass per prompt in float32:",
        markdown_table(heads, precision),
    ]
    publish("scoring-device", "\n\n".join(parts), chosen.write)


if __name__ == "__main__":
    main()
