"""Scoring K views: our engines, lm-evaluation-harness and transformers' decision pipeline.

    make .venv/.bench
    python benchmarks/scoring.py --write benchmarks/performance.md

The model is a randomly initialised Qwen3. The items are contrastive pairs of the bundled dataset
with contexts filled up to about 950 tokens. All contestants run in one process with the same matrix
products. They take turns, block after block; ratios are medians over blocks. The accuracy part
compares every engine with one plain pass per prompt, on Qwen3 and on a hybrid Qwen3.5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

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

import pact_fixtures
from pact_eval.data.records import Record, read_records
from pact_eval.prompts.encoding import EncodedView, Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.cpu import HeadShape, fastest_kernel, float32_products, keep_freed_memory
from pact_eval.scoring.prefix_tree import prefix_tree
from pact_eval.scoring.request import KernelName
from pact_eval.scoring.scorer import Scorer, largest_difference, one_by_one

FIXTURES = Path(pact_fixtures.__file__).parent
CPU = torch.device("cpu")
PROMPT_TOKENS = 950
SEED = 17


@dataclass(frozen=True)
class Items:
    """The records that are scored.

    Attributes:
        pairs: both members of every family.
        alone: one member of every family.
    """

    pairs: list[Record]
    alone: list[Record]


def make_items(encoder: Encoder, n_pairs: int, tokens: int = PROMPT_TOKENS) -> Items:
    """Return pairs with 2 to 6 answers, their contexts filled up with other records' sentences.

    Prompts have at least this number of tokens.
    """
    records = read_records(FIXTURES / "data" / "holdout.jsonl")
    families: dict[str, list[Record]] = {}
    for record in records:
        families.setdefault(record.family, []).append(record)
    whole = [pair for pair in families.values() if len(pair) == 2]
    by_size: dict[int, list[list[Record]]] = {}
    for pair in whole:
        by_size.setdefault(pair[0].n_choices, []).append(pair)
    # Cycle through the numbers of answers: a small benchmark then has all of them.
    turns = [
        by_size[size][turn]
        for turn in range(max(map(len, by_size.values())))
        for size in sorted(by_size)
        if turn < len(by_size[size])
    ]
    chosen = turns[:n_pairs]
    filler = [line for pair in reversed(whole) for line in _lines(pair[0].state)]
    pairs = [
        filled
        for number, pair in enumerate(chosen)
        for filled in _filled(encoder, pair, filler[number * 7 :] + filler[: number * 7], tokens)
    ]
    return Items(pairs, [record for record in pairs if record.variant == "base"])


def _lines(state: Any) -> list[str]:
    if isinstance(state, str):
        return [state]
    if isinstance(state, dict):
        return [line for value in state.values() for line in _lines(value)]
    if isinstance(state, list):
        return [line for value in state for line in _lines(value)]
    return [str(state)]


def _filled(
    encoder: Encoder, pair: Sequence[Record], filler: Sequence[str], tokens: int
) -> list[Record]:
    """Add the same sentences around both members' contexts until prompts are long enough."""
    count = 2
    while True:
        before, after = filler[: count // 2], filler[count // 2 : count]
        longer = [
            replace(record, state={"before": list(before), "record": record.state, "after": after})
            for record in pair
        ]
        if encoder.prompt_tokens(longer, 1, SEED)[0] >= tokens:
            return longer
        count += 2


def make_model(kind: str, vocabulary: int, *, small: bool = False) -> Any:
    """Return a random model whose logits differ by more than rounding errors."""
    torch.manual_seed(SEED)
    size: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": 64 if small else 256,
        "intermediate_size": 96 if small else 768,
        "num_hidden_layers": 4 if small else 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16 if small else 64,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
    }
    if kind == "Qwen3.5":
        size |= {
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
        }
        model: Any = transformers.Qwen3_5ForCausalLM(transformers.Qwen3_5TextConfig(**size))
    else:
        model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**size))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.15 if small else 0.06)
    return model.eval()


@cache
def _probed(shape: HeadShape, views: tuple[EncodedView, ...]) -> KernelName:
    return fastest_kernel(shape, views)


def probed_kernel(model: Any, views: Sequence[EncodedView]) -> KernelName:
    """Return the kernel of attention that `pact-eval score` would choose; one probe per dataset."""
    return _probed(HeadShape.of(model.config.to_dict()), tuple(views[:16]))


def ours(
    model: Any, views: Sequence[EncodedView], name: Any, batch_tokens: int = 4096
) -> Callable[[], object]:
    """Return a contestant: one of our engines, ready to score."""
    scorer = Scorer(model, batch_tokens, name, probed_kernel(model, views))
    scorer.prepare(views[:4])
    return partial(scorer.score, views)


