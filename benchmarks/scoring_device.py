"""Items per second and peak memory on a device: the fork engine and full prompts in batches.

    python benchmarks/scoring_device.py --device cuda --shape 8b --write benchmarks/performance.md

The model is a randomly initialised Qwen3 of the requested shape and precision, with the prompts of
`scoring.py` at K = 1 and K = 4. Contestants take turns, block after block. `--shape small` tests
the script on any machine.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
import transformers
from common import Contest, chosen_options, machine, markdown_table, parser, publish, versions
from scoring import FIXTURES, PROMPT_TOKENS, SEED, make_items, ours

from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.cpu import keep_freed_memory

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


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__)
    options.add_argument("--device", default="cpu", help="cpu or cuda")
    options.add_argument("--shape", choices=list(SHAPES), default="small")
    options.add_argument("--dtype", default="bfloat16", help="dtype of the weights")
    options.add_argument("--pairs", type=int, default=32, help="pairs to score")
    options.add_argument("--batch-tokens", type=int, default=32_768, help="tokens per pass")
    options.add_argument("--tokens", type=int, default=PROMPT_TOKENS, help="of a prompt, at least")
    chosen = chosen_options(options, blocks=1, pairs=1, tokens=1)
    check_device(chosen.device)
    transformers.utils.logging.set_verbosity_error()
    if chosen.device == "cpu":
        keep_freed_memory()  # for both engines
    encoder = Encoder(transformers.AutoTokenizer.from_pretrained(FIXTURES / "model"), NIMBLE)
    items = make_items(encoder, chosen.pairs, chosen.tokens).pairs
    model = make_model(chosen.shape, chosen.device, chosen.dtype)
    views = {k: encoder.encode(items, k, SEED) for k in (1, 4)}
    contestants = {
        f"{engine}, K = {k}": ours(model, views[k], engine, chosen.batch_tokens)
        for k in (1, 4)
        for engine in ("fork", "batched")
    }
    contest = Contest(contestants)
    contest.run(chosen.blocks)
    rows = [
        [name, f"{len(items) / contest.seconds(name):.2f}", peak_memory(work, chosen.device)]
        for name, work in contestants.items()
    ]
    ratios = [
        f"{contest.ratio(f'batched, K = {k}', f'fork, K = {k}'):.2f} at K = {k}" for k in (1, 4)
    ]
    parts = [
        f"{machine(chosen.device)}; {versions('torch', 'transformers')}; {chosen.blocks} blocks. "
        f"A random Qwen3 of shape {chosen.shape} in {chosen.dtype}, {len(items)} records in pairs, "
        f"{np.mean([len(view.token_ids) for view in views[4]]):.0f} tokens per prompt.",
        markdown_table(["engine", "items per second", "peak memory, GiB"], rows),
        f"Batched over fork: {' and '.join(ratios)}.",
    ]
    publish("scoring-device", "\n\n".join(parts), chosen.write)


if __name__ == "__main__":
    main()
