"""Detection of training on the evaluation file in canonical order, from a run alone.

    python benchmarks/known_orders.py --out runs/known-orders [--seeds 201 202] [--write FILE]

The tiny base is trained in canonical order (the published recipe), and scored with K views. If
nobody can guess the canonical order of an item, a clean model's loss is exchangeable over its
orders; so the tests compare view 0 with the other views.

    alone          80 leaked families only, at a constant rate: one training serves all epochs
    diluted        the leaked families among 160 others, three epochs, with the decay of the recipe
    few questions  nothing leaks: the families of the training share four questions with those of
                   the test

`alone` and `diluted` are also tested on other documents with the same questions, and on families
with other questions. docs/why/orders.md has the results.

Finished models are kept in the folder, and the same command adds the missing ones. A model takes
one to three minutes on one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import numpy as np
import torch
from common import chosen_options, markdown_table, parser, publish
from known_orders_models import GROUPS, ORDER_SEED, PAIRS, REGIMES, Items, K, add_models, padded
from scipy import stats

from pact_eval._typing import FloatArray, IntArray
from pact_eval.metrics import log_softmax
from pact_eval.prompts.code_orders import code_orders
from pact_eval.runs.folder import read_run
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.permuted_slots import distinct_orders

LEVEL: Final = 0.05
FOLDS: Final = 5
SIZES: Final = (40, 73)


def without_letters(logits: FloatArray, items: Items) -> FloatArray:
    """Return log-probabilities (n, K, C) without letter preference; NaN in repeated orders.

    The preference is one number per letter and number of answers. It is the mean deviation of an
    answer at this letter from the same answer in the other orders, over other families.
    """
    slot = slots(items.code_order)
    used = (slot >= 0) & distinct_orders(items.code_order)[:, :, None]
    centred = np.where(slot >= 0, logits, 0)
    centred -= centred.sum(axis=2, keepdims=True) / items.n_choices[:, None, None]
    centred = np.where(used, centred, np.nan)
    codes = np.unique(items.family, return_inverse=True)[1]
    fold = np.random.default_rng(0).permutation(codes.max() + 1)[codes] % FOLDS
    adjusted = logits.copy()
    for width in np.unique(items.n_choices):
        for number in range(FOLDS):
            of_width = items.n_choices == width
            others, own = of_width & (fold != number), of_width & (fold == number)
            if others.any() and own.any():
                letters = letter_effects(centred[others], slot[others], int(width))
                adjusted[own] -= np.where(slot[own] >= 0, letters[slot[own]], 0)
    return np.where(used, log_softmax(adjusted, items.n_choices), np.nan)


def letter_effects(centred: FloatArray, slot: IntArray, width: int) -> FloatArray:
    """Return (C,) the effect of each letter in nats, by least squares with an effect per answer.

    Args:
        centred: (n, K, C) canonical logits less their mean in the view; NaN where an order repeats
            another, or a slot is unused.
        slot: (n, K, C) letter of each answer.
        width: number of answers.
    """
    used = np.isfinite(centred)
    effects = np.zeros(slot.shape[2])
    for _ in range(20):
        left = np.where(used, centred - effects[slot], np.nan)
        left -= left.sum(axis=1, where=used, keepdims=True) / np.maximum(
            used.sum(axis=1, keepdims=True), 1
        )
        step = [left[used & (slot == letter)].mean() for letter in range(width)]
        effects[:width] += step
        effects[:width] -= effects[:width].mean()
        if np.abs(step).max() < 1e-6:
            break
    return effects


def slots(code_order: IntArray) -> IntArray:
    """Return (n, K, C) the letter of each answer; unused slots -1."""
    letters = np.full_like(code_order, -1)
    for letter in range(code_order.shape[2]):
        answer = code_order[:, :, letter]
        item, view = np.nonzero(answer >= 0)
        letters[item, view, answer[item, view]] = letter
    return letters


def of_reference(log_probs: FloatArray, items: Items) -> FloatArray:
    """Return (n, K): log-probability of the reference in each view."""
    return log_probs[np.arange(len(log_probs)), :, items.reference]


def of_letter(log_probs: FloatArray, items: Items) -> FloatArray:
    """Return (n, K): how much all views prefer the letter that the reference has in view k.

    A model that learned the letter by heart prefers it in every view, also where another answer has
    it. What the model believes of an answer in all orders cancels.
    """
    n, views, _ = log_probs.shape
    rows = np.arange(n)
    beyond = log_probs - np.nan_to_num(log_probs).sum(axis=1, keepdims=True) / np.maximum(
        np.isfinite(log_probs).sum(axis=1, keepdims=True), 1
    )
    letter = slots(items.code_order)[rows, :, items.reference]
    answers = items.code_order
    total = np.zeros((n, views))
    for view in range(views):
        at_letter = np.take_along_axis(answers[:, view], letter, axis=1)
        total += np.nan_to_num(np.take_along_axis(beyond[:, view], at_letter, axis=1))
    return np.where(distinct_orders(answers), total, np.nan)


def advantages(logits: FloatArray, items: Items) -> dict[str, FloatArray]:
    """Return (n,) by statistic: view 0 minus the mean of the other orders of an item."""
    log_probs = without_letters(logits, items)
    values = {"loss": of_reference(log_probs, items), "letter": of_letter(log_probs, items)}
    return {name: at_view_0(array) for name, array in values.items()}


def at_view_0(values: FloatArray) -> FloatArray:
    """Return (n,): view 0 minus the mean of the other orders of an item."""
    return values[:, 0] - np.nanmean(values[:, 1:], axis=1)


@dataclass(frozen=True)
class Effect:
    """The advantage of view 0 in some families.

    Attributes:
        values: one array per seed: the sum of each family.
    """

    values: tuple[FloatArray, ...]

    @property
    def shown(self) -> int:
        """In how many seeds a one-sided t-test over families shows it at the 5% level."""
        return sum(float(p_value(values)) <= LEVEL for values in self.values)

    @property
    def size(self) -> tuple[float, float, float]:
        """Mean over the families of all seeds in standard deviations, with its 95% interval."""
        every = np.concatenate(self.values)
        mean = float(every.mean() / every.std(ddof=1))
        reach = float(stats.t.ppf(0.975, every.size - 1)) * every.size**-0.5
        return mean, mean - reach, mean + reach

    def power(self, families: int) -> str:
        """Lay out the power of the test with so many families, at the effect and its interval."""
        critical = stats.t.isf(LEVEL, families - 1)
        effects = np.array(self.size) * families**0.5
        value, low, high = 100 * stats.nct.sf(critical, families - 1, effects)
        return f"{value:.0f}% [{low:.0f}, {high:.0f}]"

    def __str__(self) -> str:
        if not sum(values.size for values in self.values):
            return ""
        mean, low, high = self.size
        return f"{mean:+.2f} [{low:+.2f}, {high:+.2f}], {self.shown} of {len(self.values)}"


def p_value(values: FloatArray) -> float:
    """Return the one-sided p-value of Student's t for a positive mean over families."""
    return float(stats.ttest_1samp(values, 0, alternative="greater").pvalue)


