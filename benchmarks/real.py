"""A real base and two adapters of it: are our logits and headline numbers those of others?

    python -m pact_fixtures real-base --out runs/real/base
    python benchmarks/real.py --base runs/real/base

Two recipes train an adapter each on generated pairs, one pair a step. The base and both adapters
are scored at K = 4. Plain transformers and lm-evaluation-harness' HFLM then score the same views
one prompt at a time: transformers with PEFT's own loader and the text of its chat template, HFLM
with our token ids. Accuracy, NLL and flip rate are computed by hand from what they return.
`--smallest` takes the bundled tiny model if no base is named.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from common import (
    NOT_MEASURED,
    chosen_options,
    installed,
    machine,
    markdown_table,
    parser,
    publish,
    versions,
)
from peft import PeftModel
from scipy.special import log_softmax
from scoring import FIXTURES, harness

import pact_eval
from pact_eval.data.records import LETTERS, Record, read_records
from pact_eval.evaluation.notes import NOISE
from pact_eval.evaluation.settings import Settings
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.training.recipe import RecipeTraining, train_recipe
from pact_eval.training.recipe_data import RecipeFiles
from pact_fixtures.generator.dataset import generate_dataset, write_dataset

K = 4
SEED = 17
RECIPES = ("pact", "cross_entropy")
TINY = FIXTURES / "model"
HEADLINES = ("accuracy", "nll_nats", "flip_rate")


@dataclass(frozen=True)
class Scored:
    """What one scorer says of the views of a model.

    Attributes:
        logits: (n, K, C) in canonical order; NaN beyond the answers of a record.
        mass: (n, K) answer mass.
        seconds: time of scoring.
    """

    logits: np.ndarray[Any, np.dtype[np.float64]]
    mass: np.ndarray[Any, np.dtype[np.float64]]
    seconds: float

    def log_probs(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the log-probabilities of the letters among all tokens."""
        filled = np.where(np.isnan(self.logits), -np.inf, self.logits)
        return log_softmax(filled, axis=-1) + np.log(self.mass)[..., np.newaxis]

    def difference(self, other: Scored) -> float:
        """Return the largest difference of a log-probability."""
        shown = np.isfinite(self.logits)
        return float(np.abs(self.log_probs()[shown] - other.log_probs()[shown]).max())

    def flips(self, other: Scored) -> int:
        """Return the number of views with another answer."""
        return int((np.nanargmax(self.logits, -1) != np.nanargmax(other.logits, -1)).sum())


def trained(base: Path, data: Path, out: Path, recipe: str, steps: int) -> Path:
    """Train an adapter with a built-in recipe, one pair a step, and return its folder."""
    settings = {"pairs_per_batch": 1, "accumulation": 1, "epochs": 1, "train_families": steps}
    files = RecipeFiles(data / "train.jsonl", data / "selection.jsonl")
    request = RecipeTraining(recipe, settings, recipe, SEED, str(base), files)
    train_recipe(request, out / recipe, log=lambda line: sys.stderr.write(f"{recipe}: {line}\n"))
    return out / recipe


def make_data(folder: Path, steps: int) -> None:
    """Write pairs to train on, pairs that choose the checkpoint, and those that are scored."""
    write_dataset(generate_dataset("full" if steps > 50 else "small", SEED), folder)
    chosen = generate_dataset("small", SEED + 1).train[:4]
    lines = "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in chosen)
    (folder / "selection.jsonl").write_text(lines, encoding="utf-8")


def ours(
    base: Path, adapter: Path | None, data: Path, out: Path, limit: int
) -> tuple[Scored, list[float]]:
    """Score with `pact_eval.score`, and return the headline numbers of its report too."""
    started = time.perf_counter()
    which = {"adapter": adapter} if adapter else {"no_adapter": True}
    options = {"base_model": str(base), "limit": limit, "dtype": "fp32", **which}
    run = pact_eval.score(data, out, k=K, order_seed=SEED, **options)
    seconds = time.perf_counter() - started
    rows, report = run.predictions, pact_eval.evaluate(out, Settings(resamples=100))
    numbers = [report.groups[0].estimates[name].value for name in HEADLINES]
    logits = np.asarray(rows.logits, dtype=float)
    return Scored(logits, np.asarray(rows.answer_mass, dtype=float), seconds), numbers


def plain(model: Any, tokenizer: Any, records: Sequence[Record], orders: Any) -> Scored:
    """Score every view with one forward pass of transformers."""
    started = time.perf_counter()
    widest = max(record.n_choices for record in records)
    logits = np.full((len(records), K, widest), np.nan)
    mass = np.zeros((len(records), K))
    for row, record in enumerate(records):
        letters = tokenizer.convert_tokens_to_ids([*LETTERS[: record.n_choices]])
        for view, order in enumerate(orders[row]):
            messages = NIMBLE.messages(record.state, [record.field], record.field.name, order)
            ids = tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, enable_thinking=False, return_tensors="pt"
            )["input_ids"]
            with torch.inference_mode():
                last = model(input_ids=ids).logits[0, -1].double()
            logits[row, view, [*order]] = last[letters].numpy()
            mass[row, view] = float(torch.exp(last[letters].logsumexp(0) - last.logsumexp(0)))
    return Scored(logits, mass, time.perf_counter() - started)


