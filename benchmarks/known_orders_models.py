"""The models of `known_orders.py`: their training data and scores.

Each seed has 80 families to train on (leaked), 80 other documents with the same questions, and 40
families with other questions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from peft import get_peft_model
from torch.optim.lr_scheduler import LambdaLR

from pact_eval._typing import FloatArray, IntArray
from pact_eval.data.records import Record, parse_record
from pact_eval.prompts.encoding import EncodedView, Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.scorer import Scorer
from pact_eval.training import ViewPlan, training_views
from pact_fixtures.generator.banks import shared
from pact_fixtures.generator.dataset import generate_dataset
from pact_fixtures.generator.difficulty import FULL, Kind
from pact_fixtures.generator.pairs import Deck, PairPlan, build_pair
from pact_fixtures.generator.questions import Question, build_question
from pact_fixtures.generator.source_families import SourceFamily, build_source_family
from pact_fixtures.generator.streams import Stream
from pact_fixtures.replicate.plans import miniature_settings
from pact_fixtures.training.model import load_base
from pact_losses import (
    FamilyBatchSampler,
    PactCollator,
    PactLoss,
    PaperSettings,
    candidate_logits,
    learning_rate_schedule,
    lora_config,
    lora_plus_optimizer,
)

BASE: Final = Path(__file__).resolve().parents[1] / "fixtures" / "pact_fixtures" / "model"
K: Final = 4
ORDER_SEED: Final = 17
SOURCES: Final = 6
WIDTHS: Final = (3, 4, 5, 4)
PAIRS: Final[Mapping[Kind, int]] = {"choice": 40, "boolean": 20, "score": 20}
NUMBERS_OF_ANSWERS: Final[Mapping[Kind, tuple[int, int]]] = {
    "choice": (2, 6),
    "boolean": (2, 2),
    "score": (3, 5),
}
GROUPS: Final = ("leaked", "same questions", "other questions")


@dataclass(frozen=True)
class Items:
    """The scored items of a draw.

    Attributes:
        family, kind: (n,) text.
        reference: (n,) canonical index of the correct answer.
        n_choices: (n,) number of answers.
        code_order: (n, K, C) canonical index at each letter; unused slots -1.
        group: (n,) one of `GROUPS`.
    """

    family: npt.NDArray[np.str_]
    kind: npt.NDArray[np.str_]
    reference: IntArray
    n_choices: IntArray
    code_order: IntArray
    group: npt.NDArray[np.str_]


@dataclass(frozen=True)
class Sharing:
    """Choice questions that many families share.

    Attributes:
        questions: number of questions.
        leaked: families of each question to train on.
        clean: families of each question to test only.
    """

    questions: int
    leaked: int
    clean: int


@dataclass(frozen=True)
class Regime:
    """Training of a model.

    Attributes:
        recipe: arm of the miniature.
        epochs: passes over the families.
        scored: epochs after which the model is scored.
        others: number of families beside the leaked ones.
        decays: whether the learning rate decays as in the recipe.
        shared: how families share questions; None for one leaked family per question.
    """

    recipe: str
    epochs: int
    scored: tuple[int, ...]
    others: int = 0
    decays: bool = False
    shared: Sharing | None = None


REGIMES: Final = {
    "alone": Regime("nimble_recipe", 3, (1, 2, 3)),
    "diluted": Regime("nimble_recipe", 3, (3,), others=160, decays=True),
    "few questions": Regime("nimble_recipe", 3, (1, 3), shared=Sharing(4, 20, 10)),
}


class Data:
    """The records of a seed.

    Attributes:
        training: the records to train on.
        records: those that are scored. Of questions that many families share, only clean ones are.
        groups: the group of each record that is scored.
        views: K views of each.
    """

    def __init__(
        self, seed: int, encoder: Encoder, sharing: Sharing | None, share: float = 1.0
    ) -> None:
        self.training: list[Record] = []
        self.records: list[Record] = []
        self.groups: list[str] = []
        self._seed, self._sharing, self._deck = seed, sharing, Deck(seed, "known orders")
        rng = Stream(seed, "known orders")
        names = rng.sample([(d, n) for d in shared().domains for n in (1, 2, 3, 4)], SOURCES)
        sources = [
            build_source_family(seed, domain, n, pool="data", has_numbers=False)
            for domain, n in names
        ]
        if sharing is None:
            self._add_questions(sources, rng, share)
        else:
            self._add_shared_questions(sharing, sources, rng)
        self.views: Sequence[EncodedView] = encoder.encode(self.records, K, ORDER_SEED)

    def _add_questions(self, sources: Sequence[SourceFamily], rng: Stream, share: float) -> None:
        """Add a leaked and a clean family for every question, and families with other questions."""
        counts = {kind: round(share * count) for kind, count in PAIRS.items()}
        kinds = rng.shuffled([kind for kind, count in counts.items() for _ in range(count)])
        for number, kind in enumerate(kinds):
            source = sources[number % SOURCES]
            first = self._deck.plan(number, kind, NUMBERS_OF_ANSWERS[kind])
            place = rng.pick(FULL.rule_places)
            question = build_question(source, kind, first.n_answers, place, rng)
            answers = self._deck.answers(kind, first.n_answers)
            second = PairPlan(number + 1_000, kind, first.n_answers, *answers)
            self._add("leaked", source, first, question)
            self._add("same questions", source, second, question)
            if number % 2:
                third = self._deck.plan(number + 2_000, kind, NUMBERS_OF_ANSWERS[kind])
                self._add("other questions", source, third)

    def _add_shared_questions(
        self, sharing: Sharing, sources: Sequence[SourceFamily], rng: Stream
    ) -> None:
        """Add leaked and clean families for each of some choice questions."""
        for number in range(sharing.questions):
            source, width = sources[number % SOURCES], WIDTHS[number % len(WIDTHS)]
            question = build_question(source, "choice", width, rng.pick(FULL.rule_places), rng)
            for family in range(sharing.leaked + sharing.clean):
                answers = self._deck.answers("choice", width)
                plan = PairPlan(100 * number + family, "choice", width, *answers)
                group = "leaked" if family < sharing.leaked else "same questions"
                self._add(group, source, plan, question)

    def _add(
        self, group: str, source: SourceFamily, plan: PairPlan, question: Question | None = None
    ) -> None:
        pair = build_pair(source, plan, self._seed, "train", FULL, question)
        records = [parse_record(record) for record in pair]
        if group == "leaked":
            self.training += records
        if group != "leaked" or self._sharing is None:
            self.records += records
            self.groups += [group, group]

    @property
    def items(self) -> Items:
        """The columns of the items."""
        orders = padded([view.code_order for view in self.views], -1).astype(np.int64)
        return Items(
            family=np.array([record.family for record in self.records]),
            kind=np.array([record.field.kind for record in self.records]),
            reference=np.array([record.reference for record in self.records]),
            n_choices=np.array([len(record.field.answers) for record in self.records]),
            code_order=orders.reshape(len(self.records), K, -1),
            group=np.array(self.groups),
        )

    def scored(self, model: Any) -> FloatArray:
        """Return the logits (n, K, C) of a model."""
        scores = Scorer(model.eval(), 4096, "fork").score(self.views)
        flat = padded([score.logits for score in scores], -np.inf)
        return flat.reshape(len(self.records), K, -1)


def other_records(seed: int, families: int) -> list[Record]:
    """Return the records of families of other seeds, spread evenly over the training files."""
    records = [parse_record(record) for record in generate_dataset("full", seed + 1_000).train]
    names = list(dict.fromkeys(record.family for record in records))
    chosen = {names[n * len(names) // families] for n in range(families)}
    return [
        replace(record, id=f"other-{record.id}", family=f"other-{record.family}")
        for record in records
        if record.family in chosen
    ]


def padded(rows: Sequence[Any], fill: float) -> FloatArray:
    """Return rows of unequal lengths as one array."""
    made = np.full((len(rows), max(map(len, rows))), fill)
    for number, row in enumerate(rows):
        made[number, : len(row)] = row
    return made


def planted(
    regime: Regime, seed: int, data: Data, encoder: Encoder
) -> Iterator[tuple[int, FloatArray]]:
    """Train the base on the leaked families, and yield epochs and logits (n, K, C)."""
    torch.manual_seed(seed)
    base, _ = load_base(BASE)
    how = miniature_settings(regime.recipe).paper
    records = data.training + (other_records(seed, regime.others) if regime.others else [])
    plan = ViewPlan(how.permuted_views, ablated=how.ablated_view, seed=seed)
    views = training_views(records, encoder, plan)
    training = _Training(base, replace(how, epochs=regime.epochs), views, seed, regime.decays)
    for epoch in range(regime.epochs):
        # In bfloat16 on a CPU, torch's fused attention is slow under a padding mask.
        base.set_attn_implementation("eager")
        training.epoch(epoch)
        if epoch + 1 in regime.scored:
            base.set_attn_implementation("sdpa")
            yield epoch + 1, data.scored(training.model)


class _Training:
    """Model, optimiser and batches of one training."""

    def __init__(
        self, base: Any, how: PaperSettings, views: Sequence[Any], seed: int, decays: bool
    ) -> None:
        config = lora_config(rank=how.rank, alpha=how.alpha, dropout=how.dropout, rslora=how.rslora)
        self.model: Any = get_peft_model(base, config)
        self.how, self.views = how, views
        self.loss = PactLoss(how.weights, how.margin, how.epsilon, how.ramp)
        self.sampler = FamilyBatchSampler(views, how.pairs_per_batch, seed=seed, bucket=how.bucket)
        self.optimizer = lora_plus_optimizer(
            self.model, learning_rate=how.learning_rate, ratio=how.lora_plus_ratio
        )
        rising = how.warmup * len(self.sampler)
        self.schedule: Any = (
            learning_rate_schedule(
                self.optimizer,
                how.schedule,
                n_steps=how.epochs * len(self.sampler),
                warmup=how.warmup,
            )
            if decays
            else LambdaLR(self.optimizer, lambda step: min(1.0, (step + 1) / (rising + 1)))
        )
        self.collate = PactCollator(pad_token_id=0)

    def epoch(self, number: int) -> None:
        """Train once on every family."""
        self.model.train()
        self.sampler.set_epoch(number)
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        for rows in self.sampler:
            batch = self.collate([self.views[row] for row in rows])
            with torch.autocast("cpu", torch.bfloat16):
                logits = candidate_logits(self.model, batch)
            total = self.loss(logits, batch, progress=1.0).total
            total.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(weights, self.how.max_gradient_norm)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()


def add_models(out: Path, names: Sequence[str], seeds: Sequence[int], share: float = 1.0) -> None:
    """Train and score the models that a folder lacks, with a share of the usual families."""
    out.mkdir(parents=True, exist_ok=True)
    base, tokenizer = load_base(BASE)
    encoder = Encoder(tokenizer, NIMBLE)
    for seed in seeds:
        of_base: dict[Sharing | None, tuple[Data, FloatArray]] = {}
        for name in names:
            path = out / f"{name.replace(' ', '_')}-{seed}.npz"
            if path.exists():
                continue
            sys.stderr.write(f"{name}, seed {seed}\n")
            regime = REGIMES[name]
            if regime.shared not in of_base:
                data = Data(seed, encoder, regime.shared, share)
                of_base[regime.shared] = data, data.scored(base)
            data, untrained = of_base[regime.shared]
            logits = {0: untrained} | dict(planted(regime, seed, data, encoder))
            columns: dict[str, Any] = asdict(data.items)
            columns |= {str(epochs): values for epochs, values in logits.items()}
            np.savez(path, **columns)