@dataclass(frozen=True)
class Scored:
    """A model of the folder.

    Attributes:
        name: a name in `REGIMES`, or "base" with the data that it scored.
        epochs: epochs of its training, 0 for the base.
        items: the items.
        advantages: (n,) by statistic, alone and less that of the base.
    """

    name: str
    epochs: int
    items: Items
    advantages: Mapping[str, FloatArray]

    @property
    def title(self) -> str:
        """Its name and epochs."""
        return f"{self.name}, epochs: {self.epochs}" if self.epochs else self.name

    def by_family(self, statistic: str, group: str, kind: str) -> FloatArray:
        """Return the sum of each family of a group and kind."""
        rows = (self.items.group == group) & (self.items.kind == kind)
        codes = np.unique(self.items.family[rows], return_inverse=True)[1]
        return np.bincount(codes, self.advantages[statistic][rows])


def read_models(folder: Path) -> Iterator[Scored]:
    """Read the models of a folder, in the order of their seeds."""
    seen: set[str] = set()
    for path in sorted(folder.glob("*.npz"), key=lambda path: path.stem.rpartition("-")[2]):
        stem, _, seed = path.stem.rpartition("-")
        name = stem.replace("_", " ")
        untrained = f"base, {name}" if REGIMES[name].shared else "base"
        with np.load(path) as file:
            items = Items(**{field.name: file[field.name] for field in fields(Items)})
            base = advantages(file["0"], items)
            if f"{untrained} {seed}" not in seen:
                seen.add(f"{untrained} {seed}")
                yield Scored(untrained, 0, items, base)
            for epochs in sorted(int(key) for key in file.files if key.isdigit() and key != "0"):
                own = advantages(file[str(epochs)], items)
                less = {f"{key}, less base": own[key] - base[key] for key in own}
                yield Scored(name, epochs, items, own | less)


def effects_table(models: Sequence[Scored], group: str) -> str:
    """Lay out the effects in one group of families, by model, statistic and kind."""
    alike: dict[str, list[Scored]] = {}
    for model in models:
        if group in model.items.group:
            alike.setdefault(model.title, []).append(model)
    lines: list[list[str]] = []
    for title, several in alike.items():
        for statistic in several[0].advantages:
            by_kind = [
                Effect(tuple(model.by_family(statistic, group, kind) for model in several))
                for kind in PAIRS
            ]
            power = [by_kind[0].power(families) for families in SIZES]
            lines.append([title, statistic, *map(str, by_kind), *power])
    sizes = [f"choice, {families} families" for families in SIZES]
    return markdown_table([group, "statistic", *PAIRS, *sizes], lines)


