"""Runs with a known truth, and the status that every question must have for them.

Logits are mu * z with z ~ N(mu [j = y], 1): the softmax of such logits is the exact posterior, so
a run that is not changed is calibrated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from run_frames import edit_run, write_run

from pact_eval.importing.import_run import import_run
from pact_eval.runs.provenance import SHUFFLED
from pact_eval.runs.rows import SCHEMA

Logits = npt.NDArray[np.float64]

Change = Callable[[Logits, dict[str, Any], np.random.Generator], Logits]
"""Changes the logits of one view: of logits in canonical order, its row, and the noise of views."""


@dataclass(frozen=True)
class Plan:
    """How a run is made.

    Attributes:
        families: number of families.
        sizes: items of each family, in turn.
        answers: numbers of answers, in turn.
        k: number of views.
        skill: mu: how far the right answer is ahead.
        noise: spread of what differs between the views of an item, as a share of the noise.
        change: what is changed in every view.
        same_order: whether all views have the canonical order.
        imported: whether the rows are those of a log, so that such views are repeats.
        same_model: whether the noise of views alone depends on the seed.
        refused: every so many families, the model refuses the first item; 0 for never.
        shuffled: whether the views are epochs of a log, each in another order.
    """

    families: int = 200
    sizes: Sequence[int] = (2,)
    answers: Sequence[int] = (2, 3, 4, 5)
    k: int = 4
    skill: float = 1.6
    noise: float = 0.0
    change: Change | None = None
    same_order: bool = False
    imported: bool = False
    same_model: bool = False
    refused: int = 0
    shuffled: bool = False

    def write(self, folder: Path, seed: int) -> Path:
        """Writes the run as a folder; the name of the folder is its arm."""
        frame = self.rows(seed)
        if not self.imported:
            return write_run(folder, frame, arm=folder.name, seed=1)
        log = folder.with_suffix(".jsonl")
        log.write_text("".join(f"{json.dumps(self._logged(row))}\n" for row in frame.to_dicts()))
        import_run(log, folder, {"arm": folder.name, "seed": 1})
        if not self.shuffled:
            return folder
        return edit_run(folder, log={"views": SHUFFLED})

    def _logged(self, row: dict[str, Any]) -> dict[str, Any]:
        """Returns a row of the log: of a refused item, its status and no answer."""
        number, _, member = row["id"].removeprefix("f").partition("-")
        if not self.refused or int(number) % self.refused or member != "0":
            return row
        kept = ("id", "family", "source_family", "domain", "kind", "variant", "reference")
        return {name: row[name] for name in (*kept, "n_choices", "view")} | {"status": "refused"}

    def rows(self, seed: int) -> pl.DataFrame:
        """Returns the rows of a run: items and references are the same for every seed."""
        of_items, of_views = np.random.default_rng(0), np.random.default_rng(seed)
        of_logits = np.random.default_rng(1_000 + (0 if self.same_model else seed))
        made = []
        for family in range(self.families):
            size = self.sizes[family % len(self.sizes)]
            n = self.answers[family % len(self.answers)]
            for member in range(size):
                item = {
                    "id": f"f{family}-{member}",
                    "family": f"f{family}",
                    "source_family": f"s{family % 20}",
                    "domain": f"d{family % 4}",
                    "kind": "boolean" if n == 2 else "choice",
                    "variant": ("base", "counterfactual")[member] if size == 2 else None,
                    "reference": int(of_items.integers(n)),
                    "n_choices": n,
                    "prompt_tokens": 200 + family,
                    "answer_mass": 0.99,
                }
                z = of_logits.normal(0, 1, n)
                made += self._views(item, z, of_items, of_views)
        return pl.DataFrame(made, schema=SCHEMA)

    def _views(
        self,
        item: dict[str, Any],
        z: Logits,
        of_items: np.random.Generator,
        of_views: np.random.Generator,
    ) -> list[dict[str, Any]]:
        n, right = item["n_choices"], item["reference"]
        views = []
        for view in range(self.k):
            order = list(range(n)) if not view or self.same_order else of_items.permutation(n)
            other = of_views.normal(0, 1, n)
            mixed = np.sqrt(1 - self.noise**2) * z + self.noise * other
            mixed[right] += self.skill
            row = item | {"view": view, "code_order": [int(answer) for answer in order]}
            logits = self.skill * mixed
            if self.change is not None:
                logits = self.change(logits, row, of_views)
            views.append(row | {"logits": logits.tolist()})
        return views


def scaled(factor: float) -> Change:
    """Makes a run over-confident (above 1) or under-confident (below 1)."""
    return lambda logits, *_: factor * logits


def drawn_to(slot: int, by: float) -> Change:
    """Adds to the answer at one slot; -1 is the last slot."""

    def change(logits: Logits, row: dict[str, Any], rng: np.random.Generator) -> Logits:
        order = row["code_order"]
        drawn = logits.copy()
        if slot < len(order):
            drawn[order[slot]] += by
        return drawn

    return change


def prefers_the_first_answer(
    logits: Logits, row: dict[str, Any], rng: np.random.Generator
) -> Logits:
    """Adds to the canonical answer 0, at whatever letter it is."""
    changed: Logits = logits + np.eye(len(logits))[0] * 2.0
    return changed


def two_decimals(logits: Logits, row: dict[str, Any], rng: np.random.Generator) -> Logits:
    """Rounds the probabilities to two decimals; 0 becomes 0.001."""
    p = np.exp(logits - np.logaddexp.reduce(logits))
    changed: Logits = np.log(np.maximum(np.round(p, 2), 0.001))
    return changed


def right_on_average(logits: Logits, row: dict[str, Any], rng: np.random.Generator) -> Logits:
    """Makes half of the items over-confident and the other half under-confident."""
    changed: Logits = (2.6 if int(row["id"][-1]) else 0.5) * logits
    return changed


def in_domain(domain: str, change: Change) -> Change:
    """Changes the views of one domain alone."""

    def change_there(logits: Logits, row: dict[str, Any], rng: np.random.Generator) -> Logits:
        return change(logits, row, rng) if row["domain"] == domain else logits

    return change_there


def turned_round(logits: Logits, row: dict[str, Any], rng: np.random.Generator) -> Logits:
    """Prefers the answers that it has reason not to."""
    changed: Logits = -logits
    return changed


def stated(confidence: float, right: Callable[[dict[str, Any]], bool]) -> Change:
    """Gives one answer a fixed confidence; whether it is right depends on the row."""

    def change(logits: Logits, row: dict[str, Any], rng: np.random.Generator) -> Logits:
        n, answer = len(logits), row["reference"]
        if not right(row):
            answer = (answer + 1) % n
        p = np.full(n, (1 - confidence) / (n - 1))
        p[answer] = confidence
        changed: Logits = np.log(p)
        return changed

    return change


def stated_in_words(logits: Logits, row: dict[str, Any], rng: np.random.Generator) -> Logits:
    """Says .80 of one item of a pair and .85 of the other: both are in one bin of ECE."""
    base, number = row["variant"] == "base", int(row["family"][1:])
    right = number % 3 != 0 if base else number % 100 != 0
    return stated(0.80 if base else 0.85, lambda _: right)(logits, row, rng)


def right_by_chance(share: float) -> Change:
    """Makes a share of the answers right, with a confidence that says nothing of it."""

    def change(logits: Logits, row: dict[str, Any], rng: np.random.Generator) -> Logits:
        n, answer = len(logits), row["reference"]
        if rng.random() >= share:
            answer = (answer + 1) % n
        p = np.full(n, 1.0) + np.eye(n)[answer] * n * (1 + 8 * rng.random())
        changed: Logits = np.log(p / p.sum())
        return changed

    return change


def always(row: dict[str, Any]) -> bool:
    """Every answer is right."""
    return True


def never(row: dict[str, Any]) -> bool:
    """No answer is right."""
    return False


def two_of_twelve(row: dict[str, Any]) -> bool:
    """Two of twelve answers are right."""
    return int(row["family"][1:]) in (2, 7)


def nearly_always(row: dict[str, Any]) -> bool:
    """All but one of 200 answers are right."""
    return int(row["family"][1:]) % 100 != 7 or row["variant"] != "base"


def in_four_of_five(row: dict[str, Any]) -> bool:
    """The answers to four of five families are right."""
    return int(row["family"][1:]) % 5 != 2


def shifted(by: float, other: Plan) -> Plan:
    """Returns a plan with more or less skill."""
    return Plan(**(vars(other) | {"skill": other.skill + by}))


@dataclass(frozen=True)
class Case:
    """One run, or two, and what is true of it.

    Attributes:
        name: of the case.
        first: how the first run is made.
        order: status of "Does it follow the order?"
        probabilities: status of "Are the probabilities right?"
        acting: status of "May it act alone?" at an error of at most `TARGET`.
        where: status of "Where is it wrong?".
        groups: names of the groups that differ, if they are told.
        second: how the second run is made; None for a case of one run.
        better: by metric and number of views, status of "Is it better?"
        letter: the letter or position that is followed.
        margin: largest difference that does not matter.
        seeds: of the logits of both runs.
    """

    name: str
    first: Plan
    order: str
    probabilities: str
    second: Plan | None = None
    better: dict[int, str] = field(default_factory=dict)
    letter: str = ""
    margin: float | None = None
    seeds: tuple[int, int] = (3, 4)
    acting: str = ""
    where: str = ""
    groups: tuple[str, ...] = ()


TARGET = 0.05
"""The target error of "May it act alone?"."""
FINE, TOLD, ACTS, NO_GATE = "no error shown", "cannot tell", "share guaranteed", "none shown"
ALIKE = "nothing found"
PLAIN = Plan()
REPEATED = Plan(same_order=True, imported=True, noise=0.5)
CASES = (
    Case("stable", PLAIN, "stable", FINE),
    Case("stable with a little noise", Plan(skill=3.0, noise=0.06), "stable", FINE),
    Case("follows the letter A", Plan(change=drawn_to(0, 2.5)), "follows a letter", "", letter="A"),
    Case("follows the letter C", Plan(change=drawn_to(2, 2.5)), "follows a letter", "", letter="C"),
    Case(
        "follows the last place",
        Plan(change=drawn_to(-1, 2.5), families=300),
        *("follows a position", ""),
        letter="last",
    ),
    Case("unstable near-ties", Plan(skill=0.5, noise=0.9), "unstable", FINE, acting=NO_GATE),
    Case("prefers an answer", Plan(change=prefers_the_first_answer, k=3), "stable", ""),
    Case("one view", Plan(k=1), TOLD, FINE),
    Case("no domain differs", Plan(answers=(3,)), "stable", FINE, where="too few to tell"),
    Case(
        "wrong in one domain",
        Plan(answers=(3,), change=in_domain("d1", turned_round)),
        *("", ""),
        where="found",
        groups=("domain d1",),
    ),
    Case(
        "over-confident in one domain",
        Plan(answers=(3,), skill=1.0, families=400, change=in_domain("d1", scaled(5))),
        *("", ""),
        where="found",
        groups=("domain d1",),
    ),
    Case("one order", Plan(same_order=True), TOLD, FINE),
    Case("repeats of one prompt", REPEATED, TOLD, FINE),
    Case("shuffled epochs", Plan(imported=True, shuffled=True), "stable", FINE),
    Case(
        "shuffled epochs that follow A",
        Plan(imported=True, shuffled=True, change=drawn_to(0, 2.5)),
        *("follows a letter", ""),
        letter="A",
    ),
    Case(
        "shuffled epochs that change by chance",
        Plan(imported=True, shuffled=True, skill=0.5, noise=0.9),
        *(TOLD, FINE),
    ),
    Case("over-confident", Plan(change=scaled(3)), "stable", "over-confident"),
    Case("under-confident", Plan(change=scaled(0.3), skill=2.5), "stable", "under-confident"),
    Case(
        "right only on average",
        Plan(change=right_on_average, families=400),
        *("stable", "miscalibrated"),
        seeds=(5, 6),
    ),
    Case(
        "12 items, 90% sure, 2 right",
        Plan(families=12, sizes=(1,), change=stated(0.9, two_of_twelve)),
        *(TOLD, "over-confident"),
    ),
    Case("refused items", Plan(refused=4, imported=True), "stable", FINE),
    Case("two-decimal probabilities", Plan(change=two_decimals), "stable", FINE),
    Case(
        "99.5% right",
        Plan(change=stated(0.995, nearly_always)),
        *("stable", FINE),
        acting=ACTS,
        where=ALIKE,
    ),
    Case("all right", Plan(change=stated(0.99, always)), "stable", FINE, acting=ACTS, where=ALIKE),
    Case(
        "all wrong",
        Plan(change=stated(0.9, never)),
        *("stable", "over-confident"),
        acting=NO_GATE,
        where=ALIKE,
    ),
    Case("may act alone", Plan(families=400, skill=3.0, noise=0.05), "stable", "", acting=ACTS),
    Case(
        "right in 80%, always as sure",
        Plan(change=stated(0.8, in_four_of_five)),
        *("stable", FINE),
        acting=NO_GATE,
    ),
    Case("2 families", Plan(families=2), TOLD, TOLD, acting=TOLD, where="too few to tell"),
    Case("8 families", Plan(families=8), TOLD, FINE, acting=TOLD),
    Case("1,000 families", Plan(families=1_000), "stable", FINE, acting=ACTS),
    Case("one giant family", Plan(families=100, sizes=(100, *(1,) * 99)), TOLD, TOLD),
    Case(
        "says 80% and is right in 66%, says 85% and is right in 99%",
        Plan(change=stated_in_words),
        *("stable", "miscalibrated"),
    ),
    Case("26 answers", Plan(answers=(26,), families=150, skill=3.0), "stable", FINE),
    Case(
        "26 answers, follows Z",
        Plan(answers=(26,), change=drawn_to(25, 6.0)),
        *("follows a letter", ""),
        letter="Z",
        acting=NO_GATE,
    ),
    Case("better", shifted(1.0, PLAIN), "stable", FINE, PLAIN, {1: "better", 4: "better"}),
    Case("worse", PLAIN, "stable", FINE, shifted(1.0, PLAIN), {1: "worse", 4: "worse"}),
    Case("not shown", PLAIN, "stable", FINE, PLAIN, {1: "not shown", 4: "not shown"}),
    Case(
        "better only over K views",
        Plan(skill=0.9, noise=0.95),
        *("unstable", ""),
        Plan(skill=0.9),
        {1: "not shown", 4: "better"},
    ),
    Case(
        "better only over repeats together",
        Plan(skill=0.9, noise=0.95, same_order=True, imported=True),
        *(TOLD, ""),
        Plan(skill=0.9, same_order=True, imported=True),
        {1: "not shown", 4: "better"},
    ),
    Case(
        "equivalent",
        Plan(families=800, noise=0.05, same_model=True),
        *("stable", FINE),
        Plan(families=800, noise=0.05, same_model=True),
        {1: "equivalent", 4: "equivalent"},
        margin=0.05,
    ),
    Case(
        "2 families compared",
        Plan(families=2),
        *(TOLD, TOLD),
        Plan(families=2),
        {1: "not shown", 4: "not shown"},
        acting=TOLD,
    ),
    Case(
        "1,000 families compared",
        Plan(families=1_000, skill=1.85),
        *("stable", FINE),
        Plan(families=1_000),
        {1: "better", 4: "better"},
    ),
    Case(
        "over-confident and better",
        Plan(skill=2.6, change=scaled(3)),
        *("stable", "over-confident"),
        PLAIN,
        {1: "better", 4: "better"},
    ),
)
"""An empty status is not told: the truth is neither."""
