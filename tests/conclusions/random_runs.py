"""Random runs and pairs of runs: families, kinds, confidences and errors of every sort.

`RandomRuns.of(seed)` draws what they are like, `write` makes their folders. Nothing is known of
them, so tests ask only whether what is printed of them agrees with itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from builders import write_jsonl
from run_frames import write_run

from pact_eval._choices import Decoding
from pact_eval.importing.import_run import import_run
from pact_eval.runs.rows import SCHEMA

Floats = npt.NDArray[np.float64]

SIZES: Final = {
    "pairs": (2,),
    "1, 2, 2, 3, 8": (1, 2, 2, 3, 8),
    "16 of ten": (*16 * (10,), *146 * (1,)),
    "one with half": (-1,),
    "singles": (1,),
    "one family": (0,),
}
"""Items of the families in turn; -1: one family has half, the others one each; 0: there is one."""

KINDS: Final = (("choice",), ("boolean",), ("score",), ("choice", "boolean", "score"))
ANSWERS: Final = ((4,), (3,), (2, 3, 4, 5), (5, 6), (26,))
RIGHT: Final = (0.0, 0.02, 0.2, 0.5, 0.8, 0.95, 0.99, 1.0)
CONFIDENCES: Final = ("continuous", "calibrated", "verbal", "saturated", "uniform")
LEVELS: Final = (0.8, 0.85, 0.9)
MASSES: Final = (None, 0.99, 0.6, 0.00008)
KNOWN: Final = (*8 * ("probabilities",), "answers", "pairs")


@dataclass(frozen=True)
class RandomRun:
    """What a run is like, apart from its items.

    Attributes:
        right: share of right answers.
        confidence: how confidences are drawn.
        turned: share of views in which another answer is drawn.
        lean: share of views in which the answer at the letter A is chosen.
        ties: share of views in which two answers are equally probable.
        mass: probability on the letters; None if it is unknown.
    """

    right: float
    confidence: str
    turned: float
    lean: float
    ties: float
    mass: float | None

    @classmethod
    def of(cls, rng: np.random.Generator) -> RandomRun:
        """Draw a run."""
        return cls(
            right=float(rng.choice(RIGHT)),
            confidence=str(rng.choice(CONFIDENCES)),
            turned=float(rng.choice([0.0, 0.0, 0.05, 0.2, 0.6])),
            lean=float(rng.choice([0.0, 0.0, 0.0, 0.1, 0.4])),
            ties=float(rng.choice([0.0, 0.0, 0.0, 0.1, 1.0])),
            mass=MASSES[rng.integers(len(MASSES))],
        )


@dataclass(frozen=True)
class RandomRuns:
    """One run, or two on the same items.

    Attributes:
        seed: of everything.
        items: about how many.
        sizes: name of the sizes of families, see `SIZES`.
        dependent: share of the families whose members share their luck.
        kinds: kinds of the families in turn.
        answers: numbers of answers of the families in turn.
        k: views of each item.
        known: probabilities, answers alone, or pairs of a confidence and whether it is right.
        variants: whether families of two are a base and its counterfactual.
        runs: what each run is like.
        alike: share of the items on which the second run repeats the first.
        margin: the largest difference that does not matter, or None.
        decoding: single or ensemble.
    """

    seed: int
    items: int
    sizes: str
    dependent: float
    kinds: tuple[str, ...]
    answers: tuple[int, ...]
    k: int
    known: str
    variants: bool
    runs: tuple[RandomRun, ...]
    alike: float
    margin: float | None
    decoding: Decoding

    @classmethod
    def of(cls, seed: int) -> RandomRuns:
        """Draw what the runs of a seed are like."""
        rng = np.random.default_rng(seed)
        known = str(rng.choice(KNOWN))
        k = 1 if known == "pairs" else int(rng.integers(1, 6))
        first, other = RandomRun.of(rng), RandomRun.of(rng)
        return cls(
            seed=seed,
            items=round(float(np.exp(rng.uniform(np.log(20), np.log(400))))),
            sizes=str(rng.choice([*SIZES])),
            dependent=float(rng.choice([0.0, 0.5, 1.0])),
            kinds=KINDS[rng.integers(len(KINDS))] if known != "pairs" else ("choice",),
            answers=ANSWERS[rng.integers(len(ANSWERS))],
            k=k,
            known=known,
            variants=bool(rng.random() < 0.5),
            # Of two runs, half are of one sort.
            runs=(first, first if rng.random() < 0.5 else other)[: rng.integers(1, 3)],
            alike=float(rng.choice([0.0, 0.5, 0.9, 1.0])),
            margin=float(rng.choice([0.01, 0.05, 0.2])) if rng.random() < 0.5 else None,
            decoding="ensemble"
            if k > 1 and known == "probabilities" and rng.random() < 0.3
            else "single",
        )

    @property
    def families(self) -> npt.NDArray[np.int64]:
        """(n,) family of each item."""
        turn = SIZES[self.sizes]
        if turn == (0,):
            return np.zeros(self.items, dtype=np.int64)
        if turn == (-1,):
            half = self.items // 2
            return np.maximum(np.arange(self.items) - half + 1, 0)
        rows = np.resize(turn, self.items)
        return np.arange(self.items).repeat(rows)[: self.items]

    def write(self, home: Path) -> list[Path]:
        """Write the folders of the runs."""
        home.mkdir(exist_ok=True)
        rng = np.random.default_rng([self.seed, 1])
        items = self._items(rng)
        folders = []
        rows: list[dict[str, Any]] = []
        for name, run in zip("ab", self.runs, strict=False):
            drawn = self._views(items, run, rng)
            if rows:  # the second run repeats the first on some items
                kept = {item["id"] for item in items if rng.random() < self.alike}
                drawn = [
                    (old | {"answer_mass": row["answer_mass"]}) if row["id"] in kept else row
                    for old, row in zip(rows, drawn, strict=True)
                ]
            rows = drawn
            folders.append(self._written(home / name, rows))
        return folders

    def _written(self, folder: Path, rows: list[dict[str, Any]]) -> Path:
        if self.known == "probabilities":
            frame = pl.DataFrame(rows, schema=SCHEMA)
            return write_run(folder, frame, arm=folder.name, seed=1)
        imported = [_imported(row, self.known) for row in rows]
        log = write_jsonl(folder.with_suffix(".jsonl"), imported)
        import_run(log, folder, {"arm": folder.name, "seed": 1})
        return folder

    def _items(self, rng: np.random.Generator) -> list[dict[str, Any]]:
        families = self.families
        size = np.bincount(families)
        member = np.arange(families.size) - np.searchsorted(families, families)
        items = []
        for row, family in enumerate(families.tolist()):
            kind = self.kinds[family % len(self.kinds)]
            n = 2 if kind == "boolean" else self.answers[family % len(self.answers)]
            paired = self.variants and size[family] == 2
            items.append(
                {
                    "id": f"i{row}",
                    "family": f"f{family}",
                    "source_family": f"s{family % 7}",
                    "domain": f"d{family % 3}",
                    "kind": kind,
                    "variant": ("base", "counterfactual")[member[row]] if paired else None,
                    "reference": int(rng.integers(n)),
                    "n_choices": n,
                    "prompt_tokens": 100 + row,
                }
            )
        return items

    def _views(
        self, items: list[dict[str, Any]], run: RandomRun, rng: np.random.Generator
    ) -> list[dict[str, Any]]:
        """Return the rows of a run; the orders of the views are the same for every run."""
        families = self.families
        of_orders = np.random.default_rng([self.seed, 2])
        shared = rng.random(families[-1] + 1) < self.dependent
        luck = np.where(
            shared[families], rng.random(families[-1] + 1)[families], rng.random(families.size)
        )
        rows = []
        for item, fortune in zip(items, luck.tolist(), strict=True):
            n = item["n_choices"]
            confidence = _confidence(run, n, rng)
            right = fortune < (confidence if run.confidence == "calibrated" else run.right)
            wrong = (item["reference"] + 1 + int(rng.integers(n - 1))) % n
            answer = item["reference"] if right else wrong
            for view in range(self.k):
                order = list(range(n)) if not view else of_orders.permutation(n).tolist()
                chosen = int(rng.integers(n)) if rng.random() < run.turned else answer
                chosen = order[0] if rng.random() < run.lean else chosen
                p = _probabilities(n, chosen, confidence, tie=rng.random() < run.ties, rng=rng)
                rows.append(
                    item
                    | {
                        "view": view,
                        "code_order": order,
                        "logits": np.log(np.maximum(p, 1e-30)).tolist(),
                        "answer_mass": run.mass,
                    }
                )
        return rows


def _confidence(run: RandomRun, n: int, rng: np.random.Generator) -> float:
    """Draw the probability of the answer that is chosen."""
    match run.confidence:
        case "verbal":
            return float(rng.choice(LEVELS))
        case "saturated":
            return 1.0
        case "uniform":
            return 1 / n + 1e-6
        case _:
            return float(rng.uniform(1 / n + 1e-6, 1))


def _probabilities(
    n: int, chosen: int, confidence: float, *, tie: bool, rng: np.random.Generator
) -> Floats:
    """Return probabilities of which the chosen one is the largest, or one of the two largest."""
    others = rng.dirichlet(np.ones(n - 1)) * (1 - confidence)
    if others.max() > confidence:
        others = np.full(n - 1, (1 - confidence) / (n - 1))
    p = np.insert(others, chosen, confidence)
    if tie:
        p[(chosen + 1) % n] = p[chosen]
    return np.asarray(p / p.sum())


def _imported(row: dict[str, Any], known: str) -> dict[str, Any]:
    """Return a row of a log that has answers alone, or a confidence and whether it is right."""
    answer = int(np.argmax(row["logits"]))
    kept = {name: row[name] for name in ("id", "family")}
    if row["variant"] is not None:
        kept["variant"] = row["variant"]
    if known == "pairs":
        confidence = float(np.exp(np.max(row["logits"])))
        return kept | {"confidence": min(1.0, confidence), "correct": answer == row["reference"]}
    names = ("kind", "reference", "view", "code_order", "n_choices")
    return kept | {name: row[name] for name in names} | {"answer": answer}