def runs_table(folder: Path) -> str:
    """Lay out the effects in the runs of a folder, which has a run "base" of the same items."""
    base = read_run(folder / "base").predictions
    items = items_of(base)
    of_base = advantages(base.logits, items)
    lines = []
    for path in sorted(path.parent for path in folder.glob("*/run.json")):
        run = read_run(path).predictions
        if run.ids.tolist() != base.ids.tolist():
            message = f"{path}: expected the items of {folder / 'base'}"
            raise SystemExit(message)
        own = advantages(run.logits, items)
        less = {f"{key}, less base": own[key] - of_base[key] for key in own}
        for name, values in (own if path.name == "base" else own | less).items():
            model = Scored(path.name, 0, items, {name: values})
            cells = [Effect((model.by_family(name, GROUPS[2], kind),)) for kind in PAIRS]
            lines.append([path.name, name, *map(str, cells)])
    return markdown_table(["clean run", "statistic", *PAIRS], lines)


def items_of(predictions: Predictions) -> Items:
    """Return the items of a run, none of which was trained on."""
    return Items(
        family=predictions.family.astype(np.str_),
        kind=predictions.kind.astype(np.str_),
        reference=predictions.reference,
        n_choices=predictions.n_choices,
        code_order=predictions.code_order,
        group=np.full(len(predictions), GROUPS[2]),
    )


def simulated_items(rng: np.random.Generator, first: float) -> Items:
    """Draw 73 families of two with 2 to 6 answers.

    Args:
        rng: source of the numbers of answers and of the references.
        first: share of the references that are moved to the first answer.
    """
    n_choices = rng.integers(2, 7, size=73).repeat(2)
    orders = [
        order
        for item, width in enumerate(n_choices.tolist())
        for order in code_orders(ORDER_SEED, str(item), width, K)
    ]
    reference = np.where(rng.random(146) < first, 0, rng.integers(0, n_choices))
    return Items(
        family=np.arange(73).repeat(2).astype(np.str_),
        kind=np.full(146, "choice"),
        reference=reference,
        n_choices=n_choices,
        code_order=padded(orders, -1).astype(np.int64).reshape(146, K, -1),
        group=np.full(146, GROUPS[2]),
    )


def simulated_logits(rng: np.random.Generator, items: Items, preference: float) -> FloatArray:
    """Draw logits (n, K, C) of a clean model that prefers the first letters, in nats."""
    slot = slots(items.code_order)
    shape = slot.shape
    logits = rng.normal(size=(shape[0], 1, shape[2])) + 0.5 * rng.normal(size=shape)
    logits[np.arange(shape[0]), :, items.reference] += 1.5
    logits -= preference * slot / 2
    return np.where(slot >= 0, logits, -np.inf)


def simulated_table(sets: int) -> str:
    """Lay out how often the test shows something of clean simulated models, in %."""
    rng = np.random.default_rng(0)
    lines = []
    for preference, first in ((0.0, 0.0), (1.0, 0.0), (1.0, 0.4)):
        shown: dict[str, int] = {}
        for _ in range(sets):
            items = simulated_items(rng, first)
            logits = simulated_logits(rng, items, preference)
            kept = log_softmax(logits, items.n_choices)
            kept = np.where(distinct_orders(items.code_order)[:, :, None], kept, np.nan)
            every = advantages(logits, items) | {
                "loss, letters kept": at_view_0(of_reference(kept, items))
            }
            for name, values in every.items():
                low = p_value(values.reshape(-1, 2).sum(axis=1)) <= LEVEL
                shown[name] = shown.get(name, 0) + low
        title = f"prefers first letters by {preference:g} nats" if preference else "no preference"
        share = "references balanced" if not first else "first answer right more often"
        lines.append([f"{title}; {share}", *(f"{100 * n / sets:.1f}" for n in shown.values())])
    return markdown_table(["clean simulated model", *shown], lines)


def main() -> None:
    """Make the models that are missing, and print the tables."""
    arguments = parser(__doc__, blocks=None)
    arguments.add_argument("--out", type=Path, required=True, help="folder of the models")
    arguments.add_argument("--seeds", type=int, nargs="*", default=[], help="seeds to add")
    arguments.add_argument("--models", nargs="*", choices=REGIMES, default=[*REGIMES])
    arguments.add_argument("--runs", type=Path, help="folder of clean runs, one of them base")
    arguments.add_argument("--sets", type=int, default=1_000, help="simulated clean models")
    arguments.add_argument(
        "--share", type=float, default=1.0, help="of the families that a model is made with"
    )
    chosen = chosen_options(arguments, models=["alone"], seeds=[201], share=0.05, sets=1)
    torch.set_num_threads(1)
    add_models(chosen.out, chosen.models, chosen.seeds, chosen.share)
    models = list(read_models(chosen.out))
    tables = [effects_table(models, group) for group in GROUPS]
    tables += [] if chosen.runs is None else [runs_table(chosen.runs)]
    publish("known-orders", "\n\n".join([*tables, simulated_table(chosen.sets)]), chosen.write)


if __name__ == "__main__":
    main()
