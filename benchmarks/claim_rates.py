"""Coverage of every printed interval, and how often each loud word is false, on known truth.

    python benchmarks/claim_rates.py [--draws 1000] [--part intervals] [--check]

Intervals: a calibrated model A answers items of two answers. Model B has lost some of its right
answers, `LOSSES` of all, which is also the margin. Model C is as good as A. What happens to a
member of a dependent family, happens to all. The truth is exact. `SIZES` are those of families.

Words: runs in which nothing is wrong, and runs in which what the word says is planted. They are
evaluated as `report` and `compare` do.

`--check` exits with 1 if a rate is outside its limit. A limit allows for 2.9 standard errors, as
93% does for a coverage of 95% in 1,000 draws. Of the hundreds of rates, one may be outside by
chance: its cell is drawn again, four times as often, and that counts.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from common import chosen_options, markdown_table, parser, publish

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.evaluation.calibration_error import calibration_error
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.diagnostics import diagnose
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.resampled_groups import (
    ResampledGroup,
    metric_difference,
    resampled_groups,
)
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.folder import Run
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Provenance, Seal
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.power import equivalence_verdict
from pact_fixtures.generator.dataset import Dataset, generate_dataset, write_dataset

Sizes = Callable[[int], IntArray]

FAMILIES: Final = (75, 162, 500)
SHOWN: Final = 162
"""The table shows this number of families, and every row with a rate outside its limit."""
DEPENDENT: Final = {"none": 0.0, "half": 0.5, "all": 1.0}
LOSSES: Final = {0.80: 0.05, 0.95: 0.02}
"""By the accuracy of A: how much less accurate B is. This is the margin too."""
INTERVALS: Final = ("accuracy", "NLL", "accuracy, A - B", "NLL, A - B", "gap")
GAPS: Final = 4
"""The gap is measured in one of so many draws: its interval takes ten times as long."""
ITEMS: Final = (40, 150, 400, 2_000)
PAGES: Final = (2, 5, 10)
FEW: Final = 0.05
"""Intervals that are printed in fewer draws are not judged."""
ERRORS: Final = 2.91
"""Standard errors of a limit. 93.0% of 1,000 draws is inside."""
AGAIN: Final = 4
"""How many times as many draws a cell gets if a rate of it is outside."""


def cycle(*sizes: int) -> Sizes:
    """Return families of these sizes in turn."""
    return lambda families: np.resize(np.array(sizes), families)


def few_of_ten(families: int) -> IntArray:
    """Return one in ten families of ten items, the others of one: 16 and 146 of 162."""
    large = round(families * 16 / 162)
    return np.repeat([10, 1], [large, families - large])


def one_with_half(families: int) -> IntArray:
    """Return one family with half of the items, the others of one."""
    return np.array([families - 1] + [1] * (families - 1))


SIZES: Final[Mapping[str, Sizes]] = {
    "2": cycle(2),
    "1, 2, 2, 3, 8": cycle(1, 2, 2, 3, 8),
    "16 of 10, 146 of 1": few_of_ten,
    "7 of 1, then 2, 5, 20": cycle(1, 1, 1, 1, 1, 1, 1, 2, 5, 20),
    "one with half": one_with_half,
}


@dataclass(frozen=True)
class Rate:
    """How often something happened.

    Attributes:
        happened: number of draws in which it did.
        draws: draws in which it could.
        of: all draws.
        low: least rate that is allowed, apart from sampling error.
        high: largest rate that is allowed.
        power: share of the draws with the effect in which the word is said; NaN if not measured.
    """

    happened: int
    draws: int
    of: int
    low: float = 0.0
    high: float = 1.0
    power: float = math.nan

    @property
    def share(self) -> float:
        """The rate; NaN if it could never happen."""
        return self.happened / self.draws if self.draws else math.nan

    @property
    def fails(self) -> bool:
        """Whether the rate is outside its limits by more than sampling error."""
        if self.draws < FEW * self.of or not self.draws:
            return False
        below, above = (
            ERRORS * math.sqrt(limit * (1 - limit) / self.draws) for limit in (self.low, self.high)
        )
        return not self.low - below <= self.share <= self.high + above

    def __str__(self) -> str:
        """Return the rate in %, bold if it is outside its limits, and how often it is printed."""
        if self.draws < FEW * self.of or not self.draws:
            return "–"
        text = f"{100 * self.share:.1f}"
        text = f"**{text}**" if self.fails else text
        if self.draws < 0.995 * self.of:
            text += f" ({100 * self.draws / self.of:.0f})"
        return text if math.isnan(self.power) else f"{text}; {100 * self.power:.0f}"


def covered(estimates: Sequence[Estimate], truth: float) -> Rate:
    """Return how many of the printed intervals hold the truth."""
    printed = [estimate for estimate in estimates if np.isfinite(estimate.low)]
    held = sum(estimate.low <= truth <= estimate.high for estimate in printed)
    return Rate(held, len(printed), len(estimates), low=0.95)


@dataclass(frozen=True)
class Families:
    """Items of two answers in families.

    Attributes:
        rows: (F,) items of each family.
        dependent: share of the families whose members share their luck.
        right: accuracy of A.
    """

    rows: IntArray
    dependent: float
    right: float

    @cached_property
    def family(self) -> IntArray:
        """(n,) family of each item."""
        return np.arange(self.rows.size).repeat(self.rows)

    @cached_property
    def template(self) -> ScoredItems:
        """Items in such families; draws replace what is scored of them."""
        n = self.family.size
        logits = np.tile([1.0, 0.0], (n, 1, 1))
        return ScoredItems.of(predictions(logits, self.family, np.zeros(n, dtype=int)), "single")

    @property
    def spread(self) -> float:
        """Half of the range of confidences."""
        return 0.8 * (1 - self.right)

    def nll(self, loss: float) -> float:
        """Return the true NLL of a model that has A's confidences and lost so many answers."""
        c = self.right + np.linspace(-1, 1, 20_001) * self.spread
        right = c * (1 - loss / self.right)
        return float(-(right * np.log(c) + (1 - right) * np.log(1 - c)).mean())

    def scored(self, confidence: FloatArray, right: BoolArray) -> ResampledGroup:
        """Score answers."""
        items = replace(
            self.template,
            predicted=np.where(right, 0, 1).astype(self.template.predicted.dtype),
            confidence=confidence,
            values={
                "accuracy": right,
                "nll_nats": -np.log(np.where(right, confidence, 1 - confidence)),
            },
        )
        rng = np.random.default_rng(0)  # no interval is made from resamples
        return resampled_groups(items, rng=rng, resamples=1, names=("accuracy", "nll_nats"))[0]

    def draw(self, rng: np.random.Generator) -> tuple[ResampledGroup, ...]:
        """Return A, B and C on new items; A and C share the luck of four fifths."""
        n, families = self.family.size, self.rows.size
        shared = (rng.random(families) < self.dependent)[self.family]

        def luck() -> FloatArray:
            return np.where(shared, rng.random(families)[self.family], rng.random(n))

        confidence = self.right + rng.uniform(-1, 1, n) * self.spread
        own = luck()
        right = own < confidence
        less = right & (luck() >= LOSSES[self.right] / self.right)
        equal = np.where(luck() < 0.2, luck(), own) < confidence
        return tuple(self.scored(confidence, answers) for answers in (right, less, equal))