def harness(model: Any, tokenizer: Any, views: Sequence[EncodedView], size: int) -> Any:
    """Return a contestant: lm-evaluation-harness' HFLM, one forward pass per distinct context."""
    from lm_eval.models.huggingface import HFLM

    peer = HFLM(
        pretrained=model, tokenizer=tokenizer, backend="causal", batch_size=size, max_length=8192
    )
    requests = [
        ((f"{view.record_id}/{view.view}", str(code)), list(view.token_ids), [code])
        for view in views
        for code in view.code_tokens
    ]
    return partial(peer._loglikelihood_tokens, requests, disable_tqdm=True)


def pipeline(model: Any, tokenizer: Any, records: Sequence[Record], k: int) -> Any:
    """Return a contestant: `pipeline("decision")`, called K times per item."""
    from transformers.decision import DecisionConfig

    decide = transformers.pipeline(
        "decision",
        model=model,
        tokenizer=tokenizer,
        decision_config=DecisionConfig(labels={"noul": ["A", "B"]}),
    )
    requests = [_request(record) for record in records for _ in range(k)]
    tokens = [
        inputs["input_ids"].shape[-1]
        for request in requests
        for inputs, _ in decide.preprocess(request)["prompts"]
    ]
    return (lambda: [decide(request) for request in requests]), float(np.mean(tokens))


def _request(record: Record) -> dict[str, Any]:
    field = record.field
    question: dict[str, Any] = {
        "type": "noul" if field.kind == "boolean" else field.kind,
        "instructions": field.instructions,
    }
    if field.kind == "choice":
        question["criteria"] = {answer.key: answer.description for answer in field.answers}
    elif field.kind == "score":
        question["criteria"] = [answer.description for answer in field.answers]
    return {"state": record.state, "questions": {"decision": question}}


def flops(config: Any, lengths: Sequence[tuple[int, int]]) -> float:
    """Return multiply-adds of the decoder for runs of tokens.

    Args:
        config: configuration of a Qwen3.
        lengths: (tokens before, new tokens) of each run.
    """
    heads, keys = config.num_attention_heads, config.num_key_value_heads
    width, inner = config.hidden_size, config.intermediate_size
    linear = width * config.head_dim * (2 * heads + 2 * keys) + 3 * width * inner
    attention = 2 * heads * config.head_dim
    total = 0.0
    for before, new in lengths:
        read = new * before + new * (new + 1) / 2
        total += config.num_hidden_layers * (linear * new + attention * read)
    return total


def tree_flops(config: Any, prompts: Sequence[Sequence[int]]) -> float:
    """Return the multiply-adds of the prefix tree of prompts: each token once."""
    runs: list[tuple[int, int]] = []
    stack = [(prefix_tree([tuple(ids) for ids in prompts], 0).root, 0)]
    while stack:
        branch, before = stack.pop()
        runs.append((before, len(branch.ids)))
        end = before + len(branch.ids)
        runs += [(end, len(leaf.ids)) for leaf in branch.leaves]
        stack += [(child, end) for child in branch.branches]
    return flops(config, runs)


def flop_ratio(config: Any, prompts: Sequence[Sequence[int]]) -> float:
    """Return the FLOPs of prompts, one by one, over those of their prefix tree."""
    return flops(config, [(0, len(ids)) for ids in prompts]) / tree_flops(config, prompts)


def accuracy_rows(encoder: Encoder, items: Items, vocabulary: int) -> list[list[str]]:
    """Compare every engine with the oracle on two architectures."""
    views = encoder.encode(items.pairs, 4, SEED)
    rows = []
    for kind in ("Qwen3", "Qwen3.5"):
        model = make_model(kind, vocabulary, small=True)
        plain = one_by_one(model, views)
        for name in ("fork", "batched", "naive"):
            scorer = Scorer(model, 4096, name)
            scorer.prepare(views)
            scorer.reset_counts()
            scored = scorer.score(views)
            flips = sum(
                a.logits.argmax() != b.logits.argmax() for a, b in zip(scored, plain, strict=True)
            )
            tokens: Any = scorer.facts["tokens"]
            rows.append(
                [
                    kind,
                    name,
                    f"{largest_difference(scored, plain):.1e}",
                    f"{flips} of {len(views)}",
                    f"{tokens['passed'] / tokens['floor']:.3f}",
                ]
            )
    return rows