def by_hand(scored: Scored, records: Sequence[Record]) -> list[float]:
    """Compute the headline numbers of `HEADLINES` from logits."""
    rows, references = np.arange(len(records)), [record.reference for record in records]
    filled = np.where(np.isnan(scored.logits), -np.inf, scored.logits)
    picks = filled.argmax(-1)
    nll = -log_softmax(filled[:, 0], axis=-1)[rows, references]
    flipped = (picks != picks[:, :1]).any(-1)
    return [float(np.mean(picks[:, 0] == references)), float(nll.mean()), float(flipped.mean())]


def by_hflm(model: Any, tokenizer: Any, views: Sequence[Any], like: Scored) -> Scored:
    """Score every view with HFLM, from the token ids of our prompts."""
    started = time.perf_counter()
    replies = iter(harness(model, tokenizer, views, 1)())
    logits, mass = np.full_like(like.logits, np.nan), np.zeros_like(like.mass)
    for number, view in enumerate(views):
        row, column = divmod(number, K)
        log_probs = np.array([next(replies)[0] for _ in view.code_order])
        logits[row, column, [*view.code_order]] = log_probs
        mass[row, column] = np.exp(log_probs).sum()
    return Scored(logits, mass, time.perf_counter() - started)


def compared(
    name: str, base: Path, adapter: Path | None, out: Path, pairs: int
) -> tuple[list[list[str]], bool]:
    """Return the rows of one model, and whether all agree within the tolerance."""
    data = out / "data" / "holdout.jsonl"
    records = read_records(data)[: 2 * pairs]
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    views = Encoder(tokenizer, NIMBLE).encode(records, K, SEED)
    orders = [[view.code_order for view in views[at : at + K]] for at in range(0, len(views), K)]
    mine, numbers = ours(base, adapter, data, out / f"run-{name}", len(records))
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = (PeftModel.from_pretrained(model, adapter) if adapter else model).eval()
    peers = {"transformers": plain(model, tokenizer, records, orders)}
    if installed("lm-eval"):
        merged = model.merge_and_unload() if adapter else model  # HFLM takes no PEFT model
        peers["HFLM"] = by_hflm(merged, tokenizer, views, mine)
    told = [f"{numbers[0]:.1%}", f"{numbers[1]:.4f}", f"{numbers[2]:.1%}"]
    rows = [[name, "pact-eval", *told, f"{mine.mass.mean():.2%}", "", "", f"{mine.seconds:.0f}"]]
    agree = True
    for peer, scored in peers.items():
        theirs = by_hand(scored, records)
        off, flips = mine.difference(scored), mine.flips(scored)
        agree &= off <= 2 * NOISE["float32"] and np.allclose(theirs, numbers, rtol=0, atol=1e-4)
        shown = [f"{theirs[0]:.1%}", f"{theirs[1]:.4f}", f"{theirs[2]:.1%}"]
        mass, seconds = f"{scored.mass.mean():.2%}", f"{scored.seconds:.0f}"
        rows.append([name, peer, *shown, mass, f"{off:.1e}", f"{flips}", seconds])
    return rows, bool(agree)


def main() -> None:
    """Train, score and compare."""
    options = parser(__doc__, blocks=None)
    options.add_argument("--base", type=Path, help="folder of `real-base`")
    options.add_argument("--steps", type=int, default=100, help="of each training, one pair each")
    options.add_argument("--pairs", type=int, default=20, help="to score")
    options.add_argument("--out", type=Path, help="keeps adapters and runs; continues there")
    chosen = chosen_options(options, base=TINY, steps=2, pairs=1)
    if chosen.base is None:
        options.error("expected --base FOLDER; python -m pact_fixtures real-base makes one")
    transformers.utils.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as temporary:
        out = chosen.out or Path(temporary)
        make_data(out / "data", chosen.steps)
        started, models = time.perf_counter(), {"base": None}
        for recipe in RECIPES:
            models[recipe] = trained(chosen.base, out / "data", out, recipe, chosen.steps)
        minutes = (time.perf_counter() - started) / 60
        results = [
            compared(name, chosen.base, adapter, out, chosen.pairs)
            for name, adapter in models.items()
        ]
    head = ["model", "scored by", "accuracy", "NLL", "flip rate", "answer mass"]
    head += ["largest difference of a log-probability", "other answers", "s"]
    lacking = "" if installed("lm-eval") else f" HFLM: {NOT_MEASURED}, lm-eval is not installed."
    parts = [
        f"{machine()}; {versions('torch', 'transformers', 'peft', 'lm-eval')}. {chosen.pairs} "
        f"pairs at K = {K}; two trainings of {chosen.steps} pairs took {minutes:.0f} minutes."
        f"{lacking}",
        markdown_table(head, [row for rows, _ in results for row in rows]),
    ]
    publish("real", "\n\n".join(parts), chosen.write)
    if not all(agree for _, agree in results):
        message = "logits or headline numbers differ by more than the tolerance"
        raise SystemExit(message)


if __name__ == "__main__":
    main()