def confidence_gap(items: ScoredItems, rng: np.random.Generator) -> Estimate:
    """Return the gap that `report` shows; few draws and two bins take less time."""
    error = calibration_error(
        *(items.confidence, items.correct, items.cluster, items.n_clusters),
        rng=rng,
        resamples=400,
        bins=2,
    )
    return error.gap or Estimate(math.nan, math.nan, math.nan, 0, 0)


def within(difference: Estimate, margin: float) -> bool:
    """Return whether a difference is called equivalent, or different within the margin."""
    conclusion = equivalence_verdict(difference, margin).conclusion
    return conclusion in ("equivalent", "different within the margin")


def interval_rates(families: Families, draws: int, rng: np.random.Generator) -> dict[str, Rate]:
    """Return coverage by name, and how often "better" and "equivalent" are said."""
    loss = LOSSES[families.right]
    estimates: dict[str, list[Estimate]] = {name: [] for name in INTERVALS}
    said: dict[str, list[bool]] = {}
    for draw in range(draws):
        a, b, c = families.draw(rng)
        accuracy, marked = metric_difference("accuracy", [(a, b)])
        none, false = metric_difference("accuracy", [(a, c)])
        nll, _ = metric_difference("nll_nats", [(a, b)])
        found = (a.estimate("accuracy"), a.estimate("nll_nats"), accuracy, nll)
        for name, estimate in zip(INTERVALS, found, strict=False):
            estimates[name].append(estimate)
        if draw % GAPS == 0:
            estimates["gap"].append(confidence_gap(a.items, rng))
        equal = [within(accuracy, loss), within(none, loss)]
        for name, is_said in {
            "better": false.marked,
            "better, planted": marked.marked,
            "equivalent": equal[0],
            "equivalent, planted": equal[1],
        }.items():
            said.setdefault(name, []).append(is_said)
    nlls = families.nll(0), families.nll(0) - families.nll(loss)
    truths = (families.right, nlls[0], loss, nlls[1], 0.0)
    rates = {
        name: covered(estimates[name], truth) for name, truth in zip(INTERVALS, truths, strict=True)
    }
    for word, high in {"better": 0.05, "equivalent": 0.025}.items():
        power = float(np.mean(said[f"{word}, planted"]))
        rates[word] = Rate(sum(said[word]), draws, draws, high=high, power=power)
    return rates