def speed_rows(
    encoder: Encoder, tokenizer: Any, items: Items, vocabulary: int, blocks: int
) -> tuple[list[list[str]], str]:
    """Time the contestants on the same views, and return ratios and a note."""
    model = make_model("Qwen3", vocabulary)
    pairs, alone = (encoder.encode(records, 4, SEED) for records in (items.pairs, items.alone))
    singles = encoder.encode(items.pairs, 1, SEED)
    decide, pipeline_tokens = pipeline(model, tokenizer, items.pairs, 4)
    contestants: dict[str, Callable[[], object]] = {
        "fork, pairs": ours(model, pairs, "fork"),
        "fork, records alone": ours(model, alone, "fork"),
        "naive, pairs": ours(model, pairs, "naive"),
        "naive, records alone": ours(model, alone, "naive"),
        "batched, pairs": ours(model, pairs, "batched"),
        "pipeline, pairs": decide,
    }
    if installed("lm-eval"):
        contestants |= {
            "HFLM, pairs": harness(model, tokenizer, pairs, 1),
            "HFLM, records alone": harness(model, tokenizer, alone, 1),
            "HFLM in batches of 8, pairs": harness(model, tokenizer, pairs, 8),
            "HFLM K = 1, pairs": harness(model, tokenizer, singles, 1),
        }
    with float32_products(CPU, torch.float32) as products:
        contest = Contest(contestants)
        contest.run(blocks)
    ratio = contest.ratio
    fraction = {
        name: ratio(f"naive, {name}", f"fork, {name}")
        / flop_ratio(model.config, [view.token_ids for view in views])
        for name, views in (("pairs", pairs), ("records alone", alone))
    }

    def ratio_text(slow: str, fast: str) -> str:
        return contest.ratio_text(slow, fast) if slow in contestants else NOT_MEASURED

    lengths = [len(view.token_ids) for view in pairs]
    note = (
        f"{len(items.pairs)} records in pairs, {np.mean(lengths):.0f} tokens per prompt "
        f"({pipeline_tokens:.0f} in the pipeline's own template). Matrix products: {products}. "
        f"Kernel of attention: {probed_kernel(model, pairs)}. "
        f"Fork takes {contest.seconds('fork, pairs') / len(items.pairs):.3f} s per item. The floor "
        "counts every layer for every token; fork skips most of the last of "
        f"{model.config.num_hidden_layers} layers and uses larger products for attention."
    )
    return _goals(ratio_text, fraction), note


def _goals(ratio: Callable[[str, str], str], fraction: dict[str, float]) -> list[list[str]]:
    """Return rows of what is measured, value, goal."""
    rows = [
        ("HFLM K = 4 / fork, pairs", ratio("HFLM, pairs", "fork, pairs"), "4"),
        (
            "HFLM K = 4 / fork, records alone",
            ratio("HFLM, records alone", "fork, records alone"),
            "3.0",
        ),
        (
            "HFLM K = 4 in batches of 8 / fork, pairs",
            ratio("HFLM in batches of 8, pairs", "fork, pairs"),
            "4",
        ),
        ("HFLM K = 1 / fork K = 4, pairs", ratio("HFLM K = 1, pairs", "fork, pairs"), "1.1"),
        (
            'pipeline("decision") K = 4 / fork, pairs',
            ratio("pipeline, pairs", "fork, pairs"),
            "5",
        ),
        ("our naive / fork, pairs", ratio("naive, pairs", "fork, pairs"), ""),
        ("our batched / fork, pairs", ratio("batched, pairs", "fork, pairs"), ""),
        ("fraction of the floor's FLOP ratio, pairs", f"{fraction['pairs']:.2f}", ""),
        (
            "fraction of the floor's FLOP ratio, records alone",
            f"{fraction['records alone']:.2f}",
            "0.85",
        ),
    ]
    return [[*cells] for cells in rows]


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__)
    options.add_argument("--pairs", type=int, default=8, help="pairs to score")
    options.add_argument("--tokens", type=int, default=PROMPT_TOKENS, help="of a prompt, at least")
    chosen = chosen_options(options, blocks=1, pairs=1, tokens=1)
    transformers.utils.logging.set_verbosity_error()
    keep_freed_memory()  # for all contestants: the setting applies to the process
    tokenizer = transformers.AutoTokenizer.from_pretrained(FIXTURES / "model")
    encoder = Encoder(tokenizer, NIMBLE)
    items = make_items(encoder, chosen.pairs, chosen.tokens)
    accuracy = accuracy_rows(encoder, items, len(tokenizer))
    speed, note = speed_rows(encoder, tokenizer, items, len(tokenizer), chosen.blocks)
    heads = ["model", "engine", "largest logit difference", "flips", "tokens / floor"]
    parts = [
        f"{machine()}; {versions('torch', 'transformers', 'lm-eval')}; {chosen.blocks} blocks.",
        markdown_table(heads, accuracy),
        markdown_table(["ratio of times", "median (least to largest of blocks)", "goal"], speed),
        note,
    ]
    measured = [(name, ratio) for name, ratio, _ in speed if ratio != NOT_MEASURED]
    ratios = {name: float(ratio.partition(" ")[0]) for name, ratio in measured}
    publish("scoring", "\n\n".join(parts), chosen.write, ratios)


if __name__ == "__main__":
    main()