def confirmed(
    measure: Callable[[int, np.random.Generator], dict[str, Rate]], draws: int, seeds: list[int]
) -> dict[str, Rate]:
    """Return rates; those of four times as many other draws if one of the first is outside.

    Args:
        measure: returns the rates of so many draws.
        draws: number of the first draws.
        seeds: of the first draws.
    """
    rates = measure(draws, np.random.default_rng(seeds))
    if any(rate.fails for rate in rates.values()):
        rates = measure(AGAIN * draws, np.random.default_rng([*seeds, AGAIN]))
    return rates


def in_processes(tasks: Iterable[Callable[[], dict[str, Rate]]]) -> Iterator[dict[str, Rate]]:
    """Do tasks in as many processes as there are cores, and yield what they return in order."""
    with ProcessPoolExecutor(mp_context=get_context("fork")) as pool:
        yield from pool.map(_done, tasks)


def _done(task: Callable[[], dict[str, Rate]]) -> dict[str, Rate]:
    return task()


def interval_table(draws: int, seed: int, sizes: Sequence[str]) -> tuple[str, list[Rate]]:
    """Return the table of coverage, and the rates of all rows, shown or not."""
    lines, rates = [], []
    rows = [row for row in enumerate(product(SIZES, DEPENDENT, FAMILIES)) if row[1][0] in sizes]
    measured = in_processes(
        partial(
            confirmed,
            partial(interval_rates, Families(SIZES[size](families), DEPENDENT[dependent], a)),
            draws,
            [seed, index, at],
        )
        for index, (size, dependent, families) in rows
        for at, a in enumerate(LOSSES)
    )
    for _, (size, dependent, families) in rows:
        by_right = [next(measured) for _ in LOSSES]
        cells = [" / ".join(str(rates[name]) for rates in by_right) for name in by_right[0]]
        row = [size, dependent, f"{families}", *cells]
        found = [rate for rates_of_a in by_right for rate in rates_of_a.values()]
        if families == SHOWN or any(rate.fails for rate in found):
            lines.append(row)
        rates += found
        sys.stderr.write(f"| {' | '.join(row)} |\n")
    heads = ["items of a family", "dependent", "families", *INTERVALS, "better", "equivalent"]
    return markdown_table(heads, lines), rates


def predictions(
    logits: FloatArray, family: IntArray, reference: IntArray, **changes: Any
) -> Predictions:
    """Return a run on items with these (n, K, C) logits in canonical order."""
    n, k, answers = logits.shape
    names = np.char.add("f", family.astype(str))
    columns: dict[str, Any] = {
        "ids": np.char.add("i", np.arange(n).astype(str)),
        "family": names,
        "source_family": names,
        "domain": np.full(n, "d"),
        "kind": np.full(n, "choice"),
        "variant": np.full(n, ""),
        "n_choices": np.full(n, answers),
        "code_order": np.broadcast_to(np.arange(answers), (n, k, answers)),
        "prompt_tokens": np.full(n, np.nan),
        "answer_mass": np.full((n, k), 0.99),
    }
    return Predictions(logits=logits, references=reference, **columns | changes)


def experiment(*runs: Predictions, resamples: int = 200) -> Experiment:
    """Open runs that are in memory."""
    opened = []
    for number, views in enumerate(runs):
        settings = {"k": views.k, "data": {"sha256": "0" * 64}, "adapter": None}
        recorded = Provenance.of({"arm": f"run {number}", "seed": 1, "settings": settings})
        digest = f"{number:064x}"
        seal = Seal(digest, digest, digest, len(views), len(views) * views.k, views.k)
        sealed = msgspec.structs.replace(recorded, seal=seal)
        opened.append(Run(Path(f"run-{number}"), sealed, views))
    return Experiment.read(opened, Settings(resamples=resamples))


@dataclass(frozen=True)
class Model:
    """Views whose softmax is the true probability of each answer, apart from what is planted.

    Families have two items. In half of them, both have the same right answer and share the noise.

    Attributes:
        skill: how far the right answer is ahead.
        noise: spread of what differs between the views of an item.
        family_lean: spread of the preference that each family has for each letter, in nats.
        lean: preference for the letter A, in nats.
        answers: answers of each item.
        k: views of each item.
    """

    skill: float = 1.6
    noise: float = 0.5
    family_lean: float = 0.0
    lean: float = 0.0
    answers: int = 4
    k: int = 4

    def runs(
        self, items: int, skills: Sequence[float], rng: np.random.Generator
    ) -> list[Predictions]:
        """Draw runs with these skills on the same items."""
        family = np.arange(items) // 2
        shared = (rng.random(items // 2 + 1) < 0.5)[family]
        reference = rng.integers(0, self.answers, items)
        reference = np.where(shared, reference[2 * family], reference)
        order = np.argsort(rng.random((items, self.k, self.answers)), axis=2)
        order[:, 0] = np.arange(self.answers)
        of_items = rng.normal(size=(items, self.answers))
        made = []
        for skill in skills:
            of_run = rng.normal(size=(items, self.answers))
            of_run = np.where(shared[:, None], of_run[2 * family], of_run)
            z = math.sqrt(0.5) * (of_items + of_run)
            views = rng.normal(size=(items, self.k, self.answers))
            mixed = math.sqrt(1 - self.noise**2) * z[:, None] + self.noise * views
            mixed[np.arange(items), :, reference] += skill
            logits = skill * mixed
            by_letter = self.family_lean * rng.normal(size=(items // 2 + 1, self.answers))
            by_letter[:, 0] += self.lean
            letter = np.argsort(order, axis=2)
            logits += by_letter[family[:, None, None], letter]
            made.append(predictions(logits, family, reference, code_order=order))
        return made


def calibrated(items: int, rng: np.random.Generator, power: float = 1.0) -> Predictions:
    """Draw a run of two answers whose confidences, from 0.5 to 0.92, are right if `power` is 1.

    Half of the families of two share their luck.
    """
    family = np.arange(items) // 2
    shared = (rng.random(items // 2 + 1) < 0.5)[family]
    luck = rng.random(items)
    luck = np.where(shared, luck[2 * family], luck)
    confidence = rng.uniform(0.5, 0.92, items)
    right = luck < confidence
    logit = power * np.log(confidence / (1 - confidence))
    logits = np.stack([np.where(right, logit, -logit), np.zeros(items)], axis=1)
    return predictions(logits[:, None], family, np.zeros(items, dtype=int))


Word = Callable[[int, np.random.Generator, bool], Mapping[str, bool]]
"""Says which words are said of a draw of so many items, with or without what they say."""


def better(items: int, rng: np.random.Generator, planted: bool) -> dict[str, bool]:
    """Return whether the first line of `compare` names a better run, of 2, 5 and 10 runs."""
    skills = [2.1 if planted else 1.6] + (max(PAGES) - 1) * [1.6]
    every = experiment(*Model().runs(items, skills, rng))
    pages = {runs: replace(every, runs=every.runs[:runs]) for runs in PAGES}
    return {
        f"better, {runs} runs": any(each.shown for each in page.comparisons.better_runs)
        for runs, page in pages.items()
    }


def followed(spread: float, items: int, rng: np.random.Generator, planted: bool) -> dict[str, bool]:
    """Return whether a letter or position is named."""
    model = Model(family_lean=spread, lean=0.4 if planted else 0.0)
    made = experiment(*model.runs(items, [model.skill], rng))
    name = "families lean" if spread else "no lean"
    return {f"follows, {name}": made.order(made.runs[0]).status.startswith("follows")}


def probabilities(items: int, rng: np.random.Generator, planted: bool) -> dict[str, bool]:
    """Return what is said of the probabilities of a run, and whether anything is critical."""
    made = experiment(calibrated(items, rng, 2.0 if planted else 1.0))
    conclusion = made.probabilities(made.runs[0])
    return {
        "over-confident": conclusion.status == "over-confident",
        "miscalibrated": conclusion.tone == "bad",
        "critical": any(each.severity == "critical" for each in diagnose(made)),
    }


def equivalent(items: int, rng: np.random.Generator, planted: bool) -> dict[str, bool]:
    """Return whether a change is called one within the margin: one as large as it, or none."""
    a, b, c = Families(np.full(items // 2, 2), 0.5, 0.8).draw(rng)
    difference, _ = metric_difference("accuracy", [(a, c if planted else b)])
    return {"equivalent": within(difference, LOSSES[0.8])}


@cache
def generated() -> list[dict[str, Any]]:
    """Return 5,352 records of 40 source families."""
    return [
        record | {key: f"{record[key]}-{seed}" for key in ("id", "family")}
        for seed in (1, 2)
        for record in generate_dataset("full", seed).train
    ]


def leak(items: int, rng: np.random.Generator, planted: bool) -> dict[str, bool]:
    """Return whether the audit finds a leak between two files with no source family in common."""
    names = sorted({record["source_family"] for record in generated()})
    held = set(rng.permutation(names)[: len(names) // 2])
    files: dict[bool, list[Any]] = {True: [], False: []}
    order = 2 * rng.permutation(len(generated()) // 2)
    for record in (generated()[first + member] for first in order for member in (0, 1)):
        file = files[record["source_family"] in held]
        if len(file) < items:
            file.append(record)
    if planted:
        plant_pair(files[True], files[False])
    with tempfile.TemporaryDirectory() as home:
        write_dataset(Dataset(files[False], files[True]), Path(home))
        source = DatasetSource.of_folder(Path(home))
        audit = audit_data(source, DataAuditSettings(only=["separation"]))
    return {"leak": DataConclusion.of_audit(audit).status == "leak"}


def plant_pair(holdout: list[Any], train: list[Any]) -> None:
    """Add a pair of the holdout to the training file, under other names."""
    for record in json.loads(json.dumps(holdout[:2])):
        for key in ("id", "family", "source_family"):
            record[key] = f"copy-{record[key]}"
        train.append(record)


WORDS: Final[Mapping[str, tuple[Word, float, float]]] = {
    "better": (better, 0.05, 0.2),
    "equivalent": (equivalent, 0.025, 1.0),
    "follows": (partial(followed, 0.0), 0.05, 0.3),
    "follows, families lean": (partial(followed, 1.0), 0.05, 0.3),
    "probabilities": (probabilities, 0.05, 1.0),
    "leak": (leak, 0.05, 0.02),
}
"""By name: the words, the largest rate without the effect, and the share of the draws it takes."""


def word_rates(
    word: Word, items: int, limit: float, draws: int, rng: np.random.Generator
) -> dict[str, Rate]:
    """Return how often words are said of runs without and with what they say; a fourth has it."""
    null = [word(items, rng, False) for _ in range(draws)]
    found = [word(items, rng, True) for _ in range(max(1, draws // 4))]
    rates = {}
    for said in null[0]:
        power = float(np.mean([each[said] for each in found]))
        happened = sum(each[said] for each in null)
        rates[said] = Rate(happened, draws, draws, high=limit, power=power)
    return rates


def word_table(
    draws: int, seed: int, words: Sequence[str], sizes: Sequence[int]
) -> tuple[str, list[Rate]]:
    """Return the table of words, and its rates."""
    cells = [
        (at, items, word, high, max(1, round(draws * share)))
        for at, (name, (word, high, share)) in enumerate(WORDS.items())
        if name in words
        for items in sizes
    ]
    measured = in_processes(
        partial(confirmed, partial(word_rates, word, items, high), count, [seed, at, items])
        for at, items, word, high, count in cells
    )
    rates: dict[str, list[Rate]] = {}
    for (_, items, *_), found in zip(cells, measured, strict=True):
        for said, rate in found.items():
            rates.setdefault(said, []).append(rate)
        sys.stderr.write(f"{items} items: {[f'{said} {rate}' for said, rate in found.items()]}\n")
    lines = [[said, f"{row[0].draws:,}", *map(str, row)] for said, row in rates.items()]
    heads = ["word", "draws", *(f"{items:,} items" for items in sizes)]
    return markdown_table(heads, lines), [rate for row in rates.values() for rate in row]


def main() -> None:
    """Print the tables."""
    options = parser(__doc__, blocks=None)
    options.add_argument("--draws", type=int, default=1_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--part", choices=("intervals", "words"), action="append")
    options.add_argument("--only", action="append", help="sizes of families, or a word")
    options.add_argument("--items", type=int, nargs="+", default=ITEMS, help="of the words")
    options.add_argument("--check", action="store_true", help="exit with 1 if a limit is broken")
    chosen = chosen_options(options, draws=1, items=[40], only=["2", *WORDS])
    parts = chosen.part or ("intervals", "words")
    text, rates = [], []
    for part, table, names in (
        ("intervals", interval_table, SIZES),
        ("words", partial(word_table, sizes=chosen.items), WORDS),
    ):
        if part in parts:
            printed, found = table(chosen.draws, chosen.seed, chosen.only or [*names])
            text.append(printed)
            rates += found
    publish("claim-rates", "\n\n".join(text), chosen.write)
    failed = sum(rate.fails for rate in rates)
    sys.stderr.write(f"{failed} of {len(rates)} rates are outside their limits\n")
    if chosen.check and failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
